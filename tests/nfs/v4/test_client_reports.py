"""The clients as an administrator sees them, without a call that waits for the report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from conversation import Conversation, two_clients
from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.v4.server.client_reports import ClientReport, clients_of, held_by_export, revoke_client
from rpcrdma.nfs.v4.server.clients import Holdings
from rpcrdma.nfs.v4.state_limits import NFS4_ENDED_AT_ONCE
from state_rig import LEASE_S, StateRig
from support.cases import each_case
from support.nfs4_client import READ, WRITE, lockt, open_, putfh

HELD_MAX = 64
"""Functions entered while the lock is held, whatever the number of clients and states."""


class LockWithCount:
    """A lock that notes the functions which its holder enters; `most` is the largest number of one holding."""

    def __init__(self, lock: Any) -> None:
        self._lock, self.most, self.times = lock, 0, 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self.times += 1
        self._entered = 0
        sys.setprofile(self._count)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self.most = max(self.most, self._entered)
        self._lock.release()

    def _count(self, _frame: FrameType, event: str, _argument: object) -> None:
        self._entered += event in {"call", "c_call"}


def of_one(server: Conversation) -> ClientReport:
    (found,) = clients_of(server.state, server.now_s)
    return found


def test_a_client_is_shown_with_all_that_it_holds() -> None:
    server = Conversation()
    server.files.leases = True
    server.files.add("other")
    client = server.client("Linux NFSv4.2 node7/\x1b[31m\xff", peer="192.0.2.9")
    client.introduce()
    assert (of_one(server).state, of_one(server).versions, of_one(server).slots) == ("unconfirmed", (), 0)
    client.start()
    opened = client.opened(b"file", READ | WRITE)
    client.locked(b"file", opened, start=0)
    client.locked(b"file", opened, b"second", start=20)
    client.run(putfh(b"other"), open_(b"o", READ))
    server.now_s += 30
    found = of_one(server)
    assert found.id == f"{client.id:016x}"
    assert (found.address, found.principal, found.versions) == ("192.0.2.9", "sys:0", ("4.1",))
    assert found.name == r"Linux NFSv4.2 node7/\x1b[31m\xc3\xbf"
    assert (found.state, found.sessions, found.slots, found.slots_in_use) == ("confirmed", 1, 64, 0)
    assert found.calls == client.number, "the slots number the calls"
    assert (found.holdings, found.revoked, found.silent_s) == (Holdings(opens=2, locks=2, delegations=1), 0, 30)
    server.now_s += LEASE_S
    assert of_one(server).state == "courteous"


def test_revoking_shows_what_was_lost_once_and_no_other_client_is_taken() -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b" * 300).start()
    for each in (client, other):
        each.opened(b"file", READ)
    number = f"{client.id:016x}"
    for wrong in ("", "0", number.upper() + " ", number[:-1], "client", "0x" + number):
        assert revoke_client(server.state, wrong, server.now_s) is None
    found = revoke_client(server.state, number, server.now_s)
    assert found is not None
    assert (found.id, found.holdings) == (number, Holdings(opens=1))
    again = revoke_client(server.state, number, server.now_s)
    assert again is not None
    assert again.holdings == Holdings()
    first, second = clients_of(server.state, server.now_s)
    assert (first.revoked, first.holdings, second.revoked, second.holdings) == (1, Holdings(), 0, Holdings(opens=1))
    assert len(second.name) == 131
    assert "b" * 128 in second.name


def test_a_disk_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Conversation()
    client = server.client("a").start()
    client.opened(b"file", READ)
    monkeypatch.setattr(server.database, "forget", lambda _rows: False)
    with pytest.raises(OSError, match="nothing was revoked; free space on the disk"):
        revoke_client(server.state, f"{client.id:016x}", server.now_s)


def test_states_are_counted_by_the_export_that_their_handles_name() -> None:
    rig = StateRig()
    client = rig.client()
    for number in range(6):
        rig.hold(client, b"\x01" + b"exp%d" % (number % 2) + b"file%d" % number)
    assert held_by_export(rig.state, rig.now_s) == {b"exp0": Holdings(opens=3), b"exp1": Holdings(opens=3)}


@pytest.mark.thorough
@each_case("report", [clients_of, held_by_export])
def test_no_call_waits_for_more_than_one_client_of_a_thousand(report: Callable[..., Any]) -> None:
    rig = StateRig()
    for number in range(1000):
        client = rig.client(str(number))
        for file in range(10):
            rig.hold(client, b"\x01exp0%d %d" % (number, file))
    lock: Any = LockWithCount(rig.state.lock)
    rig.state.lock = rig.state.claims.lock = lock
    found = report(rig.state, rig.now_s)
    assert (len(found) == 1000) if report is clients_of else (found == {b"exp0": Holdings(opens=10_000)})
    assert lock.times == 1001
    assert lock.most <= HELD_MAX


@each_case("silent_s", [0.0, LEASE_S + 1])
def test_no_call_waits_for_more_than_some_states_that_are_revoked_or_end(silent_s: float) -> None:
    for count in (100, 1000):
        rig = StateRig()
        client = rig.client()
        for file in range(count):
            rig.hold(client, b"%d" % file)
        rig.now_s += silent_s
        lock: Any = LockWithCount(rig.state.lock)
        rig.state.lock = rig.state.claims.lock = lock
        found = revoke_client(rig.state, f"{client.id:016x}", rig.now_s)
        assert found is not None
        assert found.holdings.opens == count
        assert (client.id in rig.state.clients.by_id) is not bool(silent_s)
        assert lock.most < NFS4_ENDED_AT_ONCE * 50


@each_case("ends", ["lease", "restart", "revocation", "export"])
def test_no_call_waits_for_all_locks_of_one_open_to_end(ends: str) -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b").start()
    opened = client.opened(b"file", READ | WRITE)
    for number in range(300):
        client.locked(b"file", opened, b"%d" % number, number, 1)
    lock: Any = LockWithCount(server.state.lock)
    server.state.lock = server.claims.lock = lock
    if ends == "lease":
        server.now_s += LEASE_S + 1
        assert other.run(putfh(b"file"), lockt(b"l", 2, 0, 1)).status == "OK"
    elif ends == "restart":
        client.verifier = b"boot   2"
        client.start()
    elif ends == "revocation":
        found = revoke_client(server.state, f"{client.id:016x}", server.now_s)
        assert found is not None
        assert found.holdings == Holdings(opens=1, locks=300)
    else:
        assert server.service.revoke_on([server.files]) == 1  # type: ignore[list-item]
    assert server.claims.range_count == 0
    assert lock.most < NFS4_ENDED_AT_ONCE * 50


def test_no_call_waits_for_more_than_some_states_of_a_client_that_has_restarted() -> None:
    rig = StateRig()
    old = rig.client()
    for file in range(1000):
        rig.hold(old, b"%d" % file)
    restarted, waits = rig.introduce("a", "2"), rig.waits
    lock: Any = LockWithCount(rig.state.lock)
    rig.state.lock = rig.state.claims.lock = lock
    rig.create_session(restarted)
    assert (len(rig.state.claims), rig.waits) == (0, waits + 1)
    assert lock.most < NFS4_ENDED_AT_ONCE * 50


def test_no_call_waits_for_a_sweep_over_the_sessions_of_all_clients() -> None:
    rig = StateRig()
    for number in range(500):
        rig.client(f"{number}")
    lock: Any = LockWithCount(rig.state.lock)
    rig.state.lock = rig.state.claims.lock = lock
    rig.state.sweep(rig.now_s)
    assert len(rig.state.sessions) == 500
    assert lock.most <= HELD_MAX


def test_no_call_waits_for_a_look_at_all_locks_of_a_file() -> None:
    claims: Claims[str, str] = Claims()
    for number in range(300):
        claims.change_range(b"file", "a", 2 * number, 2 * number + 1, False)
    lock: Any = LockWithCount(claims.lock)
    claims.lock = lock
    assert len(claims.unlocked(b"file", 0, 600)) == 300
    assert lock.most <= HELD_MAX


def test_an_open_looks_at_no_other_opens_of_a_file_that_nobody_writes() -> None:
    server, client, other = two_clients()
    server.files.leases = True
    for number in range(300):
        client.opened(b"file", READ, owner=b"%d" % number)
    lock: Any = LockWithCount(server.state.lock)
    server.state.lock = server.claims.lock = lock
    other.opened(b"file", READ)
    assert (server.claims.delegations, server.claims.share_count(b"file")) == (2, 301)
    assert lock.most <= HELD_MAX
