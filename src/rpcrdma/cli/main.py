"""The command `rpcrdma`: its parser, and the handling of errors."""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence

from rpcrdma import __version__
from rpcrdma.cli import console
from rpcrdma.cli.console import ExitStatus
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.observation import capturing, telling_metrics
from rpcrdma.cli.options import CommandParser, add_shared_options

__all__ = ["build_parser", "main", "run"]

_COMMANDS = {
    "demo": "export a real file tree, copy it out and back over RDMA, verify and report",
    "serve": "serve directories with NFSv3 over RDMA and TCP",
    "exports": "list the exports of servers",
    "ls": "list directories on a server",
    "stat": "show the attributes of files on a server",
    "df": "show how much space is left on a server",
    "cat": "print files of a server to standard output",
    "get": "copy files and trees from a server",
    "put": "copy files and trees to a server",
    "rm": "remove files on a server",
    "mkdir": "make directories on a server",
    "mv": "rename or move files on one server",
    "watch": "print the changes in a directory on a server as they happen",
    "ping": "measure the round trip of empty calls and show the negotiated terms",
    "stats": "show how many calls a server answers and how long they take",
    "call": "call any remote procedure by its interface definition, with JSON in and out",
    "programs": "list the programs that a server offers, by its port mapper and by asking them",
    "check": "judge a server by the statements of the specifications",
    "roundtrips": "count the round trips, interrupts and registrations of calls in a simulated network",
    "doctor": "check this machine for RDMA and NFS, and name the remedies",
    "decode": "show the messages in a packet capture or in hex text, field by field, with their faults",
    "explain": "show each call in a packet capture as a ladder: its Sends, RDMA Reads and Writes, chunks and credits",
    "send": "say a conversation, message by message, to a server: right ones and deliberately wrong ones",
    "proxy": "forward connections to a server, and delay, drop, change or cut what rules select",
    "xdr": "compile, check and extract XDR interface definitions",
    "help": "show the help of a command, or the options that all commands with a connection share",
    "completion": "print the completion of this command for a shell",
}
"""The commands with their summaries; the module of each is imported when it is chosen, for its `add_arguments`."""

_EPILOG = """\
examples:
  rpcrdma demo
  rpcrdma serve /srv/data
  rpcrdma ls -l rdma://127.0.0.1/
  rpcrdma get rdma://server/home/reports ./reports

exit status:
  0 done, 1 failed, 2 wrong usage, 3 could not connect,
  4 the peer broke the protocol, 130 interrupted, 143 terminated

environment:
  NO_COLOR             no colour
  RPCRDMA_NATIVE=0     do all work in Python, without the module rpcrdma_native
  RPCRDMA_TRACEBACK=1  show the traceback of an error
"""


def build_parser(*, whole: bool = False) -> CommandParser:
    """Makes the parser of the command line; `whole`: with the arguments of all commands, not only the chosen one."""
    parser = CommandParser(
        prog="rpcrdma",
        usage="%(prog)s [options] COMMAND ...",
        description="RPC-over-RDMA on any machine: an NFS server, an NFS client, and tools to test them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    add_shared_options(parser, top=True, shown=whole)
    subparsers = parser.add_subparsers(
        title="commands", prog="rpcrdma", metavar="COMMAND", dest="command", required=True, parser_class=CommandParser
    )
    for name, summary in _COMMANDS.items():
        command = subparsers.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fill=functools.partial(_fill, name),
        )
        command.shows_shared = whole
        if whole:
            command.fill_in()
    return parser


def _fill(name: str, parser: CommandParser) -> None:
    importlib.import_module(f"rpcrdma.cli.{name}").add_arguments(parser)


def run() -> int:
    """Runs `main` in a process of its own.

    Imported modules live until the process ends. Garbage collections that look through them during the imports, and
    several more when the interpreter ends, are a quarter of the cost of a short command.
    """
    gc.disable()
    try:
        return main(when_loaded=_leave_out_what_lives)
    finally:
        # An object that the command has left may have to report when it is collected: a task that still waits.
        gc.collect()
        gc.freeze()


def _leave_out_what_lives() -> None:
    gc.freeze()
    gc.enable()


def main(argv: Sequence[str] | None = None, *, when_loaded: Callable[[], None] = lambda: None) -> int:
    """Runs one command and returns its exit status; errors are printed in a line or two, never as a traceback.

    `when_loaded` is called before the command begins its work.
    """
    console.prepare()
    words = sys.argv[1:] if argv is None else argv
    console.errors_as_json({} if "--json" in words else None)
    try:
        args = build_parser().parse_args(argv)
        console.errors_as_json(args.beside_errors if getattr(args, "json", False) else None)
        _configure_logging(args)
        when_loaded()
        with capturing(args), telling_metrics(args):
            ran = args.run(args)
            status: int = run_async(ran) if isinstance(ran, Coroutine) else ran
        console.write(flush=True)
    except SystemExit:
        raise
    except BrokenPipeError:
        _drop_output()
        return ExitStatus.READER_GONE
    except BaseException as error:  # noqa: BLE001 - users never get a traceback
        if os.environ.get("RPCRDMA_TRACEBACK"):
            traceback.print_exc()
        told = _report(error)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        return told
    finally:
        console.errors_as_json(None)
    return status


def _drop_output() -> None:
    """Drops the output that is not written yet: the interpreter would try to write it once more, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Version(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option_string: str | None = None
    ) -> None:
        del namespace, values, option_string
        console.write(f"rpcrdma {__version__}\n", flush=True)
        parser.exit(ExitStatus.DONE)


def _configure_logging(args: argparse.Namespace) -> None:
    import logging  # noqa: PLC0415

    default = "info" if args.command == "serve" else "warning"
    level = args.log_level or {0: default, 1: "info"}.get(args.verbose, "debug")
    with_time = "%(asctime)s " if args.command == "serve" else ""

    class InOptions(logging.Formatter):
        """Has the command's options in place of the library's parameters."""

        def format(self, record: logging.LogRecord) -> str:
            return console.in_options(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(InOptions(f"{with_time}%(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _report(error: BaseException) -> ExitStatus:
    from rpcrdma.cli.failures import tell  # noqa: PLC0415

    return tell(error)
