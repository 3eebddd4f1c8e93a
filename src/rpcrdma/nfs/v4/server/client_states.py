"""The states of a client's record at a server of NFS version 4.1, and the treatment of introductions, as tables."""

from __future__ import annotations

import enum
from typing import Final

from rpcrdma.nfs.v4.nfs4 import nfsstat4

__all__ = ["TRANSITIONS", "VERDICTS", "ClientEvent", "ClientState", "Known", "Verdict"]

_S = nfsstat4


class ClientState(enum.Enum):
    """The state of a server's record of a client."""

    # In C, since each SEQUENCE looks into tables by these.
    __hash__ = object.__hash__

    UNCONFIRMED = "unconfirmed"
    """Made by EXCHANGE_ID; the client has no session yet."""
    CONFIRMED = "confirmed"
    """The client has created a session; its lease runs."""
    COURTEOUS = "courteous"
    """The lease has passed; the client keeps its state, up to 24 h, until another caller needs that, or its room."""
    EXPIRING = "expiring"
    """The client is being deleted from the recovery database, or has restarted and its states end; then it ends. If the
    disk fails, it becomes courteous instead."""
    GONE = "gone"


class ClientEvent(enum.Enum):
    """The events that change the state of a server's record of a client."""

    # In C, since each SEQUENCE looks into tables by these.
    __hash__ = object.__hash__

    CONFIRM = "CREATE_SESSION"
    RENEW = "SEQUENCE"
    LEASE_PASSES = "the lease passes"
    EVICT = "a conflict, 24 h, or no room"
    """Ends a client whose lease has passed: another caller needs its state or its room, it has been silent for 24 h, it
    holds nothing, or an administrator revokes its state."""
    CROWD_OUT = "no room, or another principal, and it holds nothing"
    """Ends a client that has a lease and holds nothing: a new client needs its room or the name of its owner."""
    RESTART = "CREATE_SESSION of the next incarnation"
    """The client has restarted: the states of its earlier incarnation end, with or without a lease."""
    UNDELETED = "the disk has failed"
    """The disk has not deleted an EXPIRING client from the recovery database: the client stays."""
    END = "end"
    """The server drops the record: the client has ended it (DESTROY_CLIENTID) or is deleted from the recovery database,
    or another record takes its place."""


TRANSITIONS: Final[dict[tuple[ClientState, ClientEvent], ClientState]] = {
    (ClientState.UNCONFIRMED, ClientEvent.CONFIRM): ClientState.CONFIRMED,
    (ClientState.UNCONFIRMED, ClientEvent.LEASE_PASSES): ClientState.GONE,
    (ClientState.CONFIRMED, ClientEvent.RENEW): ClientState.CONFIRMED,
    (ClientState.CONFIRMED, ClientEvent.LEASE_PASSES): ClientState.COURTEOUS,
    (ClientState.COURTEOUS, ClientEvent.RENEW): ClientState.CONFIRMED,
    (ClientState.COURTEOUS, ClientEvent.EVICT): ClientState.EXPIRING,
    (ClientState.CONFIRMED, ClientEvent.CROWD_OUT): ClientState.EXPIRING,
    (ClientState.CONFIRMED, ClientEvent.RESTART): ClientState.EXPIRING,
    (ClientState.COURTEOUS, ClientEvent.RESTART): ClientState.EXPIRING,
    (ClientState.EXPIRING, ClientEvent.UNDELETED): ClientState.COURTEOUS,
    **{(state, ClientEvent.END): ClientState.GONE for state in ClientState if state is not ClientState.GONE},
}
"""The next state by state and event; a pair that is missing is an error of this server."""


class Known(enum.Enum):
    """The result of comparing an EXCHANGE_ID with the confirmed record of the same client owner, if there is one."""

    NONE = "none"
    SAME = "same verifier and principal"
    RESTARTED = "other verifier"
    FOREIGN = "other principal"
    FOREIGN_RESTARTED = "other verifier and principal"
    """Another verifier alone counts as this, too, if the client has SP4_MACH_CRED and the call no integrity: the call
    does not prove a restart."""
    AWAITED = "another principal may reclaim the owner's state"
    """In the grace period, with or without a confirmed record: the recovery database has the owner with another
    principal, whose client may still reclaim."""


class Verdict(enum.Enum):
    """The treatment of an EXCHANGE_ID; if the value is a status, the operation fails with it."""

    ADD = "add"
    """A new unconfirmed record is made, in place of an unconfirmed one of the owner; the confirmed one stays."""
    KEEP = "keep"
    """The confirmed record is that of the client."""
    COLLIDE = "collide"
    """Fails with NFS4ERR_CLID_INUSE if the confirmed record has state and a lease, else a new record takes its
    place."""
    WAIT = _S.NFS4ERR_DELAY
    """Not CLID_INUSE, which Linux takes for final: the principal of its machine may have changed since the last run."""
    NOENT = _S.NFS4ERR_NOENT
    NOT_SAME = _S.NFS4ERR_NOT_SAME
    PERM = _S.NFS4ERR_PERM


VERDICTS: Final[dict[tuple[bool, Known], Verdict]] = {
    (False, Known.NONE): Verdict.ADD,
    (False, Known.SAME): Verdict.KEEP,
    (False, Known.RESTARTED): Verdict.ADD,
    (False, Known.FOREIGN): Verdict.COLLIDE,
    (False, Known.FOREIGN_RESTARTED): Verdict.COLLIDE,
    (False, Known.AWAITED): Verdict.WAIT,
    (True, Known.NONE): Verdict.NOENT,
    (True, Known.SAME): Verdict.KEEP,
    (True, Known.RESTARTED): Verdict.NOT_SAME,
    (True, Known.FOREIGN): Verdict.PERM,
    (True, Known.FOREIGN_RESTARTED): Verdict.NOT_SAME,
    (True, Known.AWAITED): Verdict.WAIT,
}
"""The treatment by whether EXCHANGE_ID asks for an update of the confirmed record, and by that record (RFC 8881 section
18.35.4)."""
