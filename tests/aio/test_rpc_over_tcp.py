"""Peers that lie, stall or vanish, and large calls that pile up: they harm only themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import NoneType, SimpleNamespace
from typing import Any

import pytest

import local_tcp
from jumping_sockets import now_s
from local_tcp import LocalSocket, received_until_closed, without_network
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.calls_made import _PADS_WRONGLY
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.errors import CallTimeout, DecodeError, MessageTooLong, TransportClosed
from rpcrdma.rpc.record import LAST_FRAGMENT
from support.cases import each_case
from support.waiting import time_passes, until
from tcp_rig import ECHO, MIB, REPLY, REQUEST, STORE, Rig, exactly, raw_call, record, send, serving

BULK = raw_call(STORE, bytes(MIB - 1000))


@each_case(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x80\0\0\0",
        b"\0\0\0\0" * 2000,
        b"\0\0\0\1x" * 2000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\1\0\1\xfc\x03\x03",
    ],
)
@without_network
async def test_what_is_no_record_ends_its_connection_after_the_answers_before_it(garbage: bytes) -> None:
    async with serving() as rig:
        with await rig.raw() as sock:
            await send(sock, REQUEST + garbage)
            assert await received_until_closed(sock) == REPLY


@pytest.mark.req("OR-6")
@without_network
async def test_records_that_are_no_calls_are_dropped_and_the_connection_goes_on() -> None:
    async with serving() as rig:
        with await rig.raw() as sock:
            rubbish = [b"x", b"\xff" * 100, REQUEST[4:43], REPLY[4:]]
            await send(sock, b"".join(map(record, rubbish)) + REQUEST)
            assert await exactly(sock, len(REPLY)) == REPLY


@without_network
async def test_a_request_that_never_ends_is_given_up_however_it_drips() -> None:
    async with serving(idle_s=60) as rig:
        with await rig.raw() as sock:
            ended = asyncio.create_task(received_until_closed(sock))
            await send(sock, record(b"", 100_000))
            with contextlib.suppress(BrokenPipeError):
                while True:
                    await send(sock, b"x")
                    await time_passes(5)
            assert 60 <= now_s() <= 70
            assert await ended == b""


@pytest.mark.thorough
@without_network
async def test_a_flood_of_refused_calls_whose_answers_nobody_reads_is_bounded() -> None:
    async with serving() as rig:
        with await rig.raw() as sock:
            other_version = bytearray(REQUEST[4:44])
            other_version[11] = 9
            count = 1 << 13
            flood = asyncio.create_task(send(sock, record(bytes(other_version)) * count))
            (connection,) = rig.server.connections
            await until(lambda: connection._stream.paused)
            await time_passes(1)
            assert connection._stream.unsent_octets == 28 * tcp_calls_taken.RPC_OUTSTANDING_CALLS_MAX
            assert not flood.done()
            answered = await exactly(sock, 28 * count)
            await flood
            assert answered[-28:] == record(bytes.fromhex("0000004d 00000001 00000001 00000000 00000002 00000002"))


Answer = Callable[[bytes], bytes]


async def answered_by(answer: Answer, *, closes: bool = True, timeout_s: float | None = None, **options: Any) -> Any:
    """A call to a peer that reads one request, sends the result of `answer` for its XID, and closes."""
    accepted: list[LocalSocket] = []
    with pytest.MonkeyPatch.context() as patch:

        class Listener:
            _on_connection = accepted.append

        patch.setitem(local_tcp._LISTENING, 7, Listener)
        async with await TcpConnection.connect("192.0.2.1", 7, **options) as caller:
            call = asyncio.create_task(caller.call(ECHO, b"hello", timeout_s=timeout_s))
            with accepted[0] as sock:
                request = await exactly(sock, len(REQUEST))
                await send(sock, answer(request[4:8]))
                if not closes:
                    return await call
            return await call


def reply_to(xid: bytes) -> bytes:
    return REPLY[:4] + xid + REPLY[8:]


@each_case("ends", ["reply", "too long"])
def test_a_reply_before_the_call_has_left_frees_the_arguments_which_are_sent_as_they_were(ends: str) -> None:
    async def main() -> None:
        accepted: list[LocalSocket] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(local_tcp._LISTENING, 7, SimpleNamespace(_on_connection=accepted.append))
            async with await TcpConnection.connect("192.0.2.1", 7, record_octets_max=9 * MIB) as caller:
                data = bytearray(8 * MIB)
                call = asyncio.create_task(caller.call(STORE, data))
                await asyncio.sleep(0)
                with accepted[0] as sock:
                    header = await exactly(sock, 8)
                    reply = header[4:] + REPLY[8:28] + bytes(4)
                    await send(sock, record(reply, None if ends == "reply" else 10 * MIB))
                    await asyncio.wait([call])
                    assert isinstance(call.exception(), MessageTooLong if ends == "too long" else NoneType)
                    data[:] = b"S" * len(data)
                    data.append(0)
                    assert b"S" not in await exactly(sock, int.from_bytes(header[:4], "big") - (1 << 31) - 4)

    local_tcp.run(main())


@pytest.mark.req("OR-6")
def test_the_caller_passes_over_replies_that_are_not_its_own() -> None:
    def answer(xid: bytes) -> bytes:
        other = bytes(octet ^ 0xFF for octet in xid)
        return reply_to(other) + record(b"abc") + reply_to(xid) + reply_to(xid)

    assert local_tcp.run(answered_by(answer)) == b"hello"
    another = answered_by(lambda xid: reply_to(bytes(octet ^ 1 for octet in xid)), closes=False, timeout_s=20)
    with pytest.raises(CallTimeout):
        local_tcp.run(another)


@each_case("octets", ["hello", "hello1", "hello12", "hello1234", "hello12345", "hello123456"])
def test_data_with_too_little_or_too_much_padding_is_delivered_and_its_server_is_named_once(
    octets: str, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(xid: bytes) -> bytes:
        return record(xid + REPLY[8:28] + b"\0\0\0\5" + octets.encode())

    caplog.clear()
    _PADS_WRONGLY.clear()
    for _ in range(2):
        assert local_tcp.run(answered_by(answer)) == b"hello"
    assert [line.partition(":7: ")[0] for line in caplog.messages if "padded wrongly" in line] == ["192.0.2.1"]


@each_case("octets", ["hell", "hello1234567"])
def test_a_reply_that_ends_within_its_data_or_long_behind_it_fails_the_call(octets: str) -> None:
    with pytest.raises(DecodeError):
        local_tcp.run(answered_by(lambda xid: record(xid + REPLY[8:28] + b"\0\0\0\5" + octets.encode())))


@without_network
async def test_a_caller_that_is_idle_at_a_deadline_keeps_no_memory_for_replies() -> None:
    async with serving() as rig, await rig.caller() as caller:
        reply = await caller.call(ECHO, bytes(100_000), timeout_s=20)
        assert caller._messages._octets >= 100_000
        await time_passes(40)
        assert caller._messages._octets == 0
        assert reply == bytes(100_000)


@each_case("garbage", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0" * 2000])
def test_garbage_for_a_reply_ends_the_connection(garbage: bytes) -> None:
    with pytest.raises(TransportClosed, match="broke the record protocol"):
        local_tcp.run(answered_by(lambda _: garbage))


@without_network
async def test_calls_that_are_too_long_are_refused_while_they_come_and_cost_no_memory() -> None:
    async with serving(record_octets_max=1 << 16) as rig:
        with await rig.raw() as sock:
            size = 8 << 20
            await send(sock, record(REQUEST[4:12], size))
            refused = await exactly(sock, 28)
            assert refused == record(bytes.fromhex("0000004d 00000001 00000000 00000000 00000000 00000004"))
            await send(sock, bytes(size - 8) + REQUEST)
            assert await exactly(sock, len(REPLY)) == REPLY
            assert rig.server.arguments.lent_octets == 0
        # One that is far too long ends the connection.
        with await rig.raw() as sock:
            await send(sock, record(REQUEST[4:12], 1 << 30))
            assert (await received_until_closed(sock))[4:8] == REQUEST[4:8]


async def begin(sock: LocalSocket, octets: int) -> asyncio.Task[None]:
    """Sends so many octets of a call, as far as the server reads them."""
    return asyncio.create_task(send(sock, BULK[:octets]))


def held(rig: Rig) -> list[int]:
    """The octets of calls that count against each connection."""
    memories = [connection.calls_taken.memory for connection in rig.server.connections]
    return [each.octets + each.expected for each in memories]


@pytest.mark.thorough
@without_network
async def test_large_calls_of_one_connection_are_left_unread_beyond_its_bound_and_all_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNANSWERED_CALL_OCTETS_MAX", 3 * MIB)

    async with serving() as rig:
        with await rig.raw() as sock:
            sending = asyncio.create_task(send(sock, BULK * 30))
            await until(lambda: rig.service.waiting == 4)
            await time_passes(1)
            assert rig.service.waiting == 4
            assert not sending.done()
            assert rig.server.arguments.lent_octets <= 5 * MIB
            async with await rig.caller() as other:
                call = asyncio.create_task(other.call(STORE, bytes(MIB)))
                await until(lambda: rig.service.waiting == 5)
                rig.service.gate.set()
                assert await call == MIB
            answers = await exactly(sock, 30 * 32)
            await sending
            assert answers == answers[:32] * 30


@without_network
async def test_when_memory_is_short_who_does_not_finish_its_call_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({"arguments": BufferPool(octets_max=2 * MIB)}) as rig:
        rig.service.gate.set()
        socks = [await rig.raw(f"127.0.0.{number}") for number in (2, 3)]
        for sock in socks:
            await begin(sock, 50_000)
        await until(lambda: len([octets for octets in held(rig) if octets]) == 2)
        async with await rig.caller() as other:
            assert await other.call(STORE, bytes(MIB)) == MIB
            assert tcp_calls_taken.RPC_STALLED_S < now_s() < tcp_calls_taken.RPC_STALLED_S + 2
            assert await other.call(STORE, bytes(MIB)) == MIB
        for sock in socks:
            sock.close()
    assert "is cut off: it does not finish its call" in caplog.text


@without_network
async def test_a_call_in_fragments_is_counted_while_the_next_one_is_awaited() -> None:
    async with serving() as rig:
        rig.service.gate.set()
        message = BULK[4:]
        with await rig.raw() as sock:
            await send(sock, (600_000).to_bytes(4, "big") + message[:600_000])
            await until(lambda: held(rig) == [600_000])
            assert rig.server.arguments.lent_octets > 500_000
            rest = message[600_000:]
            await send(sock, (LAST_FRAGMENT | len(rest)).to_bytes(4, "big") + rest)
            assert (await exactly(sock, 32))[-4:] == (MIB - 1000).to_bytes(4, "big")
            await until(lambda: held(rig) == [0])


@without_network
async def test_a_client_dawdles_within_one_call_alone_and_only_while_the_server_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNANSWERED_CALL_OCTETS_MAX", 3 * MIB)

    async with serving() as rig:
        with await rig.raw() as sock:
            await send(sock, BULK[:50_000])
            await until(lambda: any(held(rig)))
            (connection,) = rig.server.connections
            taken = connection.calls_taken
            for number in range(4):
                await time_passes(tcp_calls_taken.RPC_STALLED_S - 2)
                # What one call lacks and the head of the next one are read at once.
                await send(sock, BULK[50_000:] + BULK[:50_000])
                while rig.service.waiting <= number:
                    await time_passes(0)
                assert taken.memory.expected
                assert not taken.dawdles
            await until(lambda: connection._stream.paused)
            await time_passes(tcp_calls_taken.RPC_STALLED_S + 1)
            rig.service.gate.set()
            await until(lambda: not connection._stream.paused)
            assert not taken.dawdles
            await time_passes(tcp_calls_taken.RPC_STALLED_S + 1)
            assert taken.dawdles
