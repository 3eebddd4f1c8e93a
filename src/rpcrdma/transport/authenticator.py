"""The interface of host authentication between an endpoint and a mechanism."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from rpcrdma.rpc.host_identity import HostIdentity

__all__ = ["TAKES_PART", "Authenticator", "AuthenticatorSource", "HostPolicy"]


class HostPolicy(enum.Enum):
    """The policy of one side for the mutual authentication of the hosts of a connection."""

    OFF = "off"
    OPTIONAL = "optional"
    """The hosts authenticate if the peer takes part; then a failure ends the connection."""
    REQUIRED = "required"


TAKES_PART: Mapping[tuple[HostPolicy, bool], bool | None] = {
    (HostPolicy.OFF, False): False,
    (HostPolicy.OFF, True): False,
    (HostPolicy.OPTIONAL, False): False,
    (HostPolicy.OPTIONAL, True): True,
    (HostPolicy.REQUIRED, False): None,
    (HostPolicy.REQUIRED, True): True,
}
"""Whether the hosts authenticate, by this side's policy and by whether the peer has announced that it takes part; None:
the connection ends."""


class Authenticator(Protocol):
    """One side of the mutual authentication of hosts on one connection, by HOSTAUTH transport properties (`opaque<>`).

    An implementation raises only `HostAuthenticationFailed` for octets of the peer: then its `alert`, unless empty, is
    the content of the last HOSTAUTH property to send, and the connection ends.
    """

    def announce(self) -> bytes | None:
        """Returns the content of the HOSTAUTH property in a client's first message; None if it has no such property."""

    def begin(self, announced: bytes | None) -> bytes | None:
        """Begins the authentication with the content of the HOSTAUTH property in the peer's first message.

        `announced`: the content; None if the peer sent no such property, or no properties at all. Returns the content
        of the next HOSTAUTH property to send, which a server adds to its own properties and a client sends in a further
        message; None for none.

        Raises:
            HostAuthenticationFailed: the authentication has failed.
        """

    def receive(self, value: bytes) -> bytes | None:
        """Handles a further HOSTAUTH property of the peer; after the end of the authentication each is an error.

        `value`: the content of the property. Returns the content of the next HOSTAUTH property to send; None for none.

        Raises:
            HostAuthenticationFailed: the authentication has failed, or the peer continues or withdraws it after the
                end.
        """

    @property
    def required(self) -> bool:
        """Whether a connection without host authentication is refused."""

    @property
    def finished(self) -> bool:
        """Whether authentication has ended without a failure, or by policy is left out: calls may follow."""

    @property
    def peer(self) -> HostIdentity | None:
        """The identity that the peer's host has proved; None unless the authentication of the hosts has succeeded."""


AuthenticatorSource: TypeAlias = Callable[[], Authenticator]
"""A function that creates the authenticator of a new connection."""
