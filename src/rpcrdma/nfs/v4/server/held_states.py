"""The opens, locks and delegations of all clients, by their stateids (RFC 8881 section 8.2), and their bounds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.export.lock_mirror import LockMirrors
from rpcrdma.nfs.v4.nfs4 import nfsstat4, stateid4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_states import ClientState
from rpcrdma.nfs.v4.server.clients import Client, Delegation, Held, Unrecorded
from rpcrdma.nfs.v4.state_limits import (
    NFS4_DELEGATIONS_PARTS,
    NFS4_DELEGATIONS_TOTAL_MAX,
    NFS4_ENDED_AT_ONCE,
    NFS4_HELD_MAX,
    NFS4_RANGES_TOTAL_MAX,
)
from rpcrdma.rpc.host_shares import HostShares

__all__ = ["ANONYMOUS", "BYPASS", "CURRENT", "INVALID", "HeldStates", "Left", "bump"]

_S = nfsstat4
_OTHER = struct.Struct(">IQ")
_ZEROS, _ONES = bytes(12), b"\xff" * 12
_SEQIDS: Final = 1 << 32

Left: TypeAlias = list[tuple[object, bytes | None]]
"""The work that `HeldStates.locked` has left to `HeldStates.close_ended`: in each pair an ended state, whose open files
close with it, or the key of a file whose locks for local processes are to be reduced."""
_Key: TypeAlias = tuple[int, bytes]
ANONYMOUS: Final[_Key] = (0, _ZEROS)
"""The stateid (seqid, other) of I/O without an open (RFC 8881 section 8.2.3): the anonymous stateid."""
BYPASS: Final[_Key] = (0xFFFFFFFF, _ONES)
"""The READ bypass stateid: READ with it ignores share reservations (RFC 8881 section 8.2.3)."""
CURRENT: Final[_Key] = (1, _ZEROS)
"""The special stateid that stands for the current stateid of the COMPOUND."""
INVALID: Final[_Key] = (0xFFFFFFFF, _ZEROS)
"""The invalid special stateid, which is the current stateid after CLOSE."""


class HeldStates:
    """The states of all clients at a server of NFS version 4.1: opens, lock states and delegations.

    Args:
        claims: share reservations, locks and delegations on files for all versions of NFS; its lock is that of the
            states.
        boot: the number of this run of the server, 0 to 2**32 - 1, which begins each stateid.
        held_max: the largest number of opens, lock states and delegations of all clients together.

    Attributes:
        states_of_hosts, ranges_of_hosts, delegations_of_hosts: what the clients of each host hold: opens, lock states
            and delegations, revoked ones included; locked ranges; delegations.
    """

    def __init__(self, claims: Claims[Any, Any], boot: int, held_max: int) -> None:
        self.claims = claims
        self.lock = claims.lock
        self._boot = boot
        self.states_of_hosts = HostShares(held_max)
        self.ranges_of_hosts = HostShares(NFS4_RANGES_TOTAL_MAX)
        self.delegations_of_hosts = HostShares(min(NFS4_DELEGATIONS_TOTAL_MAX, held_max // NFS4_DELEGATIONS_PARTS))
        self._made = 0
        self._held: dict[bytes, Held] = {}
        """The states of all clients, by `Held.other`."""
        self._ended: list[object] = []
        """Ended states, and files of revoked ones, whose files close when this list is dropped, without the lock."""
        self.delegations: dict[Delegation, None] = {}
        self._shrunk: set[bytes] = set()
        """Files whose locks for local processes (`mirrors`) are to be reduced when the lock is free."""
        self.cutting: set[Held] = set()
        """The opens whose files are being truncated by an OPEN, which is undone if that fails."""
        self.mirrors = LockMirrors(claims)
        """The kernel's locks by which local processes see the byte-range locks of clients."""
        self.left: Left = []
        """The files to close, and locks to reduce, that sweeps and recalls have left; `close_ended` does this work."""

    @contextmanager
    def locked(self, left: Left | None = None) -> Iterator[None]:
        """Holds the lock inside `with`, for a step in which states may end or be revoked.

        After `with`, without the lock, closes the files of these states, and reduces the kernel's locks that mirror
        their ranges for local processes; this may block. With `left` it appends these files and locks to `left`
        instead, and the caller does this work later by `close_ended`.
        """
        try:
            with self.lock:
                try:
                    yield
                finally:
                    ended, self._ended = self._ended, []
                    shrunk, self._shrunk = self._shrunk, set()
                    if left is not None:
                        while ended:
                            left.append((ended.pop(), None))
                        while shrunk:
                            left.append((None, shrunk.pop()))
        finally:
            # A file closes with its last reference.
            del ended
            for file in shrunk:
                self.mirrors.shrink(file)

    def close_ended(self, left: Left) -> None:
        """Closes the files and reduces the locks in `left`, and empties it; may block while a file system hangs.

        May be called while another thread does so, or hangs: one that hangs has a single state or file from `left`.
        """
        while True:
            try:
                ended, file = left.pop()
            except IndexError:
                return
            del ended
            if file is not None:
                self.mirrors.shrink(file)

    def in_steps(self, states: Sequence[Held], step: Callable[[Held], object], left: Left | None = None) -> None:
        """Calls `step` with the `parts` of each of `states`, such as the locks of an open, and then with that state.

        Passes over those that have ended; an error of `step` ends the calls. Holds the lock for up to 64 calls at a
        time; the caller does not hold it. Closes the files of ended states after these calls; with `left` it appends
        them to `left` instead, for `close_ended`.
        """
        with self.lock:
            # The locks of an open, which may be many, before it.
            found = [each for held in states for each in (*(held.parts or ()), held)]
        # With the last reference its file closes, which another thread does that takes it from `left`.
        del states
        found.reverse()
        while found:
            with self.locked(left):
                for _ in range(min(NFS4_ENDED_AT_ONCE, len(found))):
                    held = found.pop()
                    # It may have ended with another one, or by a call.
                    if held.client.held.get(held.key) is held:
                        step(held)
                del held

    def has_room(self, client: Client) -> bool:
        """Returns whether a client may have one more open, lock state or delegation; the caller holds the lock.

        False if the client is about to end or has ended, has `NFS4_HELD_MAX` states, or its host may have no more.
        """
        has_room = len(client.held) < NFS4_HELD_MAX and self.states_of_hosts.left(client.host) > 0
        return has_room and client.state not in {ClientState.EXPIRING, ClientState.GONE}

    def check_room(self, client: Client) -> None:
        """Raises Refused (NFS4ERR_DELAY) if `client` may have no new state (`has_room`); the caller holds the lock."""
        if not self.has_room(client):
            raise Refused(_S.NFS4ERR_DELAY)

    def new_other(self, client: Client) -> bytes:
        """Returns the field `other` of a new stateid for a client, 12 octets; the caller holds the lock.

        Raises Refused (NFS4ERR_DELAY: the client may have no further state), or Unrecorded if the client has to be
        written to the recovery database first.
        """
        self.check_recorded(client)
        self._made += 1
        return _OTHER.pack(self._boot, self._made)

    def check_recorded(self, client: Client) -> None:
        """Checks that a client may get a new state now; the caller holds the lock.

        Raises Refused (NFS4ERR_DELAY: the client may have no further state, by `has_room`), or Unrecorded if the client
        has to be written to the recovery database first.
        """
        # First: a client that has ended is written no more, and would be asked for again and again.
        self.check_room(client)
        # One that has to learn of a revocation reclaims nothing after a restart.
        if not client.recorded and not client.unaware:
            raise Unrecorded(client)

    def add(self, held: Held) -> None:
        """Enters a new open, lock state or delegation in the tables of server and client; the caller holds the lock.

        Counts it for the client's host. Leaves `claims` as they are: the caller enters the claim on the file there.
        """
        client = held.client
        self._held[held.other] = client.held[held.key] = held
        self.states_of_hosts.add(client.host, 1)
        if isinstance(held, Delegation):
            self.delegations[held] = None
            self.delegations_of_hosts.add(client.host, 1)
            client.delegations += 1

    def drop(self, held: Held) -> None:
        """Ends a state with its `parts`, such as the locks of an open, and removes them from `claims`.

        The caller holds the lock by `locked`, at whose end the files of the states close.
        """
        for part in list(held.parts or ()):
            self.drop(part)
        client = held.client
        del self._held[held.other], client.held[held.key]
        self.states_of_hosts.add(client.host, -1)
        if isinstance(held, Delegation):
            client.delegations -= 1
        if held.lost is None:
            self._release(held)
        else:
            client.count_lost(held, -1)
        self._ended.append(held)

    def drop_unlocked(self, find: Callable[[], Held], wait: Callable[[], object]) -> None:
        """Ends an open and its lock states; raises Refused (NFS4ERR_LOCKS_HELD) if one of these has locked ranges.

        `find` returns the open; it is called with the lock held, and may raise Refused. If there are more than 64 lock
        states, calls `wait` without the lock, which raises WorkerNeeded in the event loop, and then ends them in steps,
        and with them ranges that are locked meanwhile (RFC 8881 section 18.2.3). The caller does not hold the lock.
        """

        def check(held: Held) -> None:
            if self.claims.ranges(held.file, held):
                raise Refused(_S.NFS4ERR_LOCKS_HELD)

        def drop_part(held: Held) -> None:
            if held is not opened:
                self.drop(held)

        checked = False
        while True:
            with self.locked():
                opened = find()
                if len(opened.parts or ()) <= NFS4_ENDED_AT_ONCE:
                    for part in () if checked else opened.parts or ():
                        check(part)
                    self.drop(opened)
                    return
            wait()
            # All of them are looked at before the first one ends: a CLOSE that fails must not have ended some.
            if not checked:
                self.in_steps([opened], check)
                checked = True
            self.in_steps([opened], drop_part)

    def _release(self, held: Held) -> None:
        """Removes a state from `claims`, and its ranges or delegation from the counts by host and from `delegations`.

        Leaves the tables of states, and `states_of_hosts`. The caller holds the lock by `locked`, at whose end the
        kernel's locks for the ranges are reduced, and has checked that the state is not revoked: `revoke` has released
        such a state.
        """
        host = held.client.host
        ranges = len(self.claims.ranges(held.file, held))
        if ranges:
            self._shrunk.add(held.file)
            self.ranges_of_hosts.add(host, -ranges)
        if isinstance(held, Delegation):
            del self.delegations[held]
            self.delegations_of_hosts.add(host, -1)
        held.release(self.claims)

    def revoke(self, held: Held, status: nfsstat4 = _S.NFS4ERR_ADMIN_REVOKED) -> None:
        """Revokes a state with its `parts`: removes them from `claims`, and closes their files at the end of `locked`.

        The caller holds the lock by `locked`. The client learns of the revocation by the flags of SEQUENCE, finds the
        stateids by TEST_STATEID, and frees them (RFC 8881 section 8.5). Until then the states count among those of the
        client. No effect on a state that is already revoked. From now on the stateid has `status`:
        NFS4ERR_ADMIN_REVOKED, or NFS4ERR_DELEG_REVOKED if the client has not returned a recalled delegation.
        """
        if held.lost is not None:
            return
        for part in list(held.parts or ()):
            self.revoke(part, status)
        client = held.client
        del client.held[held.key]
        self._release(held)
        self._ended.append(held.take_files())
        held.lost = status
        client.held[held.key] = held
        client.count_lost(held, 1)

    def states(self, client: Client | None = None) -> list[Held]:
        """Returns the states of a client (None: of all clients), revoked ones included; takes the lock."""
        with self.lock:
            return list((self._held if client is None else client.held).values())

    def revoke_those(self, concerns: Callable[[Held], bool]) -> int:
        """Revokes each state, of any client, for which `concerns(state)` returns True, with its `parts`; may block.

        `concerns` is called without the lock, with each state that is not revoked. Returns the number of states for
        which it returned True.
        """
        found = [held for held in self.states() if held.lost is None and concerns(held)]
        self.in_steps(found, self.revoke)
        return len(found)

    def find(self, client: Client, stateid: stateid4, *, revoked: bool = False) -> Held:
        """Returns the state of a client's stateid (RFC 8881 section 8.2.4); the caller holds the lock.

        Raises Refused (NFS4ERR_BAD_STATEID: the client has no such state, or the seqid is a later one;
        NFS4ERR_OLD_STATEID: the seqid is an earlier one; NFS4ERR_ADMIN_REVOKED, NFS4ERR_DELEG_REVOKED: the state is
        revoked, and `revoked` is False).
        """
        held = self._held.get(stateid.other)
        if held is None or held.client is not client:
            raise Refused(_S.NFS4ERR_BAD_STATEID)
        if held.lost is not None and not revoked:
            raise Refused(held.lost)
        if stateid.seqid not in {0, held.seqid}:
            raise Refused(_S.NFS4ERR_OLD_STATEID if _is_older(stateid.seqid, held) else _S.NFS4ERR_BAD_STATEID)
        return held


def bump(held: Held) -> stateid4:
    """Increments the seqid of `held`, from 2**32 - 1 to 1 since 0 means the newest; returns the new stateid."""
    held.seqid = held.seqid % (_SEQIDS - 1) + 1
    return stateid4(held.seqid, held.other)


def _is_older(seqid: int, held: Held) -> bool:
    """Returns whether `seqid`, which differs from that of `held`, is an earlier one, by 32-bit serial arithmetic."""
    return (held.seqid - seqid) % _SEQIDS < _SEQIDS // 2
