"""Runs handlers where they belong: in the event loop, in a worker thread or as a task.

Knows nothing of how calls arrive and replies leave, so every server uses it.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter_ns
from typing import Any, TypeAlias

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.aio.answering.call_context import ServerCallContext
from rpcrdma.aio.answering.worker_pool import ConnectionCalls, WorkerPool
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.dispatch import Invocation
from rpcrdma.rpc.service import Execution, ProcedureUnavailable
from rpcrdma.xdr.codec import Payload

__all__ = ["Done", "HandlerRunner", "Unanswered"]


class Unanswered(enum.Enum):
    """Why a call gets no reply."""

    LET_GO = "let go"
    """Its connection ended before its handler began, or before the handler of a call that may run again was done."""
    SUPERSEDED = "superseded"
    """A repeat of it has come meanwhile, which gets the reply: this call is dropped."""
    NOT_KEPT = "not kept"
    """It is the repeat of a call whose reply is no longer kept: refused in the transport's way (RFC 8166 section 4.5.3:
    ERR_CHUNK), lest the requester go on repeating it."""


Done: TypeAlias = Callable[[Payload | Unanswered], object]
_Rest: TypeAlias = Generator[None, None, Any]
"""What is left of a handler that has begun."""
_Result: TypeAlias = tuple[Done, Payload, Invocation, ServerCallContext, BaseException | None, ConnectionCalls]

_LOGGER = logging.getLogger("rpcrdma.server")
_WORKERS = 8
"""Threads that block in file systems at the same time; what a Linux NFS server starts with."""

_INLINE, _INLINE_OR_WORKER = Execution.INLINE, Execution.INLINE_OR_WORKER

_STOPPED = RuntimeError("the server has stopped")


class HandlerRunner:
    """Runs invocations on the running event loop, with `workers` threads for handlers that may block."""

    def __init__(self, *, workers: int = _WORKERS, logger: logging.Logger = _LOGGER) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = WorkerPool(workers)
        self._log = LimitedLog(logger)
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: deque[_Result] = deque()
        self._woken = False
        self._idle: asyncio.Event | None = None
        self._drained = False
        self.running = 0
        """Calls in worker threads and tasks."""

    def run(self, invocation: Invocation, context: ServerCallContext, done: Done) -> None:
        """Runs the handler and calls `done` with the reply, or with LET_GO, exactly once, in the event loop.

        An inline handler is done when this returns. A call of a client that holds its share of memory waits first; one
        that finds none while it runs is run again later, if it is idempotent. After `drain` has run into its deadline
        `done` is not called for handlers that were still running; a call that comes later is answered with SYSTEM_ERR.
        """
        if self._drained:
            done(invocation.failure(_STOPPED))
            return
        if context.wait_if_crowded(self.run_unless_ended, invocation, context, done):
            return
        execution = invocation.execution
        if execution is _INLINE or execution is _INLINE_OR_WORKER:
            try:
                result = invocation.handler(invocation.args, context)
                if execution is _INLINE_OR_WORKER:
                    try:
                        next(result)
                    except StopIteration as end:
                        reply = invocation.success(end.value)
                    else:
                        self._start_worker(invocation, context, done, result)
                        return
                elif result is None or not hasattr(result, "__await__"):
                    reply = invocation.success(result)
                else:
                    self._start_task(invocation, result, context, done)
                    return
            except Exception as error:  # noqa: BLE001 - any error of a handler is answered
                if self._waits(error, invocation, context, done):
                    return
                reply = self._failed(invocation, context, error)
            done(reply)
        elif execution is Execution.WORKER:
            self._start_worker(invocation, context, done)
        else:
            self._start_task(invocation, invocation.handler(invocation.args, context), context, done)

    def run_unless_ended(self, invocation: Invocation, context: ServerCallContext, done: Done) -> None:
        """As `run`, for a call that has waited: its connection may have ended meanwhile."""
        context.begun_ns = perf_counter_ns()
        if context.ended:
            done(Unanswered.LET_GO)
        else:
            self.run(invocation, context, done)

    def connection_ended(self, connection: object) -> None:
        """Lets go of the calls of an ended connection that wait for a thread.

        A call that must not run twice and has begun is run to its end: a repeat of it gets the reply.
        """
        self._workers.connection_ended(connection)

    async def drain(self, deadline_s: float) -> bool:
        """Waits until nothing runs, at most `deadline_s` seconds; cancels tasks that still run, and ends the threads.

        A handler that blocks in a thread cannot be cancelled: its result is dropped, but the interpreter does not exit
        before it returns. Returns whether all were done. The runner runs nothing afterwards.
        """
        if self.running:
            self._idle = asyncio.Event()
            try:
                async with asyncio.timeout(deadline_s):
                    await self._idle.wait()
            except TimeoutError:
                pass
        finished = self.running == 0
        self._drained = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=deadline_s)
        self._workers.shutdown(wait=finished)
        self._log.flush()
        return finished

    def _failed(self, invocation: Invocation, context: ServerCallContext, error: BaseException) -> Payload:
        name = invocation.procedure.name
        if context.ended and isinstance(error, OutOfBuffers | TransportClosed):
            # The connection has ended, and with it the memory or the peer that the handler needed: no fault.
            pass
        elif isinstance(error, OutOfBuffers):
            # Clients bring this about, not the handler.
            self._log.log(logging.WARNING, "buffers", "%s was answered with SYSTEM_ERR: %s", name, error)
        elif not isinstance(error, ProcedureUnavailable):
            kind = f"{name} {type(error).__qualname__}"
            became = "; its connection has ended" if context.ended else " and was answered with SYSTEM_ERR"
            self._log.log(logging.ERROR, kind, f"%s failed{became}", name, error=error)
        return invocation.failure(error)

    def log_unfit_reply(self, invocation: Invocation, why: str) -> None:
        """Logs that a reply was made that cannot be sent, and the setting that would permit it."""
        name = invocation.procedure.name
        self._log.log(logging.WARNING, "unfit " + name, "the reply to %s could not be sent: %s", name, why)

    def log_long_call(self, peer: str, why: str) -> None:
        """Logs that a call was not read because it is too long."""
        self._log.log(logging.WARNING, "too long", "a call of %s was answered with GARBAGE_ARGS: %s", peer, why)

    def log_no_call(self, peer: str) -> None:
        """Logs that a message was dropped because it is no call."""
        self._log.log(logging.WARNING, "no call", "%s sent a message that is no call", peer)

    def _finished(self) -> None:
        self.running -= 1
        if not self.running and self._idle is not None:
            self._idle.set()

    def _waits(self, error: BaseException, invocation: Invocation, context: ServerCallContext, done: Done) -> bool:
        """Whether the call waits for memory and is run again, which a call that must not run twice cannot."""
        if not isinstance(error, OutOfBuffers) or invocation.at_most_once or self._drained:
            return False
        # It begins in the event loop again.
        context.may_block = False
        return context.wait_for_buffers(functools.partial(self.run_unless_ended, invocation, context, done))

    def _start_task(
        self, invocation: Invocation, result: Awaitable[Any], context: ServerCallContext, done: Done
    ) -> None:
        self.running += 1
        task = self._loop.create_task(self._await(invocation, result, context, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(
        self, invocation: Invocation, result: Awaitable[Any], context: ServerCallContext, done: Done
    ) -> None:
        context.begun_ns = perf_counter_ns()
        try:
            try:
                reply = invocation.success(await result)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # Something that the handler awaited was cancelled, not the call.
                reply = self._failed(invocation, context, error)
            except Exception as error:  # noqa: BLE001 - any error of a handler is answered
                if self._waits(error, invocation, context, done):
                    return
                reply = self._failed(invocation, context, error)
            if not self._drained:
                done(reply)
        finally:
            self._finished()

    def _start_worker(
        self, invocation: Invocation, context: ServerCallContext, done: Done, rest: _Rest | None = None
    ) -> None:
        """Runs the handler, or the `rest` of it, in a thread."""
        context.may_block = True
        self.running += 1
        work = functools.partial(self._work, invocation, context, done, rest)
        let_go = None
        if rest is None or not invocation.at_most_once:
            let_go = functools.partial(self._let_go, invocation, context, done, rest)
        self._workers.submit(context.peer, context.client, work, let_go)

    def _let_go(self, invocation: Invocation, context: ServerCallContext, done: Done, rest: _Rest | None) -> None:
        try:
            if rest is not None:
                rest.close()
        except Exception as error:  # noqa: BLE001 - logged; other calls are let go as well
            self._failed(invocation, context, error)
        try:
            done(Unanswered.LET_GO)
        finally:
            self._finished()

    def _work(
        self,
        invocation: Invocation,
        context: ServerCallContext,
        done: Done,
        rest: _Rest | None,
        calls: ConnectionCalls,
    ) -> None:
        context.begun_ns = perf_counter_ns()
        failure: BaseException | None = None
        try:
            result = invocation.handler(invocation.args, context) if rest is None else _finished(rest)
            reply = invocation.success(result)
        except BaseException as error:  # noqa: BLE001 - in a thread even a SystemExit would go unnoticed
            reply = invocation.failure(error)
            failure = error
        self._results.append((done, reply, invocation, context, failure, calls))
        # One wake-up serves all results that are there when the loop comes to it: it clears the flag first.
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                # The loop was closed after a drain that ran into its deadline: no connection waits for this result.
                self._results.clear()

    def _deliver(self) -> None:
        self._woken = False
        results = self._results
        # Results that threads add meanwhile come later: a flood of calls must not keep the loop from other connections.
        for _ in range(len(results)):
            done, reply, invocation, context, failure, calls = results.popleft()
            self._workers.release(calls)
            try:
                if failure is not None:
                    if self._waits(failure, invocation, context, done):
                        continue
                    self._failed(invocation, context, failure)
                if not self._drained:
                    done(reply)
            finally:
                self._finished()


def _finished(rest: _Rest) -> Any:
    """The result of a handler that may block from here on."""
    while True:
        try:
            next(rest)
        except StopIteration as end:
            return end.value
