"""How RDMA connections begin and end on sockets: time-outs, pauses, an orderly close."""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct

import pytest

from clock_ahead import set_clock_ahead
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.aio.server.serve import Server, serve
from rpcrdma.errors import TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.nfs import v3
from rpcrdma.transport import TransportConfig
from rpcrdma.transport.connection_states import State
from support import raw_calls, raw_replies
from support.late_accesses import Files
from support.raw_iwarp import startup_frame
from support.raw_socket import RawSocketPeer
from support.waiting import until

# The connections that the tests make by themselves begin in the newest version.
pytestmark = [pytest.mark.usefixtures("each_version"), pytest.mark.versions("1", "2")]


@pytest.mark.thorough
async def test_a_connection_on_which_nothing_is_said_yet_is_not_half_open() -> None:
    """The start-up is over when the Reply is out; the first call may come much later."""
    options = ConnectOptions(reconnect=False, iwarp=IwarpConfig(first_send_pause_s=0))
    async with (
        serve([Files()], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=options) as client,
    ):
        set_clock_ahead(12)
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.statistics().rdma.connections == 1
        await client.call(v3.NULL, None)


@pytest.mark.thorough
async def test_a_peer_that_owes_the_ready_to_receive_frame_is_told_from_one_that_never_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with serve([Files()], ["rdma://127.0.0.1:0"]) as server:
        host, port = server.listening[0].removeprefix("rdma://").split(":")
        peer = await RawSocketPeer.connected(host, int(port))
        # RFC 6581 section 9.1: the peer-to-peer model, with a Send of no octets as RTR frame.
        await peer.send(startup_frame("Req", 0x50, 2, struct.pack(">HH", 0xC020, 32)))
        assert await peer.startup_frame()
        set_clock_ahead(10)
        assert await peer.ended() == b""
        peer.close()
    assert "no ready-to-receive frame from the peer within 10 s" in caplog.text


PAUSE_S = 3600.0


async def pausing(server: Server) -> RdmaConnection:
    """A client that has just got the Reply of the server."""
    host, port = server.listening[0].removeprefix("rdma://").split(":")
    client = RdmaConnection(
        await SoftwareRnic(IwarpConfig(first_send_pause_s=PAUSE_S, startup_timeout_s=2 * PAUSE_S)).connect(
            host, int(port)
        ),
        transport=TransportConfig(),
        results=BufferPool(),
        arguments=BufferPool(),
    )
    await until(lambda: is_pausing(client))
    return client


def is_pausing(client: RdmaConnection) -> bool:
    return client._endpoint._session.state is State.SETTLING


@pytest.mark.thorough
async def test_a_client_lets_some_time_pass_between_the_reply_and_its_first_message() -> None:
    async with serve([Files()], ["rdma://127.0.0.1:0"]) as server:
        client = await pausing(server)
        connected = asyncio.ensure_future(client.wait_established())
        set_clock_ahead(PAUSE_S - 100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not connected.done()
        set_clock_ahead(100)
        await connected
        await client.call(v3.NULL, None)
        await client.close()


@pytest.mark.thorough
async def test_a_connection_that_ends_during_the_pause_was_never_made() -> None:
    async with serve([Files()], ["rdma://127.0.0.1:0"]) as server:
        client = await pausing(server)
        (connection,) = server.connections
        connection.abort("the test ends it")
        with pytest.raises(TransportClosed, match="the peer closed the connection"):
            await client.wait_established()
        await client.wait_closed()
        assert not is_pausing(client)


@pytest.mark.thorough
async def test_a_server_that_overlooks_the_first_message_is_nudged_until_it_answers() -> None:
    """As Linux siw does: it looks when something more comes. An RDMA Write of nothing may be sent to anyone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        quick = IwarpConfig(first_send_pause_s=0, nudge_after_s=0.001)
        options = ConnectOptions(rpcrdma_version=1, iwarp=quick)
        connecting = asyncio.ensure_future(connect(f"rdma://127.0.0.1:{port}", options=options)._open())
        peer = RawSocketPeer((await asyncio.get_running_loop().sock_accept(listener))[0])
        await peer.accept(raw_calls.BOTH_PRIVATE)
        client = await connecting
        call = asyncio.ensure_future(client.call(v3.NULL, None))
        heard = [await peer.segment() for _ in range(3)]
        assert [segment.opcode for segment in heard] == [raw_calls.SEND, raw_calls.WRITE, raw_calls.WRITE]
        assert [segment.payload for segment in heard[1:]] == [b"", b""]
        (xid,) = struct.unpack_from(">I", heard[0].payload)
        message = raw_replies.header(xid) + raw_replies.rpc_reply(xid)
        await peer.send_segments(raw_replies.send(message))
        await call
        # No more of it from here on.
        second = asyncio.ensure_future(client.call(v3.NULL, None))
        while (segment := await peer.segment()).opcode == raw_calls.WRITE:
            pass
        assert segment.opcode == raw_calls.SEND
        second.cancel()
        peer.close()
        await client.close()


@pytest.mark.thorough
@pytest.mark.req("V1-78", "RD-17")
async def test_handles_come_from_the_operating_systems_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[int] = set()
    randbits = secrets.randbits

    def recorded(bits: int) -> int:
        value = randbits(bits)
        drawn.add(value & 0xFFFFFFFF)
        return value

    monkeypatch.setattr(secrets, "randbits", recorded)
    async with serve([Files()], ["rdma://127.0.0.1:0"]) as server, connect(server.listening[0]) as client:
        rdma = client._present
        assert isinstance(rdma, RdmaConnection)
        (connection,) = server.connections
        domains = rdma._driver.protection_domain, connection._driver.protection_domain
        # Each connection has a protection domain of its own.
        assert domains[0] is not domains[1]
        call = asyncio.ensure_future(client.call(v3.READ, v3.READ3args(v3.nfs_fh3(b"x"), 0, 1 << 20)))
        await asyncio.sleep(0)
        (handle,) = domains[0].regions
        assert handle in drawn
        await call
        assert domains[0].regions == {}
