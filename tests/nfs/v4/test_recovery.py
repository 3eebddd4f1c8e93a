"""Restarts of a server of version 4.1: boot numbers, who may reclaim, the end of the grace period, failing disks."""

from __future__ import annotations

import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.v4.nfs4 import nfsstat4, stateid4
from rpcrdma.nfs.v4.server.clients import Client
from rpcrdma.nfs.v4.server.recovery import ClientRow, RecoveryDatabase
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from state_rig import LEASE_S, StateRig, counted_octets, refused_with
from support.cases import each_case

S = nfsstat4


class Restarting:
    """A server that can be killed and started again; nothing but its database remains."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "clients.sqlite3"
        self._now_s = 0.0
        self.rig = StateRig(self._path)

    def holder(self, *introduction: str) -> Client:
        """A client that has opened a file."""
        client = self.rig.client(*introduction)
        self.rig.hold(client)
        return client

    def restart(self) -> StateRig:
        # The connection stays open, as a killed process leaves it: nothing is written at the end.
        self._now_s += 1000.0
        self.rig = StateRig(self._path, self._now_s)
        return self.rig

    def may_reclaim(self, client: Client) -> bool:
        rig = self.rig
        status = refused_with(rig.state.check_reclaim, client, rig.now_s)
        assert status in {None, S.NFS4ERR_NO_GRACE}
        return status is None

    def may_claim(self, client: Client) -> bool:
        status = refused_with(self.rig.state.check_new, client)
        assert status in {None, S.NFS4ERR_GRACE}
        return status is None

    def complete(self, client: Client, *, reclaims: bool = False) -> None:
        if reclaims:
            self.rig.hold(client)
        self.rig.state.complete_reclaim(client, self.rig.now_s)


def come_back(rig: StateRig, *introduction: str) -> Client:
    """The client in the next run of the server: it has a session and has said nothing more."""
    return rig.session(*introduction).client


@pytest.mark.req("NF4-115")
def test_stateids_and_client_ids_of_another_run_are_known_to_be_so(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    client = server.rig.client()
    held = server.rig.hold(client)
    rig = server.restart()
    again = come_back(rig)
    assert again.id != client.id
    assert refused_with(rig.state.clients.find, client.id) is S.NFS4ERR_STALE_CLIENTID
    assert refused_with(rig.state.find, again, stateid4(1, held.other)) is S.NFS4ERR_BAD_STATEID
    server.complete(again)
    assert rig.hold(again).other != held.other


@pytest.mark.req("NF4-116")
def test_after_a_restart_those_who_had_state_reclaim_and_others_wait(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    server.rig.session("never complete")
    server.rig.client("idle")
    rig = server.restart()
    assert rig.state.claims.in_grace
    a, b, c, d = (come_back(rig, each) for each in ("a", "b", "never complete", "idle"))
    assert [server.may_reclaim(each) for each in (a, b, c, d)] == [True, False, False, False]
    server.complete(b)
    assert not server.may_claim(b)
    server.complete(a)
    assert not rig.state.claims.in_grace, "all who may reclaim have done so"
    assert server.may_claim(a)
    assert server.may_claim(b)
    assert not server.may_claim(c), "RECLAIM_COMPLETE comes first"
    assert not server.may_reclaim(a)


def test_a_client_that_has_restarted_too_reclaims_nothing(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a", "1")
    rig = server.restart()
    client = come_back(rig, "a", "2")
    assert not server.may_reclaim(client)
    server.complete(client)
    assert not rig.state.claims.in_grace, "the earlier incarnation will not come any more"


@pytest.mark.req("NF4-116")
@each_case("verifier", ["1", "2"])
def test_another_principal_takes_no_right_to_reclaim_and_waits_until_the_owner_has_used_it(
    verifier: str, tmp_path: Path
) -> None:
    server = Restarting(tmp_path)
    server.rig.hold(server.rig.client("a"))
    rig = server.restart()
    other = ("a", verifier, "sys:7")
    assert refused_with(come_back, rig, *other) is S.NFS4ERR_DELAY
    client = come_back(rig, "a")
    assert refused_with(come_back, rig, *other) is S.NFS4ERR_DELAY, "the owner has not reclaimed yet"
    assert server.may_reclaim(client)
    rig.hold(client)
    server.complete(client)
    assert refused_with(come_back, rig, *other) is S.NFS4ERR_CLID_INUSE
    assert server.may_reclaim(come_back(server.restart(), "a"))


def test_another_principal_of_an_owner_that_does_not_come_back_is_served_after_the_grace_period(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    rig = server.restart()
    other = ("a", "2", "gss:host/a@EXAMPLE.ORG")
    assert refused_with(come_back, rig, *other) is S.NFS4ERR_DELAY
    rig.now_s += LEASE_S
    rig.state.sweep(rig.now_s)
    client = come_back(rig, *other)
    server.complete(client)
    assert server.may_claim(client)
    rig.hold(client)
    assert server.may_reclaim(come_back(server.restart(), *other))


@pytest.mark.req("NF4-117")
def test_a_second_restart_within_the_grace_period_gives_all_another_one(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    for owner in "abc":
        server.holder(owner)
    rig = server.restart()
    server.complete(come_back(rig, "a"), reclaims=True)
    server.complete(come_back(rig, "c"))
    rig = server.restart()
    a, b, c = (come_back(rig, owner) for owner in "abc")
    assert server.may_reclaim(a)
    assert server.may_reclaim(b)
    assert not server.may_reclaim(c), "it has given up what it had"


@pytest.mark.req("NF4-118")
def test_clients_that_stayed_away_lose_their_rows_before_others_may_claim(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    rig = server.restart()
    b = come_back(rig, "b")
    server.complete(b)
    rig.now_s += LEASE_S - 1
    rig.state.sweep(rig.now_s)
    assert not server.may_claim(b)
    rig.now_s += 1
    rig.state.sweep(rig.now_s)
    assert server.may_claim(b)
    rig.hold(b)
    rig = server.restart()
    assert not server.may_reclaim(come_back(rig, "a"))
    assert server.may_reclaim(come_back(rig, "b"))


def test_the_log_says_for_whom_a_grace_period_waits_and_how_it_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rpcrdma.server")
    server = Restarting(tmp_path)
    for owner in ("Linux NFSv4.2 node7", "a\n2026 INFO forged", "c", "d", "e" * 500):
        server.holder(owner)
    assert not caplog.records, "without earlier clients there is no grace period"
    rig = server.restart()
    (start,) = caplog.records
    assert "that are awaited: 5 (Linux NFSv4.2 node7, a\\n2026 INFO forged, c, 2 more); " in start.message
    assert start.message.startswith("grace period of 90 s, at most 180 s while clients reclaim; ")
    caplog.clear()
    server.complete(come_back(rig, "c"), reclaims=True)
    assert not caplog.records
    rig.now_s += LEASE_S
    rig.state.sweep(rig.now_s)
    (end,) = caplog.records
    assert "over: clients that did not come back: 4 (Linux NFSv4.2 node7, " in end.message
    assert len(end.message) < 300
    caplog.clear()
    server.complete(come_back(server.restart(), "c"))
    assert [record.event["event"] for record in caplog.records] == ["grace", "grace_over"]  # type: ignore[attr-defined]
    assert caplog.records[1].message == "the grace period is over: no client is awaited any more"


def test_the_grace_period_goes_on_until_the_disk_has_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    rig = server.restart()
    rig.now_s += LEASE_S
    with monkeypatch.context() as failing:
        failing.setattr(rig.database, "forget", lambda _rows: False)
        rig.state.sweep(rig.now_s)
    assert rig.state.claims.in_grace
    rig.state.sweep(rig.now_s)
    assert not rig.state.claims.in_grace


def test_each_reclaim_prolongs_the_grace_period_to_two_leases_at_most(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    server.holder("b")
    rig = server.restart()
    client = come_back(rig, "a")
    for _ in range(4):
        rig.now_s += LEASE_S / 2 - 1
        rig.renew(client)
        rig.state.sweep(rig.now_s)
        assert server.may_reclaim(client)
    rig.now_s += 4
    rig.state.sweep(rig.now_s)
    assert not rig.state.claims.in_grace


@pytest.mark.req("NF4-119")
def test_a_client_that_lost_its_state_to_others_does_not_reclaim_it(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    rig = server.rig
    a, b = rig.client("a"), rig.client("b")
    rig.hold(a, deny=3)
    rig.now_s += LEASE_S + 1
    rig.renew(b)
    rig.hold(b)
    rig = server.restart()
    assert not server.may_reclaim(come_back(rig, "a"))
    assert server.may_reclaim(come_back(rig, "b"))


def test_a_client_that_ends_within_the_grace_period_reclaims_no_more(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    server.holder("b")
    rig = server.restart()
    a, b = come_back(rig, "a"), come_back(rig, "b")
    for _ in range(2):
        rig.now_s += LEASE_S / 2 + 1
        rig.renew(b)
        assert server.may_reclaim(b)
    with rig.state.lock:
        rig.state.clients.pass_leases(rig.now_s)
    rig.state.evict([a])
    assert not server.may_reclaim(come_back(rig, "a"))
    rig.state.sessions.destroy_all(b)
    rig.state.destroy(b)
    assert not server.may_reclaim(come_back(rig, "b"))


def test_a_client_that_restarts_and_ends_is_not_waited_for(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    old = server.holder("a", "1")
    again = server.rig.session("a", "2").client
    assert refused_with(server.rig.state.destroy, old) is None, "it is gone already"
    assert server.restart().state.claims.in_grace, "the second incarnation did not end"
    again = come_back(server.rig, "a", "2")
    server.rig.state.sessions.destroy_all(again)
    server.rig.state.destroy(again)
    server.rig.state.sweep(server.rig.now_s)
    assert not server.rig.state.claims.in_grace
    assert not server.restart().state.claims.in_grace


def test_the_end_of_an_unconfirmed_record_or_of_a_record_that_is_gone_leaves_the_row(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    gone = server.rig.client("a", "1")
    server.holder("a", "2")
    server.rig.state.destroy(gone)
    server.rig.state.destroy(server.rig.introduce("a", "3"))
    server.restart()
    assert server.may_reclaim(come_back(server.rig, "a", "2"))


def test_a_client_is_on_the_disk_before_its_first_state_and_no_sooner(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    rig = server.rig
    client = rig.client("a")

    def on_disk() -> list[bytes]:
        return list(StateRig(tmp_path / "clients.sqlite3").state.grace.waiting)

    assert on_disk() == [], "who cannot open a file imposes no grace period"
    holder = rig.client("b")
    rig.hold(holder, deny=3)
    assert refused_with(rig.hold, client) is S.NFS4ERR_SHARE_DENIED
    assert on_disk() == [b"b"], "what is refused needs no row"
    waits, held = rig.waits, []
    add = rig.state.add
    rig.state.add = lambda state: (held.append(on_disk()), add(state))[1]  # type: ignore[method-assign]
    for file in (b"1", b"2", b"3"):
        rig.hold(client, file)
    assert held == [[b"a", b"b"]] * 3
    assert rig.waits == waits + 1, "further states wait for no disk"


def test_a_client_whose_right_has_ended_with_the_grace_period_is_written_again_with_what_it_has_reclaimed(
    tmp_path: Path,
) -> None:
    server = Restarting(tmp_path)
    for owner in "ab":
        server.holder(owner)
    rig = server.restart()
    a, b = come_back(rig, "a"), come_back(rig, "b")
    rig.hold(a)
    rig.now_s += LEASE_S
    for client in (a, b):
        rig.renew(client)
    rig.state.sweep(rig.now_s)
    assert not rig.state.claims.in_grace
    assert not StateRig(tmp_path / "clients.sqlite3").state.grace.waiting
    server.complete(a)
    server.complete(b)
    assert list(server.restart().state.grace.waiting) == [b"a"]


def test_a_client_whose_lease_passes_without_state_is_forgotten(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    idle, holder = server.rig.client("idle"), server.rig.client("holder")
    server.rig.hold(holder)
    for past, there in [(0, True), (1, False)]:
        server.rig.now_s = LEASE_S + past
        server.rig.state.sweep(server.rig.now_s)
        assert (idle.id in server.rig.state.clients.by_id) is there
    rig = server.restart()
    assert list(rig.state.grace.waiting) == [b"holder"]


def test_a_client_that_may_still_reclaim_is_not_forgotten_within_the_grace_period(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    server.holder("silent")
    server.holder("active")
    rig = server.restart()
    silent, active = come_back(rig, "silent"), come_back(rig, "active")
    for _ in range(3):
        rig.now_s += LEASE_S / 2
        rig.renew(active)
        assert server.may_reclaim(active)
        rig.state.sweep(rig.now_s)
    assert server.may_reclaim(silent)
    rig.now_s += LEASE_S
    for _ in range(2):
        rig.state.sweep(rig.now_s)
    assert not rig.state.claims.in_grace
    assert silent.id not in rig.state.clients.by_id


def test_an_orderly_stop_forgets_clients_without_state_alone(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    for owner in ("idle", "holder", "away"):
        server.holder(owner)
    rig = server.restart()
    idle = come_back(rig, "idle")
    held = rig.hold(idle)
    server.complete(idle)
    with rig.state.locked():
        rig.state.drop(held)
    holder = come_back(rig, "holder")
    rig.hold(holder)
    server.complete(holder)
    rig.state.close()
    assert sorted(server.restart().state.grace.waiting) == [b"away", b"holder"]


def test_servers_that_share_a_database_await_their_own_clients_alone(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    row, other = ClientRow(b"a", b"1", "sys:0"), ClientRow(b"a", b"2", "sys:0")

    def opened(address: str, *exports: str) -> closing[RecoveryDatabase]:
        return closing(RecoveryDatabase(path, counted_octets(), addresses=[address], exports=exports))

    with opened("rdma://h:1", "/=/x") as first, opened("rdma://h:2", "/=/x") as second:
        assert first.boot != second.boot
        first.keep(row)
        second.keep(other)
        assert first.forget([row])
        first.keep(row)
    with opened("rdma://h:2", "/=/x") as second, opened("rdma://h:3", "/=/x") as third:
        assert (second.rows, third.rows) == ([other], [])
    with opened("rdma://h:1", "/=/y") as unrelated:
        assert unrelated.rows == []
    with opened("rdma://h:1", "/a=/y", "/=/x") as grown:
        assert grown.rows == [row], "an export more is the same server"


def test_clients_are_found_by_other_addresses_and_exports_of_the_running_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "clients.sqlite3"
    rows = [ClientRow(owner, b"1", "sys:0") for owner in (b"a", b"b")]

    def rows_of(address: str, *exports: str) -> list[ClientRow]:
        with closing(RecoveryDatabase(path, counted_octets(), addresses=[address], exports=exports)) as database:
            return sorted(database.rows)

    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:1"], exports=["/a"])) as database:
        database.keep(rows[0])
        database.serve(["tcp://h:2"], ["/a", "/b"])
        database.keep(rows[1])
        assert [rows_of("tcp://h:2", each) for each in ("/a", "/b", "/c")] == [rows, rows, []]
        assert rows_of("tcp://h:1", "/a") == []
        database.serve(["tcp://h:2"], ["/b"])
        assert [rows_of("tcp://h:2", each) for each in ("/a", "/b")] == [[], rows]
        database._database.execute("PRAGMA query_only = 1")
        database.serve(["tcp://h:3"], ["/c"])
        assert "clients may lose their locks with the next restart" in caplog.text
    assert rows_of("tcp://h:2", "/b") == rows


def test_a_client_that_is_written_while_the_addresses_change_is_found_by_the_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    row = ClientRow(b"a", b"1", "sys:0")

    class LockWithGuest:
        """A lock after whose first release another thread has its turn."""

        lock, guests = threading.Lock(), [row]

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if self.guests:
                database.keep(self.guests.pop())

    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:1"])) as database:
        database._lock = LockWithGuest()  # type: ignore[assignment]
        database.serve(["tcp://h:2"], [])
    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:2"])) as database:
        assert database.rows == [row]


def test_boot_numbers_count_up_and_begin_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    boots = []
    for _ in range(3):
        with closing(RecoveryDatabase(path, lambda _count: b"\xff\xff\xff\xfe")) as database:
            boots.append(database.boot)
    assert boots == [0xFFFFFFFF, 0, 1]
    assert path.stat().st_mode & 0o077 == 0, "owners' names are nobody else's business"


def test_a_disk_that_takes_no_row_is_told_of_once_and_clients_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Restarting(tmp_path)

    class Full:
        def execute(self, *_args: object) -> None:
            raise sqlite3.OperationalError("disk is full")

    with monkeypatch.context() as full:
        full.setattr(server.rig.database, "_database", Full())
        for owner in ("a", "b"):
            assert server.may_claim(server.holder(owner))
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/clients.sqlite3: disk is full: clients cannot reclaim their locks after a restart"
    ]
    assert not server.restart().state.claims.in_grace


def test_a_failure_of_the_disk_that_lasts_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Restarting(tmp_path).rig
    rig.hold(rig.client("a"))
    rig.now_s += 2 * NFS4_COURTESY_S
    working: Any = rig.database._database

    class Full:
        def __enter__(self) -> None:
            raise sqlite3.OperationalError("disk is full")

        def __exit__(self, *_: object) -> None: ...

        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("disk is full")

    for database, times in ((Full(), 1), (working, 1), (Full(), 2)):
        monkeypatch.setattr(rig.database, "_database", database)
        for sweep in range(3):
            if database is not working:
                # One more client, which the disk does not take, between two sweeps.
                rig.hold(rig.client(f"{times} {sweep}"))
            rig.state.sweep(rig.now_s)
        rig.hold(rig.client("b"))
        rig.now_s += 2 * NFS4_COURTESY_S
        assert len(caplog.records) == 2 * times, caplog.text
    monkeypatch.setattr(rig.database, "_database", working)


@each_case("place", ["head", "row", "index"])
def test_a_damaged_database_is_put_aside(place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "clients.sqlite3"
    caplog.clear()
    path.unlink(missing_ok=True)
    if place == "head":
        path.write_bytes(b"nonsense" * 100)
    else:
        with closing(RecoveryDatabase(path, counted_octets())) as database:
            for number in range(200):
                database.keep(ClientRow(b"%03d" % number * 300, b"boot", "sys:0"))
        with closing(sqlite3.connect(path)) as found:
            size = found.execute("PRAGMA page_size").fetchone()[0]
            name = "client" if place == "row" else "sqlite_autoindex_client_1"
            (root,) = found.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        octets = bytearray(path.read_bytes())
        # Far from the first rows: the last child of the tree's root.
        (child,) = struct.unpack_from(">I", octets, (root - 1) * size + 8)
        octets[(child - 1) * size : child * size] = b"\xa5" * size
        path.write_bytes(octets)
    with closing(RecoveryDatabase(path, counted_octets())) as database:
        assert database.rows == []
    assert (tmp_path / "clients.sqlite3.damaged").exists()
    assert "clients lose their locks in this restart" in caplog.text


def test_a_database_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    path.mkdir()
    with pytest.raises(OSError, match=r"clients\.sqlite3: .*: free space on the disk, or remove the file"):
        RecoveryDatabase(path, counted_octets())
