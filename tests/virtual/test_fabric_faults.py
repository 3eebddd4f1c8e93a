"""Faults of the fabric under client and server: the call goes on or fails with a cause, and nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from one_file_world import CREDENTIAL, OCTETS, URL, OneFile, measured, read_of, serves, serving, world, write_of
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.errors import CallTimeout, ConnectFailed, LocalProtocolError
from rpcrdma.nfs import v3
from rpcrdma.testing.virtual import DELIVERED, Delivery, EventKind, Fabric, Message, MessageKind, now_s, run
from support.cases import each_case
from support.waiting import time_passes


class Script:
    """Asks `fate` about each message, and delays or refuses registrations at hosts."""

    def __init__(self, fate: Callable[[Message], Delivery] = lambda _: DELIVERED) -> None:
        self.fate = fate
        self.register: Callable[[str, int], float] = lambda *_: 0.0

    def on_message(self, message: Message) -> Delivery:
        return self.fate(message)

    def on_register(self, node: str, octets: int) -> float:
        return self.register(node, octets)


def once(kind: MessageKind, fate: Delivery, *, sender: str | None = None) -> Callable[[Message], Delivery]:
    """The fate of the first message of this kind that is longer than any of a start-up; the others are delivered."""
    left = [fate]

    def decided(message: Message) -> Delivery:
        if message.kind is kind and sender in {None, message.sender} and message.number > 3 and left:
            return left.pop()
        return DELIVERED

    return decided


async def write_and_read(fabric: Fabric, connection: Connection) -> None:
    for _ in range(3):
        await measured(fabric.node("client"), connection, *write_of(b"y" * OCTETS))
        _, result = await measured(fabric.node("client"), connection, *read_of())
        assert bytes(result.value.data) == b"y" * OCTETS


@pytest.mark.thorough
@each_case("silent", [False, True])
@each_case("kind", [MessageKind.SEND, MessageKind.WRITE, MessageKind.READ_REQUEST, MessageKind.READ_RESPONSE])
def test_calls_survive_a_cut_at_any_octet_of_any_message(kind: MessageKind, silent: bool) -> None:
    cuts = 0
    for cut_at in (0, 1, 40, OCTETS - 1):
        for sender in ("client", "server"):
            faults = Script(once(kind, Delivery(cut_at=cut_at, silent=silent), sender=sender))
            trace = world(write_and_read, faults=faults)
            cuts += sum(event.kind is EventKind.FAULT for event in trace.events)
    # Each kind is sent by one end or by both.
    assert cuts == (8 if kind is MessageKind.SEND else 4)


def test_a_cut_places_the_octets_before_it_and_no_others() -> None:
    placed: list[bytes] = []

    async def use(fabric: Fabric, connection: Connection) -> None:
        del fabric
        memory = bytearray(OCTETS)
        await connection.call(*write_of(b"z" * OCTETS))
        with pytest.raises(CallTimeout):
            await connection.call(*read_of(), into=memory, timeout_s=1.0)
        placed.append(bytes(memory))

    def decided(message: Message) -> Delivery:
        if message.kind is MessageKind.WRITE:
            return Delivery(cut_at=1000, silent=True)
        return DELIVERED

    world(use, faults=Script(decided))
    assert placed == [b"z" * 1000 + bytes(OCTETS - 1000)]


def test_a_slow_registration_delays_its_call_and_a_failing_one_fails_it_alone() -> None:
    faults = Script()

    async def use(fabric: Fabric, connection: Connection) -> None:
        del fabric
        faults.register = lambda node, _: 0.25 if node == "client" else 0.0
        begun_s = now_s()
        await connection.call(*read_of())
        assert now_s() - begun_s == pytest.approx(0.25, abs=0.001)

        def fail(*_: Any) -> float:
            raise LocalProtocolError("no more regions")

        faults.register = fail
        with pytest.raises(LocalProtocolError, match="no more regions"):
            await connection.call(*read_of())
        await connection.call(v3.NULL, None)
        faults.register = lambda *_: 0.0
        await connection.call(*read_of())
        assert connection.reconnects == 0

    world(use, faults=faults)


def test_where_memory_is_exhausted_calls_that_need_none_go_on() -> None:
    async def use(fabric: Fabric, connection: Connection) -> None:
        client = fabric.node("client")
        client.registered_octets_max = OCTETS - 1
        with pytest.raises(LocalProtocolError, match="client has no memory left"):
            await connection.call(*read_of())
        await connection.call(v3.NULL, None)
        client.registered_octets_max = OCTETS
        await connection.call(*read_of())
        assert client.registered_octets == fabric.node("server").registered_octets == 0

    world(use)


def test_a_jump_of_the_clock_ends_calls_whose_deadline_it_has_passed() -> None:
    async def use(fabric: Fabric, connection: Connection) -> None:
        fabric.node("server").stall(10.0)
        waiting = asyncio.ensure_future(connection.call(v3.NULL, None, timeout_s=5.0))
        await time_passes(0.001)
        fabric.loop.jump(6.0)
        with pytest.raises(CallTimeout):
            await waiting

    world(use)


@each_case("down_s", [0.0, 5.0])
def test_calls_go_on_with_a_server_that_has_crashed_and_come_back(down_s: float) -> None:
    async def main() -> None:
        fabric = Fabric()
        client, server = fabric.node("client"), fabric.node("server")
        listening = asyncio.Event()
        service = OneFile()
        program = server.start(serves(server, service, listening))
        await listening.wait()

        async def use() -> None:
            # Nothing else tells a client that waits for replies of a crash.
            options = ConnectOptions(provider=client, credential=CREDENTIAL, keepalive_s=10.0)
            async with connect(URL, v3.PROGRAM, options=options) as connection:
                await connection.call(*write_of(b"a" * OCTETS))
                waiting = [asyncio.ensure_future(connection.call(*read_of())) for _ in range(3)]
                await time_passes(20e-6)
                server.crash()
                assert not server.ends
                assert not server.listeners
                await time_passes(down_s)
                assert not any(call.done() for call in waiting)
                server.restart()
                server.start(serves(server, service, listening))
                for result in await asyncio.gather(*waiting):
                    assert bytes(result.value.data) == b"a" * OCTETS
                assert connection.reconnects == 1

        await client.start(use())
        assert program.cancelled()
        assert not client.ends
        server.crash()

    run(main)


def test_a_host_that_was_restarted_ends_connections_that_it_does_not_know_at_once() -> None:
    async def main() -> None:
        fabric = Fabric()
        client, server = fabric.node("client"), fabric.node("server")
        listening = asyncio.Event()
        server.start(serves(server, OneFile(), listening))
        await listening.wait()

        async def use() -> None:
            options = ConnectOptions(provider=client, credential=CREDENTIAL, reconnect_delay_max_s=0.0)
            async with connect(URL, v3.PROGRAM, options=options) as connection:
                await connection.call(v3.NULL, None)
                server.crash()
                server.restart()
                server.start(serves(server, OneFile(), listening))
                begun_s = now_s()
                await connection.call(v3.NULL, None)
                assert now_s() - begun_s < 0.001
                assert connection.reconnects == 1

        await client.start(use())
        server.crash()

    run(main)


def test_a_host_that_is_down_does_not_answer_and_one_without_a_server_refuses() -> None:
    async def main() -> None:
        fabric = Fabric()
        client, server = fabric.node("client"), fabric.node("server")
        options = ConnectOptions(provider=client, connect_timeout_s=4.0)
        with pytest.raises(ConnectFailed, match="refused"):
            await connect(URL, options=options)
        # The request and its refusal cross the distance of a machine room.
        assert now_s() == pytest.approx(0.32e-6)
        server.crash()
        begun_s = now_s()
        with pytest.raises(ConnectFailed, match="within 4 s"):
            await connect(URL, options=options)
        assert now_s() - begun_s == pytest.approx(4.0)
        with pytest.raises(ConnectFailed, match="no node of the fabric"):
            await connect("rdma://elsewhere", options=options)
        with pytest.raises(OSError, match="assign"):
            client.listen("elsewhere", 0, None)  # type: ignore[arg-type]
        server.restart()
        client.crash()
        with pytest.raises(ConnectFailed, match="within 4 s"):
            await connect(URL, options=options)

    run(main)


def test_a_crash_cancels_all_that_the_host_has_started() -> None:
    async def main() -> None:
        fabric = Fabric()
        node, other = fabric.node("node"), fabric.node("other")
        ended: list[str] = []

        async def program(name: str, *more: str) -> None:
            if more:
                asyncio.ensure_future(program(*more))  # noqa: RUF006 - no other task waits for it
            try:
                await time_passes(100)
            finally:
                ended.append(f"{name} {now_s():g}")

        node.start(program("first", "second", "third"))
        other.start(program("beside"))
        await time_passes(1)
        node.crash()
        node.crash()
        assert node.boots == 1
        node.restart()
        node.restart()
        await time_passes(200)
        told = [event.kind for event in fabric.trace.events if event.node == "node"]
        assert told == [EventKind.CRASH, EventKind.RESTART]
        assert ended == ["first 1", "second 1", "third 1", "beside 100"]

    run(main)


def test_a_connection_that_is_cut_now_is_made_again() -> None:
    async def use(fabric: Fabric, connection: Connection) -> None:
        for silent in (False, True):
            (end,) = fabric.node("client").ends
            end.cut(silent=silent)
            await connection.call(v3.NULL, None)
        assert connection.reconnects == 2

    world(use)


def test_other_hosts_hear_nothing_of_what_a_program_does_after_the_crash_of_its_host() -> None:
    async def main() -> None:
        fabric = Fabric()
        client, server = fabric.node("client"), fabric.node("server")
        async with serving(server, OneFile()):
            connected = asyncio.Event()

            async def program() -> None:
                options = ConnectOptions(provider=client, credential=CREDENTIAL)
                async with connect(URL, v3.PROGRAM, options=options) as connection:
                    await connection.call(v3.NULL, None)
                    connected.set()
                    await asyncio.Event().wait()

            task = client.start(program())
            await connected.wait()
            client.crash()
            crashed = len(fabric.trace.events)
            await asyncio.wait([task])
            left = [event for event in fabric.trace.events[crashed:] if event.node == "client"]
            assert not [event for event in left if event.kind is EventKind.LEAVE]
            assert len(server.ends) == 1

    run(main)
