"""Warnings of a server that does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

__all__ = ["SilenceWatch"]

_LOGGER = logging.getLogger("rpcrdma.client")
_LOOKS = 3
"""Looks in a row without an answer after which the warning is logged. Looks count, and not the time: between two of
them an event loop that has stalled takes the replies that have arrived meanwhile."""


class SilenceWatch:
    """Logs a warning when a server has not answered for `after_s` seconds.

    If `resting` is true when the owner begins to wait for an answer, the owner calls `begin`; when it needs the watch
    no more, `end`. While no answer is awaited, no timer runs. A silence causes one warning, however long it is; only a
    later silence that is twice as long causes another one.

    Args:
        after_s: the first silence in seconds that causes a warning; None or 0: no warnings.
        waits: returns whether this side waits for an answer.
        answers: returns a count that rises with each answer.
        tell: returns the text of the warning for a silence of the given seconds.
    """

    __slots__ = ("_after_s", "_answers", "_counted", "_handle", "_looks", "_loop", "_tell", "_waits", "resting")

    def __init__(
        self,
        after_s: float | None,
        waits: Callable[[], object],
        answers: Callable[[], int],
        tell: Callable[[float], str],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._after_s = after_s or 0.0
        self._waits = waits
        self._answers = answers
        self._tell = tell
        self._counted = self._looks = 0
        self._handle: asyncio.TimerHandle | None = None
        self.resting = bool(after_s)
        """Whether the owner has to call `begin`: the watch looks at nothing until then."""

    def begin(self) -> None:
        """Starts to watch for answers, and sets `resting` to False; called only while `resting` is true.

        The watch looks three times within the silence that causes a warning. It ends by itself when this side waits for
        no answer, and `resting` is then true again.
        """
        self.resting = False
        self._looks = 0
        self._counted = self._answers()
        self._handle = self._loop.call_later(self._after_s / _LOOKS, self._look)

    def _look(self) -> None:
        if not self._waits():
            self.resting = True
            return
        answers = self._answers()
        self._looks = self._looks + 1 if answers == self._counted else 0
        self._counted = answers
        if self._looks == _LOOKS:
            _LOGGER.warning("%s", self._tell(self._after_s))
            self._after_s *= 2
        self._handle = self._loop.call_later(self._after_s / _LOOKS, self._look)

    def end(self) -> None:
        """Ends the watch for good: no further warning is logged."""
        self.resting = False
        if self._handle is not None:
            self._handle.cancel()
