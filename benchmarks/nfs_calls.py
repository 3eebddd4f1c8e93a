"""The same calls over RDMA and TCP: bulk rates of NFS READ and WRITE, and the round trip of NULL."""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import rpcrdma
from rpcrdma.nfs import mount, v3

CALL_OCTETS = 1 << 20
FILE_OCTETS = 256 << 20
WARM_UP_CALLS = 200
_URL = re.compile(r"\b(rdma|tcp)://[^\s\"',]+")


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Where the measured server listens, and its process."""

    rdma: str
    tcp: str
    process: int
    directory: str = ""


@contextlib.contextmanager
def served_file(
    environment: dict[str, str] | None = None, options: Sequence[str] = (), octets: int = FILE_OCTETS
) -> Iterator[ServerAddresses]:
    """`rpcrdma serve` in a process of its own, over a directory in memory with one large file, "data"."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-bench-", dir=memory if memory.is_dir() else None) as directory:
        # If root runs this process, the server maps its calls to the anonymous user.
        Path(directory).chmod(0o777)
        data = Path(directory, "data")
        with data.open("wb") as file:
            for _ in range(octets >> 20):
                file.write(bytes(1 << 20))
        data.chmod(0o666)
        with served_directory(directory, environment, options) as server:
            yield server


@contextlib.contextmanager
def served_directory(
    directory: str, environment: dict[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[ServerAddresses]:
    """`rpcrdma serve` in a process of its own, at free ports."""
    listen = ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    # Not the script beside the interpreter: an earlier source may be run, which begins elsewhere.
    command = [sys.executable, "-m", "rpcrdma", "serve", directory, *listen, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as server:
        try:
            yield replace(_addresses(server), directory=directory)
        finally:
            server.terminate()


def _addresses(server: subprocess.Popen[str]) -> ServerAddresses:
    assert server.stdout is not None
    found: dict[str, str] = {}
    lines = []
    for line in server.stdout:
        lines.append(line)
        for match in _URL.finditer(line):
            found.setdefault(match[1], match[0].rstrip("/"))
        if len(found) == 2:
            return ServerAddresses(found["rdma"], found["tcp"], server.pid)
    raise RuntimeError("rpcrdma serve ended:\n" + "".join(lines))


async def file_handle(tcp_url: str) -> v3.nfs_fh3:
    """The handle of "data" in the export's root."""
    async with rpcrdma.connect(tcp_url, mount.PROGRAM) as connection:
        mounted = await connection.call(mount.MNT, "/")
    async with rpcrdma.connect(tcp_url, v3.PROGRAM) as connection:
        where = v3.diropargs3(dir=v3.nfs_fh3(data=mounted.value.fhandle), name="data")
        found = await connection.call(v3.LOOKUP, v3.LOOKUP3args(what=where))
    return found.value.object


async def _rate(call: Callable[[int, bytearray], Awaitable[int]], octets: int, in_flight: int) -> float:
    """Octets a second of calls that move up to 1 MiB each at ascending offsets, `in_flight` of them at any time."""
    offsets = iter(range(0, octets, CALL_OCTETS))

    async def worker() -> int:
        buffer = bytearray(CALL_OCTETS)
        moved = 0
        for offset in offsets:
            moved += await call(offset % FILE_OCTETS, buffer)
        return moved

    start = time.perf_counter()
    moved = sum(await asyncio.gather(*(worker() for _ in range(in_flight))))
    elapsed = time.perf_counter() - start
    assert moved == octets
    return octets / elapsed


async def read_rate(url: str, handle: v3.nfs_fh3, octets: int, in_flight: int) -> float:
    """Octets a second of READ calls of 1 MiB, each into memory of its own."""
    async with rpcrdma.connect(url, v3.PROGRAM) as connection:

        async def read(offset: int, buffer: bytearray) -> int:
            arguments = v3.READ3args(file=handle, offset=offset, count=CALL_OCTETS)
            reply = await connection.call(v3.READ, arguments, into=buffer)
            return int(reply.value.count)

        return await _rate(read, octets, in_flight)


async def write_rate(url: str, handle: v3.nfs_fh3, octets: int, in_flight: int) -> float:
    """Octets a second of UNSTABLE WRITE calls of 1 MiB."""
    async with rpcrdma.connect(url, v3.PROGRAM) as connection:

        async def write(offset: int, buffer: bytearray) -> int:
            arguments = v3.WRITE3args(
                file=handle, offset=offset, count=CALL_OCTETS, stable=v3.stable_how.UNSTABLE, data=buffer
            )
            reply = await connection.call(v3.WRITE, arguments)
            return int(reply.value.count)

        return await _rate(write, octets, in_flight)


async def null_round_trip(url: str, count: int) -> float:
    """Median seconds of a NULL call, one at a time."""
    times = []
    async with rpcrdma.connect(url, v3.PROGRAM) as connection:
        for _ in range(WARM_UP_CALLS + count):
            start = time.perf_counter()
            await connection.call(v3.NULL, None)
            times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP_CALLS:])
