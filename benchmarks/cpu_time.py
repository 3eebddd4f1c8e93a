"""Processor time of one call, at the client and at the server: user and system together, by the kernel's accounting.

Versions of RPC-over-RDMA are measured against the first of them, or with `--against SRC` this source against another
checkout's `src`, in the same session on the same machine. The influence of other processes on caches and clock rates
changes from second to second. Therefore client and server of all subjects run side by side, and short batches of calls
go to them by turns (A B, B A, ...). Each pair of batches gives a ratio. The result is the median of the ratios, with
the interval that contains the true median in 95 of 100 sessions. Each round begins with new processes, since the memory
layout of a process is random.
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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import nfs_calls
from event_loops import LOOPS, new_event_loop

import rpcrdma
from rpcrdma.nfs import v3
from rpcrdma.transport import VERSION_CHOICES

OWN_SOURCE = str(Path(__file__).parents[1] / "src")
AUTO = "auto"
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


class Subject(NamedTuple):
    """The subject of a measurement: a version of RPC-over-RDMA, or `auto`, in a source."""

    version: str
    source: str = OWN_SOURCE


VERSIONS = (Subject("1"), Subject("2"))


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of processor time for one call: medians of all batches.

    `ratio` is the time of both ends with this version and source, divided by the time of the reference;
    `ratio_low` to `ratio_high` is its 95 % interval. They are None for the reference itself.
    """

    call: str
    size_bytes: int
    in_flight: int
    version: str
    source: str
    client_us: float
    server_us: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


async def answer_orders(url: str, handle: v3.nfs_fh3, measure: Measure, version: str) -> None:
    """Makes a batch of calls for each line of standard input, and prints the processor seconds of one call."""
    memory = [bytearray(measure.size_bytes) for _ in range(measure.in_flight)]
    # Sources that are older than the option speak one version.
    options = None if version == AUTO else rpcrdma.ConnectOptions(rpcrdma_version=version)
    async with rpcrdma.connect(url, v3.PROGRAM, options=options) as connection:

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


def client(url: str, tcp_url: str, measure: Measure, version: str, loop: str) -> None:
    """A client process: see `answer_orders`."""
    with new_event_loop(loop) as runner:
        handle = runner.run(nfs_calls.file_handle(tcp_url))
        runner.run(answer_orders(url, handle, measure, version))


def spent_s(process: int) -> float:
    """Processor time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


Batch = Callable[[], tuple[float, float]]
"""Makes a batch of calls: microseconds for one of them, at the client and at the server."""


@contextlib.contextmanager
def connected(subject: Subject, measure: Measure, loop: str) -> Iterator[Batch]:
    """A server and a client, both of the subject, for the length of the context."""
    environment = {**os.environ, "PYTHONPATH": subject.source, "PYTHONDONTWRITEBYTECODE": "1"}
    version = [] if subject.version == AUTO else ["--rpcrdma-version", subject.version]
    with nfs_calls.served_file(environment, version) as server:
        command = [
            sys.executable,
            __file__,
            "--loop",
            loop,
            "--client",
            server.rdma,
            server.tcp,
            json.dumps(asdict(measure)),
            subject.version,
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
    """The median, and the bounds of its 95 % interval: order statistics, for any distribution."""
    ordered = sorted(values)
    count = len(ordered)
    outer = max(int(count / 2 - 0.98 * math.sqrt(count)), 0)
    return statistics.median(ordered), ordered[outer], ordered[count - 1 - outer]


def rows(
    rounds: int, loop: str, subjects: Sequence[Subject] = VERSIONS, batches: int = 12, only: str = ""
) -> list[Row]:
    """The medians of all batches of all rounds, of measures whose names have `only` in them.

    The subject that the others are measured against is the first one.
    """
    found = []
    for measure in MEASURES:
        if only not in measure.name:
            continue
        values: list[list[tuple[float, float]]] = [[] for _ in subjects]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}: {measure.name}", file=sys.stderr)
            with contextlib.ExitStack() as stack:
                makers = [stack.enter_context(connected(subject, measure, loop)) for subject in subjects]
                for turn in range(batches):
                    for which in range(len(subjects)) if turn % 2 else reversed(range(len(subjects))):
                        values[which].append(makers[which]())
        for which, (subject, pairs) in enumerate(zip(subjects, values, strict=True)):
            client_us, server_us = (round(statistics.median(side), 1) for side in zip(*pairs, strict=True))
            row = Row(measure.call, measure.size_bytes, measure.in_flight, *subject, client_us, server_us)
            if which:
                ratios = [sum(own) / sum(other) for own, other in zip(pairs, values[0], strict=True)]
                ratio, low, high = (round(value, 3) for value in middle(ratios))
                row = replace(row, ratio=ratio, ratio_low=low, ratio_high=high)
            found.append(row)
    return found


def print_table(table: list[Row]) -> None:
    print(
        f"{'processor time of a call':28}{'in flight':>10}{'octets':>10}{'version':>9}{'client us':>12}"
        f"{'server us':>12}{'ratio (95 %)':>24}  source"
    )
    for row in table:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} - {row.ratio_high:.3f})"
        print(
            f"{row.call:28}{row.in_flight:>10}{row.size_bytes:>10}{row.version:>9}{row.client_us:>12}{row.server_us:>12}"
            f"{ratio:>24}  {row.source}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--rounds", type=int, default=3, help="new processes so many times (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=12, help="batches of calls in a round (default: %(default)s)")
    parser.add_argument("--only", default="", help='measures whose names have this in them, such as "WRITE 1 MiB"')
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    parser.add_argument(
        "--rpcrdma-version",
        nargs="+",
        choices=VERSION_CHOICES,
        help="versions, each measured against the first one (default: 1 2; auto with --against)",
    )
    parser.add_argument("--against", metavar="SRC", help="another checkout's src, measured by turns with this one")
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        url, tcp_url, measure, version = options.client
        client(url, tcp_url, Measure(**json.loads(measure)), version, options.loop)
        return
    subjects: Sequence[Subject] = VERSIONS
    if options.against:
        versions = options.rpcrdma_version or [AUTO]
        subjects = [Subject(version, source) for version in versions for source in (options.against, OWN_SOURCE)]
    elif options.rpcrdma_version:
        subjects = [Subject(version) for version in options.rpcrdma_version]
    table = rows(options.rounds, options.loop, subjects, options.batches, options.only)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)


if __name__ == "__main__":
    main()
