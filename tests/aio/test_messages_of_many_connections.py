"""The memory of messages of version 2 at a server over all connections, on real sockets. A client is an address."""

from __future__ import annotations

from typing import Any

import pytest

from client_calls import MIB, Scenes
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.limits import CONTINUED_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.nfs import v3
from rpcrdma.transport import TransportConfig
from support import raw_messages as raw
from support.raw_calls import HANDLE, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

FH = v3.nfs_fh3(HANDLE)
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
