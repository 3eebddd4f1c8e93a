"""The numbers and counters of a connection that the extension reads, without the connection."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.errors import RpcRdmaError
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import TransportStatistics
from rpcrdma.xdr.codec import Payload

__all__ = ["PREFIX", "Link", "pattern", "payload", "tried"]

PREFIX = 20
"""Octets that stand before the body of a message."""


@dataclass
class Link:
    """See `rpcrdma.transport.ExtensionLink`."""

    send_octets: int = 1 << 20
    receive_octets: int = 1 << 20
    round_trip_s: float = 0.0
    prefix_octets: int = PREFIX
    statistics: TransportStatistics = field(default_factory=TransportStatistics)
    reserved: int = 0

    def reserve(self, messages: int) -> None:
        self.reserved += messages


def pattern(octets: int, salt: int = 0) -> bytes:
    """Octets that tell where they were taken from."""
    return bytes((index * 7 + index // 256 + salt * 31) & 0xFF for index in range(octets))


def payload(*sizes: int, xid: int = 7, between: int = 8) -> Payload:
    """A message with items of these sizes, so many plain octets before each."""
    return message(
        xid, 0, *((bytes(between), pattern(size, salt)) for salt, size in enumerate(sizes)), (bytes(4), None)
    )


def tried(step: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a step, or its error: so each mistake of a step fails the comparison of its value."""
    try:
        return step(*arguments)
    except (RpcRdmaError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
        return error
