"""The end of connections: once, with everything flushed, by either side, at any time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.iwarp.states import State
from rpcrdma.testing.joined_pair import whole
from rpcrdma.verbs import Access, Completion, Disconnected, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case
from support.draws import draws
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    events_of,
    fpdu,
    read_request,
    startup_frame,
    tagged,
    terminate,
    untagged,
)

REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE
WORDS = bytes.fromhex("00200020")


def peer(role: MpaRole, config: IwarpConfig | None = None, *, emss: int = 1460) -> RawPeer:
    return RawPeer(role, SoftwareProtectionDomain(draws()), config, emss=emss, chunking=whole)


def connected(role: MpaRole = MpaRole.INITIATOR, *, emss: int = 1460, crc: bool = True) -> RawPeer:
    raw = peer(role, IwarpConfig(crc=crc), emss=emss)
    raw.connect(crc=crc)
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(tagged(0, 0, 0), crc=crc))
    events_of(raw.qp)
    raw.sent = b""
    return raw


def to_reply(raw: RawPeer) -> None:
    raw.take()


def to_request(raw: RawPeer) -> None:
    raw.give(startup_frame("Req", 0x50, 2, WORDS))


def to_replying(raw: RawPeer) -> None:
    to_request(raw)
    raw.qp.accept(b"")


def to_mute(raw: RawPeer) -> None:
    to_replying(raw)
    raw.take()


def to_ready(raw: RawPeer) -> None:
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex("8020c020")))
    raw.qp.accept(b"")
    raw.take()


def to_open(raw: RawPeer) -> None:
    raw.connect()


def to_spoken(raw: RawPeer) -> None:
    raw.connect()
    raw.qp.post_send(None, [], signaled=False)
    raw.take()


STAGES: dict[str, tuple[MpaRole, Callable[[RawPeer], object]]] = {
    "nothing": (MpaRole.INITIATOR, lambda _: None),
    "request sent": (MpaRole.INITIATOR, to_reply),
    "reply received": (MpaRole.INITIATOR, to_open),
    "first frame sent": (MpaRole.INITIATOR, to_spoken),
    "responder": (MpaRole.RESPONDER, lambda _: None),
    "requested": (MpaRole.RESPONDER, to_request),
    "replying": (MpaRole.RESPONDER, to_replying),
    "reply sent": (MpaRole.RESPONDER, to_mute),
    "ready frame due": (MpaRole.RESPONDER, to_ready),
}
ENDS: dict[str, Callable[[RawPeer], object]] = {
    "abort": lambda raw: raw.qp.abort("enough"),
    "disconnect": lambda raw: raw.qp.disconnect(),
    "end of stream": lambda raw: raw.qp.end_of_stream(),
}


@pytest.mark.req("RD-14", "DDP-14", "RD-15")
@each_case("stage", STAGES)
def test_every_end_in_every_stage_is_reported_once(stage: str) -> None:
    for first, then in itertools.product(ENDS.values(), ENDS.values()):
        role, reach = STAGES[stage]
        raw = peer(role)
        reach(raw)
        raw.take()
        events_of(raw.qp)
        completions_of(raw.qp)
        sink = raw.pd.register(bytearray(8), REMOTE)
        raw.qp.post_receive("receive", memoryview(bytearray(8)))
        raw.qp.post_read("read", sink, 0, 8, 7, 0)
        raw.qp.post_send("send", [b"x"], signaled=False)
        first(raw)
        raw.take()
        then(raw)
        raw.take()
        ended = [event for event in events_of(raw.qp) if isinstance(event, Disconnected)]
        assert len(ended) == 1
        assert raw.qp.wants_close
        done = completions_of(raw.qp)
        assert sorted(str(completion.wr) for completion in done if completion.wr != "send") == ["read", "receive"]
        assert {completion.status for completion in done} == {Status.FLUSHED}
        # Later octets and later work change nothing.
        raw.give(b"late octets")
        raw.qp.post_receive("late", memoryview(bytearray(8)))
        raw.qp.post_write("later", [b"x"], 7, 0)
        assert completions_of(raw.qp) == [
            Completion("late", Verb.RECEIVE, Status.FLUSHED),
            Completion("later", Verb.RDMA_WRITE, Status.FLUSHED),
        ]
        assert events_of(raw.qp) == []
        assert raw.take() == b""


@pytest.mark.req("MPA-46", "DDP-14")
def test_a_disconnect_lets_out_what_was_posted_before_it() -> None:
    raw = connected()
    raw.qp.post_send("before", [b"x" * 1000])
    raw.qp.disconnect()
    raw.qp.post_send("after", [b"y"])
    assert events_of(raw.qp) == []
    assert raw.take() == fpdu(untagged(3, 0, 1, b"x" * 1000))
    assert events_of(raw.qp) == [Disconnected(reason="disconnected", by_peer=False)]
    assert [(completion.wr, completion.status) for completion in completions_of(raw.qp)] == [
        ("before", Status.SUCCESS),
        ("after", Status.FLUSHED),
    ]
    assert raw.qp.wants_close


def test_a_disconnect_with_nothing_to_send_is_at_once() -> None:
    raw = connected()
    raw.qp.disconnect()
    assert events_of(raw.qp) == [Disconnected(reason="disconnected", by_peer=False)]
    assert raw.qp.wants_close


def test_a_disconnect_waits_for_reads_that_hold_back_what_was_posted() -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect(depth=1)
    events_of(raw.qp)
    sink = raw.pd.register(bytearray(8), REMOTE)
    for n in (1, 2):
        raw.qp.post_read(n, sink, 0, 8, 7, 0)
    raw.qp.post_send(3, [b"x"])
    raw.qp.disconnect()
    assert raw.take() == fpdu(read_request(1, sink.handle, sink.offset, 8, 7, 0))
    assert events_of(raw.qp) == []
    raw.give(fpdu(tagged(2, sink.handle, sink.offset, bytes(8))))
    assert raw.take() == fpdu(read_request(2, sink.handle, sink.offset, 8, 7, 0)) + fpdu(untagged(3, 0, 1, b"x"))
    assert events_of(raw.qp) == [Disconnected(reason="disconnected", by_peer=False)]
    assert [completion.status for completion in completions_of(raw.qp)] == [
        Status.SUCCESS,
        Status.FLUSHED,
        Status.FLUSHED,
    ]


def test_a_second_disconnect_changes_nothing() -> None:
    raw = connected()
    raw.qp.post_send("before", [b"x"])
    raw.qp.disconnect()
    raw.qp.disconnect()
    assert raw.take() == fpdu(untagged(3, 0, 1, b"x"))
    assert len(events_of(raw.qp)) == 1


@pytest.mark.req("MPA-46", "MPA-47", "DDP-1")
@pytest.mark.parametrize(
    ("octets", "reason"), [(0, "the peer closed the connection"), (5, "inside an FPDU"), (3000, "inside an FPDU")]
)
def test_the_end_of_the_stream_is_told_by_where_it_comes(octets: int, reason: str) -> None:
    raw = connected(MpaRole.RESPONDER)
    region = raw.pd.register(bytearray(5000), REMOTE)
    raw.give(fpdu(tagged(0, region.handle, region.offset, bytes(5000)))[:octets])
    raw.qp.end_of_stream()
    (event,) = events_of(raw.qp)
    assert isinstance(event, Disconnected)
    assert reason in event.reason
    assert event.by_peer


@pytest.mark.req("RD-15", "RD-14", "RD-11")
@each_case("form", ["RFC", "siw"])
def test_an_inbound_terminate_is_told_in_words_and_not_answered(form: str) -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.qp.post_send("out", [b"x"])
    payload = bytes.fromhex("12020000" if form == "RFC" else "21020000")
    raw.give(fpdu(untagged(7, 2, 1, payload)))
    (event,) = events_of(raw.qp)
    assert event == Disconnected(
        reason="the peer terminated: no receive buffer was posted (1/2/02)", by_peer=True, protocol_error=True
    )
    assert raw.take() == b""
    assert raw.qp.wants_close
    assert [completion.status for completion in completions_of(raw.qp)] == [Status.FLUSHED] * 2


@each_case("payload", [b"", bytes.fromhex("0101e000"), bytes.fromhex("1101c000 0012 c140")])
def test_an_unintelligible_terminate_ends_the_connection_too(payload: bytes) -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(7, 2, 1, payload)))
    (event,) = events_of(raw.qp)
    assert isinstance(event, Disconnected)
    assert "unintelligible Terminate" in event.reason
    assert raw.take() == b""


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


@pytest.mark.req("DDP-20", "RD-17", "RD-7")
@pytest.mark.parametrize("sent", [0, 1, 131, 132, 133, 264])
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
    (event,) = events_of(raw.qp)
    assert isinstance(event, Disconnected)
    assert "withdrawn" in event.reason
    assert raw.qp.wants_close


@pytest.mark.req("MPA-24", "RD-12")
@each_case("markers", [False, True])
@each_case("step", [1, 3, 7, 100, 131, 132, 133, 300])
def test_memory_that_changes_while_it_is_read_is_sent_with_the_right_crc(step: int, markers: bool) -> None:
    raw = peer(MpaRole.RESPONDER, emss=150)
    raw.connect(markers=markers)
    raw.give(fpdu(tagged(0, 0, 0)))
    memory = bytearray(401)
    region = raw.pd.register(memory, Access.REMOTE_READ)
    raw.give(fpdu(read_request(1, 5, 0, 401, region.handle, region.offset)))
    raw.qp.post_send(None, [b"hello"])
    stream = b""
    while gather := raw.qp.next_gather(1 << 18):
        octets = b"".join(gather)[:step]
        stream += octets
        raw.qp.bytes_sent(len(octets))
        # Nothing of it went, and is asked for again, as when TCP's buffer is full.
        raw.qp.next_gather(1 << 18)
        memory[:] = bytes(octet + 1 & 0xFF for octet in memory)
    position = frames = 0
    while position < len(stream):
        begin = position + 4 if markers and position % 512 == 0 else position
        left = (int.from_bytes(stream[begin : begin + 2], "big") + 5) & ~3
        end = begin
        while left or (markers and end % 512 == 0):
            left -= 0 if markers and end % 512 == 0 else 4
            end += 4
        assert stream[end : end + 4] == crc32c(stream[position:end]).to_bytes(4, "little")
        position = end + 4
        frames += 1
    assert frames >= 5
    assert raw.qp.state is State.OPEN


@pytest.mark.req("DDP-20", "RD-17")
def test_memory_withdrawn_between_two_gathers_is_not_shown_any_more() -> None:
    raw = connected(MpaRole.RESPONDER, emss=134)
    region = raw.pd.register(bytearray(400), Access.REMOTE_READ)
    raw.give(fpdu(read_request(1, 5, 0, 400, region.handle, region.offset)))
    raw.qp.bytes_sent(len(b"".join(raw.qp.next_gather(140))))
    raw.pd.invalidate(region)
    left = read_request(1, 5, 112, 288, region.handle, region.offset + 112)
    assert raw.take() == terminate(0x0100, left, read_header=True)


@pytest.mark.req("RD-11", "RD-15", "DDP-13", "DDP-15", "RD-14", "MPA-50")
@pytest.mark.parametrize("sent", [0, 1, 100, 1460, 1461, 2919])
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
    assert raw.take() == stream[sent:end] + terminate(0x1202, untagged(3, 0, 1, b"no receive"))
    assert raw.qp.wants_close


@pytest.mark.req("DDP-13")
def test_an_abort_does_not_wait_for_the_terminate() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(3, 0, 1)))
    assert not raw.qp.wants_close
    raw.qp.abort("the peer does not read")
    assert raw.qp.wants_close
    assert raw.take() == b""
    assert len(events_of(raw.qp)) == 1


@pytest.mark.req("RD-11")
def test_terminates_carry_markers_where_they_are_wanted() -> None:
    raw = peer(MpaRole.RESPONDER)
    raw.connect(markers=True)
    raw.give(fpdu(tagged(0, 0, 0)))
    raw.qp.post_write(None, [bytes(3000)], 7, 0)
    stream = b"".join(raw.qp.next_gather(1 << 18))
    raw.qp.bytes_sent(1)
    raw.give(fpdu(untagged(3, 0, 1)))
    rest = raw.take()
    first = 4 + int.from_bytes(stream[4:6], "big") + 6 + 4 * 2
    sent = stream[:1] + rest
    assert sent[: first - 8] == stream[: first - 8]
    without = b"".join(sent[at + 4 : at + 512] for at in range(0, len(sent), 512))
    assert without.endswith(terminate(0x1202, untagged(3, 0, 1)))


def test_the_end_of_the_stream_ends_the_last_words() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(untagged(3, 0, 2)))
    told = raw.qp.next_gather(1 << 16)
    assert told
    assert (raw.qp.state, raw.qp.wants_close) == (State.LAST_WORDS, False)
    raw.qp.end_of_stream()
    assert (raw.qp.state, raw.qp.wants_close) == (State.CLOSED, True)


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
    assert len(events_of(raw.qp)) == 1
