"""Which way bulk data goes: in plain messages, by RDMA, or in placeable segments of Sends.

Rule, first match:

1. a call that goes in messages, and whose reply does, without the extension goes so with it: nothing is registered, no
   round trip could be saved, and a header that names data costs more than to copy it or to put pieces together;
2. what the extension cannot carry, in as many transmissions as the peer takes and credits allow, goes by RDMA;
3. results for which the caller has given memory go by RDMA Write, which puts them there and takes no further round
   trip; in segments they would have to be copied;
4. otherwise the way with the lower estimate: in segments, `Costs.transmission_s` for each transmission; by RDMA,
   `Costs.registration_s`, and for arguments the round trip of an RDMA Read: `Costs.read_s` and the distance, which the
   provider has measured. A reply takes one transmission in any case, which is not counted.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Costs", "Preference", "prefers_segments"]


class Preference(enum.Enum):
    """What a user asks for, for a connection or a call; the names are those of options."""

    AUTO = "auto"
    """By the rule."""
    SEGMENTS = "rtr"
    """In segments whatever they can hold; longer results by size."""
    CHOICE = "choice"
    """Arguments in segments, results as the responder likes."""
    BY_SIZE = "by-size"
    """Likewise, but long results by RDMA, short ones in segments."""
    EXPLICIT = "explicit"
    """By RDMA that the extension's messages describe."""
    RDMA = "rdma"
    """As without the extension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds, at both ends together; measured by `benchmarks/round_trips.py`, see docs/round-trips.md."""

    transmission_s: float = 45e-6
    registration_s: float = 15e-6
    read_s: float = 45e-6
    """RDMA Read beyond its round trip."""


def prefers_segments(frames: int, costs: Costs, round_trip_s: float, *, arguments: bool, given: bool) -> bool:
    """Points 3 and 4 of the rule; of results, `frames` are the transmissions beyond the first one."""
    if given and not arguments:
        return False
    by_rdma_s = costs.registration_s
    if arguments:
        by_rdma_s += costs.read_s + round_trip_s
    return frames * costs.transmission_s <= by_rdma_s
