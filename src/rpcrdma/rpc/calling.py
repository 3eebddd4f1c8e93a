"""The requester's half of a call: its XID, its message made of a procedure and arguments, the result in its reply."""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from typing import Any, TypeVar

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.rpc.auth import AuthNone, Credential, opaque_auth
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS, call_tail, decode_reply
from rpcrdma.rpc.program import Procedure
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import PADDING_MAX, Decoder, Encoder, Payload, PlacedInOrder

__all__ = ["CallEncoder", "ReplyDecoder", "ResultDecoder", "XidSource", "decode_result", "wrong_arguments"]

A = TypeVar("A")
R = TypeVar("R")

_U32 = struct.Struct(">I")
_SIX = struct.Struct(">6I")
_NO_WORDS = (0,) * 6
_TAILS_KEPT = 512
"""Headers kept by procedure. A program may derive procedures without end, one for each call that has its own bound."""


class XidSource:
    """Numbers the calls of one requester: XIDs rise from `first`, which should be random, and wrap at 2^32.

    No two unfinished calls have the same XID. `taken` maps the XID of each unfinished call to the argument of `take`;
    the caller of `take` deletes the XID from `taken` when the call has been answered, has failed or was abandoned.
    `kept` has the XIDs that the connection still keeps, such as those of abandoned calls until their reply.
    """

    __slots__ = ("_next", "kept", "taken")

    def __init__(self, first: int) -> None:
        self._next = first & 0xFFFFFFFF
        self.taken: dict[int, Any] = {}
        self.kept: Container[int] = ()

    def take(self, call: object = None) -> int:
        """Returns an XID that is in neither `taken` nor `kept`, and enters it in `taken` with the value `call`."""
        xid = self._next
        while xid in self.taken or xid in self.kept:
            xid = (xid + 1) & 0xFFFFFFFF
        self._next = (xid + 1) & 0xFFFFFFFF
        self.taken[xid] = call
        return xid


def wrong_arguments(procedure: Procedure[Any, Any], args: object, error: Exception) -> Exception:
    """Returns the exception to raise for a call whose arguments could not be encoded because of `error`.

    The result is a TypeError if `error` is one, else a LocalProtocolError. The text names the procedure, and the types
    that it takes and that `args` has, if they are known to differ.
    """
    given, wanted = type(args).__name__, getattr(procedure.encode_args, "__annotations__", {}).get("value")
    text = f"{procedure.name}: {error}" + (f"; it takes {wanted}, not {given}" if wanted not in {None, given} else "")
    return TypeError(text) if isinstance(error, TypeError) else LocalProtocolError(text)


class CallEncoder:
    """Encodes the calls of a requester with one credential (None: AUTH_NONE); each procedure's header is made once.

    Raises:
        LocalProtocolError: a field of an `AuthSys` is out of its bounds, or the credential is an `AuthGss`.
    """

    __slots__ = ("_auth", "_tails", "credential")

    def __init__(self, credential: Credential | None = None) -> None:
        self.credential = AuthNone() if credential is None else credential
        self._auth = opaque_auth(self.credential)
        self._tails: dict[Procedure[Any, Any], bytes] = {}

    def encode(self, xid: int, procedure: Procedure[A, Any], args: A) -> Payload:
        """Encodes the whole RPC message of a call: header and arguments, whose bulk items stay apart (`Payload.items`).

        Raises:
            LocalProtocolError: the arguments lack a field of the procedure's type, or a value is over its bound or
                does not fit its field; or the program's version is 0, or `xid` or one of the procedure's numbers is no
                unsigned 32-bit integer.
            TypeError: Python refuses the type of a value in the arguments, such as str for opaque data.
        """
        try:
            tail = self._tails[procedure]
        except KeyError:
            if len(self._tails) >= _TAILS_KEPT:
                self._tails.clear()
            tail = self._tails[procedure] = self._tail(procedure)
        enc = Encoder()
        try:
            enc.reduced += _U32.pack(xid) + tail
        except struct.error:
            raise LocalProtocolError(f"xid: {xid!r} is not an unsigned 32-bit integer") from None
        try:
            procedure.encode_args(enc, args)
        except (AttributeError, TypeError) as error:
            raise wrong_arguments(procedure, args, error) from None
        return enc

    def _tail(self, procedure: Procedure[Any, Any]) -> bytes:
        """Returns the encoded call header after the XID, which all calls of a procedure by this encoder share.

        Raises:
            LocalProtocolError: the program's version is 0, or a number does not fit into 32 bits.
        """
        if procedure.version == 0:
            raise LocalProtocolError(f"{procedure.name}: no program has a version 0 (RFC 5531 section 8.1)")
        return call_tail(procedure.program, procedure.version, procedure.number, self._auth)


class ReplyDecoder(Decoder):
    """Decodes a reply; tolerates up to three octets of padding that are missing or superfluous at the reply's end.

    nfs-ganesha pads data in this way. The length word of the last item bounds its data, so no data is lost. After such
    a reply `pos` differs from `end`.
    """

    __slots__ = ()

    def skip_padding(self, length: int, field: str) -> None:  # noqa: ARG002 - the signature is `Decoder`'s
        # Behind the end of the data each further field is refused.
        self.pos += -length & 3

    def done(self, what: str) -> None:
        if abs(self.pos - self.end) > PADDING_MAX:
            super().done(what)
        elif self.placed is not None:
            self.placed.done()


class ResultDecoder(ReplyDecoder):
    """Decodes a reply whose caller gave buffers for bulk results; copies each result there unless it was placed there.

    Args:
        data: the message.
        start: the offset in `data` at which the message begins.
        placed: the items that the transport placed directly; None: all items are in the message.
        into: for each bulk result in order its buffer, or None for memory of its own; further results get such memory.
            A result longer than its buffer is a `DecodeError`.
    """

    __slots__ = ("_into", "_taken")

    def __init__(
        self, data: Buffer, start: int, placed: PlacedInOrder | None, into: Sequence[memoryview | None]
    ) -> None:
        super().__init__(data, start, placed=placed)
        self._into = into
        self._taken = 0

    def bulk(self, limit: int, field: str) -> memoryview:
        before = self.pos
        data = super().bulk(limit, field)
        index = self._taken
        self._taken = index + 1
        if index >= len(self._into):
            return data
        target = self._into[index]
        if target is None:
            return data
        # The length word alone was read: the data were placed, into that buffer or into a receive buffer.
        if self.pos == before + 4 and data.obj is target.obj:
            return data
        if data.nbytes > target.nbytes:
            room = f"at most {target.nbytes} octets, which is the size of the buffer given by into="
            raise DecodeError(field, before - self.start, room, f"{data.nbytes}")
        result = target[: data.nbytes]
        result[:] = data
        return result


def decode_result(dec: Decoder, xid: int, procedure: Procedure[Any, R]) -> R:
    """Decodes the result in a whole reply to call `xid`; `dec` is at the start of the reply's header.

    Raises:
        RpcError: the responder answered with an error, for each of which there is a subclass.
        ReducedIneligibleItem: the transport placed an item that the result does not have.
        DecodeError: the reply does not decode, answers another call or has octets after the result.
    """
    start = dec.pos
    words = _SIX.unpack_from(dec.data, start) if start + REPLY_HEADER_OCTETS <= dec.end else _NO_WORDS
    # Any flavor of verifier is accepted: with an empty body it does not move the results.
    if words[0] == xid and words[1] == 1 and not (words[2] or words[4] or words[5]):
        dec.pos = start + REPLY_HEADER_OCTETS
    else:
        decode_reply(dec, xid)
    result = procedure.decode_result(dec)
    if dec.pos != dec.end or dec.placed is not None:
        dec.done(procedure.name)
    return result
