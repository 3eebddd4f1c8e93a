"""A connection to a server as its users see it: calls that outlive the loss of a transport connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.client.client_statistics import ClientStatistics
from rpcrdma.aio.client.reconnecting import BREACHES_MAX, ConnectionKeeper, ReconnectPolicy, SingleConnection
from rpcrdma.aio.client.silence_warning import SilenceWatch
from rpcrdma.aio.connections.calls_made import CallObserver, ended, observer_of
from rpcrdma.aio.connections.negotiated import Negotiated
from rpcrdma.aio.misuse import AsynchronousOnly, check_loop, not_seconds
from rpcrdma.aio.security_options import Kerberos
from rpcrdma.aio.urls import Url
from rpcrdma.errors import CallTimeout, LocalProtocolError, RpcError, RpcRdmaError, TransportClosed
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.calling import XidSource
from rpcrdma.rpc.host_identity import HostIdentity, XprtSec
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rtr import Preference
from rpcrdma.transport import Call, ExtensionLink, TransportStatistics, add_up
from rpcrdma.wire.buffers import Memory

if TYPE_CHECKING:
    from rpcrdma.aio.client.client_metrics import ClientMetrics
    from rpcrdma.aio.client.gss_sessions import GssSessions

__all__ = ["Connection"]

A = TypeVar("A")
R = TypeVar("R")


class Connection:
    """A connection to one server, made by `connect`; implements `rpcrdma.rpc.Caller` over RDMA or TCP.

    Any number of calls may be in flight. The connection survives the loss of its transport connection as
    `ConnectOptions.reconnect` says; `close`, or the context manager, ends it.

    Args:
        url: the server.
        connection: the first transport connection.
        dial: makes a further one after a loss.
        policy: when to reconnect and how many times to send a call again.
        program: the only program whose procedures may be called; None: any.
        no_answer: makes the error of calls to a server that has never answered, from the error by which the last
            transport connection was lost; None: calls fail with that error itself.
        call_timeout_s: the time limit in seconds of calls without one of their own; None: no limit.
        statistics: counts calls; None: calls are not counted.
        on_call: called with each call that has ended, NULL calls of its own included; None: nothing is called.
        answering: answers the server's calls; None: they are dropped.
        metrics: the Prometheus metrics that include the connection; None: none.
        kerberos: puts all calls under RPCSEC_GSS; None: calls carry the credential of the transport connection.
        warn_after_s: the silence in seconds of a server with unanswered calls after which the log has a warning; None
            or 0: never.
    """

    def __init__(
        self,
        url: Url,
        connection: SingleConnection,
        dial: Callable[[], Awaitable[SingleConnection]],
        policy: ReconnectPolicy,
        program: Program | None = None,
        *,
        no_answer: Callable[[TransportClosed], TransportClosed] | None = None,
        call_timeout_s: float | None = None,
        statistics: CallStatistics | None = None,
        on_call: CallObserver | None = None,
        answering: Answering | None = None,
        metrics: ClientMetrics | None = None,
        kerberos: Kerberos | None = None,
        warn_after_s: float | None = None,
    ) -> None:
        self._answering = answering
        self._call_statistics = statistics
        self._observer = observer_of(statistics, on_call)
        self.url = str(url)
        self.program = program
        self._keeper = ConnectionKeeper(
            connection, dial, policy, program, no_answer, self._count, self._observer, takes_calls=answering is not None
        )
        keeper = self._keeper
        self._silence = SilenceWatch(
            warn_after_s, lambda: any(keeper.xids.taken.values()), lambda: keeper.heard, self._silent
        )
        self._gss = None if kerberos is None else _gss_sessions(kerberos, url.host, self._keeper.xids)
        self._call_timeout_s = call_timeout_s
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lost = TransportStatistics()
        self._metrics = metrics
        if metrics is not None:
            # It serves pages over HTTP, which few programs need.
            from rpcrdma.aio.client.client_metrics import ConnectionToTell  # noqa: PLC0415

            server = url.server
            self._told = ConnectionToTell((url.scheme, server), lambda: self.statistics, lambda: self.reconnects)
            metrics.begin(self._told)

    def __repr__(self) -> str:
        return f"<rpcrdma.Connection {self.url}>"

    def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Memory | None = None,
        timeout_s: float | None = None,
        placement: str = "",
    ) -> Coroutine[Any, Any, R]:
        """Calls a procedure and waits for its result, on further transport connections if the present one is lost.

        Args:
            procedure: the procedure, usually of a compiled definition.
            args: the arguments, of the procedure's type; None for void.
            into: a writable buffer for the result's DDP-eligible item; see `rpcrdma.rpc.Caller.call`.
            timeout_s: the time limit in seconds; None takes `ConnectOptions.call_timeout_s`.
            placement: how the round-trip extension moves the call's bulk items: a value of
                `rpcrdma.extension.Preference`; "" as `ConnectOptions.extension` says. No effect without the extension.

        Returns:
            A coroutine whose value is the decoded result.

        Raises:
            LocalProtocolError: the procedure is not of the connection's program, or the caller runs in another event
                loop.
            ValueError: `placement` is unknown.
            TypeError: when awaited: `timeout_s` is no number, or `args` is of another type.
            UserAuthenticationFailed: when awaited, under Kerberos: there is no ticket, or the server refuses it.
            RpcError, CallTimeout, TransportClosed, DecodeError, MessageTooLong: as `rpcrdma.rpc.Caller.call`, when
                awaited.
        """
        if placement:
            Preference(placement)
        # In this thread, the loop that runs is the one that is running; asking for that first would cost a system call.
        if threading.get_ident() != self._thread or not self._loop.is_running():
            check_loop(self._loop)
        if self.program is not None and procedure.program != self.program.number:
            raise LocalProtocolError(f"{procedure.name} is not a procedure of {self.program.name}")
        # A caller's procedure with a bound of its own keeps both its bound and its name.
        if procedure.named is not None and (named := procedure.named(args)).bound is procedure.bound:
            procedure = named
        if timeout_s is None:
            timeout_s = self._call_timeout_s
        # The checks are made here: a call outside of any event loop is never awaited, and its caller has to be told.
        return self._result_of(Call(procedure, args, into, timeout_s, placement))

    async def _result_of(self, call: Call) -> Any:
        """Makes the call and returns its decoded result, on further transport connections if the present one is lost.

        Sets the call's deadline and XID. The observer of calls is called at the end of the call. The server's URL is
        added to the text of errors. Raises the errors that `Connection.call` lists as raised when awaited.
        """
        if call.timeout_s is not None:
            try:
                call.deadline_s = self._loop.time() + call.timeout_s
            except TypeError:
                raise not_seconds(call.timeout_s) from None
        keeper, observer = self._keeper, self._observer
        if keeper.addressed is None:
            keeper.addressed = call.procedure.program, call.procedure.version
        call.xid = keeper.xids.take(call)
        if self._silence.resting:
            self._silence.begin()
        if observer is not None:
            call.began_ns = perf_counter_ns()
        connection = keeper.connection
        gss = self._gss
        try:
            try:
                result = await (connection.start(call) if gss is None else gss.start(call, connection))
            except TransportClosed as error:
                result = await self._call_again(call, connection, error)
        except BaseException as error:
            keeper.heard += isinstance(error, RpcError)
            if isinstance(error, RpcRdmaError):
                error.found_at(self.url)
            if observer is not None:
                ended(call, observer, None, error)
            raise
        finally:
            del keeper.xids.taken[call.xid]
        keeper.heard += 1
        if observer is not None:
            ended(call, observer, result)
        return result

    async def _call_again(self, call: Call, connection: SingleConnection, failure: TransportClosed) -> Any:
        """Makes a call that failed, or could not begin, because `connection` was lost, on later connections.

        Returns the decoded result. `failure` is the error of the loss. The call is sent with the same XID and the same
        octets, or under RPCSEC_GSS the same arguments, so that a server with a reply cache recognises the repeat. The
        call's buffers are exposed anew, after the lost connection has fenced them.

        Raises:
            TransportClosed: the policy permits no further attempt, or `close` was called.
            CallTimeout: the deadline has passed.
            RpcRdmaError: any other error of the call on a later connection.
        """
        keeper = self._keeper
        policy = keeper.policy
        lost = call.future is not None
        if lost:
            keeper.lost(connection, failure)
        if not policy.reconnect or (lost and keeper.hopeless):
            raise keeper.final(failure) from None
        repeats = broken = 0
        while True:
            if lost:
                repeats += 1
                broken += failure.protocol_error
                exhausted = policy.retransmissions is not None and repeats > policy.retransmissions
                if keeper.closed or exhausted or broken >= BREACHES_MAX:
                    raise keeper.final(failure) from None
            connection = await keeper.wait_connection(call, first=not lost)
            try:
                return await (connection.start(call) if self._gss is None else self._gss.start(call, connection))
            except TransportClosed as error:
                keeper.lost(connection, error)
                failure, lost = error, True
            except CallTimeout:
                raise keeper.timed_out(call) from None

    def _silent(self, silent_s: float) -> str:
        """Returns the text of the warning that calls have waited for `silent_s` seconds without any answer.

        Called only while at least one call waits.
        """
        call: Call
        call, *others = filter(None, self._keeper.xids.taken.values())
        more = f", like {len(others):,} other calls" if others else ""
        limit = "has no time limit" if call.timeout_s is None else f"fails {call.timeout_s:g} s after it was made"
        return (
            f"{self.url}: no answer to {call.procedure.name} for {silent_s:g} s{more}; {self._keeper.state}, and the "
            f"call {limit}"
        )

    @property
    def _present(self) -> SingleConnection:
        return self._keeper.connection

    @property
    def negotiated(self) -> Negotiated | None:
        """The agreed version, message sizes, credits and other terms of the RDMA connection; None over TCP.

        Each access makes a new object, with the credits granted at that time. While the transport connection is lost,
        the terms are those of the last one.
        """
        return self._present.negotiated

    @property
    def host_identity(self) -> HostIdentity | None:
        """The host identity that the server has proved on the present transport connection; None without a proof."""
        return self._present.host_identity

    @property
    def xprtsec(self) -> XprtSec:
        """The protection of the present transport connection by TLS: "none", "tls" or "mtls"; "none" over RDMA."""
        return self._present.xprtsec

    @property
    def principal(self) -> str | None:
        """The client's Kerberos principal, proved to the server; None before the first call, and without Kerberos."""
        return None if self._gss is None else self._gss.principal

    @property
    def statistics(self) -> ClientStatistics:
        """The counts of calls and RDMA up to now, over all transport connections; each access makes a copy."""
        counters = (self._lost, self._present.statistics)
        made = () if self._call_statistics is None else self._call_statistics.snapshot()
        answered = () if self._answering is None else self._answering.dispatcher.statistics.snapshot()
        return ClientStatistics.of(add_up(counters), made, answered)

    def extension(self, name: str) -> ExtensionLink | None:
        """Returns the object by which programs use an extension of RPC-over-RDMA on the present transport connection.

        A reconnect makes a new object.

        Args:
            name: `Extension.name`.

        Returns:
            The object; None over TCP, and if the connection was made without the extension.
        """
        return self._present.extension(name)

    @property
    def lost(self) -> bool:
        """Whether the transport connection has ended and is not restored yet; also true after `close`."""
        return self._present.closed

    @property
    def reconnects(self) -> int:
        """The number of times that a lost transport connection was restored."""
        return self._keeper.reconnects

    async def wait_reconnected(self, count: int) -> None:
        """Waits until `reconnects` exceeds `count`; returns at once if it does already.

        While this waits, a lost transport connection is made again as for a waiting call. A program uses this to repeat
        what a server forgets with a connection, such as that this client takes calls.

        Args:
            count: an earlier value of `reconnects`.

        Raises:
            TransportClosed: `close` was called, or the transport connection is lost and is not restored, because of the
                limits in `ConnectOptions` or because `ConnectOptions.reconnect` is off.
        """
        await self._keeper.wait_reconnected(count)

    def _count(self, lost: SingleConnection) -> None:
        self._lost = add_up((self._lost, lost.statistics))

    async def close(self) -> None:
        """Ends the connection for good, and waits until it has ended; no effect when repeated.

        Calls in progress fail with `TransportClosed`. Handlers of `ConnectOptions.services` are not waited for: those
        that run as tasks are cancelled, those in threads run on, and their results are dropped.
        """
        self._silence.end()
        async with AsyncExitStack() as stack:
            # Each step is taken, also if one before it is cancelled; the last pushed is the first.
            if self._metrics is not None:
                stack.callback(self._metrics.end, self._told)
            if self._answering is not None:
                stack.push_async_callback(self._answering.runner.drain, 0)
            stack.push_async_callback(self._keeper.close)
            if self._gss is not None:
                await self._gss.close(self._present)

    __enter__ = AsynchronousOnly("async with")

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _gss_sessions(kerberos: Kerberos, host: str, xids: XidSource) -> GssSessions:
    """Returns the object that makes the RPCSEC_GSS contexts of a connection to `host`; `xids` numbers their calls.

    The imports are here so that programs without Kerberos do not load these modules.
    """
    from rpcrdma.aio.client.gss_sessions import GssSessions  # noqa: PLC0415

    return GssSessions(kerberos, host, xids)
