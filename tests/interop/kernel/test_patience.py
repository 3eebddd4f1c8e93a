"""Deadlines of the kernel checks follow the pace of the guest, and name the awaited condition."""

from __future__ import annotations

import asyncio
import threading

import pytest
from failures import CheckFailed
from patience import await_growth, awaiting, patience


class Paced:
    """A guest whose pace is 1 at first, and `later` when it is measured anew."""

    def __init__(self, later: float = 1.0) -> None:
        self.pace = 1.0
        self.measured = threading.Event()
        self._later = later

    def measure_pace(self) -> float:
        self.measured.set()
        return self._later


def test_what_is_awaited_too_long_is_named_once_with_its_count() -> None:
    async def scenario() -> None:
        async def waits(what: str) -> None:
            with awaiting(what):
                await asyncio.Event().wait()

        async with patience(Paced(), 0.01, "the end of the check"), asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(waits("a reader"))
            tasks.create_task(waits("the recall"))

    with pytest.raises(CheckFailed, match=r"still awaited: the end of the check, a reader \(3\), the recall$"):
        asyncio.run(scenario())


def test_a_deadline_that_passes_is_moved_when_the_guest_has_become_slower() -> None:
    guest = Paced(later=1e6)

    async def scenario() -> None:
        async with patience(guest, 0.001, "the answer"):
            assert await asyncio.to_thread(guest.measured.wait, 10.0), "the pace was not measured within 10 s"
            # The time of the first pace is over by now; a deadline that had not moved would end the block here.
            for _ in range(10):
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_timeout_within_the_block_stays_what_it_is() -> None:
    async def scenario() -> None:
        async with patience(Paced(), 60.0, "the answer"):
            raise TimeoutError("of something else")

    with pytest.raises(TimeoutError, match="of something else"):
        asyncio.run(scenario())


def test_growth_begins_the_time_anew_and_standing_still_ends_it() -> None:
    steps = iter([0, 1, 2, 3])
    await_growth("files", lambda: next(steps), 3, 60.0)
    with pytest.raises(CheckFailed, match=r"awaited 3 files: there are 2, and no more came in 0 s"):
        await_growth("files", lambda: 2, 3, 0.0)
