"""`rpcrdma completion`: scripts by which shells complete the command line, made from its parser."""

from __future__ import annotations

import argparse

from rpcrdma.cli import console
from rpcrdma.cli.exit_status import ExitStatus
from rpcrdma.cli.options import Subparsers, add_command

__all__ = ["add_parser", "run"]

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
  rpcrdma completion bash > ~/.local/share/bash-completion/completions/rpcrdma
  rpcrdma completion zsh > "${fpath[1]}/_rpcrdma"
  rpcrdma completion fish > ~/.config/fish/completions/rpcrdma.fish
"""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "completion",
        run,
        arguments="SHELL",
        summary="print the completion of this command for a shell",
        examples=_EXAMPLES,
        connects=False,
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="%(choices)s")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    import shtab  # noqa: PLC0415

    from rpcrdma.cli.main import build_parser  # noqa: PLC0415

    console.data(shtab.complete(build_parser(whole=True), shell=args.shell).rstrip("\n"))
    return ExitStatus.DONE
