"""Logging that a peer cannot turn into a flood."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CONNECTION_LINES_MAX", "LimitedLog"]

CONNECTION_LINES_MAX = 60
"""Lines a minute that say of one client that a connection has been made, and as many that one has ended."""

_INTERVAL_S = 60.0
_KINDS_MAX = 256


class LimitedLog:
    """Logs the first events of each kind, then at most so many a minute with the number left out.

    A kind is any text, of peer data at most an address in it; of more than 256 kinds the oldest is forgotten.
    """

    __slots__ = ("_clock", "_kinds", "_logger")

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}
        """Until when events are counted together, and how many there were."""

    def log(
        self,
        level: int,
        kind: str,
        message: str,
        *args: object,
        error: BaseException | None = None,
        extra: Mapping[str, Any] | None = None,
        most: int = 1,
    ) -> None:
        """Logs `message % args`, with the traceback of `error` if there is one; `extra` is as for `Logger.log`.

        `most`: so many of this kind a minute. An `event` in `extra` gets the number that was left out, too.
        """
        now = self._clock()
        until, count = self._kinds.get(kind, (now, 0))
        if now < until:
            self._kinds[kind] = (until, count + 1)
            if count >= most:
                return
            left_out = 0
        else:
            left_out = max(count - most, 0)
            if kind not in self._kinds and len(self._kinds) >= _KINDS_MAX:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[kind] = (now + _INTERVAL_S, 1)
        if left_out:
            message += f" ({left_out} more like it in the meantime)"
            if extra is not None and "event" in extra:
                extra = {**extra, "event": {**extra["event"], "left_out": left_out}}
        self._logger.log(level, message, *args, exc_info=error, extra=extra)
