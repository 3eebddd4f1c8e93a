"""A COMPOUND while it runs: the state that its operations share, and the run from the first to the last.

Each operation is a function `name(compound, args)` that returns the operation's result, or raises `Refused` or an error
of a tree. An operation that would block in the event loop raises `MustWait` before it has changed anything; the rest of
the COMPOUND then runs in a worker thread, from this operation on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from rpcrdma.limits import RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.export.tree import Node
from rpcrdma.nfs.v4.compounds import (
    MINOR_VERSIONS,
    CalledOperation,
    CompoundCall,
    EncodedReply,
    encode_operation_result,
)
from rpcrdma.nfs.v4.nfs4 import nfsstat4, stateid4
from rpcrdma.nfs.v4.operations import Operation, Position
from rpcrdma.nfs.v4.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.reply_cache import detached
from rpcrdma.rpc.service import MAY_BLOCK, ActAs, CallContext, CredentialTooWeak, Steps
from rpcrdma.xdr.codec import Encoder

__all__ = ["RPC_REPLY_OCTETS", "Compound", "Handler", "KeptReply", "MustWait", "Parts", "run"]

T = TypeVar("T")
_S = nfsstat4
_OK, _IN_SESSION = _S.NFS4_OK, Position.IN_SESSION

RPC_REPLY_OCTETS: Final = 24
"""Octets of the RPC header before the result of COMPOUND, which the sizes of a session count."""


class MustWait(Exception):
    """Raised by an operation that would block in the event loop.

    Args:
        identity: the identity that the worker thread takes on for this operation; None: the server's own.
    """

    def __init__(self, identity: AbstractContextManager[Any] | None = None) -> None:
        super().__init__("the operation would block")
        self.step = MAY_BLOCK if identity is None else ActAs(identity)


class KeptReply(Exception):
    """Raised by SEQUENCE for a repeated COMPOUND: the reply that its slot has kept."""

    def __init__(self, reply: EncodedReply) -> None:
        super().__init__("the COMPOUND has run")
        self.reply = reply


class Parts(Protocol):
    """The parts of a server of version 4 that operations use."""

    @property
    def exports(self) -> PseudoRoot:
        """The exported trees, and the pseudo file system above them."""

    @property
    def lease_s(self) -> int:
        """Seconds of a lease."""

    @property
    def state(self) -> Any:
        """Clients, sessions, opens and locks."""

    def log_fault(self, name: str, error: Exception) -> None:
        """Logs the fault of an operation, which is then answered with SERVERFAULT."""


class Compound:
    """The state that the operations of one COMPOUND share.

    Attributes:
        server: the parts of the server.
        acting: the thread has taken on the identity that the operation has asked for by `wait`.
        context: the call; its memory for results.
        call: the decoded call.
        now_s: the time at which it has begun, in seconds of a monotonic clock.
        current, saved: the objects of the current and the saved filehandle; None if there is none.
        stateid, saved_stateid: the current and the saved stateid (RFC 8881 section 16.2.3.1.2).
        session, slot, client: set by SEQUENCE; None without it.
        reply_octets_max: the most octets of the reply, the RPC header included; set by SEQUENCE.
        too_big: the status of an operation whose result does not fit; set by SEQUENCE.
        encoded: the reply so far.
        position: the index of the operation that runs.
        room: octets that the session leaves for the result of this operation, besides its number and its status.
        partial: memory for a READ that goes on in a worker thread, and the octets read; None otherwise.
        uncached: SEQUENCE has found that the call has run and its reply is lost: no operation may run.
        on_end: is called once, with the reply in memory of its own if it is kept; set by SEQUENCE for a new request.
        keeps_reply: the slot keeps the reply.
        kept_octets_max: the most octets of a reply that the slot may keep; set by SEQUENCE.
    """

    __slots__ = (
        "acting", "call", "client", "context", "current", "encoded", "keeps_reply", "kept_octets_max", "now_s",
        "on_end", "partial", "position", "reply_octets_max", "room", "saved", "saved_stateid", "server", "session",
        "slot", "stateid", "too_big", "uncached",
    )  # fmt: skip

    def __init__(self, server: Parts, context: CallContext, call: CompoundCall, now_s: float) -> None:
        self.server = server
        self.context = context
        self.call = call
        self.now_s = now_s
        self.current: Node | None = None
        self.saved: Node | None = None
        self.stateid: stateid4 | None = None
        self.saved_stateid: stateid4 | None = None
        self.session: Any = None
        self.slot: Any = None
        self.client: Any = None
        self.reply_octets_max = RPC_RECORD_OCTETS_MAX
        self.too_big = _S.NFS4ERR_REP_TOO_BIG
        self.acting = False
        self.encoded = Encoder()
        self.position = 0
        self.room = RPC_RECORD_OCTETS_MAX
        self.partial: tuple[memoryview, int] | None = None
        self.uncached = False
        self.keeps_reply = False
        self.kept_octets_max = 0
        self.on_end: Callable[[EncodedReply | None], None] | None = None

    @property
    def at_once(self) -> bool:
        """Whether operations must not block: they run in the event loop."""
        return not self.context.may_block

    @property
    def caller(self) -> Credential:
        """The caller, for the trees."""
        return self.context.credential

    @property
    def next_operation(self) -> int | None:
        """The number of the operation after the one that runs; None if that is the last."""
        steps = self.call.steps[self.position + 1 : self.position + 2]
        return steps[0].operation.number if steps else None

    @property
    def request(self) -> Hashable:
        """A value that differs where the caller or the operations of two calls differ.

        It is short, since every slot keeps one.
        """
        call = self.call
        return hash((self.caller, call.count, call.kinds))

    @property
    def octets(self) -> int:
        """Octets of the call, the RPC header included."""
        return self.context.call_octets

    def left(self, item_octets: int = 0) -> int:
        """Octets that a result may have besides its number, its status and a bulk item of this length.

        Both the session and the memory that the client has offered over RDMA bound them; less than 0 if the item does
        not fit.
        """
        items = [len(item.data) for item in self.encoded.items]
        if item_octets:
            items.append(item_octets)
        offered = self.context.result_octets_max(items) - len(self.encoded.reduced) - 8
        return min(self.room - (item_octets + 3 & ~3), offered)

    @property
    def sequence_reply_octets(self) -> int:
        """Octets of a reply that has no more than the result of SEQUENCE."""
        return RPC_REPLY_OCTETS + 12 + (len(self.call.tag) + 3 & ~3) + 8 + 36

    @property
    def node(self) -> Node:
        """The object of the current filehandle, for operations that need one."""
        assert self.current is not None
        return self.current

    def file_of(self, node: Node) -> bytes:
        """The name of an object for claims."""
        return self.server.exports.file_of(node.handle)

    def set_current(self, node: Node) -> None:
        """Sets the current filehandle; the current stateid ends (RFC 8881 section 16.2.3.1.2)."""
        self.current, self.stateid = node, None

    def or_wait(self, found: T | None) -> T:
        """`found`, the result of a method with `at_once`.

        Raises:
            MustWait: it is None, and the operation is run again in a worker thread.
        """
        if found is None:
            raise MustWait
        return found

    def wait(self, identity: AbstractContextManager[Any] | None = None) -> None:
        """Continues in a worker thread, unless the operation runs in one: to be called before a call that blocks.

        Raises:
            MustWait: the operation is run again, in a worker thread.
        """
        if not self.context.may_block:
            raise MustWait(identity)


Handler: TypeAlias = Callable[[Compound, Any], Any]
"""An operation: (compound, arguments) to its result."""


class _Reply:
    """The reply of a COMPOUND, encoded result by result."""

    __slots__ = ("_before", "_count_at", "_enc", "count", "status")

    def __init__(self, tag: bytes, enc: Encoder) -> None:
        self._enc = enc
        enc.begun = []
        self.status = _S.NFS4_OK
        self.count = 0
        enc.reduced += b"\0\0\0\0"
        enc.opaque(tag, len(tag), "tag")
        self._count_at = len(enc.reduced)
        enc.reduced += b"\0\0\0\0"
        self._before = len(enc.reduced), 0, 0

    def add(self, operation: Operation, status: nfsstat4, value: Any, octets_max: int) -> bool:
        """Appends a result if the reply then has at most `octets_max`; returns whether it has."""
        enc = self._enc
        reduced, items = enc.reduced, enc.items
        self._before = len(reduced), len(items), enc.removed
        assert enc.begun is not None
        enc.begun.append(len(items))
        encode_operation_result(enc, operation, status, value)
        if len(reduced) + enc.removed > octets_max:
            self.take_back()
            return False
        self.status = status
        self.count += 1
        return True

    def take_back(self) -> None:
        """Drops a result that was begun and does not count."""
        enc = self._enc
        assert enc.begun is not None
        if len(enc.begun) > self.count:
            length, items, enc.removed = self._before
            del enc.reduced[length:], enc.items[items:], enc.begun[self.count :]

    def fail(self, operation: Operation, status: nfsstat4) -> None:
        """Appends a result without a value, whatever its size."""
        self.add(operation, status, None, RPC_RECORD_OCTETS_MAX)

    def ended(self) -> EncodedReply:
        """The whole reply."""
        reduced = self._enc.reduced
        reduced[:4] = int(self.status).to_bytes(4, "big")
        reduced[self._count_at : self._count_at + 4] = self.count.to_bytes(4, "big")
        return EncodedReply(self.status, self._enc)


def run(compound: Compound, handlers: Mapping[int, Handler]) -> Steps[EncodedReply]:
    """Runs the operations of a COMPOUND in order, up to the first that fails.

    A slot that SEQUENCE has taken is freed in any case. If the connection ends while the rest waits for a worker
    thread, the reply that is kept for the repeat says DELAY for the first operation that has not run; a reply that
    the slot has no room for is lost.

    Args:
        compound: the COMPOUND, of which nothing has run yet.
        handlers: the supported operations by number.
    """
    call = compound.call
    reply = _Reply(call.tag, compound.encoded)
    if call.minor_version not in MINOR_VERSIONS:
        reply.status = _S.NFS4ERR_MINOR_VERS_MISMATCH
        return reply.ended()
    if not call.tag.isascii() and not _is_text(call.tag):
        reply.status = _S.NFS4ERR_INVAL
        return reply.ended()
    enc, running, let_go = compound.encoded, None, False
    try:
        for position, step in enumerate(call.steps):
            running, args, fault = step
            compound.position = position
            compound.room = compound.reply_octets_max - RPC_REPLY_OCTETS - len(enc.reduced) - enc.removed - 8
            left: ActAs | None = None
            status, value = _OK, None
            try:
                if fault is not None or not position or running.place is not _IN_SESSION or compound.uncached:
                    _check_place(compound, position, step)
                if running.needs_handle and compound.current is None:
                    raise Refused(_S.NFS4ERR_NOFILEHANDLE)
                handler = handlers.get(running.number)
                if handler is None:
                    raise Refused(_S.NFS4ERR_NOTSUPP)
                if not running.idempotent and running.result_octets > compound.room:
                    raise Refused(compound.too_big)
                while True:
                    try:
                        value = handler(compound, args)
                        break
                    except MustWait as wait:
                        left = wait.step
                    yield left
                    compound.acting = left is not None
            except KeptReply as kept:
                return kept.reply
            except CredentialTooWeak:
                status = _S.NFS4ERR_WRONGSEC
            except REFUSALS as error:
                status, value = status_of(error), error.value if isinstance(error, Refused) else None
            if compound.acting:
                # The thread leaves the caller's identity.
                compound.acting = False
                yield MAY_BLOCK
            if not reply.add(running, status, value, compound.reply_octets_max - RPC_REPLY_OCTETS):
                reply.fail(running, compound.too_big)
            running = None
            if reply.status:
                break
    except GeneratorExit:
        let_go = True
        if running is not None:
            reply.fail(running, _S.NFS4ERR_DELAY)
        raise
    except Exception as error:  # noqa: BLE001 - the slot of the session must not stay busy
        compound.server.log_fault("COMPOUND" if running is None else running.name, error)
        if running is not None:
            # Of a result that cannot be encoded there may be a part.
            reply.take_back()
            reply.fail(running, _S.NFS4ERR_SERVERFAULT)
    finally:
        ended = reply.ended()
        if compound.on_end is not None:
            # A call that is let go was not checked to fit its slot.
            length = len(compound.encoded.reduced) + compound.encoded.removed
            keeps = compound.keeps_reply or (let_go and length <= compound.kept_octets_max)
            compound.on_end(EncodedReply(ended.status, detached(ended.payload)) if keeps else None)
    return ended


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_place(compound: Compound, position: int, step: CalledOperation) -> None:
    """Refuses an operation that may not stand at its place, or did not decode."""
    operation, _, fault = step
    place = operation.place
    if compound.uncached:
        raise Refused(_S.NFS4ERR_RETRY_UNCACHED_REP)
    if fault is not None and fault is not _S.NFS4ERR_BADXDR:
        raise Refused(fault)
    if position:
        if place is Position.FIRST:
            raise Refused(_S.NFS4ERR_SEQUENCE_POS)
        if place is Position.ALONE:
            raise Refused(_S.NFS4ERR_NOT_ONLY_OP)
    elif place is Position.IN_SESSION:
        raise Refused(_S.NFS4ERR_OP_NOT_IN_SESSION)
    elif place is not Position.FIRST and compound.call.count > 1:
        raise Refused(_S.NFS4ERR_NOT_ONLY_OP)
    if fault is not None:
        raise Refused(fault)
