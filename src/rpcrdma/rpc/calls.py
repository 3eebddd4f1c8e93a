"""The requester's half of a call: from a procedure and its arguments to a message, from a reply to the result."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.auth import AuthNone, Credential, opaque_auth
from rpcrdma.rpc.message import call_tail, decode_reply
from rpcrdma.rpc.program import Procedure
from rpcrdma.xdr.codec import Decoder, Encoder, Payload

__all__ = ["CallEncoder", "decode_result"]

A = TypeVar("A")
R = TypeVar("R")

_U32 = struct.Struct(">I")


class CallEncoder:
    """Encodes calls with one credential; the header costs one concatenation from the second call on.

    Raises:
        LocalProtocolError: the credential cannot be encoded.
    """

    __slots__ = ("_auth", "_tails", "credential")

    def __init__(self, credential: Credential | None = None) -> None:
        self.credential = AuthNone() if credential is None else credential
        self._auth = opaque_auth(self.credential)
        self._tails: dict[Procedure[Any, Any], bytes] = {}

    @property
    def credential_octets(self) -> int:
        """Octets that the credential adds to each call: its padded body."""
        return (len(self._auth.body) + 3) & ~3

    def encode(self, xid: int, procedure: Procedure[A, Any], args: A) -> Payload:
        """The whole call.

        Raises:
            LocalProtocolError: the arguments do not have the procedure's type.
        """
        tail = self._tails.get(procedure)
        if tail is None:
            if procedure.version == 0:
                raise LocalProtocolError(f"{procedure.name}: no program has a version 0 (RFC 5531 section 8.1)")
            tail = call_tail(procedure.program, procedure.version, procedure.number, self._auth)
            self._tails[procedure] = tail
        enc = Encoder()
        enc.out += _U32.pack(xid) + tail
        procedure.encode_args(enc, args)
        return enc.finish()


def decode_result(dec: Decoder, xid: int, procedure: Procedure[Any, R]) -> R:
    """The result in a whole reply to call `xid`.

    Raises:
        RpcError: the responder answered with an error; see `rpcrdma.rpc.errors`.
        ReducedIneligibleItem: an item was placed that the result does not have.
        DecodeError: the reply does not decode, answers another call or goes on after the result.
    """
    decode_reply(dec, xid)
    result = procedure.decode_result(dec)
    dec.done(procedure.name)
    return result
