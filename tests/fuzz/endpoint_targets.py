"""Fuzz targets: a transport endpoint of either role, against a bare peer that sends any octets.

A case is a script of both sides. The endpoint must report each call's end exactly once and each incoming call once,
expose no memory of a call that has ended, give all borrowed memory back, and hold no registration in the end.
"""

from __future__ import annotations

import struct

from case_script import Script
from decoder_targets import by_role, golden
from rpcrdma import limits
from rpcrdma.errors import DecodeError, LocalProtocolError, TransportClosed
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import (
    Call,
    CallArrived,
    CallFailed,
    Closed,
    IncomingCall,
    Ready,
    ReplyArrived,
    ReplySent,
    Role,
    TransportConfig,
)
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_v1 import (
    RdmaDone,
    RdmaError,
    RdmaMsg,
    RdmaMsgp,
    RdmaNoMsg,
    decode_header,
    encode_header,
)
from rpcrdma.verbs.protection_domain import Access, MemoryRegion

__all__ = ["CONFIG", "ENDPOINT_MACHINES", "RPC_START", "STEPS_MAX", "Play"]

CONFIG = TransportConfig(
    inline_send_octets=1024,
    inline_receive_octets=1024,
    credits_requested=4,
    credits_granted=4,
    segment_octets_max=300,
    call_octets_pulled_max=4096,
    reverse_credits_requested=3,
    reverse_credits_granted=3,
    reverse_chunks=True,
)
STEPS_MAX = 100
RPC_START = struct.Struct(">II")


class Memory:
    """Gives memory for Read chunks, unless it is `short`, and checks that each buffer is returned once.

    `taken_in` are the octets of messages that are counted.
    """

    def __init__(self) -> None:
        self.lent: dict[int, memoryview] = {}
        self.taken_in = 0
        self.short = False

    def acquire(self, length: int) -> memoryview | None:
        assert length <= CONFIG.call_octets_pulled_max
        if self.short:
            return None
        buffer = memoryview(bytearray(length))
        self.lent[id(buffer.obj)] = buffer
        assert sum(map(len, self.lent.values())) <= 3 * limits.CONNECTION_OCTETS_PULLED_MAX
        return buffer

    def release(self, buffer: memoryview) -> None:
        del self.lent[id(buffer.obj)]

    def take_in(self, octets: int) -> bool:
        self.taken_in += 0 if self.short else octets
        return not self.short

    def give_back(self, octets: int) -> None:
        self.taken_in -= octets
        assert self.taken_in >= 0


class Play:
    """One endpoint and its bare peer."""

    def __init__(self, role: Role, data: bytes, *, reverse: bool) -> None:
        self.script = Script(data)
        self.role = role
        self.memory = Memory()
        self.peer = self.make_peer(reverse=reverse)
        if reverse and role is Role.SERVER:
            self.peer.endpoint.allow_reverse()
        self.exposed: list[MemoryRegion] = []
        self.calls: list[Call] = []
        self.ended: set[int] = set()
        self.abandoned: set[int] = set()
        self.fenced: list[tuple[bytearray, bytes]] = []
        self.into: dict[int, list[bytearray]] = {}
        """The buffers for results of each call in `calls`."""
        self.open: list[IncomingCall] = []
        self.waiting: list[IncomingCall] = []
        self.arrived: list[IncomingCall] = []
        self.closed = False
        self.ready = False
        self.xid = 0

    def make_peer(self, *, reverse: bool) -> BarePeer:
        """The endpoint, and its peer."""
        return BarePeer(
            self.role,
            CONFIG,
            private_data=CONFIG.private_data(),
            receives=12,
            receive_octets=1024,
            reverse=reverse,
            buffers=self.memory,
        )

    def settle(self) -> None:
        """Lets both sides run until no data is left to send, and takes the endpoint's events."""
        self.peer.run()
        for event in self.peer.endpoint_events():
            assert not self.closed, f"{event} after the end"
            if isinstance(event, CallArrived):
                assert all(event.incoming is not other for other in self.arrived), "reported twice"
                self.arrived.append(event.incoming)
                self.open.append(event.incoming)
            elif isinstance(event, ReplyArrived | CallFailed):
                self.on_ended(event.call)
            elif isinstance(event, ReplySent):
                self.waiting.remove(event.incoming)
            elif isinstance(event, Ready):
                assert not self.ready, "ready twice"
                self.ready = True
            else:
                assert isinstance(event, Closed)
                assert event.reason
                self.closed = True
        assert len(self.peer.endpoint_pd.regions) <= 64 * CONFIG.credits_requested
        for buffer, content in self.fenced:
            assert buffer == content, "memory of a call that has ended was written to"

    def on_ended(self, handle: Call) -> None:
        assert id(handle) not in self.ended, f"{handle} has ended before"
        assert id(handle) not in self.abandoned, f"{handle} was abandoned"
        self.ended.add(id(handle))
        self.fence(handle)

    def fence(self, handle: Call) -> None:
        self.fenced += [(buffer, bytes(buffer)) for buffer in self.into[id(handle)]]

    def finish(self) -> None:
        """Answers the open calls, ends the connection, and checks that no memory or registration is left."""
        self.settle()
        for incoming in self.open:
            self.peer.endpoint.drop(incoming)
        self.open.clear()
        self.peer.endpoint.abort("the case is over")
        self.settle()
        # A call may have become whole, as dropping others freed the memory that it waited for.
        for incoming in self.open:
            self.peer.endpoint.drop(incoming)
        assert self.closed
        assert not self.waiting
        assert len(self.ended) + len(self.abandoned) == len(self.calls)
        left = [region for region in self.peer.endpoint_pd.regions.values() if not region.abandoned]
        assert not left, f"still registered: {left}"
        assert not self.memory.lent
        assert not self.memory.taken_in

    # Messages of the peer

    def chunk_lists(self) -> ChunkLists:
        script = self.script
        reads = tuple(
            ReadChunk(script.number() & ~script.below(4), self.segments(Access.REMOTE_READ))
            for _ in range(script.below(3))
        )
        writes = tuple(WriteChunk(self.segments(Access.REMOTE_WRITE)) for _ in range(script.below(3)))
        reply = WriteChunk(self.segments(Access.REMOTE_WRITE)) if script.below(3) == 0 else None
        return ChunkLists(reads, writes, reply)

    def segments(self, access: Access) -> tuple[Segment, ...]:
        """Segments of the bare peer's own memory, or of none."""
        script = self.script
        named = []
        for _ in range(1 + script.below(3)):
            length = script.number(2) % 700
            if script.below(8) == 0:
                named.append(Segment(script.number(4), length << script.below(23), script.number(8)))
            else:
                region = self.peer.pd.register(bytearray(length), access)
                named.append(Segment(region.handle, length, region.offset))
        return tuple(named)

    def body(self, xid: int, direction: int) -> bytes:
        script = self.script
        return RPC_START.pack(xid if script.below(16) else script.number(4), direction) + script.octets(
            4 * script.below(64)
        )

    def say(self, xid: int, direction: int, chunks: ChunkLists) -> None:
        script = self.script
        kind, credits_ = script.below(8), script.below(8)
        if kind < 4:
            header = encode_header(RdmaMsg(xid, credits_, chunks)) + self.body(xid, direction)
        elif kind == 4:
            header = encode_header(RdmaNoMsg(xid, credits_, chunks))
        elif kind == 5:
            header = encode_header(RdmaError(xid, credits_, script.below(4), 1, script.below(3), script.below(3)))
        elif kind == 6:
            header = encode_header(RdmaMsgp(xid, credits_, 4, 4, chunks)) + self.body(xid, direction)
        else:
            header = encode_header(RdmaDone(xid, credits_, script.below(3)))
        self.send(header)

    def send(self, octets: bytes) -> None:
        if len(octets) > CONFIG.inline_receive_octets and self.script.below(8):
            octets = octets[: CONFIG.inline_receive_octets]
        invalidate = None
        choice = self.script.below(16)
        if choice < 4:
            handles = list(self.peer.endpoint_pd.regions)
            invalidate = handles[choice % len(handles)] if handles and choice else self.script.number(4)
        self.peer.send(octets, invalidate=invalidate)

    def answer(self) -> None:
        """A reply to one of the endpoint's messages, its chunks echoed truly or not, and perhaps filled."""
        script = self.script
        received = self.peer.received
        if not received:
            return
        try:
            header = decode_header(received[-1 - script.below(min(len(received), 4))])
        except DecodeError:
            return
        chunks = getattr(header, "chunks", ChunkLists())
        lies = script.number()
        offered = [*chunks.writes, *([chunks.reply] if chunks.reply is not None else [])]
        filled = []
        for chunk in offered:
            segments = []
            for handle, length, offset in chunk.segments:
                used = length if lies & 1 else script.number(2) % (length + 1)
                if used and lies & 2:
                    self.peer.write(handle, offset, [bytes([script.number()]) * used])
                segments.append(Segment(handle, used if not lies & 4 else script.number(2), offset))
            filled.append(WriteChunk(tuple(segments)))
        writes = tuple(filled[: len(chunks.writes)])
        reply = filled[-1] if chunks.reply is not None else None
        if lies & 8:
            writes, reply = writes[1:], None
        if lies & 16 and chunks.reads:
            for handle, length, offset in chunks.reads[0].segments:
                sink = self.peer.pd.register(bytearray(length), Access.REMOTE_WRITE)
                self.peer.qp.post_read("read", sink, 0, length, handle, offset)
        echoed = ChunkLists((), writes, reply)
        if lies & 32:
            self.say(header.xid, 1, echoed)
        elif reply is not None and lies & 64:
            self.send(encode_header(RdmaNoMsg(header.xid, 4, echoed)))
        else:
            self.send(encode_header(RdmaMsg(header.xid, 4, echoed)) + RPC_START.pack(header.xid, 1) + bytes(16))

    # Calls and replies of the endpoint's owner

    def call(self) -> None:
        script = self.script
        self.xid += 1
        xid = self.xid if script.below(16) else max(0, self.xid - 1)
        item = bytes(script.number(2) % 900) if script.below(2) else None
        items = tuple(script.number(2) % 900 for _ in range(script.below(3)))
        into = [bytearray(size) for size in items[: script.below(3)]]
        bound = ReplyBound(script.number(2) % 2000, items)
        payload = message(xid, 0, (bytes(4 * script.number()), item))
        try:
            handle = self.peer.endpoint.call(xid, payload, bound, into)
        except (LocalProtocolError, TransportClosed):
            return
        self.into[id(handle)] = into
        self.calls.append(handle)

    def abandon(self) -> None:
        alive = [call for call in self.calls if id(call) not in self.ended and id(call) not in self.abandoned]
        if alive:
            handle = alive[self.script.below(len(alive))]
            self.peer.endpoint.abandon(handle)
            self.abandoned.add(id(handle))
            self.fence(handle)

    def reply(self) -> None:
        script = self.script
        if not self.open:
            return
        incoming = self.open.pop(script.below(len(self.open)))
        how = script.below(8)
        if how == 0:
            self.peer.endpoint.drop(incoming)
        elif how == 1:
            self.peer.endpoint.fail_call(incoming)
        else:
            item = bytes(script.number(2) % 2000) if how & 1 else None
            if self.peer.endpoint.reply(incoming, message(incoming.xid, 1, (bytes(4 * script.number()), item))):
                self.waiting.append(incoming)


def play(role: Role, data: bytes, *, reverse: bool = False) -> None:
    """Both sides act as the script says; with `reverse`, each of them calls and is called."""
    game = Play(role, data, reverse=reverse)
    script = game.script
    for _ in range(STEPS_MAX):
        if not script.more:
            break
        match script.below(12):
            case 0 | 1:
                game.say(
                    script.number(), 0 if role is Role.SERVER and not reverse else script.below(3), game.chunk_lists()
                )
            case 2:
                game.say(script.number(), script.below(2), ChunkLists())
            case 3:
                game.send(script.octets(4 * script.below(64) + script.below(4)))
            case 4 | 5:
                game.answer()
            case 6 | 7 | 8:
                calls = script.below(2) == 0 if reverse else role is Role.CLIENT
                game.call() if calls else game.reply()
            case 9:
                game.abandon()
            case 10:
                regions = list(game.peer.endpoint_pd.regions.values())
                if regions:
                    region = regions[script.below(len(regions))]
                    game.peer.write(region.handle, region.offset, [b"late" * script.below(64)])
            case _:
                end = script.below(16)
                if end == 0:
                    game.peer.endpoint.disconnect()
                elif end == 1:
                    game.peer.qp.disconnect()
                elif end == 2:
                    game.peer.qp.abort("enough")
                elif end < 7:
                    game.memory.short = end < 5
                    game.peer.endpoint.resume_pulls()
        game.settle()
    game.finish()


_HEADERS = golden("transport/headers.toml", "header", "malformed")

ENDPOINT_MACHINES = by_role(
    "endpoint",
    play,
    [
        *(bytes((3, len(header) // 4, len(header) % 4)) + header + b"\0\0\0\1" * 8 for header in _HEADERS),
        bytes((0, 1, 0, 0, 1, 1, 4, 1, 1, 9, 1, 1, 1, 8, 0)) + bytes(40) + bytes((6, 0, 7, 1, 1)),
        bytes((2, 1, 0, 0, 4, 15)) + bytes(16) + bytes((6, 0, 3, 1, 1, 2, 2)),
        bytes((6, 1, 1, 3, 32, 2, 1, 2, 2, 1, 1, 1, 4, 9, 4, 0, 3, 9, 9, 9, 15)),
        bytes((6, 1, 0, 2, 1, 200, 1, 200, 2, 3, 0, 1, 4, 0, 3, 1, 1, 1, 1, 15, 9, 0)),
    ],
)
