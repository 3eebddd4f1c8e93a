"""`rpcrdma doctor`: checks this machine, and a server, for RPC-over-RDMA, and names remedies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.commands import CommandParser, add_json, service_url
from rpcrdma.commands.arguments import is_url

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma doctor
  rpcrdma doctor server
  rpcrdma doctor --json rdma://server:20049

marks:
  ok       works
  note     works, but there is something to know
  problem  does not work; the exit status is 1 then, or 3 if no server answers
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma doctor` to `parser`."""
    parser.describe(run, "[HOST|URL]", _EXAMPLES)
    parser.add_argument(
        "url",
        nargs="?",
        type=_place,
        metavar="HOST|URL",
        help="check the path to this server as well, and whether it answers",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="read the system's files below DIR, for example of a host that is mounted in a container (default: /)",
    )
    add_json(parser)


def _place(text: str) -> Url:
    return service_url(text if is_url(text) else f"rdma://{text}")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma doctor`: checks this machine, and the server at `args.url` if that is not None.

    Prints the findings; returns the exit status, which is not DONE if one is a problem.
    """
    from rpcrdma.cli.doctor.examination import examine  # noqa: PLC0415

    return await examine(args)
