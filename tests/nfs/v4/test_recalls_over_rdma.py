"""Recalls over RDMA: version 4 calls its clients as RFC 8167 says, in Short messages (RFC 8267 section 6.5.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

import rpcrdma
from conversation import Conversation
from heard_fabric import CALL, MSG, NOMSG, REPLY, HeardFabric
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundCall, CompoundReply
from rpcrdma.nfs.v4.nfs4 import nfs_cb_opnum4, nfs_opnum4, nfsstat4
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.loops import in_virtual_time
from support.waiting import time_passes

OP, CB, OK = nfs_opnum4, nfs_cb_opnum4, nfsstat4.NFS4_OK
INLINE = 1024
"""Octets of the smallest messages that peers of version 1 may have."""
SMALL = TransportConfig(inline_send_octets=INLINE, inline_receive_octets=INLINE)
FORE = nfs4.channel_attrs4(0, 1 << 20, 1 << 20, 4096, 8, 4, [])
BACK = nfs4.channel_attrs4(0, 4096, 4096, 0, 2, 4, [])
CALLER = AuthSys(stamp=9, machine="m" * 255, uid=4321, gid=1234, gids=tuple(range(16)))
"""The longest credential that a client can ask the server to call it with."""


class Client(nfs4.NFS_CB_Service):
    """A client of version 4.2 with one session, which notes what it is asked for."""

    def __init__(self) -> None:
        self.connection: Any = None
        self.session, self.number = b"", 0
        self.recalls: list[tuple[nfs4.CB_RECALL4args, Any]] = []

    def cb_compound(self, args: nfs4.CB_COMPOUND4args, context: Any) -> nfs4.CB_COMPOUND4res:
        sequence: Any
        recall: Any
        sequence, recall = (each.value for each in args.argarray)
        self.recalls.append((recall, context.credential))
        done = nfs4.CB_SEQUENCE4resok(sequence.csa_sessionid, sequence.csa_sequenceid, 0, 3, 3)
        results = [
            nfs4.nfs_cb_resop4(CB.OP_CB_SEQUENCE, nfs4.CB_SEQUENCE4res(OK, done)),
            nfs4.nfs_cb_resop4(CB.OP_CB_RECALL, OK),
        ]
        return nfs4.CB_COMPOUND4res(OK, b"", results)

    async def compound(self, *operations: tuple[int, Any]) -> CompoundReply:
        reply: CompoundReply = await self.connection.call(COMPOUND, CompoundCall.of(operations))
        return reply

    async def run(self, *operations: tuple[int, Any]) -> CompoundReply:
        self.number += 1
        sequence = nfs4.SEQUENCE4args(self.session, self.number, 0, 0, False)
        return await self.compound((OP.OP_SEQUENCE, sequence), (OP.OP_PUTROOTFH, None), *operations)

    async def start(self, owner: bytes, flags: int = nfs4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN) -> None:
        nobody = nfs4.state_protect4_a(nfs4.state_protect_how4.SP4_NONE, None)
        asked = nfs4.EXCHANGE_ID4args(nfs4.client_owner4(b"boot   1", owner), 0, nobody, [])
        (known,) = (await self.compound((OP.OP_EXCHANGE_ID, asked))).results
        parms = nfs4.authsys_parms(CALLER.stamp, CALLER.machine, CALLER.uid, CALLER.gid, list(CALLER.gids))
        security = [nfs4.callback_sec_parms4(1, parms)]
        wanted = nfs4.CREATE_SESSION4args(known.value.eir_clientid, 1, flags, FORE, BACK, 0x40000000, security)
        (made,) = (await self.compound((OP.OP_CREATE_SESSION, wanted))).results
        self.session = made.value.csr_sessionid
        await self.run((OP.OP_RECLAIM_COMPLETE, nfs4.RECLAIM_COMPLETE4args(False)))

    async def open(self, access: int) -> tuple[nfsstat4, Any]:
        """The status of an OPEN of the file, and its delegation."""
        how = nfs4.openflag4(nfs4.opentype4.OPEN4_NOCREATE, None)
        claim = nfs4.open_claim4(nfs4.open_claim_type4.CLAIM_NULL, b"file")
        reply = await self.run((OP.OP_OPEN, nfs4.OPEN4args(0, access, 0, nfs4.state_owner4(0, b"o"), how, claim)))
        return reply.status, reply.results[-1].value.delegation.value if reply.status is OK else None

    async def give_back(self, stateid: nfs4.stateid4) -> None:
        found = (OP.OP_LOOKUP, nfs4.LOOKUP4args(b"file"))
        reply = await self.run(found, (OP.OP_DELEGRETURN, nfs4.DELEGRETURN4args(stateid)))
        assert reply.status is OK


def server_of_one_file() -> Conversation:
    tree = MemoryTree(lambda: 0.0)
    tree.root.create(tree.grant, b"file", Create(CreateHow.GUARDED), Change())
    server = Conversation(files=PseudoRoot(tree, 0))  # type: ignore[arg-type]
    server.service._recalls = None  # the real ones
    return server


@asynccontextmanager
async def client_at(fabric: HeardFabric, node: str, transport: TransportConfig, **more: Any) -> AsyncIterator[Client]:
    client = Client()
    options = rpcrdma.ConnectOptions(
        provider=fabric.node(node), rpcrdma_version=1, services=[client], transport=transport
    )
    async with rpcrdma.connect("rdma://server", nfs4.NFS_V4, options=options) as connection:
        client.connection = connection
        await client.start(node.encode(), **more)
        yield client


def is_reply(message: dict[str, Any]) -> bool:
    """Whether a message of the server answers a call, in the message itself or in the Reply chunk of the call."""
    header = message["header"]
    if header["type"] == NOMSG:
        return bool(header["reply"]) and not header["reads"]
    return bool(message["rpc"]["direction"] == REPLY)


@pytest.mark.req("NF-14", "NF-15")
@each_case("chunks", [False, True])
@in_virtual_time
async def test_a_delegation_is_recalled_in_one_short_message_on_the_connection_of_its_session(chunks: bool) -> None:
    """Also where both sides could use chunks, in the smallest messages, with the longest credential and handle."""
    fabric, server = HeardFabric(), server_of_one_file()
    transport = replace(SMALL, reverse_chunks=chunks)
    options = rpcrdma.ServeOptions(
        rdma=rpcrdma.RdmaServerConfig(provider=fabric.node("server"), transport=transport), drain_s=0
    )
    async with (
        rpcrdma.serve([server.service], ["rdma://server"], options=options),
        client_at(fabric, "mute", transport, flags=0) as mute,
        client_at(fabric, "holder", transport) as holder,
        client_at(fabric, "writer", transport) as writer,
    ):
        assert await mute.open(nfs4.OPEN4_SHARE_ACCESS_READ) == (OK, None), "it has not said that it takes calls"
        _, delegation = await holder.open(nfs4.OPEN4_SHARE_ACCESS_READ)
        assert (await writer.open(nfs4.OPEN4_SHARE_ACCESS_WRITE))[0] is nfsstat4.NFS4ERR_DELAY
        await time_passes(1)
        ((asked, credential),) = holder.recalls
        assert (asked.stateid, credential) == (delegation.stateid, CALLER)
        assert [held.asked for held in server.state.delegations] == [True], "the client has accepted the recall"
        await holder.give_back(asked.stateid)
        assert (await writer.open(nfs4.OPEN4_SHARE_ACCESS_WRITE))[0] is OK
        assert mute.recalls == writer.recalls == []
    calls = {
        node: [each for each in fabric.heard("server", node) if not is_reply(each)]
        for node in ("mute", "holder", "writer")
    }
    assert (calls["mute"], calls["writer"]) == ([], [])
    (recall,) = calls["holder"]
    (answer,) = [each for each in fabric.heard("holder", "server") if each.get("rpc", {}).get("direction") == REPLY]
    for message, direction in ((recall, CALL), (answer, REPLY)):
        header = message["header"]
        assert (header["version"], header["type"], message["rpc"]["direction"]) == (1, MSG, direction)
        assert (header["reads"], header["writes"], header["reply"]) == ([], [], None)
        assert (header["xid"], message["rpc"]["same_xid"]) == (recall["header"]["xid"], 1)
        assert header["credit"] >= 1
    assert recall["octets"] + nfs4.NFS4_FHSIZE - len(asked.fh) <= INLINE
    assert [one for one, _ in fabric.connected] == ["mute", "holder", "writer"], "the server connects to nobody"
