"""Transport properties, by which each end of a connection describes itself, as rows.

A row has the number of a property, its codec and its default.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.config import OFFERED_OCTETS_MIN, ReverseSupport, TransportConfig
from rpcrdma.transport.message import PropertySet
from rpcrdma.wire.buffers import Reader

__all__ = [
    "HOST_AUTHENTICATION",
    "PROPERTIES",
    "RECEIVE_SIZE",
    "SMALLEST_MESSAGE_OCTETS",
    "Properties",
    "Property",
    "decode_host_authentication",
    "decode_properties",
    "encode_host_authentication",
    "encode_properties",
    "properties_of",
    "with_receive_octets",
]

SMALLEST_MESSAGE_OCTETS = 1024
"""The least receive size. A peer with less could not be sent a reply, and one with smaller segments would need more of
them than headers hold."""

RECEIVE_SIZE = 2
"""The number of the property that states the receive size, which an extension's property may imply."""
HOST_AUTHENTICATION = 6
"""The number of the property that carries a value of host authentication, also in further messages."""

_WORD = struct.Struct(">I")


class Properties(NamedTuple):
    """The transport properties of one peer; sizes are in octets.

    The peer sends and receives messages of up to `send_octets` and `receive_octets`. It sends and takes segments of up
    to `segment_octets_max`, and takes headers of up to `segments_max` segments. `reverse` is its support for calls in
    the reverse direction. `host_authentication` is the first value of host authentication; None if the host has sent
    none.
    """

    send_octets: int
    receive_octets: int
    segment_octets_max: int
    segments_max: int
    reverse: ReverseSupport
    host_authentication: bytes | None


class Codec(Protocol):
    """Encodes and decodes the value of one transport property (rdma_data)."""

    def encode(self, value: Any) -> bytes:
        """Encodes a property's value as the content of rdma_data."""

    def decode(self, reader: Reader, field: str) -> Any:
        """Decodes the value at the start of rdma_data.

        `reader`: the content of rdma_data. `field`: the name of the property, for errors.

        Raises:
            DecodeError: the value is invalid, or the octets are too few.
        """


class Property(NamedTuple):
    """One transport property: its number, its field in `Properties`, the codec of its value and the default value."""

    number: int
    field: str
    codec: Codec
    default: Any


class _Number(NamedTuple):
    """The codec of a uint32 of at least `smallest`."""

    smallest: int = 0

    def encode(self, value: int) -> bytes:
        return _WORD.pack(value)

    def decode(self, reader: Reader, field: str) -> int:
        value = reader.u32(field)
        if value < self.smallest:
            raise DecodeError(field, 0, f"at least {self.smallest}", str(value))
        return value


_LEVELS = tuple(ReverseSupport)


class _Level(NamedTuple):
    """The codec of a `ReverseSupport` as a uint32: 0 for NONE, 1 for INLINE, 2 for GENERAL."""

    def encode(self, value: ReverseSupport) -> bytes:
        return _WORD.pack(_LEVELS.index(value))

    def decode(self, reader: Reader, field: str) -> ReverseSupport:
        level = reader.u32(field)
        if level >= len(_LEVELS):
            raise DecodeError(field, 0, f"at most {len(_LEVELS) - 1}", str(level))
        return _LEVELS[level]


class _Opaque(NamedTuple):
    """The codec of an opaque<>, whose own length precedes it within rdma_data."""

    def encode(self, value: bytes) -> bytes:
        return _WORD.pack(len(value)) + value + bytes(-len(value) & 3)

    def decode(self, reader: Reader, field: str) -> bytes:
        length = reader.u32(field)
        value = reader.octets(length, field)
        reader.view(-length & 3, field)
        return value


_HOST_AUTHENTICATION = Property(HOST_AUTHENTICATION, "host_authentication", _Opaque(), None)


PROPERTIES: Mapping[int, Property] = {
    row.number: row
    for row in (
        Property(1, "send_octets", _Number(SMALLEST_MESSAGE_OCTETS), OFFERED_OCTETS_MIN),
        Property(RECEIVE_SIZE, "receive_octets", _Number(SMALLEST_MESSAGE_OCTETS), OFFERED_OCTETS_MIN),
        Property(3, "segment_octets_max", _Number(SMALLEST_MESSAGE_OCTETS), 1 << 20),
        Property(4, "segments_max", _Number(), 16),
        Property(5, "reverse", _Level(), ReverseSupport.INLINE),
        _HOST_AUTHENTICATION,
    )
}
"""The transport properties of version 2 by their numbers."""


def properties_of(config: TransportConfig, reverse: ReverseSupport, proof: bytes | None = None) -> Properties:
    """Returns the transport properties of this side.

    `reverse`: the support for calls in the reverse direction. `proof`: the content of this side's first HOSTAUTH
    property; None if it sends none.
    """
    return Properties(
        send_octets=config.offered_send_octets,
        receive_octets=config.offered_receive_octets,
        segment_octets_max=max(config.segment_octets_max, 1 << 20),
        segments_max=limits.CHUNK_SEGMENTS_MAX,
        reverse=reverse,
        host_authentication=proof,
    )


def encode_properties(values: Properties, rows: Mapping[int, Property]) -> PropertySet:
    """Encodes all properties in `rows` (by number) whose value is not None as pairs of (number, encoded value)."""
    told = ((row, getattr(values, row.field)) for row in rows.values())
    return tuple((row.number, row.codec.encode(value)) for row, value in told if value is not None)


def encode_host_authentication(proof: bytes) -> PropertySet:
    """Encodes `proof`, a value of host authentication after the first one, as a set of the HOSTAUTH property alone."""
    return ((HOST_AUTHENTICATION, _HOST_AUTHENTICATION.codec.encode(proof)),)


def decode_properties(properties: PropertySet, rows: Mapping[int, Property]) -> Properties:
    """Decodes the peer's properties; unknown ones are ignored, absent and empty ones have their default.

    `properties`: pairs of (number, encoded value). `rows`: the known properties by their numbers.

    Raises:
        DecodeError: a value is invalid, or a property, known or not, is repeated.
    """
    found = {row.field: row.default for row in rows.values()}
    seen: set[int] = set()
    for number, data in properties:
        if number in seen:
            raise DecodeError("rdma_which", 0, "each property once", f"{number} twice")
        seen.add(number)
        row = rows.get(number)
        if row is not None and data:
            found[row.field] = row.codec.decode(Reader(data), row.field)
    return Properties(**found)


def with_receive_octets(properties: PropertySet, octets: int) -> PropertySet:
    """Returns a copy of `properties`, the peer's encoded set, with a receive size of `octets`.

    Returns the set unchanged if it has a receive size that is not empty.
    """
    if any(number == RECEIVE_SIZE and data for number, data in properties):
        return properties
    others = ((number, data) for number, data in properties if number != RECEIVE_SIZE)
    return (*others, (RECEIVE_SIZE, _WORD.pack(octets)))


def decode_host_authentication(properties: PropertySet, rows: Mapping[int, Property]) -> bytes:
    """Returns the content of a further HOSTAUTH property that the peer has sent in a property set of its own.

    `properties`: pairs of (number, encoded value); unknown properties are ignored. `rows`: the known properties by
    their numbers.

    Raises:
        DecodeError: the set lacks the HOSTAUTH property, has an invalid one, repeats any property, or has other known
            properties, which must not change.
    """
    others = [number for number, _ in properties if number in rows and number != HOST_AUTHENTICATION]
    if others:
        raise DecodeError("rdma_which", 0, "nothing but host authentication", str(others[0]))
    proof = decode_properties(properties, rows).host_authentication
    if proof is None:
        raise DecodeError("rdma_which", 0, "host authentication", "none")
    return proof
