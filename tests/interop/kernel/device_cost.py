"""Runs in a guest: the cost of calls over its RDMA device and over the software RNIC, by turns.

Argument: the device's address. Prints a JSON object for each batch of calls: subject, measure, calls, seconds, the
median of the calls' seconds, and seconds of processor time of the client, the server and the whole machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import rpcrdma
from rpcrdma.nfs import mount, v3
from rpcrdma.verbs.device_config import VerbsConfig

__all__: list[str] = []

_SUBJECTS = (("iwarp", 0), ("verbs", 0), ("verbs", 20_000))
"""Provider, and microseconds of busy polling at both ends: some round trips of an emulated machine."""
_ROUNDS, _BATCH_S, _WARM_UP_S = 6, 1.5, 0.5
_LARGE_OCTETS = 1 << 20
_SERVED = Path("/run/measured")
_TICKS = os.sysconf("SC_CLK_TCK")

Call = Callable[[], Awaitable[object]]


def _processor_s(process: int | str) -> float:
    """Seconds of a process with all its threads, by the kernel's account in nanoseconds."""
    tasks = Path("/proc", str(process), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _machine_s() -> float:
    """Seconds for which processors were not idle, interrupts and the kernel's threads included."""
    words = Path("/proc/stat").read_text().split()
    user, nice, system, _, _, *interrupts = map(int, words[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS


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


async def _batch(call: Call, in_flight: int, seconds: float) -> list[float]:
    """Calls for so long; the seconds that each took."""
    taken: list[float] = []
    end = time.monotonic() + seconds

    async def one_after_another() -> None:
        while (start := time.monotonic()) < end:
            await call()
            taken.append(time.monotonic() - start)

    await asyncio.gather(*(one_after_another() for _ in range(in_flight)))
    return taken


async def _measure(address: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        subjects: dict[str, tuple[int, dict[str, tuple[int, Call]]]] = {}
        for number, (provider, busy_poll) in enumerate(_SUBJECTS):
            port = 21000 + number
            server = stack.enter_context(_server(provider, busy_poll, address, port))
            stack.callback(server.terminate)
            handle = await _handle(f"tcp://{address}:{port + 100}")
            config = VerbsConfig(busy_poll_s=busy_poll / 1e6)
            options = rpcrdma.ConnectOptions(provider=provider, verbs=config, rpcrdma_version=1)
            connecting = rpcrdma.connect(f"rdma://{address}:{port}", v3.PROGRAM, options=options)
            connection = await stack.enter_async_context(connecting)
            subject = provider + (f", busy polling {busy_poll} us" if busy_poll else "")
            subjects[subject] = server.pid, _measures(connection, handle)
        names = list(next(iter(subjects.values()))[1])
        for turn in range(_ROUNDS):
            for name in names:
                for subject in list(subjects) if turn % 2 else reversed(list(subjects)):
                    process, measures = subjects[subject]
                    in_flight, call = measures[name]
                    await _batch(call, in_flight, _WARM_UP_S)
                    before = _processor_s("self"), _processor_s(process), _machine_s(), time.monotonic()
                    taken = await _batch(call, in_flight, _BATCH_S)
                    after = _processor_s("self"), _processor_s(process), _machine_s(), time.monotonic()
                    client_s, server_s, machine_s, elapsed_s = (b - a for a, b in zip(before, after, strict=True))
                    told: dict[str, Any] = {"subject": subject, "measure": name, "calls": len(taken)}
                    told |= {"elapsed_s": elapsed_s, "median_s": statistics.median(taken)}
                    told |= {"client_s": client_s, "server_s": server_s, "machine_s": machine_s}
                    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    _SERVED.mkdir()
    (_SERVED / "data").write_bytes(bytes(_LARGE_OCTETS))
    asyncio.run(_measure(sys.argv[1]))
