"""Runs the handlers of calls: in the event loop, in worker threads or as tasks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Any, TypeAlias

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool
from rpcrdma.aio.drivers.effects import effects_of
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.service import CredentialTooWeak, Execution, ProcedureUnavailable
from rpcrdma.xdr.codec import Payload

__all__ = ["HandlerRunner"]

_Result: TypeAlias = tuple[Payload, BaseException | None]
"""The reply, and why it reports a failure."""

_Computation: TypeAlias = tuple[Callable[[], Any], Callable[[Any], None]]
"""The work, and the taker of its result."""

_LOGGER = logging.getLogger("rpcrdma.server")
_WORKERS = 8
"""Threads that block in file systems at the same time; what a Linux NFS server starts with."""

_COMPUTING = max(1, (os.cpu_count() or 1) - 1)
"""Threads that compute at the same time: one processor is for the event loop."""

_INLINE, _INLINE_OR_WORKER, _WORKER = Execution.INLINE, Execution.INLINE_OR_WORKER, Execution.WORKER

_STOPPED = RuntimeError("the server has stopped")


class HandlerRunner:
    """Runs the handlers of calls on the running event loop, with `workers` threads for handlers that may block."""

    def __init__(self, *, workers: int = _WORKERS, logger: logging.Logger = _LOGGER) -> None:
        self._loop = asyncio.get_running_loop()
        effects = effects_of(self._loop)
        self._before_handler = effects.before_handler
        pool = effects.worker_pool or WorkerPool
        self._workers: WorkerPool[ServerCall, _Result] = pool(workers, self._work, self._deliver, self._let_go)
        self._computing: WorkerPool[_Computation, Any] | None = None
        self._log = LimitedLog(logger)
        # With the awaitable of each, in order: a simulation must cancel them in the same order each time.
        self._tasks: dict[asyncio.Task[None], Awaitable[Any]] = {}
        self._idle: asyncio.Event | None = None
        self._drained = False
        self.running = 0
        """Calls in worker threads and tasks, and computations."""

    def run(self, call: ServerCall) -> None:
        """Runs the handler and answers the call, or lets it go, exactly once, in the event loop.

        An inline handler is done when this returns. A call for whose results there is no room waits first; one that
        finds no memory while it runs is run again later, if it is idempotent. After `drain` has run into its deadline
        calls whose handlers were still running are not answered; a call that comes later is answered with SYSTEM_ERR.
        """
        if self._drained:
            call.answer(call.failure(_STOPPED))
            return
        route = call.route
        execution = route.execution
        try:
            if (route.reserves or call.source.results.client.held) and call.wait_for_room(self.run_unless_ended):
                return
            if execution is _WORKER:
                self._start_worker(call)
                return
            if self._before_handler is not None:
                self._before_handler(route.name)
            result = route.handler(call.args, call)
            if execution is _INLINE_OR_WORKER:
                try:
                    call.within = next(result)
                except StopIteration as end:
                    reply = call.success(end.value)
                else:
                    call.rest = result
                    self._start_worker(call)
                    return
            elif execution is _INLINE and (result is None or not hasattr(result, "__await__")):
                reply = call.success(result)
            else:
                self._start_task(call, result)
                return
        except Exception as error:  # noqa: BLE001 - any error of a handler, or of a procedure's bound, is answered
            if self._waits(error, call):
                return
            reply = self._failed(call, error)
        call.answer(reply)
        if call.reserved:
            call.end_reservation()

    def run_unless_ended(self, call: ServerCall) -> None:
        """As `run`, for a call that has waited: its connection may have ended meanwhile."""
        call.sent_ns = perf_counter_ns()
        if call.ended:
            call.let_go()
        else:
            self.run(call)

    def connection_ended(self, connection: object) -> None:
        """Lets go of the calls of an ended connection that wait for a thread.

        A call that must not run twice and has begun is run to its end: a repeat of it gets the reply.
        """
        self._workers.connection_ended(connection)

    def compute(self, address: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Calls `work()`, which does not raise, in a thread for computations, and `done` with its result in the loop.

        Clients take turns by `address`. After `drain` has run into its deadline nothing is called.
        """
        if self._computing is None:
            pool = effects_of(self._loop).worker_pool or WorkerPool
            self._computing = pool(_COMPUTING, _computed, self._take_computed, _stays)
        self.running += 1
        self._computing.submit(address, address, (work, done), brief=False, may_be_let_go=False)

    def _take_computed(self, computation: _Computation, result: Any) -> None:
        try:
            if not self._drained:
                computation[1](result)
        finally:
            self._one_less()

    async def drain(self, deadline_s: float) -> bool:
        """Waits until nothing runs, at most `deadline_s` seconds; cancels tasks that still run, and ends the threads.

        A handler that blocks in a thread cannot be cancelled: its result is dropped, and the interpreter exits without
        it. Returns whether all were done. The runner runs nothing afterwards.
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
        if self._computing is not None:
            self._computing.shutdown(wait=finished)
        self._log.flush()
        return finished

    def _failed(self, call: ServerCall, error: BaseException) -> Payload:
        name = call.route.name
        if call.ended and isinstance(error, OutOfBuffers | TransportClosed):
            pass  # with its connection the memory or the peer that the handler needed has ended: no fault
        elif isinstance(error, OutOfBuffers):
            # Clients bring this about, not the handler.
            self._log.log(logging.WARNING, "buffers", "%s was answered with SYSTEM_ERR: %s", name, error)
        elif not isinstance(error, ProcedureUnavailable | CredentialTooWeak):
            kind = f"{name} {type(error).__qualname__}"
            became = "; its connection has ended" if call.ended else " and was answered with SYSTEM_ERR"
            self._log.log(logging.ERROR, kind, f"%s failed{became}", name, error=error)
        return call.failure(error)

    def log_unfit_reply(self, call: ServerCall, why: str) -> None:
        """Logs that a reply was made that cannot be sent, and the setting that would permit it."""
        name = call.route.name
        self._log.log(logging.WARNING, "unfit " + name, "the reply to %s could not be sent: %s", name, why)

    def log_long_call(self, peer: str, why: str) -> None:
        """Logs that a call was not read because it is too long."""
        self._log.log(logging.WARNING, "too long", "a call of %s was answered with GARBAGE_ARGS: %s", peer, why)

    def log_no_call(self, peer: str) -> None:
        """Logs that a message was dropped because it is no call."""
        self._log.log(logging.WARNING, "no call", "%s sent a message that is no call", peer)

    def _finished(self, call: ServerCall) -> None:
        if call.reserved:
            call.end_reservation()
        self._one_less()

    def _one_less(self) -> None:
        self.running -= 1
        if not self.running and self._idle is not None:
            self._idle.set()

    def _waits(self, error: BaseException, call: ServerCall) -> bool:
        """Whether the call waits for memory and is run again, which a call that must not run twice cannot."""
        if not isinstance(error, OutOfBuffers) or call.route.at_most_once or self._drained:
            return False
        call.may_block = False  # it begins in the event loop again
        return call.wait_for_buffers(self.run_unless_ended)

    def _start_task(self, call: ServerCall, result: Awaitable[Any]) -> None:
        self.running += 1
        task = self._loop.create_task(self._await(call, result))
        self._tasks[task] = result
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        result = self._tasks.pop(task)
        if task.cancelled() and inspect.iscoroutine(result):
            result.close()  # a task that was cancelled before it began has not awaited it: Python would warn

    async def _await(self, call: ServerCall, result: Awaitable[Any]) -> None:
        call.sent_ns = perf_counter_ns()
        try:
            try:
                reply = call.success(await result)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                reply = self._failed(call, error)  # something that the handler awaited was cancelled, not the call
            except Exception as error:  # noqa: BLE001 - any error of a handler is answered
                if self._waits(error, call):
                    return
                reply = self._failed(call, error)
            if not self._drained:
                call.answer(reply)
        finally:
            self._finished(call)

    def _start_worker(self, call: ServerCall) -> None:
        """Runs the handler, or the rest of it, in a thread."""
        call.may_block = True
        self.running += 1
        source = call.source
        may_be_let_go = call.rest is None or not call.route.at_most_once
        self._workers.submit(source.host, source, call, brief=call.within is not None, may_be_let_go=may_be_let_go)

    def _let_go(self, call: ServerCall) -> None:
        try:
            if call.rest is not None:
                call.rest.close()
        except Exception as error:  # noqa: BLE001 - logged; other calls are let go as well
            self._failed(call, error)
        try:
            call.let_go()
        finally:
            self._finished(call)

    def _work(self, call: ServerCall, worker: Worker) -> _Result:
        call.sent_ns = perf_counter_ns()
        try:
            rest, call.rest = call.rest, None
            if rest is None:
                worker.go_within(None)
                result = call.route.handler(call.args, call)
            else:
                result = worker.finish(rest, call.within)
            return call.success(result), None
        except BaseException as error:  # noqa: BLE001 - in a thread even a SystemExit would go unnoticed
            return call.failure(error), error

    def _deliver(self, call: ServerCall, result: _Result) -> None:
        reply, failure = result
        try:
            if failure is not None:
                if self._waits(failure, call):
                    return
                self._failed(call, failure)
            if not self._drained:
                call.answer(reply)
        finally:
            self._finished(call)


def _computed(computation: _Computation, worker: Worker) -> Any:
    del worker
    return computation[0]()


def _stays(computation: _Computation) -> None:
    """No computation is let go."""
