"""A server of NFS version 4.1 with a few empty files, just enough to give out delegations and to recall them."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace

import nfs41
from nfs41 import nfs41_operation as op
from nfs41_bindings import CB_COMPOUND

from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.service import CallContext, ReverseCaller

__all__ = ["STATUS_SERVER_FAULT", "Session", "StubServer"]

STATUS_SERVER_FAULT = 10006
_NO_ENTRY = 2
_DELAY = 10008
_BAD_STATEID = 10025
_BAD_SESSION = 10052
_SEQUENCE_MISORDERED = 10063
_PUT_ROOT = b"root"
_CONTENTION = 1
_NO_LAYOUTS = 0x10000
"""EXCHGID4_FLAG_USE_NON_PNFS."""
_LEASE_TIME = 1 << 10
_LEASE_S = 90


@dataclass(slots=True)
class Session:
    """One session of a client, which is called back by the program that it named."""

    identifier: bytes
    client: ReverseCaller
    callback_program: int
    credential: Credential
    slots: dict[int, int] = field(default_factory=dict)
    """The number of the last call in each slot that was used."""
    back_sequence: int = 0
    back: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Delegation:
    session: bytes
    name: bytes
    stateid: nfs41.nfs41_stateid
    recalled: bool = False


@dataclass(slots=True)
class _Current:
    """The state that the operations of one COMPOUND share: session, current file, and changed delegations."""

    session: bytes = b""
    name: bytes = b""
    changed: list[_Delegation] = field(default_factory=list)


class StubServer(nfs41.NFS41_V4_Service):
    """Recalls a delegation after the call that conflicts with it; keeps no replies for repeated calls."""

    def __init__(self, names: list[bytes], *, answer_s: float = 5.0) -> None:
        """`answer_s`: how long a client may take for the answer to a call."""
        self.names = names
        self._answer_s = answer_s
        self.sessions: dict[bytes, Session] = {}
        self.delegations: dict[bytes, _Delegation] = {}
        self.answers: list[nfs41.nfs41_cb_compound_res] = []
        """The client's answers to recalls."""
        self.first_used: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        """The first session in which a client has called: it calls once it has the reply to CREATE_SESSION."""
        self.refusal = _DELAY
        """The status of operations that this server does not offer."""
        self._numbers = itertools.count(1)
        self._recalling: set[asyncio.Task[None]] = set()

    async def compound(self, args: nfs41.nfs41_compound_args, context: CallContext) -> nfs41.nfs41_compound_res:
        """Runs the operations up to the first that fails."""
        current, results, status = _Current(), [], nfs41.NFS41_OK
        for operation in args.operations:
            result = self._run(operation, current, context)
            results.append(result)
            status = result.value if isinstance(result.value, int) else result.value.status
            if status:
                break
        for delegation in current.changed:
            delegation.recalled = True
            task = asyncio.create_task(self.recall(delegation.stateid))
            self._recalling.add(task)
            task.add_done_callback(self._recalling.discard)
        return nfs41.nfs41_compound_res(status, args.tag, results)

    async def recall(self, stateid: nfs41.nfs41_stateid, *, repeat: bool = False) -> None:
        """CB_RECALL; `repeat`: with the sequence number of the one before, as if its reply had been lost."""
        held = self.delegations.get(stateid.other)
        session = self.sessions[held.session] if held else next(iter(self.sessions.values()))
        async with session.back:
            session.back_sequence += not repeat
            recall = nfs41.nfs41_recall_args(stateid, False, held.name if held else b"unknown")
            sequence = nfs41.nfs41_cb_sequence_args(session.identifier, session.back_sequence, 0, 0, False, [])
            operations = [
                nfs41.nfs41_cb_argument(nfs41.nfs41_cb_operation.OP41_CB_SEQUENCE, sequence),
                nfs41.nfs41_cb_argument(nfs41.nfs41_cb_operation.OP41_CB_RECALL, recall),
            ]
            self.answers.append(await self.call_back(session, operations))

    async def call_back(
        self, session: Session, operations: list[nfs41.nfs41_cb_argument], minor: int = nfs41.NFS41_MINOR
    ) -> nfs41.nfs41_cb_compound_res:
        """CB_COMPOUND."""
        call = nfs41.nfs41_cb_compound_args(b"tag", minor, 0, operations)
        procedure = replace(CB_COMPOUND, program=session.callback_program)
        return await session.client.call(procedure, call, timeout_s=self._answer_s)

    async def call_null(self, session: Session) -> None:
        """CB_NULL."""
        procedure = replace(nfs41.CB41PROC_NULL, program=session.callback_program)
        await session.client.call(procedure, None, timeout_s=self._answer_s)

    def _run(self, operation: nfs41.nfs41_argument, current: _Current, context: CallContext) -> nfs41.nfs41_res:
        args = operation.value
        result: (
            int
            | nfs41.nfs41_exchange_id_res
            | nfs41.nfs41_create_session_res
            | nfs41.nfs41_sequence_res
            | nfs41.nfs41_open_res
            | nfs41.nfs41_close_res
            | nfs41.nfs41_getfh_res
            | nfs41.nfs41_getattr_res
        ) = nfs41.NFS41_OK
        match operation.operation, args:
            case op.OP41_EXCHANGE_ID, nfs41.nfs41_exchange_id_args():
                known = nfs41.nfs41_exchange_id_ok(
                    client_id=next(self._numbers),
                    sequence=1,
                    flags=_NO_LAYOUTS,
                    protection=args.protection,
                    server_minor=0,
                    server_major=b"stub",
                    scope=b"stub",
                    implementation=[nfs41.nfs41_implementation(b"example.org", b"stub", 1, 2)],
                )
                result = nfs41.nfs41_exchange_id_res(0, known)
            case op.OP41_CREATE_SESSION, nfs41.nfs41_create_session_args():
                result = nfs41.nfs41_create_session_res(0, self._create_session(args, context))
            case op.OP41_SEQUENCE, nfs41.nfs41_sequence_args():
                result = self._sequence(args, current)
            case op.OP41_PUTROOTFH, None:
                current.name = _PUT_ROOT
            case op.OP41_LOOKUP, bytes():
                current.name, result = args, nfs41.NFS41_OK if args in self.names else _NO_ENTRY
            case op.OP41_PUTFH, bytes():
                current.name = args
            case op.OP41_GETATTR, list():
                result = self._attributes(args)
            case op.OP41_SECINFO_NO_NAME, int():
                result = self.refusal
            case op.OP41_GETFH, None:
                result = nfs41.nfs41_getfh_res(0, current.name)
            case op.OP41_OPEN, nfs41.nfs41_open_args():
                result = self._open(args, current)
            case op.OP41_CLOSE, nfs41.nfs41_close_args():
                result = nfs41.nfs41_close_res(0, args.stateid)
            case op.OP41_DELEGRETURN, nfs41.nfs41_stateid():
                result = nfs41.NFS41_OK if self.delegations.pop(args.other, None) else _BAD_STATEID
            case op.OP41_DESTROY_SESSION, bytes():
                result = nfs41.NFS41_OK if self.sessions.pop(args, None) else _BAD_SESSION
        return nfs41.nfs41_res(operation.operation, result)

    def _create_session(
        self, args: nfs41.nfs41_create_session_args, context: CallContext
    ) -> nfs41.nfs41_create_session_ok:
        identifier = args.client_id.to_bytes(16, "big")
        credential = _credential(args.callback_security)
        context.client.ready(credential)
        self.sessions[identifier] = Session(identifier, context.client, args.callback_program, credential)
        flags = args.flags & nfs41.NFS41_SESSION_BACK_CHANNEL
        return nfs41.nfs41_create_session_ok(
            session=identifier, sequence=args.sequence, flags=flags, fore=args.fore, back=args.back
        )

    def _sequence(self, args: nfs41.nfs41_sequence_args, current: _Current) -> nfs41.nfs41_sequence_res:
        session = self.sessions.get(args.session)
        if session is None:
            return nfs41.nfs41_sequence_res(_BAD_SESSION, None)
        if args.sequence != session.slots.get(args.slot, 0) + 1:
            return nfs41.nfs41_sequence_res(_SEQUENCE_MISORDERED, None)
        session.slots[args.slot] = args.sequence
        current.session = args.session
        if not self.first_used.done():
            self.first_used.set_result(session)
        highest = args.highest_slot
        accepted = nfs41.nfs41_sequence_ok(args.session, args.sequence, args.slot, highest, highest, 0)
        return nfs41.nfs41_sequence_res(0, accepted)

    def _open(self, args: nfs41.nfs41_open_args, current: _Current) -> nfs41.nfs41_open_res:
        name = args.claim.value or current.name
        if name not in self.names:
            return nfs41.nfs41_open_res(_NO_ENTRY, None)
        current.name = name
        writes = args.share_access & nfs41.NFS41_SHARE_WRITE
        others = [held for held in self.delegations.values() if held.name == name and held.session != current.session]
        if writes and others:
            current.changed = [held for held in others if not held.recalled]
            return nfs41.nfs41_open_res(_DELAY, None)
        given = nfs41.nfs41_delegation(nfs41.NFS41_DELEGATION_NONE, None)
        if args.share_access & nfs41.NFS41_SHARE_WANT_READ_DELEGATION:
            given = self._delegate(name, current.session)
        opened = nfs41.nfs41_open_ok(self._stateid(), True, 1, 1, 0, [], given)
        return nfs41.nfs41_open_res(0, opened)

    def _delegate(self, name: bytes, session: bytes) -> nfs41.nfs41_delegation:
        if any(held.name == name for held in self.delegations.values()):
            refusal = nfs41.nfs41_no_delegation(_CONTENTION, False)
            return nfs41.nfs41_delegation(nfs41.NFS41_DELEGATION_NONE_WHY, refusal)
        stateid = self._stateid()
        self.delegations[stateid.other] = _Delegation(session, name, stateid)
        permissions = nfs41.nfs41_access_entry(0, 0, 0, b"")
        read = nfs41.nfs41_read_delegation(stateid, False, permissions)
        return nfs41.nfs41_delegation(nfs41.NFS41_DELEGATION_READ, read)

    def _attributes(self, wanted: list[int]) -> nfs41.nfs41_getattr_res:
        """The one attribute that a client cannot start without."""
        if wanted != [_LEASE_TIME]:
            return nfs41.nfs41_getattr_res(self.refusal, None)
        return nfs41.nfs41_getattr_res(0, nfs41.nfs41_attributes(wanted, _LEASE_S.to_bytes(4, "big")))

    def _stateid(self) -> nfs41.nfs41_stateid:
        return nfs41.nfs41_stateid(1, next(self._numbers).to_bytes(12, "big"))


def _credential(offered: list[nfs41.nfs41_callback_security]) -> Credential:
    """The first of the credentials that the client accepts in callbacks."""
    caller = offered[0].value if offered else None
    if caller is None:
        return AuthNone()
    return AuthSys(stamp=caller.stamp, machine=caller.machine, uid=caller.uid, gid=caller.gid, gids=tuple(caller.gids))
