"""A server on real sockets against clients that break the stream: ends at any octet, garbage, lies, foreign memory."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import CONTENT, ENDS, Scenes, leave
from rpcrdma.nfs import v3
from support.cases import each_case
from support.raw_calls import (
    BOTH_PRIVATE,
    HANDLE,
    NULL_CALL,
    READ_ARGS,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    WRITE,
    PendingWrite,
    chunk,
    file_handle,
    header,
    read_call,
    read_segment,
    rpc,
    segment,
    send,
    write_call,
)
from support.raw_iwarp import fpdu, read_request, startup_frame, tagged, untagged
from support.waiting import until

pytestmark = pytest.mark.thorough


WHOLE: dict[str, bytes] = {
    "start-up frame": startup_frame("Req", 0x50, 2, struct.pack(">HH", 1, 1) + BOTH_PRIVATE),
    "call": fpdu(send(NULL_CALL)),
    "call with a Read chunk": fpdu(send(write_call(64, (7, 64, 0)))),
}


@ENDS
@each_case("within", WHOLE)
async def test_cut_within(scene: Scenes, how: str, within: str) -> None:
    octets = WHOLE[within]
    # Of more that come at once than a listening socket holds, the kernel drops some, which come again after a second.
    places = asyncio.Semaphore(50)

    async def one(it: Any, length: int) -> None:
        async with places:
            peer = await (it.peer() if within == "start-up frame" else it.connected())
            if length:
                await peer.send(octets[:length])
            await leave(peer, how)

    async with scene() as it:
        await asyncio.gather(*(one(it, length) for length in range(0, len(octets) + 1, 5)))
        await it.alone()
        assert it.files.written == []


@ENDS
@each_case("size", [64, 20_000])
async def test_cut_while_a_read_chunk_is_pulled(scene: Scenes, how: str, size: int) -> None:
    data = random.Random(1).randbytes(size)

    async def one(it: Any, length: int) -> None:
        sink = await PendingWrite(await it.connected(), size).begin()
        await sink.peer.send(fpdu(tagged(READ_RESPONSE, sink.handle, sink.offset, data))[:length])
        await leave(sink.peer, how)

    async with scene() as it:
        whole = len(fpdu(tagged(READ_RESPONSE, 7, 0, data)))
        lengths = range(0, whole, 7) if whole < 200 else [0, 1, 2, 15, 16, 17, 2047, 2048, 8192, whole - 5, whole - 1]
        await asyncio.gather(*(one(it, length) for length in lengths))
        await it.alone()
        assert it.files.written == []


@ENDS
async def test_gone_after_any_part_of_the_reply(scene: Scenes, how: str) -> None:
    async def one(it: Any, length: int) -> None:
        peer = await it.connected()
        await peer.send_segments(send(read_call(segment(7, 5000, 0))))
        await peer.receive(length)
        await leave(peer, how)

    async with scene() as it:
        lengths = [*range(0, 40, 5), 1447, 1448, 5000, 5019, 5020, 5021, 5100]
        await asyncio.gather(*(one(it, length) for length in lengths))
        await it.alone()


async def test_gone_while_a_worker_runs_and_its_memory_is_lent_to_nobody_else(scene: Scenes) -> None:
    async with scene() as it:
        for number in range(4):
            peer = await it.connected()
            # XIDs of their own: the same call again would be taken for a repeat.
            await peer.send_segments(send(header(xid=number) + rpc(5, file_handle(), xid=number)))
            await asyncio.to_thread(it.files.entered.acquire)
            if number % 2:
                peer.reset()
            peer.close()
        await it.alone()
        assert it.lent_octets == 4 * 8192, "the handlers still have their memory"
        await it.still_good()
        it.files.gate.set()


async def test_a_handler_may_let_go_of_its_buffer_and_keeps_none_once_it_is_answered(scene: Scenes) -> None:
    async with scene() as it:
        await it.good.call(v3.ACCESS, v3.ACCESS3args(v3.nfs_fh3(HANDLE), 1))
        await until(lambda: not it.lent_octets)
        await it.good.call(v3.READDIR, v3.READDIR3args(v3.nfs_fh3(HANDLE), 0, bytes(8), 4096))
        await until(lambda: not it.lent_octets)


@each_case(
    "octets",
    [
        startup_frame("Req", 0x50, 2, bytes(4)) + fpdu(send(NULL_CALL)),
        startup_frame("Req", 0x50, 2, bytes(4)) * 2,
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("80000028") + rpc(0),
        random.Random(1).randbytes(4),
        random.Random(6).randbytes(4096),
    ],
)
async def test_start_up_frames_that_are_wrong_are_answered_by_silence(scene: Scenes, octets: bytes) -> None:
    async with scene() as it:
        peer = await it.peer()
        await peer.send(octets)
        assert await peer.ended() == b""
        peer = await it.connected()
        await peer.send(octets + random.Random(len(octets)).randbytes(70_000))
        assert len(await peer.ended()) <= 200, "a Terminate at most"


@each_case("seed", range(2))
async def test_calls_with_octets_changed_at_random(scene: Scenes, seed: int) -> None:
    """Everything below the FPDU is garbled; in each case the connection is of use or ends."""
    draw = random.Random(seed)
    calls = [NULL_CALL, write_call(64, (7, 64, 0)), read_call(segment(7, 5000, 0)), header() + rpc(6, READ_ARGS)]
    calls += [header(read_segment(0, 7, 60), kind=1), header(reply=chunk(segment(9, 99), segment(9, 1))) + rpc(16)]

    async def one(it: Any) -> None:
        peer = await it.connected(private_data=draw.choice([b"", BOTH_PRIVATE]))
        for number in range(1, 9):
            data = bytearray(draw.choice(calls))
            for _ in range(draw.randint(1, 4)):
                data[draw.randrange(len(data))] = draw.choice([0, 1, 2, 4, 255, draw.randrange(256)])
            await peer.send_segments(send(bytes(data[: draw.choice([len(data), draw.randrange(len(data))])]), number))
        peer.end()
        await peer.ended()

    async with scene() as it:
        await asyncio.gather(*(one(it) for _ in range(25)))
        await it.alone()


FOREIGN: dict[str, tuple[int, Callable[[PendingWrite], bytes]]] = {
    "a write one octet in front": (0x1101, lambda sink: tagged(WRITE, sink.handle, sink.offset - 1, bytes(8000))),
    "a response one octet behind": (
        0x1101,
        lambda sink: tagged(READ_RESPONSE, sink.handle, sink.offset + 1, bytes(8000)),
    ),
    "a read": (0x0102, lambda sink: read_request(1, 5, 0, 100, sink.handle, sink.offset)),
}


@each_case("what", FOREIGN)
async def test_memory_that_the_server_named_is_used_as_it_was_told_or_not_at_all(scene: Scenes, what: str) -> None:
    code, breach = FOREIGN[what]
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), 8000).begin()
        await sink.peer.send_segments(breach(sink))
        (heard,) = await sink.peer.segments_to_end()
        assert heard.terminate_code == code
        assert it.files.written == []


@each_case("of", ["another connection", "a call that has been answered"])
async def test_memory_that_is_not_the_peers_is_not_written(scene: Scenes, of: str) -> None:
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), 8000).begin()
        thief = sink.peer
        if of == "another connection":
            thief = await it.connected()
            await thief.send_segments(tagged(WRITE, sink.handle, sink.offset, b"stolen!!" * 1000))
        await sink.peer.send_segments(tagged(READ_RESPONSE, sink.handle, sink.offset, CONTENT[:8000]))
        assert (await sink.peer.segment()).opcode == SEND
        if of == "a call that has been answered":
            await thief.send_segments(tagged(WRITE, sink.handle, sink.offset, b"stolen!!" * 1000))
        (heard,) = await thief.segments_to_end()
        assert heard.terminate_code == 0x1100
        assert it.files.written == [CONTENT[:8000]]


async def test_a_peer_that_invalidates_the_memory_it_is_to_fill(scene: Scenes) -> None:
    async with scene() as it:
        sink = await PendingWrite(await it.connected(private_data=BOTH_PRIVATE), 5000).begin()
        await sink.peer.send_segments(
            untagged(SEND_INVALIDATE, 0, 2, NULL_CALL, invalidate=sink.handle),
            tagged(READ_RESPONSE, sink.handle, sink.offset, bytes(5000)),
        )
        # The call itself ends the connection, and nothing is said; unless the response was looked at before it.
        heard = await sink.peer.segments_to_end()
        assert [segment_.terminate_code for segment_ in heard] in ([], [0x1100])
        await it.alone()
        assert it.files.written == []
