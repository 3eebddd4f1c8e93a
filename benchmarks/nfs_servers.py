"""The servers of the benchmarks, as processes of their own, and the files that they export."""

from __future__ import annotations

import contextlib
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import rpcrdma
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.server import Export, build_services, open_state

CALL_OCTETS = 1 << 20
FILE_OCTETS = 64 << 20
FILE_FILLING = b"\x5a"
PLACES = MEMORY, DISK = "memory", "disk"
"""The file systems of the files that are read and written: the names of their exports."""
MEMORY_PARENT = Path("/dev/shm")
DISK_PARENT = Path("/var/tmp")
DISK_HELP = "a directory on a disk's file system (default: %(default)s)"
_URL = re.compile(r"\b(rdma|tcp)://[^\s\"',]+")


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Where the measured server listens, and its process."""

    rdma: str
    tcp: str
    process: int
    directory: str = ""


@contextlib.contextmanager
def served_file(environment: Mapping[str, str] | None = None, octets: int = FILE_OCTETS) -> Iterator[ServerAddresses]:
    """`rpcrdma serve` in a process of its own, over a directory in memory with one large file, "data"."""
    with (
        directory_with_data(MEMORY_PARENT if MEMORY_PARENT.is_dir() else None, octets) as directory,
        served_directory(directory, environment) as server,
    ):
        yield server


@contextlib.contextmanager
def directory_with_data(parent: Path | None, octets: int = FILE_OCTETS) -> Iterator[str]:
    """A directory for the length of the context, which everyone may write to, with one large file, "data"."""
    with tempfile.TemporaryDirectory(prefix="rpcrdma-bench-", dir=parent) as directory:
        # If root runs this process, the server maps its calls to the anonymous user.
        Path(directory).chmod(0o777)
        data = Path(directory, "data")
        with data.open("wb") as file:
            for _ in range(octets >> 20):
                file.write(FILE_FILLING * (1 << 20))
        data.chmod(0o666)
        yield directory


@contextlib.contextmanager
def directories(disk: Path) -> Iterator[list[str]]:
    """A directory with "data" in each of the places."""
    memory = MEMORY_PARENT if MEMORY_PARENT.is_dir() else None
    with directory_with_data(memory) as in_memory, directory_with_data(disk) as on_disk:
        yield [in_memory, on_disk]


def exports(paths: Sequence[str]) -> list[str]:
    """Arguments of `rpcrdma serve` that export directories by the names of their places."""
    return [word for name, path in zip(PLACES, paths, strict=True) for word in ("--export", f"{name}={path}")]


@contextlib.contextmanager
def served_directory(
    directory: str, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[ServerAddresses]:
    """`rpcrdma serve` of one directory in a process of its own, at free ports."""
    with served([directory, *options], environment) as server:
        yield replace(server, directory=directory)


@contextlib.contextmanager
def served(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[ServerAddresses]:
    """`rpcrdma serve` with these arguments in a process and with a state of its own, at free ports."""
    listen = ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    with (
        tempfile.TemporaryDirectory(prefix="rpcrdma-state-") as state,
        # Not the script beside the interpreter: an earlier source may be run, which begins elsewhere.
        subprocess.Popen(
            [sys.executable, "-m", "rpcrdma", "serve", *arguments, *listen, "--state-dir", state],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as server,
    ):
        try:
            yield _addresses(server)
        finally:
            server.terminate()


@contextlib.asynccontextmanager
async def in_process(directory: Path, options: rpcrdma.ServeOptions) -> AsyncIterator[rpcrdma.Server]:
    """A server of NFSv3 in this process, with one export, "/", which listens for RDMA and then for TCP."""
    with (
        tempfile.TemporaryDirectory(prefix="rpcrdma-state-") as state_directory,
        contextlib.closing(open_state(Path(state_directory), secrets.token_bytes)) as state,
    ):
        services = build_services([Export(name="/", directory=directory, root_squash=False)], state=state)
        async with rpcrdma.serve(services, ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"], options=options) as server:
            yield server
        services.nfs.close()


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


async def file_handle(tcp_url: str, export: str = "/") -> v3.nfs_fh3:
    """The handle of "data" in the export's root."""
    async with rpcrdma.connect(tcp_url, mount.PROGRAM) as connection:
        mounted = await connection.call(mount.MNT, export)
    async with rpcrdma.connect(tcp_url, v3.PROGRAM) as connection:
        where = v3.diropargs3(dir=v3.nfs_fh3(data=mounted.value.fhandle), name="data")
        found = await connection.call(v3.LOOKUP, v3.LOOKUP3args(what=where))
    return found.value.object
