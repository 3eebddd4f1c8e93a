"""The calls of this side on one connection, RDMA or TCP: their futures, deadlines and outcomes."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from operator import itemgetter
from time import perf_counter_ns
from typing import Any, Protocol, TypeAlias, TypeVar

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
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
from rpcrdma.transport import Call, CallRefused, ChunkRefused, VersionRefused
from rpcrdma.wire.buffers import Memory

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
"""Is called in the event loop with each call that has ended, and is not to raise."""

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
    """Returns the name under which a call that ended with `error` is counted."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), OTHER)


def observer_of(statistics: CallStatistics | None, on_call: CallObserver | None = None) -> CallObserver | None:
    """Combines statistics and an observer into one observer; returns None without either."""
    if statistics is None or on_call is None:
        return on_call if statistics is None else statistics.count
    count, tell = statistics.count, on_call

    def observe(call: Call) -> None:
        count(call)
        tell(call)

    return observe


def ended(call: Call, observer: CallObserver, outcome: Any, error: BaseException | None = None) -> None:
    """Notifies an observer of a call that has ended, with a result or with `error`."""
    call.error = error
    if error is not None:
        call.status = status_of(error)
    else:
        status = call.procedure.status
        call.status = 0 if status is None else status(outcome)
    if error is not None and not call.octets_received:
        # A call that was answered on a lost connection and then sent again has another time of its reply.
        call.ended_ns = perf_counter_ns()
    observer(call)


def with_cause(call: Call, error: RpcRdmaError) -> RpcRdmaError:
    """Returns the error for the caller of a call that failed over RDMA, with its probable cause."""
    if isinstance(error, ChunkRefused):
        hint = f"; the reply of {call.procedure.name} could have {call.form.bound.results} octets"
        if items := call.form.bound.items:
            hint += f" and {', '.join(map(str, items))} placed directly"
        return ChunkRefused(f"{hint}: {REPLY_BOUND_REMEDY}{_octets_pulled(call)}", error.refusal)
    if isinstance(error, CallRefused):
        return CallRefused(error.refusal, _octets_pulled(call))
    return error


def _octets_pulled(call: Call) -> str:
    """Returns a reason for which a server may refuse the call's Read chunks; "" without any."""
    pulled = sum(segment.length for chunk in call.chunks.reads for segment in chunk.segments)
    if not pulled:
        return ""
    return (
        f"; {pulled} octets of the call were in Read chunks: a server of this library takes "
        f"{CALL_OCTETS_PULLED_MAX}, or what TransportConfig(call_octets_pulled_max=...) says there"
    )


def tell_of_padding(call: Call) -> None:
    """Warns, once for each of the servers that were met last, that results of the call's server are padded wrongly."""
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
    """Returns the result of a call that `start` sends, and notifies the observer when the call has ended."""
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


class CallingConnection(Protocol):
    """A connection, as far as the futures of its calls need it."""

    def give_up(self, call: Call) -> None:
        """Abandons a call: when this returns, no peer can touch the call's memory."""


class CallFuture(asyncio.Future[Any]):
    """The result of a call. Cancelling it, also by way of the task that waits for it, gives the call up."""

    __slots__ = ("call", "connection")

    call: Call | None
    """None as soon as there is a result: the call refers to this object."""
    connection: CallingConnection

    def cancel(self, msg: Any | None = None) -> bool:
        call = self.call
        if call is None or not super().cancel(msg):
            return False
        self.call = None
        self.connection.give_up(call)
        return True

    def fail(self, error: BaseException) -> None:
        """Ends the call without a result; no effect if it has ended."""
        if not self.done():
            self.call = None
            self.set_exception(error)


class CallsMade(ABC):
    """Base of both kinds of connection: numbers calls, makes their futures and times them out.

    `timer`, which watches this object, serves all calls: calls usually end long before their deadlines, and then cost
    the event loop no timer of their own.
    """

    __slots__ = ("_look_again_s", "_loop", "_observer", "_xid", "timer")

    _loop: asyncio.AbstractEventLoop
    _look_again_s: float
    """No deadline of a call is earlier than this time; infinite while no call has a deadline."""
    _observer: CallObserver | None
    """Of the calls that are made with `call`; `start` leaves that to its caller."""
    _xid: int
    timer: DeadlineTimer
    """The connection's one timer."""

    @abstractmethod
    def _outstanding(self) -> Iterable[Call]:
        """Returns the calls that may have no result yet."""

    @abstractmethod
    def start(self, call: Call) -> CallFuture:
        """Sends a call and returns the future of its result; cancelling that fences the memory of the call at once.

        Raises:
            TransportClosed: the connection has ended: the call was not taken, and its `future` stays None.
            LocalProtocolError: the call cannot be sent.
        """

    @abstractmethod
    def give_up(self, call: Call) -> None:
        """See `CallingConnection.give_up`."""

    def _next_xid(self) -> int:
        """Returns an XID for a call without one."""
        self._xid = xid = (self._xid + 1) & 0xFFFFFFFF
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
        """See `rpcrdma.rpc.service.ReverseCaller.call`."""
        if placement:
            Preference(placement)
        call = Call(procedure, args, into, timeout_s, placement)
        call.xid = self._next_xid() if xid is None else xid
        if credential is not None:
            call.encoder = CallEncoder(credential)
        if timeout_s is not None:
            call.deadline_s = self._loop.time() + timeout_s
        result: R = await observed(call, self.start, self._observer)
        return result

    def _future(self, call: Call) -> CallFuture:
        """Returns the future of a call that the connection takes."""
        call.future = future = CallFuture(loop=self._loop)
        future.call = call
        future.connection = self
        due_s = call.deadline_s
        if due_s is not None and due_s < self._look_again_s:
            self._look_again_s = due_s
            self.timer.look()
        return future

    def next_deadline_s(self, _now_s: float) -> float | None:
        """See `Timed.next_deadline_s`; too early where the call with the first deadline has ended."""
        return None if self._look_again_s == inf else self._look_again_s

    def on_time(self, now_s: float) -> None:
        """Ends the calls whose deadlines have passed."""
        if now_s < self._look_again_s:
            return
        limited = [(call.deadline_s, call) for call in self._outstanding() if call.deadline_s is not None]
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
            future.fail(CallTimeout(f"{call.procedure.name}: no reply within {call.timeout_s:g} s"))


def again(error: TransportClosed) -> TransportClosed:
    """Returns the same error as an object of its own: each call that raises it adds its own traceback."""
    return TransportClosed(*error.args, protocol_error=error.protocol_error)


def with_probable_cause(error: Exception, octets: int) -> Exception:
    """Returns the error of a refused call over TCP, whose probable cause may be its length in octets."""
    if not isinstance(error, GarbageArguments) or octets <= RPC_RECORD_OCTETS_MAX:
        return error
    return GarbageArguments(
        f": they may be too long, the call has {octets} octets; a server of this library takes "
        f"{RPC_RECORD_OCTETS_MAX}, or what TcpServerConfig(record_octets_max=...) says there"
    )
