"""The NFSv4.1 client that asks the kernel for delegations, against a server of our own that calls it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nfs41
import pytest
from nfs41 import nfs41_cb_argument as cb_argument
from nfs41 import nfs41_cb_operation as cb_op
from nfs41_callbacks import BACK_SLOTS
from nfs41_client import STATUS_DELAY, Nfs41Client, Nfs41Error, nfs41_session
from nfs41_stub_server import StubServer

import rpcrdma
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.transport import TransportConfig

pytestmark = pytest.mark.thorough

BAD_SESSION, BAD_SLOT, MISORDERED, POSITION, OUTSIDE = 10052, 10053, 10063, 10064, 10071
MINOR_MISMATCH, BAD_STATEID, ILLEGAL = 10021, 10025, 10044

both = pytest.mark.parametrize("scheme", ["rdma", "tcp"])


@asynccontextmanager
async def served(
    scheme: str = "rdma", names: int = 1, options: rpcrdma.ConnectOptions | None = None
) -> AsyncIterator[tuple[StubServer, str, Nfs41Client]]:
    stub = StubServer([b"file-%d" % index for index in range(names)])
    async with (
        rpcrdma.serve([stub], [f"{scheme}://127.0.0.1:0"]) as server,
        nfs41_session(server.listening[0], owner=b"holder", options=options) as client,
    ):
        yield stub, server.listening[0], client


def sequence(session: bytes, number: int = 1, slot: int = 0) -> cb_argument:
    args = nfs41.nfs41_cb_sequence_args(session, number, slot, slot, False, [])
    return cb_argument(cb_op.OP41_CB_SEQUENCE, args)


@both
@pytest.mark.req("BD-5", "BD-7")
def test_a_delegation_is_recalled_on_the_connection_that_the_client_made(scheme: str) -> None:
    async def main() -> None:
        async with served(scheme) as (stub, url, client), nfs41_session(url, owner=b"other") as other:
            opened = await client.open(b"file-0")
            await client.close(opened)
            assert opened.delegation is not None
            opening = asyncio.ensure_future(other.open(b"file-0", write=True, tries=1000, delay_s=0))
            recall = await client.callbacks.recalls.get()
            assert (recall.handle, recall.stateid) == (opened.handle, opened.delegation)
            assert recall.credential == AuthSys(machine="callback", uid=4321, gid=1234)
            assert not opening.done()
            await client.return_delegation(recall.handle, recall.stateid)
            await other.close(await opening)
            assert other.delays >= 1
            assert [answer.status for answer in stub.answers] == [0]
            assert stub.delegations == {}
            if scheme != "tcp":
                assert client.connection.statistics.reverse_calls == 1

    asyncio.run(main())


@both
def test_many_recalls_go_along_with_calls_of_the_client(scheme: str) -> None:
    async def main() -> None:
        names = 40
        async with served(scheme, names) as (stub, url, client), nfs41_session(url, owner=b"other") as other:
            for name in stub.names:
                await client.open(name)
            returning = asyncio.create_task(client.return_recalled(names))
            for name in stub.names:
                await asyncio.gather(other.open(name, write=True, tries=1000, delay_s=0), client.ping())
            await returning
            assert stub.delegations == {}

    asyncio.run(main())


def test_an_open_that_is_put_off_fails_after_its_last_try() -> None:
    async def main() -> None:
        async with served() as (_, url, client), nfs41_session(url, owner=b"other") as other:
            opened = await client.open(b"file-0")
            with pytest.raises(Nfs41Error, match="OP41_OPEN") as caught:
                await other.open(b"file-0", write=True, tries=3, delay_s=0)
            assert caught.value.status == STATUS_DELAY
            assert other.delays == 3
            assert opened.delegation is not None
            assert (await other.open(b"file-0")).refusal == 1

    asyncio.run(main())


def test_what_the_root_directory_holds_has_a_handle() -> None:
    async def main() -> None:
        async with served() as (_, _, client):
            assert await client.lookup(b"file-0") == b"file-0"
            with pytest.raises(Nfs41Error, match="OP41_LOOKUP failed with status 2"):
                await client.lookup(b"nothing")
            with pytest.raises(Nfs41Error, match="OP41_OPEN failed with status 2"):
                await client.open(b"nothing")

    asyncio.run(main())


def test_a_repeated_call_back_gets_the_reply_that_it_got_before() -> None:
    async def main() -> None:
        async with served() as (stub, _, client):
            opened = await client.open(b"file-0")
            assert opened.delegation is not None
            await stub.recall(opened.delegation)
            await stub.recall(opened.delegation, repeat=True)
            assert stub.answers[0] == stub.answers[1]
            assert client.callbacks.recalls.qsize() == client.callbacks.repeats == 1

    asyncio.run(main())


def test_an_unknown_delegation_is_no_reason_to_forget_the_session() -> None:
    async def main() -> None:
        async with served() as (stub, _, client):
            await stub.recall(nfs41.nfs41_stateid(1, b"never given."))
            assert stub.answers[0].status == BAD_STATEID
            opened = await client.open(b"file-0")
            assert opened.delegation is not None
            await stub.recall(opened.delegation)
            assert stub.answers[1].status == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "minor", "operations"),
    [
        pytest.param(MINOR_MISMATCH, 0, lambda session: [sequence(session)], id="minor version 0"),
        pytest.param(BAD_SESSION, 1, lambda session: [sequence(b"?" * 16)], id="another session"),
        pytest.param(BAD_SLOT, 1, lambda session: [sequence(session, slot=BACK_SLOTS)], id="no such slot"),
        pytest.param(MISORDERED, 1, lambda session: [sequence(session, 2)], id="a call is missing"),
        pytest.param(MISORDERED, 1, lambda session: [sequence(session, 0)], id="a repeat of no call"),
        pytest.param(POSITION, 1, lambda session: [sequence(session), sequence(session)], id="two sequences"),
        pytest.param(OUTSIDE, 1, lambda session: [cb_argument(cb_op.OP41_CB_ILLEGAL, None)], id="no sequence"),
        pytest.param(
            ILLEGAL, 1, lambda session: [sequence(session), cb_argument(cb_op.OP41_CB_ILLEGAL, None)], id="illegal"
        ),
        pytest.param(0, 1, lambda session: [sequence(session)], id="nothing but a sequence"),
        pytest.param(0, 1, lambda session: [], id="nothing"),
    ],
)
def test_calls_back_are_checked(status: int, minor: int, operations: Any) -> None:
    async def main() -> None:
        async with served() as (stub, _, client):
            identifier, session = next(iter(stub.sessions.items()))
            answer = await stub.call_back(session, operations(identifier), minor)
            assert answer.status == status
            assert answer.tag == b"tag"
            if answer.results:
                last = answer.results[-1].value
                assert (last if isinstance(last, int) else last.status) == status
            await stub.call_null(session)
            assert client.callbacks.nulls == 1

    asyncio.run(main())


def test_only_the_first_call_asks_for_room_for_a_long_reply() -> None:
    async def main() -> None:
        # Neither version 2, which continues a long reply, needs room for it, nor version 1 in larger messages.
        small = TransportConfig(inline_receive_octets=4096)
        async with served(options=rpcrdma.ConnectOptions(rpcrdma_version=1, transport=small)) as (_, _, client):
            await client.close(await client.open(b"file-0"))
            statistics = client.connection.statistics
            assert statistics is not None
            assert (statistics.calls, statistics.segments_reply) == (5, 1)

    asyncio.run(main())
