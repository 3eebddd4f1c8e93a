"""Byte-range locks: LOCK, LOCKT, LOCKU (RFC 8881 sections 18.10 to 18.12).

The locks of one lock owner on one file have one stateid. They are advisory, as those of POSIX are, and nobody waits for
one here: a client that wants to wait asks again.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.nfs.export.claims import READ, WRITE, Claims, HeldRange, Range
from rpcrdma.nfs.export.tree import Node, OpenFile
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.clients import Client, Held
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.opens import Open, check_regular, find
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.nfs.v4.server.stateids import bump
from rpcrdma.nfs.v4.state_limits import NFS4_RANGE_OWNERS_MAX, NFS4_RANGES_MAX, NFS4_RANGES_TOTAL_MAX

__all__ = ["LockState", "lock", "lock_test", "unlock"]

_S = nfs4.nfsstat4
_ALL = 1 << 64
_TO_END = _ALL - 1
"""The length of a range that goes to the end of all files."""
_LOCAL = nfs4.state_owner4(0, b"a process of the server")
"""The owner of locks that no client has."""
_SPLIT = 2
"""Ranges that a change of one range adds at most."""


class LockState(Held):
    """The locks of a lock owner on a file; `opened` is the open that they were first made with."""

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
        """See `Held.release`."""
        self.change(claims, 0, _ALL, None)
        if self.opened.parts is not None:
            self.opened.parts.discard(self)

    def change(self, claims: Claims[Any, Any], start: int, end: int, exclusive: bool | None) -> None:
        """Locks the octets from `start` to before `end`, or unlocks them if `exclusive` is None; counts the ranges.

        The caller has looked for conflicts.
        """
        before = claims.range_count
        claims.change_range(self.file, self, start, end, exclusive)
        added = claims.range_count - before
        self.ranges += added
        self.client.ranges += added

    @property
    def count(self) -> int:
        """See `Held.count`."""
        return self.ranges

    def io_file(self, access: int) -> OpenFile | None:
        """See `Held.io_file`: that of the open."""
        return self.opened.io_file(access)


def lock(compound: Compound, args: nfs4.LOCK4args) -> nfs4.LOCK4resok:
    """LOCK: locks a range for a lock owner (RFC 8881 section 18.10)."""
    wanted = _range(args.locktype, args.offset, args.length)
    node = _lockable(compound)
    file = compound.file_of(node)
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
        _check_conflicts(state, compound, mine, wanted, reclaims=args.reclaim)
        _check_room(state, client, opened.file, mine)
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
        mine.change(state.claims, *wanted)
        return stateid

    def step() -> nfs4.stateid4:
        with state.mirrors.of(node, file) as local:
            with state.lock:
                checked()
            if local is not None and not local.change(wanted):
                raise _denied(local.in_the_way(wanted) or wanted, _LOCAL)
            try:
                with state.lock:
                    return grant()
            except BaseException:
                if local is not None:
                    state.mirrors.unlock(local, file, wanted)
                raise

    compound.stateid = state.past_courteous(step, compound.wait)
    return nfs4.LOCK4resok(compound.stateid)


def lock_test(compound: Compound, args: nfs4.LOCKT4args) -> None:
    """LOCKT: raises Refused (DENIED) with a lock in the way of a range, if there is one (RFC 8881 section 18.11)."""
    wanted = _range(args.locktype, args.offset, args.length)
    node = _lockable(compound)
    file = compound.file_of(node)
    state = state_of(compound)
    client: Client = compound.client

    def step() -> None:
        if state.claims.in_grace:
            raise Refused(_S.NFS4ERR_GRACE)
        with state.mirrors.of(node, file) as local:
            with state.lock:
                mine = client.held.get((LockState, args.owner.owner, node.handle))
                _check_conflicts(state, compound, mine, wanted)
            found = None if local is None else local.in_the_way(wanted)
        if found is not None:
            raise _denied(found, _LOCAL)

    state.past_courteous(step, compound.wait)


def unlock(compound: Compound, args: nfs4.LOCKU4args) -> nfs4.stateid4:
    """LOCKU: unlocks a range of a lock owner (RFC 8881 section 18.12)."""
    wanted = _range(args.locktype, args.offset, args.length)
    node = _lockable(compound)
    file = compound.file_of(node)
    state = state_of(compound)
    with state.mirrors.of(node, file) as local:
        with state.lock:
            mine = find(compound, args.lock_stateid, LockState)
            # Whatever adds no range is granted, or a client could not get below its bounds again.
            if state.claims.splits(mine.file, mine, wanted.start, wanted.end):
                _check_room(state, mine.client, mine.file, mine)
            mine.change(state.claims, wanted.start, wanted.end, None)
            compound.stateid = bump(mine)
        if local is not None:
            state.mirrors.unlock(local, file, wanted)
    return compound.stateid


def _lockable(compound: Compound) -> Node:
    """The current object, a regular file, in a thread that may wait for its file system."""
    node = compound.node
    check_regular(node)
    if not node.tree.in_memory:
        compound.wait()
    return node


def _range(kind: nfs4.nfs_lock_type4, offset: int, length: int) -> Range:
    """The range of a call; INVAL if it has no octets, or a length that leads beyond 2^64-1."""
    if not length or (length != _TO_END and offset + length > _TO_END):
        raise Refused(_S.NFS4ERR_INVAL)
    exclusive = kind in {nfs4.nfs_lock_type4.WRITE_LT, nfs4.nfs_lock_type4.WRITEW_LT}
    return Range(offset, _ALL if length == _TO_END else offset + length, exclusive)


def _locker(compound: Compound, args: nfs4.LOCK4args) -> tuple[LockState | None, Open, bytes]:
    """The lock state, if there is one, its open and its owner."""
    locker = args.locker.value
    if not isinstance(locker, nfs4.open_to_lock_owner4):
        mine = find(compound, locker.lock_stateid, LockState)
        return mine, mine.opened, mine.owner
    opened = find(compound, locker.open_stateid, Open)
    owner = locker.lock_owner.owner
    known = opened.client.held.get((LockState, owner, opened.handle))
    return known if isinstance(known, LockState) else None, opened, owner


def _check_conflicts(
    state: State, compound: Compound, mine: Held | None, wanted: Range, *, reclaims: bool = False
) -> None:
    """Raises Refused (DENIED) with the first lock in the way; `InTheWay` if all of them are of courteous clients."""
    conflicts: list[HeldRange[LockState]] = list(
        state.claims.range_conflicts(compound.file_of(compound.node), mine, wanted)
    )
    if not conflicts:
        return
    state.clients.in_the_way([each.holder.client for each in conflicts], compound.now_s)
    if reclaims:
        raise Refused(_S.NFS4ERR_RECLAIM_CONFLICT)
    holder, range_ = conflicts[0]
    raise _denied(range_, nfs4.state_owner4(holder.client.id, holder.owner))


def _denied(found: Range, owner: nfs4.state_owner4) -> Refused:
    """The refusal that names a lock in the way."""
    start, end, exclusive = found
    kind = nfs4.nfs_lock_type4.WRITE_LT if exclusive else nfs4.nfs_lock_type4.READ_LT
    length = _TO_END if end == _ALL else end - start
    return Refused(_S.NFS4ERR_DENIED, nfs4.LOCK4denied(start, length, kind, owner))


def _check_room(state: State, client: Client, file: bytes, mine: LockState | None) -> None:
    """Raises Refused (DELAY) if one more change of a range could exceed a bound."""
    claims = state.claims
    own = 0 if mine is None else len(claims.ranges(file, mine))
    if (
        own + _SPLIT > NFS4_RANGES_MAX
        or client.ranges + _SPLIT > NFS4_RANGES_TOTAL_MAX - claims.range_count
        or (not own and claims.range_holders(file) >= NFS4_RANGE_OWNERS_MAX)
    ):
        raise Refused(_S.NFS4ERR_DELAY)
