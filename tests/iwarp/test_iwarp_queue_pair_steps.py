"""A queue pair step by step: its state, its buffers and its events after each octet and each call."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from iwarp_watch import assert_new
from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole, ReadyFrame
from rpcrdma.iwarp.states import State
from rpcrdma.testing.joined_pair import feed
from rpcrdma.verbs import (
    Access,
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    SoftwareProtectionDomain,
    Status,
    Verb,
)
from support.cases import each_case
from support.raw_iwarp import (
    bound_gather,
    completions_of,
    events_of,
    fpdu,
    startup_frame,
    tagged,
    untagged,
)

pytestmark = pytest.mark.in_python
NOW_S = 50.0
STARTUP_ROOM, IDLE, DISCARDED = 533, 8192, 4096
"""Octets that are offered during start-up, afterwards, and after the end."""
WORDS = bytes.fromhex("00200020")
READY_WORDS = {
    ReadyFrame.SEND: bytes.fromhex("c0200020"),
    ReadyFrame.WRITE: bytes.fromhex("8020 8020"),
    ReadyFrame.READ: bytes.fromhex("8020 4020"),
}
"""IRD and ORD of 32, with the peer-to-peer model and one ready-to-receive frame."""
ESTABLISHED = Established(private_data=b"", inbound_reads=32, outbound_reads=32)


def queue_pair(role: MpaRole, config: IwarpConfig | None = None) -> IwarpQueuePair:
    numbers = itertools.count(3)
    pd = SoftwareProtectionDomain(lambda bits: next(numbers) << 8 & (1 << bits) - 1)
    qp = IwarpQueuePair(role, pd, config or IwarpConfig(), 1460)
    assert_new(qp)
    return qp


def state_of(qp: IwarpQueuePair) -> State:
    """A call, so that no earlier check narrows the type."""
    return qp.state


def offers(qp: IwarpQueuePair) -> list[int]:
    return list(map(len, qp.next_buffers()))


def give(qp: IwarpQueuePair, octets: bytes) -> None:
    assert feed(qp, octets) == len(octets)


def send(qp: IwarpQueuePair, octets: int | None = None) -> bytes:
    """The octets of one gather; all of them, or the first ones, are sent."""
    bound_gather(qp._sender)
    data = b"".join(qp.next_gather(1 << 16))
    if data:
        qp.bytes_sent(len(data) if octets is None else octets)
    return data


def initiator(config: IwarpConfig | None = None) -> IwarpQueuePair:
    """Connected; nothing is sent yet."""
    qp = queue_pair(MpaRole.INITIATOR, config)
    assert send(qp) == startup_frame("Req", 0x50, 2, WORDS)
    assert state_of(qp) is State.AWAITING_REPLY
    give(qp, startup_frame("Rep", 0x50, 2, WORDS))
    assert state_of(qp) is State.OPEN
    assert events_of(qp) == [ESTABLISHED]
    return qp


def requested(words: bytes = WORDS, config: IwarpConfig | None = None) -> IwarpQueuePair:
    qp = queue_pair(MpaRole.RESPONDER, config)
    give(qp, startup_frame("Req", 0x50, 2, words))
    assert state_of(qp) is State.REQUESTED
    assert events_of(qp) == [ConnectRequested(private_data=b"")]
    return qp


def replying(words: bytes = WORDS) -> IwarpQueuePair:
    qp = requested(words)
    qp.accept(b"")
    assert state_of(qp) is State.REPLYING
    return qp


def mute() -> IwarpQueuePair:
    qp = replying()
    assert send(qp) == startup_frame("Rep", 0x50, 2, WORDS)
    assert state_of(qp) is State.MUTE
    assert events_of(qp) == [ESTABLISHED]
    return qp


def awaiting_ready(frame: ReadyFrame = ReadyFrame.WRITE) -> IwarpQueuePair:
    qp = replying(READY_WORDS[frame])
    assert send(qp) == startup_frame("Rep", 0x50, 2, READY_WORDS[frame])
    assert state_of(qp) is State.AWAITING_READY
    return qp


def responder() -> IwarpQueuePair:
    qp = mute()
    give(qp, fpdu(tagged(0, 0, 0)))
    assert state_of(qp) is State.OPEN
    return qp


# Start-up.


def test_a_responder_is_connected_by_the_last_octet_of_its_reply() -> None:
    qp = replying()
    qp.post_send(1, [b"hello"])
    reply = startup_frame("Rep", 0x50, 2, WORDS)
    for octets in range(len(reply) - 1):
        assert send(qp, 1) == reply[octets:]
        assert state_of(qp) is State.REPLYING
        assert events_of(qp) == []
        assert not qp._full_operation
    assert send(qp, 1) == reply[-1:]
    assert state_of(qp) is State.MUTE
    assert events_of(qp) == [ESTABLISHED]
    assert offers(qp) == [IDLE]
    assert (qp._exchange.agreement, qp._exchange.request, len(qp._exchange.next_buffer())) == (None, None, 1)
    # It may not speak yet.
    assert not qp._sender.open
    assert send(qp) == b""
    give(qp, fpdu(tagged(0, 0, 0)))
    assert state_of(qp) is State.OPEN
    assert qp._sender.open
    assert events_of(qp) == []
    assert send(qp) == fpdu(untagged(3, 0, 1, b"hello"))


def test_an_initiator_keeps_nothing_of_the_start_up_and_notices_an_octet_that_comes_too_early() -> None:
    qp = initiator()
    assert (qp._exchange.agreement, qp._exchange.request, offers(qp)) == (None, None, [1])
    give(qp, b"x")
    assert state_of(qp) is State.CLOSED
    (event,) = events_of(qp)
    assert isinstance(event, Disconnected)
    assert event.reason == "the peer sent before it was its turn"


# Deadlines.

STARTING: dict[str, Callable[[], IwarpQueuePair]] = {
    "initiator": lambda: queue_pair(MpaRole.INITIATOR),
    "responder": lambda: queue_pair(MpaRole.RESPONDER),
    "requested": requested,
    "replying": replying,
    "awaiting ready": awaiting_ready,
}
LATE = {
    "initiator": "no MPA start-up frame from the peer",
    "responder": "no MPA start-up frame from the peer",
    "requested": "this side sent no MPA Reply",
    "replying": "this side sent no MPA Reply",
    "awaiting ready": "no ready-to-receive frame from the peer",
}


@pytest.mark.req("MPA-45")
@each_case("name", STARTING)
def test_each_state_of_the_start_up_has_the_deadline(name: str) -> None:
    qp = STARTING[name]()
    events_of(qp)
    assert qp.next_deadline_s(NOW_S) == NOW_S + 10.0
    assert qp.next_deadline_s(NOW_S + 5.0) == NOW_S + 10.0
    qp.on_time(NOW_S + 9.5)
    assert not qp.wants_close
    qp.on_time(NOW_S + 10.0)
    assert state_of(qp) is State.CLOSED
    assert events_of(qp) == [Disconnected(reason=f"{LATE[name]} within 10 s", by_peer=False)]
    assert qp.next_deadline_s(NOW_S) is None


@each_case("reach", [mute, responder])
def test_a_connected_responder_has_none(reach: Callable[[], IwarpQueuePair]) -> None:
    qp = reach()
    qp.post_send(1, [b"x"])
    assert qp.next_deadline_s(NOW_S) is None
    assert not qp.timed
    qp.on_time(NOW_S + 1000)
    assert not qp.wants_close


def test_an_initiator_nudges_after_twice_as_long_each_time() -> None:
    qp = initiator()
    assert qp.next_deadline_s(NOW_S) is None
    assert qp.timed
    qp.post_write(0, [b"x"], 1, 0)
    assert qp.next_deadline_s(NOW_S) is None, "no answer is due"
    qp.post_send(1, [b"x"])
    assert qp.next_deadline_s(NOW_S) == NOW_S + 0.03
    assert qp.next_deadline_s(NOW_S + 1) == NOW_S + 0.03
    send(qp)
    qp.on_time(NOW_S + 0.02)
    assert send(qp) == b""
    qp.on_time(NOW_S + 0.03)
    assert qp.next_deadline_s(NOW_S + 1) == pytest.approx(NOW_S + 0.09)
    assert send(qp) == fpdu(tagged(0, 1, 0))
    qp.on_time(NOW_S + 1)
    assert qp.next_deadline_s(NOW_S + 1) == pytest.approx(NOW_S + 1.12)
    assert send(qp) == fpdu(tagged(0, 1, 0))
    assert qp.timed
    assert [each.wr for each in completions_of(qp)] == [0, 1]
    give(qp, fpdu(tagged(0, 0, 0)))
    assert qp.next_deadline_s(NOW_S) is None
    assert not qp.timed


# Work.


@pytest.mark.req("DDP-7")
def test_sizes_of_messages_stay_below_their_bound() -> None:
    qp = initiator()
    sink = qp.pd.register(bytearray(8), Access.REMOTE_WRITE)
    most = [bytes(1 << 16)] * ((1 << 16) - 1) + [bytes((1 << 16) - 1)]
    qp.post_send(1, most)
    qp.post_write(2, most, 7, 0)
    assert [work.length for work in qp._sender.send_queue] == [0xFFFFFFFF] * 2
    for gather in ([*most, b"x"],):
        with pytest.raises(LocalProtocolError, match="a Send of 4294967296 octets"):
            qp.post_send(1, gather)
        with pytest.raises(LocalProtocolError, match="4294967296 octets: DDP"):
            qp.post_write(1, gather, 7, 0)
    with pytest.raises(LocalProtocolError, match="4294967295 octets at 0 are not within a sink of 8"):
        qp.post_read(1, sink, 0, 0xFFFFFFFF, 7, 0)
    with pytest.raises(LocalProtocolError, match="4294967296 octets: DDP"):
        qp.post_read(1, sink, 0, 1 << 32, 7, 0)
    with pytest.raises(LocalProtocolError, match="-1 octets: DDP"):
        qp.post_read(1, sink, 0, -1, 7, 1)
    assert len(qp._sender.send_queue) == 2


def test_a_read_needs_memory_that_the_peer_may_write() -> None:
    qp = initiator()
    with pytest.raises(LocalProtocolError):
        qp.post_read(1, qp.pd.register(bytearray(8), Access.LOCAL_WRITE), 0, 8, 7, 0)
    assert send(qp) == b""


# The end.

REACH: dict[str, tuple[Callable[[], IwarpQueuePair], str]] = {
    "initiator": (lambda: queue_pair(MpaRole.INITIATOR), "during MPA start-up"),
    "responder": (lambda: queue_pair(MpaRole.RESPONDER), "during MPA start-up"),
    "requested": (requested, ""),
    "replying": (replying, ""),
    "awaiting ready": (awaiting_ready, ""),
    "mute": (mute, ""),
    "open": (initiator, ""),
    "open responder": (responder, ""),
}


@pytest.mark.req("EM-14", "MPA-41")
@each_case("name", REACH)
def test_an_abort_is_the_end_by_this_side(name: str) -> None:
    qp = REACH[name][0]()
    events_of(qp)
    qp.abort("enough")
    assert state_of(qp) is State.CLOSED
    assert qp.wants_close
    assert events_of(qp) == [Disconnected(reason="enough", by_peer=False)]
    assert (qp.next_gather(1 << 16), offers(qp)) == ([], [DISCARDED])


@pytest.mark.req("MPA-46", "DDP-14")
@each_case("name", REACH)
def test_a_disconnect_lets_out_what_was_posted_where_something_can_be_sent(name: str) -> None:
    qp = REACH[name][0]()
    events_of(qp)
    qp.post_send("s", [b"x"])
    qp.disconnect()
    if not name.startswith("open"):
        assert state_of(qp) is State.CLOSED
        assert events_of(qp) == [Disconnected(reason="disconnected before anything could be sent", by_peer=False)]
        return
    assert state_of(qp) is State.DRAINING
    qp.post_send("after", [b"y"])
    qp.disconnect()
    assert (state_of(qp), events_of(qp), qp.wants_close) == (State.DRAINING, [], False)
    frame = fpdu(untagged(3, 0, 1, b"x"))
    assert send(qp, 5) == frame
    assert (state_of(qp), events_of(qp), offers(qp)) == (State.DRAINING, [], [IDLE])
    assert send(qp) == frame[5:]
    assert state_of(qp) is State.CLOSED
    assert events_of(qp) == [Disconnected(reason="disconnected", by_peer=False)]
    assert completions_of(qp) == [
        Completion("s", Verb.SEND, Status.SUCCESS, 1),
        Completion("after", Verb.SEND, Status.FLUSHED),
    ]


@pytest.mark.req("RD-15")
def test_a_fault_of_the_first_frame_is_told_only_if_it_was_whole() -> None:
    broken = mute()
    give(broken, fpdu(tagged(0, 0, 0), flaw=1))
    assert state_of(broken) is State.CLOSED
    assert send(broken) == b""
    wrong = mute()
    give(wrong, fpdu(tagged(5, 0, 0)))
    assert state_of(wrong) is State.LAST_WORDS
    assert send(wrong)[20:24] == bytes.fromhex("0206c000")
