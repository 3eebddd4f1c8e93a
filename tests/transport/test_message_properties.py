"""Transport properties in the messages of version 2: an end's own properties, and the effects of its peer's."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import ReplyBound, ReverseSupport, Role, TransportConfig
from rpcrdma.verbs.protection_domain import Access
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import (
    CONNPROP,
    MSG,
    NOMSG,
    RECEIVE_SIZE,
    RESPONSE,
    REVERSE_SUPPORT,
    SEGMENT_COUNT,
    SEGMENT_SIZE,
    SEND_SIZE,
    HeardMessage,
    Segment,
    word,
)

CALL, REPLY = 0, 1
XID = 0x11223344
NOTHING = ReplyBound(0)
CHUNKS = TransportConfig(in_messages_octets_max=0, offered_send_octets=4096, offered_receive_octets=4096)
CALL_WITH_ALL = message(XID, CALL, (bytes(5000), bytes(7000)))
ALL_BOUND = ReplyBound(9000, (6001,))


def client(*properties: tuple[int, bytes], config: TransportConfig = CHUNKS) -> BareMessages:
    return BareMessages(Role.CLIENT, config, *properties)


def chunks_of(heard: HeardMessage) -> list[list[Segment]]:
    """The segments of every chunk; those of one Position are one Read chunk."""
    reads: dict[int, list[Segment]] = {}
    for position, segment in heard.reads:
        reads.setdefault(position, []).append(segment)
    return [*reads.values(), *heard.writes, *([] if heard.reply is None else [heard.reply])]


# All that is told


@pytest.mark.req("V2-91")
@each_case("role", Role)
def test_the_first_message_tells_every_property_of_the_end_also_those_at_their_default(role: Role) -> None:
    config = TransportConfig(offered_send_octets=8192, offered_receive_octets=16384)
    (told, *_) = BareMessages(role, config).introduced
    assert told.kind == CONNPROP
    assert told.properties == {
        SEND_SIZE: word(8192),
        RECEIVE_SIZE: word(16384),
        SEGMENT_SIZE: word(1 << 20),
        SEGMENT_COUNT: word(limits.CHUNK_SEGMENTS_MAX),
        REVERSE_SUPPORT: word(0),
    }


@pytest.mark.req("V2-92")
@each_case("role", Role)
def test_no_size_is_told_below_its_default_so_that_a_peer_may_keep_to_that(role: Role) -> None:
    """A peer that does not know the property sends messages and names segments of the default size."""
    config = TransportConfig(offered_send_octets=4096, offered_receive_octets=4096, segment_octets_max=300)
    told = BareMessages(role, config).introduced[0].properties
    for number, default in ((RECEIVE_SIZE, 4096), (SEGMENT_SIZE, 1 << 20), (SEGMENT_COUNT, 16)):
        assert int.from_bytes(told[number]) >= default


# Sizes of messages


@pytest.mark.req("V2-72", "V2-73")
@each_case(("own", "taken"), [(8192, 5000), (5000, 8192), (8192, 8192), (5000, None)])
def test_no_send_is_longer_than_one_end_sends_and_the_other_receives(own: int, taken: int | None) -> None:
    config = TransportConfig(in_messages_octets_max=1 << 20, offered_send_octets=own)
    told = () if taken is None else ((RECEIVE_SIZE, word(taken)),)
    most = min(own, 4096 if taken is None else taken)
    peer = BareMessages(Role.CLIENT, config, *(told or ((SEND_SIZE, word(4096)),)), receive_octets=8192)
    peer.endpoint.call(XID, message(XID, CALL, (bytes(20_000), None)), NOTHING)
    peer.run()
    assert max(map(len, peer.received)) == most
    heard = peer.heard()
    assert b"".join(each.payload for each in heard) == struct.pack(">II", XID, CALL) + bytes(20_000)


@pytest.mark.req("V2-72")
@each_case(("sent", "results", "in_chunk"), [(4096, 3000, False), (2048, 3000, True), (2048, 1500, False)])
def test_a_reply_longer_than_the_peer_sends_is_given_a_chunk(sent: int, results: int, in_chunk: bool) -> None:
    peer = client((SEND_SIZE, word(sent)))
    peer.endpoint.call(XID, message(XID, CALL), ReplyBound(results))
    (heard,) = peer.heard()
    assert (heard.reply is not None) == in_chunk


# Segments


@pytest.mark.req("V2-74")
@each_case(("own", "taken", "most"), [(1 << 20, 2048, 2048), (1500, 2048, 1500), (1 << 20, 5000, 5000)])
def test_no_segment_is_longer_than_the_peer_takes(own: int, taken: int, most: int) -> None:
    config = TransportConfig(
        in_messages_octets_max=0, segment_octets_max=own, offered_send_octets=4096, offered_receive_octets=4096
    )
    peer = client((SEGMENT_SIZE, word(taken)), (SEGMENT_COUNT, word(100)), config=config)
    peer.endpoint.call(XID, CALL_WITH_ALL, ALL_BOUND)
    (heard,) = peer.heard()
    lengths = [[length for _, length, _ in chunk] for chunk in chunks_of(heard)]
    assert len(lengths) == 4, "a long call with an item, a Write chunk and a Reply chunk"
    for chunk in lengths:
        *full, last = chunk
        assert full == [most] * len(full)
        assert 0 < last <= most


@pytest.mark.req("V2-74", "V2-52")
@each_case("where", ["reads", "writes", "reply"])
def test_a_segment_longer_than_what_was_told_is_against_the_rules(where: str) -> None:
    peer = BareMessages(Role.SERVER, CHUNKS)
    most = int.from_bytes(peer.introduced[0].properties[SEGMENT_SIZE])
    region = peer.pd.register(bytearray(most + 1), Access(7))
    for length in (most + 1, most):
        segment = (region.handle, length, region.offset)
        entry = raw.read_segment(8, segment) if where == "reads" else raw.chunk(segment)
        peer.send(raw.message(XID, struct.pack(">II", XID, CALL), **{where: entry}))
        answers = [each.numbers for each in peer.heard() if each.numbers]
        assert answers == ([(raw.BAD_XDR,)] if length > most else [])
    assert len(calls_in(peer.endpoint_events())) == 1


@pytest.mark.req("V2-75")
@each_case("taken", [5, 6])
def test_no_call_has_more_segments_than_the_peer_takes(taken: int) -> None:
    peer = client((SEGMENT_SIZE, word(4096)), (SEGMENT_COUNT, word(taken)))
    # A Read chunk, a Write chunk and a Reply chunk of two segments each.
    payload, bound = message(XID, CALL, (b"", bytes(5000))), ReplyBound(4100, (5000,))
    if taken < 6:
        with pytest.raises(LocalProtocolError, match=r"6 segments, of which the peer takes 5.*use larger segments"):
            peer.endpoint.call(XID, payload, bound)
        assert not peer.endpoint_pd.regions
        assert peer.heard() == []
    else:
        peer.endpoint.call(XID, payload, bound)
        (heard,) = peer.heard()
        assert [len(chunk) for chunk in chunks_of(heard)] == [2, 2, 2]


# The reverse direction


LEVELS = list(ReverseSupport)


@pytest.mark.req("V2-76")
@each_case("level", LEVELS)
def test_reverse_calls_use_no_more_than_the_client_has_told(level: ReverseSupport) -> None:
    config = TransportConfig(in_messages_octets_max=0, offered_send_octets=4096, offered_receive_octets=4096)
    peer = BareMessages(Role.SERVER, config, (REVERSE_SUPPORT, word(LEVELS.index(level))), reverse=True)
    peer.endpoint.allow_reverse()
    payloads = {
        ReverseSupport.INLINE: message(XID, CALL),
        ReverseSupport.GENERAL: message(XID + 1, CALL, (b"", bytes(5000))),
    }
    for xid, (needed, payload) in enumerate(payloads.items(), start=XID):
        if LEVELS.index(level) >= LEVELS.index(needed):
            peer.endpoint.call(xid, payload, NOTHING)
        else:
            with pytest.raises(LocalProtocolError, match=r"takes no calls|needs chunks"):
                peer.endpoint.call(xid, payload, NOTHING)
    for each in peer.heard():
        assert bool(chunks_of(each)) <= (level is ReverseSupport.GENERAL)


@pytest.mark.req("V2-77")
def test_a_server_that_has_told_nothing_gets_replies_of_the_form_of_its_calls() -> None:
    peer = BareMessages(Role.CLIENT, CHUNKS, (RECEIVE_SIZE, word(4096)), reverse=True)
    target = peer.pd.register(bytearray(5000), Access(7))
    segment = (target.handle, 5000, target.offset)
    for xid, writes in ((1, b""), (2, raw.chunk(segment))):
        peer.send(raw.message(xid, struct.pack(">II", xid, CALL), writes=writes))
        (incoming,) = calls_in(peer.endpoint_events())
        peer.endpoint.reply(incoming, message(xid, REPLY, (b"", bytes(5000 if writes else 50))))
        (heard,) = peer.heard()
        peer.endpoint_events()
        assert (heard.kind, heard.flags, heard.xid) == (MSG, RESPONSE, xid)
        assert heard.writes == ([[segment]] if writes else [])


# Remote invalidation


@pytest.mark.req("V2-78")
@each_case("allowed", [True, False])
def test_a_call_lets_its_reply_invalidate_one_of_its_own_handles_or_none(allowed: bool) -> None:
    config = TransportConfig(
        in_messages_octets_max=0, remote_invalidation=allowed, offered_send_octets=4096, offered_receive_octets=4096
    )
    peer = client(config=config)
    for xid, (payload, bound) in enumerate(
        [
            (message(1, CALL, (b"", bytes(5000))), NOTHING),
            (message(2, CALL), NOTHING),
            (message(3, CALL), ReplyBound(9000)),
            (message(4, CALL), ReplyBound(0, (5000, 6000))),
            (message(5, CALL, (bytes(9000), None)), NOTHING),
        ],
        start=1,
    ):
        peer.endpoint.call(xid, payload, bound)
        (heard,) = peer.heard()
        handles = {handle for chunk in chunks_of(heard) for handle, _, _ in chunk}
        assert (heard.kind == NOMSG) == (xid == 5)
        assert heard.ends in (handles if allowed and handles else {0})


# Later changes


@pytest.mark.req("V2-A5", "V2-79")
@each_case("named", ["read", "first", "second", "reply", None])
def test_a_reply_invalidates_the_handle_that_its_call_names_wherever_that_stands(named: str | None) -> None:
    peer = BareMessages(Role.SERVER)
    regions = {name: peer.pd.register(bytearray(64), Access(7)) for name in ("read", "first", "second", "reply")}
    handles = {name: region.handle for name, region in regions.items()}
    segments = {name: (region.handle, 64, region.offset) for name, region in regions.items()}
    peer.post(
        raw.message(
            7,
            struct.pack(">II", 7, CALL),
            ends=0 if named is None else handles[named],
            reads=raw.read_segment(8, segments["read"]),
            writes=raw.chunk(segments["first"]) + raw.chunk(segments["second"]),
            reply=raw.chunk(segments["reply"]),
        )
    )
    peer.run()
    (incoming,) = calls_in(peer.endpoint_events())
    peer.endpoint.reply(incoming, message(7, REPLY))
    peer.run()
    assert peer.invalidated == [None if named is None else handles[named]]
    assert {name for name, handle in handles.items() if handle not in peer.pd.regions} == {named} - {None}
