"""The mode and the position of an open file."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

__all__ = ["OpenMode", "SharedPosition", "parse_open_mode"]


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


class SharedPosition:
    """A position; operations that move it take turns, and one that fails or is cancelled leaves it where it was.

    `with position if position.free else await position.turn():` - entering and leaving an `asyncio.Lock` takes as
    long as reading 4 KiB that are already in memory.
    """

    __slots__ = ("_before", "_waiting", "at", "free")

    def __init__(self, at: int) -> None:
        self.at = at
        self.free = True
        """Whether no operation has it or waits for it."""
        self._before = at
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> Self:
        """Waits until all earlier operations have ended."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._pass_on()
            raise
        return self

    def __enter__(self) -> None:
        self.free = False
        self._before = self.at

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.at = self._before
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
        self.free = True
