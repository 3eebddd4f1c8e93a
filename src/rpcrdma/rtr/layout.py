"""The abilities of a peer, the layout of a message in its receive buffers, and its transmissions as gather lists.

Each transmission begins with its header and a part of the payload stream. Padding follows up to a placeable segment,
where bulk items begin; they continue in the next segments, also in those of further transmissions. `lay_out` is a pure
function from sizes to a layout.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rpcrdma.limits import (
    RTR_BUFFER_RUNS_MAX,
    RTR_BUFFER_STRUCTURES_KEPT_MAX,
    RTR_LAYOUTS_TRIED_MAX,
    RTR_TRANSMISSIONS_MAX,
)
from rpcrdma.rtr.messages import XMTCONT, TransmitContinue, encode_transmit_continue
from rpcrdma.rtr.properties import (
    RECEIVE_STRUCTURE,
    REQUEST_RECEIVE_LIMIT,
    REQUEST_RECEIVE_LIMIT_DEFAULT,
    RESPONSE_SEND_LIMIT,
    RESPONSE_SEND_LIMIT_DEFAULT,
    RTR_SUPPORT,
    SUPPORT_DEFAULT,
    BufferStructure,
    Support,
)
from rpcrdma.transport import Transmission
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "CONTINUE_OCTETS",
    "ITEM_OCTETS",
    "LOCATION_OCTETS",
    "RESPONSE_OCTETS",
    "SEGMENT_OCTETS",
    "Frame",
    "GroupLayout",
    "Peer",
    "Run",
    "lay_out",
    "peer_of",
    "runs_of",
    "transmissions",
]

RESPONSE_OCTETS = 12
"""The length of a Transmit Response without items."""
CONTINUE_OCTETS = 12
"""The length of a Transmit Continue."""
ITEM_OCTETS = 12
"""The length of an item's entry without its location."""
LOCATION_OCTETS = 8
"""The length of a location in segments without the segment numbers."""
SEGMENT_OCTETS = 16
"""The length of one RDMA segment in a list."""

_ZEROS = memoryview(bytes(1 << 18))
"""The padding before placeable segments, which shows nothing of this side's memory (section 11)."""

_UNTOLD_OCTETS = (1 << 32) - 1
"""The receive buffer size of a peer that has not sent its structure: only the receive size of version 2 bounds a
transmission."""

_KEPT = 512
"""Layouts kept: most calls of one application have the same few sizes."""


class Run(NamedTuple):
    """A run of `count` adjacent placeable segments of one length, beginning with segment number `first`.

    Placeable segments are the pieces of a receive buffer for bulk data. `start` is the offset of the run in the buffer,
    `octets` the length of each segment.
    """

    first: int
    start: int
    octets: int
    count: int  # type: ignore[assignment]  # hides tuple.count


class Frame(NamedTuple):
    """The layout of one transmission: `payload` octets of the payload stream, then `parts` of items.

    A part is (padding octets before it, index of the item, start and end of the part within the item).
    """

    payload: int
    parts: tuple[tuple[int, int, int, int], ...]


class GroupLayout(NamedTuple):
    """The layout of a whole message.

    `frames` are its transmissions. `numbers` has, for each of the bulk items in placeable segments, the numbers of the
    segments that it fills. These count through the buffers of all transmissions: with m placeable segments in a buffer,
    those of transmission i (from 0) have the numbers from i * m on. `header` is the octets of the first transmission
    before the payload stream: the header of the protocol version, and behind it that of the round-trip extension.
    """

    frames: tuple[Frame, ...]
    numbers: tuple[tuple[int, ...], ...]
    header: int


@functools.lru_cache(maxsize=RTR_BUFFER_STRUCTURES_KEPT_MAX)
def runs_of(structure: BufferStructure) -> tuple[Run, ...]:
    """Returns the placeable segments of a buffer structure, as runs of adjacent segments of one length; cached."""
    runs: list[Run] = []
    for number, (start, octets) in enumerate(structure.placeable):
        if runs:
            first, begin, length, count = runs[-1]
            if length == octets and begin + length * count == start:
                runs[-1] = Run(first, begin, length, count + 1)
                continue
        runs.append(Run(number, start, octets, 1))
    return tuple(runs)


@functools.lru_cache(maxsize=_KEPT)
def lay_out(
    first_header: int,
    next_header: int,
    payload: int,
    items: tuple[int, ...],
    runs: tuple[Run, ...],
    message_octets: int,
    frames_max: int,
) -> GroupLayout | None:
    """Lays out an RPC message in transmissions (messages, each a Send), cached by its sizes.

    Returns the transmissions and the segment numbers of the items; None if the message needs more than `frames_max`
    transmissions, the buffers have no place for the header or an item, or RTR_LAYOUTS_TRIED_MAX tries do not suffice.

    Args:
        first_header: octets of the first transmission's header without segment numbers, of which each takes four.
        next_header: octets of each further transmission's header.
        payload: octets of the payload stream, which excludes the items.
        items: octets of each bulk item for placeable segments, each more than 0.
        runs: the placeable segments of one receive buffer of the peer.
        message_octets: octets of the longest transmission, headers included.
        frames_max: the most transmissions.
    """
    if items and not runs:
        return None
    # The number of segments of one length does not depend on their position; other lengths need some attempts.
    count = sum(-(-octets // max(run.octets for run in runs)) for octets in items) if runs else 0
    for tried in range(count, count + RTR_LAYOUTS_TRIED_MAX):
        header = first_header + 4 * tried
        found = _fill(header, next_header, payload, items, runs, message_octets, frames_max)
        if found is None:
            # A longer header leaves less room.
            return None
        frames, taken = found
        if sum(len(numbers) for ranges in taken for numbers in ranges) == tried:
            return GroupLayout(frames, tuple(tuple(chain.from_iterable(ranges)) for ranges in taken), header)
    return None


def _fill(
    header: int,
    next_header: int,
    payload: int,
    items: Sequence[int],
    runs: Sequence[Run],
    message_octets: int,
    frames_max: int,
) -> tuple[tuple[Frame, ...], list[list[range]]] | None:
    """Lays out a message whose first transmission has a header of `header` octets, segment numbers included.

    Returns the transmissions, and for each item the segment numbers, as ranges; None if the message does not fit. The
    caller checks that there are as many numbers as `header` has room for. `next_header` is the octets of the header of
    each further transmission, `payload` those of the payload stream, `items` those of each bulk item, and
    `message_octets` those of the longest transmission. `runs` are the placeable segments of a receive buffer,
    `frames_max` is the most transmissions.
    """
    frames: list[Frame] = []
    room = message_octets - header
    if room < min(payload, 1):
        # The payload begins in the first transmission (section 9.1).
        return None
    while payload > room:
        if len(frames) + 1 >= frames_max:
            return None
        frames.append(Frame(room, ()))
        payload -= room
        room = message_octets - next_header
    end = message_octets - room + payload
    parts: list[tuple[int, int, int, int]] = []
    each = runs[-1].first + runs[-1].count if runs else 0
    numbers: list[list[range]] = []
    at = 0
    """The index of the current run."""
    for index, octets in enumerate(items):
        start = 0
        taken: list[range] = []
        while start < octets:
            if at == len(runs):
                if len(frames) + 1 >= frames_max:
                    return None
                frames.append(Frame(payload, tuple(parts)))
                payload, parts, end, at = 0, [], next_header, 0
            first, begin, length, count = runs[at]
            skipped = max(0, -(-(end - begin) // length))
            usable = min(count, (message_octets - begin) // length) - skipped
            if usable <= 0:
                at += 1
                continue
            part = min(octets - start, usable * length)
            used = -(-part // length)
            number = len(frames) * each + first + skipped
            taken.append(range(number, number + used))
            place = begin + skipped * length
            parts.append((place - end, index, start, start + part))
            start += part
            end = place + part
            if used == usable:
                at += 1
        numbers.append(taken)
    frames.append(Frame(payload, tuple(parts)))
    if len(frames) > frames_max:
        return None
    return tuple(frames), numbers


def transmissions(
    layout: GroupLayout,
    lead: int,
    prefix: int,
    header: bytes,
    stream: bytes | bytearray,
    items: Sequence[Buffer],
    *,
    answers: bool,
) -> list[Transmission]:
    """Builds the messages of a group, the transmissions of one call or reply, in order; copies `stream`, not `items`.

    Args:
        layout: the layout of the call or reply, of `lay_out`.
        lead: the header type of the first message, XMTREQ or XMTRESP.
        prefix: octets of the version's header before an extension's header.
        header: the first message's encoded header of the extension.
        stream: the whole payload stream, which excludes the items.
        items: the data of the items in the layout.
        answers: whether the message is a reply, whose XID the peer chose.
    """
    assert prefix + len(header) == layout.header, "the layout is for a header of another length"
    group: list[Transmission] = []
    position = 0
    header_type = lead
    for index, (payload, parts) in enumerate(layout.frames):
        if index:
            header = encode_transmit_continue(TransmitContinue(index, lead, payload))
            header_type = XMTCONT
        body: list[Buffer] = [header + stream[position : position + payload] if payload else header]
        position += payload
        for padding, item, start, end in parts:
            if padding:
                body.append(_ZEROS[:padding])
            data = items[item]
            body.append(data if end - start == len(data) else memoryview(data)[start:end])
        group.append(Transmission(header_type, body, answers))
    return group


class Peer(NamedTuple):
    """The abilities of one end with the round-trip extension, as its properties state them.

    `support` are the header types that the end takes. `octets` is the length of each of its receive buffers, 2^32 - 1
    if unknown; `runs` are the placeable segments of each, for bulk data. It takes requests of up to `requests_max`
    transmissions (messages, each a Send) and sends responses of up to `responses_max`.
    """

    support: Support
    octets: int
    runs: tuple[Run, ...]
    requests_max: int
    responses_max: int

    @property
    def takes_requests(self) -> bool:
        """Whether the end takes Transmit Requests: `support` has the header type, and `requests_max` is not 0."""
        return Support.REQUEST in self.support and self.requests_max > 0

    @property
    def takes_responses(self) -> bool:
        """Whether the end takes a Transmit Response."""
        return Support.RESPONSE in self.support

    @property
    def request_frames(self) -> int:
        """The most messages of one request that the end takes; 1 if it takes no further ones (Transmit Continue)."""
        return self.requests_max if Support.CONTINUE in self.support else 1

    def response_frames(self, receiver: Peer) -> int:
        """Returns the most messages of one Transmit Response from this end to `receiver`; 0: this end sends none."""
        return self.responses_max if Support.CONTINUE in receiver.support else min(1, self.responses_max)


def peer_of(told: Mapping[int, Any]) -> Peer:
    """Returns the abilities of a peer according to the transport properties that it has sent.

    `told` maps the number of each such property to its decoded value; properties that are absent have their defaults.
    Limits above RTR_TRANSMISSIONS_MAX are lowered to it. A peer whose buffers have more than RTR_BUFFER_RUNS_MAX runs
    is treated as one that takes no messages of the extension.
    """
    structure = told.get(RECEIVE_STRUCTURE)
    runs = () if structure is None else runs_of(structure)
    return Peer(
        told.get(RTR_SUPPORT, SUPPORT_DEFAULT) if len(runs) <= RTR_BUFFER_RUNS_MAX else SUPPORT_DEFAULT,
        _UNTOLD_OCTETS if structure is None else structure.octets,
        runs,
        min(told.get(REQUEST_RECEIVE_LIMIT, REQUEST_RECEIVE_LIMIT_DEFAULT), RTR_TRANSMISSIONS_MAX),
        min(told.get(RESPONSE_SEND_LIMIT, RESPONSE_SEND_LIMIT_DEFAULT), RTR_TRANSMISSIONS_MAX),
    )
