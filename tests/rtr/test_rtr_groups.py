"""Rules of whole messages that need no connection: ranges of directions, limits, and the buffers that are told."""

from __future__ import annotations

import pytest

from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.extension import all_extensions
from rpcrdma.rtr.groups import check_ranges
from rpcrdma.rtr.layout import peer_of
from rpcrdma.rtr.messages import DirectionSet, ReportCode, TransmissionFault
from rpcrdma.rtr.properties import RECEIVE_STRUCTURE, RTR_SUPPORT, BufferStructure, SegmentKind, Support
from rpcrdma.transport import TransportConfig
from support.cases import each_case

TOP = 0xFFFFFFFF


def sets(*ranges: tuple[int, int]) -> list[DirectionSet]:
    return [DirectionSet(begin, end, ()) for begin, end in ranges]


@pytest.mark.req("RT-9")
@each_case(
    "ranges",
    [
        [],
        [(0, TOP)],
        [(0, 8), (8, 12), (12, 40)],
        [(0, 8), (100, 104)],
        [(4, 4), (8, 8)],
        [(0, 8), (8, 8), (9, 9)],
        [(TOP - 1, TOP), (TOP, TOP)],
    ],
)
def test_ranges_that_touch_or_leave_gaps_are_disjoint_and_ascend(ranges: list[tuple[int, int]]) -> None:
    check_ranges(sets(*ranges))


@pytest.mark.req("RT-9")
@each_case(
    ("ranges", "words"),
    [
        ([(0, 8), (7, 12)], (7, 8, TOP)),
        ([(0, 8), (0, 8)], (0, 8, TOP)),
        ([(8, 12), (0, 8)], (0, 12, TOP)),
        ([(4, 4), (4, 8)], (4, 5, TOP)),
        ([(4, 3)], (3, 4, TOP)),
    ],
)
def test_ranges_that_overlap_or_descend_are_a_fault(ranges: list[tuple[int, int]], words: tuple[int, ...]) -> None:
    with pytest.raises(TransmissionFault) as caught:
        check_ranges(sets(*ranges))
    fault = caught.value
    assert (fault.code, fault.words) == (ReportCode.OFFSET, words)


@pytest.mark.req("RT-11")
def test_limits_that_a_peer_has_not_told_are_one_transmission_and_others_are_bounded() -> None:
    every = Support.REQUEST | Support.RESPONSE | Support.CONTINUE
    untold = peer_of({RTR_SUPPORT: every})
    assert (untold.requests_max, untold.responses_max) == (1, 1)
    assert (untold.request_frames, untold.response_frames(untold)) == (1, 1)
    assert untold.runs == ()
    told = peer_of({RTR_SUPPORT: every, 0x103: 5, 0x104: TOP})
    assert (told.requests_max, told.responses_max) == (5, RTR_TRANSMISSIONS_MAX)
    assert peer_of({}).support == Support(0)


@pytest.mark.req("RT-10")
@each_case("octets", [8192, 36864, 65536])
def test_the_structure_that_is_told_has_the_size_of_the_receive_buffers(octets: int) -> None:
    (extension,) = all_extensions("auto", TransportConfig(offered_receive_octets=octets), [])
    (row,) = [row for row in extension.properties if row.number == RECEIVE_STRUCTURE]
    structure = row.decode(row.value)
    assert isinstance(structure, BufferStructure)
    assert structure.octets == octets
    (_, head), (count, page) = structure.groups
    assert (head.placeable, page) == (False, SegmentKind(4096, 4096, placeable=True))
    assert head.length + count * page.length == octets
