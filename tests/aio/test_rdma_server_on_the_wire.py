"""A server on real sockets against clients that break the stream: ends at any octet, garbage, lies, foreign memory."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.raw_calls import (
    BOTH_PRIVATE,
    HANDLE,
    NULL_CALL,
    READ_ARGS,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    TERMINATE,
    WRITE,
    PendingWrite,
    assert_works,
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

Scenes = Callable[..., Any]
MIB = 1 << 20
CONTENT = bytes(range(256)) * (MIB // 256)


# Closing at any octet


async def cut(held: Any, before: list[bytes], octets: bytes, how: str) -> None:
    """Connections for lengths of `octets` up to all: `before` is said, then so much, and the connection ends."""
    # Of more that come at once than a listening socket holds, the kernel drops some, which come again after a second.
    places = asyncio.Semaphore(50)

    async def one(length: int) -> None:
        async with places:
            await in_its_place(length)

    async def in_its_place(length: int) -> None:
        peer = await (held.connected() if before else held.peer())
        for said in before[1:]:
            await peer.send(said)
        if length:
            await peer.send(octets[:length])
        if how == "half":
            peer.end()
            await peer.ended()
        elif how == "reset":
            peer.reset()
        peer.close()

    await asyncio.gather(*map(one, range(0, len(octets) + 1, 5)))
    await held.alone()


ENDS = each_case("how", ["close", "half", "reset"])


@ENDS
async def test_cut_within_the_start_up_frame(scene: Scenes, how: str) -> None:
    async with scene() as it:
        await cut(it, [], startup_frame("Req", 0x50, 2, struct.pack(">HH", 1, 1) + BOTH_PRIVATE), how)


@ENDS
async def test_cut_within_the_first_call(scene: Scenes, how: str) -> None:
    async with scene() as it:
        await cut(it, [b"connected"], fpdu(send(NULL_CALL)), how)


@ENDS
async def test_cut_within_a_call_with_a_read_chunk(scene: Scenes, how: str) -> None:
    async with scene() as it:
        await cut(it, [b"connected"], fpdu(send(write_call(64, (7, 64, 0)))), how)
        assert it.files.written == []


@ENDS
@each_case("size", [64, 20_000])
async def test_cut_while_a_read_chunk_is_pulled(scene: Scenes, how: str, size: int) -> None:
    data = random.Random(1).randbytes(size)

    async def one(it: Any, length: int) -> None:
        peer = await it.connected()
        await peer.send_segments(send(write_call(size, (7, size, 9))))
        asked = await peer.segment()
        assert asked.opcode == READ_REQUEST
        handle, offset, octets, source, source_offset = struct.unpack(">IQIIQ", asked.payload)
        assert (octets, source, source_offset) == (size, 7, 9)
        await peer.send(fpdu(tagged(READ_RESPONSE, handle, offset, data))[:length])
        if how == "half":
            peer.end()
            await peer.ended()
        elif how == "reset":
            peer.reset()
        peer.close()

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
        if length:
            await peer.receive(length)
        if how == "half":
            peer.end()
            await peer.ended()
        elif how == "reset":
            peer.reset()
        peer.close()

    async with scene() as it:
        await asyncio.gather(
            *(one(it, length) for length in [*range(0, 40, 5), 1447, 1448, 5000, 5019, 5020, 5021, 5100])
        )
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


# Garbage


@each_case("seed", [1, 6])
async def test_garbage_instead_of_a_start_up_frame(scene: Scenes, seed: int) -> None:
    async with scene() as it:
        peer = await it.peer()
        await peer.send(random.Random(seed).randbytes(1 << seed * 2))
        assert await peer.ended() == b""


@each_case(
    "frame",
    [
        startup_frame("Req", 0x50, 2, bytes(4)) + fpdu(send(NULL_CALL)),
        startup_frame("Req", 0x50, 2, bytes(4)) * 2,
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("80000028") + rpc(0),
    ],
)
async def test_start_up_frames_that_are_wrong_are_answered_by_silence(scene: Scenes, frame: bytes) -> None:
    async with scene() as it:
        peer = await it.peer()
        await peer.send(frame)
        assert await peer.ended() == b""


@each_case("seed", range(3))
async def test_garbage_after_the_start_up(scene: Scenes, seed: int) -> None:
    async with scene() as it:
        peer = await it.connected()
        await peer.send(random.Random(seed).randbytes(70_000))
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


# Lengths that lie, checksums that do not fit, memory that was not given

RECEIVE_OCTETS = 4096
"""Of the server: less than one segment can carry."""
# `test_iwarp_hostile` has the rules of the stream; these need the memory and the sockets of a server.
LIES: dict[str, tuple[bytes, int]] = {
    "CRC of another frame": (fpdu(send(NULL_CALL, 2), flaw=1), 0x2002),
    "largest possible ULPDU to a handle never given": (fpdu(tagged(WRITE, 7, 0, bytes(65521))), 0x1100),
    "Send larger than the receive": (fpdu(send(bytes(RECEIVE_OCTETS + 1), 2)), 0x1205),
    "Read of a handle never given": (fpdu(read_request(1, 5, 0, 100, 0x12345678, 0)), 0x0100),
}


@each_case("lie", LIES)
async def test_a_rule_broken_on_the_stream_gets_its_terminate(scene: Scenes, lie: str) -> None:
    octets, code = LIES[lie]
    async with scene(transport=TransportConfig(offered_receive_octets=RECEIVE_OCTETS)) as it:
        peer = await it.connected()
        await assert_works(peer, 1)
        await peer.send(octets)
        heard = await peer.segments_to_end()
        assert [(segment_.opcode, segment_.terminate_code) for segment_ in heard] == [(TERMINATE, code)]


@each_case(("opcode", "size", "shift"), [(WRITE, 100, -1), (READ_RESPONSE, 8000, 1)])
async def test_one_octet_beyond_the_memory_that_the_server_named(
    scene: Scenes, opcode: int, size: int, shift: int
) -> None:
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), size).begin()
        await sink.peer.send_segments(tagged(opcode, sink.handle, sink.offset + shift, bytes(size)))
        (heard,) = await sink.peer.segments_to_end()
        assert heard.terminate_code == 0x1101
        assert it.files.written == []


async def test_memory_of_another_connection(scene: Scenes) -> None:
    size = 8000
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), size).begin()
        thief = await it.connected()
        await thief.send_segments(tagged(WRITE, sink.handle, sink.offset, b"stolen!!" * (size // 8)))
        (heard,) = await thief.segments_to_end()
        assert heard.terminate_code == 0x1100
        await sink.peer.send_segments(tagged(READ_RESPONSE, sink.handle, sink.offset, CONTENT[:size]))
        assert (await sink.peer.segment()).opcode == SEND
        assert it.files.written == [CONTENT[:size]]


async def test_memory_of_a_call_that_has_been_answered(scene: Scenes) -> None:
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), 5000).begin()
        await sink.peer.send_segments(tagged(READ_RESPONSE, sink.handle, sink.offset, CONTENT[:5000]))
        assert (await sink.peer.segment()).opcode == SEND
        await sink.peer.send_segments(tagged(WRITE, sink.handle, sink.offset, bytes(5000)))
        (heard,) = await sink.peer.segments_to_end()
        assert heard.terminate_code == 0x1100
        assert it.files.written == [CONTENT[:5000]]


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


async def test_reads_of_a_servers_memory_find_none(scene: Scenes) -> None:
    async with scene() as it:
        sink = await PendingWrite(await it.connected(), 100).begin()
        await sink.peer.send_segments(read_request(1, 5, 0, 100, sink.handle, sink.offset))
        (heard,) = await sink.peer.segments_to_end()
        assert heard.terminate_code == 0x0102
