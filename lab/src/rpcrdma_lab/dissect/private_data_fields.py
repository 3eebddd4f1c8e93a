"""The private data of a connection's set-up, with RFC 8797's message in them, as annotated fields."""

from __future__ import annotations

from rpcrdma_lab.dissect.fields import Field, octets_shown
from rpcrdma_lab.dissect.header_table import Row, Table, hex8

__all__ = ["private_data_fields"]

_VERSION_1 = b"\xf6\xab\x0e\x18\x01"
"""The format identifier, and the version of the private data that is decoded."""
_PRIVATE = "RFC 8797 4"
_PRIVATE_ROWS = Table(
    "RPC-over-RDMA private data",
    [
        Row("format identifier", 0, 4, "says that this is such a message", _PRIVATE, 0, hex8),
        Row("version", 4, 1, "version of the message", _PRIVATE),
        Row("reserved", 5, 1, "reserved", _PRIVATE, 0xFE),
        Row("R", 5, 1, "the sender supports remote invalidation", _PRIVATE, 0x01),
        Row("send size", 6, 1, "octets of its largest Send", _PRIVATE, 0, lambda value: f"{(value + 1) * 1024} octets"),
        Row("receive size", 7, 1, "octets of its receives", _PRIVATE, 0, lambda value: f"{(value + 1) * 1024} octets"),
    ],
)


def private_data_fields(data: bytes, start: int, section: str) -> Field:
    """Returns private data as an annotated field, with the fields of an RPC-over-RDMA message in it (RFC 8797) if any.

    Args:
        data: the private data.
        start: the offset of `data` in the frame or message that carries it; offsets of all fields count from there.
        section: the section that defines private data in such a frame, for the field.
    """
    group = Field("private data", start, len(data), data, octets_shown(data), "of the upper layer", section)
    # The message may stand anywhere among the private data of others (RFC 8797 section 5.2).
    at = data.find(_VERSION_1)
    if 0 <= at <= len(data) - _PRIVATE_ROWS.size:
        group.fields = _PRIVATE_ROWS.read_moved(data, at, start + at)[0].fields
    return group
