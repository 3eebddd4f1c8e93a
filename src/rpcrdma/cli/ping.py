"""`rpcrdma ping`: the duration of empty calls, and the parameters that the connection agreed on."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import CommandParser, ExitStatus, add_json, connect_options, console, service_url
from rpcrdma.commands.arguments import positive_count, program_number, seconds
from rpcrdma.errors import CallTimeout, ProgramMismatch
from rpcrdma.wire.native import DATA_PATH

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import Connection
    from rpcrdma.rpc.program import Program

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma ping rdma://127.0.0.1
  rpcrdma ping -c 10000 --json rdma://server:20049
  rpcrdma ping -c 5 --interval 1 tcp://server
  rpcrdma ping --stats rdma://server
  rpcrdma ping --program 0x20000001:2 rdma://server:4000
"""
_COUNT = 1000
_BAR_COLUMNS = 40
_SIDES = {"own": "this end's", "peer": "the server's"}
_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma ping` to `parser`."""
    parser.describe(run, "URL", _EXAMPLES)
    parser.add_argument("url", type=service_url, metavar="URL", help="rdma://HOST[:PORT] or tcp://HOST[:PORT]")
    parser.add_argument(
        "-c", "--count", type=positive_count, default=_COUNT, metavar="COUNT", help="calls (default: %(default)s)"
    )
    parser.add_argument(
        "--program",
        type=_program,
        metavar="NUMBER[:VERSION]",
        help="call procedure 0 of this program, in version 1 unless told otherwise (default: NFS, 100003:3)",
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        metavar="SECONDS",
        help="time between calls, each of which is then shown when it ends (default: none)",
    )
    parser.add_argument(
        "--stats", action="store_true", help="show the connection's counters, with the names that Linux has for them"
    )
    add_json(parser)


def _program(text: str) -> Program:
    from rpcrdma.rpc.program import Program, null_procedure  # noqa: PLC0415 - only with this option

    program, _, version = text.partition(":")
    numbers = program_number(program), program_number(version or "1")
    return Program(*numbers, name=text, procedures={0: null_procedure(*numbers)})


@dataclass(slots=True)
class _Outcome:
    round_trips_us: list[float] = field(default_factory=list)
    lost: int = 0


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma ping`: measures NULL calls to `args.url`; prints their times and the connection's parameters.

    Returns the exit status, FAILED if no call was answered. Cancelled after an answer, it prints the results until then
    and returns; cancelled before, it raises CancelledError.

    Raises:
        RpcRdmaError: the server cannot be reached, does not have the program, or the connection is lost, even after
            answers; only a call without a reply in time is counted as lost.
    """
    import asyncio  # noqa: PLC0415 - see `run_async`

    from rpcrdma.aio.client.connect import connect  # noqa: PLC0415
    from rpcrdma.nfs import v3  # noqa: PLC0415

    outcome = _Outcome()
    options = replace(connect_options(args), count_calls=args.stats)
    program = args.program or v3.PROGRAM
    async with connect(str(args.url), program, options=options) as connection:
        try:
            await _call(args, connection, outcome)
        except ProgramMismatch as error:
            error.add_note(f"rpcrdma ping --program {program.number}:{error.high} calls version {error.high}")
            raise
        except asyncio.CancelledError:
            # Interrupted: the measurements until then are still worth showing.
            if not outcome.round_trips_us:
                raise
        report = _report(args, connection, outcome)
        if args.stats:
            report |= _counters(connection)
    if args.json:
        console.json_line(report)
    else:
        _print(report, outcome)
        if args.stats:
            _print_counters(report)
    return ExitStatus.DONE if outcome.round_trips_us else ExitStatus.FAILED


async def _call(args: argparse.Namespace, connection: Connection, outcome: _Outcome) -> None:
    import asyncio  # noqa: PLC0415

    from rpcrdma.nfs import v3  # noqa: PLC0415

    null = args.program.procedures[0] if args.program else v3.NULL
    for number in range(args.count):
        if number and args.interval is not None:
            await asyncio.sleep(args.interval)
        start = time.perf_counter_ns()
        try:
            await connection.call(null, None)
        except CallTimeout:
            outcome.lost += 1
            _tell(args, f"call {number + 1}: lost")
        else:
            elapsed_us = (time.perf_counter_ns() - start) / 1000
            outcome.round_trips_us.append(elapsed_us)
            _tell(args, f"call {number + 1}: {elapsed_us:.0f} µs")


def _tell(args: argparse.Namespace, line: str) -> None:
    """Prints `line`, about one call, if --interval is given (with --json on standard error); else logs it at INFO."""
    if args.interval is None:
        import logging  # noqa: PLC0415

        logging.getLogger("rpcrdma.ping").info("%s", line)
    elif args.json:
        console.talk(line)
    else:
        console.data(line)
        console.write(flush=True)


def _report(args: argparse.Namespace, connection: Connection, outcome: _Outcome) -> dict[str, Any]:
    ordered = sorted(outcome.round_trips_us)
    rtt: dict[str, float] | None = None
    if ordered:
        rtt = {"min": ordered[0]}
        rtt |= {name: ordered[ceil(part * len(ordered)) - 1] for name, part in _PERCENTILES.items()}
        rtt["max"] = ordered[-1]
        rtt = {name: round(value, 1) for name, value in rtt.items()}
    agreed = connection.negotiated
    host = connection.host_identity
    return {
        "url": str(args.url),
        "calls": len(ordered) + outcome.lost,
        "lost": outcome.lost,
        "rtt_us": rtt,
        "version": agreed and agreed.version,
        "provider": agreed and agreed.provider,
        "device": agreed and agreed.device,
        "thresholds": agreed
        and {"send_bytes": agreed.inline_send_octets, "receive_bytes": agreed.inline_receive_octets},
        "credits": agreed
        and {
            "requested": agreed.credits_requested,
            "granted": agreed.credits_granted,
            "reverse_granted": agreed.reverse_credits_granted,
        },
        "properties": agreed and {"own": agreed.own_properties, "peer": agreed.peer_properties},
        "extensions": agreed and agreed.extensions,
        "distance_us": agreed and (None if agreed.round_trip_s is None else round(agreed.round_trip_s * 1e6, 1)),
        "remote_invalidation": agreed and agreed.remote_invalidation,
        "host_identity": host and host.as_json(),
        "xprtsec": connection.xprtsec,
        "security": args.sec or "sys",
        "principal": connection.principal,
        "crc": agreed and agreed.crc,
        "data_path": DATA_PATH if agreed and agreed.provider == "iwarp" else None,
    }


def _counters(connection: Connection) -> dict[str, Any]:
    from rpcrdma.transport import linux_counters  # noqa: PLC0415

    told = connection.statistics
    counters = None if connection.negotiated is None else asdict(told)
    for name in ("operations", "answered"):
        (counters or {}).pop(name, None)
    return {
        "statistics": counters,
        "linux_counters": counters and linux_counters(told),
        "operations": [operation.as_json() for operation in told.operations],
    }


def _print_counters(report: dict[str, Any]) -> None:
    from rpcrdma.transport.statistics import LINUX_CLIENT  # noqa: PLC0415

    _print_operations(report["operations"])
    if report["statistics"] is None:
        console.data("no further counters: they are kept of RDMA connections")
        return
    linux = {own: name for name, own in LINUX_CLIENT.items()}
    rows = [(name, str(value), linux.get(name, "")) for name, value in report["statistics"].items()]
    console.table(rows, right=[1], headings=("counter", "value", "in Linux"))


def _print_operations(operations: list[dict[str, Any]]) -> None:
    """Prints the statistics of calls by procedure as a table, whose columns have names of /proc/self/mountstats.

    The last column is the 99th percentile of the round-trip time. `operations` are the JSON objects of
    `OperationStatistics.as_json`.
    """
    counts = ["ops", "trans", "bytes_sent", "bytes_recv"]
    rows = []
    for each in operations:
        times_us = [each[f"{part}_us"]["mean"] for part in ("queue", "rtt", "execute")] + [each["rtt_us"]["p99"]]
        times = ["-" if time_us is None else f"{time_us:.0f} µs" for time_us in times_us]
        rows.append([each["procedure"], each["status"], *(str(each[name]) for name in counts), *times])
    headings = ["procedure", "status", *counts, "queue", "rtt", "execute", "rtt p99"]
    console.table(rows, right=range(2, len(headings)), headings=headings)


def _print(report: dict[str, Any], outcome: _Outcome) -> None:
    console.data(f"{report['url']}: {console.counted(report['calls'], 'call')}, {report['lost']:,} lost")
    if report["rtt_us"]:
        console.data(
            "round trip in µs: " + ", ".join(f"{name} {value:.1f}" for name, value in report["rtt_us"].items())
        )
        _print_histogram(outcome.round_trips_us)
    told = f" as {report['principal']}" if report["principal"] else ""
    console.data(f"security: {report['security']}{told}")
    if report["version"] is None:
        in_tls = report["xprtsec"] != "none"
        console.data(f"RPC over TCP{' in TLS' if in_tls else ''}")
        if in_tls:
            _print_host(report)
        return
    thresholds, credits_ = report["thresholds"], report["credits"]
    device = "" if report["device"] is None else f" ({report['device']})"
    console.data(f"RPC-over-RDMA version {report['version']}, provider {report['provider']}{device}")
    console.data(
        f"inline thresholds: send {thresholds['send_bytes']} bytes, receive {thresholds['receive_bytes']} bytes"
    )
    console.data(
        f"credits: {credits_['requested']} requested, {credits_['granted']} granted, "
        f"{credits_['reverse_granted']} granted for calls back"
    )
    for side, told in report["properties"].items():
        if told is not None:
            values = ", ".join(f"{name} {_worded(value)}" for name, value in told.items())
            console.data(f"transport properties, {_SIDES[side]}: {values}")
    for name, told_of in report["extensions"].items():
        for side, told in told_of.items():
            values = "; ".join(f"{key} {value}" for key, value in (told or {}).items()) or "nothing told of it"
            console.data(f"extension {name}, {_SIDES[side]}: {values}")
    if report["distance_us"] is not None:
        console.data(f"the network takes {report['distance_us']:.1f} µs to the server and back")
    console.data(
        f"remote invalidation {'on' if report['remote_invalidation'] else 'off'}, "
        f"CRC32C {'on' if report['crc'] else 'off'}"
    )
    if report["data_path"] is not None:
        console.data(f"data path: {report['data_path']}")
    _print_host(report)


def _print_host(report: dict[str, Any]) -> None:
    host = report["host_identity"]
    told = f"{', '.join(host['names'])} ({host['subject']})" if host else "not authenticated"
    console.data(f"host: {told}")


def _worded(value: int | str | bool) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _print_histogram(round_trips_us: list[float]) -> None:
    """Prints a histogram of one or more round trips, in microseconds, with four lines for each doubling of the time."""
    bounds, longest = [10.0], max(round_trips_us)
    while bounds[-1] <= longest:
        bounds.append(10 * 2 ** (len(bounds) / 4))
    counts = [0] * len(bounds)
    for value in round_trips_us:
        counts[next(index for index, bound in enumerate(bounds) if value < bound)] += 1
    filled = [index for index, count in enumerate(counts) if count]
    most = max(counts)
    for index in range(filled[0], filled[-1] + 1):
        bar = "#" * ceil(_BAR_COLUMNS * counts[index] / most)
        console.data(f"  < {bounds[index]:>9.0f} µs {counts[index]:>8}  {bar}".rstrip())
