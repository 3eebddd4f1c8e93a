"""Throughput of several server processes on one machine: rates of READ and of small files, by servers and by clients.

Server processes export one directory, in memory, at ports of their own; client processes read from them at the same
time. There are as many connections as there are processes of the more numerous kind, dealt out in turn, and each moves
as much. All pairs of numbers are taken by turns in every round, and the medians are compared with one server and one
client. Each rate is that of all connections together: everything moved, from the first start to the last end.

Processor time is that of all server processes, by the kernel's accounting. The rate for one second of it estimates a
core that only serves, for clients on other machines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import nfs_servers
from event_loops import LOOPS, new_event_loop
from orders import spent_s

import rpcrdma
from rpcrdma.aio.urls import parse_url

READ, SMALL = KINDS = ("read", "small")
SMALL_OCTETS = 4096
SMALL_IN_FLIGHT = 16
"""Small files that a connection reads at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A median rate, as a multiple of that with one process of each kind; and the processor time of the servers."""

    measure: str
    servers: int
    clients: int
    value: float
    unit: str
    ratio: float
    server_core_value: float
    """The rate that one core pays for, which does nothing but serve."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of a client process for one order: the same on each connection, each to one server."""

    kind: str
    urls: list[str]
    amount: int
    """Octets of the large file, or small files."""


async def answer_orders() -> None:
    """Makes a batch for each line of standard input; prints when it began and when it ended, by the machine's clock."""
    async with contextlib.AsyncExitStack() as stack:
        mounted: dict[str, rpcrdma.NfsFilesystem] = {}
        buffers: dict[str, bytearray] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            batch = Batch(**json.loads(line))
            for url in batch.urls:
                if url not in mounted:
                    mounted[url] = await stack.enter_async_context(rpcrdma.nfs_open(url))
                    await mounted[url].stat("/")
                # Memory that a batch takes for the first time costs page faults: the round that warms up has them all.
                if batch.kind == READ and len(buffers.get(url, b"")) < batch.amount:
                    buffers[url] = bytearray(batch.amount)
            # All clients are ready before one begins.
            print(flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            start = time.monotonic()
            if batch.kind == READ:
                views = {url: memoryview(buffers[url])[: batch.amount] for url in batch.urls}
                moved = await asyncio.gather(*(mounted[url].read_into("/data", view) for url, view in views.items()))
                assert moved == [batch.amount] * len(batch.urls)
            else:
                await asyncio.gather(*(read_small(mounted[url], batch.amount) for url in batch.urls))
            print(json.dumps([start, time.monotonic()]), flush=True)


async def read_small(fs: rpcrdma.NfsFilesystem, count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            assert len(await fs.read_bytes(f"/small/{number:05}")) == SMALL_OCTETS

    await asyncio.gather(*(worker() for _ in range(SMALL_IN_FLIGHT)))


class Clients:
    """Client processes, which stay up between batches."""

    def __init__(self, stack: contextlib.ExitStack, count: int, loop: str) -> None:
        command = [sys.executable, __file__, "--client", "--loop", loop]
        self._processes = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(count)
        ]

    def _told(self, count: int, lines: list[str]) -> list[str]:
        for process, line in zip(self._processes[:count], lines, strict=True):
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        answers = []
        for process in self._processes[:count]:
            assert process.stdout is not None
            if not (answer := process.stdout.readline()):
                raise SystemExit("error: a client process has ended; what it wrote stands above")
            answers.append(answer)
        return answers

    def run(self, batches: list[Batch]) -> float:
        """Has so many clients do a batch each, together: seconds from the first start to the last end."""
        self._told(len(batches), [json.dumps(asdict(batch)) for batch in batches])
        times = [json.loads(answer) for answer in self._told(len(batches), [""] * len(batches))]
        return float(max(end for _, end in times) - min(start for start, _ in times))


@contextlib.contextmanager
def servers(count: int, octets: int, files: int) -> Iterator[list[nfs_servers.ServerAddresses]]:
    """Server processes over one directory, which has "data" and small files."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(nfs_servers.served_file(octets=octets))
        small = Path(first.directory, "small")
        small.mkdir()
        for number in range(files):
            (small / f"{number:05}").write_bytes(bytes(SMALL_OCTETS))
        others = [stack.enter_context(nfs_servers.served_directory(first.directory)) for _ in range(count - 1)]
        yield [first, *others]


def batches(kind: str, urls: list[str], clients: int, amount: int) -> list[Batch]:
    """A batch for each client, of the same amount in all for any number of connections."""
    connections = max(len(urls), clients)
    dealt: list[list[str]] = [[] for _ in range(clients)]
    for number, url in zip(range(connections), itertools.cycle(urls), strict=False):
        dealt[number % clients].append(url)
    return [Batch(kind, mine, amount // connections) for mine in dealt]


def rows(options: argparse.Namespace) -> list[Row]:
    octets, files = options.megabytes << 20, options.files
    numbers = sorted({*(1 << power for power in range(options.processes.bit_length())), options.processes})
    amounts = {READ: octets, SMALL: files}
    seconds: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    with servers(max(numbers), octets, files) as running, contextlib.ExitStack() as stack:
        clients = Clients(stack, max(numbers), options.loop)
        urls = [f"{server.rdma}/?mountport={parse_url(server.tcp).port}" for server in running]
        for round_number in range(options.rounds + 1):
            print(f"round {round_number} of {options.rounds}", file=sys.stderr)
            for kind, server_count, client_count in itertools.product(KINDS, numbers, numbers):
                todo = batches(kind, urls[:server_count], client_count, amounts[kind])
                before = sum(spent_s(server.process) for server in running)
                elapsed = clients.run(todo)
                spent = sum(spent_s(server.process) for server in running) - before
                # The first round warms up, and connects.
                if round_number:
                    seconds.setdefault((kind, server_count, client_count), []).append((elapsed, spent))
    found = []
    for (kind, server_count, client_count), pairs in seconds.items():
        median, spent = (statistics.median(values) for values in zip(*pairs, strict=True))
        alone = statistics.median(elapsed for elapsed, _ in seconds[kind, 1, 1])
        unit, amount = ("GB/s", octets * 1e-9) if kind == READ else ("files/s", files)
        rates = round(amount / median, 3), unit, round(alone / median, 3), round(amount / spent, 3)
        found.append(Row(kind, server_count, client_count, *rates))
    return found


NAMES = {READ: "READ of a large file", SMALL: "files of 4 KiB"}


def markdown(table: list[Row]) -> str:
    lines = [
        "| | server processes | client processes | all together | beside one and one | a core that only serves |",
        "|---|---|---|---|---|---|",
    ]
    for row in table:
        digits = 2 if row.measure == READ else 0
        rate, core = (f"{value:.{digits}f} {row.unit}" for value in (row.value, row.server_core_value))
        lines.append(f"| {NAMES[row.measure]} | {row.servers} | {row.clients} | {rate} | {row.ratio:.2f} | {core} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/scale.md")
    parser.add_argument(
        "--processes",
        type=int,
        default=cores,
        help="most of either kind; 1, 2, 4, ... (default: the cores, %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=1024, help="MiB read at a time (default: %(default)s)")
    parser.add_argument("--files", type=int, default=4000, help="small files read at a time (default: %(default)s)")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        with new_event_loop(options.loop) as runner:
            runner.run(answer_orders())
        return
    table = rows(options)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    elif options.markdown:
        print(markdown(table))
    else:
        for row in table:
            rate = f"{row.value:>12} {row.unit:8}{row.ratio:>8} x"
            core = f"{row.server_core_value:>12} {row.unit} a core that only serves"
            print(f"{NAMES[row.measure]:24}{row.servers:>3} x {row.clients:<3}{rate}{core}")


if __name__ == "__main__":
    main()
