"""The memory of servers: how long it lasts, how large it is, and when it allows a guess."""

from __future__ import annotations

from rpcrdma import limits
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.transport import TransportStatistics

SERVER = ("iwarp", "server", 20049)
OTHER = ("iwarp", "server", 20050)


def test_what_was_found_holds_for_a_time() -> None:
    known = KnownServers()
    assert known.version_of(SERVER, 0) is None
    known.found(SERVER, "1", 7)
    again_s = 7 + limits.SERVER_AGAIN_S
    assert known.version_of(SERVER, again_s - 1) == "1"
    assert known.version_of(SERVER, again_s) is None
    assert known.version_of(OTHER, 7) is None
    known.found(SERVER, "2", again_s)
    assert known.version_of(SERVER, again_s) == "2"
    known.forget(SERVER)
    known.forget(SERVER)
    assert known.version_of(SERVER, again_s) is None


def test_a_guess_holds_once_a_call_was_answered() -> None:
    known = KnownServers()
    proof = TransportStatistics()
    known.guessed(SERVER, "1", 0, proof)
    assert known.version_of(SERVER, 1) is None
    proof.calls = 1
    assert known.version_of(SERVER, 1) == "1"


def test_a_guess_does_not_replace_what_the_server_has_said() -> None:
    known = KnownServers()
    assert not known.speaks(SERVER, "2")
    known.found(SERVER, "2", 0)
    known.guessed(SERVER, "1", 1, TransportStatistics(calls=1))
    assert known.version_of(SERVER, 1) == "2"
    assert known.speaks(SERVER, "2")
    assert not known.speaks(SERVER, "1")
    assert not known.speaks(OTHER, "2")
    known.guessed(SERVER, "2", 1, TransportStatistics())
    assert known.version_of(SERVER, 1) == "2"
    known.forget(SERVER)
    known.guessed(SERVER, "1", 2, TransportStatistics(calls=1))
    assert known.version_of(SERVER, 2) == "1"


def test_silence_holds_for_a_time_or_until_the_server_answers() -> None:
    known = KnownServers()
    known.found(SERVER, "2", 0)
    assert not known.is_silent(SERVER, 1)
    known.left_unanswered(SERVER, 1)
    assert known.is_silent(SERVER, limits.SERVER_AGAIN_S)
    assert known.version_of(SERVER, 2) is None
    assert not known.is_silent(OTHER, 2)
    assert not known.is_silent(SERVER, 1 + limits.SERVER_AGAIN_S)
    known.found(SERVER, "2", 2)
    assert not known.is_silent(SERVER, 2)


def test_only_so_many_servers_are_remembered() -> None:
    known = KnownServers(servers_max=3)
    for port in range(5):
        known.found(("iwarp", "server", port), "1", port)
        known.found(("iwarp", "server", 0), "1", port)
    assert len(known) == 3
    remembered = [port for port in range(5) if known.version_of(("iwarp", "server", port), 5)]
    assert remembered == [0, 3, 4], "the ones met last"
    known.clear()
    assert len(known) == 0
