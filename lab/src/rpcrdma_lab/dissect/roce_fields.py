"""The headers of InfiniBand's transport, which RoCEv2 carries in UDP, as tables, and its operation codes.

Sections are those of the InfiniBand Architecture Specification, volume 1 (IBA).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from rpcrdma_lab.dissect.header_table import Row, Table, hex8, hex16

__all__ = [
    "ACKNOWLEDGE_ROWS",
    "BASE_ROWS",
    "DATAGRAM_ROWS",
    "INVALIDATE_ROWS",
    "KINDS",
    "NAKS",
    "REACH_ROWS",
    "Operation",
    "PacketKind",
    "Place",
    "Syndrome",
    "kind_name",
    "syndrome_of",
]


class Operation(enum.Enum):
    """The operation of a packet; the value is its name."""

    SEND = "Send"
    WRITE = "RDMA Write"
    READ_REQUEST = "RDMA Read Request"
    READ_RESPONSE = "RDMA Read Response"
    ACKNOWLEDGE = "Acknowledge"
    ATOMIC_ACKNOWLEDGE = "Atomic Acknowledge"
    COMPARE_SWAP = "Atomic Compare and Swap"
    FETCH_ADD = "Atomic Fetch and Add"
    FLUSH = "Flush"
    ATOMIC_WRITE = "Atomic Write"
    DATAGRAM = "datagram"
    CONGESTION = "congestion notification"


class Place(enum.Flag):
    """The place of a packet in its message: first, middle or last; the only packet is first and last."""

    MIDDLE = 0
    FIRST = 1
    LAST = 2
    ONLY = 3


class Syndrome(enum.Enum):
    """The kind of an Acknowledge, from bits 5 and 6 of the syndrome octet."""

    ACK = 0
    RNR_NAK = 1
    RESERVED = 2
    NAK = 3


NAKS = {
    0: "packets are missing",
    1: "an invalid request",
    2: "a remote access error",
    3: "a remote operational error",
    4: "an invalid RD request",
}
"""Reasons by code of a NAK (IBA 9.7.5.2). Code 0 asks for packets again; the others end the connection."""

_TRANSPORT, _EXTENDED = "IBA 9.2", "IBA 9.3"


def syndrome_of(value: int) -> Syndrome:
    """Returns the kind of an Acknowledge; `value` is its syndrome, the first octet of the acknowledge header."""
    return Syndrome(value >> 5 & 3)


def _syndrome(value: int) -> str:
    kind = syndrome_of(value)
    reason = f", {NAKS.get(value & 0x1F, 'a code that has no meaning')}" if kind is Syndrome.NAK else ""
    return f"{value:#04x} ({kind.name.replace('_', ' ')}{reason})"


def _kind(value: int) -> str:
    return f"{value:#04x} ({kind_name(value)})"


BASE_ROWS = Table(
    "InfiniBand base transport header",
    [
        Row("OpCode", 0, 1, "kind of the packet", _TRANSPORT, 0, _kind),
        Row("SE", 1, 1, "the receiver is to be woken", _TRANSPORT, 0x80),
        Row("M", 1, 1, "state of a path migration", _TRANSPORT, 0x40),
        Row("PadCnt", 1, 1, "octets of padding behind the payload", _TRANSPORT, 0x30),
        Row("TVer", 1, 1, "version of the transport", _TRANSPORT, 0x0F),
        Row("P_Key", 2, 2, "partition", _TRANSPORT, 0, lambda value: f"{value:#06x}"),
        Row("DestQP", 5, 3, "queue pair of the receiver", _TRANSPORT),
        Row("A", 8, 1, "an Acknowledge is asked for", _TRANSPORT, 0x80),
        Row("PSN", 9, 3, "number of the packet", _TRANSPORT),
    ],
)
REACH_ROWS = Table(
    "RDMA header",
    [
        Row("VA", 0, 8, "where in the memory", _EXTENDED, 0, hex16),
        Row("R_Key", 8, 4, "key of the memory", _EXTENDED, 0, hex8),
        Row("DMALen", 12, 4, "octets of the whole message", _EXTENDED),
    ],
)
ACKNOWLEDGE_ROWS = Table(
    "acknowledge header",
    [
        Row("Syndrome", 0, 1, "whether the packets up to this number have arrived", _EXTENDED, 0, _syndrome),
        Row("MSN", 1, 3, "number of the message that was completed last", _EXTENDED),
    ],
)
ATOMIC_ROWS = Table(
    "atomic header",
    [
        Row("VA", 0, 8, "where in the memory", _EXTENDED, 0, hex16),
        Row("R_Key", 8, 4, "key of the memory", _EXTENDED, 0, hex8),
        Row("SwapDt", 12, 8, "number to store or to add", _EXTENDED, 0, hex16),
        Row("CmpDt", 20, 8, "number to compare with", _EXTENDED, 0, hex16),
    ],
)
ATOMIC_ACKNOWLEDGE_ROWS = Table("atomic result", [Row("OrigRemDt", 0, 8, "number before", _EXTENDED, 0, hex16)])
FLUSH_ROWS = Table("flush header", [Row("FETH", 0, 4, "what is flushed, and how far", "IBA A19", 0, hex8)])
IMMEDIATE_ROWS = Table("immediate data", [Row("ImmDt", 0, 4, "a word for the receiver", _EXTENDED, 0, hex8)])
INVALIDATE_ROWS = Table("invalidate header", [Row("R_Key", 0, 4, "key that is ended", _EXTENDED, 0, hex8)])
DATAGRAM_ROWS = Table(
    "datagram header",
    [
        Row("Q_Key", 0, 4, "key of the receiver's queue", _EXTENDED, 0, hex8),
        Row("SrcQP", 5, 3, "queue pair of the sender", _EXTENDED),
    ],
)


_PLACES = {Place.FIRST: "First", Place.MIDDLE: "Middle", Place.LAST: "Last", Place.ONLY: "Only"}


_IN_PARTS = {Operation.SEND, Operation.WRITE, Operation.READ_RESPONSE}
"""The operations whose messages may have several packets."""


class PacketKind(NamedTuple):
    """An operation code (IBA 9.2.1): operation, place in the message, and the headers after the base header."""

    operation: Operation
    place: Place
    headers: tuple[Table, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operation code, such as "RDMA Write Middle"."""
        operation: str = self.operation.value
        if self.operation not in _IN_PARTS:
            return operation
        extra = "".join(f" with {table.title}" for table in self.headers if table in {IMMEDIATE_ROWS, INVALIDATE_ROWS})
        return f"{operation} {_PLACES[self.place]}{extra}"

    @property
    def is_request(self) -> bool:
        """Whether packets with this operation code are requests, each of which takes the next PSN of its sender.

        An RDMA Read Request takes one PSN for each packet of its response. Responses, datagrams and congestion
        notifications are no requests.
        """
        return self.operation not in _NO_REQUESTS


_NO_REQUESTS = {
    Operation.READ_RESPONSE,
    Operation.ACKNOWLEDGE,
    Operation.ATOMIC_ACKNOWLEDGE,
    Operation.DATAGRAM,
    Operation.CONGESTION,
}


_REACH, _ACK = (REACH_ROWS,), (ACKNOWLEDGE_ROWS,)
_IMMEDIATE, _INVALIDATE = (IMMEDIATE_ROWS,), (INVALIDATE_ROWS,)
KINDS: dict[int, PacketKind] = {
    0x00: PacketKind(Operation.SEND, Place.FIRST),
    0x01: PacketKind(Operation.SEND, Place.MIDDLE),
    0x02: PacketKind(Operation.SEND, Place.LAST),
    0x03: PacketKind(Operation.SEND, Place.LAST, _IMMEDIATE),
    0x04: PacketKind(Operation.SEND, Place.ONLY),
    0x05: PacketKind(Operation.SEND, Place.ONLY, _IMMEDIATE),
    0x06: PacketKind(Operation.WRITE, Place.FIRST, _REACH),
    0x07: PacketKind(Operation.WRITE, Place.MIDDLE),
    0x08: PacketKind(Operation.WRITE, Place.LAST),
    0x09: PacketKind(Operation.WRITE, Place.LAST, _IMMEDIATE),
    0x0A: PacketKind(Operation.WRITE, Place.ONLY, _REACH),
    0x0B: PacketKind(Operation.WRITE, Place.ONLY, _REACH + _IMMEDIATE),
    0x0C: PacketKind(Operation.READ_REQUEST, Place.ONLY, _REACH),
    0x0D: PacketKind(Operation.READ_RESPONSE, Place.FIRST, _ACK),
    0x0E: PacketKind(Operation.READ_RESPONSE, Place.MIDDLE),
    0x0F: PacketKind(Operation.READ_RESPONSE, Place.LAST, _ACK),
    0x10: PacketKind(Operation.READ_RESPONSE, Place.ONLY, _ACK),
    0x11: PacketKind(Operation.ACKNOWLEDGE, Place.ONLY, _ACK),
    0x12: PacketKind(Operation.ATOMIC_ACKNOWLEDGE, Place.ONLY, (ACKNOWLEDGE_ROWS, ATOMIC_ACKNOWLEDGE_ROWS)),
    0x13: PacketKind(Operation.COMPARE_SWAP, Place.ONLY, (ATOMIC_ROWS,)),
    0x14: PacketKind(Operation.FETCH_ADD, Place.ONLY, (ATOMIC_ROWS,)),
    0x16: PacketKind(Operation.SEND, Place.LAST, _INVALIDATE),
    0x17: PacketKind(Operation.SEND, Place.ONLY, _INVALIDATE),
    0x1C: PacketKind(Operation.FLUSH, Place.ONLY, (FLUSH_ROWS, REACH_ROWS)),
    0x1D: PacketKind(Operation.ATOMIC_WRITE, Place.ONLY, _REACH),
    0x64: PacketKind(Operation.DATAGRAM, Place.ONLY, (DATAGRAM_ROWS,)),
    0x65: PacketKind(Operation.DATAGRAM, Place.ONLY, (DATAGRAM_ROWS, IMMEDIATE_ROWS)),
    0x81: PacketKind(Operation.CONGESTION, Place.ONLY),
}
"""The operation codes that are decoded: those of the reliable connection, the datagrams that carry connection
management, and the congestion notification packet of RoCEv2 (IBA A17.9.3)."""
_NOT_DECODED = {
    "unreliable connection": range(0x20, 0x2C),
    "reliable datagram": range(0x40, 0x56),
    "extended reliable connection": (*range(0xA0, 0xB5), 0xB6, 0xB7, 0xBC, 0xBD),
    "kind of a manufacturer": range(0xC0, 0x100),
}
"""The other operation codes that IBA 9.2.1 and its annexes A14 and A19 give away: RPC-over-RDMA uses none of them."""


def kind_name(code: int) -> str:
    """Returns the name of an operation code of 8 bits, such as "RDMA Write Middle".

    For a code that is not decoded, returns the name of its transport service followed by ", not decoded"; "reserved" if
    no specification assigns the code.
    """
    if (kind := KINDS.get(code)) is not None:
        return kind.name
    transport = next((name for name, codes in _NOT_DECODED.items() if code in codes), None)
    return "reserved" if transport is None else f"{transport}, not decoded"
