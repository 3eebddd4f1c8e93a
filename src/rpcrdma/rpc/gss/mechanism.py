"""A mechanism of the GSS-API as RPCSEC_GSS needs it: Kerberos, or another one in tests."""

from __future__ import annotations

import enum
from typing import Protocol

from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.auth import LocalUser

__all__ = ["GssContext", "GssFailure", "GssMajor", "GssMechanism"]


class GssMajor(enum.IntEnum):
    """Values of gss_major on the wire that this library makes or distinguishes (RFC 2203 appendix A)."""

    COMPLETE = 0
    CONTINUE_NEEDED = 1
    CONTEXT_EXPIRED = 0xC0000
    FAILURE = 0xD0000


class GssFailure(RpcRdmaError):
    """The GSS-API mechanism refuses; the message names cause and remedy for people.

    Args:
        message: the message.
        major: gss_major of the failure, as in a reply.
        minor: gss_minor of the failure; only its lowest 32 bits are kept.
        token: the token that tells the peer about the failure; empty if there is none.
    """

    def __init__(self, message: str, *, major: int = GssMajor.FAILURE, minor: int = 0, token: bytes = b"") -> None:
        super().__init__(message)
        self.major = major
        self.minor = minor & 0xFFFFFFFF
        self.token = token


class GssContext(Protocol):
    """One end of a GSS-API security context, which `GssMechanism` makes; `step` and `user` may block.

    Replay detection and sequencing of the mechanism are off: RPCSEC_GSS has its own (RFC 2203 section 5.2.2).
    """

    @property
    def complete(self) -> bool:
        """Whether the set-up is finished at this end, so that `step` needs no more tokens."""

    @property
    def principal(self) -> str:
        """The client's proved principal; at the client, its own."""

    @property
    def user(self) -> LocalUser | None:
        """The local user for the principal; None for principals of services and unknown users."""

    @property
    def lifetime_s(self) -> float | None:
        """Seconds left until the context ends; None: it does not end by itself. Raises GssFailure if it has ended."""

    def step(self, token: bytes | None) -> bytes | None:
        """Continues the set-up with the peer's token; `token` is None for the first step of the initiator.

        Returns the token to send to the peer; None if the peer needs none.

        Raises:
            GssFailure: no context can be made.
        """

    def mic(self, data: bytes) -> bytes:
        """Returns a checksum (MIC) of `data` under the context's key, which only the two ends can make.

        Raises:
            GssFailure: the context has ended.
        """

    def verify(self, data: bytes, mic: bytes) -> None:
        """Checks that `mic` is the checksum that the peer's `GssContext.mic` makes of `data`.

        Raises:
            GssFailure: the checksum is wrong, or the context has ended.
        """

    def wrap(self, data: bytes) -> bytes:
        """Returns `data` encrypted and with a checksum, for the peer's `unwrap`.

        Raises:
            GssFailure: the context has ended.
        """

    def unwrap(self, data: bytes) -> bytes:
        """Returns the plain data in `data`, which the peer's `wrap` has made.

        Raises:
            GssFailure: the octets are not encrypted, were changed, or the context has ended.
        """


class GssMechanism(Protocol):
    """A GSS-API mechanism, such as Kerberos: makes the ends of security contexts. Methods may block if `blocks`."""

    mic_octets_max: int
    """The most octets of a checksum."""
    wrap_octets_max: int
    """The most octets that `GssContext.wrap` adds."""
    blocks: bool
    """Whether the methods below, and the steps of contexts, may block, so that they need a thread."""

    def check_keys(self) -> None:
        """Checks that this host has the key to accept contexts.

        Raises:
            GssFailure: there is no key.
        """

    def explained(self, major: int, minor: int, host: str) -> str:
        """Returns, for people, the cause and remedy of a failure with which a server answered.

        `major` and `minor` are gss_major and gss_minor of the answer. `host` is the server's host name; "" if unknown.
        """

    def check_ticket(self) -> None:
        """Checks that the user has a credential, such as a Kerberos ticket, for `initiate`.

        Raises:
            GssFailure: there is no credential.
        """

    def initiate(self, host: str) -> GssContext:
        """Returns the client's end of a new context with the server nfs@`host`; its `step` makes the first token.

        Raises:
            GssFailure: there is no credential.
        """

    def accept(self) -> GssContext:
        """Returns the server's end of a new context.

        Raises:
            GssFailure: there is no key.
        """
