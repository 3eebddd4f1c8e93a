"""InfiniBand's connection management: the messages that set up and end a connection, as annotated fields.

Sections are those of the InfiniBand Architecture Specification, volume 1 (IBA); annex A11 is the service for IP.
"""

from __future__ import annotations

from typing import NamedTuple

from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.header_table import Row, Table, hex8, hex16
from rpcrdma_lab.dissect.private_data_fields import private_data_fields
from rpcrdma_lab.dissect.roce_packets import RocePacket

__all__ = ["CmMessage", "CmRole", "read_cm_message"]

_MAD, _CM, _IP = "IBA 13.4.2", "IBA 12.6", "IBA A11.4"
_CM_CLASS = 7
_MAD_OCTETS = 256
_TCP_SERVICES = 0x0000000001060000
"""Service ids of ports of TCP: the port is in the 16 low bits (IBA A11.4.2)."""
_MTU_CODES = range(1, 6)
_REASONS = {28: "the consumer refuses it", 8: "no such service", 4: "the time is over", 10: "the state is stale"}


class CmRole(NamedTuple):
    """A kind of connection management message: table of fields, and offset in octets of its private data.

    Offsets count from the end of the management datagram's header. Fields named "Local" are those of the sender.
    """

    table: Table
    private_at: int


def _reason(value: int) -> str:
    return f"{value} ({_REASONS[value]})" if value in _REASONS else str(value)


def _service(value: int) -> str:
    return f"{hex16(value)} (port {value & 0xFFFF})" if value & ~0xFFFF == _TCP_SERVICES else hex16(value)


def _mtu(value: int) -> str:
    return f"{value} ({_mtu_octets(value)} octets)" if _mtu_octets(value) else str(value)


def _mtu_octets(code: int) -> int | None:
    return 128 << code if code in _MTU_CODES else None


_LOCAL = Row("Local Communication ID", 0, 4, "the connection, as the sender names it", _CM, 0, hex8)
_REMOTE = Row("Remote Communication ID", 4, 4, "the connection, as the receiver names it", _CM, 0, hex8)
_MAD_ROWS = Table(
    "management datagram",
    [
        Row("MgmtClass", 1, 1, "7 is connection management", _MAD),
        Row("Method", 3, 1, "3 is Send", _MAD),
        Row("TransactionID", 8, 8, "the exchange that it belongs to", _MAD, 0, hex16),
        Row("AttributeID", 16, 2, "kind of the message", _MAD, 0, lambda value: f"{value:#06x}"),
    ],
)
_IP_ROWS = Table(
    "addresses in the private data",
    [
        Row("MajV", 0, 1, "version", _IP, 0xF0),
        Row("IPV", 1, 1, "version of IP", _IP, 0xF0),
        Row("SrcPort", 2, 2, "port of the requester", _IP),
        Row("SrcIP", 4, 16, "address of the requester", _IP),
        Row("DstIP", 20, 16, "address of the responder", _IP),
    ],
)
_REQUEST, _REPLY, _REJECT = 0x10, 0x13, 0x12
ROLES = {
    _REQUEST: CmRole(
        Table(
            "CM Request",
            [
                _LOCAL,
                Row("ServiceID", 8, 8, "the listener", _CM, 0, _service),
                Row("Local QPN", 32, 3, "queue pair of the sender", _CM),
                Row("Responder Resources", 35, 1, "RDMA Reads that the sender takes at a time", _CM),
                Row("Initiator Depth", 39, 1, "RDMA Reads that the sender makes at a time", _CM),
                Row("Starting PSN", 44, 3, "number of the first packet to the sender", _CM),
                Row("Path Packet Payload MTU", 50, 1, "most octets of payload in a packet", _CM, 0xF0, _mtu),
            ],
        ),
        140,
    ),
    0x11: CmRole(Table("CM Message Receipt", [_LOCAL, _REMOTE]), 10),
    _REJECT: CmRole(
        Table("CM Reject", [_LOCAL, _REMOTE, Row("Reason", 10, 2, "why", "IBA 12.6.7", 0, _reason)]),
        84,
    ),
    _REPLY: CmRole(
        Table(
            "CM Reply",
            [
                _LOCAL,
                _REMOTE,
                Row("Local QPN", 12, 3, "queue pair of the sender", _CM),
                Row("Starting PSN", 20, 3, "number of the first packet to the sender", _CM),
                Row("Responder Resources", 24, 1, "RDMA Reads that the sender takes at a time", _CM),
                Row("Initiator Depth", 25, 1, "RDMA Reads that the sender makes at a time", _CM),
            ],
        ),
        36,
    ),
    0x14: CmRole(Table("CM Ready To Use", [_LOCAL, _REMOTE]), 8),
    0x15: CmRole(
        Table("CM Disconnect Request", [_LOCAL, _REMOTE, Row("Remote QPN", 8, 3, "queue pair of the receiver", _CM)]),
        12,
    ),
    0x16: CmRole(Table("CM Disconnect Reply", [_LOCAL, _REMOTE]), 8),
}
"""The decoded kinds of messages by their attribute ids; others (alternate paths, service ids) are not decoded."""


class CmMessage(NamedTuple):
    """A connection management message, as `read_cm_message` decodes it, with its annotated fields in `group`.

    `attribute` is the attribute id of its kind. `identity` is (attribute id, transaction id, local communication id),
    which a repetition of the message shares.
    """

    attribute: int
    group: Field
    identity: tuple[int, ...]

    @property
    def is_request(self) -> bool:
        """Whether the message is a CM Request, which asks for a connection."""
        return self.attribute == _REQUEST

    @property
    def is_reply(self) -> bool:
        """Whether the message is a CM Reply, which accepts a connection."""
        return self.attribute == _REPLY

    def number(self, name: str) -> int:
        """Returns the value of the message's field `name`, such as "Starting PSN"; 0 if it has no such field."""
        return self.group.number(name) or 0

    @property
    def mtu_octets(self) -> int | None:
        """The most octets of payload in a packet, as a CM Request states; None if the message states no known size."""
        return _mtu_octets(self.number("Path Packet Payload MTU"))

    @property
    def error(self) -> str:
        """The description of a CM Reject with its reason; "" for other messages."""
        reason = self.group.member("Reason") if self.attribute == _REJECT else None
        return f"the connection is refused, reason {reason.shown}" if reason is not None else ""

    @property
    def words(self) -> str:
        """The name of the message, with the TCP port of a Request or the reason of a Reject, for a summary."""
        service = self.number("ServiceID")
        port = f", port {service & 0xFFFF}" if service & ~0xFFFF == _TCP_SERVICES else ""
        return f"{self.group.name}{port}{f': {self.error}' if self.error else ''}"


def read_cm_message(packet: RocePacket) -> CmMessage | None:
    """Decodes the connection management message in `packet`, a datagram to queue pair 1, with fields and private data.

    Returns None for other management datagrams, truncated ones, and kinds of messages that are not decoded (such as
    those on alternate paths).
    """
    data = packet.payload
    if len(data) < _MAD_OCTETS or data[1] != _CM_CLASS:
        return None
    head, _ = _MAD_ROWS.read(data)
    attribute = head.number("AttributeID") or 0
    role = ROLES.get(attribute)
    if role is None:
        return None
    content = data[24:_MAD_OCTETS]
    group, _ = role.table.read(content)
    private, at = content[role.private_at :], role.private_at
    if attribute == _REQUEST and (group.number("ServiceID") or 0) & ~0xFFFF == _TCP_SERVICES:
        group.fields += _IP_ROWS.read_moved(private, 0, at)[0].fields
        private, at = private[_IP_ROWS.size :], at + _IP_ROWS.size
    group.fields.append(private_data_fields(private, at, _CM))
    group.size = len(content)
    identity = (attribute, head.number("TransactionID") or 0, group.number(_LOCAL.name) or 0)
    return CmMessage(attribute, group, identity)
