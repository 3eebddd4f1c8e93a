"""An iWARP peer made of octets on a real TCP socket: it sends the octets of a test, and returns the received ones.

Frames are put together with `support.raw_iwarp` and taken apart by `rpcrdma_lab.scripted`, which shares nothing with
`rpcrdma.iwarp`.
Methods that wait run on the event loop; their caller bounds the time.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import NamedTuple

from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c
from rpcrdma_lab.scripted.frames import read_segment
from support.raw_iwarp import fpdu, startup_frame

__all__ = ["HeardSegment", "RawSocketPeer"]

_STARTUP_OCTETS = 20
_WORDS = struct.pack(">HH", 32, 32)
_CRC_ENHANCED = 0x50
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class HeardSegment(NamedTuple):
    """A received DDP segment. `handle` is the steering tag, or the one that a Send invalidates; `queue` -1: tagged."""

    opcode: int
    last: bool
    handle: int
    queue: int
    number: int
    offset: int
    payload: bytes

    @property
    def terminate_code(self) -> int:
        """0xLTCC of a Terminate."""
        return int.from_bytes(self.payload[:2])


class RawSocketPeer:
    """One connected TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connected(
        cls, host: str, port: int, *, receive_octets: int | None = None, source: str | None = None
    ) -> RawSocketPeer:
        """A connection to a server; `receive_octets` asks for a small window, `source` is the own address."""
        sock = socket.socket()
        if source is not None:
            sock.bind((source, 0))
        if receive_octets is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_octets)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        return cls(sock)

    async def send(self, octets: Buffer) -> None:
        """Sends octets as they are."""
        await self._loop.sock_sendall(self._socket, octets)

    def offer(self, octets: Buffer) -> int:
        """Sends as many octets as the socket takes at once; returns their number."""
        try:
            return self._socket.send(octets)
        except BlockingIOError:
            return 0

    async def send_segments(self, *segments: bytes) -> None:
        """Sends each segment in an FPDU of its own, all at once."""
        await self.send(b"".join(map(fpdu, segments)))

    async def receive(self, octets: int) -> bytes:
        """Receives exactly `octets` octets.

        Raises:
            EOFError: the stream ended or was reset before.
        """
        data = bytearray()
        while len(data) < octets:
            try:
                piece = await self._loop.sock_recv(self._socket, octets - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise EOFError(bytes(data))
            data += piece
        return bytes(data)

    async def startup_frame(self) -> bytes:
        """One MPA start-up frame."""
        header = await self.receive(_STARTUP_OCTETS)
        return header + await self.receive(int.from_bytes(header[18:]))

    async def segment(self) -> HeardSegment:
        """The next DDP segment, from an FPDU without markers whose CRC has been checked."""
        start = await self.receive(2)
        length = int.from_bytes(start)
        rest = await self.receive((length + 5 & ~3) + 4 - 2)
        assert crc32c(start + rest[:-4]) == int.from_bytes(rest[-4:], "little"), "CRC mismatch"
        found = read_segment(rest[:length])
        assert found is not None, rest.hex()
        last, opcode, payload = bool(found["last"]), found["opcode"], found["payload"]
        if found["tagged"]:
            return HeardSegment(opcode, last, found["handle"], -1, 0, found["offset"], payload)
        number = found["number"]
        return HeardSegment(opcode, last, found["invalidate"], found["queue"], number, found["offset"], payload)

    async def segments_to_end(self) -> list[HeardSegment]:
        """All segments until the stream ends."""
        segments = []
        try:
            while True:
                segments.append(await self.segment())
        except EOFError:
            return segments

    async def ended(self) -> bytes:
        """The octets that arrive until the stream ends or is reset."""
        data = bytearray()
        while True:
            try:
                piece = await self._loop.sock_recv(self._socket, 1 << 16)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return bytes(data)
            data += piece

    async def start(self, private_data: bytes = b"", *, flags: int = _CRC_ENHANCED) -> bytes:
        """The initiator's part of an enhanced start-up; returns the Reply."""
        await self.send(startup_frame("Req", flags, 2, _WORDS + private_data))
        return await self.startup_frame()

    async def accept(self, private_data: bytes = b"", *, flags: int = _CRC_ENHANCED) -> bytes:
        """The responder's part of an enhanced start-up; returns the Request."""
        request = await self.startup_frame()
        await self.send(startup_frame("Rep", flags, 2, _WORDS + private_data))
        return request

    def end(self) -> None:
        """Ends the sending direction (FIN); the peer's octets are still received."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Closes the socket: FIN, or RST if received octets were not read."""
        self._socket.close()

    def reset(self) -> None:
        """Closes the socket with RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._socket.close()
