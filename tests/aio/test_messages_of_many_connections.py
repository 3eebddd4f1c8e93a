"""The memory of messages of version 2 at a server over all connections, on real sockets. A client is an address."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from client_calls import MIB, Scenes
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.limits import CONTINUED_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import TransportConfig
from support import raw_messages as raw
from support.raw_calls import HANDLE, file_handle, rpc, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

FH = v3.nfs_fh3(HANDLE)
NO_WCC = v3.wcc_data(v3.pre_op_attr(False, None), v3.post_op_attr(False, None))
POOL_OCTETS = 16 * MIB
PIECE_OCTETS = 32_000
PIECES = 34
"""Almost as much as is taken of one message."""
ALLOWED = 1000
"""Messages that the server may send at once: more than it ever does."""
GREEDY = "127.0.1.1"
IN_MESSAGES = ConnectOptions(transport=TransportConfig(in_messages_octets_max=CONTINUED_OCTETS_MAX), reconnect=False)
"""Of a client that moves nothing by RDMA."""


def call(xid: int, payload: bytes) -> bytes:
    return raw.message(xid, payload, give=ALLOWED)


async def introduced(it: Any) -> RawSocketPeer:
    """A connection on which the server has given credits."""
    peer: RawSocketPeer = await it.connected(source=GREEDY)
    await peer.send_segments(send(raw.properties(give=ALLOWED)))
    await peer.segment()
    return peer


def write(offset: int, data: bytes) -> v3.WRITE3args:
    return v3.WRITE3args(FH, offset, len(data), v3.stable_how.UNSTABLE, data)


def kept_of_pieces(it: Any) -> int:
    """Octets of unfinished messages, wherever they are counted."""
    dialects = [connection._endpoint._session.dialect for connection in it.server._rdma.connections]
    return sum(len(dialect._assembly._octets) for dialect in dialects)


async def test_messages_that_never_end_hold_a_share_and_leave_others_theirs(scene: Scenes) -> None:
    connections = 24
    async with scene() as it:
        arguments = it.pools[1]
        arguments.octets_max = POOL_OCTETS
        peers = [await introduced(it) for _ in range(connections)]
        before = it.server.statistics().counters.receives
        piece = raw.message(7, bytes(PIECE_OCTETS), raw.MORE, give=ALLOWED)
        for peer in peers:
            await peer.send_segments(*(send(piece, place) for place in range(2, 2 + PIECES)))
        await until(lambda: it.server.statistics().counters.receives == before + connections * PIECES)
        # At most a quarter of the memory that others leave, and a first piece each while half is free.
        assert MIB < arguments.lent_octets <= POOL_OCTETS // 4 + connections * PIECE_OCTETS
        kept = kept_of_pieces(it)
        assert arguments.lent_octets <= kept <= arguments.lent_octets + connections * RPC_UNCOUNTED_CALL_OCTETS
        assert it.server.statistics().counters.errors_sent >= connections // 2
        async with connect(it.server.listening[0], options=IN_MESSAGES) as other:
            for _ in range(4):
                reply = await other.call(v3.WRITE, write(0, bytes(MIB)))
                assert isinstance(reply.value, v3.WRITE3resok)
            assert other.statistics is not None
            assert other.statistics.messages_continued == 4
        assert it.files.written == [bytes(MIB)] * 4

        # Their memory is freed with them.
        for peer in peers:
            peer.close()
        await it.alone()
        assert it.lent_octets == kept_of_pieces(it) == 0


class SlowFiles(v3.NFS_V3_Service):
    """A WRITE anywhere but at the beginning waits for `gate`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = 0

    async def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        if args.offset:
            self.waiting += 1
            await self.gate.wait()
        result = v3.WRITE3resok(NO_WCC, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


async def test_unanswered_calls_in_long_messages_hold_a_share_and_leave_others_theirs(scene: Scenes) -> None:
    connections, calls = 6, 100
    size = 30_000
    slow = SlowFiles()
    async with scene(slow) as it:
        arguments = it.pools[1]
        arguments.octets_max = POOL_OCTETS
        peers = [await introduced(it) for _ in range(connections)]
        errors_before = it.server.statistics().counters.errors_sent
        args = file_handle() + struct.pack(">QIII", 1, size, 0, size) + bytes(size)
        for number, peer in enumerate(peers):
            messages = [call(xid, rpc(7, args, xid)) for xid in range(number * 1000, number * 1000 + calls)]
            await peer.send_segments(*(send(octets, place) for place, octets in enumerate(messages, 2)))

        def refused() -> int:
            return int(it.server.statistics().counters.errors_sent) - errors_before

        await until(lambda: slow.waiting + refused() == connections * calls)
        buffer_octets = TransportConfig().offered_receive_octets
        assert POOL_OCTETS // 8 < arguments.lent_octets <= POOL_OCTETS // 4 + connections * buffer_octets
        uncounted = connections * RPC_UNCOUNTED_CALL_OCTETS
        # A message that came in parts of memory holds the buffer in which they were joined.
        held = len(messages[0])
        assert arguments.lent_octets <= slow.waiting * held <= arguments.lent_octets + uncounted
        async with connect(it.server.listening[0], options=IN_MESSAGES) as other:
            reply = await other.call(v3.WRITE, write(0, bytes(MIB)))
            assert isinstance(reply.value, v3.WRITE3resok)
        slow.gate.set()
        await until(lambda: not it.lent_octets)
