"""A COMPOUND while it runs: the state that its operations share, and the run from the first to the last.

Each operation is a function `name(compound, args)` that returns the operation's result, or raises `Refused` or an error
of a tree. An operation that would block in the event loop raises `MustWait` before it has changed anything; the rest of
the COMPOUND then runs in a worker thread, from this operation on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from rpcrdma.limits import RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.export.tree import Node
from rpcrdma.nfs.v4.compounds import MINOR_VERSIONS, CompoundCall, EncodedReply, encode_operation_result
from rpcrdma.nfs.v4.nfs4 import nfsstat4, stateid4
from rpcrdma.nfs.v4.operations import Operation
from rpcrdma.nfs.v4.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS
from rpcrdma.rpc.service import MAY_BLOCK, ActAs, CallContext, CredentialTooWeak, Steps
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import BulkItem, Encoder, padding

__all__ = ["Compound", "Handler", "KeptReply", "MustWait", "Parts", "Placeable", "run"]

T = TypeVar("T")
_S = nfsstat4
_OK = _S.NFS4_OK
_HEAD: Final = bytes(REPLY_HEADER_OCTETS + 4)
"""Room for the header of the RPC reply and for the status."""
_PADDING: Final = tuple(bytes(padding(length)) for length in range(4))
_U32: Final = struct.Struct(">I")


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
        session, client: set by SEQUENCE; None without it.
        reply_octets_max: the most octets of the reply, the RPC header included; set by SEQUENCE.
        too_big: the status of an operation whose result does not fit; set by SEQUENCE.
        encoded: the reply so far.
        position: the index of the operation that runs.
        room: octets that the session leaves for the result of this operation, besides its number and its status.
        partial: memory for a READ that goes on in a worker thread, and the octets read; None otherwise.
        uncached: SEQUENCE has found that the call has run and its reply is lost: no operation may run.
        on_end: is called once, under the lock of the state, with the reply in memory of its own if it is kept; set by
            SEQUENCE for a new request.
        keeps_reply: the slot keeps the reply.
        kept_octets_max: the most octets of a reply that the slot may keep; set by SEQUENCE.
    """

    # Values that few COMPOUNDs change are those of the class.
    current: Node | None = None
    saved: Node | None = None
    stateid: stateid4 | None = None
    saved_stateid: stateid4 | None = None
    session: Any = None
    client: Any = None
    reply_octets_max = RPC_RECORD_OCTETS_MAX
    too_big = _S.NFS4ERR_REP_TOO_BIG
    acting = False
    position = 0
    room = RPC_RECORD_OCTETS_MAX
    partial: tuple[memoryview, int] | None = None
    uncached = False
    keeps_reply = False
    kept_octets_max = 0
    on_end: Callable[[EncodedReply | None], None] | None = None

    def __init__(self, server: Parts, context: CallContext, call: CompoundCall, now_s: float) -> None:
        self.server = server
        self.context = context
        self.call = call
        self.now_s = now_s
        self.encoded = EncodedReply(_HEAD)

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
    def request(self) -> int:
        """A value that differs where the caller or the operations of two calls differ.

        It is short, since every slot keeps one.
        """
        call = self.call
        return hash((self.context.credential, call.count, call.shape.kinds))

    def left(self, item_octets: int = 0) -> int:
        """Octets that a result may have besides its number, its status and a bulk item of this length.

        Both the session and the memory that the client has offered over RDMA bound them; less than 0 if the item does
        not fit.
        """
        items = [len(item.data) for item in self.encoded.items]
        if item_octets:
            items.append(item_octets)
        offered = self.context.result_octets_max(items) - len(self.encoded.reduced) + REPLY_HEADER_OCTETS - 8
        return min(self.room - (item_octets + 3 & ~3), offered)

    @property
    def node(self) -> Node:
        """The object of the current filehandle, for operations that need one."""
        assert self.current is not None
        return self.current

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
"""An operation: (compound, arguments) to its result, which may be encoded: octets, or a `Placeable`."""


class Placeable(NamedTuple):
    """An encoded result that ends with a DDP-eligible item: the octets before the item's data, and the data."""

    octets: bytes
    data: Buffer


def run(compound: Compound, handlers: Mapping[int, Handler]) -> Steps[EncodedReply]:
    """Runs the operations of a COMPOUND in order, up to the first that fails.

    A slot that SEQUENCE has taken is freed in any case. If the connection ends while the rest waits for a worker
    thread, the reply that is kept for the repeat says DELAY for the first operation that has not run; a reply that
    the slot has no room for is lost.

    Args:
        compound: the COMPOUND, of which nothing has run yet.
        handlers: the supported operations by number.
    """
    call, enc = compound.call, compound.encoded
    reduced, items, begun = enc.reduced, enc.items, enc.begun
    assert begun is not None
    tag = call.tag
    reduced += len(tag).to_bytes(4, "big") + tag + _PADDING[len(tag) & 3]
    count_at = len(reduced)
    reduced += b"\0\0\0\0"
    if call.minor_version not in MINOR_VERSIONS:
        return _ended(enc, count_at, _S.NFS4ERR_MINOR_VERS_MISMATCH)
    if not tag.isascii() and not _is_text(tag):
        return _ended(enc, count_at, _S.NFS4ERR_INVAL)
    running: Operation | None = None
    let_go, status, length, removed = False, _OK, 0, 0
    try:
        for (operation, args, _), refusal in zip(call.steps, call.shape.refusals, strict=True):
            length, removed = len(reduced), enc.removed
            compound.room = room = compound.reply_octets_max - length - removed - 8
            running, value = operation, None
            begun.append(len(items))
            try:
                if compound.uncached:
                    raise Refused(_S.NFS4ERR_RETRY_UNCACHED_REP)
                if refusal is not None:
                    raise Refused(refusal)
                if operation.needs_handle and compound.current is None:
                    raise Refused(_S.NFS4ERR_NOFILEHANDLE)
                handler = handlers.get(operation.number)
                if handler is None:
                    raise Refused(_S.NFS4ERR_NOTSUPP)
                if operation.result_octets > room and not operation.idempotent:
                    raise Refused(compound.too_big)
                while True:
                    try:
                        value = handler(compound, args)
                        break
                    except MustWait as wait:
                        left = wait.step
                    yield left
                    compound.acting = left is not None
            except KeptReply as repeat:
                return repeat.reply
            except CredentialTooWeak:
                status = _S.NFS4ERR_WRONGSEC
            except REFUSALS as error:
                status, value = status_of(error), error.value if isinstance(error, Refused) else None
            if compound.acting:
                # The thread leaves the caller's identity.
                compound.acting = False
                yield MAY_BLOCK
            if status:
                encode_operation_result(enc, operation, status, value)
            else:
                reduced += operation.success
                if type(value) is bytes:
                    reduced += value
                elif operation.encode_resok is not None:
                    _encode_value(enc, operation.encode_resok, value)
            if len(reduced) + enc.removed > compound.reply_octets_max:
                status = compound.too_big
                _encode_again(enc, operation, status, length, removed)
            if status:
                break
            compound.position += 1
            running = None
    except GeneratorExit:
        let_go = True
        if running is not None:
            status = _S.NFS4ERR_DELAY
            _encode_again(enc, running, status, length, removed)
        raise
    except Exception as error:  # noqa: BLE001 - the slot of the session must not stay busy
        compound.server.log_fault("COMPOUND" if running is None else running.name, error)
        if running is not None:
            # Of a result that cannot be encoded there may be a part.
            status = _S.NFS4ERR_SERVERFAULT
            _encode_again(enc, running, status, length, removed)
    finally:
        ended = _ended(enc, count_at, status)
        if compound.on_end is not None:
            # A call that is let go was not checked to fit its slot.
            keeps = compound.keeps_reply or (let_go and len(reduced) + enc.removed <= compound.kept_octets_max)
            kept = ended.to_keep() if keeps else None
            with compound.server.state.lock:
                compound.on_end(kept)
    return ended


def _encode_value(enc: EncodedReply, encode_resok: Callable[[Encoder, Any], None], value: Any) -> None:
    """Appends the value of a result."""
    if type(value) is Placeable:
        enc.reduced += value.octets
        at, removed, data = len(enc.reduced), enc.removed, value.data
        enc.items.append(BulkItem(at, at + removed, data))
        enc.removed = removed + (len(data) + 3 & ~3)
    else:
        encode_resok(enc, value)


def _encode_again(enc: EncodedReply, operation: Operation, status: nfsstat4, length: int, removed: int) -> None:
    """Replaces the last result, which began at `length`, by one without a value, whatever its size."""
    assert enc.begun is not None
    del enc.reduced[length:], enc.items[enc.begun[-1] :]
    enc.removed = removed
    encode_operation_result(enc, operation, status, None)


def _ended(enc: EncodedReply, count_at: int, status: nfsstat4) -> EncodedReply:
    """The whole reply."""
    assert enc.begun is not None
    enc.status = status
    _U32.pack_into(enc.reduced, REPLY_HEADER_OCTETS, status)
    _U32.pack_into(enc.reduced, count_at, len(enc.begun))
    return enc


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
