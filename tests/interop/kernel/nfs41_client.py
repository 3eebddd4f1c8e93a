"""A small client of NFS version 4.1 (RFC 8881): sessions, opens, and delegations that the server recalls.

One connection carries the session in both directions; it is not made again when it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import nfs41
from nfs41 import nfs41_argument as argument
from nfs41 import nfs41_operation as op
from nfs41_bindings import COMPOUND
from nfs41_callbacks import BACK_SLOTS, Callbacks
from patience import awaiting

import rpcrdma
from rpcrdma.aio.client.connect import Connection, ConnectOptions

__all__ = ["STATUS_DELAY", "Nfs41Client", "Nfs41Error", "OpenFile", "nfs41_session"]

T = TypeVar("T")

STATUS_DELAY = 10008
"""NFS4ERR_DELAY: the client is to try again later, for example because a delegation is being recalled."""
_BACK_OCTETS = 4096 - 28
"""Octets of one call on the back channel: an inline message of 4096 octets less its transport header."""
_FORE_OCTETS = 1 << 16


class Nfs41Error(Exception):
    """An operation failed at the server."""

    def __init__(self, operation: nfs41.nfs41_operation | None, status: int) -> None:
        super().__init__(f"{operation.name if operation else 'COMPOUND'} failed with status {status}")
        self.operation = operation
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """The result of OPEN; `delegation` is one for reading, `refusal` the server's reason for giving none."""

    handle: bytes
    stateid: nfs41.nfs41_stateid
    delegation: nfs41.nfs41_stateid | None
    refusal: int | None


class Nfs41Client:
    """A session with one slot: calls wait for each other. See `nfs41_session`."""

    def __init__(self, connection: Connection, callbacks: Callbacks, owner: bytes) -> None:
        self.connection = connection
        self.callbacks = callbacks
        self.delays = 0
        """How often the server has answered NFS4ERR_DELAY."""
        self._owner = owner
        self._client_id = 0
        self._session = b""
        self._sequence = 0
        self._slot = asyncio.Lock()

    async def start(self) -> None:
        """EXCHANGE_ID, CREATE_SESSION with the back channel on this connection, and RECLAIM_COMPLETE."""
        exchange = nfs41.nfs41_exchange_id_args(
            verifier=os.urandom(8),
            owner=self._owner,
            flags=0,
            protection=nfs41.nfs41_protection(0, None),
            implementation=[],
        )
        known = await self._one(op.OP41_EXCHANGE_ID, exchange, nfs41.nfs41_exchange_id_ok)
        self._client_id = known.client_id
        channel = nfs41.nfs41_channel(
            padding=0,
            call_octets_max=_FORE_OCTETS,
            reply_octets_max=_FORE_OCTETS,
            kept_reply_octets_max=4096,
            operations_max=nfs41.NFS41_OPERATIONS,
            slots=1,
            rdma_reads=[],
        )
        back = replace(
            channel,
            call_octets_max=_BACK_OCTETS,
            reply_octets_max=_BACK_OCTETS,
            kept_reply_octets_max=_BACK_OCTETS,
            slots=BACK_SLOTS,
        )
        caller = nfs41.nfs41_unix_caller(stamp=0, machine="callback", uid=4321, gid=1234, gids=[])
        create = nfs41.nfs41_create_session_args(
            client_id=known.client_id,
            sequence=known.sequence,
            flags=nfs41.NFS41_SESSION_BACK_CHANNEL,
            fore=channel,
            back=back,
            callback_program=nfs41.NFS41_CB.number,
            callback_security=[nfs41.nfs41_callback_security(1, caller)],
        )
        session = await self._one(op.OP41_CREATE_SESSION, create, nfs41.nfs41_create_session_ok)
        if not session.flags & nfs41.NFS41_SESSION_BACK_CHANNEL:
            raise Nfs41Error(op.OP41_CREATE_SESSION, nfs41.NFS41_OK)
        self._session = session.session
        self.callbacks.start_session(session.session)
        await self._do(argument(op.OP41_RECLAIM_COMPLETE, False))

    async def stop(self) -> None:
        """DESTROY_SESSION and DESTROY_CLIENTID."""
        await self._compound([argument(op.OP41_DESTROY_SESSION, self._session)])
        await self._compound([argument(op.OP41_DESTROY_CLIENTID, self._client_id)])

    async def ping(self) -> None:
        """SEQUENCE and PUTROOTFH: the shortest call of a session."""
        await self._do(argument(op.OP41_PUTROOTFH, None))

    async def lookup(self, name: bytes) -> bytes:
        """The handle of the object `name` in the root directory."""
        results = await self._do(
            argument(op.OP41_PUTROOTFH, None), argument(op.OP41_LOOKUP, name), argument(op.OP41_GETFH, None)
        )
        return _value(results[-1], bytes)

    async def open(self, name: bytes, *, write: bool = False, tries: int = 1, delay_s: float = 0.2) -> OpenFile:
        """Opens a file of the root directory; asks for a delegation unless it is to be written.

        Raises:
            Nfs41Error: the server refused, or put it off so many times.
        """
        access = nfs41.NFS41_SHARE_READ | nfs41.NFS41_SHARE_WANT_READ_DELEGATION
        if write:
            access = nfs41.NFS41_SHARE_WRITE | nfs41.NFS41_SHARE_WANT_NO_DELEGATION
        args = nfs41.nfs41_open_args(
            sequence=0,
            share_access=access,
            share_deny=nfs41.NFS41_DENY_NONE,
            owner=nfs41.nfs41_open_owner(self._client_id, b"owner"),
            how=nfs41.nfs41_open_how(0, None),
            claim=nfs41.nfs41_open_claim(0, name),
        )
        operations = argument(op.OP41_PUTROOTFH, None), argument(op.OP41_OPEN, args), argument(op.OP41_GETFH, None)
        for left in reversed(range(tries)):
            try:
                results = await self._do(*operations)
                break
            except Nfs41Error as error:
                if error.status != STATUS_DELAY:
                    raise
                self.delays += 1
                if not left:
                    raise
                await asyncio.sleep(delay_s)
        opened = _value(results[-2], nfs41.nfs41_open_ok)
        given = opened.delegation.value
        delegation = given.stateid if isinstance(given, nfs41.nfs41_read_delegation) else None
        if delegation is not None:
            self.callbacks.held.add(delegation.other)
        return OpenFile(
            handle=_value(results[-1], bytes),
            stateid=opened.stateid,
            delegation=delegation,
            refusal=given.why if isinstance(given, nfs41.nfs41_no_delegation) else None,
        )

    async def close(self, file: OpenFile) -> None:
        """Ends an open; a delegation stays."""
        close = nfs41.nfs41_close_args(0, file.stateid)
        await self._do(argument(op.OP41_PUTFH, file.handle), argument(op.OP41_CLOSE, close))

    async def return_delegation(self, handle: bytes, delegation: nfs41.nfs41_stateid) -> None:
        """DELEGRETURN: the server may let others at the file."""
        await self._do(argument(op.OP41_PUTFH, handle), argument(op.OP41_DELEGRETURN, delegation))
        self.callbacks.held.discard(delegation.other)

    async def return_recalled(self, count: int) -> None:
        """Waits for so many recalls, and returns each delegation."""
        for number in range(1, count + 1):
            with awaiting(f"recall {number} of {count}"):
                recall = await self.callbacks.recalls.get()
            with awaiting(f"the answer to DELEGRETURN {number} of {count}"):
                await self.return_delegation(recall.handle, recall.stateid)

    async def _one(self, operation: nfs41.nfs41_operation, args: Any, kind: type[T]) -> T:
        """An operation outside of any session."""
        return _value((await self._compound([argument(operation, args)]))[0], kind)

    async def _do(self, *operations: nfs41.nfs41_argument) -> list[nfs41.nfs41_res]:
        async with self._slot:
            # The slot's sequence number advances even if the call failed: no call is sent twice.
            self._sequence = (self._sequence + 1) & 0xFFFFFFFF
            sequence = nfs41.nfs41_sequence_args(self._session, self._sequence, 0, 0, False)
            return await self._compound([argument(op.OP41_SEQUENCE, sequence), *operations])

    async def _compound(self, operations: Sequence[nfs41.nfs41_argument]) -> list[nfs41.nfs41_res]:
        call = nfs41.nfs41_compound_args(b"", nfs41.NFS41_MINOR, list(operations))
        reply = await self.connection.call(COMPOUND, call)
        if reply.status:
            raise Nfs41Error(reply.results[-1].operation if reply.results else None, reply.status)
        if [result.operation for result in reply.results] != [operation.operation for operation in operations]:
            raise Nfs41Error(None, reply.status)
        return reply.results


def _value(result: nfs41.nfs41_res, kind: type[T]) -> T:
    """The result of an operation that succeeded."""
    value = getattr(result.value, "value", None)
    if not isinstance(value, kind):
        raise Nfs41Error(result.operation, nfs41.NFS41_OK)
    return value


@contextlib.asynccontextmanager
async def nfs41_session(url: str, *, owner: bytes, options: ConnectOptions | None = None) -> AsyncIterator[Nfs41Client]:
    """A client with a session; `owner` tells it from others of the same server."""
    callbacks = Callbacks()
    options = replace(options or ConnectOptions(), services=[callbacks], reconnect=False)
    async with rpcrdma.connect(url, options=options) as connection:
        client = Nfs41Client(connection, callbacks, owner)
        await client.start()
        yield client
        await client.stop()
