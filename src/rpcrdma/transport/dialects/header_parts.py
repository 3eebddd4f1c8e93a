"""Parts of headers that versions share: the fixed words, error codes as rows, and sets of transport properties.

The first four words, and the refusal of a version, are the same in every version (RFC 8166 section 7). A receiver
checks the version first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.message import Cause, PropertySet, Refusal
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "ERR_VERS",
    "FIXED",
    "FIXED_OCTETS",
    "RDMA_ERROR",
    "ErrorCode",
    "ErrorCodes",
    "VersionRefusal",
    "decode_property_set",
    "decode_version_refused",
    "encode_property_set",
    "encode_version_refused",
    "is_error",
    "version_of",
]

FIXED = struct.Struct(">IIII")
"""The four words that begin every header: XID, version, credits, and the type of the message."""
FIXED_OCTETS = FIXED.size
RDMA_ERROR = 4
ERR_VERS = 1

_VERSION = struct.Struct(">4xI")
_VERSION_REFUSED = struct.Struct(">IIIIIII")


class VersionRefusal(NamedTuple):
    """RDMA_ERROR with ERR_VERS: the sender speaks only the versions `low` to `high`.

    `xid` and `version` are those of the refused message; `credits` is the credit word.
    """

    xid: int
    version: int
    credits: int
    low: int
    high: int


def version_of(data: Buffer) -> int | None:
    """Returns the version number (rdma_vers) in a message's header; None if the message has fewer than eight octets."""
    if len(data) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(data)[0]
    return version


def is_error(data: Buffer) -> bool:
    """Returns whether a message is an error, header type 4 in every version; False if it is shorter than 16 octets."""
    return len(data) >= FIXED.size and FIXED.unpack_from(data)[3] == RDMA_ERROR


def encode_version_refused(refusal: VersionRefusal) -> bytes:
    """Encodes an RDMA_ERROR with ERR_VERS, whose format is the same in every version (RFC 8166 section 4.5.1)."""
    xid, version, credits_, low, high = refusal
    return _VERSION_REFUSED.pack(xid, version, credits_, RDMA_ERROR, ERR_VERS, low, high)


def decode_version_refused(data: Buffer) -> VersionRefusal | None:
    """Decodes an RDMA_ERROR with ERR_VERS; returns None for any other message, or unless 1 <= low <= high."""
    if len(data) != _VERSION_REFUSED.size:
        return None
    xid, version, credits_, kind, code, low, high = _VERSION_REFUSED.unpack(data)
    if kind != RDMA_ERROR or code != ERR_VERS or not 1 <= low <= high:
        return None
    return VersionRefusal(xid, version, credits_, low, high)


class ErrorCode(NamedTuple):
    """One error code of a protocol version, with the `cause` that it stands for.

    `data` names the fields of `Refusal` that follow the code in the message, each as a 32-bit word.
    """

    code: int
    cause: Cause
    data: tuple[str, ...] = ()


class ErrorCodes:
    """The table of a version's error codes, which encodes and decodes refusals.

    `rows` are the `ErrorCode`s. `as_other` maps each cause without a code to the cause whose code is sent instead.
    """

    def __init__(self, rows: Sequence[ErrorCode], as_other: Mapping[Cause, Cause]) -> None:
        self._by_code = {row.code: row for row in rows}
        self._by_cause = {row.cause: row for row in rows}
        self._by_cause |= {cause: self._by_cause[other] for cause, other in as_other.items()}
        self._layouts = [struct.Struct(f">{count}I") for count in range(4)]

    def encode(self, refusal: Refusal) -> bytes:
        """Encodes a refusal's error code and the 32-bit words after it; a number above 2^32 - 1 is sent as 2^32 - 1."""
        row = self._by_cause[refusal.cause]
        words = [min(getattr(refusal, field), 0xFFFFFFFF) for field in row.data]
        return self._layouts[1 + len(words)].pack(row.code, *words)

    def decode(self, reader: Reader) -> Refusal:
        """Decodes the error code at the reader's position and the 32-bit words after it, which must end the message.

        Raises:
            DecodeError: the code is unknown, or the number of words after it is wrong.
        """
        code = reader.u32("rdma_err")
        row = self._by_code.get(code)
        if row is None:
            raise DecodeError("rdma_err", reader.pos - 4, "a known code", str(code))
        words = reader.take(self._layouts[len(row.data)], "RDMA2_ERROR")
        reader.done("RDMA2_ERROR")
        return Refusal(row.cause, **dict(zip(row.data, words, strict=True)))


_WORD = struct.Struct(">I")
_PROPERTY = struct.Struct(">II")


def encode_property_set(properties: PropertySet) -> bytes:
    """Encodes transport properties, pairs of a number and an encoded value, as an rpcrdma2_propset."""
    out = bytearray(_WORD.pack(len(properties)))
    for number, value in properties:
        out += _PROPERTY.pack(number, len(value))
        out += value
        out += bytes(-len(value) & 3)
    return bytes(out)


def decode_property_set(octets: Buffer) -> PropertySet:
    """Decodes an rpcrdma2_propset that fills `octets` to pairs of a number and a value that is still encoded.

    Raises:
        DecodeError: the octets are no property set, or exceed the bounds of `rpcrdma.limits`.
    """
    reader = Reader(octets)
    count = reader.u32("rdma_props")
    if count > limits.PROPERTIES_MAX:
        raise DecodeError("rdma_props", reader.pos - 4, f"at most {limits.PROPERTIES_MAX} properties", str(count))
    properties: list[tuple[int, bytes]] = []
    for _ in range(count):
        number, length = reader.take(_PROPERTY, "rdma_which")
        value = reader.octets(length, "rdma_data")
        padding = -length & 3
        if any(reader.octets(padding, "padding of rdma_data")):
            raise DecodeError("padding of rdma_data", reader.pos - padding, "zero", "another value")
        properties.append((number, value))
    reader.done("rdma_props")
    return tuple(properties)
