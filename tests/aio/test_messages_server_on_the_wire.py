"""A server on real sockets against clients that speak version 2 as they please, beside one that behaves."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import ENDS, leave
from rpcrdma.limits import RDMA_STALLED_S
from rpcrdma.transport import TransportConfig
from support import raw_messages as raw
from support import raw_messages_07
from support.both_drafts import Raw
from support.raw_calls import (
    READ_ARGS,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    TERMINATE,
    XID,
    rpc,
    send,
    write_args,
)
from support.raw_iwarp import fpdu, tagged
from support.raw_messages import CONNPROP, ERROR, MORE, MSG, NOMSG, RESPONSE, HeardMessage, word
from support.raw_socket import RawSocketPeer
from support.waiting import until

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


@pytest.mark.req("V2-67")
async def test_an_ineligible_argument_in_a_chunk_is_refused_for_good_and_not_run(scene: Scenes) -> None:
    """A file handle; the octets of the same call without a chunk are served."""
    async with scene() as it:
        talk = await introduced(it)
        inline = rpc(4, struct.pack(">I8sI", 8, b"the file", 0x3F))
        assert len(inline) == 56
        call = raw.message(XID, inline[:44] + inline[52:], reads=raw.read_segment(44, (7, 8, 0)))
        await talk.say(call)
        asked = await talk.peer.segment()
        assert asked.opcode == READ_REQUEST
        handle, offset, length = struct.unpack_from(">IQI", asked.payload)
        assert length == 8
        await talk.peer.send_segments(tagged(READ_RESPONSE, handle, offset, b"the file"))
        heard = await talk.hear()
        assert (heard.kind, heard.xid, heard.numbers) == (ERROR, XID, (SYSTEM,))
        assert it.files.accessed == 0
        await talk.say(raw.message(XID, inline))
        assert (await talk.hear()).kind == MSG
        assert it.files.accessed == 1


@seeds(2, 1)
async def test_garbage_in_the_first_message_ends_no_other_connection(scene: Scenes, raw: Raw, seed: int) -> None:
    async with scene(rpcrdma_version=serving(raw)) as it:
        draw = random.Random(seed)
        for _ in range(10):
            talk = Talk(await it.connected(), raw)
            await talk.say(
                struct.pack(">III", XID, 2, 0x00400040 if raw is not raw_messages_07 else 64)
                + draw.randbytes(4 * draw.randrange(300))
            )
            talk.peer.end()
            for heard in await talk.peer.segments_to_end():
                assert heard.opcode in {SEND, TERMINATE}
            await it.still_good()


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


async def test_clients_that_do_not_finish_their_calls_are_cut_off(scene: Scenes, raw: Raw) -> None:
    async with scene(rpcrdma_version=serving(raw)) as it:
        for _ in range(5):
            talk = await introduced(it, raw)
            await talk.say(raw.message(XID, rpc(0)[:20], MORE))
        await it.alone_in_time(RDMA_STALLED_S)


async def test_a_write_in_pieces_is_run_once_and_whole(scene: Scenes) -> None:
    """The same messages that the tests above break off, unbroken."""
    async with scene() as it:
        talk = await introduced(it)
        data = bytes(range(256)) * 2000
        call = rpc(7, write_args(len(data)) + data)
        parts = [call[start : start + 30_000] for start in range(0, len(call), 30_000)]
        await talk.say(*(raw.message(XID, part, MORE) for part in parts[:-1]), raw.message(XID, parts[-1]))
        heard = await talk.hear()
        assert (heard.kind, heard.xid) == (MSG, XID)
        assert it.files.written == [data]
        await talk.works()


async def test_more_messages_than_credits_end_the_connection(scene: Scenes) -> None:
    async with scene(transport=TransportConfig(credits_granted=4)) as it:
        talk = Talk(await it.connected())
        await talk.say(raw.properties(give=64))
        given = (await talk.hear()).give
        assert given < 10
        await talk.say(*(raw.message(XID, bytes(4), MORE) for _ in range(given + 30)))
        await talk.peer.ended()
        await it.alone()


async def test_a_client_that_never_grants_gets_no_reply_and_holds_no_memory_for_long(scene: Scenes, raw: Raw) -> None:
    async with scene(rpcrdma_version=serving(raw)) as it:
        talk = Talk(await it.connected(), raw)
        # One credit, which the properties take.
        await talk.say(raw.properties(give=0))
        assert (await talk.hear()).kind == CONNPROP
        call = raw.message(XID, rpc(6, READ_ARGS[:-4] + word(MIB)), give=0, writes=raw.chunk((7, MIB, 0)))
        await talk.say(*[call] * 20)
        await until(lambda: it.lent_octets > 0)
        await it.alone_in_time(RDMA_STALLED_S)
        assert it.lent_octets == 0


async def test_grants_without_end_are_survived(scene: Scenes) -> None:
    async with scene() as it:
        talk = await introduced(it)
        for _ in range(20):
            await talk.say(*(raw.grant(0xFFFF) for _ in range(100)))
            await it.still_good()
        await talk.works()


async def test_reads_that_are_never_answered_hold_up_nobody_else(scene: Scenes) -> None:
    async with scene() as it:
        position = len(rpc(7, write_args(MIB)))
        call = raw.message(XID, rpc(7, write_args(MIB)), reads=raw.read_segment(position, (7, MIB, 0)))
        talks = [await introduced(it) for _ in range(4)]
        for talk in talks:
            await talk.say(*[call] * 60)
            assert (await talk.peer.segment()).opcode == READ_REQUEST
            assert it.lent_octets <= it.pools[1].octets_max / 8
            await it.still_good()
        assert it.files.written == []


async def test_frames_cut_at_any_octet_of_the_first_message(scene: Scenes) -> None:
    async with scene() as it:
        whole = fpdu(send(raw.properties(), 1))
        for length in range(1, len(whole), 7):
            peer = await it.connected()
            await peer.send(whole[:length])
            peer.close()
        await it.alone()
