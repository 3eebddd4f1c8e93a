"""The operations by which clients, sessions and their connections come and go (RFC 8881 sections 18.33 to 18.51)."""

from __future__ import annotations

import struct
from typing import Final

from rpcrdma.nfs.export import tree
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import bits, bits_of, words
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_identity import ClientIdentity, principal_of
from rpcrdma.nfs.v4.server.client_states import ClientState
from rpcrdma.nfs.v4.server.clients import Client
from rpcrdma.nfs.v4.server.compound import Compound, KeptReply
from rpcrdma.nfs.v4.server.sessions import Nfs4Session, callback_credential
from rpcrdma.nfs.v4.server.state import State, state_of
from rpcrdma.nfs.v4.session_slots import SEQUENCES, Answer
from rpcrdma.rpc.gss.flavors import GssService

__all__ = [
    "backchannel_ctl",
    "bind_conn_to_session",
    "create_session",
    "destroy_clientid",
    "destroy_session",
    "exchange_id",
    "reclaim_complete",
    "sequence",
]

_S, _O = nfs4.nfsstat4, nfs4.nfs_opnum4
_REPEAT, _UNCACHED = Answer.REPEAT, Answer.UNCACHED
_SEQUENCE_RESULT: Final = struct.Struct(">16s5I")
"""The body of the result of SEQUENCE, SEQUENCE4resok."""
_FLAGS_ASKED: Final = (
    nfs4.EXCHGID4_FLAG_SUPP_MOVED_REFER
    | nfs4.EXCHGID4_FLAG_SUPP_MOVED_MIGR
    | nfs4.EXCHGID4_FLAG_SUPP_FENCE_OPS
    | nfs4.EXCHGID4_FLAG_BIND_PRINC_STATEID
    | nfs4.EXCHGID4_FLAG_USE_NON_PNFS
    | nfs4.EXCHGID4_FLAG_USE_PNFS_MDS
    | nfs4.EXCHGID4_FLAG_USE_PNFS_DS
    | nfs4.EXCHGID4_FLAG_UPD_CONFIRMED_REC_A
)
_ENFORCED: Final = bits(
    _O.OP_BIND_CONN_TO_SESSION, _O.OP_EXCHANGE_ID, _O.OP_CREATE_SESSION, _O.OP_DESTROY_SESSION, _O.OP_DESTROY_CLIENTID
)
"""The operations that the server reserves for the machine's principal if the client asks for it."""
_ALLOWED: Final = bits(
    _O.OP_CLOSE,
    _O.OP_OPEN_DOWNGRADE,
    _O.OP_LOCKU,
    _O.OP_DELEGRETURN,
    _O.OP_TEST_STATEID,
    _O.OP_FREE_STATEID,
    _O.OP_WRITE,
    _O.OP_COMMIT,
    _O.OP_SECINFO,
    _O.OP_SECINFO_NO_NAME,
)
"""The operations that the machine's principal may call for every user: they need no right, or a stateid gives it."""
_BACK: Final = {
    nfs4.channel_dir_from_client4.CDFC4_FORE: nfs4.channel_dir_from_server4.CDFS4_FORE,
    nfs4.channel_dir_from_client4.CDFC4_BACK: nfs4.channel_dir_from_server4.CDFS4_BACK,
    nfs4.channel_dir_from_client4.CDFC4_FORE_OR_BOTH: nfs4.channel_dir_from_server4.CDFS4_BOTH,
    nfs4.channel_dir_from_client4.CDFC4_BACK_OR_BOTH: nfs4.channel_dir_from_server4.CDFS4_BOTH,
}
"""The direction for which a connection is bound, by the direction that the client asks for."""


def exchange_id(compound: Compound, args: nfs4.EXCHANGE_ID4args) -> nfs4.EXCHANGE_ID4resok:
    """Runs EXCHANGE_ID (RFC 8881 section 18.35): finds or makes the record of a client, and returns its id.

    Raises WorkerNeeded (run again in a worker thread) or Refused, such as NFS4ERR_CLID_INUSE, NFS4ERR_NOENT,
    NFS4ERR_NOT_SAME, NFS4ERR_DELAY for want of room, or NFS4ERR_PERM, also for a host that may use no export.
    """
    # RFC 7862 section 14.1 defines the flag for fences.
    defined = _FLAGS_ASKED if compound.call.minor_version > 1 else _FLAGS_ASKED & ~nfs4.EXCHGID4_FLAG_SUPP_FENCE_OPS
    if args.eia_flags & ~defined:
        raise Refused(_S.NFS4ERR_INVAL)
    _check_host(compound, _S.NFS4ERR_PERM)
    state = state_of(compound)
    enforced, allowed = _agree(compound, args.eia_state_protect)
    owner = args.eia_clientowner
    introduction = ClientIdentity(
        owner.co_ownerid,
        owner.co_verifier,
        principal_of(compound.credential),
        compound.context.peer,
        enforced,
        allowed,
        _is_protected(compound),
    )
    update = bool(args.eia_flags & nfs4.EXCHGID4_FLAG_UPD_CONFIRMED_REC_A)
    client = state.settle(lambda: state.clients.exchange_id(introduction, compound.now_s, update=update), compound.wait)
    confirmed = client.state is not ClientState.UNCONFIRMED
    if confirmed:
        _check_machine(compound, client, _O.OP_EXCHANGE_ID)
    return nfs4.EXCHANGE_ID4resok(
        client.id,
        (client.sequence + 1) % SEQUENCES,
        nfs4.EXCHGID4_FLAG_USE_NON_PNFS | (nfs4.EXCHGID4_FLAG_CONFIRMED_R if confirmed else 0),
        _protection(client.introduction),
        nfs4.server_owner4(0, state.identity),
        state.identity,
        [],
    )


def create_session(compound: Compound, args: nfs4.CREATE_SESSION4args) -> nfs4.CREATE_SESSION4resok:
    """Runs CREATE_SESSION (RFC 8881 section 18.36): creates a session, and confirms its client.

    If the client asks for a back channel, and offers AUTH_SYS or AUTH_NONE for it, the server calls it over the
    connection of this call. Raises WorkerNeeded (run again in a worker thread) or Refused, such as
    NFS4ERR_STALE_CLIENTID, NFS4ERR_SEQ_MISORDERED or NFS4ERR_TOOSMALL.
    """
    _check_host(compound, _S.NFS4ERR_STALE_CLIENTID)
    state, caller = state_of(compound), compound.context.client

    def step() -> nfs4.CREATE_SESSION4resok:
        client = state.clients.find(args.csa_clientid)
        # Before the sequence number: nobody but the machine uses that up.
        _check_machine(compound, client, _O.OP_CREATE_SESSION)
        who, minor = principal_of(compound.credential), compound.call.minor_version
        return state.sessions.create(args, client, who, caller, compound.now_s, minor_version=minor)

    created = state.settle(step, compound.wait)
    if created.csr_flags:
        caller.ready()
    return created


def sequence(compound: Compound, args: nfs4.SEQUENCE4args) -> bytes:
    """Runs SEQUENCE (RFC 8881 section 18.46): takes a slot of a session; returns the encoded body of its result.

    Sets the session, the client and the limits of `compound`, whose end frees the slot, and renews the client's lease.
    Raises KeptReply for a repeat, which gets the reply that the slot keeps, or Refused: there is no such session or
    slot, the sequence number is wrong, the call that it repeats still runs or was another one, the call is too long,
    has too many operations or leaves no room in its reply, the connection has to be bound first, or the client is about
    to end. For a repeat whose reply is not kept, sets `compound.uncached`.
    """
    state: State = compound.server.state
    sessions, context, cached, slot_id = state.sessions, compound.context, args.sa_cachethis, args.sa_slotid
    with state.lock:
        answer, session = sessions.sequence(
            args,
            # A request whose reply is not to be kept has one only if its connection has ended before it has run.
            compound.request if cached else None,
            context.client,
            compound.now_s,
            operations=compound.call.shape.count,
            octets=context.call_octets,
            reply_octets=len(compound.encoded.reduced) + 8 + _SEQUENCE_RESULT.size,
        )
        slots, back, client = session.slots, session.back_channel, session.client
        slot = slots[slot_id]
        if answer is _REPEAT:
            assert slot.reply is not None
            if not cached and compound.request != slot.call:
                raise Refused(_S.NFS4ERR_SEQ_FALSE_RETRY)
            raise KeptReply(slot.reply)
        flags = client.lost_flags
        if back.bound and not back.alive and sessions.with_back_channel(client) is None:
            flags |= nfs4.SEQ4_STATUS_CB_PATH_DOWN
    compound.session, compound.client = session, client
    compound.reply_octets_max, compound.too_big = session.reply_limits[cached]
    if answer is _UNCACHED:
        compound.uncached = True
    else:
        compound.keeps_reply = cached
        compound.on_end = slot.finish
    highest = len(slots) - 1
    return _SEQUENCE_RESULT.pack(session.id, args.sa_sequenceid, slot_id, highest, highest, flags)


def bind_conn_to_session(compound: Compound, args: nfs4.BIND_CONN_TO_SESSION4args) -> nfs4.BIND_CONN_TO_SESSION4resok:
    """Runs BIND_CONN_TO_SESSION (RFC 8881 section 18.34): uses the connection of the call for a session.

    For each direction but CDFC4_FORE, the server calls the client over this connection, too. Raises Refused:
    NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, or NFS4ERR_INVAL (CDFC4_FORE where the server already does so).
    """
    state, caller = state_of(compound), compound.context.client
    back = args.bctsa_dir is not nfs4.channel_dir_from_client4.CDFC4_FORE
    with state.lock:
        session = state.sessions.find(args.bctsa_sessid)
        _check_machine(compound, session.client, _O.OP_BIND_CONN_TO_SESSION)
        state.sessions.bind(session, caller, back=back)
    if back:
        caller.ready()
    return nfs4.BIND_CONN_TO_SESSION4resok(session.id, _BACK[args.bctsa_dir], False)


def backchannel_ctl(compound: Compound, args: nfs4.BACKCHANNEL_CTL4args) -> None:
    """Runs BACKCHANNEL_CTL (RFC 8881 section 18.33): sets program and credential of the session's calls to the client.

    Raises Refused (NFS4ERR_INVAL) if the client offers no credential that the server can make.
    """
    credential = callback_credential(args.bca_sec_parms)
    if credential is None:
        raise Refused(_S.NFS4ERR_INVAL)
    session: Nfs4Session = compound.session
    with state_of(compound).lock:
        session.back_channel.program, session.back_channel.credential = args.bca_cb_program, credential


def destroy_session(compound: Compound, args: nfs4.DESTROY_SESSION4args) -> None:
    """Runs DESTROY_SESSION (RFC 8881 section 18.37): ends a session.

    Raises Refused: NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, or NFS4ERR_NOT_ONLY_OP (it is the session of the COMPOUND,
    in which operations follow).
    """
    state = state_of(compound)
    with state.lock:
        session = state.sessions.find(args.dsa_sessionid)
        _check_machine(compound, session.client, _O.OP_DESTROY_SESSION)
        if session is compound.session and compound.next_operation is not None:
            raise Refused(_S.NFS4ERR_NOT_ONLY_OP)
        state.sessions.destroy(session)


def destroy_clientid(compound: Compound, args: nfs4.DESTROY_CLIENTID4args) -> None:
    """Runs DESTROY_CLIENTID (RFC 8881 section 18.50): ends the record of a client without sessions and state.

    Raises WorkerNeeded (run again in a worker thread) or Refused, such as NFS4ERR_STALE_CLIENTID or
    NFS4ERR_CLIENTID_BUSY.
    """
    compound.wait()
    state = state_of(compound)
    with state.lock:
        client = state.clients.find(args.dca_clientid)
        _check_machine(compound, client, _O.OP_DESTROY_CLIENTID)
    state.destroy(client)


def reclaim_complete(compound: Compound, args: nfs4.RECLAIM_COMPLETE4args) -> None:
    """Runs RECLAIM_COMPLETE (RFC 8881 section 18.51): ends the right of a client to reclaim its state.

    With `rca_one_fs` has no effect, but needs a current filehandle. Raises WorkerNeeded (run again in a worker thread)
    or Refused, such as NFS4ERR_NOFILEHANDLE, NFS4ERR_COMPLETE_ALREADY, or NFS4ERR_DELAY if the disk has failed.
    """
    client: Client = compound.client
    if args.rca_one_fs:
        # A file system that has moved here has no state to be reclaimed: none moves.
        if compound.current is None:
            raise Refused(_S.NFS4ERR_NOFILEHANDLE)
        return
    if client.reclaim_complete:
        raise Refused(_S.NFS4ERR_COMPLETE_ALREADY)
    compound.wait()
    state_of(compound).complete_reclaim(client, compound.now_s)


def _check_host(compound: Compound, status: nfs4.nfsstat4) -> None:
    """Raises Refused with `status` if no export admits the host of the call: no such host gets a record of a client.

    The callers choose a status that their operation may have, unlike NFS4ERR_ACCESS. After NFS4ERR_PERM a mount of
    Linux fails at once, or goes on with version 3, which refuses it as well; after NFS4ERR_DELAY it would try for ever.
    """
    try:
        compound.server.exports.check_host(compound.context)
    except tree.Refused:
        raise Refused(status) from None


def _agree(compound: Compound, asked: nfs4.state_protect4_a) -> tuple[int, int | None]:
    """Returns the protection of state that EXCHANGE_ID grants for `asked` to a new record of a client.

    The result is (operations that only the principal of the client's machine may call, operations that it may call for
    every user), each a set of bits by operation number; (0, None) for SP4_NONE. Raises Refused:
    NFS4ERR_ENCR_ALG_UNSUPP for SP4_SSV, NFS4ERR_INVAL for SP4_MACH_CRED if the call has neither integrity nor privacy.
    """
    if asked.spa_how is nfs4.state_protect_how4.SP4_SSV:
        raise Refused(_S.NFS4ERR_ENCR_ALG_UNSUPP)
    operations = asked.value
    if not isinstance(operations, nfs4.state_protect_ops4):
        return 0, None
    if not _is_protected(compound):
        raise Refused(_S.NFS4ERR_INVAL)
    return bits_of(operations.spo_must_enforce) & _ENFORCED, bits_of(operations.spo_must_allow) & _ALLOWED


def _protection(introduction: ClientIdentity) -> nfs4.state_protect4_r:
    """Returns the protection of state in force for a client, as the EXCHANGE_ID that made its record agreed on it."""
    if introduction.allowed is None:
        return nfs4.state_protect4_r(nfs4.state_protect_how4.SP4_NONE, None)
    agreed = nfs4.state_protect_ops4(words(introduction.enforced), words(introduction.allowed))
    return nfs4.state_protect4_r(nfs4.state_protect_how4.SP4_MACH_CRED, agreed)


def _is_protected(compound: Compound) -> bool:
    """Returns whether the call has RPCSEC_GSS credentials with integrity or privacy."""
    return compound.credential.flavor.service in {GssService.INTEGRITY, GssService.PRIVACY}


def _check_machine(compound: Compound, client: Client, operation: int) -> None:
    """Raises Refused (NFS4ERR_WRONG_CRED) if the client has reserved `operation`, and the call does not qualify for it.

    A client may have reserved it for the principal of its machine (SP4_MACH_CRED): the call must then be of this
    principal, by RPCSEC_GSS with integrity or privacy.
    """
    introduction = client.introduction
    if introduction.enforced >> operation & 1 and (
        principal_of(compound.credential) != introduction.principal or not _is_protected(compound)
    ):
        raise Refused(_S.NFS4ERR_WRONG_CRED)
