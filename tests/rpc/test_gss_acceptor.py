"""The server's checks of calls under RPCSEC_GSS, octet for octet, without I/O."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import AuthError, DecodeError, GarbageArguments, NoSuchProcedure, RpcError
from rpcrdma.limits import GSS_ADDRESS_CREATING_MAX, GSS_CREATION_S, GSS_IDLE_S
from rpcrdma.rpc.auth import AuthGss, AuthStat, LocalUser, OpaqueAuth
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.acceptor import Acceptor
from rpcrdma.rpc.gss.flavors import GssService, SecurityFlavor
from rpcrdma.rpc.gss.initiator import ContextCall, GssSession, ProtectedCall, UnverifiedReply, check_verifier
from rpcrdma.rpc.gss.mechanism import GssFailure
from rpcrdma.rpc.gss.messages import GssCredential, InitResult, encode_gss_credential
from rpcrdma.rpc.gss.protection import CallDropped
from rpcrdma.rpc.message import auth_octets, call_tail, decode_reply
from rpcrdma.rpc.program import Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.reply_cache import call_key
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder, PlacedByPosition, ReducedIneligibleItem
from support.cases import each_case
from support.fake_gss import FakeMechanism
from support.programs import procedure

ADD = procedure(0x20000009, 1, "add")
GIVE = procedure(
    0x20000009, 3, "give", result=(lambda enc, data: enc.bulk(data, 100, "data"), lambda dec: dec.bulk(100, "data"))
)
MISSING = procedure(0x20000009, 2, "missing")
NULL = null_procedure(0x20000009, 1)
ALICE = LocalUser(1000, 100, (4, 24))


class Adding(Service):
    PROGRAM = Program(0x20000009, 1, "ADDING", {1: ADD, 3: GIVE})

    def add(self, args: int, context: Any) -> int:
        return args + 1

    def give(self, args: int, context: Any) -> bytes:
        return b"\xaa" * args


class Source:
    """The connection of a call, as far as its opening needs it."""

    def __init__(self, host: str) -> None:
        self.host = host


class Server:
    """A server without connections, whose clock a test moves."""

    def __init__(self, mechanism: FakeMechanism | None = None, **bounds: Any) -> None:
        self.mechanism = mechanism or FakeMechanism(users={"alice@REALM": ALICE})
        self.now_s = 0.0
        self.failures: list[tuple[str, str]] = []
        self.made: list[tuple[str, str]] = []
        handles = itertools.count(1)
        self.acceptor = Acceptor(
            self.mechanism,
            clock=lambda: self.now_s,
            random_octets=lambda length: next(handles).to_bytes(length, "big"),
            on_failure=lambda peer, failure: self.failures.append((peer, str(failure))),
            on_made=lambda peer, principal: self.made.append((peer, principal)),
            **bounds,
        )
        self.dispatcher = Dispatcher([Adding()], acceptor=self.acceptor)

    def opened(self, octets: bytes, *, host: str = "::1", placed: Any = None) -> tuple[ServerCall, Any]:
        call = ServerCall(7, Decoder(octets, placed=placed))
        call.source = Source(host)  # type: ignore[assignment]
        return call, self.dispatcher.open_call(call)

    def answer(self, octets: bytes, *, host: str = "::1") -> bytes:
        """The whole reply, as the answering side makes it."""
        call, reply = self.opened(octets, host=host)
        if reply is None:
            reply = call.success(call.route.handler(call.args, call))
        if call.protection is not None:
            reply = call.protection.protect(reply)
        return b"".join(reply.gather())

    def take(self, token: bytes | None, handle: bytes | None, host: str = "::1") -> tuple[ContextCall, InitResult]:
        """A call that makes a context, or goes on making it, and its result."""
        creation = ContextCall(token or b"", handle)
        reply = self.answer(bytes(creation.encode(1, NULL, None).reduced), host=host)
        return creation, creation.decode(Decoder(reply), 1, NULL, ())

    def session(self, *, host: str = "::1") -> GssSession:
        """A context, from the client's view."""
        gss = self.mechanism.initiate("host")
        token, handle = gss.step(None), None
        while True:
            creation, result = self.take(token, handle, host)
            if result.major > 1:
                raise GssFailure("refused", major=result.major, minor=result.minor)
            token, handle = gss.step(result.token), result.handle
            if not result.major:
                check_verifier(gss, creation.verifier, result.window)
                return GssSession(gss, result.handle, 20, 20, [0])

    def call(self, session: GssSession, service: GssService, number: int = 41) -> Any:
        protected = ProtectedCall(session, service)
        return protected.decode(Decoder(self.answer(octets_of(protected, number))), 9, ADD, ())


def with_session() -> tuple[Server, GssSession]:
    server = Server()
    return server, server.session()


def octets_of(protected: ProtectedCall, number: int = 41) -> bytes:
    return b"".join(protected.encode(9, ADD, number).gather())


def refused(server: Server, octets: bytes) -> int:
    with pytest.raises(AuthError) as error:
        decode_reply(Decoder(server.answer(octets)), 9)
    return error.value.stat


def crafted(
    session: GssSession, credential: GssCredential, *, verifier: OpaqueAuth | None = None, args: bytes = bytes(4)
) -> bytes:
    """A call with any credential, and by default the checksum that fits."""
    enc = Encoder()
    encode_gss_credential(enc, credential)
    head = (9).to_bytes(4, "big") + call_tail(ADD.program, 1, 1, OpaqueAuth(6, bytes(enc.reduced)))[:-8]
    return head + auth_octets(verifier or OpaqueAuth(6, session.gss.mic(head)), "verifier") + args


@each_case("legs", [1, 2, 3])
@pytest.mark.req("OR-9")
def test_a_context_is_made_with_init_and_goes_on_with_the_handle_that_was_given(legs: int) -> None:
    server = Server(FakeMechanism(legs=legs))
    session = server.session()
    assert server.call(session, GssService.NONE) == 42
    assert len(server.acceptor) == 1
    if legs > 1:
        # Each of several that are being made goes on by its own handle.
        clients = [server.mechanism.initiate("") for _ in range(2)]
        begun = [server.take(client.step(None), None)[1] for client in clients]
        for client, result in zip(clients, begun, strict=True):
            assert server.take(client.step(result.token), result.handle)[1].handle == result.handle


@each_case("service", GssService)
def test_handlers_get_the_identity_and_one_object_for_all_calls_of_a_service(service: GssService) -> None:
    server, session = with_session()
    found = [server.opened(octets_of(ProtectedCall(session, service)))[0] for _ in range(2)]
    assert found[0].credential is found[1].credential
    flavor = next(flavor for flavor in SecurityFlavor if flavor.service is service)
    assert found[0].credential == AuthGss(principal="alice@REALM", flavor=flavor, user=ALICE)
    assert found[0].principal == "alice@REALM"


def test_the_verifier_moves_bulk_results_to_their_places_in_the_longer_reply() -> None:
    server = Server()
    protected = ProtectedCall(server.session(), GssService.NONE)
    call, refused_with = server.opened(b"".join(protected.encode(9, GIVE, 5).gather()))
    assert refused_with is None
    assert call.protection is not None
    reply = call.success(call.route.handler(call.args, call))
    reply.begun = [0]
    reply = call.protection.protect(reply)
    assert reply.begun == [0]
    (item,) = reply.items
    stream = b"".join(reply.gather())
    assert stream[item.position :][:5] == b"\xaa" * 5 == bytes(item.data)
    assert item.at == len(reply.reduced) == item.position
    assert bytes(protected.decode(Decoder(stream), 9, GIVE, ())) == b"\xaa" * 5


@each_case("service", GssService)
def test_errors_that_are_no_denials_have_a_verifier_and_no_body(service: GssService) -> None:
    server, session = with_session()
    protected = ProtectedCall(session, service)
    reply = server.answer(b"".join(protected.encode(9, MISSING, 1).gather()))
    with pytest.raises(NoSuchProcedure):
        protected.decode(Decoder(reply), 9, MISSING, ())
    with pytest.raises(UnverifiedReply):
        protected.decode(Decoder(reply[:20] + b"\xff" + reply[21:]), 9, MISSING, ())


@each_case("service", GssService)
def test_no_octet_of_a_header_or_of_a_protected_body_can_be_changed(service: GssService) -> None:
    server, session = with_session()
    protected = ProtectedCall(session, service)
    octets = octets_of(protected)
    # Behind the verifier of a call without a protected body come its arguments.
    end = len(octets) - 4 * (service is GssService.NONE)
    for at in range(8, end):
        changed = bytearray(octets)
        changed[at] ^= 1
        try:
            _, reply = server.opened(bytes(changed))
        except (DecodeError, CallDropped):
            continue
        assert reply is not None, at
        denied, stat = reply.reduced[8:12], int.from_bytes(reply.reduced[-4:], "big")
        garbage = reply.reduced[20:24] == bytes((0, 0, 0, 4))
        assert denied == b"\0\0\0\1" or garbage, (at, stat)


@each_case("service", [GssService.INTEGRITY, GssService.PRIVACY])
def test_no_octet_of_a_reply_can_be_changed(service: GssService) -> None:
    server, session = with_session()
    protected = ProtectedCall(session, service)
    reply = server.answer(octets_of(protected))
    for at in range(len(reply)):
        changed = bytearray(reply)
        changed[at] ^= 1
        with pytest.raises((UnverifiedReply, DecodeError, RpcError)):
            protected.decode(Decoder(bytes(changed)), 9, ADD, ())
    for end in range(len(reply)):
        with pytest.raises(DecodeError):
            protected.decode(Decoder(reply[:end]), 9, ADD, ())


@pytest.mark.req("OR-11")
@each_case("service", [GssService.INTEGRITY, GssService.PRIVACY])
def test_a_body_of_another_call_of_the_same_context_is_refused(service: GssService) -> None:
    server, session = with_session()
    first, second = (octets_of(ProtectedCall(session, service)) for _ in range(2))
    split = first.index(session.gss.mic(first[: 24 + 8 + 36])) + 20
    mixed = second[:split] + first[split:]
    protected = ProtectedCall(session, service)
    protected._sequence = 2
    with pytest.raises(GarbageArguments):
        protected.decode(Decoder(server.answer(mixed)), 9, ADD, ())


@pytest.mark.req("OR-12")
def test_replays_and_numbers_below_the_window_are_dropped_and_reordered_ones_are_taken() -> None:
    server, session = with_session()
    early = [octets_of(ProtectedCall(session, GssService.NONE)) for _ in range(3)]
    assert server.opened(early[2])[1] is None
    assert server.opened(early[0])[1] is None
    for replay in (early[2], early[0]):
        with pytest.raises(CallDropped):
            server.opened(replay)
    session.numbers[0] = 1000
    assert server.opened(octets_of(ProtectedCall(session, GssService.NONE)))[1] is None
    with pytest.raises(CallDropped):
        server.opened(early[1])


def test_a_forged_number_does_not_move_the_window() -> None:
    server, session = with_session()
    forged = crafted(session, GssCredential(1, 0, 0x7FFFFFFF, 1, session.handle), verifier=OpaqueAuth(6, bytes(20)))
    assert refused(server, forged) == AuthStat.RPCSEC_GSS_CREDPROBLEM
    assert server.call(session, GssService.NONE) == 42


@each_case(
    ("changes", "stat"),
    [
        ({"version": 2}, AuthStat.AUTH_BADCRED),
        ({"version": 2, "procedure": 1}, AuthStat.AUTH_REJECTEDCRED),
        ({"procedure": 4}, AuthStat.AUTH_BADCRED),
        ({"procedure": 3}, AuthStat.AUTH_BADCRED),
        ({"procedure": 1}, AuthStat.AUTH_BADCRED),
        ({"service": 0}, AuthStat.AUTH_BADCRED),
        ({"service": 4}, AuthStat.AUTH_BADCRED),
        ({"handle": b""}, AuthStat.RPCSEC_GSS_CREDPROBLEM),
        ({"handle": bytes(16)}, AuthStat.RPCSEC_GSS_CREDPROBLEM),
        ({"sequence": 0x80000000}, AuthStat.RPCSEC_GSS_CTXPROBLEM),
    ],
)
def test_a_credential_that_cannot_be_is_refused_with_its_status(changes: dict[str, Any], stat: AuthStat) -> None:
    server, session = with_session()
    credential = GssCredential(1, 0, 1, 1, session.handle)._replace(**changes)
    assert refused(server, crafted(session, credential)) == stat


def test_verifiers_of_another_flavor_are_refused() -> None:
    server, session = with_session()
    credential = GssCredential(1, 0, 1, 1, session.handle)
    assert refused(server, crafted(session, credential, verifier=OpaqueAuth(0, b""))) == AuthStat.AUTH_BADVERF
    creating = ContextCall(b"x").encode(9, NULL, None).reduced
    at = len(creating) - 16
    assert refused(server, bytes(creating[:at] + b"\0\0\0\6" + creating[at + 4 :])) == AuthStat.AUTH_BADVERF


def test_the_handle_of_another_user_is_of_no_use() -> None:
    server = Server()
    alice = server.session()
    server.mechanism.principal = "mallory@REALM"
    mallory = server.session()
    stolen = alice._replace(gss=mallory.gss)
    assert refused(server, octets_of(ProtectedCall(stolen, GssService.NONE))) == AuthStat.RPCSEC_GSS_CREDPROBLEM


def test_contexts_end_with_their_tickets_and_when_nobody_uses_them() -> None:
    server = Server(FakeMechanism(lifetime_s=100.0))
    session = server.session()
    server.now_s = 99.0
    assert server.call(session, GssService.NONE) == 42
    server.now_s = 100.0
    assert refused(server, octets_of(ProtectedCall(session, GssService.NONE))) == AuthStat.RPCSEC_GSS_CTXPROBLEM
    server, session = with_session()
    server.now_s = GSS_IDLE_S
    assert refused(server, octets_of(ProtectedCall(session, GssService.NONE))) == AuthStat.RPCSEC_GSS_CREDPROBLEM
    assert len(server.acceptor) == 0


def test_a_context_is_unused_from_the_end_of_its_creation_on() -> None:
    server = Server()

    def slowly() -> None:
        server.now_s += 50

    server.mechanism.on_step = slowly
    session = server.session()
    # The client's first step, and that of the server, but not the client's last one.
    server.now_s = 100 + GSS_IDLE_S - 1
    assert server.call(session, GssService.NONE) == 42


def test_a_context_that_ends_within_a_call_is_told_with_the_reply() -> None:
    server, session = with_session()
    call, reply = server.opened(octets_of(ProtectedCall(session, GssService.PRIVACY)))
    assert reply is None
    server.mechanism.expired = True
    protection = call.protection
    assert protection is not None
    told = protection.protect(call.success(1)).reduced
    assert int.from_bytes(told[-4:], "big") == AuthStat.RPCSEC_GSS_CTXPROBLEM


def test_a_context_that_has_expired_when_it_is_made_is_told_as_a_failure_alone() -> None:
    server, _ = with_session()
    assert (server.made, server.failures) == ([("::1", "alice@REALM")], [])
    server.mechanism.expired = True
    with pytest.raises(AuthError) as error:
        server.session(host="192.0.2.7")
    assert error.value.stat == AuthStat.RPCSEC_GSS_CTXPROBLEM
    assert (len(server.made), server.failures) == (1, [("192.0.2.7", "the context has ended")])
    assert len(server.acceptor) == 1


@each_case("service", GssService)
def test_destroy_ends_the_context_and_is_answered_under_it(service: GssService) -> None:
    server, session = with_session()
    ending = ProtectedCall(session, service, ends=True)
    reply = server.answer(bytes(ending.encode(9, NULL, None).reduced))
    assert ending.decode(Decoder(reply), 9, NULL, ()) is None
    assert len(server.acceptor) == 0
    assert refused(server, octets_of(ProtectedCall(session, service))) == AuthStat.RPCSEC_GSS_CREDPROBLEM


def test_a_refused_principal_leaves_nothing_behind_and_the_reason_is_told() -> None:
    server = Server(FakeMechanism(refused={"alice@REALM"}))
    with pytest.raises(GssFailure) as failure:
        server.session(host="192.0.2.7")
    assert failure.value.minor == 9
    assert server.failures == [("192.0.2.7", "the principal is refused")]
    assert len(server.acceptor) == 0


@each_case("host", ["192.0.2.7", "2001:db8::{}"])
def test_contexts_that_are_never_finished_are_few_for_each_host_and_end_by_themselves(host: str) -> None:
    server = Server(FakeMechanism(legs=2))
    octets = bytes(ContextCall(server.mechanism.initiate("").step(None) or b"").encode(1, NULL, None).reduced)
    for number in range(100):
        server.answer(octets, host=host.format(number))
    assert len(server.acceptor) == GSS_ADDRESS_CREATING_MAX
    assert server.call(server.session(host="192.0.2.8"), GssService.NONE) == 42
    assert len(server.acceptor) == GSS_ADDRESS_CREATING_MAX + 1
    server.now_s = GSS_CREATION_S
    server.answer(octets, host="192.0.2.9")
    assert len(server.acceptor) == 2


def test_a_further_token_gives_the_making_of_a_context_no_more_time() -> None:
    server = Server(FakeMechanism(legs=3))
    gss = server.mechanism.initiate("")
    _, first = server.take(gss.step(None), None)
    server.now_s = 1.0
    _, later = server.take(server.mechanism.initiate("").step(None), None)
    server.take(gss.step(first.token), first.handle)
    assert list(server.acceptor._creating) == [later.handle, first.handle]
    server.now_s = GSS_CREATION_S
    server.take(server.mechanism.initiate("").step(None), None)
    assert first.handle not in server.acceptor._creating
    assert later.handle in server.acceptor._creating


def test_of_too_many_contexts_the_one_used_longest_ago_ends_first_of_its_own_principal() -> None:
    server = Server(contexts_max=4, principal_contexts_max=2)
    alice = [server.session() for _ in range(2)]
    assert server.call(alice[0], GssService.NONE) == 42
    server.mechanism.principal = "bob@REALM"
    bob = [server.session() for _ in range(2)]
    bob.append(server.session())
    assert [handle_known(server, session) for session in (*alice, *bob)] == [True, True, False, True, True]
    server.mechanism.principal = "carol@REALM"
    server.session()
    assert len(server.acceptor) == 4
    assert [handle_known(server, session) for session in alice] == [True, False]


def test_a_new_context_looks_at_the_others_only_where_its_principal_may_have_too_many() -> None:
    looked_at = 0

    class Watched(OrderedDict[Any, Any]):
        def values(self) -> Any:
            nonlocal looked_at
            for each in super().values():
                looked_at += 1
                yield each

    server = Server(contexts_max=12, principal_contexts_max=2)
    server.acceptor._contexts = Watched()
    for number in range(48):
        server.mechanism.principal = f"user{number}@REALM"
        last = server.session()
    # The oldest one by each, since it may be too old, and all for the bound on the numbers.
    assert looked_at <= 48 + 2 * 12
    assert len(server.acceptor._held_at_most) <= 24
    of_last = [server.session() for _ in range(3)]
    assert [handle_known(server, each) for each in (last, *of_last)] == [False, False, True, True]


def handle_known(server: Server, session: GssSession) -> bool:
    return session.handle in server.acceptor._contexts


@pytest.mark.req("V1-80", "V1-83", "V2-65")
@each_case("service", [GssService.INTEGRITY, GssService.PRIVACY])
def test_a_protected_body_of_which_a_part_came_in_a_chunk_is_refused(service: GssService) -> None:
    server, session = with_session()
    sent = ProtectedCall(session, service).encode(9, ADD, 41)
    # The sender marks nothing of it for a chunk.
    assert not sent.items
    octets = b"".join(sent.gather())
    with pytest.raises(ReducedIneligibleItem):
        server.opened(octets, placed=PlacedByPosition({len(octets) - 8: memoryview(bytes(8))}))


def test_a_server_without_contexts_refuses_the_flavor() -> None:
    server = Server()
    octets = octets_of(ProtectedCall(server.session(), GssService.NONE))
    call = ServerCall(9, Decoder(octets))
    reply = Dispatcher([Adding()]).open_call(call)
    assert reply is not None
    assert int.from_bytes(reply.reduced[-4:], "big") == AuthStat.AUTH_REJECTEDCRED


@given(st.binary(max_size=120), st.integers(0, 100))
def test_any_octets_in_place_of_a_call_end_in_an_answer_or_in_silence(noise: bytes, keep: int) -> None:
    server, session = with_session()
    octets = octets_of(ProtectedCall(session, GssService.INTEGRITY))
    data = octets[:keep] + noise
    try:
        _, reply = server.opened(data)
    except (DecodeError, CallDropped):
        return
    assert reply is not None or data.startswith(octets)
    assert len(server.acceptor) <= 1


@each_case(
    ("service", "bound"),
    [
        (GssService.NONE, ReplyBound(100 + 20, (1001,))),
        # Verifier, length, sequence number, results and item with padding, and the checksum with its length.
        (GssService.INTEGRITY, ReplyBound(20 + 4 + 4 + 100 + 1004 + 4 + 20)),
        (GssService.PRIVACY, ReplyBound(20 + 4 + 4 + 100 + 1004 + 20)),
    ],
)
def test_verifier_and_protection_count_in_the_space_that_a_call_offers(service: GssService, bound: ReplyBound) -> None:
    session = Server().session()
    assert ProtectedCall(session, service).bound(ReplyBound(100, (1001,))) == bound


@each_case("service", list(GssService))
def test_a_server_knows_to_the_octet_how_long_a_protected_reply_may_be(service: GssService) -> None:
    # Linux offers memory for a reply with what the mechanism has added before, not with the most that it may add.
    server, session = with_session()
    server.mechanism.mic_octets_max = server.mechanism.wrap_octets_max = 64
    call, _ = server.opened(octets_of(ProtectedCall(session, service)))
    reply = call.success(42)
    assert call.protection is not None
    protected = call.protection.protect(reply)
    assert call.protection.content_octets_max(protected.length) == reply.length


def test_the_key_of_a_call_leaves_its_protection_out() -> None:
    server, session = with_session()
    keys = set()
    for service in GssService:
        for _ in range(2):
            call, _ = server.opened(octets_of(ProtectedCall(session, service)))
            assert call.protection is not None
            keys.add(call_key("alice", 9, ADD, call.protection.arguments, call.protection.skipped))
    assert keys == {call_key("alice", 9, ADD, Decoder((41).to_bytes(4, "big")))}
