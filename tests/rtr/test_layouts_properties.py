"""Layouts of any messages for the receive buffers of any peer, against the receiver's own by the draft's rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpcrdma.rtr.layout import GroupLayout, lay_out, runs_of
from rpcrdma.rtr.properties import BufferStructure, SegmentKind
from rtr_link import tried

FIRST, NEXT = 40, 32
"""Octets of headers; of the first one without segment numbers."""


class Case(NamedTuple):
    """A message for a peer's receive buffers, of which `sent` octets may be used."""

    structure: BufferStructure
    payload: int
    items: tuple[int, ...]
    sent: int
    frames_max: int

    @property
    def layout(self) -> GroupLayout | None:
        runs = runs_of(self.structure)
        return lay_out(FIRST, NEXT, self.payload, self.items, runs, self.sent, self.frames_max)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = st.builds(
        SegmentKind,
        st.sampled_from((1, 4, 16, 30, 100, 512, 1000, 4096)),
        st.sampled_from((0, 4)),
        st.booleans() | st.just(True),
    )
    groups = draw(st.lists(st.tuples(st.integers(1, 5), kinds), min_size=1, max_size=5))
    if draw(st.booleans()):
        groups.insert(0, (1, SegmentKind(draw(st.integers(40, 400)), 0, placeable=False)))
    octets = sum(count * kind.length for count, kind in groups)
    sizes = st.integers(1, 300) | st.sampled_from((1, 16, 512, 4096)) | st.integers(1, 2 * octets)
    return Case(
        BufferStructure(octets, tuple(groups)),
        draw(st.integers(0, 200) | st.integers(0, 3 * octets)),
        tuple(draw(st.lists(sizes, max_size=3))),
        max(NEXT + 1, octets - draw(st.sampled_from((0, 0, 0, 1, 100)))),
        draw(st.integers(1, 6)),
    )


def check(case: Case, layout: GroupLayout) -> None:
    """Takes the transmissions apart as the receiver does, who knows its buffers and the numbers of segments."""
    segments = case.structure.placeable
    assert len(layout.frames) <= case.frames_max
    assert layout.header == FIRST + 4 * sum(map(len, layout.numbers))
    assert sum(frame.payload for frame in layout.frames) == case.payload
    assert bool(layout.frames[0].payload) == bool(case.payload), "the payload begins in the first transmission"
    # Each octet of an item, by the transmission and the place in it where it was put.
    put: list[list[tuple[int, int]]] = [[] for _ in case.items]
    for number, (payload, parts) in enumerate(layout.frames):
        assert payload >= 0
        at = (NEXT if number else layout.header) + payload
        for padding, item, start, end in parts:
            assert padding >= 0
            assert start < end
            assert start == len(put[item]), "the octets of an item go out in their order"
            at += padding
            put[item] += [(number, at + index) for index in range(end - start)]
            at += end - start
        assert at <= case.sent
    assert len(layout.numbers) == len(case.items)
    last = -1
    for octets, numbers, places in zip(case.items, layout.numbers, put, strict=True):
        assert len(places) == octets
        found: list[tuple[int, int]] = []
        for number in numbers:
            assert number > last, "no segment is used twice"
            last = number
            start, length = segments[number % len(segments)]
            assert len(found) < octets, "no segment is named without need"
            found += [(number // len(segments), start + index) for index in range(min(length, octets - len(found)))]
        assert found == places
    if len(layout.frames) > 1:
        assert all(frame.payload or frame.parts for frame in layout.frames[1:]), "no transmission is for nothing"


def fits(case: Case) -> bool:
    """Whether there is a layout, tried segment by segment for each length that the header can have."""
    return any(_takes(case, numbers) == numbers for numbers in range(len(case.structure.placeable) * 6 + 1))


def _takes(case: Case, numbers: int) -> int:
    """How many segments the items take behind a header with so many numbers; -1 if there is no room."""
    places = _places(case, numbers)
    if places is None:
        return -1
    taken = 0
    for octets in case.items:
        left = octets
        while left > 0:
            length = next(places, 0)
            if not length:
                return -1
            taken += 1
            left -= length
    return taken


def _places(case: Case, numbers: int) -> Iterator[int] | None:
    """The lengths of the segments that are free for items; None where there is no room for header and payload."""
    end, left = FIRST + 4 * numbers, case.payload
    if end + min(left, 1) > case.sent:
        return None
    frame = 0
    while left > case.sent - end:
        left -= case.sent - end
        frame, end = frame + 1, NEXT
    if frame >= case.frames_max:
        return None
    end += left
    free = [length for start, length in case.structure.placeable if end <= start and start + length <= case.sent]
    more = [length for start, length in case.structure.placeable if start >= NEXT and start + length <= case.sent]
    return iter(free + more * (case.frames_max - frame - 1))


PAGES = ((1, SegmentKind(4096, 0, placeable=False)), (8, SegmentKind(4096, 4096, placeable=True)))


@pytest.mark.req("RT-5", "RT-12", "RT-1", "RT-31")
@given(case=cases())
@example(Case(BufferStructure(36864, PAGES), 100, (65536,), 36864, 8))
@example(Case(BufferStructure(36864, PAGES), 5000, (4096, 100, 70000), 36864, 4))
# The header alone fills the first transmission.
@example(Case(BufferStructure.plain(FIRST), 10, (), FIRST, 3))
# The segments of the second transmission begin before its header ends.
@example(Case(BufferStructure(200, ((20, SegmentKind(10, 0, placeable=True)),)), 0, (300,), 200, 3))
# Were the segments that are taken small ones, the header would leave no room for the large one.
@example(
    Case(
        BufferStructure(91, ((1, SegmentKind(1, 0, placeable=True)), (3, SegmentKind(30, 0, placeable=True)))),
        0,
        (6,),
        91,
        1,
    )
)
@example(Case(BufferStructure(400, ((4, SegmentKind(100, 0, placeable=True)),)), 0, (900,), 400, 6))
def test_a_message_is_laid_out_so_that_its_receiver_finds_everything(case: Case) -> None:
    layout = tried(lambda: case.layout)
    assert layout is None or isinstance(layout, GroupLayout), layout
    assert (layout is not None) == fits(case)
    if layout is not None:
        check(case, layout)


def test_a_payload_that_is_far_too_long_is_refused_at_once() -> None:
    case = Case(BufferStructure(36864, PAGES), 1 << 40, (), 36864, 8)
    assert case.layout is None
