"""Where handlers run and how their results come back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import pytest

from rpcrdma import errors
from rpcrdma.aio.answering.buffer_pool import BufferPool, OutOfBuffers
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.calling import CallEncoder, decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import (
    MAY_BLOCK,
    ActAs,
    ProcedureUnavailable,
    Service,
    Steps,
    WorkerNeeded,
    in_worker,
    inline_or_worker,
)
from rpcrdma.xdr.codec import Decoder, Payload
from support.cases import each_case
from support.loops import in_virtual_time
from support.programs import procedure
from support.waiting import time_passes, until

WORD = procedure(9, 1, "word")


class Connection:
    """A connection on which one call arrives; implements the part of `CallSource` used here."""

    def __init__(self, pool: BufferPool) -> None:
        self.host = "192.0.2.7"
        self.results = pool.share(self.host)
        self.replies: list[Payload] = []
        self.done = asyncio.Event()

    def reply(self, _call: ServerCall, reply: Payload) -> None:
        self.replies.append(reply)
        self.done.set()


def arrived(connection: Connection, handler: Any, args: int = 5, *, idempotent: bool = False) -> ServerCall:
    """A call answered by `handler(args, context)`."""

    class One(Service):
        PROGRAM = Program(9, 1, "ONE", {1: WORD})
        IDEMPOTENT = frozenset({1} if idempotent else ())

    service = One()
    service.word = handler  # type: ignore[attr-defined]
    call = ServerCall(1, Decoder(CallEncoder().encode(1, WORD, args).reduced))
    call.source = cast("Any", connection)
    assert Dispatcher([service]).open_call(call) is None
    return call


class Run:
    """One call and the replies to it."""

    def __init__(
        self, runner: HandlerRunner, handler: Any, *, idempotent: bool = False, pool: BufferPool | None = None
    ) -> None:
        self.pool = pool or BufferPool()
        connection = Connection(self.pool)
        self.call = arrived(connection, handler, idempotent=idempotent)
        self.replies = connection.replies
        self.done = connection.done
        runner.run(self.call)

    @property
    def result(self) -> int:
        (reply,) = self.replies
        return decode_result(Decoder(reply.reduced), 1, WORD)


@inline_or_worker
def need_not_block(args: int, context: Any) -> Steps[int]:
    if args != 5:
        yield MAY_BLOCK
    return args + 1


@each_case("handler", [lambda args, context: args + 1, need_not_block])
@in_virtual_time
async def test_a_handler_that_does_not_block_is_done_at_once(handler: Any) -> None:
    runner = HandlerRunner()
    assert Run(runner, handler).result == 6
    assert runner.running == 0
    assert await runner.drain(0)


@each_case(("steps", "acts"), [(False, False), (True, False), (False, True), (True, True)])
async def test_what_takes_a_worker_thread_begins_anew_in_one(*, steps: bool, acts: bool) -> None:
    began, acting = [], []

    @contextmanager
    def identity() -> Iterator[None]:
        acting.append(threading.get_ident())
        yield

    def inline(args: int, context: Any) -> int:
        began.append(threading.get_ident())
        if len(began) == 1:
            raise WorkerNeeded(ActAs(identity()) if acts else MAY_BLOCK)
        return args + 1

    @inline_or_worker
    def either(args: int, context: Any) -> Steps[int]:
        return inline(args, context)
        yield MAY_BLOCK

    runner = HandlerRunner()
    run = Run(runner, either if steps else inline)
    await run.done.wait()
    assert run.result == 6
    loop, worker = began
    assert loop == threading.get_ident() != worker
    assert acting == [worker] * acts
    assert await runner.drain(1)


def raising(where: str, error: BaseException) -> Any:
    """A handler that raises an error in the event loop, in a worker thread or as a coroutine."""

    def inline(args: int, context: Any) -> int:
        raise error

    @in_worker
    def worker(args: int, context: Any) -> int:
        raise error

    @inline_or_worker
    def either(args: int, context: Any) -> Steps[int]:
        if where == "late":
            yield MAY_BLOCK
        raise error

    async def coroutine(args: int, context: Any) -> int:
        await asyncio.sleep(0)
        raise error

    return {"inline": inline, "worker": worker, "task": coroutine}.get(where, either)


@each_case(
    ("where", "error"),
    [
        *((where, ValueError("x")) for where in ("inline", "worker", "early", "late", "task")),
        *((where, asyncio.CancelledError()) for where in ("inline", "task")),
        ("worker", SystemExit(3)),
    ],
)
async def test_whatever_a_handler_raises_is_a_system_error_and_is_logged(
    where: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    runner = HandlerRunner()
    for _ in range(3):
        run = Run(runner, raising(where, error))
        await run.done.wait()
        with pytest.raises(errors.RemoteSystemError):
            _ = run.result
    assert await runner.drain(60)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert caplog.records[0].exc_info is not None
    assert caplog.messages[1] == "WORD failed and was answered with SYSTEM_ERR (the last of 2 more like it)"


@each_case("where", ["worker", "late", "needed"])
async def test_a_call_whose_resource_cannot_be_told_is_a_system_error_and_does_not_count_as_running(where: str) -> None:
    def needed(args: int, context: Any) -> int:
        raise WorkerNeeded(MAY_BLOCK)

    handler = needed if where == "needed" else raising(where, ValueError("not run"))
    runner = HandlerRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "WAITS_FOR", lambda _service, args: args.nothing)
        with pytest.raises(errors.RemoteSystemError):
            _ = Run(runner, handler).result
    assert await runner.drain(0)


@in_virtual_time
async def test_failures_that_were_held_back_are_told_of_though_no_more_follow(caplog: pytest.LogCaptureFixture) -> None:
    runner = HandlerRunner()
    for _ in range(3):
        Run(runner, lambda args, context: args / 0)
    await time_passes(59)
    assert len(caplog.records) == 1
    await time_passes(2)
    assert "2 more like it" in caplog.messages[1]
    await runner.drain(0)


async def test_a_procedure_that_is_left_out_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    def handler(args: int, context: Any) -> int:
        raise ProcedureUnavailable

    runner = HandlerRunner()
    with pytest.raises(errors.NoSuchProcedure):
        _ = Run(runner, handler).result
    await runner.drain(0)
    assert not caplog.records


@each_case("kind", ["worker", "task"])
async def test_the_end_of_calls_that_run_is_awaited_while_others_begin(kind: str) -> None:
    ends = threading.Event(), threading.Event(), threading.Event()

    async def turn(number: int) -> int:
        await until(ends[number].is_set)
        return number

    def work(number: int) -> int:
        ends[number].wait()
        return number

    runner = HandlerRunner()

    def begin(number: int) -> Run:
        if kind == "task":
            return Run(runner, lambda _args, _context: turn(number))
        return Run(runner, in_worker(lambda _args, _context: work(number)))

    assert await runner.settle(60), "nothing runs"
    first = begin(0)
    assert not await runner.settle(0.001), "a real limit of time ends the wait"
    second = begin(1)
    settled = asyncio.create_task(runner.settle(60))
    await asyncio.sleep(0)
    third = begin(2)
    ends[1].set()
    await second.done.wait()
    assert not settled.done(), "the first one, which an earlier wait has not outlasted, runs on"
    ends[0].set()
    await first.done.wait()
    assert await settled
    assert not third.replies
    ends[2].set()
    assert await runner.settle(60)
    assert await runner.drain(60)
    assert third.result == 2


async def test_a_handler_that_would_block_is_entered_once_and_goes_on_in_a_thread_with_its_buffers() -> None:
    seen: list[tuple[bool, bool, int]] = []

    def note(context: Any) -> None:
        in_loop = threading.current_thread() is threading.main_thread()
        seen.append((in_loop, context.may_block, context.source.results.held))

    @inline_or_worker
    def handler(args: int, context: Any) -> Steps[int]:
        buffer = context.buffer(10_000)
        buffer[0] = 7
        note(context)
        yield MAY_BLOCK
        note(context)
        yield MAY_BLOCK
        assert buffer[0] == 7
        note(context)
        return args

    runner = HandlerRunner()
    call = Run(runner, handler)
    assert runner.running == 1
    await call.done.wait()
    assert call.result == 5
    call.call.release()
    assert call.pool.lent_octets == 0
    assert await runner.drain(60)
    assert seen == [(True, False, 16_384), (False, True, 16_384), (False, True, 16_384)]


async def test_a_handler_that_finds_no_memory_in_its_thread_begins_again_in_the_event_loop_and_knows_it() -> None:
    pool = BufferPool(octets_max=8192)
    seen: list[tuple[bool, bool]] = []

    @inline_or_worker
    def handler(args: int, context: Any) -> Steps[int]:
        seen.append((threading.current_thread() is threading.main_thread(), context.may_block))
        yield MAY_BLOCK
        seen.append((threading.current_thread() is threading.main_thread(), context.may_block))
        return args if len(context.buffer(8192)) else 0

    runner = HandlerRunner()
    other = pool.share("192.0.2.8")
    taken = other.acquire(8192)
    assert taken is not None
    call = Run(runner, handler, idempotent=True, pool=pool)
    await until(lambda: pool.waited_for)
    other.release(taken)
    await call.done.wait()
    assert call.result == 5
    call.call.release()
    assert await runner.drain(60)
    assert seen == [(True, False), (False, True)] * 2


def test_a_handler_that_never_says_that_it_would_block_is_not_taken_for_one_that_may() -> None:
    def handler(args: int, context: Any) -> int:
        return args

    with pytest.raises(TypeError, match=r"handler has no `yield` before what may block: mark it with in_worker"):
        inline_or_worker(handler)  # type: ignore[arg-type]


@each_case("where", ["inline", "worker", "task"])
@each_case("error", [None, TransportClosed("it has ended")])
def test_a_handler_whose_connection_has_ended_is_not_said_to_have_failed_or_been_answered(
    where: str, error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def inline(args: int, context: Any) -> int:
        context.source.results.close()
        if error is not None:
            raise error
        return len(context.buffer(10))

    @in_worker
    def worker(args: int, context: Any) -> int:
        return inline(args, context)

    async def task(args: int, context: Any) -> int:
        await asyncio.sleep(0)
        return inline(args, context)

    async def main() -> None:
        runner = HandlerRunner()
        handler = {"inline": inline, "worker": worker, "task": task}[where]
        call = Run(runner, handler, idempotent=True)
        await call.done.wait()
        with pytest.raises(errors.RemoteSystemError):
            _ = call.result
        assert call.pool.lent_octets == 0
        assert await runner.drain(60)

    asyncio.run(main())
    assert [record for record in caplog.records if record.name.startswith("rpcrdma")] == []


async def test_a_fault_is_logged_also_when_the_connection_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    def handler(args: int, context: Any) -> int:
        context.source.results.close()
        raise ValueError(args)

    runner = HandlerRunner()
    Run(runner, handler)
    await runner.drain(0)
    assert [record.getMessage() for record in caplog.records] == ["WORD failed; its connection has ended"]


async def test_a_small_result_takes_none_of_the_memory_that_is_shared() -> None:
    pool = BufferPool(octets_max=8192)

    call = arrived(Connection(pool), lambda args, context: args)
    other = pool.share("192.0.2.8")
    whole = other.acquire(8192)
    assert whole is not None
    small = call.buffer(4096)
    small[:] = b"a" * 4096
    with pytest.raises(OutOfBuffers):
        call.buffer(4097)
    call.release()
    assert (pool.lent_octets, small) == (8192, b"a" * 4096)
    other.release(whole)


def told_identity(told: list[str], name: str, error: OSError | None = None) -> AbstractContextManager[None]:
    """An identity that says when a thread enters and leaves it, or cannot be entered."""

    @contextmanager
    def identity() -> Iterator[None]:
        if error is not None:
            raise error
        told.append(f"in {name}")
        yield
        told.append(f"out {name}")

    return identity()


async def test_a_handler_may_change_its_identity_and_a_failure_does_not_leave_it_to_others() -> None:
    told: list[str] = []
    alice, bob = told_identity(told, "alice"), told_identity(told, "bob")

    @inline_or_worker
    def failing(args: int, context: Any) -> Steps[int]:
        yield ActAs(alice)
        yield MAY_BLOCK
        told.append("own")
        yield ActAs(bob)
        raise ValueError(args)

    @inline_or_worker
    def plain(args: int, context: Any) -> Steps[int]:
        yield MAY_BLOCK
        told.append("own")
        return args

    runner = HandlerRunner(workers=1)
    for handler in (failing, plain):
        call = Run(runner, handler)
        await call.done.wait()
    assert call.result == 5
    assert await runner.drain(60)
    assert told == ["in alice", "out alice", "own", "in bob", "out bob", "own"]


async def test_an_identity_that_cannot_be_entered_is_an_error_at_the_handlers_yield() -> None:
    told: list[str] = []

    @inline_or_worker
    def handler(args: int, context: Any) -> Steps[int]:
        try:
            yield ActAs(told_identity(told, "alice", PermissionError("no")))
        except PermissionError:
            return args + 1
        return args

    runner = HandlerRunner(workers=1)
    call = Run(runner, handler)
    await call.done.wait()
    assert call.result == 6
    assert await runner.drain(60)
    assert told == []


async def test_draining_waits_for_what_runs() -> None:
    runner = HandlerRunner()
    gate = asyncio.Event()

    async def handler(args: int, context: Any) -> int:
        await gate.wait()
        return args

    call = Run(runner, handler)
    draining = asyncio.create_task(runner.drain(60))
    await asyncio.sleep(0)
    assert not draining.done()
    gate.set()
    assert await draining
    assert call.result == 5
    for late in (handler, lambda args, context: args):
        with pytest.raises(errors.RemoteSystemError):
            _ = Run(runner, late).result


async def test_draining_cancels_at_its_deadline_and_drops_late_results() -> None:
    begun, release = threading.Event(), threading.Event()
    cancelled: list[bool] = []

    @in_worker
    def blocking(args: int, context: Any) -> int:
        begun.set()
        release.wait(60)
        return args

    async def stubborn(args: int, context: Any) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return args

    runner = HandlerRunner()
    runs = [Run(runner, blocking), Run(runner, stubborn)]
    await until(begun.is_set)
    assert not await runner.drain(0.01)
    assert cancelled == [True]
    release.set()
    for thread in runner.workers._threads:
        assert thread.daemon
        await asyncio.to_thread(thread.join, 60)
    await until(lambda: not runner.running)
    assert [each.replies for each in runs] == [[], []]


def test_a_thread_that_outlives_the_loop_is_harmless() -> None:
    release = threading.Event()

    @in_worker
    def blocking(args: int, context: Any) -> int:
        release.wait(60)
        return args

    async def main() -> HandlerRunner:
        runner = HandlerRunner(workers=1)
        Run(runner, blocking)
        await runner.drain(0)
        return runner

    runner = asyncio.run(main())
    release.set()
    (thread,) = runner.workers._threads
    thread.join(60)
    assert not thread.is_alive()
