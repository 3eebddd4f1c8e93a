"""Runs in a guest: makes batches of calls over its RDMA device and over the software RNIC, by order.

Argument: the device's address. An order is a line of the named pipe /run/orders: subject, measure and number of calls,
with bars between them. The answer in /run/answers is the median of the calls' seconds. An order without a measure makes
no call: it shows the cost of an order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import rpcrdma
from rpcrdma.nfs import mount, v3
from rpcrdma.verbs.device_config import VerbsConfig

__all__: list[str] = []

_SUBJECTS = {"iwarp": ("iwarp", 0), "verbs": ("verbs", 0), "verbs, busy polling": ("verbs", 5_000)}
"""Provider, and microseconds of busy polling at both ends: some round trips of an emulated machine."""
_LARGE_OCTETS = 1 << 20
_SERVED = Path("/run/measured")
_ORDERS, _ANSWERS = Path("/run/orders"), Path("/run/answers")

Call = Callable[[], Awaitable[object]]


def _server(provider: str, busy_poll: int, address: str, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rpcrdma", "serve", "--no-root-squash", "--state-dir", f"/run/state{port}"]
    command += ["--provider", provider, "--busy-poll", str(busy_poll), "--listen", f"rdma://{address}:{port}"]
    command += ["--listen", f"tcp://{address}:{port + 100}", str(_SERVED)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(2):
        assert "listening at" in process.stdout.readline()
    return process


async def _handle(tcp_url: str) -> v3.nfs_fh3:
    async with rpcrdma.connect(tcp_url, mount.PROGRAM) as connection:
        mounted = await connection.call(mount.MNT, "/")
    async with rpcrdma.connect(tcp_url, v3.PROGRAM) as connection:
        where = v3.diropargs3(dir=v3.nfs_fh3(data=mounted.value.fhandle), name="data")
        found = await connection.call(v3.LOOKUP, v3.LOOKUP3args(what=where))
    return v3.nfs_fh3(data=found.value.object.data)


def _measures(connection: rpcrdma.Connection, handle: v3.nfs_fh3) -> dict[str, tuple[int, Call]]:
    """By name: calls in flight, and the call."""

    def null() -> Awaitable[object]:
        return connection.call(v3.NULL, None)

    found: dict[str, tuple[int, Call]] = {"NULL x1": (1, null), "NULL x32": (32, null)}
    for octets, size, in_flight in ((4096, "4 KiB", 1), (_LARGE_OCTETS, "1 MiB", 1), (_LARGE_OCTETS, "1 MiB", 4)):
        memory = bytearray(octets)
        read = v3.READ3args(handle, 0, octets)
        write = v3.WRITE3args(handle, 0, octets, v3.stable_how.UNSTABLE, memory)
        found[f"READ {size} x{in_flight}"] = (
            in_flight,
            lambda read=read, octets=octets: connection.call(v3.READ, read, into=bytearray(octets)),  # type: ignore[misc]
        )
        found[f"WRITE {size} x{in_flight}"] = (
            in_flight,
            lambda write=write: connection.call(v3.WRITE, write),  # type: ignore[misc]
        )
    return found


async def _batch(call: Call, in_flight: int, calls: int) -> list[float]:
    """So many calls; the seconds that each took."""
    taken: list[float] = []

    async def one_after_another() -> None:
        nonlocal calls
        while calls > 0:
            calls -= 1
            start = time.monotonic()
            await call()
            taken.append(time.monotonic() - start)

    await asyncio.gather(*(one_after_another() for _ in range(in_flight)))
    return taken


def _next_order() -> list[str]:
    """Waits for an order; the event loop stands still meanwhile, because nothing is in flight."""
    return _ORDERS.read_text().strip().split("|")


def _tell(median_s: float) -> None:
    _ANSWERS.write_text(f"{median_s}\n")


async def _answer(address: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        subjects: dict[str, dict[str, tuple[int, Call]]] = {}
        for number, (name, (provider, busy_poll)) in enumerate(_SUBJECTS.items()):
            port = 21000 + number
            server = stack.enter_context(_server(provider, busy_poll, address, port))
            stack.callback(server.terminate)
            handle = await _handle(f"tcp://{address}:{port + 100}")
            config = VerbsConfig(busy_poll_s=busy_poll / 1e6)
            options = rpcrdma.ConnectOptions(provider=provider, verbs=config, rpcrdma_version=1, keepalive_s=None)
            connecting = rpcrdma.connect(f"rdma://{address}:{port}", v3.PROGRAM, options=options)
            connection = await stack.enter_async_context(connecting)
            subjects[name] = _measures(connection, handle)
            for in_flight, call in subjects[name].values():
                await _batch(call, in_flight, 2 * in_flight)
        os.mkfifo(_ANSWERS)
        os.mkfifo(_ORDERS)
        while True:
            subject, measure, calls = _next_order()
            taken = [0.0]
            if measure:
                in_flight, call = subjects[subject][measure]
                taken = await _batch(call, in_flight, int(calls))
            _tell(statistics.median(taken))


if __name__ == "__main__":
    _SERVED.mkdir()
    (_SERVED / "data").write_bytes(bytes(_LARGE_OCTETS))
    asyncio.run(_answer(sys.argv[1]))
