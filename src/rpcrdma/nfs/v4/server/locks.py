"""Byte-range locks: LOCK, LOCKT, LOCKU (RFC 8881 sections 18.10 to 18.12).

The locks of one lock owner on one file have one stateid. They are advisory, as those of POSIX are, and nobody waits for
one here: a client that wants to wait asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rpcrdma.nfs.export.claims import READ, WRITE, Claims, HeldRange, Range
from rpcrdma.nfs.export.tree import Node, OpenFile
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.clients import Client, Held
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.held_states import bump
from rpcrdma.nfs.v4.server.opens import Open, check_regular, find
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.nfs.v4.state_limits import NFS4_OWNERS_AT_ONCE, NFS4_RANGE_OWNERS_MAX, NFS4_RANGES_MAX
from rpcrdma.rpc.auth import Credential

__all__ = ["LockState", "lock", "lock_test", "unlock"]

_S = nfs4.nfsstat4
_ALL = 1 << 64
_TO_END = _ALL - 1
"""The length of a range that extends to the largest offset."""
_LOCAL = nfs4.state_owner4(0, b"a process of the server")
"""The owner, in a result, of locks that local processes hold."""
_SPLIT = 2
"""The most ranges that a change of one range adds."""


class LockState(Held):
    """The locks of a lock owner on a file, with one stateid; they end with the open that they were first made with.

    `opened` is this open, to whose `parts` the new state is added; `other` has the 12 octets of the stateid, `owner` is
    the name of the lock owner, and `ranges` the number of locked ranges.
    """

    COUNTED_AS = "locks"
    __slots__ = ("opened", "ranges")

    def __init__(self, opened: Open, other: bytes, owner: bytes) -> None:
        super().__init__(opened.client, other, owner, opened.handle, opened.file)
        self.opened = opened
        self.ranges = 0
        if opened.parts is None:
            opened.parts = set()
        opened.parts.add(self)

    def release(self, claims: Claims[Any, Any]) -> None:
        """Removes all ranges of this state from `claims`, whose lock the caller holds, and this state from its open."""
        self.change(claims, 0, _ALL, None)
        if self.opened.parts is not None:
            self.opened.parts.discard(self)

    def change(self, claims: Claims[Any, Any], start: int, end: int, exclusive: bool | None) -> int:
        """Locks the octets from `start` to before `end`, at most 2**64, or unlocks them if `exclusive` is None.

        `exclusive` True is a write lock, False a read lock. Returns how many ranges more this state has now, a negative
        number if it has fewer. The caller has looked for conflicts, holds the lock of `claims`, and adds the result to
        the count of ranges of the client's host (`State.ranges_of_hosts`).
        """
        before = claims.range_count
        claims.change_range(self.file, self, start, end, exclusive)
        added = claims.range_count - before
        self.ranges += added
        return added

    @property
    def count(self) -> int:
        """The number of locked ranges of this state."""
        return self.ranges

    def io_file(self, access: int) -> OpenFile | None:
        """Returns the file as the open of these locks has it open for `access`, `claims.READ` or `claims.WRITE`.

        Returns None if the open does not have it open for this.
        """
        return self.opened.io_file(access)

    def opener(self, access: int) -> Credential:
        """Returns the credential of the call that last opened `io_file(access)` for the open of these locks."""
        return self.opened.opener(access)


def lock(compound: Compound, args: nfs4.LOCK4args) -> nfs4.LOCK4resok:
    """Runs LOCK (RFC 8881 section 18.10): locks a range of the current file for a lock owner; returns the new stateid.

    Never waits for a conflicting lock, which a local process may hold as well. If all conflicting locks are of clients
    whose lease has passed, ends these clients first. Raises WorkerNeeded (run again in a worker thread), OSError or
    Refused: NFS4ERR_DENIED with the conflicting lock, NFS4ERR_DELAY at a bound of the server or if such a client is
    about to end, NFS4ERR_OPENMODE, NFS4ERR_GRACE, NFS4ERR_BAD_STATEID and others of the RFC.
    """
    wanted = _range(args.locktype, args.offset, args.length)
    node, file = _lockable(compound)
    state = state_of(compound)
    client: Client = compound.client

    def checked() -> tuple[LockState | None, Open, bytes]:
        mine, opened, owner = _locker(compound, args)
        if not opened.access & (WRITE if wanted.exclusive else READ):
            raise Refused(_S.NFS4ERR_OPENMODE)
        if args.reclaim:
            state.check_reclaim(client, compound.now_s)
        else:
            state.check_new(client)
        _check_conflicts(state, compound, owner, wanted, reclaims=args.reclaim)
        for each in {mine, *_owned(state, client, owner, file)}:
            _check_room(state, client, file, each)
        if mine is None:
            state.check_room(client)
        return mine, opened, owner

    def grant() -> nfs4.stateid4:
        mine, opened, owner = checked()
        if mine is None:
            mine = LockState(opened, state.new_other(client), owner)
            state.add(mine)
            stateid = nfs4.stateid4(mine.seqid, mine.other)
        else:
            stateid = bump(mine)
        for each in list(_owned(state, client, owner, file)):
            if each is not mine:
                state.ranges_of_hosts.add(client.host, each.change(state.claims, wanted.start, wanted.end, None))
        state.ranges_of_hosts.add(client.host, mine.change(state.claims, *wanted))
        return stateid

    def step() -> nfs4.stateid4:
        if wanted.exclusive:
            with state.lock:
                # Before the kernel sees the file opened for writing, which ends its lease.
                checked()
        with state.mirrors.of(node, file, exclusive=wanted.exclusive) as local:
            with state.lock:
                checked()
            if local is not None and not local.change(wanted):
                raise _denied(local.in_the_way(wanted) or wanted, _LOCAL)
            try:
                with state.lock:
                    return grant()
            except BaseException:
                if local is not None:
                    state.mirrors.restore(local, file, wanted)
                raise

    compound.stateid = state.past_courteous(step, compound.wait)
    return nfs4.LOCK4resok(compound.stateid)


def lock_test(compound: Compound, args: nfs4.LOCKT4args) -> None:
    """Runs LOCKT (RFC 8881 section 18.11): checks that a lock owner could lock a range of the current file.

    Returns if no lock conflicts. If all conflicting locks are of clients whose lease has passed, ends these clients
    first. Raises WorkerNeeded (run again in a worker thread), OSError or Refused: NFS4ERR_DENIED with the conflicting
    lock, NFS4ERR_DELAY (a client with such a lock is about to end), NFS4ERR_GRACE, NFS4ERR_INVAL (wrong range), or
    NFS4ERR_ISDIR, NFS4ERR_SYMLINK or NFS4ERR_WRONG_TYPE if the object is no regular file.
    """
    wanted = _range(args.locktype, args.offset, args.length)
    node, file = _lockable(compound)
    state = state_of(compound)

    def step() -> None:
        if state.claims.in_grace:
            raise Refused(_S.NFS4ERR_GRACE)
        with state.mirrors.of(node, file) as local:
            with state.lock:
                _check_conflicts(state, compound, args.owner.owner, wanted)
            found = None if local is None else local.in_the_way(wanted)
        if found is not None:
            raise _denied(found, _LOCAL)

    state.past_courteous(step, compound.wait)


def unlock(compound: Compound, args: nfs4.LOCKU4args) -> nfs4.stateid4:
    """Runs LOCKU (RFC 8881 section 18.12): unlocks a range of a lock owner; returns the new stateid of its locks.

    Raises WorkerNeeded (run again in a worker thread), OSError or Refused: NFS4ERR_INVAL (wrong range), NFS4ERR_DELAY
    (too many ranges), NFS4ERR_BAD_STATEID and others of the RFC.
    """
    wanted = _range(args.locktype, args.offset, args.length)
    node, file = _lockable(compound)
    state = state_of(compound)
    with state.mirrors.of(node, file) as local:
        with state.lock:
            mine = find(compound, args.lock_stateid, LockState)
            owned = list(_owned(state, mine.client, mine.owner, mine.file))
            for each in owned:
                # Whatever adds no range is granted, or a client could not get below its bounds again.
                if state.claims.splits(each.file, each, wanted.start, wanted.end):
                    _check_room(state, each.client, each.file, each)
            for each in owned:
                freed = each.change(state.claims, wanted.start, wanted.end, None)
                state.ranges_of_hosts.add(each.client.host, freed)
            compound.stateid = bump(mine)
        if local is not None:
            state.mirrors.unlock(local, file, wanted)
    return compound.stateid


def _lockable(compound: Compound) -> tuple[Node, bytes]:
    """Returns the current object, a regular file, and its key, if its methods may be called in this thread.

    Raises Refused (NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE) for other objects, else WorkerNeeded (run again
    in a worker thread) in the event loop, since the methods may block, unless the tree is in memory and the file has no
    more than `NFS4_OWNERS_AT_ONCE` (64) lock owners.
    """
    node, state = compound.node, state_of(compound)
    check_regular(node)
    file = compound.file_of(node)
    with state.lock:
        owners = len(state.claims.range_holders(file))
    if owners > NFS4_OWNERS_AT_ONCE or not node.tree.in_memory:
        compound.wait()
    return node, file


def _range(kind: nfs4.nfs_lock_type4, offset: int, length: int) -> Range:
    """Returns the range of a lock, exclusive if `kind` is a write lock; a length of 2**64 - 1: all from `offset` on.

    Raises Refused (NFS4ERR_INVAL) if `length` is 0, or for another length if `offset + length` exceeds 2**64 - 1.
    """
    if not length or (length != _TO_END and offset + length > _TO_END):
        raise Refused(_S.NFS4ERR_INVAL)
    exclusive = kind in {nfs4.nfs_lock_type4.WRITE_LT, nfs4.nfs_lock_type4.WRITEW_LT}
    return Range(offset, _ALL if length == _TO_END else offset + length, exclusive)


def _locker(compound: Compound, args: nfs4.LOCK4args) -> tuple[LockState | None, Open, bytes]:
    """Returns (the lock state for a LOCK, or None if it is to be made; the open named by LOCK; the lock owner's name).

    For a LOCK that names a lock state, the second item is the open of that state. Raises Refused, such as
    NFS4ERR_BAD_STATEID, for a wrong stateid. The caller holds the lock of the `State`.
    """
    locker = args.locker.value
    if not isinstance(locker, nfs4.open_to_lock_owner4):
        mine = find(compound, locker.lock_stateid, LockState)
        return mine, mine.opened, mine.owner
    opened = find(compound, locker.open_stateid, Open)
    owner = locker.lock_owner.owner
    known = opened.client.held.get((LockState, owner, opened.handle))
    return known if isinstance(known, LockState) else None, opened, owner


def _owned(state: State, client: Client, owner: bytes, file: bytes) -> Iterator[LockState]:
    """Yields the lock states of a lock owner that have ranges on a file: one for each of its filehandles.

    A file in several exports has several filehandles, but one key `file` (`Exports.file_of`); its lock states together
    are the POSIX locks of the owner. The caller holds `state.lock`, also during iteration.
    """
    return (each for each in state.claims.range_holders(file) if each.client is client and each.owner == owner)


def _check_conflicts(state: State, compound: Compound, owner: bytes, wanted: Range, *, reclaims: bool = False) -> None:
    """Raises Refused (NFS4ERR_DENIED, with the lock) if another lock on the current file conflicts with `wanted`.

    Locks of the caller's lock owner `owner` do not conflict. With `reclaims`, for a reclaim after a restart, the status
    is NFS4ERR_RECLAIM_CONFLICT. If all conflicting locks are of clients whose lease has passed, raises instead Refused
    (NFS4ERR_DELAY) if one of these clients is about to end, else InTheWay, upon which `State.past_courteous` ends the
    clients, and the caller's step runs again. The caller holds `state.lock`.
    """
    file, asks = compound.file_of(compound.node), compound.client
    found: Iterator[HeldRange[LockState]] = state.claims.range_conflicts(file, None, wanted)
    conflicts = [each for each in found if each.holder.client is not asks or each.holder.owner != owner]
    if not conflicts:
        return
    state.clients.in_the_way([each.holder.client for each in conflicts], compound.now_s)
    if reclaims:
        raise Refused(_S.NFS4ERR_RECLAIM_CONFLICT)
    holder, range_ = conflicts[0]
    raise _denied(range_, nfs4.state_owner4(holder.client.id, holder.owner))


def _denied(found: Range, owner: nfs4.state_owner4) -> Refused:
    """Returns, not raises, Refused (NFS4ERR_DENIED) with `found`, a conflicting lock of `owner`, as LOCK4denied."""
    start, end, exclusive = found
    kind = nfs4.nfs_lock_type4.WRITE_LT if exclusive else nfs4.nfs_lock_type4.READ_LT
    length = _TO_END if end == _ALL else end - start
    return Refused(_S.NFS4ERR_DENIED, nfs4.LOCK4denied(start, length, kind, owner))


def _check_room(state: State, client: Client, file: bytes, mine: LockState | None) -> None:
    """Raises Refused (NFS4ERR_DELAY) if one more LOCK or LOCKU by `mine` could exceed a bound on ranges or lock owners.

    `mine` is None for a new lock state of `client`; `file` is the file's key (`Exports.file_of`). The caller holds
    `state.lock`.
    """
    claims = state.claims
    own = 0 if mine is None else len(claims.ranges(file, mine))
    if (
        own + _SPLIT > NFS4_RANGES_MAX
        or state.ranges_of_hosts.left(client.host) < _SPLIT
        or (not own and len(claims.range_holders(file)) >= NFS4_RANGE_OWNERS_MAX)
    ):
        raise Refused(_S.NFS4ERR_DELAY)
