"""The exports of a server by version 4 over RDMA: port, chunks, credits, and refusals by the transport (RFC 8267)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rpcrdma
from conversation import Conversation
from heard_fabric import HeardFabric
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs.client.mount_client import list_exports
from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import FileKind
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.client.pseudo_root import find_exports
from rpcrdma.nfs.v4.client.session import session_with
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.server.service import HANDLERS
from rpcrdma.transport import ChunkRefused, TransportConfig
from support.loops import in_virtual_time
from support.waiting import time_passes

NAMES = [f"/{above}/{inner}" for above in "abc" for inner in ("one", "two")]
SEGMENTS_MAX = 16
SMALL = TransportConfig(inline_send_octets=1024, inline_receive_octets=1024, credits_granted=2)


class Trees:
    """Several exports in memory; implements `Exports` as far as their names are looked for."""

    def __init__(self) -> None:
        self.trees = [MemoryTree(lambda: 0.0, export=ExportTerms(name=name)) for name in NAMES]
        for number, tree in enumerate(self.trees):
            for _ in range(number):
                # A filehandle of its own.
                tree.root = tree.object(FileKind.DIRECTORY)

    def waits_for(self, _handle: bytes) -> None:
        """No call waits for a disk."""


@asynccontextmanager
async def serving(fabric: HeardFabric) -> AsyncIterator[Conversation]:
    """A server of version 4 alone, which listens at the port that a URL without one stands for."""
    server = Conversation(files=PseudoRoot(Trees(), 0))  # type: ignore[arg-type]
    options = rpcrdma.ServeOptions(
        rdma=rpcrdma.RdmaServerConfig(provider=fabric.node("server"), transport=SMALL), drain_s=0
    )
    async with rpcrdma.serve([server.service], ["rdma://server"], options=options) as served:
        assert served.listening == ["rdma://server:20049"]
        yield server


def options(fabric: HeardFabric, **more: Any) -> rpcrdma.ConnectOptions:
    return rpcrdma.ConnectOptions(provider=fabric.node("client"), rpcrdma_version=1, transport=SMALL, **more)


@pytest.mark.req("NF-4", "NF-5", "NF-11")
@in_virtual_time
async def test_exports_are_found_at_the_port_of_the_url_alone_with_few_chunks_in_few_segments() -> None:
    """In virtual time there is no TCP: nothing but the RDMA connection can be asked for a port."""
    fabric = HeardFabric()
    async with serving(fabric):
        found = await list_exports(parse_url("rdma://server"), options(fabric))
    assert [each.name for each in found] == NAMES
    assert fabric.connected == [("client", "server")]
    calls = [each["header"] for each in fabric.heard("client", "server")]
    assert any(call["reply"] for call in calls), "their replies take chunks"
    for call in calls:
        positions: dict[int, int] = {}
        for segment in call["reads"]:
            positions[segment["position"]] = positions.get(segment["position"], 0) + 1
        assert len(positions) - (0 in positions) <= 1
        assert len(call["writes"]) <= 1
        chunks = [*positions.values(), *map(len, call["writes"]), len(call["reply"] or ())]
        assert max(chunks) <= SEGMENTS_MAX


@pytest.mark.req("NF-16")
@in_virtual_time
async def test_a_credit_stays_free_for_a_sign_of_life_while_a_call_of_version_4_waits() -> None:
    """The server grants two, and the listing of one of several directories is under way when the client asks."""
    fabric = HeardFabric()
    listed: list[float] = []

    def slow(compound: Any, args: Any) -> Any:
        if compound.node.handle != compound.server.exports.root.handle and not listed:
            fabric.delay_s = 70.0
            listed.append(fabric.loop.now_s)
        return HANDLERS[nfs_opnum4.OP_READDIR](compound, args)

    async with serving(fabric) as server:
        server.service.handlers = {**HANDLERS, nfs_opnum4.OP_READDIR: slow}
        given = options(fabric, keepalive_s=30.0)
        async with (
            rpcrdma.connect("rdma://server", nfs4.NFS_V4, options=given) as connection,
            session_with(connection, 100.0) as session,
        ):
            assert connection.negotiated is not None
            assert connection.negotiated.credits_granted == 2
            assert [each.path.decode() for each in await find_exports(session)] == NAMES
    after_s = [round(each["at_s"] - listed[0]) for each in fabric.heard("client", "server") if each["at_s"] > listed[0]]
    assert after_s[:2] == [60, 70], "the sign of life, and the next call of version 4"


@pytest.mark.req("NF-17")
@in_virtual_time
async def test_a_call_of_version_4_that_the_transport_refuses_ends_and_is_not_repeated() -> None:
    """The reply does not fit the chunk that the call offers; whether the call has run does not follow from that."""
    fabric, ran = HeardFabric(), 0

    def long(_compound: Any, _args: Any) -> bytes:
        nonlocal ran
        ran += 1
        return bytes(50_000)

    async with (
        serving(fabric) as server,
        rpcrdma.connect("rdma://server", nfs4.NFS_V4, options=options(fabric)) as connection,
    ):
        server.service.handlers = {**HANDLERS, nfs_opnum4.OP_READDIR: long}
        async with session_with(connection, 10.0) as session:
            with pytest.raises(ChunkRefused):
                await find_exports(session)
            await time_passes(1000)
            assert ran == 1
            server.service.handlers = HANDLERS
            assert len(await find_exports(session)) == len(NAMES), "the session has counted the call"
        assert len(server.state.sessions) == 0
    xids = [each["header"]["xid"] for each in fabric.heard("client", "server")]
    assert len(xids) == len(set(xids))
