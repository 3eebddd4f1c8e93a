"""What every version of the protocol shares: four words, and the refusal of a version (RFC 8166 section 7).

A receiver looks at the version before anything else that it is sent.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rpcrdma.wire.buffers import Buffer

__all__ = [
    "ERR_VERS",
    "FIXED",
    "FIXED_OCTETS",
    "RDMA_ERROR",
    "VersionRefusal",
    "decode_version_refused",
    "encode_version_refused",
    "version_of",
]

FIXED = struct.Struct(">IIII")
"""xid, version, credits, and the type of the message."""
FIXED_OCTETS = FIXED.size
RDMA_ERROR = 4
ERR_VERS = 1

_VERSION = struct.Struct(">4xI")
_VERSION_REFUSED = struct.Struct(">IIIIIII")


class VersionRefusal(NamedTuple):
    """RDMA_ERROR with ERR_VERS: its sender speaks versions `low` to `high`; xid and `version` are the request's."""

    xid: int
    version: int
    credits: int
    low: int
    high: int


def version_of(data: Buffer) -> int | None:
    """rdma_vers of a message; None if it is too short to have one."""
    if len(data) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(data)[0]
    return version


def encode_version_refused(refusal: VersionRefusal) -> bytes:
    """The message, which looks the same whatever the version of the request is (RFC 8166 section 4.5.1)."""
    xid, version, credits_, low, high = refusal
    return _VERSION_REFUSED.pack(xid, version, credits_, RDMA_ERROR, ERR_VERS, low, high)


def decode_version_refused(data: Buffer) -> VersionRefusal | None:
    """The refusal that `data` is; None if it is something else, or names no range of versions."""
    if len(data) != _VERSION_REFUSED.size:
        return None
    xid, version, credits_, kind, code, low, high = _VERSION_REFUSED.unpack(data)
    if kind != RDMA_ERROR or code != ERR_VERS or not 1 <= low <= high:
        return None
    return VersionRefusal(xid, version, credits_, low, high)
