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
    """The call is answered with this status of AUTH_ERROR."""

    def __init__(self, stat: AuthStat) -> None:
        super().__init__(stat.name)
        self.stat = stat


class CallDropped(Exception):
    """The call is not answered: its sequence number was used before, or is below the window (OR-12)."""


class CallWaits(Exception):
    """The call is to be opened again after a use of its context: `work()`, which takes time for `octets`."""

    def __init__(self, turns: ContextTurns, work: Callable[[], None], octets: int) -> None:
        super().__init__("the context is in use")
        self.turns = turns
        self.work = work
        self.octets = octets


class CallProtection(Protocol):
    """Makes and reads the messages of one call in place of `CallEncoder` and `decode_result`."""

    def encode(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload:
        """Encodes the whole call, for one transmission.

        Raises:
            LocalProtocolError: the arguments do not have the procedure's type.
            GssFailure: the context has ended.
        """

    def encode_again(self, xid: int, procedure: Procedure[Any, Any], args: Any) -> Payload | None:
        """Encodes the whole call for a further transmission on the same connection; None: impossible at present."""

    def decode(self, dec: Decoder, xid: int, procedure: Procedure[Any, Any], into: Sequence[memoryview | None]) -> Any:
        """Decodes the result in a whole reply; bulk results under integrity or privacy are copied to `into`.

        Raises:
            RpcError: the responder answered with an error.
            UnverifiedReply: a checksum does not fit.
            DecodeError: the reply does not decode.
        """

    def bound(self, results: ReplyBound) -> ReplyBound:
        """Returns how large the reply gets with its verifier and protection, for results of a given size."""


class OpenedCall(Protocol):
    """A call whose header passed all checks.

    `arguments` stands `skipped` octets after its start, before the arguments: behind the header, or behind the sequence
    number in a body.
    """

    credential: Credential
    arguments: Decoder
    skipped: int
    turns: ContextTurns
    """Those at its context, for `protect`."""

    @property
    def makes_context(self) -> tuple[Procedure[Any, Any], Callable[[Any, Any], Any]] | None:
        """The procedure and the handler of a call that makes a context; None for others."""

    def open(self) -> None:
        """Removes the protection of the arguments; `arguments` is before them afterwards.

        Raises:
            CallWaits: that takes long: the work does it, and then this is called again.
            ReducedIneligibleItem: part of the body came in a chunk.
            DecodeError: the body does not decode, was changed, or is that of another call.
        """

    def protect(self, reply: Payload) -> Payload:
        """Returns the reply with its verifier and its results protected by the service; refusals of RPC stay unchanged.

        May run in a thread, in its turn.
        """

    @property
    def seals(self) -> bool:
        """Whether results are sealed into one item, bulk items included."""

    def content_octets_max(self, octets: int) -> int:
        """Returns the most octets of an unprotected reply whose protected form has at most `octets`.

        May be negative.
        """

    def octets_sealed(self, reply: Payload) -> int:
        """Returns the octets for which `protect` takes time."""


class CallOpener(Protocol):
    """Checks and opens the calls of clients under RPCSEC_GSS, with the clients' contexts."""

    def open(self, header: CallHeader, signed: bytes, decoder: Decoder, peer: str) -> OpenedCall:
        """Checks the header of a call, behind which `decoder` stands.

        `signed` are the octets of the header up to the credential's end, `peer` is the caller's address.

        Raises:
            CredentialRefused: a check has failed.
            CallDropped: the call is a replay, or too old.
            CallWaits: the context is in use.
        """
