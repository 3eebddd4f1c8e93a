"""How long READ and WRITE take in version 1, in version 2 and with the round-trip extension, near and far.

A server in a process of its own, a relay that delays in another, the calls from this one. TCP ends at the relay, so
that a wrapped provider tells the client how far the server is beyond that. Per size and number of calls
in flight the ways are measured by turns in every round; the figure is the median over all calls of all rounds. READ
without `into=`, as of an application that takes any memory.

`python benchmarks/round_trips.py --markdown --plot docs/round-trips.svg` makes table and plot of docs/round-trips.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import nfs_servers
from delay_relay import delayed

import rpcrdma
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.nfs import v3
from rpcrdma.testing.far_provider import FarProvider

SIZES = (4096, 8192, 16384, 65536, 196608)
IN_FLIGHT = (1, 16)
DELAYS_S = (0.0, 0.001, 0.010)
WAYS = {
    "version 1": {"rpcrdma_version": "1"},
    "version 2": {"rpcrdma_version": "2", "extension": "off"},
    "extension, auto": {"rpcrdma_version": "2", "extension": "auto"},
    "extension, rtr": {"rpcrdma_version": "2", "extension": "rtr"},
}
"""What is measured side by side: options of the client."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds that a call takes, `in_flight` of them at any time; the median, and that of version 1 beside it."""

    call: str
    delay_ms: float
    in_flight: int
    size_bytes: int
    way: str
    latency_us: float
    ratio_to_version_1: float


@contextlib.contextmanager
def near_or_far(url: str, one_way_s: float) -> Iterator[str]:
    """The URL of a server at this distance."""
    if not one_way_s:
        yield url
        return
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    with delayed(parts.hostname, parts.port, one_way_s) as port:
        yield f"{parts.scheme}://127.0.0.1:{port}"


async def call_times(make: Callable[[], Awaitable[object]], calls: int, in_flight: int) -> list[float]:
    """How long each of the calls took."""
    times: list[float] = []
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            start = time.perf_counter()
            await make()
            times.append(time.perf_counter() - start)

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return times


async def _measured(
    url: str, handle: v3.nfs_fh3, way: str, delay_s: float, calls: int, wanted: list[tuple[str, int, int]]
) -> dict[tuple[str, int, int], list[float]]:
    """Times by (call, octets, in flight) over one connection."""
    found: dict[tuple[str, int, int], list[float]] = {}
    provider = FarProvider(SoftwareRnic(), 2 * delay_s) if delay_s else "auto"
    options = rpcrdma.ConnectOptions(provider=provider, **WAYS[way])  # type: ignore[arg-type]
    async with rpcrdma.connect(url, v3.PROGRAM, options=options) as connection:
        for call, size, in_flight in wanted:
            data = bytes(size)
            make: Callable[[], Awaitable[object]]
            if call == "READ":
                read = v3.READ3args(handle, 0, size)
                make = lambda read=read: connection.call(v3.READ, read)  # type: ignore[misc]  # noqa: E731
            else:
                write = v3.WRITE3args(handle, 0, size, v3.stable_how.UNSTABLE, data)
                make = lambda write=write: connection.call(v3.WRITE, write)  # type: ignore[misc]  # noqa: E731
            await call_times(make, max(4, calls // 10), in_flight)
            found[call, size, in_flight] = await call_times(make, calls, in_flight)
    return found


def rows(options: argparse.Namespace) -> list[Row]:
    """All results."""
    wanted = [(call, size, many) for call in ("READ", "WRITE") for size in options.sizes for many in IN_FLIGHT]
    table: list[Row] = []
    with nfs_servers.served_file() as server:
        handle = asyncio.run(nfs_servers.file_handle(server.tcp))
        for delay_s in options.delays:
            times: dict[tuple[str, str, int, int], list[float]] = {}
            with near_or_far(server.rdma, delay_s) as url:
                for number in range(options.rounds):
                    print(f"{delay_s * 1000:g} ms one way, round {number + 1} of {options.rounds}", file=sys.stderr)
                    for way in WAYS if number % 2 else reversed(WAYS):
                        # The distance decides the time of far calls, not the processor: fewer calls suffice.
                        calls = options.calls if not delay_s else max(32, options.calls // 4)
                        found = asyncio.run(_measured(url, handle, way, delay_s, calls, wanted))
                        for (call, size, many), some in found.items():
                            times.setdefault((call, way, size, many), []).extend(some)
            for call, size, many in wanted:
                first_us = statistics.median(times[call, "version 1", size, many]) * 1e6
                for way in WAYS:
                    median_us = statistics.median(times[call, way, size, many]) * 1e6
                    ratio = round(median_us / first_us, 2)
                    table.append(Row(call, delay_s * 1000, many, size, way, round(median_us, 1), ratio))
    return table


def print_markdown(table: list[Row]) -> None:
    """The table of docs/round-trips.md."""
    print("| call | one way, ms | in flight | KiB |" + "".join(f" {way} |" for way in WAYS))
    print("|---|---|---|---|" + "---|" * len(WAYS))
    keys = dict.fromkeys((row.call, row.delay_ms, row.in_flight, row.size_bytes) for row in table)
    for key in keys:
        call, delay_ms, many, size = key
        cells = [
            f" {row.latency_us:,.0f} ({row.ratio_to_version_1:.2f}) |"
            for row in table
            if (row.call, row.delay_ms, row.in_flight, row.size_bytes) == key
        ]
        print(f"| {call} | {delay_ms:g} | {many} | {size >> 10} |" + "".join(cells))


def plot(table: list[Row], path: Path) -> None:
    """A panel for each call, distance and number in flight; ratios to version 1 over the size."""
    import matplotlib as mpl  # noqa: PLC0415 - the extra `plots` of rpcrdma-lab

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rpcrdma"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    delays = sorted({row.delay_ms for row in table})
    panels = [(call, many) for call in ("READ", "WRITE") for many in IN_FLIGHT]
    figure, axes = plt.subplots(len(panels), len(delays), figsize=(10, 10), sharex=True, squeeze=False)
    for line, (call, many) in enumerate(panels):
        for column, delay_ms in enumerate(delays):
            axis = axes[line][column]
            for way in WAYS:
                points = [
                    (row.size_bytes / 1024, row.latency_us)
                    for row in table
                    if (row.call, row.in_flight, row.delay_ms, row.way) == (call, many, delay_ms, way)
                ]
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=way)
            axis.set_xscale("log", base=2)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{call}, {many} in flight, {delay_ms:g} ms one way", fontsize=8)
            axis.tick_params(labelsize=7)
            if line == len(panels) - 1:
                axis.set_xlabel("KiB", fontsize=8)
            if not column:
                axis.set_ylabel("microseconds", fontsize=8)
    axes[0][0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each distance (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=400, help="calls of a round at no distance (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="OCTETS")
    parser.add_argument("--delays", type=float, nargs="+", default=DELAYS_S, metavar="SECONDS", help="one way")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/round-trips.md")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw it; takes the extra `plots` of rpcrdma-lab")
    options = parser.parse_args()
    table = rows(options)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=1))
    else:
        print_markdown(table)
    if options.plot is not None:
        plot(table, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
