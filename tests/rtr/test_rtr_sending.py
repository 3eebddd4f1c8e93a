"""Layouts of small messages, and the transmissions that are made of layouts, octet by octet."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.rtr import layout as layout_module
from rpcrdma.rtr.layout import Frame, GroupLayout, Run, lay_out
from rtr_link import tried
from support.cases import each_case

PAGES = (Run(0, 100, 50, 4),)
MIXED = (Run(0, 60, 10, 2), Run(2, 100, 50, 2))


@each_case(
    ("payload", "items", "runs", "octets", "frames_max", "frames", "numbers"),
    [
        (0, (), (), 40, 1, [(0, ())], ()),
        (20, (), (), 60, 1, [(20, ())], ()),
        (21, (), (), 60, 2, [(20, ()), (1, ())], ()),
        (49, (), (), 60, 3, [(20, ()), (28, ()), (1, ())], ()),
        (20, (120,), PAGES, 300, 1, [(20, ((28, 0, 0, 120),))], ((0, 1, 2),)),
        (20, (60, 70), PAGES, 300, 1, [(20, ((24, 0, 0, 60), (40, 1, 0, 70)))], ((0, 1), (2, 3))),
        (20, (250,), PAGES, 300, 2, [(20, ((20, 0, 0, 200),)), (0, ((68, 0, 200, 250),))], ((0, 1, 2, 3, 4),)),
        (57, (1,), PAGES, 300, 1, [(57, ((49, 0, 0, 1),))], ((1,),)),
        (56, (1,), PAGES, 300, 1, [(56, ((0, 0, 0, 1),))], ((0,),)),
        (20, (51,), PAGES, 299, 1, [(20, ((32, 0, 0, 51),))], ((0, 1),)),
        (20, (151,), PAGES, 299, 2, [(20, ((24, 0, 0, 150),)), (0, ((68, 0, 150, 151),))], ((0, 1, 2, 4),)),
        (
            5,
            (10, 10, 60),
            MIXED,
            200,
            2,
            [(5, ((9, 0, 0, 10), (20, 1, 0, 10), (40, 2, 0, 50))), (0, ((28, 2, 50, 60),))],
            ((1,), (2,), (3, 4)),
        ),
        (4, (10, 60), MIXED, 200, 1, [(4, ((4, 0, 0, 10), (0, 1, 0, 10), (20, 1, 10, 60)))], ((0,), (1, 2))),
    ],
)
def test_a_message_is_laid_out(
    payload: int,
    items: tuple[int, ...],
    runs: tuple[Run, ...],
    octets: int,
    frames_max: int,
    frames: list[tuple[int, Any]],
    numbers: Any,
) -> None:
    found = tried(lay_out, 40, 32, payload, items, runs, octets, frames_max)
    expected = GroupLayout(tuple(Frame(*each) for each in frames), numbers, 40 + 4 * sum(map(len, numbers)))
    assert found == expected
    assert tried(lay_out, 40, 32, payload, items, runs, octets, len(frames) - 1) is None


def test_so_many_headers_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an item in segments of one octet before one of 50, the header has room for more numbers with each try."""
    runs = (Run(0, 100, 1, 6), Run(6, 106, 50, 1))
    for most in range(1, 9):
        lay_out.cache_clear()
        monkeypatch.setattr(layout_module, "RTR_LAYOUTS_TRIED_MAX", most)
        found = tried(lay_out, 40, 32, 0, (10,), runs, 200, 1)
        assert (found is not None) is (most >= 7)
        if found is not None:
            assert found.numbers == (tuple(range(7)),)
    lay_out.cache_clear()
