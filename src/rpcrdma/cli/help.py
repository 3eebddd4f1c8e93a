"""`rpcrdma help`: the help of each command, and the options of the connection, which that help leaves out."""

from __future__ import annotations

import argparse

from rpcrdma.commands import CommandParser, ExitStatus, console
from rpcrdma.commands.options import add_shared_options

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma help
  rpcrdma help get
  rpcrdma help connection
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma help` to `parser`."""
    parser.describe(run, "[TOPIC]...", _EXAMPLES, connects=False)
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="TOPIC",
        help="a command, or connection: the options of the connection, and of logging (default: all commands)",
    )


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma help`: prints the help on the topic `args.topic`, a list of words; returns the exit status.

    For ["connection"] it prints the options of the connection. Any other topic, or none, is a command line, which is
    run with --help and raises SystemExit: after the help, or after an error for an unknown command.
    """
    if args.topic != ["connection"]:
        from rpcrdma.cli.main import main  # noqa: PLC0415 - it imports this module

        return main([*args.topic, "--help"])
    parser = CommandParser(
        prog="rpcrdma",
        usage="rpcrdma [options] COMMAND [options] ...",
        description="The options of all commands that connect to a server, before or after the command's name.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add_shared_options(parser, shown=True)
    console.write(parser.format_help().rstrip("\n") + "\n")
    return ExitStatus.DONE
