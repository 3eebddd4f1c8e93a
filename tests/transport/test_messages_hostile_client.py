"""A server's endpoint in version 2 against a client whose first messages, versions, headers or properties are wrong."""

from __future__ import annotations

import struct

import pytest

from message_server import (
    CALL,
    REPLY,
    XID,
    answered,
    arrived,
    assert_ended,
    assert_works,
    discarded,
    long_call,
    named,
    server,
)
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallArrived, Closed, Ready, ReplySent, TransportConfig
from rpcrdma.verbs import Access
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import (
    CONNPROP,
    ERROR,
    MORE,
    MSG,
    NOMSG,
    RECEIVE_SIZE,
    RESPONSE,
    REVERSE_SUPPORT,
    SEGMENT_COUNT,
    SEGMENT_SIZE,
    SEND_SIZE,
    word,
)

# The first message


@each_case("versions", ["auto", "2"])
@each_case("octets", [b"", b"\0", b"\xff" * 15])
def test_first_message_without_a_version_is_discarded(octets: bytes, versions: str) -> None:
    peer = server(introduce=False, versions=versions)
    discarded(peer, octets)
    peer.qp.abort("enough")
    peer.run()
    assert [type(event) for event in peer.endpoint_events()] == [Closed]


@each_case("versions", ["auto", "2"])
@each_case("version", [0, 3, 0x02000000, 0xFFFFFFFF])
def test_first_message_of_an_unknown_version_is_told_the_known_ones(versions: str, version: int) -> None:
    peer = server(introduce=False, versions=versions)
    (answer,) = peer.send(raw.prefix(XID, MSG, version=version) + b"\xff" * 40)
    assert struct.unpack(">II4xIIII", answer) == (XID, version, 4, 1, 1 if versions == "auto" else 2, 2)
    assert peer.endpoint_events() == []


@pytest.mark.req("V2-13")
def test_calls_of_an_older_version_are_all_refused_where_it_is_not_offered() -> None:
    peer = server(introduce=False)
    # A client may ask for one program after another before it gives up.
    for xid in range(XID, XID + 5):
        (answer,) = peer.send(struct.pack(">IIIIIII", xid, 1, 32, 0, 0, 0, 0) + CALL)
        assert struct.unpack(">II4xIIII", answer) == (xid, 1, 4, 1, 2, 2)
        peer.received.clear()
    peer.introduce()
    assert_works(peer)


def garbage_first() -> dict[str, tuple[bytes, tuple[int, ...]]]:
    return {
        "an unknown type": (raw.prefix(XID, 77) + CALL, (raw.INVAL_HTYPE,)),
        "no property set": (raw.prefix(XID, CONNPROP), (raw.BAD_XDR,)),
        "more properties than there are": (
            raw.prefix(XID, CONNPROP) + word(2) + raw.property_set()[4:],
            (raw.BAD_XDR,),
        ),
        "a bad value": (raw.properties((RECEIVE_SIZE, word(1023)), xid=XID), (raw.BAD_XDR,)),
        "no payload": (raw.message(XID), (raw.BAD_XDR,)),
        "another XID in the payload": (raw.message(XID, struct.pack(">II", 1, 0)), (raw.BAD_XDR,)),
    }


@each_case(
    ("octets", "error", "versions"),
    [(*case, versions) for case in garbage_first().values() for versions in ("auto", "2")],
)
def test_garbage_in_the_first_message_is_refused_and_a_better_one_taken(
    octets: bytes, error: tuple[int, ...], versions: str
) -> None:
    peer = server(introduce=False, versions=versions)
    assert answered(peer, octets[:8] + word(8) + octets[12:]) == error
    peer.introduce()
    assert_works(peer)


@pytest.mark.req("V2-9")
def test_a_client_that_begins_with_a_call_is_told_of_properties_first_and_served_with_the_defaults() -> None:
    peer = server(introduce=False)
    peer.send(raw.message(XID, CALL, give=8))
    ready, call = peer.endpoint_events()
    assert isinstance(ready, Ready)
    assert isinstance(call, CallArrived)
    peer.endpoint.reply(call.incoming, message(XID, 1, (bytes(9000), None)))
    told, *replies = peer.heard()
    assert told.kind == CONNPROP
    assert [each.flags for each in replies] == [RESPONSE | MORE, RESPONSE | MORE, RESPONSE]
    assert b"".join(each.payload for each in replies) == REPLY + bytes(9000)
    assert max(len(each.payload) for each in replies) == 4096 - raw.PIECE_OCTETS
    assert [type(event) for event in peer.endpoint_events()] == [ReplySent]
    assert_works(peer)


@each_case("octets", [raw.error(XID, raw.SYSTEM), raw.error(XID, 1, 1, 1), raw.prefix(XID, ERROR, 1)])
def test_an_error_as_the_first_message_is_discarded(octets: bytes) -> None:
    peer = server(introduce=False)
    discarded(peer, octets)
    # An error gives no credits: only the first message may go out.
    peer.introduce()
    assert_works(peer)


# Versions in mid-connection


@pytest.mark.req("V2-13", "V2-68")
@each_case("versions", ["auto", "2"])
@each_case("version", [0, 1, 3, 0xFFFFFFFF])
def test_another_version_in_mid_connection_is_refused_and_not_run(versions: str, version: int) -> None:
    peer = server(versions=versions)
    for octets in (
        struct.pack(">IIIIIII", XID, version, 32, 0, 0, 0, 0) + CALL,
        raw.message(XID, CALL)[:4] + word(version) + raw.message(XID, CALL)[8:],
        struct.pack(">IIII", XID, version, 32, 0),
    ):
        (answer,) = peer.send(octets)
        assert struct.unpack(">II4xIIII", answer) == (XID, version, 4, 1, 2, 2)
        assert peer.endpoint_events() == []
    peer.received.clear()
    assert_works(peer)


@pytest.mark.req("V2-13")
def test_version_2_on_a_connection_of_version_1_is_refused_and_not_run() -> None:
    peer = server(versions="auto", introduce=False)
    version_1 = struct.pack(">IIIIIII", XID, 1, 32, 0, 0, 0, 0) + CALL
    peer.send(version_1)
    assert [type(event) for event in peer.endpoint_events()] == [Ready, CallArrived]
    # The last one would be a call if its version were 1.
    of_neither = version_1[:7] + b"\2" + version_1[8:]
    for octets in (raw.properties(xid=XID), raw.message(XID, CALL), of_neither):
        (answer,) = peer.send(octets)
        assert struct.unpack(">II4xIIII", answer) == (XID, 2, 4, 1, 1, 1)
        assert peer.endpoint_events() == []
    peer.send(version_1)
    assert [type(event) for event in peer.endpoint_events()] == [CallArrived]


# Headers


@pytest.mark.req("V2-52")
@each_case(
    "octets",
    [
        raw.prefix(XID, MSG) + word(0) + struct.pack(">III", 2, 0, 0) + CALL,
        raw.prefix(XID, MSG) + word(0) + struct.pack(">III", 1, 0, 0) + CALL,
        raw.prefix(XID, MSG) + word(0) + struct.pack(">IIII", 0, 0, 1, limits.CHUNK_SEGMENTS_MAX),
        raw.prefix(XID, NOMSG),
        # A grant has no XID, and no handle to invalidate.
        raw.message(XID, kind=NOMSG),
        raw.message(0, kind=NOMSG, ends=5),
        raw.message(XID, kind=NOMSG, reply=raw.chunk((1, 2, 3))),
        raw.message(XID, kind=NOMSG, reads=raw.read_segment(4, (1, 2, 3))),
        long_call((1, 8, 3)) + CALL,
        raw.message(XID),
        raw.message(XID, CALL[:7]),
        raw.message(XID, struct.pack(">II", XID + 1, 0)),
        raw.message(XID, struct.pack(">II", XID, 2)),
        # A reply without RESPONSE.
        raw.message(XID, REPLY),
        # Positions: not aligned, zero beside a payload, behind the end, one inside another chunk
        raw.message(XID, CALL, reads=raw.read_segment(6, (1, 4, 3))),
        raw.message(XID, CALL, reads=raw.read_segment(0, (1, 4, 3))),
        raw.message(XID, CALL, reads=raw.read_segment(12, (1, 4, 3))),
        raw.message(XID, CALL, reads=raw.read_segment(8, (1, 8, 3)) + raw.read_segment(12, (1, 4, 3))),
        # a Position-Zero chunk that holds nothing
        long_call((1, 0, 3)),
        # segments beyond all offsets, and larger than this side takes
        raw.message(XID, CALL, writes=raw.chunk((1, 8, 2**64 - 7))),
        raw.message(XID, CALL, reply=raw.chunk((1, (1 << 20) + 1, 0))),
        raw.message(XID, CALL, reads=raw.read_segment(8, (1, 0xFFFFFFFF, 3))),
        # a handle that none of the lists names
        raw.message(XID, CALL, ends=5),
        raw.message(XID, CALL, ends=5, writes=raw.chunk((6, 8, 0))),
        raw.message(XID, CALL, ends=0xFFFFFFFF, reads=raw.read_segment(8, (6, 8, 0)), reply=raw.chunk((7, 8, 0))),
    ],
)
def test_header_against_the_rules_is_answered_with_bad_xdr(octets: bytes) -> None:
    peer = server()
    assert answered(peer, octets) == (raw.BAD_XDR,)
    assert_works(peer)


@pytest.mark.req("V2-60", "V2-99", "V2-105")
def test_more_than_is_pulled_of_one_call_is_refused_for_good() -> None:
    peer = server(TransportConfig(call_octets_pulled_max=9000))
    assert answered(peer, raw.message(XID, CALL, reads=raw.read_segment(8, (1, 9001, 3)))) == (raw.SYSTEM,)
    assert answered(peer, long_call((1, 9000, 3), (1, 4, 3))) == (raw.SYSTEM,)
    assert_works(peer)


# Messages that only a responder sends


@pytest.mark.req("V2-49")
@each_case("flags", [0, RESPONSE, MORE, 0xFFFFFFFF])
@each_case("code", range(12))
def test_an_error_is_discarded_and_gives_no_credits(code: int, flags: int) -> None:
    peer = server(give=0)
    for numbers in ((), (1,), (1, 1), (1, 1, 1)):
        octets = raw.error(XID, code, *numbers, flags=flags)
        discarded(peer, octets[:8] + word(0xFFFFFFFF) + octets[12:])
    peer.send(raw.message(XID, CALL, give=0))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert peer.heard() == [], "a reply went out without a credit"
    peer.send(raw.grant(1))
    assert [each.xid for each in peer.heard()] == [XID]
    assert_works_on_credit(peer)


def assert_works_on_credit(peer: BareMessages) -> None:
    peer.send(raw.message(XID, CALL, give=1))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert [each.xid for each in peer.heard()] == [XID]


@each_case(
    "octets",
    [
        raw.message(XID, CALL),
        raw.message(XID, CALL, MORE),
        raw.grant(1),
        raw.properties(),
        raw.message(XID, REPLY, RESPONSE),
        raw.error(XID, raw.SYSTEM),
        # messages that would be refused otherwise
        raw.message(XID),
        raw.prefix(XID, 77),
        b"x",
    ],
)
def test_a_client_that_invalidates_anything_is_cut_off(octets: bytes) -> None:
    peer = server()
    region = peer.endpoint_pd.register(bytearray(8), Access.REMOTE_WRITE)
    peer.send(octets, invalidate=region.handle)
    assert_ended(peer, "without answering")


# Replies


@each_case("ends", [False, True])
def test_only_the_last_piece_of_a_reply_invalidates_and_an_error_does_not(ends: bool) -> None:
    peer = server()
    for size in (9000, 2_000_000):
        region = peer.pd.register(bytearray(100), Access.REMOTE_WRITE)
        handle = region.handle if ends else 0
        peer.send(raw.message(XID, CALL, ends=handle, writes=raw.chunk(named(region, 0, 100))))
        before = len(peer.invalidated)
        peer.endpoint.reply(arrived(peer), message(XID, 1, (b"", bytes(size))))
        peer.run()
        peer.endpoint_events()
        told = peer.invalidated[before:]
        assert told == ([None, None, handle or None] if size == 9000 else [None])
        assert (region.handle in peer.pd.regions) == (not ends or size != 9000)
    peer.received.clear()
    assert_works(peer)


@pytest.mark.req("V2-34", "V2-69")
def test_property_values_of_any_size_are_taken_as_they_are() -> None:
    peer = server(introduce=False)
    # Empty: the default. Longer than it must be: the rest means nothing.
    peer.introduce(
        (SEND_SIZE, word(0xFFFFFFFF)),
        (RECEIVE_SIZE, word(2048) + bytes(60)),
        (SEGMENT_SIZE, b""),
        (SEGMENT_COUNT, word(0)),
        (REVERSE_SUPPORT, b""),
        (0xFFFFFFFF, b"x" * 1001),
    )
    told = peer.endpoint.peer_properties
    assert told is not None
    assert told[:4] == (0xFFFFFFFF, 2048, 1 << 20, 0)
    assert peer.endpoint.inline_send_octets == 2048
    assert peer.endpoint.inline_receive_octets == peer.endpoint._session.config.offered_receive_octets
    assert_works(peer)


@pytest.mark.req("V2-93")
@each_case("number", [1, 2, 3, 4, 5])
def test_properties_that_come_a_second_time_are_refused_and_change_nothing(number: int) -> None:
    peer = server()
    before = peer.endpoint.peer_properties
    for _ in range(20):
        assert answered(peer, raw.properties((number, word(2048)), xid=XID)) == (raw.BAD_XDR,)
    assert peer.endpoint.peer_properties == before
    assert peer.endpoint.inline_send_octets == 4096
    assert_works(peer)
