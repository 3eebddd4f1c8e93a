"""The command `rpcrdma`: its parser, and the handling of errors."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TextIO

from rpcrdma import __version__
from rpcrdma.cli.command_table import OF_LAB, OWN, added_commands
from rpcrdma.cli.event_loop import holding_hang_ups, run_async
from rpcrdma.cli.observation import capturing, telling_metrics
from rpcrdma.commands import CommandParser, ExitStatus, console
from rpcrdma.commands.options import SHARED_DEFAULTS, add_shared_options, log_level

__all__ = ["build_parser", "main", "run"]

_EPILOG = """\
examples:
  rpcrdma demo
  rpcrdma serve /srv/data
  rpcrdma ls -l rdma://127.0.0.1/
  rpcrdma get rdma://server/home/reports ./reports

exit status:
  0 done, 1 failed, 2 wrong usage, 3 could not connect,
  4 one side broke the protocol, 130 interrupted, 143 terminated

environment:
  NO_COLOR             no colour
  RPCRDMA_NATIVE=0     do all work in Python, without the module rpcrdma_native
  RPCRDMA_TRACEBACK=1  show the traceback of an error
"""


_OTHER_NAMES = {"cp": "get or rpcrdma put", "rmdir": "rm -r", "showmount": "exports"}
"""What does the work of commands of the system that have no namesake here."""


class _CommandLine(CommandParser):
    """The parser of the command line `rpcrdma`; commands of other distributions are added for help and unknown words.

    Args:
        shows_all: whether it has all commands from the start, with their arguments and all options in their helps.
    """

    def __init__(self, *, shows_all: bool) -> None:
        super().__init__(
            prog="rpcrdma",
            usage="%(prog)s [options] COMMAND ...",
            description="RPC-over-RDMA on any machine: an NFS server, an NFS client, and tools to test them.",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument(
            "--version", action="version", version=f"rpcrdma {__version__}", help="print the version and exit"
        )
        add_shared_options(self, top=True, shown=shows_all)
        self._shows_all = shows_all
        self._commands = self.add_subparsers(
            title="commands",
            prog="rpcrdma",
            metavar="COMMAND",
            dest="command",
            required=True,
            parser_class=CommandParser,
        )
        for word, summary in OWN.items():
            self._add(word, f"rpcrdma.cli.{word}", summary)
        self._has_added = False
        if shows_all:
            self._add_others()

    def _add(self, word: str, module: str, summary: str) -> None:
        command = self._commands.add_parser(
            word,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fill=functools.partial(_fill, module),
        )
        command.shows_shared = self._shows_all
        if self._shows_all:
            command.fill_in()

    def _add_others(self) -> None:
        if not self._has_added:
            self._has_added = True
            for word, (module, summary) in added_commands().items():
                self._add(word, module, summary)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses the arguments `args`, and fills in the defaults of shared options; returns (namespace, empty list).

        `args` None: those of the process. `namespace` None: a new one. The namespace's `on_command_line` has the names
        of the attributes that were set before these defaults. Wrong usage is reported, and ends the process.
        """
        known, unknown = super().parse_known_args(args, namespace)
        known.on_command_line = frozenset(vars(known))
        for name in SHARED_DEFAULTS.keys() - known.on_command_line:
            setattr(known, name, SHARED_DEFAULTS[name])
        return known, unknown

    def format_help(self) -> str:
        self._add_others()
        return super().format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action is self._commands and value not in self._commands.choices:
            self._add_others()
            if value in OF_LAB and value not in self._commands.choices:
                hint = "in a checkout of rpcrdma: pip install ./lab"
                self.exit(console.error(f"{value} is a command of rpcrdma-lab", hint, status=ExitStatus.USAGE))
        if action is self._commands and value not in self._commands.choices and value in _OTHER_NAMES:
            hint = f"that is rpcrdma {_OTHER_NAMES[value]}"
            self.exit(console.error(f"there is no command {value!r}", hint, status=ExitStatus.USAGE))
        super()._check_value(action, value)


def build_parser(*, whole: bool = False) -> CommandParser:
    """Returns the parser of the command line `rpcrdma`.

    Args:
        whole: whether it has all commands with their arguments from the start; else, when it parses a command line, it
            adds the arguments of the command that the line names.
    """
    return _CommandLine(shows_all=whole)


def _fill(module: str, parser: CommandParser) -> None:
    importlib.import_module(module).add_arguments(parser)


def run() -> int:
    """Runs `main` as the only work of this process, and returns its exit status; avoids garbage collections.

    Imported modules live until the process ends. Garbage collections that look through them during the imports, and
    several more when the interpreter ends, are a quarter of the cost of a short command. So collection is disabled
    until the command begins its work, and then ignores the objects that exist; after the work it runs once, and then
    ignores all objects that are left.
    """
    gc.disable()
    try:
        try:
            return main(when_loaded=_leave_out_what_lives)
        finally:
            # An object that the command has left may have to report when it is collected: a task that still waits.
            gc.collect()
            gc.freeze()
    except KeyboardInterrupt:
        # The interrupt came after the work, or while an earlier interrupt was being reported.
        return ExitStatus.INTERRUPTED
    finally:
        # What a terminal that is gone has not taken stays there, and its loss is no failure of the command.
        _flush(sys.stderr)


def _leave_out_what_lives() -> None:
    gc.freeze()
    gc.enable()


def main(argv: Sequence[str] | None = None, *, when_loaded: Callable[[], None] = lambda: None) -> int:
    """Runs one command of `rpcrdma` and returns its exit status; errors are printed in a line or two, not raised.

    `argv` are the arguments, None for those of the process. `when_loaded` is called before the command begins its work,
    when the arguments are parsed. Sets up the standard streams and the logging of this process, which stay so.

    Raises:
        SystemExit: the parser has ended the command, after --help or wrong usage.
    """
    console.prepare()
    words = sys.argv[1:] if argv is None else argv
    console.errors_as_json({} if "--json" in words else None)
    try:
        with contextlib.ExitStack() as stack:
            if "serve" in words:
                # Before the slow imports of a server.
                stack.enter_context(holding_hang_ups())
            args = build_parser().parse_args(argv)
            serves = args.command == "serve"
            if not serves:
                stack.close()
            console.errors_as_json(args.beside_errors if getattr(args, "json", False) else None)
            _configure_logging(args)
            when_loaded()
            if not serves:
                # A server that cannot start leaves the file to the one that runs.
                stack.enter_context(capturing(args))
            stack.enter_context(telling_metrics(args))
            ran = args.run(args)
            status: int = run_async(ran) if isinstance(ran, Coroutine) else ran
        console.write(flush=True)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - users never get a traceback
        if isinstance(error, BrokenPipeError) and console.is_of_output(error):
            _drop(sys.stdout)
            return ExitStatus.READER_GONE
        if os.environ.get("RPCRDMA_TRACEBACK"):
            import traceback  # noqa: PLC0415

            traceback.print_exc()
        from rpcrdma.commands.failures import tell  # noqa: PLC0415

        status = tell(error)
        _flush(sys.stdout)
    finally:
        console.errors_as_json(None)
    return status


def _flush(stream: TextIO) -> None:
    """Flushes a standard stream; drops what it refuses."""
    try:
        stream.flush()
    except OSError:
        _drop(stream)


def _drop(stream: TextIO) -> None:
    """Redirects a standard stream to /dev/null, lest the interpreter tries to write the rest once more and complains.

    The interpreter's own status would be 120 then.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _configure_logging(args: argparse.Namespace) -> None:
    import logging  # noqa: PLC0415

    in_journal = console.in_journal()
    # The journal has time and priority of its own.
    with_time = "%(asctime)s " if args.command == "serve" else ""

    class InOptions(logging.Formatter):
        """Formats records; parameters of the library become options (--tls-key); for the journal, adds the priority."""

        def format(self, record: logging.LogRecord) -> str:
            text = console.in_options(super().format(record))
            return console.journal_lines(text, getattr(record, "priority", record.levelno)) if in_journal else text

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(InOptions("%(message)s" if in_journal else f"{with_time}%(levelname)s %(message)s"))
    logging.basicConfig(level=log_level(args), handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
