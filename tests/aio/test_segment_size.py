"""FPDUs follow the segment size of the TCP connection that they travel on (RFC 5044 section 5.1)."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rpcrdma import ConnectOptions, connect
from rpcrdma.aio.drivers.sockets import maximum_segment_octets
from rpcrdma.errors import TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthNone
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE
from support.raw_iwarp import read_request
from support.raw_replies import HeardCall
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

SIZES = [600, 1001, 1400, 3333, 9000]
"""What the listening side says to be the longest segment that it takes; options of TCP come off that."""


def listening(segment_octets: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment_octets)
    listener.setblocking(False)
    return listener


@pytest.mark.req("MPA-28")
@each_case("told", SIZES)
def test_the_segment_size_is_that_of_the_connection(told: int) -> None:
    with listening(told) as listener, socket.create_connection(listener.getsockname()) as sock:
        size = maximum_segment_octets(sock)
        # As TCP itself says; time stamps may take 12 octets of each segment.
        assert size == sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        assert size in {told, told - 12}


@pytest.mark.req("MPA-28", "MPA-26")
@each_case("told", SIZES)
async def test_the_frames_of_a_connection_fill_its_segments(told: int) -> None:
    with listening(told) as listener:
        quiet = ConnectOptions(
            rpcrdma_version=1, reconnect=False, credential=AuthNone(), iwarp=IwarpConfig(nudge_after_s=0)
        )
        host, port = listener.getsockname()
        connecting = asyncio.ensure_future(connect(f"rdma://{host}:{port}", options=quiet))
        sock, _ = await asyncio.get_running_loop().sock_accept(listener)
        peer = RawSocketPeer(sock)
        await peer.accept(BOTH_PRIVATE)
        client = await connecting
        data = bytes(50_000)
        args = v3.WRITE3args(v3.nfs_fh3(b"f"), 0, len(data), v3.stable_how.UNSTABLE, data)
        calling = asyncio.create_task(client.call(v3.WRITE, args))
        ((handle, octets, offset),) = HeardCall(await peer.segment()).reads
        await peer.send_segments(read_request(1, 5, 0, octets, handle, offset))
        segments = [await peer.segment()]
        while not segments[-1].last:
            segments.append(await peer.segment())
        # Length field, tagged header, payload and its padding, CRC.
        frames = [(2 + 14 + len(segment.payload) + 3 & ~3) + 4 for segment in segments]
        peer.close()
        with pytest.raises(TransportClosed):
            await calling
        await client.close()
        # All but the last one are as long as a segment, to the multiple of four.
        assert len(set(frames[:-1])) == 1
        assert frames[0] in {told & ~3, (told - 12) & ~3}
