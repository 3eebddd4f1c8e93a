"""How close the library comes to the rate of plain sockets on the same machine, and how many functions a call enters.

Two processes on loopback. Every measure is taken in several rounds, limits and subjects by turns, and the median
of the rounds is reported: a machine that slows down for a while slows both. The functions that a call enters
(`function_calls`) are counted once; the processor time of a call is that of each process (`cpu_time`), version 2 of
RPC-over-RDMA beside version 1. Then READ and WRITE in messages and by RDMA (`message_forms`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass

import cpu_time
import function_calls
import message_forms
import nfs_calls
import raw_sockets
from event_loops import LOOPS, new_event_loop


@dataclass(frozen=True, slots=True)
class Row:
    """One result.

    `ratio_to_limit`: rates as a part of the raw rate, times as a multiple of the raw time; processor time of a version,
    of both ends, as a multiple of version 1's, and that of a call in messages as a multiple of the same by RDMA.
    """

    measure: str
    subject: str
    in_flight: int
    connections: int
    size_bytes: int
    value: float
    unit: str
    ratio_to_limit: float | None


Key = tuple[str, str, int, int]
"""(measure, subject, in flight, octets)."""

STREAM: Key = ("throughput", "raw stream, sendmsg to recv_into", 1, raw_sockets.BUFFER_OCTETS)
ECHO: Key = ("round_trip", "raw echo, add_reader", 1, raw_sockets.ECHO_OCTETS)
LIMITS = {"throughput": STREAM, "round_trip": ECHO}
UNITS = {"throughput": ("GB/s", 1e-9), "round_trip": ("us", 1e6)}


def measures(options: argparse.Namespace, server: nfs_calls.ServerAddresses) -> dict[Key, Callable[[], float]]:
    """The functions that take each measure, limits first."""
    octets = options.megabytes << 20
    calls, loop, in_flight = options.calls, options.loop, options.in_flight
    size = nfs_calls.CALL_OCTETS
    with new_event_loop(loop) as runner:
        handle = runner.run(nfs_calls.file_handle(server.tcp))

    def on_loop(
        coroutine_function: Callable[..., Coroutine[object, object, float]], *arguments: object
    ) -> Callable[[], float]:
        def measure() -> float:
            with new_event_loop(loop) as runner:
                return runner.run(coroutine_function(*arguments))

        return measure

    return {
        STREAM: lambda: raw_sockets.stream_rate(octets),
        ("throughput", "NFS READ over RDMA", in_flight, size): on_loop(
            nfs_calls.read_rate, server.rdma, handle, octets, in_flight
        ),
        ("throughput", "NFS WRITE over RDMA", in_flight, size): on_loop(
            nfs_calls.write_rate, server.rdma, handle, octets, in_flight
        ),
        ECHO: lambda: raw_sockets.echo_round_trip(calls, loop),
        ("round_trip", "NULL over RDMA", 1, 0): on_loop(nfs_calls.null_round_trip, server.rdma, calls),
        ("round_trip", "NULL over TCP", 1, 0): on_loop(nfs_calls.null_round_trip, server.tcp, calls),
    }


def run(options: argparse.Namespace) -> list[Row]:
    values: dict[Key, list[float]] = {}
    with nfs_calls.served_file() as server:
        todo = measures(options, server)
        for round_number in range(1, options.rounds + 1):
            for key, measure in todo.items():
                print(f"round {round_number} of {options.rounds}: {key[1]}", file=sys.stderr)
                values.setdefault(key, []).append(measure())
    medians = {key: statistics.median(results) for key, results in values.items()}
    rows = []
    for (kind, subject, in_flight, size), value in medians.items():
        unit, factor = UNITS[kind]
        limit = LIMITS[kind]
        ratio = None if limit[1] == subject else round(value / medians[limit], 3)
        rows.append(Row(kind, subject, in_flight, 1, size, round(value * factor, 3), unit, ratio))
    print("functions entered for one call", file=sys.stderr)
    for row in function_calls.rows():
        for side, entered in (("client", row.client), ("server", row.server)):
            subject = f"{row.call}, version {row.version}, {side}"
            rows.append(Row("functions", subject, 1, 1, row.size_bytes, entered, "calls", None))
    for spent in cpu_time.rows(options.rounds, options.loop):
        for side, value in (("client", spent.client_us), ("server", spent.server_us)):
            subject = f"{spent.call}, version {spent.version}, {side}"
            rows.append(Row("processor", subject, spent.in_flight, 1, spent.size_bytes, value, "us", spent.ratio))
    for form in message_forms.rows(message_forms.SIZES, options.rounds, message_forms.CALLS):
        way = f"in messages of {form.message_octets}" if form.message_octets else "by RDMA"
        ratio = form.ratio_to_rdma if form.message_octets else None
        rows.append(Row("form", f"{form.call} {way}", 1, 1, form.size_bytes, form.processor_us, "us", ratio))
    return rows


def print_table(rows: list[Row]) -> None:
    print(f"{'measure':12}{'subject':36}{'in flight':>10}{'octets':>10}{'value':>12}  {'unit':6}{'to limit':>9}")
    for row in rows:
        ratio = "" if row.ratio_to_limit is None else f"{row.ratio_to_limit:.0%}"
        if row.ratio_to_limit is not None and row.measure != "throughput":
            ratio = f"{row.ratio_to_limit:.{1 if row.measure == 'round_trip' else 2}f} x"
        print(
            f"{row.measure:12}{row.subject:36}{row.in_flight:>10}{row.size_bytes:>10}{row.value:>12.3f}"
            f"  {row.unit:6}{ratio:>9}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=2048, help="MiB moved a round (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=3000, help="round trips a round (default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=8, help="READ or WRITE calls at a time (default: %(default)s)")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    options = parser.parse_args()
    rows = run(options)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
