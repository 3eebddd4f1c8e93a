"""Sessions of version 4.1: CREATE_SESSION by its number, attributes of channels, SEQUENCE, and hostile clients."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rpcrdma.limits import NFS4_COMPOUND_OPERATIONS_MAX, RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.v4.nfs4 import authsys_parms, callback_sec_parms4, gss_cb_handles4, nfsstat4, rpc_gss_svc_t
from rpcrdma.nfs.v4.server.client_states import ClientState
from rpcrdma.nfs.v4.session_slots import Answer, SlotState
from rpcrdma.nfs.v4.state_limits import (
    NFS4_KEPT_REPLY_OCTETS_MAX,
    NFS4_SESSIONS_MAX,
    NFS4_SLOT_OCTETS,
    NFS4_SLOTS_MAX,
    NFS4_SLOTS_OCTETS_MAX,
)
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.host_shares import HostShares
from state_rig import BACK, FORE, Caller, StateRig, refused_with
from support.cases import each_case

S = nfsstat4


@pytest.mark.req("NF4-110")
def test_a_repeated_create_session_has_the_same_result_and_creates_nothing() -> None:
    rig = StateRig()
    client = rig.introduce()
    created = rig.create_session(client, sequence=1)
    assert rig.create_session(client, sequence=1) is created
    assert len(rig.state.sessions) == 1
    assert rig.create_session(client, sequence=2).csr_sessionid != created.csr_sessionid


@pytest.mark.req("NF4-111")
@each_case("sequence", [0, 2, 0xFFFFFFFF])
def test_create_session_with_another_number_is_misordered(sequence: int) -> None:
    rig = StateRig()
    client = rig.introduce()
    assert refused_with(rig.create_session, client, sequence=sequence) is S.NFS4ERR_SEQ_MISORDERED
    assert client.state is ClientState.UNCONFIRMED
    rig.create_session(client, sequence=1)
    assert refused_with(rig.create_session, client, sequence=3) is S.NFS4ERR_SEQ_MISORDERED


@pytest.mark.req("NF4-110")
@each_case(
    "change, status",
    [
        ({"fore": dataclasses.replace(FORE, ca_maxrequestsize=255)}, S.NFS4ERR_TOOSMALL),
        ({"fore": dataclasses.replace(FORE, ca_maxresponsesize=255)}, S.NFS4ERR_TOOSMALL),
        ({"fore": dataclasses.replace(FORE, ca_maxoperations=1)}, S.NFS4ERR_TOOSMALL),
        ({"fore": dataclasses.replace(FORE, ca_maxrequests=0)}, S.NFS4ERR_TOOSMALL),
        ({"back": dataclasses.replace(BACK, ca_maxrequestsize=255)}, S.NFS4ERR_TOOSMALL),
        ({"back": dataclasses.replace(BACK, ca_maxresponsesize=127)}, S.NFS4ERR_TOOSMALL),
        ({"back": dataclasses.replace(BACK, ca_maxoperations=1)}, S.NFS4ERR_TOOSMALL),
        ({"flags": 8}, S.NFS4ERR_INVAL),
        ({"principal": "sys:7"}, S.NFS4ERR_CLID_INUSE),
    ],
)
def test_after_a_refused_create_session_its_number_and_the_next_one_are_taken_and_its_repeat_is_refused_alike(
    change: dict[str, Any], status: nfsstat4
) -> None:
    """Clients of Linux go on to the next number, which its server has not counted; others use the same one."""
    for following in (1, 2):
        rig = StateRig()
        client = rig.introduce()
        for _ in range(2):
            assert refused_with(rig.create_session, client, sequence=1, **change) is status
        assert (client.state, len(rig.state.sessions)) == (ClientState.UNCONFIRMED, 0)
        assert refused_with(rig.create_session, client, sequence=3) is S.NFS4ERR_SEQ_MISORDERED
        rig.create_session(client, sequence=following)


def test_a_create_session_that_is_put_off_leaves_its_number_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = StateRig()
    client = rig.introduce()
    with monkeypatch.context() as full:
        full.setattr(rig.state.sessions, "octets", HostShares(0))
        rig.state.sessions.octets.add(client.host, 1)
        assert refused_with(rig.create_session, client, sequence=1) is S.NFS4ERR_DELAY
    assert refused_with(rig.create_session, client, sequence=2) is S.NFS4ERR_SEQ_MISORDERED
    rig.create_session(client, sequence=1)


@pytest.mark.req("NF4-112")
def test_no_attribute_of_a_channel_is_more_than_asked() -> None:
    rig = StateRig()
    small = dataclasses.replace(FORE, ca_maxrequestsize=300, ca_maxresponsesize=301, ca_maxoperations=3)
    small = dataclasses.replace(small, ca_maxrequests=2, ca_maxresponsesize_cached=299)
    created = rig.create_session(rig.introduce(), fore=small)
    assert created.csr_fore_chan_attrs == small
    large = dataclasses.replace(FORE, ca_maxrequestsize=1 << 31, ca_maxresponsesize=1 << 31, ca_maxoperations=1 << 31)
    large = dataclasses.replace(large, ca_maxrequests=1 << 31, ca_maxresponsesize_cached=1 << 31)
    rig = StateRig()
    created = rig.create_session(rig.introduce(), fore=large)
    fore = created.csr_fore_chan_attrs
    assert (fore.ca_maxrequestsize, fore.ca_maxresponsesize) == (RPC_RECORD_OCTETS_MAX, RPC_RECORD_OCTETS_MAX)
    assert (fore.ca_maxoperations, fore.ca_maxrequests) == (NFS4_COMPOUND_OPERATIONS_MAX, NFS4_SLOTS_MAX)
    assert fore.ca_maxresponsesize_cached * fore.ca_maxrequests < 1 << 18
    one = dataclasses.replace(large, ca_maxrequests=1)
    offered = StateRig()
    created = offered.create_session(offered.introduce(), fore=one)
    assert created.csr_fore_chan_attrs.ca_maxresponsesize_cached == NFS4_KEPT_REPLY_OCTETS_MAX


def offers(rig: StateRig, kept: int, address: str, most: int) -> list[tuple[int, int]]:
    """The slots and octets of kept replies of each session that clients get, until they are put off."""
    asked, found = dataclasses.replace(FORE, ca_maxresponsesize_cached=kept), []
    for number in range(most):
        client = rig.introduce(f"client {number}", address=address.format(*divmod(number, 256)))
        status = refused_with(rig.create_session, client, fore=asked)
        if status is not None:
            assert status is S.NFS4ERR_DELAY
            break
        fore = client.created.csr_fore_chan_attrs  # type: ignore[union-attr]
        found.append((fore.ca_maxrequests, fore.ca_maxresponsesize_cached))
        if len(rig.state.clients.by_id) == 1000:  # clients go, and their sessions stay for this test
            for each in list(rig.state.clients.by_id.values()):
                each.sessions.clear()
                rig.state.clients.remove(each)
    return found


@each_case("kept", [FORE.ca_maxresponsesize_cached, 0])
def test_later_sessions_are_promised_less_memory_and_all_together_a_bounded_amount(kept: int) -> None:
    rig = StateRig()
    found = offers(rig, kept, "10.0.{}.{}", 4500)
    assert found[0] == (64, min(kept, 2048))
    assert found[4096] >= (1, min(kept, 2048))
    assert found == sorted(found, reverse=True)
    promised = sum(slots * (octets + NFS4_SLOT_OCTETS) for slots, octets in found)
    assert rig.state.sessions.octets.used == promised <= NFS4_SLOTS_OCTETS_MAX


@each_case("address", ["192.0.2.7", "2001:db8::{1:x}"])
def test_the_sessions_of_a_host_are_promised_half_of_the_memory(address: str) -> None:
    rig = StateRig()
    found = offers(rig, FORE.ca_maxresponsesize_cached, address, 4096)
    assert 2000 < len(found) < 4096
    assert found[0] == (64, 2048)
    assert rig.state.sessions.octets.used <= NFS4_SLOTS_OCTETS_MAX // 2 + 256 * (2048 + NFS4_SLOT_OCTETS)
    for other in ("192.0.2.8", "2001:db8:0:1::1"):
        session = rig.session("another", address=other)
        assert len(session.slots) > 30, "what others find"


def test_a_host_without_a_session_gets_a_small_one_in_any_case() -> None:
    rig = StateRig()
    rig.state.sessions.octets.add(("192.0.2.7",), NFS4_SLOTS_OCTETS_MAX)
    client = rig.introduce(address="192.0.2.8")
    fore = rig.create_session(client).csr_fore_chan_attrs
    assert (fore.ca_maxrequests, fore.ca_maxresponsesize_cached) == (1, 2048)
    assert refused_with(rig.create_session, client) is S.NFS4ERR_DELAY


def test_a_client_has_a_bounded_number_of_sessions() -> None:
    rig = StateRig()
    client = rig.introduce()
    created = [rig.create_session(client) for _ in range(NFS4_SESSIONS_MAX)]
    assert refused_with(rig.create_session, client) is S.NFS4ERR_NOSPC
    rig.state.sessions.destroy(rig.state.sessions.find(created[0].csr_sessionid))
    rig.create_session(client)


def test_the_octets_of_an_ended_session_are_promised_again() -> None:
    rig = StateRig()
    client = rig.introduce()
    first = rig.create_session(client)
    for _ in range(5000):
        rig.state.sessions.destroy_all(client)
        assert rig.create_session(client).csr_fore_chan_attrs == first.csr_fore_chan_attrs


def sys_parms(uid: int) -> callback_sec_parms4:
    return callback_sec_parms4(1, authsys_parms(5, "host", uid, 7, [8]))


NONE_PARMS = callback_sec_parms4(0, None)
GSS_PARMS = callback_sec_parms4(6, gss_cb_handles4(rpc_gss_svc_t.RPC_GSS_SVC_NONE, b"1", b"2"))
AS_USER_3 = AuthSys(stamp=5, machine="host", uid=3, gid=7, gids=(8,))


@each_case(
    "flags, parms, credential",
    [
        (2, [sys_parms(3)], AS_USER_3),
        (3, [NONE_PARMS, sys_parms(3), sys_parms(4)], AS_USER_3),
        (2, [GSS_PARMS, NONE_PARMS], AuthNone()),
        (2, [GSS_PARMS], None),
        (2, [], None),
        (0, [sys_parms(3)], None),
        (1, [sys_parms(3)], None),
    ],
)
def test_a_back_channel_is_granted_with_a_credential_that_we_can_make(
    flags: int, parms: list[callback_sec_parms4], credential: object
) -> None:
    rig = StateRig()
    caller = Caller()
    created = rig.create_session(rig.introduce(), flags=flags, parms=parms, caller=caller)
    assert created.csr_flags == (0 if credential is None else 2), "never PERSIST: replies do not survive a restart"
    back = rig.state.sessions.find(created.csr_sessionid).back_channel
    assert back.alive is (credential is not None)
    if credential is not None:
        assert (back.caller, back.credential, back.program) == (caller, credential, 0x40000000)
        caller.closed = True
        assert not back.alive


@pytest.mark.req("NF4-113", "NF4-157")
@each_case(
    "change, status",
    [
        ({"slot": 64}, S.NFS4ERR_BADSLOT),
        ({"slot": 0xFFFFFFFF, "number": 1}, S.NFS4ERR_BADSLOT),
        ({"operations": 9}, S.NFS4ERR_TOO_MANY_OPS),
        ({"octets": 1_049_621}, S.NFS4ERR_REQ_TOO_BIG),
        ({"number": 3}, S.NFS4ERR_SEQ_MISORDERED),
        ({"number": 0}, S.NFS4ERR_SEQ_MISORDERED),
    ],
)
def test_a_refused_sequence_leaves_its_slot_and_the_lease_as_they_were(
    change: dict[str, Any], status: nfsstat4
) -> None:
    rig = StateRig()
    session = rig.session()
    rig.sequence(session).slot.finish("reply")
    rig.now_s += 50
    before = [(slot.state, slot.sequence, slot.reply) for slot in session.slots]
    named = {"number": 2, **change}
    assert refused_with(rig.sequence, session, **named) is status
    assert [(slot.state, slot.sequence, slot.reply) for slot in session.slots] == before
    assert session.client.renewed_s == 0.0
    assert rig.sequence(session, 1).answer is Answer.REPEAT
    assert rig.sequence(session, 2).answer is Answer.RUN
    assert session.client.renewed_s == 50.0


def test_slots_of_one_session_and_sessions_of_one_client_are_independent() -> None:
    rig = StateRig()
    session = rig.session()
    other = rig.state.sessions.find(rig.create_session(session.client).csr_sessionid)
    placed = [rig.sequence(each, 1, slot=slot) for each in (session, other) for slot in (0, 50)]
    assert [each.answer for each in placed] == [Answer.RUN] * 4
    placed[0].slot.finish("a")
    placed[3].slot.finish("b")
    assert rig.sequence(session, 1).slot.reply == "a"
    assert refused_with(rig.sequence, session, 1, slot=50) is S.NFS4ERR_DELAY
    assert rig.sequence(other, 1, slot=50).slot.reply == "b"


def test_requests_in_slots_of_an_ended_session_can_end() -> None:
    rig = StateRig()
    session = rig.session()
    placed = rig.sequence(session)
    rig.state.sessions.destroy(session)
    placed.slot.finish("reply")
    assert placed.slot.state is SlotState.KEPT
    assert refused_with(rig.sequence, session, 1) is S.NFS4ERR_BADSESSION


def test_an_id_that_nobody_has_is_no_session() -> None:
    rig = StateRig()
    session = rig.session()
    session.id = b"\xff" * 16
    assert refused_with(rig.sequence, session) is S.NFS4ERR_BADSESSION


@pytest.mark.req("NF4-114")
def test_a_client_that_binds_its_connections_is_heard_on_these_alone() -> None:
    rig = StateRig()
    own, stranger = Caller(), Caller()
    client = rig.introduce(principal="gss:host", enforced=1 << 41)
    session = rig.state.sessions.find(rig.create_session(client, caller=own).csr_sessionid)
    rig.sequence(session, caller=own).slot.finish(None)
    assert refused_with(rig.sequence, session, caller=stranger) is S.NFS4ERR_CONN_NOT_BOUND_TO_SESSION
    own.closed = True
    rig.state.sessions.bind(session, stranger, back=False)
    rig.sequence(session, caller=stranger).slot.finish(None)
    assert session.connections == {stranger}, "connections that have ended are not kept"
    assert not session.back_channel.alive
    rig.state.sessions.bind(session, stranger, back=True)
    assert session.back_channel.alive


def test_ended_connections_are_dropped_and_the_client_is_still_told_of_its_back_channel() -> None:
    rig = StateRig()
    caller = Caller()
    session = rig.state.sessions.find(rig.create_session(rig.introduce(), caller=caller).csr_sessionid)
    assert session.connections == set(), "only a client that binds each connection has them noted"
    caller.closed = True
    rig.state.sweep(rig.now_s)
    assert (session.back_channel.caller, session.back_channel.bound) == (None, True)
    session.back_channel.bind(Caller())  # type: ignore[arg-type]
    rig.state.sweep(rig.now_s)
    assert session.back_channel.alive
