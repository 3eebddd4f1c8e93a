"""Every Send of both ends in version 2, taken apart word by word without the transport's own decoders."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest

from rpcrdma.testing.endpoint_pair import EndpointPair, calls_in, message
from rpcrdma.transport import CallArrived, Ready, ReplyArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.memory import Access
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import CONNPROP, ERROR, MORE, MSG, NOMSG, RESPONSE, HeardMessage

CALL, REPLY = 0, 1
SMALL = {"offered_send_octets": 4096, "offered_receive_octets": 4096}
CHUNKS = TransportConfig(in_messages_octets_max=0, **SMALL)
CONTINUED = TransportConfig(in_messages_octets_max=1 << 20, credits_requested=2, credits_granted=2, **SMALL)
SIZES = list(itertools.product((0, 9001), (0, 9000), (0, 9001), (0, 9000)))
NOTHING = ReplyBound(0)


class Sent:
    """The messages of both ends of a pair: the sender, the octets, and the handle that goes with them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[tuple[object, bytes, int | None]] = []
        post_send = LoopbackQueuePair.post_send

        def recorded(queue_pair: LoopbackQueuePair, wr: object, gather: Any, **options: Any) -> None:
            self.all.append((queue_pair, b"".join(gather), options.get("invalidate")))
            post_send(queue_pair, wr, gather, **options)

        monkeypatch.setattr(LoopbackQueuePair, "post_send", recorded)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


def converse(pair: EndpointPair, sizes: list[tuple[int, ...]] = SIZES) -> None:
    """A call and its reply for each of `sizes`, which are those of plain octets and items."""
    for xid, (argument, plain, result, body) in enumerate(sizes, start=1 << 20):
        pair.client.call(xid, message(xid, CALL, (bytes(plain), bytes(argument))), ReplyBound(body + 4, (result,)))
        (incoming,) = pair.arrived()
        pair.server.reply(incoming, message(xid, REPLY, (bytes(body), bytes(result))))
        pair.run()
        pair.server_events()
        assert [type(event) for event in pair.client_events()] == [ReplyArrived]


@pytest.mark.req("V2-1", "V2-2", "V2-14", "V2-28", "V2-31", "V2-35", "V2-37", "V2-38", "V2-43", "V2-48", "V2-68")
@each_case("config", [CHUNKS, CONTINUED])
def test_each_send_has_a_header_and_the_rest_is_one_rpc_message_after_another(
    sent: Sent, config: TransportConfig
) -> None:
    sent.all.clear()
    pair = EndpointPair(config, config, version="2").connect()
    converse(pair)
    kinds = set()
    ends = {pair.client_qp: (CALL, 0), pair.server_qp: (REPLY, RESPONSE)}
    streams: dict[object, bytes] = {}
    for sender, octets, _ in sent.all:
        direction, response = ends[sender]
        heard = HeardMessage(octets)
        kinds.add((direction, heard.kind))
        if heard.kind == CONNPROP or (heard.kind, heard.xid) == (NOMSG, 0):
            assert not heard.flags
            continue
        more = heard.flags & MORE
        assert heard.flags == response | more
        if more:
            assert (heard.kind, heard.reads, heard.writes, heard.reply, heard.ends) == (MSG, [], [], None, 0)
        if heard.kind == NOMSG:
            assert heard.payload == b""
            at_zero = [segment[1] for position, segment in heard.reads if position == 0]
            chunk = at_zero if direction == CALL else [segment[1] for segment in heard.reply or ()]
            assert sum(chunk) % 4 == 0, "whole payloads keep their padding"
            assert bool(chunk)
            continue
        assert not any(position == 0 for position, _ in heard.reads)
        stream = streams.pop(sender, b"") + heard.payload
        # All of one message, before any of another: each begins with its own XID.
        assert stream[:8] == struct.pack(">II", heard.xid, direction)
        if more:
            streams[sender] = stream
    assert not streams
    expected = {(CALL, CONNPROP), (REPLY, CONNPROP), (CALL, MSG), (REPLY, MSG)}
    if config is CHUNKS:
        assert kinds == expected | {(CALL, NOMSG), (REPLY, NOMSG)}
    else:
        assert expected <= kinds <= expected | {(CALL, NOMSG), (REPLY, NOMSG)}, "a grant is a NOMSG"
        assert pair.client.statistics.messages_continued == pair.server.statistics.messages_continued == 12
    assert ERROR not in {kind for direction, kind in kinds if direction == CALL}


@pytest.mark.req("V2-2", "V2-44")
def test_a_call_that_goes_on_for_want_of_credits_has_no_other_among_its_pieces() -> None:
    peer = BareMessages(Role.CLIENT, CONTINUED, give=3)
    for xid in (1, 2):
        peer.endpoint.call(xid, message(xid, CALL, (bytes([xid]) * 20_000, None)), NOTHING)
    heard = peer.heard()
    assert [each.xid for each in heard] == [1, 1, 1]
    for _ in range(6):
        peer.send(raw.grant(2))
        heard += peer.heard()
    told = [each for each in heard if each.kind == MSG]
    payloads = {xid: b"".join(each.payload for each in told if each.xid == xid) for xid in (1, 2)}
    for xid, payload in payloads.items():
        assert payload == struct.pack(">II", xid, CALL) + bytes([xid]) * 20_000
    assert [each.xid for each in told] == sorted(each.xid for each in told)
    assert [bool(each.flags & MORE) for each in told] == ([True] * 4 + [False]) * 2


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


@pytest.mark.req("V2-8")
@each_case("version", ["2", "auto"])
@each_case("role", Role)
def test_every_end_takes_messages_of_4096_octets_from_the_first_on(role: Role, version: str) -> None:
    config = TransportConfig(inline_receive_octets=1024, **SMALL)
    peer = BareMessages(role, config, introduce=False, versions=version)
    start = raw.properties((2, raw.word(4096)), (0xBEEF, b""), give=9)
    peer.send(raw.properties((2, raw.word(4096)), (0xBEEF, bytes(4096 - len(start))), give=9))
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    peer.heard()
    payload = struct.pack(">II", 7, CALL if role is Role.SERVER else REPLY) + bytes(4096 - 36 - 8)
    if role is Role.CLIENT:
        peer.endpoint.call(7, message(7, CALL), NOTHING)
        peer.send(raw.message(7, payload, RESPONSE))
        (event,) = peer.endpoint_events()
        assert isinstance(event, ReplyArrived)
        decoder = event.decoder
    else:
        peer.send(raw.message(7, payload))
        (event,) = peer.endpoint_events()
        assert isinstance(event, CallArrived)
        decoder = event.incoming.decoder
    assert decoder.octets(len(payload), "all") == payload


@pytest.mark.req("V2-6")
@each_case(("granted", "made"), [(1, 3), (5, 2), (8, 8)])
def test_headers_give_credits_for_calls_of_the_peer_and_for_answers_to_calls_of_this_end(
    granted: int, made: int
) -> None:
    config = TransportConfig(credits_granted=granted, reverse_credits_requested=made, **SMALL)
    peer = BareMessages(Role.SERVER, config, reverse=True, introduce=False)
    peer.send(raw.properties((5, raw.word(1)), give=1 + made))
    peer.endpoint_events()
    assert sum(each.give for each in peer.heard()) == granted + 1, "one is over and above"
    for xid in range(1, granted + 1):
        peer.send(raw.message(xid, struct.pack(">II", xid, CALL), give=1))
    assert peer.heard() == [], "nothing is given for a call that is not answered"
    for incoming in calls_in(peer.endpoint_events()):
        peer.endpoint.reply(incoming, message(incoming.xid, REPLY))
        (heard,) = peer.heard()
        assert heard.give == 1
    peer.endpoint.allow_reverse()
    for xid in range(made):
        peer.endpoint.call(xid, message(xid, CALL), NOTHING)
        (heard,) = peer.heard()
        assert heard.give == 1, "the answer needs one"
    for xid in range(made):
        peer.send(raw.message(xid, struct.pack(">II", xid, REPLY), RESPONSE))
    assert peer.heard() == [], "the answers have used them up"


@pytest.mark.req("V2-6", "V2-4")
def test_a_peer_that_gives_fewer_credits_than_before_is_sent_fewer_calls() -> None:
    peer = BareMessages(Role.CLIENT, TransportConfig(credits_requested=64, **SMALL), give=9)
    for xid in range(1, 21):
        peer.endpoint.call(xid, message(xid, CALL), NOTHING)
    sent = [each.xid for each in peer.heard() if each.xid]
    assert sent == list(range(1, 9))
    for answered, (give, more) in enumerate(((0, 1), (0, 0), (0, 0), (1, 1), (0, 0), (3, 3), (2, 2)), start=1):
        peer.send(raw.message(answered, struct.pack(">II", answered, REPLY), RESPONSE, give=give))
        assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
        assert len([each for each in peer.heard() if each.xid]) == more
