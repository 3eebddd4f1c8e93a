"""The calls of this side on one connection, RDMA or TCP: their futures, deadlines and outcomes."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Container
from math import inf
from operator import itemgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.misuse import not_seconds
from rpcrdma.errors import (
    AuthError,
    CallTimeout,
    DecodeError,
    GarbageArguments,
    LocalProtocolError,
    MessageTooLong,
    NoSuchProcedure,
    ProgramMismatch,
    ProgramUnavailable,
    RemoteProtocolError,
    RemoteSystemError,
    RpcRdmaError,
    RpcVersionMismatch,
    TransportClosed,
)
from rpcrdma.limits import CALL_OCTETS_PULLED_MAX, RPC_RECORD_OCTETS_MAX, SERVERS_KNOWN_MAX
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.call_statistics import CANCELLED, CONNECTION_LOST, NOT_SENT, OTHER, TIMEOUT, CallStatistics
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.program import Procedure
from rpcrdma.rtr import Preference
from rpcrdma.transport import Call, CallRefused, Cause, ChunkRefused, VersionRefused
from rpcrdma.wire.buffers import Memory

if TYPE_CHECKING:
    from rpcrdma.aio.connections.negotiated import Negotiated

__all__ = [
    "REPLY_BOUND_REMEDY",
    "CallFuture",
    "CallObserver",
    "CallsMade",
    "again",
    "ended",
    "observed",
    "observer_of",
    "status_of",
    "tell_of_padding",
    "with_cause",
    "with_probable_cause",
]

REPLY_BOUND_REMEDY = (
    "`pragma limit` and `pragma bound` in the program's definition (or Procedure.bound), the length of `into`, and "
    "TransportConfig(reply_octets_max=...) say how much a call offers"
)

A = TypeVar("A")
R = TypeVar("R")

CallObserver: TypeAlias = Callable[[Call], None]
"""A function that the event loop calls with each call that has ended; it must not raise."""

_STATUSES: tuple[tuple[type[BaseException], str], ...] = (
    (CallTimeout, TIMEOUT),
    (asyncio.CancelledError, CANCELLED),
    (TransportClosed, CONNECTION_LOST),
    (ProgramUnavailable, "PROG_UNAVAIL"),
    (ProgramMismatch, "PROG_MISMATCH"),
    (NoSuchProcedure, "PROC_UNAVAIL"),
    (GarbageArguments, "GARBAGE_ARGS"),
    (RemoteSystemError, "SYSTEM_ERR"),
    (RpcVersionMismatch, "RPC_MISMATCH"),
    (AuthError, "AUTH_ERROR"),
    (CallRefused, "RDMA_ERROR"),
    (ChunkRefused, "RDMA_ERROR"),
    (VersionRefused, "RDMA_ERROR"),
    (MessageTooLong, "TOO_LONG"),
    (DecodeError, "DECODE_ERROR"),
    (RemoteProtocolError, "PROTOCOL_ERROR"),
    (LocalProtocolError, NOT_SENT),
)


_LOGGER = logging.getLogger("rpcrdma.client")
_PADS_WRONGLY: dict[str, None] = {}


def status_of(error: BaseException) -> str:
    """Returns the name by which statistics count a call that ended with `error`, as "TIMEOUT"; "other" if unknown."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), OTHER)


def observer_of(statistics: CallStatistics | None, on_call: CallObserver | None = None) -> CallObserver | None:
    """Returns a function that counts an ended call in `statistics` and passes it to `on_call`.

    If one of them is None, the function only does the work for the other one. Returns None if both are None.
    """
    if statistics is None or on_call is None:
        return on_call if statistics is None else statistics.count
    count, tell = statistics.count, on_call

    def observe(call: Call) -> None:
        count(call)
        tell(call)

    return observe


def ended(call: Call, observer: CallObserver, outcome: Any, error: BaseException | None = None) -> None:
    """Records the end of `call` in its attributes, and then calls `observer` with it.

    Args:
        call: the call; its `error` and `status` are set, and if it failed without a reply, `ended_ns`.
        observer: called with the call.
        outcome: the decoded result, from which the procedure's status is taken; unused after an error.
        error: the error by which the call ended; None: it has a result.
    """
    call.error = error
    if error is not None:
        call.status = status_of(error)
        if call.status == OTHER and not call.transmissions:
            call.status = NOT_SENT
    else:
        status = call.procedure.status
        call.status = 0 if status is None else status(outcome)
    if error is not None and not call.octets_received:
        # A call that was answered on a lost connection and then sent again has another time of its reply.
        call.ended_ns = perf_counter_ns()
    observer(call)


def with_cause(call: Call, error: RpcRdmaError) -> RpcRdmaError:
    """Returns the exception for the caller of a call that failed over RDMA with `error`.

    For a refusal by RDMA_ERROR (`ChunkRefused`, `CallRefused`) that is a new exception, whose text adds what may have
    caused the refusal: that a repeated call has run before, and sizes. Any other error is returned as it is.
    """
    if isinstance(error, ChunkRefused):
        hint = ";"
        if error.refusal.cause is Cause.CHUNKS and call.transmissions > 1:
            # A call refused with this cause is not sent again: a connection was lost.
            hint += " the call may have run before, over a lost connection, and its reply be kept no longer; otherwise"
        hint += f" the reply of {call.procedure.name} could have {call.form.bound.results} octets"
        if items := call.form.bound.items:
            hint += f" and {', '.join(map(str, items))} placed directly"
        return ChunkRefused(f"{hint}: {REPLY_BOUND_REMEDY}{_octets_pulled(call)}", error.refusal)
    if isinstance(error, CallRefused):
        return CallRefused(error.refusal, _octets_pulled(call))
    return error


def _octets_pulled(call: Call) -> str:
    """Returns a clause for errors: the octets in the call's Read chunks, and the most that this library's servers take.

    Returns "" for a call without Read chunks.
    """
    pulled = sum(segment.length for chunk in call.chunks.reads for segment in chunk.segments)
    if not pulled:
        return ""
    return (
        f"; {pulled} octets of the call were in Read chunks: a server of this library takes "
        f"{CALL_OCTETS_PULLED_MAX}, or what TransportConfig(call_octets_pulled_max=...) says there"
    )


def tell_of_padding(call: Call) -> None:
    """Logs a warning that the server of `call` pads results wrongly (RFC 4506 section 3).

    In one process each server is warned of once. Only the last SERVERS_KNOWN_MAX such servers are remembered.
    """
    if call.peer in _PADS_WRONGLY:
        return
    _PADS_WRONGLY[call.peer] = None
    if len(_PADS_WRONGLY) > SERVERS_KNOWN_MAX:
        del _PADS_WRONGLY[next(iter(_PADS_WRONGLY))]
    _LOGGER.warning(
        "%s: results such as that of %s are padded wrongly (RFC 4506 section 3, RFC 8166 section 3.4.6.2), as those of "
        "nfs-ganesha are; the data is complete, and is used",
        call.peer,
        call.procedure.name,
    )


async def observed(call: Call, start: Callable[[Call], Awaitable[Any]], observer: CallObserver | None) -> Any:
    """Sends `call` by `start`, waits for its result and returns it; passes the ended call to `observer`, unless None.

    Errors of the call are raised after `observer` has been called.
    """
    if observer is None:
        return await start(call)
    call.began_ns = perf_counter_ns()
    try:
        result = await start(call)
    except BaseException as error:
        ended(call, observer, None, error)
        raise
    ended(call, observer, result)
    return result


class CallFuture(asyncio.Future[Any]):
    """The future of a call's decoded result. Cancelling it, or the task that awaits it, abandons the call."""

    __slots__ = ("call", "connection")

    call: Call | None
    """The call; None as soon as there is a result or error, since the call refers to this object."""
    connection: CallsMade

    def cancel(self, msg: Any | None = None) -> bool:
        call = self.call
        if call is None or not super().cancel(msg):
            return False
        self.call = None
        self.connection.give_up(call)
        return True

    def fail(self, error: BaseException) -> None:
        """Sets `error` as the outcome of the call; no effect if the call has ended."""
        if not self.done():
            self.call = None
            self.set_exception(error)


class CallsMade(ABC):
    """Base of `RdmaConnection` and `TcpConnection`: numbers this side's calls, makes their futures and times them out.

    `timer`, which watches this object, serves all calls: calls usually end long before their deadlines, and then cost
    the event loop no timer of their own.
    """

    __slots__ = ("_look_again_s", "_loop", "_observer", "_pending", "_xid", "timer")

    _loop: asyncio.AbstractEventLoop
    _called_back: bool
    """Whether this is a server's end, which may call the client."""
    _look_again_s: float
    """No deadline of a call is earlier than this time; infinite while no call has a deadline."""
    _observer: CallObserver | None
    """Is called with the ended calls that were made with `call`; callers of `start` notify their observer
    themselves."""
    _pending: dict[int, Call]
    """This side's calls whose reply is awaited, by XID; abandoned calls may be among them."""
    _xid: int
    timer: DeadlineTimer
    """The connection's one timer."""

    @property
    @abstractmethod
    def negotiated(self) -> Negotiated | None:
        """The version, message sizes, credits and other terms agreed by now, as a new object; None over TCP."""

    @abstractmethod
    def start(self, call: Call) -> CallFuture:
        """Sends a call and returns the future of its decoded result; cancelling that fences the call's memory at once.

        The caller has set the call's `xid` and, if its time is limited, `deadline_s`.

        Raises:
            TransportClosed: the connection has ended, or an internal error ends it now: the call was not taken, and its
                `future` stays None.
            LocalProtocolError, TypeError, MessageTooLong, OutOfMemory: the call cannot be encoded or sent.
            GssFailure: the RPCSEC_GSS context of `call.protection` has ended.
        """

    @abstractmethod
    def give_up(self, call: Call) -> None:
        """Abandons an unanswered call; when this returns, no peer can access the memory of the call."""

    @property
    def xids_kept(self) -> Container[int]:
        """The XIDs of this side's unanswered calls, also of abandoned ones as long as a reply to these may come."""
        return self._pending

    def _next_xid(self) -> int:
        """Returns the XID for a call that has none: that after the last one, modulo 2^32, but of no unfinished call."""
        xid = (self._xid + 1) & 0xFFFFFFFF
        while xid in self._pending:
            xid = (xid + 1) & 0xFFFFFFFF
        self._xid = xid
        return xid

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Memory | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
        placement: str = "",
        credential: Credential | None = None,
    ) -> R:
        """Calls a procedure of the peer on this connection, waits for the reply and returns the decoded result.

        Args:
            procedure: the procedure.
            args: its arguments, not encoded, of the procedure's type.
            into: a writable buffer for the DDP-eligible item of the result; None: new memory.
            timeout_s: the time limit in seconds; None: no limit.
            xid: the XID; None: the next one.
            placement: how the round-trip extension moves the call's bulk items: a value of
                `rpcrdma.extension.Preference`; "": as the connection's extension is set.
            credential: the credential; None: the connection's.

        Raises:
            ValueError: `placement` is unknown.
            TypeError: `timeout_s` is no number, or `args` is of another type.
            TransportClosed, CallTimeout, RpcError, DecodeError, LocalProtocolError, MessageTooLong: as `Caller.call`.
            OutOfMemory: there is no memory for the result.
        """
        if placement:
            Preference(placement)
        call = Call(procedure, args, into, timeout_s, placement)
        call.xid = self._next_xid() if xid is None else xid
        if credential is not None:
            call.encoder = CallEncoder(credential)
        if timeout_s is not None:
            try:
                call.deadline_s = self._loop.time() + timeout_s
            except TypeError:
                raise not_seconds(timeout_s) from None
        result: R = await observed(call, self.start, self._observer)
        return result

    def _future(self, call: Call) -> CallFuture:
        """Makes, stores in `call` and returns the future of a call that the connection has accepted.

        The timer is set for the deadline of the call, if it has one.
        """
        call.future = future = CallFuture(loop=self._loop)
        future.call = call
        future.connection = self
        due_s = call.deadline_s
        if due_s is not None and due_s < self._look_again_s:
            self._look_again_s = due_s
            self.timer.look()
        return future

    def next_deadline_s(self, _now_s: float) -> float | None:
        """Returns the loop time in seconds of the earliest deadline, when `on_time` is due; None without deadlines.

        The deadline may be that of a call that has ended.
        """
        return None if self._look_again_s == inf else self._look_again_s

    def on_time(self, now_s: float) -> None:
        """Abandons the calls whose deadlines are at or before the loop time `now_s`.

        The futures of these calls get `CallTimeout`; nothing is raised.
        """
        if now_s < self._look_again_s:
            return
        limited = [(call.deadline_s, call) for call in self._pending.values() if call.deadline_s is not None]
        limited.sort(key=itemgetter(0))
        self._look_again_s = inf
        for due_s, call in limited:
            future: CallFuture = call.future
            if future.call is None:
                continue
            if due_s > now_s:
                self._look_again_s = due_s
                break
            self.give_up(call)
            future.fail(CallTimeout(f"{call.procedure.name}: no reply within {call.timeout_s:g} s{self._why_silent()}"))

    def _why_silent(self) -> str:
        """Returns a hint for the error of a server's call to a client that timed out; "" for a client's call.

        The hint says that the client may offer no services. It is "", too, if the client has sent transport
        properties, which state whether it does.
        """
        if not self._called_back or ((terms := self.negotiated) is not None and terms.peer_properties is not None):
            return ""
        where = "over TCP" if terms is None else f"in version {terms.version}"
        return f"; the client may offer no services (ConnectOptions.services), which it cannot say {where}"


def again(error: TransportClosed) -> TransportClosed:
    """Returns a copy of `error`, so that each call that raises it adds its traceback to an object of its own."""
    return TransportClosed(*error.args, protocol_error=error.protocol_error)


def with_probable_cause(error: Exception, octets: int) -> Exception:
    """Returns the exception for the caller of a TCP call of `octets` octets that failed with `error`.

    GARBAGE_ARGS for a call over RPC_RECORD_OCTETS_MAX octets, the default bound of this library's servers, becomes an
    error whose text names that bound; other errors are returned as they are.
    """
    if not isinstance(error, GarbageArguments) or octets <= RPC_RECORD_OCTETS_MAX:
        return error
    return GarbageArguments(
        f": they may be too long, the call has {octets} octets; a server of this library takes "
        f"{RPC_RECORD_OCTETS_MAX}, or what TcpServerConfig(record_octets_max=...) says there"
    )
