"""From a call that has arrived to its reply: its handler is found, and runs where and as often as it may.

A handler runs in the event loop, in a worker thread or as a task. Calls that must not run twice go by the reply cache:
a requester that lost its connection cannot know whether its calls ran, and asks again. Such a repeat is answered from
the cache, or along with the first call if that still runs. So is a call that is sent again because its reply was larger
than the memory that it had offered.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar, TypeAlias

from rpcrdma.aio.answering.answer_log import AnswerLog
from rpcrdma.aio.answering.buffer_pool import OutOfBuffers, octets_taken
from rpcrdma.aio.answering.call_source import CallSource, CallWithResults
from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool
from rpcrdma.aio.drivers.effects import effects_of
from rpcrdma.errors import DecodeError
from rpcrdma.limits import UNCOUNTED_RESULT_OCTETS
from rpcrdma.rpc.auth import AuthStat, Credential
from rpcrdma.rpc.call_statistics import DROPPED, REFUSED, REPEATED, CallStatistics
from rpcrdma.rpc.dispatch import Dispatcher, refusal
from rpcrdma.rpc.gss.context_turns import Outcome
from rpcrdma.rpc.gss.protection import CallDropped, CallWaits, OpenedCall
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS, SUCCESS_TAIL, AcceptStat, RejectStat, encode_auth_error
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_cache import KnownCall, ReplyCache, call_key, detached
from rpcrdma.rpc.service import ActAs, CredentialTooWeak, Execution, ProcedureUnavailable, ReverseCaller, Steps
from rpcrdma.xdr.codec import Encoder, Payload, padded_octets

__all__ = ["Answering", "AtMostOnce", "HandlerRunner", "ServerCall"]

_Result: TypeAlias = tuple[Payload, BaseException | None]
"""The reply, and why it reports a failure."""

_LOGGER = logging.getLogger("rpcrdma.server")
_WORKERS = 8
"""Threads that block in file systems at the same time; a Linux NFS server starts as many."""

_INLINE, _INLINE_OR_WORKER, _WORKER = Execution.INLINE, Execution.INLINE_OR_WORKER, Execution.WORKER

_STOPPED = RuntimeError("the server has stopped")
_REPLY_NOT_KEPT = RuntimeError("the reply to the call that this one repeats is not kept")
"""The error that a refused repeat gets where the transport has no refusal of its own."""


class ServerCall(CallWithResults):
    """A call and its handler's `CallContext`, from arrival to reply; statistics count it.

    `Dispatcher.open_call` sets `route`, `args` and `credential`. `status` is the result's, or a name; before a reply is
    made, the one for calls that are answered along with the call they repeat. The memory of `buffer` is lent until
    `release`, after the reply has been sent.
    """

    transmissions: ClassVar[int] = 1
    source: CallSource[ServerCall]
    client: ReverseCaller
    credential: Credential
    protection: OpenedCall | None = None
    """Of a call under RPCSEC_GSS. Replies are made, and kept, without it."""
    sealing: bool = False
    """Whether its reply waits for the protection."""
    on_sealed: Callable[[ServerCall], None] | None = None
    """Is called when a reply that has waited for its protection was sent, or refused."""
    procedure: Procedure[Any, Any] | None = None
    status: int | str = REPEATED
    may_block: bool = False
    rest: Steps[Any] | None = None
    """The rest of a handler that began in the event loop and continues in a worker thread."""
    step: ActAs | None = None
    """The first step of that handler."""
    once: _Run | None = None
    """Of a call that must not run twice, while its handler runs."""
    statistics: CallStatistics | None = None
    began_ns: int
    """When it arrived; this and the two times below are taken where calls are counted."""
    sent_ns: int = 0
    """When its handler began, or got a thread, memory or its turn as a task, after a wait for these."""
    ended_ns: int
    octets_received: int = 0
    octets_sent: int = 0
    unsent_octets: int = 0
    """Of the reply, from when it is handed to the transport until it has been sent; the connection's own."""

    @property
    def peer(self) -> str:
        """See `CallContext.peer`."""
        return self.source.host

    @property
    def principal(self) -> str | None:
        """See `CallContext.principal`."""
        return self.credential.principal

    @property
    def host_identity(self) -> HostIdentity | None:
        """See `CallContext.host_identity`."""
        return self.client.host_identity

    @property
    def ended(self) -> bool:
        """Whether the connection has ended: no reply can reach the client on it."""
        return self.source.results.closed

    def success(self, result: Any) -> Payload:
        """Returns the reply that carries `result`.

        An exception of the encoder means that the handler returned something else than the procedure's result.
        """
        enc = Encoder()
        enc.reduced += self.xid.to_bytes(4, "big") + SUCCESS_TAIL
        procedure = self.route.procedure
        procedure.encode_result(enc, result)
        self.status = procedure.status(result) if procedure.status is not None else 0
        return enc

    def failure(self, error: BaseException) -> Payload:
        """Returns the reply for a handler that raised `error`.

        PROC_UNAVAIL for `ProcedureUnavailable`, AUTH_TOOWEAK for `CredentialTooWeak`, else SYSTEM_ERR.
        """
        if isinstance(error, CredentialTooWeak):
            self.status = RejectStat.AUTH_ERROR.name
            enc = Encoder()
            encode_auth_error(enc, self.xid, AuthStat.AUTH_TOOWEAK)
            return enc
        unavailable = isinstance(error, ProcedureUnavailable)
        stat = AcceptStat.PROC_UNAVAIL if unavailable else AcceptStat.SYSTEM_ERR
        self.status = stat.name
        return refusal(self.xid, stat)

    def answer(self, reply: Payload, *, sealed: bool = False) -> None:
        """Sends the reply, here or to a repeat of the call, and counts the call.

        Under RPCSEC_GSS that may be later, unless the reply is `sealed`.
        """
        if self.once is not None:
            self.once.answer(reply)
            return
        if self.protection is not None and not sealed:
            self._seal(self.protection, reply)
            return
        statistics = self.statistics
        if statistics is None:
            self.source.reply(self, reply)
        else:
            self.ended_ns = perf_counter_ns()
            self.source.reply(self, reply)
            statistics.count(self)

    def _seal(self, protection: OpenedCall, reply: Payload) -> None:
        self.sealing = True

        def done(outcome: Outcome[Payload]) -> None:
            self.sealing = False
            self.answer(outcome(), sealed=True)
            if self.on_sealed is not None:
                self.on_sealed(self)

        work = functools.partial(protection.protect, reply)
        protection.turns.use(work, done, octets=protection.octets_sealed(reply))

    def refuse(self) -> None:
        """Refuses a repeat whose reply is no longer kept, so that the requester stops repeating it.

        The refusal is the transport's (RFC 8166 section 4.5.3: ERR_CHUNK), or SYSTEM_ERR where the transport has none.
        """
        self.status = REFUSED
        if self.source.refuse(self):
            self._count()
        else:
            self.answer(self.failure(_REPLY_NOT_KEPT))

    def let_go(self) -> None:
        """Ends a call whose connection ended before its handler had to run; a waiting repeat runs in its place."""
        if self.once is not None:
            self.once.let_go()
        else:
            self.drop()

    def drop(self) -> None:
        """Ends the call without a reply: its connection has ended, or a repeat of it gets the reply."""
        self.status = DROPPED
        self.source.drop(self)
        self._count()

    def _count(self) -> None:
        if self.statistics is not None:
            self.ended_ns = perf_counter_ns()
            self.statistics.count(self)

    @property
    def call_octets(self) -> int:
        """See `CallContext.call_octets`."""
        decoder = self.decoder
        return decoder.pos - decoder.start + decoder.removed

    def result_octets_max(self, items: Sequence[int] = ()) -> int:
        """See `CallContext.result_octets_max`."""
        protection = self.protection
        if protection is None:
            left = self.source.reply_octets_max(self, items)
        else:
            placed = () if protection.seals else items
            left = protection.content_octets_max(self.source.reply_octets_max(self, placed))
            if protection.seals:
                left -= padded_octets(items)
        return max(left - REPLY_HEADER_OCTETS, 0)

    def buffer(self, length: int) -> memoryview:
        """See `CallContext.buffer`.

        Raises:
            OutOfBuffers: the handlers of this connection hold as much memory as they may, or it has ended.
        """
        share = self.source.results
        if length <= UNCOUNTED_RESULT_OCTETS and not share.closed:
            return memoryview(bytearray(length))
        reserved = min(self.reserved, octets_taken(length)) if self.reserved else 0
        # A call that must not begin twice gets memory also when its connection has ended: a repeat may get its result.
        buffer = share.acquire(length, outliving=self.route.begins_once, reserved=reserved)
        if buffer is None:
            self._wanted = octets_taken(length) + sum(octets_taken(len(other)) for other in self.buffers or ())
            raise OutOfBuffers(f"{length} octets asked for, {share.held_octets} are in use for this connection")
        self.reserved -= reserved
        if self.buffers is None:
            self.buffers = [buffer]
        else:
            self.buffers.append(buffer)
        return buffer[:]  # a second view, since the handler may release the one that it gets


class Answering:
    """Finds the handlers of calls, runs them where their marks say, and answers.

    Shared by any number of connections. With `count_calls` calls are counted in the dispatcher's `statistics`.
    """

    __slots__ = ("_at_most_once", "_statistics", "dispatcher", "runner")

    def __init__(
        self,
        dispatcher: Dispatcher,
        runner: HandlerRunner,
        at_most_once: AtMostOnce | None = None,
        *,
        count_calls: bool = False,
    ) -> None:
        self.dispatcher = dispatcher
        self._statistics = dispatcher.statistics if count_calls else None
        self.runner = runner
        self._at_most_once = at_most_once or AtMostOnce(runner)

    def take(self, call: ServerCall, source: CallSource[ServerCall]) -> None:
        """Answers a call that has arrived on `source`: at once, or when its handler is done."""
        call.source, call.client = source, source.client
        if self._statistics is not None and call.statistics is None:
            call.statistics = self._statistics
            call.began_ns = call.sent_ns = perf_counter_ns()
        try:
            refused = self.dispatcher.open_call(call)
        except DecodeError:
            if not source.refuse(call):
                source.drop(call)
            return
        except CallDropped:
            call.drop()
            return
        except CallWaits as wait:
            wait.turns.use(wait.work, functools.partial(self._take_again, call), octets=wait.octets)
            return
        if call.statistics is not None:
            call.octets_received = call.decoder.position
            if refused is None and call.route.procedure.named is not None:
                call.procedure = call.route.procedure.named(call.args)
        if refused is not None:
            call.answer(refused)
        elif call.route.at_most_once:
            self._at_most_once.run(call)
        else:
            self.runner.run(call)

    def _take_again(self, call: ServerCall, outcome: Outcome[None]) -> None:
        """Takes a call again, from its start, that has waited for its turn in its security context.

        Drops it if its connection has ended.
        """
        outcome()
        if call.ended:
            call.drop()
        else:
            call.decoder.pos = call.decoder.start
            self.take(call, call.source)


class _Run:
    """The run of a call that must not run twice: the reply may go to a repeat of the call.

    `first` is the call whose connection and memory the handler uses, `newest` the last repeat of it, which gets the
    reply and is run should the first be let go; without repeats both are the same.
    """

    __slots__ = ("_at_most_once", "_known", "first", "newest")

    def __init__(self, at_most_once: AtMostOnce, known: KnownCall, call: ServerCall) -> None:
        self._at_most_once = at_most_once
        self._known = known
        self.first = self.newest = call

    def answer(self, reply: Payload) -> None:
        """See `ServerCall.answer`."""
        first, newest, known = self.first, self.newest, self._known
        first.once = known.context = None
        lasting = detached(reply)
        cache = self._at_most_once.cache
        cache.finish(known, lasting, self._at_most_once.time())
        if newest is first:
            first.answer(reply)
        else:
            newest.answer(lasting)
            first.drop()
        if newest.sealing:
            newest.on_sealed = functools.partial(self._sealed, lasting)
        elif newest.refusal:
            cache.hold(known, lasting)

    def _sealed(self, reply: Payload, call: ServerCall) -> None:
        if call.refusal:
            self._at_most_once.cache.hold(self._known, reply)

    def join(self, repeat: ServerCall) -> None:
        superseded, self.newest = self.newest, repeat
        if superseded is not self.first:
            superseded.drop()

    def let_go(self) -> None:
        """See `ServerCall.let_go`."""
        first, newest = self.first, self.newest
        first.once = None
        if newest is first:
            self._at_most_once.cache.forget(self._known)  # a repeat that comes later runs
        else:
            self.first = newest
            newest.once = self
            self._at_most_once.runner.run_unless_ended(newest)
        first.drop()


class AtMostOnce:
    """Runs each call once, however often it arrives; all connections of a server share the object."""

    def __init__(self, runner: HandlerRunner) -> None:
        self.time = asyncio.get_running_loop().time
        self.runner = runner
        self.cache = ReplyCache()

    def run(self, call: ServerCall) -> None:
        """Runs the handler, unless it runs or has run; the call ends as by `HandlerRunner.run`, or is refused."""
        protection = call.protection
        if protection is not None:
            client = f"{call.peer} {call.principal}"
            key = call_key(client, call.xid, call.route.procedure, protection.arguments, protection.skipped)
        else:
            key = call_key(call.peer, call.xid, call.route.procedure, call.decoder)
        known = self.cache.find(key, self.time())
        if known is None:
            known = self.cache.begin(key)
            known.context = call.once = _Run(self, known, call)
            self.runner.run(call)
        elif known.running:
            known.context.join(call)
        else:
            reply = self.cache.held(known)
            if reply is None:
                call.refuse()
                return
            call.answer(reply)
            if call.sealing:
                call.on_sealed = functools.partial(self._repeated, known, reply)
            else:
                self._repeated(known, reply, call)

    def _repeated(self, known: KnownCall, reply: Payload, call: ServerCall) -> None:
        if call.refusal:
            self.cache.hold(known, reply)
        else:
            self.cache.sent(known)


class HandlerRunner:
    """Runs the handlers of calls on the running event loop, with `workers` threads for handlers that may block."""

    def __init__(self, *, workers: int = _WORKERS, logger: logging.Logger = _LOGGER) -> None:
        self._loop = asyncio.get_running_loop()
        effects = effects_of(self._loop)
        self._before_handler = effects.before_handler
        pool = effects.worker_pool or WorkerPool
        self._workers: WorkerPool[ServerCall, _Result] = pool(workers, self._work, self._deliver, self._let_go)
        self.log = AnswerLog(logger)
        # With the awaitable of each, in order: a simulation must cancel them in the same order each time.
        self._tasks: dict[asyncio.Task[None], Awaitable[Any]] = {}
        self._idle: asyncio.Event | None = None
        self._drained = False
        self.running = 0
        """Calls in worker threads and tasks, and computations."""

    def run(self, call: ServerCall) -> None:
        """Runs the handler and answers or drops the call, exactly once, in the event loop.

        An inline handler is done when this returns. A call without room for its results waits first; one without memory
        while it runs is repeated later, if it is idempotent. After the deadline of `drain` the calls of running
        handlers are not answered; a later call is answered with SYSTEM_ERR.
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
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - any error of a handler or bound is answered
            if self._waits(error, call):
                return
            reply = self.log.failed(call, error)
        call.answer(reply)
        if call.reserved:
            call.end_reservation()

    def run_unless_ended(self, call: ServerCall) -> None:
        """Runs a call that has waited, as `run` does, unless its connection has ended meanwhile."""
        call.sent_ns = perf_counter_ns()
        if call.ended:
            call.let_go()
        else:
            self.run(call)

    def connection_ended(self, connection: object) -> None:
        """Drops the calls of an ended connection that wait for a thread.

        A call that must not run twice and has begun is run to its end: a repeat of it gets the reply.
        """
        self._workers.connection_ended(connection)

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
        self.log.flush()
        return finished

    def _finished(self, call: ServerCall) -> None:
        if call.reserved:
            call.end_reservation()
        self.end_one()

    def end_one(self) -> None:
        """Counts the end of one call or computation."""
        self.running -= 1
        if not self.running and self._idle is not None:
            self._idle.set()

    def _waits(self, error: BaseException, call: ServerCall) -> bool:
        """Has the call run again when there is memory for it.

        False if `error` is no `OutOfBuffers`, if the call must not begin twice, or if it can never have its memory.
        """
        if not isinstance(error, OutOfBuffers) or call.route.begins_once or self._drained:
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
        """Runs the handler, or the rest of it, in a thread."""
        call.may_block = True
        self.running += 1
        source = call.source
        may_be_let_go = call.rest is None or not call.route.begins_once
        waits_for = call.route.waits_for
        self._workers.submit(
            source.host,
            source,
            call,
            brief=call.step is not None,
            may_be_let_go=may_be_let_go,
            waits_for=None if waits_for is None else waits_for(call.args),
        )

    def _let_go(self, call: ServerCall) -> None:
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
        call.sent_ns = perf_counter_ns()
        try:
            rest, call.rest = call.rest, None
            if rest is None:
                worker.act_as(None)
                result = call.route.handler(call.args, call)
            else:
                result = worker.finish(rest, call.step)
            return call.success(result), None
        except BaseException as error:  # noqa: BLE001 - in a thread even a SystemExit would go unnoticed
            return call.failure(error), error

    def _deliver(self, call: ServerCall, result: _Result) -> None:
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
