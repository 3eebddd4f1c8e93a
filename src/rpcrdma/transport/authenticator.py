"""How a connection learns which host its peer is, whatever the mechanism: what an endpoint drives."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from rpcrdma.rpc.host_identity import HostIdentity

__all__ = ["TAKES_PART", "Authenticator", "AuthenticatorSource", "HostPolicy"]


class HostPolicy(enum.Enum):
    """Whether hosts authenticate themselves to each other, as one side wants it."""

    OFF = "off"
    OPTIONAL = "optional"
    """If the peer takes part; if it does, it must succeed."""
    REQUIRED = "required"


TAKES_PART: Mapping[tuple[HostPolicy, bool], bool | None] = {
    (HostPolicy.OFF, False): False,
    (HostPolicy.OFF, True): False,
    (HostPolicy.OPTIONAL, False): False,
    (HostPolicy.OPTIONAL, True): True,
    (HostPolicy.REQUIRED, False): None,
    (HostPolicy.REQUIRED, True): True,
}
"""By this side's policy, and whether the peer has announced that it takes part: whether the hosts authenticate
themselves. None: the connection ends."""


class Authenticator(Protocol):
    """One side of one connection. A value is the content of one HOSTAUTH property (`opaque<>`).

    Every method may raise `HostAuthenticationFailed`: then its `alert`, unless empty, is the last value to send, and
    the connection ends. Peers' octets raise nothing else.
    """

    def announce(self) -> bytes | None:
        """Client: the value in its first message; None: that has no HOSTAUTH."""

    def begin(self, announced: bytes | None) -> bytes | None:
        """Takes the value in the peer's first message; None: that had none, or no properties at all.

        Returns what to send, or None: a server sends it with its own properties, a client in a message of its own.
        """

    def receive(self, value: bytes) -> bytes | None:
        """Takes each further value; returns the next one to send, or None.

        Also to be called after the end: a peer that goes on, or that withdraws, is an error.
        """

    @property
    def required(self) -> bool:
        """Whether a connection without it is refused."""

    @property
    def finished(self) -> bool:
        """Whether calls may be made: after the value that was returned last has been sent."""

    @property
    def peer(self) -> HostIdentity | None:
        """Which host the peer is; None until then, and where it was not authenticated."""


AuthenticatorSource: TypeAlias = Callable[[], Authenticator]
"""Makes the authenticator of a connection."""
