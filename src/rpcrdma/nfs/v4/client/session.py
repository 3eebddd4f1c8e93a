"""A session with a server of NFS version 4.1: one COMPOUND after another in its one slot (RFC 8881 section 2.10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.errors import RpcRdmaError
from rpcrdma.limits import NFS4_DEFERRED_TRIES_MAX
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundCall
from rpcrdma.nfs.v4.nfs4 import (
    CREATE_SESSION4args,
    CREATE_SESSION4resok,
    DESTROY_CLIENTID4args,
    DESTROY_SESSION4args,
    EXCHANGE_ID4args,
    EXCHANGE_ID4resok,
    SEQUENCE4args,
    callback_sec_parms4,
    channel_attrs4,
    client_owner4,
    nfs_opnum4,
    nfsstat4,
    state_protect4_a,
    state_protect_how4,
)
from rpcrdma.rpc.program import Caller

__all__ = ["Called", "ClientSession", "OperationRefused", "session_with"]

_O = nfs_opnum4
_MINOR_VERSION: Final = 1
"""The minor version of all calls: servers of version 4.2 support 4.1 as well."""
_AUTH_NONE: Final = 0
_CALL_OCTETS: Final = 8 << 10
_REPLY_OCTETS: Final = 64 << 10
_CALLBACK_OCTETS: Final = 4 << 10
_FIRST_DELAY_S: Final = 0.1
_END_S: Final = 1.0
"""The time limit, in seconds, of each call that ends a session or client: no data depends on it."""

Called: TypeAlias = tuple[nfs_opnum4, Any]
"""An operation: its number and its arguments."""


class OperationRefused(RpcRdmaError):
    """A server answered an operation of a COMPOUND with a status other than NFS4_OK.

    Args:
        operation: the name of the operation, such as "READDIR"; "COMPOUND" if the reply lacks the result of an
            operation.
        status: the name of the status, such as "NFS4ERR_ACCESS"; with "COMPOUND" that of the reply, maybe "NFS4_OK".
        how_long: the end of the message, for an operation that was tried again; else "".
    """

    def __init__(self, operation: str, status: str, how_long: str = "") -> None:
        super().__init__(f"the server answers {operation} of NFS version 4 with {status}{how_long}")
        self.operation = operation
        self.status = status
        self._how_long = how_long

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operation, self.status, self._how_long)


class ClientSession:
    """A session on a server of NFS version 4.1, which `session_with` makes.

    It has one slot: the user awaits the end of each call before the next one, which is not checked. `session` is the
    session id, the attribute `id`, and `timeout_s` the time limit in seconds of each call with its repeats.
    """

    def __init__(self, caller: Caller, session: bytes, timeout_s: float) -> None:
        self.id = session
        self._caller = caller
        self._timeout_s = timeout_s
        self._number = 0

    async def run(self, *operations: Called) -> list[Any]:
        """Calls COMPOUND with SEQUENCE and then `operations`, each a pair (number, arguments); arguments None: void.

        Waits for the reply. Returns the decoded body of each result, in order, without that of SEQUENCE; None for void.
        Raises OperationRefused if an operation, SEQUENCE included, fails, and those after it have not run; or if the
        reply lacks the result of one. While the server defers SEQUENCE (NFS4ERR_DELAY), it is tried again, up to
        `NFS4_DEFERRED_TRIES_MAX` (7) times within the time limit. Raises RpcError, CallTimeout, TransportClosed,
        DecodeError and others as `rpcrdma.rpc.Caller.call`. After these, or a refused SEQUENCE, the server may have
        counted another number of calls: the session has to end.
        """
        self._number += 1
        sequence = SEQUENCE4args(self.id, self._number, 0, 0, False)
        return (await _called(self._caller, self._timeout_s, (_O.OP_SEQUENCE, sequence), *operations))[1:]


@contextlib.asynccontextmanager
async def session_with(caller: Caller, timeout_s: float) -> AsyncIterator[ClientSession]:
    """A context manager that yields a session of a new client, without a back channel, and ends both with its block.

    A failure to end session or client is ignored: the server drops the client after its lease. On entry raises
    OperationRefused if the server makes no session, ProgramMismatch if it does not offer version 4, and RpcError,
    CallTimeout, TransportClosed, DecodeError and others as `rpcrdma.rpc.Caller.call`.

    Args:
        caller: a connection to the server, which stays open.
        timeout_s: the time limit of each call, in seconds, with the further tries of one that the server defers; the
            calls that end session and client have 1 s each.
    """
    owner = client_owner4(random_bits(64).to_bytes(8, "big"), b"rpcrdma %032x" % random_bits(128))
    nobody = state_protect4_a(state_protect_how4.SP4_NONE, None)
    client: EXCHANGE_ID4resok
    (client,) = await _called(caller, timeout_s, (_O.OP_EXCHANGE_ID, EXCHANGE_ID4args(owner, 0, nobody, [])))
    wanted = CREATE_SESSION4args(
        client.eir_clientid,
        client.eir_sequenceid,
        0,
        channel_attrs4(0, _CALL_OCTETS, _REPLY_OCTETS, 0, 8, 1, []),
        channel_attrs4(0, _CALLBACK_OCTETS, _CALLBACK_OCTETS, 0, 2, 1, []),
        0,
        [callback_sec_parms4(_AUTH_NONE, None)],
    )
    made: CREATE_SESSION4resok | None = None
    try:
        (made,) = await _called(caller, timeout_s, (_O.OP_CREATE_SESSION, wanted))
        yield ClientSession(caller, made.csr_sessionid, timeout_s)
    finally:
        # A client that could not be destroyed ends at the server with its lease.
        with contextlib.suppress(RpcRdmaError):
            if made is not None:
                # A server refuses to end a session that is gone; the client may be there all the same.
                with contextlib.suppress(OperationRefused):
                    await _called(caller, _END_S, (_O.OP_DESTROY_SESSION, DESTROY_SESSION4args(made.csr_sessionid)))
            await _called(caller, _END_S, (_O.OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args(client.eir_clientid)))


async def _called(caller: Caller, timeout_s: float, *operations: Called) -> list[Any]:
    """Calls COMPOUND with `operations`, each a pair (number, arguments), and returns the decoded body of each result.

    While the server defers the first operation (NFS4ERR_DELAY), so that none has run, sends the same call again, up to
    `NFS4_DEFERRED_TRIES_MAX` (7) times, all within `timeout_s` (seconds). Raises OperationRefused if an operation
    fails, or the reply lacks the result of one, and others as `Caller.call`.
    """
    now_s = asyncio.get_running_loop().time
    begun_s, how_long = now_s(), ""
    call = CompoundCall.of([(int(number), args) for number, args in operations], minor_version=_MINOR_VERSION)
    reply = await caller.call(COMPOUND, call, timeout_s=timeout_s)
    for tries in range(NFS4_DEFERRED_TRIES_MAX):
        left_s = begun_s + timeout_s - now_s()
        if not reply.results or reply.results[0].status is not nfsstat4.NFS4ERR_DELAY or left_s <= 0:
            break
        await asyncio.sleep(min(_FIRST_DELAY_S * 2**tries, left_s / 2))
        reply = await caller.call(COMPOUND, call, timeout_s=left_s / 2)
        how_long = f" for {now_s() - begun_s:.1f} s (time limit: {timeout_s:g} s)"
    for result in reply.results:
        if result.status:
            deferred = result.status is nfsstat4.NFS4ERR_DELAY
            raise OperationRefused(result.operation.name, result.status.name, how_long if deferred else "")
    if reply.status or [result.operation.number for result in reply.results] != [step[0] for step in operations]:
        raise OperationRefused("COMPOUND", reply.status.name)
    return [result.value for result in reply.results]
