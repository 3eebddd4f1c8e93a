"""Processor time of one call, at the client and at the server: user and system together, by the kernel's accounting.

`--against SRC` measures another checkout's `src` with this one, in the same session on the same machine. What other
processes do to caches and clock rates changes from second to second, so client and server of both sources stay up side
by side, and short batches of calls go to them by turns (A B, B A, ...). Each pair of batches gives a ratio: the median
of these, with the interval that holds the true median in 95 of 100 sessions, is the result. A new round begins with new
processes, since each has its memory laid out by chance.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
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
    """Batches of `calls` calls of one kind, `in_flight` of them unanswered at any time."""

    call: str
    size_bytes: int
    in_flight: int
    calls: int

    @property
    def name(self) -> str:
        size = {0: "", SMALL_OCTETS: " 4 KiB", LARGE_OCTETS: " 1 MiB"}[self.size_bytes]
        return f"{self.call}{size} x{self.in_flight}"


MEASURES = (
    Measure("NULL", 0, 1, 400),
    Measure("NULL", 0, 32, 640),
    Measure("READ", SMALL_OCTETS, 1, 250),
    Measure("WRITE", SMALL_OCTETS, 1, 200),
    Measure("READ", LARGE_OCTETS, 4, 80),
    Measure("WRITE", LARGE_OCTETS, 4, 60),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of processor time for one call: medians of all batches.

    `ratio` is what a call takes at both ends with this source, as a multiple of what it takes with the other one, and
    `ratio_low` to `ratio_high` the 95 % interval of that. None for the other one, and if there is no other.
    """

    call: str
    size_bytes: int
    in_flight: int
    source: str
    client_us: float
    server_us: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


async def answer_orders(url: str, handle: v3.nfs_fh3, measure: Measure) -> None:
    """Makes a batch of calls for each line of standard input, and prints what one took of this process's seconds."""
    memory = [bytearray(measure.size_bytes) for _ in range(measure.in_flight)]
    async with rpcrdma.connect(url, v3.PROGRAM) as connection:

        def call(buffer: bytearray) -> Awaitable[object]:
            if measure.call == "NULL":
                return connection.call(v3.NULL, None)
            if measure.call == "READ":
                return connection.call(v3.READ, v3.READ3args(handle, 0, len(buffer)), into=buffer)
            arguments = v3.WRITE3args(handle, 0, len(buffer), v3.stable_how.UNSTABLE, buffer)
            return connection.call(v3.WRITE, arguments)

        async def worker(buffer: bytearray) -> None:
            for _ in range(measure.calls // measure.in_flight):
                await call(buffer)

        while await asyncio.to_thread(sys.stdin.readline):
            start = time.process_time()
            await asyncio.gather(*map(worker, memory))
            print((time.process_time() - start) / measure.calls, flush=True)


def client(url: str, tcp_url: str, measure: Measure, loop: str) -> None:
    """A client process: see `answer_orders`."""
    with new_event_loop(loop) as runner:
        handle = runner.run(nfs_calls.file_handle(tcp_url))
        runner.run(answer_orders(url, handle, measure))


def spent_s(process: int) -> float:
    """Processor time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


Batch = Callable[[], tuple[float, float]]
"""Makes a batch of calls: microseconds for one of them, at the client and at the server."""


@contextlib.contextmanager
def connected(source: str, measure: Measure, loop: str) -> Iterator[Batch]:
    """A server and a client, both with `source`, for the length of the context."""
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
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as child:

            def batch() -> tuple[float, float]:
                assert child.stdin is not None
                assert child.stdout is not None
                before = spent_s(server.process)
                child.stdin.write("\n")
                child.stdin.flush()
                client_s = float(child.stdout.readline())
                return client_s * 1e6, (spent_s(server.process) - before) / measure.calls * 1e6

            # The first calls of a process warm it up.
            batch()
            yield batch


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the bounds of its 95 % interval: order statistics, whatever the distribution is."""
    ordered = sorted(values)
    count = len(ordered)
    outer = max(int(count / 2 - 0.98 * math.sqrt(count)), 0)
    return statistics.median(ordered), ordered[outer], ordered[count - 1 - outer]


def rows(rounds: int, loop: str, against: str | None = None, batches: int = 12, only: str = "") -> list[Row]:
    """The medians of all batches of all rounds, of measures whose names have `only` in them."""
    found = []
    sources = [OWN_SOURCE, *([against] if against else [])]
    for measure in MEASURES:
        if only not in measure.name:
            continue
        values: list[list[tuple[float, float]]] = [[] for _ in sources]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}: {measure.name}", file=sys.stderr)
            with contextlib.ExitStack() as stack:
                makers = [stack.enter_context(connected(source, measure, loop)) for source in sources]
                for turn in range(batches):
                    for which in range(len(sources)) if turn % 2 else reversed(range(len(sources))):
                        values[which].append(makers[which]())
        medians = [[round(statistics.median(side), 1) for side in zip(*pairs, strict=True)] for pairs in values]
        for which, source in enumerate(sources):
            ratio: list[float] = []
            if against and not which:
                ratio = [
                    round(value, 3)
                    for value in middle([sum(own) / sum(other) for own, other in zip(*values, strict=True)])
                ]
            found.append(Row(measure.call, measure.size_bytes, measure.in_flight, source, *medians[which], *ratio))
    return found


def print_table(table: list[Row]) -> None:
    print(
        f"{'processor time of a call':28}{'in flight':>10}{'octets':>10}{'client us':>12}{'server us':>12}"
        f"{'ratio (95 %)':>24}  source"
    )
    for row in table:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} - {row.ratio_high:.3f})"
        print(
            f"{row.call:28}{row.in_flight:>10}{row.size_bytes:>10}{row.client_us:>12}{row.server_us:>12}{ratio:>24}"
            f"  {row.source}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--rounds", type=int, default=3, help="new processes so many times (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=12, help="batches of calls in a round (default: %(default)s)")
    parser.add_argument("--only", default="", help='measures whose names have this in them, such as "WRITE 1 MiB"')
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    parser.add_argument("--against", metavar="SRC", help="another checkout's src, measured by turns with this one")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        url, tcp_url, measure = options.client
        client(url, tcp_url, Measure(**json.loads(measure)), options.loop)
        return
    table = rows(options.rounds, options.loop, options.against, options.batches, options.only)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)


if __name__ == "__main__":
    main()
