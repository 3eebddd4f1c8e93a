"""Captures as `decode` and `explain` take them: the file, the definitions of programs, and the choice of calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rpcrdma.commands import CommandParser, DefinitionText, ExitStatus, console, own_definition_text, read_text, uint32
from rpcrdma_lab.commands.added_extension import METAVAR, extension_maker

if TYPE_CHECKING:
    from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
    from rpcrdma_lab.dissect.connection import Settings
    from rpcrdma_lab.dissect.exchanges import Exchange

__all__ = [
    "Choice",
    "add_choice_options",
    "add_decoding_options",
    "add_input_options",
    "chooses",
    "open_input",
    "settings_for",
    "tell_empty",
    "tell_what_was_left_out",
]

_PROCEDURES_KNOWN_MAX, _PROCEDURES_TOLD_MAX = 1000, 12
_DEFINITIONS_KNOWN = ("nfs3.x", "mount3.x")


_NFS4 = 100003, 4


def add_input_options(parser: CommandParser, forms: str) -> None:
    """Adds the argument FILE, whose help begins with `forms` (file formats), and --program and --add-extension."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"{forms} (default: standard input)")
    add_decoding_options(parser)


def add_decoding_options(parser: CommandParser) -> None:
    """Adds the options --program and --add-extension of the decoder."""
    parser.add_argument(
        "--program",
        metavar="FILE.x",
        action="append",
        default=[],
        help="read arguments and results of the programs in this definition, too; NFS and MOUNT are known",
    )
    parser.add_argument(
        "--add-extension",
        metavar=METAVAR,
        action="append",
        default=[],
        help="know the header types, properties and errors of the extension of version 2 that the function returns",
    )


def add_choice_options(parser: CommandParser) -> None:
    """Adds the options --xid, --procedure and --errors, which choose calls."""
    parser.add_argument("--xid", type=_xid, metavar="XID", help="only calls with this XID, such as 0x5d2f6c01")
    parser.add_argument("--procedure", metavar="NAME", help="only calls of this procedure, such as READ or NFS_V3 READ")
    parser.add_argument(
        "--errors",
        action="store_true",
        help="only calls that break a rule, are refused, have no answer, or whose result is an error",
    )


def _xid(text: str) -> int:
    return uint32(text, "is no XID: a number of 32 bits, or 0x and up to 8 hex digits")


def chooses(args: argparse.Namespace) -> bool:
    """Returns whether the parsed arguments have --xid, --procedure or --errors, which choose calls."""
    return args.xid is not None or args.procedure is not None or bool(args.errors)


class Choice:
    """The choice of calls by --xid, --procedure and --errors; keeps the procedures seen, to explain an empty choice."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._found = {"xid": False, "procedure": False}
        self._procedures: dict[str, None] = {}

    def through(self, exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
        """Yields the exchanges (the messages of one call each) that the options choose, in order."""
        for exchange in exchanges:
            if self._fits(exchange) and (not self._args.errors or exchange.failed):
                yield exchange

    def _fits(self, exchange: Exchange) -> bool:
        args = self._args
        procedure = exchange.procedure
        if procedure is not None and len(self._procedures) < _PROCEDURES_KNOWN_MAX:
            own = procedure.rpartition(" ")[2]
            self._procedures[procedure if own.isdecimal() else own] = None
        fits = {
            "xid": args.xid is None or exchange.xid == args.xid,
            "procedure": args.procedure is None or exchange.is_of(args.procedure),
        }
        for name, does in fits.items():
            self._found[name] |= does
        return all(fits.values())

    def tell_none(self) -> None:
        """Prints a warning if no call had the XID of --xid, and one, with the procedures seen, if none had --procedure.

        The caller has iterated over all exchanges with `through` before.
        """
        args = self._args
        if args.xid is not None and not self._found["xid"]:
            console.talk(f"warning: no call with XID {args.xid:#010x}")
        if args.procedure is not None and not self._found["procedure"]:
            names = sorted(self._procedures)
            more = f" and {len(names) - _PROCEDURES_TOLD_MAX} more" if len(names) > _PROCEDURES_TOLD_MAX else ""
            told = f"; there are {', '.join(names[:_PROCEDURES_TOLD_MAX])}{more}" if names else ""
            console.talk(f"warning: no call of {args.procedure}{told}")


def settings_for(args: argparse.Namespace) -> Settings | None:
    """Returns settings of the decoder: the program definitions and extensions of --program and --add-extension.

    The definitions of NFS and MOUNT are included. Returns None if a file of --program cannot be read, is wrong or
    defines no program; the error has been printed then.

    Raises:
        AddedExtensionFailed: --add-extension names no function that makes an extension.
    """
    from rpcrdma.xdr.language import LanguageError  # noqa: PLC0415
    from rpcrdma_lab.dissect.connection import Settings  # noqa: PLC0415
    from rpcrdma_lab.dissect.rpc_body import Interfaces  # noqa: PLC0415

    interfaces = Interfaces(_DEFINITIONS_KNOWN)
    interfaces.add_when_met(*_NFS4, lambda: own_definition_text("nfs4.x"), "nfs4.x")
    for file in args.program:
        text = read_text(file)
        if text is None:
            return None
        source = DefinitionText(file, text)
        try:
            versions = interfaces.add(text, source.name)
        except LanguageError as error:
            source.show(error.diagnostics)
            console.error(f"{file}: the definition cannot be read", f"rpcrdma xdr lint {file} tells more")
            return None
        if not versions:
            console.error(f"{file} defines no program", "name the definition that has the program")
            return None
    return Settings(interfaces, [extension_maker(words)() for words in args.add_extension])


def open_input(args: argparse.Namespace, stack: ExitStack) -> BinaryIO:
    """Returns the file of the argument FILE, which `stack` closes, or standard input if FILE is missing or "-".

    Raises:
        OSError: the file cannot be opened.
    """
    if args.file is None or str(args.file) == "-":
        return sys.stdin.buffer
    return stack.enter_context(args.file.open("rb"))  # type: ignore[no-any-return]


def tell_empty(args: argparse.Namespace) -> ExitStatus:
    """Prints the error that the input of the argument FILE is empty; returns the exit status FAILED."""
    name = "standard input" if args.file is None or str(args.file) == "-" else args.file
    return console.error(f"{name} is empty", "tcpdump writes a capture when it ends, and with -U at once")


def tell_what_was_left_out(dissector: CaptureDissector, messages: int) -> None:
    """Prints warnings of packets of unknown link types, of truncated packets, and one if 0 `messages` were found."""
    if dissector.link_types_unknown:
        kinds = ", ".join(map(str, sorted(dissector.link_types_unknown)))
        console.talk(
            f"warning: packets of link type {kinds} were left out; known are Ethernet, Linux cooked and raw IP"
        )
    if dissector.cut_packets:
        cut = console.counted(dissector.cut_packets, "packet was", "packets were")
        console.talk(f"warning: {cut} cut off when captured; tcpdump -s 0 takes them whole")
    if not messages:
        console.talk(
            f"warning: neither iWARP nor RoCEv2 in {console.counted(dissector.packets, 'packet')} "
            f"({dissector.segments} of TCP, {dissector.roce_packets} to UDP port 4791); "
            "an RDMA adapter's traffic does not pass through the kernel, and is not seen by tcpdump"
        )
