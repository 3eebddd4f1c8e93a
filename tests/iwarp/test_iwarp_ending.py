"""The end of connections: once, with everything flushed, by either side, at any time."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from rpcrdma.iwarp import MpaRole
from rpcrdma.iwarp.states import State
from rpcrdma.iwarp.terminate import TerminateMessage
from rpcrdma.iwarp.work import Work
from rpcrdma.verbs import Access, Completion, Disconnected, Status, Verb
from support.cases import each_case
from support.raw_iwarp import (
    completions_of,
    connected,
    end_of,
    events_of,
    fpdu,
    marked,
    read_request,
    tagged,
    terminate,
    untagged,
)

REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE


def test_a_disconnect_with_nothing_to_send_is_at_once() -> None:
    raw = connected()
    raw.qp.disconnect()
    assert events_of(raw.qp) == [Disconnected(reason="disconnected", by_peer=False)]
    assert raw.qp.wants_close


def test_a_send_queue_of_a_disconnect_alone_ends_the_connection() -> None:
    raw = connected()
    raw.qp._sender.send_queue.append(Work(None, None, 0, (), 0))
    for events in ([Disconnected(reason="disconnected", by_peer=False)], []):
        assert raw.qp.next_gather(1 << 18) == []
        assert raw.qp.state is State.CLOSED
        assert events_of(raw.qp) == events


@pytest.mark.req("MPA-46", "MPA-47", "DDP-1")
@each_case(
    ("octets", "reason"), [(0, "the peer closed the connection"), (5, "inside an FPDU"), (3000, "inside an FPDU")]
)
def test_the_end_of_the_stream_is_told_by_where_it_comes(octets: int, reason: str) -> None:
    raw = connected(MpaRole.RESPONDER)
    region = raw.pd.register(bytearray(5000), REMOTE)
    raw.give(fpdu(tagged(0, region.handle, region.offset, bytes(5000)))[:octets])
    raw.qp.end_of_stream()
    event = end_of(raw.qp)
    assert (reason in event.reason, event.by_peer) == (True, True)


@pytest.mark.req("RD-15", "RD-14", "RD-11", "DDP-15")
@each_case("form", ["RFC", "siw"])
def test_an_inbound_terminate_is_told_in_words_and_not_answered(form: str) -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.qp.post_send("out", [b"x"])
    payload = bytes.fromhex("12020000" if form == "RFC" else "21020000")
    raw.give(fpdu(untagged(7, 2, 1, payload)))
    assert end_of(raw.qp) == Disconnected(
        reason="the peer terminated: no receive buffer was posted (1/2/02)", by_peer=True, protocol_error=True
    )
    assert raw.take() == b""
    assert raw.qp.wants_close
    assert [completion.status for completion in completions_of(raw.qp)] == [Status.FLUSHED] * 2


@pytest.mark.req("RD-11", "RD-15")
@each_case("payload", [b"", bytes(1), bytes(3), bytes.fromhex("0101e000"), bytes.fromhex("1101c000 0012 c140")])
def test_an_unintelligible_terminate_ends_the_connection_too(payload: bytes) -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(7, 2, 1, payload)))
    event = end_of(raw.qp)
    assert "unintelligible Terminate" in event.reason
    assert (event.by_peer, event.protocol_error, raw.take()) == (True, True, b"")


@pytest.mark.req("RD-15")
@each_case(
    ("code", "segment", "status"),
    [
        (0x0100, b"read", {"read": Status.REMOTE_ACCESS}),
        (0x0101, b"", {"read": Status.REMOTE_ACCESS}),
        (0x0109, untagged(4, 0, 1), {}),
        (0x1101, tagged(0, 7, 1000 + 1440), {"write": Status.REMOTE_ACCESS}),
        (0x1100, tagged(0, 8, 1000), {}),
        (0x00FF, b"read", {}),
        (0x01FF, b"read", {"read": Status.REMOTE_ACCESS}),
        (0x0200, b"read", {}),
        (0x1000, tagged(0, 7, 1000), {}),
        (0x1100, tagged(0, 7, 1000), {"write": Status.REMOTE_ACCESS}),
        (0x1100, tagged(0, 7, 999), {}),
        (0x1100, tagged(0, 7, 4000), {"write": Status.REMOTE_ACCESS}),
        (0x1100, tagged(0, 7, 4001), {}),
        (0x11FF, tagged(0, 7, 1000), {"write": Status.REMOTE_ACCESS}),
        (0x1200, tagged(0, 7, 1000), {}),
        (0x1202, untagged(3, 0, 1), {}),
        (0x2002, b"", {}),
    ],
)
def test_a_remote_protection_error_is_told_by_the_work_it_is_about(
    code: int, segment: bytes, status: dict[str, Status]
) -> None:
    raw = connected()
    sink = raw.pd.register(bytearray(8), REMOTE)
    raw.qp.post_read("read", sink, 0, 8, 7, 0)
    raw.qp.post_write("write", [bytes(3000)], 7, 1000)
    raw.qp.post_send("send", [b"x"])
    raw.take()
    if segment == b"read":
        request = read_request(1, sink.handle, sink.offset, 8, 7, 0)
        raw.give(terminate(code, request, read_header=True))
    else:
        raw.give(terminate(code, segment))
    found = {completion.wr: completion.status for completion in completions_of(raw.qp)}
    assert found == {"read": Status.FLUSHED, "write": Status.FLUSHED, "send": Status.FLUSHED} | status


@each_case(
    ("handle", "past", "status"),
    [
        (0x81828384, 0, Status.REMOTE_ACCESS),
        (0x81828384, 100, Status.REMOTE_ACCESS),
        (0x81828384, 101, Status.FLUSHED),
        (0x81828384, -1, Status.FLUSHED),
        (0x81828385, 0, Status.FLUSHED),
        (0x01828384, 0, Status.FLUSHED),
        # The offset of another octet of its eight.
        *((0x81828384, 1 << shift, Status.FLUSHED) for shift in range(8, 63, 8)),
    ],
)
def test_a_terminate_refuses_the_write_that_it_quotes(handle: int, past: int, status: Status) -> None:
    sender = connected().qp._sender
    offset = 0x8182838485868788
    send = Work("send", Verb.SEND, 0x43, [b"x"], 100, 0x81828384, offset)
    write = Work("write", Verb.RDMA_WRITE, 0x40, [bytes(100)], 100, 0x81828384, offset)
    sender.in_flight += [send, write]
    sender.refuse(TerminateMessage(code=0x1101, ddp_header=tagged(0, handle, offset + past)))
    assert (send.status, write.status) == (Status.FLUSHED, status)


@pytest.mark.req("DDP-20", "RD-17", "RD-7")
@each_case("sent", [0, 1, 131, 132, 133, 264])
def test_memory_withdrawn_during_a_read_is_not_shown_any_more(sent: int) -> None:
    raw = connected(MpaRole.RESPONDER, emss=134)
    memory = bytearray(b"secret! " * 50)
    region = raw.pd.register(memory, Access.REMOTE_READ)
    request = read_request(1, 5, 0, 400, region.handle, region.offset)
    raw.give(fpdu(request))
    gather = raw.qp.next_gather(1 << 18)
    before = b"".join(gather)
    if sent:
        raw.qp.bytes_sent(sent)
    raw.pd.invalidate(region)
    memory[:] = b"private " * 50
    rest = raw.take()
    assert b"private" not in rest
    assert b"secret" not in rest
    whole_frames = sent // 132
    if sent % 132:
        # Inside an FPDU nothing can be said any more.
        assert rest == b""
    else:
        served = whole_frames * 112
        left = read_request(1, 5, served, 400 - served, region.handle, region.offset + served)
        assert rest == terminate(0x0100, left, read_header=True)
    assert before[:sent] + rest != before
    event = end_of(raw.qp)
    place = f"handle {region.handle:#010x}, offset {region.offset + 112 * whole_frames:#x}"
    assert "memory was withdrawn during an RDMA Read" in event.reason
    assert place in event.reason
    assert (event.by_peer, event.protocol_error, raw.qp.wants_close) == (False, True, True)


@pytest.mark.req("RD-11", "RD-15", "DDP-13", "DDP-15", "RD-14", "MPA-50")
@each_case("sent", [0, 1, 100, 1460, 1461, 2919])
def test_a_terminate_follows_the_frame_under_way_and_nothing_else_does(sent: int) -> None:
    raw = connected(MpaRole.RESPONDER)
    data = bytearray(b"x" * 10_000)
    raw.qp.post_write("w", [data], 7, 0)
    stream = b"".join(raw.qp.next_gather(1 << 18))
    if sent:
        raw.qp.bytes_sent(sent)
    raw.give(fpdu(untagged(3, 0, 1, b"no receive")))
    # The memory is its owner's again at once.
    data[:] = b"y" * 10_000
    assert completions_of(raw.qp) == [Completion("w", Verb.RDMA_WRITE, Status.FLUSHED)]
    end = -(-sent // 1460) * 1460
    assert not raw.qp.wants_close
    assert raw.qp.state is State.LAST_WORDS
    assert raw.take() == stream[sent:end] + terminate(0x1202, untagged(3, 0, 1, b"no receive"))
    assert (raw.qp.state, raw.qp.wants_close) == (State.CLOSED, True)


@pytest.mark.req("DDP-13")
def test_an_abort_does_not_wait_for_the_terminate() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(3, 0, 1)))
    assert not raw.qp.wants_close
    raw.qp.abort("the peer does not read")
    assert raw.qp.wants_close
    assert raw.take() == b""
    assert end_of(raw.qp)


@pytest.mark.req("RD-11")
def test_terminates_carry_markers_where_they_are_wanted() -> None:
    raw = connected(MpaRole.RESPONDER, markers=True)
    raw.qp.post_write(None, [bytes(3000)], 7, 0)
    first = raw.qp.next_gather(1 << 18)[0][:1]
    raw.qp.bytes_sent(1)
    wrong = untagged(3, 0, 1)
    raw.give(fpdu(wrong))
    told = terminate(0x1202, wrong)[2:-4]
    assert bytes(first) + raw.take() == marked([tagged(0, 7, 0, bytes(1428), last=False), told])


def test_the_end_of_the_stream_ends_the_last_words() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(3, 0, 2)))
    told = raw.qp.next_gather(1 << 16)
    assert told
    assert (raw.qp.state, raw.qp.wants_close) == (State.LAST_WORDS, False)
    raw.qp.end_of_stream()
    assert (raw.qp.state, raw.qp.wants_close) == (State.CLOSED, True)
    assert raw.take() == b""


def test_a_connection_ends_without_memory_for_a_send_that_has_arrived_in_part() -> None:
    raw = connected(MpaRole.RESPONDER)
    pool = Mock(octets=64, short_octets=64, draw=lambda: memoryview(bytearray(64)))
    raw.qp.post_receives(1, pool)
    raw.give(fpdu(untagged(3, 0, 1, b"x", last=False)))
    pool.draw = Mock(side_effect=MemoryError)
    raw.qp.abort("enough")
    assert end_of(raw.qp).reason == "enough"
    assert raw.qp.wants_close


def test_an_end_without_last_words_is_complete() -> None:
    raw = connected(MpaRole.RESPONDER)
    region = raw.pd.register(bytearray(4000), Access.REMOTE_READ)
    raw.give(fpdu(read_request(1, 5, 0, 4000, region.handle, region.offset)))
    assert raw.qp.next_gather(1)
    raw.qp.bytes_sent(100)
    raw.pd.invalidate(region)
    # The stream ends inside an FPDU of memory that the peer may see no longer.
    assert raw.qp.next_gather(1) == []
    assert (raw.qp.state, raw.qp.wants_close) == (State.CLOSED, True)
    assert end_of(raw.qp)
