"""A peer's duties have deadlines, and an endpoint is told the time: nothing here waits."""

from __future__ import annotations

from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import Closed, IncomingCall, ReplyBound, ReplySent, TransportConfig

NOW_S = 1000.0
CALL, REPLY = 0, 1
SERVER = TransportConfig(stalled_s=30.0)


def pair() -> EndpointPair:
    return EndpointPair(server=SERVER).connect()


def halted(between: EndpointPair) -> None:
    """The server's owner polls, but nothing moves."""
    between.server.progress()


def assert_goes_on(between: EndpointPair) -> None:
    """Nothing has ended, nor happened."""
    between.server.progress()
    assert between.server_events() == []


def asked(between: EndpointPair, xid: int) -> IncomingCall:
    """A call for which the server has RDMA Reads outstanding, or that has arrived."""
    between.client.call(xid, message(xid, CALL), ReplyBound(0, (5000,)), (bytearray(5000),))
    (incoming,) = between.arrived()
    return incoming


def closed(between: EndpointPair) -> Closed:
    between.server.progress()
    event = between.server_events()[-1]
    assert isinstance(event, Closed)
    return event


def test_rdma_reads_must_be_answered_in_time() -> None:
    between = pair()
    between.client.call(1, message(1, CALL, (b"", bytes(5000))), ReplyBound(0))
    # The call arrives, and its Read request goes nowhere.
    between.client_qp.progress(1)
    halted(between)
    assert between.server.untimed
    assert between.server.next_deadline_s(NOW_S) == NOW_S + 30.0
    assert not between.server.untimed, "once is enough"
    between.server.on_time(NOW_S + 29.9)
    assert_goes_on(between)
    between.server.on_time(NOW_S + 30.0)
    assert closed(between).reason == "the peer did not answer our RDMA Reads within 30 s"


def test_a_peer_that_answers_the_reads_of_one_call_has_time_for_the_next() -> None:
    between = pair()
    between.client.call(1, message(1, CALL), ReplyBound(0))
    between.server.reply(between.arrived()[0], message(1, REPLY))
    between.run()
    for xid in (2, 3):
        between.client.call(xid, message(xid, CALL, (b"", bytes(5000))), ReplyBound(0))
    while not between.server.untimed:
        between.client_qp.progress(1)
        halted(between)
    assert between.server.next_deadline_s(NOW_S) == NOW_S + 30.0
    while not between.server_events():
        between.client_qp.progress(1)
        halted(between)
    between.server.on_time(NOW_S + 30.0)
    assert_goes_on(between)
    assert between.server.next_deadline_s(NOW_S + 30.0) == NOW_S + 60.0


def test_a_reply_must_be_taken_in_time() -> None:
    between = pair()
    incoming = asked(between, 1)
    assert between.server.reply(incoming, message(1, REPLY, (b"", bytes(5000))))
    halted(between)
    assert between.server.next_deadline_s(NOW_S) == NOW_S + 30.0
    between.server.on_time(NOW_S + 30.0)
    assert closed(between).reason == "the peer took no reply within 30 s"


def test_a_peer_that_takes_one_reply_has_time_for_the_next() -> None:
    between = pair()
    first = asked(between, 1)
    assert between.server.reply(first, message(1, REPLY, (b"", bytes(5000))))
    assert between.server.next_deadline_s(NOW_S) == NOW_S + 30.0
    between.run()
    assert between.server_events() == [ReplySent(first)]
    between.client_events()
    second = asked(between, 2)
    assert between.server.reply(second, message(2, REPLY, (b"", bytes(5000))))
    assert not between.server.untimed, "the deadline of the first one is looked at"
    between.server.on_time(NOW_S + 30.0)
    assert_goes_on(between)
    assert between.server.untimed
    assert between.server.next_deadline_s(NOW_S + 30.0) == NOW_S + 60.0
    between.server.on_time(NOW_S + 60.0)
    assert closed(between).reason == "the peer took no reply within 30 s"
