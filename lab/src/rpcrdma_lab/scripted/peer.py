"""An iWARP peer without protocol state machines: it sends any octets, serves its memory and reports events."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Mapping
from typing import Any

from crc32c import crc32c

from rpcrdma_lab.limits import RAW_MESSAGE_OCTETS_MAX
from rpcrdma_lab.scripted.frames import (
    OPCODES,
    STARTUP_CRC,
    STARTUP_ENHANCED,
    STARTUP_FLAGS_AT,
    STARTUP_MARKERS,
    STARTUP_OCTETS,
    is_whole_terminate,
    make_fpdu,
    make_segments,
    make_startup,
    read_segment,
    read_startup,
)
from rpcrdma_lab.scripted.marked_frames import MarkedFrames, Markers, UnmarkedFrame
from rpcrdma_lab.scripted.messages import heard_message
from rpcrdma_lab.scripted.own_time import within
from rpcrdma_lab.scripted.peer_interface import Heard, Log, PassageLog, RawMemory
from rpcrdma_lab.scripted.segmented import FrameFault, SegmentedMessage
from rpcrdma_lab.scripted.values import Names, number

__all__ = ["RawPeer"]

_OPCODE_NAMES = {number: name for name, number in OPCODES.items()}
_SENDS = ("send", "send_invalidate", "send_solicited", "send_solicited_invalidate")
_QUEUE_OF = {OPCODES["read_request"]: 1, OPCODES["terminate"]: 2, **{OPCODES[name]: 0 for name in _SENDS}}
_ULPDU_OCTETS_MAX = 64768
"""The largest ULPDU in octets (RFC 5044 section 3)."""
_READ_REQUEST = struct.Struct(">IQIIQ")
_BETWEEN_PIECES_S = 0.002
_TAKEN_S = 5.0
"""Seconds for which a send waits until the other end reads; it may read nothing more, and have said why."""
_SINK_HANDLE = 0x0051_4E4B
_SEGMENT_OCTETS = 1424
_INVALIDATING = {OPCODES["send_invalidate"], OPCODES["send_solicited_invalidate"]}


class RawPeer:
    """One end of an iWARP connection that can send malformed frames, since it has no protocol state machines.

    While `next` waits, RDMA Reads and Writes of the other end access the memory in `regions` (by handle). An access
    that no region permits is answered with a Terminate (RFC 5040 section 7), and is an event "refused" of `next`. The
    methods implement `ScriptedPeer`; those that send ignore errors of the connection, and that nothing is read for 5 s.

    Args:
        reader: reads from the connection.
        writer: writes to the connection, and closes it.
        version: the protocol version of transport headers, "1" or "2".
        log: the list to which an entry for each thing sent or received is added.
        names: resolves references in values, such as {"given": NAME}.
        crc: whether frames have a CRC until the start-up decides it, and whether `accept` demands one.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        version: str,
        log: Log,
        names: Names,
        *,
        crc: bool = True,
    ) -> None:
        self.version = version
        self.takes_version = False
        self.regions: dict[int, RawMemory] = {}
        self.crc = crc
        self.started = False
        self.reads_asked = False
        self._reader = reader
        self._writer = writer
        self.note = PassageLog(log).note
        self._names = names
        self._numbers: dict[int, int] = {}
        self._marked: MarkedFrames | None = None
        self._markers: Markers | None = None
        self._ahead: asyncio.Task[UnmarkedFrame] | None = None
        self._tagged: SegmentedMessage | None = None
        self._parts: dict[int, tuple[SegmentedMessage, bytearray]] = {}
        self._expected: dict[int, int] = {}

    @property
    def request(self) -> Mapping[str, Any]:
        return {"key": {"text": "MPA ID Req Frame"}}

    async def accept(self, request: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
        # Frames have a CRC from then on if either end demands it.
        reply = {"key": {"text": "MPA ID Rep Frame"}, "revision": request["revision"], "enhanced": request["enhanced"]}
        flags = STARTUP_CRC * self.crc | STARTUP_ENHANCED * request["enhanced"]
        await self.start({**reply, "flags": flags, **fields}, where)
        self.crc = self.crc or bool(request["crc"])

    async def start(self, fields: Mapping[str, Any], where: str) -> None:
        # Flag C sets `crc`; flag M says whether frames of the other end are expected to have markers.
        made = make_startup(fields, self._names, where)
        flags = made[STARTUP_FLAGS_AT] if len(made) > STARTUP_FLAGS_AT else 0
        self.crc = bool(flags & STARTUP_CRC)
        self._marked = MarkedFrames(self._reader) if flags & STARTUP_MARKERS else None
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        await self.send_stream(made, "MPA start-up" + (f" [{told}]" if told else ""))

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:
        region = self.regions[handle] = RawMemory(handle=handle, offset=offset, data=data, may=may)
        return region

    def withdraw(self, memory: RawMemory) -> None:
        self.regions.pop(memory.handle, None)

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        self.note(text, octets, ours=True)
        step = pieces or max(len(octets), 1)
        with contextlib.suppress(OSError):
            for at in range(0, len(octets), step):
                self._writer.write(octets[at : at + step])
                async with within(_TAKEN_S):
                    await self._writer.drain()
                if pieces:
                    await asyncio.sleep(_BETWEEN_PIECES_S)

    async def send_message(
        self, payload: bytes, ddp: Mapping[str, Any], mpa: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Sends an RDMAP message in FPDUs; `mpa` may also have "pieces", the number of octets in each write."""
        segments = make_segments(payload, ddp, self._numbers, self._names)
        frames = b"".join(make_fpdu(each, mpa, self._names, crc=self.crc, markers=self._markers) for each in segments)
        opcode = ddp.get("opcode", "send")
        self.reads_asked = self.reads_asked or opcode == "read_request"
        if text is None:
            known = _OPCODE_NAMES.get(opcode) if isinstance(opcode, int) else None
            name = opcode if isinstance(opcode, str) else known or f"opcode {opcode}"
            text = f"{name}, {len(payload)} octets"
        pieces = number(mpa.get("pieces", 0), self._names, "mpa.pieces", 0)
        changed = [
            f"{name} {number(value, self._names, name) if isinstance(value, Mapping) and 'given' in value else value}"
            for name, value in {**ddp, **mpa}.items()
            if name != "opcode"
        ]
        await self.send_stream(frames, text + (f" [{', '.join(changed)}]" if changed else ""), pieces)

    async def write(self, handle: int, offset: int, data: bytes) -> None:
        ddp = {"opcode": "write", "handle": handle, "offset": offset, "segment_octets": _SEGMENT_OCTETS}
        await self.send_message(data, ddp, {}, f"RDMA Write to {handle:#x}, {len(data)} octets")

    async def read(self, handle: int, offset: int, length: int) -> int:
        """Sends an RDMA Read Request; `next` later returns an event "read_response" for each segment of the data.

        Returns the handle that the segments of the response bear.
        """
        request = _READ_REQUEST.pack(_SINK_HANDLE, 0, length, handle, offset)
        text = f"RDMA Read Request of {handle:#x}, {length} octets"
        await self.send_message(request, {"opcode": "read_request"}, {}, text)
        return _SINK_HANDLE

    async def remind(self) -> None:
        # This makes siw, Linux's software iWARP, process an overlooked message.
        await self.send_message(b"", {"opcode": "write"}, {}, "RDMA Write of no octets")

    def end(self) -> None:
        self.note("end of the stream", ours=True)
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def next(self) -> Heard:
        """Waits for the next event; after "broken", a fault, the next call reads the following frame."""
        while True:
            try:
                heard = await (self._next_segment() if self.started else self._next_startup())
            except (asyncio.IncompleteReadError, OSError) as error:
                partial = getattr(error, "partial", b"")
                how = "reset" if isinstance(error, ConnectionError) else "closed"
                self.note(f"the connection is {how}", partial, ours=False)
                return Heard("end", {"how": how, "partial": partial})
            if heard is not None:
                return heard

    async def _next_startup(self) -> Heard:
        head = await self._reader.readexactly(STARTUP_OCTETS)
        length = int.from_bytes(head[18:20])
        frame = head + await self._reader.readexactly(min(length, 512))
        fields = read_startup(frame)
        self.note(f"MPA start-up, flags {fields['flags']:#04x}, revision {fields['revision']}", frame, ours=False)
        self.started = True
        self._markers = Markers() if fields["markers"] else None
        return Heard("startup", fields)

    async def _next_segment(self) -> Heard | None:
        """Receives an FPDU, and returns the event that it causes; None if there is no event, as after an RDMA Write.

        Raises:
            asyncio.IncompleteReadError: the stream ends before or within the FPDU.
            OSError: the connection fails.
        """
        ahead, self._ahead = self._ahead, None
        frame, covered, fault = await (ahead or self._next_frame())
        length = int.from_bytes(frame[:2])
        broken = self._frame_fault(frame, covered, fault)
        if broken is not None:
            return self._broken(broken, frame)
        segment = read_segment(frame[2 : 2 + length])
        if segment is None:
            return self._broken(FrameFault(f"an FPDU has {length} octets, fewer than a DDP header", "MPA-1"), frame)
        broken = _segment_fault(segment)
        if broken is not None:
            return self._broken(broken, frame)
        if segment["tagged"]:
            return await self._placed(segment, frame)
        return await self._untagged(segment, frame)

    def _frame_fault(self, frame: bytes, covered: bytes, marker: str | None) -> FrameFault | None:
        length = int.from_bytes(frame[:2])
        if marker is not None:
            return FrameFault(marker, "MPA-13")
        if self.crc and crc32c(covered) != int.from_bytes(frame[-4:], "little"):
            return FrameFault("the CRC of an FPDU is wrong", "MPA-24")
        if any(frame[2 + length : -4]):
            return FrameFault("the padding of an FPDU is not zero", "MPA-8")
        if length > _ULPDU_OCTETS_MAX:
            return FrameFault(f"a segment has {length} octets, more than {_ULPDU_OCTETS_MAX}", "MPA-3")
        return None

    async def _next_frame(self) -> UnmarkedFrame:
        if self._marked is not None:
            return await self._marked.next()
        start = await self._reader.readexactly(2)
        frame = start + await self._reader.readexactly((int.from_bytes(start) + 5 & ~3) + 4 - 2)
        return UnmarkedFrame(frame, frame[:-4], None)

    def _broken(self, fault: FrameFault, frame: bytes) -> Heard:
        self.note(fault.cause, frame, ours=False)
        return Heard("broken", fault._asdict())

    async def _placed(self, segment: Mapping[str, Any], frame: bytes) -> Heard | None:
        """Processes a tagged segment: places the data of an RDMA Write in the region, and returns None.

        Returns an event for an RDMA Read Response, for a fault, and for an access that no region permits, which is
        first answered with a Terminate. `frame` is the FPDU of the segment, for the log.
        """
        payload, opcode = segment["payload"], segment["opcode"]
        text = f"{_OPCODE_NAMES.get(opcode, opcode)} to {segment['handle']:#x}, {len(payload)} octets"
        self.note(text, frame[: min(len(frame), 64)], ours=False)
        expected = opcode == OPCODES["write"] or (opcode == OPCODES["read_response"] and self.reads_asked)
        if not expected:
            cause = f"a tagged segment has the opcode {opcode}, and nothing was asked for"
            return self._broken(FrameFault(cause, "RD-2"), frame[:64])
        fault = self._tagged_fault(segment)
        if opcode == OPCODES["read_response"]:
            return Heard("read_response", segment) if fault is None else self._broken(fault, frame[:64])
        if payload:
            region = self.regions.get(segment["handle"])
            if region is None or region.may != "write":
                await self._terminate(0x1100, frame)
                return Heard("refused", {"cause": f"an RDMA Write to {segment['handle']:#x}, which is no sink"})
            start = segment["offset"] - region.offset
            if start < 0 or start + len(payload) > len(region.data):
                await self._terminate(0x1101, frame)
                return Heard("refused", {"cause": "an RDMA Write beyond the end of its memory"})
            region.place(start, payload)
            if self._tagged is not None and self._tagged.octets > len(region.data):
                fault = FrameFault("the segments of an RDMA Write overlap", "DDP-8")
        return None if fault is None else self._broken(fault, frame[:64])

    def _tagged_fault(self, segment: Mapping[str, Any]) -> FrameFault | None:
        """Adds a tagged segment to the tagged message that it continues; returns a broken rule, None without a fault.

        `segment` has the fields of `read_segment`. Whether a memory region permits the access is not checked.
        """
        if self._parts:
            return FrameFault("a tagged segment comes within an untagged message", "DDP-10")
        key = (segment["opcode"], segment["handle"])
        message = self._tagged or SegmentedMessage(key)
        if message.key != key:
            return FrameFault("a tagged message begins before the one before it has had a segment with L", "DDP-2")
        self._tagged = None if segment["last"] else message
        return message.add(segment["offset"], len(segment["payload"]), last=bool(segment["last"]))

    def _untagged_fault(self, segment: Mapping[str, Any]) -> FrameFault | None:
        """Adds an untagged segment to the message of its queue; returns a broken rule, None without a fault.

        `segment` has the fields of `read_segment`.
        """
        queue, opcode, number_ = segment["queue"], segment["opcode"], segment["number"]
        if _QUEUE_OF.get(opcode) != queue:
            return FrameFault(f"an untagged message with the opcode {opcode} in queue {queue}", "RD-2")
        if self._tagged is not None and opcode != OPCODES["terminate"]:
            return FrameFault("a message comes before the RDMA Write before it has had a segment with L", "DDP-2")
        due = self._expected.setdefault(queue, 1)
        if number_ != due:
            cause = f"message {number_} of queue {queue} comes, where message {due} is due"
            return FrameFault(cause, "DDP-2" if queue in self._parts and number_ == due + 1 else "DDP-6")
        message, part = self._parts.setdefault(queue, (SegmentedMessage((opcode,)), bytearray()))
        offset, payload = segment["offset"], segment["payload"]
        if message.key != (opcode,):
            return FrameFault(f"the opcode changes to {opcode} within a message", "DDP-5")
        if max(offset, message.octets) + len(payload) > RAW_MESSAGE_OCTETS_MAX:
            return FrameFault("an untagged message is longer than any buffer")
        part += bytes(max(offset + len(payload) - len(part), 0))
        part[offset : offset + len(payload)] = payload
        fault = message.add(offset, len(payload), last=bool(segment["last"]))
        if segment["last"] and message.begin:
            return FrameFault(f"a message begins at offset {message.begin}", "DDP-6")
        return fault

    async def _untagged(self, segment: Mapping[str, Any], frame: bytes) -> Heard | None:
        queue, opcode = segment["queue"], segment["opcode"]
        fault = self._untagged_fault(segment)
        if fault is not None:
            return self._broken(fault, frame[:64])
        if not segment["last"]:
            return None
        self._expected[queue] += 1
        _, part = self._parts.pop(queue)
        payload = bytes(part)
        if opcode == OPCODES["terminate"]:
            code = int.from_bytes(payload[:2])
            self.note(f"Terminate {code:#06x}", frame, ours=False)
            return Heard("terminate", {"code": code, "payload": payload, "whole": int(is_whole_terminate(payload))})
        if opcode == OPCODES["read_request"]:
            if len(payload) != _READ_REQUEST.size:
                return self._broken(FrameFault(f"an RDMA Read Request of {len(payload)} octets", "RD-3"), frame)
            return await self._read(payload, frame)
        invalidates = segment["invalidate"] if opcode in _INVALIDATING else None
        if invalidates is None and segment["invalidate"]:
            return self._broken(FrameFault("a Send without Invalidate names a steering tag", "RD-2"), frame)
        return heard_message(self, self.note, payload, invalidates)

    async def _read(self, payload: bytes, frame: bytes) -> Heard | None:
        """Answers an RDMA Read Request of the other end with its Response, and returns None.

        Instead returns an event for a Read of a region whose `answered` is False, for a fault, and for a Read that no
        region permits, which is first answered with a Terminate. `payload` is the request after the DDP header, `frame`
        its FPDU for the log.
        """
        sink, sink_offset, length, handle, offset = _READ_REQUEST.unpack(payload)
        self.note(f"RDMA Read Request of {handle:#x}, {length} octets", frame, ours=False)
        region = self.regions.get(handle)
        start = 0 if region is None else offset - region.offset
        if length and (region is None or region.may != "read"):
            await self._terminate(0x0100, frame)
            return Heard("refused", {"cause": "an RDMA Read of memory that is not registered"})
        if region is not None and (start < 0 or start + length > len(region.data)):
            await self._terminate(0x0101, frame)
            return Heard("refused", {"cause": "an RDMA Read beyond the end of its memory"})
        if region is not None and not region.answered:
            told = {"sink": sink, "sink_offset": sink_offset, "length": length, "handle": handle, "offset": offset}
            return Heard("read_request", told)
        if region is not None and region.alone_s and await self._another_read(region.alone_s):
            cause = "a second RDMA Read Request comes before the Response to the first"
            return self._broken(FrameFault(cause, "RD-13"), frame)
        data = b"" if region is None else bytes(region.data[start : start + length])
        step = 1 if region is None else region.segment_octets
        ddp = {"opcode": "read_response", "handle": sink, "offset": sink_offset, "segment_octets": step}
        await self.send_message(data, ddp, {}, f"RDMA Read Response, {length} octets")
        return None

    async def _another_read(self, seconds: float) -> bool:
        """Waits for at most `seconds`; returns whether the next FPDU has arrived and is an RDMA Read Request.

        The FPDU stays queued for `next`.
        """
        self._ahead = asyncio.ensure_future(self._next_frame())
        done, _ = await asyncio.wait([self._ahead], timeout=seconds)
        if not done or self._ahead.exception() is not None:
            return False
        segment = read_segment(self._ahead.result().octets[2:-4])
        return segment is not None and segment["opcode"] == OPCODES["read_request"]

    async def _terminate(self, code: int, frame: bytes) -> None:
        length = int.from_bytes(frame[:2])
        header = frame[2 : 2 + (14 if frame[2] & 0x80 else 18)]
        told = struct.pack(">HBBH", code, 0xC0, 0, length) + header
        await self.send_message(told, {"opcode": "terminate"}, {}, f"Terminate {code:#06x}")


def _segment_fault(segment: Mapping[str, Any]) -> FrameFault | None:
    """Returns the rule that the versions or the reserved bits of a segment break; None if all are right.

    `segment` has the fields of `read_segment`.
    """
    if segment["version"] != 1 or segment["reserved"]:
        return FrameFault(
            "a segment has another version than DDP 1, or reserved bits of DDP that are not zero", "DDP-4"
        )
    if segment["rdmap_version"] != 1 or segment["rdmap_reserved"]:
        return FrameFault("a segment has another version than RDMAP 1, or reserved bits that are not zero", "RD-1")
    return None
