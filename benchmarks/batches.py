"""The gain of several calls in one transmission: streams of NULL and GETATTR, near and far.

A server in a process of its own, a relay that delays in another, the calls from this one. So many calls are in flight
at any time; each that is answered is followed by another one. Per distance the ways are measured by turns in every
round; the latency is the median over all calls of all rounds, the rate that of the median round.

`python benchmarks/batches.py --markdown` makes the table of docs/round-trips.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

import nfs_calls
from round_trips import DELAYS_S, call_times, near_or_far

import rpcrdma
from rpcrdma.nfs import v3

CALLS = ("NULL", "GETATTR")
IN_FLIGHT = (1, 16, 64)
WAYS = {
    "version 1": {"rpcrdma_version": "1"},
    "version 2": {"rpcrdma_version": "2"},
    "with batches": {"rpcrdma_version": "2", "batches": True},
}
"""What is measured side by side: options of the client."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds that a call takes, `in_flight` of them at any time, and calls a second beside those of version 2.

    `messages_per_call` are Sends of both ends.
    """

    call: str
    delay_ms: float
    in_flight: int
    way: str
    latency_us: float
    calls_per_s: float
    ratio_to_version_2: float
    messages_per_call: float


@dataclass(slots=True)
class _Measured:
    """Of one way: the time that each call took, and for each round calls a second and messages a call."""

    times: list[float]
    rates: list[float]
    messages: list[float]


def _messages(connection: rpcrdma.Connection) -> int:
    """That have gone either way."""
    counters = connection.statistics
    assert counters is not None
    return counters.sends + counters.receives


async def _round(
    url: str, handle: v3.nfs_fh3, way: str, calls: int, found: dict[tuple[str, str, int], _Measured]
) -> None:
    """One round over one connection."""
    options = rpcrdma.ConnectOptions(**WAYS[way])  # type: ignore[arg-type]
    async with rpcrdma.connect(url, v3.PROGRAM, options=options) as connection:
        makes: dict[str, Callable[[], Awaitable[object]]] = {
            "NULL": lambda: connection.call(v3.NULL, None),
            "GETATTR": lambda: connection.call(v3.GETATTR, v3.GETATTR3args(handle)),
        }
        for call in CALLS:
            for many in IN_FLIGHT:
                await call_times(makes[call], max(many, calls // 10), many)
                before = _messages(connection)
                start = time.perf_counter()
                times = await call_times(makes[call], calls, many)
                elapsed_s = time.perf_counter() - start
                one = found.setdefault((call, way, many), _Measured([], [], []))
                one.times += times
                one.rates.append(calls / elapsed_s)
                one.messages.append((_messages(connection) - before) / calls)


def rows(options: argparse.Namespace) -> list[Row]:
    """All results."""
    table: list[Row] = []
    with nfs_calls.served_file(options=["--batches"]) as server:
        handle = asyncio.run(nfs_calls.file_handle(server.tcp))
        for delay_s in options.delays:
            found: dict[tuple[str, str, int], _Measured] = {}
            with near_or_far(server.rdma, delay_s) as url:
                for number in range(options.rounds):
                    print(f"{delay_s * 1000:g} ms one way, round {number + 1} of {options.rounds}", file=sys.stderr)
                    for way in WAYS if number % 2 else reversed(WAYS):
                        # The distance decides the time of far calls, not the processor: fewer calls suffice.
                        calls = options.calls if not delay_s else max(128, options.calls // 8)
                        asyncio.run(_round(url, handle, way, calls, found))
            for call in CALLS:
                for many in IN_FLIGHT:
                    second = statistics.median(found[call, "version 2", many].rates)
                    for way in WAYS:
                        one = found[call, way, many]
                        rate = statistics.median(one.rates)
                        table.append(
                            Row(
                                call,
                                delay_s * 1000,
                                many,
                                way,
                                round(statistics.median(one.times) * 1e6, 1),
                                round(rate),
                                round(rate / second, 2),
                                round(statistics.median(one.messages), 2),
                            )
                        )
    return table


def print_markdown(table: list[Row]) -> None:
    """The table of docs/round-trips.md: microseconds, calls a second and their ratio, and messages a call."""
    print("| call | one way, ms | in flight |" + "".join(f" {way} |" for way in WAYS) + " messages per call |")
    print("|---|---|---|" + "---|" * (len(WAYS) + 1))
    for key in dict.fromkeys((row.call, row.delay_ms, row.in_flight) for row in table):
        call, delay_ms, many = key
        found = [row for row in table if (row.call, row.delay_ms, row.in_flight) == key]
        cells = "".join(
            f" {row.latency_us:,.0f} µs, {row.calls_per_s:,.0f}/s ({row.ratio_to_version_2:.2f}) |" for row in found
        )
        print(f"| {call} | {delay_ms:g} | {many} |{cells} {found[-1].messages_per_call:g} |")


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each distance (default: %(default)s)")
    parser.add_argument(
        "--calls", type=int, default=6400, help="calls of a round at no distance (default: %(default)s)"
    )
    parser.add_argument("--delays", type=float, nargs="+", default=DELAYS_S, metavar="SECONDS", help="one way")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/round-trips.md (default)")
    options = parser.parse_args()
    table = rows(options)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=1))
    else:
        print_markdown(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
