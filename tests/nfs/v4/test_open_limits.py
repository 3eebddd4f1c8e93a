"""Bounds on opens, lock states and locked ranges: of a client, of a host, of a file."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from conversation import Conversation, two_clients
from support.cases import each_case
from support.nfs4_client import MAX64, READ, WRITE, Stateid, close, lock, lockt, locku, open_, putfh

FILE = putfh(b"file")
BOTH = READ | WRITE
READ_LT, WRITE_LT = 1, 2
HOSTS = ("192.0.2.7", "2001:db8::1", "2001:db8::2", "192.0.2.8")


def test_a_client_has_a_bounded_number_of_opens_and_lock_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.held_states.NFS4_HELD_MAX", 3)
    _, client, other = two_clients()
    opened = client.opened(b"file", BOTH)
    client.opened(b"file", owner=b"2")
    client.locked(b"file", opened)
    assert client.run(FILE, open_(b"3", READ)).status == "DELAY"
    assert client.run(FILE, lock(opened, b"l 2", READ_LT, 50, 1)).status == "DELAY"
    other.opened(b"file")


def test_a_host_gets_no_more_opens_than_are_left_for_others_by_however_many_clients() -> None:
    server = Conversation()
    server.state.states_of_hosts.most = 24
    counts = []
    for host in HOSTS:
        owners = 0
        for name in ("a", "b", "c"):
            client = server.client(f"{name} at {host}", peer=host).start()
            while client.run(FILE, open_(b"%d" % owners, READ)).status == "OK":
                owners += 1
        counts.append(owners)
    assert counts == [12, 4, 2, 3]


@each_case("module, limit, most, status", [("locks", "RANGES", 4, "OK"), ("held_states", "RANGES_TOTAL", 7, "DELAY")])
def test_an_owner_and_the_server_have_a_bounded_number_of_ranges(
    module: str, limit: str, most: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"rpcrdma.nfs.v4.server.{module}.NFS4_{limit}_MAX", most)
    _, client, _ = two_clients()
    opened = client.opened(b"file", BOTH)
    for start in (0, 10, 20):
        reply = client.run(FILE, lock(opened, b"l", WRITE_LT, start, 5))
        assert reply.status == "OK"
    assert client.run(FILE, lock(opened, b"l", WRITE_LT, 30, 5)).status == "DELAY"
    assert client.run(FILE, locku(reply.value(12), 1, 1)).status == "DELAY", "it would split a range"
    assert client.run(FILE, lock(opened, b"other", WRITE_LT, 30, 5)).status == status
    for start, length in ((20, 5), (9, 3), (3, 2)):
        reply = client.run(FILE, locku(reply.value(12 if start == 20 else 14), start, length))
        assert reply.status == "OK", "it adds no range"
    assert client.run(FILE, lock(opened, b"l", WRITE_LT, 50, 5)).status == "OK"


def test_a_host_locks_no_more_ranges_than_are_left_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.held_states.NFS4_RANGES_TOTAL_MAX", 20)
    server, *clients = two_clients()
    clients.append(server.client("c").start())
    opened = [client.opened(b"file", BOTH) for client in clients]

    def lock_all(number: int) -> list[Stateid]:
        replies = []
        while (reply := clients[number].run(FILE, next_lock(number))).status == "OK":
            replies.append(reply.value(12))
        return replies

    def next_lock(number: int) -> bytes:
        return lock(opened[number], b"l", WRITE_LT, 10 * next(starts), 5)

    starts = itertools.count()
    first, second = lock_all(0), lock_all(1)
    assert (len(first), len(second), lock_all(2)) == (10, 5, []), "the last one is at the host of the first"
    assert clients[0].run(FILE, locku(first[-1], 0, MAX64)).status == "OK"
    assert server.state.ranges_of_hosts.used == server.claims.range_count == 5
    assert len(lock_all(1)) == 5
    assert clients[1].run(FILE, close(opened[1])).status == "LOCKS_HELD"


def test_a_file_has_a_bounded_number_of_owners_with_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.locks.NFS4_RANGE_OWNERS_MAX", 2)
    _, client, _ = two_clients()
    opened = client.opened(b"file", BOTH)
    for number in (1, 2):
        client.locked(b"file", opened, b"l %d" % number, start=10 * number)
    assert client.run(FILE, lock(opened, b"l 3", WRITE_LT, 50, 5)).status == "DELAY"
    assert client.run(FILE, lock(opened, b"l 2", WRITE_LT, 50, 5)).status == "OK"


def test_a_thread_looks_at_many_opens_of_a_file_for_a_delegation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.delegations.NFS4_OWNERS_AT_ONCE", 3)
    server, client, _ = two_clients()
    client.opened(b"file", WRITE)
    before, hops = server.hops, []
    for number in range(5):
        client.opened(b"file", READ, owner=b"o %d" % number)
        hops.append(server.hops - before)
    assert hops == [0, 0, 0, 1, 2]


def test_a_thread_looks_at_many_owners_of_a_file_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.locks.NFS4_OWNERS_AT_ONCE", 2)
    server, client, _ = two_clients()
    opened = client.opened(b"file", BOTH)
    locked = client.locked(b"file", opened, b"l 0", start=100)
    before = server.hops
    for number in range(3):
        client.locked(b"file", opened, b"l %d" % number, start=10 * number)
    assert server.hops == before
    assert client.run(FILE, lockt(b"l", WRITE_LT, 50, 5)).status == "OK"
    assert client.run(FILE, locku(Stateid(0, locked.other), 0, MAX64)).status == "OK"
    assert client.run(FILE, lockt(b"l", WRITE_LT, 50, 5)).status == "OK"
    assert server.hops == before + 2, "that of LOCKT and that of LOCKU, before which there were three"


@each_case("held, later", [(None, False), (None, True), (0, False), (6, False)])
def test_an_open_with_many_lock_owners_is_closed_by_a_thread_in_steps(
    held: int | None, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.held_states.NFS4_ENDED_AT_ONCE", 2)
    server, client, _ = two_clients()
    opened = client.opened(b"file", BOTH)
    for number in range(7):
        locked = client.run(FILE, lock(opened, b"%d" % number, READ_LT, number, 1)).value(12)
        if number != held:
            assert client.run(FILE, locku(locked, number, 1)).status == "OK"
    ended: list[int] = []
    locked_of, drop_of = server.state.locked, server.state.drop

    def locked_now(left: Any = None) -> Any:
        ended.append(0)
        return locked_of(left)

    monkeypatch.setattr(server.state, "locked", locked_now)

    def drop(each: Any) -> None:
        ended[-1] += 1
        drop_of(each)

    def in_steps(states: list[Any], step: Any) -> None:
        in_steps_of(states, step)
        if later and sum(ended) == 0:
            # A call that comes after the locks have been looked at.
            for part in states[0].parts:
                server.state.ranges_of_hosts.add(part.client.host, part.change(server.claims, 0, 1, False))

    in_steps_of = server.state.in_steps
    monkeypatch.setattr(server.state, "in_steps", in_steps)
    monkeypatch.setattr(server.state, "drop", drop)
    hops = server.hops
    assert client.run(FILE, close(opened)).status == ("OK" if held is None else "LOCKS_HELD")
    assert server.hops == hops + 1
    assert (max(ended), sum(ended)) == ((2, 8) if held is None else (0, 0)), "all locks are looked at before one ends"
    assert server.state.ranges_of_hosts.used == server.claims.range_count == (held is not None)
