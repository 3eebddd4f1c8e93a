"""The provider of RDMA devices: its errors in words."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from typing import Any

import pytest

import rpcrdma
from rpcrdma.aio.drivers import verbs_provider
from rpcrdma.aio.drivers.kept_identity import THREAD
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import ConnectFailed
from rpcrdma.nfs import v3
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.waiting import until


def message_of_connecting(provider: VerbsProvider) -> str:
    async def main() -> str:
        with pytest.raises(ConnectFailed) as caught:
            await rpcrdma.connect("rdma://127.0.0.2", v3.PROGRAM, options=rpcrdma.ConnectOptions(provider=provider))
        return str(caught.value)

    return asyncio.run(main())


def message_of_listening(provider: VerbsProvider) -> str:
    async def main() -> str:
        options = ServeOptions(rdma=RdmaServerConfig(provider=provider))
        with pytest.raises(ConnectFailed) as caught:
            await serve([v3.NFS_V3_Service()], ["rdma://127.0.0.1:0"], options=options)
        return str(caught.value)

    return asyncio.run(main())


@pytest.mark.thorough
def test_where_no_device_reaches_the_address_cause_and_remedy_are_named() -> None:
    message = message_of_connecting(VerbsProvider(DeviceInMemory()))
    assert "no RDMA device reaches it (address error: no such device)" in message
    assert "rdma link" in message


def test_where_the_module_is_missing_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs_provider, "find", lambda: (None, "rpcrdma_verbs is not installed; install it"))
    assert "rpcrdma_verbs is not installed; install it" in message_of_connecting(VerbsProvider())


@each_case(
    ("number", "remedies"),
    [
        (errno.ENODEV, ("modprobe rdma_ucm", "ibverbs-providers")),
        (errno.EACCES, ("this user has to be allowed to read and write /dev/infiniband/rdma_cm",)),
        (0, ("libibverbs.so.1: no such file; install rdma-core",)),
    ],
)
def test_where_no_connection_manager_is_its_library_its_module_or_its_rights_are_named(
    number: int, remedies: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = DeviceInMemory()

    def missing() -> Any:
        if not number:
            raise OSError(remedies[0])
        raise OSError(number, os.strerror(number), "rdma_create_event_channel")

    monkeypatch.setattr(device, "EventChannel", missing)
    message = message_of_connecting(VerbsProvider(device))
    assert all(remedy in message for remedy in remedies)
    assert message.endswith("; otherwise take provider iwarp")
    told = message_of_listening(VerbsProvider(device))
    assert told.startswith("cannot listen at rdma://127.0.0.1:0: ")
    assert all(remedy in told for remedy in remedies)
    assert told.endswith("; otherwise take provider iwarp")
    assert "port" not in told.replace("127.0.0.1:0", "")


@pytest.mark.thorough
async def test_an_iwarp_device_that_waits_for_the_peer_holds_up_neither_the_loop_nor_a_cancellation() -> None:
    device, answers = DeviceInMemory(), threading.Event()
    device.attributes["iwarp"] = True

    device.connect_waits = answers.wait
    provider = VerbsProvider(device, announcements=device.Announcements)
    options = rpcrdma.ConnectOptions(provider=provider)
    connecting = asyncio.ensure_future(rpcrdma.connect("rdma://127.0.0.1", v3.PROGRAM, options=options))
    await until(lambda: device.connecting)
    (queue_pair,) = device.in_use
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert device.in_use == {queue_pair}, "the queue pair was destroyed under the call"
    answers.set()
    await until(lambda: not device.in_use)


def test_the_thread_of_a_loop_with_devices_keeps_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceInMemory()

    def refused() -> Any:
        raise OSError(errno.ENODEV, "No such device")

    async def main() -> bool:
        provider = VerbsProvider(device, announcements=device.Announcements)
        with monkeypatch.context() as without_device:
            without_device.setattr(device, "EventChannel", refused)
            with pytest.raises(OSError, match="no RDMA device"):
                provider.manager()
        assert not THREAD.keeps_identity()
        provider.manager()
        return THREAD.keeps_identity()

    assert asyncio.run(main())
    assert not THREAD.keeps_identity()


@pytest.mark.thorough
@each_case("iwarp", [True, False])
def test_a_connection_over_an_iwarp_device_takes_no_port_that_tcp_has(iwarp: bool) -> None:
    """An iWARP device would refuse to connect from it."""
    device = DeviceInMemory()
    device.attributes["iwarp"] = iwarp

    async def main() -> tuple[int, int]:
        manager = VerbsProvider(device, announcements=device.Announcements).manager()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            device.ports = iter([port, port, free])
            identifier = await manager.resolved("127.0.0.1", 20049, 0, lambda _: None)
            manager.end(identifier)
        return port, identifier.local[1]

    with socket.socket() as other:
        # Held, so that nobody gets this port meanwhile, and yet free to whoever says SO_REUSEADDR, too.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        free = other.getsockname()[1]
        taken, found = asyncio.run(main())
    assert free != taken
    assert found == (free if iwarp else taken)
