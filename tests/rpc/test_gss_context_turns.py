"""The uses of a context: one at a time, short ones before long ones that wait; and its window of sequence numbers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.limits import GSS_SHORT_OCTETS
from rpcrdma.rpc.gss.context_turns import ContextTurns, Outcome
from rpcrdma.rpc.gss.window import SequenceWindow

LONG = GSS_SHORT_OCTETS + 1


class Threads:
    """Work that was handed to threads; `end` does the first of it."""

    def __init__(self) -> None:
        self.given: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.given.append((work, done))

    def end(self) -> None:
        work, done = self.given.pop(0)
        done(work())


class Log:
    def __init__(self, turns: ContextTurns) -> None:
        self.turns = turns
        self.done: list[Any] = []

    def use(self, name: str, octets: int) -> None:
        def note(outcome: Outcome[str]) -> None:
            self.done.append(outcome())

        self.turns.use(lambda: name, note, octets=octets)


def test_long_uses_run_in_threads_one_at_a_time_and_short_ones_that_wait_come_first() -> None:
    threads = Threads()
    log = Log(ContextTurns(threads))
    log.use("short", GSS_SHORT_OCTETS)
    assert log.done == ["short"]
    log.use("long", LONG)
    assert log.turns.taken
    log.use("long after", LONG)
    log.use("short after", 0)
    log.use("short at last", 0)
    assert (log.done, len(threads.given)) == (["short"], 1)
    threads.end()
    assert log.done[1:] == ["long", "short after", "short at last"]
    assert len(threads.given) == 1
    threads.end()
    assert log.done[-1] == "long after"
    assert not log.turns.taken
    assert not threads.given


def test_a_use_that_fails_is_told_its_error_and_frees_the_turn() -> None:
    threads = Threads()
    turns = ContextTurns(threads)
    outcomes: list[Outcome[Any]] = []

    def fail() -> None:
        raise ValueError("no")

    for octets in (0, LONG):
        turns.use(fail, outcomes.append, octets=octets)
    turns.use(lambda: 7, outcomes.append, octets=0)
    threads.end()
    for outcome in outcomes[:2]:
        with pytest.raises(ValueError, match="no"):
            outcome()
    assert outcomes[2]() == 7


def test_the_taker_of_an_outcome_that_raises_does_not_stop_the_uses_that_wait() -> None:
    threads = Threads()
    log = Log(ContextTurns(threads))

    def refuse(outcome: Outcome[None]) -> None:
        raise RuntimeError("a fault of the taker")

    for octets in (LONG, 0, 0):
        log.turns.use(lambda: None, refuse, octets=octets)
        log.use(f"after {octets}", octets)
    with pytest.raises(RuntimeError):
        threads.end()
    assert log.done == ["after 0", "after 0"]
    threads.end()
    assert log.done[2:] == [f"after {LONG}"]


def test_a_use_for_which_there_is_no_thread_raises_and_frees_the_turn() -> None:
    def none(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        raise RuntimeError("no thread")

    log = Log(ContextTurns(none))
    with pytest.raises(RuntimeError):
        log.use("long", LONG)
    log.use("after", 0)
    assert log.done == ["after"]


def test_without_threads_all_uses_are_short() -> None:
    log = Log(ContextTurns())
    assert not log.turns.postpones(LONG)
    log.use("long", LONG)
    assert log.done == ["long"]


@pytest.mark.req("OR-12")
@given(st.integers(1, 8), st.lists(st.integers(0, 40), max_size=60))
def test_each_number_from_the_window_on_is_taken_once(size: int, numbers: list[int]) -> None:
    window = SequenceWindow(size)
    seen: set[int] = set()
    for number in numbers:
        highest = max(seen, default=-1)
        fits = number > highest - size and number not in seen
        assert window.take(number) == fits, (number, seen)
        if fits:
            seen.add(number)


def test_a_number_far_below_the_window_costs_no_memory() -> None:
    window = SequenceWindow(4)
    assert window.take(0x7FFFFFFF)
    tracemalloc.start()
    try:
        assert not window.take(0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
