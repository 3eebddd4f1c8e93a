"""The mode strings of `open`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OpenMode", "parse_open_mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMode:
    """The meaning of a mode string."""

    reads: bool
    writes: bool
    creates: bool
    truncates: bool
    exclusive: bool
    appends: bool


def parse_open_mode(mode: str) -> OpenMode:
    """Parses "rb", "wb", "xb", "ab" and each with "+", letters in any order.

    Raises:
        ValueError: `mode` is none of these; text modes are refused, as a stream is of octets.
    """
    letters = sorted(mode)
    kinds = [letter for letter in letters if letter in "rwxa"]
    if len(kinds) != 1 or sorted(set(letters)) != letters or not set(letters) <= set("rwxab+") or "b" not in letters:
        raise ValueError(f"invalid mode {mode!r}: use rb, wb, xb or ab, with + to read and write")
    kind = kinds[0]
    both = "+" in letters
    return OpenMode(
        reads=kind == "r" or both,
        writes=kind != "r" or both,
        creates=kind != "r",
        truncates=kind == "w",
        exclusive=kind == "x",
        appends=kind == "a",
    )
