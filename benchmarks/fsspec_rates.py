"""The cost of fsspec: whole files and listings through it, beside the same through the client itself.

Server and client are two processes on loopback. Every measure is taken in several rounds, by turns, and the medians
are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import fsspec
import nfs_servers

import rpcrdma
from rpcrdma.aio.urls import parse_url


@dataclass(frozen=True, slots=True)
class Row:
    """One result; `ratio` is the rate as a part of the client's own rate at the same thing."""

    measure: str
    subject: str
    value: float
    unit: str
    ratio: float | None


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


async def native(url: str, mount_port: int, what: str, octets: int) -> float:
    """Seconds that the client takes in an event loop of its own, after it has connected."""
    async with rpcrdma.nfs_open(url, mount_port=mount_port) as fs:
        await fs.stat("/")
        start = time.perf_counter()
        if what == "read":
            assert await fs.read_into("/data", bytearray(octets)) == octets
        elif what == "write":
            await fs.write_bytes("/written", bytes(octets))
        elif what == "names":
            assert len(await fs.listdir("/many")) > 0
        else:
            assert [(entry.name, entry.stat()) async for entry in fs.scandir("/many")]
        return time.perf_counter() - start


def measures(url: str, mount_port: int, octets: int) -> dict[tuple[str, str], Callable[[], float]]:
    """By (measure, subject), in pairs: the client itself, then fsspec."""
    fs = fsspec.filesystem(
        "rdma" if url.startswith("rdma") else "nfstcp",
        host=parse_url(url).host,
        port=parse_url(url).port,
        mountport=mount_port,
    )
    fs.exists("/")

    def client(what: str) -> Callable[[], float]:
        return lambda: asyncio.run(native(url, mount_port, what, octets))

    return {
        ("read", "read_into a new bytearray"): client("read"),
        ("read", "fsspec cat_file"): lambda: timed(lambda: fs.cat_file("/data")),
        ("write", "write_bytes"): client("write"),
        ("write", "fsspec pipe_file"): lambda: timed(lambda: fs.pipe_file("/written", bytes(octets))),
        ("names", "listdir"): client("names"),
        ("names", "fsspec ls(detail=False)"): lambda: timed(lambda: fs.ls("/many", detail=False)),
        ("entries", "scandir, as `rpcrdma ls`"): client("entries"),
        ("entries", "fsspec ls"): lambda: timed(lambda: fs.ls("/many")),
    }


def rows(options: argparse.Namespace) -> list[Row]:
    octets = options.megabytes << 20
    values: dict[tuple[str, str], list[float]] = {}
    with nfs_servers.served_file(octets=octets) as server:
        url = server.tcp if options.tcp else server.rdma
        many = Path(server.directory, "many")
        many.mkdir()
        for number in range(options.names):
            (many / f"part-{number:06}.parquet").touch()
        todo = measures(url, parse_url(server.tcp).port, octets)
        for round_number in range(1, options.rounds + 1):
            for key, measure in todo.items():
                print(f"round {round_number} of {options.rounds}: {key[1]}", file=sys.stderr)
                values.setdefault(key, []).append(measure())
    found: list[Row] = []
    for (measure, subject), seconds in values.items():
        own = next(statistics.median(other) for (kind, _), other in values.items() if kind == measure)
        median = statistics.median(seconds)
        ratio = None if median == own else round(own / median, 3)
        if measure in {"read", "write"}:
            found.append(Row(measure, subject, round(octets / median * 1e-9, 3), "GB/s", ratio))
        else:
            found.append(Row(measure, subject, round(options.names / median), "names/s", ratio))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=1024, help="MiB of the file (default: %(default)s)")
    parser.add_argument("--names", type=int, default=50_000, help="names in the directory (default: %(default)s)")
    parser.add_argument("--tcp", action="store_true", help="over TCP instead of RDMA")
    options = parser.parse_args()
    found = rows(options)
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
        return
    for row in found:
        ratio = "" if row.ratio is None else f"{row.ratio:.0%} of the client's own"
        print(f"{row.measure:9}{row.subject:28}{row.value:>12} {row.unit:8} {ratio}")


if __name__ == "__main__":
    main()
