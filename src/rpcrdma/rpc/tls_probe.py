"""The probe with AUTH_TLS by which a client asks a server for TLS, and its answers (RFC 9289 section 4.1)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.rpc.auth import AUTH_BODY_MAX, NO_AUTH, AuthFlavor, AuthStat, OpaqueAuth
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.message import (
    RPC_VERSION,
    CallRefused,
    MessageType,
    ReplyStat,
    call_tail,
    decode_call,
    encode_auth_error,
)
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder, padding

__all__ = ["PORT_MAPPER", "ProbeAnswer", "answer_probe", "is_probe", "offers_tls", "probe_call", "refuse_in_clear"]

PORT_MAPPER = (100000, 2)
"""The number and the version of the program that a probe for TLS names where the caller's own is not known."""

_STARTTLS: Final = b"STARTTLS"
_PROBE: Final = OpaqueAuth(AuthFlavor.AUTH_TLS, b"")
_TWO = struct.Struct(">2I")
_THREE = struct.Struct(">3I")
_SEVEN = struct.Struct(">7I")
_VERIFIER_AT: Final = 12
"""Octets before the verifier of an accepted reply."""


def probe_call(xid: int, program: int, version: int) -> bytes:
    """Returns the encoded call that asks a server for TLS: procedure 0 with AUTH_TLS (RFC 9289 section 4.1).

    Raises:
        LocalProtocolError: `program` or `version` does not fit into 32 bits.
        OverflowError: `xid` does not fit into 32 bits.
    """
    return xid.to_bytes(4, "big") + call_tail(program, version, 0, _PROBE)


def offers_tls(message: Buffer, xid: int) -> bool:
    """Returns whether the reply to `probe_call` offers TLS: it is accepted, and its AUTH_NONE verifier is STARTTLS.

    The accept_stat may be any: a server that lacks the program may offer TLS.

    Raises:
        DecodeError: the message is no reply to call `xid`, is cut short, or has a verifier over 400 octets.
    """
    dec = Decoder(message)
    got_xid, message_type, reply_stat = dec.take(_THREE, "xid, msg_type, reply_stat")
    if got_xid != xid:
        raise DecodeError("xid", 0, f"{xid:#010x}", f"{got_xid:#010x}", rfc="5531 9")
    if message_type != MessageType.REPLY:
        raise DecodeError("msg_type", 4, "REPLY", str(message_type), rfc="5531 9")
    if reply_stat != ReplyStat.MSG_ACCEPTED:
        return False
    flavor = dec.u32("verifier flavor")
    length = dec.count(AUTH_BODY_MAX, "verifier")
    body = bytes(dec.view(length + padding(length), "verifier")[:length])
    dec.u32("accept_stat")
    return flavor == AuthFlavor.AUTH_NONE and body == _STARTTLS


def is_probe(message: Buffer) -> bool:
    """Returns whether a message is a call of RPC version 2 with a credential AUTH_TLS; False for any other octets."""
    if len(message) < _SEVEN.size:
        return False
    words = _SEVEN.unpack_from(message, 0)
    found: bool = words[1] == MessageType.CALL and words[2] == RPC_VERSION and words[6] == AuthFlavor.AUTH_TLS
    return found


class ProbeAnswer(NamedTuple):
    """The encoded reply to a call with AUTH_TLS, and whether a TLS handshake begins after it."""

    reply: bytes
    begins: bool


def answer_probe(message: Buffer, dispatcher: Dispatcher) -> ProbeAnswer:
    """Returns the reply to a call with AUTH_TLS on a connection without TLS, and whether TLS follows (RFC 9289 4.1).

    An accepted reply has the verifier STARTTLS, also where the program is not offered. A call that breaks the rules of
    the probe gets a denial.

    Args:
        message: the call.
        dispatcher: makes the reply to procedure 0 of the program.

    Raises:
        DecodeError: the message is no call that can be decoded, or has arguments.
    """
    dec = Decoder(message)
    try:
        header = decode_call(dec)
    except CallRefused as refused:
        return ProbeAnswer(bytes(refused.reply), begins=False)
    if header.procedure != 0 or header.credential.body:
        return ProbeAnswer(_denied(header.xid, AuthStat.AUTH_BADCRED), begins=False)
    if header.verifier != NO_AUTH:
        return ProbeAnswer(_denied(header.xid, AuthStat.AUTH_BADVERF), begins=False)
    dec.done("probe for TLS")
    reply = bytes(dispatcher.null_reply(header.xid, header.program, header.version).reduced)
    verifier = _TWO.pack(AuthFlavor.AUTH_NONE, len(_STARTTLS)) + _STARTTLS
    return ProbeAnswer(reply[:_VERIFIER_AT] + verifier + reply[_VERIFIER_AT + _TWO.size :], begins=True)


def refuse_in_clear(message: Buffer) -> bytes | None:
    """Returns the encoded reply that denies a call on a connection without TLS (AUTH_TOOWEAK).

    Returns None if `message` is no call.
    """
    if len(message) < _TWO.size or _TWO.unpack_from(message, 0)[1] != MessageType.CALL:
        return None
    return _denied(_TWO.unpack_from(message, 0)[0], AuthStat.AUTH_TOOWEAK)


def _denied(xid: int, stat: AuthStat) -> bytes:
    enc = Encoder()
    encode_auth_error(enc, xid, stat)
    return bytes(enc.reduced)
