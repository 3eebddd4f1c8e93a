"""Calls that outlive their connection: a lost one is made again, and its unanswered calls are sent again.

A call keeps its XID and, through the credential, its octets, so that a server with a reply cache sees that it is a
repeat. Its buffers are exposed anew, after the lost connection has fenced them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol, TypeVar

from rpcrdma.aio.connections.call_outcome import count_failure
from rpcrdma.aio.connections.negotiated import Negotiated
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.errors import CallTimeout, RpcError, RpcRdmaError, TransportClosed
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.keep_alive import KeepAlive
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.xid_source import XidSource
from rpcrdma.transport import ExtensionLink, TransportStatistics
from rpcrdma.wire.buffers import Buffer

__all__ = ["ReconnectPolicy", "ReconnectingCaller", "SingleConnection"]

A = TypeVar("A")
R = TypeVar("R")

_LOGGER = logging.getLogger("rpcrdma.client")
_BREACHES_MAX = 3
"""Connections in succession that may end by a breach of the protocol: octets are damaged now and then, but a
breach that one call provokes, it will provoke again."""
_UNANSWERED_MAX = 3
"""Connections lost before the very first answer: a peer that takes connections and never answers is no server."""


_LOST = "the connection was lost and could not be made again: "


class SingleConnection(Protocol):
    """One connection, as `RdmaConnection` and `TcpConnection` are."""

    @property
    def negotiated(self) -> Negotiated | None:
        """The terms of an RDMA connection; None over TCP."""

    @property
    def statistics(self) -> TransportStatistics:
        """The counters of an RDMA connection; over TCP they are 0."""

    def extension(self, name: str) -> ExtensionLink | None:
        """The extension of this name; None over TCP, or if the connection was made without it."""

    @property
    def timer(self) -> DeadlineTimer:
        """The connection's one timer."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended: calls fail at once."""

    def start(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
        placement: str = "",
        began_ns: int | None = None,
    ) -> Awaitable[R]:
        """As `Caller.call`, to be awaited at once. When that raises, no peer can access the call's buffers any more.

        `began_ns`: when the call was made, if it was not now. However it ends, the connection counts it.
        """

    async def wait_closed(self) -> None:
        """Waits until the connection has ended and has fenced and released all its buffers."""

    async def close(self) -> None:
        """Ends the connection: calls still waiting fail with `TransportClosed`."""

    def abort(self, reason: str) -> None:
        """Ends the connection at once, without waiting for the peer; no effect on one that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """When to connect again, and how often to call again; seconds."""

    reconnect: bool = True
    """Whether a lost connection is made again; if not, calls fail with it."""
    initial_s: float = 0.1
    """The most that the first attempt waits: a restarting server is back soon, a loose cable is not felt."""
    max_s: float = 30.0
    """The most that any attempt waits: half the default deadline of calls, so that each call sees another attempt."""
    for_s: float | None = None
    """How long attempts go on before waiting calls fail; the next call starts them anew. None: for ever."""
    retransmissions: int | None = None
    """How often one call is sent again; None: until its deadline."""
    keepalive_s: float | None = 60.0
    """After so long without a reply a NULL call checks whether the server answers; None or 0: never."""
    keepalive_reply_s: float = 20.0
    """How long the reply to that NULL call may take before the connection is given up."""
    random: Callable[[], float] = random.random
    """Returns a number from 0 up to 1."""

    def delay_s(self, failures: int) -> float:
        """How long to wait before the next attempt.

        The upper bound doubles, which spares a server in trouble. The delay is evenly distributed below it, so that
        the clients of a server that restarts do not come all at once.
        """
        longest: float = min(self.max_s, self.initial_s * 2.0 ** min(failures, 63))
        return longest * self.random()


class ReconnectingCaller:
    """Implements `rpcrdma.rpc.program.Caller` over one connection after another, beginning with `connection`.

    `dial` makes the next one; it raises `RpcRdmaError` or OSError where it cannot. `no_answer` makes the error of calls
    to a peer that has never answered any, from the error that ended its last connection. The connections count their
    calls in `calls_made`; None: they do not count.
    """

    def __init__(
        self,
        connection: SingleConnection,
        dial: Callable[[], Awaitable[SingleConnection]],
        policy: ReconnectPolicy,
        program: Program | None = None,
        no_answer: Callable[[TransportClosed], TransportClosed] | None = None,
        calls_made: CallStatistics | None = None,
    ) -> None:
        self._calls_made = calls_made
        self._loop = asyncio.get_running_loop()
        self._no_answer = no_answer
        self._dial = dial
        self._policy = policy
        self.on_replaced: Callable[[SingleConnection], None] | None = None
        """Is called with each lost connection once another has been made."""
        self.connection = connection
        """The present connection, or the one lost last."""
        self.reconnects = 0
        """Connections made after the first one."""
        self._usable: SingleConnection | None = connection
        self._next: asyncio.Future[SingleConnection] = self._loop.create_future()
        self._silent = asyncio.Event()
        self._lost = asyncio.Event()
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._wanted_again = asyncio.Event()
        self._leaving: set[SingleConnection] = set()
        self._failures = 0
        self._trouble = ""
        self._answers = 0
        self._breaches = 0
        self._losses = 0
        self._xids = XidSource(secrets.randbits(32))
        # (program, version) of NULL calls: those of the first call, where no program is given.
        self._addressed = None if program is None else (program.number, program.version)
        self._closed = False
        self._supervisor = self._loop.create_task(self._supervise(connection))
        self._supervisor.add_done_callback(self._supervisor_ended)

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        placement: str = "",
    ) -> R:
        """See `rpcrdma.rpc.program.Caller.call`; `timeout_s` counts across connections, None waits for ever.

        `placement`: see `Connection.call`; a call that is sent again goes as the connection likes.

        Raises:
            TransportClosed: also when the limits of the policy are reached.
        """
        if self._addressed is None:
            self._addressed = procedure.program, procedure.version
        xid = self._xids.take()
        try:
            connection = self._usable
            if not self._policy.reconnect:
                connection = self.connection
            elif connection is None or connection.closed:
                began_ns = perf_counter_ns()
                return await self._call_patiently(procedure, args, into, timeout_s, xid, None, began_ns)
            started_s = self._loop.time()
            try:
                result = await connection.start(
                    procedure, args, into=into, timeout_s=timeout_s, xid=xid, placement=placement
                )
            except TransportClosed as error:
                self._drop(connection, error)
                if self._hopeless:
                    raise self._final(error) from None
                spent_s = self._loop.time() - started_s
                left_s = None if timeout_s is None else timeout_s - spent_s
                began_ns = perf_counter_ns() - int(spent_s * 1e9)
                return await self._call_patiently(procedure, args, into, left_s, xid, error, began_ns)
            except RpcError:
                self._heard()
                raise
            self._heard()
            return result
        finally:
            self._xids.give_back(xid)

    async def _call_patiently(
        self,
        procedure: Procedure[A, R],
        args: A,
        into: Buffer | None,
        timeout_s: float | None,
        xid: int,
        failure: TransportClosed | None,
        began_ns: int,
    ) -> R:
        """Calls once a connection has been made; `failure` is the error of the call on the connection before."""
        sent = broken = 0
        deadline_s = None if timeout_s is None else self._loop.time() + timeout_s
        allowed = self._policy.retransmissions
        while True:
            if failure is not None:
                sent += 1
                broken += failure.protocol_error
                if self._closed or (allowed is not None and sent > allowed) or broken >= _BREACHES_MAX:
                    raise self._final(failure)
                if self._calls_made is not None:
                    self._calls_made.sent_again(procedure)
            try:
                connection = await self._wait_connection(procedure, deadline_s, first=failure is None)
            except BaseException as error:
                now_ns = perf_counter_ns()
                count_failure(self._calls_made, procedure, error, began_ns=began_ns, sent_ns=0, now_ns=now_ns)
                raise
            left_s = None if deadline_s is None else deadline_s - self._loop.time()
            try:
                result = await connection.start(
                    procedure, args, into=into, timeout_s=left_s, xid=xid, began_ns=began_ns
                )
            except TransportClosed as error:
                self._drop(connection, error)
                failure = error
            except CallTimeout:
                raise self._timed_out(procedure) from None
            except RpcError:
                self._heard()
                raise
            else:
                self._heard()
                return result

    async def _wait_connection(
        self, procedure: Procedure[Any, Any], deadline_s: float | None, *, first: bool
    ) -> SingleConnection:
        if self._closed:
            raise TransportClosed("the connection was closed on this side")
        connection = self._usable
        if connection is not None:
            if not connection.closed:
                return connection
            self._drop(connection, TransportClosed("the connection has ended"))
        self._wanted.set()
        if first and not self._waiting:
            self._wanted_again.set()
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline_s):
                return await asyncio.shield(self._next)
        except TimeoutError:
            raise self._timed_out(procedure) from None
        finally:
            self._waiting -= 1

    def _timed_out(self, procedure: Procedure[Any, Any]) -> CallTimeout:
        return CallTimeout(
            f"{procedure.name}: no reply within the call's deadline; the connection was lost: {self._trouble}"
        )

    async def wait_reconnected(self, count: int) -> None:
        """Waits until `reconnects` is more than `count`.

        Raises:
            TransportClosed: the limits of the policy are reached, or this side has closed.
        """
        while self.reconnects <= count:
            if self._closed:
                raise TransportClosed("the connection was closed on this side")
            if not self._policy.reconnect and self.connection.closed:
                raise TransportClosed("the connection ended")
            await asyncio.shield(self._next)

    async def close(self) -> None:
        """Ends the connection for good; calls still waiting fail with `TransportClosed`."""
        if not self._closed:
            self._closed = True
            self._supervisor.cancel()
            reason = "the connection was closed on this side"
            self._fail_waiting(reason)
            for connection in self._leaving - {self._usable}:
                connection.abort(reason)
        await self.connection.close()
        await asyncio.gather(
            self._supervisor, *(connection.wait_closed() for connection in self._leaving), return_exceptions=True
        )

    def _heard(self) -> None:
        """The server has answered. A connection alone proves little: a server in trouble may accept and drop it."""
        self._failures = self._breaches = 0
        self._answers += 1

    @property
    def _hopeless(self) -> bool:
        """Whether no further connection is made: the server breaks the protocol, or has never answered."""
        if not self._policy.reconnect:
            return True
        if self._answers:
            return self._breaches >= _BREACHES_MAX
        return self._breaches > 0 or self._losses >= _UNANSWERED_MAX

    def _final(self, error: TransportClosed) -> TransportClosed:
        """The error of a call that is not sent again."""
        if self._answers or self._closed or self._no_answer is None:
            return error
        return self._no_answer(error)

    def _drop(self, connection: SingleConnection, error: TransportClosed) -> None:
        """Notes that `connection` is lost, unless that was noted before."""
        if self._usable is not connection or self._closed:
            return
        self._usable = None
        _LOGGER.info("connection lost: %s", error)
        self._note(error)
        self._lost.set()

    def _note(self, error: TransportClosed) -> None:
        """Notes how a connection has ended."""
        self._trouble = str(error)
        self._losses += 1
        self._breaches += error.protocol_error

    def _fail_waiting(self, reason: str) -> None:
        if not self._next.done():
            self._next.set_exception(self._final(TransportClosed(reason, protocol_error=self._breaches > 0)))
            # Marks the error as retrieved: no call may be waiting for it.
            self._next.exception()
            self._next = self._loop.create_future()

    async def _supervise(self, connection: SingleConnection) -> None:
        """Makes a new connection whenever the present one is lost."""
        keep_alive = self._keep_alive(connection)
        while True:
            self._leaving.add(connection)
            ended = asyncio.ensure_future(connection.wait_closed())
            ended.add_done_callback(lambda _, gone=connection: self._leaving.discard(gone))  # type: ignore[misc]
            await self._watch(connection, keep_alive, ended)
            self._drop(connection, TransportClosed("the connection ended"))
            while (made := await self._reconnect()) is None:
                lost = _LOST if self._policy.reconnect and (self._answers or not self._hopeless) else ""
                self._fail_waiting(lost + self._trouble)
                self._wanted.clear()
                await self._wanted.wait()
                self._failures = self._breaches = self._losses = 0
            if self.on_replaced is not None:
                self.on_replaced(connection)
            connection, keep_alive = made
            self.reconnects += 1
            self.connection = self._usable = connection
            self._lost.clear()
            self._next.set_result(connection)
            self._next = self._loop.create_future()

    def _keep_alive(self, connection: SingleConnection, *, asked: bool = False) -> KeepAlive:
        """Has the connection's timer watch over the replies that come on it; see `KeepAlive` for `asked`."""
        policy = self._policy
        self._silent.clear()

        def ask() -> bool:
            if self._addressed is None or connection is not self._usable:
                return False
            self._silent.set()
            return True

        def give_up() -> None:
            reason = f"the server did not answer within {policy.keepalive_reply_s:g} s whether it is there"
            self._drop(connection, TransportClosed(reason))
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

    async def _watch(self, connection: SingleConnection, keep_alive: KeepAlive, ended: asyncio.Future[None]) -> None:
        """Returns when `connection` is lost; makes its keep-alive calls until then."""
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
                    self._drop(connection, error)
        finally:
            lost.cancel()

    async def _ask(self, connection: SingleConnection, keep_alive: KeepAlive) -> None:
        """Makes the NULL call for which `keep_alive` has a deadline.

        Raises:
            TransportClosed: the connection has ended meanwhile, maybe by that deadline.
        """
        assert self._addressed is not None
        xid = self._xids.take()
        try:
            await connection.start(null_procedure(*self._addressed), None, xid=xid)
        except RpcError:
            # Even a refusal shows that the server answers.
            pass
        finally:
            self._xids.give_back(xid)
        self._answers += 1
        keep_alive.answered()
        connection.timer.look()

    async def _reconnect(self) -> tuple[SingleConnection, KeepAlive] | None:
        """The next connection, or None when the time for attempts is up or further attempts make no sense."""
        policy, time = self._policy, self._loop.time
        give_up_at_s = None if policy.for_s is None else time() + policy.for_s
        while not self._hopeless:
            delay_s = policy.delay_s(self._failures)
            if give_up_at_s is not None:
                delay_s = min(delay_s, max(give_up_at_s - time(), 0.0))
            await self._pause(delay_s)
            self._failures += 1
            try:
                connection = await self._dial()
            except (RpcRdmaError, OSError) as error:
                self._trouble = str(error)
            else:
                keep_alive = self._keep_alive(connection, asked=self._addressed is not None)
                if await self._greet(connection, keep_alive):
                    return connection, keep_alive
            if give_up_at_s is not None and time() >= give_up_at_s:
                break
        return None

    async def _pause(self, delay_s: float) -> None:
        """Waits between attempts, less long if a call comes after a time in which no call needed a connection.

        A delay that has grown while no call waited is no delay that a call should wait for: it begins anew.
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
        """Whether a new connection can be used.

        The first reply on an RDMA connection says how many calls may be sent (RFC 8166 section 3.3.3). A NULL call
        brings it, so that the others need not wait for one that takes long.
        """
        try:
            if self._addressed is not None:
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
            self._closed = True
            self._loop.call_exception_handler({"message": "reconnecting failed", "exception": error, "task": task})
