"""`rpcrdma mkdir`: makes directories on a server."""

from __future__ import annotations

import argparse

from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.commands import CommandParser, add_json, console, service_url
from rpcrdma.commands.arguments import octal_mode

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma mkdir rdma://server/home/reports
  rpcrdma mkdir -p -m 750 rdma://server/home/reports/2026/11
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma mkdir` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument(
        "-p", dest="parents", action="store_true", help="make missing parents; accept existing directories"
    )
    parser.add_argument(
        "-m", dest="mode", type=octal_mode, default=0o755, metavar="MODE", help="permissions in octal (default: 755)"
    )
    add_json(parser, "one JSON object a line for each URL that is a directory now")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma mkdir`: makes the directories at the URLs `args.url`; returns the exit status.

    An error about one URL (OSError or UserAuthenticationFailed) is printed, and the next URL follows. Raises
    RpcRdmaError if a connection fails.
    """
    failures = Failures()
    async with Servers(args, failures) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                try:
                    await filesystem.mkdir(path, args.mode, exist_ok=args.parents, parents=args.parents)
                except FileNotFoundError as error:
                    error.add_note("-p makes missing parents")
                    raise
                if args.json:
                    console.json_line({"made": str(url)})
    return failures.status
