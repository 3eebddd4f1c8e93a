"""Fuzz targets: an endpoint with the round-trip extension, of either role, against a peer that sends any transmissions.

The rules are those of `message_endpoint_targets`; in the end no receive buffer of a group is kept.
"""

from __future__ import annotations

import functools
import struct

from decoder_targets import by_role
from endpoint_targets import RPC_START
from message_endpoint_targets import CONFIGS, RECEIVE_OCTETS, MessagePlay, play
from rpcrdma.rtr import Preference, RoundTrip, RoundTripConfig
from rpcrdma.rtr.messages import REPTERR, XMTCONT, XMTREQ, XMTRESP, decode_transmit_request
from rpcrdma.rtr.receive_slabs import SlabReceives
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import offered
from rpcrdma.transport.chunks import ChunkLists
from support import raw_messages as raw
from support.raw_messages import RESPONSE

__all__ = ["TRANSMISSION_MACHINES"]

PAGE = 1024
"""Of a placeable segment: one for headers and three such make a receive buffer of the endpoint."""
PREFERENCES = tuple(Preference)


def words(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *(number & 0xFFFFFFFF for number in numbers))


class TransmissionPlay(MessagePlay):
    """One endpoint with the extension, and a peer that tells of it, too."""

    told = raw.property_set(
        (raw.SEND_SIZE, raw.word(RECEIVE_OCTETS)),
        (raw.RECEIVE_SIZE, raw.word(2048)),
        (0x101, raw.word(7)),
        (0x102, words(2048, 2, 1, 512, 0, 0, 3, 512, 512, 1)),
        (0x103, raw.word(4)),
        (0x104, raw.word(4)),
    )

    def make_peer(self, *, reverse: bool) -> BarePeer:
        script = self.script
        self.requests: list[tuple[int, bytes]] = []
        self.open_group: tuple[int, int, int] = (1, XMTREQ, 1)
        settings = RoundTripConfig(preference=PREFERENCES[script.below(len(PREFERENCES))], segment_octets=PAGE)
        return BarePeer(
            self.role,
            CONFIGS[script.below(2)],
            receives=24,
            receive_octets=RECEIVE_OCTETS,
            reverse=reverse,
            buffers=self.memory,
            dialects=offered("2"),
            extensions=[RoundTrip(settings, receive_octets=RECEIVE_OCTETS).extension],
            ready=False,
        )

    def settle(self) -> None:
        self.peer.run()
        for octets in list(self.peer.received):
            xid, version, _, give, kind, _ = struct.unpack_from(">IIHHII", octets)
            if version == 2 and kind >= XMTREQ:
                self.peer.received.remove(octets)
                self.balance -= 1
                self.credits += give
                assert self.balance >= 0, "sent without a credit"
                if kind == XMTREQ:
                    self.requests.append((xid, octets[20:]))
        super().settle()

    def finish(self) -> None:
        super().finish()
        receives = self.peer.endpoint._receives.pool
        assert isinstance(receives, SlabReceives)
        assert receives._ahead <= 8 + 1, "receive buffers are kept that no open group has"

    def say(self, xid: int, direction: int, chunks: ChunkLists) -> None:
        """Mostly transmissions."""
        script = self.script
        match script.below(8):
            case 0 | 1:
                self.begin(xid, direction == 1)
            case 2 | 3 | 4:
                self.go_on()
            case 5:
                values = (0, 2, 2, 0, 2, 2, 3, 3, 3)[code := script.below(9)]
                lead = words(1, xid, script.below(2), 0) if script.below(2) else words(0)
                body = words(xid, script.below(3), script.below(3)) + lead + words(code, *range(values))
                self.give(raw.prefix(xid, REPTERR, script.below(8), give=self.given()) + body)
            case _:
                super().say(xid, direction, chunks)

    def begin(self, xid: int, response: bool, items: list[bytes] | None = None) -> None:
        """The first transmission of a group, mostly of one that could be."""
        script = self.script
        count = (1, 1, 1, 2, 3, 4)[script.below(6)] if script.below(8) else script.number(4)
        if items is None:
            items = [self.item(index) for index in range(script.below(3))]
        body = words(len(items)) + b"".join(items)
        payload = RPC_START.pack(xid, int(response)) + bytes(4 * script.below(16))
        length = len(payload) if script.below(8) else script.number(2)
        kind = XMTRESP if response else XMTREQ
        if response:
            body += words(count, length)
        else:
            body += self.directions() + words(count, script.below(4), length)
        self.open_group = (xid, kind, 1)
        self.transmit(xid, kind, body + payload, response=response)

    def item(self, index: int) -> bytes:
        script = self.script
        position, length = 8 + 4 * script.below(8) + 64 * index, script.number(2) % 3000
        way = script.below(8)
        if way < 5:
            first = 3 * index + script.below(3)
            numbers = range(first, first + -(-length // PAGE)) if script.below(4) else range(script.below(20))
            return words(position, length, 2, script.below(8) * 40 if way == 4 else 0, len(numbers), *numbers)
        if way == 5:
            segments = self.chunk_lists().writes or ()
            named = [segment for chunk in segments for segment in chunk.segments]
            entries = b"".join(struct.pack(">IIQ", h, n & 0xFFFFFFFF, o) for h, n, o in named)
            return words(position, length, 1, len(named)) + entries
        return words(position, length, script.below(8))

    def directions(self) -> bytes:
        script = self.script
        sets = b""
        count = (0, 1, 1, 2)[script.below(4)]
        for index in range(count):
            way = 1 + script.below(4)
            sets += words(8 * index, 8 * index + script.below(16), 1, script.below(64), way)
            if way == 4:
                sets += words(script.number(2))
            if way != 2:
                chunks = self.chunk_lists().writes[:1]
                named = [segment for chunk in chunks for segment in chunk.segments]
                sets += words(len(named))
                sets += b"".join(struct.pack(">IIQ", h, n & 0xFFFFFFFF, o) for h, n, o in named)
        return words(count) + sets

    def go_on(self) -> None:
        """The next transmission of the group, now and then a wrong one."""
        script = self.script
        xid, kind, number = self.open_group
        payload = bytes(4 * script.below(8))
        length = len(payload) if script.below(8) else script.number(4)
        if script.below(8) == 0:
            xid, kind, number = xid ^ script.below(2), kind ^ script.below(4), number + script.below(3) - 1
        self.open_group = (xid, kind, number + 1)
        self.transmit(xid, XMTCONT, words(number, kind, length) + payload, response=kind == XMTRESP)

    def transmit(self, xid: int, kind: int, body: bytes, *, response: bool) -> None:
        script = self.script
        octets = raw.prefix(xid, kind, RESPONSE if response else 0, give=self.given()) + body
        if script.below(4):
            octets += bytes(max(0, PAGE - len(octets))) + b"bulk" * (64 * script.below(13))
        self.give(octets)

    def answer(self) -> None:
        """A response to a request of the endpoint, with an item for each of its directions, truly or not."""
        script = self.script
        if not self.requests or script.below(4) == 0:
            super().answer()
            return
        xid, body = self.requests[-1 - script.below(min(len(self.requests), 4))]
        request, _ = decode_transmit_request(body, 0)
        items = []
        for index, direction in enumerate(each for group in request.directions for each in group.results):
            how = script.below(4)
            if how == 0:
                items.append(words(0, 0, 6))
            elif how == 1 and direction.segments:
                handle, length, offset = direction.segments[0]
                used = script.number(2) % (length + 1 + script.below(2))
                self.peer.write(handle, offset, [b"\7" * min(used, length)])
                rest = b"".join(struct.pack(">IIQ", h, 0, o) for h, _, o in direction.segments[1:])
                items.append(
                    words(8 + 4 * index, used, 1, len(direction.segments))
                    + struct.pack(">IIQ", handle, used, offset)
                    + rest
                )
            else:
                items.append(self.item(index))
        self.begin(xid, response=True, items=items)


TRANSMISSION_MACHINES = by_role(
    "transmissions",
    functools.partial(play, make=TransmissionPlay),
    [
        # Groups with items, whole and broken off; calls and their answers.
        bytes((1, 0, 1, 5)) + bytes((0, 1, 0, 1, 1, 1, 1, 3, 8, 0, 0, 1, 1, 1, 3, 12, 5, 3, 1, 2, 1, 1, 1, 6)) * 6,
        bytes((1, 1, 1, 2)) + bytes((0, 1, 0, 0, 1, 2, 1, 1, 0, 200, 0, 1, 1, 1, 1, 1, 1, 1, 5, 3, 1, 3, 1, 1)) * 8,
        bytes((2, 0, 1, 6)) + bytes((8, 1, 1, 3, 200, 2, 1, 2, 2, 1, 4, 6, 1, 0, 2, 1, 1, 1, 0, 1, 1, 12)) * 6,
        bytes((3, 0, 1, 6)) + bytes((8, 1, 1, 2, 1, 3, 132, 0, 7, 208, 40, 6, 1, 0, 1, 0, 255, 1, 1, 0, 4, 1)) * 6,
        bytes((4, 0, 1, 6)) + bytes((8, 1, 0, 1, 3, 132, 0, 7, 208, 40, 3, 1, 0, 5, 7, 0, 2, 1, 1, 11, 0)) * 6,
    ],
)
