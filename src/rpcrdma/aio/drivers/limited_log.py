"""Logging that a peer cannot turn into a flood."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.rpc.host_shares import network_of

__all__ = ["CONNECTION_LINES_MAX", "LimitedLog"]

CONNECTION_LINES_MAX = 60
"""Lines a minute about new connections of one client, or one network of IPv6, and as many about their ends."""

_INTERVAL_S = 60.0
_KINDS_MAX = 256


class _Kind:
    __slots__ = ("count", "extra", "held_back", "last", "level", "next_at_s")

    def __init__(self) -> None:
        self.next_at_s = 0.0
        self.count = 0
        self.held_back = 0
        self.level = 0
        self.last = ""
        self.extra: Mapping[str, Any] | None = None


def _later(delay_s: float, callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(delay_s, callback)


class LimitedLog:
    """Logs the first events of each kind in a minute; counts further ones, and logs that count when the minute ends.

    `log` gets the number of first events, `most`. A minute of a kind begins with its first event, and later with its
    first event after the end of the last minute. The line with the count has the text and `extra` of the last event
    that was only counted, without its traceback. If `extra` has a dictionary `event`, the line has a copy of it with
    the item `left_out`: how many events were only counted before that last one. At most 256 kinds are remembered; a
    further kind displaces the oldest, whose count is logged. The object is used in the thread of the event loop, and
    flushed before the loop ends.

    Args:
        logger: the destination.
        clock: returns seconds; None: a monotonic clock, `time.monotonic` or that of a simulation.
        later: calls a function after a delay in seconds; by default by the running event loop.
    """

    __slots__ = ("_clock", "_kinds", "_later", "_logger", "_look_at_s")

    def __init__(
        self,
        logger: logging.Logger,
        clock: Callable[[], float] | None = None,
        later: Callable[[float, Callable[[], None]], object] = _later,
    ) -> None:
        self._logger = logger
        self._clock = clock or loop_clock()
        self._later = later
        self._kinds: dict[str, _Kind] = {}
        self._look_at_s = math.inf

    def log(
        self,
        level: int,
        kind: str,
        message: str,
        *args: object,
        error: BaseException | None = None,
        extra: Mapping[str, Any] | None = None,
        most: int = 1,
        host: str = "",
    ) -> None:
        """Logs an event at once, or only counts it if `most` events of its kind were logged within the minute.

        Args:
            level: the level, a number of `logging` such as `logging.WARNING`.
            kind: any text that names the kind of event; it must contain no data of a peer.
            message: the text with % placeholders.
            args: the values for the placeholders.
            error: the exception whose traceback is logged; None: no traceback.
            extra: attributes of the log record, by name; None: none.
            most: the number of events of this kind that are logged at once within a minute.
            host: the address of the peer, whose events are a kind of their own, together with those of its IPv6 network
                of 64 bits (`network_of`); "": the events of all peers are one kind.
        """
        if host:
            kind = f"{kind} {network_of(host)}"
        now_s = self._clock()
        known = self._kinds.get(kind)
        if known is not None and now_s < known.next_at_s:
            known.count += 1
            if known.count > most:
                known.held_back += 1
                known.level = level
                known.last = message % args if args else message
                known.extra = extra
                if known.next_at_s < self._look_at_s:
                    self._look_later(known.next_at_s, now_s)
                return
        else:
            if known is None:
                if len(self._kinds) >= _KINDS_MAX:
                    self._tell(self._kinds.pop(next(iter(self._kinds))))
                known = self._kinds[kind] = _Kind()
            self._tell(known)
            known.next_at_s = now_s + _INTERVAL_S
            known.count = 1
        self._logger.log(level, message, *args, exc_info=error, extra=extra)

    def flush(self) -> None:
        """Logs at once, for each kind, the number of events that were only counted, if any."""
        for known in self._kinds.values():
            self._tell(known)

    def _look_later(self, at_s: float, now_s: float) -> None:
        """Schedules `_look` for the time `at_s` of the log's clock, in place of a later run; `now_s` is the present."""
        self._look_at_s = at_s
        self._later(at_s - now_s, functools.partial(self._look, at_s))

    def _look(self, at_s: float) -> None:
        """Logs the counts of the kinds whose minute is over, and schedules the next run for the others.

        No effect if an earlier run took the place of this one, scheduled for `at_s`.
        """
        if at_s != self._look_at_s:
            return
        self._look_at_s = math.inf
        now_s = self._clock()
        for known in self._kinds.values():
            if known.next_at_s <= now_s:
                self._tell(known)
        waiting = [known.next_at_s for known in self._kinds.values() if known.held_back]
        if waiting:
            self._look_later(min(waiting), now_s)

    def _tell(self, known: _Kind) -> None:
        count, known.held_back = known.held_back, 0
        if count:
            last, known.last = known.last, ""
            extra, known.extra = known.extra, None
            if extra is not None and "event" in extra:
                extra = {**extra, "event": {**extra["event"], "left_out": count - 1}}
            self._logger.log(known.level, "%s (the last of %d more like it)", last, count, extra=extra)
