"""A server calls its client back with the credential that its service was told to use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import CallContext, ReverseCaller, Service
from rpcrdma.transport import ReplyBound
from support.programs import opaque_of, procedure

FRONT, BACK = 0x20000021, 0x20000022
CALLER = AuthSys(stamp=7, machine="five5", uid=4321, gid=1234, gids=(1, 2))


DATA = opaque_of(1 << 16)
JOIN = procedure(FRONT, 1, "join", DATA, DATA)
TELL = procedure(BACK, 1, "tell", DATA, DATA, bound=ReplyBound(16))


class Front(Service):
    PROGRAM = Program(FRONT, 1, "FRONT_V1", {1: JOIN})
    client: ReverseCaller

    def join(self, args: bytes, context: CallContext) -> bytes:
        self.client = context.client
        self.client.ready()
        return args


class Back(Service):
    PROGRAM = Program(BACK, 1, "BACK_V1", {1: TELL})

    def __init__(self) -> None:
        self.callers: list[Credential] = []

    def tell(self, args: bytes, context: CallContext) -> bytes:
        self.callers.append(context.credential)
        return args[:4]


@asynccontextmanager
async def joined(scheme: str) -> AsyncIterator[tuple[Front, Back, Connection]]:
    front, back = Front(), Back()
    async with serve([front], [f"{scheme}://127.0.0.1:0"]) as server:
        options = ConnectOptions(services=[back], reconnect=False)
        async with connect(server.listening[0], Front.PROGRAM, options=options) as connection:
            await connection.call(JOIN, b"here")
            yield front, back, connection


async def test_calls_carry_the_credential_given_last(scheme: str) -> None:
    async with joined(scheme) as (front, back, _):
        await front.client.call(TELL, b"none")
        front.client.ready(CALLER)
        await front.client.call(TELL, b"sys")
        front.client.ready()
        await front.client.call(TELL, b"still")
        front.client.ready(AuthNone())
        await front.client.call(TELL, b"none")
        assert back.callers == [AuthNone(), CALLER, CALLER, AuthNone()]


async def test_a_call_may_have_a_credential_of_its_own(scheme: str) -> None:
    """Sessions that share a connection have each theirs (RFC 8881 section 18.36.3)."""
    other = AuthSys(uid=77, gid=77)
    async with joined(scheme) as (front, back, _):
        front.client.ready(CALLER)
        calls = [front.client.call(TELL, b"own", credential=each) for each in (other, AuthNone(), None)]
        await asyncio.gather(*calls)
        await front.client.call(TELL, b"sys")
        assert back.callers == [other, AuthNone(), CALLER, CALLER]
        with pytest.raises(LocalProtocolError):
            await front.client.call(TELL, b"no", credential=AuthSys(uid=1, gid=1, gids=tuple(range(17))))


async def test_a_credential_that_cannot_be_encoded_changes_nothing(scheme: str) -> None:
    async with joined(scheme) as (front, back, _):
        front.client.ready(CALLER)
        with pytest.raises(LocalProtocolError):
            front.client.ready(AuthSys(uid=1, gid=1, gids=tuple(range(17))))
        await front.client.call(TELL, b"sys")
        assert back.callers == [CALLER]
