"""Cursors over bytes and the CRC of iWARP: no I/O, no time, no randomness."""

from rpcrdma.wire.buffers import Buffer, Reader, as_view, gather_length
from rpcrdma.wire.checksum import crc32c

__all__ = ["Buffer", "Reader", "as_view", "crc32c", "gather_length"]
