"""The one timer of a connection: it calls the machines that have deadlines when the earliest deadline has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

__all__ = ["Alarm", "DeadlineTimer", "Timed"]


class Timed(Protocol):
    """Has deadlines, but no clock. Times are those of the event loop, in seconds."""

    def next_deadline_s(self, now_s: float, /) -> float | None:
        """When `on_time` is to be called next; None: not at all. A wait that began meanwhile counts from `now_s`."""

    def on_time(self, now_s: float, /) -> None:
        """Acts on the deadlines that are due at `now_s`, if any are."""


class Alarm:
    """Calls `action` once when the time `due_s` has come, if one is set."""

    __slots__ = ("_action", "due_s")

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action
        self.due_s: float | None = None

    def next_deadline_s(self, _now_s: float) -> float | None:
        return self.due_s

    def on_time(self, now_s: float) -> None:
        if self.due_s is not None and now_s >= self.due_s:
            self.due_s = None
            if self._action is not None:
                self._action()

    def disarm(self) -> None:
        """Never rings again, and lets go of `action`."""
        self.due_s = None
        self._action = None


class DeadlineTimer:
    """Calls `on_time` of all that it watches, and then `after` if that is given, whenever a deadline has come."""

    __slots__ = ("_after", "_handle", "_loop", "_stopped", "_watched", "_when_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] | None = None) -> None:
        self._loop = loop
        self._after = after
        self._watched: list[Timed] = []
        self._handle: asyncio.TimerHandle | None = None
        self._when_s = 0.0
        self._stopped = False

    def watch(self, timed: Timed) -> None:
        """Watches one more; `look` sets the timer for it."""
        self._watched.append(timed)

    def look(self) -> None:
        """Sets the timer for the earliest deadline; to be called when there may be an earlier one than before."""
        if self._stopped:
            return
        now_s = self._loop.time()
        found = [due_s for timed in self._watched if (due_s := timed.next_deadline_s(now_s)) is not None]
        if self._handle is not None:
            # A timer that rings too early does no harm: it looks again.
            if not found or min(found) >= self._when_s:
                return
            self._handle.cancel()
            self._handle = None
        if found:
            self._when_s = min(found)
            self._handle = self._loop.call_at(self._when_s, self._ring)

    def _ring(self) -> None:
        self._handle = None
        # Clocks are coarse: a timer may ring a little before its time.
        now_s = max(self._loop.time(), self._when_s)
        for timed in self._watched:
            timed.on_time(now_s)
        if self._after is not None:
            self._after()
        self.look()

    def stop(self) -> None:
        """Ends the timer: no machine is called any more."""
        self._stopped = True
        self._watched.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
