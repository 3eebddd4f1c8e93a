"""An interrupt between any two instructions of a thread that waits: its call ends, and so does the thread's waiting."""

from __future__ import annotations

import asyncio
import dis
import sys
import threading
from asyncio import base_events, selector_events
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import pytest

from rpcrdma.aio import awaited_call
from rpcrdma.fsspec import waiting
from rpcrdma.sync import background_loop
from rpcrdma.sync.background_loop import BackgroundLoop
from support.cases import each_case

pytestmark = pytest.mark.thorough

WAITING_CODE = {module.__file__ for module in (awaited_call, background_loop, waiting, base_events, selector_events)}
ROUNDS = 2
"""The thread goes round a loop so often before the call ends."""
HANGS_S = 60

Boundary = tuple[CodeType, int, int]
"""The boundary before an instruction: its code, its offset there, and how often it has been reached before."""


@dataclass
class Work:
    """The coroutine that is waited for, and its history."""

    fails: bool
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    ended: int = 0
    finished: bool = False
    undone: list[str] = field(default_factory=list)

    async def run(self) -> str:
        self.begun += 1
        try:
            await self.may_end.wait()
            if self.fails:
                raise ValueError("as it should")
            self.finished = True
            return "result"
        finally:
            self.ended += 1

    async def end(self) -> None:
        self.may_end.set()
        await asyncio.gather(*await tasks(), return_exceptions=True)

    async def undo(self, result: str) -> None:
        self.undone.append(result)


class Tracer:
    """Notes the boundaries that a thread passes, and raises KeyboardInterrupt at one of them."""

    def __init__(self, at: Boundary | None, end: Callable[[], None], *, end_before: int) -> None:
        self.passed: dict[Boundary, None] = {}
        self.interrupted = False
        self._at = at
        self._end = end
        self._end_before = end_before
        self._times: dict[tuple[CodeType, int], int] = {}

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        code = frame.f_code
        if code.co_filename not in WAITING_CODE:
            return None
        # With lines switched off, Python 3.13 reports no instructions either.
        frame.f_trace_opcodes = True
        if event == "opcode":
            place = code, frame.f_lasti
            times = self._times[place] = self._times.get(place, -1) + 1
            if times == self._end_before and code is awaited_call._AwaitedCall.wait.__code__:
                self._end()
            if times < ROUNDS:
                self.passed[(*place, times)] = None
                if (*place, times) == self._at:
                    self.interrupted = True
                    raise KeyboardInterrupt
        return self


@pytest.fixture(scope="module")
def loop() -> Iterator[BackgroundLoop]:
    made = BackgroundLoop()
    yield made
    made.end()


# Either goes on in `awaited_call.wait_for`, whose boundaries are among the tried ones.
def by_background_loop(loop: BackgroundLoop, work: Work) -> str:
    return loop.run(work.run, undo=work.undo)


def by_fsspec(loop: BackgroundLoop, work: Work) -> str:
    return waiting.sync(loop._loop, work.run)


@each_case("end_before", [0, ROUNDS])
@each_case("fails", [False, True])
@each_case("wait", [by_background_loop, by_fsspec])
def test_an_interrupt_at_any_instruction_ends_the_call_and_the_waiting(
    loop: BackgroundLoop,
    wait: Callable[[BackgroundLoop, Work], str],
    fails: bool,
    end_before: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(awaited_call, "_SIGNALS_HEEDED_S", 0.001)

    def once(at: Boundary | None) -> Tracer:
        work, outcome = Work(fails), []
        tracer = Tracer(at, lambda: in_loop(loop, work.end()), end_before=end_before)
        thread = threading.Thread(target=waiter, args=(tracer, lambda: wait(loop, work), outcome), daemon=True)
        thread.start()
        where = "not interrupted" if at is None else f"interrupted in {at[0].co_qualname} before {instruction(at)}"
        thread.join(HANGS_S)
        hangs = thread.is_alive()
        left = in_loop(loop, tasks())
        if hangs:
            in_loop(loop, work.end())
        assert not hangs, f"{where}: the thread still waits"
        assert left == [], f"{where}: tasks are left"
        assert work.begun == work.ended, f"{where}: the call has neither finished nor been cancelled"
        if at is None:
            assert outcome == (["as it should"] if fails else ["result"])
            return tracer
        assert tracer.interrupted, f"{where}: this was not reached"
        assert outcome == ["KeyboardInterrupt"], where
        # An instruction that returns is reached behind the code that can undo.
        if work.finished and wait is not by_fsspec and instruction(at) != "RETURN_VALUE":
            assert work.undone == ["result"], where
        return tracer

    # The boundaries that are passed when nothing interrupts are all those of the waiting code.
    boundaries = once(None).passed
    assert {boundary[0].co_qualname for boundary in boundaries} >= {"wait_for", "_AwaitedCall.wait"}
    for boundary in boundaries:
        once(boundary)


def in_loop(loop: BackgroundLoop, work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(work, loop._loop).result(HANGS_S)


def instruction(boundary: Boundary) -> str:
    code, offset, _ = boundary
    return next(each.opname for each in dis.get_instructions(code) if each.offset == offset)


def waiter(tracer: Tracer, wait: Callable[[], str], outcome: list[str]) -> None:
    sys.settrace(tracer)
    try:
        outcome.append(wait())
    except KeyboardInterrupt:
        outcome.append("KeyboardInterrupt")
    except ValueError as error:
        outcome.append(str(error))
    finally:
        sys.settrace(None)


async def tasks() -> list[Any]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
