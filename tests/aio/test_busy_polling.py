"""Connections over a device that look for completions before they sleep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.nfs import v3
from rpcrdma.verbs.device_config import VerbsConfig
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.waiting import until

CALLS = 40


class Nothing(v3.NFS_V3_Service):
    """Answers NULL alone."""


def connected(device: DeviceInMemory, busy_poll_s: float) -> tuple[Any, Any]:
    """Options of a server, and a function that connects a client to it."""
    provider = VerbsProvider(device, VerbsConfig(busy_poll_s=busy_poll_s))
    serving = serve([Nothing()], options=ServeOptions(rdma=RdmaServerConfig(provider=provider)))
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

    return asyncio.run(main())


@pytest.mark.thorough
def test_a_connection_that_polls_is_not_woken_by_its_device() -> None:
    assert notifications(0.0) >= 2 * CALLS
    assert notifications(1.0) <= CALLS / 10


@pytest.mark.thorough
def test_a_connection_polls_for_its_time_and_then_sleeps_and_wakes_again() -> None:
    async def main() -> None:
        device = DeviceInMemory()
        serving, connecting = connected(device, 0.005)
        async with serving as server, connecting(server.listening[0]) as client:
            for _ in range(3):
                before = device.armed
                await call(client)
                await until(lambda before=before: device.armed >= before + 2)
                loop: Any = asyncio.get_running_loop()
                await until(lambda loop=loop: not [each for each in loop._ready if not each.cancelled()])

    asyncio.run(main())


@pytest.mark.thorough
def test_a_connection_looks_for_the_answer_to_its_own_call() -> None:
    """The device of this client is mute: its descriptor never becomes readable."""

    async def main() -> None:
        device = DeviceInMemory()
        serving, connecting = connected(device, 1.0)
        async with serving as server, connecting(server.listening[0]) as client:
            await call(client, 1)
            driver = client._present._driver
            driver._awake_until_s = 0.0
            await until(lambda: not driver._polls)
            asyncio.get_running_loop().remove_reader(driver.queue_pair.fileno())
            await asyncio.wait_for(call(client), 10)

    asyncio.run(main())


@each_case("busy_poll_s", [-1e-6, 1.1, float("nan")])
def test_the_time_has_a_bound(busy_poll_s: float) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 1"):
        VerbsConfig(busy_poll_s=busy_poll_s)
