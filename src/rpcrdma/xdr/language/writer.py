"""Lines of generated Python, wrapped as the project's formatter wraps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["WIDTH", "CallExpression", "Item", "Writer"]

WIDTH = 120
"""Columns: the line length that pyproject.toml gives the formatter."""


@dataclass(frozen=True, slots=True)
class CallExpression:
    """The Python expression `name(items)`, which `Writer.call` may break into lines; `str` has it on one line."""

    name: str
    items: Sequence[Item]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.items))})"


Item: TypeAlias = str | CallExpression


class Writer:
    """Collects the lines of a Python module; `indent` is the depth of the next line, in levels of four spaces."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 0

    def line(self, text: str = "") -> None:
        """Appends one line at the present indentation, whatever its width; "" is an empty line."""
        self.lines.append(f"{'    ' * self.indent}{text}" if text else "")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Writes the line `head`, if not "", and indents the lines that are written within the context by one level."""
        if head:
            self.line(head)
        self.indent += 1
        yield
        self.indent -= 1

    def blank(self, count: int = 1) -> None:
        """Appends `count` empty lines."""
        self.lines.extend([""] * count)

    def call(self, before: str, items: Sequence[Item], after: str = ")") -> None:
        """Writes `before`, the items separated by commas, and `after`.

        They stand on one line if it fits, else the items on one indented line, else each item on a line, where a
        `CallExpression` that does not fit is broken likewise.
        """
        inner = ", ".join(map(str, items))
        if self.fits(f"{before}{inner}{after}"):
            self.line(f"{before}{inner}{after}")
            return
        with self.block(before):
            if self.fits(inner):
                self.line(inner)
            else:
                for item in items:
                    if isinstance(item, CallExpression) and not self.fits(f"{item},"):
                        self.call(f"{item.name}(", item.items, "),")
                    else:
                        self.line(f"{item},")
        self.line(after)

    def fits(self, text: str) -> bool:
        """Returns whether a line of this text fits into WIDTH columns at the present indentation."""
        return 4 * self.indent + len(text) <= WIDTH

    def text(self) -> str:
        """Returns all lines as the text of the module, with one newline at the end."""
        return "\n".join(self.lines).rstrip("\n") + "\n"
