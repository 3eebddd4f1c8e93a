"""Headers of DDP segments and the opcodes of RDMAP messages (RFC 5041 section 4, RFC 5040 section 4).

Every layout here starts with MPA's ULPDU_Length, so that one step reads or writes all headers before the payload.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "DDP_VERSION",
    "LAST",
    "QUEUE_OF",
    "RDMAP_VERSION",
    "READ_HEADER_OCTETS",
    "READ_REQUEST",
    "READ_RESPONSE",
    "SEND",
    "SEND_INVALIDATE",
    "SEQUENCE_MASK",
    "TAGGED",
    "TAGGED_BIT",
    "TAGGED_CONTROL",
    "TAGGED_OCTETS",
    "TERMINATE",
    "UNTAGGED",
    "UNTAGGED_CONTROL",
    "UNTAGGED_OCTETS",
    "WRITE",
    "ReadHeader",
    "decode_read_header",
    "encode_read_header",
]

TAGGED = struct.Struct(">HBBIQ")
"""The layout of a tagged DDP header: ULPDU_Length, DDP control, RDMAP control, STag, TO."""

UNTAGGED = struct.Struct(">HBBIIII")
"""The layout of an untagged DDP header: ULPDU_Length, DDP control, RDMAP control, Invalidate STag, QN, MSN, MO."""

TAGGED_OCTETS = 14
UNTAGGED_OCTETS = 18
"""Octets of the DDP headers, ULPDU_Length not counted."""

TAGGED_BIT = 0x80
TAGGED_CONTROL = 0x81
UNTAGGED_CONTROL = 0x01
LAST = 0x40
"""The DDP control octet: T, L and version 1; TAGGED_BIT is T alone."""

DDP_VERSION, RDMAP_VERSION = 0x03, 0xC0
"""The bits of the version in the control octets."""

# RDMAP control octets, version 1 (RFC 5040 section 4.3).
WRITE = 0x40
READ_REQUEST = 0x41
READ_RESPONSE = 0x42
SEND = 0x43
SEND_INVALIDATE = 0x44
TERMINATE = 0x47

QUEUE_OF = {1: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 2}
"""The queue of each untagged opcode (3 to 6: Send, with Invalidate, with Solicited Event, with both).

Missing opcodes are tagged, or are extensions that this RNIC does not support (RFC 7306).
"""

SEQUENCE_MASK = 0xFFFFFFFF

_READ = struct.Struct(">IQIIQ")
READ_HEADER_OCTETS = _READ.size


class ReadHeader(NamedTuple):
    """The RDMA Read Request header (RFC 5040 section 4.4).

    The data sink is memory of the requester, the data source that of the responder; each has an STag (`handle`) and a
    tagged offset. `length` is RDMARDSZ, the octets to read.
    """

    sink_handle: int
    sink_offset: int
    length: int
    source_handle: int
    source_offset: int


def encode_read_header(header: tuple[int, int, int, int, int]) -> bytes:
    """Returns the 28 octets of an RDMA Read Request header with the fields of `ReadHeader`, in its order."""
    return _READ.pack(*header)


def decode_read_header(data: Buffer) -> ReadHeader:
    """Decodes the RDMA Read Request header in the first 28 octets of `data`.

    Raises:
        DecodeError: `data` has fewer octets.
    """
    if len(data) < READ_HEADER_OCTETS:
        raise DecodeError("RDMA Read Request header", 0, f"{READ_HEADER_OCTETS} octets", f"{len(data)}")
    return ReadHeader._make(_READ.unpack_from(data))
