"""Servers that are wrong on purpose, made of octets: one accepts everything, one nothing unusual, others take turns."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from rpcrdma_lab.check.catalogue import reverse, round_trips
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP
from rpcrdma_lab.scripted import RawTarget, make_message, read_message
from rpcrdma_lab.scripted.values import Names
from support import raw_calls, raw_replies
from support.raw_iwarp import fpdu, startup_frame, terminate, untagged

__all__ = [
    "OBLIGING",
    "REPLY_START",
    "FakeServer",
    "Frame",
    "Marker",
    "Version2",
    "as_properties_or_reply",
    "calling",
    "closing",
    "demanding_markers",
    "null_reply",
    "obliging",
    "reading",
    "serving",
    "with_a_read_first",
    "without_crc",
]

_PLAIN_START = startup_frame("Req", 0x50, 2, bytes.fromhex("00100010") + raw_calls.BOTH_PRIVATE)
REPLY_START = startup_frame("Rep", 0x50, 2, bytes.fromhex("00100010 f6ab0e18 01000303"))
_PLAIN_FLAGS = bytes.fromhex("4143 00000000 00000000")


class Marker(NamedTuple):
    """A marker as it came, and the right one."""

    found: int
    right: int


class MarkedReader:
    """Takes the markers out of a stream that begins with one; those of the last frame are in `markers`."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._position = self._start = 0
        self.markers: list[Marker] = []

    async def begin(self) -> None:
        """A frame begins here."""
        self.markers.clear()
        self._start = self._position
        if self._position % 512 == 0:
            await self._take()
            self._start = self._position

    async def _take(self) -> None:
        found = int.from_bytes(await self._reader.readexactly(4))
        self.markers.append(Marker(found, self._position - self._start))
        self._position += 4

    async def readexactly(self, octets: int) -> bytes:
        """Octets of the frame."""
        read = b""
        while len(read) < octets:
            if self._position % 512 == 0 and self._position > self._start:
                await self._take()
            part = await self._reader.readexactly(min(octets - len(read), 512 - self._position % 512))
            self._position += len(part)
            read += part
        return read


class Frame:
    """One FPDU of a client: its DDP segment, whether the CRC is right, and the payload of an untagged segment."""

    def __init__(self, octets: bytes) -> None:
        length = int.from_bytes(octets[:2])
        self.segment = octets[2 : 2 + length]
        self.right = octets == fpdu(self.segment)
        self.payload = self.segment[18:]

    @property
    def xid(self) -> int:
        """The XID of the message in a Send of one segment."""
        return int.from_bytes(self.payload[:4].rjust(4, b"\0"))

    def is_plain_call(self, number: int) -> bool:
        """Whether it is an empty call without chunks, in the Send of this number."""
        if not self.right or self.segment[:10] != _PLAIN_FLAGS or self.segment[10:14] != struct.pack(">I", number):
            return False
        xid = self.xid
        credit = int.from_bytes(self.payload[8:12])
        expected = raw_calls.header(xid=xid) + raw_calls.rpc(0, xid=xid)
        return self.payload == expected[:8] + struct.pack(">I", credit) + expected[12:] and credit in {32, 64}


def null_reply(xid: int, *, grant: int = 32, kind: int = 0) -> bytes:
    """The reply to an empty call."""
    return raw_replies.header(xid, grant=grant, kind=kind) + raw_replies.rpc_reply(xid)


Answer = Callable[[Frame, int], "bytes | Sequence[bytes] | None"]
"""The payloads of the Sends that answer a frame, given the number of Sends received; empty: none; None: the end."""


class FakeServer:
    """Accepts every start-up frame if `any_start`, else the usual one alone; `answer` is asked about each frame.

    `terminates`: the Terminate, 0xLTCC, with which a connection ends. `aligned`: each TCP segment is taken for one
    frame. `stays`: a connection that the client has ended is kept. `begins`: a message comes before the first one of
    the client. `framed` makes the octets of a Send of its payload and number. With `markers` it demands them, and ends
    a connection on which a marker is not taken.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        any_start: bool = False,
        terminates: int | None = None,
        start: bytes = REPLY_START,
        aligned: bool = False,
        stays: bool = False,
        begins: bool = False,
        framed: Callable[[bytes, int], bytes] = lambda payload, number: fpdu(raw_replies.send(payload, number)),
        markers: Callable[[Marker], bool] | None = None,
    ) -> None:
        self._markers = markers
        self._answer = answer
        self._any_start = any_start
        self._terminates = terminates
        self._start = start
        self._aligned = aligned
        self._stays = stays
        self._begins = begins
        self._framed = framed
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            first = await reader.read(4096)
            if self._any_start or first == _PLAIN_START:
                writer.write(self._start)
                if self._begins:
                    writer.write(fpdu(raw_replies.send(null_reply(0), 1)))
                with contextlib.suppress(asyncio.IncompleteReadError):
                    await self._answer_all(reader, writer)
            if self._stays:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        writer.close()

    async def end(self) -> None:
        """Ends all connections."""
        while self._writers:
            writer = self._writers.pop()
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = sent = 0
        marked = None if self._markers is None else MarkedReader(reader)
        while True:
            if self._aligned:
                octets = await reader.read(4096)
                if not octets:
                    return
            else:
                if marked is not None:
                    await marked.begin()
                source = marked or reader
                octets = await source.readexactly(2)
                octets += await source.readexactly((int.from_bytes(octets) + 5 & ~3) + 2)
            if marked is not None and self._markers is not None and not all(map(self._markers, marked.markers)):
                writer.write(terminate(0x2003))
                return
            frame = Frame(octets)
            received += not frame.segment[:1] >= b"\x80"
            reply = self._answer(frame, received)
            if reply is None:
                if self._terminates is not None:
                    writer.write(terminate(self._terminates))
                return
            for payload in [reply] if isinstance(reply, bytes) else reply:
                if payload:
                    sent += 1
                    writer.write(self._framed(payload, sent))


def without_crc(payload: bytes, number: int) -> bytes:
    """A Send in a frame with zeros in place of its CRC."""
    return fpdu(raw_replies.send(payload, number))[:-4] + bytes(4)


def obliging(frame: Frame, _received: int) -> bytes:
    """Success for everything."""
    return null_reply(frame.xid)


def closing(frame: Frame, received: int) -> bytes | None:
    """Success for an empty call in its usual form, the end of the connection for all else."""
    return null_reply(frame.xid) if frame.is_plain_call(received) else None


def reading(frame: Frame, _received: int) -> bytes:
    """An RDMA Read of the message for RDMA_NOMSG, and success for all else, Responses of any kind among it."""
    kind, handle, length, offset = struct.unpack_from(">12xI8xIIQ", frame.payload.ljust(40, b"\0"))
    if frame.segment[0] & 0x80:
        is_response = frame.segment[1] & 0xF == 2
        return null_reply(int.from_bytes(frame.segment[14:18])) if is_response else b""
    return struct.pack(">IQIIQ", 5, 0, length, handle, offset) if kind == 1 else null_reply(frame.xid)


def with_a_read_first(payload: bytes, number: int) -> bytes:
    """The RDMA Read Request of `reading`, which is the first message of a connection, and the Sends after it."""
    return fpdu(untagged(1, 1, 1, payload) if number == 1 else raw_replies.send(payload, number - 1))


class Version2:
    """Answers in version 2: `answer` is for all but properties and usual empty calls."""

    def __init__(self, answer: Callable[[Version2, Frame], bytes | None]) -> None:
        self._other = answer
        told = ([[2, {"words": [4096]}]], round_trips.PROPERTIES, reverse.PROPERTIES)
        headers = ({"xid": 0, "type": CONNPROP, "properties": properties} for properties in told)
        self._introductions = [self.made({"header": header})[4:] for header in headers]

    def __call__(self, frame: Frame, received: int) -> bytes | None:
        """The answer to a frame."""
        found = read_message("2", frame.payload)
        usual = frame.right and frame.segment[:10] == _PLAIN_FLAGS and "broken" not in found
        if usual and frame.payload[4:] in self._introductions:
            return self.properties(frame)
        plain = self.made({"header": {"xid": frame.xid}, "rpc": {}})
        if usual and frame.payload == plain and received > 1:
            return self.reply(frame)
        return self._other(self, frame)

    def made(self, message: dict[str, Any]) -> bytes:
        """A message of version 2."""
        names = Names({"program": 100003, "program_version": 3})
        return make_message("2", message, names)

    def properties(self, frame: Frame) -> bytes:
        """The properties of the server."""
        told = {"type": CONNPROP, "properties": [[2, {"words": [4096]}]]}
        return self.made({"header": {"xid": frame.xid, **told}})

    def reply(self, frame: Frame) -> bytes:
        """The reply to an empty call."""
        return self.made(
            {"header": {"xid": frame.xid, "type": 0, "flags": 1}, "rpc": {"xid": frame.xid, "accepted": 0}}
        )

    def refusal(self, frame: Frame, error: int = 2) -> bytes:
        """An error, BAD_XDR unless another code is given."""
        return self.made({"header": {"xid": frame.xid, "type": 4, "error": error, "flags": 1}})


def calling(frame: Frame, _received: int) -> Sequence[bytes]:
    """Answers each call, and calls the client after it."""
    answer = {"header": {"xid": frame.xid}, "rpc": {"accepted": 0, "results": {"zeros": 32}}}
    call = {"header": {"xid": 0x5EED + frame.xid}, "rpc": {"program": 9}}
    return [make_message("1", each, Names()) for each in (answer, call)]


def as_properties_or_reply(server: Version2, frame: Frame) -> bytes:
    """Success for everything in version 2."""
    header = read_message("2", frame.payload)["header"]
    told = header.get("type") == CONNPROP
    return server.properties(frame) if told else server.reply(frame)


_DEMANDING_MARKERS = startup_frame("Rep", 0xD0, 2, REPLY_START[20:])


def demanding_markers(taken: Callable[[Marker], bool]) -> FakeServer:
    """A server that ends a connection on which a marker is not taken."""
    return FakeServer(obliging, any_start=True, start=_DEMANDING_MARKERS, markers=taken)


OBLIGING = FakeServer(obliging, any_start=True)


@asynccontextmanager
async def serving(server: FakeServer, timeout_s: float = 60.0) -> AsyncIterator[RawTarget]:
    """The server on a port of this machine."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        yield RawTarget(host=host, port=port, timeout_s=timeout_s)
        await server.end()
