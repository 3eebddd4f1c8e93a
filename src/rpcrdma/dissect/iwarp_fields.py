"""The headers of MPA, DDP and RDMAP as tables, and their annotated fields.

Fields of less than an octet have the offset of their octet and a mask.
"""

from __future__ import annotations

from typing import NamedTuple

from rpcrdma.dissect.fields import Field, FieldFault, octets_shown
from rpcrdma.dissect.header_table import Row, Table, hex8, hex16
from rpcrdma.iwarp.startup import NOT_NEGOTIATED
from rpcrdma.iwarp.terminate import decode_terminate

__all__ = [
    "OPCODES",
    "QUEUES",
    "READ_REQUEST_ROWS",
    "STARTUP_ROWS",
    "TAGGED_ROWS",
    "TERMINATE_ROWS",
    "UNTAGGED_ROWS",
    "Opcode",
    "enhanced_fields",
    "terminate_fields",
]


class Opcode(NamedTuple):
    """The properties of an RDMAP opcode (RFC 5040 figure 4): the queue is None where its segments are tagged."""

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


def _depth(value: int) -> str:
    return "left to the upper layer" if value == NOT_NEGOTIATED else str(value)


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
TERMINATE_ROWS = Table(
    "Terminate",
    [
        Row("Layer", 0, 1, "0 RDMAP, 1 DDP, 2 MPA", "RFC 5040 4.8", 0xF0),
        Row("EType", 0, 1, "type of the error in its layer", "RFC 5040 4.8", 0x0F),
        Row("Error Code", 1, 1, "code of the error in its type", "RFC 5040 4.8"),
        Row("M", 2, 1, "the length of the segment is quoted", "RFC 5040 4.8", 0x80),
        Row("D", 2, 1, "its DDP header is quoted", "RFC 5040 4.8", 0x40),
        Row("R", 2, 1, "its RDMA Read Request header is quoted", "RFC 5040 4.8", 0x20),
        Row("Reserved", 2, 2, "reserved", "RFC 5040 4.8", 0x1FFF),
    ],
)


def enhanced_fields(data: bytes) -> tuple[Field, list[FieldFault]]:
    """The four octets before the private data of a frame with S set, `data` being all after its header."""
    return _ENHANCED_ROWS.read_moved(data, 0, STARTUP_ROWS.size)


def terminate_fields(payload: bytes) -> tuple[Field, list[FieldFault], str]:
    """A Terminate header with the headers that it quotes, and its cause in words; `payload` must decode as one."""
    message = decode_terminate(payload)
    group, faults = TERMINATE_ROWS.read(payload)
    quoted = (
        (b"" if message.segment_octets is None else message.segment_octets.to_bytes(2), "DDP Segment Length"),
        (message.ddp_header, "Terminated DDP Header"),
        (message.read_header, "Terminated RDMA Header"),
    )
    at = TERMINATE_ROWS.size
    for octets, name in quoted:
        if octets:
            group.fields.append(Field(name, at, len(octets), octets, octets_shown(octets), "", "RFC 5040 4.8"))
            at += len(octets)
    group.size = at
    swapped = ", layer and type swapped as Linux siw does" if payload[0] != message.code >> 8 else ""
    return group, faults, message.words + swapped
