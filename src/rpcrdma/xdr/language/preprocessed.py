"""The output of a C preprocessor for an interface definition, with the file and line of origin of each line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rpcrdma.file_limits import XDR_LINE_NUMBER_MAX
from rpcrdma.xdr.language.diagnostics import Diagnostic, SourceSpan

__all__ = ["Located", "Origin", "Preprocessed", "read_preprocessed"]

_MARKER = re.compile(r'#(?:line)?\s+(\d+)(?:\s+"((?:[^"\\]|\\.)*)")?')
"""`# LINE "FILE" FLAGS`: the next line is that line of that file."""
_ESCAPE = re.compile(r"\\(.)")


class Origin(NamedTuple):
    """A line of a source file: the file's name, and the number of the line, counted from 1."""

    file: str
    line: int


class Located(NamedTuple):
    """An error or warning (`remark`) whose place is in an original file, and that file's name and text.

    `source` is the text of `file`. If the text is unknown, or a macro made the line, it is the preprocessed line after
    as many line ends as give it its number. The remark's `place` and hint are converted, its `first` is not.
    """

    remark: Diagnostic
    file: str
    source: str


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """The output of a C preprocessor for a definition, as `read_preprocessed` returns it.

    `text` is for the parser, with empty lines in place of line markers and of directives for C compilers.
    """

    text: str
    origins: Sequence[Origin]
    """For each line of `text`, the file and line that it is from."""

    def origin(self, place: SourceSpan) -> Origin:
        """Returns the file and line that a place in `text`, the preprocessed definition, is from.

        A place after the last line is from the origin of the last line.
        """
        return self.origins[min(place.line, len(self.origins)) - 1]

    def located(self, remark: Diagnostic, source_of: Callable[[str], str | None]) -> Located:
        """Returns an error or warning with its place in the original file, and that file's name and text.

        If the file's text is unknown, or a macro produced the place, the preprocessed line stands for the file's text,
        after as many empty lines as give it the original number. The hint of a remark with `first`, the place of an
        earlier declaration, names the original line of that place.

        Args:
            remark: the error or warning about `text`, the preprocessed definition.
            source_of: returns the text of a file by its name; None if unknown.
        """
        origin = self.origin(remark.place)
        line = self.text.split("\n")[min(remark.place.line, len(self.origins)) - 1]
        source = source_of(origin.file)
        originals = [] if source is None else source.split("\n")
        found = None
        if source is not None and origin.line <= len(originals):
            found = _place_in(originals[origin.line - 1], line, remark.place)
        if source is None or found is None:
            # A macro produced this text: the line is shown as it was compiled.
            found = remark.place
            source = "\n" * (origin.line - 1) + line
        place = replace(found, line=origin.line)
        if remark.first is None:
            return Located(replace(remark, place=place), origin.file, source)
        first = self.origin(remark.first)
        hint = f"first in line {first.line}" + (f" of {first.file}" if first.file != origin.file else "")
        return Located(replace(remark, place=place, hint=hint), origin.file, source)


def read_preprocessed(output: str, file: str) -> Preprocessed:
    """Reads the output of a C preprocessor, and returns it with the file and line that each line is from.

    `file` is the name of the preprocessor's input, the origin of the lines before the first line marker. A line number
    in a marker counts as at most XDR_LINE_NUMBER_MAX.
    """
    lines: list[str] = []
    origins: list[Origin] = []
    at = Origin(file, 1)
    for line in output.split("\n"):
        origins.append(at)
        if not line.startswith("#"):
            lines.append(line)
            at = Origin(at.file, at.line + 1)
            continue
        # Markers, and directives that are for a compiler of C.
        lines.append("")
        marker = _MARKER.match(line)
        if marker is None:
            at = Origin(at.file, at.line + 1)
        else:
            named = at.file if marker[2] is None else _ESCAPE.sub(r"\1", marker[2])
            # `int` refuses thousands of digits; nine are beyond the limit.
            at = Origin(named, min(int(marker[1].lstrip("0")[:9] or "0"), XDR_LINE_NUMBER_MAX))
    return Preprocessed("\n".join(lines), origins)


def _place_in(original: str, line: str, place: SourceSpan) -> SourceSpan | None:
    """Returns the place in `original`, by column and length, of a place in `line`.

    Args:
        original: the line of the original file.
        line: the line that the preprocessor made of it.
        place: the place.

    Returns:
        The place; None if the lines differ in more than white space up to its end.
    """
    before = "".join(line[: place.column - 1].split())
    column = 0
    for character in before:
        while column < len(original) and original[column].isspace():
            column += 1
        if original[column : column + 1] != character:
            return None
        column += 1
    while column < len(original) and original[column].isspace():
        column += 1
    words = line[place.column - 1 : place.column - 1 + place.length].split()
    found = re.compile(r"\s+".join(map(re.escape, words))).match(original, column)
    return None if found is None else replace(place, column=column + 1, length=len(found[0]) or place.length)
