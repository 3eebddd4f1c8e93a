"""The lines of the keys of a TOML document, which `tomllib` does not keep."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import Final, TypeAlias

from rpcrdma.file_limits import CONFIGURATION_KEY_NAMES_MAX

__all__ = ["KeyPath", "key_lines", "line_of", "line_of_long_key"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value; after the name of an array of tables follows the index of the item."""

_KEY: Final = re.compile(r"""[ \t]*(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_SKIPPED: Final = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[\[\]{}]|\n|[^"'#\[\]{}\n]+''',
    re.DOTALL,
)
"""A piece of a value: a text, a comment, a bracket, the end of a line, or anything else."""
# Python before 3.11.5 does not go back where a group with a possessive quantifier fails midway (its issue 106052): this
# one fails at a character that nothing behind it matches, others need an ordinary quantifier.
_TEXTS_AND_NUMBERS: Final = r"""(?:"[^"\\\n]*+"(?!")|[^"'#\[\]{}\n]++)*+"""
_USUAL_LINE: Final = re.compile(
    rf"(?:[ \t]*+([A-Za-z0-9_-]++)[ \t]*+={_TEXTS_AND_NUMBERS}(?:\[{_TEXTS_AND_NUMBERS}\][ \t]*+)?|[ \t]*+)"
    r"(?:#[^\n]*+)?(?:\n|\Z)"
)
"""A line that is empty, or has a key of one name and all of its value, at most one list of texts or numbers."""
_HEADER: Final = re.compile(r"[ \t]*(\[\[?)")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Returns the number, from 1, of the first line of each table and key of a TOML document, by its path.

    A path has the names from the top of the document down; the name of an array of tables is followed by the index,
    from 0, of one of its tables. Keys within an inline table have no entry.

    Args:
        text: a document that `tomllib` accepts, whose lines end with a line feed.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    items: Counter[KeyPath] = Counter()
    at, line = 0, 1
    while at < len(text):
        # Nearly all lines: piece by piece they take several times as long.
        if (usual := _USUAL_LINE.match(text, at)) is not None:
            if usual[1] is not None:
                lines.setdefault((*table, usual[1]), line)
            at, line = usual.end(), line + 1
            continue
        opened = _HEADER.match(text, at)
        if opened is not None:
            names, at = _names(text, opened.end())
            table = _below(names, items)
            if opened[1] == "[[":
                items[table] += 1
                table = (*table, items[table] - 1)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], line)
        elif _KEY.match(text, at) is not None:
            names, at = _names(text, at)
            for length in range(1, len(names) + 1):
                lines.setdefault((*table, *names[:length]), line)
        at, passed = _after_value(text, at)
        line += passed
    return lines


def line_of_long_key(text: str) -> int | None:
    """Returns the number, from 1, of the first line with too many dots for a key; None without such a line.

    `CONFIGURATION_KEY_NAMES_MAX` (64) dots are too many. Dots in quoted texts and in comments are not counted; those in
    numbers are.

    Args:
        text: any text, TOML or not; the search ends at a quotation mark that is not closed.
    """
    if max(line.count(".") for line in text.split("\n")) < CONFIGURATION_KEY_NAMES_MAX:
        return None
    at, line, dots = 0, 1, 0
    while (piece := _SKIPPED.match(text, at)) is not None:
        at, word = piece.end(), piece[0]
        if word[0] not in "\"'#":
            dots += word.count(".")
            if dots >= CONFIGURATION_KEY_NAMES_MAX:
                return line
        if (lines := word.count("\n")) > 0:
            line, dots = line + lines, 0
    return None


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """Returns the line number, from 1, of the key at `path`, or of the nearest key or table above it that has one.

    Returns 1 if none has. `lines` is the result of `key_lines`. A path has the names from the top of the document down,
    with the index, from 0, of one of its tables behind the name of an array.
    """
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _names(text: str, at: int) -> tuple[list[str], int]:
    """Reads a dotted key from index `at` of `text`; returns (names without quotes, index behind the key)."""
    names: list[str] = []
    while (found := _KEY.match(text, at)) is not None:
        word, at = found[0].strip(), found.end()
        # A quoted name has the escapes of a text.
        names.append(tomllib.loads(f"name = {word}")["name"] if word[0] in "\"'" else word)
        if not text.startswith(".", at):
            break
        at += 1
    return names, at


def _below(names: list[str], items: Counter[KeyPath]) -> KeyPath:
    """Returns the path of the table whose header has `names`, with the index of the newest table of each array.

    `items` has the number of tables that each array of tables has so far, by path. The last name gets no index.
    """
    path: KeyPath = ()
    for number, name in enumerate(names, 1):
        path = (*path, name)
        if number < len(names) and items[path]:
            path = (*path, items[path] - 1)
    return path


def _after_value(text: str, at: int) -> tuple[int, int]:
    """Skips from index `at` to the end of a value's last line; returns (index behind it, number of line feeds)."""
    depth = passed = 0
    while at < len(text):
        piece = _SKIPPED.match(text, at)
        assert piece is not None, "the document is no TOML"
        at = piece.end()
        passed += piece[0].count("\n")
        depth += (piece[0] in "[{") - (piece[0] in "]}")
        if piece[0] == "\n" and depth <= 0:
            break
    return at, passed
