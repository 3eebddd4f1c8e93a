"""The compiler's errors and warnings about an interface definition, shown with line, column and a caret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rpcrdma.errors import RpcRdmaError
from rpcrdma.file_limits import XDR_REMARKS_MAX
from rpcrdma.wire.peer_text import printable

__all__ = ["Diagnostic", "LanguageError", "SourceSpan", "first_remarks"]

_SHOWN_CHARACTERS = 200
"""Of a line: with longer ones the part around the place is shown."""
_MESSAGE_CHARACTERS = 400
"""Of a message or hint: names in it may be long."""


@dataclass(frozen=True, slots=True, order=True)
class SourceSpan:
    """A place in the source of a definition: line and column count from 1, `length` in characters."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning of the compiler about a definition: `severity` is "error" or "warning".

    `place` is the fault. `hint` names the remedy and may be empty; `first` is the place that the hint names, or None.
    """

    place: SourceSpan
    message: str
    hint: str = ""
    severity: str = "error"
    first: SourceSpan | None = None

    @classmethod
    def repeated(cls, place: SourceSpan, message: str, first: SourceSpan) -> Diagnostic:
        """Returns an error at `place`, a second declaration of a name; its hint names the line of the first one."""
        return cls(place, message, f"first in line {first.line}", first=first)

    def render(self, source: str, source_name: str) -> str:
        """Returns the error or warning as text: severity, place, message, the source line with carets below, and hint.

        Args:
            source: the text of the definition; if it has no such line, no source line is shown.
            source_name: the name of the definition's file.
        """
        place = self.place
        message = _shortened(f"{source_name}:{place.line}:{place.column}: {self.message}")
        shown = [f"{self.severity}: {printable(message)}"]
        # Other characters that end lines elsewhere, such as a form feed, end none in the language.
        line = _line(source, place.line)
        if line is not None:
            shown += _marked(line, place)
        if self.hint:
            shown.append(f"hint: {printable(_shortened(self.hint))}")
        return "\n".join(shown)


def _marked(line: str, place: SourceSpan) -> list[str]:
    """Returns a source line, or the part of a long one around a place, and a line with carets below the place."""
    column = place.column - 1
    start = max(0, column - _SHOWN_CHARACTERS // 2) if len(line) > _SHOWN_CHARACTERS else 0
    end = start + _SHOWN_CHARACTERS
    carets = max(1, min(place.length, len(line) - column, end - column))
    before, at, after = (
        "\t".join(map(printable, part.split("\t")))
        for part in (line[start:column], line[column : column + carets], line[column + carets : end])
    )
    begun, ended = "..." * (start > 0), "..." * (end < len(line))
    indent = "".join("\t" if character == "\t" else " " for character in begun + before)
    indent += " " * (column - len(line))
    return [f"  {begun}{before}{at}{after}{ended}", f"  {indent}{'^' * max(1, len(at))}"]


def _line(source: str, number: int) -> str | None:
    """Returns line `number` of a text, from 1, without trailing white space; None if there is no such line."""
    lines = source.split("\n", number)
    return lines[number - 1].rstrip() if 1 <= number <= len(lines) else None


def _shortened(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[:_MESSAGE_CHARACTERS]}..."


def first_remarks(remarks: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns the errors and warnings `remarks` in source order, at most the first XDR_REMARKS_MAX.

    If there are more, a further remark, at the place of the last one left out, states the number of those left out.
    """
    ordered = sorted(remarks, key=lambda remark: remark.place)
    more = len(ordered) - XDR_REMARKS_MAX
    if more <= 0:
        return ordered
    first = ordered[:XDR_REMARKS_MAX]
    return [*first, Diagnostic(ordered[-1].place, f"{more} more are not shown", severity=ordered[-1].severity)]


class LanguageError(RpcRdmaError):
    """An interface definition does not compile; the message is the text of `diagnostics` for people.

    Args:
        diagnostics: the errors; the attribute has the first XDR_REMARKS_MAX in source order, and one that counts the
            others, if any.
        source: the text of the definition.
        source_name: the name of its file.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], source: str, source_name: str) -> None:
        self.diagnostics: Sequence[Diagnostic] = first_remarks(diagnostics)
        self.source = source
        self.source_name = source_name
        super().__init__("\n".join(remark.render(source, source_name) for remark in self.diagnostics))
