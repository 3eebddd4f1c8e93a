"""A peer that accepts connections and never answers is told apart from a server that was lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.sockets import connected_socket
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import ConnectFailed, NoAnswer, TransportClosed
from rpcrdma.nfs import v3


class _Nothing(v3.NFS_V3_Service):
    """Answers NULL, as every program does, and nothing else."""


@asynccontextmanager
async def taking_connections(then: bytes | None) -> AsyncIterator[str]:
    """Accepts connections, reads a little, sends `then` if not empty, and hangs up; yields its address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        if then is not None:
            writer.write(then)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def failure(url: str, options: ConnectOptions | None = None) -> TransportClosed:
    async with connect(url, v3.PROGRAM, options=options) as connection:
        with pytest.raises(TransportClosed) as raised:
            await connection.call(v3.NULL, None)
        return raised.value


@pytest.mark.thorough
async def test_what_hangs_up_each_time_is_no_server() -> None:
    async with taking_connections(None) as place:
        error = await failure(f"tcp://{place}")
        assert isinstance(error, NoAnswer)
        assert isinstance(error, ConnectFailed)
        assert not error.protocol_error
        assert str(error) == (
            f"tcp://{place} takes connections but answers no call (the peer closed the connection); check that "
            f"this is the scheme and port of the server: if it is its RDMA port, write rdma://{place}"
        )


@pytest.mark.thorough
async def test_what_answers_with_something_else_breaks_the_protocol() -> None:
    async with taking_connections(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place:
        error = await failure(f"tcp://{place}")
        assert isinstance(error, NoAnswer)
        assert error.protocol_error


async def test_a_server_that_has_answered_is_lost(scheme: str) -> None:
    """Its calls may have run: that must not sound as if nothing could have happened."""

    options = ConnectOptions(reconnect_for_s=0.01)
    server = await serve([_Nothing()], [f"{scheme}://127.0.0.1:0"], options=ServeOptions(drain_s=0))
    async with connect(server.listening[0], v3.PROGRAM, options=options) as connection:
        await connection.call(v3.NULL, None)
        await server.close()
        with pytest.raises(TransportClosed) as raised:
            await connection.call(v3.NULL, None)
        assert type(raised.value) is TransportClosed


@pytest.mark.thorough
async def test_a_process_that_ends_looks_names_up_without_its_threads() -> None:
    # As the interpreter leaves it when it ends, before the threads of event loops do.
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    asyncio.get_running_loop().set_default_executor(ended)
    with socket.create_server(("localhost", 0)) as server:
        (await connected_socket("localhost", server.getsockname()[1])).close()
