"""The versions of RPC-over-RDMA. Nothing outside of this folder knows one by name."""

from collections.abc import Callable, Mapping, Sequence

from rpcrdma.transport.config import TransportConfig
from rpcrdma.transport.dialects.dialect import Dialect, Geometry
from rpcrdma.transport.dialects.header_parts import encode_property_set, is_error, version_of
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2

__all__ = [
    "VERSION_CHOICES",
    "Dialect",
    "Geometry",
    "encode_property_set",
    "is_error",
    "offered",
    "receive_octets",
    "version_choice",
    "version_of",
]

_OFFERS: Mapping[str, tuple[Callable[[], Dialect], ...]] = {
    "auto": (Version2, Version1),
    "1": (Version1,),
    "2": (Version2,),
}

VERSION_CHOICES = tuple(_OFFERS)
"""The accepted choices of a version: "auto" for the newest version that the peer speaks, "1" and "2"."""


def version_choice(choice: str | int) -> str:
    """Converts a version of RPC-over-RDMA, by name or number, to its name: "auto", "1" or "2".

    Raises:
        ValueError: the version is unknown.
    """
    name = str(choice)
    if name not in _OFFERS:
        raise ValueError(f"rpcrdma_version is {choice!r}, none of {', '.join(VERSION_CHOICES)}")
    return name


def offered(choice: str | int = "auto") -> tuple[Dialect, ...]:
    """Creates the `Dialect`s (codec and rules) of the versions that one connection offers, the preferred version first.

    `choice`: "auto" for versions 2 and 1, or one of them, such as "2" or 2.

    Raises:
        ValueError: the version is unknown.
    """
    return tuple(version() for version in _OFFERS[version_choice(choice)])


def receive_octets(config: TransportConfig, dialects: Sequence[Dialect]) -> int:
    """Returns the size in octets of the receive buffers that suffice for any of the versions `dialects`."""
    if any(dialect.introduces for dialect in dialects):
        return max(config.inline_receive_octets, config.offered_receive_octets)
    return config.inline_receive_octets
