"""The only timer of a connection: at the earliest deadline it calls the machines that have deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

__all__ = ["Alarm", "DeadlineTimer", "Timed"]


class Timed(Protocol):
    """The interface of an object with deadlines but no clock, which a `DeadlineTimer` calls.

    Times are those of the event loop, in seconds.
    """

    def next_deadline_s(self, now_s: float, /) -> float | None:
        """Returns the loop time in seconds at which `on_time` is to be called next; None for never.

        `now_s` is the present loop time: the object has no clock, and counts a wait that has just begun from `now_s`.
        """

    def on_time(self, now_s: float, /) -> None:
        """Acts on all deadlines of the object up to and at the loop time `now_s`, in seconds.

        May be called before any deadline has come; then it does nothing.
        """


class Alarm:
    """Calls `action` at the loop time `due_s`, in seconds, and sets `due_s` to None (no alarm) just before.

    Works only while a `DeadlineTimer` watches it. After `due_s` is set outside `action`, call the timer's `look`.
    """

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
        """Cancels the alarm for good and drops the reference to `action`."""
        self.due_s = None
        self._action = None


class DeadlineTimer:
    """The timer of one connection: at the earliest deadline it calls `on_time` of all watched objects, then `after`.

    Args:
        loop: the event loop.
        after: called each time after `on_time` of all objects; None: nothing is called.
    """

    __slots__ = ("_after", "_handle", "_loop", "_stopped", "_watched", "_when_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] | None = None) -> None:
        self._loop = loop
        self._after = after
        self._watched: list[Timed] = []
        self._handle: asyncio.TimerHandle | None = None
        self._when_s = 0.0
        self._stopped = False

    def watch(self, timed: Timed) -> None:
        """Adds an object whose deadlines the timer serves, from the next `look` on.

        Args:
            timed: an object with deadlines.
        """
        self._watched.append(timed)

    def look(self) -> None:
        """Sets the timer for the earliest deadline of all watched objects; no effect after `stop`.

        To be called when a deadline may have become earlier.
        """
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
        """Ends the timer for good and forgets all watched objects.

        If an `on_time` calls this, `after` is still called once.
        """
        self._stopped = True
        self._watched.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
