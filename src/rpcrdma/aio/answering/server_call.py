"""A call that has arrived: what its handler knows of it, the memory of its results, and how its reply goes out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from time import perf_counter_ns
from typing import Any, ClassVar, Protocol

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers, octets_reserved, octets_taken
from rpcrdma.aio.answering.call_source import CallSource
from rpcrdma.limits import UNCOUNTED_RESULT_OCTETS
from rpcrdma.rpc.auth import AuthStat, Credential
from rpcrdma.rpc.call_statistics import DROPPED, REFUSED, REPEATED, CallStatistics
from rpcrdma.rpc.dispatch import Route, refusal
from rpcrdma.rpc.gss.context_turns import Outcome
from rpcrdma.rpc.gss.protection import OpenedCall
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.message import SUCCESS_TAIL, AcceptStat, RejectStat, encode_auth_error
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import CredentialTooWeak, ProcedureUnavailable, ReverseCaller, Surroundings
from rpcrdma.transport import IncomingCall
from rpcrdma.xdr.codec import Encoder, Payload

__all__ = ["ServerCall", "SingleRun"]

_REPLY_NOT_KEPT = RuntimeError("the reply to the call that this one repeats is not kept")
"""The error that a refused repeat gets where the transport has no refusal of its own."""


class SingleRun(Protocol):
    """The one run of a call that must not run twice, which any repeat of the call may end."""

    def answer(self, reply: Payload) -> None:
        """See `ServerCall.answer`."""

    def let_go(self) -> None:
        """See `ServerCall.let_go`."""


class ServerCall(IncomingCall):
    """A call with the handler that answers it. It is the handler's `CallContext`, and statistics count it.

    `Dispatcher.open_call` sets `route`, `args` and `credential`. `status` is that of the result, or a name; before a
    reply is made, the one for calls that are answered along with the call they repeat. The memory of `buffer` is lent
    until `release`, after the reply has been sent.
    """

    transmissions: ClassVar[int] = 1
    source: CallSource[ServerCall]
    client: ReverseCaller
    route: Route
    args: Any
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
    rest: Generator[Surroundings, None, Any] | None = None
    """Of a handler that has begun in the event loop and goes on in a worker thread."""
    within: Surroundings = None
    """The surroundings that the rest of the handler asked for."""
    once: SingleRun | None = None
    """Of a call that must not run twice, while its handler runs."""
    buffers: list[memoryview] | None = None
    reserved: int = 0
    """Octets of memory that are reserved for `buffer`."""
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
    _wanted: int = 0

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
        """The reply that carries `result`.

        An exception of the encoder means that the handler returned something else than the procedure's result.
        """
        enc = Encoder()
        enc.reduced += self.xid.to_bytes(4, "big") + SUCCESS_TAIL
        procedure = self.route.procedure
        procedure.encode_result(enc, result)
        self.status = procedure.status(result) if procedure.status is not None else 0
        return enc

    def failure(self, error: BaseException) -> Payload:
        """The reply for a handler that raised `error`.

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
        """Refuses a repeat whose reply is no longer kept, lest the requester go on repeating it.

        In the transport's way (RFC 8166 section 4.5.3: ERR_CHUNK), or with SYSTEM_ERR where it has none.
        """
        self.status = REFUSED
        if self.source.refuse(self):
            self._count()
        else:
            self.answer(self.failure(_REPLY_NOT_KEPT))

    def let_go(self) -> None:
        """Ends a call whose connection ended before its handler had to be done: a repeat of it runs, or nothing."""
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

    def buffer(self, length: int) -> memoryview:
        """See `CallContext.buffer`.

        Raises:
            OutOfBuffers: the handlers of this connection hold as much memory as they may, or it has ended.
        """
        share = self.source.results
        if length <= UNCOUNTED_RESULT_OCTETS and not share.closed:
            return memoryview(bytearray(length))
        reserved = min(self.reserved, octets_taken(length)) if self.reserved else 0
        # A call that must not run twice gets memory also when its connection has ended: a repeat may get its result.
        buffer = share.acquire(length, outliving=self.route.at_most_once, reserved=reserved)
        if buffer is None:
            self._wanted = octets_taken(length) + sum(octets_taken(len(other)) for other in self.buffers or ())
            raise OutOfBuffers(f"{length} octets asked for, {share.held_octets} are in use for this connection")
        self.reserved -= reserved
        if self.buffers is None:
            self.buffers = [buffer]
        else:
            self.buffers.append(buffer)
        return buffer[:]  # a second view, since the handler may release the one that it gets

    def release(self) -> None:
        """Returns every buffer to the pool; may be called again."""
        buffers = self.buffers
        if buffers is not None:
            self.buffers = None
            for buffer in buffers:
                self.source.results.release(buffer)

    def end_reservation(self) -> None:
        """Gives back the reserved memory that the handler, which has ended, did not take."""
        reserved, self.reserved = self.reserved, 0
        self.source.results.give_back(reserved)

    def wait_for_room(self, resume: Callable[[ServerCall], None]) -> bool:
        """Whether the call has to wait until there is memory for its results; then `resume(call)` is called.

        For a handler with bulk results that cannot be run again, the largest that it may return are reserved. Others
        begin if there is memory for an ordinary result, or if their connection holds nothing and they may be run again.
        """
        share = self.source.results
        if share.closed:
            return False
        if self.route.reserves:
            wanted = min(octets_reserved(self.route.procedure.reply_bound(self.args).items), share.octets_max)
            if not wanted or share.reserve(wanted):
                self.reserved = wanted
                return False
            share.wait(wanted, functools.partial(resume, self))
        elif not share.crowded or not (share.held or self.route.at_most_once):
            return False
        else:
            share.wait_while_crowded(functools.partial(resume, self))
        return True

    def wait_for_buffers(self, resume: Callable[[ServerCall], None]) -> bool:
        """After `OutOfBuffers`: gives all buffers back and calls `resume(call)` when the handler could have its memory.

        False if it never can: then nothing is called.
        """
        share = self.source.results
        wanted, self._wanted = self._wanted, 0
        if not wanted or share.closed or wanted > share.octets_max:
            return False
        self.release()
        share.wait(wanted, functools.partial(resume, self))
        return True
