"""The state of a server of NFS version 4.1: clients, sessions, stateids, and claims on files, under one lock.

The lock is never held during a call to the file system or a write to the disk. `State.settle` runs a step that a
courteous client may be in the way of: it first deletes that client on the disk, without holding the lock, and then
drops its claims.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.v4.nfs4 import nfsstat4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_states import ClientEvent, ClientState
from rpcrdma.nfs.v4.server.clients import (
    Client,
    ClientTable,
    Delegation,
    Held,
    Holdings,
    InTheWay,
    Unrecorded,
)
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.held_states import HeldStates, Left
from rpcrdma.nfs.v4.server.recovery import Grace, RecoveryDatabase
from rpcrdma.nfs.v4.server.sessions import SessionTable
from rpcrdma.nfs.v4.state_limits import NFS4_HELD_TOTAL_MAX, NFS4_LEASE_S, NFS4_RECALLED_FILES_MAX

__all__ = ["State", "state_of"]

T = TypeVar("T")
_S = nfsstat4


def state_of(compound: Compound) -> State:
    """Returns the state of the server that runs a COMPOUND."""
    state: State = compound.server.state
    return state


class State(HeldStates):
    """All state of clients at a server of NFS versions 4.1 and 4.2, under one lock.

    Args:
        claims: share reservations, locks and delegations on files for all versions of NFS; its lock is the state's.
        database: the recovery database: the clients that may reclaim after a restart.
        random_bytes: returns the given number of random octets, for session ids.
        now_s: the present time, in seconds of the monotonic clock that all methods take times of.
        identity: octets that no other server has: clients take servers with equal octets for one server.
        lease_s: the lease in seconds.
        held_max: the largest number of opens, lock states and delegations of all clients together.
    """

    def __init__(
        self,
        claims: Claims[Any, Any],
        database: RecoveryDatabase,
        random_bytes: Callable[[int], bytes],
        now_s: float,
        *,
        identity: bytes,
        lease_s: float = NFS4_LEASE_S,
        held_max: int = NFS4_HELD_TOTAL_MAX,
    ) -> None:
        super().__init__(claims, database.boot, held_max)
        self.identity = identity
        self.database = database
        self.grace = Grace(database.rows, lease_s, now_s)
        self.clients = ClientTable(database.boot, lease_s, self.grace, self._end)
        self.sessions = SessionTable(self.clients, random_bytes)
        claims.in_grace = bool(self.grace.waiting)
        self._disk = threading.Lock()
        """Is held while a client is written to the recovery database or deleted there; taken before `lock`."""
        self.recalls: deque[Delegation] = deque()
        """Delegations for which CB_RECALL is to be sent."""
        self.wake: Callable[[], object] = lambda: None
        """Called when `recalls` has a new delegation, in any thread; wakes the event loop of the connections."""
        self.broken: deque[bytes] = deque()
        """Files, by their keys in claims, whose leases a local writer has broken; `recall_broken` takes them out."""
        self.wake_broken: Callable[[], object] = lambda: None
        """Called when `broken` has a new file, in any thread; wakes the event loop of the connections."""
        self.recalled_files: OrderedDict[bytes, float] = OrderedDict()
        """The time of the last recall, in monotonic seconds, by the key of the file, the oldest first; bounded."""

    def settle(self, step: Callable[[], T], wait: Callable[[], None]) -> T:
        """Calls `step`, with the lock held by `locked`, until it raises neither `InTheWay` nor `Unrecorded`.

        After `InTheWay`, ends the clients that the error names; after `Unrecorded`, writes the error's client to the
        recovery database. A `step` that has raised one of these can run anew. Ending and writing may block: `wait` is
        called before, without the lock, and raises `WorkerNeeded` in the event loop, upon which a worker thread calls
        this method again. The caller does not hold the lock. Returns the result of `step`. Raises Refused
        (NFS4ERR_DELAY) if the disk has failed, and each other error of `step` and `wait`.
        """

        def locked_step() -> T:
            with self.locked():
                return step()

        return self.past_courteous(locked_step, wait)

    def past_courteous(self, step: Callable[[], T], wait: Callable[[], None]) -> T:
        """Calls `step`, without the lock, until it raises neither `InTheWay` nor `Unrecorded`; returns its result.

        After `InTheWay`, ends the clients that the error names: they are courteous (lease passed), have restarted, or
        hold nothing. After `Unrecorded`, writes the error's client to the recovery database. A `step` that has raised
        one of these can run anew. To end or write clients may block: `wait` is called before, and raises `WorkerNeeded`
        in the event loop, upon which a worker thread calls this method again. The caller does not hold the lock of the
        state, which `step` may take; the number of calls has no bound. Raises Refused (NFS4ERR_DELAY) if the disk has
        failed, and each other error of `step` and `wait`.
        """
        while True:
            try:
                return step()
            except InTheWay as found:
                wait()
                if not self.evict(found.clients, found.event):
                    raise Refused(_S.NFS4ERR_DELAY) from None
            except Unrecorded as found:
                wait()
                with self._disk:
                    self._record(found.client)

    def _record(self, client: Client) -> None:
        """Writes a client to the recovery database unless it is there; the caller holds `_disk`, and not the lock.

        No effect if the client has ended. Raises Refused (NFS4ERR_DELAY) if the disk has failed: the client asks again
        until the disk works.
        """
        if not client.recorded and client.state is not ClientState.GONE:
            if not self.database.keep(client.row):
                raise Refused(_S.NFS4ERR_DELAY)
            client.recorded = True

    def evict(
        self, clients: Iterable[Client], event: ClientEvent = ClientEvent.EVICT, *, left: Left | None = None
    ) -> bool:
        """Ends those of `clients` to which `event` applies, in the recovery database first; may block.

        EVICT applies to courteous clients (lease passed); RESTART to these and to clients with a lease, and leaves
        their rows on the disk, for the clients have restarted; CROWD_OUT to clients that have a lease and hold nothing.
        The caller does not hold the lock. With `left` the files of ended states are appended to `left`, for
        `close_ended` to close, instead of being closed. Returns False if the disk has failed; then no client ends, and
        those to which `event` applies become courteous, even with a lease; else True, also if `event` applies to none.
        """
        ended: Left = [] if left is None else left
        with self._disk:
            with self.lock:
                ending = [client for client in clients if self.clients.evict(client, event)]
            leaves = event is not ClientEvent.RESTART
            deleted = not (ending and leaves) or self.database.forget(client.row for client in ending)
            for client in ending:
                if deleted:
                    self.in_steps(self.states(client), self.drop, ended)
                with self.locked(ended):
                    if deleted:
                        if leaves:
                            self.grace.leaves(client.row)
                        self.clients.remove(client)
                    else:
                        self.clients.stay(client)
        # Without `_disk`, for which each client waits that gets its first state: a file system may hang.
        if left is None:
            self.close_ended(ended)
        return deleted

    def revoke_all(self, client: Client) -> Holdings | None:
        """Revokes all opens, locks and delegations of a client, or ends a courteous client (lease passed); may block.

        First deletes the client from the recovery database and ends its right to reclaim, also in a grace period that
        runs: it must not reclaim opens and locks that conflict with those of others by then (RFC 8881 section 8.4.3).
        `free` writes the client again. Returns the numbers of states lost, 0 for a client unconfirmed or gone; None,
        with nothing changed, if the disk has failed.
        """
        lost = Holdings()
        if client.state is ClientState.COURTEOUS:
            for held in self.states(client):
                lost.add(held)
            if not self.evict([client]):
                return None
            if client.id not in self.clients.by_id:
                return lost
            # It has renewed its lease meanwhile.
            lost = Holdings()
        left: Left = []
        with self._disk:
            with self.lock:
                # The row of an owner may be that of another incarnation.
                ours = client.state not in {ClientState.UNCONFIRMED, ClientState.GONE}
                if not ours or not (client.held or self.grace.knows(client.row)):
                    return lost
            if not self.database.forget([client.row]):
                return None
            with self.lock:
                client.recorded = False
                self.grace.leaves(client.row)

            def revoke(held: Held) -> None:
                for each in (held, *(held.parts or ())):
                    lost.add(each)
                self.revoke(held)

            self.in_steps(self.states(client), revoke, left)
            # All may have ended by the client meanwhile, or been lost before: it learns of nothing that it could free.
            if not client.unaware and client.reclaim_complete and client.held:
                with contextlib.suppress(Refused):
                    self._record(client)
        self.close_ended(left)
        return lost

    def free(self, client: Client, held: Held) -> None:
        """Drops a state of a client that an administrator revoked; may block.

        Before it drops the last such state, writes the client to the recovery database again if the client has other
        states and has sent RECLAIM_COMPLETE. Raises Refused (NFS4ERR_DELAY) if the disk has failed.
        """
        with self._disk:
            with self.lock:
                last = client.revoked == 1
            if client.reclaim_complete and last and len(client.held) > 1:
                self._record(client)
            with self.locked():
                if client.held.get(held.key) is held:
                    self.drop(held)

    def destroy(self, client: Client) -> None:
        """Ends a client at its own request (DESTROY_CLIENTID), in the recovery database first; may block.

        Raises Refused: NFS4ERR_CLIENTID_BUSY: it has sessions or state; NFS4ERR_DELAY: the disk has failed.
        """
        with self._disk:
            with self.lock:
                self._check_unused(client)
                # The row may be that of a record beside an unconfirmed one, or behind one that is gone.
                ours = client.state not in {ClientState.UNCONFIRMED, ClientState.GONE}
                # A state that it would get meanwhile waits for `_disk`.
                recorded, client.recorded = client.recorded, False
            if ours and not self.database.forget([client.row]):
                client.recorded = recorded
                raise Refused(_S.NFS4ERR_DELAY)
            with self.locked():
                self._check_unused(client)
                if ours:
                    self.grace.leaves(client.row)
                if client.state is not ClientState.GONE:
                    self.clients.remove(client)

    @staticmethod
    def _check_unused(client: Client) -> None:
        if client.sessions or client.held:
            raise Refused(_S.NFS4ERR_CLIENTID_BUSY)

    def sweep(self, now_s: float) -> None:
        """Ends leases, recalls and a grace period that are over at `now_s`; may block; to be called every few seconds.

        The caller does not hold the lock. Makes clients whose lease has passed courteous, or ends them if they are
        unconfirmed. Ends each courteous client that holds nothing, has been silent for `NFS4_COURTESY_S`, or has state
        in the way of callers without state (NFS version 3). Recalls delegations that such callers or local writers
        await; repeats recalls, and after a lease revokes the delegation. Begins with `RecoveryDatabase.begin`, which
        takes over the clients of earlier runs once (so the server already listens), and after a failed write tries the
        disk again. Closes no files, since a file system may hang: leaves them in `left`; `close_ended` closes them.
        """
        self.database.begin()
        with self.locked(self.left):
            self.clients.pass_leases(now_s)
            present = list(self.clients.by_id.values())
            in_the_way = {held.client for held in self.claims.in_the_way}
            ending = {*self.clients.overdue(now_s), *self._idle(ClientState.COURTEOUS), *in_the_way}
            self.recall([each for each in self.claims.in_the_way if isinstance(each, Delegation)], now_s)
            self.claims.in_the_way.clear()
        self.evict(ending, left=self.left)
        for client in present:
            # They may have tens of thousands of sessions together.
            with self.lock:
                self.sessions.drop_ended_connections(client)
        self._recall_again(now_s)
        self.end_grace(now_s)

    def end_soon(self, holders: Iterable[Held], now_s: float) -> bool:
        """Returns whether all `holders` have ended, or their clients have no lease at `now_s`; takes the lock.

        Clients that are ending have none. Makes clients courteous whose lease has passed: `sweep` ends them if they are
        in the way.
        """
        with self.locked():
            self.clients.pass_leases(now_s)
            left = {held.client.state for held in holders if self._held.get(held.other) is held and held.lost is None}
            return left <= {ClientState.COURTEOUS, ClientState.EXPIRING}

    def close(self) -> None:
        """Deletes clients that hold nothing from the recovery database, and closes it; may block."""
        with self._disk:
            with self.lock:
                idle = self._idle(ClientState.CONFIRMED, ClientState.COURTEOUS)
            if idle:
                self.database.forget(client.row for client in idle)
            self.database.close()

    def _idle(self, *states: ClientState) -> list[Client]:
        """Returns the clients in one of `states` that hold nothing, not even revoked states, nor may reclaim any."""
        found = (client for client in self.clients.by_id.values() if client.state in states and not client.held)
        return [client for client in found if not self.grace.knows(client.row)]

    # Recovery

    def end_grace(self, now_s: float) -> None:
        """Ends the grace period if its time is over at `now_s`; may block.

        Clients that have not ended their reclaims by RECLAIM_COMPLETE are deleted from the recovery database first:
        after another restart they could reclaim opens and locks that conflict with those of others. If the disk fails,
        the period continues.
        """
        with self._disk:
            with self.lock:
                if not self.claims.in_grace or not self.grace.is_over(now_s):
                    return
                late = list(self.grace.waiting.values())
            if not late or self.database.forget(late):
                with self.lock:
                    for client in self.clients.by_id.values():
                        if self.grace.knows(client.row):
                            client.recorded = False
                    self.grace.end()
                    self.claims.in_grace = False

    def complete_reclaim(self, client: Client, now_s: float) -> None:
        """Handles RECLAIM_COMPLETE: ends the client's right to reclaim; may block.

        Keeps the client in the recovery database if it has reclaimed something, unless it has to learn of a revocation
        (`Client.unaware`). Else deletes it there, with its earlier incarnations: no grace period has to wait for it
        after a restart. Ends the present grace period if that is over at `now_s`. Raises Refused: NFS4ERR_BADSESSION
        for an ended client; NFS4ERR_DELAY if the disk has failed.
        """
        with self._disk:
            with self.lock:
                if client.state is ClientState.GONE:
                    raise Refused(_S.NFS4ERR_BADSESSION)
                keeps = bool(client.held) and not client.unaware
                # A state that it would get meanwhile waits for `_disk`.
                recorded, client.recorded = client.recorded, client.recorded and keeps
            if keeps:
                if not self.database.begin():
                    raise Refused(_S.NFS4ERR_DELAY)
                self._record(client)
            elif not self.database.forget([client.row]):
                client.recorded = recorded
                raise Refused(_S.NFS4ERR_DELAY)
            with self.lock:
                client.reclaim_complete = True
                self.grace.leaves(client.row)
        self.end_grace(now_s)

    def check_reclaim(self, client: Client, now_s: float) -> None:
        """Checks that a client may reclaim, and prolongs the grace period from `now_s`; the caller holds the lock.

        Raises Refused (NFS4ERR_NO_GRACE) without a grace period, without earlier state, or after RECLAIM_COMPLETE.
        """
        if not self.claims.in_grace or client.reclaim_complete or not self.grace.knows(client.row):
            raise Refused(_S.NFS4ERR_NO_GRACE)
        self.grace.reclaimed(now_s)

    def check_new(self, client: Client) -> None:
        """Checks that a client may make a new open or lock, other than by a reclaim; the caller holds the lock.

        Raises Refused (NFS4ERR_GRACE) in a grace period or before RECLAIM_COMPLETE.
        """
        if self.claims.in_grace or not client.reclaim_complete:
            raise Refused(_S.NFS4ERR_GRACE)

    # Delegations

    def recall(self, delegations: Iterable[Delegation], now_s: float) -> None:
        """Begins to recall delegations at `now_s`, by adding them to `recalls`; the caller holds the lock by `locked`.

        Of those that are being recalled, revokes those whose recall began more than a lease before, and leaves the
        others. Has no effect on revoked delegations.
        """
        for each in delegations:
            if each.lost is not None:
                continue
            if each.recalled_s is None:
                each.recalled_s = now_s
                self.recalled_files[each.file] = now_s
                self.recalled_files.move_to_end(each.file)
                if len(self.recalled_files) > NFS4_RECALLED_FILES_MAX:
                    self.recalled_files.popitem(last=False)
                self._ask(each)
            elif now_s - each.recalled_s > self.clients.lease_s:
                self.revoke(each, _S.NFS4ERR_DELEG_REVOKED)

    def recall_present(self, delegations: Iterable[Delegation], now_s: float) -> None:
        """Recalls those of `delegations` that their clients still have; takes the lock.

        Delegations whose recall began more than a lease before `now_s` (monotonic seconds) are revoked instead.
        """
        with self.locked(self.left):
            self.recall([each for each in delegations if each in self.delegations], now_s)

    def lease_broke(self, file: bytes) -> None:
        """Notes that a local process wants to write or has changed the delegated file with the key `file` in `Claims`.

        For any thread, with or without the lock; the event loop then calls `recall_broken`.
        """
        self.broken.append(file)
        self.wake_broken()

    def recall_broken(self, now_s: float) -> None:
        """Recalls the delegations on files that local processes want to write or have changed; takes the lock.

        Delegations whose recall began more than a lease before `now_s` (monotonic seconds) are revoked instead.
        """
        with self.locked(self.left):
            while self.broken:
                found = self.claims.delegates(self.broken.popleft())
                self.recall([each for each in found if each.lease is not None and each.lease.broken], now_s)

    def _recall_again(self, now_s: float) -> None:
        """Recalls delegations whose return local writers await; repeats recalls that clients have not accepted.

        Revokes delegations whose recall began more than a lease before `now_s`; takes the lock.
        """
        with self.lock:
            delegations = list(self.delegations)
            recalled = [each for each in delegations if each.recalled_s is not None]
        broken = [each for each in delegations if (lease := each.lease) is not None and lease.broken]
        # Some may have come back meanwhile.
        self.recall_present(broken, now_s)
        with self.locked(self.left):
            for each in recalled:
                if each in self.delegations:
                    self.recall([each], now_s)
                    if not each.asked and each.lost is None:
                        self._ask(each)

    def _ask(self, delegation: Delegation) -> None:
        self.recalls.append(delegation)
        self.wake()

    def _end(self, client: Client) -> None:
        """Drops the sessions and the states of a client that ends; the caller holds the lock by `locked`."""
        self.sessions.destroy_all(client)
        while client.held:
            self.drop(next(iter(client.held.values())))
