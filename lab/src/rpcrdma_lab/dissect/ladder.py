"""Ladders in plain ASCII: a vertical line for each end, and from the top down arrows and words, one event a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LadderShape", "Rung", "ladder_head", "ladder_line"]


class Rung(NamedTuple):
    """One line of a ladder: an arrow from end `at` to end `to`, or text at the vertical line of `at` if `to` is None.

    `words` is the text on the arrow or at the vertical line, and `margin` the text left of the ladder. With `beside`,
    text without an arrow stands to the right of the vertical line instead of over it. Ends are numbered from 0 at the
    left.
    """

    margin: str
    words: str
    at: int
    to: int | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class LadderShape:
    """The columns of an ASCII ladder with `ends` vertical lines.

    `margin` is the width left of the ladder, `first` the columns from there to the first line, and `step` those from a
    line to the next.
    """

    ends: int
    margin: int
    first: int
    step: int

    def line_at(self, end: int) -> int:
        """Returns the column of the vertical line of `end`; columns and ends are counted from 0 at the left."""
        return self.margin + self.first + self.step * end


def ladder_head(shape: LadderShape, names: Sequence[str]) -> str:
    """Returns a line of text with the `names` of the ends from left to right, each centred above its vertical line."""
    line = " " * (shape.line_at(shape.ends - 1) + shape.step)
    for end, name in enumerate(names):
        line = _laid(line, max(shape.line_at(end) - (len(name) - 1) // 2, 0), name)
    return line.rstrip()


def ladder_line(shape: LadderShape, rung: Rung) -> str:
    """Returns the line of text for a rung, with all vertical lines; text that is too long for its place is cut off."""
    line = rung.margin[: shape.margin].ljust(shape.line_at(shape.ends - 1) + shape.step)
    for end in range(shape.ends):
        line = _laid(line, shape.line_at(end), "|")
    if rung.to is None:
        if rung.beside:
            return _laid(line, shape.line_at(rung.at) + 3, rung.words[: shape.step - 4]).rstrip()
        words = rung.words[: shape.step - 2]
        return _laid(line, shape.line_at(rung.at) - (len(words) - 1) // 2, words).rstrip()
    first, last = sorted((rung.at, rung.to))
    width = (last - first) * shape.step - 1
    arrow = f" {rung.words[: width - 6]} ".center(width, "-")
    arrow = f"{arrow[:-1]}>" if rung.at == first else f"<{arrow[1:]}"
    return _laid(line, shape.line_at(first) + 1, arrow).rstrip()


def _laid(line: str, start: int, words: str) -> str:
    return line[:start] + words + line[start + len(words) :]
