"""The ranges of files that fsspec's methods are given."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["one_each", "within"]


def within(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """The range that a slice of so many octets means: negative numbers count from the end."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def one_each(values: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """The limit of each of `count` ranges.

    Raises:
        ValueError: there are more or fewer of them.
    """
    if values is None or isinstance(values, int):
        return [values] * count
    if len(values) != count:
        raise ValueError(f"{len(values)} limits of ranges for {count} paths")
    return values
