"""RPC-over-RDMA on one connection: relates replies to calls and RDMA operations to chunks, joins continued messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcrdma import limits
from rpcrdma.dissect.credit_accounts import CreditAccount, account_for
from rpcrdma.dissect.fields import Field, FieldFault, Message
from rpcrdma.dissect.headers import Header, HeaderVersion, MemorySegment, walk_message_header
from rpcrdma.dissect.rdmap_messages import RdmapMessage
from rpcrdma.dissect.rpc_header import ProgramNames, RpcHeader, walk_rpc_header
from rpcrdma.dissect.rules import add_property_values, check_message
from rpcrdma.dissect.sequences import Sequences
from rpcrdma.dissect.transmission_rules import report_shown
from rpcrdma.dissect.transmissions import REPORT, Transmissions

__all__ = ["Conversation"]

_DIRECTIONS = {
    "RDMA2_CALL_EXTERNAL": True,
    "RDMA2_CALL_MIDDLE": True,
    "RDMA2_CALL_INLINE": True,
    "RDMA2_REPLY_EXTERNAL": False,
    "RDMA2_REPLY_MIDDLE": False,
    "RDMA2_REPLY_INLINE": False,
    "ROPT_XMTREQ": True,
    "ROPT_XMTRESP": False,
}
"""Of header types without flags: whether they are calls."""
_READ_REQUEST, _READ_RESPONSE, _WRITE = 1, 2, 0


@dataclass(slots=True)
class _Call:
    """A call that was seen and not answered yet."""

    number: int
    time_s: float | None
    procedure: str
    xid: int
    chunks: list[tuple[str, list[MemorySegment]]]
    reply_start: bytes = b""
    """The first octets that were written to the Reply chunk."""


@dataclass(slots=True)
class _Exposed:
    """A segment of a call's chunk. `first`: the chunk's first octet is in it."""

    call: _Call
    chunk: str
    segment: MemorySegment
    number: int
    first: bool


@dataclass(slots=True)
class Conversation:
    """The calls and replies of a connection so far; an end is 0 or 1. `late`: the beginning was not seen."""

    second: HeaderVersion
    versions: dict[str, HeaderVersion]
    names: ProgramNames
    late: bool = False
    _calls: dict[tuple[int, int], _Call] = field(default_factory=dict)
    _segments: int = 0
    _exposed: dict[tuple[int, int], list[_Exposed]] = field(default_factory=dict)
    _reads: dict[tuple[int, int], tuple[_Exposed, bool]] = field(default_factory=dict)
    _sequences: Sequences = field(default_factory=Sequences)
    _transmissions: Transmissions = field(default_factory=Transmissions)
    _account: CreditAccount = field(default_factory=lambda: account_for(None))

    def lose(self) -> None:
        """Octets are missing: counts may be wrong from here on, and unfinished messages will not end."""
        self.late = True
        self._sequences = Sequences()
        self._transmissions.lose()

    def send(self, end: int, data: bytes, message: Message, invalidated: int | None = None) -> None:
        """Tells of a message that `end` has sent."""
        header = walk_message_header(data, self.second, self.versions)
        message.protocol = "rpcrdma"
        message.groups.append(header.group)
        payload = data[header.size :] if header.kind in header.version.with_payload and not header.faults else b""
        piece = self._sequences.add(end, header, data, payload)
        piece = self._transmissions.add(end, header, data, piece, late=self.late)
        rpc = self._rpc(header, piece.start if piece.begins_rpc else None, whole=piece.complete)
        add_property_values(header)
        self._transmissions.take_properties(end, header)
        check_message(header, len(payload), rpc)
        is_call = self._is_call(end, header, rpc)
        facts = message.facts
        facts |= {"version": header.version.name, "type": header.kind or None, "xid": header.xid}
        facts |= {"header_octets": header.size, "payload_octets": len(payload)} | piece.facts
        if piece.note:
            message.notes.append(piece.note)
            facts["sequence"] = {"pieces": piece.pieces, "octets": piece.octets, "complete": piece.complete}
        header.faults += piece.faults
        if piece.behind:
            size = len(data) - header.size
            message.groups.append(Field("Behind the header", header.size, size, fields=piece.behind))
        if rpc is not None:
            message.groups.append(rpc.group)
            header.faults += rpc.faults
        said = self._follow(end, header, rpc, message, is_call=is_call) if piece.complete else "a part of a message"
        self._tell_credits(end, header, message, is_call=is_call)
        if invalidated is not None:
            message.notes.append(f"invalidates handle {invalidated:#010x}")
            facts["invalidated_handle"] = invalidated
        message.faults += header.faults
        xid = f" xid {header.xid:#010x}" if header.xid is not None else ""
        message.summary = f"{header.kind or header.group.name}{xid}" + (f": {said}" if said else "")

    def _rpc(self, header: Header, start: bytes | None, *, whole: bool) -> RpcHeader | None:
        if start is None or header.faults:
            return None
        rpc = walk_rpc_header(start, self.names)
        if not whole and rpc.faults:
            # The header goes on in the next message, and is read when that is there.
            return None
        return rpc

    def _is_call(self, end: int, header: Header, rpc: RpcHeader | None) -> bool | None:
        if rpc is not None and rpc.is_call is not None:
            return rpc.is_call
        if header.version.number == 2:
            if header.kind.startswith(("RDMA2_CONNPROP", REPORT)):
                return None
            return _DIRECTIONS.get(header.kind) if header.response is None else not header.response
        if header.reads:
            return True
        return False if (1 - end, header.xid or 0) in self._calls else None

    def _follow(
        self, end: int, header: Header, rpc: RpcHeader | None, message: Message, *, is_call: bool | None
    ) -> str:
        """The message's part in the conversation, in a few words."""
        if header.kind.endswith("_ERROR"):
            code = header.find("rdma_err")
            said = code.shown if code is not None else "an error"
            self._answered(end, header.xid, message, "refuses")
            return said
        if header.kind == REPORT and not header.faults:
            message.facts["message"] = "report"
            if (1 - end, header.xid) in self._calls:
                self._answered(end, header.xid, message, "refuses")
            return report_shown(header)
        if (header.kind.endswith("NOMSG") and not header.segments and not header.xid) or header.kind == "RDMA2_GRANT":
            message.facts["message"] = "grant"
            return "a grant of credits"
        if is_call is None or header.xid is None or "CONNPROP" in header.kind:
            return ""
        message.facts["message"] = "call" if is_call else "reply"
        if is_call:
            procedure = rpc.procedure if rpc is not None else ""
            self._called(end, header.xid, _chunks_of(header), message, procedure)
            message.facts["procedure"] = procedure or None
            return f"call {procedure}".rstrip() if rpc is not None or not header.faults else "cannot be read"
        call = self._answered(end, header.xid, message, "answers")
        if rpc is None and call is not None and call.reply_start:
            rpc = walk_rpc_header(call.reply_start, self.names)
            rpc.group.name = "RPC, in the Reply chunk"
            message.groups.append(rpc.group)
            header.faults += rpc.faults
        message.facts["outcome"] = rpc.outcome if rpc is not None else None
        return _reply_shown(call, rpc)

    # Calls

    def _called(
        self, end: int, xid: int, chunks: list[tuple[str, list[MemorySegment]]], message: Message, procedure: str
    ) -> None:
        known = self._calls.pop((end, xid), None)
        if known is not None:
            message.notes.append(f"the same XID as #{known.number}, which was not answered")
            self._hide(end, known)
        self._segments += sum(len(segments) for _, segments in chunks)
        call = self._calls[end, xid] = _Call(message.number, message.time_s, procedure, xid, chunks)
        while len(self._calls) > limits.CAPTURE_CALLS_MAX or self._segments > limits.CAPTURE_CALL_SEGMENTS_MAX:
            key = next(iter(self._calls))
            self._hide(key[0], self._calls.pop(key))
        if (end, xid) not in self._calls:
            return
        for chunk, segments in call.chunks:
            for number, segment in enumerate(segments, 1):
                exposed = _Exposed(call, chunk, segment, number, number == 1)
                self._exposed.setdefault((end, segment.handle), []).append(exposed)

    def _answered(self, end: int, xid: int | None, message: Message, verb: str) -> _Call | None:
        call = self._calls.pop((1 - end, xid or 0), None)
        if call is None:
            message.notes.append("what it answers is not in the input")
            return None
        self._hide(1 - end, call)
        note = f"{verb} #{call.number}"
        message.facts["answers"] = call.number
        if message.time_s is not None and call.time_s is not None:
            elapsed_s = message.time_s - call.time_s
            message.facts["elapsed_s"] = round(elapsed_s, 9)
            note += f" after {elapsed_s * 1e6:.0f} µs"
        message.notes.append(note)
        return call

    def _hide(self, end: int, call: _Call) -> None:
        """The chunks of a call are no more."""
        self._segments -= sum(len(segments) for _, segments in call.chunks)
        for handle in {segment.handle for _, segments in call.chunks for segment in segments}:
            left = [one for one in self._exposed.pop((end, handle), ()) if one.call is not call]
            if left:
                self._exposed[end, handle] = left

    # RDMA Reads and Writes

    def data(self, end: int, rdmap: RdmapMessage, message: Message) -> None:
        """Tells which chunk an RDMA Write, Read Request or Read Response of `end` serves."""
        if rdmap.opcode == _WRITE:
            found = self._find(1 - end, rdmap.handle, rdmap.offset, rdmap.octets)
            if found is None:
                return
            if found.first and found.chunk == "Reply chunk" and rdmap.offset == found.segment.offset:
                found.call.reply_start = bytes(rdmap.data)
            self._tell_served(found, message)
        elif rdmap.opcode == _READ_REQUEST and len(rdmap.groups) > 1:
            request = rdmap.groups[1]
            source, offset, octets, sink = (
                request.number(name) or 0 for name in ("SrcSTag", "SrcTO", "RDMARDSZ", "SinkSTag")
            )
            found = self._find(1 - end, source, offset, octets)
            if found is None:
                return
            starts = found.first and offset == found.segment.offset
            while len(self._reads) >= limits.CAPTURE_CALLS_MAX:
                del self._reads[next(iter(self._reads))]
            self._reads[end, sink] = found, starts
            self._tell_served(found, message)
        elif rdmap.opcode == _READ_RESPONSE:
            served = self._reads.pop((1 - end, rdmap.handle), None)
            if served is None:
                return
            found, starts = served
            self._tell_served(found, message)
            if starts and found.chunk in {"Position-Zero Read chunk", "Call chunk"}:
                self._tell_long_call(found.call, bytes(rdmap.data), message)

    def _tell_long_call(self, call: _Call, start: bytes, message: Message) -> None:
        rpc = walk_rpc_header(start, self.names)
        rpc.group.name = "RPC, in the Read chunk"
        message.groups.append(rpc.group)
        message.faults += rpc.faults
        call.procedure = rpc.procedure
        message.facts["procedure"] = rpc.procedure or None
        message.summary += f", call {rpc.procedure}"

    def _find(self, owner: int, handle: int, offset: int, octets: int) -> _Exposed | None:
        for one in self._exposed.get((owner, handle), ()):
            start = one.segment.offset
            # A reply has the lengths that the responder used, the call the lengths of the memory.
            if start <= offset and offset + octets <= start + one.segment.length:
                return one
        return None

    @staticmethod
    def _tell_served(found: _Exposed, message: Message) -> None:
        of = f"#{found.call.number}" + (f", {found.call.procedure}" if found.call.procedure else "")
        message.notes.append(f"serves segment {found.number} of the {found.chunk} of {of}")
        message.facts["serves"] = {"call": found.call.number, "chunk": found.chunk, "segment": found.number}
        message.facts["xid"] = found.call.xid

    # Credits

    def _tell_credits(self, end: int, header: Header, message: Message, *, is_call: bool | None) -> None:
        if header.xid is None or not header.kind or len(header.group.fields) < 4:
            return
        if self._account.version != header.version.name and not header.kind.endswith("_ERROR"):
            self._account = account_for(header.version.name)
        said = self._account.add(end, header, is_call=is_call)
        if said is None:
            return
        message.facts["credits"] = said.facts
        message.notes.append(said.note)
        if said.beyond and not self.late:
            field_ = header.find("rdma_credit")
            assert field_ is not None
            header.faults.append(FieldFault("message", 0, said.beyond, field_.section))


def _reply_shown(call: _Call | None, rpc: RpcHeader | None) -> str:
    said = f"reply to {call.procedure}" if call is not None and call.procedure else "reply"
    return f"{said}, {rpc.outcome}" if rpc is not None and rpc.outcome else said


def _chunks_of(header: Header) -> list[tuple[str, list[MemorySegment]]]:
    by_position: dict[int, list[MemorySegment]] = {}
    for position, segment in header.reads:
        by_position.setdefault(position, []).append(segment)
    found = []
    for position, segments in by_position.items():
        found.append((f"Read chunk at {position}" if position else "Position-Zero Read chunk", segments))
    found += [(f"Write chunk {number}", chunk) for number, chunk in enumerate(header.writes, 1)]
    if header.reply is not None:
        found.append(("Reply chunk", header.reply))
    return found
