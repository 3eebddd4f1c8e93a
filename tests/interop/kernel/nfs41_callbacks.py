"""The back channel of a client of NFS version 4.1: its answers to callbacks (RFC 8881 sections 2.10.6 and 20)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

import nfs41
from nfs41 import nfs41_cb_operation as cb_op

from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.service import CallContext

__all__ = ["BACK_SLOTS", "Callbacks", "Recall"]

BACK_SLOTS = 4
"""Calls that the server may make at once; Linux makes one."""

_BAD_SESSION = 10052
_BAD_SLOT = 10053
_SEQUENCE_MISORDERED = 10063
_OPERATION_OUTSIDE_SESSION = 10071
_SEQUENCE_POSITION = 10064
_MINOR_VERSION_MISMATCH = 10021
_BAD_STATEID = 10025
_ILLEGAL = 10044


class Recall(NamedTuple):
    """A CB_RECALL that was answered."""

    stateid: nfs41.nfs41_stateid
    handle: bytes
    credential: Credential
    xid: int


@dataclass(slots=True)
class _Slot:
    sequence: int = 0
    reply: nfs41.nfs41_cb_compound_res | None = None


@dataclass(slots=True, kw_only=True)
class _Session:
    identifier: bytes = b""
    slots: list[_Slot] = field(default_factory=lambda: [_Slot() for _ in range(BACK_SLOTS)])


class Callbacks(nfs41.NFS41_CB_Service):
    """Counts calls, and queues recalls, so that the client returns the delegations.

    A recall is answered before the delegation is returned: the server does not wait for the return within its call.
    """

    def __init__(self) -> None:
        self.nulls = 0
        self.repeats = 0
        self.recalls: asyncio.Queue[Recall] = asyncio.Queue()
        self.refused = asyncio.Event()
        """Set when a recall of an unknown delegation has come."""
        self.held: set[bytes] = set()
        """Delegations, by the part of their stateid that stays the same; the others are not known."""
        self._session = _Session()

    def start_session(self, identifier: bytes) -> None:
        """Names the session to which the back channel belongs."""
        self._session = _Session(identifier=identifier)

    def null(self, args: None, context: CallContext) -> None:
        """CB_NULL: tells the server that the back channel works."""
        self.nulls += 1

    def compound(self, args: nfs41.nfs41_cb_compound_args, context: CallContext) -> nfs41.nfs41_cb_compound_res:
        """CB_COMPOUND: runs the operations up to the first that fails."""
        if args.minor_version != nfs41.NFS41_MINOR:
            return nfs41.nfs41_cb_compound_res(_MINOR_VERSION_MISMATCH, args.tag, [])
        if not args.operations:
            return nfs41.nfs41_cb_compound_res(nfs41.NFS41_OK, args.tag, [])
        first = args.operations[0].value
        if not isinstance(first, nfs41.nfs41_cb_sequence_args):
            failed = nfs41.nfs41_cb_res(args.operations[0].operation, _OPERATION_OUTSIDE_SESSION)
            return nfs41.nfs41_cb_compound_res(_OPERATION_OUTSIDE_SESSION, args.tag, [failed])
        status, slot = self._check(first)
        if slot is None:
            refused = nfs41.nfs41_cb_sequence_res(status, None)
            return nfs41.nfs41_cb_compound_res(status, args.tag, [nfs41.nfs41_cb_res(cb_op.OP41_CB_SEQUENCE, refused)])
        if slot.sequence == first.sequence and slot.reply is not None:
            self.repeats += 1
            return slot.reply
        slot.sequence = first.sequence
        slot.reply = self._run(args, first, context)
        return slot.reply

    def _check(self, args: nfs41.nfs41_cb_sequence_args) -> tuple[int, _Slot | None]:
        if args.session != self._session.identifier:
            return _BAD_SESSION, None
        if args.slot >= BACK_SLOTS:
            return _BAD_SLOT, None
        slot = self._session.slots[args.slot]
        if args.sequence not in {slot.sequence, (slot.sequence + 1) & 0xFFFFFFFF}:
            return _SEQUENCE_MISORDERED, None
        if args.sequence == slot.sequence and slot.reply is None:
            return _SEQUENCE_MISORDERED, None
        return nfs41.NFS41_OK, slot

    def _run(
        self, args: nfs41.nfs41_cb_compound_args, sequence: nfs41.nfs41_cb_sequence_args, context: CallContext
    ) -> nfs41.nfs41_cb_compound_res:
        accepted = nfs41.nfs41_cb_sequence_ok(
            session=sequence.session,
            sequence=sequence.sequence,
            slot=sequence.slot,
            highest_slot=BACK_SLOTS - 1,
            target_highest_slot=BACK_SLOTS - 1,
        )
        result = nfs41.nfs41_cb_sequence_res(nfs41.NFS41_OK, accepted)
        results = [nfs41.nfs41_cb_res(cb_op.OP41_CB_SEQUENCE, result)]
        status = nfs41.NFS41_OK
        for operation in args.operations[1:]:
            again = operation.operation is cb_op.OP41_CB_SEQUENCE
            status = _SEQUENCE_POSITION if again else self._recall(operation, context)
            failed = nfs41.nfs41_cb_sequence_res(status, None)
            results.append(nfs41.nfs41_cb_res(operation.operation, failed if again else status))
            if status:
                break
        return nfs41.nfs41_cb_compound_res(status, args.tag, results)

    def _recall(self, operation: nfs41.nfs41_cb_argument, context: CallContext) -> int:
        recall = operation.value
        if not isinstance(recall, nfs41.nfs41_recall_args):
            return _ILLEGAL
        if recall.stateid.other not in self.held:
            self.refused.set()
            return _BAD_STATEID
        self.recalls.put_nowait(Recall(recall.stateid, recall.handle, context.credential, context.xid))
        return nfs41.NFS41_OK
