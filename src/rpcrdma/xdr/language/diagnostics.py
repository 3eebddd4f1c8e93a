"""The compiler's errors and warnings about an interface definition, shown with line, column and a caret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rpcrdma.errors import RpcRdmaError

__all__ = ["Diagnostic", "LanguageError", "Place"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in the source: line and column count from 1, length in characters."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One remark: `severity` is "error" or "warning"; `hint` names the remedy and may be empty.

    `first` is the place that the hint names, if it names one.
    """

    place: Place
    message: str
    hint: str = ""
    severity: str = "error"
    first: Place | None = None

    @classmethod
    def repeated(cls, place: Place, message: str, first: Place) -> Diagnostic:
        """A remark about a second declaration of a name that `first` declares."""
        return cls(place, message, f"first in line {first.line}", first=first)

    def render(self, source: str, source_name: str) -> str:
        """The remark, the source line and a caret line under the place."""
        place = self.place
        # Other characters that end lines elsewhere, such as a form feed, end none in the language.
        lines = source.split("\n")
        shown = [f"{self.severity}: {source_name}:{place.line}:{place.column}: {self.message}"]
        if 1 <= place.line <= len(lines):
            line = lines[place.line - 1].rstrip()
            before = "".join("\t" if character == "\t" else " " for character in line[: place.column - 1])
            carets = max(1, min(place.length, len(line) - place.column + 1))
            shown += [f"  {line}", f"  {before.ljust(place.column - 1)}{'^' * carets}"]
        if self.hint:
            shown.append(f"hint: {self.hint}")
        return "\n".join(shown)


class LanguageError(RpcRdmaError):
    """An interface definition does not compile; `diagnostics` names every error in it, in source order."""

    def __init__(self, diagnostics: Iterable[Diagnostic], source: str, source_name: str) -> None:
        self.diagnostics: Sequence[Diagnostic] = sorted(diagnostics, key=lambda remark: remark.place)
        self.source = source
        self.source_name = source_name
        super().__init__("\n".join(remark.render(source, source_name) for remark in self.diagnostics))
