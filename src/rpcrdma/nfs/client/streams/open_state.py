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
    """The meaning of a mode string of `open`, made by `parse_open_mode`.

    Attributes:
        reads: whether the file may be read.
        writes: whether the file may be written.
        creates: whether a missing file is made.
        truncates: whether an existing file is emptied.
        exclusive: whether an existing file is an error.
        appends: whether `write`, unlike `pwrite`, always writes at the end of the file.
    """

    reads: bool
    writes: bool
    creates: bool
    truncates: bool
    exclusive: bool
    appends: bool


def parse_open_mode(mode: str) -> OpenMode:
    """Returns as flags what `mode` permits: "rb", "wb", "xb" or "ab", each also with "+", the letters in any order.

    Raises:
        ValueError: `mode` is none of these, such as a text mode.
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
    """The position of an open file (`at`, in octets), and the lock of the operations that move it.

    Operations take turns: `with position if position.free else await position.turn():`, where `free` is whether no
    operation has its turn or waits for it. Within `with` an operation may set `at`; if it raises or is cancelled, `at`
    is reset. (Entering and leaving an `asyncio.Lock` takes as long as reading 4 KiB that are already in memory.)
    """

    __slots__ = ("_before", "_waiting", "at", "free")

    def __init__(self, at: int) -> None:
        self.at = at
        self.free = True
        """Whether no operation has the position or waits for it."""
        self._before = at
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> Self:
        """Waits until all earlier operations have ended; returns this object, which is to be entered by `with` at once.

        A cancelled call leaves the queue.
        """
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
