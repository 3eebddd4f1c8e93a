"""A COMPOUND while it runs: the state that its operations share, and the run from the first to the last.

Each operation is a function `name(compound, args)` that returns the operation's result, or raises `Refused`,
`CredentialTooWeak` (NFS4ERR_WRONGSEC) or an error of a tree. An operation that would block in the event loop raises
`WorkerNeeded` before it has changed anything; the rest of the COMPOUND then runs in a worker thread, from this
operation on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from rpcrdma.limits import NFS4_COMPOUND_OPERATIONS_MAX, RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Node
from rpcrdma.nfs.v4.compounds import MINOR_VERSIONS, CompoundCall, EncodedReply, Shape, encode_operation_result
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4, nfsstat4, stateid4
from rpcrdma.nfs.v4.operations import Operation, Position
from rpcrdma.nfs.v4.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v4.server.client_identity import principal_of
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS
from rpcrdma.rpc.service import MAY_BLOCK, ActAs, CallContext, CredentialTooWeak, Steps, WorkerNeeded
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import BulkItem, Encoder, padded_octets

__all__ = ["Compound", "Handler", "KeptReply", "Parts", "Placeable", "run"]

T = TypeVar("T")
_S = nfsstat4
_OK, _TOO_BIG = _S.NFS4_OK, _S.NFS4ERR_REP_TOO_BIG
_HEAD: Final = bytes(REPLY_HEADER_OCTETS + 12)
"""Room for the header of the RPC reply, the status, and the number of results behind an empty tag."""
_U32: Final = struct.Struct(">I")
_BEGINNING: Final = struct.Struct(">3I")
"""The status, the length of an empty tag, and the number of results."""
_NO_ITEMS: Final = [[0] * (at + 1) for at in (*range(NFS4_COMPOUND_OPERATIONS_MAX), -1)]
"""`EncodedReply.begun` of replies without items, by the index of the last operation, which is -1 without any."""


class KeptReply(Exception):
    """Raised by SEQUENCE for a repeated COMPOUND: `reply`, which the slot has kept, answers it."""

    def __init__(self, reply: EncodedReply) -> None:
        super().__init__("the COMPOUND has run")
        self.reply = reply


class Parts(Protocol):
    """The parts of a server of version 4 that operations use; `Nfs4Service` implements it."""

    @property
    def exports(self) -> PseudoRoot:
        """The exported trees, and the pseudo file system above them."""

    @property
    def lease_s(self) -> int:
        """The lease in seconds."""

    @property
    def state(self) -> Any:
        """The `State` of the server: clients, sessions, opens and locks."""

    def log_fault(self, name: str, error: Exception) -> None:
        """Logs the unexpected exception of the operation `name`, which is answered with NFS4ERR_SERVERFAULT."""


class Compound:
    """The state that the operations of one running COMPOUND share.

    Attributes:
        server: the parts of the server.
        acting: whether the thread has the identity that the running operation has passed to the method `wait`.
        context: the RPC call, which lends memory for results.
        call: the decoded arguments of COMPOUND.
        now_s: the time at which the COMPOUND has begun, in seconds of a monotonic clock.
        current, saved: the objects of the current and the saved filehandle; None if there is none.
        caller, saved_caller: the rights of the caller in their exports; unset as long as there is no object.
        stateid, saved_stateid: the current and the saved stateid (RFC 8881 section 16.2.3.1.2); None if there is none.
        session, client: set by SEQUENCE; None without it.
        reply_octets_max: the most octets of the reply, the RPC header included; set by SEQUENCE.
        too_big: the status of an operation whose result does not fit; set by SEQUENCE.
        encoded: the reply so far.
        copied: the octets that the COPYs before have copied.
        position: the index of the operation that runs.
        partial: memory for a READ that continues in a worker thread, and the octets read; None otherwise.
        uncached: whether SEQUENCE has found that the call has run and its reply is lost: no operation may run.
        on_end: is called once at the end with a copy of the reply for the slot, or None if the slot keeps none, and
            with `request` if it keeps one that the client may not have asked for, else None; set by SEQUENCE for a new
            request.
        keeps_reply: whether the client has asked the slot to keep the reply.
    """

    __slots__ = (
        "acting", "call", "caller", "client", "context", "copied", "current", "encoded", "keeps_reply", "now_s",
        "on_end", "partial", "position", "reply_octets_max", "saved", "saved_caller", "saved_stateid", "server",
        "session", "stateid", "too_big", "uncached",
    )  # fmt: skip

    def __init__(self, server: Parts, context: CallContext, call: CompoundCall, now_s: float) -> None:
        self.server = server
        self.context = context
        self.call = call
        self.now_s = now_s
        self.encoded = EncodedReply(_HEAD)
        self.current: Node | None = None
        self.saved: Node | None = None
        self.caller: Grant
        self.saved_caller: Grant
        self.stateid: stateid4 | None = None
        self.saved_stateid: stateid4 | None = None
        self.session: Any = None
        self.client: Any = None
        self.reply_octets_max = RPC_RECORD_OCTETS_MAX
        self.too_big = _TOO_BIG
        self.copied = 0
        self.position = 0
        self.acting = False
        self.partial: tuple[memoryview, int] | None = None
        self.uncached = False
        self.keeps_reply = False
        self.on_end: Callable[[EncodedReply | None, int | None], None] | None = None

    @property
    def at_once(self) -> bool:
        """Whether operations must not block, since they run in the event loop."""
        return not self.context.may_block

    @property
    def credential(self) -> Credential:
        """The credential of the RPC call."""
        return self.context.credential

    @property
    def next_operation(self) -> int | None:
        """The operation number (nfs_opnum4) of the operation after the running one; None if that is the last."""
        following = self.call.shape.kinds[self.position + 1 :]
        return following[0] if following else None

    @property
    def room(self) -> int:
        """The octets that the session's reply limit leaves for the body of the running operation's result.

        An operation that must not run twice is refused if its result may be longer. For results that may be cut, such
        as that of READDIR, `left` is the bound.
        """
        return self.reply_octets_max - len(self.encoded.reduced) - self.encoded.removed - 8

    @property
    def request(self) -> int:
        """A hash of the principal and the operation numbers of the call, by which `Slot.take` finds false retries.

        The arguments of the operations have no part in the hash, nor has the rest of the credential, such as its stamp,
        which a client may make anew for a repeat. A hash is short: every slot keeps one.
        """
        call = self.call
        return hash((principal_of(self.context.credential), call.shape.count, call.shape.kinds))

    def left(self, item_octets: int = 0) -> int:
        """Returns the octets that the body of the running operation's result may have besides its DDP-eligible item.

        The item has `item_octets` octets without padding; 0: there is no item. The bounds are the session's limit and
        the memory that the client has offered over RDMA. The result is less than 0 if the item does not fit.
        """
        enc = self.encoded
        items = [len(item.data) for item in enc.items] if enc.items else []
        if item_octets:
            items.append(item_octets)
        offered = self.context.result_octets_max(items) - len(enc.reduced) - 8 + REPLY_HEADER_OCTETS
        return min(self.room - (item_octets + 3 & ~3), offered)

    @property
    def node(self) -> Node:
        """The object of the current filehandle, for operations that need one; AssertionError without one."""
        assert self.current is not None
        return self.current

    def file_of(self, node: Node) -> bytes:
        """Returns the key of an object in `Claims`, the table of opens and locks, the same for all its filehandles."""
        return self.server.exports.file_of(node.handle)

    def set_current(self, node: Node) -> None:
        """Makes `node` the current object, unsets the current stateid, and keeps `caller`, the rights of the caller."""
        self.current, self.stateid = node, None

    def or_wait(self, found: T | None) -> T:
        """Returns `found`, the result of a call that must not block; raises WorkerNeeded for None: it would block."""
        if found is None:
            raise WorkerNeeded
        return found

    def wait(self, identity: AbstractContextManager[Any] | None = None) -> None:
        """Raises WorkerNeeded if the operation runs in the event loop, so that it runs again in a worker thread.

        To be called before a call that may block; no effect in a worker thread, whose identity stays: `acting` says
        whether it is `identity`.

        Args:
            identity: the identity that the worker thread takes on for this operation; None: the server's own.
        """
        if not self.context.may_block:
            raise WorkerNeeded(MAY_BLOCK if identity is None else ActAs(identity))


_Encode: TypeAlias = Callable[[Encoder, Any], None]
Handler: TypeAlias = Callable[[Compound, Any], Any]
"""The function of an operation: takes the COMPOUND and the decoded arguments; returns the body of the result, a value
for the encoder, encoded octets, or a `Placeable`."""


class Placeable(NamedTuple):
    """An encoded body of a result that ends with a DDP-eligible item: the octets before its data, and the data."""

    octets: bytes
    data: Buffer


def run(compound: Compound, handlers: Mapping[int, Handler]) -> Steps[EncodedReply]:
    """Runs the operations of a COMPOUND in order, up to the first that fails, as a generator of steps.

    None runs if the tag is not UTF-8 (NFS4ERR_INVAL) or the minor version not served (NFS4ERR_MINOR_VERS_MISMATCH). An
    operation that has run and whose result does not fit the session's limit is answered with `Compound.too_big`. A slot
    that SEQUENCE has taken is freed in any case. An unexpected exception of an operation is logged, and the operation
    is answered with NFS4ERR_SERVERFAULT. If the generator is closed while it waits for a worker thread, as at the end
    of the connection, the reply that the slot keeps has NFS4ERR_DELAY for the first operation that has not run; a reply
    that the slot has no room for is lost.

    Args:
        compound: the COMPOUND, of which nothing has run yet.
        handlers: the functions of the supported operations, by number.

    Yields:
        The step before an operation that may block: `ActAs` with the identity that the worker thread takes on, or
            `MAY_BLOCK` for that of the server, to which the thread also returns after the operation.

    Returns:
        The reply, or the reply to an earlier transmission that the slot has kept.
    """
    call, enc = compound.call, compound.encoded
    reduced, shape, tag = enc.reduced, call.shape, call.tag
    plan = shape.plan
    if plan is None or plan.handlers is not handlers:
        plan = shape.plan = _Plan(shape, handlers)
    rows, at, operation, let_go, status = plan.rows, -1, None, False, _OK
    if tag:
        del reduced[-8:]
        enc.opaque(tag, len(tag), "tag")
        reduced += bytes(4)
        if not _is_text(tag):
            status, rows = _S.NFS4ERR_INVAL, ()
    if call.minor_version not in MINOR_VERSIONS:
        status, rows = _S.NFS4ERR_MINOR_VERS_MISMATCH, ()
    begins = length = len(reduced)
    try:
        for (at, operation, rules, handler, success, encode), args in zip(rows, call.args, strict=False):
            compound.position = at
            acting = False
            try:
                if rules is not None or compound.uncached:
                    _check(compound, rules)
                while True:
                    try:
                        value = handler(compound, args)
                        break
                    except WorkerNeeded as wait:
                        left = wait.step
                    yield left
                    compound.acting = acting = left is not None
            except KeptReply as repeat:
                return repeat.reply
            except CredentialTooWeak:
                status, value = _S.NFS4ERR_WRONGSEC, None
            except REFUSALS as error:
                status, value = status_of(error), error.value if isinstance(error, Refused) else None
            if acting:
                # The thread leaves the caller's identity.
                compound.acting = False
                yield MAY_BLOCK
            if status:
                encode_operation_result(enc, operation, status, value)
            else:
                reduced += success
                if value.__class__ is bytes:
                    reduced += value
                elif encode is not None:
                    _encode_value(enc, at, encode, value)
            ends = len(reduced)
            if ends + enc.removed > compound.reply_octets_max:
                status = compound.too_big
                _encode_again(enc, at, operation, status, length)
            if status:
                break
            length = ends
    except GeneratorExit:
        let_go = True
        if operation is not None:
            status = _S.NFS4ERR_DELAY
            _encode_again(enc, at, operation, status, length)
        raise
    except Exception as error:  # noqa: BLE001 - the slot of the session must not stay busy
        compound.server.log_fault("COMPOUND" if operation is None else operation.name, error)
        if operation is not None:
            # Of a result that cannot be encoded there may be a part.
            status = _S.NFS4ERR_SERVERFAULT
            _encode_again(enc, at, operation, status, length)
    finally:
        enc.status = status
        if tag:
            _U32.pack_into(reduced, REPLY_HEADER_OCTETS, status)
            _U32.pack_into(reduced, begins - 4, at + 1)
        else:
            _BEGINNING.pack_into(reduced, REPLY_HEADER_OCTETS, status, 0, at + 1)
        if enc.items:
            _note_items(enc, at)
        else:
            enc.begun = _NO_ITEMS[at]
        if compound.on_end is not None:
            keeps, request = compound.keeps_reply, None
            # Unless asked for, it was not checked to fit its slot.
            if let_go and len(reduced) + enc.removed <= compound.session.reply_limits[True][0]:
                keeps, request = True, compound.request
            kept = enc.to_keep() if keeps else None
            compound.on_end(kept, request)
    return enc


class _Rules(NamedTuple):
    """The conditions of an operation at its place in a `Shape`.

    Attributes:
        refusal: the status with which it is refused where it stands; None if it may run.
        needs_handle: whether it needs a current filehandle, which no operation before it has surely set.
        octets: the octets for which the reply must have room before it runs.
    """

    refusal: nfsstat4 | None
    needs_handle: bool
    octets: int


class _Plan:
    """The operations of a `Shape` (the sequence of a COMPOUND) with their handlers, which a server makes once.

    `handlers` are those of all operations by number. `rows` has for each operation of the sequence its index, the
    operation, its `_Rules` (None: no conditions), its handler, the octets with which a success begins (operation number
    and NFS4_OK), and the function that encodes the body of its result (None: void).
    """

    __slots__ = ("handlers", "rows")

    def __init__(self, shape: Shape, handlers: Mapping[int, Handler]) -> None:
        self.handlers = handlers
        self.rows: list[tuple[int, Operation, _Rules | None, Handler, bytes, _Encode | None]] = []
        has_handle = False
        for at, (operation, refusal) in enumerate(zip(shape.operations, shape.refusals, strict=True)):
            number = operation.number
            # SEQUENCE checks itself: it sets the room.
            free = operation.idempotent or operation.place is Position.FIRST
            needs_handle = operation.needs_handle and not has_handle
            rules = _Rules(refusal, needs_handle, 0 if free else operation.result_octets)
            handler = handlers.get(number, _not_supported)
            checked = rules if any(rules) else None
            self.rows.append((at, operation, checked, handler, operation.success, operation.encode_resok))
            has_handle = number in _SET_HANDLE or (has_handle and number not in _DROP_HANDLE)


_SET_HANDLE: Final = {nfs_opnum4.OP_PUTFH, nfs_opnum4.OP_PUTPUBFH, nfs_opnum4.OP_PUTROOTFH}
_DROP_HANDLE: Final = {nfs_opnum4.OP_SECINFO, nfs_opnum4.OP_SECINFO_NO_NAME}


def _check(compound: Compound, rules: _Rules | None) -> None:
    """Raises Refused if an operation's rules (None: it has none) forbid it to run, or `compound.uncached` is set.

    The status is the first of these that applies: NFS4ERR_RETRY_UNCACHED_REP with `compound.uncached`; `rules.refusal`
    unless None; NFS4ERR_NOFILEHANDLE if a current filehandle is needed and missing; `compound.too_big` if the reply has
    no room for `rules.octets`.
    """
    if compound.uncached:
        raise Refused(_S.NFS4ERR_RETRY_UNCACHED_REP)
    if rules is None:
        return
    if rules.refusal is not None:
        raise Refused(rules.refusal)
    if rules.needs_handle and compound.current is None:
        raise Refused(_S.NFS4ERR_NOFILEHANDLE)
    if rules.octets > compound.room:
        raise Refused(compound.too_big)


def _not_supported(_compound: Compound, _args: Any) -> Any:
    """Raises Refused (NFS4ERR_NOTSUPP): the handler of operations that have no other."""
    raise Refused(_S.NFS4ERR_NOTSUPP)


def _encode_value(enc: EncodedReply, at: int, encode: _Encode, value: Any) -> None:
    """Appends the body of the result with index `at`: a `Placeable` as it is, any other `value` by `encode`.

    The data of a `Placeable` are not copied, but added to `enc.items` as a DDP-eligible item.
    """
    _note_items(enc, at)
    if value.__class__ is not Placeable:
        encode(enc, value)
        return
    octets, data = value
    reduced, removed = enc.reduced, enc.removed
    reduced += octets
    enc.items.append(BulkItem(len(reduced), len(reduced) + removed, data))
    enc.removed = removed + (len(data) + 3 & ~3)


def _note_items(enc: EncodedReply, at: int) -> None:
    """Extends `enc.begun`, the number of DDP-eligible items before each result, up to the result with index `at`."""
    assert enc.begun is not None
    enc.begun.extend([len(enc.items)] * (at + 1 - len(enc.begun)))


def _encode_again(enc: EncodedReply, at: int, operation: Operation, status: nfsstat4, length: int) -> None:
    """Makes the result with index `at` one with `status` alone (SETATTR: and an empty bitmap) in place of what it was.

    It is the last result of `enc`, and `length` is the offset in `enc.reduced` at which it begins.
    """
    _note_items(enc, at)
    assert enc.begun is not None
    del enc.reduced[length:], enc.items[enc.begun[at] :]
    enc.removed = padded_octets(len(item.data) for item in enc.items)
    encode_operation_result(enc, operation, status, None)


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
