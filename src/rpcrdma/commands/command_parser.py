"""The argument parser of the command and of its subcommands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rpcrdma.commands import console
from rpcrdma.commands.console import ExitStatus
from rpcrdma.commands.options import add_shared_options

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["CommandParser"]

Run = Callable[[argparse.Namespace], int | Coroutine[Any, Any, int]]
"""A command: from its arguments to the exit status, or a coroutine to be run in an event loop."""


class CommandParser(argparse.ArgumentParser):
    """The parser of a command's arguments; it reports wrong usage as `console.error` reports every error.

    A module of a command has a function `add_arguments`, which gets the command's parser.

    Args:
        args: The arguments of `argparse.ArgumentParser` by position.
        fill: A function that adds the arguments to the parser, which calls it when it first needs them, so that the
            module of a command is imported at the command's first use; None: the caller adds them.
        settings: The arguments of `argparse.ArgumentParser` by name.
    """

    def __init__(self, *args: Any, fill: Callable[[CommandParser], None] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._fill = fill
        self.options_anywhere = False
        """Whether options may stand between arguments of which the last may be left out. Words that begin with a hyphen
        cannot be arguments then, not even behind `--`."""
        self._sorting_out = False
        self.shows_shared = False
        """Whether the help has the options that all commands with a connection share."""

    def fill_in(self) -> None:
        """Calls `fill`, which adds the arguments to the parser; no effect without `fill`, or when repeated."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse passes over errors of the stream.
        if file is None or file is sys.stdout:
            console.write(message, flush=True)
        else:
            super()._print_message(message, file)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses arguments as argparse does, but ends the process with a usage error if arguments are unknown.

        The base class would leave unknown arguments to the parser of the whole command line, whose error names the help
        of that parser. Returns (namespace, empty list).
        """
        self.fill_in()
        if self._sorting_out:
            return super().parse_known_args(args, namespace)
        # This comes back here for the options, and then for the arguments.
        self._sorting_out = self.options_anywhere
        parse = self.parse_known_intermixed_args if self.options_anywhere else super().parse_known_args
        known, unknown = parse(args, namespace)
        self._sorting_out = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def describe(self, run: Run, arguments: str, examples: str, *, connects: bool = True) -> None:
        """Sets the function, the usage and the examples of the command, and adds the options that commands share.

        Args:
            run: The function of the command. It gets the parsed arguments and returns the exit status, or a coroutine
                that returns the exit status.
            arguments: The words of the usage after "[options]"; may be empty.
            examples: Command lines for the end of the help, printed unchanged.
            connects: Whether to add the options of connections beside those of logging.
        """
        self.usage = f"%(prog)s [options] {arguments}".rstrip()
        self.epilog = f"examples:\n{examples.rstrip()}"
        add_shared_options(self, connects=connects, shown=self.shows_shared)
        self.set_defaults(run=run)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001 - has no other name
            from difflib import get_close_matches  # noqa: PLC0415

            near = get_close_matches(value, action.choices, 1)
            hint = f"did you mean {self.prog} {near[0]}?" if near else f"{self.prog} --help lists the commands"
            self.exit(console.error(f"there is no command {value!r}", hint, status=ExitStatus.USAGE))
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        self.exit(console.error(message, f"{self.prog} --help shows how to use it", status=ExitStatus.USAGE))
