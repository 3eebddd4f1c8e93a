"""CRC-32C (Castagnoli), the digest of MPA (RFC 5044 section 4.4)."""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from rpcrdma.wire.buffers import Buffer

__all__ = ["crc32c"]


def crc32c(data: Buffer, value: int = 0) -> int:
    """The digest of `data`, continuing from `value`, the digest of what came before it."""
    return _crc32c(data, value)
