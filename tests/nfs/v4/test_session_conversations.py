"""Conversations about clients and sessions of version 4.1, in octets: as Linux holds them, and as hostile peers do."""

from __future__ import annotations

import struct

import pytest

from conversation import Conversation, FakeConnection
from rpcrdma.rpc.auth import AuthGss, AuthSys
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from support.cases import each_case
from support.nfs4_client import (
    FORE,
    READ,
    WRITE,
    backchannel_ctl,
    bind_conn_to_session,
    close,
    create_session,
    destroy_clientid,
    destroy_session,
    exchange_id,
    getfh,
    lockt,
    open_,
    putfh,
    reclaim_complete,
    savefh,
    sequence,
    test_stateid,
)

FORE_ONLY, BACK_ONLY, FORE_OR_BOTH, BACK_OR_BOTH = 1, 2, 3, 7
"""Channels that BIND_CONN_TO_SESSION asks for."""
CONFIRMED = 0x80000000
NON_PNFS = 0x10000
HOST = AuthGss(principal="host/client@EXAMPLE.ORG", flavor=SecurityFlavor.KRB5I)
ALICE = AuthGss(principal="alice@EXAMPLE.ORG", flavor=SecurityFlavor.KRB5P)
NO_PROTECTION = bytes(4)
LINUX_MACH_CRED = struct.pack(
    ">IIIIIII",
    1,
    2,
    0,
    1 << 9 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 25,
    2,
    1 << 4 | 1 << 5 | 1 << 8 | 1 << 14 | 1 << 21,
    0,
)
"""SP4_MACH_CRED with the operations of Linux 6.1 to enforce, and of those to allow the ones below 32."""


def test_a_linux_client_mounts_and_unmounts() -> None:
    server = Conversation()
    client = server.client()
    first = client.introduce()
    assert client.introduce()["client"] != first["client"], "Linux asks twice, to find trunks"
    assert (first["flags"], first["sequence"], first["protection"]) == (NON_PNFS, 1, None)
    assert first["major"] == first["scope"] == b"this server"
    reply = client.compound(create_session(client.id, 1))
    created = reply.value(43)
    assert created["fore"] == FORE._replace(kept_octets=2048)
    assert created["flags"] == 2, "the back channel, and no replies that survive a restart"
    client.session = created["session"]
    assert client.run(reclaim_complete(), kept=True).status == "OK"
    reply = client.run(putfh(b"file"), getfh(), minor=2)
    assert reply.value(10) == b"file"
    assert reply.value(53) == (client.session, 2, 0, 63, 63, 0)
    known = client.introduce()
    assert (known["flags"], known["client"]) == (NON_PNFS | CONFIRMED, client.id)
    assert client.compound(destroy_session(client.session)).status == "OK"
    assert client.compound(destroy_clientid(client.id)).status == "OK"
    assert client.compound(create_session(client.id, 2)).status == "STALE_CLIENTID"
    assert (len(server.state.sessions), len(server.state.clients.by_id)) == (0, 0)


def test_only_what_waits_for_the_disk_leaves_the_event_loop() -> None:
    server = Conversation()
    client = server.client().start(complete=False)
    assert client.run(putfh(b"file"), getfh()).status == "OK"
    assert server.hops == 0
    client.run(reclaim_complete())
    assert server.hops == 1


@pytest.mark.req("NF4-120")
def test_a_kept_reply_is_repeated_octet_by_octet_and_runs_nothing() -> None:
    server = Conversation()
    client = server.client().start()
    opening = (putfh(b"file"), open_(b"owner", 1), getfh())
    first = client.run(*opening, kept=True)
    assert client.repeat(*opening, kept=True) == first
    assert client.run(putfh(b"file"), open_(b"owner", 1)).value(18)["stateid"].seqid == 2, "it ran once"


@pytest.mark.req("NF4-104")
def test_a_repeat_without_a_kept_reply_is_refused_behind_its_sequence() -> None:
    server = Conversation()
    client = server.client().start()
    client.run(putfh(b"file"), open_(b"owner", 1))
    again = client.repeat(putfh(b"file"), open_(b"owner", 1))
    assert [(number, status) for number, status, _ in again.results] == [(53, "OK"), (22, "RETRY_UNCACHED_REP")]
    assert len(server.claims) == 1
    assert client.run().status == "OK"
    assert client.repeat().status == "OK", "SEQUENCE alone changes nothing"


@pytest.mark.req("NF4-103")
@each_case(
    "credential, operations",
    [(AuthSys(uid=7, gid=7), (putfh(b"file"), getfh())), (AuthSys(uid=0, gid=0), (putfh(b"file"), savefh()))],
)
def test_another_caller_or_other_operations_do_not_get_the_kept_reply(
    credential: AuthSys, operations: tuple[bytes, ...]
) -> None:
    server = Conversation()
    client = server.client().start()
    client.run(putfh(b"file"), getfh(), kept=True)
    other = server.client(credential=credential)
    other.session, other.number = client.session, client.number
    assert other.repeat(*operations, kept=True).status == "SEQ_FALSE_RETRY"
    anew = server.client(credential=AuthSys(stamp=7, uid=0, gid=5, gids=(6,)))
    anew.session, anew.number = client.session, client.number
    assert anew.repeat(putfh(b"file"), getfh(), kept=True).status == "OK", "of the same principal"
    assert client.repeat(putfh(b"file"), getfh(), kept=True).status == "OK"


@each_case("kept", [True, False])
def test_a_call_whose_connection_ends_before_it_has_run_is_answered_with_delay_and_then_runs(kept: bool) -> None:
    server = Conversation()
    connection = FakeConnection()
    client = server.client(connection=connection).start()
    server.files.cold = True
    call = struct.pack(">III", 0, 1, 3) + sequence(client.session, 2, kept=kept)
    call += putfh(b"file") + open_(b"owner", 1)
    server.answer(call, connection, lost=True)
    client.number = 2
    other = server.client(credential=AuthSys(uid=7, gid=7))
    other.session, other.number = client.session, client.number
    assert other.repeat(putfh(b"file"), open_(b"owner", 1), kept=kept).status == "SEQ_FALSE_RETRY"
    assert [status for _, status, _ in client.repeat(putfh(b"file"), open_(b"owner", 1), kept=kept).results] == [
        "OK", "OK", "DELAY",
    ]  # fmt: skip
    assert client.run(putfh(b"file"), open_(b"owner", 1)).status == "OK"


def test_a_call_whose_connection_ends_leaves_no_reply_that_is_longer_than_its_slot_may_keep() -> None:
    server = Conversation()
    connection = FakeConnection()
    fore = FORE._replace(operations=64, kept_octets=256)
    client = server.client(connection=connection).start(fore=fore)
    server.files.cold = True
    operations = [putfh(b"file"), *[getfh()] * 60, open_(b"owner", 1)]
    call = struct.pack(">III", 0, 1, 1 + len(operations)) + sequence(client.session, 2) + b"".join(operations)
    server.answer(call, connection, lost=True)
    slot = server.state.sessions.find(client.session).slots[0]
    assert slot.reply is None
    client.number = 2
    assert client.repeat(*operations).status == "RETRY_UNCACHED_REP"
    assert client.run(putfh(b"file"), open_(b"owner", 1)).status == "OK"


def test_a_reply_that_is_to_be_kept_fits_the_slot_or_the_operation_does_not_run() -> None:
    server = Conversation()
    client = server.client().start(fore=FORE._replace(kept_octets=150))
    assert client.run(putfh(b"file"), open_(b"owner", 1), kept=True).status == "REP_TOO_BIG_TO_CACHE"
    assert len(server.claims) == 0
    assert client.run(putfh(b"file"), open_(b"owner", 1)).status == "OK"
    small = server.client("small").start(fore=FORE._replace(kept_octets=40))
    assert small.run(kept=True).status == "REP_TOO_BIG_TO_CACHE"
    small.number -= 1
    assert small.run().status == "OK", "a SEQUENCE that fails leaves its slot as it was"


@pytest.mark.req("NF4-121")
def test_sessions_and_clients_come_and_go_without_a_session_but_alone() -> None:
    client = Conversation().client()
    for operation in (
        exchange_id(b"a", b"verifier"),
        create_session(1, 1),
        destroy_session(bytes(16)),
        destroy_clientid(1),
        bind_conn_to_session(bytes(16), 1),
    ):
        assert client.compound(operation, getfh()).status == "NOT_ONLY_OP"
    assert client.compound(getfh()).status == "OP_NOT_IN_SESSION"
    client.start()
    assert client.run(sequence(client.session, 9)).status == "SEQUENCE_POS"
    assert client.run(exchange_id(b"b", b"verifier")).status == "OK"


@each_case("flags", [CONFIRMED, 0x8, 0x200, 0x80000])
def test_unknown_flags_of_exchange_id_are_invalid(flags: int) -> None:
    assert Conversation().client().compound(exchange_id(b"a", b"verifier", flags)).status == "INVAL"


def test_ssv_is_no_protection_here() -> None:
    ssv = struct.pack(">IIIIIII", 2, 0, 0, 0, 0, 1, 1)
    assert Conversation().client().compound(exchange_id(b"a", b"verifier", 0, ssv)).status == "ENCR_ALG_UNSUPP"


@pytest.mark.req("NF4-122")
def test_machine_credentials_keep_sessions_to_the_machine() -> None:
    server = Conversation()
    machine = server.client(credential=HOST)
    introduced = machine.introduce(protection=LINUX_MACH_CRED)
    enforced = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 25
    assert introduced["protection"] == ((0, enforced), (1 << 4 | 1 << 5 | 1 << 8 | 1 << 14 | 1 << 21,))
    alice = server.client(credential=ALICE)
    clear = server.client(credential=AuthGss(principal=HOST.principal, flavor=SecurityFlavor.KRB5))
    for other in (alice, clear):
        assert other.compound(create_session(machine.id, 1)).status == "WRONG_CRED"
    machine.session = machine.compound(create_session(machine.id, 1)).value(43)["session"]
    for other in (alice, clear):
        other.session = machine.session
        assert other.run(reclaim_complete()).status == "CONN_NOT_BOUND_TO_SESSION"
        assert other.compound(bind_conn_to_session(machine.session, 3)).status == "WRONG_CRED"
        assert other.compound(destroy_session(machine.session)).status == "WRONG_CRED"
        assert other.compound(destroy_clientid(machine.id)).status == "WRONG_CRED"
    assert machine.run(reclaim_complete()).status == "OK"
    assert machine.introduce(protection=LINUX_MACH_CRED)["flags"] & CONFIRMED
    again = clear.compound(exchange_id(machine.owner, machine.verifier, 0x101))
    assert again.status == "WRONG_CRED"


@each_case("confirmed, asked", [(NO_PROTECTION, LINUX_MACH_CRED), (LINUX_MACH_CRED, NO_PROTECTION)])
def test_a_known_client_is_told_the_protection_that_it_has(confirmed: bytes, asked: bytes) -> None:
    server = Conversation()
    machine = server.client(credential=HOST)
    introduced = machine.introduce(protection=confirmed)
    machine.session = machine.compound(create_session(machine.id, 1)).value(43)["session"]
    again = machine.introduce(protection=asked)
    assert (again["client"], again["protection"]) == (machine.id, introduced["protection"])
    status = server.client(credential=ALICE).compound(destroy_session(machine.session)).status
    assert status == ("OK" if again["protection"] is None else "WRONG_CRED")


@pytest.mark.req("NF4-108")
def test_a_call_without_integrity_does_not_end_the_state_of_a_machine_as_its_next_boot() -> None:
    server = Conversation()
    machine = server.client(credential=HOST)
    machine.introduce(protection=LINUX_MACH_CRED)
    machine.session = machine.compound(create_session(machine.id, 1)).value(43)["session"]
    machine.run(reclaim_complete())
    machine.opened(b"file")
    clear = server.client(credential=AuthGss(principal=HOST.principal, flavor=SecurityFlavor.KRB5))
    assert clear.compound(exchange_id(machine.owner, b"boot   2")).status == "CLID_INUSE"
    assert machine.run().status == "OK"
    machine.verifier = b"boot   2"
    machine.introduce(protection=LINUX_MACH_CRED)
    assert machine.compound(create_session(machine.id, 1)).status == "OK"
    assert len(server.claims) == 0


def test_users_of_a_machine_act_on_its_bound_connections() -> None:
    server = Conversation()
    first, second = FakeConnection(), FakeConnection()
    machine = server.client(credential=HOST, connection=first)
    machine.introduce(protection=LINUX_MACH_CRED)
    machine.session = machine.compound(create_session(machine.id, 1)).value(43)["session"]
    again = server.client(credential=HOST, connection=second)
    assert again.compound(bind_conn_to_session(machine.session, 7)).value(41) == (machine.session, 3, 0)
    alice = server.client(credential=ALICE, connection=second)
    alice.session = machine.session
    assert alice.run().status == "OK"


@each_case("credential", [AuthSys(uid=0, gid=0), AuthGss(principal="host", flavor=SecurityFlavor.KRB5)])
def test_machine_credentials_take_integrity(credential: AuthSys | AuthGss) -> None:
    client = Conversation().client(credential=credential)
    assert client.compound(exchange_id(b"a", b"verifier", 0, LINUX_MACH_CRED)).status == "INVAL"


@pytest.mark.req("NF4-123")
def test_a_lost_back_channel_is_reported_until_the_client_binds_another_one() -> None:
    server = Conversation()
    connection, other = FakeConnection(), FakeConnection()
    client = server.client(connection=connection).start()
    assert connection.is_ready
    connection.closed = True
    moved = server.client(connection=other)
    moved.session, moved.number = client.session, client.number
    assert moved.run().value(53)[-1] == 1
    assert moved.compound(bind_conn_to_session(client.session, 1)).value(41) == (client.session, 1, 0)
    assert moved.run().value(53)[-1] == 1, "this connection was bound for calls to the server alone"
    assert moved.compound(bind_conn_to_session(client.session, 3)).value(41) == (client.session, 3, 0)
    assert moved.run().value(53)[-1] == 0
    assert other.is_ready


@pytest.mark.req("NF4-150")
@each_case("asked, bound", [(FORE_ONLY, 1), (BACK_ONLY, 2), (FORE_OR_BOTH, 3), (BACK_OR_BOTH, 3)])
def test_a_connection_is_bound_to_the_channels_that_are_asked_for(asked: int, bound: int) -> None:
    server = Conversation()
    connection = FakeConnection()
    client = server.client().start()
    more = server.client(connection=connection)
    back = server.state.sessions.find(client.session).back_channel
    for _ in range(2):
        assert more.compound(bind_conn_to_session(client.session, asked)).value(41) == (client.session, bound, 0)
        assert (back.caller is connection) is (bound > 1), "the server calls over it if it has said so"


@pytest.mark.req("NF4-152")
def test_the_connection_for_calls_to_the_client_does_not_become_one_for_requests_alone() -> None:
    server = Conversation()
    connection = FakeConnection()
    client = server.client(connection=connection).start()
    back = server.state.sessions.find(client.session).back_channel
    assert back.caller is connection
    assert client.compound(bind_conn_to_session(client.session, FORE_ONLY)).status == "INVAL"
    for again in (FORE_OR_BOTH, BACK_OR_BOTH):
        assert client.compound(bind_conn_to_session(client.session, again)).value(41) == (client.session, 3, 0)
    assert back.caller is connection
    assert client.compound(bind_conn_to_session(bytes(16), FORE_OR_BOTH)).status == "BADSESSION"


def test_the_credential_and_program_of_calls_to_the_client_can_be_changed() -> None:
    server = Conversation()
    client = server.client().start()
    assert client.run(backchannel_ctl(0x40000007)).status == "OK"
    back = server.state.sessions.find(client.session).back_channel
    assert (back.program, back.credential.flavor) == (0x40000007, SecurityFlavor.NONE)
    no_parms = struct.pack(">III", 40, 0x40000008, 0)
    assert client.run(no_parms).status == "INVAL"
    assert back.program == 0x40000007


@pytest.mark.req("NF4-154")
def test_a_session_ends_itself_by_the_last_operation_alone() -> None:
    client = Conversation().client().start()
    assert client.run(destroy_session(client.session), putfh(b"file")).status == "NOT_ONLY_OP"
    assert client.run(destroy_session(client.session), destroy_session(client.session)).status == "NOT_ONLY_OP"
    assert client.run(destroy_session(client.session), kept=True).status == "OK"
    assert client.run().status == "BADSESSION"
    assert client.compound(destroy_session(client.session)).status == "BADSESSION"


@pytest.mark.req("NF4-153", "NF4-154")
def test_a_session_that_another_one_ends_takes_no_state_along() -> None:
    server = Conversation()
    server.files.leases = True
    server.files.add("read")
    client, other = server.client("a").start(), server.client("b").start()
    opened = client.opened(b"file", READ | WRITE)
    locked = client.locked(b"file", opened)
    delegation = client.run(putfh(b"read"), open_(b"o", READ)).value(18)["delegation"]
    first, client.number = client.session, 0
    client.session = client.compound(create_session(client.id, 2)).value(43)["session"]
    assert client.run(destroy_session(first), putfh(b"file"), getfh()).status == "OK"
    assert client.compound(sequence(first, 9)).status == "BADSESSION"
    assert client.run(test_stateid(opened, locked, delegation)).value(55) == ["OK"] * 3
    assert client.compound(destroy_session(client.session)).status == "OK"
    assert other.run(putfh(b"file"), open_(b"o", READ, READ)).status == "SHARE_DENIED"
    assert other.run(putfh(b"read"), open_(b"o", WRITE)).status == "DELAY"
    assert other.run(putfh(b"file"), lockt(b"o", 1, 0, 1)).status == "DENIED"


@pytest.mark.req("NF4-156")
@each_case("slot, number", [(0, 2), (5, 1), (9, 1)])
def test_the_result_of_sequence_names_session_slot_and_number_of_the_request(slot: int, number: int) -> None:
    server = Conversation()
    server.client("another").start()
    client = server.client().start()
    for each in (number, number + 1):
        found = client.compound(sequence(client.session, each, slot)).value(53)
        assert found[:3] == (client.session, each, slot)


@pytest.mark.req("NF4-161")
def test_a_client_with_sessions_or_state_is_not_destroyed() -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b").start()
    opened = client.opened(b"file")
    for caller in (client, other):
        assert caller.run(destroy_clientid(client.id)).status == "CLIENTID_BUSY", "it has a session"
    assert client.compound(destroy_clientid(client.id)).status == "CLIENTID_BUSY"
    assert client.compound(destroy_session(client.session)).status == "OK"
    assert other.run(destroy_clientid(client.id)).status == "CLIENTID_BUSY", "it has an open"
    client.session, client.number = client.compound(create_session(client.id, 2)).value(43)["session"], 0
    assert client.run(putfh(b"file"), close(opened)).status == "OK"
    assert client.run(destroy_clientid(client.id)).status == "CLIENTID_BUSY", "of the session of the call as well"
    assert client.compound(destroy_session(client.session)).status == "OK"
    assert other.run(destroy_clientid(client.id)).status == "OK"
    assert other.run(destroy_clientid(client.id)).status == "STALE_CLIENTID"


@pytest.mark.req("NF4-163", "NF4-164")
def test_reclaim_complete_comes_once() -> None:
    client = Conversation().client().start(complete=False)
    assert client.run(reclaim_complete(one=True)).status == "NOFILEHANDLE"
    assert client.run(putfh(b"file"), reclaim_complete(one=True)).status == "OK"
    assert client.run(putfh(b"file"), open_(b"owner", READ)).status == "GRACE", "it was for one file system"
    assert client.run(reclaim_complete()).status == "OK"
    assert client.run(reclaim_complete()).status == "COMPLETE_ALREADY"
