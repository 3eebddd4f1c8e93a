"""Who keeps a place when there are too many connections."""

from __future__ import annotations

from rpcrdma.aio.admission import Admission


def admission(connections_max: int = 4, starting_max: int = 100, busy: tuple[str, ...] = ()) -> Admission[str]:
    return Admission(connections_max, starting_max, lambda connection: connection not in busy)


def test_nobody_is_displaced_while_there_is_room() -> None:
    it = admission()
    for number in range(3):
        it.add(f"a{number}", "a", starting=False)
    assert it.displaced_by("a") is None
    assert it.displaced_by("b") is None
    assert not it.full


def test_a_newcomer_displaces_the_oldest_idle_connection_of_who_has_most() -> None:
    it = admission(busy=("a0",))
    for name in ("a0", "a1", "a2", "b0"):
        it.add(name, name[0], starting=False)
    assert it.full
    assert it.displaced_by("c") == "a1"
    assert it.displaced_by("b") == "a1"


def test_who_has_most_displaces_nobody_and_is_refused() -> None:
    it = admission()
    for name in ("a0", "a1", "b0", "b1"):
        it.add(name, name[0], starting=False)
    assert it.displaced_by("a") is None
    assert it.full


def test_nobody_is_displaced_for_who_would_then_have_more() -> None:
    it = admission()
    for name in ("a0", "a1", "b0", "c0"):
        it.add(name, name[0], starting=False)
    assert it.displaced_by("b") is None
    assert it.displaced_by("d") == "a0"


def test_where_all_are_busy_the_newcomer_is_refused() -> None:
    it = admission(busy=("a0", "a1", "a2", "a3"))
    for number in range(4):
        it.add(f"a{number}", "a", starting=False)
    assert it.displaced_by("b") is None
    assert it.full


def test_half_open_connections_displace_the_oldest_of_who_has_most_of_them() -> None:
    it = admission(connections_max=100, starting_max=3)
    for name in ("b0", "a0", "a1"):
        it.add(name, name[0], starting=True)
    assert it.displaced_by("c") == "a0"
    assert it.displaced_by("a") == "a0"
    it.established("a0")
    it.established("a0")
    assert it.starting == 2
    assert it.displaced_by("c") is None


def test_what_has_ended_leaves_nothing_behind() -> None:
    it = admission(connections_max=1, starting_max=1)
    it.add("a0", "a", starting=True)
    it.remove("a0")
    it.remove("a0")
    assert (len(it), it.starting, it.full) == (0, 0, False)
    assert it.displaced_by("b") is None
    assert (it._all, it._starting, it._client_of) == ({}, {}, {})
