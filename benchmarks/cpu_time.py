"""Processor time of one call, at the client and at the server: user and system together, by the kernel's accounting.

`--against SRC` measures another checkout's `src` by turns with this one, in the same session on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import nfs_calls
from event_loops import LOOPS, new_event_loop

import rpcrdma
from rpcrdma.nfs import v3

OWN_SOURCE = str(Path(__file__).parents[1] / "src")
SMALL_OCTETS, LARGE_OCTETS = 4096, 1 << 20


@dataclass(frozen=True, slots=True)
class Measure:
    """`calls` calls of one kind, `in_flight` of them unanswered at any time."""

    call: str
    size_bytes: int
    in_flight: int
    calls: int


MEASURES = (
    Measure("NULL", 0, 1, 3000),
    Measure("NULL", 0, 32, 6000),
    Measure("READ", SMALL_OCTETS, 1, 2000),
    Measure("WRITE", SMALL_OCTETS, 1, 1500),
    Measure("READ", LARGE_OCTETS, 4, 600),
    Measure("WRITE", LARGE_OCTETS, 4, 400),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of processor time for one call."""

    call: str
    size_bytes: int
    in_flight: int
    source: str
    client_us: float
    server_us: float


async def make_calls(url: str, handle: v3.nfs_fh3, measure: Measure, before: Callable[[], None]) -> float:
    """Seconds of this process's time for one call, after a tenth as many calls that are not counted."""
    memory = [bytearray(measure.size_bytes) for _ in range(measure.in_flight)]
    async with rpcrdma.connect(url, v3.PROGRAM) as connection:

        def call(buffer: bytearray) -> Awaitable[object]:
            if measure.call == "NULL":
                return connection.call(v3.NULL, None)
            if measure.call == "READ":
                return connection.call(v3.READ, v3.READ3args(handle, 0, len(buffer)), into=buffer)
            arguments = v3.WRITE3args(handle, 0, len(buffer), v3.stable_how.UNSTABLE, buffer)
            return connection.call(v3.WRITE, arguments)

        async def worker(buffer: bytearray, count: int) -> None:
            for _ in range(count):
                await call(buffer)

        each = measure.calls // measure.in_flight
        await asyncio.gather(*(worker(buffer, each // 10) for buffer in memory))
        before()
        start = time.process_time()
        await asyncio.gather(*(worker(buffer, each) for buffer in memory))
        return (time.process_time() - start) / (each * measure.in_flight)


def client(url: str, tcp_url: str, measure: Measure, loop: str) -> None:
    """Prints "go" when the measured calls begin, then the seconds of each."""
    with new_event_loop(loop) as runner:
        handle = runner.run(nfs_calls.file_handle(tcp_url))
        print(runner.run(make_calls(url, handle, measure, lambda: print("go", flush=True))), flush=True)


def spent_s(process: int) -> float:
    """Processor time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def measured(source: str, measure: Measure, loop: str) -> tuple[float, float]:
    """Microseconds for one call at client and server, both with `source`."""
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    with nfs_calls.served_file(environment) as server:
        command = [
            sys.executable,
            __file__,
            "--loop",
            loop,
            "--client",
            server.rdma,
            server.tcp,
            json.dumps(asdict(measure)),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "go\n"
            before = spent_s(server.process)
            client_s = float(child.stdout.readline())
            server_s = (spent_s(server.process) - before) / measure.calls
    return client_s * 1e6, server_s * 1e6


def rows(rounds: int, loop: str, against: str | None = None) -> list[Row]:
    """The medians of the rounds, sources by turns."""
    found = []
    sources = [OWN_SOURCE, *([against] if against else [])]
    for measure in MEASURES:
        values: dict[str, list[tuple[float, float]]] = {source: [] for source in sources}
        for number in range(rounds):
            for source in sources if number % 2 else reversed(sources):
                print(f"round {number + 1} of {rounds}: {measure.call} in {source}", file=sys.stderr)
                values[source].append(measured(source, measure, loop))
        for source, pairs in values.items():
            sides = [round(statistics.median(side), 1) for side in zip(*pairs, strict=True)]
            found.append(Row(measure.call, measure.size_bytes, measure.in_flight, source, *sides))
    return found


def print_table(table: list[Row]) -> None:
    print(f"{'processor time of a call':28}{'in flight':>10}{'octets':>10}{'client us':>12}{'server us':>12}  source")
    for row in table:
        print(
            f"{row.call:28}{row.in_flight:>10}{row.size_bytes:>10}{row.client_us:>12}{row.server_us:>12}  {row.source}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    parser.add_argument("--against", metavar="SRC", help="another checkout's src, measured by turns with this one")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        url, tcp_url, measure = options.client
        client(url, tcp_url, Measure(**json.loads(measure)), options.loop)
        return
    table = rows(options.rounds, options.loop, options.against)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)


if __name__ == "__main__":
    main()
