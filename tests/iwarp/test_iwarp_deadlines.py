"""Deadlines of a queue pair: the start-up, and nudges for a peer that overlooks the first message."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import JoinedPair
from rpcrdma.verbs import ConnectRequested, Disconnected, Established, ReceivePool, SoftwareProtectionDomain
from support.cases import each_case
from support.raw_iwarp import events_of

pytestmark = pytest.mark.in_python

NOW_S = 1000.0
CONFIG = IwarpConfig(startup_timeout_s=10.0, nudge_after_s=0.03)


def queue_pair(role: MpaRole, config: IwarpConfig = CONFIG) -> IwarpQueuePair:
    count = itertools.count(2)
    return IwarpQueuePair(role, SoftwareProtectionDomain(lambda bits: next(count) % (1 << bits)), config, 1460)


def connected(config: IwarpConfig = CONFIG) -> tuple[JoinedPair, IwarpQueuePair, IwarpQueuePair]:
    client, server = queue_pair(MpaRole.INITIATOR, config), queue_pair(MpaRole.RESPONDER, config)
    joined = JoinedPair(client, server)
    joined.progress()
    (event,) = events_of(server)
    assert isinstance(event, ConnectRequested)
    server.accept(b"")
    joined.progress()
    (event,) = events_of(client)
    assert isinstance(event, Established)
    return joined, client, server


def drained(pair: IwarpQueuePair) -> int:
    """Octets that leave now."""
    octets = 0
    while gather := pair.next_gather(1 << 20):
        octets += sum(map(len, gather))
        pair.bytes_sent(sum(map(len, gather)))
    return octets


@pytest.mark.req("MPA-45")
@each_case("role", MpaRole)
def test_a_start_up_has_an_end(role: MpaRole) -> None:
    pair = queue_pair(role)
    assert pair.timed
    assert pair.next_deadline_s(NOW_S) == NOW_S + 10.0
    assert pair.next_deadline_s(NOW_S + 3) == NOW_S + 10.0, "asking again does not put it off"
    pair.on_time(NOW_S + 9.999)
    assert events_of(pair) == []
    pair.on_time(NOW_S + 10.0)
    (event,) = events_of(pair)
    assert isinstance(event, Disconnected)
    assert event.reason == "no MPA start-up frame from the peer within 10 s"
    assert not event.by_peer
    assert pair.next_deadline_s(NOW_S + 10.0) is None
    assert not pair.timed


def test_a_responder_that_is_connected_has_no_deadline() -> None:
    _, _, server = connected()
    assert server.next_deadline_s(NOW_S) is None
    assert not server.timed


def test_an_initiator_nudges_only_a_peer_that_was_asked_something() -> None:
    _, client, _ = connected()
    assert client.next_deadline_s(NOW_S) is None
    assert client.timed
    client.on_time(NOW_S + 100)
    assert drained(client) == 0


def test_nudges_come_after_twice_as_long_each_time_until_the_peer_is_heard() -> None:
    _, client, _ = connected()
    client.post_send("call", [b"call"])
    assert drained(client) > 0
    due_s = NOW_S
    for wait_s in (0.03, 0.06, 0.12, 0.24):
        assert client.next_deadline_s(due_s) == pytest.approx(due_s + wait_s)
        client.on_time(due_s + wait_s / 2)
        assert drained(client) == 0
        due_s += wait_s
        client.on_time(due_s)
        assert drained(client) == 20, "an RDMA Write of no octets"
    assert client.completions.popleft(), "of the call"
    assert not client.completions, "nudges report nothing"


def test_a_peer_that_was_heard_is_not_nudged() -> None:
    joined, client, server = connected()
    pool = ReceivePool(64)
    server.post_receives(1, pool)
    client.post_receives(1, pool)
    client.post_send("call", [b"call"])
    joined.progress()
    server.post_send("reply", [b"reply"])
    assert client.next_deadline_s(NOW_S) == NOW_S + 0.03
    joined.progress()
    client.on_time(NOW_S + 100)
    assert drained(client) == 0
    assert client.next_deadline_s(NOW_S + 100) is None
    assert not client.timed


def test_a_connection_that_ends_is_nudged_no_more() -> None:
    _, client, _ = connected()
    client.post_send("call", [b"call"])
    assert client.next_deadline_s(NOW_S) == NOW_S + 0.03
    client.abort("the test ends it")
    assert client.next_deadline_s(NOW_S) is None
    client.on_time(NOW_S + 1)
    assert not client.timed


def test_nudges_can_be_switched_off() -> None:
    _, client, _ = connected(IwarpConfig(nudge_after_s=0))
    client.post_send("call", [b"call"])
    assert client.next_deadline_s(NOW_S) is None
    assert not client.timed
