"""Many connections to `rpcrdma serve`: their memory, and service to others. `pytest -m scale` tries all numbers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raw_crowd import raise_file_limit
from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.connection_limits import descriptors_for
from rpcrdma.nfs.v3 import PROGRAM as NFS
from rpcrdma.rpc.program import null_procedure

pytestmark = pytest.mark.thorough

CROWD = Path(__file__).with_name("raw_crowd.py")
EACH_KIB = 21
"""A connection's share of the server's memory, that of sockets included as far as the event loop has it."""
scale = pytest.mark.scale


class Served:
    """A server process that listens at `ports`, of RDMA and of TCP."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.ports = [int(json.loads(process.stdout.readline())["url"].rpartition(":")[2]) for _ in range(2)]

    @property
    def resident_octets(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))

    def ping_s(self) -> float:
        """How long a new client takes to connect and to have a call answered."""

        async def ping() -> float:
            started_s = time.monotonic()
            async with connect(f"rdma://127.0.0.1:{self.ports[0]}") as connection:
                await connection.call(null_procedure(NFS.number, NFS.version), None)
                return time.monotonic() - started_s

        return asyncio.run(ping())

    def listing(self) -> str:
        url = f"rdma://127.0.0.1:{self.ports[0]}/"
        command = [sys.executable, "-m", "rpcrdma", "ls", url, "--mount-port", str(self.ports[1])]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@contextlib.contextmanager
def serving(directory: Path, *options: str) -> Iterator[Served]:
    export = directory / "export"
    export.mkdir()
    (export / "here").write_bytes(b"content")
    arguments = [export, "--state-dir", directory / "state", "--json", "--stop-at-eof", *options]
    for scheme in ("rdma", "tcp"):
        arguments += ["--listen", f"{scheme}://127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "rpcrdma", "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            served = Served(process)
            # The server's log of its connections must not fill the pipe.
            with subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL):
                try:
                    yield served
                    assert process.stdin is not None
                    process.stdin.close()
                    process.wait(60)
                finally:
                    # `cat` ends with the server.
                    process.kill()
        finally:
            process.kill()


@contextlib.contextmanager
def crowd(port: int, count: int, *options: str) -> Iterator[list[int]]:
    """`count` connections while the context is entered; at its end the list has the number that the server has kept."""
    kept: list[int] = []
    with subprocess.Popen(
        [sys.executable, CROWD, str(port), str(count), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready"), line
            yield kept
            kept.append(int(process.communicate("", timeout=60)[0]))
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("count", "limit_octets", "version"),
    [
        (500, 60 << 20, "2-rtr"),
        *(
            pytest.param(10_000, 240_000_000, version, marks=[scale, pytest.mark.timeout(240)])
            for version in ("1", "2", "2-rtr")
        ),
    ],
)
def test_idle_connections_take_little_and_hold_up_nobody(
    tmp_path: Path, count: int, limit_octets: int, version: str
) -> None:
    connections = count + 10
    raise_file_limit(descriptors_for(connections))
    # All come from one address.
    limits = ("--connections", str(connections), "--connections-per-host", str(connections))
    with serving(tmp_path, *limits) as served:
        before = served.resident_octets
        with crowd(served.ports[0], count, "--rpcrdma-version", version) as kept:
            taken = served.resident_octets
            each_kib = (taken - before) / count / 1024
            print(f"{count} connections in version {version}: {taken >> 20} MiB, {each_kib:.1f} KiB each")
            assert taken < limit_octets
            assert each_kib < EACH_KIB
            print(f"a new client is answered within {served.ping_s() * 1000:.1f} ms")
            assert "here" in served.listing()
        assert kept == [count]


@scale
def test_new_clients_are_answered_beside_half_open_connections(tmp_path: Path) -> None:
    count = 1_000
    with serving(tmp_path) as served, crowd(served.ports[0], count, "--unfinished"):
        ping_s = max(served.ping_s() for _ in range(10))
    print(f"beside {count} half-open connections a new client is answered within {ping_s * 1000:.1f} ms")


def test_more_connections_than_files_are_refused(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 1200; exec "$@"', "sh"]
    command += [sys.executable, "-m", "rpcrdma", "serve", str(tmp_path), "--connections", "1100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "error: too few open files are allowed" in done.stderr
    assert "hint: raise the hard limit" in done.stderr
