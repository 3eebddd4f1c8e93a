"""The event loop of virtual time: its clock, its order, and the causes of its callbacks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rpcrdma.testing.virtual import NO_CAUSE, Stalled, VirtualLoop, now_s, run
from rpcrdma.testing.virtual import loop as loop_module
from support.waiting import time_passes


def running() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_a_day_passes_at_once() -> None:
    async def main() -> float:
        await time_passes(86_400)
        return now_s()

    # A clock that does not jump would take the day.
    assert run(main) == 86_400


def test_timers_of_one_time_ring_in_the_order_in_which_they_were_set() -> None:
    async def main() -> None:
        rung: list[int] = []
        for number in range(100):
            running().call_at(3.0, rung.append, number)
        await time_passes(4)
        assert rung == list(range(100))

    run(main)


def test_cancelled_timers_neither_ring_nor_pile_up_nor_hold_the_clock() -> None:
    async def main() -> None:
        loop = running()
        rung: list[int] = []
        for number in range(5_000):
            timer = loop.call_later(1 + number, rung.append, number)
            if number != 7:
                timer.cancel()
        assert len(loop._timers) < 1_000
        await time_passes(10_000)
        assert (rung, now_s()) == ([7], 10_000)
        # What has run, or is no timer, leaves the timers as they are.
        timers = loop._timers
        handles = [loop.call_later(1, int) for _ in range(500)]
        await time_passes(2)
        for handle in (*handles, *(loop.call_soon(int) for _ in range(500))):
            handle.cancel()
        assert loop._timers is timers

    run(main)


def test_a_program_that_can_never_go_on_is_told_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="no timer is set"):
        run(main)


def test_a_task_that_polls_without_letting_time_pass_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "_TURNS_MAX", 1_000)

    async def sleeps() -> None:
        for _ in range(1_000):
            await asyncio.sleep(0)
            await time_passes(1)

    run(sleeps)

    async def main() -> None:
        while now_s() < 1:  # noqa: ASYNC110 - the fault that is tested
            await asyncio.sleep(0)

    async def by_timers() -> None:
        def again() -> None:
            running().call_later(0, again)

        again()
        await time_passes(1)

    for polls in (main, by_timers):
        with pytest.raises(Stalled, match="a task polls"):
            run(polls)


def test_causes_cross_futures_tasks_and_timers() -> None:
    async def main() -> list[tuple[int, float]]:
        loop = running()
        found: list[tuple[int, float]] = []

        async def waits(future: asyncio.Future[None]) -> None:
            await future
            found.append((loop.cause, now_s()))
            await time_passes(2)
            found.append((loop.cause, now_s()))
            await asyncio.create_task(ends())

        async def ends() -> None:
            found.append((loop.cause, now_s()))

        future: asyncio.Future[None] = loop.create_future()
        task = asyncio.create_task(waits(future))
        await time_passes(1)
        assert loop.cause == NO_CAUSE
        loop.follow(41)
        loop.call_soon(future.set_result, None)
        loop.follow(42)
        await task
        return found

    assert run(main) == [(41, 1.0), (41, 3.0), (41, 3.0)]


def test_time_that_a_callback_spends_delays_what_it_schedules_and_nothing_else() -> None:
    async def main() -> None:
        loop = running()
        rung: dict[str, float] = {}

        def note(name: str) -> None:
            rung[name] = now_s()

        def spends() -> None:
            loop.call_soon(note, "before")
            loop.spend(0.5)
            assert now_s() == 1.5
            loop.call_soon(note, "soon")
            loop.call_later(1, note, "later")
            loop.follow(3)
            loop.call_soon(note, "of another cause")

        loop.call_at(1.0, spends)
        loop.call_at(1.25, note, "beside")
        await time_passes(5)
        assert rung == {"before": 1.0, "of another cause": 1.0, "beside": 1.25, "soon": 1.5, "later": 2.5}

    run(main)


def test_a_callback_for_another_cause_leaves_the_present_one() -> None:
    loop = VirtualLoop()
    found: list[tuple[int, float]] = []
    loop.follow(41)
    loop.schedule(2.0, 7, lambda: found.append((loop.cause, loop.time())))
    assert loop.cause == 41
    loop.call_at(9.0, found.clear).cancel()
    loop.run_until_idle()
    assert found == [(7, 2.0)]
    assert (loop.cause, loop.time()) == (NO_CAUSE, 2.0)


def test_after_a_jump_of_the_clock_timers_that_were_due_meanwhile_ring_late() -> None:
    async def main() -> None:
        loop = running()
        rung: list[float] = []
        for due_s in (1.0, 2.0, 9.0):
            loop.call_at(due_s, lambda: rung.append(now_s()))
        loop.jump(5)
        await time_passes(5)
        assert rung == [5.0, 5.0, 9.0]

    run(main)


def test_functions_for_threads_run_at_once_and_nothing_comes_from_another_thread() -> None:
    async def main() -> None:
        loop = running()
        rung: list[str] = []
        loop.call_soon_threadsafe(rung.append, "own thread")
        await time_passes(1)
        assert rung == ["own thread"]
        assert await asyncio.to_thread(now_s) == 1
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        failures: list[BaseException] = []

        def intrude() -> None:
            with pytest.raises(RuntimeError, match="no other thread") as caught:
                loop.call_soon_threadsafe(print)
            failures.append(caught.value)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        assert len(failures) == 1

    run(main)


def test_tasks_that_are_left_end_in_the_order_in_which_they_were_made() -> None:
    ended: list[int] = []

    async def waits(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def main() -> None:
        left.extend(asyncio.create_task(waits(number)) for number in range(50))
        await asyncio.sleep(0)

    left: list[asyncio.Task[None]] = []
    run(main)
    assert ended == list(range(50))


def test_the_seed_determines_the_random_numbers() -> None:
    async def main() -> int:
        return running().random.getrandbits(64)

    assert run(main, seed=1) == run(main, seed=1) != run(main, seed=2)
