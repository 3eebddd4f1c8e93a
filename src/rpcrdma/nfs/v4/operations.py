"""The operations of a COMPOUND as data (RFC 8881 section 17, RFC 7862 section 13): codecs, and the rules for each."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4, nfsstat4
from rpcrdma.nfs.v4.state_limits import NFS4_XATTR_OCTETS_MAX
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["ILLEGAL", "OPERATIONS", "Operation", "Position"]


class Position(enum.Enum):
    """The place at which an operation may stand in a COMPOUND."""

    FIRST = "first"
    """At the beginning only, as SEQUENCE."""
    ANYWHERE = "anywhere"
    """After SEQUENCE, or alone without it."""
    ALONE = "alone"
    """As the only operation."""
    IN_SESSION = "in session"
    """After SEQUENCE."""


def _no_arguments(_dec: Decoder) -> None:
    """Decodes void, the arguments or the result of an operation that has none: takes no octets, returns None."""


def _nothing(_enc: Encoder, _value: None) -> None:
    """Encodes void, the arguments of an operation that has none: adds no octets."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operation:
    """An operation of NFS version 4.1 or 4.2: its number, its codecs and its rules.

    Attributes:
        number: the number on the wire.
        name: the name in logs and statistics, as in the RFC: "OPEN".
        decode_args: decodes the arguments; None if the operation is not supported.
        encode_args: encodes the arguments.
        encode_resok: encodes the body of a success; None if it has none.
        decode_resok: decodes the body of a success; returns None if it has none.
        encode_failure: encodes the body that some failures have: (encoder, status, value); None if no failure has one.
        decode_failure: decodes the body of a failure: (decoder, status); None if no failure has one.
        place: the place in a COMPOUND at which it may stand.
        minor: the first minor version that has it.
        idempotent: whether it may run again without harm, so that its result may be lost.
        needs_handle: whether it needs a current filehandle.
        result_octets: the most octets of the body of a result that this server makes, without those of `item_octets`
            and `asked_octets`. If the reply has less room, an operation that is not idempotent is refused.
        asked_octets: returns, for arguments by which the caller bounds the result, the further octets that the body may
            have; None if the arguments have no bound.
        item_octets: returns, for given arguments, the most octets of the DDP-eligible result; None if it has none.
        success: the 8 octets with which a success begins on the wire: the number, and the status NFS4_OK.
    """

    number: int
    name: str
    decode_args: Callable[[Decoder], Any] | None = None
    encode_args: Callable[[Encoder, Any], None] = _nothing
    encode_resok: Callable[[Encoder, Any], None] | None = None
    decode_resok: Callable[[Decoder], Any] = _no_arguments
    encode_failure: Callable[[Encoder, int, Any], None] | None = None
    decode_failure: Callable[[Decoder, int], Any] | None = None
    place: Position = Position.IN_SESSION
    minor: int = 1
    idempotent: bool = False
    needs_handle: bool = False
    result_octets: int = 0
    item_octets: Callable[[Any], int] | None = None
    asked_octets: Callable[[Any], int] | None = None
    success: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "success", self.number.to_bytes(4, "big") + bytes(4))


def _operation(
    number: nfs_opnum4,
    args: str = "",
    result: str = "",
    **rules: Any,
) -> Operation:
    """Returns a supported operation, whose codecs are those of two types of nfs4.x.

    `args` is the name of the type of the arguments, `result` that of the body of a success; "" stands for void.
    `rules` are further fields of `Operation`.
    """
    return Operation(
        number=int(number),
        name=number.name.removeprefix("OP_"),
        decode_args=getattr(nfs4, f"decode_{args}") if args else _no_arguments,
        encode_args=getattr(nfs4, f"encode_{args}") if args else _nothing,
        encode_resok=getattr(nfs4, f"encode_{result}") if result else None,
        decode_resok=getattr(nfs4, f"decode_{result}") if result else _no_arguments,
        **rules,
    )


def _encode_denied(enc: Encoder, status: int, value: Any) -> None:
    """Appends `value`, a LOCK4denied, to the result of a LOCK or LOCKT if `status` is NFS4ERR_DENIED; else nothing."""
    if status == nfsstat4.NFS4ERR_DENIED:
        nfs4.encode_LOCK4denied(enc, value)


def _decode_denied(dec: Decoder, status: int) -> Any:
    return nfs4.decode_LOCK4denied(dec) if status == nfsstat4.NFS4ERR_DENIED else None


def _encode_attributes_set(enc: Encoder, _status: int, value: Any) -> None:
    """Appends the body of a failed SETATTR: `value`, a SETATTR4resok of attributes that were set; None: none were."""
    nfs4.encode_SETATTR4resok(enc, value or nfs4.SETATTR4resok([]))


def _decode_attributes_set(dec: Decoder, _status: int) -> Any:
    return nfs4.decode_SETATTR4resok(dec)


def _encode_requirements(enc: Encoder, status: int, value: Any) -> None:
    """Appends `value`, a copy_requirements4, to a failed COPY's result if `status` is NFS4ERR_OFFLOAD_NO_REQS.

    Appends nothing for other statuses, whose results have no body.
    """
    if status == nfsstat4.NFS4ERR_OFFLOAD_NO_REQS:
        nfs4.encode_copy_requirements4(enc, value)


def _decode_requirements(dec: Decoder, status: int) -> Any:
    return nfs4.decode_copy_requirements4(dec) if status == nfsstat4.NFS4ERR_OFFLOAD_NO_REQS else None


_MINOR_2: Final[dict[str, Any]] = {"minor": 2}
_DENIED: Final[dict[str, Any]] = {"encode_failure": _encode_denied, "decode_failure": _decode_denied}
# A stateid, a change of a directory, the bitmap of the attributes that were set.
_STATEID, _CHANGE, _BITMAP = 16, 20, 4 + 4 * nfs4.NFS4_MAXWORDS
_LOCK = 8 + 8 + 4 + 8 + 4 + nfs4.NFS4_OPAQUE_LIMIT
_CHANNEL = 4 * 8
# Without an access control entry that has a name.
_DELEGATION = 4 + _STATEID + 4 + 12 + 16

_O, _P = nfs_opnum4, Position
_SUPPORTED: Final = (
    _operation(_O.OP_ACCESS, "ACCESS4args", "ACCESS4resok", idempotent=True, needs_handle=True, result_octets=8),
    _operation(_O.OP_CLOSE, "CLOSE4args", "stateid4", needs_handle=True, result_octets=_STATEID),
    _operation(_O.OP_COMMIT, "COMMIT4args", "COMMIT4resok", idempotent=True, needs_handle=True, result_octets=8),
    _operation(_O.OP_CREATE, "CREATE4args", "CREATE4resok", needs_handle=True, result_octets=_CHANGE + _BITMAP),
    _operation(_O.OP_DELEGRETURN, "DELEGRETURN4args", needs_handle=True),
    _operation(
        _O.OP_GETATTR, "GETATTR4args", "GETATTR4resok", idempotent=True, needs_handle=True,
        result_octets=4096,
    ),
    _operation(_O.OP_GETFH, "", "GETFH4resok", idempotent=True, needs_handle=True, result_octets=4 + 128),
    _operation(_O.OP_LINK, "LINK4args", "LINK4resok", needs_handle=True, result_octets=_CHANGE),
    _operation(_O.OP_LOCK, "LOCK4args", "LOCK4resok", needs_handle=True, result_octets=_LOCK, **_DENIED),
    _operation(_O.OP_LOCKT, "LOCKT4args", idempotent=True, needs_handle=True, result_octets=_LOCK, **_DENIED),
    _operation(_O.OP_LOCKU, "LOCKU4args", "stateid4", needs_handle=True, result_octets=_STATEID),
    _operation(_O.OP_LOOKUP, "LOOKUP4args", idempotent=True, needs_handle=True),
    _operation(_O.OP_LOOKUPP, idempotent=True, needs_handle=True),
    _operation(_O.OP_NVERIFY, "VERIFY4args", idempotent=True, needs_handle=True),
    _operation(
        _O.OP_OPEN, "OPEN4args", "OPEN4resok", needs_handle=True,
        result_octets=_STATEID + _CHANGE + 4 + _BITMAP + _DELEGATION,
    ),
    _operation(_O.OP_OPEN_DOWNGRADE, "OPEN_DOWNGRADE4args", "stateid4", needs_handle=True, result_octets=_STATEID),
    _operation(_O.OP_PUTFH, "PUTFH4args", idempotent=True),
    _operation(_O.OP_PUTPUBFH, idempotent=True),
    _operation(_O.OP_PUTROOTFH, idempotent=True),
    _operation(
        _O.OP_READ, "READ4args", "READ4resok", idempotent=True, needs_handle=True, result_octets=8,
        item_octets=attrgetter("count"),
    ),
    _operation(
        _O.OP_READDIR, "READDIR4args", "READDIR4resok", idempotent=True, needs_handle=True,
        asked_octets=attrgetter("maxcount"),
    ),
    _operation(
        _O.OP_READLINK, "", "READLINK4resok", idempotent=True, needs_handle=True, result_octets=4,
        item_octets=lambda _args: nfs4.NFS4_MAXPATHLEN,
    ),
    _operation(_O.OP_REMOVE, "REMOVE4args", "REMOVE4resok", needs_handle=True, result_octets=_CHANGE),
    _operation(
        _O.OP_RENAME, "RENAME4args", "RENAME4resok", needs_handle=True, result_octets=2 * _CHANGE
    ),
    _operation(_O.OP_RESTOREFH, idempotent=True),
    _operation(_O.OP_SAVEFH, idempotent=True, needs_handle=True),
    _operation(_O.OP_SECINFO, "SECINFO4args", "SECINFO4resok", idempotent=True, needs_handle=True, result_octets=256),
    _operation(
        _O.OP_SETATTR, "SETATTR4args", "SETATTR4resok", needs_handle=True, result_octets=_BITMAP,
        encode_failure=_encode_attributes_set, decode_failure=_decode_attributes_set,
    ),
    _operation(_O.OP_VERIFY, "VERIFY4args", idempotent=True, needs_handle=True),
    _operation(_O.OP_WRITE, "WRITE4args", "WRITE4resok", needs_handle=True, result_octets=16),
    _operation(_O.OP_BACKCHANNEL_CTL, "BACKCHANNEL_CTL4args"),
    _operation(
        _O.OP_BIND_CONN_TO_SESSION, "BIND_CONN_TO_SESSION4args", "BIND_CONN_TO_SESSION4resok", place=_P.ALONE,
        result_octets=24,
    ),
    _operation(_O.OP_EXCHANGE_ID, "EXCHANGE_ID4args", "EXCHANGE_ID4resok", place=_P.ANYWHERE, result_octets=1024),
    _operation(
        _O.OP_CREATE_SESSION, "CREATE_SESSION4args", "CREATE_SESSION4resok", place=_P.ANYWHERE,
        result_octets=24 + 2 * _CHANNEL,
    ),
    _operation(_O.OP_DESTROY_SESSION, "DESTROY_SESSION4args", place=_P.ANYWHERE),
    _operation(_O.OP_FREE_STATEID, "FREE_STATEID4args"),
    _operation(
        _O.OP_SECINFO_NO_NAME, "secinfo_style4", "SECINFO4resok", idempotent=True, needs_handle=True, result_octets=256
    ),
    _operation(_O.OP_SEQUENCE, "SEQUENCE4args", "SEQUENCE4resok", place=_P.FIRST, result_octets=36),
    _operation(_O.OP_TEST_STATEID, "TEST_STATEID4args", "TEST_STATEID4resok", idempotent=True, result_octets=4096 + 4),
    _operation(_O.OP_DESTROY_CLIENTID, "DESTROY_CLIENTID4args", place=_P.ANYWHERE),
    _operation(_O.OP_RECLAIM_COMPLETE, "RECLAIM_COMPLETE4args"),
    _operation(_O.OP_ALLOCATE, "ALLOCATE4args", needs_handle=True, **_MINOR_2),
    _operation(_O.OP_CLONE, "CLONE4args", needs_handle=True, **_MINOR_2),
    _operation(
        _O.OP_COPY, "COPY4args", "COPY4resok", needs_handle=True, result_octets=4 + _STATEID + 8 + 4 + 8 + 8,
        encode_failure=_encode_requirements, decode_failure=_decode_requirements, **_MINOR_2,
    ),
    _operation(_O.OP_DEALLOCATE, "DEALLOCATE4args", needs_handle=True, **_MINOR_2),
    _operation(
        _O.OP_IO_ADVISE, "IO_ADVISE4args", "IO_ADVISE4resok", idempotent=True, needs_handle=True,
        result_octets=_BITMAP, **_MINOR_2,
    ),
    _operation(
        _O.OP_GETXATTR, "GETXATTR4args", "GETXATTR4resok", idempotent=True, needs_handle=True,
        result_octets=4 + NFS4_XATTR_OCTETS_MAX, **_MINOR_2,
    ),
    _operation(
        _O.OP_SETXATTR, "SETXATTR4args", "SETXATTR4resok", needs_handle=True, result_octets=_CHANGE, **_MINOR_2
    ),
    _operation(
        _O.OP_LISTXATTRS, "LISTXATTRS4args", "LISTXATTRS4resok", idempotent=True, needs_handle=True,
        asked_octets=attrgetter("lxa_maxcount"), **_MINOR_2,
    ),
    _operation(
        _O.OP_REMOVEXATTR, "REMOVEXATTR4args", "REMOVEXATTR4resok", needs_handle=True, result_octets=_CHANGE,
        **_MINOR_2,
    ),
    _operation(
        _O.OP_READ_PLUS, "READ_PLUS4args", "READ_PLUS4resok", idempotent=True, needs_handle=True, result_octets=8 + 20,
        asked_octets=lambda args: min(args.rpa_count, nfs4.NFS4_MAXDATA), **_MINOR_2,
    ),
    _operation(_O.OP_SEEK, "SEEK4args", "SEEK4resok", idempotent=True, needs_handle=True, result_octets=12, **_MINOR_2),
)  # fmt: skip

ILLEGAL: Final = Operation(number=int(_O.OP_ILLEGAL), name="ILLEGAL")
"""The operation that stands for each number that is not defined."""

_FIRST_OF_MINOR_2: Final = _O.OP_ALLOCATE


def _all() -> dict[int, Operation]:
    """Returns the operations of minor versions 1 and 2 by number, without ILLEGAL.

    Those that this library does not support have no codecs: their `decode_args` is None.
    """
    supported = {operation.number: operation for operation in _SUPPORTED}
    found = {}
    for number in nfs_opnum4:
        if number != _O.OP_ILLEGAL:
            minor = 2 if number >= _FIRST_OF_MINOR_2 else 1
            name = number.name.removeprefix("OP_")
            found[int(number)] = supported.get(number) or Operation(number=int(number), name=name, minor=minor)
    return found


OPERATIONS: Final = {
    minor: {number: operation for number, operation in _all().items() if operation.minor <= minor} for minor in (1, 2)
}
"""The operations by number, for each minor version that is served; `ILLEGAL` stands for other numbers."""
