"""Peers that lie, stall or vanish: they harm only themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.errors import CallTimeout, MessageTooLong, TransportClosed
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.record import LAST_FRAGMENT
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

pytestmark = pytest.mark.thorough


def encode(enc: Encoder, value: Any) -> None:
    enc.bulk(value, 1 << 20, "data")


def decode(dec: Decoder) -> memoryview:
    return dec.bulk(1 << 20, "data")


ECHO = Procedure(0x20000003, 1, 1, "ECHO", "echo", encode, decode, encode, decode)


class Echo(Service):
    PROGRAM = Program(0x20000003, 1, "ECHO_V1", {1: ECHO})

    def echo(self, args: memoryview, context: Any) -> memoryview:
        return args


def record(message: bytes) -> bytes:
    return (LAST_FRAGMENT | len(message)).to_bytes(4, "big") + message


REQUEST = record(b"".join(CallEncoder().encode(77, ECHO, b"hello").gather()))
REPLY = record(bytes.fromhex("0000004d 00000001 00000000 00000000 00000000 00000000 00000005 68656c6c6f000000"))


@asynccontextmanager
async def serving(**config: Any) -> AsyncIterator[TcpServer]:
    async with TcpServer(Dispatcher([Echo()]), config=TcpServerConfig(**config)) as server:
        await server.listen()
        async with await TcpConnection.connect("127.0.0.1", server.port) as honest:
            yield server
            assert await honest.call(ECHO, b"still here") == b"still here"


async def connected(server: TcpServer, *, receive_octets: int | None = None) -> socket.socket:
    sock = socket.socket()
    if receive_octets is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_octets)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
    return sock


async def received_until_closed(sock: socket.socket) -> bytes:
    data = b""
    try:
        while octets := await asyncio.get_running_loop().sock_recv(sock, 65536):
            data += octets
    except ConnectionResetError:
        pass
    return data


async def exactly(sock: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        octets = await asyncio.get_running_loop().sock_recv(sock, length - len(data))
        assert octets
        data += octets
    return bytes(data)


def test_a_connection_cut_at_every_octet_of_a_request() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            for end in range(len(REQUEST)):
                with await connected(server) as sock:
                    await loop.sock_sendall(sock, REQUEST[:end])
                    sock.shutdown(socket.SHUT_WR)
                    assert await received_until_closed(sock) == b""

    asyncio.run(main())


def test_a_connection_reset_at_every_octet_of_a_request() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            for end in range(len(REQUEST) + 1):
                with await connected(server) as sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    await loop.sock_sendall(sock, REQUEST[:end])

    asyncio.run(main())


def test_a_request_that_arrives_octet_by_octet_is_answered() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            with await connected(server) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for octet in REQUEST:
                    await loop.sock_sendall(sock, bytes([octet]))
                    await asyncio.sleep(0)
                assert await exactly(sock, len(REPLY)) == REPLY

    asyncio.run(main())


def test_a_request_in_one_octet_fragments_is_answered() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            with await connected(server) as sock:
                body = REQUEST[4:]
                parts = b"".join(b"\0\0\0\1" + body[at : at + 1] for at in range(len(body) - 1))
                await loop.sock_sendall(sock, parts + b"\x80\0\0\1" + body[-1:])
                assert await exactly(sock, len(REPLY)) == REPLY

    asyncio.run(main())


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
def test_what_is_no_record_ends_its_connection_after_the_answers_before_it(garbage: bytes) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            with await connected(server) as sock:
                await loop.sock_sendall(sock, REQUEST + garbage)
                assert await received_until_closed(sock) == REPLY

    asyncio.run(main())


@pytest.mark.req("OR-6")
def test_records_that_are_no_calls_are_dropped_and_the_connection_goes_on() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            with await connected(server) as sock:
                rubbish = [b"x", b"\xff" * 100, REQUEST[4:43], REPLY[4:]]
                await loop.sock_sendall(sock, b"".join(map(record, rubbish)) + REQUEST)
                assert await exactly(sock, len(REPLY)) == REPLY

    asyncio.run(main())


def test_a_header_that_promises_much_makes_the_server_hold_little() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(record_octets_max=1 << 30) as server:
            with await connected(server) as sock:
                await loop.sock_sendall(sock, REQUEST + (LAST_FRAGMENT | 1 << 30).to_bytes(4, "big") + b"some")
                assert await exactly(sock, len(REPLY)) == REPLY
                held = [len(connection._stream._receiver._message) for connection in server.connections]
                assert max(held) <= 2 << 20

    asyncio.run(main())


def test_a_request_that_never_ends_is_given_up_however_it_drips() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with TcpServer(Dispatcher([Echo()]), config=TcpServerConfig(idle_s=0.05)) as server:
            await server.listen()
            with await connected(server) as sock:
                ended = asyncio.create_task(received_until_closed(sock))
                await loop.sock_sendall(sock, (LAST_FRAGMENT | 100_000).to_bytes(4, "big"))
                dripped = 0
                while not ended.done():
                    try:
                        await loop.sock_sendall(sock, b"x")
                    except OSError:
                        break
                    dripped += 1
                    await asyncio.sleep(0.001)
                assert dripped < 10_000
                assert await ended == b""

    asyncio.run(main())


def test_a_flood_of_refused_calls_whose_answers_nobody_reads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNSENT_REPLY_OCTETS_MAX", 1 << 16)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            for listener in server._listener._sockets:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            with await connected(server, receive_octets=4096) as sock:
                other_version = bytearray(REQUEST[4:44])
                other_version[11] = 9
                count = 1 << 14
                flood = asyncio.create_task(loop.sock_sendall(sock, record(bytes(other_version)) * count))
                held = 0
                while held <= 1 << 16 and not flood.done():
                    await asyncio.sleep(0)
                    held = max(connection._stream.unsent_octets for connection in server.connections)
                assert held < (1 << 16) + (1 << 15)
                answered = await exactly(sock, 28 * count)
                await flood
                assert answered[-28:] == record(bytes.fromhex("0000004d 00000001 00000001 00000000 00000002 00000002"))

    asyncio.run(main())


Answer = Callable[[bytes], bytes]


async def answered_by(answer: Answer, **options: Any) -> Any:
    """A call to a peer that reads one request, sends the result of `answer` for its XID, and closes."""
    loop = asyncio.get_running_loop()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        async with await TcpConnection.connect(*listener.getsockname(), **options.pop("connect", {})) as caller:
            call = asyncio.create_task(caller.call(ECHO, b"hello", **options))
            sock, _ = await loop.sock_accept(listener)
            with sock:
                request = await exactly(sock, len(REQUEST))
                await loop.sock_sendall(sock, answer(request[4:8]))
                if "timeout_s" in options:
                    return await call
            return await call


def reply_to(xid: bytes) -> bytes:
    return REPLY[:4] + xid + REPLY[8:]


@pytest.mark.req("OR-6")
def test_the_caller_passes_over_replies_that_are_not_its_own() -> None:
    def answer(xid: bytes) -> bytes:
        other = bytes(octet ^ 0xFF for octet in xid)
        return reply_to(other) + record(b"abc") + reply_to(xid) + reply_to(xid)

    assert asyncio.run(answered_by(answer)) == b"hello"


def cut_reply(end: int) -> Answer:
    return lambda xid: reply_to(xid)[:end]


def test_a_reply_cut_at_every_octet_ends_the_call() -> None:
    async def main() -> None:
        for end in range(len(REPLY)):
            with pytest.raises(TransportClosed, match="peer closed the connection"):
                await answered_by(cut_reply(end))

    asyncio.run(main())


@each_case("garbage", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0" * 2000])
def test_garbage_for_a_reply_ends_the_connection(garbage: bytes) -> None:
    with pytest.raises(TransportClosed, match="broke the record protocol"):
        asyncio.run(answered_by(lambda _: garbage))


def test_a_reply_over_the_callers_bound_ends_that_call_alone() -> None:
    def answer(xid: bytes) -> bytes:
        return record(xid + b"\0\0\0\1" + bytes(100_000))

    with pytest.raises(MessageTooLong, match=r"limit of 100: ConnectOptions\(record_octets_max") as raised:
        asyncio.run(answered_by(answer, connect={"record_octets_max": 100}))
    assert raised.value.received


@each_case("kind", [0, 2, 0xFFFFFFFF])
def test_something_long_that_is_no_reply_ends_no_call(kind: int) -> None:
    def answer(xid: bytes) -> bytes:
        return record(xid + kind.to_bytes(4, "big") + bytes(100_000)) + reply_to(xid)

    expected = TransportClosed if kind else None
    calling = answered_by(answer, connect={"record_octets_max": 100})
    if expected is None:
        assert asyncio.run(calling) == b"hello"
    else:
        with pytest.raises(expected, match="broke the record protocol"):
            asyncio.run(calling)


def test_calls_that_are_too_long_are_refused_while_they_come_and_cost_no_memory() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(record_octets_max=1 << 16) as server:
            with await connected(server) as sock:
                size = 8 << 20
                await loop.sock_sendall(sock, (LAST_FRAGMENT | size).to_bytes(4, "big") + REQUEST[4:12])
                refused = await exactly(sock, 28)
                assert refused == record(bytes.fromhex("0000004d 00000001 00000000 00000000 00000000 00000004"))
                await loop.sock_sendall(sock, bytes(size - 8) + REQUEST)
                assert await exactly(sock, len(REPLY)) == REPLY
                assert server.arguments.lent_octets == 0

    asyncio.run(main())


def test_a_call_that_is_far_too_long_is_refused_before_its_connection_ends() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            with await connected(server) as sock:
                await loop.sock_sendall(sock, (LAST_FRAGMENT | 1 << 30).to_bytes(4, "big") + REQUEST[4:12])
                assert (await received_until_closed(sock))[4:8] == REQUEST[4:8]

    asyncio.run(main())


def test_a_reply_with_another_xid_alone_times_out() -> None:
    with pytest.raises(CallTimeout):
        asyncio.run(answered_by(lambda xid: reply_to(bytes(octet ^ 1 for octet in xid)), timeout_s=0.02))
