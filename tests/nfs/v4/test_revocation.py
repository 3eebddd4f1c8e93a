"""The revocation of a client's state by an administrator: its claims end at once, and the client learns of it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from conversation import Conversation
from few_files import OpenedFile
from rpcrdma.nfs.v4.server.clients import Client as Record
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from state_rig import LEASE_S
from support.cases import each_case
from support.nfs4_client import (
    READ,
    WRITE,
    Client,
    Stateid,
    close,
    free_stateid,
    lock,
    locku,
    open_,
    putfh,
    read,
    reclaim_complete,
    test_stateid,
)

FILE, OTHER = putfh(b"file"), putfh(b"other")
BOTH = READ | WRITE
WRITE_LT = 2
ADMIN_STATE_REVOKED, RECALLABLE_STATE_REVOKED = 0x20, 0x40


class Holder:
    """A client with an open, a lock and a delegation, and another client, which wants the same."""

    def __init__(self, path: Path | None = None, now_s: float = 0.0) -> None:
        self.server = Conversation(path, now_s=now_s)
        self.server.files.leases = True
        self.server.files.add("other")
        self.client, self.other = self.server.client("a").start(), self.server.client("b").start()
        if path is not None:
            # Both may reclaim after a restart.
            self.server.files.add("theirs")
            self.other.opened(b"theirs")
        self.opened = self.client.opened(b"file", BOTH)
        self.locked = self.client.locked(b"file", self.opened)
        self.delegation: Stateid = self.client.run(OTHER, open_(b"o", READ)).value(18)["delegation"]
        self.reader: Stateid = self.client.run(OTHER, open_(b"o", READ)).value(18)["stateid"]

    @property
    def stateids(self) -> tuple[Stateid, ...]:
        return self.opened, self.locked, self.delegation, self.reader

    @property
    def record(self) -> Record:
        return self.server.state.clients.by_id[self.client.id]

    def pass_time(self, seconds: float) -> None:
        self.server.now_s += seconds
        self.server.service.sweep()

    def revoke(self) -> tuple[int, int, int] | None:
        """The numbers of opens, locks and delegations that were revoked."""
        found = self.server.state.revoke_all(self.record)
        return found and (found.opens, found.locks, found.delegations)

    def flags(self, client: Client | None = None) -> int:
        found: int = (client or self.client).run().value(53)[-1]
        return found


@pytest.mark.req("NF4-155", "NF4-158")
def test_others_get_what_a_client_has_lost_and_the_client_learns_of_its_loss() -> None:
    holder = Holder()
    theirs = holder.other.opened(b"file", BOTH)
    assert holder.other.run(FILE, lock(theirs, b"l", WRITE_LT, 0, 1)).status == "DENIED"
    assert holder.other.run(OTHER, open_(b"w", WRITE)).status == "DELAY"
    assert holder.revoke() == (2, 1, 1)
    assert holder.other.run(FILE, lock(theirs, b"l", WRITE_LT, 0, 1)).status == "OK"
    assert holder.other.run(OTHER, open_(b"w", WRITE)).status == "OK"
    both = ADMIN_STATE_REVOKED | RECALLABLE_STATE_REVOKED
    assert (holder.flags(), holder.flags(holder.other)) == (both, 0)
    assert holder.client.run(test_stateid(*holder.stateids)).value(55) == ["ADMIN_REVOKED"] * 4
    for operation in (close(holder.opened), read(holder.locked, 0, 1), lock(holder.opened, b"m", WRITE_LT, 50, 1)):
        assert holder.client.run(FILE, operation).status == "ADMIN_REVOKED"
    # The same owner may open the same file again before it has freed the lost one.
    again = holder.client.opened(b"file", READ)
    for stateid in holder.stateids:
        # The last one but one is the delegation.
        assert holder.flags() == (ADMIN_STATE_REVOKED if stateid is holder.stateids[-1] else both)
        assert holder.client.run(free_stateid(stateid)).status == "OK"
    assert holder.flags() == 0
    assert holder.client.run(test_stateid(again, *holder.stateids)).value(55) == ["OK", *["BAD_STATEID"] * 4]


def test_files_and_leases_of_revoked_state_are_closed_and_nothing_of_it_stays_when_it_is_freed() -> None:
    holder = Holder()
    before = len(holder.server.claims)
    assert before
    assert holder.revoke() == (2, 1, 1)
    gc.collect()
    files = holder.server.files
    assert (files.open_files, files.open_leases, len(holder.server.claims)) == (0, 0, 0)
    assert holder.revoke() == (0, 0, 0)
    for stateid in holder.stateids:
        holder.client.run(free_stateid(stateid))
    record = holder.record
    assert (record.held, record.lost, record.delegations) == ({}, {}, 0)
    state = holder.server.state
    assert [each.used for each in (state.states_of_hosts, state.ranges_of_hosts, state.delegations_of_hosts)] == [0] * 3


@each_case("end", ["revoke", "evict", "sweep"])
def test_no_other_client_waits_for_a_file_system_that_hangs_while_a_lost_file_is_closed(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    holder = Holder()
    state = holder.server.state
    waits: list[bool] = []
    close_file = OpenedFile.__del__

    def closing(file: OpenedFile) -> None:
        if file.file.tree is holder.server.files:  # and no garbage of another test
            waits.append(state._disk.locked() or state.lock.locked())
        close_file(file)

    monkeypatch.setattr(OpenedFile, "__del__", closing)
    if end == "revoke":
        holder.revoke()
    elif end == "evict":
        holder.server.now_s += LEASE_S + 1
        state.clients.pass_leases(holder.server.now_s)
        state.evict([holder.record])
    else:
        holder.pass_time(NFS4_COURTESY_S + 1)
        gc.collect()
        assert (waits, len(holder.server.claims)) == ([], 0)
        holder.server.service.close_ended()
    gc.collect()
    assert (waits, holder.server.files.open_files) == ([False] * 3, 0)


def test_threads_that_close_the_files_of_ended_clients_share_the_work() -> None:
    class TakenByAnother(list[Any]):
        def __bool__(self) -> bool:
            return True

    Holder().server.state.close_ended(TakenByAnother())


def test_a_client_reclaims_nothing_that_was_revoked_and_all_that_it_has_claimed_since_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    holder = Holder(path)
    assert sorted(row.owner for row in Conversation(path).database.rows) == [b"a", b"b"]
    assert holder.revoke() == (2, 1, 1)
    restarted = Conversation(path)
    assert [row.owner for row in restarted.database.rows] == [b"b"]
    for stateid in holder.stateids:
        assert [row.owner for row in Conversation(path).database.rows] == [b"b"]
        holder.client.run(free_stateid(stateid))
    assert [row.owner for row in Conversation(path).database.rows] == [b"b"], "it has nothing to reclaim"
    holder.client.opened(b"file")
    assert sorted(row.owner for row in Conversation(path).database.rows) == [b"a", b"b"]


def test_the_last_lost_stateid_is_freed_when_the_client_is_on_the_disk_with_what_it_has_since(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    holder = Holder(path)
    assert holder.revoke() == (2, 1, 1)
    holder.client.opened(b"file")
    *others, last = holder.stateids
    database = holder.server.database._database
    database.execute("PRAGMA query_only = 1")
    assert {holder.client.run(free_stateid(each)).status for each in others} == {"OK"}
    assert holder.client.run(free_stateid(last)).status == "DELAY"
    assert holder.client.run(OTHER, open_(b"new", READ)).status == "OK", "it still has to learn of its loss"
    database.execute("PRAGMA query_only = 0")
    assert holder.client.run(free_stateid(last)).status == "OK"
    assert sorted(row.owner for row in Conversation(path).database.rows) == [b"a", b"b"]


def test_a_client_that_may_still_reclaim_loses_that_right(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    Holder(path)
    server = Conversation(path)
    client = server.client("a").start(complete=False)
    assert server.state.revoke_all(server.state.clients.by_id[client.id])
    assert client.run(FILE, open_(b"owner", READ, reclaim=True)).status == "NO_GRACE"
    assert [row.owner for row in Conversation(path).database.rows] == [b"b"]


def test_a_client_that_completes_its_reclaim_without_knowing_of_its_loss_does_not_get_it_back(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    Holder(path)
    server = Conversation(path)
    client = server.client("a").start(complete=False)
    again = client.run(FILE, open_(b"owner", READ, reclaim=True)).value(18)["stateid"]
    assert server.state.revoke_all(server.state.clients.by_id[client.id]) is not None
    assert client.run(reclaim_complete()).status == "OK"
    assert [row.owner for row in Conversation(path).database.rows] == [b"b"]
    assert server.client("b").start().run(FILE).status == "OK"
    client.opened(b"file", owner=b"new")
    assert [row.owner for row in Conversation(path).database.rows] == []
    assert client.run(free_stateid(again)).status == "OK"
    assert [row.owner for row in Conversation(path).database.rows] == [b"a"]


def test_a_client_that_loses_nothing_by_a_revocation_may_reclaim_what_it_opens_later(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    holder = Holder(path)
    for step in ((FILE, locku(holder.locked, 0, 100), close(holder.opened)), (OTHER, close(holder.reader))):
        assert holder.client.run(*step).status == "OK"
    assert holder.other.run(OTHER, open_(b"w", WRITE)).status == "DELAY"
    for _ in range(3):
        holder.pass_time(LEASE_S / 2 + 1)
        holder.client.run(), holder.other.run()
    assert holder.client.run(test_stateid(holder.delegation)).value(55) == ["DELEG_REVOKED"]
    assert holder.revoke() == (0, 0, 0)
    assert sorted(row.owner for row in Conversation(path).database.rows) == [b"a", b"b"]


def test_a_client_without_a_lease_ends_with_its_sessions() -> None:
    holder = Holder()
    holder.pass_time(LEASE_S + 1)
    record = holder.record
    assert holder.revoke() == (2, 1, 1)
    assert record.id not in holder.server.state.clients.by_id
    assert holder.client.run().status == "BADSESSION"


def test_nothing_is_revoked_while_the_disk_would_let_it_be_reclaimed(monkeypatch: pytest.MonkeyPatch) -> None:
    for past_s in (0.0, LEASE_S + 1):
        holder = Holder()
        holder.pass_time(past_s)
        monkeypatch.setattr(holder.server.database, "forget", lambda _rows: False)
        assert holder.revoke() is None
        assert (holder.flags(), holder.client.run(test_stateid(*holder.stateids)).value(55)) == (0, ["OK"] * 4)
