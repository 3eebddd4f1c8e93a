"""Deadlines that follow a guest's pace: each is longer by the factor by which the guest is slower than it could be.

Guests are emulated, so another program on the host's processors slows everything in them. Seconds in the checks are
those of a quiet machine; a deadline that passes is looked at again with the pace of that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

from failures import CheckFailed

__all__ = ["PACE_MAX", "PROBE", "PROBE_QUIET_S", "HasPace", "await_growth", "awaiting", "patience"]

PROBE = "i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done"
"""The script that is timed: it uses the processor and no input or output."""
PROBE_QUIET_S = 0.2
"""Seconds of that script on a quiet machine, with the start of its shell."""
PACE_MAX = 20.0
"""A guest that is slower than this is taken for one that stands still."""

_awaited: list[str] = []


class HasPace(Protocol):
    """A guest that knows its pace."""

    pace: float
    """By how many times the guest was slower than on a quiet machine when last measured; at least 1."""

    def measure_pace(self) -> float:
        """Measures it anew."""


@contextlib.contextmanager
def awaiting(what: str) -> Iterator[None]:
    """Names the event that its block waits for, for the message of a surrounding `patience` that ends."""
    _awaited.append(what)
    try:
        yield
    finally:
        _awaited.remove(what)


@contextlib.asynccontextmanager
async def patience(guest: HasPace, quiet_s: float, what: str) -> AsyncIterator[None]:
    """Gives its block `quiet_s`, in seconds of a quiet machine.

    Raises:
        CheckFailed: It took longer; the message names the condition, and everything that is `awaiting` within.
    """
    started = time.monotonic()
    told = ""
    with awaiting(what):
        limit = asyncio.timeout(None)

        async def watch() -> None:
            nonlocal told
            pace = guest.pace
            over = False
            while not over:
                await asyncio.sleep(started + quiet_s * pace - time.monotonic())
                pace = max(pace, await asyncio.to_thread(guest.measure_pace))
                over = time.monotonic() >= started + quiet_s * pace
            names = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in _counted())
            told = f"after {time.monotonic() - started:.0f} s, at a pace of {pace:.1f}, still awaited: {names}"
            limit.reschedule(0)

        watching = asyncio.create_task(watch())
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise CheckFailed(told) from None
        finally:
            watching.cancel()


def await_growth(what: str, count: Callable[[], int], goal: int, still_s: float) -> None:
    """Waits until `count` reaches the goal; each step of growth begins the time anew.

    Raises:
        CheckFailed: It has stood still for so many seconds.
    """
    highest, since = count(), time.monotonic()
    while (found := count()) < goal:
        if found > highest:
            highest, since = found, time.monotonic()
        if time.monotonic() > since + still_s:
            raise CheckFailed(f"awaited {goal} {what}: there are {found}, and no more came in {still_s:.0f} s")
        time.sleep(0.02)


def _counted() -> list[tuple[str, int]]:
    return [(name, _awaited.count(name)) for name in dict.fromkeys(_awaited)]
