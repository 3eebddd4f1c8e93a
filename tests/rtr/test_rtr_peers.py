"""The messages that two ends may send each other, what an end tells by default, and ranges of directions."""

from __future__ import annotations

import itertools
import weakref
from mmap import PAGESIZE

import pytest

from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr import Costs, Preference, RoundTrip, RoundTripConfig
from rpcrdma.rtr.extension import all_extensions
from rpcrdma.rtr.groups import check_ranges
from rpcrdma.rtr.layout import Peer, Run, peer_of, runs_of
from rpcrdma.rtr.messages import DirectionSet, ReportCode, TransmissionFault
from rpcrdma.rtr.properties import (
    RECEIVE_STRUCTURE,
    REQUEST_RECEIVE_LIMIT,
    RESPONSE_SEND_LIMIT,
    RTR_SUPPORT,
    BufferStructure,
    SegmentKind,
    Support,
    shown_support,
)
from rpcrdma.rtr.receive_slabs import SlabBuffer
from rpcrdma.transport import TransportConfig
from rpcrdma.verbs.device_memory import DeviceProtectionDomain
from rpcrdma.verbs.device_receives import ReceiveSlab
from rpcrdma.verbs.device_registrations import KeptRegistrations
from rtr_pair import address_of
from support.cases import each_case
from support.device_in_memory import DeviceInMemory

TOP = 0xFFFFFFFF
ALL = range(8)
"""Of the bits of the property: 1 for requests, 2 for responses, 4 for what continues them."""


def peer(support: int = 0, requests_max: int = 8, responses_max: int = 8) -> Peer:
    return Peer(Support(support), 4096, (), requests_max, responses_max)


@each_case("support", ALL)
def test_an_end_takes_the_messages_that_it_says_it_takes(support: int) -> None:
    assert peer(support).takes_requests is bool(support & 1)
    assert peer(support).takes_responses is bool(support & 2)
    assert peer(support).request_frames == (8 if support & 4 else 1)
    assert not peer(support, requests_max=0).takes_requests
    assert peer(support, requests_max=1).takes_requests is bool(support & 1)


def test_a_response_is_continued_if_its_receiver_takes_that() -> None:
    for own, receiver in itertools.product(ALL, ALL):
        for most in range(9):
            found = peer(own, responses_max=most).response_frames(peer(receiver, responses_max=3))
            assert found == (most if receiver & 4 else min(1, most))


@pytest.mark.req("RT-11")
def test_an_end_is_as_it_has_told_and_takes_nothing_if_it_has_told_nothing() -> None:
    assert peer_of({}) == (Support(0), 0xFFFFFFFF, (), 1, 1)
    untold = peer_of({RTR_SUPPORT: Support(7)})
    assert (untold.request_frames, untold.response_frames(untold)) == (1, 1)
    groups = ((1, SegmentKind(100, 0, placeable=False)), (3, SegmentKind(50, 0, placeable=True)))
    told = {
        RTR_SUPPORT: Support.RESPONSE,
        RECEIVE_STRUCTURE: BufferStructure(250, groups),
        REQUEST_RECEIVE_LIMIT: 3,
        RESPONSE_SEND_LIMIT: 5,
    }
    assert peer_of(told) == (Support.RESPONSE, 250, ((0, 100, 50, 3),), 3, 5)
    none = peer_of({REQUEST_RECEIVE_LIMIT: 0, RESPONSE_SEND_LIMIT: 0})
    assert (none.requests_max, none.responses_max) == (0, 0)
    much = peer_of({REQUEST_RECEIVE_LIMIT: 9, RESPONSE_SEND_LIMIT: 9})
    assert (much.requests_max, much.responses_max) == (RTR_TRANSMISSIONS_MAX, RTR_TRANSMISSIONS_MAX)


def test_segments_that_are_alike_and_side_by_side_are_one_run() -> None:
    page, half, head = (
        SegmentKind(100, 0, placeable=True),
        SegmentKind(50, 0, placeable=True),
        SegmentKind(10, 0, placeable=False),
    )
    structure = BufferStructure(
        1 * 10 + 3 * 100 + 10 + 2 * 100 + 1 * 50 + 2 * 50 + 10,
        ((1, head), (3, page), (1, head), (2, page), (1, half), (2, half), (1, head)),
    )
    assert runs_of(structure) == (Run(0, 10, 100, 3), Run(3, 320, 100, 2), Run(5, 520, 50, 3))


def test_no_placeable_segments_make_no_run() -> None:
    assert runs_of(BufferStructure.plain(4096)) == ()


def test_the_settings_by_default_are_those_that_the_documentation_has() -> None:
    config = RoundTripConfig()
    assert config.preference is Preference.AUTO
    assert config.support == Support.REQUEST | Support.RESPONSE | Support.CONTINUE == 7
    assert (config.segment_octets, config.requests_max, config.responses_max) == (4096, 8, 8)
    assert config.promises_max == 256
    assert config.costs == Costs(transmission_s=45e-6, registration_s=15e-6, read_s=45e-6)
    # 36 KiB: a segment of 4 KiB for headers, and eight pages.
    found = RoundTrip().structure
    assert found == BufferStructure(
        36864, ((1, SegmentKind(4096, 0, placeable=False)), (8, SegmentKind(4096, 4096, placeable=True)))
    )


def test_an_end_tells_its_settings() -> None:
    config = RoundTripConfig(support=Support.REQUEST, segment_octets=1024, requests_max=2, responses_max=3)
    rtr = RoundTrip(config, receive_octets=1024 + 2 * 1024)
    assert rtr.own == (Support.REQUEST, 3072, ((0, 1024, 1024, 2),), 2, 3)
    told = {row.number: row.decode(row.value) for row in rtr.extension.properties if row.value is not None}
    assert told == {0x101: Support.REQUEST, 0x102: rtr.structure, 0x103: 2, 0x104: 3}
    shown = {row.name: row.shown(told[row.number]) for row in rtr.extension.properties}
    assert shown == {
        "RTR Support": "requests",
        "Receive Buffer Structure": "1 of 1024, 2 of 1024 for data",
        "Request Transmission Receive Limit": 2,
        "Response Transmission Send Limit": 3,
    }


HEADERS = {0x101: "Transmit Request", 0x102: "Transmit Response", 0x103: "Transmit Continue", 0x104: "Report Error"}


@each_case("support", ALL)
def test_an_end_has_rows_for_the_messages_that_it_takes(support: int) -> None:
    extension = RoundTrip(RoundTripConfig(support=Support(support), promises_max=17)).extension
    rows = {row.code: row for row in extension.headers}
    taken = {0x104} | {code for bit, code in ((1, 0x101), (2, 0x102), (4, 0x103)) if support & bit}
    assert {code: row.name for code, row in rows.items()} == {code: HEADERS[code] for code in taken}
    assert {code: row.flags for code, row in rows.items()} == {
        code: 0xFFFFFFFC if code == 0x104 else 0 for code in taken
    }
    assert extension.reserve_max == 17
    # As long as it takes no calls it does not say that it takes requests, and reads them in order to refuse them.
    without = extension.without_calls
    assert without is not None
    assert without.without_calls is None
    assert {row.code for row in without.headers} == taken
    (told,) = [row for row in without.properties if row.number == RTR_SUPPORT]
    assert told.value == bytes((0, 0, 0, support & 6))


def test_connections_share_memory_that_has_the_length_that_they_want() -> None:
    rtr = RoundTrip(receive_octets=36864)
    assert rtr.extension.receives is not None
    first, second = rtr.extension.receives(36864), rtr.extension.receives(20000)
    longer = rtr.extension.receives(40000)
    again = rtr.extension.receives(40000)
    shapes = [(each.octets, each.plain_octets) for each in (first, second, longer, again)]
    assert shapes == [(36864, 4096), (36864, 4096), (40960, 4096), (40960, 4096)]
    assert first._store is second._store
    assert longer._store is again._store is not first._store
    # Sizes that alternate, as those of two servers, have their memory kept.
    last = rtr.extension.receives(36864)
    assert last._store is first._store


def test_memory_ends_with_the_last_connection_although_the_extension_is_kept() -> None:
    """Each set of extensions is kept in tables, as that of the next connection may be the same."""
    rtr = RoundTrip()
    assert rtr.extension.receives is not None
    first, second = rtr.extension.receives(36864), rtr.extension.receives(36864)
    first.give_back(first.draw())
    memory = weakref.ref(first._store)
    del first
    assert memory() is second._store
    del second
    assert memory() is None


WORDS = ["nothing", "requests", "responses", "requests, responses", "continued"]


def test_support_in_words() -> None:
    assert [shown_support(Support(support)) for support in ALL] == [
        *WORDS,
        "requests, continued",
        "responses, continued",
        "requests, responses, continued",
    ]


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


@pytest.mark.req("RT-35")
@each_case("octets", [1100, 5000, 8000, 36864, 40000, 200_000])
@each_case("segment_octets", [1024, 4096, 8192, 16384, 65536])
def test_each_segment_in_each_kind_of_memory_is_aligned_as_its_structure_says(segment_octets: int, octets: int) -> None:
    rtr = RoundTrip(RoundTripConfig(segment_octets=segment_octets), receive_octets=octets)
    kind = rtr.structure.groups[-1][1]
    assert kind.align == (min(segment_octets, PAGESIZE) if kind.placeable else 0)
    assert (rtr.extension.receives is not None) is kind.placeable
    if rtr.extension.receives is None:
        return
    # One of the announced size, and one as another user of the connection needs it.
    for receives in (rtr.extension.receives(octets), rtr.extension.receives(octets + 3)):
        short = receives.take()
        device = DeviceInMemory().EventChannel().identifier().domain()
        slab = ReceiveSlab(DeviceProtectionDomain(device, KeptRegistrations()), receives)
        buffers = [*(receives.draw() for _ in range(3)), *receives.divide(short, 1), *receives.divide(slab.view, 32)]
        for buffer in buffers:
            assert isinstance(buffer, SlabBuffer)
            for start, _ in rtr.structure.placeable:
                place = buffer.target(start, 1)
                assert not place or address_of(place) % kind.align == 0


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
