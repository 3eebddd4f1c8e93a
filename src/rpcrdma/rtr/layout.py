"""Laying out a message for the receive buffers of the peer: which octets go into which transmission, and where.

Each transmission begins with its header and a part of the payload stream. Bulk items then begin at placeable segments,
with padding before them, and go on through the next ones, also those of further transmissions. A pure function from
sizes to a layout.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.limits import RTR_BUFFER_STRUCTURES_KEPT_MAX, RTR_LAYOUTS_TRIED_MAX
from rpcrdma.rtr.properties import BufferStructure

__all__ = ["Frame", "Layout", "Run", "lay_out", "runs_of"]


_KEPT = 512
"""Layouts: the calls of one application are mostly of the same few sizes."""


class Run(NamedTuple):
    """Placeable segments of one length, side by side in a buffer: `count` of them, the first one being number `first`.

    `start` is where it begins in the buffer, `octets` is the length of each.
    """

    first: int
    start: int
    octets: int
    count: int  # type: ignore[assignment]  # hides tuple.count


class Frame(NamedTuple):
    """One transmission: octets of the payload, and what follows: (octets of padding, item, its start, its end)."""

    payload: int
    parts: tuple[tuple[int, int, int, int], ...]


class Layout(NamedTuple):
    """A whole message: its transmissions, and the numbers of the segments that each item takes.

    `header` is what the header of the first one has to take, its prefix included.
    """

    frames: tuple[Frame, ...]
    numbers: tuple[tuple[int, ...], ...]
    header: int


@functools.lru_cache(maxsize=RTR_BUFFER_STRUCTURES_KEPT_MAX)
def runs_of(structure: BufferStructure) -> tuple[Run, ...]:
    """The placeable segments of a buffer, those that are alike and side by side taken together."""
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
) -> Layout | None:
    """A message in at most `frames_max` transmissions; None if it takes more, or has no place for an item.

    Args:
        first_header: octets of the first transmission's header without segment numbers, of which each takes four.
        next_header: octets of the headers of the others.
        payload: octets of the payload stream.
        items: octets of each bulk item; none is empty.
        runs: the placeable segments of one buffer of the peer.
        message_octets: the longest transmission.
        frames_max: see above.
    """
    if items and not runs:
        return None
    # Segments of one length are as many wherever they begin; of others it takes some trying.
    count = sum(-(-octets // max(run.octets for run in runs)) for octets in items) if runs else 0
    for tried in range(count, count + RTR_LAYOUTS_TRIED_MAX):
        found = _fill(first_header + 4 * tried, next_header, payload, items, runs, message_octets, frames_max)
        if found is None:
            # A longer header leaves less room.
            return None
        if sum(map(len, found.numbers)) == tried:
            return found
    return None


def _fill(
    header: int,
    next_header: int,
    payload: int,
    items: Sequence[int],
    runs: Sequence[Run],
    message_octets: int,
    frames_max: int,
) -> Layout | None:
    """A layout whose first transmission has a header of so many octets."""
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
    numbers: list[tuple[int, ...]] = []
    at = 0
    """The next run to be looked at."""
    for index, octets in enumerate(items):
        start = 0
        taken: list[int] = []
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
            taken += range(number, number + used)
            place = begin + skipped * length
            parts.append((place - end, index, start, start + part))
            start += part
            end = place + part
            if used == usable:
                at += 1
        numbers.append(tuple(taken))
    frames.append(Frame(payload, tuple(parts)))
    if len(frames) > frames_max:
        return None
    return Layout(tuple(frames), tuple(numbers), header)
