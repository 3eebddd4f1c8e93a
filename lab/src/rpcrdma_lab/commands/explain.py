"""`rpcrdma explain`: each call of a packet capture as a ladder, as text, JSON, or a page for a browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rpcrdma.commands import CommandParser, ExitStatus, add_json, console
from rpcrdma_lab.commands.capture_input import (
    Choice,
    add_choice_options,
    add_input_options,
    open_input,
    settings_for,
    tell_empty,
    tell_what_was_left_out,
)
from rpcrdma_lab.commands.output_file import empty, opened_before_work

if TYPE_CHECKING:
    from rpcrdma_lab.dissect.connection import Settings
    from rpcrdma_lab.dissect.exchanges import Exchange

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma explain demo.pcap
  rpcrdma explain --procedure READ demo.pcap
  rpcrdma explain --errors --json demo.pcap
  rpcrdma explain --html demo.html demo.pcap
  tcpdump -U -s 0 -w - port 20049 | rpcrdma explain
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma explain` to its parser."""
    parser.describe(run, "[FILE]", _EXAMPLES, connects=False)
    add_input_options(parser, "pcap or pcapng")
    add_choice_options(parser)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="PAGE",
        help="write one HTML file that needs no other: ladders, fields and octets of each message, and filters; "
        "- is standard output",
    )
    add_json(parser, "one JSON object for each call, a line each")


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma explain` with parsed arguments, and prints or writes the ladders; returns the exit status.

    The status is PROTOCOL_VIOLATION if any message of the capture, shown or not, breaks a rule other than deliberately,
    else DONE. Wrong options, inputs and definitions give USAGE or FAILED, after the error has been printed.

    Raises:
        CaptureDamaged, AddedExtensionFailed: the capture or the extension is malformed. The calls before the damage
            have been shown.
        KeyboardInterrupt: reading was interrupted. The calls so far have been shown.
        OSError: a file cannot be read or written.
    """
    if args.html is not None and args.json:
        return console.error("--html and --json exclude each other", "run it twice", status=ExitStatus.USAGE)
    settings = settings_for(args)
    if settings is None:
        return ExitStatus.FAILED
    with ExitStack() as stack:
        return _explain(args, settings, open_input(args, stack))


class _Count:
    def __init__(self) -> None:
        self.calls = self.failed = self.faults = self.deliberate = 0

    def through(self, exchanges: Iterator[Exchange]) -> Iterator[Exchange]:
        """Yields the exchanges (the messages of one call each) unchanged; counts calls, failures and broken rules."""
        for exchange in exchanges:
            self.calls += exchange.xid is not None
            self.failed += exchange.failed
            self.faults += len(exchange.faults)
            self.deliberate += len(exchange.deliberate_faults)
            yield exchange


def _explain(args: argparse.Namespace, settings: Settings, file: BinaryIO) -> int:
    from rpcrdma_lab.dissect.capture_dissector import CaptureDissector  # noqa: PLC0415
    from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, capture_form, read_packets  # noqa: PLC0415
    from rpcrdma_lab.dissect.exchanges import Exchanges  # noqa: PLC0415

    start = file.read(MAGIC_OCTETS)
    if not start:
        return tell_empty(args)
    if not capture_form(start):
        hint = "rpcrdma decode takes hex text; a compressed capture must be decompressed first"
        return console.error("the input is neither pcap nor pcapng", hint)
    dissector = CaptureDissector(settings)
    count, choice = _Count(), Choice(args)
    found = count.through(Exchanges().each(dissector.messages(read_packets(file, start))))
    try:
        _show(args, choice.through(found))
    finally:
        tell_what_was_left_out(dissector, dissector.found)
    choice.tell_none()
    if not args.json:
        deliberate = f", {count.deliberate} that a checker broke on purpose" if count.deliberate else ""
        console.talk(
            f"{console.counted(count.calls, 'call')}, {console.counted(count.failed, 'exchange')} that failed, "
            f"{console.counted(count.faults, 'broken rule')}{deliberate}"
        )
    if dissector.damage is not None:
        raise dissector.damage
    return ExitStatus.PROTOCOL_VIOLATION if count.faults else ExitStatus.DONE


def _show(args: argparse.Namespace, exchanges: Iterator[Exchange]) -> None:
    from rpcrdma_lab.dissect.exchange_text import exchange_lines  # noqa: PLC0415

    if args.html is not None:
        _write_page(args, exchanges)
        return
    for exchange in exchanges:
        if args.json:
            console.json_line(exchange.as_json())
        else:
            for line in exchange_lines(exchange):
                console.data(line)


def _write_page(args: argparse.Namespace, exchanges: Iterator[Exchange]) -> None:
    from rpcrdma_lab.dissect.exchange_page import exchange_page  # noqa: PLC0415

    title = "standard input"
    if args.file is not None and str(args.file) != "-":
        title = os.fsencode(args.file.name).decode("utf-8", "backslashreplace")
    if str(args.html) == "-":
        place = "standard output"
        page = exchange_page(title, exchanges)
        console.write(page.text)
    else:
        place = str(args.html)
        with opened_before_work(args.html) as file:
            page = exchange_page(title, exchanges)
            empty(file)
            file.write(page.text.encode())
    if page.left_out:
        left_out = console.counted(page.left_out, "call was", "calls were")
        console.talk(f"warning: {left_out} left out of the page; choose fewer by --procedure or --xid")
    console.talk(f"{place} has {console.counted(page.shown, 'exchange')}")
