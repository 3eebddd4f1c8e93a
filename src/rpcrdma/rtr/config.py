"""The settings of the round-trip extension, and the rule by which bulk data travels.

Bulk data travels in plain messages, by RDMA, or in placeable segments of Sends. The first matching rule decides:

1. If a call and its reply go in plain messages without the extension, they do so with it. No memory is registered and
   no round trip could be saved; a header that describes the data costs more than a copy.
2. Data that the extension cannot carry in the number of transmissions (messages, each a Send) that the peer and the
   credits allow goes by RDMA.
3. Results for which the caller has given memory go by RDMA Write, which places them there without a further round trip.
   From segments they would have to be copied.
4. Otherwise the lower estimate decides. In segments: `Costs.transmission_s` for each transmission. By RDMA:
   `Costs.registration_s`, and for arguments the round trip of an RDMA Read, `Costs.read_s` plus the distance that the
   provider has measured. The first transmission of a reply is not counted, since every reply has one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from mmap import PAGESIZE
from typing import NoReturn

from rpcrdma.limits import RTR_BUFFER_SEGMENTS_MAX, RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, Support

__all__ = ["EXTENSION_CHOICES", "Costs", "Preference", "RoundTripConfig", "extension_choice", "prefers_segments"]

EXTENSION_CHOICES = ("auto", "rtr", "off")
"""The choices of the round-trip extension: "auto" for calls that it makes faster, "rtr" for all items it can carry,
"off"."""

_HEAD_OCTETS_MIN = 1024
"""The least length of the first segment: a header with many segments, and the payload of a usual call or reply."""


class Preference(enum.Enum):
    """The placement that a user requests for a connection or a call; the values are names for options."""

    AUTO = "auto"
    """By the rule of lowest cost (docs/round-trips.md)."""
    SEGMENTS = "rtr"
    """In segments if the largest reply fits the permitted transmissions; else one result BY_SIZE, several by RDMA."""
    CHOICE = "choice"
    """Like SEGMENTS, but for results that fit the permitted transmissions the responder chooses segments or RDMA."""
    BY_SIZE = "by-size"
    """Arguments and short results in segments; long results, and several that one reply may not hold, by RDMA."""
    EXPLICIT = "explicit"
    """By RDMA, described in messages of the extension."""
    RDMA = "rdma"
    """By RDMA or inline, without the extension."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"placement {value!r}: choose one of {', '.join(each.value for each in cls)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Estimated costs by which `Preference.AUTO` decides, in seconds of processor time of both ends together.

    `benchmarks/round_trips.py` measures them, docs/round-trips.md has the results.
    """

    transmission_s: float = 45e-6
    """One transmission: one of the messages, each a Send, in which a call or a reply travels."""
    registration_s: float = 15e-6
    """The registration of memory for one call."""
    read_s: float = 45e-6
    """An RDMA Read without its round trip."""


def prefers_segments(frames: int, costs: Costs, round_trip_s: float, *, arguments: bool, given: bool) -> bool:
    """Returns whether data of a call costs no more in placeable segments of Sends than by RDMA.

    RDMA costs the registration of memory, and for arguments an RDMA Read with its round trip.

    Args:
        frames: the number of transmissions that carry the data; for results without the first one, which every reply
            has.
        costs: the costs of a transmission, a registration and an RDMA Read.
        round_trip_s: the round trip to the peer, in seconds.
        arguments: whether the data are arguments, not results.
        given: whether the caller has given memory for the results; then False is returned for results.
    """
    if given and not arguments:
        return False
    by_rdma_s = costs.registration_s
    if arguments:
        by_rdma_s += costs.read_s + round_trip_s
    return frames * costs.transmission_s <= by_rdma_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripConfig:
    """Settings of the round-trip extension for a client or server.

    Raises:
        ValueError: a setting is out of its range.
    """

    preference: Preference = Preference.AUTO
    """The placement of bulk arguments and results in calls of this side, forward or reverse, that choose none."""
    support: Support = Support.REQUEST | Support.RESPONSE | Support.CONTINUE
    """The header types that this side takes."""
    segment_octets: int = 4096
    """The length of a placeable segment, a power of two: a page, so that data can be passed on as pages. 0: no
    segments."""
    requests_max: int = RTR_TRANSMISSIONS_MAX
    """The most transmissions (messages, each a Send) of one request that this side takes; 1 to 8."""
    responses_max: int = RTR_TRANSMISSIONS_MAX
    """The most transmissions of one response that this side sends; 1 to 8."""
    promises_max: int = 256
    """The most credits that the peer gets at any time for messages of replies beyond the first of each; 0 to 4096."""
    costs: Costs = field(default_factory=Costs)
    """The costs by which `Preference.AUTO` decides."""

    def __post_init__(self) -> None:
        if self.segment_octets & (self.segment_octets - 1):
            raise ValueError("segment_octets must be 0 or a power of two")
        for name in ("requests_max", "responses_max"):
            if not 1 <= getattr(self, name) <= RTR_TRANSMISSIONS_MAX:
                raise ValueError(f"{name} must be from 1 to {RTR_TRANSMISSIONS_MAX}")
        if not 0 <= self.promises_max <= 4096:
            raise ValueError("promises_max must be from 0 to 4096")

    def structure(self, octets: int) -> BufferStructure:
        """Returns the structure of receive buffers: a first segment for headers, then placeable ones for data.

        The first segment has at least 1024 octets, the others `segment_octets` each. In memory these begin at multiples
        of their length, or of a page if they are longer. If no placeable segment fits, or `segment_octets` is 0, the
        whole buffer is one segment that is not placeable. The result is the value of the property Receive Buffer
        Structure.

        Args:
            octets: the size of each buffer.

        Raises:
            ValueError: a buffer would have more than RTR_BUFFER_SEGMENTS_MAX segments.
        """
        count = max(0, octets - _HEAD_OCTETS_MIN) // self.segment_octets if self.segment_octets else 0
        if not count:
            return BufferStructure.plain(octets)
        if count >= RTR_BUFFER_SEGMENTS_MAX:
            raise ValueError(
                f"segment_octets {self.segment_octets}: a receive buffer of {octets} octets has at most "
                f"{RTR_BUFFER_SEGMENTS_MAX} segments, choose larger ones"
            )
        head = octets - count * self.segment_octets
        return BufferStructure(
            octets,
            (
                (1, SegmentKind(head, 0, placeable=False)),
                (count, SegmentKind(self.segment_octets, min(self.segment_octets, PAGESIZE), placeable=True)),
            ),
        )


def extension_choice(choice: str) -> str:
    """Returns `choice` if it is one of `EXTENSION_CHOICES`: "auto", "rtr" or "off".

    Raises:
        ValueError: the choice is unknown.
    """
    if choice not in EXTENSION_CHOICES:
        raise ValueError(f"extension {choice!r}: choose one of {', '.join(EXTENSION_CHOICES)}")
    return choice
