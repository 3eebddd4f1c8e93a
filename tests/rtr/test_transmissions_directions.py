"""Which results of a call its directions are for: those of the part of the request that their range takes in."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest

from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Role
from rpcrdma.verbs import Access
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    DRAFTS,
    EXRW,
    NOITEM,
    PAGE,
    TBSN,
    TOOSHORT,
    XID,
    XMTRESP,
    HeardTransmission,
    TransmissionPeer,
    array,
    in_segments,
)

BOTH_DRAFTS = pytest.mark.parametrize("draft", DRAFTS)
HEADER = words(XID, 0, 2, 100_003, 3, 6, 0, 5) + b"name\0\0\0\0" + words(0, 0)
"""Of a call: the credential of 5 octets is padded, the verifier is empty."""
START = len(HEADER)
CALL = HEADER + b"argument"
END = len(CALL)
RESULT = bytes(range(256)) * 16


class Answered(NamedTuple):
    """A Transmit Response: the kind and length of each of its items, and how long its payload is."""

    items: list[tuple[int, int]]
    payload_octets: int


def answer_of(sent: HeardTransmission) -> Answered:
    assert sent.kind == XMTRESP
    (count,) = struct.unpack_from(">I", sent.body)
    at, items = 4, []
    for _ in range(count):
        _, length, kind = struct.unpack_from(">III", sent.body, at)
        at += 12
        if kind == TBSN:
            at += 8 + 4 * int.from_bytes(sent.body[at + 4 : at + 8])
        elif kind == EXRW:
            at += 4 + 16 * int.from_bytes(sent.body[at : at + 4])
        items.append((kind, length))
    return Answered(items, int.from_bytes(sent.body[at + 4 : at + 8]))


PLACED, NOTHING = (TBSN, len(RESULT)), (NOITEM, 0)
REPLY_OCTETS = len(words(XID, 1) + b"response" + words(len(RESULT)))
IN_SEGMENTS = words(1, TBSN)
"""A direction for results of any length."""
WHOLE = {
    "the call": [(0, END)],
    "the arguments": [(START, END)],
    "a part of the header and the arguments": [(8, END)],
    "all that there can be": [(0, 0xFFFFFFFF)],
}
PARTIAL = {
    "nothing": [(0, 0)],
    "the header": [(0, START)],
    "the start of the arguments": [(0, END - 4)],
    "the end of the arguments": [(START + 4, END)],
    "positions that no request of this length has": [(END, 0xFFFFFFFF)],
    "each half of the arguments": [(START, START + 4), (START + 4, END)],
}


def directions(*ranges: tuple[int, int], each: bytes = IN_SEGMENTS) -> bytes:
    """Sets of one direction."""
    return array(*(words(begin, end, 1) + each for begin, end in ranges))


def answered(peer: TransmissionPeer, result: bytes = RESULT) -> Answered:
    """The answer to the call that the peer has made, with a result."""
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"response", result)))
    (sent,) = peer.heard()
    peer.endpoint_events()
    return answer_of(sent)


@BOTH_DRAFTS
@pytest.mark.req("RT-7", "RT-9", "RT-27")
@each_case("what", WHOLE)
def test_a_range_with_all_arguments_is_for_the_results(draft: str, what: str) -> None:
    peer = TransmissionPeer(Role.SERVER, draft)
    peer.request(CALL, directions=directions(*WHOLE[what]))
    assert answered(peer) == ([PLACED], REPLY_OCTETS)


@BOTH_DRAFTS
@pytest.mark.req("RT-7", "RT-9", "RT-27")
@each_case("what", PARTIAL)
def test_a_range_without_all_arguments_is_for_no_result(draft: str, what: str) -> None:
    peer = TransmissionPeer(Role.SERVER, draft)
    peer.request(CALL, directions=directions(*PARTIAL[what]))
    assert answered(peer) == ([NOTHING] * len(PARTIAL[what]), REPLY_OCTETS + len(RESULT))
    peer.assert_serves()


@pytest.mark.req("RT-7", "RT-9", "RT-27")
@each_case(
    ("ranges", "items"),
    [
        ([(0, START), (START, END)], [NOTHING, PLACED]),
        ([(START, END), (END, 0xFFFFFFFF)], [PLACED, NOTHING]),
        ([(0, 4), (4, 8), (8, END), (END, END + 4)], [NOTHING, NOTHING, PLACED, NOTHING]),
    ],
)
def test_of_several_ranges_the_one_with_all_arguments_is_for_the_results(
    ranges: list[tuple[int, int]], items: list[tuple[int, int]]
) -> None:
    peer = TransmissionPeer(Role.SERVER)
    peer.request(CALL, directions=directions(*ranges))
    assert answered(peer) == (items, REPLY_OCTETS)


@pytest.mark.req("RT-9")
@each_case(("more", "item"), [(0, PLACED), (-1, NOTHING), (-PAGE, NOTHING)])
def test_positions_count_the_items_that_the_request_has_elsewhere(more: int, item: tuple[int, int]) -> None:
    peer = TransmissionPeer(Role.SERVER)
    start = END + 4
    asked = directions((0, start + PAGE + more))
    peer.request(CALL + words(PAGE - 3), in_segments(start, PAGE - 3, 0), directions=asked, data=bytes(PAGE - 3))
    assert answered(peer).items == [item]


@pytest.mark.req("RT-9")
def test_a_call_without_arguments_is_in_the_range_that_ends_with_it() -> None:
    peer = TransmissionPeer(Role.SERVER)
    for end, item in ((START, PLACED), (START - 1, NOTHING)):
        peer.request(HEADER, directions=directions((0, end)))
        assert answered(peer).items == [item]


@pytest.mark.req("RT-7", "RT-8", "RT-25")
def test_results_follow_the_directions_of_their_set_in_order() -> None:
    peer = TransmissionPeer(Role.SERVER)
    sets = array(
        words(0, 8, 2) + IN_SEGMENTS * 2, words(8, END, 3) + words(20, TBSN) + IN_SEGMENTS * 2, words(END, END, 0)
    )
    peer.request(CALL, directions=sets)
    payload = message(XID, 1, (b"response", bytes(12)), (b"and", RESULT))
    peer.endpoint.reply(peer.arrived(), payload)
    (sent,) = peer.heard()
    assert answer_of(sent).items == [NOTHING, NOTHING, (TOOSHORT, 12), PLACED, NOTHING]


@pytest.mark.req("RT-7")
@each_case(("begin", "written"), [(0, True), (START, True), (END, False)])
def test_memory_of_a_range_without_the_arguments_is_not_written(begin: int, written: bool) -> None:
    peer = TransmissionPeer(Role.SERVER)
    memory = bytearray(len(RESULT))
    region = peer.pd.register(memory, Access.REMOTE_WRITE)
    explicit = words(1, EXRW, 1) + struct.pack(">IIQ", region.handle, region.length, region.offset)
    peer.request(CALL, directions=directions((begin, 0xFFFFFFFF), each=explicit))
    assert answered(peer).items == [(EXRW, len(RESULT)) if written else NOTHING]
    assert (bytes(memory) == RESULT) == written


def test_a_result_for_which_memory_is_short_is_refused_by_the_number_of_its_direction() -> None:
    peer = TransmissionPeer(Role.SERVER)
    explicit = words(1, EXRW, 1) + struct.pack(">IIQ", 1, 100, 0)
    sets = array(words(0, 8, 1) + IN_SEGMENTS, words(8, END, 1) + explicit)
    peer.request(CALL, directions=sets)
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"response", RESULT)))
    (refused,) = peer.heard()
    assert (refused.kind, refused.body) == (4, words(8, 2, len(RESULT)))
