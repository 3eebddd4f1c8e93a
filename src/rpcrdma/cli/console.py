"""What the command prints: data on standard output, talk on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "data",
    "error",
    "json_line",
    "prepare",
    "printable",
    "readable_octets",
    "readable_rate",
    "shown",
    "table",
    "talk",
]

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def prepare() -> None:
    """Lets file names that are no UTF-8 pass through unchanged."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="surrogateescape" if stream is sys.stdout else "backslashreplace")


def printable(text: str) -> str:
    """`text` without control characters: names come from peers, and terminals obey escape sequences."""
    return text.translate(_CONTROLS)


def shown(name: str) -> str:
    """A file name for standard output: as it is for programs, without control characters for terminals."""
    return printable(name) if sys.stdout.isatty() else name


def data(line: str) -> None:
    """One line of data."""
    sys.stdout.write(line + "\n")


def json_line(value: Any) -> None:
    """One JSON document on a line of its own, at once: its reader may be waiting."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def talk(line: str) -> None:
    """One line for the person who runs the command."""
    sys.stderr.write(printable(line) + "\n")
    sys.stderr.flush()


def error(message: str, hint: str = "") -> None:
    """What went wrong, and what to do about it."""
    talk(f"error: {message}")
    if hint:
        talk(f"hint: {hint}")


def table(rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), headings: Sequence[str] = ()) -> None:
    """Rows of text in aligned columns, those of `right` to the right; bold headings on a terminal that wants them."""
    body = [list(row) for row in rows]
    every = [list(headings), *body] if headings else body
    if not every:
        return
    widths = [max(len(cell) for cell in column) for column in zip(*every, strict=True)]
    to_right = set(right)
    bold = bool(headings) and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, row in enumerate(every):
        cells = [
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        data(f"\x1b[1m{line}\x1b[0m" if bold and number == 0 else line)


def readable_octets(octets: float) -> str:
    """A size such as 54.2 MB: decimal units, as disks and networks are sold."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if octets < 1000:
            return f"{octets:.0f} bytes" if unit == "bytes" else f"{octets:.1f} {unit}"
        octets /= 1000
    return f"{octets:.1f} TB"


def readable_rate(octets: float, seconds: float) -> str:
    """Octets a second, in readable units."""
    return f"{readable_octets(octets / seconds)}/s" if seconds > 0 else "-"
