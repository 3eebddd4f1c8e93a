"""Keeps a connection to a server: makes another one when it is lost, and asks a silent server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma.aio.connections.calls_made import CallObserver, observed
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.effects import random_bits, random_fraction
from rpcrdma.errors import CallTimeout, MessageTooLong, RemoteProtocolError, RpcError, RpcRdmaError, TransportClosed
from rpcrdma.rpc.calling import XidSource
from rpcrdma.rpc.keep_alive import KeepAlive
from rpcrdma.rpc.program import Program, null_procedure
from rpcrdma.transport import Call

__all__ = ["BREACHES_MAX", "ConnectionKeeper", "ReconnectPolicy", "SingleConnection"]

_LOGGER = logging.getLogger("rpcrdma.client")
BREACHES_MAX = 3
"""Connections in succession that may end by a breach of the protocol: octets are damaged now and then, but a
breach that one call provokes, it will provoke again."""
_UNANSWERED_MAX = 3
"""Connections lost before the very first answer: a peer that takes connections and never answers is no server."""

_LOST = "the connection was lost and could not be made again: "


SingleConnection: TypeAlias = RdmaConnection | TcpConnection
"""One transport connection of a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """The settings of a `ConnectionKeeper`: when it connects again, and how often calls are sent again."""

    reconnect: bool = True
    """Whether a lost connection is made again; if not, its calls fail."""
    initial_s: float = 0.1
    """The longest pause before the first attempt, short so that a brief fault is hardly noticed."""
    max_s: float = 30.0
    """The longest pause before any attempt: half the default deadline of calls, so that each call sees another attempt.
    A connection that no call waits for is made again at a random moment within that time: so idle clients do not burden
    a server that restarts, and do not displace each other's connections in turn at a server with too few places."""
    for_s: float | None = None
    """Seconds of attempts before waiting calls fail; the next call starts them anew. None: no limit."""
    retransmissions: int | None = None
    """The number of times that one call is sent again; None: any number until its deadline."""
    keepalive_s: float | None = 60.0
    """The seconds without a reply after which a NULL call checks whether the server answers; None or 0: never."""
    keepalive_reply_s: float = 20.0
    """The seconds without any reply after that NULL call until the connection is given up."""
    random: Callable[[], float] = random_fraction
    """Returns a random number from 0 to less than 1."""

    def delay_s(self, failures: int) -> float:
        """Returns the random seconds to wait before the next attempt, after `failures` failed attempts.

        The delay is evenly distributed below an upper bound, so that the clients of a restarted server do not all
        connect at once. The bound is `initial_s` without failures, and doubles with each failure up to `max_s`.
        """
        longest: float = min(self.max_s, self.initial_s * 2.0 ** min(failures, 63))
        return longest * self.random()


class ConnectionKeeper:
    """Keeps a transport connection to a server: makes another after a loss, and asks a silent server by NULL calls.

    A task supervises the connection until `close`.

    Args:
        connection: the first transport connection.
        dial: makes a further one; raises `RpcRdmaError` or OSError if it cannot.
        policy: the pauses and limits.
        program: the program of NULL calls; None: that of the first call.
        no_answer: makes the error of calls to a server that has never answered, from the error that ended its last
            connection; None: that error itself.
        on_replaced: called with each lost connection once another has been made.
        observer: called with each NULL call that has ended; None: nothing is called.
        takes_calls: whether the server may call this client, so that a lost connection is made again although no call
            waits for it.
    """

    def __init__(
        self,
        connection: SingleConnection,
        dial: Callable[[], Awaitable[SingleConnection]],
        policy: ReconnectPolicy,
        program: Program | None,
        no_answer: Callable[[TransportClosed], TransportClosed] | None,
        on_replaced: Callable[[SingleConnection], None],
        observer: CallObserver | None,
        *,
        takes_calls: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._takes_calls = takes_calls
        self._no_answer = no_answer
        self._dial = dial
        self.policy = policy
        self._on_replaced = on_replaced
        self._observer = observer
        self.connection = connection
        """The present connection, or the last one after a loss."""
        self.reconnects = 0
        """The number of connections made after the first one."""
        self._usable: SingleConnection | None = connection
        self._next: asyncio.Future[SingleConnection] = self._loop.create_future()
        self._silent = asyncio.Event()
        self._lost = asyncio.Event()
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._wanted_again = asyncio.Event()
        self._leaving: dict[SingleConnection, asyncio.Future[None]] = {}
        """The connections made that have not released their buffers; the futures are done when they have."""
        self._failures = 0
        self._trouble = ""
        self.heard = 0
        """The number of calls that the server has answered, without the NULL calls of the keeper."""
        self._heard_before = 0
        """The value of `heard` before the present failures and breaches."""
        self._asked = 0
        self._breaches = 0
        self._losses = 0
        self.xids = XidSource(random_bits(32))
        self.xids.kept = connection.xids_kept
        # (program, version) of NULL calls: those of the first call, where no program is given.
        self.addressed = None if program is None else (program.number, program.version)
        self.closed = False
        """Whether this side has ended the connection for good."""
        self._supervisor = self._loop.create_task(self._supervise(connection))
        self._supervisor.add_done_callback(self._supervisor_ended)

    async def wait_connection(self, call: Call, *, first: bool) -> SingleConnection:
        """Returns the present connection for a call, or waits until the next one has been made.

        `first`: whether the call waits for the first time. If so, and if no other call waits, the pause after a failed
        attempt to connect ends at once.

        Raises:
            CallTimeout: there was no connection before the deadline of the call.
            TransportClosed: `close` was called, attempts have failed for the policy's `for_s` seconds, or no further
                connection is made: by the policy, or after too many breaches, or losses before the first answer.
        """
        if self.closed:
            raise TransportClosed("the connection was closed on this side")
        connection = self._usable
        if connection is not None:
            if not connection.closed:
                return connection
            self.lost(connection, TransportClosed("the connection has ended"))
        self._wanted.set()
        if first and not self._waiting:
            self._wanted_again.set()
        self._waiting += 1
        try:
            async with asyncio.timeout_at(call.deadline_s):
                return await asyncio.shield(self._next)
        except TimeoutError:
            raise self.timed_out(call) from None
        finally:
            self._waiting -= 1

    def timed_out(self, call: Call) -> CallTimeout:
        """Returns the error, with the cause of the loss, for a call that timed out after its connection was lost."""
        return CallTimeout(
            f"{call.procedure.name}: no reply within the call's deadline; the connection was lost: {self._trouble}"
        )

    @property
    def state(self) -> str:
        """A clause about the present state of the connection, for warnings about waiting calls."""
        if self._usable is not None:
            return "the connection has not ended"
        return f"the connection was lost ({self._trouble}) and is made again if the server is back"

    async def wait_reconnected(self, count: int) -> None:
        """Waits until `reconnects` is more than `count`; a lost connection is made again even if no call waits for it.

        Raises:
            TransportClosed: a lost connection is not made again, because the policy forbids it or its limits are
                reached; or `close` was called.
        """
        while self.reconnects <= count:
            if self.closed:
                raise TransportClosed("the connection was closed on this side")
            if not self.policy.reconnect and self.connection.closed:
                raise TransportClosed("the connection ended")
            self._wanted.set()
            await asyncio.shield(self._next)

    async def close(self) -> None:
        """Ends the connection for good, and waits until its buffers are released; calls fail with `TransportClosed`."""
        if not self.closed:
            self.closed = True
            self._supervisor.cancel()
            reason = "the connection was closed on this side"
            self._fail_waiting(reason)
            for connection in list(self._leaving):
                if connection is not self._usable:
                    connection.abort(reason)
        await self.connection.close()
        await asyncio.wait((self._supervisor, *self._leaving.values()))

    @property
    def _answers(self) -> int:
        return self.heard + self._asked

    def _settle(self) -> None:
        """Sets the counts of failures and of protocol breaches to 0 if a call was answered since the last run.

        The keeper's NULL calls do not count, nor does a connection: a server in trouble may accept and drop it.
        """
        if self.heard != self._heard_before:
            self._heard_before = self.heard
            self._failures = self._breaches = 0

    @property
    def hopeless(self) -> bool:
        """Whether no further connection is made after a loss.

        True if the policy forbids it, or if BREACHES_MAX connections in succession have ended by breaches of the
        protocol. Before the first answer one breach suffices, or three losses. A later call has them counted anew.
        """
        if not self.policy.reconnect:
            return True
        if self._answers:
            return self._breaches >= BREACHES_MAX
        return self._breaches > 0 or self._losses >= _UNANSWERED_MAX

    def final(self, error: TransportClosed) -> TransportClosed:
        """Returns the error for a call that is not sent again, after a loss by `error`.

        The result is `no_answer(error)`, with the constructor's `no_answer`, if the server has never answered and
        `close` was not called; otherwise `error` itself.
        """
        if self._answers or self.closed or self._no_answer is None:
            return error
        return self._no_answer(error)

    def lost(self, connection: SingleConnection, error: TransportClosed) -> None:
        """Records and logs the loss of `connection` by `error`, so that another connection is made.

        No effect after `close`, or if `connection` is not the present one or its loss is known.
        """
        if self._usable is not connection or self.closed:
            return
        self._usable = None
        _LOGGER.info("connection lost: %s", error)
        self._note(error)
        self._lost.set()

    def _note(self, error: TransportClosed) -> None:
        """Counts the loss of a connection by `error`, and a breach of the protocol if it is one; stores its message."""
        self._settle()
        self._trouble = error.message
        self._losses += 1
        self._breaches += error.protocol_error

    def _fail_waiting(self, reason: str) -> None:
        if not self._next.done():
            self._next.set_exception(self.final(TransportClosed(reason, protocol_error=self._breaches > 0)))
            # Marks the error as retrieved: no call may be waiting for it.
            self._next.exception()
            self._next = self._loop.create_future()

    async def _supervise(self, connection: SingleConnection) -> None:
        """Runs as a task until `close`: makes a new connection whenever the present one, first `connection`, is lost.

        Waiting calls continue on it, or fail when the limits are reached; the next call then starts attempts anew.
        """
        keep_alive = self._keep_alive(connection)
        while True:
            await self._watch(connection, keep_alive)
            self.lost(connection, TransportClosed("the connection ended"))
            while (made := await self._reconnect()) is None:
                lost = _LOST if self.policy.reconnect and (self._answers or not self.hopeless) else ""
                self._fail_waiting(lost + self._trouble)
                self._wanted.clear()
                await self._wanted.wait()
                self._failures = self._breaches = self._losses = 0
            self._on_replaced(connection)
            connection, keep_alive = made
            self.reconnects += 1
            self.connection = self._usable = connection
            self.xids.kept = connection.xids_kept
            self._lost.clear()
            self._wanted.clear()
            self._next.set_result(connection)
            self._next = self._loop.create_future()

    def _keep_alive(self, connection: SingleConnection, *, asked: bool = False) -> KeepAlive:
        """Returns a new detector of the server's silence on `connection`, which the connection's timer serves.

        After the policy's `keepalive_s` of silence the detector has a NULL call made (by `_watch`). If no call is
        answered within `keepalive_reply_s`, it aborts `connection`. `asked`: whether the caller makes the first NULL
        call itself, at once. From now on, `close` waits for the end of `connection`.
        """
        self._leaving[connection] = ended = asyncio.ensure_future(connection.wait_closed())
        ended.add_done_callback(lambda _: self._leaving.pop(connection))
        policy = self.policy
        self._silent.clear()

        def ask() -> bool:
            if self.addressed is None or connection is not self._usable:
                return False
            self._silent.set()
            return True

        def give_up() -> None:
            reason = f"the server did not answer within {policy.keepalive_reply_s:g} s whether it is there"
            self.lost(connection, TransportClosed(reason))
            connection.abort(reason)

        keep_alive = KeepAlive(
            policy.keepalive_s,
            policy.keepalive_reply_s,
            replies=lambda: self._answers,
            ask=ask,
            give_up=give_up,
            asked=asked,
        )
        connection.timer.watch(keep_alive)
        connection.timer.look()
        return keep_alive

    async def _watch(self, connection: SingleConnection, keep_alive: KeepAlive) -> None:
        """Waits until `connection` has ended or is known as lost; makes the NULL calls that `keep_alive` asks for."""
        ended = self._leaving[connection]
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            while True:
                silent = asyncio.ensure_future(self._silent.wait())
                ends: list[asyncio.Future[Any]] = [ended, lost, silent]
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    silent.cancel()
                if ended.done() or lost.done():
                    return
                self._silent.clear()
                try:
                    await self._ask(connection, keep_alive)
                except TransportClosed as error:
                    self.lost(connection, error)
        finally:
            lost.cancel()

    async def _ask(self, connection: SingleConnection, keep_alive: KeepAlive) -> None:
        """Makes one NULL call on `connection`, and reports its answer, even an error reply, to `keep_alive`.

        Raises:
            TransportClosed: the connection has ended meanwhile, perhaps because the deadline of `keep_alive` has
                passed.
        """
        assert self.addressed is not None
        call = Call(null_procedure(*self.addressed), None)
        call.xid = self.xids.take()
        try:
            await observed(call, connection.start, self._observer)
        except (RpcError, RemoteProtocolError, MessageTooLong):
            # Even a refusal, or a reply that is wrong, shows that the server answers.
            pass
        finally:
            del self.xids.taken[call.xid]
        self._asked += 1
        keep_alive.answered()
        connection.timer.look()

    async def _reconnect(self) -> tuple[SingleConnection, KeepAlive] | None:
        """Attempts to connect until it succeeds; returns the connection and the detector of its silence.

        Returns None if the policy's `for_s` seconds are up, or if no further connection is to be made (`hopeless`).
        Before the first attempt the method waits until a call needs a connection, at most a random part of the policy's
        `max_s`; it does not wait if a call does so already, or if the server may call this client. Then `_pause`
        precedes each attempt, the first included, for which the time since the loss is subtracted from the delay.
        """
        policy, time = self.policy, self._loop.time
        lost_s: float | None = time()
        if not (self._takes_calls or self.hopeless):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(policy.max_s * policy.random()):
                    await self._wanted.wait()
        give_up_at_s = None if policy.for_s is None else time() + policy.for_s
        while not self.hopeless:
            self._settle()
            delay_s = policy.delay_s(self._failures)
            if lost_s is not None:
                # A call that comes when the clients that were lost together have spread out need not wait.
                delay_s, lost_s = max(delay_s - (time() - lost_s), 0.0), None
            if give_up_at_s is not None:
                delay_s = min(delay_s, max(give_up_at_s - time(), 0.0))
            await self._pause(delay_s)
            self._failures += 1
            try:
                connection = await self._dial()
            except (RpcRdmaError, OSError) as error:
                self._trouble = str(error)
            else:
                keep_alive = self._keep_alive(connection, asked=self.addressed is not None)
                if await self._greet(connection, keep_alive):
                    return connection, keep_alive
            if give_up_at_s is not None and time() >= give_up_at_s:
                break
        return None

    async def _pause(self, delay_s: float) -> None:
        """Waits `delay_s` seconds before an attempt; after a failed attempt, a call may end the pause.

        A call does so if it has begun to wait since the last pause, while no other call waited. The count of failures
        is then set to 0, so that delays that grew while no call waited start anew.
        """
        if not self._failures:
            await asyncio.sleep(delay_s)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._wanted_again.wait()
                self._failures = 0
        self._wanted_again.clear()

    async def _greet(self, connection: SingleConnection, keep_alive: KeepAlive) -> bool:
        """Makes a NULL call on a new connection, if the program is known; returns whether the connection is open then.

        Waits for the reply: the first one on an RDMA connection states how many calls may be sent (RFC 8166 section
        3.3.3). `keep_alive`, the detector of silence, ends a connection without a reply.
        """
        try:
            if self.addressed is not None:
                await self._ask(connection, keep_alive)
        except TransportClosed as error:
            if keep_alive.given_up:
                # A server that hangs is tried again and again; one that ends each connection is not.
                self._trouble = str(error)
            else:
                self._note(error)
        except BaseException:
            connection.abort("connecting was given up")
            raise
        return not connection.closed

    def _supervisor_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug, but calls must not wait for ever because of it.
            self._fail_waiting(f"connecting failed: {error!r}")
            self.closed = True
            self._loop.call_exception_handler({"message": "reconnecting failed", "exception": error, "task": task})
