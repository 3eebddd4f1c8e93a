"""Who keeps a place when there are too many connections."""

from __future__ import annotations

import resource

import pytest

from rpcrdma.aio.server.connection_limits import Admission, connections_of_host, descriptors_for
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.limits import RDMA_STARTING_S
from support.cases import each_case


def admission(
    connections_max: int = 4,
    starting_max: int = 100,
    busy: tuple[str, ...] = (),
    active: tuple[str, ...] = (),
    of_one_max: int | None = None,
) -> Admission[str]:
    """`active`: who has been idle since later than the others, the last one least."""

    def idle_since(connection: str) -> float | None:
        return None if connection in busy else float(active.index(connection) + 1 if connection in active else 0)

    return Admission(connections_max, starting_max, idle_since, of_one_max=of_one_max)


def test_nobody_is_displaced_while_there_is_room() -> None:
    it = admission()
    for number in range(3):
        it.add(f"a{number}", "a")
    assert it.displaced_by("a", 0.0) is None
    assert it.displaced_by("b", 0.0) is None
    assert not it.full("x")


def test_connections_that_a_lower_limit_makes_too_many_stay() -> None:
    it = admission(busy=("a0", "b0", "c0"))
    for name in ("a0", "b0", "c0"):
        it.add(name, name[0])
    it.resize(2, 100)
    assert (len(it), it.full("x"), it.displaced_by("x", 0.0)) == (3, "3 connections", None)
    it.remove("a0")
    it.remove("b0")
    assert not it.full("x")
    it.resize(100, 0)
    assert it.full("x"), "no half-open connection has a place"
    for limits in ((100, 0), (0, 0)):
        it.resize(*limits)
        for client in ("x", "2001:db8::1"):
            assert it.full(client)
            assert it.displaced_by(client, 0.0) is None
        it.add("y0", "y", starting_s=0.0)


def test_a_connection_keeps_its_place_after_its_end_until_its_calls_have_ended() -> None:
    calls = {"a0"}
    it: Admission[str] = Admission(2, 100, lambda _: 0.0, of_one_max=1, has_calls=calls.__contains__)
    for _ in range(2):
        it.add("a0", "a", starting_s=0.0, locked_octets=1)
        it.remove("a0")
        assert (it.displaced_by("a", 0.0), len(it), it.starting) == (None, 1, 0)
        assert it.full("a")
        assert not it.full("b")
        calls.clear()
        assert (it.displaced_by("a", 0.0), len(it)) == (None, 0)
        assert not it.full("a")
        calls.add("a0")


def test_a_newcomer_displaces_what_has_been_idle_longest_of_who_has_most() -> None:
    it = admission(busy=("a0",), active=("a2", "a1"))
    for name in ("a0", "a1", "a2", "b0"):
        it.add(name, name[0])
    assert it.full("x")
    assert it.displaced_by("c", 0.0) == "a2"
    assert it.displaced_by("b", 0.0) == "a2"


def test_who_has_most_displaces_its_own_connection_that_has_been_idle_longest() -> None:
    it = admission(active=("a0",))
    for name in ("b0", "b1", "a0", "a1"):
        it.add(name, name[0])
    assert it.displaced_by("a", 0.0) == "a1"
    assert it.full("x")


@pytest.mark.thorough
def test_where_one_client_has_all_places_its_idle_connections_make_room_for_its_own() -> None:
    it = admission(connections_max=1024, busy=tuple(map(str, range(500))), of_one_max=1024)
    for number in range(1024):
        it.add(str(number), "a")
    for number in range(500, 600):
        displaced = it.displaced_by("a", 0.0)
        assert displaced == str(number)
        it.remove(displaced)
        it.add(f"new {number}", "a")


def test_nobody_is_displaced_for_who_would_then_have_more() -> None:
    it = admission(busy=("b0",))
    for name in ("a0", "a1", "b0", "c0"):
        it.add(name, name[0])
    # Those of `a` are as many as `b` would then have.
    assert it.displaced_by("b", 0.0) == "a0"
    assert it.displaced_by("d", 0.0) == "a0"
    it.remove("a1")
    it.add("d0", "d")
    assert it.displaced_by("b", 0.0) is None


def test_the_addresses_of_a_network_of_ipv6_leave_an_eighth_of_the_places_to_others() -> None:
    of_network = [f"2001:db8::{number}" for number in range(14)]
    it = admission(connections_max=16, busy=tuple(of_network[:13]), of_one_max=4)
    it.add("a0", "192.0.2.7")
    for address in of_network:
        assert not it.full(address)
        it.add(address, address)
    assert it.full("2001:db8::15") == "2001:db8::/64 has all connections that a network may have, 14"
    assert it.displaced_by("2001:db8::15", 0.0) == of_network[13], "the only idle one there, not that of others"
    for newcomer in ("192.0.2.8", "2001:db8:0:1::1"):
        assert (it.full(newcomer), it.displaced_by(newcomer, 0.0)) == ("", None)
    it.resize(16, 100, 16)
    assert not it.full("2001:db8::15"), "where one address may have all, so may its network"


def test_half_open_connections_of_a_network_of_ipv6_leave_an_eighth_of_their_places_to_others() -> None:
    it = admission(connections_max=100, starting_max=8)
    for number in range(7):
        it.add(str(number), f"2001:db8::{number}", starting_s=float(number))
    assert (it.full("192.0.2.7"), it.displaced_by("192.0.2.7", 0.0)) == ("", None)
    assert it.full("2001:db8::8")
    assert it.displaced_by("2001:db8::8", RDMA_STARTING_S - 0.1) is None
    assert it.displaced_by("2001:db8::8", RDMA_STARTING_S) == "0"
    it.add("a0", "192.0.2.7", starting_s=7.0)
    assert it.full("192.0.2.8")


def test_where_all_have_as_many_the_one_that_has_been_idle_longest_makes_room() -> None:
    it = admission(active=("a0", "b0"), busy=("d0",))
    for name in ("a0", "b0", "c0", "d0"):
        it.add(name, name[0])
    assert it.displaced_by("e", 0.0) == "c0"


def test_where_memory_is_short_a_connection_that_locks_some_makes_room_for_another() -> None:
    it = Admission[str](100, 2, lambda connection: None if connection == "busy" else 0.0, 10)
    it.add("a0", "a")
    it.add("a1", "a", locked_octets=9)
    assert not it.memory_full
    it.add("busy", "a", locked_octets=1)
    assert it.memory_full
    assert it.displaced_by("a", 0.0) is None, "one that locks no memory needs no other's place"
    assert it.displaced_by("b", 0.0, locks=True) == "a1"
    it.remove("a1")
    assert not it.memory_full
    assert it.displaced_by("b", 0.0, locks=True) is None
    it.add("b0", "b", starting_s=0.0)
    it.add("b1", "b", starting_s=0.0, locked_octets=9)
    assert it.displaced_by("c", 0.0) == "b0"
    assert it.displaced_by("c", 0.0, locks=True) is None
    it.remove("b0")
    it.remove("b1")
    it.add("busy", "b", locked_octets=10)
    assert it.displaced_by("c", 0.0, locks=True) is None
    assert (it.full("x"), it.memory_full) == ("", True)


def test_where_all_are_busy_the_newcomer_is_refused() -> None:
    it = admission(busy=("a0", "a1", "a2", "a3"))
    for number in range(4):
        it.add(f"a{number}", "a")
    assert it.displaced_by("b", 0.0) is None
    assert it.full("x")


def test_half_open_connections_displace_the_oldest_of_who_has_more_of_them_than_the_newcomer() -> None:
    it = admission(connections_max=100, starting_max=3)
    for name in ("b0", "a0", "a1"):
        it.add(name, name[0], starting_s=0.0)
    assert it.displaced_by("c", 0.0) == "a0"
    assert it.displaced_by("a", 0.0) is None
    assert it.full("x")
    it.established("a0")
    it.established("a0")
    assert it.starting == 2
    assert it.displaced_by("c", 0.0) is None


def test_half_open_connections_of_clients_with_as_many_go_on_for_a_time() -> None:
    it = admission(connections_max=100, starting_max=3)
    for number, name in enumerate(("b0", "a0", "c0")):
        it.add(name, name[0], starting_s=float(number))
    assert it.displaced_by("d", RDMA_STARTING_S - 0.1) is None
    assert it.displaced_by("d", RDMA_STARTING_S) == "b0"
    it.established("b0")
    assert not it.full("x")
    assert it.displaced_by("d", 100.0) is None


def test_what_has_ended_leaves_nothing_behind() -> None:
    it = admission(connections_max=1, starting_max=1)
    it.add("a0", "a", starting_s=0.0)
    it.remove("a0")
    it.remove("a0")
    assert (len(it), it.starting, it.full("x")) == (0, 0, "")
    assert it.displaced_by("b", 0.0) is None
    assert (it._all, it._starting, it._client_of) == ({}, {}, {})


def test_one_address_never_has_all_places() -> None:
    """Also if all its connections are in use, as those with sessions of NFSv4.1 are: then its newcomers are refused."""
    it = admission(connections_max=16, busy=tuple(f"a{number}" for number in range(14)))
    for number in range(14):
        assert (it.displaced_by("a", 0.0), it.full("a")) == (None, "")
        it.add(f"a{number}", "a")
    assert (it.displaced_by("a", 0.0), it.full("a")) == (None, "it has all connections that a host may have, 14")
    for number in range(2):
        assert (it.displaced_by("b", 0.0), it.full("b")) == (None, "")
        it.add(f"b{number}", "b")
    assert it.displaced_by("c", 0.0) == "b0"
    assert it.full("c") == "16 connections"


def test_a_host_has_a_quarter_of_many_places_unless_its_limit_is_set() -> None:
    assert [connections_of_host(places) for places in (1, 3, 8, 64, 288, 1024)] == [1, 3, 7, 16, 72, 256]
    it = admission(connections_max=100, of_one_max=2, active=("a0",))
    for name in ("a0", "a1"):
        it.add(name, "a")
    it.add("a2", "a", starting_s=0.0)
    assert (it.displaced_by("a", 0.0), bool(it.full("a")), it.full("b")) == ("a1", True, "")


@each_case(
    ("descriptors", "fit"), [(resource.RLIM_INFINITY, 1024), (1 << 20, 1024), (3380, 1024), (1024, 288), (64, 1)]
)
def test_connections_of_both_kinds_leave_descriptors_to_files(
    descriptors: int, fit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert TcpServerConfig().connections_max == RdmaServerConfig().connections_max == fit
    if descriptors == 3380:
        assert descriptors_for(1024) == descriptors
    if fit > 1 and descriptors != resource.RLIM_INFINITY:
        assert 2 * fit + descriptors // 4 + descriptors // 8 + 64 <= descriptors
