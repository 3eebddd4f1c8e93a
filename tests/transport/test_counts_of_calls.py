"""Counters of calls without a usual answer, and of Sends, also under the names that Linux has for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.nfs import v3
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, made_call, message
from rpcrdma.transport import (
    Call,
    CallArrived,
    CallFailed,
    ChunkLists,
    ReadChunk,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    Role,
    Segment,
    TransportConfig,
    TransportStatistics,
    WriteChunk,
    add_up,
    linux_counters,
)
from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.outbox import UNFINISHED_SELDOM
from rpcrdma.transport.session import JOIN_OCTETS_MAX
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder
from support.cases import each_case
from support.functions_entered import functions_entered
from support.octets import words

CALL, REPLY = 0, 1


def counted(statistics: TransportStatistics) -> dict[str, int]:
    return {name: count for name, count in asdict(statistics).items() if count}


def client() -> tuple[BarePeer, Call]:
    """One that has sent its first call, with an argument in a Read chunk."""
    peer = BarePeer(Role.CLIENT)
    handle = peer.endpoint.call(7, message(7, CALL, (b"", bytes(5000))), ReplyBound(8))
    peer.run()
    return peer, handle


CALLED = {"sends": 1, "calls_read_chunk": 1, "registrations": 1, "segments_read": 1}
ANSWERED = CALLED | {"calls": 1, "receives": 1}


def test_answers_to_no_call_are_counted_and_dropped() -> None:
    peer, _ = client()
    peer.send(words(8, 1, 9, 0, 0, 0, 0, 8, REPLY))
    peer.send(words(8, 1, 9, 4, 2))
    assert counted(peer.endpoint.statistics) == CALLED | {"receives": 2, "bad_xids": 2, "discarded": 2}


def test_a_reply_with_chunks_that_were_not_offered_is_counted_as_bad() -> None:
    peer, handle = client()
    peer.send(words(7, 1, 9, 0, 0, 1, 1, 5, 6, 0, 7, 0, 0, 7, REPLY))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallFailed)
    assert event.call is handle
    assert counted(peer.endpoint.statistics) == ANSWERED | {"calls_failed": 1, "bad_replies": 1}


def test_a_refused_call_is_counted_as_failed_and_an_abandoned_one_once() -> None:
    peer, _ = client()
    assert counted(peer.endpoint.statistics) == CALLED
    peer.send(words(7, 1, 9, 4, 2))
    assert counted(peer.endpoint.statistics) == ANSWERED | {"calls_failed": 1}
    peer, handle = client()
    for _ in range(2):
        peer.endpoint.abandon(handle)
        assert counted(peer.endpoint.statistics) == CALLED | {"calls_abandoned": 1}
    peer.send(words(7, 1, 9, 0, 0, 0, 0, 7, REPLY))
    found = counted(peer.endpoint.statistics)
    assert (found["calls_abandoned"], found["calls"], found["receives"]) == (1, 1, 1)
    assert peer.endpoint_events()[1:] == []


def test_a_call_that_fits_no_message_is_counted_as_unsendable_and_leaves_nothing() -> None:
    peer = BarePeer(Role.CLIENT, TransportConfig(segment_octets_max=1000))
    unfit = [
        (5000, (bytes(5000),), "writable"),
        # 28 octets, 8 and 16 for each segment of the Write chunk, 20 for a Reply chunk, 24 for a Read chunk.
        (260_000, (), "a transport header of 4240 octets: use larger segments"),
    ]
    for count, (octets, into, told) in enumerate(unfit, 1):
        with pytest.raises(LocalProtocolError, match=told):
            peer.endpoint.call(7, message(7, CALL), ReplyBound(8, (octets,)), into)
        assert counted(peer.endpoint.statistics) == {"calls_unsendable": count}
        assert linux_counters(peer.endpoint.statistics)["failed_marshal"] == count
        assert (peer.endpoint.calls_in_flight, peer.endpoint_pd.regions) == (0, {})


def test_calls_in_the_reverse_direction_are_counted() -> None:
    peer = BarePeer(Role.CLIENT, reverse=True)
    peer.send(words(8, 1, 9, 0, 0, 0, 0, 8, CALL))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallArrived)
    peer.endpoint.reply(event.incoming, message(8, REPLY))
    peer.run()
    expected = {"reverse_calls": 1, "receives": 1, "sends": 1, "calls": 1, "calls_short": 1}
    assert counted(peer.endpoint.statistics) == expected


@each_case(
    ("octets", "unfinished", "in_use"),
    [(4096, 0, False), (4096, 25, False), (8192, 25, True), (32768, 24, False), (33280, 0, True)],
)
def test_an_inline_reply_needs_no_completion_to_release_the_memory_of_its_data(
    octets: int, unfinished: int, in_use: bool
) -> None:
    """Beside larger ones that the peer does not read, a copy would take memory that nothing bounds."""
    pair = EndpointPair(version="2").connect()
    pair.client.call(7, message(7, CALL), ReplyBound(8, (octets,)))
    (incoming,) = pair.arrived()
    data = bytearray(b"x" * octets)
    outbox = pair.server._outbox
    outbox.ended = outbox.posted - unfinished
    assert pair.server.reply(incoming, message(7, REPLY, (b"", data))) is in_use
    if not in_use:
        data[:] = bytes(octets)
    pair.run()
    assert [type(event) for event in pair.server_events()] == [ReplySent] * in_use
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    assert (event.decoder.u32("xid"), event.decoder.u32("direction")) == (7, REPLY)
    assert event.decoder.bulk(octets, "data") == b"x" * octets


@each_case(
    ("octets", "parts"),
    [
        (36_828, [36_828]),
        (36_832, [36_824, 8]),
        (36_836, [36_828, 8]),
        (36_840, [36_828, 12]),
        (73_656, [36_828, 36_828]),
        (73_660, [36_828, 36_824, 8]),
    ],
)
def test_the_last_send_of_a_message_has_eight_octets_of_it_or_more(
    octets: int, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    post_send = LoopbackQueuePair.post_send

    def posted(qp: LoopbackQueuePair, wr: object, gather: Sequence[Buffer], **options: Any) -> None:
        sent.append(sum(map(len, gather)) - 36)
        post_send(qp, wr, gather, **options)

    pair = EndpointPair(version="2").connect()
    monkeypatch.setattr(LoopbackQueuePair, "post_send", posted)
    pair.client.call(7, message(7, CALL, (bytes(octets - 8), None)), ReplyBound(8))
    assert sent == parts
    statistics = pair.client.statistics
    assert (statistics.pieces_sent, statistics.messages_continued) == (len(parts) - 1, len(parts) > 1)


def test_one_send_in_sixteen_reports_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    signaled = []
    post_send = LoopbackQueuePair.post_send

    def posted(qp: LoopbackQueuePair, wr: object, gather: Sequence[Buffer], **options: Any) -> None:
        signaled.append(options.get("signaled", True))
        assert wr == ((len(signaled), None) if signaled[-1] else None)
        post_send(qp, wr, gather, **options)

    peer = BarePeer(Role.SERVER)
    monkeypatch.setattr(LoopbackQueuePair, "post_send", posted)
    outbox = peer.endpoint._outbox
    assert (outbox.posted, outbox.ended) == (0, 0)
    for xid in range(1, 50):
        incoming = IncomingCall(xid, Decoder(b""))
        incoming.ready = bytes(message(xid, REPLY).reduced)
        outbox.send(incoming)
        assert (outbox.posted, outbox.queued) == (xid, 0)
    assert [number for number, each in enumerate(signaled, 1) if each] == [16, 32, 48]
    peer.run()
    assert (outbox.posted, outbox.ended) == (49, 48)


@each_case(("granted", "calls", "most"), [(1, 0, 18), (1, 1, 20), (10, 0, 36), (10, 1, 38)])
def test_a_peer_may_leave_unread_twice_the_calls_of_both_and_some_more(granted: int, calls: int, most: int) -> None:
    window = CallWindow(8, granted, promised=False)
    for _ in range(calls):
        assert window.admit(made_call(1, message(1, CALL), ReplyBound(8), ())) == 8
    assert window.may_owe(most + SPARE_RECEIVES)
    assert not window.may_owe(most + SPARE_RECEIVES + 1)


@each_case("unfinished", [UNFINISHED_SELDOM, UNFINISHED_SELDOM + 1])
def test_a_peer_that_gave_one_credit_may_leave_some_sends_unread(unfinished: int) -> None:
    outbox = EndpointPair(version="2").client._outbox
    outbox.posted = unfinished
    assert not outbox._session.window.may_owe(unfinished)
    assert outbox.backlog is (unfinished > UNFINISHED_SELDOM)


@each_case(("octets", "pieces"), [(8, 1), (JOIN_OCTETS_MAX, 1), (JOIN_OCTETS_MAX + 4, 2)])
def test_a_longer_call_is_not_copied_to_stand_behind_its_header(
    octets: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    pair = EndpointPair(version="2").connect()
    monkeypatch.setattr(LoopbackQueuePair, "post_send", lambda _qp, _wr, gather, **_: sent.append(len(gather)))
    pair.client.call(7, message(7, CALL, (bytes(octets - 8), None)), ReplyBound(8))
    assert sent == [pieces]


@each_case("octets", [0, 1, 2])
def test_a_call_went_by_rdma_if_any_octet_came_back_so(octets: int) -> None:
    pair = EndpointPair(TransportConfig()).connect()
    pair.client.call(7, message(7, CALL), ReplyBound(8, (5000,)))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(7, REPLY, (b"", bytes(octets))))
    pair.run()
    assert (pair.client.statistics.octets_returned, pair.client.statistics.calls_by_rdma) == (octets, octets > 0)


# Under the names that Linux has for them


def test_chunks_are_counted_as_linux_counts_them_segment_by_segment() -> None:
    pair = EndpointPair(TransportConfig(segment_octets_max=1000)).connect()
    pair.client.call(7, message(7, CALL, (b"", bytes(5500))), ReplyBound(100, (6500,)))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(7, REPLY, (b"", bytes(4500))))
    pair.run()
    counters = linux_counters(pair.client.statistics)
    assert (counters["read_chunk"], counters["write_chunk"], counters["reply_chunk"]) == (6, 7, 0)
    assert (counters["total_rdma_request"], counters["total_rdma_reply"]) == (6500, 4500)
    assert (counters["sends"], counters["recvs"], counters["nomsg_call"]) == (1, 1, 0)
    assert counters["mrs_allocated"] == 2
    assert (counters["bad_xids"], counters["bad_reply"], counters["failed_marshal"], counters["bcall"]) == (0,) * 4
    served = linux_counters(pair.server.statistics, server=True)
    assert served == {"rdma_stat_read": 6, "rdma_stat_recv": 1, "rdma_stat_write": 5}


def test_statistics_add_up() -> None:
    total = add_up([TransportStatistics(calls=1, sends=2), TransportStatistics(calls=3, errors_sent=4)])
    assert total == TransportStatistics(calls=4, sends=2, errors_sent=4)
    assert counted(add_up([])) == {}


def test_the_statistics_of_many_connections_are_copied_and_added_up_in_few_steps() -> None:
    several = [TransportStatistics(calls=1, sends=2)] * 100
    assert functions_entered(lambda: add_up([each.counters() for each in several])) < 5 * len(several)


SEGMENT = Segment(1, 8, 0)
AT_8 = ReadChunk(8, (SEGMENT,))
AT_0 = ReadChunk(0, (SEGMENT,))
OFFERED = WriteChunk((SEGMENT,))


@each_case(
    ("chunks", "long", "long_reply", "words"),
    [
        (ChunkLists((), (), None), False, False, "short"),
        (ChunkLists((AT_8,), (), None), False, False, "read chunk"),
        (ChunkLists((AT_0,), (), None), True, False, "long call"),
        (ChunkLists((AT_0, AT_8), (), None), True, False, "long call + read chunk"),
        (ChunkLists((), (OFFERED,), OFFERED), False, False, "write chunk + reply chunk"),
        (ChunkLists((), (), OFFERED), False, True, "long reply"),
    ],
)
def test_a_call_over_rdma_tells_its_time_and_names_its_chunks(
    chunks: ChunkLists, long: bool, long_reply: bool, words: str
) -> None:
    call = Call(v3.READ, None)
    assert (call.travelled, call.elapsed_s) == ("not sent", 0)
    call.began_ns, call.ended_ns = 3_000_000_000, 5_500_000_000
    assert call.elapsed_s == 2.5
    call.carried = None
    call.transmissions = 1
    call.chunks, call.long, call.long_reply = chunks, long, long_reply
    assert call.travelled == words
    call.over_tcp = True
    assert call.travelled == "tcp"
