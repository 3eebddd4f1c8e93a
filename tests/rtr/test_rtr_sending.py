"""Layouts of small messages, and the transmissions that are made of layouts, octet by octet."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.rtr import layout as layout_module
from rpcrdma.rtr.layout import Frame, GroupLayout, Run, lay_out, transmissions
from rpcrdma.rtr.messages import XMTCONT, XMTREQ, XMTRESP, TransmitContinue, encode_transmit_continue
from rtr_link import PREFIX, pattern, tried
from support.cases import each_case


@each_case(("lead", "answers"), [(XMTREQ, False), (XMTRESP, True)])
def test_transmissions_are_headers_payload_padding_and_items(lead: int, answers: bool) -> None:
    header = b"header of the first"
    first, second = pattern(12), pattern(5, 1)
    frames = (Frame(4, ((3, 0, 0, 10),)), Frame(6, ((0, 0, 10, 12), (2, 1, 0, 5))), Frame(0, ()))
    layout = GroupLayout(frames, ((0,), (1,)), PREFIX + len(header))
    group: Any = tried(
        lambda: transmissions(layout, lead, PREFIX, header, b"four and six", [first, second], answers=answers)
    )
    assert isinstance(group, list), group
    assert [each.header_type for each in group] == [lead, XMTCONT, XMTCONT]
    assert [each.answers for each in group] == [answers] * 3
    assert [[bytes(piece) for piece in each.body] for each in group] == [
        [header + b"four", bytes(3), first[:10]],
        [encode_transmit_continue(TransmitContinue(1, lead, 6)) + b" and s", first[10:], bytes(2), second],
        [encode_transmit_continue(TransmitContinue(2, lead, 0))],
    ]
    assert group[1].body[-1] is second, "what goes whole is not copied"


def test_a_layout_is_for_a_header_of_its_length() -> None:
    layout = GroupLayout((Frame(0, ()),), (), PREFIX + 8)
    assert len(transmissions(layout, XMTREQ, PREFIX, bytes(8), b"", [], answers=False)) == 1
    for octets in (7, 9):
        with pytest.raises(AssertionError, match="header of another length"):
            transmissions(layout, XMTREQ, PREFIX, bytes(octets), b"", [], answers=False)


def test_padding_is_as_long_as_the_longest_message() -> None:
    """A message has up to 256 KiB, and all of it but the header can stand before its only placeable segment."""
    padding = (1 << 18) - PREFIX - 8
    layout = GroupLayout((Frame(0, ((padding, 0, 0, 1),)),), ((0,),), PREFIX + 8)
    (only,) = transmissions(layout, XMTREQ, PREFIX, bytes(8), b"", [b"x"], answers=False)
    assert [len(piece) for piece in only.body] == [8, padding, 1]


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


def test_a_message_with_items_needs_segments_and_room() -> None:
    assert tried(lay_out, 40, 32, 0, (1,), (), 100, 8) is None
    assert tried(lay_out, 40, 32, 1, (), (), 40, 8) is None
    assert tried(lay_out, 40, 32, 0, (), (), 39, 8) is None
    # The only segment is not whole in a message of this length.
    assert tried(lay_out, 40, 32, 0, (1,), (Run(0, 100, 50, 1),), 149, 8) is None
    assert tried(lay_out, 40, 32, 0, (1,), (Run(0, 100, 50, 1),), 150, 8) is not None


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
