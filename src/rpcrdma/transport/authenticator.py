"""The interface of host authentication between an endpoint and a mechanism."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from rpcrdma.rpc.host_identity import HostIdentity

__all__ = ["TAKES_PART", "Authenticator", "AuthenticatorSource", "HostPolicy"]


class HostPolicy(enum.Enum):
    """One side's policy for the authentication of hosts."""

    OFF = "off"
    OPTIONAL = "optional"
    """Authenticate if the peer takes part; then it must succeed."""
    REQUIRED = "required"


TAKES_PART: Mapping[tuple[HostPolicy, bool], bool | None] = {
    (HostPolicy.OFF, False): False,
    (HostPolicy.OFF, True): False,
    (HostPolicy.OPTIONAL, False): False,
    (HostPolicy.OPTIONAL, True): True,
    (HostPolicy.REQUIRED, False): None,
    (HostPolicy.REQUIRED, True): True,
}
"""Decides whether the hosts authenticate, from this side's policy and the peer's announcement. None: the connection
ends."""


class Authenticator(Protocol):
    """One side of host authentication on one connection. A value is the content of one HOSTAUTH property (`opaque<>`).

    Every method may raise `HostAuthenticationFailed`: then its `alert`, unless empty, is the last value to send, and
    the connection ends. Octets of the peer raise no other exception.
    """

    def announce(self) -> bytes | None:
        """Returns the value for a client's first message; None for no HOSTAUTH."""

    def begin(self, announced: bytes | None) -> bytes | None:
        """Handles the value in the peer's first message; None for no value, or no properties at all.

        Returns the value to send, or None: a server sends it with its own properties, a client in a message of its own.
        """

    def receive(self, value: bytes) -> bytes | None:
        """Handles a further value; returns the next one to send, or None.

        Called after the end as well: a peer that continues, or withdraws, causes an error.
        """

    @property
    def required(self) -> bool:
        """Whether a connection without host authentication is refused."""

    @property
    def finished(self) -> bool:
        """Whether calls may be made after the last returned value has been sent."""

    @property
    def peer(self) -> HostIdentity | None:
        """The authenticated host of the peer; None before the end, and without authentication."""


AuthenticatorSource: TypeAlias = Callable[[], Authenticator]
"""Creates the authenticator of a connection."""
