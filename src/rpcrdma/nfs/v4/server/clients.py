"""The clients of a server of NFS version 4.1: introduction, lease and end (RFC 8881 section 2.4).

A client introduces itself by EXCHANGE_ID, with an owner string and a verifier that changes when the client restarts.
Its record stays unconfirmed until CREATE_SESSION, beside the record of the owner's earlier incarnation, if there is
one. `client_states` has the tables.

A client whose lease has passed keeps its state as long as nobody else wants it: it is courteous. To end a courteous
client takes a write to the disk. The caller of these methods holds the lock of the `State`, and releases it for that
write: a method raises `InTheWay` with the clients that have to end first, and the caller tries again once they have
ended (`State.settle`). A client with state that has restarted is ended in the same way, as many states end in steps.
"""

from __future__ import annotations

import abc
import functools
import operator
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from rpcrdma.nfs.export.claims import READ, Claims
from rpcrdma.nfs.export.tree import Lease, Node, OpenFile
from rpcrdma.nfs.v4.nfs4 import (
    SEQ4_STATUS_ADMIN_STATE_REVOKED,
    SEQ4_STATUS_RECALLABLE_STATE_REVOKED,
    CREATE_SESSION4resok,
    nfsstat4,
)
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_identity import ClientIdentity
from rpcrdma.nfs.v4.server.client_states import TRANSITIONS, VERDICTS, ClientEvent, ClientState, Known, Verdict
from rpcrdma.nfs.v4.server.recovery import ClientRow, Grace
from rpcrdma.nfs.v4.state_limits import (
    NFS4_CLIENTS_MAX,
    NFS4_COURTESY_S,
    NFS4_UNCONFIRMED_CLIENTS_MAX,
)
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.host_shares import HostShares, names_of_host

__all__ = ["Client", "ClientTable", "Delegation", "Held", "Holdings", "InTheWay", "Unrecorded"]

_S = nfsstat4
_COURTEOUS = ClientState.COURTEOUS


class Held(abc.ABC):
    """A state of a client on a file, with a stateid: an open, the locks of a lock owner, or a delegation.

    `other` is that field of the stateid (12 octets), `owner` the owner's name, empty for a delegation, `handle` the
    filehandle, and `file` the key of the file in `Claims`, the server's table of claims, the same for all filehandles.
    """

    COUNTED_AS: ClassVar[str]
    """The field of `Holdings` in which states of this class are counted."""
    __slots__ = ("client", "file", "handle", "lost", "other", "owner", "parts", "seqid")

    def __init__(self, client: Client, other: bytes, owner: bytes, handle: bytes, file: bytes) -> None:
        self.client = client
        self.other = other
        self.seqid = 1
        self.owner = owner
        """The client's name for the open owner or lock owner; empty for a delegation."""
        self.handle = handle
        self.file = file
        """The key of the file in `Claims`, the same for all its filehandles."""
        self.parts: set[Held] | None = None
        """The states that end with this one, such as the locks of an open; None: there has been none."""
        self.lost: nfsstat4 | None = None
        """The status of the stateid from a revocation until the client frees it; None: the state is not revoked."""

    @property
    def key(self) -> tuple[type[Held], bytes, bytes]:
        """The key in `Client.held`: (class, owner, filehandle); once revoked, (class, `other` of the stateid, b"")."""
        return (type(self), self.owner, self.handle) if self.lost is None else (type(self), self.other, b"")

    @property
    def count(self) -> int:
        """The amount by which this state counts in `Holdings`: the ranges of a lock state, 1 for others."""
        return 1

    @abc.abstractmethod
    def release(self, claims: Claims[Any, Any]) -> None:
        """Removes this state's share reservation, ranges or delegation from `claims`, whose lock the caller holds."""

    def take_files(self) -> object:
        """Takes the open files out of a state that is revoked; they close with the last reference to the result.

        The caller drops the result after it has released the lock. Without files the result is None.
        """
        return None

    @abc.abstractmethod
    def io_file(self, access: int) -> OpenFile | None:
        """Returns the file open for `access`, `claims.READ` or `claims.WRITE`; None if it is not open for this."""

    @abc.abstractmethod
    def opener(self, access: int) -> Credential:
        """Returns the credential of the call that last opened the file of `io_file(access)`, which must not be None."""


@dataclass(slots=True)
class Holdings:
    """The numbers of opens, locked ranges and delegations that clients hold, revoked ones not counted."""

    opens: int = 0
    locks: int = 0
    """The number of locked ranges."""
    delegations: int = 0

    def add(self, held: Held) -> None:
        """Adds a state's `count` to the number of opens, locked ranges or delegations; no effect if it is revoked."""
        if held.lost is None:
            setattr(self, held.COUNTED_AS, getattr(self, held.COUNTED_AS) + held.count)


class Delegation(Held):
    """A read delegation of a client on a file; `delegations.delegate` makes it.

    `other` has the 12 octets of the stateid; `node` is the file, `file` its key in `Claims`, `reader` the file open for
    reading by `credential`, and `lease` reports local writers.
    """

    COUNTED_AS = "delegations"
    __slots__ = ("asked", "credential", "lease", "node", "reader", "recalled_s")

    def __init__(
        self,
        client: Client,
        other: bytes,
        node: Node,
        file: bytes,
        reader: OpenFile,
        lease: Lease,
        credential: Credential,
    ) -> None:
        super().__init__(client, other, b"", node.handle, file)
        self.credential = credential
        self.node: Node | None = node
        """The file, which the client may use by its filehandle also after the last name is removed; None once
        revoked."""
        self.reader: OpenFile | None = reader
        self.lease: Lease | None = lease
        self.recalled_s: float | None = None
        """The time at which the recall began, in seconds of a monotonic clock; None: the delegation is not recalled."""
        self.asked = False
        """Whether the client has confirmed a recall."""

    def release(self, claims: Claims[Any, Any]) -> None:
        """Removes the delegation from `claims`, whose lock the caller holds."""
        claims.undelegate(self.file, self)

    def take_files(self) -> object:
        """Takes file and lease out of a revoked delegation; they close with the last reference to the result."""
        files, self.node, self.reader, self.lease = (self.node, self.reader, self.lease), None, None, None
        return files

    def io_file(self, access: int) -> OpenFile | None:
        """Returns the open file for `access` equal to `claims.READ`; None for `claims.WRITE`."""
        return self.reader if access == READ else None

    def opener(self, _access: int) -> Credential:
        """Returns the credential of the call that was given the delegation."""
        return self.credential


class Client:
    """The server's record of one incarnation of a client, from its EXCHANGE_ID to its end; `ClientTable` makes it.

    `number` is the client id, `introduction` the identity, and `now_s` the monotonic time in seconds.
    """

    __slots__ = (
        "created", "delegations", "held", "host", "id", "introduction", "lost", "lost_flags",
        "reclaim_complete", "recorded", "renewed_s", "sequence", "sessions", "state",
    )  # fmt: skip

    def __init__(self, number: int, introduction: ClientIdentity, now_s: float) -> None:
        self.id = number
        self.introduction = introduction
        self.host = names_of_host(introduction.address)
        """The names under which the client's host counts in `HostShares`."""
        self.state = ClientState.UNCONFIRMED
        self.renewed_s = now_s
        """The time at which the lease began, in seconds of a monotonic clock."""
        self.sequence = 0
        """The sequence number of the last CREATE_SESSION neither put off nor misordered; 0 before the first."""
        self.created: CREATE_SESSION4resok | nfsstat4 = _S.NFS4ERR_SEQ_MISORDERED
        """The result of that CREATE_SESSION, for a repeat; or the status of its refusal: a repeat is judged anew."""
        self.sessions: set[bytes] = set()
        self.held: dict[tuple[type[Held], bytes, bytes], Held] = {}
        """The client's states by `Held.key`, revoked ones included."""
        self.delegations = 0
        """The number of delegations among these states."""
        self.lost: dict[int, int] = {}
        """The number of revoked states whose stateids the client has not freed, by the flags of SEQUENCE that report
        them."""
        self.lost_flags = 0
        """The union of these flags (RFC 8881 section 18.46.3)."""
        self.reclaim_complete = False
        """Whether the client has sent RECLAIM_COMPLETE, so that it may make new opens and locks."""
        self.recorded = False
        """Whether the recovery database has `row`."""

    def move(self, event: ClientEvent) -> None:
        """Changes the attribute `state` by `TRANSITIONS`; raises KeyError if the present state forbids `event`."""
        self.state = TRANSITIONS[self.state, event]

    @property
    def row(self) -> ClientRow:
        """The row of this incarnation of the client in the recovery database."""
        who = self.introduction
        return ClientRow(who.owner, who.verifier, who.principal)

    @property
    def unaware(self) -> bool:
        """Whether the client has yet to free a stateid that an administrator revoked."""
        return bool(self.lost_flags & SEQ4_STATUS_ADMIN_STATE_REVOKED)

    @property
    def revoked(self) -> int:
        """The number of states that an administrator revoked, and whose stateids the client has yet to free."""
        return sum(count for flags, count in self.lost.items() if flags & SEQ4_STATUS_ADMIN_STATE_REVOKED)

    def count_lost(self, held: Held, change: int) -> None:
        """Counts `held`, a revoked state, in `lost` (`change` 1) or no longer (-1), and updates `lost_flags`."""
        flags = SEQ4_STATUS_ADMIN_STATE_REVOKED if held.lost is _S.NFS4ERR_ADMIN_REVOKED else 0
        if isinstance(held, Delegation):
            # Linux checks its delegations for this flag alone, and would keep using lost ones.
            flags |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED
        self.lost[flags] = self.lost.get(flags, 0) + change
        if not self.lost[flags]:
            del self.lost[flags]
        self.lost_flags = functools.reduce(operator.or_, self.lost, 0)


class InTheWay(Exception):
    """Raised where `clients` have to end before a call can go on.

    `event` is EVICT for clients without a lease, whose states conflict with the call or whose room it needs; RESTART
    for the earlier incarnation of the caller, which has state; CROWD_OUT for a client with a lease that holds nothing,
    whose room or name it needs. `State.past_courteous` catches the exception without holding the lock of the
    `State`, ends `clients`, and runs the step again.
    """

    def __init__(self, clients: Iterable[Client], event: ClientEvent = ClientEvent.EVICT) -> None:
        self.clients = list(clients)
        self.event = event


class Unrecorded(Exception):
    """Raised where `client`, which the recovery database does not have, would get an open, a lock or a delegation.

    `State.past_courteous` catches the exception without holding the lock of the `State`, writes the client to
    that database, and runs the step again.
    """

    def __init__(self, client: Client) -> None:
        self.client = client


class ClientTable:
    """The records of all clients of a server of NFS version 4.1. The caller of each method holds the lock of the state.

    Args:
        boot: the number of this run of the server, the upper 32 bits of each client id.
        lease_s: the seconds for which a lease lasts.
        grace: the clients of the last run that may reclaim.
        on_end: is called with each client that ends, to drop its sessions and its state.
    """

    def __init__(self, boot: int, lease_s: float, grace: Grace, on_end: Callable[[Client], None]) -> None:
        self.lease_s = lease_s
        self._grace = grace
        self._on_end = on_end
        self.by_id: dict[int, Client] = {}
        self._boot = boot
        self._made = 0
        self.shares = HostShares(NFS4_CLIENTS_MAX)
        """The records of clients by their hosts."""
        self._room_for: tuple[bytes, Client | None] = b"", None
        """The owner of the newest client that had to wait for the end of another one, and that other client."""
        self._confirmed: dict[bytes, Client] = {}
        """The confirmed record of each owner, courteous and expiring ones included."""
        self._unconfirmed: dict[bytes, Client] = {}
        """The unconfirmed record of each owner, the oldest first."""
        self._leases: OrderedDict[Client, None] = OrderedDict()
        """The clients with a lease, in the order in which their leases pass."""
        self._courteous: OrderedDict[Client, None] = OrderedDict()
        """Courteous clients, in the order in which they became so, by the end of the lease or by `stay`."""

    def find(self, number: int) -> Client:
        """Returns the client with the client id `number`.

        Raises Refused: NFS4ERR_STALE_CLIENTID if there is none, NFS4ERR_DELAY if the client is about to end.
        """
        client = self.by_id.get(number)
        if client is None:
            raise Refused(_S.NFS4ERR_STALE_CLIENTID)
        if client.state is ClientState.EXPIRING:
            raise Refused(_S.NFS4ERR_DELAY)
        return client

    def exchange_id(self, introduction: ClientIdentity, now_s: float, *, update: bool = False) -> Client:
        """Returns the confirmed record of a client, or a new unconfirmed one, for EXCHANGE_ID; may end other records.

        `update` says whether the client asks for an update of its confirmed record; `now_s` is the monotonic time in
        seconds. Raises Refused: NFS4ERR_CLID_INUSE (another principal has state and a lease); with `update`
        NFS4ERR_NOENT, NFS4ERR_NOT_SAME or NFS4ERR_PERM (RFC 8881 section 18.35.4); NFS4ERR_DELAY if there is no room,
        the record is about to end, or another principal may reclaim the state of this client owner in a grace period.
        Raises InTheWay if other clients have to end first: ones without a lease, or one that holds nothing, to make
        room or since it has this owner and another principal.
        """
        self.pass_leases(now_s)
        confirmed = self._confirmed.get(introduction.owner)
        if confirmed is not None and confirmed.state is ClientState.EXPIRING:
            raise Refused(_S.NFS4ERR_DELAY)
        verdict = VERDICTS[update, self._compare(confirmed, introduction)]
        if isinstance(verdict.value, nfsstat4):
            raise Refused(verdict.value)
        if confirmed is not None and verdict is Verdict.KEEP:
            return confirmed
        collides = confirmed if verdict is Verdict.COLLIDE else None
        if collides is not None:
            self._check_idle(collides)
        # They end as soon as the new record has room, which one of the same host leaves to it.
        replaced = [each for each in (collides, self._unconfirmed.get(introduction.owner)) if each is not None]
        client = Client(self._next_id(), introduction, now_s)
        (owner, ended), self._room_for = self._room_for, (b"", None)
        # One client gives way to one: the share of a host that has more shrinks as others come.
        has_room = ended is not None and owner == introduction.owner and ended.state is ClientState.GONE
        has_room = has_room or any(each.host == client.host for each in replaced)
        if not has_room or self.shares.used - len(replaced) >= self.shares.most:
            self._make_room(client.host, introduction.owner)
        if collides is not None and collides.introduction.principal != introduction.principal:
            # Nobody else would delete its row, for which the next run would wait.
            courteous = collides.state is _COURTEOUS
            raise InTheWay([collides], ClientEvent.EVICT if courteous else ClientEvent.CROWD_OUT)
        for each in replaced:
            if each.state is not ClientState.GONE:
                self.remove(each)
        if len(self._unconfirmed) >= NFS4_UNCONFIRMED_CLIENTS_MAX:
            self._end_unconfirmed(None)
        self.by_id[client.id] = self._unconfirmed[introduction.owner] = client
        self.shares.add(client.host, 1)
        return client

    def confirm(self, client: Client, now_s: float) -> None:
        """Confirms `client`, whose lease begins at `now_s`, and ends the earlier confirmed record of the same owner.

        Raises Refused (NFS4ERR_DELAY) if that record is about to end. If it has state, raises InTheWay: it has to end
        first, and the caller tries again; but Refused (NFS4ERR_CLID_INUSE) if it has state, a lease and another
        principal. `now_s` is in monotonic seconds.
        """
        owner = client.introduction.owner
        old = self._confirmed.get(owner)
        if old is not None:
            if old.state is ClientState.EXPIRING:
                raise Refused(_S.NFS4ERR_DELAY)
            if old.introduction.principal != client.introduction.principal:
                self._check_idle(old)
            elif old.held:
                raise InTheWay([old], ClientEvent.RESTART)
            self.remove(old)
        del self._unconfirmed[owner]
        client.move(ClientEvent.CONFIRM)
        client.renewed_s = now_s
        client.recorded = self._grace.knows(client.row)
        self._confirmed[owner] = client
        self._leases[client] = None

    def renew(self, client: Client, now_s: float) -> None:
        """Renews a client's lease at `now_s` (monotonic seconds); a courteous one (lease passed) becomes confirmed."""
        if client.state is _COURTEOUS:
            del self._courteous[client]
            self._leases[client] = None
            client.move(ClientEvent.RENEW)
        else:
            # A confirmed client stays confirmed.
            self._leases.move_to_end(client)
        client.renewed_s = now_s

    def pass_leases(self, now_s: float) -> None:
        """Makes clients courteous whose lease has passed at `now_s` (monotonic seconds); ends unconfirmed ones instead.

        A courteous client keeps its opens, locks and delegations until another caller needs them, 24 h at most.
        """
        until_s = now_s - self.lease_s
        while self._leases and (client := next(iter(self._leases))).renewed_s < until_s:
            del self._leases[client]
            client.move(ClientEvent.LEASE_PASSES)
            self._courteous[client] = None
        while self._unconfirmed and (client := next(iter(self._unconfirmed.values()))).renewed_s < until_s:
            self.remove(client, ClientEvent.LEASE_PASSES)

    def in_the_way(self, clients: Iterable[Client], now_s: float) -> None:
        """Raises InTheWay if the leases of all `clients`, whose states conflict with a call, have passed at `now_s`.

        Returns if one of them has a lease: the conflict stays. Else, if one is about to end, raises Refused
        (NFS4ERR_DELAY) instead: the conflict may end with it. `clients` is not empty; `now_s` is in monotonic seconds.
        """
        self.pass_leases(now_s)
        found = set(clients)
        states = {client.state for client in found}
        if states <= {ClientState.COURTEOUS, ClientState.EXPIRING}:
            if ClientState.EXPIRING in states:
                raise Refused(_S.NFS4ERR_DELAY)
            raise InTheWay(found)

    def overdue(self, now_s: float) -> list[Client]:
        """Returns the courteous clients (lease passed) that have been silent for over `NFS4_COURTESY_S` at `now_s`."""
        return [client for client in self._courteous if client.renewed_s < now_s - NFS4_COURTESY_S]

    def evict(self, client: Client, event: ClientEvent = ClientEvent.EVICT) -> bool:
        """Makes a client EXPIRING if `event`, one of those of `InTheWay`, applies to it; returns whether it does."""
        if (client.state, event) not in TRANSITIONS or (event is ClientEvent.CROWD_OUT and not self._is_idle(client)):
            return False
        self._leases.pop(client, None)
        self._courteous.pop(client, None)
        client.move(event)
        return True

    def stay(self, client: Client) -> None:
        """Makes an EXPIRING client courteous (it keeps its state), as the disk did not delete it from the database."""
        client.move(ClientEvent.UNDELETED)
        self._courteous[client] = None

    def remove(self, client: Client, event: ClientEvent = ClientEvent.END) -> None:
        """Drops the record of a client, with its sessions and states; leaves the recovery database as it is.

        `event` only moves the client's state to GONE: LEASE_PASSES for an unconfirmed client whose lease has passed,
        END for every other client, even if its lease has passed.
        """
        client.move(event)
        self._on_end(client)
        del self.by_id[client.id]
        introduction = client.introduction
        for records in (self._confirmed, self._unconfirmed):
            if records.get(introduction.owner) is client:
                del records[introduction.owner]
        self._leases.pop(client, None)
        self._courteous.pop(client, None)
        self.shares.add(client.host, -1)

    def _compare(self, confirmed: Client | None, introduction: ClientIdentity) -> Known:
        if self._grace.awaits_other(introduction.owner, introduction.principal):
            return Known.AWAITED
        if confirmed is None:
            return Known.NONE
        known = confirmed.introduction
        same_verifier = known.verifier == introduction.verifier
        # Without integrity a call may be another one's, and does not end the state of a client with SP4_MACH_CRED (RFC
        # 8881 section 2.4.3).
        is_its_own = same_verifier or introduction.protected or known.allowed is None
        if known.principal == introduction.principal and is_its_own:
            return Known.SAME if same_verifier else Known.RESTARTED
        return Known.FOREIGN if same_verifier else Known.FOREIGN_RESTARTED

    def _next_id(self) -> int:
        while True:
            self._made = (self._made + 1) % (1 << 32)
            number = self._boot << 32 | self._made
            if number not in self.by_id:
                return number

    def _check_idle(self, old: Client) -> None:
        """Checks that `old`, the owner's record with which a new one collides, has no states, not even revoked ones.

        Else raises InTheWay, so that `old` ends first, if its lease has passed, or Refused (NFS4ERR_CLID_INUSE).
        """
        if old.held:
            if old.state is ClientState.COURTEOUS:
                raise InTheWay([old])
            raise Refused(_S.NFS4ERR_CLID_INUSE)

    def _make_room(self, host: tuple[str, ...], owner: bytes) -> None:
        """Makes room for a new record of a client owner at `host` (`Client.host`); may end an unconfirmed one.

        The bound is that of the host's share. Raises InTheWay if a client whose lease has passed, or that holds
        nothing, has to end first, or Refused (NFS4ERR_DELAY) if no client can end.
        """
        if self.shares.left(host) > 0:
            return
        # A host with its whole share gives of its own while others have room.
        name = host[-1] if self.shares.used < self.shares.most else None
        if self._end_unconfirmed(name):
            return
        for client in self._courteous:
            if name is None or name in client.host:
                self._room_for = owner, client
                raise InTheWay([client])
        # One has to do for each host: thousands may hold nothing.
        idle: dict[tuple[str, ...], Client] = {}
        for client in self._leases:
            if not client.held and client.host not in idle and self._is_idle(client):
                idle[client.host] = client
        # Of a host that has more than this one would have: nobody takes the place of one who has as few.
        held, more = self.shares.held, self.shares.held(host[-1]) + 1
        giving = [each for each in idle if held(each[-1]) > more or each[-1] == host[-1]]
        if not giving:
            raise Refused(_S.NFS4ERR_DELAY)
        found = idle[max(giving, key=lambda each: (held(each[-1]), held(each[0])))]
        self._room_for = owner, found
        raise InTheWay([found], ClientEvent.CROWD_OUT)

    def _end_unconfirmed(self, name: str | None) -> bool:
        """Ends the oldest unconfirmed record of the host that has most of them; returns False if there is none.

        Considers only hosts with `name`, an address or an IPv6 network (`names_of_host`); None: all hosts.
        """
        found = Counter([each.host for each in self._unconfirmed.values() if name is None or name in each.host])
        if not found:
            return False
        counts: Counter[str] = Counter()
        for host, count in found.items():
            for each in host:
                counts[each] += count
        most = max(found, key=lambda host: (counts[host[-1]], counts[host[0]]))
        self.remove(next(each for each in self._unconfirmed.values() if each.host == most))
        return True

    def _is_idle(self, client: Client) -> bool:
        """Returns whether a client has no opens, locks or delegations, not even revoked ones, and none to reclaim."""
        return not client.held and not self._grace.knows(client.row)
