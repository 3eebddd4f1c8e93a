"""The procedure COMPOUND (RFC 8881 section 16.2): its arguments and results are encoded operation by operation.

A server has to run the operations before one that it does not know, or whose arguments do not decode, and to answer
that one in its place. The arguments of a call are therefore a list that ends with the first such operation, and has its
status.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.limits import NFS4_CALL_NAME_OCTETS_MAX, NFS4_COMPOUND_OPERATIONS_MAX, NFS4_KINDS_OF_CALLS_MAX
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.nfs4 import NFS4_OPAQUE_LIMIT, nfsstat4
from rpcrdma.nfs.v4.operations import ILLEGAL, OPERATIONS, Operation
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import BulkItem, Decoder, Encoder, Payload, PlacedByPosition

__all__ = [
    "COMPOUND",
    "MINOR_VERSIONS",
    "CalledOperation",
    "CompoundCall",
    "CompoundReply",
    "EncodedReply",
    "Result",
    "append",
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

_OK = nfsstat4.NFS4_OK


class CalledOperation(NamedTuple):
    """One operation of a call.

    `fault` is the status of an operation that cannot be run, the last of its call.
    """

    operation: Operation
    args: Any = None
    fault: nfsstat4 | None = None


@dataclass(frozen=True, slots=True)
class CompoundCall:
    """The arguments of COMPOUND.

    `count` is the number of operations that the call has announced; `steps` are those up to the first that cannot be
    run, and `kinds` their numbers.
    """

    tag: bytes
    minor_version: int
    steps: Sequence[CalledOperation]
    count: int
    kinds: tuple[int, ...] = ()

    @classmethod
    def of(cls, operations: Iterable[tuple[int, Any]], *, minor_version: int = 2, tag: bytes = b"") -> CompoundCall:
        """The call with operations by their numbers and arguments."""
        steps = [CalledOperation(OPERATIONS[minor_version].get(number, ILLEGAL), args) for number, args in operations]
        return cls(tag, minor_version, steps, len(steps))


class Result(NamedTuple):
    """The result of one operation; `value` is None if it has no more than its status."""

    operation: Operation
    status: nfsstat4
    value: Any


@dataclass(slots=True, eq=False)
class CompoundReply:
    """The result of COMPOUND, as a client decodes it."""

    status: nfsstat4
    tag: bytes
    results: list[Result]


@dataclass(slots=True, eq=False)
class EncodedReply:
    """The result of COMPOUND, as a server has encoded it: also a reply that is kept."""

    status: nfsstat4
    payload: Payload


def name_of(steps: Sequence[CalledOperation]) -> str:
    """The names of operations without SEQUENCE and those that only set a filehandle: "OPEN+READ+CLOSE".

    It ends with "+..." where it would be longer than `NFS4_CALL_NAME_OCTETS_MAX`.
    """
    names = [step.operation.name for step in steps]
    telling = [name for name in names if name not in _SILENT]
    name = "+".join(telling or names[-1:]) or "empty"
    if len(name) <= NFS4_CALL_NAME_OCTETS_MAX:
        return name
    return name[: name.rindex("+", 0, NFS4_CALL_NAME_OCTETS_MAX - 3)] + "+..."


_SILENT: Final = frozenset({"SEQUENCE", "PUTFH", "PUTROOTFH", "PUTPUBFH", "SAVEFH", "RESTOREFH"})


def decode_call(dec: Decoder) -> CompoundCall:
    """Decodes the arguments up to the first operation that cannot be run; steps over the rest.

    Raises:
        DecodeError: the octets end before the first operation.
        ReducedIneligibleItem: an argument that must stay in the stream came in a Read chunk.
    """
    tag = dec.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4args.tag")
    minor_version = dec.u32("COMPOUND4args.minorversion")
    count = dec.u32("COMPOUND4args.argarray")
    steps: list[CalledOperation] = []
    kinds: list[int] = []
    begun = dec.begun = []
    if minor_version not in MINOR_VERSIONS:
        _drop_rest(dec)
        return CompoundCall(tag, minor_version, steps, count)
    operations = OPERATIONS[minor_version]
    for _ in range(min(count, NFS4_COMPOUND_OPERATIONS_MAX)):
        begun.append(dec.pos - dec.start + dec.removed)
        step = _decode_step(dec, operations)
        steps.append(step)
        kinds.append(step.operation.number)
        if step.fault is not None:
            if isinstance(dec.placed, PlacedByPosition):
                # Where an item that must stay in the stream came in a Read chunk, the transport answers.
                dec.placed.passed(dec.position)
            break
    if count != len(steps) or (steps and steps[-1].fault is not None):
        _drop_rest(dec)
    return CompoundCall(tag, minor_version, steps, count, tuple(kinds))


def _decode_step(dec: Decoder, operations: Mapping[int, Operation]) -> CalledOperation:
    try:
        operation = operations.get(dec.u32("nfs_argop4.argop"), ILLEGAL)
    except DecodeError:
        return CalledOperation(ILLEGAL, None, nfsstat4.NFS4ERR_BADXDR)
    if operation is ILLEGAL:
        return CalledOperation(operation, None, nfsstat4.NFS4ERR_OP_ILLEGAL)
    if operation.decode_args is None:
        return CalledOperation(operation, None, nfsstat4.NFS4ERR_NOTSUPP)
    try:
        return CalledOperation(operation, operation.decode_args(dec))
    except DecodeError:
        return CalledOperation(operation, None, nfsstat4.NFS4ERR_BADXDR)


def _drop_rest(dec: Decoder) -> None:
    """Steps over operations that are not run, with the items that were placed for them."""
    dec.pos = dec.end
    dec.placed = None


def encode_call(enc: Encoder, call: CompoundCall) -> None:
    """Encodes the arguments; all steps must be without a fault."""
    enc.opaque(call.tag, NFS4_OPAQUE_LIMIT, "COMPOUND4args.tag")
    enc.u32(call.minor_version, "COMPOUND4args.minorversion")
    enc.count(len(call.steps), NFS4_COMPOUND_OPERATIONS_MAX, "COMPOUND4args.argarray")
    for step in enc.paired(call.steps):
        enc.u32(step.operation.number, "nfs_argop4.argop")
        step.operation.encode_args(enc, step.args)


def encode_operation_result(enc: Encoder, operation: Operation, status: nfsstat4, value: Any) -> None:
    """Encodes the result of one operation."""
    if not status:
        enc.reduced += operation.success
        operation.encode_resok(enc, value)
        return
    enc.reduced += operation.number.to_bytes(4, "big") + status.to_bytes(4, "big")
    if operation.encode_failure is not None:
        operation.encode_failure(enc, status, value)


def append(enc: Encoder, payload: Payload) -> None:
    """Appends an encoded message to another one; items are not copied."""
    at, position = len(enc.reduced), len(enc.reduced) + enc.removed
    for item in payload.items:
        enc.items.append(BulkItem(at + item.at, position + item.position, item.data))
        enc.removed += (len(item.data) + 3) & ~3
    if payload.begun is not None:
        enc.begun = payload.begun
    enc.reduced += payload.reduced


def encode_compound_reply(enc: Encoder, reply: EncodedReply) -> None:
    """Appends a result that is encoded already."""
    append(enc, reply.payload)


def decode_operation_result(dec: Decoder) -> Result:
    """Decodes the result of one operation."""
    number = dec.u32("nfs_resop4.resop")
    status = nfs4.decode_nfsstat4(dec, "nfs_resop4.status")
    operation = OPERATIONS[MINOR_VERSIONS[-1]].get(number, ILLEGAL)
    value = None
    if status == _OK:
        if operation.decode_args is None:
            raise DecodeError("nfs_resop4.resop", dec.pos - 8 - dec.start, "a supported operation", str(number))
        value = operation.decode_resok(dec)
    elif operation.decode_failure is not None:
        value = operation.decode_failure(dec, status)
    return Result(operation, status, value)


def decode_compound_reply(dec: Decoder) -> CompoundReply:
    """Decodes the result.

    Raises:
        DecodeError: also for an operation that is not defined.
    """
    status = nfs4.decode_nfsstat4(dec, "COMPOUND4res.status")
    tag = dec.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4res.tag")
    count = dec.count(NFS4_COMPOUND_OPERATIONS_MAX, "COMPOUND4res.resarray")
    return CompoundReply(status, tag, [decode_operation_result(dec) for _ in dec.paired(count)])


def _bound(call: CompoundCall) -> ReplyBound:
    """The sum of the results' bounds; each DDP-eligible result has an item (RFC 8267 section 6.4.1)."""
    results = 4 + 4 + (len(call.tag) + 3 & ~3) + 4
    items = []
    for operation, args, fault in call.steps:
        results += 8 + operation.result_octets
        if fault is not None:
            break
        if operation.item_octets is not None:
            items.append(operation.item_octets(args))
        if operation.asked_octets is not None:
            results += operation.asked_octets(args)
    return ReplyBound(results, tuple(items))


def _named(call: CompoundCall) -> Procedure[CompoundCall, Any]:
    """COMPOUND under the names of the operations of a call."""
    name = name_of(call.steps)
    found = _NAMED.get(name)
    if found is None:
        if len(_NAMED) >= NFS4_KINDS_OF_CALLS_MAX:
            return COMPOUND
        found = _NAMED[name] = dataclasses.replace(COMPOUND, name=name)
    return found


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
    named=_named,
)
