"""The sessions of a server of NFS version 4.1: channels, slots and connections (RFC 8881 section 2.10).

The caller holds the lock of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from rpcrdma.limits import NFS4_COMPOUND_OPERATIONS_MAX, RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_states import ClientState
from rpcrdma.nfs.v4.server.clients import Client, ClientTable
from rpcrdma.nfs.v4.session_slots import SEQUENCES, Answer, Slot
from rpcrdma.nfs.v4.state_limits import (
    NFS4_KEPT_REPLY_OCTETS_MAX,
    NFS4_SESSIONS_MAX,
    NFS4_SLOT_OCTETS,
    NFS4_SLOTS_MAX,
    NFS4_SLOTS_OCTETS_MAX,
)
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.host_shares import HostShares
from rpcrdma.rpc.service import ReverseCaller

__all__ = ["REFUSED_ANSWERS", "BackChannel", "Nfs4Session", "SessionTable", "callback_credential"]

_S = nfs4.nfsstat4
_RUN, _EXPIRING = Answer.RUN, ClientState.EXPIRING
_FLAGS = (
    nfs4.CREATE_SESSION4_FLAG_PERSIST | nfs4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN | nfs4.CREATE_SESSION4_FLAG_CONN_RDMA
)
_BINDS = 1 << nfs4.nfs_opnum4.OP_BIND_CONN_TO_SESSION
_SESSION_ID_OCTETS = 16
_LEAST_OCTETS = 256
"""The fewest octets of a request or reply of the fore channel: less cannot hold SEQUENCE, PUTFH and GETATTR."""
_LEAST_BACK_OCTETS = 128
"""The fewest octets of a reply of the back channel, which hold those to CB_SEQUENCE and CB_RECALL."""
_LEAST_OPERATIONS = 2
_LEAST_KEPT_OCTETS = 2 << 10
"""Octets of a kept reply that are enough for each operation that must not run twice, also for LOCK."""
_PROMISED_PARTS = 1024
_BACK_SLOTS_MAX = 16
REFUSED_ANSWERS: Final = {
    Answer.DELAY: _S.NFS4ERR_DELAY,
    Answer.FALSE_RETRY: _S.NFS4ERR_SEQ_FALSE_RETRY,
    Answer.MISORDERED: _S.NFS4ERR_SEQ_MISORDERED,
}
"""The status of a SEQUENCE for each answer of its slot that refuses it."""


@dataclass(slots=True, eq=False)
class BackChannel:
    """The back channel of a session: program, credential and connection for calls to its client (CB_COMPOUND)."""

    program: int
    credential: Credential
    caller: ReverseCaller | None
    """The connection; None: the client has bound none, or it has ended."""
    minor_version: int
    """The minor version of the session, which calls carry: Linux finds a session by its id and its minor version."""
    bound: bool = field(init=False)
    """Whether the client has bound a connection at any time."""
    sequence: int = 0
    """The sequence number of the last call in slot 0, the only one in use."""

    def __post_init__(self) -> None:
        self.bound = self.caller is not None

    def bind(self, caller: ReverseCaller) -> None:
        """Makes `caller` the connection for calls to the client."""
        self.caller, self.bound = caller, True

    @property
    def alive(self) -> bool:
        """Whether there is a connection for calls to the client that has not ended."""
        return self.caller is not None and not self.caller.closed


class Nfs4Session:
    """A session of a client (RFC 8881 section 2.10), which `SessionTable` makes.

    `number`, 16 octets, becomes the attribute `id`. `fore` are the agreed attributes of the fore channel, whose slots
    it has.
    """

    __slots__ = ("back_channel", "client", "connections", "fore", "id", "promised", "reply_limits", "slots")

    def __init__(
        self,
        number: bytes,
        client: Client,
        fore: nfs4.channel_attrs4,
        back_channel: BackChannel,
    ) -> None:
        self.id = number
        self.client = client
        self.fore = fore
        self.slots: list[Slot[Any]] = [Slot() for _ in range(fore.ca_maxrequests)]
        self.promised = fore.ca_maxrequests * (fore.ca_maxresponsesize_cached + NFS4_SLOT_OCTETS)
        """The octets of slots and kept replies that the client may make the server hold."""
        whole, kept = fore.ca_maxresponsesize, fore.ca_maxresponsesize_cached
        self.reply_limits = (
            (whole, _S.NFS4ERR_REP_TOO_BIG),
            (kept, _S.NFS4ERR_REP_TOO_BIG_TO_CACHE) if kept < whole else (whole, _S.NFS4ERR_REP_TOO_BIG),
        )
        """For replies without and with a cached copy (index False, True): the most octets, and the status of a longer
        reply."""
        self.back_channel = back_channel
        self.connections: set[ReverseCaller] = set()
        """The connections that the client has bound; used only if it must bind each connection (SP4_MACH_CRED)."""


class SessionTable:
    """All sessions of a server. The caller of each method holds the lock of the state.

    Args:
        clients: the clients; `create` and `sequence` renew their leases.
        random_bytes: returns the given number of random octets, for session ids.
    """

    def __init__(self, clients: ClientTable, random_bytes: Callable[[int], bytes]) -> None:
        self._clients = clients
        self._random_bytes = random_bytes
        self._by_id: dict[bytes, Nfs4Session] = {}
        self.octets = HostShares(NFS4_SLOTS_OCTETS_MAX)
        """The octets of slots and kept replies that the clients of each host may make the server hold."""

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, number: bytes) -> Nfs4Session:
        """Returns the session with the id `number`; raises Refused (NFS4ERR_BADSESSION) if there is none."""
        session = self._by_id.get(number)
        if session is None:
            raise Refused(_S.NFS4ERR_BADSESSION)
        return session

    def create(
        self,
        args: nfs4.CREATE_SESSION4args,
        client: Client,
        principal: str,
        caller: ReverseCaller,
        now_s: float,
        *,
        minor_version: int,
    ) -> nfs4.CREATE_SESSION4resok:
        """Creates a session and confirms `client`; for a repeat, returns the earlier result (RFC 8881 section 18.36.4).

        A CREATE_SESSION with the client's next sequence number that is refused uses the number up, and changes nothing
        else; a further one with that number is judged anew. NFS4ERR_DELAY does not use it up: Linux counts up after
        each error but that. Numbers other than the last and the next are refused, with no effect. `principal` (such as
        "sys:1000"), `caller` (the connection) and `minor_version` are those of the call; `now_s` is the monotonic time
        in seconds. Raises Refused if the arguments, the sequence number or the limits of the server do not allow it, or
        InTheWay if another client, or the earlier incarnation of `client`, has to end first.
        """
        if args.csa_sequence == client.sequence:
            if not isinstance(client.created, nfs4.nfsstat4):
                return client.created
            if client.created is _S.NFS4ERR_SEQ_MISORDERED:
                raise Refused(client.created)
            # What was refused has changed nothing, and is judged again: Linux's server leaves the number free for
            # other arguments, while its client goes on to the next one.
        elif args.csa_sequence != (client.sequence + 1) % SEQUENCES:
            raise Refused(_S.NFS4ERR_SEQ_MISORDERED)
        try:
            created = self._create(args, client, principal, caller, now_s, minor_version)
        except Refused as refused:
            if refused.status is not _S.NFS4ERR_DELAY:
                client.sequence, client.created = args.csa_sequence, refused.status
            raise
        client.sequence, client.created = args.csa_sequence, created
        return created

    def _create(
        self,
        args: nfs4.CREATE_SESSION4args,
        client: Client,
        principal: str,
        caller: ReverseCaller,
        now_s: float,
        minor_version: int,
    ) -> nfs4.CREATE_SESSION4resok:
        """Creates a session and returns the result; `create` has checked the sequence number before.

        `principal` (such as "sys:1000"), `caller` (the connection) and `minor_version` are those of the call; `now_s`
        is the monotonic time in seconds. Raises Refused if the arguments or the limits of the server do not allow it,
        or InTheWay if another client, or the earlier incarnation of `client`, has to end first.
        """
        if args.csa_flags & ~_FLAGS:
            raise Refused(_S.NFS4ERR_INVAL)
        # A confirmed client may create sessions by any principal, unless it has asked for protection (SP4_MACH_CRED).
        unconfirmed = client.state is ClientState.UNCONFIRMED
        if unconfirmed and client.introduction.principal != principal:
            raise Refused(_S.NFS4ERR_CLID_INUSE)
        fore = self._fore(args.csa_fore_chan_attrs, client.host)
        back = _back(args.csa_back_chan_attrs)
        if len(client.sessions) >= NFS4_SESSIONS_MAX:
            raise Refused(_S.NFS4ERR_NOSPC)
        if unconfirmed:
            self._clients.confirm(client, now_s)
        else:
            self._clients.renew(client, now_s)
        credential = callback_credential(args.csa_sec_parms)
        calls_back = bool(args.csa_flags & nfs4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN) and credential is not None
        back_caller = caller if calls_back else None
        channel = BackChannel(args.csa_cb_program, credential or AuthNone(), back_caller, minor_version)
        session = Nfs4Session(self._random_bytes(_SESSION_ID_OCTETS), client, fore, channel)
        if client.introduction.enforced & _BINDS:
            session.connections.add(caller)
        self._by_id[session.id] = session
        client.sessions.add(session.id)
        self.octets.add(client.host, session.promised)
        flags = nfs4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN if calls_back else 0
        return nfs4.CREATE_SESSION4resok(session.id, args.csa_sequence, flags, fore, back)

    def sequence(
        self,
        args: nfs4.SEQUENCE4args,
        call: Hashable,
        caller: ReverseCaller,
        now_s: float,
        *,
        operations: int,
        octets: int,
        reply_octets: int,
    ) -> tuple[Answer, Nfs4Session]:
        """Takes the slot of a call, and renews the lease of its client; a call that is refused changes nothing.

        Raises Refused (the session or the slot does not allow it, with a status of RFC 8881 section 18.46.3).

        Args:
            args: the arguments of SEQUENCE.
            call: a value for the caller and the content of the call (`Compound.request`), by which a false retry is
                found; None for a call whose reply the client does not ask to keep: after REPEAT the method's caller
                then compares the value with that of the slot (see `Slot.take`).
            caller: the connection of the call.
            now_s: the present time, in seconds of a monotonic clock.
            operations: the number of operations of the COMPOUND.
            octets: the octets of the call.
            reply_octets: the octets of a reply that has no result but that of SEQUENCE.

        Returns:
            (answer, session): RUN (the slot is busy until `Slot.finish`), REPEAT (the kept reply answers) or UNCACHED
            (the call has run, and its reply is not kept).
        """
        session = self._by_id.get(args.sa_sessionid)
        if session is None:
            raise Refused(_S.NFS4ERR_BADSESSION)
        octets_max, too_big = session.reply_limits[args.sa_cachethis]
        if reply_octets > octets_max:
            raise Refused(too_big)
        if args.sa_slotid >= len(session.slots):
            raise Refused(_S.NFS4ERR_BADSLOT)
        client, fore = session.client, session.fore
        if client.state is _EXPIRING:
            raise Refused(_S.NFS4ERR_DELAY)
        if client.introduction.enforced & _BINDS and caller not in session.connections:
            raise Refused(_S.NFS4ERR_CONN_NOT_BOUND_TO_SESSION)
        if operations > fore.ca_maxoperations:
            raise Refused(_S.NFS4ERR_TOO_MANY_OPS)
        if octets > fore.ca_maxrequestsize:
            raise Refused(_S.NFS4ERR_REQ_TOO_BIG)
        answer = session.slots[args.sa_slotid].take(args.sa_sequenceid, call)
        if answer is not _RUN and answer in REFUSED_ANSWERS:
            raise Refused(REFUSED_ANSWERS[answer])
        self._clients.renew(client, now_s)
        return answer, session

    def with_back_channel(self, client: Client) -> Nfs4Session | None:
        """Returns a session of `client` whose connection for calls to the client is open; None if there is no such."""
        sessions = (self._by_id[number] for number in client.sessions)
        return next((session for session in sessions if session.back_channel.alive), None)

    def bind(self, session: Nfs4Session, caller: ReverseCaller, *, back: bool) -> None:
        """Binds `caller`, a connection, to a session; with `back`, calls to the client use this connection from now on.

        Raises Refused (NFS4ERR_INVAL) if calls to the client use it already, and `back` is False.
        """
        if not back and session.back_channel.caller is caller:
            raise Refused(_S.NFS4ERR_INVAL)
        if session.client.introduction.enforced & _BINDS:
            session.connections = {each for each in session.connections if not each.closed} | {caller}
        if back:
            session.back_channel.bind(caller)

    def drop_ended_connections(self, client: Client) -> None:
        """Drops all references of the sessions of a client to connections that have ended."""
        for session in map(self._by_id.__getitem__, client.sessions):
            session.connections = {each for each in session.connections if not each.closed}
            if not session.back_channel.alive:
                session.back_channel.caller = None

    def destroy(self, session: Nfs4Session) -> None:
        """Removes a session from the table and from its client; requests in its slots run to their end."""
        del self._by_id[session.id]
        session.client.sessions.discard(session.id)
        self.octets.add(session.client.host, -session.promised)

    def destroy_all(self, client: Client) -> None:
        """Removes all sessions of a client from the table and from the client; their requests run to their end."""
        for number in list(client.sessions):
            self.destroy(self._by_id[number])

    def _fore(self, asked: nfs4.channel_attrs4, host: tuple[str, ...]) -> nfs4.channel_attrs4:
        """Returns the granted attributes of the fore channel, none of which exceeds that of `asked`.

        If little memory is left for `host` (`Client.host`), kept replies are shorter, and then slots fewer. Raises
        Refused: NFS4ERR_TOOSMALL if `asked` has no slot, or no room for a COMPOUND of two operations, NFS4ERR_DELAY if
        there is no memory for a slot and the host has a session.
        """
        if (
            min(asked.ca_maxrequestsize, asked.ca_maxresponsesize) < _LEAST_OCTETS
            or asked.ca_maxoperations < _LEAST_OPERATIONS
            or not asked.ca_maxrequests
        ):
            raise Refused(_S.NFS4ERR_TOOSMALL)
        slots = min(asked.ca_maxrequests, NFS4_SLOTS_MAX)
        kept = min(asked.ca_maxresponsesize_cached, NFS4_KEPT_REPLY_OCTETS_MAX)
        left = self.octets.left(host)
        share = left // _PROMISED_PARTS
        if slots * (kept + NFS4_SLOT_OCTETS) > share:
            # Shorter kept replies cost a client less than fewer slots do.
            kept = min(kept, max(share // slots - NFS4_SLOT_OCTETS, _LEAST_KEPT_OCTETS))
            slots = min(slots, max(share // (kept + NFS4_SLOT_OCTETS), 1))
            if kept + NFS4_SLOT_OCTETS > left and self.octets.held(host[0]):
                raise Refused(_S.NFS4ERR_DELAY)
        return nfs4.channel_attrs4(
            0,
            min(asked.ca_maxrequestsize, RPC_RECORD_OCTETS_MAX),
            min(asked.ca_maxresponsesize, RPC_RECORD_OCTETS_MAX),
            kept,
            min(asked.ca_maxoperations, NFS4_COMPOUND_OPERATIONS_MAX),
            slots,
            [],
        )


def _back(asked: nfs4.channel_attrs4) -> nfs4.channel_attrs4:
    if (
        asked.ca_maxrequestsize < _LEAST_OCTETS
        or asked.ca_maxresponsesize < _LEAST_BACK_OCTETS
        or asked.ca_maxoperations < _LEAST_OPERATIONS
    ):
        raise Refused(_S.NFS4ERR_TOOSMALL)
    return nfs4.channel_attrs4(
        0,
        min(asked.ca_maxrequestsize, RPC_RECORD_OCTETS_MAX),
        min(asked.ca_maxresponsesize, RPC_RECORD_OCTETS_MAX),
        0,
        min(asked.ca_maxoperations, NFS4_COMPOUND_OPERATIONS_MAX),
        min(asked.ca_maxrequests, _BACK_SLOTS_MAX),
        [],
    )


def callback_credential(offered: list[nfs4.callback_sec_parms4]) -> Credential | None:
    """Returns the first AUTH_SYS credential that a client offers for calls to it, else AUTH_NONE, if offered.

    Returns None if it offers neither: the server can make no other.
    """
    for parms in offered:
        value = parms.value
        if isinstance(value, nfs4.authsys_parms):
            return AuthSys(
                stamp=value.stamp, machine=value.machinename, uid=value.uid, gid=value.gid, gids=tuple(value.gids)
            )
    return AuthNone() if any(parms.cb_secflavor == 0 for parms in offered) else None
