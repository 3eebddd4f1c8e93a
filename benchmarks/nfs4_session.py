"""A session of NFS version 4.2 with one open file, whose calls are those that Linux makes: the benchmarks' client.

Each call has a slot of its own as long as it is unanswered. The codec is the server's own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import rpcrdma
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundCall, CompoundReply
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4 as op
from rpcrdma.rpc.reply_bound import ReplyBound

SLOTS = 64
ATTRIBUTES = [0x0010011A, 0x00B0A23A]
"""The attributes that Linux asks for: type, change, size, owner, times and others."""
_CHANNEL = nfs4.channel_attrs4(0, 1_049_620, 1_049_480, 7_584, 8, SLOTS, [])
_SMALL = dataclasses.replace(COMPOUND, bound=ReplyBound(1024), named=None)
"""With less memory offered than GETATTR of every attribute takes: Linux does not offer a Reply chunk for it, either."""


class Session:
    """A session over one connection; `start` before all else."""

    def __init__(self, connection: rpcrdma.Connection) -> None:
        self._connection = connection
        self._id = b""
        self._numbers = [0] * SLOTS
        self._handle = b""
        self._stateid: Any = None

    async def start(self, owner: bytes, path: str) -> Session:
        """Makes the session, and opens the file of a path for reading."""
        introduction = nfs4.EXCHANGE_ID4args(
            nfs4.client_owner4(bytes(8), owner), 0, nfs4.state_protect4_a(nfs4.state_protect_how4.SP4_NONE, None), []
        )
        client = (await self._make((op.OP_EXCHANGE_ID, introduction))).results[0].value.eir_clientid
        asked = nfs4.CREATE_SESSION4args(client, 1, 0, _CHANNEL, _CHANNEL, 0, [])
        self._id = (await self._make((op.OP_CREATE_SESSION, asked))).results[0].value.csr_sessionid
        await self._call(0, (op.OP_RECLAIM_COMPLETE, nfs4.RECLAIM_COMPLETE4args(False)))
        *above, name = path.encode().strip(b"/").split(b"/")
        opening = nfs4.OPEN4args(
            0, nfs4.OPEN4_SHARE_ACCESS_READ, 0, nfs4.state_owner4(client, b"owner"),
            nfs4.openflag4(nfs4.opentype4.OPEN4_NOCREATE, None),
            nfs4.open_claim4(nfs4.open_claim_type4.CLAIM_NULL, name),
        )  # fmt: skip
        lookups = [(op.OP_LOOKUP, nfs4.LOOKUP4args(each)) for each in above]
        opened = await self._call(0, (op.OP_PUTROOTFH, None), *lookups, (op.OP_OPEN, opening), (op.OP_GETFH, None))
        self._stateid, self._handle = opened.results[-2].value.stateid, opened.results[-1].value.object
        return self

    async def getattr(self, slot: int) -> CompoundReply:
        """The attributes of the file."""
        return await self._call(
            slot, (op.OP_PUTFH, nfs4.PUTFH4args(self._handle)), (op.OP_GETATTR, nfs4.GETATTR4args(ATTRIBUTES)),
            procedure=_SMALL,
        )  # fmt: skip

    async def read(self, slot: int, offset: int, into: Any) -> CompoundReply:
        """Reads octets of the file into a buffer."""
        args = nfs4.READ4args(self._stateid, offset, len(into))
        return await self._call(
            slot, (op.OP_PUTFH, nfs4.PUTFH4args(self._handle)), (op.OP_READ, args), into=into
        )  # fmt: skip

    async def _call(self, slot: int, *operations: tuple[int, Any], **more: Any) -> CompoundReply:
        self._numbers[slot] += 1
        sequence = nfs4.SEQUENCE4args(self._id, self._numbers[slot], slot, slot, False)
        return await self._make((op.OP_SEQUENCE, sequence), *operations, **more)

    async def _make(self, *operations: tuple[int, Any], procedure: Any = COMPOUND, into: Any = None) -> CompoundReply:
        reply: CompoundReply = await self._connection.call(procedure, CompoundCall.of(operations), into=into)
        assert not reply.status, reply
        return reply
