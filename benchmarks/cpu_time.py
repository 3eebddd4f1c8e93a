"""Processor time of one call, at the client and at the server: user and system together, by the kernel's accounting.

Versions of RPC-over-RDMA are measured against the first of them, or with `--against SRC` this source against another
checkout's `src`, in the same session on the same machine. With `--nfs` NFS version 4 is measured against version 3,
over RDMA as kernels speak it and over TCP, and the ratio is that of the servers alone.

The influence of other processes on caches and clock rates changes from second to second. Therefore client and server of
all subjects run side by side, and short batches of calls go to them by turns (A B, B A, ...). Each pair of batches
gives a ratio. The result is the median of the ratios, with the interval that contains the true median in 95 of 100
sessions. Each round begins with new processes, since the memory layout of a process is random.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import operator
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import nfs_client
import nfs_servers
from event_loops import LOOPS
from nfs_client import AUTO
from orders import Batch, Order, ordered_client

from rpcrdma.transport import VERSION_CHOICES

OWN_SOURCE = str(Path(__file__).parents[1] / "src")
SMALL_OCTETS, LARGE_OCTETS = 4096, 1 << 20
MIDDLE_OCTETS = 1 << 14, 1 << 16
SIZES = {SMALL_OCTETS: "4 KiB", 1 << 14: "16 KiB", 1 << 16: "64 KiB", LARGE_OCTETS: "1 MiB"}
BATCH_S = 0.1


@dataclass(frozen=True, slots=True)
class Measure:
    """Batches of calls of one kind, `in_flight` of them unanswered at any time."""

    call: str
    size_bytes: int
    in_flight: int
    place: str = nfs_servers.MEMORY

    @property
    def name(self) -> str:
        size = f" {SIZES[self.size_bytes]}" if self.size_bytes else ""
        return f"{self.call}{size} x{self.in_flight}{' disk' if self.place == nfs_servers.DISK else ''}"

    @property
    def order(self) -> Order:
        return Order(self.call, self.size_bytes, self.in_flight, nfs_servers.PLACES.index(self.place), BATCH_S)


MEASURES = (
    Measure("NULL", 0, 1),
    Measure("NULL", 0, 32),
    Measure("READ", SMALL_OCTETS, 1),
    Measure("WRITE", SMALL_OCTETS, 1),
    Measure("WRITE", SMALL_OCTETS, 1, nfs_servers.DISK),
    *(Measure(call, octets, 16) for octets in (SMALL_OCTETS, *MIDDLE_OCTETS) for call in ("READ", "WRITE")),
    Measure("READ", LARGE_OCTETS, 1),
    Measure("READ@16", LARGE_OCTETS, 1),
    Measure("WRITE", LARGE_OCTETS, 1),
    Measure("READ", LARGE_OCTETS, 16),
    Measure("READ@16", LARGE_OCTETS, 16),
    Measure("WRITE", LARGE_OCTETS, 16),
    Measure("WRITE", LARGE_OCTETS, 16, nfs_servers.DISK),
)


NFS_MEASURES = (Measure("GETATTR", 0, 1), Measure("READ", SMALL_OCTETS, 1))


class Subject(NamedTuple):
    """The subject of a measurement: a version of RPC-over-RDMA, `auto` or `tcp`, in a source, and a version of NFS."""

    version: str
    source: str = OWN_SOURCE
    nfs: str = "3"


TCP = "tcp"
VERSIONS = (Subject("1"), Subject("2"))


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of processor time for one call: medians of all batches.

    `ratio` is the time of both ends, or of servers alone, of this subject, divided by the time of the reference;
    `ratio_low` to `ratio_high` is its 95 % interval. They are None for the reference itself.
    """

    call: str
    size_bytes: int
    in_flight: int
    place: str
    version: str
    source: str
    nfs: str
    client_us: float
    server_us: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


@contextlib.contextmanager
def connected(subject: Subject, directories: Sequence[str], loop: str) -> Iterator[Batch]:
    """A server of the directories and a client, both of the subject, for the length of the context."""
    environment = {**os.environ, "PYTHONPATH": subject.source, "PYTHONDONTWRITEBYTECODE": "1"}
    version = [] if subject.version in {AUTO, TCP} else ["--rpcrdma-version", subject.version]
    with nfs_servers.served([*nfs_servers.exports(directories), *version], environment) as server:
        url = server.tcp if subject.version == TCP else server.rdma
        command = nfs_client.command(server, url, loop, *version, "--nfs", subject.nfs)
        with ordered_client(command, server.process, environment) as batch:
            yield batch


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the bounds of its 95 % interval: order statistics, for any distribution."""
    ordered = sorted(values)
    count = len(ordered)
    outer = max(int(count / 2 - 0.98 * math.sqrt(count)), 0)
    return statistics.median(ordered), ordered[outer], ordered[count - 1 - outer]


def rows(
    rounds: int,
    loop: str,
    disk: Path,
    subjects: Sequence[Subject] = VERSIONS,
    batches: int = 12,
    only: str = "",
    measures: Sequence[Measure] = MEASURES,
    cost: Callable[[tuple[float, float]], float] = sum,
) -> list[Row]:
    """The medians of all batches of all rounds, of measures whose names have `only` in them.

    The subject that the others are measured against is the first one; `cost` is compared, of a client's time and a
    server's.
    """
    found = []
    for measure in measures:
        if only not in measure.name:
            continue
        values: list[list[tuple[float, float]]] = [[] for _ in subjects]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}: {measure.name}", file=sys.stderr)
            with contextlib.ExitStack() as stack:
                directories = stack.enter_context(nfs_servers.directories(disk))
                makers = [stack.enter_context(connected(subject, directories, loop)) for subject in subjects]
                for make in makers:
                    make(measure.order)
                for turn in range(batches):
                    for which in range(len(subjects)) if turn % 2 else reversed(range(len(subjects))):
                        sample = makers[which](measure.order)
                        assert sample.client_us is not None
                        assert sample.server_us is not None
                        values[which].append((sample.client_us, sample.server_us))
        for which, (subject, pairs) in enumerate(zip(subjects, values, strict=True)):
            client_us, server_us = (round(statistics.median(side), 1) for side in zip(*pairs, strict=True))
            kind = measure.call, measure.size_bytes, measure.in_flight, measure.place
            row = Row(*kind, *subject, client_us, server_us)
            if which:
                ratios = [cost(own) / cost(other) for own, other in zip(pairs, values[0], strict=True)]
                ratio, low, high = (round(value, 3) for value in middle(ratios))
                row = replace(row, ratio=ratio, ratio_low=low, ratio_high=high)
            found.append(row)
    return found


def print_table(table: list[Row]) -> None:
    print(
        f"{'processor time of a call':26}{'in flight':>10}{'octets':>10}{'file':>8}{'version':>9}{'NFS':>5}"
        f"{'client us':>12}{'server us':>12}{'ratio (95 %)':>24}  source"
    )
    for row in table:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f} ({row.ratio_low:.3f} - {row.ratio_high:.3f})"
        print(
            f"{row.call:26}{row.in_flight:>10}{row.size_bytes:>10}{row.place:>8}{row.version:>9}{row.nfs:>5}{row.client_us:>12}"
            f"{row.server_us:>12}{ratio:>24}  {row.source}"
        )


def print_results(table: list[Row], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)


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
        choices=(*VERSION_CHOICES, TCP),
        help="versions, or TCP, each measured against the first one (default: 1 2; auto with --against)",
    )
    parser.add_argument("--against", metavar="SRC", help="another checkout's src, measured by turns with this one")
    parser.add_argument("--nfs", action="store_true", help="NFS version 4 against version 3, over RDMA and over TCP")
    parser.add_argument("--disk", type=Path, default=nfs_servers.DISK_PARENT, help=nfs_servers.DISK_HELP)
    options = parser.parse_args()
    subjects: Sequence[Subject] = VERSIONS
    rest = options.batches, options.only
    if options.nfs:
        table = []
        for version in (*(options.rpcrdma_version or ["1"]), TCP):
            both = Subject(version), Subject(version, nfs="4")
            cost = operator.itemgetter(1)
            table += rows(options.rounds, options.loop, options.disk, both, *rest, NFS_MEASURES, cost)
        print_results(table, as_json=options.json)
        return
    if options.against:
        versions = options.rpcrdma_version or [AUTO]
        subjects = [Subject(version, source) for version in versions for source in (options.against, OWN_SOURCE)]
    elif options.rpcrdma_version:
        subjects = [Subject(version) for version in options.rpcrdma_version]
    print_results(rows(options.rounds, options.loop, options.disk, subjects, *rest), as_json=options.json)


if __name__ == "__main__":
    main()
