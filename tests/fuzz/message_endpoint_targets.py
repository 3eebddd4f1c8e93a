"""Fuzz targets: a transport endpoint in version 2, of either role, against a bare peer that sends any messages.

The rules are those of `endpoint_targets`, and that nothing is sent without a credit: the peer counts the credits that
it gave. Mostly it has a credit for its own messages, since else the connection ends at once.
"""

from __future__ import annotations

from dataclasses import replace

from decoder_targets import by_role, golden
from endpoint_targets import CONFIG, RPC_START, STEPS_MAX, Play
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Role, offered
from rpcrdma.transport.chunks import ChunkLists, WriteChunk
from rpcrdma.verbs.protection_domain import Access
from support import raw_messages as raw
from support.raw_messages import CONNPROP, ERROR, MORE, MSG, NOMSG, RESPONSE, HeardMessage

__all__ = ["CONFIGS", "MESSAGE_ENDPOINT_MACHINES", "RECEIVE_OCTETS", "MessagePlay", "play"]

RECEIVE_OCTETS = 4096
CONFIGS = [
    replace(CONFIG, offered_send_octets=4096, offered_receive_octets=RECEIVE_OCTETS, in_messages_octets_max=most)
    for most in (0, 16384)
]
"""In the first one everything travels in chunks that could, in the other one in several messages."""
DATA_OF_ERRORS = {1: 2, 2: 0, 3: 0, 4: 0, 5: 1, 6: 1, 7: 1, 8: 2, 9: 1, 10: 0}
SETTLED = raw.property_set((raw.SEND_SIZE, raw.word(4096)), (raw.RECEIVE_SIZE, raw.word(2048)))


def entries(chunks: ChunkLists) -> dict[str, bytes]:
    """The entries of each list, in octets."""
    reads = b"".join(
        raw.read_segment(read.position, (handle, length & 0xFFFFFFFF, offset))
        for read in chunks.reads
        for handle, length, offset in read.segments
    )
    return {
        "reads": reads,
        "writes": b"".join(map(write_entry, chunks.writes)),
        "reply": b"" if chunks.reply is None else write_entry(chunks.reply),
    }


def write_entry(chunk: WriteChunk) -> bytes:
    return raw.chunk(*((handle, length & 0xFFFFFFFF, offset) for handle, length, offset in chunk.segments))


class MessagePlay(Play):
    """One endpoint in version 2 and its bare peer, with the credits of both."""

    told = SETTLED
    """The transport properties of the peer."""

    def __init__(self, role: Role, data: bytes, *, reverse: bool) -> None:
        # The credits of either side; the first message of each side is free.
        self.credits = 1
        self.balance = 1
        self.heard: list[HeardMessage] = []
        super().__init__(role, data, reverse=reverse)
        if self.script.below(4):
            self.give(raw.prefix(1, CONNPROP, give=self.given()) + self.told)
            self.settle()

    def make_peer(self, *, reverse: bool) -> BarePeer:
        return BarePeer(
            self.role,
            CONFIGS[self.script.below(2)],
            receives=12,
            receive_octets=RECEIVE_OCTETS,
            reverse=reverse,
            buffers=self.memory,
            dialects=offered("auto" if self.script.below(4) == 0 else "2"),
            ready=False,
        )

    def settle(self) -> None:
        super().settle()
        for octets in self.peer.received:
            if octets[4:8] != raw.word(2):
                # An answer to another version, or a connection that has gone back to an older one.
                continue
            if len(octets) == 28 and octets[12:16] == raw.word(ERROR):
                self.balance -= 1
                continue
            message = HeardMessage(octets)
            self.heard.append(message)
            if (message.kind, message.xid, message.flags) != (NOMSG, 0, 0):
                self.balance -= 1
            if message.kind != ERROR:
                self.credits += message.give
            if self.peer.endpoint.version == 2:
                assert self.balance >= 0, "sent without a credit"
        self.peer.received.clear()

    def given(self) -> int:
        """Credits that a header of the peer gives: mostly few."""
        amount = self.script.below(8)
        return amount if amount < 7 else self.script.number(2)

    def give(self, octets: bytes) -> None:
        """Sends a message whose credits count if it can be read; then the endpoint may have less than is known here."""
        grant = octets[12:16] == raw.word(NOMSG) and octets[16:36] == bytes(20) and octets[:4] == bytes(4)
        if not grant:
            if self.credits <= 0 and self.script.below(32):
                return
            self.credits -= 1
        if len(octets) >= 12 and octets[4:8] == raw.word(2):
            self.balance = min(self.balance, limits.UNREAD_SENDS_MAX << 8) + int.from_bytes(octets[10:12])
        self.post(octets)

    def post(self, octets: bytes) -> None:
        """Sends a message; now and then it invalidates a handle, mostly one that is there."""
        script = self.script
        octets = octets[: RECEIVE_OCTETS + (script.below(64) == 1)]
        invalidate = None
        choice = script.below(32)
        if choice == 1:
            invalidate = script.number(4)
        elif choice < 6 and choice and (handles := list(self.peer.endpoint_pd.regions)):
            invalidate = handles[choice % len(handles)]
        self.peer.send(octets, invalidate=invalidate)

    def say(self, xid: int, direction: int, chunks: ChunkLists) -> None:
        script = self.script
        kind, give = script.below(16), self.given()
        response = RESPONSE if direction == 1 else 0
        if script.below(16) == 0:
            response ^= RESPONSE
        parts = entries(chunks)
        ends = 0
        if parts["writes"] and script.below(2):
            ends = int.from_bytes(parts["writes"][8:12]) ^ (script.below(8) == 0)
        if kind < 5:
            octets = raw.message(xid, self.body(xid, direction), response, give=give, ends=ends, **parts)
        elif kind == 5:
            octets = raw.message(xid, kind=NOMSG, flags=response, give=give, ends=ends, **parts)
        elif kind < 8:
            octets = raw.message(xid, self.body(xid, direction), response | MORE, give=give)
        elif kind < 10:
            octets = raw.message(xid, script.octets(4 * script.below(8)), response, give=give, **parts)
        elif kind == 10:
            numbers = [script.number(2) for _ in range(script.below(3))]
            octets = raw.error(xid, script.below(12), *numbers)
        elif kind == 11:
            octets = raw.grant(give)
        elif kind == 12:
            body = SETTLED if script.below(2) else script.octets(script.below(64))
            octets = raw.prefix(xid, CONNPROP, script.below(4), give=give) + body
        elif kind == 13:
            octets = raw.prefix(xid, script.below(16), script.number(4), give=give) + script.octets(script.below(64))
        elif kind == 14:
            octets = raw.prefix(xid, MSG, response, give=give, version=script.below(4)) + script.octets(64)
        else:
            octets = b"\0" * 8 + script.octets(script.below(40))
        self.give(octets)

    def answer(self) -> None:
        """A reply to one of the endpoint's calls, its chunks echoed truly or not, in one message or in pieces."""
        script = self.script
        calls = [each for each in self.heard if each.kind in (MSG, NOMSG) and not each.flags & RESPONSE and each.xid]
        if not calls:
            return
        call = calls[-1 - script.below(min(len(calls), 4))]
        lies = script.number()
        if lies & 128:
            code = 1 + script.below(10)
            numbers = [script.number(2) for _ in range(DATA_OF_ERRORS[code])]
            self.give(raw.error(call.xid, code, *numbers))
            return
        filled = []
        for chunk in [*call.writes, *([call.reply] if call.reply is not None else [])]:
            segments = []
            for handle, length, offset in chunk:
                used = length if lies & 1 else script.number(2) % (length + 1)
                if used and lies & 2:
                    self.peer.write(handle, offset, [bytes([script.number()]) * used])
                segments.append((handle, used if not lies & 4 else script.number(2), offset))
            filled.append(raw.chunk(*segments))
        writes = b"".join(filled[: len(call.writes)]) if not lies & 8 else b""
        reply = filled[-1] if call.reply is not None and not lies & 8 else b""
        if lies & 16:
            for _, (handle, length, offset) in call.reads[:3]:
                sink = self.peer.pd.register(bytearray(length), Access.REMOTE_WRITE)
                self.peer.qp.post_read("read", sink, 0, length, handle, offset)
        payload = RPC_START.pack(call.xid, 1) + bytes(script.below(4) * 16)
        if lies & 32:
            self.give(raw.message(call.xid, payload[:4], RESPONSE | MORE, give=self.given()))
            payload = payload[4:]
        if reply and lies & 64:
            self.give(raw.message(call.xid, kind=NOMSG, flags=RESPONSE, give=2, writes=writes, reply=reply))
        else:
            self.give(raw.message(call.xid, payload, RESPONSE, give=2, writes=writes, reply=reply))


def play(role: Role, data: bytes, *, reverse: bool = False, make: type[MessagePlay] = MessagePlay) -> None:
    """Both sides act as the script says; with `reverse`, each of them calls and is called."""
    game = make(role, data, reverse=reverse)
    script = game.script
    for _ in range(STEPS_MAX):
        if not script.more:
            break
        match script.below(14):
            case 0 | 1 | 2:
                direction = 0 if role is Role.SERVER and not reverse else script.below(3)
                game.say(script.below(4), direction, game.chunk_lists())
            case 3 | 4:
                game.say(script.below(4), script.below(2), ChunkLists())
            case 5:
                game.give(script.octets(4 * script.below(64) + script.below(4)))
            case 6 | 7:
                game.answer()
            case 8 | 9 | 10:
                calls = script.below(2) == 0 if reverse else role is Role.CLIENT
                game.call() if calls else game.reply()
            case 11:
                game.abandon()
            case 12:
                game.give(raw.grant(game.given()))
            case _:
                end = script.below(16)
                if end == 0:
                    game.peer.endpoint.disconnect()
                elif end == 1:
                    game.peer.qp.abort("enough")
                elif end < 6:
                    game.memory.short = end < 4
                    game.peer.endpoint.resume_pulls()
                elif end < 10 and (due_s := game.peer.endpoint.next_deadline_s(0.0)) is not None:
                    game.peer.endpoint.on_time(due_s)
        game.settle()
    game.finish()


_HEADERS = golden("transport/headers_v2.toml", "header", "malformed")

MESSAGE_ENDPOINT_MACHINES = by_role(
    "messages",
    play,
    [
        *(bytes((1, 0, 1, 5, 5, len(header) // 4, len(header) % 4)) + header + b"\0\0\0\1" * 8 for header in _HEADERS),
        # Calls, in one piece and in several, and their answers.
        bytes((1, 0, 1, 5, 0, 1, 0, 0, 1, 1, 4, 1, 1, 9, 1, 1, 1, 8, 0)) + bytes(40) + bytes((8, 3, 8, 1, 1)),
        bytes((1, 0, 1, 5)) + bytes((3, 1, 0, 6, 1, 1, 9, 8)) * 4 + bytes((3, 1, 0, 8, 1, 1, 2)) + bytes(40),
        bytes((1, 0, 1, 5, 8, 1, 1, 3, 32, 2, 1, 2, 2, 1, 1, 1, 4, 9, 6, 0, 3, 9, 9, 9, 15)),
        bytes((1, 0, 1, 5, 8, 1, 0, 2, 1, 200, 1, 200, 2, 3, 0, 1, 6, 0, 32, 1, 1, 1, 1, 15, 9, 0)) * 2,
        bytes((1, 1, 1, 2)) + bytes((8, 0, 1, 3, 200, 0, 7, 208, 0)) * 6 + bytes((12, 1, 6, 0, 1)) * 4,
    ],
)
