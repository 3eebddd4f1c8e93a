"""`rpcrdma decode`: shows hex text or a packet capture as annotated messages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from rpcrdma.commands import CommandParser, ExitStatus, add_json, console
from rpcrdma_lab.commands.capture_input import (
    Choice,
    add_choice_options,
    add_input_options,
    chooses,
    open_input,
    settings_for,
    tell_empty,
    tell_what_was_left_out,
)

if TYPE_CHECKING:
    from rpcrdma_lab.dissect.connection import Settings
    from rpcrdma_lab.dissect.fields import Field, Message

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma decode demo.pcap
  rpcrdma decode --brief --faults demo.pcap
  rpcrdma decode --procedure READ demo.pcap
  tcpdump -U -s 0 -w - port 20049 | rpcrdma decode --json
  xxd -p header.bin | rpcrdma decode
  rpcrdma decode --lua > ~/.local/lib/wireshark/plugins/rpcrdma2.lua
"""
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
_NAME_COLUMNS = 24


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma decode` to its parser."""
    parser.describe(run, "[FILE]", _EXAMPLES, connects=False)
    add_input_options(parser, "pcap, pcapng, or hex text: digits, or a dump of xxd, hexdump -C or od -t x1")
    parser.add_argument(
        "--iwarp", action="store_true", help="hex text is one direction of an iWARP connection (default: one message)"
    )
    add_choice_options(parser)
    parser.add_argument("--brief", action="store_true", help="one line for each message, without its fields")
    parser.add_argument("--faults", action="store_true", help="only messages with faults")
    parser.add_argument(
        "--lua", action="store_true", help="print the dissector of version 2 for Wireshark and tshark, and read nothing"
    )
    add_json(parser, "one JSON object for each message, a line each")


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma decode` with parsed arguments, and prints the messages; returns the exit status.

    The status is PROTOCOL_VIOLATION if any message of the input has faults, shown or not, else DONE. It is FAILED,
    after the error has been printed, for a wrong definition, and for an input that is empty, compressed, or neither a
    capture nor hex text. With --lua prints the Wireshark dissector, and reads nothing.

    Raises:
        CaptureDamaged, KeyboardInterrupt: the capture is malformed, or reading it was interrupted. The messages before
            have been printed.
        AddedExtensionFailed: --add-extension names no function that makes an extension.
        OSError: the file cannot be read.
    """
    if args.lua:
        from rpcrdma_lab.dissect.headers import header_versions  # noqa: PLC0415
        from rpcrdma_lab.dissect.wireshark import lua_dissector  # noqa: PLC0415

        console.write(lua_dissector(header_versions()["2"]))
        return ExitStatus.DONE
    settings = settings_for(args)
    if settings is None:
        return ExitStatus.FAILED
    with ExitStack() as stack:
        return _decode(args, settings, open_input(args, stack))


@dataclass(slots=True)
class _Count:
    messages: int = 0
    faulty: int = 0


def _decode(args: argparse.Namespace, settings: Settings, file: BinaryIO) -> int:
    from rpcrdma_lab.dissect.capture_dissector import CaptureDissector  # noqa: PLC0415
    from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, capture_form, read_packets  # noqa: PLC0415
    from rpcrdma_lab.dissect.hex_text import (  # noqa: PLC0415
        TEXT_MAX,
        NotHex,
        hex_messages,
        read_hex,
    )

    start = file.read(MAGIC_OCTETS)
    if not start:
        return tell_empty(args)
    count = _Count()
    damage = None
    if form := capture_form(start):
        _say_input(args, f"a packet capture ({form})")
        dissector = CaptureDissector(settings)
        try:
            _show(args, dissector.messages(read_packets(file, start)), count)
        finally:
            tell_what_was_left_out(dissector, count.messages)
        damage = dissector.damage
    else:
        if start[:2] in _COMPRESSED or start in _COMPRESSED:
            return console.error(
                "the input is compressed", "decompress it first, for example with gunzip -c or zstd -dc"
            )
        data = start + file.read(TEXT_MAX)
        if b"\0" in data:
            hint = "the octets of one message become hex text by: xxd -p FILE | rpcrdma decode"
            return console.error("the input is neither pcap, pcapng nor hex text", hint)
        try:
            found = read_hex(data.decode("ascii", "replace"))
        except NotHex as error:
            cause, _, hint = error.message.partition("; ")
            return console.error(f"the input is neither pcap, pcapng nor hex text: {cause}", hint)
        what = "an iWARP stream" if args.iwarp else "an RPC-over-RDMA message"
        _say_input(args, f"{found.form}, {len(found.octets)} octets of {what}")
        _show(args, hex_messages(found.octets, settings, iwarp=args.iwarp), count)
    if not args.json:
        console.talk(f"{console.counted(count.messages, 'message')}, {count.faulty} with something wrong")
    if damage is not None:
        raise damage
    return ExitStatus.PROTOCOL_VIOLATION if count.faulty else ExitStatus.DONE


def _say_input(args: argparse.Namespace, what: str) -> None:
    if args.json:
        console.json_line({"input": what})
    else:
        console.talk(f"input: {what}")


def _show(args: argparse.Namespace, messages: Iterator[Message], count: _Count) -> None:
    for message in _chosen(args, _counted(messages, count)) if chooses(args) else _counted(messages, count):
        if args.faults and not message.faults:
            continue
        if args.json:
            console.json_line(message.as_json())
        else:
            _print(message, brief=args.brief)


def _counted(messages: Iterator[Message], count: _Count) -> Iterator[Message]:
    for message in messages:
        count.messages += 1
        count.faulty += bool(message.faults)
        yield message


def _chosen(args: argparse.Namespace, messages: Iterator[Message]) -> Iterator[Message]:
    """Yields all messages of each call that --xid, --procedure and --errors choose, one call after the other.

    With --errors alone, also the messages of a connection outside of calls, if one of them reports an error or breaks a
    rule. At the end prints a warning if no call had that XID or procedure.
    """
    from rpcrdma_lab.dissect.exchanges import Exchanges  # noqa: PLC0415

    choice = Choice(args)
    for exchange in choice.through(Exchanges().each(messages)):
        yield from exchange.messages
    choice.tell_none()


def _print(message: Message, *, brief: bool) -> None:
    place = "" if message.time_s is None else f" {message.time_s:.6f}"
    place += f" {message.source} > {message.destination}" if message.source else ""
    notes = f" ({'; '.join(message.notes)})" if brief and message.notes else ""
    console.data(f"#{message.number}{place} {message.summary}{notes}")
    if not brief:
        for note in message.notes:
            console.data(f"  {note}")
    for fault in message.faults:
        console.data(f"  wrong: {fault}")
    if not brief:
        for group in message.groups:
            console.data(f"  {group.name}")
            _print_fields(group.fields, 1)


def _print_fields(fields: list[Field], level: int) -> None:
    for field in fields:
        indent = "  " * (level - 1)
        section = f" [{field.section}]" if field.section and (field.meaning or field.faults) else ""
        about = f"{field.meaning}{section}"
        line = f"  {field.offset:>6} {field.size:>5}  {indent}{field.name:<{_NAME_COLUMNS - 2 * level}} {field.shown}"
        line += f"  {about}" if about else ""
        line += "".join(f"  <-- wrong: {fault}" for fault in field.faults)
        console.data(line.rstrip())
        _print_fields(field.fields, level + 1)
