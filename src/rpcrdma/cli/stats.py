"""`rpcrdma stats`: how many calls a server answers, and how long they take."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rpcrdma.cli import console
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.exit_status import ExitStatus
from rpcrdma.cli.options import Subparsers, add_command, add_json, positive_count, seconds

if TYPE_CHECKING:
    from rpcrdma.aio.client.metrics_page import Calls, Times

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma serve --metrics 127.0.0.1:9400 /srv/data
  rpcrdma stats http://127.0.0.1:9400
  rpcrdma stats http://127.0.0.1:9400 --watch
  rpcrdma stats http://127.0.0.1:9400 --watch --count 60 --json >minute.jsonl

what it prints, for each procedure:
  ops, errors: calls that have ended, and those that did not succeed
  sent, received: bytes of replies and of calls
  queue, handler: the mean time that calls waited for a thread or memory,
  and that they ran; execute: both, with its percentiles

Without --watch all of it counts since the start of the server; with it, in
the last interval. Percentiles are right to within a factor of two.
"""
_INTERVAL_S = 2.0
_TIMEOUT_S = 10.0
_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
_CLEAR = "\x1b[H\x1b[2J"


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "stats",
        run,
        arguments="URL",
        summary="show how many calls a server answers and how long they take",
        examples=_EXAMPLES,
        connects=False,
    )
    add = parser.add_argument
    add("url", type=_metrics_url, metavar="URL", help="http://HOST:PORT, where `rpcrdma serve --metrics` listens")
    add("-w", "--watch", action="store_true", help="show it again and again, always that of the last interval")
    add(
        "--interval",
        type=seconds,
        default=_INTERVAL_S,
        metavar="SECONDS",
        help="of --watch (default: %(default)g)",
    )
    add("-c", "--count", type=positive_count, metavar="COUNT", help="with --watch, end after so many (default: never)")
    add_json(parser, "one JSON object, with --watch one a line for each interval")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    return run_async(_stats(args))


async def _stats(args: argparse.Namespace) -> int:
    from rpcrdma.aio.client.metrics_page import fetch, read_page, since  # noqa: PLC0415

    before, before_s = read_page(await asyncio.to_thread(fetch, args.url, _TIMEOUT_S)), time.monotonic()
    if not args.watch:
        _print(args, before, None)
        return ExitStatus.DONE
    left = args.count
    try:
        while left != 0:
            await asyncio.sleep(args.interval)
            now, now_s = read_page(await asyncio.to_thread(fetch, args.url, _TIMEOUT_S)), time.monotonic()
            _print(args, since(before, now), now_s - before_s)
            before, before_s = now, now_s
            left = None if left is None else left - 1
    except asyncio.CancelledError:
        # The usual end of --watch is an interrupt.
        pass
    return ExitStatus.DONE


def _metrics_url(text: str) -> str:
    """The URL of a metrics endpoint."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not http://HOST:PORT: a server tells its statistics where `rpcrdma serve --metrics` listens"
        )
    return text if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


def _print(args: argparse.Namespace, page: dict[tuple[str, str], Calls], interval_s: float | None) -> None:
    if args.json:
        rows = [_described(*where, calls) for where, calls in sorted(page.items())]
        console.json_line({"url": args.url, "interval_s": interval_s and round(interval_s, 3), "operations": rows})
        return
    if interval_s is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        sys.stdout.write(_CLEAR)
    most_first = sorted(page.items(), key=lambda item: (-item[1].ops, item[0]))
    rate = "" if interval_s is None else "/s"
    per = 1.0 if interval_s is None else interval_s
    headings = ["procedure", "over", f"ops{rate}", "errors", f"sent{rate}", f"received{rate}", "queue", "handler"]
    headings += ["execute", *_PERCENTILES]
    body = [_row(*where, calls, per) for where, calls in most_first]
    console.table(body, right=range(2, len(headings)), headings=headings)
    if interval_s is not None:
        console.data("")
    sys.stdout.flush()


def _row(transport: str, procedure: str, calls: Calls, per_s: float) -> list[str]:
    execute = calls.times["execute"]
    return [
        console.printable(procedure),
        console.printable(transport),
        f"{calls.ops / per_s:.0f}" if per_s == 1 else f"{calls.ops / per_s:.1f}",
        f"{calls.errors:.0f}",
        console.readable_octets(calls.bytes_sent / per_s),
        console.readable_octets(calls.bytes_recv / per_s),
        *(_readable_s(calls.times[part].mean_s) for part in ("queue", "handler", "execute")),
        *(_readable_s(execute.quantile_s(share)) for share in _PERCENTILES.values()),
    ]


def _readable_s(duration_s: float | None) -> str:
    if duration_s is None:
        return "-"
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.0f} µs"
    return f"{duration_s * 1e3:.1f} ms" if duration_s < 1 else f"{duration_s:.1f} s"


def _described(transport: str, procedure: str, calls: Calls) -> dict[str, Any]:
    return {
        "transport": transport,
        "procedure": procedure,
        "ops": int(calls.ops),
        "errors": int(calls.errors),
        "statuses": {status: int(count) for status, count in calls.statuses.items() if count},
        "bytes_sent": int(calls.bytes_sent),
        "bytes_recv": int(calls.bytes_recv),
        **{f"{part}_ms": round(times.sum_s * 1e3, 3) for part, times in calls.times.items()},
        **{f"{part}_us": _times(times) for part, times in calls.times.items()},
    }


def _times(times: Times) -> dict[str, float | None]:
    found = {"mean": times.mean_s, **{name: times.quantile_s(share) for name, share in _PERCENTILES.items()}}
    return {name: None if value is None else round(value * 1e6, 1) for name, value in found.items()}
