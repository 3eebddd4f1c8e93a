"""Connections over a device that look for completions before they sleep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jumping_sockets import jumping, run
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers import verbs_manager
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.nfs import v3
from rpcrdma.verbs.device_config import VerbsConfig
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.waiting import until

CALLS = 40


@pytest.fixture(autouse=True)
def _ports_of_the_device_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks TCP of the machine."""
    monkeypatch.setattr(verbs_manager, "_is_of_tcp", lambda _local: False)


class Nothing(v3.NFS_V3_Service):
    """Answers NULL alone."""


def connected(device: DeviceInMemory, busy_poll_s: float) -> tuple[Any, Any]:
    """Options of a server, and a function that connects a client to it."""
    provider = VerbsProvider(device, VerbsConfig(busy_poll_s=busy_poll_s), device.Announcements)
    serving = serve([Nothing()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=RdmaServerConfig(provider=provider)))
    return serving, lambda url: connect(url, options=ConnectOptions(provider=provider, keepalive_s=None))


async def call(client: Connection, count: int = CALLS) -> None:
    for _ in range(count):
        await client.call(v3.NULL, None)


def notifications(busy_poll_s: float) -> int:
    """How often calls have had the device armed to report completions."""

    async def main() -> int:
        device = DeviceInMemory()
        serving, connecting = connected(device, busy_poll_s)
        async with serving as server, connecting(server.listening[0]) as client:
            await call(client, 1)
            before = device.armed
            await call(client)
            return device.armed - before

    return run(main)


def test_a_connection_that_polls_is_not_woken_by_its_device() -> None:
    assert notifications(0.0) >= 2 * CALLS
    assert notifications(1.0) <= CALLS / 10


async def test_a_connection_polls_for_its_time_and_then_sleeps_and_wakes_again() -> None:
    device = DeviceInMemory()
    serving, connecting = connected(device, 0.005)
    async with serving as server, connecting(server.listening[0]) as client:
        for _ in range(3):
            before = device.armed
            await call(client)
            await until(lambda before=before: device.armed >= before + 2)
            loop: Any = asyncio.get_running_loop()
            await until(lambda loop=loop: not [each for each in loop._ready if not each.cancelled()])


@jumping
async def test_a_connection_looks_for_the_answer_to_its_own_call() -> None:
    """The device of this client is mute: its descriptor never becomes readable."""

    device = DeviceInMemory()
    serving, connecting = connected(device, 1.0)
    async with serving as server, connecting(server.listening[0]) as client:
        await call(client, 1)
        driver = client._present._driver
        driver._awake_until_s = 0.0
        await until(lambda: not driver._polls)
        asyncio.get_running_loop().remove_reader(driver.queue_pair.fileno())
        await call(client)


@each_case("busy_poll_s", [-1e-6, 1.1, float("nan")])
def test_the_time_has_a_bound(busy_poll_s: float) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 1"):
        VerbsConfig(busy_poll_s=busy_poll_s)
