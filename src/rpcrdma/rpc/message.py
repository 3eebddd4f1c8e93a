"""The headers of RPC calls and replies: rpc_msg without arguments and results (RFC 5531 section 9).

The usual headers are read at once elsewhere, by `Dispatcher.open_call` and `rpcrdma.rpc.calling.decode_result`; the
functions here decode every header field by field, with the same result.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from rpcrdma.errors import (
    AuthError,
    DecodeError,
    GarbageArguments,
    LocalProtocolError,
    NoSuchProcedure,
    ProgramMismatch,
    ProgramUnavailable,
    RemoteSystemError,
    RpcError,
    RpcVersionMismatch,
)
from rpcrdma.rpc.auth import AUTH_BODY_MAX, NO_AUTH, AuthFlavor, AuthStat, OpaqueAuth
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder, padding

__all__ = [
    "CALL_HEADER_OCTETS",
    "REPLY_HEADER_OCTETS",
    "RPC_VERSION",
    "SUCCESS_TAIL",
    "AcceptStat",
    "CallHeader",
    "CallRefused",
    "MessageType",
    "RejectStat",
    "ReplyStat",
    "auth_octets",
    "call_tail",
    "decode_call",
    "decode_reply",
    "encode_accepted",
    "encode_auth_error",
    "encode_call",
    "encode_rpc_mismatch",
    "peek_is_call",
    "peek_xid",
]

RPC_VERSION = 2
CALL_HEADER_OCTETS = 40
"""A call header whose credential and verifier are empty; no call header is smaller."""
REPLY_HEADER_OCTETS = 24
"""The header of a SUCCESS reply whose verifier is empty."""

_U32 = struct.Struct(">I")
_TWO = struct.Struct(">2I")
_THREE = struct.Struct(">3I")
_FIVE = struct.Struct(">5I")
_SIX = struct.Struct(">6I")
_PAD = (b"", b"\0\0\0", b"\0\0", b"\0")


class MessageType(enum.IntEnum):
    """msg_type: call or reply (RFC 5531 section 9)."""

    CALL = 0
    REPLY = 1


class ReplyStat(enum.IntEnum):
    """reply_stat: whether a call was accepted or rejected (RFC 5531 section 9)."""

    MSG_ACCEPTED = 0
    MSG_DENIED = 1


class AcceptStat(enum.IntEnum):
    """accept_stat: the outcome of an accepted call (RFC 5531 section 9)."""

    SUCCESS = 0
    PROG_UNAVAIL = 1
    PROG_MISMATCH = 2
    PROC_UNAVAIL = 3
    GARBAGE_ARGS = 4
    SYSTEM_ERR = 5


SUCCESS_TAIL = _FIVE.pack(MessageType.REPLY, ReplyStat.MSG_ACCEPTED, 0, 0, AcceptStat.SUCCESS)
"""The header of a SUCCESS reply without its first word, the XID; the results follow."""


class RejectStat(enum.IntEnum):
    """reject_stat: the reason for a rejected call (RFC 5531 section 9)."""

    RPC_MISMATCH = 0
    AUTH_ERROR = 1


class CallHeader(NamedTuple):
    """The header of a call: its XID and call_body (RFC 5531 section 9), without the fixed msg_type and rpcvers."""

    xid: int
    program: int
    version: int
    procedure: int
    credential: OpaqueAuth = NO_AUTH
    verifier: OpaqueAuth = NO_AUTH


class CallRefused(DecodeError):
    """Raised for a call header that does not decode but can be answered; `reply` is the whole encoded reply to send."""

    reply: bytes | bytearray


def auth_octets(auth: OpaqueAuth, what: str) -> bytes:
    """Returns a credential or verifier as XDR: flavor, length word and padded body.

    `what` is the name of `auth` in the error, such as "verifier".

    Raises:
        LocalProtocolError: the body is over 400 octets.
        struct.error: the flavor does not fit into 32 bits.
    """
    flavor, body = auth
    if len(body) > AUTH_BODY_MAX:
        raise LocalProtocolError(f"{what}: {len(body)} octets, the limit is {AUTH_BODY_MAX}")
    return _TWO.pack(flavor, len(body)) + body + _PAD[len(body) & 3]


def call_tail(
    program: int, version: int, procedure: int, credential: OpaqueAuth = NO_AUTH, verifier: OpaqueAuth = NO_AUTH
) -> bytes:
    """Returns an encoded call header without the XID; all calls of a procedure with the same credential can share it.

    Raises:
        LocalProtocolError: the body of a credential or verifier is over 400 octets, or a number does not fit into 32
            bits.
    """
    try:
        return (
            _FIVE.pack(MessageType.CALL, RPC_VERSION, program, version, procedure)
            + auth_octets(credential, "credential")
            + auth_octets(verifier, "verifier")
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number of the call header does not fit: {error}") from None


def encode_call(
    enc: Encoder,
    xid: int,
    program: int,
    version: int,
    procedure: int,
    credential: OpaqueAuth = NO_AUTH,
    verifier: OpaqueAuth = NO_AUTH,
) -> None:
    """Appends a call header to `enc`; the caller appends the arguments.

    Raises:
        LocalProtocolError: the body of a credential or verifier is over 400 octets, or a number does not fit into 32
            bits.
    """
    enc.u32(xid, "xid")
    enc.reduced += call_tail(program, version, procedure, credential, verifier)


def decode_call(dec: Decoder) -> CallHeader:
    """Decodes a call header of RPC version 2; the cursor stops before the arguments.

    Raises:
        CallRefused: another RPC version (RPC_MISMATCH), or a credential or verifier over 400 octets (AUTH_ERROR).
        DecodeError: the header is cut short or is not that of a call: no RPC reply is possible.
    """
    xid, message_type, rpc_version = dec.take(_THREE, "xid, msg_type, rpcvers")
    if message_type != MessageType.CALL:
        raise DecodeError("msg_type", 4, "CALL", str(message_type), rfc="5531 9")
    if rpc_version != RPC_VERSION:
        refused = CallRefused("rpcvers", 8, str(RPC_VERSION), str(rpc_version), rfc="5531 9")
        enc = Encoder()
        encode_rpc_mismatch(enc, xid)
        refused.reply = enc.reduced
        raise refused
    program, version, procedure = dec.take(_THREE, "prog, vers, proc")
    credential = _decode_auth(dec, "credential", xid, AuthStat.AUTH_BADCRED)
    verifier = _decode_auth(dec, "verifier", xid, AuthStat.AUTH_BADVERF)
    return CallHeader(xid, program, version, procedure, credential, verifier)


def _decode_auth(dec: Decoder, field: str, xid: int, stat: AuthStat) -> OpaqueAuth:
    flavor, length = dec.take(_TWO, field)
    if length > AUTH_BODY_MAX:
        refused = CallRefused(field, dec.pos - 4 - dec.start, f"at most {AUTH_BODY_MAX}", str(length), rfc="5531 8.2")
        enc = Encoder()
        encode_auth_error(enc, xid, stat)
        refused.reply = enc.reduced
        raise refused
    return OpaqueAuth(flavor, dec.fixed(length, field))


def encode_accepted(enc: Encoder, xid: int, stat: AcceptStat, *, low: int = 0, high: int = 0) -> None:
    """Appends the header of an accepted reply to `enc`, with an empty verifier; the caller appends results of SUCCESS.

    Args:
        enc: the encoder.
        xid: the XID of the call.
        stat: the outcome.
        low: for PROG_MISMATCH, the lowest version of the program that is offered.
        high: for PROG_MISMATCH, the highest version of the program that is offered.
    """
    enc.put(_SIX, xid, MessageType.REPLY, ReplyStat.MSG_ACCEPTED, AuthFlavor.AUTH_NONE, 0, stat)
    if stat is AcceptStat.PROG_MISMATCH:
        enc.put(_TWO, low, high)


def encode_rpc_mismatch(enc: Encoder, xid: int) -> None:
    """Appends the whole reply that rejects call `xid`, since its RPC version is not 2, to `enc`."""
    enc.put(_SIX, xid, MessageType.REPLY, ReplyStat.MSG_DENIED, RejectStat.RPC_MISMATCH, RPC_VERSION, RPC_VERSION)


def encode_auth_error(enc: Encoder, xid: int, stat: AuthStat) -> None:
    """Appends the whole reply to `enc` that rejects credential or verifier of call `xid` for the reason `stat`."""
    enc.put(_FIVE, xid, MessageType.REPLY, ReplyStat.MSG_DENIED, RejectStat.AUTH_ERROR, stat)


def peek_xid(message: Buffer) -> int | None:
    """Returns the XID of a message, its first word; None if the message has less than four octets.

    An XID is compared for equality and nothing else (RFC 5531 section 9).
    """
    if len(message) < 4:
        return None
    xid: int = _U32.unpack_from(message, 0)[0]
    return xid


def peek_is_call(message: Buffer) -> bool:
    """Returns whether a message is a call, by its msg_type; False also for messages under eight octets."""
    return len(message) >= 8 and _U32.unpack_from(message, 4)[0] == MessageType.CALL


def decode_reply(dec: Decoder, xid: int, check: Callable[[OpaqueAuth], None] | None = None) -> None:
    """Decodes the header of the reply to call `xid`; returns if it is SUCCESS, with the cursor at the results.

    Args:
        dec: the decoder, at the start of the reply.
        xid: the XID of the call.
        check: called with the verifier of an accepted reply, before anything after it is read. It refuses the reply by
            an exception, which is passed on. None: any verifier is accepted.

    Raises:
        RpcError: the responder answered with an error, for each of which there is a subclass.
        DecodeError: the header does not decode, or answers another call.
    """
    got_xid, message_type, reply_stat = dec.take(_THREE, "xid, msg_type, reply_stat")
    if got_xid != xid:
        raise DecodeError("xid", 0, f"{xid:#010x}", f"{got_xid:#010x}", rfc="5531 9")
    if message_type != MessageType.REPLY:
        raise DecodeError("msg_type", 4, "REPLY", str(message_type), rfc="5531 9")
    if reply_stat == ReplyStat.MSG_DENIED:
        _raise_rejected(dec)
    if reply_stat != ReplyStat.MSG_ACCEPTED:
        raise DecodeError("reply_stat", 8, "MSG_ACCEPTED or MSG_DENIED", str(reply_stat), rfc="5531 9")
    flavor = dec.u32("verifier flavor")
    length = dec.count(AUTH_BODY_MAX, "verifier")
    body = dec.view(length + padding(length), "verifier")
    if check is not None:
        check(OpaqueAuth(flavor, bytes(body[:length])))
    _raise_unless_success(dec, dec.u32("accept_stat"))


def _raise_unless_success(dec: Decoder, stat: int) -> None:
    match stat:
        case AcceptStat.SUCCESS:
            return
        case AcceptStat.PROG_UNAVAIL:
            error: RpcError = ProgramUnavailable()
        case AcceptStat.PROG_MISMATCH:
            low, high = dec.take(_TWO, "mismatch_info")
            error = ProgramMismatch(low, high)
        case AcceptStat.PROC_UNAVAIL:
            error = NoSuchProcedure()
        case AcceptStat.GARBAGE_ARGS:
            error = GarbageArguments()
        case AcceptStat.SYSTEM_ERR:
            error = RemoteSystemError()
        case _:
            raise DecodeError("accept_stat", dec.pos - 4 - dec.start, "0 to 5", str(stat), rfc="5531 9")
    _raise_refusal(dec, error)


def _raise_rejected(dec: Decoder) -> NoReturn:
    stat = dec.u32("reject_stat")
    if stat == RejectStat.RPC_MISMATCH:
        low, high = dec.take(_TWO, "mismatch_info")
        _raise_refusal(dec, RpcVersionMismatch(low, high))
    if stat == RejectStat.AUTH_ERROR:
        code = dec.u32("auth_stat")
        _raise_refusal(dec, AuthError(AuthStat(code) if code in AuthStat.__members__.values() else code))
    raise DecodeError("reject_stat", 12, "RPC_MISMATCH or AUTH_ERROR", str(stat), rfc="5531 9")


def _raise_refusal(dec: Decoder, refusal: RpcError) -> NoReturn:
    """Raises `refusal`, the error that a decoded reply states, if the reply ends at the decoder's position.

    Raises:
        RpcError: `refusal`.
        DecodeError: octets follow; the error's `__cause__` is `refusal`.
    """
    try:
        dec.done(f"reply ({refusal})")
    except DecodeError as error:
        raise error from refusal
    raise refusal
