"""The calls that tests of a client make to a scripted server, and their view of the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.errors import RpcRdmaError, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.wire.buffers import Buffer
from support.raw_replies import HeardCall, header, rpc_reply, send
from support.raw_socket import RawSocketPeer

Scenes = Callable[..., Any]
MIB = 1 << 20
CONTENT = bytes(range(256)) * (MIB // 256)
FH = v3.nfs_fh3(data=b"handle")
WRITE = 0


def read_into(client: Connection, buffer: Any, *, timeout_s: float | None = None) -> asyncio.Task[Any]:
    args = v3.READ3args(FH, 0, len(buffer))
    return asyncio.create_task(client.call(v3.READ, args, into=buffer, timeout_s=timeout_s))


def write(client: Connection, data: Buffer) -> asyncio.Task[Any]:
    args = v3.WRITE3args(FH, 0, len(data), v3.stable_how.UNSTABLE, data)
    return asyncio.create_task(client.call(v3.WRITE, args))


def null(client: Connection, *, timeout_s: float | None = None) -> asyncio.Task[Any]:
    return asyncio.create_task(client.call(v3.NULL, None, timeout_s=timeout_s))


async def assert_works(client: Connection, peer: RawSocketPeer, number: int) -> None:
    """The connection goes on: the server's `number`th Send answers another call."""
    calling = null(client)
    call = HeardCall(await peer.segment())
    await peer.send_segments(send(header(call.xid) + rpc_reply(call.xid), number))
    await calling


async def fails(calling: asyncio.Task[Any], kind: type[Exception] = TransportClosed) -> Any:
    with pytest.raises(kind) as raised:
        await calling
    assert isinstance(raised.value, RpcRdmaError)
    return raised.value


async def null_over(url: str, **settings: Any) -> Connection:
    """A connection that has made one NULL call, and is closed again."""
    async with connect(url, v3.PROGRAM, options=ConnectOptions(**settings)) as connection:
        await connection.call(v3.NULL, None)
    return connection


def version_of(connection: Connection) -> str:
    assert connection.negotiated is not None
    return str(connection.negotiated.version)
