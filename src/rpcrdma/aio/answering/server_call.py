"""A call at a server, from its arrival to its reply."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rpcrdma.aio.answering.buffer_pool import BufferShare, OutOfBuffers, octets_reserved, octets_taken
from rpcrdma.limits import UNCOUNTED_RESULT_OCTETS
from rpcrdma.rpc.auth import AuthStat, Credential
from rpcrdma.rpc.call_statistics import DROPPED, REFUSED, REPEATED, CallStatistics
from rpcrdma.rpc.dispatch import Route, refusal
from rpcrdma.rpc.gss.context_turns import Outcome
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS, SUCCESS_TAIL, AcceptStat, RejectStat, encode_auth_error
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import ActAs, CredentialTooWeak, ProcedureUnavailable, ReverseCaller, Steps
from rpcrdma.transport import IncomingCall
from rpcrdma.xdr.codec import Encoder, Payload, padded_octets

if TYPE_CHECKING:
    from rpcrdma.rpc.gss.acceptor import OpenedCall

__all__ = ["CallSource", "ServerCall", "SingleRun"]

_REPLY_NOT_KEPT = RuntimeError("the reply to the call that this one repeats is not kept")
"""The error that a refused repeat gets where the transport has no refusal of its own."""


class CallSource(Protocol):
    """The interface of a connection on which calls arrive, for the code that answers them; RDMA and TCP implement it.

    The answering code ends each call by exactly one of: `reply`, `drop`, or a `refuse` that returns True. By that the
    connection releases the call's memory (`ServerCall.release`): within `drop` and `refuse`, and after `reply` as
    soon as the transport uses it no more, at the latest when the reply has left or the connection has ended.
    """

    @property
    def client(self) -> ReverseCaller:
        """The object by which this side calls the peer, in the reverse direction (RFC 8167)."""

    @property
    def host(self) -> str:
        """The peer's network address as text, without port."""

    @property
    def results(self) -> BufferShare:
        """The connection's share of the memory for results of handlers; it is closed when the connection ends."""

    def reply(self, call: ServerCall, reply: Payload) -> None:
        """Sends `reply` as the answer to `call` and sets `call.octets_sent`.

        After the end of the connection only the call's memory is released. If the reply does not fit the chunks that
        the call provides, the requester gets an error, and the implementation sets `call.refusal` to the reason: the
        requester may repeat the call with more memory. A reply that is too long for the transport is replaced by an
        error.
        """

    def reply_octets_max(self, call: ServerCall, items: Sequence[int]) -> int:
        """Returns the most octets of a reply to `call`, RPC header included, bulk items excluded.

        `items` are the lengths in octets of the reply's bulk items. An item that no Write chunk of the call takes is
        sent within the reply, and reduces the result. Returns 0 if the items alone do not fit. The method may be called
        in any thread.
        """

    def refuse(self, call: ServerCall) -> bool:
        """Refuses `call` by the transport's own error, such as RDMA_ERROR with ERR_CHUNK, and returns True.

        Returns False, without any effect, if the transport has no such error, as TCP.
        """

    def drop(self, call: ServerCall) -> None:
        """Ends `call` without a reply and releases its memory."""

    def out_of_memory(self, call: ServerCall) -> None:
        """Logs that `call` is answered with SYSTEM_ERR, as there is no memory for its protected reply."""


class SingleRun(Protocol):
    """The one execution of a call that must not run twice; `ServerCall.once` refers to it while its handler runs.

    The call may arrive again meanwhile: the execution then serves several transmissions.
    """

    def answer(self, reply: Payload) -> None:
        """Sends `reply`, the encoded reply of the handler, to the newest transmission of the call."""

    def let_go(self) -> None:
        """Drops the call's transmission whose connection ended before the handler began; runs a later one, if any."""


class ServerCall(IncomingCall):
    """A received call from its arrival to its reply; it is the `CallContext` of its handler, and statistics count it.

    `Dispatcher.open_call` sets `route`, `args` and `credential`. `status` is for statistics: the status in the
    procedure's result (0 if it has none), the name of a refusal, or DROPPED. Until there is a reply `status` is
    REPEATED, which stays for a repeat that gets the reply of another transmission. The memory that `buffer` returns is
    lent until `release`, after the reply has been sent.
    """

    transmissions: ClassVar[int] = 1
    """Each transmission that arrives is a `ServerCall` of its own."""
    source: CallSource
    """The connection."""
    route: Route
    """The handler and the way in which it runs."""
    args: Any
    buffers: list[memoryview] | None = None
    """The memory that the handler borrowed from `source.results`; None if there is none."""
    reserved: int = 0
    """Octets of memory that are reserved for `buffer`."""
    _wanted: int = 0
    """Octets of all buffers that the handler needed when `buffer` found no room; 0: it has found room."""
    client: ReverseCaller
    credential: Credential
    protection: OpenedCall | None = None
    """The protection of a call under RPCSEC_GSS, else None. Replies are made, and kept, without it."""
    sealing: bool = False
    """Whether the reply waits for its protection."""
    on_sealed: Callable[[ServerCall], None] | None = None
    """Is called with the call when a reply that has waited for its protection was sent or refused; or None."""
    procedure: Procedure[Any, Any] | None = None
    status: int | str = REPEATED
    may_block: bool = False
    """Whether the handler has a worker thread, or waits for one, and so may block; the `HandlerRunner` sets this."""
    rest: Steps[Any] | None = None
    """The unfinished part of a handler that began in the event loop and continues in a worker thread; else None."""
    step: ActAs | None = None
    """The identity that the unfinished handler first takes in the worker thread; None: the thread's own."""
    once: SingleRun | None = None
    """The run of a call that must not run twice, while its handler runs; else None."""
    period: Any
    """The `_Period` of the `HandlerRunner` in which the handler began, while it runs in a thread or as a task."""
    statistics: CallStatistics | None = None
    began_ns: int
    """The time in nanoseconds of the call's arrival; this and the two times below have meaning only where calls are
    counted."""
    sent_ns: int = 0
    """When the handler began, or a wait for a thread, memory, an RPCSEC_GSS context or its turn as a task ended."""
    ended_ns: int
    """When the connection got the reply to send, or the call ended without one."""
    octets_received: int = 0
    octets_sent: int = 0
    unsent_octets: int = 0
    """Octets of the reply from its transfer to the transport until it has been sent; the connection sets them."""

    @property
    def peer(self) -> str:
        """The client's network address, without port."""
        return self.source.host

    @property
    def principal(self) -> str | None:
        """The Kerberos principal that the caller has proved to be; None without RPCSEC_GSS."""
        return self.credential.principal

    @property
    def host_identity(self) -> HostIdentity | None:
        """The identity that the client's host has proved on the connection; None without a proof."""
        return self.client.host_identity

    @property
    def ended(self) -> bool:
        """Whether the connection of the call has ended, so that no reply can reach the client on it."""
        return self.source.results.closed

    def success(self, result: Any) -> Payload:
        """Returns the encoded reply that carries `result`, and sets the call's `status` to the status in `result`.

        `status` becomes 0 if results of the procedure have no status.

        Raises:
            Exception: any error of the encoder, because `result` is not of the procedure's result type.
        """
        enc = Encoder()
        enc.reduced += self.xid.to_bytes(4, "big") + SUCCESS_TAIL
        procedure = self.route.procedure
        procedure.encode_result(enc, result)
        self.status = procedure.status(result) if procedure.status is not None else 0
        return enc

    def failure(self, error: BaseException) -> Payload:
        """Returns the error reply for a handler that raised `error`, and sets the call's `status` to the reply's name.

        The reply is PROC_UNAVAIL for `ProcedureUnavailable`, AUTH_TOOWEAK (status "AUTH_ERROR") for
        `CredentialTooWeak`, and SYSTEM_ERR otherwise.
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
        """Passes `reply` to the connection of the call's newest transmission, then counts the call in the statistics.

        Under RPCSEC_GSS the reply is protected first, in a thread if it is long: both steps may then follow after this
        method has returned. If the RPCSEC_GSS context has ended meanwhile, a denial is sent in place of the reply, and
        SYSTEM_ERR if there is no memory for the protected reply. `sealed`: whether the reply is protected already.
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
            try:
                protected = outcome()
            except MemoryError as error:
                self.source.out_of_memory(self)
                protected = protection.protect(self.failure(error))
            self.answer(protected, sealed=True)
            if self.on_sealed is not None:
                self.on_sealed(self)

        work = functools.partial(protection.protect, reply)
        protection.turns.use(work, done, octets=protection.octets_sealed(reply))

    def refuse(self) -> None:
        """Refuses a repeat of an earlier call whose reply is not kept, so that the requester stops repeating it.

        The refusal is ERR_CHUNK over RDMA in version 1 (RFC 8166 section 4.5.3), RDMA2_ERR_SYSTEM in version 2, and
        SYSTEM_ERR over TCP.
        """
        self.status = REFUSED
        if self.source.refuse(self):
            self._count()
        else:
            self.answer(self.failure(_REPLY_NOT_KEPT))

    def let_go(self) -> None:
        """Ends a call whose connection ended before its handler began; a later transmission, if any, runs instead."""
        if self.once is not None:
            self.once.let_go()
        else:
            self.drop()

    def drop(self) -> None:
        """Ends the call without a reply, releases its memory and counts it as dropped.

        Called if the connection has ended, if a later transmission of the call gets the reply, and for a replay under
        RPCSEC_GSS.
        """
        self.status = DROPPED
        self.source.drop(self)
        self._count()

    def _count(self) -> None:
        if self.statistics is not None:
            self.ended_ns = perf_counter_ns()
            self.statistics.count(self)

    @property
    def call_octets(self) -> int:
        """The octets of the call's RPC message, RPC header and the data of its Read chunks included."""
        decoder = self.decoder
        return decoder.pos - decoder.start + decoder.removed

    def result_octets_max(self, items: Sequence[int] = ()) -> int:
        """Returns the most octets of the encoded result, bulk items excluded; at least 0.

        `items` are the lengths in octets of the result's bulk items. The limits are those of the transport, of the
        memory that the requester offers, and of RPCSEC_GSS. Handlers call this method, in any thread, to size their
        results.
        """
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
        """Returns writable memory of `length` octets for a bulk result; it is lent until the reply has been sent.

        The content is unspecified. A buffer of up to UNCOUNTED_RESULT_OCTETS (4 KiB) does not count against the
        connection's share of the pool. Handlers do not catch `OutOfBuffers`: if the handler may begin twice
        (`Route.begins_once` is false), it is run again when there is room; if not, the reply is SYSTEM_ERR.

        Raises:
            OutOfBuffers: the share has no room for `length` octets at present, the whole pool is smaller, or the
                connection has ended. A handler that must not begin twice gets memory also after that end.
            OutOfMemory: the system has no memory; the reply is SYSTEM_ERR.
        """
        share = self.source.results
        if length <= UNCOUNTED_RESULT_OCTETS and not share.closed:
            return memoryview(bytearray(length))
        reserved = min(self.reserved, octets_taken(length)) if self.reserved else 0
        # A call that must not begin twice gets memory also when its connection has ended: a repeat may get its result.
        buffer = share.acquire(length, outliving=self.route.begins_once, reserved=reserved)
        if buffer is None:
            self._wanted = octets_taken(length) + sum(octets_taken(len(other)) for other in self.buffers or ())
            raise OutOfBuffers(f"{length} octets asked for, {share.held} are in use for this connection")
        self.reserved -= reserved
        if self.buffers is None:
            self.buffers = [buffer]
        else:
            self.buffers.append(buffer)
        return buffer[:]  # a second view, since the handler may release the one that it gets

    def release(self) -> None:
        """Gives every buffer that the handler borrowed back to the buffer pool; no effect when repeated."""
        buffers = self.buffers
        if buffers is not None:
            self.buffers = None
            for buffer in buffers:
                self.source.results.release(buffer)

    def end_reservation(self) -> None:
        """Gives back the reserved octets that the handler did not use; called when the handler has ended."""
        reserved, self.reserved = self.reserved, 0
        self.source.results.give_back(reserved)

    def wait_for_room(self, resume: Callable[[ServerCall], None]) -> bool:
        """Returns whether the call must wait for memory for its results; if so, has `resume(call)` called later.

        `resume` must call this method again. If the procedure has bulk results and its handler must not begin twice,
        this method reserves memory for the largest ones of this call, counted in `reserved`: the call waits only while
        they have no room. Any other call, with bulk results or without, waits while its client is
        `BufferShare.crowded`, unless its connection holds no memory and the handler may begin twice. After the end of
        the connection no call waits.
        """
        share = self.source.results
        if share.closed:
            return False
        if self.route.reserves:
            procedure, args = self.route.procedure, self.args
            items = procedure.reply_bound(args).items if procedure.items is None else procedure.items(args)
            wanted = octets_reserved(items) if items else 0
            if not wanted:
                return False
            wanted = min(wanted, share.octets_max)
            if share.reserve(wanted):
                self.reserved = wanted
                return False
            share.wait(wanted, functools.partial(resume, self))
        elif not share.crowded or not (share.held or self.route.begins_once):
            return False
        else:
            share.wait_while_crowded(functools.partial(resume, self))
        return True

    def wait_for_buffers(self, resume: Callable[[ServerCall], None]) -> bool:
        """Gives all buffers back after the handler raised `OutOfBuffers`, and has `resume(call)` called later.

        `resume` is called when there is room for all buffers that the handler asked for, or when the connection ends.
        Returns True. If waiting is useless, the method returns False, and the call keeps its buffers until `release`:
        the connection has ended, the buffers together exceed the pool, or `ServerCall.buffer` has not raised
        `OutOfBuffers` for lack of room since the last call of this method.
        """
        share = self.source.results
        wanted, self._wanted = self._wanted, 0
        if not wanted or share.closed or wanted > share.octets_max:
            return False
        self.release()
        share.wait(wanted, functools.partial(resume, self))
        return True
