"""The memory of clients, sessions and opens: what a hostile client can make a server hold is the limits times this."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Callable

from conversation import Conversation, FakeConnection
from rpcrdma.rpc.auth import AuthSys
from state_rig import StateRig
from support.nfs4_client import lock, opaque, open_, putfh, putrootfh, sequence

MANY = 200


def octets_of_each(make: Callable[[int], object]) -> float:
    """Octets that each of many calls of `make` leaves behind."""
    make(0)  # the first one fills caches
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, MANY + 1):
            make(number)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / MANY
    finally:
        tracemalloc.stop()


def test_a_client_takes_2_kib_and_its_session_with_64_slots_12() -> None:
    rig = StateRig()
    clients = octets_of_each(lambda number: rig.introduce(f"a client with a name of usual length {number}"))
    assert clients < 2 << 10
    sessions = octets_of_each(lambda number: rig.session(f"another client with a name {number}"))
    assert sessions - clients < 12 << 10


def test_a_slot_keeps_little_of_its_newest_call() -> None:
    server, connection = Conversation(), FakeConnection()
    client = server.client(connection=connection).start()

    def call(number: int) -> None:
        octets = opaque(b"") + struct.pack(">II", 1, 8) + sequence(client.session, 1, number % 64) + 7 * putrootfh()
        caller = AuthSys(machine="m" * 255, uid=number, gid=number, gids=tuple(range(number << 8, (number << 8) + 16)))
        server.answer(octets, connection, caller)

    slots = server.state.sessions.find(client.session).slots
    assert octets_of_each(lambda number: call(number) if number < len(slots) else None) < 64


def test_an_open_file_with_a_lock_takes_2_kib() -> None:
    server = Conversation()
    client = server.client().start()
    for number in range(MANY + 1):
        server.files.add(f"file {number}")

    def open_and_lock(number: int) -> None:
        handle = putfh(f"file {number}".encode())
        stateid = client.run(handle, open_(b"an open owner", 3)).value(18)["stateid"]
        assert client.run(handle, lock(stateid, b"a lock owner", 2, 0, 10)).status == "OK"

    assert octets_of_each(open_and_lock) < 2 << 10
