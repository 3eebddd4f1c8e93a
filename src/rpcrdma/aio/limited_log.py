"""Logging that a peer cannot turn into a flood."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

__all__ = ["LimitedLog"]

_INTERVAL_S = 60.0
_KINDS_MAX = 256


class LimitedLog:
    """Logs the first event of each kind, then at most one a minute with the number left out.

    A kind is any text without peer data in it; of more than 256 kinds the oldest is forgotten.
    """

    __slots__ = ("_clock", "_kinds", "_logger")

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}

    def log(
        self,
        level: int,
        kind: str,
        message: str,
        *args: object,
        error: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Logs `message % args`, with the traceback of `error` if there is one; `extra` is as for `Logger.log`."""
        now = self._clock()
        next_at, left_out = self._kinds.get(kind, (now, 0))
        if now < next_at:
            self._kinds[kind] = (next_at, left_out + 1)
            return
        if kind not in self._kinds and len(self._kinds) >= _KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = (now + _INTERVAL_S, 0)
        if left_out:
            message += f" ({left_out} more like it in the meantime)"
        self._logger.log(level, message, *args, exc_info=error, extra=extra)
