"""The protection of one call, as connections and dispatchers see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rpcrdma.rpc.auth import AuthStat, Credential
from rpcrdma.rpc.gss.context_turns import ContextTurns
from rpcrdma.rpc.message import CallHeader
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["CallDropped", "CallOpener", "CallProtection", "CallWaits", "CredentialRefused", "OpenedCall"]


class CredentialRefused(Exception):
    """The credential or verifier of a call fails a check; the server answers with AUTH_ERROR and `stat`."""

    def __init__(self, stat: AuthStat) -> None:
        super().__init__(stat.name)
        self.stat = stat


class CallDropped(Exception):
    """The server does not answer the call: its sequence number was used before, or is below the window."""


class CallWaits(Exception):
    """The call's RPCSEC_GSS context is in use, or the work on the call takes long; open the call again after the work.

    Args:
        turns: runs one use of the context at a time: call `turns.use(work, done, octets=octets)`, and open the call
            again in your function `done`, which gets the outcome of `work`.
        work: removes the protection of the arguments; does nothing if the call only waits for other uses.
        octets: the octets that `work` checksums or decrypts; 0 if it does nothing.
    """

    def __init__(self, turns: ContextTurns, work: Callable[[], None], octets: int) -> None:
        super().__init__("the context is in use")
        self.turns = turns
        self.work = work
        self.octets = octets


class CallProtection(Protocol):
    """Makes and reads the RPC messages of one call under RPCSEC_GSS, at the client."""

    def encode(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        """Encodes the whole call for one transmission, with a sequence number of its own unless it makes a context.

        Raises:
            LocalProtocolError, TypeError: the arguments do not have the procedure's type.
            GssFailure: the context has ended.
        """

    def encode_again(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload | None:
        """Encodes the call for a further transmission on the connection, as `encode`.

        The errors of `encode` are raised, but for GssFailure. Returns None if the RPCSEC_GSS context is in use by a
        thread, or has ended.
        """

    def decode(self, dec: Decoder, xid: int, procedure: Procedure[Any, Any], into: Sequence[memoryview | None]) -> Any:
        """Decodes the result in a whole reply; may return an `UnopenedReply` instead, which is decoded later.

        Args:
            dec: the decoder, at the start of the reply.
            xid: the XID of the call.
            procedure: the procedure.
            into: for each bulk result in order, the buffer to which it is copied under integrity or privacy; None for
                memory of its own.

        Raises:
            RpcError: the responder answered with an error.
            UnverifiedReply: a checksum does not fit, or the context has ended.
            DecodeError: the reply does not decode.
        """

    def bound(self, results: ReplyBound) -> ReplyBound:
        """Returns the bound on results with verifier and protection, for the bound on the plain results, `results`."""


class OpenedCall(Protocol):
    """A call under RPCSEC_GSS at the server, whose header passed all checks.

    `credential` is the caller. The decoder `arguments` is positioned at the arguments, `skipped` octets behind its
    start: behind the header or, once `open` has removed protection, behind the sequence number.
    """

    credential: Credential
    arguments: Decoder
    skipped: int
    turns: ContextTurns
    """The turns of the call's context, in which `protect` has to run."""

    @property
    def makes_context(self) -> tuple[Procedure[Any, Any], Callable[[Any, Any], Any]] | None:
        """The procedure and the handler that answer a call that makes a context; None for other calls."""

    def open(self) -> None:
        """Removes the protection of the arguments: `arguments` becomes the decoder of the plain arguments.

        Raises:
            CallWaits: this takes long, or the context is in use; pass the exception's `work` to its `turns.use`, and
                call this again when that is done.
            ReducedIneligibleItem: the body is whole, but a chunk came with it.
            DecodeError: the body does not decode (part of it may be in a chunk), was changed, or has another call's
                sequence number; or the context has ended.
        """

    def protect(self, reply: Payload) -> Payload:
        """Returns the reply with its verifier and its results protected by the service; a denied reply stays unchanged.

        For a call that makes or destroys a context, this also keeps or removes the context at the server; the reply
        gets no verifier while the context is unfinished. If the context has expired, the result is a denial. Callers
        have `turns.use` run this method, in a thread if the reply is long, so that uses of the context do not overlap.
        """

    @property
    def seals(self) -> bool:
        """Whether `protect` makes one item of all results, bulk items included, as under integrity and privacy."""

    def content_octets_max(self, octets: int) -> int:
        """Returns the most octets of a whole reply that `protect` makes at most `octets` long; < 0: none fits.

        The whole reply is the argument of `protect`: the RPC header with an empty verifier, and the plain results.
        """

    def octets_sealed(self, reply: Payload) -> int:
        """Returns the octets that `protect` checksums or encrypts: those of the whole reply if `seals`, else 0."""


class CallOpener(Protocol):
    """Checks and opens the calls of clients under RPCSEC_GSS at a server; keeps the clients' contexts."""

    def open(self, header: CallHeader, signed: bytes, decoder: Decoder, peer: str) -> OpenedCall:
        """Checks the header of a call under RPCSEC_GSS, and then uses up its sequence number.

        Returns the call, with `arguments` still protected. An exception does not use up the number.

        Args:
            header: the decoded header.
            signed: the octets of the header up to the credential's end.
            decoder: the call's decoder, behind the header.
            peer: the caller's network address without port.

        Raises:
            CredentialRefused: a check has failed.
            CallDropped: the call is a replay, or too old.
            CallWaits: the context is in use; pass the exception's `work` to its `turns.use`, and call this again when
                that is done.
        """
