"""RDMA devices that go and come back under clients and servers: ends in order, in words, and recovery."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jumping_sockets import jumping
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.drivers import verbs_devices, verbs_listening, verbs_manager
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.sockets import KEEP_ALIVE_IDLE_S
from rpcrdma.aio.drivers.verbs_driver import VerbsDriver
from rpcrdma.aio.drivers.verbs_listening import ListeningAddress
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server import rdma_server
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import ConnectFailed, TransportClosed
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.verbs.binding import DeviceEventKind, ManagerEvent, ManagerEventKind, WorkStatus
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.programs import procedure
from support.waiting import time_passes, until

NUMBER = 0x20BADBEE
ECHO, SLOW = procedure(NUMBER, 1, "echo"), procedure(NUMBER, 2, "slow")
PROGRAM = Program(NUMBER, 1, "WORDS_V1", {1: ECHO, 2: SLOW})


@pytest.fixture(autouse=True)
def _ports_of_the_device_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks TCP of the machine."""
    monkeypatch.setattr(verbs_manager, "_is_of_tcp", lambda _local: False)


class Words(Service):
    PROGRAM = PROGRAM
    IDEMPOTENT = frozenset({1, 2})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = 0

    def echo(self, word: int, context: CallContext) -> int:
        return word

    async def slow(self, word: int, context: CallContext) -> int:
        self.asked += 1
        await self.gate.wait()
        return word


class Joined:
    """A server and a client over one device in memory."""

    def __init__(self, device: DeviceInMemory, words: Words, server: Server, client: Connection) -> None:
        self.device = device
        self.words = words
        self.server = server
        self.client = client


@asynccontextmanager
async def joined(for_s: float | None = None) -> AsyncIterator[Joined]:
    device, words = DeviceInMemory(), Words()
    provider = VerbsProvider(device, announcements=device.Announcements)
    options = ConnectOptions(provider=provider, reconnect_delay_max_s=2.0, reconnect_for_s=for_s)
    config = RdmaServerConfig(provider=VerbsProvider(device, announcements=device.Announcements))
    async with (
        serve([words], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=config)) as server,
        connect(server.listening[0], PROGRAM, options=options) as client,
    ):
        assert await client.call(ECHO, 1) == 1
        yield Joined(device, words, server, client)


def through_guard(device: DeviceInMemory) -> None:
    """The connection manager alone tells of the removal, as for a device without announcements."""
    device.reached.clear()
    for channel in device.channels:
        for identifier in list(channel.identifiers):
            if identifier.device is not None:
                identifier._happens(ManagerEventKind.DEVICE_REMOVED)


REMOVALS: dict[str, Callable[[DeviceInMemory], None]] = {
    "announced": lambda device: device.remove(),
    "event-of-the-device": lambda device: device.remove(hardware=True),
    "event-of-the-manager": through_guard,
}


@pytest.mark.thorough
@each_case("announced", [True, False])
@each_case("removal", REMOVALS)
@jumping
async def test_a_call_survives_the_removal_and_the_return_of_the_device(
    removal: str, announced: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_listening, "_RETRY_FIRST_S", 1e9 if announced else 0.5)

    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        device = ends.device
        call = asyncio.ensure_future(ends.client.call(SLOW, 7, timeout_s=100))
        await until(lambda: ends.words.asked)
        REMOVALS[removal](device)
        await until(lambda: device.let_go)
        assert device.let_go == {"uverbs0": (0, 0)}, "queue pairs, or listeners, held the device until the end"
        assert not call.done()
        device.come_back(announced=announced)
        await until(lambda: ends.words.asked == 2)
        ends.words.gate.set()
        assert await call == 7
        assert ends.client.reconnects == 1
    said = caplog.text
    assert re.search(
        r"nothing listens at 127\.0\.0\.1:\d+ any more: the RDMA device memory0 was removed.*rdma link", said
    )
    assert re.search(r"listening at 127\.0\.0\.1:\d+ again, on the RDMA device memory0", said)
    assert re.search(r"connection lost: .*the RDMA device memory0 was removed: bring it back", said)


@jumping
async def test_while_the_device_is_away_a_call_fails_with_cause_and_remedy() -> None:
    async with joined(for_s=1.0) as ends:
        ends.device.remove()
        await until(lambda: ends.device.let_go)
        with pytest.raises(TransportClosed, match=r"no RDMA device reaches it .*no such device.*rdma link"):
            await ends.client.call(ECHO, 1, timeout_s=60)


@jumping
async def test_a_device_is_let_go_of_after_the_connections_of_another_event_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_devices, "_LET_GO_S", 0.0)

    async with joined() as ends:
        device = ends.device
        other = device.EventChannel().identifier()
        other.bind("127.0.0.1", 0)
        queue_pair = other.queue_pair(other.domain(), 4, 4, 1, 1)
        device.remove()
        await until(lambda: "is not removed yet: this process still has connections over it" in caplog.text)
        assert not device.let_go
        queue_pair.close()
        await until(lambda: device.let_go)
        device.come_back()
        assert await ends.client.call(ECHO, 1, timeout_s=60) == 1
    assert caplog.text.count("is not removed yet") == 1


class FailingUser:
    def on_device_lost(self, reason: str = "") -> None:
        raise RuntimeError("a fault")

    on_port_down = on_turn = on_device_lost


@each_case("fault", ["of-a-user", "of-the-owners"])
@jumping
async def test_a_fault_of_one_user_of_a_device_leaves_no_other_user_on_it(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_devices, "_LET_GO_S", 0.0)
    monkeypatch.setattr(verbs_devices, "_PORT_DOWN_S", 0.0)
    faults: list[str] = []

    loop = asyncio.get_running_loop()
    async with joined(for_s=1.0) as ends:
        loop.set_exception_handler(lambda _, context: faults.append(str(context["exception"])))
        device = ends.device
        manager = VerbsProvider(device, announcements=device.Announcements).manager()
        (watched,) = manager.devices._devices.values()
        if fault == "of-a-user":
            watched._users = {FailingUser(): 0, **watched._users}
            device.happens(DeviceEventKind.PORT_ERROR, 1)
            await until(lambda: faults and not device.in_use)
        else:
            for user in watched._users:
                if isinstance(user, VerbsDriver):
                    user._on_turn = FailingUser().on_turn
        device.remove()
        await until(lambda: device.let_go)
        assert device.let_go == {"uverbs0": (0, 0)}
        assert faults == ["a fault", "a fault"]


@jumping
async def test_a_fault_of_one_handler_loses_no_event_of_another_identifier() -> None:
    happened: list[int] = []
    faults: list[str] = []

    def fail(event: ManagerEvent) -> None:
        raise RuntimeError("a fault")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(str(context["exception"])))
    device = DeviceInMemory()
    manager = VerbsProvider(device, announcements=device.Announcements).manager()
    identifiers = [manager.identifier(fail), manager.identifier(lambda event: happened.append(event.kind))]
    for identifier in identifiers:
        identifier.resolve_address("127.0.0.1", 1, 0, 100)
    await until(lambda: happened)
    for identifier in identifiers:
        manager.end(identifier)
    assert (faults, happened) == (["a fault"], [ManagerEventKind.ADDRESS_RESOLVED])


@jumping
async def test_no_connection_is_made_over_a_device_that_is_being_removed() -> None:
    async with joined(for_s=0.1) as ends:
        device = ends.device
        manager = VerbsProvider(device, announcements=device.Announcements).manager()
        identifier = manager.identifier(lambda event: None)
        identifier.bind("127.0.0.1", 0)
        device.announce("remove", device.node)
        await until(lambda: not device.in_use)
        assert not device.let_go, "the device was let go of before calls could give their memory back"
        with pytest.raises(OSError, match="memory0 is being removed"):
            manager.devices.find(identifier)
        with pytest.raises(TransportClosed, match="memory0 is being removed"):
            await ends.client.call(ECHO, 1, timeout_s=60)
        manager.end(identifier)
        await until(lambda: device.let_go)


@jumping
async def test_the_removal_of_another_device_ends_nothing() -> None:
    async with joined() as ends:
        ends.device.announce("remove", "uverbs7")
        ends.device.announce("change", "uverbs0")
        for _ in range(10):
            assert await ends.client.call(ECHO, 2) == 2
        assert ends.client.reconnects == 0
        assert ends.device.let_go == {}


@jumping
async def test_a_port_that_is_down_for_long_ends_connections_and_not_the_listener(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_devices, "_PORT_DOWN_S", 0.0)

    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        ends.device.happens(DeviceEventKind.PORT_ERROR, 1)
        await until(lambda: "connection lost" in caplog.text)
        assert await ends.client.call(ECHO, 3, timeout_s=60) == 3
        assert ends.client.reconnects == 1
    assert "port 1 of the RDMA device memory0 is down: if it does not come up" in caplog.text
    assert re.search(
        r"ended: port 1 of memory0 is down: check the cable, or bring its network interface up", caplog.text
    )
    assert "nothing listens" not in caplog.text


@jumping
async def test_a_port_of_another_cable_ends_no_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_devices, "_PORT_DOWN_S", 0.0)

    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        ends.device.happens(DeviceEventKind.PORT_ERROR, 2)
        for _ in range(10):
            assert await ends.client.call(ECHO, 2) == 2
        assert ends.client.reconnects == 0
        for queue_pair in list(ends.device.in_use):
            queue_pair.fail_sends(WorkStatus.RETRIES_EXCEEDED)
        assert await ends.client.call(ECHO, 3, timeout_s=60) == 3
    assert "port 2 of the RDMA device memory0 is down: if it does not come up" in caplog.text
    assert "ended: port 2" not in caplog.text
    assert "connection lost: the peer does not answer any more: check" in caplog.text


@jumping
async def test_a_port_that_comes_up_again_in_time_costs_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        ends.device.happens(DeviceEventKind.PORT_ERROR, 1)
        ends.device.happens(DeviceEventKind.PORT_ERROR, 1)
        await until(lambda: "is down" in caplog.text)
        loop = asyncio.get_running_loop()
        timers = [timer for timer in loop._scheduled if "_stays_down" in repr(timer)]  # type: ignore[attr-defined]
        assert len(timers) == 1
        ends.device.happens(DeviceEventKind.PORT_ACTIVE, 1)
        await until(lambda: "is up again" in caplog.text)
        assert all(timer.cancelled() for timer in timers)
        assert await ends.client.call(ECHO, 4) == 4
        assert ends.client.reconnects == 0


@jumping
async def test_work_that_is_given_up_names_the_port_that_went_down_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        for watched in ends.device.watched:
            # The event loop does not know of it yet.
            watched.happened.append((DeviceEventKind.PORT_ERROR, 1))
        for queue_pair in list(ends.device.in_use):
            queue_pair.stop()
        assert await ends.client.call(ECHO, 5, timeout_s=60) == 5
        assert ends.client.reconnects == 1
    assert "connection lost: the device cannot send: port 1 of memory0 is down, bring" in caplog.text


@jumping
async def test_a_client_whose_receives_would_lock_too_much_memory_displaces_an_idle_one_or_is_turned_away(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdma_server, "RDMA_RECEIVES_LOCKED_OCTETS_MAX", 1)

    caplog.set_level(logging.INFO, "rpcrdma")
    async with joined() as ends:
        provider = VerbsProvider(ends.device, announcements=ends.device.Announcements)
        options = ConnectOptions(provider=provider, reconnect=False)
        url = ends.server.listening[0]
        async with connect(url, PROGRAM, options=options) as second:
            assert len(ends.server.connections) == 1
            assert all(each.locked_octets > 1_000_000 for each in ends.server.connections)
            call = asyncio.ensure_future(second.call(SLOW, 7))
            await until(lambda: ends.words.asked)
            with pytest.raises(ConnectFailed):
                await connect(url, PROGRAM, options=options)
            ends.words.gate.set()
            assert await call == 7
    assert "its place was needed: too many connections" in caplog.text
    assert re.search(r"turned away: 1 connections, whose receives take all memory that RDMA devices may", caplog.text)


@jumping
async def test_a_silent_client_keeps_its_place_while_its_device_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rpcrdma")
    device = DeviceInMemory()
    config = RdmaServerConfig(provider=VerbsProvider(device, announcements=device.Announcements))
    provider = VerbsProvider(device, announcements=device.Announcements)
    options = ConnectOptions(provider=provider, reconnect=False)
    async with serve([Words()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=config)) as server:
        client = await connect(server.listening[0], PROGRAM, options=options)
        assert await client.call(ECHO, 1) == 1
        for _ in range(4):
            await time_passes(KEEP_ALIVE_IDLE_S / 2)
        assert await client.call(ECHO, 2) == 2
        for queue_pair in list(device.in_use):
            queue_pair.fail_sends(WorkStatus.RETRIES_EXCEEDED)
        assert len(server.connections) == 1
        for _ in range(2):
            await time_passes(KEEP_ALIVE_IDLE_S / 2)
        await until(lambda: not device.in_use)
        assert not server.connections
        await client.close()
    assert "ended: the peer does not answer any more: check it and the network" in caplog.text


@jumping
async def test_a_listener_whose_address_moved_listens_anew(caplog: pytest.LogCaptureFixture) -> None:
    async with joined() as ends:
        ((where, listener),) = ends.device.listeners.items()
        listener._happens(ManagerEventKind.ADDRESS_CHANGED)
        await until(lambda: ends.device.listeners.get(where) not in (None, listener))
        assert await ends.client.call(ECHO, 6) == 6
        listener = ends.device.listeners[where]
        # As at an address of all devices.
        listener._on_device = False
        listener._happens(ManagerEventKind.DEVICE_REMOVED)
        await until(lambda: ends.device.listeners.get(where) not in (None, listener))
    assert "any more: an RDMA device was removed: bring it back" in caplog.text


class Channel:
    """Identifiers that listen when `works`, and the timers that are set."""

    def __init__(self) -> None:
        self.works = True
        self.delays: list[float] = []
        self.retry: Callable[[], None] = lambda: None
        self.devices = SimpleNamespace(
            find=lambda identifier, _scope: None, await_device=lambda call: None, await_no_more=lambda call: None
        )

    def call_later(self, delay_s: float, retry: Callable[[], None]) -> Any:
        self.delays.append(delay_s)
        self.retry = retry
        return SimpleNamespace(cancel=lambda: None)

    def identifier(self, handler: Callable[[ManagerEvent], None]) -> Any:
        def listen(backlog: int) -> None:
            if not self.works:
                raise OSError(errno.ENODEV, "No such device", "rdma_listen")

        return SimpleNamespace(bind=lambda *address: None, listen=listen, local=("192.0.2.1", 20049), device="rxe0")

    def end(self, identifier: Any) -> None:
        pass


def test_attempts_to_listen_again_become_rarer_up_to_a_bound_and_go_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Channel()
    log = LimitedLog(logging.getLogger("rpcrdma.test"), lambda: 0.0, lambda delay_s, call: None)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: channel)
    place = ListeningAddress(cast("Any", channel), lambda event: None, log, ("192.0.2.1", 20049), 0)
    place.open()
    channel.works = False
    with caplog.at_level(logging.INFO):
        place.on_device_lost("it is gone")
        place.on_device_lost("it is gone")
        for _ in range(10):
            channel.retry()
        channel.works = True
        channel.retry()
    assert channel.delays == [0.5, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert caplog.text.count("nothing listens at 192.0.2.1:20049 any more: it is gone") == 1
    assert "no such device; the next attempt is in 0.5 s" in caplog.text
    assert "listening at 192.0.2.1:20049 again, on the RDMA device rxe0" in caplog.text
    assert verbs_listening._RETRY_MAX_S == 30


@jumping
async def test_where_announcements_were_lost_the_devices_that_exist_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_devices, "_NODES", tmp_path)
    monkeypatch.setattr(verbs_devices, "_LET_GO_S", 0.0)
    monkeypatch.setattr(verbs_listening, "_RETRY_FIRST_S", 1e9)
    (tmp_path / "uverbs0").mkdir()

    async with joined() as ends:
        device = ends.device
        device.announce("lost", "")
        for _ in range(10):
            assert await ends.client.call(ECHO, 1) == 1
        assert ends.client.reconnects == 0
        (tmp_path / "uverbs0").rename(tmp_path / "uverbs1")
        device.reached.clear()
        device.announce("lost", "")
        await until(lambda: device.let_go)
        device.come_back(announced=False)
        device.announce("lost", "")
        assert await ends.client.call(ECHO, 2, timeout_s=60) == 2


@jumping
async def test_without_announcements_connections_are_made_all_the_same() -> None:
    def refused() -> Any:
        raise OSError(errno.EPERM, "Operation not permitted")

    device = DeviceInMemory()
    config = RdmaServerConfig(provider=VerbsProvider(device, announcements=refused))
    options = ConnectOptions(provider=VerbsProvider(device, announcements=refused))
    async with (
        serve([Words()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=config)) as server,
        connect(server.listening[0], PROGRAM, options=options) as client,
    ):
        assert await client.call(ECHO, 1) == 1


@jumping
async def test_a_descriptor_that_cannot_be_read_any_more_is_left(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[object] = []

    def broken() -> Any:
        tries.append(None)
        raise OSError(errno.EIO, "Input/output error")

    async with joined() as ends:
        readers = len(ends.device.announcements)
        for each in ends.device.announcements:
            each.take = broken  # type: ignore[method-assign]
        ends.device.announce("add", "uverbs7")
        for _ in range(10):
            assert await ends.client.call(ECHO, 1) == 1
        assert len(tries) == readers
        for channel in ends.device.channels:
            channel.events = broken  # type: ignore[method-assign]
            channel.raise_()
        for _ in range(10):
            assert await ends.client.call(ECHO, 1) == 1
        assert len(tries) == readers + len(ends.device.channels)
    assert "no announcements of RDMA devices any more: [Errno 5] Input/output error" in caplog.text
    assert "the connection manager of RDMA devices tells no more events" in caplog.text


@jumping
async def test_a_device_that_shares_its_address_with_another_is_used_unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceInMemory()
    provider = VerbsProvider(device, announcements=device.Announcements)
    manager = provider.manager()
    assert VerbsProvider(device, announcements=device.Announcements).manager() is manager, (
        "each provider has one of its own"
    )
    identifier = manager.identifier(lambda event: None)
    identifier.bind("127.0.0.1", 0)
    identifiers = len(device.channels[0].identifiers)
    monkeypatch.setitem(device.attributes, "name", "memory1")
    assert manager.devices.find(cast("Any", SimpleNamespace(device="memory0", local=("127.0.0.1", 1)))) is None
    assert len(device.channels[0].identifiers) == identifiers, "the guard stayed"
    assert device.watched == []
    manager.end(identifier)


@each_case("end", ["client", "server"])
@jumping
async def test_an_address_of_a_link_is_watched_where_the_link_is_known_and_else_used_unwatched(end: str) -> None:
    device = DeviceInMemory()
    device.reached.add("fe80::1")
    manager = VerbsProvider(device, announcements=device.Announcements).manager()
    asked = cast("Any", SimpleNamespace(device="memory0", local=("fe80::1", 1)))
    assert manager.devices.find(asked) is None
    if end == "client":
        manager.end(await manager.resolved("fe80::1", 20049, 3, lambda _: None))
    else:
        log = LimitedLog(logging.getLogger("rpcrdma"))
        listening = ListeningAddress(manager, lambda _: None, log, ("fe80::1", 0), 3)
        listening.open()
        listening.close()
    assert len(device.watched) == 1
