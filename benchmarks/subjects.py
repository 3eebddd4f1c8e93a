"""The subjects of the bench: this library in several ways, and the programs that it is compared with.

Each subject has a server process and client processes of its own. A subject that is not on this machine tells how to
install it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import libnfs_client
import nfs_client
import nfs_servers
from orders import Batch, Order, Sample, ordered_client, spent_s

from rpcrdma.wire import native

HERE = Path(__file__).parent
NATIVE_SOURCES = HERE.parent / "native" / "src"
FLOOR = HERE.parent / "build" / "floor"
FLOOR_SOURCES = (HERE / "floor.c", NATIVE_SOURCES / "crc32c.c", NATIVE_SOURCES / "crc32c.h")
FABTESTS = shutil.which("fi_rma_bw")
ALL_CALLS = ("NULL", "READ", "WRITE")
OWN_CALLS = (*ALL_CALLS, "READ@16")
PROGRAM_S_MAX = 60.0
"""How long a program that measures itself may take."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The directories that servers export, and the event loop of clients in Python."""

    directories: Sequence[str]
    loop: str


@dataclass(frozen=True, slots=True)
class Running:
    """A subject that runs: its batches, and its server process, 0 where each batch has one of its own."""

    batch: Batch
    server_process: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A column of the table: `calls` that it knows, as far as `takes` allows; `files` if it has files.

    `connects` if its client opens any number of connections.
    """

    name: str
    explained: str
    start: Callable[[Scene], AbstractContextManager[Running]]
    missing: str = ""
    calls: Sequence[str] = ALL_CALLS
    files: bool = True
    connects: bool = False
    takes: Callable[[Order], bool] = lambda _order: True

    def makes(self, order: Order) -> bool:
        """It can make these calls; those without files are beside files in memory."""
        return order.call in self.calls and (self.files or not order.place) and self.takes(order)


def ours(
    url: str, version: str, native: str, source: Path | None = None
) -> Callable[[Scene], AbstractContextManager[Running]]:
    """This library: `url` is "rdma" or "tcp", `native` the value of RPCRDMA_NATIVE, `source` another `src`."""

    @contextlib.contextmanager
    def start(scene: Scene) -> Iterator[Running]:
        environment = {**os.environ, "RPCRDMA_NATIVE": native}
        if source is not None:
            environment |= {"PYTHONPATH": str(source.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
        with nfs_servers.served(nfs_servers.exports(scene.directories), environment) as server:
            command = nfs_client.command(server, getattr(server, url), scene.loop, "--rpcrdma-version", version)
            with ordered_client(command, server.process, environment) as batch:
                yield Running(batch, server.process)

    return start


@contextlib.contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the context."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def port_of(server: subprocess.Popen[str]) -> str:
    """The port that a server prints first."""
    assert server.stdout is not None
    return server.stdout.readline().strip()


@contextlib.contextmanager
def libnfs(scene: Scene) -> Iterator[Running]:
    with nfs_servers.served(nfs_servers.exports(scene.directories)) as server:
        exports = [f"/{name}" for name in nfs_servers.PLACES]
        command = [sys.executable, str(HERE / "libnfs_client.py"), server.tcp, *exports]
        with ordered_client(command, server.process) as batch:
            yield Running(batch, server.process)


@contextlib.contextmanager
def grpc(scene: Scene) -> Iterator[Running]:
    command = [sys.executable, str(HERE / "grpc_peer.py")]
    with (
        process(*command, "serve", scene.loop) as server,
        ordered_client([*command, "client", scene.loop, port_of(server)], server.pid) as batch,
    ):
        yield Running(batch, server.pid)


@contextlib.contextmanager
def echo(scene: Scene) -> Iterator[Running]:
    command = [sys.executable, str(HERE / "raw_echo.py")]
    with (
        process(*command, "serve", scene.loop) as server,
        ordered_client([*command, "client", scene.loop, port_of(server)], server.pid) as batch,
    ):
        yield Running(batch, server.pid)


@contextlib.contextmanager
def floor(scene: Scene) -> Iterator[Running]:
    if not FLOOR.is_file() or FLOOR.stat().st_mtime < max(source.stat().st_mtime for source in FLOOR_SOURCES):
        FLOOR.parent.mkdir(exist_ok=True)
        new = FLOOR.with_name(f"floor.{os.getpid()}")
        sources = [str(source) for source in FLOOR_SOURCES if source.suffix == ".c"]
        subprocess.run(["cc", "-O3", "-I", str(NATIVE_SOURCES), "-o", str(new), *sources], check=True)
        new.replace(FLOOR)
    command = [str(FLOOR)]
    with (
        process(*command, "serve", *scene.directories) as server,
        ordered_client([*command, "client", port_of(server)], server.pid) as batch,
    ):
        yield Running(batch, server.pid)


def free_port() -> str:
    """A port for programs that cannot choose one themselves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def wait_for_listener(port: str, server: subprocess.Popen[str]) -> None:
    """Until the process listens at the port: the kernel's table says so, and no connection is spent."""
    ending, listening = f":{int(port):04X}", "0A"
    end = time.monotonic() + PROGRAM_S_MAX
    while server.poll() is None and time.monotonic() < end:
        lines = [
            line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
        ]
        if any(fields[1].endswith(ending) and fields[3] == listening for fields in lines):
            return
        time.sleep(0.002)
    raise TimeoutError(f"{server.args} does not listen")


@contextlib.contextmanager
def iperf3(_scene: Scene) -> Iterator[Running]:
    """A stream in buffers of the call's size, without replies: to the client for READ, to the server for WRITE."""
    port = free_port()
    with process("iperf3", "--server", "--bind", "127.0.0.1", "--port", port) as server:
        wait_for_listener(port, server)

        def batch(order: Order) -> Sample:
            # Some 4 GB/s; the program knows octets, but only whole seconds.
            octets = max(int(order.seconds * 4e9), order.octets * order.in_flight)
            command = ["iperf3", "--client", "127.0.0.1", "--port", port, "--json"]
            command += ["--length", str(order.octets), "--bytes", str(octets)]
            before = spent_s(server.pid)
            told = subprocess.run(
                [*command, *(["--reverse"] if order.call == "READ" else [])],
                capture_output=True,
                check=True,
                timeout=PROGRAM_S_MAX,
            ).stdout
            server_s = spent_s(server.pid) - before
            end = json.loads(told)["end"]
            buffers = end["sum_received"]["bytes"] / order.octets
            seconds = end["sum_received"]["seconds"]
            client_s = end["cpu_utilization_percent"]["host_total"] / 100 * seconds
            each = 1e6 / buffers
            return Sample(None, buffers / seconds, client_s * each, server_s * each)

        yield Running(batch, server.pid)


def fabtest(command: Sequence[str], port_options: tuple[str, str]) -> float:
    """Runs both ends of a test of libfabric: microseconds for one transfer."""
    port = free_port()
    with process(*command, port_options[0], port) as server:
        wait_for_listener(port, server)
        told = subprocess.run(
            [*command, port_options[1], port, "127.0.0.1"],
            capture_output=True,
            text=True,
            check=True,
            timeout=PROGRAM_S_MAX,
        ).stdout
        server.wait(PROGRAM_S_MAX)
    titles, values = (line.split() for line in told.splitlines()[-2:])
    return float(dict(zip(titles, values, strict=True))["usec/xfer"])


@contextlib.contextmanager
def libfabric(_scene: Scene) -> Iterator[Running]:
    """A ping-pong for NULL, and RDMA operations for READ and WRITE."""

    def batch(order: Order) -> Sample:
        # Some 20 us and 2 GB/s: the programs know numbers of operations alone.
        count = max(int(order.seconds / (20e-6 + order.octets / 2e9)), order.in_flight + 1)
        provider = ["-p", "tcp", "-e", "msg", "-I", str(count)]
        if order.call == "NULL":
            round_trip_us = 2 * fabtest(["fi_pingpong", *provider, "-S", "64"], ("-B", "-P"))
            return Sample(round_trip_us, 1e6 / round_trip_us, None, None)
        operation = ["-o", "read" if order.call == "READ" else "writedata", "-S", str(order.octets)]
        window = ["-W", str(order.in_flight), "-c", "sread"]
        each_us = fabtest(["fi_rma_bw", *provider, *operation, *window], ("-B", "-P"))
        # Both ends read at a time.
        rate = 1e6 / each_us * (2 if order.call == "READ" else 1)
        return Sample(each_us if order.in_flight == 1 else None, rate, None, None)

    yield Running(batch, 0)


def installed(found: object, hint: str) -> str:
    """The hint where a program or module is missing."""
    return "" if found else hint


def module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


NATIVE_MODULE, DATA_PATH = native.find("1")
NATIVE = Subject(
    "RDMA 2, native",
    "this library, version 2 of RPC-over-RDMA, with the package rpcrdma_native",
    ours("rdma", "2", "1"),
    installed(NATIVE_MODULE, f"{DATA_PATH}; make install, where a C compiler is"),
    calls=OWN_CALLS,
    connects=True,
)
PYTHON = Subject(
    "RDMA 2, Python", "the same with RPCRDMA_NATIVE=0", ours("rdma", "2", "0"), calls=OWN_CALLS, connects=True
)


def before(name: str, source: Path) -> Subject:
    """The first subject of another checkout, with the native module of this one."""
    start = ours("rdma", "2", "1", source)
    return Subject(name, f"the same of {source}", start, NATIVE.missing, calls=OWN_CALLS, connects=True)


SUBJECTS = (
    NATIVE,
    PYTHON,
    Subject("RDMA 1, native", "version 1 with rpcrdma_native", ours("rdma", "1", "1"), NATIVE.missing, calls=OWN_CALLS,
            connects=True),
    Subject("RDMA 1, Python", "version 1 with RPCRDMA_NATIVE=0", ours("rdma", "1", "0"), calls=OWN_CALLS,
            connects=True),
    Subject("TCP", "the same server and client over TCP", ours("tcp", "auto", "1"), calls=OWN_CALLS, connects=True),
    Subject("libnfs", "a client in C on our server over TCP", libnfs,
            installed(libnfs_client.library(), "apt-get install libnfs13")),
    Subject("gRPC", "grpcio with asyncio; data in memory and no file", grpc,
            installed(module("grpc"), "pip install --group bench"), files=False, connects=True),
    Subject("libfabric", "its tcp provider: fi_pingpong for NULL, fi_rma_bw of fabtests for READ and WRITE, no file",
            libfabric, installed(shutil.which("fi_pingpong"), "apt-get install libfabric-bin"),
            calls=ALL_CALLS if FABTESTS else ("NULL",), files=False,
            takes=lambda order: order.call != "NULL" or order.in_flight == 1),
    Subject("iperf3", "a TCP stream in buffers of the size, without replies", iperf3,
            installed(shutil.which("iperf3"), "apt-get install iperf3"), calls=("READ", "WRITE"), files=False,
            # Buffers under way are not limited by replies, and they have at most 1 MiB.
            takes=lambda order: order.in_flight > 1 and order.octets <= nfs_servers.CALL_OCTETS),
    Subject("echo", "128 octets between two event loops of Python", echo, calls=("NULL",),
            takes=lambda order: order.in_flight == 1),
    Subject("floor", "benchmarks/floor.c: the system calls and digests of RDMA alone, in C", floor,
            installed(shutil.which("cc"), "apt-get install gcc")),
)  # fmt: skip
PARTLY_MISSING = {
    "libfabric, READ and WRITE": installed(
        FABTESTS, "build fabtests of https://github.com/ofiwg/libfabric, which Debian leaves out"
    )
}
