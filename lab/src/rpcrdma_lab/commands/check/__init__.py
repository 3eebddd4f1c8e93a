"""`rpcrdma check`: judges a server of RPC-over-RDMA by the statements of the specifications."""

from __future__ import annotations

import argparse
from pathlib import Path

from rpcrdma.commands import CommandParser, add_json, service_url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma check rdma://server/export
  rpcrdma check rdma://server/export/file --only 'v1.*' --skip 'v1.read.*' --details
  rpcrdma check rdma://server/export --write scratch --junit report.xml --html report.html
  rpcrdma check rdma://server:4791 --program auction.x
  rpcrdma check --listen rdma://127.0.0.1:20049
  rpcrdma check --list

verdicts:
  conforms, violates a MUST, harms other connections, ignores a SHOULD, differs from our reading (of an unclear text),
  not seen (a condition is missing, which is named), inconclusive; the exit status is 1 after a violation or harm
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma check` to its parser."""
    parser.describe(run, "[URL]", _EXAMPLES)
    add = parser.add_argument
    add(
        "url",
        nargs="?",
        type=service_url,
        metavar="URL",
        help="rdma://HOST[:PORT][/PATH]; PATH leads to an exported directory, or to a file of 5,001 octets or more",
    )
    add(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="run checks whose id matches (*, ?, [...]); may be repeated",
    )
    add("--skip", action="append", default=[], metavar="PATTERN", help="leave out such checks; may be repeated")
    add("--list", action="store_true", help="list the checks with their statements; with --json, their conversations")
    add(
        "--details", action="store_true", help="show the messages of checks that do not conform, as a ladder and in hex"
    )
    add(
        "--listen",
        type=service_url,
        metavar="URL",
        help="judge clients instead: answer their calls there, with a mistake on each connection",
    )
    add(
        "--behind",
        type=service_url,
        metavar="tcp://HOST:PORT",
        help="with --listen: let this server answer the calls over TCP; without it all calls succeed without results",
    )
    add("--write", metavar="DIR", help="make files in this directory of the export, write to them, and remove them")
    add(
        "--risky",
        action="store_true",
        help="also run checks that are known to stop servers: for servers that nobody depends on",
    )
    add("--program", type=Path, metavar="FILE.x", help="call procedure 0 of the program in FILE.x, in place of NFSv3")
    add("--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit XML")
    add("--html", type=Path, metavar="FILE", help="write the report as one HTML file")
    add_json(parser)


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma check` with parsed arguments; returns the exit status, and raises what `judging.judge` raises.

    The status is 0 (DONE), 1 (FAILED) after a violation or harm or for a wrong --program, or 2 (USAGE). Exceptions are
    RpcRdmaError, OSError and, after an interruption of checks of a server, asyncio.CancelledError.
    """
    from rpcrdma_lab.commands.check.judging import judge  # noqa: PLC0415

    return await judge(args)
