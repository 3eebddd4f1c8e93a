"""How many functions one call enters, in Python and in C, at the client and at the server.

Unlike a time, this count is the same on a busy machine and on a slow one: it shows the functions that a change adds to
the path of a call. The counts of different Python functions and of their modules show the length of the path that a
reader follows to understand a call. A function that fewer than half of the calls enter is not part of the path.

Client and server run in one event loop, so that no scheduler decides how much one wake-up finds, and `sys.setprofile`
counts a Python function at its entry, and a function in C when Python calls it, such as a method of a dictionary, for
the end in whose context it runs. Classes are not functions. Worker threads of the server are not counted, nor are
functions of the event loop, which may be replaced, the functions in C that the loop calls, and what timers call, which
is more the slower the machine is. Versions of RPC-over-RDMA stand side by side.

With `--provider verbs` the calls go over the RDMA device in memory of the tests. A call into it counts as the one
function in C that it is with the extension module; the functions of the device itself are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import nfs_servers
from nfs4_session import Session

import rpcrdma
from rpcrdma.aio.client.silence_warning import SilenceWatch
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.provider import ProviderChoice
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.nfs import v3
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.nfs.server.services import build_nfs4
from rpcrdma.nfs.v4.nfs4 import NFS_V4
from rpcrdma.transport import VERSION_CHOICES

WARM_UP_CALLS = 30
SMALL_OCTETS, LARGE_OCTETS = 4096, 1 << 20
CALLS = 200
LARGE_CALLS = 50
"""Those of 1 MiB: more of them make no average that is nearer, since it differs with the sizes of the reads."""
VERSIONS = ("1", "2")
NOT_COUNTED = ("asyncio.", "selectors", "threading", Session.__module__, __name__)
"""First parts of the names of modules that are not counted: the event loop's, and those of this program."""
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
OF_TIMERS = DeadlineTimer._ring.__code__, SilenceWatch._look.__code__  # noqa: SLF001 - callbacks of the event loop
AT_SERVER = ContextVar("AT_SERVER", default=False)
DEVICE = ("support.device_in_memory", "support.memory_of_device")


@dataclass(frozen=True, slots=True)
class Row:
    """Functions entered for one call, on average, in Python and in C; `both` is their sum at both ends.

    Then the different ones of Python on its way, and the modules that these are in.
    """

    call: str
    version: str
    size_bytes: int
    client: int
    server: int
    client_c: int
    server_c: int
    both: int
    client_functions: int
    server_functions: int
    client_modules: int
    server_modules: int


class Counting:
    """Counts how often one end enters each function: code objects with modules, and names of functions in C."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        """The calls that it counts."""
        self.entered: Counter[CodeType] = Counter()
        self.entered_c: Counter[str] = Counter()
        self.modules: dict[CodeType, str] = {}
        self._timer: FrameType | None = None

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        """Counts what a profile tells."""
        if self._timer is not None:
            if event == "return" and frame is self._timer:
                self._timer = None
            return
        if event not in {"call", "c_call"}:
            return
        if frame.f_code in OF_TIMERS and event == "call":
            self._timer = frame
            return
        module = frame.f_globals["__name__"]
        if module.startswith(NOT_COUNTED):
            return
        if module in DEVICE:
            caller = frame.f_back.f_globals["__name__"] if frame.f_back and event == "call" else module
            if caller.startswith("rpcrdma."):
                self.entered_c[f"{caller}: {frame.f_code.co_qualname}"] += 1
            return
        if event == "call":
            self.entered[frame.f_code] += 1
            self.modules[frame.f_code] = module
        else:
            # Here `module` is that of the caller.
            self.entered_c[f"{module}: {argument.__qualname__}"] += 1

    def averages(self) -> tuple[float, float]:
        """Functions entered for one call, in Python and in C."""
        return self.entered.total() / self.calls, self.entered_c.total() / self.calls

    def on_the_way(self) -> list[CodeType]:
        """The different functions that a call enters."""
        return [code for code, times in self.entered.items() if times >= self.calls / 2]

    def modules_on_the_way(self) -> list[str]:
        """The package's modules that these are in."""
        modules = {self.modules[code] for code in self.on_the_way()}
        return sorted(module for module in modules if module.startswith("rpcrdma."))

    def name(self, code: CodeType) -> str:
        """A function's file and name; the methods of data classes, made from strings, have only a module."""
        made = code.co_filename.startswith("<")
        return f"{self.modules[code] if made else code.co_filename.rpartition('/')[2]}:{code.co_qualname}"


def both_ends(provider: str) -> tuple[ProviderChoice, ProviderChoice]:
    """The providers of client and server: the software RNIC, or a device in memory with the limits of rxe."""
    if provider == "iwarp":
        return "iwarp", "iwarp"
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from rpcrdma.aio.drivers.verbs_provider import VerbsProvider  # noqa: PLC0415
    from support.device_in_memory import DeviceInMemory  # noqa: PLC0415

    device = DeviceInMemory()
    device.attributes["max_entries"] = 32
    device.attributes["ports"][0]["max_message_octets"] = 8 << 20
    return VerbsProvider(device), VerbsProvider(device)


def write_file(path: Path) -> None:
    path.write_bytes(bytes(LARGE_OCTETS))


@contextlib.asynccontextmanager
async def served(version: str, provider: ProviderChoice) -> AsyncIterator[nfs_servers.ServerAddresses]:
    """A server of a directory in memory with one file, "data", of 1 MiB; what it starts runs in its context."""
    with (
        tempfile.TemporaryDirectory(prefix="rpcrdma-bench-", dir=MEMORY) as directory,
        tempfile.TemporaryDirectory(prefix="rpcrdma-state-") as state_directory,
        contextlib.closing(open_state(Path(state_directory), secrets.token_bytes)) as state,
    ):
        write_file(Path(directory, "data"))
        services = build_services([Export(name="/", directory=Path(directory), root_squash=False)], state=state)
        urls = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]
        clocks = time.monotonic, time.time_ns
        nfs4 = build_nfs4(services.nfs, state, Path(state_directory), secrets.token_bytes, *clocks)
        options = rpcrdma.ServeOptions(rdma=RdmaServerConfig(provider=provider, rpcrdma_version=version))
        at_server = AT_SERVER.set(True)
        async with rpcrdma.serve([*services, nfs4], urls, options=options) as server:
            AT_SERVER.reset(at_server)
            yield nfs_servers.ServerAddresses(*server.listening, os.getpid())
        nfs4.close()
        services.nfs.close()


Key = tuple[str, int]
"""The name of a call and the octets that it moves."""


def calls(
    connection: rpcrdma.Connection, handle: v3.nfs_fh3, session: Session
) -> dict[Key, Callable[[], Awaitable[object]]]:
    """The calls that are counted; those of version 4 are COMPOUNDs of SEQUENCE, PUTFH and the operation."""
    found: dict[Key, Callable[[], Awaitable[object]]] = {
        ("NULL", 0): lambda: connection.call(v3.NULL, None),
        ("GETATTR", 0): lambda: connection.call(v3.GETATTR, v3.GETATTR3args(handle)),
    }
    for octets, size in ((SMALL_OCTETS, "4 KiB"), (LARGE_OCTETS, "1 MiB")):
        memory = bytearray(octets)
        read = v3.READ3args(handle, 0, octets)
        write = v3.WRITE3args(handle, 0, octets, v3.stable_how.UNSTABLE, memory)
        found[f"READ {size}", octets] = partial(connection.call, v3.READ, read, into=memory)
        found[f"WRITE {size}", octets] = partial(connection.call, v3.WRITE, write)
    found["v4 GETATTR", 0] = partial(session.getattr, 0)
    found["v4 READ 4 KiB", SMALL_OCTETS] = partial(session.read, 0, 0, bytearray(SMALL_OCTETS))
    return found


async def count(version: str, provider: str, names: Sequence[str]) -> dict[Key, tuple[Counting, Counting]]:
    """For each kind of call, or those of `names`, the counts at client and server, summed over all its calls."""
    client, at_server = both_ends(provider)
    options = rpcrdma.ConnectOptions(provider=client, rpcrdma_version=version)
    counted = {}
    async with served(version, at_server) as server:
        handle = await nfs_servers.file_handle(server.tcp)
        async with (
            rpcrdma.connect(server.rdma, v3.PROGRAM, options=options) as connection,
            rpcrdma.connect(server.rdma, NFS_V4, options=options) as connection_4,
        ):
            session = await Session(connection_4).start(b"function calls", "data")
            for key, call in calls(connection, handle, session).items():
                if names and key[0] not in names:
                    continue
                for _ in range(WARM_UP_CALLS):
                    await call()
                number = LARGE_CALLS if key[1] == LARGE_OCTETS else CALLS
                ends = Counting(number), Counting(number)
                sys.setprofile(lambda *told, ends=ends: ends[AT_SERVER.get()].count(*told))
                for _ in range(number):
                    await call()
                sys.setprofile(None)
                counted[key] = ends
    return counted


def entered(client: Counting, server: Counting) -> tuple[float, ...]:
    """Functions of one call: client and server in Python, the same in C, and all of them."""
    both = tuple(zip(client.averages(), server.averages(), strict=True))
    return *both[0], *both[1], sum(map(sum, both))


def rows(versions: Sequence[str] = VERSIONS, names: Sequence[str] = (), provider: str = "iwarp") -> list[Row]:
    """The rows of all kinds of call, or of those with `names`; those of each call together."""
    counted = {version: asyncio.run(count(version, provider, names)) for version in versions}
    return [
        Row(
            name,
            version,
            size,
            *(round(count) for count in entered(*counted[version][name, size])),
            *(len(side.on_the_way()) for side in counted[version][name, size]),
            *(len(side.modules_on_the_way()) for side in counted[version][name, size]),
        )
        for name, size in counted[versions[0]]
        for version in versions
    ]


def print_table(table: list[Row]) -> None:
    titles = ("in Python", "in C", "both ends", "different ones", "in modules")
    print(f"{'functions of a call':22}" + "".join(f"{title:>18}" for title in titles))
    sides = f"{'client':>10}{'server':>8}"
    print(f"{'':22}{sides}{sides}{'':18}{sides}{sides}")
    for row in table:
        print(
            f"{row.call:14}{row.version:>8}{row.client:>10}{row.server:>8}{row.client_c:>10}{row.server_c:>8}{row.both:>18}"
            f"{row.client_functions:>10}{row.server_functions:>8}{row.client_modules:>10}{row.server_modules:>8}"
        )


def print_functions(name: str, version: str, provider: str) -> None:
    """Prints the functions that one kind of call enters, and how often, and the modules."""
    ((_, sides),) = asyncio.run(count(version, provider, [name])).items()
    for side, counting in zip(("client", "server"), sides, strict=True):
        in_python, in_c = counting.averages()
        print(
            f"{side}, {name}, version {version}: {in_python:.1f} in Python, {in_c:.1f} in C, named after their callers"
        )
        for code, times in counting.entered.most_common():
            print(f"{times / counting.calls:10.2f}  {counting.name(code)}")
        for called, times in counting.entered_c.most_common():
            print(f"{times / counting.calls:10.2f}  {called}")
        print(f"modules: {' '.join(counting.modules_on_the_way())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--calls", nargs="+", metavar="CALL", default=(), help="count these alone")
    parser.add_argument("--functions", metavar="CALL", help='list the functions of one call, such as "READ 4 KiB"')
    parser.add_argument(
        "--rpcrdma-version",
        nargs="+",
        choices=[choice for choice in VERSION_CHOICES if choice != "auto"],
        default=VERSIONS,
        help="the versions (default: 1 2)",
    )
    parser.add_argument("--provider", choices=("iwarp", "verbs"), default="iwarp", help="(default: %(default)s)")
    options = parser.parse_args()
    if options.functions:
        for version in options.rpcrdma_version:
            print_functions(options.functions, version, options.provider)
        return
    table = rows(options.rpcrdma_version, options.calls, options.provider)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)


if __name__ == "__main__":
    main()
