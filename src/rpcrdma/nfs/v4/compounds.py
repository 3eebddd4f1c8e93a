"""The procedure COMPOUND (RFC 8881 section 16.2): its arguments and results are encoded operation by operation.

A server has to run the operations before one that it does not know, or whose arguments do not decode, and to answer
that one in its place. The arguments of a call are therefore a list that ends with the first such operation, and has its
status.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.limits import (
    NFS4_CALL_NAME_OCTETS_MAX,
    NFS4_COMPOUND_OPERATIONS_MAX,
    NFS4_KINDS_OF_CALLS_MAX,
    RPC_RECORD_OCTETS_MAX,
)
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.call_layouts import CallLayouts
from rpcrdma.nfs.v4.nfs4 import NFS4_OPAQUE_LIMIT, nfsstat4
from rpcrdma.nfs.v4.operations import ILLEGAL, OPERATIONS, Operation, Position
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import BulkItem, Decoder, Encoder, PlacedByPosition

__all__ = [
    "COMPOUND",
    "MINOR_VERSIONS",
    "CompoundCall",
    "CompoundReply",
    "EncodedReply",
    "Result",
    "Shape",
    "decode_call",
    "decode_compound_reply",
    "decode_operation_result",
    "encode_call",
    "encode_compound_reply",
    "encode_operation_result",
    "name_of",
]

MINOR_VERSIONS: Final = tuple(OPERATIONS)
"""The minor versions that are served."""

_S = nfsstat4
_OK = _S.NFS4_OK
_NEWEST = OPERATIONS[MINOR_VERSIONS[-1]]
_TWO, _WORD = struct.Struct(">2I"), struct.Struct(">I")
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""
_SEQUENCE = int(nfs4.nfs_opnum4.OP_SEQUENCE)
_MOST: Final = RPC_RECORD_OCTETS_MAX
"""The octets of the longest reply of a session: a server reserves no memory for more, however many READs a call has."""


class CompoundCall(NamedTuple):
    """The arguments of COMPOUND.

    Attributes:
        tag: the tag, which the reply repeats.
        minor_version: the minor version.
        shape: the operations, up to and including the first that cannot be run.
        args: the arguments of each of these; None for an operation without arguments or that does not decode.
        items: the largest length that each DDP-eligible result may have, in octets, in the order of the operations; in
            a decoded call all together no more than one reply may have.
    """

    tag: bytes
    minor_version: int
    shape: Shape
    args: Sequence[Any]
    items: Sequence[int] = ()

    @classmethod
    def of(cls, operations: Iterable[tuple[int, Any]], *, minor_version: int = 2, tag: bytes = b"") -> CompoundCall:
        """Makes a call of operations, each given as (its number in `nfs_opnum4`, its arguments or None for void).

        The minor version is 1 or 2, and the operations are supported ones; neither is checked. `encode_call` refuses a
        tag of more than 1024 octets.
        """
        steps = list(operations)
        shape, args = Shape([number for number, _ in steps], len(steps)), [args for _, args in steps]
        return cls(tag, minor_version, shape, args, _items(shape, args))


class Shape:
    """The sequence of operations of a COMPOUND, with the properties that depend on it alone.

    Calls of one sequence that decode without a fault share a cached shape.

    Attributes:
        kinds: the numbers of the operations, up to and including the first that cannot be run.
        count: the number of operations that the call has announced.
        fault: the status of the last operation in `kinds` if that cannot be run; else None.
        operations: the codecs and rules of each operation.
        refusals: for each operation the status that refuses it at its place in the call; None if it may run.
        bulk: the indices of the operations that have a DDP-eligible result.
        plan: a cache of the server that runs calls of this shape; None until the first of them runs.
    """

    plan: Any = None

    def __init__(self, kinds: Sequence[int], count: int, fault: nfsstat4 | None = None) -> None:
        self.kinds = tuple(kinds)
        self.count = count
        self.fault = fault
        self.operations = [_NEWEST.get(number, ILLEGAL) for number in kinds]
        last = len(kinds) - 1
        self.refusals = [
            _refusal(operation, at, count, fault if at == last else None)
            for at, operation in enumerate(self.operations)
        ]
        runs = self.operations if fault is None else self.operations[:-1]
        self.bulk = [at for at, operation in enumerate(runs) if operation.item_octets is not None]

    @functools.cached_property
    def procedure(self) -> Procedure[CompoundCall, Any]:
        """The procedure COMPOUND under a name such as "OPEN+READ+CLOSE", by which statistics and logs count such calls.

        After `NFS4_KINDS_OF_CALLS_MAX` names in this process, a new name has its first part alone, "OPEN+...": calls
        stay countable by their first operation, also when a client has used up the names.
        """
        name = name_of(self.operations)
        if name not in _NAMED and len(_NAMED) >= NFS4_KINDS_OF_CALLS_MAX:
            first, more, _ = name.partition("+")
            name = f"{first}+..." if more else first
        found = _NAMED.get(name)
        if found is None:
            found = _NAMED[name] = dataclasses.replace(COMPOUND, name=name)
        return found


def _refusal(operation: Operation, at: int, count: int, fault: nfsstat4 | None) -> nfsstat4 | None:
    """Returns the status that refuses `operation`, the one at index `at` of a call of `count` operations, or None.

    `fault` is the status of an operation that is unknown, not supported or does not decode; None for others. It is
    returned, except that NFS4ERR_BADXDR gives way to the status for an operation that may not stand at this place.
    """
    place = operation.place
    if fault is not None and fault is not _S.NFS4ERR_BADXDR:
        return fault
    if at:
        if place is Position.FIRST:
            return _S.NFS4ERR_SEQUENCE_POS
        if place is Position.ALONE:
            return _S.NFS4ERR_NOT_ONLY_OP
    elif place is Position.IN_SESSION:
        return _S.NFS4ERR_OP_NOT_IN_SESSION
    elif place is not Position.FIRST and count > 1:
        return _S.NFS4ERR_NOT_ONLY_OP
    return fault


class Result(NamedTuple):
    """The decoded result of one operation; `value` is the body, None if the result has a status alone."""

    operation: Operation
    status: nfsstat4
    value: Any


@dataclass(slots=True, eq=False)
class CompoundReply:
    """The result of COMPOUND, as a client decodes it: the status of the last operation, the tag, and all results."""

    status: nfsstat4
    tag: bytes
    results: list[Result]


class EncodedReply(Encoder):
    """The result of COMPOUND, as a server encodes it behind room for the header of the RPC reply.

    Args:
        head: the octets to begin with, which include this room of `REPLY_HEADER_OCTETS`.

    Attributes:
        status: the status of the COMPOUND.
        kept: whether it is a copy for the slot of the session, which may be sent more than once.
    """

    __slots__ = ("kept", "status")

    def __init__(self, head: bytes | bytearray = bytes(REPLY_HEADER_OCTETS)) -> None:
        self.reduced = bytearray(head)
        self.items = []
        self.begun = []
        self.removed = 0
        self.status = _OK
        self.kept = False

    def to_keep(self) -> EncodedReply:
        """Returns a copy with `kept` True, which owns the memory of its octets and of the DDP-eligible items."""
        copy = EncodedReply(self.reduced)
        copy.items = [BulkItem(item.at, item.position, bytes(item.data)) for item in self.items]
        copy.begun, copy.removed, copy.status, copy.kept = self.begun, self.removed, self.status, True
        return copy


def name_of(operations: Sequence[Operation]) -> str:
    """Returns the names of operations, joined as in "OPEN+READ+CLOSE"; "empty" if there are none.

    SEQUENCE and operations that only set or save a filehandle are left out, except the last if there is no other. The
    name ends with "+..." where it would be longer than `NFS4_CALL_NAME_OCTETS_MAX`.
    """
    names = [operation.name for operation in operations]
    telling = [name for name in names if name not in _SILENT]
    name = "+".join(telling or names[-1:]) or "empty"
    if len(name) <= NFS4_CALL_NAME_OCTETS_MAX:
        return name
    return name[: name.rindex("+", 0, NFS4_CALL_NAME_OCTETS_MAX - 3)] + "+..."


_SILENT: Final = frozenset({"SEQUENCE", "PUTFH", "PUTROOTFH", "PUTPUBFH", "SAVEFH", "RESTOREFH"})


def decode_call(dec: Decoder) -> CompoundCall:
    """Decodes COMPOUND4args up to and including the first operation that cannot be run.

    An operation cannot be run if it is unknown, not supported, or does not decode: `shape.fault` of the result is then
    the status that answers it. At most `NFS4_COMPOUND_OPERATIONS_MAX` operations are decoded, and none of a minor
    version that is not served: `shape.kinds` has then fewer numbers than `shape.count`; that sets no fault. The
    decoder moves to the end of the last operation; after a fault, or if operations are left over, to its own end, and
    drops their Read chunks. Raises DecodeError (the octets end before the first operation, or the tag is too long) or
    ReducedIneligibleItem (an argument that must stay in the stream came in a Read chunk).
    """
    data, start, end, at = dec.data, dec.start, dec.end, dec.pos
    length = end - at
    layout = _LAYOUTS.find(length)
    if layout is not None and dec.placed is None:
        usual = layout.args_of(dec)
        if usual is not None:
            shape = layout.shape
            return _tuple(
                CompoundCall,
                (b"", layout.minor_version, shape, usual, _items(shape, usual, _MOST) if shape.bulk else ()),
            )
    tag = dec.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4args.tag")
    minor_version, count = dec.take(_TWO, "COMPOUND4args.minorversion..argarray")
    operations = OPERATIONS.get(minor_version)
    args: list[Any] = []
    kinds: list[int] = []
    if operations is None:
        _drop_rest(dec)
        return CompoundCall(tag, minor_version, Shape(kinds, count), args)
    begun = dec.begun = []
    fault = None
    try:
        for _ in range(min(count, NFS4_COMPOUND_OPERATIONS_MAX)):
            at = dec.pos
            begun.append(at - start + dec.removed)
            operation = operations.get(_WORD.unpack_from(data, at)[0], ILLEGAL) if at + 4 <= end else ILLEGAL
            kinds.append(operation.number)
            decode = operation.decode_args
            if decode is None:
                args.append(None)
                fault = _S.NFS4ERR_NOTSUPP
                if operation is ILLEGAL:
                    fault = _S.NFS4ERR_OP_ILLEGAL if at + 4 <= end else _S.NFS4ERR_BADXDR
                break
            dec.pos = at + 4
            args.append(decode(dec))
    except DecodeError:
        args.append(None)
        fault = _S.NFS4ERR_BADXDR
    if fault is None and count == len(kinds):
        shape = _shape_of(tuple(kinds))
        if kinds and kinds[0] == _SEQUENCE and not tag and dec.placed is None and not dec.removed and dec.pos == end:
            _LAYOUTS.note(length, minor_version, shape, args)
        return _tuple(CompoundCall, (tag, minor_version, shape, args, _items(shape, args, _MOST) if shape.bulk else ()))
    if fault is not None and isinstance(dec.placed, PlacedByPosition):
        # Where an item that must stay in the stream came in a Read chunk, the transport answers.
        dec.placed.passed(dec.position)
    _drop_rest(dec)
    shape = Shape(kinds, count, fault)
    return CompoundCall(tag, minor_version, shape, args, _items(shape, args, _MOST))


_LAYOUTS: Final = CallLayouts()


def _items(shape: Shape, args: Sequence[Any], most: int = sys.maxsize) -> Sequence[int]:
    """Returns the largest length of each DDP-eligible result of a call in octets, in the order of the operations.

    `most` bounds their sum.
    """
    items = []
    for at in shape.bulk:
        item_octets = shape.operations[at].item_octets
        assert item_octets is not None
        octets = item_octets(args[at])
        octets = octets if octets < most else most  # noqa: FURB136 - a function less
        most -= octets
        items.append(octets)
    return items


@functools.lru_cache(NFS4_KINDS_OF_CALLS_MAX)
def _shape_of(kinds: tuple[int, ...]) -> Shape:
    """Returns the cached `Shape` for these operation numbers, the sequence of a call whose arguments all decode."""
    return Shape(kinds, len(kinds))


def _drop_rest(dec: Decoder) -> None:
    """Moves the decoder to its end, over operations that are not run, and drops the Read chunks of their arguments."""
    dec.pos = dec.end
    dec.placed = None


def encode_call(enc: Encoder, call: CompoundCall) -> None:
    """Encodes COMPOUND4args; each operation of the call must be supported, and its shape have no `fault` (not checked).

    Raises LocalProtocolError if a value does not fit its type, the tag is too long, or there are too many operations.
    """
    enc.opaque(call.tag, NFS4_OPAQUE_LIMIT, "COMPOUND4args.tag")
    enc.u32(call.minor_version, "COMPOUND4args.minorversion")
    enc.count(len(call.args), NFS4_COMPOUND_OPERATIONS_MAX, "COMPOUND4args.argarray")
    for operation, args in enc.paired(list(zip(call.shape.operations, call.args, strict=True))):
        enc.u32(operation.number, "nfs_argop4.argop")
        operation.encode_args(enc, args)


def encode_operation_result(enc: Encoder, operation: Operation, status: nfsstat4, value: Any) -> None:
    """Appends the nfs_resop4 of an operation: its number, its status, and `value`, the body of a result of this status.

    `value` is None for a result without a body. Raises LocalProtocolError if `value` does not fit the type of the body.
    """
    if not status:
        enc.reduced += operation.success
        if operation.encode_resok is not None:
            operation.encode_resok(enc, value)
        return
    enc.reduced += operation.number.to_bytes(4, "big") + status.to_bytes(4, "big")
    if operation.encode_failure is not None:
        operation.encode_failure(enc, status, value)


def encode_compound_reply(enc: Encoder, reply: EncodedReply) -> None:
    """Appends the encoded result `reply` to `enc`, an encoder that has the header of the RPC reply.

    If `reply.kept` is False (no copy for a session's slot) and `enc` has only `REPLY_HEADER_OCTETS` octets, `enc` takes
    over the memory of `reply`, which must not be used any more. Of any other reply the octets are copied, and the data
    of DDP-eligible items shared.
    """
    header = len(enc.reduced)
    enc.begun = reply.begun
    if header == REPLY_HEADER_OCTETS and not reply.kept:
        reply.reduced[:header] = enc.reduced
        enc.reduced, enc.items, enc.removed = reply.reduced, reply.items, reply.removed
        return
    before = header - REPLY_HEADER_OCTETS
    enc.reduced += memoryview(reply.reduced)[REPLY_HEADER_OCTETS:]
    enc.items += [BulkItem(before + item.at, before + item.position, item.data) for item in reply.items]
    enc.removed += reply.removed


def decode_operation_result(dec: Decoder) -> Result:
    """Decodes the nfs_resop4 of one operation.

    The failure of an operation that this library does not know is a `Result` of the operation ILLEGAL. Raises
    DecodeError (the octets are malformed, or are the success of an operation that this library does not support).
    """
    number = dec.u32("nfs_resop4.resop")
    status = nfs4.decode_nfsstat4(dec, "nfs_resop4.status")
    operation = _NEWEST.get(number, ILLEGAL)
    value = None
    if status == _OK:
        if operation.decode_args is None:
            raise DecodeError("nfs_resop4.resop", dec.pos - 8 - dec.start, "a supported operation", str(number))
        value = operation.decode_resok(dec)
    elif operation.decode_failure is not None:
        value = operation.decode_failure(dec, status)
    return Result(operation, status, value)


def decode_compound_reply(dec: Decoder) -> CompoundReply:
    """Decodes COMPOUND4res.

    Raises DecodeError (the octets are malformed, have more than `NFS4_COMPOUND_OPERATIONS_MAX` results, or the success
    of an operation that this library does not support).
    """
    status = nfs4.decode_nfsstat4(dec, "COMPOUND4res.status")
    tag = dec.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4res.tag")
    count = dec.count(NFS4_COMPOUND_OPERATIONS_MAX, "COMPOUND4res.resarray")
    return CompoundReply(status, tag, [decode_operation_result(dec) for _ in dec.paired(count)])


def _bound(call: CompoundCall) -> ReplyBound:
    """Returns the most octets of COMPOUND4res for `call` without DDP-eligible items, and of each of these items.

    See RFC 8267 section 6.4.1.
    """
    results = 4 + 4 + (len(call.tag) + 3 & ~3) + 4
    for operation, args in zip(call.shape.operations, call.args, strict=True):
        results += 8 + operation.result_octets
        if operation.asked_octets is not None:
            results += operation.asked_octets(args)
    return ReplyBound(results, tuple(min(item, nfs4.NFS4_MAXDATA) for item in call.items))


_NAMED: Final[dict[str, Procedure[CompoundCall, Any]]] = {}
COMPOUND: Final[Procedure[CompoundCall, Any]] = Procedure(
    program=nfs4.NFS_V4.number,
    version=nfs4.NFS_V4.version,
    number=1,
    name="NFSPROC4_COMPOUND",
    method="compound",
    encode_args=encode_call,
    decode_args=decode_call,
    encode_result=encode_compound_reply,
    decode_result=decode_compound_reply,
    bound=_bound,
    status=attrgetter("status"),
    items=attrgetter("items"),
    named=attrgetter("shape.procedure"),
)
