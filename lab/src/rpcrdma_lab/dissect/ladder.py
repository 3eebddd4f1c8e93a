"""Ladders in plain ASCII: a vertical line for each end, and from the top down arrows and words, one event a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LadderShape", "Rung", "ladder_head", "ladder_line"]


class Rung(NamedTuple):
    """One line: an arrow between the lines of two ends, or words at the line of one (`to` None).

    `beside` True: the words stand to the right of that line, which stays. Ends are numbered from the left, from 0 on.
    """

    margin: str
    words: str
    at: int
    to: int | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class LadderShape:
    """Columns of a ladder with `ends` lines: the margin, the first line behind it, the step from line to line."""

    ends: int
    margin: int
    first: int
    step: int

    def line_at(self, end: int) -> int:
        """Returns the column of the line of an end, counted from 0 on the left."""
        return self.margin + self.first + self.step * end

    @property
    def room(self) -> int:
        """The most characters of the words on an arrow between two neighbours."""
        return self.step - 7


def ladder_head(shape: LadderShape, names: Sequence[str]) -> str:
    """Returns a line with the names of the ends, each above the line of its end."""
    line = " " * (shape.line_at(shape.ends - 1) + shape.step)
    for end, name in enumerate(names):
        line = _laid(line, max(shape.line_at(end) - (len(name) - 1) // 2, 0), name)
    return line.rstrip()


def ladder_line(shape: LadderShape, rung: Rung) -> str:
    """Returns one line of the ladder; words that are too long for their place are cut off."""
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
