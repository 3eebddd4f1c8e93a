"""`rpcrdma stats`: how many calls a server answers, or a client makes, and how long they take."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rpcrdma.cli.daemon_threads import DaemonThreads
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console
from rpcrdma.commands.arguments import positive_count, seconds
from rpcrdma.errors import ConnectFailed

if TYPE_CHECKING:
    from rpcrdma.aio.client.metrics_page import Calls, Outcome, Page, Times, Where

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma serve --metrics 127.0.0.1:9400 /srv/data
  rpcrdma stats http://127.0.0.1:9400
  rpcrdma stats http://127.0.0.1:9400 --watch
  rpcrdma stats http://127.0.0.1:9400 --watch --count 60 --json >minute.jsonl

output, for each procedure, and indented for each kind of error:
  ops, errors: calls that have ended, and those that did not succeed
  bytes_sent, bytes_recv: octets of the messages that this end has sent and
  received, data included
  queue: the mean time that calls waited, at a server for a thread,
  memory or RPCSEC_GSS, at a client for a credit or a connection
  handler: at a server, the mean time that they ran
  rtt: at a client, that from sending a call to its reply
  execute: the mean of both together, with its percentiles

Without --watch the counts begin with the start of the server; with it, they
are those of the last interval. Percentiles are right to within a factor of two. On a
narrow terminal some columns are left out, and named; --json has all columns.
Programs with rpcrdma.ClientMetrics, and `rpcrdma --client-metrics`, offer the
statistics of their calls at a URL of the same form.
"""
_INTERVAL_S = 2.0
_TIMEOUT_S = 10.0
_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
_CLEAR = "\x1b[H\x1b[2J"
_WHOLE = {"server": "handler", "client": "rtt"}
"""The parts of a call's time beside the queue."""
_LEFT_OUT = ("p90", "bytes_recv", "bytes_sent", "queue", "handler", "rtt", "p50", "over")
"""Columns that a narrow terminal does not get, the first first."""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma stats` to `parser`."""
    parser.describe(run, "URL", _EXAMPLES, connects=False)
    add = parser.add_argument
    add("url", type=_metrics_url, metavar="URL", help="http://HOST:PORT, where `rpcrdma serve --metrics` listens")
    add("-w", "--watch", action="store_true", help="repeat the output, each time for the last interval")
    add("--interval", type=seconds, default=_INTERVAL_S, metavar="SECONDS", help="of --watch (default: %(default)g)")
    add(
        "-c",
        "--count",
        type=positive_count,
        metavar="COUNT",
        help="end --watch after this many intervals (default: never)",
    )
    add_json(parser, "one JSON object, with --watch one a line for each interval")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma stats`: prints the call statistics at the metrics URL `args.url`; returns the exit status.

    With --watch, it prints those of each interval, for `args.count` intervals (None: any number) or until the
    task is cancelled after the first answer; CancelledError is not raised then.

    Raises:
        ConnectFailed: there is no answer, an HTTP status of failure, or no package prometheus-client.
        RemoteProtocolError: the answer has no statistics.
    """
    from rpcrdma.aio.client.metrics_page import read_page, since  # noqa: PLC0415

    before, before_s = read_page(await _fetched(args.url)), time.monotonic()
    if not args.watch:
        _print(args, before, None)
        return ExitStatus.DONE
    left = args.count
    if not args.json and _is_screen():
        console.data(f"{args.url}: the first table comes in {args.interval:g} s")
        console.write(flush=True)
    try:
        while left != 0:
            await asyncio.sleep(args.interval)
            now, now_s = read_page(await _fetched(args.url)), time.monotonic()
            _print(args, since(before, now), now_s - before_s)
            before, before_s = now, now_s
            left = None if left is None else left - 1
    except asyncio.CancelledError:
        # The usual end of --watch is an interrupt.
        pass
    return ExitStatus.DONE


async def _fetched(url: str) -> str:
    """Sends an HTTP GET to `url` and returns the text of the answer, if it arrives whole within 10 s.

    The look-up of the host name and single reads cannot be interrupted. So they run in a thread for which the process
    does not wait at its end.

    Raises:
        ConnectFailed: there is no answer, an HTTP status of failure, or no whole answer within the 10 s.
        RemoteProtocolError: the answer is too long, or no UTF-8.
    """
    from rpcrdma.aio.client.metrics_page import fetch  # noqa: PLC0415

    fetching = DaemonThreads().submit(fetch, url, _TIMEOUT_S)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asyncio.wrap_future(fetching)
    except TimeoutError:
        raise ConnectFailed(
            f"no statistics at {url}: no whole answer within {_TIMEOUT_S:g} s; check that this is the URL of "
            "`rpcrdma serve --metrics`"
        ) from None


def _metrics_url(text: str) -> str:
    """Returns the URL of a metrics endpoint: `text`; if it has no path, with the path /metrics and without a query.

    Raises:
        ArgumentTypeError: `text` is no http or https URL with a host.
    """
    try:
        parts = urlsplit(text)
        # Beyond 65535, which sockets would take modulo 65536, it raises.
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not http://HOST:PORT: a server tells its statistics where `rpcrdma serve --metrics` listens"
        )
    return text if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


def _is_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _print(args: argparse.Namespace, page: Page, interval_s: float | None) -> None:
    if args.json:
        rows = [_described(where, calls) for where, calls in sorted(page.items(), key=lambda item: item[0])]
        console.json_line({"url": args.url, "interval_s": interval_s and round(interval_s, 3), "operations": rows})
        return
    if interval_s is not None and _is_screen():
        console.write(_CLEAR)
    if not page:
        console.data("no calls yet" if interval_s is None else f"no calls in the last {args.interval:g} s")
    sides = {where.side for where in page}
    for side in sorted(sides, reverse=True):
        if sides != {"server"}:
            console.data({"server": "calls answered", "client": "calls made"}.get(side, side))
        _print_side({where: calls for where, calls in page.items() if where.side == side}, side, interval_s)
    if interval_s is not None:
        console.data("")
    console.write(flush=True)


def _print_side(page: Page, side: str, interval_s: float | None) -> None:
    per_s = 1.0 if interval_s is None else interval_s
    rate = "" if interval_s is None else "/s"
    whole = _WHOLE.get(side, "execute")
    several = Counter(where[:3] + where[-1:] for where in page)
    rows: list[dict[str, str]] = []
    for where, calls in sorted(page.items(), key=lambda item: (-item[1].ops, item[0])):
        name = where.procedure
        if several[where[:3] + where[-1:]] > 1:
            name += f" ({where.program} version {where.version})"
        told = {"procedure": name, "over": where.server or where.transport, "errors": f"{calls.errors:.0f}"}
        rows.append(told | _cells(calls.together, whole, per_s))
        for status, outcome in sorted(calls.outcomes.items()):
            if outcome.ops and status != "SUCCESS":
                rows.append({"procedure": f"  {status}", "over": "", "errors": ""} | _cells(outcome, whole, per_s))
    columns = ["procedure", "over", "ops", "errors", "bytes_sent", "bytes_recv", "queue", whole, "execute"]
    columns += _PERCENTILES
    headings = {name: name + rate * (name in {"ops", "bytes_sent", "bytes_recv"}) for name in columns}
    left_out = _left_out([headings, *rows], columns)
    shown = [name for name in columns if name not in left_out]
    numbers = [index for index, name in enumerate(shown) if name not in {"procedure", "over"}]
    body = [[row[name] for name in shown] for row in rows]
    console.table(body, right=numbers, headings=[headings[name] for name in shown])
    if left_out:
        note = f"(for want of columns without {', '.join(left_out)}; --json has all)"
        for line in textwrap.wrap(note, shutil.get_terminal_size().columns):
            console.data(line)


def _left_out(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> list[str]:
    """Returns those of `columns` to omit, so that `rows` (texts by column) fit the width of the terminal if possible.

    They are taken in the order of `_LEFT_OUT`, the least important first, as few as make `rows` fit, or all of
    `_LEFT_OUT` if `rows` cannot fit. Returns [] if standard output is no terminal.
    """
    if not sys.stdout.isatty():
        return []
    widths = {name: max(len(row[name]) for row in rows) for name in columns}
    left_out: list[str] = []
    for name in _LEFT_OUT:
        shown = [width for column, width in widths.items() if column not in left_out]
        if sum(shown) + 2 * (len(shown) - 1) <= shutil.get_terminal_size().columns:
            break
        if name in widths:
            left_out.append(name)
    return left_out


def _cells(outcome: Outcome, whole: str, per_s: float) -> dict[str, str]:
    times = outcome.times
    execute = times["execute"]
    return {
        "ops": f"{outcome.ops / per_s:.0f}" if per_s == 1 else f"{outcome.ops / per_s:.1f}",
        "bytes_sent": console.readable_octets(outcome.bytes_sent / per_s),
        "bytes_recv": console.readable_octets(outcome.bytes_recv / per_s),
        **{part: _readable_s(times[part].mean_s) for part in ("queue", whole, "execute")},
        **{name: _readable_s(execute.quantile_s(share)) for name, share in _PERCENTILES.items()},
    }


def _readable_s(duration_s: float | None) -> str:
    if duration_s is None:
        return "-"
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.0f} µs"
    return f"{duration_s * 1e3:.1f} ms" if duration_s < 1 else f"{duration_s:.1f} s"


def _described(where: Where, calls: Calls) -> dict[str, Any]:
    outcomes = {status: outcome for status, outcome in sorted(calls.outcomes.items()) if outcome.ops}
    return {
        **where._asdict(),
        "ops": int(calls.ops),
        "errors": int(calls.errors),
        "statuses": {status: int(outcome.ops) for status, outcome in outcomes.items()},
        **_octets_and_times(calls.together),
        "by_status": {
            status: {"ops": int(outcome.ops), **_octets_and_times(outcome)} for status, outcome in outcomes.items()
        },
    }


def _octets_and_times(outcome: Outcome) -> dict[str, Any]:
    times = {part: times for part, times in outcome.times.items() if times.below}
    return {
        "bytes_sent": int(outcome.bytes_sent),
        "bytes_recv": int(outcome.bytes_recv),
        **{f"{part}_ms": round(each.sum_s * 1e3, 3) for part, each in times.items()},
        **{f"{part}_us": _times(each) for part, each in times.items()},
    }


def _times(times: Times) -> dict[str, float | None]:
    found = {"mean": times.mean_s, **{name: times.quantile_s(share) for name, share in _PERCENTILES.items()}}
    return {name: None if value is None else round(value * 1e6, 1) for name, value in found.items()}
