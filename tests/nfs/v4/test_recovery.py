"""Restarts of a server of version 4.1: boot numbers, who may reclaim, the end of the grace period, failing disks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from conversation import Conversation
from rpcrdma.nfs.v4.nfs4 import nfsstat4, stateid4
from rpcrdma.nfs.v4.server.client_states import ClientState
from rpcrdma.nfs.v4.server.clients import Client, Unrecorded
from rpcrdma.nfs.v4.server.recovery import ClientRow
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from state_rig import LEASE_S, StateRig, refused_with
from support.cases import each_case
from support.nfs4_client import GUARDED, READ, UNCHECKED, lookup, open_, putrootfh

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


@each_case("passed_s", [0, LEASE_S + 1])
def test_a_record_that_gives_way_to_another_principal_leaves_no_row(passed_s: float, tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    rig = server.rig
    held = rig.hold(rig.client("a"))
    with rig.state.locked():
        rig.state.drop(held)
    rig.now_s += passed_s
    come_back(rig, "a", "2", "sys:7")
    assert not server.restart().state.claims.in_grace, "nobody has anything to reclaim"


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


@contextlib.contextmanager
def full(rig: StateRig) -> Iterator[None]:
    """A disk that takes no writes inside `with`."""
    rig.database._database.execute("PRAGMA query_only = 1")
    yield
    rig.database._database.execute("PRAGMA query_only = 0")


@pytest.mark.req("NF4-115")
def test_what_the_disk_does_not_take_is_not_granted_until_it_does(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    rig = server.rig
    holder, new = server.holder("holder"), rig.client("new")
    with full(rig):
        rig.hold(holder, b"another")
        for _ in range(2):
            assert refused_with(rig.hold, new) is S.NFS4ERR_DELAY
        assert not new.held
        rig.client("idle")
        rig.state.sweep(rig.now_s)
    rig.hold(new)
    assert sorted(server.restart().state.grace.waiting) == [b"holder", b"new"]


@each_case("how", [GUARDED, UNCHECKED])
def test_an_open_that_waits_for_the_disk_has_created_no_file(how: int, tmp_path: Path) -> None:
    server = Conversation(tmp_path / "clients.sqlite3")
    client = server.client("a").start()
    opening = putrootfh(), open_(b"o", READ, name="new", create=how)
    database = server.state.database._database
    database.execute("PRAGMA query_only = 1")
    assert client.run(*opening).status == "DELAY"
    assert client.run(putrootfh(), lookup("new")).status == "NOENT"
    database.execute("PRAGMA query_only = 0")
    assert client.run(*opening).status == "OK"


@each_case("reclaims", [True, False])
def test_a_reclaim_is_complete_when_it_is_on_the_disk(reclaims: bool, tmp_path: Path) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    server = Restarting(tmp_path)
    server.holder("a")
    rig = server.restart()
    client = come_back(rig, "a")
    with full(rig):
        if reclaims:
            rig.hold(client)
        assert refused_with(server.complete, client) is S.NFS4ERR_DELAY
        assert (server.may_reclaim(client), server.may_claim(client)) == (True, False)
    server.complete(client)
    assert (server.may_reclaim(client), server.may_claim(client)) == (False, True)
    assert list(server.restart().state.grace.waiting) == [b"a"] * reclaims


def test_a_state_that_a_client_gets_while_the_disk_forgets_it_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Restarting(tmp_path)
    server.holder("a")
    rig = server.restart()
    client = come_back(rig, "a")
    usual = rig.database.forget

    def forget(rows: Iterable[ClientRow]) -> bool:
        with pytest.raises(Unrecorded):
            rig.state.check_recorded(client)
        return usual(rows)

    monkeypatch.setattr(rig.database, "forget", forget)
    server.complete(client)
    rig.hold(client)
    assert list(server.restart().state.grace.waiting) == [b"a"]


def test_a_client_is_destroyed_when_the_disk_has_forgotten_it(tmp_path: Path) -> None:
    server = Restarting(tmp_path)
    rig = server.rig
    client = rig.client("a")
    held = rig.hold(client)
    with rig.state.locked():
        rig.state.drop(held)
        rig.state.sessions.destroy_all(client)
    with full(rig):
        assert refused_with(rig.state.destroy, client) is S.NFS4ERR_DELAY
    assert (client.state, client.recorded) == (ClientState.CONFIRMED, True)
    rig.state.destroy(client)
    assert not server.restart().state.claims.in_grace


def test_a_failure_of_the_disk_is_told_once_and_so_is_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    rig = Restarting(tmp_path).rig
    rig.hold(rig.client("a"))
    rig.now_s += 2 * NFS4_COURTESY_S
    path = tmp_path / "clients.sqlite3"
    for _ in range(2):
        caplog.clear()
        with full(rig):
            for number in range(3):
                assert refused_with(rig.hold, rig.client(f"{number}")) is S.NFS4ERR_DELAY
                rig.state.sweep(rig.now_s)
            assert rig.database.failure == f"{path}: attempt to write a readonly database"
        # Nobody has to ask for something.
        rig.state.sweep(rig.now_s)
        assert rig.database.failure == ""
        failed, mended = caplog.messages
        assert failed.startswith(f"{path}: attempt to write a readonly database: clients of version 4 that open")
        assert failed.endswith("wait; free space on its disk, or let the server write there again")
        assert mended == f"{path} is written again: clients of version 4 go on"
        rig.hold(rig.client("a"))
        rig.now_s += 2 * NFS4_COURTESY_S
