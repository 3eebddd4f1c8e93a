"""Clients of version 4.1: the cases of EXCHANGE_ID, leases and courtesy, and the bounds on records."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.nfs.v4.nfs4 import nfsstat4
from rpcrdma.nfs.v4.server.client_identity import ClientIdentity, principal_of
from rpcrdma.nfs.v4.server.client_states import TRANSITIONS, VERDICTS, ClientEvent, ClientState, Known
from rpcrdma.nfs.v4.server.clients import InTheWay
from rpcrdma.nfs.v4.state_limits import (
    NFS4_CLIENTS_MAX,
    NFS4_COURTESY_S,
    NFS4_UNCONFIRMED_CLIENTS_MAX,
)
from rpcrdma.rpc.auth import AuthGss, AuthNone, AuthSys
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_shares import names_of_host
from state_rig import LEASE_S, StateRig, refused_with
from support.cases import each_case
from support.functions_entered import functions_entered

S = nfsstat4


def test_the_table_has_a_verdict_for_each_introduction() -> None:
    assert set(VERDICTS) == set(itertools.product((False, True), Known))


def test_every_state_but_the_last_has_an_end() -> None:
    assert {state for state, event in TRANSITIONS if event is ClientEvent.END} == set(ClientState) - {ClientState.GONE}
    assert ClientState.GONE not in {state for state, _ in TRANSITIONS}


@pytest.mark.req("NF4-105")
def test_a_new_owner_gets_an_unconfirmed_record_and_a_second_introduction_another_one() -> None:
    rig = StateRig()
    first = rig.introduce()
    assert first.state is ClientState.UNCONFIRMED
    for introduction in [("a", "1"), ("a", "2"), ("a", "2", "sys:7")]:
        second = rig.introduce(*introduction)
        assert second.id != first.id
        assert refused_with(rig.create_session, first) is S.NFS4ERR_STALE_CLIENTID, "the record before is gone"
        first = second
    rig.create_session(first)
    assert first.state is ClientState.CONFIRMED


@pytest.mark.req("NF4-106")
def test_a_confirmed_client_is_known_again_with_its_state() -> None:
    rig = StateRig()
    client = rig.client()
    held = rig.hold(client)
    assert rig.introduce() is client
    assert rig.introduce(update=True) is client
    assert list(client.held.values()) == [held]


@pytest.mark.req("NF4-107")
def test_the_state_of_a_restarted_client_stays_until_the_new_incarnation_has_a_session() -> None:
    rig = StateRig()
    old = rig.client()
    rig.hold(old, deny=3)
    new = rig.introduce("a", "2")
    assert new is not old
    assert rig.introduce("a", "1") is old, "the old incarnation may still be there"
    rig.renew(old)
    new = rig.introduce("a", "2")
    rig.create_session(new)
    assert old.state is ClientState.GONE
    assert len(rig.state.sessions) == 1
    rig.hold(rig.client("b"))


@pytest.mark.req("NF4-108")
def test_another_principal_cannot_take_an_owner_that_has_state() -> None:
    rig = StateRig()
    client = rig.client()
    rig.hold(client)
    for verifier in ("1", "2"):
        assert refused_with(rig.introduce, "a", verifier, "sys:7") is S.NFS4ERR_CLID_INUSE
    rig.renew(client)


def test_another_principal_takes_an_owner_without_state_at_once() -> None:
    rig = StateRig()
    client = rig.client()
    other = rig.introduce("a", "1", "sys:7")
    assert (client.state, other.state) == (ClientState.GONE, ClientState.UNCONFIRMED)
    assert len(rig.state.sessions) == 0


def test_another_principal_takes_an_owner_whose_lease_has_passed_after_it_is_off_the_disk() -> None:
    rig = StateRig()
    rig.hold(rig.client(), deny=3)
    rig.now_s += LEASE_S + 1
    waits = rig.waits
    rig.introduce("a", "1", "sys:7")
    assert rig.waits == waits + 1
    rig.hold(rig.client("b"))


@each_case(
    "verifier, principal, confirmed, status",
    [
        ("1", "sys:0", False, S.NFS4ERR_NOENT),
        ("2", "sys:0", True, S.NFS4ERR_NOT_SAME),
        ("2", "sys:7", True, S.NFS4ERR_NOT_SAME),
        ("1", "sys:7", True, S.NFS4ERR_PERM),
    ],
)
def test_an_update_wants_the_confirmed_record_of_the_caller(
    verifier: str, principal: str, confirmed: bool, status: nfsstat4
) -> None:
    rig = StateRig()
    client = rig.introduce()
    if confirmed:
        rig.create_session(client)
    assert refused_with(rig.introduce, "a", verifier, principal, update=True) is status
    assert rig.state.clients.find(client.id) is client


def test_only_the_principal_of_the_introduction_confirms_a_record() -> None:
    rig = StateRig()
    client = rig.introduce()
    assert refused_with(rig.create_session, client, "sys:7") is S.NFS4ERR_CLID_INUSE
    rig.create_session(client)
    rig.create_session(client, "sys:7")


def test_a_collision_is_judged_again_when_the_record_is_confirmed() -> None:
    rig = StateRig()
    first = rig.client()
    other = rig.introduce("a", "1", "sys:7")
    again = rig.client("a", "1", "sys:7")
    assert (first.state, other.state) == (ClientState.GONE, ClientState.GONE)
    third = rig.introduce("a", "1", "sys:9")
    assert again.state is ClientState.GONE
    rig.create_session(third)


@pytest.mark.req("NF4-109")
def test_a_lease_begins_anew_with_each_sequence_and_then_passes_into_courtesy() -> None:
    rig = StateRig()
    client = rig.client()
    held = rig.hold(client)
    for _ in range(3):
        rig.now_s += LEASE_S
        rig.state.sweep(rig.now_s)
        assert client.state is ClientState.CONFIRMED
        rig.renew(client)
    rig.now_s += LEASE_S + 1
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.COURTEOUS
    rig.renew(client)
    assert client.state is ClientState.CONFIRMED
    assert list(client.held.values()) == [held]


def test_a_courteous_client_ends_by_a_conflict_and_loses_all() -> None:
    rig = StateRig()
    first, second = rig.client("a"), rig.client("b")
    rig.hold(first, deny=3)
    rig.hold(first, b"other")
    assert refused_with(rig.hold, second) is S.NFS4ERR_SHARE_DENIED
    rig.now_s += LEASE_S + 1
    rig.renew(second)
    rig.hold(second, b"third")
    # Each client has waited for the disk before its first state.
    assert (first.state, rig.waits) == (ClientState.CONFIRMED, 2)
    rig.hold(second)
    assert (first.state, rig.waits) == (ClientState.GONE, 3)
    assert len(rig.state.claims) == 2
    assert refused_with(rig.create_session, first) is S.NFS4ERR_STALE_CLIENTID


def test_a_conflict_with_a_client_that_has_a_lease_ends_no_courteous_one() -> None:
    rig = StateRig()
    quiet, busy, third = rig.client("a"), rig.client("b"), rig.client("c")
    rig.hold(quiet)
    rig.hold(busy)
    rig.now_s += LEASE_S + 1
    rig.renew(busy)
    assert refused_with(rig.hold, third, deny=1) is S.NFS4ERR_SHARE_DENIED
    assert quiet.state is ClientState.COURTEOUS


def test_a_courteous_client_that_denies_a_file_to_version_3_ends_soon() -> None:
    rig = StateRig()
    client = rig.client()
    rig.hold(client, deny=1)
    assert rig.state.claims.deniers(b"file", 1)
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.CONFIRMED
    rig.now_s += LEASE_S + 1
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.COURTEOUS, "nobody has asked since"
    found = rig.state.claims.deniers(b"file", 1)
    assert rig.state.end_soon(found, rig.now_s)
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.GONE
    assert rig.state.end_soon(found, rig.now_s), "it has ended between the two questions"
    assert not rig.state.claims.deniers(b"file", 1)


def test_a_courteous_client_ends_after_a_day() -> None:
    rig = StateRig()
    client = rig.client()
    rig.hold(client)
    rig.now_s += NFS4_COURTESY_S
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.COURTEOUS
    rig.now_s += 1
    rig.state.sweep(rig.now_s)
    assert client.state is ClientState.GONE


def test_an_unconfirmed_record_ends_after_a_lease() -> None:
    rig = StateRig()
    client = rig.introduce()
    rig.now_s += LEASE_S + 1
    rig.state.sweep(rig.now_s)
    assert refused_with(rig.create_session, client) is S.NFS4ERR_STALE_CLIENTID


def test_a_client_that_the_disk_does_not_delete_keeps_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = StateRig()
    first, second = rig.client("a"), rig.client("b")
    rig.hold(first, deny=3)
    rig.now_s += LEASE_S + 1
    with monkeypatch.context() as failing:
        failing.setattr(rig.database, "forget", lambda _rows: False)
        assert refused_with(rig.hold, second) is S.NFS4ERR_DELAY
    assert first.state is ClientState.COURTEOUS
    rig.renew(first)
    assert refused_with(rig.hold, second) is S.NFS4ERR_SHARE_DENIED


def test_nothing_of_an_expiring_client_is_answered_while_the_disk_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = StateRig()
    first, second = rig.client("a"), rig.client("b")
    session = rig.state.sessions.find(next(iter(first.sessions)))
    rig.hold(first, deny=3)
    rig.now_s += LEASE_S + 1
    answers = []

    def forget(_rows: object) -> bool:
        answers.append(refused_with(rig.sequence, session))
        answers.append(refused_with(rig.create_session, first))
        answers.append(refused_with(rig.introduce, "a"))
        return True

    monkeypatch.setattr(rig.database, "forget", forget)
    rig.hold(second)
    assert answers == [S.NFS4ERR_DELAY] * 3
    assert refused_with(rig.sequence, session) is S.NFS4ERR_BADSESSION


class LockWithPauses:
    """A lock that calls `pause` after each release but those within `pause`."""

    def __init__(self, lock: Any, pause: Callable[[], None]) -> None:
        self._lock, self._pause, self._pauses = lock, pause, False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if not self._pauses:
            self._pauses = True
            self._pause()
            self._pauses = False


@pytest.mark.req("NF4-107")
@each_case("silent_s", [0.0, LEASE_S + 1])
def test_nothing_of_a_restarted_client_is_answered_while_its_states_end(
    silent_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = StateRig()
    old, other = rig.client("a"), rig.client("b")
    session = rig.state.sessions.find(next(iter(old.sessions)))
    for file in (b"first", b"last"):
        rig.hold(old, file, deny=3)
    rig.hold(other, b"own")
    rig.now_s += silent_s
    rig.renew(other)
    restarted = rig.introduce("a", "2")
    answers = []

    def ask() -> None:
        if old.state is ClientState.EXPIRING:
            answers.append(refused_with(rig.sequence, session))
            answers.append(refused_with(rig.create_session, restarted, sequence=1))
            answers.append(refused_with(rig.introduce, "a", "3"))
            if len(old.held) == 1:
                rig.hold(other, b"first")
                answers.append(refused_with(rig.hold, other, b"last"))

    rig.state.lock = rig.state.claims.lock = LockWithPauses(rig.state.lock, ask)  # type: ignore[assignment]
    with monkeypatch.context() as few:
        few.setattr("rpcrdma.nfs.v4.server.held_states.NFS4_ENDED_AT_ONCE", 1)
        rig.create_session(restarted, sequence=1)
    assert len(answers) > 9
    assert set(answers) == {S.NFS4ERR_DELAY}
    assert (old.state, restarted.state) == (ClientState.GONE, ClientState.CONFIRMED)
    assert refused_with(rig.sequence, session) is S.NFS4ERR_BADSESSION
    rig.hold(other, b"last")


def test_a_flood_of_introductions_ends_the_oldest_of_its_own_address() -> None:
    rig = StateRig()
    quiet = rig.introduce("quiet", address="192.0.2.1")
    flood = [rig.introduce(f"flood {number}", address="192.0.2.7") for number in range(NFS4_UNCONFIRMED_CLIENTS_MAX)]
    assert len(rig.state.clients.by_id) == NFS4_UNCONFIRMED_CLIENTS_MAX
    assert refused_with(rig.create_session, flood[0]) is S.NFS4ERR_STALE_CLIENTID
    rig.create_session(quiet)
    rig.create_session(flood[-1])


def places(monkeypatch: pytest.MonkeyPatch, **bounds: int) -> None:
    """Sets bounds of records of clients: `clients`, `unconfirmed_clients`."""
    for name, most in bounds.items():
        monkeypatch.setattr(f"rpcrdma.nfs.v4.server.clients.NFS4_{name.upper()}_MAX", most)


def test_a_newcomer_for_whom_there_is_no_room_ends_no_record_of_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    places(monkeypatch, clients=5)
    rig = StateRig()
    idle, waiting = rig.client("idle", address="x"), rig.introduce("waiting", address="x")
    for owner in "ab":
        rig.hold(rig.client(owner, address="y"))
    assert refused_with(rig.introduce, "idle", principal="sys:1", address="y") is S.NFS4ERR_DELAY
    assert refused_with(rig.introduce, "waiting", address="y") is S.NFS4ERR_DELAY
    rig.renew(idle)
    rig.create_session(waiting)
    rig.create_session(rig.introduce("idle", principal="sys:1", address="x"))
    assert idle.state is ClientState.GONE


@each_case(
    "addresses, more, most",
    [
        (("192.0.2.7",), "192.0.2.7", 21),
        (("2001:db8::7",), "2001:db8::7", 14),
        (("2001:db8::1", "2001:db8::2", "2001:db8::3"), "2001:db8::1", 18),
    ],
)
def test_one_host_takes_a_part_of_the_places_for_clients(
    addresses: tuple[str, ...], more: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    places(monkeypatch, clients=42)
    rig = StateRig()
    own = [rig.client(f"{number}", address=addresses[number % len(addresses)]) for number in range(most)]
    for client in own:
        rig.hold(client)
    assert refused_with(rig.introduce, "one more", address=more) is S.NFS4ERR_DELAY
    other = rig.client("other", address="2001:db8:0:1::1")
    rig.now_s += LEASE_S + 1
    rig.introduce("one more", address=more)
    assert (own[0].state, own[1].state, other.state) == (ClientState.GONE, ClientState.COURTEOUS, ClientState.COURTEOUS)


def test_some_hosts_with_many_clients_leave_places_for_others() -> None:
    rig = StateRig()
    for host in range(4):
        most = 0
        while refused_with(rig.introduce, f"{host} {most}", address=f"192.0.2.{host}") is None:
            rig.hold(rig.client(f"{host} {most}", address=f"192.0.2.{host}"))
            most += 1
        assert most == NFS4_CLIENTS_MAX >> host + 1
    for number in range(64):
        rig.hold(rig.client(f"{number}", address=f"198.51.100.{number}"))


def test_one_client_of_a_host_gives_way_to_one_although_its_share_has_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    places(monkeypatch, clients=64)
    rig = StateRig()
    own = [rig.client(f"{number}", address="192.0.2.1") for number in range(32)]
    for host, most in ((2, 16), (3, 8), (4, 4)):
        for number in range(most):
            rig.hold(rig.client(f"{host} {number}", address=f"192.0.2.{host}"))
    assert rig.state.clients.shares.left(names_of_host("192.0.2.1")) < -1
    rig.introduce("one more", address="192.0.2.1")
    assert [client.state for client in own].count(ClientState.GONE) == 1


def test_a_host_with_its_whole_share_takes_the_place_of_a_client_that_holds_nothing_from_none_that_has_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places(monkeypatch, clients=12)
    rig = StateRig()
    others = [rig.client(f"other {number}", address=f"192.0.2.{number}") for number in range(3)]
    holder = rig.client("a", address="2001:db8::1")
    rig.hold(holder)
    idle = rig.client("b", address="2001:db8::1")
    rig.client("c", address="2001:db8::2")
    rig.client("d", address="2001:db8::3")
    assert idle.state is ClientState.CONFIRMED
    rig.client("e", address="2001:db8::3")
    assert idle.state is ClientState.GONE
    rig.client("f", address="2001:db8::2")
    assert [client.introduction.owner for client in rig.state.clients.by_id.values()][3:] == [b"a", b"c", b"e", b"f"]
    assert {client.state for client in (*others, holder)} == {ClientState.CONFIRMED}


def test_where_all_places_are_taken_the_host_with_most_gives_that_of_a_client_that_holds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places(monkeypatch, clients=7)
    rig = StateRig()
    rig.client("alone", address="192.0.2.1")
    crowd = [rig.client(f"{number}", address=f"2001:db8::{number // 2}") for number in range(3)]
    crowd += [rig.client(f"{number}", address="192.0.2.7") for number in range(3, 5)]
    rig.client("also alone", address="192.0.2.2")
    rig.hold(crowd[1])
    rig.renew(crowd[0])
    ended = []
    for number in (3, 4):
        rig.client(f"new {number}", address=f"192.0.2.{number}")
        ended.append([place for place, client in enumerate(crowd) if client.state is ClientState.GONE])
    assert ended == [[0], [0, 3]], "the network with most, then the address"
    assert refused_with(rig.introduce, "also", address="192.0.2.5") is None
    assert crowd[2].state is ClientState.GONE
    rig.create_session(rig.introduce("also", address="192.0.2.5"))
    assert refused_with(rig.introduce, "more", address="192.0.2.6") is S.NFS4ERR_DELAY, "all have as many as it would"
    rig.client("more", address="192.0.2.7")
    assert crowd[4].state is ClientState.GONE, "it has one in the place of its own"


@each_case("confirmed", [True, False])
def test_a_further_client_of_a_host_with_many_is_let_in_by_few_steps(
    monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    places(monkeypatch, clients=400, unconfirmed_clients=200)
    rig = StateRig()
    make = rig.client if confirmed else rig.introduce
    first, *_ = [make(f"{number}", address="192.0.2.7") for number in range(200)]
    further = ClientIdentity(b"further", b"1", "sys:0", "192.0.2.7")

    def step() -> None:
        with rig.state.lock, contextlib.suppress(InTheWay):
            rig.state.clients.exchange_id(further, rig.now_s)

    assert functions_entered(step) < 100
    rig.introduce("further", address="192.0.2.7")
    assert first.state is ClientState.GONE


def test_a_client_that_gets_a_state_meanwhile_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    places(monkeypatch, clients=3)
    rig = StateRig()
    first, second = rig.client("a", address="x"), rig.client("b", address="x")
    rig.client("c", address="y")
    waits = [first]

    def wait() -> None:
        if waits:
            rig.hold(waits.pop())

    monkeypatch.setattr(rig, "wait", wait)
    rig.introduce("d", address="z")
    assert (first.state, second.state) == (ClientState.CONFIRMED, ClientState.GONE)


def test_a_further_client_takes_the_place_of_the_one_without_a_lease_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert NFS4_CLIENTS_MAX > NFS4_UNCONFIRMED_CLIENTS_MAX
    places(monkeypatch, clients=3)
    rig = StateRig()
    first, second = rig.client("a", address="x"), rig.client("b", address="y")
    waiting = rig.introduce("c", address="z")
    rig.introduce("d", address="z")
    assert refused_with(rig.create_session, waiting) is S.NFS4ERR_STALE_CLIENTID, "unconfirmed ones go first"
    third = rig.client("d", address="z")
    assert refused_with(rig.introduce, "e") is S.NFS4ERR_DELAY
    rig.now_s += LEASE_S + 1
    rig.renew(first)
    rig.introduce("e")
    assert [each.state for each in (first, second, third)] == [
        ClientState.CONFIRMED,
        ClientState.GONE,
        ClientState.COURTEOUS,
    ]


@pytest.mark.req("NF4-161")
def test_a_client_without_sessions_and_state_is_destroyed_at_its_wish() -> None:
    rig = StateRig()
    client = rig.client()
    assert refused_with(rig.state.destroy, client) is S.NFS4ERR_CLIENTID_BUSY
    held = rig.hold(client)
    rig.state.sessions.destroy_all(client)
    assert refused_with(rig.state.destroy, client) is S.NFS4ERR_CLIENTID_BUSY
    with rig.state.locked():
        rig.state.drop(held)
    rig.state.destroy(client)
    assert refused_with(rig.create_session, client) is S.NFS4ERR_STALE_CLIENTID


def test_principals_differ_by_flavor_and_user() -> None:
    krb5 = AuthGss(principal="alice@EXAMPLE.ORG", flavor=SecurityFlavor.KRB5)
    krb5p = AuthGss(principal="alice@EXAMPLE.ORG", flavor=SecurityFlavor.KRB5P)
    callers = [AuthNone(), AuthSys(uid=0, gid=0), AuthSys(uid=1, gid=0), krb5]
    assert len({principal_of(caller) for caller in callers}) == 4
    assert principal_of(krb5) == principal_of(krb5p), "the service is no part of the principal"
