"""Turns at a context: its uses follow one another, and long ones leave the event loop.

Kerberos of MIT does not lock a context: two threads that used one at the same time would corrupt its keys. A use that
finds another one running waits, so the event loop never waits itself. Short uses that wait come before long ones: the
sequence numbers of RPCSEC_GSS are taken in any order within the window. Each use belongs to a call in progress, so the
bounds on calls and their memory bound the uses that wait.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rpcrdma.limits import GSS_SHORT_OCTETS

__all__ = ["ContextTurns", "InThread", "Outcome", "outcome_of"]

T = TypeVar("T")

Outcome: TypeAlias = Callable[[], T]
"""Returns the result of a use, or raises its error."""

InThread: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""`in_thread(work, done)` calls `work()`, which does not raise, in a thread, and `done` with its result in the event
loop; if it raises, it has called neither and will not."""


def outcome_of(work: Callable[[], T]) -> Outcome[T]:
    """Calls `work` now; returns a function that returns the result of `work`, or raises the exception of `work`."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - raised where the outcome is taken
        return functools.partial(_raise, error)
    return lambda: result


def _raise(error: Exception) -> Any:
    raise error


class ContextTurns:
    """Serializes the uses of one RPCSEC_GSS context, and runs long ones in a thread by `in_thread(work, done)`.

    A use is long if it processes more than GSS_SHORT_OCTETS octets; if `in_thread` is None, no use is long. `taken` is
    True while a use runs in a thread.
    """

    __slots__ = ("_in_thread", "_long", "_short", "taken")

    def __init__(self, in_thread: InThread | None = None) -> None:
        self._in_thread = in_thread
        self._short: deque[tuple[Callable[[], Any], Callable[[Any], None], int]] = deque()
        self._long: deque[tuple[Callable[[], Any], Callable[[Any], None], int]] = deque()
        self.taken = False

    def postpones(self, octets: int) -> bool:
        """Returns whether `use`, called with this many octets, would return before it has run its `work`.

        That is so while another use runs in a thread, and for a long use, which needs a thread itself.
        """
        return self.taken or self._is_long(octets)

    def use(self, work: Callable[[], T], done: Callable[[Outcome[T]], None], *, octets: int) -> None:
        """Runs a use of the context, at once or after those that run or wait, and calls `done` with the outcome.

        Call this in the event loop. Of the uses that wait, short ones run before long ones, else in the order of calls.
        A short use that need not wait has run, and `done` was called, before this returns.

        Args:
            work: the use; runs in the event loop or, if it is long, in a thread.
            done: called in the event loop with the outcome: a function that returns the result of `work` or raises its
                error.
            octets: the octets that `work` checksums or encrypts.
        """
        if self.taken:
            (self._long if self._is_long(octets) else self._short).append((work, done, octets))
        elif self._in_thread is not None and self._is_long(octets):
            self.taken = True
            try:
                self._in_thread(functools.partial(outcome_of, work), functools.partial(self._end, done))
            except BaseException:
                self.taken = False
                raise
        else:
            done(outcome_of(work))

    def _is_long(self, octets: int) -> bool:
        return octets > GSS_SHORT_OCTETS and self._in_thread is not None

    def _end(self, done: Callable[[Outcome[T]], None], outcome: Outcome[T]) -> None:
        self.taken = False
        turn: Callable[[], None] = functools.partial(done, outcome)
        errors: list[Exception] = []
        while True:
            try:
                turn()
            except Exception as error:  # noqa: BLE001 - raised once the uses that wait have had their turns
                errors.append(error)
            if self.taken or not (waiting := self._short or self._long):
                break
            work, following, octets = waiting.popleft()
            turn = functools.partial(self.use, work, following, octets=octets)
        if errors:
            raise errors[0]
