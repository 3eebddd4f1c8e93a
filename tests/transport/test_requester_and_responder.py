"""Requester, responder and outbox of one connection, driven by their own methods."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, cast
from unittest.mock import Mock

import pytest

from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma.limits import CALL_ATTEMPTS_MAX, CONTINUED_OCTETS_MAX
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, counted_bits, made_call, message
from rpcrdma.transport import (
    CallArrived,
    CallFailed,
    CallForm,
    Closed,
    Extension,
    ReplyBound,
    Role,
    TransportConfig,
    TransportStatistics,
    offered,
)
from rpcrdma.transport.call import Call
from rpcrdma.transport.call_states import CallState
from rpcrdma.transport.carriers import Batcher, CallToCarry, CarriedCall, Carrier
from rpcrdma.transport.chunks import (
    NO_CHUNKS,
    ChunkLists,
    ReadChunk,
    Segment,
    WriteChunk,
    addressable,
    well_placed,
)
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.message import Cause, Inbound, Kind, Refusal
from rpcrdma.transport.private_data import PrivateData
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.session import JOIN_OCTETS_MAX, Session
from rpcrdma.verbs import Access
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from rpcrdma.wire.buffers import Buffer
from support.cases import each_case
from support.raw_calls import header, read_segment

CALL, REPLY = 0, 1


def read(position: int, *lengths: int) -> ReadChunk:
    return ReadChunk(position, tuple(Segment(1, length, 0) for length in lengths))


@each_case("length", range(1, 18))
def test_read_chunks_stand_side_by_side(length: int) -> None:
    """Each one ends at a multiple of four; the next one begins there or later."""
    end = 8 + length + -length % 4
    for inline in (8, None):
        whole = () if inline else (read(0, 8),)
        assert well_placed((*whole, read(8, length), read(end, 5)), inline)
        assert well_placed((read(end, 5), *whole, read(8, length)), inline)
        assert not well_placed((*whole, read(8, length), read(end - 4, 5)), inline)
        # Between them would be four octets of a stream that has only eight, before the first one.
        assert not well_placed((*whole, read(8, length), read(end + 4, 5)), inline)
    assert well_placed((read(8, length), read(end + 4, 5)), 12)
    assert not well_placed((read(8, length), read(end + 8, 5)), 12)


def test_read_chunks_stand_within_the_stream() -> None:
    assert well_placed((), 0)
    assert not well_placed((), None)
    assert well_placed((read(0, 20),), None)
    assert not well_placed((read(0, 20),), 20)
    assert not well_placed((read(4, 20),), None)
    assert well_placed((read(4, 20),), 4)
    assert well_placed((read(4, 20),), 8)
    assert not well_placed((read(8, 20),), 4)
    assert well_placed((read(0, 4, 4), read(8, 20)), None)
    assert not well_placed((read(0, 4, 3), read(8, 20)), None)


END = 1 << 64


@each_case(
    ("length", "offset", "fits"),
    [
        (100, 0, True),
        (101, 0, False),
        (100, END - 100, True),
        (100, END - 99, False),
        (1, END - 1, True),
        (1, END, False),
        (0, END, True),
        (0, 0, True),
    ],
)
def test_segments_have_a_size_and_an_end(length: int, offset: int, fits: bool) -> None:
    segment, good = Segment(1, length, offset), Segment(1, 1, 1)
    for chunks in (
        ChunkLists((ReadChunk(4, (segment,)),)),
        ChunkLists((ReadChunk(4, (good, segment)),)),
        ChunkLists((ReadChunk(4, (good,)), ReadChunk(8, (segment,)))),
        ChunkLists((), (WriteChunk((good, segment)),)),
        ChunkLists((), (WriteChunk((good,)), WriteChunk((segment,)))),
        ChunkLists((), (), WriteChunk((good, segment))),
        ChunkLists((), (WriteChunk((segment,)),), WriteChunk((good,))),
    ):
        assert addressable(chunks, 100) is fits
    assert addressable(NO_CHUNKS, 0)


@pytest.mark.req("V1-38", "V2-52")
@each_case(
    ("start", "taken"),
    [
        ((7, 0), True),
        ((7, 1), False),
        ((7, 1 << 8), False),
        ((7, 1 << 16), False),
        ((7, 1 << 24), False),
        ((6, 0), False),
        ((7 | 1 << 24, 0), False),
        ((7 << 8, 0), False),
    ],
)
def test_a_long_call_begins_with_its_xid_and_direction(start: tuple[int, int], taken: bool) -> None:
    peer = BarePeer(Role.SERVER)
    octets = struct.pack(">II", *start) + b"\xff" * 8
    region = peer.pd.register(bytearray(octets), Access.REMOTE_READ)
    answers = peer.send(header(reads=read_segment(0, region.handle, 16, region.offset), kind=1, xid=7))
    events = peer.endpoint_events()
    assert [type(event) for event in events] == [CallArrived] * taken
    assert [answer[12:20] for answer in answers] == [struct.pack(">II", 4, 2)] * (not taken)


@each_case("octets", [1, 4, 5, 6, 7, 8, 9])
def test_a_long_call_has_eight_octets_at_least(octets: int) -> None:
    peer = BarePeer(Role.SERVER)
    region = peer.pd.register(bytearray(struct.pack(">III", 7, 0, 0)), Access.REMOTE_READ)
    peer.send(header(reads=read_segment(0, region.handle, octets, region.offset), kind=1, xid=7))
    assert [type(event) for event in peer.endpoint_events()] == [CallArrived] * (octets >= 8)


@each_case("octets", [0, 16384 - 100, 16384 - 36, 16384 - 32, 16384, 30000])
def test_an_answered_call_holds_no_memory_of_messages(octets: int) -> None:
    large = TransportConfig(inline_send_octets=65536, inline_receive_octets=65536)
    pair = EndpointPair(large, large).connect()
    pair.client.call(7, message(7, CALL, (bytes(octets), None)), ReplyBound(8))
    (incoming,) = pair.arrived()
    responder = pair.server.responder
    assert responder is not None
    held = 65536 if octets + 36 > 16384 else 0
    assert (responder._memory._octets, incoming.message_octets) == (held, held)
    assert responder.unanswered == 1
    pair.server.reply(incoming, message(7, REPLY))
    assert (responder._memory._octets, incoming.message_octets) == (0, 0)
    assert responder.unanswered == 0
    assert incoming.answered
    with pytest.raises(LocalProtocolError, match="0x00000007 has been answered"):
        pair.server.reply(incoming, message(7, REPLY))
    for again in (pair.server.fail_call, pair.server.drop):
        with pytest.raises(LocalProtocolError, match="0x00000007 has been answered"):
            again(incoming)


def called(*arguments: int) -> tuple[BarePeer, Requester, Call]:
    peer = BarePeer(Role.CLIENT)
    parts = [(b"", bytes(octets)) for octets in arguments]
    handle = peer.endpoint.call(7, message(7, CALL, *parts), ReplyBound(8))
    peer.run()
    requester = peer.endpoint.requester
    assert requester is not None
    return peer, requester, handle


def refusal(cause: Cause) -> Inbound:
    return Inbound(Kind.ERROR, 7, 9, 1, refusal=Refusal(cause))


def not_taken(xid: int) -> Inbound:
    return Inbound(Kind.ERROR, xid, 9, 1, refusal=NOT_TAKEN)


def test_nothing_of_its_first_form_is_left_of_a_call_that_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, requester, handle = called(5000, 6000)
    assert handle.chunks.reads
    assert handle.exposure is not None
    handle.ends, handle.long = 5, True
    sent = []

    def send(again: Call) -> bool:
        sent.append((again is handle, again.chunks, again.ends, again.long, again.exposure, again.state))
        return True

    monkeypatch.setattr(type(peer.endpoint._outbox), "send", lambda _, again, _requester: send(again))
    assert requester.on_refused(refusal(Cause.READ_CHUNKS), None)
    assert sent == [(True, NO_CHUNKS, None, False, None, CallState.QUEUED)]
    assert (handle.form.attempts, handle.form.one_chunk) == (2, True)


class Carried:
    """A call in messages of an extension, which goes out again without the extension if it was not taken."""

    def __init__(self) -> None:
        self.ends = 0

    def form_after(self, refusal: Refusal, form: CallForm, after: CallForm | None) -> CallForm | None:
        assert (refusal, after) == (NOT_TAKEN, None)
        return form._replace(attempts=form.attempts + 1, plain=True) if form.attempts < CALL_ATTEMPTS_MAX else None

    def end(self) -> None:
        self.ends += 1


NOT_TAKEN = Refusal(Cause.EXTENSION, code=0x104)


@each_case("attempts", [1, CALL_ATTEMPTS_MAX - 1, CALL_ATTEMPTS_MAX])
def test_a_call_that_the_peer_has_not_taken_goes_again_without_the_extension(attempts: int) -> None:
    peer, requester, handle = called()
    handle.carried = carried = cast("Any", Carried())
    assert requester.carried(7) is carried
    handle.form = handle.form._replace(attempts=attempts)
    failed = attempts == CALL_ATTEMPTS_MAX
    assert requester.on_refused(not_taken(7), None)
    assert carried.ends == 1
    peer.run()
    assert (handle.form.attempts, handle.form.plain) == ((attempts, False) if failed else (attempts + 1, True))
    statistics = peer.endpoint.statistics
    assert (statistics.resent_plain, statistics.calls_failed) == ((0, 1) if failed else (1, 0))
    assert len(peer.received) == (1 if failed else 2)
    assert [type(event) for event in peer.endpoint_events()] == [CallFailed] * failed
    assert not requester.on_refused(not_taken(8), None)


END_OF_CALL: dict[str, Callable[[Requester], object]] = {
    "answered": lambda requester: requester.on_reply(Inbound(Kind.REPLY, 7, 9, 1), None),
    "refused": lambda requester: requester.on_refused(refusal(Cause.HEADER), None),
    "failed": lambda requester: requester.fail(7, RemoteProtocolError("theirs")),
    "not taken": lambda requester: requester.on_refused(not_taken(7), None),
}


@each_case("end", END_OF_CALL)
@each_case("abandoned", [False, True])
def test_a_call_that_waits_goes_out_when_another_has_ended(end: str, abandoned: bool) -> None:
    peer, requester, handle = called()
    peer.endpoint.call(8, message(8, CALL), ReplyBound(8))
    peer.run()
    assert len(peer.received) == 1
    assert (peer.endpoint._outbox.queued, requester.in_flight) == (1, 1)
    assert requester.carried(8) is None
    if abandoned:
        peer.endpoint.abandon(handle)
        handle.carried = cast("CarriedCall", Carried())
    assert END_OF_CALL[end](requester) is True
    assert (peer.endpoint._outbox.queued, requester.in_flight) == (0, 1)
    assert len(peer.endpoint_events()) == (0 if abandoned else 1)
    peer.run()
    assert [octets[:4] for octets in peer.received] == [struct.pack(">I", xid) for xid in (7, 8)]


@each_case("end", ["answered", "refused", "failed"])
def test_a_call_whose_memory_stays_open_ends_with_the_connection(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def invalidate(*_: object) -> None:
        raise LocalProtocolError("the provider cannot")

    peer, requester, handle = called(5000)
    monkeypatch.setattr(type(peer.endpoint_pd), "invalidate", invalidate)
    assert END_OF_CALL[end](requester) is True
    assert (peer.endpoint_events(), handle.state) == ([], CallState.SENT)
    peer.run()
    failed, closed = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert isinstance(closed, Closed)
    assert str(failed.error) == closed.reason == "memory cannot be invalidated: the provider cannot"


class Batching:
    """Takes up to three messages, of up to 40 octets with four for each and four more."""

    header_type = 64
    messages_max = 3
    body_octets_max = 40

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.encoded: list[list[int]] = []
        self.calls: list[list[int]] = []

    def body_octets(self, octets: int, messages: int) -> int:
        self.asked.append((octets, messages))
        assert len(self.asked) < 20, "the same messages are looked at again and again"
        return 4 + 4 * messages + octets

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        self.encoded.append([len(each) for each in messages])
        return b"body"

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        self.calls.append(list(xids))


def ready_to_batch() -> tuple[EndpointPair, Batching]:
    """A client with credits for many calls, whose short calls wait for the end of the turn."""
    pair = EndpointPair(version="2").connect()
    pair.client.call(1, message(1, CALL), ReplyBound(8))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY))
    pair.run()
    pair.client_events()
    batcher = Batching()
    pair.client._session.batcher = cast("Batcher", batcher)
    return pair, batcher


@each_case(
    ("lengths", "asked", "together"),
    [
        ((8, 8), [(8, 1), (16, 2)], [2, 3]),
        ((8, 12), [(8, 1), (20, 2)], [2, 3]),
        ((8, 20), [(8, 1), (28, 2)], [2, 3]),
        ((8, 24), [(8, 1), (32, 2)], []),
        ((8, 8, 8), [(8, 1), (16, 2), (24, 3)], [2, 3, 4]),
        ((8, 8, 12), [(8, 1), (16, 2), (28, 3)], [2, 3]),
        ((8, 8, 8, 8), [(8, 1), (16, 2), (24, 3)], [2, 3, 4]),
    ],
)
def test_as_many_calls_go_together_as_their_message_has_room_for(
    lengths: tuple[int, ...], asked: list[tuple[int, int]], together: list[int]
) -> None:
    pair, batcher = ready_to_batch()
    outbox = pair.client._outbox
    sent = outbox.posted
    for xid, length in enumerate(lengths, 2):
        pair.client.call(xid, message(xid, CALL, (bytes(length - 8), None)), ReplyBound(8))
    assert (outbox.queued, outbox.posted) == (len(lengths), sent)
    outbox.send_held()
    assert batcher.asked[: len(asked)] == asked
    assert batcher.calls[:1] == ([together] if together else [])
    assert batcher.encoded[:1] == ([list(lengths[: len(together)])] if together else [])
    assert outbox.queued == 0
    alone = len(lengths) - len(together)
    assert outbox.posted == sent + bool(together) + alone


@pytest.mark.req("V2-4")
def test_calls_that_go_together_wait_for_a_credit() -> None:
    pair, batcher = ready_to_batch()
    window = pair.client._session.window
    for xid, window.balance, together in ((2, 0, []), (3, 0, []), (4, 1, [[2, 3, 4]])):
        pair.client.call(xid, message(xid, CALL), ReplyBound(8))
        pair.client._outbox.send_held()
        assert batcher.calls == together


def test_calls_of_version_1_have_messages_of_their_own() -> None:
    peer = BarePeer(Role.CLIENT, extensions=[Extension(name="joins")])
    peer.endpoint.extensions["joins"].batch(cast("Batcher", Batching()))
    assert not peer.endpoint.holds
    peer.endpoint._session.window.in_flight = -9
    for xid in (7, 8):
        peer.endpoint.call(xid, message(xid, CALL), ReplyBound(8))
    assert (peer.endpoint._outbox.queued, peer.endpoint._outbox.posted) == (0, 2)


@each_case(
    ("send", "receive", "segments", "fits"),
    [(1024, 4096, 59, True), (1024, 4096, 60, False), (4096, 1024, 62, True), (4096, 1024, 63, False)],
)
def test_the_headers_of_call_and_reply_have_room_in_their_messages(
    send: int, receive: int, segments: int, fits: bool
) -> None:
    """A call with a Position-Zero chunk of two segments where messages are small, and a Reply chunk of so many."""
    config = TransportConfig(inline_send_octets=send, inline_receive_octets=receive, segment_octets_max=1000)
    server = TransportConfig(inline_send_octets=receive, inline_receive_octets=send)
    pair = EndpointPair(config, server).connect()
    payload = message(7, CALL, (bytes(1200 if send == 1024 else 0), None))
    bound = ReplyBound(1000 * segments - 32)
    if fits:
        handle = pair.client.call(7, payload, bound)
        assert handle.chunks.reply is not None
        assert len(handle.chunks.reply.segments) == segments
        assert [len(chunk.segments) for chunk in handle.chunks.reads] == ([2] if send == 1024 else [])
    else:
        with pytest.raises(LocalProtocolError, match="a transport header of"):
            pair.client.call(7, payload, bound)
        assert not pair.client_pd.regions
        assert pair.client.calls_in_flight == 0


@each_case(("balance", "more", "by_rdma"), [(7, -4, 0), (7, 0, 1), (8, 0, 0), (6, -4, 1)])
def test_a_far_call_goes_in_messages_where_there_are_credits_for_all_of_them(
    balance: int, more: int, by_rdma: int
) -> None:
    """Six have room for just so many octets, of which the first has its credit; with the header there may be more."""
    pair = EndpointPair(version="2").connect()
    session = pair.client._session
    pair.client.round_trip_s = 20e-3
    assert session.send_octets == 36_864
    session.window.balance = balance
    argument = bytes(6 * (36_864 - 36) + more - 12)
    pair.client.call(7, message(7, CALL, (b"", argument)), ReplyBound(8))
    statistics = pair.client.statistics
    assert (statistics.calls_read_chunk, statistics.messages_continued) == (by_rdma, 1 - by_rdma)


@each_case(("version", "splits"), [("1", False), ("2", True)])
@each_case("role", list(Role))
def test_a_session_begins_with_nothing_but_its_version(version: str, splits: bool, role: Role) -> None:
    pd, other = SoftwareProtectionDomain(counted_bits(1)), SoftwareProtectionDomain(counted_bits(2))
    qp, _ = LoopbackQueuePair.pair(pd, other)
    (dialect,) = offered(version)
    session = Session(qp, pd, TransportConfig(segment_octets_max=2000), role, dialect, reverse=False)
    assert [name for name in Session.__slots__ if not hasattr(session, name)] == []
    assert session._reservable == (31 if role is Role.CLIENT else 0), "the messages of the longest continued reply"
    assert session.segment_octets_taken == ((1 << 20) if splits else (1 << 32) - 1)
    assert (session.splits, session.state, session.failure, session.owed) == (splits, State.CONNECTING, "", 0)
    assert (session.proof, session.refusal, session.batcher, session.between) == (None,) * 4
    assert (session.round_trip_s, session.unfinished, session.peer, list(session.events)) == (0.0, 0, None, [])
    assert session.reverse_support is ReverseSupport.NONE
    assert session.segment_octets_possible == (1 << 20 if splits else 2000)
    assert session.statistics == TransportStatistics()
    first = (session.send_octets, session.receive_octets)
    assert first == ((4096, 4096) if splits else (1024, 1024))
    session.limit_first_message()
    limited = (1024, 4096) if splits and role is Role.CLIENT else first
    assert (session.send_octets, session.receive_octets) == limited
    session.agree(PrivateData(True, 3072, 2048))
    assert (session.send_octets, session.receive_octets) == ((4096, 4096) if splits else (2048, 3072))


@each_case(("octets", "splits"), [(0, False), (1, True)])
def test_messages_are_split_where_pieces_have_a_header(
    octets: int, splits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = SoftwareProtectionDomain(counted_bits(1))
    qp, _ = LoopbackQueuePair.pair(pd, SoftwareProtectionDomain(counted_bits(2)))
    (dialect,) = offered("2")
    monkeypatch.setattr(type(dialect), "geometry", dialect.geometry._replace(piece_header=octets))
    session = Session(qp, pd, TransportConfig(), Role.CLIENT, dialect, reverse=False)
    assert session.splits is splits


@each_case(
    ("support", "octets"),
    [
        (ReverseSupport.NONE, (9000, CONTINUED_OCTETS_MAX)),
        (ReverseSupport.INLINE, (0, 0)),
        (ReverseSupport.GENERAL, (9000, CONTINUED_OCTETS_MAX)),
    ],
)
def test_a_client_answers_in_several_messages_only_where_it_told_so(
    support: ReverseSupport, octets: tuple[int, int]
) -> None:
    config = TransportConfig(in_messages_octets_max=9000)
    pair = EndpointPair(config, config, version="2", reverse=True)
    for endpoint, expected in ((pair.client, octets), (pair.server, (9000, CONTINUED_OCTETS_MAX))):
        endpoint._session.reverse_support = support
        assert endpoint.responder is not None
        assert endpoint.responder._continued == expected
    without = EndpointPair(server=TransportConfig(in_messages_octets_max=0), version="2").server.responder
    assert without is not None
    assert without._continued == (0, CONTINUED_OCTETS_MAX)


class Asked:
    """A carrier that leaves every call to the version, and remembers it."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self.calls: list[CallToCarry] = []

    def take(self, call: CallToCarry) -> None:
        self.calls.append(call)


@each_case("eager", [False, True])
@each_case("placement", ["", "send"])
@each_case(
    ("items", "buffers", "sizes", "given"),
    [
        ((), (), [], 0),
        ((5000, 6000), (), [5000, 6000], 0),
        ((5000, 6000), (4000,), [4000, 6000], 1),
        ((5000, 6000), (None, 7000), [5000, 6000], 2),
        ((5000, 6000), (None, 3000), [5000, 3000], 2),
        ((5000, 6000), (None, None), [5000, 6000], 0),
        ((5000,), (4000, 3000), [4000], 1),
        ((500,), (), [500], 0),
    ],
)
def test_a_carrier_is_asked_about_a_call_as_it_stands(
    eager: bool, placement: str, items: tuple[int, ...], buffers: tuple[int | None, ...], sizes: list[int], given: int
) -> None:
    peer = BarePeer(Role.CLIENT)
    requester, session = peer.endpoint.requester, peer.endpoint._session
    assert requester is not None
    carrier = Asked(eager=eager)
    requester.carrier = cast("Carrier", carrier)
    into = [None if octets is None else memoryview(bytearray(octets)) for octets in buffers]
    payload = message(7, CALL, (b"", bytes(100)))
    handle = peer.endpoint.call(7, payload, ReplyBound(8, items), into, placement)
    asked = eager or bool(placement) or sum(sizes) > 4096
    expected = CallToCarry(payload, 8, tuple(sizes), given, session.plan_limits, session.window.balance, placement)
    assert carrier.calls == ([expected] if asked else [])
    assert handle.carried is None
    assert handle.state is CallState.SENT


@each_case(("results", "held"), [(-1, True), (0, True), (1, False)])
@each_case(("plain", "fits"), [(0, True), (-4, True), (4, False)])
def test_only_calls_that_are_sure_to_go_inline_are_held(results: int, held: bool, plain: int, fits: bool) -> None:
    pair, _ = ready_to_batch()
    session, outbox = pair.client._session, pair.client._outbox
    most = min(session.call_octets, JOIN_OCTETS_MAX)
    octets = most - 8 + plain if plain else 8
    sent = outbox.posted
    bound = ReplyBound(session.results_octets + results)
    pair.client.call(9, message(9, CALL, (bytes(octets), None)), bound)
    assert (outbox.queued, outbox.posted) == ((1, sent) if held and fits else (0, sent + 1))
    pair.client.call(10, message(10, CALL, (bytes(most - 8), None)), ReplyBound(8))
    assert outbox.queued >= 1
    assert outbox.waiting(Kind.CALL) == outbox.queued


def test_a_call_that_is_withdrawn_waits_no_more() -> None:
    peer, requester, _ = called()
    waiting = [peer.endpoint.call(xid, message(xid, CALL), ReplyBound(8)) for xid in (8, 9)]
    outbox = peer.endpoint._outbox
    assert (outbox.queued, outbox.waiting(Kind.CALL), requester.in_flight) == (2, 2, 1)
    peer.endpoint.abandon(waiting[0])
    assert (outbox.queued, outbox.waiting(Kind.CALL), requester.in_flight) == (1, 1, 1)
    peer.endpoint.abandon(waiting[1])
    assert (outbox.queued, outbox.waiting(Kind.CALL), requester.in_flight) == (0, 0, 1)
    assert peer.endpoint.statistics.calls_abandoned == 0


def test_a_call_is_withdrawn_without_a_look_at_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands that are cancelled in any order, each would be compared with half of the others."""
    peer, requester, _ = called()
    waiting = [made_call(xid, message(xid, CALL), ReplyBound(8)) for xid in (8, 9, 10)]
    for call in waiting:
        call.began_ns = 1
        requester.start(call)
    monkeypatch.setattr(Call, "__eq__", Mock(side_effect=AssertionError), raising=False)
    for index in (2, 1, 0):
        assert list(map(id, requester.untimed)) == list(map(id, waiting[: index + 1]))
        requester.abandon(waiting[index])
        assert peer.endpoint._outbox.waiting(Kind.CALL) == index
