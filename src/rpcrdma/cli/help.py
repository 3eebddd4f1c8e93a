"""`rpcrdma help`: the options of the connection, which the help of each command leaves out."""

from __future__ import annotations

import argparse

from rpcrdma.cli import console
from rpcrdma.cli.console import ExitStatus
from rpcrdma.cli.options import CommandParser, add_shared_options

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma help connection
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the command's arguments."""
    parser.describe(run, "connection", _EXAMPLES, connects=False)
    parser.add_argument("topic", choices=("connection",), help="the options of the connection, and of logging")


def run(_args: argparse.Namespace) -> int:
    """Runs the command."""
    parser = CommandParser(
        prog="rpcrdma",
        usage="rpcrdma [options] COMMAND [options] ...",
        description="The options of all commands that connect to a server, before or after the command's name.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add_shared_options(parser, shown=True)
    console.data(parser.format_help().rstrip("\n"))
    return ExitStatus.DONE
