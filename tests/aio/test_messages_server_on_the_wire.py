"""A server on real sockets against clients that speak version 2 as they please, beside one that behaves."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import ENDS, leave
from support import raw_messages as raw
from support import raw_messages_07
from support.both_drafts import Raw
from support.raw_calls import (
    READ_ARGS,
    SEND,
    XID,
    rpc,
    send,
    write_args,
)
from support.raw_iwarp import fpdu
from support.raw_messages import CONNPROP, ERROR, MORE, MSG, NOMSG, RESPONSE, HeardMessage
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

Scenes = Callable[..., Any]
MIB = 1 << 20
BAD_XDR, INVAL_HTYPE, INVAL_FLAG, SYSTEM = 2, 3, 4, 10
NULL = raw.message(XID, rpc(0))


class Talk:
    """A hostile client's Sends, which are numbered, and the messages that it receives."""

    def __init__(self, peer: RawSocketPeer, raw: Raw = raw) -> None:
        self.peer = peer
        self.raw = raw
        self.sent = 0
        self._credits = raw.Credits()

    async def say(self, *messages: bytes) -> None:
        segments = []
        for octets in messages:
            self.sent += 1
            segments.append(send(self._credits.sent(octets), self.sent))
        await self.peer.send_segments(*segments)

    async def hear(self) -> HeardMessage:
        """The next message that is no grant."""
        while True:
            heard = await self.peer.segment()
            assert heard.opcode == SEND, heard
            message = self.raw.heard(heard.payload)
            self._credits.arrived(message)
            if (message.kind, message.xid) != (NOMSG, 0):
                return message

    async def refused(self, octets: bytes) -> tuple[int, ...]:
        await self.say(octets)
        heard = await self.hear()
        assert (heard.kind, heard.xid, heard.flags) == (ERROR, int.from_bytes(octets[:4]), RESPONSE)
        return heard.numbers

    async def works(self) -> None:
        """A NULL call is answered."""
        await self.say(self.raw.message(XID, rpc(0)))
        heard = await self.hear()
        assert (heard.kind, heard.xid, heard.flags) == (MSG, XID, RESPONSE)
        assert heard.payload == struct.pack(">III", XID, 1, 0) + bytes(12)


def serving(raw: Raw) -> str:
    """The version that a server is told to speak."""
    return "2-07" if raw is raw_messages_07 else "auto"


def seeds(first: int, last: int) -> pytest.MarkDecorator:
    """So many seeds in the first draft and in the last one."""
    cases = [(raw, seed) for seed in range(first)] + [(raw_messages_07, seed) for seed in range(last)]
    return pytest.mark.parametrize(
        ("raw", "seed"), [pytest.param(*case, id=f"{case[0].NAME}-{case[1]}") for case in cases]
    )


async def introduced(it: Any, raw: Raw = raw, **options: Any) -> Talk:
    """A client that has told its properties, and has been told the server's."""
    talk = Talk(await it.connected(**options), raw)
    await talk.say(raw.properties(give=64))
    heard = await talk.hear()
    assert heard.kind == CONNPROP
    assert heard.give > 100
    return talk


@seeds(1, 1)
async def test_messages_with_octets_changed_at_random(scene: Scenes, raw: Raw, seed: int) -> None:
    draw = random.Random(seed)
    kinds = [
        raw.message(XID, rpc(0)),
        raw.message(XID, rpc(0)[:20], MORE),
        raw.message(XID, rpc(6, READ_ARGS), writes=raw.chunk((7, 5000, 0))),
        raw.message(XID, rpc(7, write_args(20)), reads=raw.read_segment(88, (7, 20, 0))),
        raw.properties(),
        raw.grant(2),
        raw.error(XID, raw.REPLY_RESOURCE, 9000),
    ]
    async with scene(rpcrdma_version=serving(raw)) as it:
        for _ in range(12):
            talk = await introduced(it, raw)
            for _ in range(30):
                octets = bytearray(draw.choice(kinds))
                for _ in range(draw.randrange(3)):
                    octets[draw.randrange(len(octets))] = draw.choice([0, 1, 2, 255, draw.randrange(256)])
                try:
                    await talk.say(bytes(octets))
                except OSError:
                    break
            talk.peer.end()
            await talk.peer.ended()
            await it.still_good()
        await it.alone()
        assert it.lent_octets == 0


@ENDS
async def test_a_client_that_leaves_in_the_midst_of_a_call(scene: Scenes, raw: Raw, how: str) -> None:
    async with scene(rpcrdma_version=serving(raw)) as it:
        for pieces in (1, 17):
            talk = await introduced(it, raw)
            await talk.say(*(raw.message(XID, bytes(32_000), MORE) for _ in range(pieces)))
            await leave(talk.peer, how)
        await it.alone()
        assert it.lent_octets == 0


async def test_frames_cut_at_any_octet_of_the_first_message(scene: Scenes) -> None:
    async with scene() as it:
        whole = fpdu(send(raw.properties(), 1))
        for length in range(1, len(whole), 7):
            peer = await it.connected()
            await peer.send(whole[:length])
            peer.close()
        await it.alone()
