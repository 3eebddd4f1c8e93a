"""RPC-over-RDMA on one connection: relates replies to calls and RDMA operations to chunks, joins continued messages."""

from __future__ import annotations

import bisect
import functools
from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.credit_accounts import CreditAccount, account_for
from rpcrdma_lab.dissect.fields import Field, FieldFault, Message
from rpcrdma_lab.dissect.headers import Header, HeaderVersion, MemorySegment, walk_message_header
from rpcrdma_lab.dissect.long_messages import LongMessage, Payload, Room
from rpcrdma_lab.dissect.protection import Protection, clear_body
from rpcrdma_lab.dissect.rdmap_messages import RdmapMessage
from rpcrdma_lab.dissect.rpc_body import Called, Interfaces, Part, WholeItem
from rpcrdma_lab.dissect.rpc_header import RpcHeader, walk_rpc_header
from rpcrdma_lab.dissect.rules import add_property_values, check_message
from rpcrdma_lab.dissect.sequences import Sequences
from rpcrdma_lab.dissect.transmission_rules import report_shown
from rpcrdma_lab.dissect.transmissions import REPORT, Transmissions

__all__ = ["Conversation"]

_READ_REQUEST, _READ_RESPONSE, _WRITE = 1, 2, 0
_REPLY_CHUNK = "Reply chunk"
_LONG_CALL = "Position-Zero Read chunk"
_WITHOUT_FIELDS = {
    Protection.PRIVACY: "the {} are private (RPCSEC_GSS)",
    Protection.CONTEXT: "the {} belong to a context of RPCSEC_GSS",
}
_OVERLAPS_MAX = 64
"""Segments of one handle at and before an offset that are searched for its memory: only old calls' segments overlap."""
_NEVER_CALLS = {REPORT, "RDMA_DONE"}
"""Header types of messages that have the XID of a call, and are no calls themselves, whatever rule they break."""
_INLINE_LOCATIONS = {5, 6}
"""Location types of items that are in the payload or do not exist: TOOSHORT and NOITEM (rtrext section 6.2)."""


@dataclass(frozen=True)
class _Chunk:
    """A chunk of a transport header.

    `name` is as in "Write chunk 1", "Read chunk at 40", "Position-Zero Read chunk" or "Reply chunk". `position` is that
    of a Read chunk, None for other chunks.
    """

    name: str
    segments: list[MemorySegment]
    position: int | None = None

    @functools.cached_property
    def octets(self) -> int:
        """The total length of the chunk's segments in octets; in a reply, the length that was written."""
        return sum(segment.length for segment in self.segments)


@dataclass(slots=True)
class _Call:
    """An RPC call in the capture without a reply so far; number and time (None: unknown) are its message's.

    `chunks` are those that the call offers. `long_call` and `long_reply` are the messages that RDMA carries in its
    Position-Zero Read chunk and its Reply chunk; None until RDMA has transferred octets of them.
    """

    number: int
    time_s: float | None
    procedure: str
    xid: int
    chunks: list[_Chunk]
    called: Called | None = None
    """The numbers of program, version and procedure; None if arguments and results cannot be decoded."""
    protection: Protection = Protection.NONE
    long_call: LongMessage | None = None
    long_reply: LongMessage | None = None


@dataclass(slots=True)
class _Exposed:
    """A segment of a call's chunk, which RDMA operations may access.

    `chunk` is the chunk that has the segment, and `number` the segment's number in the chunk, from 1 on.
    """

    call: _Call
    chunk: _Chunk
    segment: MemorySegment
    number: int

    @property
    def place(self) -> tuple[int, int]:
        """The offset of the memory, and the number of the call, which order the segments of one handle."""
        return self.segment.offset, self.call.number


@dataclass(slots=True)
class Conversation:
    """The RPC-over-RDMA state of one captured connection: calls without reply, their chunks, credits.

    An end is 0 or 1. `late` says that octets of the connection are not in the capture, such as its beginning: counts of
    credits are those of the captured messages alone, and no excess of them is a fault. `versions` has the known
    versions of RPC-over-RDMA by name, "1" and "2" (`header_versions`), and `interfaces` the known programs, by which
    procedures are named and arguments and results decoded.
    """

    versions: dict[str, HeaderVersion]
    interfaces: Interfaces
    late: bool = False
    _calls: dict[tuple[int, int], _Call] = field(default_factory=dict)
    _segments: int = 0
    _exposed: dict[tuple[int, int], list[_Exposed]] = field(default_factory=dict)
    _reads: dict[tuple[int, int], tuple[_Exposed, int]] = field(default_factory=dict)
    _sequences: Sequences = field(default_factory=Sequences)
    _transmissions: Transmissions = field(default_factory=Transmissions)
    _room: Room = field(default_factory=Room)
    _account: CreditAccount = field(default_factory=lambda: account_for(None))

    def begin(self) -> None:
        """Notes that the connection begins now, in the capture: clears `late`, and drops unfinished sequences."""
        self.late = False
        self._sequences = Sequences()

    def lose(self) -> None:
        """Notes that octets are missing: sets `late`, and drops unfinished RPC messages of several Sends."""
        self.late = True
        self._sequences = Sequences(late=True)
        self._transmissions.lose()

    def send(self, end: int, data: bytes, message: Message, invalidated: int | None = None) -> None:
        """Decodes the Send with the octets `data`, and adds header, RPC fields, faults, facts and summary to `message`.

        Args:
            end: the sender, 0 or 1.
            data: the octets of the Send.
            message: the message to complete, which has its number and time.
            invalidated: the handle that a Send with Invalidate names; None for a Send without it.
        """
        header = walk_message_header(data, self.versions)
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
        if chunks := _chunks_of(header):
            facts["chunks"] = [
                {"chunk": chunk.name, "segments": [segment._asdict() for segment in chunk.segments]} for chunk in chunks
            ]
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
        if not piece.complete and is_call is not None:
            facts["part_of"] = "call" if is_call else "reply"
        body = Payload(piece.start, piece.octets)
        said = (
            self._follow(end, header, rpc, body, message, is_call=is_call) if piece.complete else "a part of a message"
        )
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
        rpc = walk_rpc_header(start, self.interfaces)
        if not whole and rpc.faults:
            # The header goes on in the next message, and is read when that is there.
            return None
        return rpc

    def _is_call(self, end: int, header: Header, rpc: RpcHeader | None) -> bool | None:
        if rpc is not None and rpc.is_call is not None:
            return rpc.is_call
        if header.row is not None:
            return None
        if header.version.number == 2:
            if header.kind.startswith(("RDMA2_CONNPROP", REPORT)):
                return None
            return None if header.response is None else not header.response
        if header.reads:
            return True
        return False if (1 - end, header.xid or 0) in self._calls else None

    def _follow(
        self,
        end: int,
        header: Header,
        rpc: RpcHeader | None,
        payload: Payload,
        message: Message,
        *,
        is_call: bool | None,
    ) -> str:
        """Relates a complete message to its call, adds facts to `message`, and returns text for its summary.

        `end` is the sender, `header` the transport header, `rpc` the RPC header (None: none was decoded), and `payload`
        the RPC message. `is_call` says whether it is a call or a reply; None: unknown or neither. In any case an error,
        or a report without faults, answers the call with its XID, a grant of credits only gets a fact, and the text is
        "" for transport properties and other messages without an XID. If `is_call` is None, a message that breaks a
        rule, and whose XID is in no unanswered call of the other end, counts as a call, which an error may refuse,
        unless its type is in `_NEVER_CALLS`; the text is "" for all others.
        """
        if header.kind.endswith("_ERROR"):
            code = header.find("rdma_err")
            said = code.shown if code is not None else "an error"
            # "2 (ERR_CHUNK: header or chunks not usable)" without the number
            message.facts["error"] = said.partition("(")[2].rstrip(")") or said
            self._answered(end, header.xid, message, "refuses")
            return said
        if header.kind == REPORT and not header.faults:
            message.facts["message"] = "report"
            if (1 - end, header.xid) in self._calls:
                self._answered(end, header.xid, message, "refuses")
            said = message.facts["error"] = report_shown(header)
            return said
        if header.kind.endswith("NOMSG") and not header.segments and not header.xid:
            message.facts["message"] = "grant"
            return "a grant of credits"
        if header.xid is None or "CONNPROP" in header.kind:
            return ""
        may_be_call = header.kind not in _NEVER_CALLS and (1 - end, header.xid) not in self._calls
        if is_call is None and header.faults and may_be_call:
            # An error with its XID will refuse it.
            is_call = True
        if is_call is None:
            return ""
        message.facts["message"] = "call" if is_call else "reply"
        if is_call:
            procedure = rpc.procedure if rpc is not None else ""
            made = self._called(end, header.xid, _chunks_of(header), message, procedure)
            message.facts["procedure"] = procedure or None
            if rpc is not None:
                self._tell_arguments(made, rpc, payload, _items(header), message)
            return f"call {made.procedure}".rstrip() if rpc is not None or not header.faults else "cannot be read"
        call = self._answered(end, header.xid, message, "answers")
        if rpc is None and call is not None and call.long_reply is not None:
            payload = call.long_reply.joined(header.reply or ())
            rpc = self._long_rpc(payload, "Reply chunk", message)
        message.facts["outcome"] = rpc.outcome if rpc is not None else None
        if call is not None and rpc is not None and rpc.outcome == "SUCCESS":
            self._add_body(call, Part.RESULTS, payload, rpc.size, _items(header), message)
        return _reply_shown(call, rpc)

    def _tell_arguments(
        self, call: _Call, rpc: RpcHeader, payload: Payload, items: list[WholeItem], message: Message
    ) -> None:
        if rpc.faults or rpc.protection is None:
            return
        call.called, call.protection = rpc.called, rpc.protection
        self._add_body(call, Part.ARGUMENTS, payload, rpc.size, items, message)

    def _add_body(
        self, call: _Call, part: Part, payload: Payload, start: int, items: list[WholeItem], message: Message
    ) -> None:
        """Adds the fields of arguments or results to `message`, and a COMPOUND's operations or the status to its facts.

        The operations replace the procedure's name in `call`, too. Adds a note instead if RPCSEC_GSS encrypts them, or
        they create or end an RPCSEC_GSS context. Does nothing for an unknown program. `part` says whether arguments or
        results begin at octet `start` of `payload`, the RPC message of `call`; `items` are data items that are in
        chunks instead.
        """
        if call.called is not None and call.protection in _WITHOUT_FIELDS:
            message.notes.append(_WITHOUT_FIELDS[call.protection].format(part.value))
            return
        clear = clear_body(call.protection, payload, start)
        body = call.called and self.interfaces.body(
            call.called, part, clear.data, clear.start, items, whole=clear.whole
        )
        if not body:
            return
        message.groups.append(body.group)
        message.notes += [body.remark] if body.remark else []
        operations = [one.shown for one in body.group.walk() if one.name == "argop"] if part is Part.ARGUMENTS else []
        if operations:
            # A COMPOUND of NFS version 4 is known by its operations: "NFS_V4 SEQUENCE+PUTFH+READ".
            most = limits.DISSECTED_OPERATIONS_MAX
            names = "+".join(shown.partition("(OP_")[2].rstrip(")") or shown for shown in operations[:most])
            names += "+..." if len(operations) > most else ""
            call.procedure = f"{call.procedure.rpartition(' ')[0]} {names}"
            message.facts["procedure"] = call.procedure
        first = body.group.fields[0]
        if part is Part.RESULTS and isinstance(first.value, int) and first.shown != str(first.value):
            # Results of most protocols begin with a status, as a union or by itself.
            message.facts["status"] = first.shown.partition("(")[2].rstrip(")") or first.shown
            message.facts["status_code"] = first.value

    # Calls

    def _called(self, end: int, xid: int, chunks: list[_Chunk], message: Message, procedure: str) -> _Call:
        known = self._calls.pop((end, xid), None)
        if known is not None:
            message.notes.append(f"the same XID as #{known.number}, which was not answered")
            self._hide(end, known)
        self._segments += sum(len(chunk.segments) for chunk in chunks)
        call = self._calls[end, xid] = _Call(message.number, message.time_s, procedure, xid, chunks)
        while len(self._calls) > limits.CAPTURE_CALLS_MAX or self._segments > limits.CAPTURE_CALL_SEGMENTS_MAX:
            key = next(iter(self._calls))
            self._hide(key[0], self._calls.pop(key))
        if (end, xid) not in self._calls:
            return call
        for chunk in call.chunks:
            for number, segment in enumerate(chunk.segments, 1):
                exposed = _Exposed(call, chunk, segment, number)
                bisect.insort(self._exposed.setdefault((end, segment.handle), []), exposed, key=lambda one: one.place)
        return call

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
        """Forgets the chunks of `call`, which `end` (0 or 1) has sent, because it is answered or given up."""
        self._segments -= sum(len(chunk.segments) for chunk in call.chunks)
        for long in (call.long_call, call.long_reply):
            if long is not None:
                long.leave()
        for segment in (segment for chunk in call.chunks for segment in chunk.segments):
            exposed = self._exposed.get((end, segment.handle), [])
            index = bisect.bisect_left(exposed, (segment.offset, call.number), key=lambda one: one.place)
            if index < len(exposed) and exposed[index].call is call:
                del exposed[index]
                if not exposed:
                    del self._exposed[end, segment.handle]

    # RDMA Reads and Writes

    def data(self, end: int, rdmap: RdmapMessage, message: Message) -> None:
        """Adds to `message` which chunk of which call an RDMA Write, Read Request or Read Response serves, if known.

        A Read Response that begins a Long Call also adds the RPC header, and one that completes it the arguments.

        Args:
            end: the sender, 0 or 1.
            rdmap: the decoded RDMA message.
            message: the message to complete.
        """
        if rdmap.opcode == _WRITE:
            found = self._find(1 - end, rdmap.handle, rdmap.offset, rdmap.octets)
            if found is None:
                return
            if found.chunk.name == _REPLY_CHUNK:
                found.call.long_reply = found.call.long_reply or LongMessage(self._room)
                found.call.long_reply.add(found.number, rdmap.offset - found.segment.offset, rdmap.data, rdmap.octets)
            self._tell_served(found, message)
        elif rdmap.opcode == _READ_REQUEST and rdmap.asked:
            found = self._find(1 - end, rdmap.handle, rdmap.offset, rdmap.asked)
            if found is None:
                return
            while len(self._reads) >= limits.CAPTURE_CALLS_MAX:
                del self._reads[next(iter(self._reads))]
            self._reads[end, rdmap.read] = found, rdmap.offset - found.segment.offset
            self._tell_served(found, message)
        elif rdmap.opcode == _READ_RESPONSE:
            served = self._reads.pop((1 - end, rdmap.read), None)
            if served is None:
                return
            found, place = served
            self._tell_served(found, message)
            if found.chunk.name == _LONG_CALL:
                self._take_long_call(found, place, rdmap, message)

    def _take_long_call(self, found: _Exposed, place: int, rdmap: RdmapMessage, message: Message) -> None:
        call = found.call
        starts = call.long_call is None
        if call.long_call is None:
            call.long_call = LongMessage(self._room)
        long, chunk = call.long_call, found.chunk
        before, kept_before = long.octets, long.kept
        long.add(found.number, place, rdmap.data, rdmap.octets)
        # Octets that are read again count as well: the message may be whole only later.
        ends = long.octets >= chunk.octets > before or long.kept >= chunk.octets > kept_before
        if not starts and not ends:
            return
        payload = long.joined(chunk.segments)
        rpc = self._long_rpc(payload, "Read chunk", message)
        if rpc is None:
            return
        if not call.procedure:
            call.procedure = rpc.procedure
            message.facts["procedure"] = rpc.procedure or None
            message.summary += f", call {rpc.procedure}"
        if ends:
            self._tell_arguments(call, rpc, payload, _in_chunks(call.chunks), message)

    def _long_rpc(self, payload: Payload, chunk: str, message: Message) -> RpcHeader | None:
        """Decodes the RPC header of the long message `payload`, and adds its fields and faults to `message`.

        `chunk` is the kind of chunk that carries the long message, for the name of the fields. Returns None, and adds
        nothing, if the header is not in the octets captured so far.
        """
        rpc = walk_rpc_header(payload.data, self.interfaces)
        if rpc.faults and not payload.whole:
            return None
        rpc.group.name = f"RPC, in the {chunk}"
        message.groups.append(rpc.group)
        message.faults += rpc.faults
        return rpc

    def _find(self, owner: int, handle: int, offset: int, octets: int) -> _Exposed | None:
        """Returns the segment that has the octets, the newest of those that begin closest to `offset`, or None."""
        exposed = self._exposed.get((owner, handle), [])
        end = bisect.bisect_right(exposed, offset, key=lambda one: one.segment.offset)
        for one in reversed(exposed[max(end - _OVERLAPS_MAX, 0) : end]):
            # A reply has the lengths that the responder used, the call the lengths of the memory.
            if offset + octets <= one.segment.offset + one.segment.length:
                return one
        return None

    @staticmethod
    def _tell_served(found: _Exposed, message: Message) -> None:
        of = f"#{found.call.number}" + (f", {found.call.procedure}" if found.call.procedure else "")
        message.notes.append(f"serves segment {found.number} of the {found.chunk.name} of {of}")
        message.facts["serves"] = {"call": found.call.number, "chunk": found.chunk.name, "segment": found.number}
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
        message.notes.append(f"{said.note}, as far as captured" if self.late else said.note)
        if said.beyond and not self.late:
            field_ = header.find("rdma_credit")
            assert field_ is not None
            header.faults.append(FieldFault("message", 0, said.beyond, field_.section, said.requirement))


def _reply_shown(call: _Call | None, rpc: RpcHeader | None) -> str:
    said = f"reply to {call.procedure}" if call is not None and call.procedure else "reply"
    return f"{said}, {rpc.outcome}" if rpc is not None and rpc.outcome else said


def _items(header: Header) -> list[WholeItem]:
    """Returns name, length and Position of each data item outside of the payload: in chunks or buffer segments."""
    placed = header.find("optxrq_ddp", "optxrs_ddp")
    if placed is None:
        return _in_chunks(_chunks_of(header))
    return [
        WholeItem(f"item {entry.name}", entry.number("xmdmi_length") or 0, entry.number("xmdmi_disp"))
        for entry in placed.fields
        if entry.number("xmdmi_where", "xmdl_type") not in _INLINE_LOCATIONS
    ]


def _in_chunks(chunks: list[_Chunk]) -> list[WholeItem]:
    return [WholeItem(chunk.name, chunk.octets, chunk.position) for chunk in chunks if _has_an_item(chunk)]


def _has_an_item(chunk: _Chunk) -> bool:
    """Returns whether a chunk holds a data item of a message; a Position-Zero or Reply chunk holds a whole message."""
    return chunk.position != 0 and chunk.name != _REPLY_CHUNK


def _chunks_of(header: Header) -> list[_Chunk]:
    by_position: dict[int, list[MemorySegment]] = {}
    for position, segment in header.reads:
        by_position.setdefault(position, []).append(segment)
    found = []
    for position, segments in by_position.items():
        name = f"Read chunk at {position}" if position else _LONG_CALL
        found.append(_Chunk(name, segments, position))
    found += [_Chunk(f"Write chunk {number}", chunk) for number, chunk in enumerate(header.writes, 1)]
    if header.reply is not None:
        found.append(_Chunk(_REPLY_CHUNK, header.reply))
    return found
