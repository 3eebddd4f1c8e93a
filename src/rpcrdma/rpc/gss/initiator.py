"""The client's side of RPCSEC_GSS: calls that make a context, and calls under it (RFC 2203 sections 5.2 and 5.3).

A call is encoded anew for each transmission, since each has a sequence number of its own. A reply is taken if its
verifier is the checksum of the number that was sent last.

The uses of a context by `ProtectedCall` follow one another (`ContextTurns`). A long call is sealed before it is sent,
and a long reply is opened after the connection has taken it: `decode` returns an `UnopenedReply`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma.rpc.auth import AuthFlavor, OpaqueAuth
from rpcrdma.rpc.calling import ReplyDecoder, ResultDecoder, wrong_arguments
from rpcrdma.rpc.gss.bodies import CONTENT_AT, body_octets_max, decode_body, encode_body
from rpcrdma.rpc.gss.context_turns import ContextTurns
from rpcrdma.rpc.gss.flavors import GssService
from rpcrdma.rpc.gss.mechanism import GssContext, GssFailure
from rpcrdma.rpc.gss.messages import (
    GSS_VERSION,
    SEQUENCE_MAX,
    GssCredential,
    GssProcedure,
    InitResult,
    decode_init_result,
    encode_gss_credential,
    encode_token,
)
from rpcrdma.rpc.message import auth_octets, call_tail, decode_reply
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, padding

__all__ = [
    "CallProtection",
    "ContextCall",
    "GssSession",
    "ProtectedCall",
    "UnopenedReply",
    "UnverifiedReply",
    "check_verifier",
]

_NO_VERIFIER_OCTETS = 8


class UnverifiedReply(RemoteProtocolError):
    """A reply lacks the server's fitting checksum: it or the call was changed on its way, or the context has ended."""


class GssSession(NamedTuple):
    """A finished context at the client, and the sequence numbers that all calls under it share."""

    gss: GssContext
    handle: bytes
    mic_octets_max: int
    """The most octets of a checksum of the mechanism."""
    wrap_octets_max: int
    """The most octets that encryption by the mechanism adds."""
    numbers: list[int]
    """A list whose only item is the sequence number used last."""
    turns: ContextTurns = ContextTurns()
    """Serializes the uses of the context. The default runs each one immediately."""

    def next_number(self) -> int:
        """Returns the next sequence number, for one transmission, and marks it as used; does not check `exhausted`."""
        self.numbers[0] += 1
        return self.numbers[0]

    @property
    def exhausted(self) -> bool:
        """Whether no sequence numbers are left."""
        return self.numbers[0] >= SEQUENCE_MAX - 1


class UnopenedReply(NamedTuple):
    """A reply that is not yet verified or decrypted, since that takes long or the context is in use.

    The receiver has the context's `turns` run `open`, then calls `ProtectedCall.result` with the decoder returned.
    """

    call: ProtectedCall
    message: Decoder
    """The message, in memory of its own."""
    xid: int

    def open(self) -> Decoder:
        """Verifies and, under privacy, decrypts the reply; returns a decoder at the results.

        Run this by `GssSession.turns.use`, which runs one use of the context at a time.

        Raises:
            RpcError: the responder answered with an error.
            UnverifiedReply: a checksum does not fit, or the context has ended.
            DecodeError: the reply does not decode.
        """
        return self.call.open(self.message, self.xid)


class ProtectedCall:
    """One call of a client under a finished context, in all its transmissions.

    Args:
        session: the context.
        service: the protection of arguments and results.
        ends: whether the call destroys the context.
    """

    __slots__ = ("_content", "_procedure", "_sealed", "_sequence", "_service", "session", "was_in_use")

    def __init__(self, session: GssSession, service: GssService, *, ends: bool = False) -> None:
        self.session = session
        self._service = service
        self._procedure = GssProcedure.DESTROY if ends else GssProcedure.DATA
        self._sequence = 0
        self._content: bytes | None = None
        self._sealed: Payload | None = None
        self.was_in_use = False
        """Whether `encode_again` returned None because a thread used the context."""

    @property
    def _has_body(self) -> bool:
        return self._service is not GssService.NONE and self._procedure is GssProcedure.DATA

    def begin(self, procedure: Procedure[Any, Any], args: Any) -> int:
        """Encodes the arguments for the next `seal` or `encode`, which protect them; returns their length in octets.

        Under the service NONE, and for a call that destroys the context, nothing is encoded, and the result is 0.

        Raises:
            LocalProtocolError, TypeError: the arguments do not have the procedure's type.
            OutOfMemory: there is no memory for the encoded arguments.
        """
        if self._has_body:
            inner = Encoder()
            try:
                procedure.encode_args(inner, args)
            except (AttributeError, TypeError) as error:
                raise wrong_arguments(procedure, args, error) from None
            self._content = inner.joined()
        return len(self._content or b"")

    def seal(self, xid: int, procedure: Procedure[Any, Any]) -> None:
        """Protects the arguments of `begin` under a new sequence number; the next `encode` returns the call made here.

        Run this by `GssSession.turns.use`, which runs one use of the context at a time. Where `begin` encodes nothing,
        the call has the arguments None.

        Raises:
            LocalProtocolError, TypeError: `begin` has encoded nothing, and the procedure does not take None.
            GssFailure: the context has ended.
        """
        self._sealed = self._encoded(xid, procedure, None)

    def encode(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        """Returns the call that `seal` has made, once after each `seal`; otherwise one with a new sequence number.

        Raises:
            LocalProtocolError, TypeError: the arguments do not have the procedure's type.
            OutOfMemory: there is no memory for the encoded arguments.
            GssFailure: the context has ended.
        """
        sealed, self._sealed = self._sealed, None
        if sealed is not None:
            return sealed
        if self._content is None:
            self.begin(procedure, args)
        return self._encoded(xid, procedure, args)

    def encode_again(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload | None:
        """Returns the call with a new sequence number, for a further transmission; None if it cannot be made.

        None: a thread uses the context (then `was_in_use` is True), the context has ended, there is no memory, or the
        caller has changed the arguments since, so that they no longer have the procedure's type.
        """
        self.was_in_use = self.session.turns.taken
        if self.was_in_use:
            return None
        try:
            return self.encode(xid, procedure, args)
        except (GssFailure, LocalProtocolError, TypeError, MemoryError):
            # The call fails with its refusal: raised here, the error would end the connection.
            return None

    def _encoded(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        session, service = self.session, self._service
        self._sequence = number = session.next_number()
        sent = GssCredential(GSS_VERSION, self._procedure, number, service, session.handle)
        enc = Encoder()
        enc.reduced += _signed_header(xid, procedure, sent)
        verifier = OpaqueAuth(AuthFlavor.RPCSEC_GSS, session.gss.mic(bytes(enc.reduced)))
        enc.reduced += auth_octets(verifier, "verifier")
        content, self._content = self._content, None
        if content is None:
            try:
                procedure.encode_args(enc, args)
            except (AttributeError, TypeError) as error:
                raise wrong_arguments(procedure, args, error) from None
        else:
            encode_body(enc, session.gss, service, number, content)
        return enc

    def decode(self, dec: Decoder, xid: int, procedure: Procedure[Any, Any], into: Sequence[memoryview | None]) -> Any:
        """Decodes and returns the result in a whole reply.

        Returns an `UnopenedReply` instead if a thread uses the context, or if there is a thread to open the reply and
        the reply has over GSS_SHORT_OCTETS octets under integrity or privacy.

        Args:
            dec: the decoder, at the start of the reply.
            xid: the XID of the call.
            procedure: the procedure.
            into: for each bulk result in order its buffer or None; no effect under the service NONE (`dec` fills them).

        Raises:
            RpcError: the responder answered with an error.
            UnverifiedReply: a checksum does not fit, or the context has ended.
            DecodeError: the reply does not decode.
        """
        if self.session.turns.postpones(dec.end - dec.pos if self._has_body else 0):
            message = bytes(memoryview(dec.data)[dec.pos : dec.end])
            return UnopenedReply(self, ReplyDecoder(message, placed=dec.placed), xid)
        return self.result(self.open(dec, xid), procedure, into)

    def open(self, dec: Decoder, xid: int) -> Decoder:
        """Verifies and, under privacy, decrypts the reply to call `xid`; returns a decoder for the method `result`.

        Raises:
            RpcError: the responder answered with an error.
            UnverifiedReply: a checksum does not fit, or the context has ended.
            DecodeError: the reply does not decode.
        """
        decode_reply(dec, xid, self._check)
        if not self._has_body:
            return dec
        try:
            data = decode_body(dec, self._service).open(self.session.gss, self._sequence)
        except GssFailure as failure:
            raise _unverified(failure) from None
        inner = ReplyDecoder(data)
        inner.pos = CONTENT_AT
        return inner

    def result(self, dec: Decoder, procedure: Procedure[Any, Any], into: Sequence[memoryview | None]) -> Any:
        """Decodes and returns the result in a reply that `open` has opened.

        Args:
            dec: the decoder that `open` returned.
            procedure: the procedure.
            into: for each bulk result in order its buffer or None; no effect under the service NONE (`dec` fills them).

        Raises:
            DecodeError: the result does not decode.
        """
        if into and self._has_body:
            at = dec.pos
            dec = ResultDecoder(dec.data, 0, None, into)
            dec.pos = at
        result = procedure.decode_result(dec)
        dec.done(procedure.name)
        return result

    def bound(self, results: ReplyBound) -> ReplyBound:
        """Returns the bound on the protected results and verifier, for the bound on the plain results, `results`.

        Under integrity and privacy the bound returned has no items, since nothing can be placed directly.
        """
        session = self.session
        verifier = session.mic_octets_max + padding(session.mic_octets_max)
        if self._service is GssService.NONE:
            return ReplyBound(results.results + verifier, results.items)
        content = results.results + sum(item + padding(item) for item in results.items)
        whole = body_octets_max(self._service, content, session.mic_octets_max, session.wrap_octets_max)
        return ReplyBound(verifier + whole)

    def _check(self, verifier: OpaqueAuth) -> None:
        check_verifier(self.session.gss, verifier, self._sequence)


class ContextCall:
    """A call that makes a context, or continues making it; procedure 0 of the program.

    Args:
        token: the token for the server.
        handle: the handle that the server gave, to continue; None: to begin.
    """

    __slots__ = ("_handle", "_token", "verifier")

    def __init__(self, token: bytes, handle: bytes | None = None) -> None:
        self._token = token
        self._handle = handle
        self.verifier = OpaqueAuth(AuthFlavor.AUTH_NONE, b"")
        """The verifier of the reply, to be checked when the context is finished; empty until then."""

    def encode(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        """Encodes the whole call with the token as arguments: `args` is None, `procedure` the program's procedure 0.

        Raises LocalProtocolError if the token or the handle is too long.
        """
        assert args is None
        kind = GssProcedure.INIT if self._handle is None else GssProcedure.CONTINUE_INIT
        # The service means nothing here; servers look at it all the same.
        sent = GssCredential(GSS_VERSION, kind, 0, GssService.NONE, self._handle or b"")
        enc = Encoder()
        enc.reduced += _signed_header(xid, procedure, sent) + bytes(_NO_VERIFIER_OCTETS)
        encode_token(enc, self._token)
        return enc

    def encode_again(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        """Encodes the same call for a further transmission: `args` is None, `procedure` the program's procedure 0.

        Raises LocalProtocolError if the token or the handle is too long.
        """
        return self.encode(xid, procedure, args)

    def decode(
        self, dec: Decoder, xid: int, procedure: Procedure[Any, Any], into: Sequence[memoryview | None]
    ) -> InitResult:
        """Decodes rpc_gss_init_res in a whole reply to call `xid`; sets attribute `verifier` to the reply's verifier.

        `into` must be empty.

        Raises:
            RpcError: the responder answered with an error.
            DecodeError: the reply does not decode.
        """
        assert not into
        decode_reply(dec, xid, self._note)
        result = decode_init_result(dec)
        dec.done(procedure.name)
        return result

    def bound(self, results: ReplyBound) -> ReplyBound:
        """Returns the bound of `results` plus 2048 octets for handle, status, token and verifier; without items."""
        return ReplyBound(results.results + _CONTEXT_REPLY_OCTETS)

    def _note(self, verifier: OpaqueAuth) -> None:
        self.verifier = verifier


CallProtection: TypeAlias = ProtectedCall | ContextCall
"""Makes and reads the RPC messages of one call under RPCSEC_GSS, at the client."""

_CONTEXT_REPLY_OCTETS = 2048
"""The reply to a call that makes a context: handle, status and a verifier of 400 octets each at most, and a token,
which has some 150 octets for Kerberos."""


def check_verifier(gss: GssContext, verifier: OpaqueAuth, number: int) -> None:
    """Checks that the verifier of a reply is the server's checksum of a number.

    Args:
        gss: the client's end of the context.
        verifier: the verifier.
        number: the sequence number of the call or, for the reply that finishes a context, the length of the window.

    Raises:
        UnverifiedReply: the verifier is of another flavor, its checksum does not fit, or the context has ended.
    """
    if verifier.flavor != AuthFlavor.RPCSEC_GSS:
        raise UnverifiedReply(
            f"the reply has a verifier of flavor {verifier.flavor}, not of RPCSEC_GSS; a server without it, or someone "
            "on the network, has answered",
            rfc="2203 5.3.3.2",
        )
    try:
        gss.verify(number.to_bytes(4, "big"), verifier.body)
    except GssFailure as failure:
        raise _unverified(failure) from None


def _signed_header(xid: int, procedure: Procedure[Any, Any], sent: GssCredential) -> bytes:
    """Returns the encoded header of a call up to the end of its credential, the octets that the verifier covers.

    Raises:
        LocalProtocolError: the handle is too long, or a number does not fit.
    """
    enc = Encoder()
    encode_gss_credential(enc, sent)
    credential = OpaqueAuth(AuthFlavor.RPCSEC_GSS, bytes(enc.reduced))
    tail = call_tail(procedure.program, procedure.version, procedure.number, credential)
    return xid.to_bytes(4, "big") + tail[:-_NO_VERIFIER_OCTETS]


def _unverified(failure: GssFailure) -> UnverifiedReply:
    return UnverifiedReply(
        f"a checksum of the server's reply does not fit ({failure}); someone on the network may have changed it",
        rfc="2203 5.3.3.2",
    )
