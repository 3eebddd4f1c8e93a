"""Sets of transport properties in octets, the same in all drafts of version 2."""

from __future__ import annotations

import struct

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.message import PropertySet
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.cursor import Reader

__all__ = ["decode_property_set", "encode_property_set"]

_WORD = struct.Struct(">I")
_PROPERTY = struct.Struct(">II")


def encode_property_set(properties: PropertySet) -> bytes:
    """rpcrdma2_propset."""
    out = bytearray(_WORD.pack(len(properties)))
    for number, value in properties:
        out += _PROPERTY.pack(number, len(value))
        out += value
        out += bytes(-len(value) & 3)
    return bytes(out)


def decode_property_set(octets: Buffer, *, several: bool = False) -> PropertySet:
    """rpcrdma2_propset, which is all of `octets`; or `several`, one after the other, as one.

    Raises:
        DecodeError: the octets are no property set, or it is longer than `rpcrdma.limits` allows.
    """
    reader = Reader(octets)
    properties: list[tuple[int, bytes]] = []
    while True:
        count = reader.u32("rdma_props")
        if len(properties) + count > limits.PROPERTIES_MAX:
            raise DecodeError(
                "rdma_props", reader.pos - 4, f"at most {limits.PROPERTIES_MAX} properties", f"{count} more"
            )
        for _ in range(count):
            number, length = reader.take(_PROPERTY, "rdma_which")
            value = reader.octets(length, "rdma_data")
            if any(reader.octets(-length & 3, "padding of rdma_data")):
                raise DecodeError("padding of rdma_data", reader.pos - 4, "zero", "another value")
            properties.append((number, value))
        if not (several and reader.remaining):
            break
    reader.done("rdma_props")
    return tuple(properties)
