"""Read delegations: a client that has one reads a file without asking whether it has changed (RFC 8881 section 10).

The server gives a delegation with an OPEN for reading while no other client has the file open for writing, if the tree
reports writers that are no clients (`Node.lease`). A call that changes the file is answered with DELAY until the other
clients have returned their delegations; a client never waits for its own. `back_channel` recalls them. A delegation
that is not returned within a lease is revoked.

The functions take the lock of the state themselves, except `_may_delegate` and `check_delegations`, whose callers hold
it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from rpcrdma.nfs.export.claims import WRITE
from rpcrdma.nfs.export.tree import Lease, Node, OpenFile
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.clients import Client, Delegation
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.nfs.v4.state_limits import NFS4_DELEGATE_AGAIN_S, NFS4_DELEGATIONS_MAX, NFS4_OWNERS_AT_ONCE

__all__ = [
    "check_delegations",
    "delegate",
    "give_back",
    "lease_for",
    "no_delegation",
    "wait_for_delegations",
    "without_delegations",
]

_S, _TYPE, _WHY = nfs4.nfsstat4, nfs4.open_delegation_type4, nfs4.why_no_delegation4


def no_delegation(wish: int) -> nfs4.open_delegation4:
    """Returns the field `delegation` of the result of OPEN if none is given, with the reason if there is a wish.

    `wish` holds the bits OPEN4_SHARE_ACCESS_WANT_* of the OPEN; 0: there are none, and the type is NONE without a
    reason. Else the type is NONE_EXT.
    """
    if not wish:
        return nfs4.open_delegation4(_TYPE.OPEN_DELEGATE_NONE, None)
    why = {
        nfs4.OPEN4_SHARE_ACCESS_WANT_NO_DELEG: nfs4.open_none_delegation4(_WHY.WND4_NOT_WANTED, None),
        nfs4.OPEN4_SHARE_ACCESS_WANT_CANCEL: nfs4.open_none_delegation4(_WHY.WND4_CANCELLED, None),
    }.get(wish, nfs4.open_none_delegation4(_WHY.WND4_RESOURCE, False))
    return nfs4.open_delegation4(_TYPE.OPEN_DELEGATE_NONE_EXT, why)


def lease_for(compound: Compound, node: Node, wish: int, access: int) -> Lease | None:
    """Takes a lease, which reports local writers, on the file of an OPEN that may give a read delegation.

    To be called before the OPEN opens the file, without the lock of the `State`. Raises WorkerNeeded (run again in a
    worker thread).

    Args:
        compound: the running COMPOUND.
        node: the file.
        wish: the client's wish for a delegation: bits OPEN4_SHARE_ACCESS_WANT_* of OPEN.
        access: the share access of the OPEN, bits `claims.READ` and `claims.WRITE`.

    Returns:
        The lease; None if the OPEN can give no delegation: the client does not want one, opens for writing or cannot be
            called, a claim, a change, a recent recall or a bound of the server is in the way, or the tree has no lease
            for it, as for a file that a local process has open for writing.
    """
    state = state_of(compound)
    wanted = wish not in {nfs4.OPEN4_SHARE_ACCESS_WANT_NO_DELEG, nfs4.OPEN4_SHARE_ACCESS_WANT_CANCEL}
    if not wanted or access & WRITE or not compound.session.back_channel.alive:
        return None
    file = compound.file_of(node)
    if state.claims.share_count(file) > NFS4_OWNERS_AT_ONCE:
        compound.wait()
    with state.lock:
        if not _may_delegate(state, compound.client, node.handle, file, compound.now_s):
            return None
    if not node.tree.in_memory:
        compound.wait()
    return node.lease(functools.partial(state.lease_broke, file))


def delegate(compound: Compound, wish: int, reader: OpenFile, lease: Lease | None) -> nfs4.open_delegation4:
    """Gives a read delegation on the current file, unless a conflict has arisen since `lease_for`.

    Conflicts are an open for writing by another client, a change or a recall, a local writer, a revocation of the
    client's open, and a bound of the server; locks are none. The caller does not hold the lock of the `State`. `wish`
    holds the bits OPEN4_SHARE_ACCESS_WANT_* of OPEN; `reader` is the file, open for reading; `lease` is the result of
    `lease_for`; it ends with the last reference, that of the delegation or, if none is given, of the caller. Returns
    the delegation for the result of OPEN, or `no_delegation(wish)` if `lease` is None or there is a conflict.
    """
    if lease is None:
        return no_delegation(wish)
    state, client, node = state_of(compound), compound.client, compound.node
    file = compound.file_of(node)
    with state.lock:
        # Another client may have opened the file for writing meanwhile, and an administrator have revoked the open.
        gone = lease.broken or not (client.recorded or client.unaware)
        if gone or not _may_delegate(state, client, node.handle, file, compound.now_s):
            return no_delegation(wish)
        given = Delegation(client, state.new_other(client), node, file, reader, lease, compound.credential)
        state.add(given)
        state.claims.delegate(given.file, given)
    everybody_else = nfs4.nfsace4(0, 0, 0, b"")
    stateid = nfs4.stateid4(given.seqid, given.other)
    return nfs4.open_delegation4(_TYPE.OPEN_DELEGATE_READ, nfs4.open_read_delegation4(stateid, False, everybody_else))


def _may_delegate(state: State, client: Client, handle: bytes, file: bytes, now_s: float) -> bool:
    claims = state.claims
    return (
        (Delegation, b"", handle) not in client.held
        and state.delegations_of_hosts.left(client.host) > 0
        and client.delegations < NFS4_DELEGATIONS_MAX
        and state.has_room(client)
        and not claims.is_changing(file)
        and now_s - state.recalled_files.get(file, float("-inf")) >= NFS4_DELEGATE_AGAIN_S
        and not any(held.client is not client for held in claims.share_conflicts(file, None, 0, WRITE))
    )


def check_delegations(state: State, client: Client | None, file: bytes, now_s: float) -> None:
    """Recalls the delegations that clients other than `client` have on a file to be changed; returns if there are none.

    Else raises Refused (NFS4ERR_DELAY). If the leases of all these clients have passed, raises InTheWay instead of a
    recall: they have to end first. `client` None: each delegation counts; `file` is the file's key (`Exports.file_of`),
    `now_s` the monotonic time in seconds. The caller holds the lock by `state.locked`, since a recall may revoke
    delegations.
    """
    others: list[Delegation] = [held for held in state.claims.delegates(file) if held.client is not client]
    if others:
        state.clients.in_the_way([each.client for each in others], now_s)
        state.recall(others, now_s)
        raise Refused(_S.NFS4ERR_DELAY)


def wait_for_delegations(compound: Compound, node: Node) -> None:
    """Raises Refused (NFS4ERR_DELAY) if other clients have delegations on an object to be changed, and recalls these.

    Delegations of the client of `compound` do not count. Never waits for a return. If only clients whose lease has
    passed have delegations, ends these clients instead, which may block: raises WorkerNeeded (run again in a worker
    thread) in the event loop. The caller holds no lock.
    """
    state = state_of(compound)
    if state.claims.delegations:
        file, now_s = compound.file_of(node), compound.now_s
        state.settle(lambda: check_delegations(state, compound.client, file, now_s), compound.wait)


@contextmanager
def without_delegations(compound: Compound, *nodes: Node | None) -> Iterator[None]:
    """Recalls other clients' delegations on `nodes`; if there are none, enters `with`, in which no client gets one.

    The caller changes `nodes` inside `with`; None stands for no object. A change by an open for writing does not need
    this: the open itself keeps other clients from delegations. Raises Refused (NFS4ERR_DELAY: other clients have
    delegations; `with` is not entered) or WorkerNeeded (run again in a worker thread). The caller holds no lock.
    """
    state, now_s = state_of(compound), compound.now_s
    files = [compound.file_of(node) for node in nodes if node is not None]

    def begin() -> None:
        for file in files:
            check_delegations(state, compound.client, file, now_s)
        state.claims.begin_change(files)

    state.settle(begin, compound.wait)
    try:
        yield
    finally:
        state.claims.end_change(files)


def give_back(compound: Compound, args: nfs4.DELEGRETURN4args) -> None:
    """Runs DELEGRETURN (RFC 8881 section 18.6): ends a delegation on the current file.

    Raises Refused: NFS4ERR_BAD_STATEID if the stateid is that of no delegation of the client on this file,
    NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED or NFS4ERR_ADMIN_REVOKED.
    """
    state = state_of(compound)
    with state.locked():
        held = state.find(compound.client, args.deleg_stateid)
        if not isinstance(held, Delegation) or held.handle != compound.node.handle:
            raise Refused(_S.NFS4ERR_BAD_STATEID)
        state.drop(held)
