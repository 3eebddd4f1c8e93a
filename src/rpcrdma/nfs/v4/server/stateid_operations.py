"""Operations on stateids of all kinds: TEST_STATEID and FREE_STATEID."""

from __future__ import annotations

from collections.abc import Iterator

from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.clients import Client, Delegation
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.opens import Open, resolved
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.nfs.v4.state_limits import NFS4_STATEIDS_AT_ONCE

__all__ = ["free_stateid", "test_stateid"]

_S = nfs4.nfsstat4


def test_stateid(compound: Compound, args: nfs4.TEST_STATEID4args) -> nfs4.TEST_STATEID4resok:
    """Runs TEST_STATEID (RFC 8881 section 18.48): returns the status of each stateid, NFS4_OK for a valid one.

    Raises WorkerNeeded for more than `NFS4_STATEIDS_AT_ONCE` (64) stateids, to run again in a worker thread.
    """
    state = state_of(compound)
    statuses: list[int] = []
    if len(args.ts_stateids) > NFS4_STATEIDS_AT_ONCE:
        compound.wait()
    for some in _batched(args.ts_stateids):
        with state.lock:
            statuses += [_status_of(state, compound.client, stateid) for stateid in some]
    return nfs4.TEST_STATEID4resok(statuses)


def _batched(stateids: list[nfs4.stateid4]) -> Iterator[list[nfs4.stateid4]]:
    for start in range(0, len(stateids), NFS4_STATEIDS_AT_ONCE):
        yield stateids[start : start + NFS4_STATEIDS_AT_ONCE]


def _status_of(state: State, client: Client, stateid: nfs4.stateid4) -> int:
    try:
        state.find(client, stateid)
    except Refused as refused:
        return refused.status
    return _S.NFS4_OK


def free_stateid(compound: Compound, args: nfs4.FREE_STATEID4args) -> None:
    """Runs FREE_STATEID (RFC 8881 section 18.38): drops a lock state without locked ranges, or any revoked state.

    Raises WorkerNeeded (run again in a worker thread) or Refused, such as NFS4ERR_LOCKS_HELD, NFS4ERR_BAD_STATEID, or
    NFS4ERR_DELAY if the disk has failed.
    """
    state, client = state_of(compound), compound.client
    if client.unaware:
        # With the last one the client is written to the disk.
        compound.wait()
    with state.locked():
        held = state.find(client, resolved(compound, args.fsa_stateid), revoked=True)
        in_use = isinstance(held, Open | Delegation) or state.claims.ranges(held.file, held)
        if in_use and held.lost is None:
            raise Refused(_S.NFS4ERR_LOCKS_HELD)
        revoked = held.lost is _S.NFS4ERR_ADMIN_REVOKED
        if not revoked:
            state.drop(held)
    if revoked:
        compound.wait()
        state.free(client, held)
