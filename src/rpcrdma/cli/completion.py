"""`rpcrdma completion`: scripts by which shells complete the command line, made from its parser."""

from __future__ import annotations

import argparse

from rpcrdma.commands import CommandParser, ExitStatus, console, service_url

__all__ = ["add_arguments", "run"]

_SHELLS = ("bash", "zsh", "fish")
_PATHS = ("FILE", "FILE.svg", "FILE.x", "SPEC.txt", "OUT.x", "OUT.py", "SOURCE", "DEST")
"""The names of local paths in the help; a URL has that as its type."""
_EXAMPLES = """\
  rpcrdma completion bash > ~/.local/share/bash-completion/completions/rpcrdma
  rpcrdma completion zsh > "${fpath[1]}/_rpcrdma"
  rpcrdma completion fish > ~/.config/fish/completions/rpcrdma.fish
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma completion` to `parser`."""
    parser.describe(run, "SHELL", _EXAMPLES, connects=False)
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="%(choices)s")


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma completion`: prints the completion script for the shell `args.shell`; returns the exit status."""
    import shtab  # noqa: PLC0415

    from rpcrdma.cli.main import build_parser  # noqa: PLC0415

    parser = build_parser(whole=True)
    _mark_paths(parser, shtab.FILE, shtab.DIRECTORY)
    console.write(shtab.complete(parser, shell=args.shell).rstrip("\n") + "\n")
    return ExitStatus.DONE


def _mark_paths(parser: argparse.ArgumentParser, files: object, directories: object) -> None:
    """Sets the attribute `complete` of those arguments of `parser` and its subcommands that may be local paths.

    By it shtab makes shells complete them. Its values are `files` (shtab.FILE) for paths of files, and `directories`
    (shtab.DIRECTORY) for those of directories.
    """
    several: list[argparse.Action] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                _mark_paths(command, files, directories)
        elif action.type is service_url or action.nargs == 0:
            continue
        elif action.metavar == "DIR":
            action.complete = directories  # type: ignore[attr-defined]
        elif action.metavar in _PATHS:
            # Shells do not know where the arguments before it end: "get URL ... DEST".
            for either in (action, *several):
                either.complete = files  # type: ignore[attr-defined]
        elif action.nargs == argparse.ONE_OR_MORE and not action.option_strings:
            several.append(action)
