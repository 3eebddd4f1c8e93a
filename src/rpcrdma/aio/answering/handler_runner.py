"""Runs handlers of calls: in the event loop, in a worker thread or as a task."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from time import perf_counter_ns
from typing import Any, TypeAlias

from rpcrdma.aio.answering.answer_log import AnswerLog
from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool
from rpcrdma.aio.drivers.effects import effects_of
from rpcrdma.limits import SERVER_WORKERS
from rpcrdma.rpc.service import Execution, WorkerNeeded
from rpcrdma.xdr.codec import Payload

__all__ = ["HandlerRunner"]

_Result: TypeAlias = tuple[Payload, BaseException | None]
"""The reply, and the exception of the handler that it reports; None if the handler returned."""

_LOGGER = logging.getLogger("rpcrdma.server")
_INLINE, _INLINE_OR_WORKER, _WORKER = Execution.INLINE, Execution.INLINE_OR_WORKER, Execution.WORKER

_STOPPED = RuntimeError("the server has stopped")


class _Period:
    """Counts the running calls (`running`) that began in one period of time.

    `HandlerRunner.settle` closes the present period and begins a new one, so that it can wait for earlier calls while
    others begin. The event `ended` is set when the last running call of a closed period ends, never in an open period.
    """

    __slots__ = ("ended", "running")

    def __init__(self) -> None:
        self.running = 0
        self.ended = asyncio.Event()


class HandlerRunner:
    """Runs the handlers of received calls in the running event loop, as its tasks, or in at most `workers` threads.

    The `Execution` of each handler decides which of these. `logger` gets failures of handlers.
    """

    def __init__(self, *, workers: int = SERVER_WORKERS, logger: logging.Logger = _LOGGER) -> None:
        self._loop = asyncio.get_running_loop()
        effects = effects_of(self._loop)
        self._before_handler = effects.before_handler
        pool = effects.worker_pool or WorkerPool
        self.workers: WorkerPool[ServerCall, _Result] = pool(workers, self._work, self._deliver, self._let_go)
        self.log = AnswerLog(logger)
        # With the awaitable of each, in order: a simulation must cancel them in the same order each time.
        self._tasks: dict[asyncio.Task[None], Awaitable[Any]] = {}
        self._idle: asyncio.Event | None = None
        self._drained = False
        self.running = 0
        """The number of calls that run in worker threads and tasks or wait for a thread, and of computations."""
        self._period = _Period()
        """Counts the calls in threads and tasks that began since the last call of `settle`."""
        self._past: list[_Period] = []
        """The earlier periods whose calls still run."""

    def run(self, call: ServerCall) -> None:
        """Runs the handler of `call`, and then answers the call; called in the thread of the event loop.

        `call.route.execution` decides where the handler runs: inline, as a task or in a thread. An inline handler that
        raises `WorkerNeeded` runs again in a thread, and one that yields goes on there. Only a handler that ends inline
        has ended when this method returns. A call without room for its results waits first. A handler that finds no
        memory while it runs (`OutOfBuffers`) is run again later if it may begin twice. All other errors of handlers
        become error replies. A call that still runs at the deadline of `drain` is never answered; a call after `drain`
        is answered with SYSTEM_ERR.
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
                    call.step = next(result)
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
        except WorkerNeeded as wait:
            call.step = wait.step
            try:
                if execution is _INLINE_OR_WORKER:
                    call.rest = route.handler(call.args, call)
                self._start_worker(call)
            except Exception as error:  # noqa: BLE001 - as below
                reply = self.log.failed(call, error)
            else:
                return
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - any error of a handler or bound is answered
            if self._waits(error, call):
                return
            reply = self.log.failed(call, error)
        call.answer(reply)
        if call.reserved:
            call.end_reservation()

    def run_unless_ended(self, call: ServerCall) -> None:
        """Runs a call that has waited for memory, as `run` does.

        If the connection of the call has ended meanwhile, the call ends by `ServerCall.let_go` instead.
        """
        call.sent_ns = perf_counter_ns()
        if call.ended:
            call.let_go()
        else:
            self.run(call)

    async def drain(self, deadline_s: float) -> bool:
        """Waits up to `deadline_s` seconds until no handler runs or waits for a thread, then ends the runner for good.

        Computations count as handlers. Calls that wait for memory do not count: they get SYSTEM_ERR when they would
        run. Handlers that still run as tasks are cancelled, and get `deadline_s` seconds more to end. A handler that
        blocks in a thread cannot be cancelled: its result is dropped, and the interpreter exits without it. The other
        threads end. If the wait is cancelled, tasks are cancelled and queued calls dropped at once, by `end`.

        Returns:
            Whether all handlers and computations had ended before tasks were cancelled.
        """
        try:
            if self.running:
                self._idle = asyncio.Event()
                async with asyncio.timeout(deadline_s):
                    await self._idle.wait()
        except TimeoutError:
            pass
        finally:
            finished = self.running == 0
            tasks = list(self._tasks)
            self.end()
        if tasks:
            await asyncio.wait(tasks, timeout=deadline_s)
        self.workers.shutdown(wait=finished)
        self.log.flush()
        return finished

    def end(self) -> None:
        """Ends the runner for good without waiting: cancels the handlers that run as tasks, and drops queued calls.

        Handlers in threads run on, but their results are dropped. Later calls are answered with SYSTEM_ERR. No effect
        when repeated.
        """
        if self._drained:
            return  # a second cancellation would interrupt handlers that clean up
        self._drained = True
        for task in self._tasks:
            task.cancel()
        self.workers.shutdown(wait=False)
        self.log.flush()

    async def settle(self, deadline_s: float) -> bool:
        """Waits until the present calls in threads and tasks, and those that wait for a thread, have ended.

        Other calls may begin meanwhile. Returns False if some of the present calls have not ended after `deadline_s`
        seconds, else True.
        """
        self._past = [each for each in (*self._past, self._period) if each.running]
        self._period = _Period()
        try:
            async with asyncio.timeout(deadline_s):
                for period in self._past:
                    await period.ended.wait()
        except TimeoutError:
            return False
        return True

    def _finished(self, call: ServerCall) -> None:
        """Counts the end of a call that ran in a thread or as a task, and gives back its reserved memory."""
        period = call.period
        period.running -= 1
        if not period.running and period is not self._period:
            period.ended.set()
        if call.reserved:
            call.end_reservation()
        self.end_one()

    def end_one(self) -> None:
        """Subtracts one ended call or computation from the attribute `running`, and wakes `drain` when none is left."""
        self.running -= 1
        if not self.running and self._idle is not None:
            self._idle.set()

    def _waits(self, error: BaseException, call: ServerCall) -> bool:
        """Schedules another run of a call whose handler raised `error`, an `OutOfBuffers`; returns whether it did.

        Returns False if `error` is another error, the handler must not begin twice, the runner is drained, or the call
        can never have its memory, as after the end of its connection. The caller answers the call then.
        """
        if not isinstance(error, OutOfBuffers) or call.route.begins_once or self._drained:
            return False
        call.may_block = False  # it begins in the event loop again
        return call.wait_for_buffers(self.run_unless_ended)

    def _start_task(self, call: ServerCall, result: Awaitable[Any]) -> None:
        self.running += 1
        call.period = period = self._period
        period.running += 1
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
                reply = self.log.failed(call, error)  # something that the handler awaited was cancelled, not the call
            except Exception as error:  # noqa: BLE001 - any error of a handler is answered
                if self._waits(error, call):
                    return
                reply = self.log.failed(call, error)
            if not self._drained:
                call.answer(reply)
        finally:
            self._finished(call)

    def _start_worker(self, call: ServerCall) -> None:
        """Queues the handler of the call, or the generator `call.rest` of a handler that has begun, for a thread.

        Raises any error of `call.route.waits_for`, which names the resource that may block; then nothing is queued.
        """
        waits_for = call.route.waits_for
        thing = None if waits_for is None else waits_for(call.args)
        call.may_block = True
        self.running += 1
        call.period = period = self._period
        period.running += 1
        source = call.source
        # Also a call of NFS version 4.1, which begins once: closing its generator ends the call in its session.
        may_be_let_go = call.rest is None or not call.route.at_most_once
        self.workers.submit(
            source.host,
            source,
            call,
            brief=call.step is not None,
            may_be_let_go=may_be_let_go,
            waits_for=thing,
        )

    def _let_go(self, call: ServerCall) -> None:
        """Ends, by `ServerCall.let_go`, a call that still waited for a thread when its connection ended.

        If its handler has begun in the event loop, the handler's generator is closed first; an error of that is logged.
        """
        try:
            if call.rest is not None:
                call.rest.close()
        except Exception as error:  # noqa: BLE001 - logged; other calls are let go as well
            self.log.failed(call, error)
        try:
            call.let_go()
        finally:
            self._finished(call)

    def _work(self, call: ServerCall, worker: Worker) -> _Result:
        """Runs the handler of the call, or the generator of a handler that has begun, in the thread of `worker`.

        Returns the reply and None; or, if the handler raised, the error reply and the exception. Nothing is raised.
        """
        call.sent_ns = perf_counter_ns()
        try:
            rest, call.rest = call.rest, None
            if rest is None:
                worker.act_as(None if call.step is None else call.step.identity)
                result = call.route.handler(call.args, call)
            else:
                result = worker.finish(rest, call.step)
            return call.success(result), None
        except BaseException as error:  # noqa: BLE001 - in a thread even a SystemExit would go unnoticed
            return call.failure(error), error

    def _deliver(self, call: ServerCall, result: _Result) -> None:
        """Answers a call whose handler has ended in a thread, and logs the handler's error; runs in the event loop.

        `result` is (the reply, the exception of the handler that the reply reports, or None). Nothing is sent after
        `drain`, or if the call waits for memory to be run again.
        """
        reply, failure = result
        try:
            if failure is not None:
                if self._waits(failure, call):
                    return
                self.log.failed(call, failure)
            if not self._drained:
                call.answer(reply)
        finally:
            self._finished(call)
