"""DDP segments of one direction, checked and joined to RDMAP messages (RFC 5041, RFC 5040)."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.iwarp_fields import (
    OPCODES,
    QUEUES,
    READ_REQUEST_ROWS,
    TAGGED_ROWS,
    UNTAGGED_ROWS,
)
from rpcrdma_lab.dissect.mpa_stream import Fpdu
from rpcrdma_lab.dissect.terminate_fields import terminate_fields

__all__ = ["RdmapHalf", "RdmapMessage"]

_READ_REQUEST, _TERMINATE = 1, 7
_SENDS = range(3, 7)
_INVALIDATING = {4, 6}
_SEQUENCE = 1 << 32


@dataclass(slots=True)
class RdmapMessage:
    """An RDMA message of a capture, iWARP or RoCEv2, joined from `segments` segments or packets.

    `opcode` is the RDMAP opcode, for RoCEv2, too; -1 if unknown. `groups` are the annotated headers of the first
    segment or packet, and of the content of a Read Request or Terminate. `handle` and `offset` name the memory of a
    tagged message or of an RDMA Read Request, which asks for `asked` octets; for a Send with Invalidate, `handle` is
    the invalidated handle. `read` identifies a Read Request and its response: the sink's steering tag and offset or, in
    RoCEv2, the request's PSN. `number` is the MSN of an untagged iWARP message, `octets` the length of the payload,
    `data` the payload up to a bound, and `words` the cause in a Terminate. `time_s` is the time of a RoCEv2 message's
    last packet (None: unknown), and None in iWARP.
    """

    opcode: int
    groups: list[Field]
    faults: list[FieldFault]
    handle: int = 0
    offset: int = 0
    asked: int = 0
    read: int = 0
    number: int = 0
    segments: int = 1
    octets: int = 0
    data: bytearray = field(default_factory=bytearray)
    words: str = ""
    time_s: float | None = None

    @property
    def name(self) -> str:
        """The name of the opcode; "opcode N" if it is unknown."""
        return OPCODES[self.opcode].name if self.opcode in OPCODES else f"opcode {self.opcode}"

    @property
    def is_send(self) -> bool:
        """Whether the message is a Send of RFC 5040, with or without Invalidate and Solicited Event."""
        return self.opcode in _SENDS

    @property
    def invalidated(self) -> int | None:
        """The handle that a Send with Invalidate invalidates; None for other messages."""
        return self.handle if self.opcode in _INVALIDATING else None


class RdmapHalf:
    """Joins the DDP segments of one direction of a connection to RDMAP messages, with the rules that they break.

    The message numbers of a queue have to begin with 1, unless the caller sets `late`: the capture begins within the
    connection.
    """

    def __init__(self) -> None:
        self.late = False
        self._unfinished: dict[int | None, RdmapMessage] = {}
        self._expected: dict[int, int] = {}

    @property
    def unfinished(self) -> list[RdmapMessage]:
        """The messages of which some segments have been added, but not the last one."""
        return list(self._unfinished.values())

    def lose(self) -> None:
        """Notes that octets are missing: drops unfinished messages; each queue may go on with any message number."""
        self._unfinished.clear()
        self._expected.clear()
        self.late = True

    def add(self, fpdu: Fpdu) -> RdmapMessage | None:
        """Adds the DDP segment of the next FPDU; returns the message that it completes, with the segments' faults.

        Returns None if further segments of the message follow. An FPDU that ends within its DDP header is returned as a
        message by itself.
        """
        ulpdu = fpdu.ulpdu
        faults = list(fpdu.faults)
        if len(ulpdu) < 2 + 2:
            return RdmapMessage(-1, [Field("FPDU", 0, len(ulpdu), fields=fpdu.trailer)], faults)
        tagged = bool(ulpdu[2] & 0x80)
        table = TAGGED_ROWS if tagged else UNTAGGED_ROWS
        group, more = table.read(ulpdu)
        faults += more
        group.fields += fpdu.trailer
        opcode = ulpdu[3] & 0x0F
        if more:
            return RdmapMessage(opcode, [group], faults)
        self._check_control(group, faults, opcode, tagged=tagged)
        last = bool(ulpdu[2] & 0x40)
        if tagged:
            return self._tagged(group, faults, ulpdu, last=last)
        return self._untagged(group, faults, ulpdu, last=last)

    @staticmethod
    def _check_control(group: Field, faults: list[FieldFault], opcode: int, *, tagged: bool) -> None:
        def wrong(name: str, reason: str, section: str, requirement: str) -> None:
            member = group.member(name)
            assert member is not None
            member.faults.append(reason)
            faults.append(FieldFault(name, member.offset, reason, section, requirement))

        if group.number("DV") != 1:
            wrong("DV", "1 is needed", "RFC 5041 4.1", "DDP-4")
        if group.number("RV") != 1:
            wrong("RV", "1 is needed", "RFC 5040 4.1", "RD-1")
        for name, section, requirement in (("Rsvd", "RFC 5041 4.1", "DDP-4"), ("Rsv", "RFC 5040 4.1", "RD-1")):
            if group.number(name):
                wrong(name, "reserved bits are zero", section, requirement)
        known = OPCODES.get(opcode)
        if group.number("Invalidate STag") and known is not None and opcode not in _INVALIDATING:
            where = ("RFC 5040 4.1", "RD-2") if opcode <= _TERMINATE else ("RFC 7306 4.1", "RX-1")
            wrong("Invalidate STag", f"it is zero in a message that ends no tag: {known.name}", *where)
        if known is None:
            wrong("Opcode", "it has no meaning", "RFC 5040 4.1", "RD-2")
        elif (known.queue is None) != tagged:
            kind = "tagged" if known.queue is None else "untagged"
            wrong("T", f"{known.name} is {kind}", "RFC 5040 4.1", "RD-2")
        elif not tagged and group.number("QN") != known.queue:
            wrong("QN", f"{known.name} belongs to queue {known.queue}", "RFC 5040 4.1", "RD-2")

    def _tagged(self, group: Field, faults: list[FieldFault], ulpdu: bytes, *, last: bool) -> RdmapMessage | None:
        handle, offset = group.number("STag") or 0, group.number("TO") or 0
        payload = ulpdu[TAGGED_ROWS.size :]
        message = self._unfinished.pop(None, None)
        if message is not None and (message.handle, message.opcode) != (handle, ulpdu[3] & 0x0F):
            reason = f"{message.name} to {message.handle:#010x} has not ended"
            faults.append(FieldFault("STag", 4, reason, "RFC 5041 5.3", "DDP-10"))
            message = None
        if message is None:
            message = RdmapMessage(ulpdu[3] & 0x0F, [group], faults, handle, offset, read=handle << 64 | offset)
        else:
            if offset != message.offset + message.octets:
                reason = f"{message.offset + message.octets:#018x} is next in this message"
                faults.append(FieldFault("TO", 8, reason, "RFC 5041 5.2", "DDP-8"))
            self._join(message, faults)
        message.octets += len(payload)
        message.data += payload[: limits.DISSECTED_MESSAGE_OCTETS_MAX - len(message.data)]
        if last:
            return message
        self._unfinished[None] = message
        return None

    def _untagged(self, group: Field, faults: list[FieldFault], ulpdu: bytes, *, last: bool) -> RdmapMessage | None:
        queue, number, place = (group.number(name) or 0 for name in ("QN", "MSN", "MO"))
        payload = ulpdu[UNTAGGED_ROWS.size :]
        queue = queue if queue in QUEUES else -1
        message = self._unfinished.pop(queue, None)
        following = 0 if message is None else message.octets
        if place != following:
            reason = f"{place}, {following} is next in this message"
            faults.append(FieldFault("MO", 16, reason, "RFC 5041 5.2", "DDP-8"))
        if message is None:
            self._check_number(faults, queue, number)
            message = RdmapMessage(ulpdu[3] & 0x0F, [group], faults, group.number("Invalidate STag") or 0)
            message.number = number
        else:
            if number != message.number:
                reason = f"message {message.number} of this queue has not ended"
                faults.append(FieldFault("MSN", 12, reason, "RFC 5041 5.3", "DDP-10"))
            self._join(message, faults)
        most = limits.DISSECTED_MESSAGE_OCTETS_MAX
        if message.octets <= most < message.octets + len(payload):
            message.faults.append(
                FieldFault("L", 2, f"the message has more than {most} octets, the rest is left out", "")
            )
        message.octets += len(payload)
        message.data += payload[: most - len(message.data)]
        if not last:
            self._unfinished[queue] = message
            return None
        return self._finish(message)

    def _check_number(self, faults: list[FieldFault], queue: int, number: int) -> None:
        expected = self._expected.get(queue, number if self.late else 1)
        if number != expected:
            reason = f"{number}, {expected} is next in this queue"
            faults.append(FieldFault("MSN", 12, reason, "RFC 5041 4.3", "DDP-6"))
        self._expected[queue] = (number + 1) % _SEQUENCE

    @staticmethod
    def _join(message: RdmapMessage, faults: list[FieldFault]) -> None:
        message.segments += 1
        # One reason of a kind says it: a message of a thousand segments may break the same rule in each.
        if len(message.faults) < limits.DISSECTED_FAULTS_MAX:
            message.faults += faults

    @staticmethod
    def _finish(message: RdmapMessage) -> RdmapMessage:
        data = bytes(message.data)
        if message.opcode == _READ_REQUEST:
            group, faults = READ_REQUEST_ROWS.read(data)
            message.groups.append(group)
            message.faults += faults
            names = ("SrcSTag", "SrcTO", "RDMARDSZ", "SinkSTag", "SinkTO")
            message.handle, message.offset, message.asked, sink, at = (group.number(name) or 0 for name in names)
            message.read = sink << 64 | at
            if len(data) > READ_REQUEST_ROWS.size:
                reason = f"{len(data) - READ_REQUEST_ROWS.size} more octets follow"
                message.faults.append(FieldFault(group.name, READ_REQUEST_ROWS.size, reason, "RFC 5040 4.4"))
        elif message.opcode == _TERMINATE:
            group, faults, message.words = terminate_fields(data)
            message.groups.append(group)
            message.faults += faults
        return message
