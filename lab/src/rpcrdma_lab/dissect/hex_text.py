"""Hex text: plain digits, or a dump of `xxd`, `hexdump -C`, `od -t x1` or Wireshark with offsets; and its messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma.errors import RpcRdmaError
from rpcrdma_lab import limits
from rpcrdma_lab.dissect.connection import IwarpConnection, Settings, cut_off
from rpcrdma_lab.dissect.fields import Message

__all__ = ["TEXT_MAX", "HexText", "NotHex", "hex_messages", "read_hex"]

TEXT_MAX = 5 * limits.DISSECTED_MESSAGE_OCTETS_MAX
"""The most characters of hex text that are accepted: a dump has about five for each octet."""

_COMMENT = re.compile(r"#.*")
_PREFIX = re.compile(r"(?:0x|\\x)(?=[0-9a-fA-F]{2})")
_GROUP = re.compile(r"[0-9a-fA-F]+")
_ROW_OCTETS = 16
_PLAIN = re.compile(r"[\s,|:]+")


class NotHex(RpcRdmaError):
    """Raised when text is neither hex digits nor a known form of hex dump, or is too long."""


class HexText(NamedTuple):
    """The octets of a hex text, and the name of the text's format, such as "hex digits" or "a dump of xxd"."""

    octets: bytes
    form: str


def read_hex(text: str) -> HexText:
    """Decodes hex digits or a hex dump; returns the octets, and the name of the format, such as "a dump of xxd".

    Text after `#` is a comment; digits may be grouped by spaces, commas, colons and `|`, and groups may begin with 0x.
    If the offsets of the lines do not rise with the octets, the text is no dump, and is decoded as digits.

    Raises:
        NotHex: there are no digits, half an octet, or more than `TEXT_MAX` characters or
            `limits.DISSECTED_MESSAGE_OCTETS_MAX` octets; a line is neither digits nor a line of a dump; or the dump has
            16-bit words.
    """
    if len(text) > TEXT_MAX:
        raise NotHex(f"more than {TEXT_MAX} characters of hex text; use a capture")
    lines = [_COMMENT.sub("", line).rstrip() for line in text.splitlines()]
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not filled:
        raise NotHex("there is no hex digit in the input")
    dump = _read_dump(filled)
    if dump is not None:
        return dump
    digits = []
    for number, line in filled:
        plain = _PLAIN.sub("", _PREFIX.sub("", line.strip().strip("\"'")))
        if not re.fullmatch(r"[0-9a-fA-F]*", plain):
            found = re.search(r"[^0-9a-fA-F]", plain)
            assert found is not None
            raise NotHex(
                f"line {number}: {found[0]!r} is no hex digit; write octets as hex, or give a dump of xxd or hexdump -C"
            )
        digits.append(plain)
    joined = "".join(digits)
    if len(joined) % 2:
        raise NotHex(f"{len(joined)} hex digits are no whole octets; one is missing or too many")
    return HexText(_bounded(bytes.fromhex(joined)), "hex digits")


def _bounded(octets: bytes) -> bytes:
    if len(octets) > limits.DISSECTED_MESSAGE_OCTETS_MAX:
        raise NotHex(f"{len(octets)} octets, hex text may have {limits.DISSECTED_MESSAGE_OCTETS_MAX}; use a capture")
    return octets


def _read_dump(lines: list[tuple[int, str]]) -> HexText | None:
    """Decodes a dump with offsets; returns None if the offsets of the lines do not fit the octets in the lines.

    `lines` has (number, text) of each line.

    Raises:
        NotHex: the dump has 16-bit words, or too many octets.
    """
    for form in _FORMS:
        octets = _with_offsets([line for _, line in lines], form)
        if octets is not None:
            if form.words:
                raise NotHex("16-bit words in the order of some machine; dump octets instead: hexdump -C, or od -t x1")
            return HexText(_bounded(octets), form.name)
    return None


class _Form(NamedTuple):
    name: str
    offset: re.Pattern[str]
    base: int
    digits: frozenset[int]
    """The allowed numbers of digits in a group."""
    words: bool = False
    one_column: bool = False


_FORMS = (
    _Form("a dump of xxd", re.compile(r"\s*([0-9a-fA-F]{4,}):"), 16, frozenset({2, 4, 8, 16}), one_column=True),
    # First, since lines that are left out may fit to offsets of both kinds; others than od write more or fewer digits.
    _Form("a dump with octal offsets", re.compile(r"\s*([0-7]{7})(?:\s+|$)"), 8, frozenset({2})),
    _Form("a dump with offsets", re.compile(r"\s*([0-9a-fA-F]{4,})(?:\s+|$)"), 16, frozenset({2})),
    _Form("words", re.compile(r"\s*([0-9a-fA-F]{7})(?:\s+|$)"), 16, frozenset({4}), words=True),
    _Form("words", re.compile(r"\s*([0-7]{7})(?:\s+|$)"), 8, frozenset({4}), words=True),
)


def _with_offsets(lines: list[str], form: _Form) -> bytes | None:
    octets = bytearray()
    start: int | None = None
    row: bytes | None = None
    for position, line in enumerate(lines):
        if row and line.strip() == "*":
            continue
        found = form.offset.match(line)
        if found is None:
            return None
        offset = int(found[1], form.base)
        start = offset if start is None else start
        if row and lines[position - 1].strip() == "*" and offset - start <= limits.DISSECTED_MESSAGE_OCTETS_MAX:
            # For lines like the one before them.
            octets += row * ((offset - start - len(octets)) // len(row))
        if offset != start + len(octets):
            return None
        rest = line[found.end() :].strip()
        if not rest:
            # The last line of hexdump and od is an offset without octets.
            return bytes(octets) if position == len(lines) - 1 and position else None
        row = _row(rest, form)
        if row is None:
            return None
        octets += row
    return bytes(octets)


def _row(rest: str, form: _Form) -> bytes | None:
    """Returns the octets of a dump line without its text column; None if there are none.

    `rest` is the line after its offset, and `form` the format of the dump.
    """
    octets = bytearray()
    # hexdump -C has a bar before the characters, the others two spaces or more.
    for column in re.split(r"\s{2,}", rest.partition("|")[0]):
        groups = column.split()
        if not groups or not all(len(group) in form.digits and _GROUP.fullmatch(group) for group in groups):
            break
        octets += bytes.fromhex("".join(groups))
        if len(octets) >= _ROW_OCTETS or form.one_column:
            break
    return bytes(octets) or None


def hex_messages(octets: bytes, settings: Settings, *, iwarp: bool) -> Iterator[Message]:
    """Yields the decoded messages in octets that have no packet headers, numbered from 1 on.

    If a stream ends within a frame, a message about the unfinished frame is the last one.

    Args:
        octets: one RPC-over-RDMA message or, with `iwarp`, one direction of an MPA stream.
        settings: the settings of the decoder.
        iwarp: whether the octets are an MPA stream, which begins with a start-up frame or with an FPDU.
    """
    if not iwarp:
        message = Message("rpcrdma", "", number=1)
        conversation = settings.conversation()
        conversation.late = True
        conversation.send(0, octets, message)
        yield message
        return
    connection = IwarpConnection(settings)
    connection.halves[0].expect_fpdus_unless_startup(octets)
    number = 0
    for message in connection.feed(0, octets):
        number += 1
        message.number = number
        connection.finish(0, message)
        yield message
    rest = cut_off(connection.halves[0])
    if rest is not None:
        rest.number = number + 1
        yield rest
