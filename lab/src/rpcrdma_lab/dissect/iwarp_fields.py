"""The headers of MPA, DDP and RDMAP as tables, and their annotated fields.

Fields of less than an octet have the offset of their octet and a mask.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.header_table import Row, Table, hex8, hex16

__all__ = [
    "OPCODES",
    "QUEUES",
    "READ_REQUEST_ROWS",
    "STARTUP_ROWS",
    "TAGGED_ROWS",
    "UNTAGGED_ROWS",
    "Opcode",
    "StartupKind",
    "enhanced_fields",
]


class Opcode(NamedTuple):
    """The name of an RDMAP opcode, and the DDP queue of its messages; None if they are tagged (RFC 5040 figure 4)."""

    name: str
    queue: int | None


OPCODES = {
    0: Opcode("RDMA Write", None),
    1: Opcode("RDMA Read Request", 1),
    2: Opcode("RDMA Read Response", None),
    3: Opcode("Send", 0),
    4: Opcode("Send with Invalidate", 0),
    5: Opcode("Send with Solicited Event", 0),
    6: Opcode("Send with Solicited Event and Invalidate", 0),
    7: Opcode("Terminate", 2),
    8: Opcode("Immediate Data", 0),
    9: Opcode("Immediate Data with Solicited Event", 0),
    10: Opcode("Atomic Request", 1),
    11: Opcode("Atomic Response", 3),
}
QUEUES = {0: "Sends", 1: "RDMA Read Requests", 2: "Terminate", 3: "Atomic Responses"}


class StartupKind(enum.Enum):
    """The kind of an MPA start-up frame, Request or Reply; the value is the frame's key (RFC 5044 section 7.1.1)."""

    REQUEST = b"MPA ID Req Frame"
    REPLY = b"MPA ID Rep Frame"


_DEPTH_OF_UPPER_LAYER = 0x3FFF


def _depth(value: int) -> str:
    return "left to the upper layer" if value == _DEPTH_OF_UPPER_LAYER else str(value)


_MPA = "RFC 5044 7.1.1"
STARTUP_ROWS = Table(
    "MPA start-up frame",
    [
        Row("Key", 0, 16, "says that this is a Request or a Reply", _MPA),
        Row("M", 16, 1, "the sender wants markers in what it receives", _MPA, 0x80),
        Row("C", 16, 1, "the sender wants CRCs in both directions", _MPA, 0x40),
        Row("R", 16, 1, "the connection is rejected", _MPA, 0x20),
        Row("S", 16, 1, "the private data begin with read queue depths", "RFC 6581 6", 0x10),
        Row("Res", 16, 1, "reserved", _MPA, 0x0F),
        Row("Rev", 17, 1, "revision of MPA", _MPA),
        Row("PD_Length", 18, 2, "octets of private data", _MPA),
    ],
)
_ENHANCED = "RFC 6581 9"
_ENHANCED_ROWS = Table(
    "enhanced set-up",
    [
        Row("A", 0, 2, "peer-to-peer: the initiator sends a ready-to-receive frame first", "RFC 6581 9.2", 0x8000),
        Row("B", 0, 2, "that frame may be a Send of no octets", "RFC 6581 9.2", 0x4000),
        Row("IRD", 0, 2, "RDMA Reads that the sender takes at a time", "RFC 6581 9.1", 0x3FFF, _depth),
        Row("C", 2, 2, "that frame may be an RDMA Write of no octets", "RFC 6581 9.2", 0x8000),
        Row("D", 2, 2, "that frame may be an RDMA Read of no octets", "RFC 6581 9.2", 0x4000),
        Row("ORD", 2, 2, "RDMA Reads that the sender makes at a time", "RFC 6581 9.1", 0x3FFF, _depth),
    ],
)


def _opcode(value: int) -> str:
    return f"{value} ({OPCODES[value].name if value in OPCODES else 'unknown'})"


_CONTROL = [
    Row("ULPDU_Length", 0, 2, "octets of the DDP segment", "RFC 5044 4.1"),
    Row("T", 2, 1, "tagged: the octets go to named memory", "RFC 5041 4.1", 0x80),
    Row("L", 2, 1, "last segment of its message", "RFC 5041 4.1", 0x40),
    Row("Rsvd", 2, 1, "reserved", "RFC 5041 4.1", 0x3C),
    Row("DV", 2, 1, "version of DDP", "RFC 5041 4.1", 0x03),
    Row("RV", 3, 1, "version of RDMAP", "RFC 5040 4.1", 0xC0),
    Row("Rsv", 3, 1, "reserved", "RFC 5040 4.1", 0x30),
    Row("Opcode", 3, 1, "kind of the message", "RFC 5040 4.1", 0x0F, _opcode),
]
TAGGED_ROWS = Table(
    "DDP and RDMAP, tagged",
    [
        *_CONTROL,
        Row("STag", 4, 4, "steering tag of the memory", "RFC 5041 4.2", 0, hex8),
        Row("TO", 8, 8, "where in that memory", "RFC 5041 4.2", 0, hex16),
    ],
)
UNTAGGED_ROWS = Table(
    "DDP and RDMAP, untagged",
    [
        *_CONTROL,
        Row("Invalidate STag", 4, 4, "steering tag that a Send with Invalidate ends", "RFC 5040 4.1", 0, hex8),
        Row(
            "QN",
            8,
            4,
            "queue of the message",
            "RFC 5041 4.3",
            0,
            lambda value: f"{value} ({QUEUES.get(value, 'unknown')})",
        ),
        Row("MSN", 12, 4, "number of the message in its queue, from 1 on", "RFC 5041 4.3"),
        Row("MO", 16, 4, "offset of the segment in the message", "RFC 5041 4.3"),
    ],
)
READ_REQUEST_ROWS = Table(
    "RDMA Read Request",
    [
        Row("SinkSTag", 0, 4, "memory of the sender in which the data are placed", "RFC 5040 4.4", 0, hex8),
        Row("SinkTO", 4, 8, "where in that memory", "RFC 5040 4.4", 0, hex16),
        Row("RDMARDSZ", 12, 4, "octets to read", "RFC 5040 4.4"),
        Row("SrcSTag", 16, 4, "memory of the receiver from which they are read", "RFC 5040 4.4", 0, hex8),
        Row("SrcTO", 20, 8, "where in that memory", "RFC 5040 4.4", 0, hex16),
    ],
)


def enhanced_fields(data: bytes) -> tuple[Field, list[FieldFault]]:
    """Decodes IRD, ORD and flags in the four octets before the private data of a start-up frame with flag S (RFC 6581).

    `data` are all octets after the frame's header of 20 octets. Returns the group of fields, with offsets from the
    start of the frame, and the faults: `data` has fewer than four octets.
    """
    return _ENHANCED_ROWS.read_moved(data, 0, STARTUP_ROWS.size)
