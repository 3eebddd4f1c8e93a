"""Octets in memory: the bounded reader, bulk memory, the CRC of iWARP, text of peers; no I/O and no randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.wire.buffers import Buffer, Reader, as_view, gather_length
    from rpcrdma.wire.checksum import crc32c

__all__ = ["DELIBERATE_END", "Buffer", "Reader", "as_view", "crc32c", "gather_length"]

DELIBERATE_END = bytes.fromhex("fd08 52504d4b 0100")
"""A TCP option in a recorded SYN: the end that sends it makes mistakes on purpose, as `check` and `send` do.

Option 253 is for experiments, and "RPMK" the identifier of this one (RFC 6994 section 3). No real packet has it: the
packets of our captures are made of the octets of a stream.
"""

# The command prints by `wire.peer_text`, and needs none of these for its help.
__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.wire.buffers": ("Buffer", "Reader", "as_view", "gather_length"),
        "rpcrdma.wire.checksum": ("crc32c",),
    },
)
