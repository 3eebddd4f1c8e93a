"""A client that misbehaves in one of several ways: `misbehaving.py KIND PORT HANDLE`, until standard input ends.

HANDLE, in hexadecimal, is that of a directory for `flood` and of a file of 1 MiB or more for the others. Over RDMA it
speaks the version that it is told, where that is any version the first in which one can misbehave so. The program
prints "ready" when all connections misbehave, and replaces each connection that the server ends. In the end it prints
the number of replaced connections, of replies, and of messages over RDMA that the server has refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

# `support` stands in the folder of all tests.
sys.path.insert(0, str(Path(__file__).parents[1]))

from rpcrdma.transport import VERSION_CHOICES
from support import raw_messages
from support.raw_calls import (
    SEND,
    WRITE_POSITION,
    assert_works,
    file_handle,
    record,
    rpc,
    send,
    write_args,
    write_call,
)
from support.raw_socket import HeardSegment, RawSocketPeer

MIB = 1 << 20
IN_FLIGHT = 128
"""As many unanswered calls as the server reads of one connection over TCP."""
UNANSWERED = 32
"""WRITEs on one RDMA connection: the credits that a server grants."""
PIECES = 17
"""Together as much as the server takes of one message."""
CREATE, READ, WRITE, READDIR = 8, 6, 7, 16
DO_NOT_SET = bytes(24)
"""sattr3."""
AGAIN_S = 0.2
"""Between the end of a connection and the next."""
ERROR = raw_messages.word(raw_messages.ERROR)
"""The type of a header that refuses a message, in every version."""
ALLOWED = 1000
"""Messages that the server may send at once: more than it ever does."""
NOT_INTRODUCED = ("auto", "1")
"""Versions in which a connection begins without transport properties."""
UNREAD_S = 15.0
"""How long a connection is held that reads nothing, and so does not learn that the server has ended it."""


class Misbehaving:
    """One process' connections of one kind."""

    def __init__(self, port: int, handle: bytes, source: str, pause_s: float, version: str) -> None:
        self._port = port
        self._version = version
        self._pause_s = pause_s
        self._handle = file_handle(handle)
        self._source = source
        self._xids = itertools.count(1)
        self.begun = self.again = self.replies = self.refused = 0
        self.all_begun = asyncio.Event()

    async def connected(self) -> RawSocketPeer:
        return await RawSocketPeer.connected("127.0.0.1", self._port, source=self._source, receive_octets=65536)

    def call(self, procedure: int, args: bytes) -> bytes:
        return rpc(procedure, self._handle + args, next(self._xids))

    async def unread(self, number: int) -> RawSocketPeer:
        """Asks for 16 MiB and reads none of it."""
        peer = await self.connected()
        await peer.send(b"".join(record(self.call(READ, struct.pack(">QI", 0, MIB))) for _ in range(16)))
        return peer

    async def unfinished(self, number: int) -> RawSocketPeer:
        """The beginning of a WRITE of 1 MiB: on every other connection its header alone."""
        peer = await self.connected()
        start = self.call(WRITE, struct.pack(">QIII", 0, MIB, 2, MIB))
        await peer.send(record(start + bytes(number % 2 * 20_000), len(start) + MIB))
        return peer

    async def introduced(self) -> RawSocketPeer:
        """A connection over RDMA on which the server has given credits."""
        peer = await self.connected()
        await peer.start()
        if self._version in NOT_INTRODUCED:
            await assert_works(peer, 1)
        else:
            await peer.send_segments(send(raw_messages.properties(give=ALLOWED)))
            self._count(await peer.segment())
        return peer

    async def unanswered(self, number: int) -> RawSocketPeer:
        """WRITEs of 1 MiB over RDMA whose data the server asks for in vain."""
        peer = await self.introduced()
        calls = (self._unanswered_call(next(self._xids)) for _ in range(UNANSWERED))
        await peer.send_segments(*(send(call, place) for place, call in enumerate(calls, 2)))
        return peer

    def _unanswered_call(self, xid: int) -> bytes:
        if self._version in NOT_INTRODUCED:
            return write_call(MIB, (7, MIB, 0), xid=xid)
        reads = raw_messages.read_segment(WRITE_POSITION, (7, MIB, 0))
        return raw_messages.message(xid, rpc(WRITE, write_args(MIB), xid), give=ALLOWED, reads=reads)

    async def pieces(self, number: int) -> RawSocketPeer:
        """Pieces of a call over RDMA, in version 2, whose end never comes."""
        piece = raw_messages.message(1, bytes(32_000), raw_messages.MORE, give=ALLOWED)
        peer = await self.introduced()
        await peer.send_segments(*(send(piece, place) for place in range(2, 2 + PIECES)))
        return peer

    async def refusals(self, peer: RawSocketPeer) -> None:
        """Counts them until the server ends the connection."""
        while True:
            self._count(await peer.segment())

    def _count(self, heard: HeardSegment) -> None:
        self.refused += heard.opcode == SEND and heard.payload[12:16] == ERROR

    async def idle(self, number: int) -> RawSocketPeer:
        """Sends nothing."""
        return await self.connected()

    async def flood(self, number: int) -> RawSocketPeer:
        """Keeps as many CREATEs and READDIRs going as it may."""
        peer = await self.connected()
        await peer.send(b"".join(map(self._flood_call, range(IN_FLIGHT))))
        return peer

    def _flood_call(self, place: int) -> bytes:
        if place % 8 == 0:
            return record(self.call(READDIR, bytes(16) + struct.pack(">I", 8192)))
        name = f"flood{next(self._xids) % 1000:07}".encode()
        return record(self.call(CREATE, struct.pack(">I", len(name)) + name + bytes(4) + DO_NOT_SET))

    async def answered(self, peer: RawSocketPeer) -> None:
        """Keeps `flood` going: sends a call for each reply."""
        for place in itertools.count():
            size = int.from_bytes(await peer.receive(4)) & 0x7FFFFFFF
            await peer.receive(size)
            self.replies += 1
            if self._pause_s and place % IN_FLIGHT == 0:
                await asyncio.sleep(self._pause_s)
            await peer.send(self._flood_call(place))

    async def go_on(self, begin: Callable[[int], Awaitable[RawSocketPeer]], number: int, most: int) -> None:
        """Keeps one connection going: makes it again each time the server ends it."""
        while True:
            with contextlib.suppress(OSError, EOFError):
                peer = await begin(number)
                self.begun += 1
                if self.begun >= most:
                    self.all_begun.set()
                try:
                    if begin == self.flood:
                        await self.answered(peer)
                    elif begin == self.unread:
                        # A peer that reads nothing does not learn of the connection's end.
                        await asyncio.sleep(UNREAD_S)
                    elif begin in (self.unanswered, self.pieces):
                        await self.refusals(peer)
                    else:
                        await peer.ended()
                finally:
                    peer.close()
            self.again += 1
            await asyncio.sleep(AGAIN_S)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["unread", "unfinished", "unanswered", "pieces", "idle", "flood"])
    parser.add_argument("port", type=int)
    parser.add_argument("handle", type=bytes.fromhex)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--source", default="127.0.0.1")
    parser.add_argument("--pause", type=float, default=0, help="seconds that a flood rests after 128 replies")
    parser.add_argument("--rpcrdma-version", choices=VERSION_CHOICES, default="auto")
    args = parser.parse_args()
    version = "2" if (args.kind, args.rpcrdma_version) == ("pieces", "auto") else args.rpcrdma_version
    it = Misbehaving(args.port, args.handle, args.source, args.pause, version)
    begin = getattr(it, args.kind)
    tasks = [asyncio.create_task(it.go_on(begin, number, args.connections)) for number in range(args.connections)]
    await it.all_begun.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    print(it.again, it.replies, it.refused, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
