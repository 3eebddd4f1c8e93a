"""Calls under RPCSEC_GSS over TCP and over RDMA in each version, with a mechanism that needs no realm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

import local_tcp
from local_tcp import with_threads
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import AuthError, RemoteSystemError, TransportClosed, UserAuthenticationFailed
from rpcrdma.limits import GSS_SHORT_OCTETS
from rpcrdma.rpc.auth import AuthStat, AuthSys
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.gss.initiator import GssSession, ProtectedCall, UnverifiedReply
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import Call
from support.cases import each_case
from support.fake_gss import FakeMechanism
from support.programs import bulk_of, decode_word, encode_word, opaque_of
from support.waiting import until

MIB = 1 << 20
FLAVORS = ("krb5", "krb5i", "krb5p")
TRANSPORTS = ("tcp", "1", "2", "rtr")
DATA = bulk_of(MIB)


ECHO = Procedure(0x20000009, 1, 1, "ECHO", "echo", *DATA, *DATA, bound=lambda args: ReplyBound(4, (MIB,)))


class Echo(Service):
    PROGRAM = Program(0x20000009, 1, "ECHO_V1", {1: ECHO})

    def __init__(self) -> None:
        self.callers: list[CallContext] = []

    def echo(self, args: memoryview, context: CallContext) -> bytes:
        self.callers.append(context)
        return bytes(args)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """With the threads that long messages are sealed and opened in."""
    return local_tcp.run(main, asyncio.new_event_loop)


@asynccontextmanager
async def pair(
    transport: str,
    flavor: str,
    mechanism: FakeMechanism,
    *,
    offered: tuple[str, ...] = FLAVORS,
    service: Echo | None = None,
    **client: Any,
) -> AsyncIterator[tuple[Connection, Echo, Server]]:
    echo = service or Echo()
    version = {"tcp": "auto", "rtr": "2"}.get(transport, transport)
    options = ServeOptions(
        security=offered, kerberos=KerberosKeys(mechanism=mechanism), rdma=RdmaServerConfig(rpcrdma_version=version)
    )
    scheme = "tcp" if transport == "tcp" else "rdma"
    extension = "rtr" if transport == "rtr" else "off"
    settings = {"rpcrdma_version": version, "extension": extension, "security": Kerberos(flavor, mechanism=mechanism)}
    settings |= client
    async with (
        serve([echo], [f"{scheme}://127.0.0.1:0"], options=options) as server,
        connect(server.listening[0], echo.PROGRAM, options=ConnectOptions(**settings)) as connection,
    ):
        yield connection, echo, server


@pytest.mark.thorough
@each_case("transport", TRANSPORTS)
@each_case("flavor", FLAVORS)
@with_threads
async def test_calls_of_all_sizes_come_back_whole_and_the_handler_sees_who_calls(transport: str, flavor: str) -> None:
    async with pair(transport, flavor, FakeMechanism()) as (connection, echo, _):
        with pytest.raises(TypeError, match=r"ECHO: .*no octets"):
            await connection.call(ECHO, 5)
        for length in (0, 5, 5000, MIB):
            data = bytes(range(256)) * (length // 256) + bytes(length % 256)
            assert bytes(await connection.call(ECHO, data)) == data
            into = bytearray(length)
            got = await connection.call(ECHO, data, into=into) if length else b""
            assert bytes(got) == data == bytes(into)
        assert {context.principal for context in echo.callers} == {"alice@REALM"}
        assert {context.credential.flavor for context in echo.callers} == {SecurityFlavor[flavor.upper()]}
        assert connection.principal == "alice@REALM"


@pytest.mark.thorough
@pytest.mark.req("V1-80", "V1-82", "V1-83", "V2-65", "V2-102")
@each_case("transport", TRANSPORTS[1:])
@each_case("flavor", FLAVORS)
@with_threads
async def test_without_protection_of_data_items_are_placed_and_with_it_none_is(transport: str, flavor: str) -> None:
    calls: list[Any] = []
    async with pair(transport, flavor, FakeMechanism(), on_call=calls.append) as (connection, _, _):
        await connection.call(ECHO, bytes(MIB))
    (call,) = (call for call in calls if call.procedure is ECHO)
    assert call.octets_received > MIB
    how = call.travelled
    if flavor == "krb5":
        assert "read chunk" in how or "argument by" in how, how
        assert "write chunk" in how or "result by" in how, how
    else:
        # Whole, by a Position-Zero Read chunk and a Reply chunk.
        assert how == "long call + long reply"


@pytest.mark.req("OR-13")
@each_case("transport", ["tcp", "2"])
@with_threads
async def test_a_server_that_has_lost_its_contexts_gets_a_new_one_and_the_call_again(transport: str) -> None:
    mechanism = FakeMechanism()
    async with pair(transport, "krb5i", mechanism) as (connection, echo, server):
        assert bytes(await connection.call(ECHO, b"one")) == b"one"
        acceptor(server)._contexts.clear()
        results = await asyncio.gather(*(connection.call(ECHO, bytes([n])) for n in range(20)))
        assert [bytes(result) for result in results] == [bytes([n]) for n in range(20)]
        assert mechanism.made == 2
        assert len(echo.callers) == 21


def acceptor(server: Server) -> Any:
    return server._over_rdma._acceptor


@pytest.mark.req("OR-13")
@with_threads
async def test_a_context_that_the_server_goes_on_refusing_is_made_anew_once_only() -> None:
    mechanism = FakeMechanism(lifetime_s=0.0)
    async with pair("tcp", "krb5", mechanism) as (connection, echo, _):
        with pytest.raises(AuthError) as error:
            await connection.call(ECHO, b"one")
        assert error.value.stat == AuthStat.RPCSEC_GSS_CTXPROBLEM
        assert mechanism.made == 2
        assert not echo.callers


@pytest.mark.req("OR-13")
@with_threads
async def test_other_refusals_lead_to_no_new_context() -> None:
    mechanism = FakeMechanism()
    async with pair("2", "krb5", mechanism, offered=("krb5p",)) as (connection, echo, _):
        await connection.call(null_procedure(ECHO.program, 1), None)
        with pytest.raises(AuthError) as error:
            await connection.call(ECHO, b"one")
        assert error.value.stat == AuthStat.AUTH_TOOWEAK
        assert mechanism.made == 1
        assert not echo.callers


@with_threads
async def test_a_server_without_contexts_is_told_in_words() -> None:
    async with pair("tcp", "krb5p", FakeMechanism(), offered=("sys",)) as (connection, _, _):
        with pytest.raises(UserAuthenticationFailed, match=r"refuses RPCSEC_GSS .* ConnectOptions.security=.sys"):
            await connection.call(ECHO, b"one")


@with_threads
async def test_a_principal_that_the_server_refuses_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    async with pair("1", "krb5", FakeMechanism(refused={"alice@REALM"})) as (connection, _, _):
        with pytest.raises(UserAuthenticationFailed, match="the server says no"):
            await connection.call(ECHO, b"one")
    assert "127.0.0.1 could not prove its user: the principal is refused" in caplog.text


@each_case("legs", [1, 3])
@with_threads
async def test_concurrent_first_calls_wait_for_one_context_and_its_end_frees_it(legs: int) -> None:
    mechanism = FakeMechanism(legs=legs)
    async with pair("2", "krb5p", mechanism) as (connection, _, server):
        await asyncio.gather(*(connection.call(ECHO, b"x") for _ in range(10)))
        assert mechanism.made == legs
        assert len(acceptor(server)) == 1
        await connection.close()
        assert len(acceptor(server)) == 0


@with_threads
async def test_a_context_is_renewed_before_its_end_and_used_on_where_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mechanism = FakeMechanism(lifetime_s=1000.0)
    async with pair("tcp", "krb5", mechanism) as (connection, _, _):
        loop = asyncio.get_running_loop()
        await connection.call(ECHO, b"x")
        now_s = loop.time()
        sessions = connection._gss
        assert sessions is not None
        sessions._renew_s = now_s - 1
        await connection.call(ECHO, b"x")
        assert mechanism.made == 2
        mechanism.refused.add("alice@REALM")
        sessions._renew_s = now_s - 1
        await connection.call(ECHO, b"x")
        assert sessions._renew_s > now_s
        assert mechanism.made == 3


@each_case("taken", [False, True])
@with_threads
async def test_at_the_end_of_the_process_where_no_thread_starts_calls_of_any_length_go_on(
    taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_executor: None, work: Callable[[], None]) -> None:
        if taken:
            work()
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    mechanism = FakeMechanism(blocks=True)
    async with pair("tcp", "krb5p", mechanism) as (connection, _, _):
        loop = asyncio.get_running_loop()
        await connection.call(ECHO, b"x")
        with monkeypatch.context() as patch:
            patch.setattr(loop, "run_in_executor", ended)
            assert connection._gss is not None
            connection._gss._renew_s = loop.time() - 1
            assert bytes(await connection.call(ECHO, bytes(MIB))) == bytes(MIB)
            assert mechanism.made == 2


@each_case("transport", ["tcp", "2"])
@with_threads
async def test_the_loss_of_the_connection_over_which_a_context_is_made_ends_no_later_connection(transport: str) -> None:
    own, go_on = FakeMechanism(blocks=True), asyncio.Event()

    class Waiting(Echo):
        async def echo(self, args: memoryview, context: CallContext) -> bytes:  # type: ignore[override]
            self.callers.append(context)
            await go_on.wait()
            return bytes(args)

    apart = Kerberos("krb5i", mechanism=own)
    async with pair(transport, "krb5i", FakeMechanism(), service=Waiting(), security=apart) as (connection, echo, _):
        first, gate = asyncio.create_task(connection.call(ECHO, b"first")), Gate()
        await until(lambda: echo.callers)
        own.on_step = lambda: gate(GSS_SHORT_OCTETS + 1)
        assert connection._gss is not None
        connection._gss._renew_s = 0.0
        second = asyncio.create_task(connection.call(ECHO, b"second"))
        await gate.entered.wait()
        connection._present.abort("cut off")
        # The first call is sent again there, and waits for the context, too.
        await connection.wait_reconnected(0)
        await asyncio.sleep(0)
        gate.open()
        go_on.set()
        assert [bytes(result) for result in await asyncio.gather(first, second)] == [b"first", b"second"]
        assert connection.reconnects == 1
        # No ended connection and its buffers are kept until the next context is made.
        assert connection._gss._making_over is None


@each_case("renewed", [False, True])
@with_threads
async def test_calls_that_wait_for_a_context_fail_as_lost_when_their_connection_is_closed(renewed: bool) -> None:
    made: list[object] = []

    async def never(connection: object) -> GssSession:
        made.append(connection)
        return await asyncio.Future()

    async with pair("2", "krb5", FakeMechanism()) as (connection, _, _):
        sessions = connection._gss
        assert sessions is not None
        if renewed:
            await connection.call(ECHO, b"x")
            sessions._renew_s = asyncio.get_running_loop().time()
        sessions._exchange = never  # type: ignore[method-assign]
        calls = [asyncio.ensure_future(connection.call(ECHO, b"x")) for _ in range(3)]
        await until(lambda: made)
        await connection.close()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ends] == [TransportClosed] * 3
        assert len(made) == 1


@local_tcp.without_network
async def test_a_close_that_is_cancelled_while_the_context_ends_closes_the_connection() -> None:
    async with pair("2", "krb5", FakeMechanism()) as (connection, _, server):
        await connection.call(ECHO, b"x")
        closing = asyncio.ensure_future(connection.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert connection.lost
        await until(lambda: not server.connections)


def session_of(connection: Connection) -> GssSession:
    assert connection._gss is not None
    session = connection._gss._session
    assert session is not None
    return session


@pytest.mark.thorough
@each_case("flavor", FLAVORS)
@each_case("transport", ["tcp", "2"])
@with_threads
async def test_a_kept_reply_is_sealed_for_the_repeat_of_its_own_principal_only(transport: str, flavor: str) -> None:
    mechanism = FakeMechanism()
    async with pair(transport, flavor, mechanism) as (connection, echo, server):
        await connection.call(ECHO, b"first")
        for _ in range(2):
            repeat = Call(ECHO, b"once")
            repeat.xid = 77
            repeat.protection = ProtectedCall(session_of(connection), SecurityFlavor[flavor.upper()].service)
            assert bytes(await connection._present.start(repeat)) == b"once"
        assert len(echo.callers) == 2
        mechanism.principal = "bob@REALM"
        options = ConnectOptions(
            security=Kerberos(flavor, mechanism=mechanism), rpcrdma_version="auto" if transport == "tcp" else transport
        )
        async with connect(server.listening[0], echo.PROGRAM, options=options) as other:
            await other.call(ECHO, b"first")
            repeat = Call(ECHO, b"once")
            repeat.xid = 77
            repeat.protection = ProtectedCall(session_of(other), SecurityFlavor[flavor.upper()].service)
            assert bytes(await other._present.start(repeat)) == b"once"
        assert [context.principal for context in echo.callers] == ["alice@REALM"] * 2 + ["bob@REALM"] * 2


@with_threads
async def test_a_server_that_cannot_prove_itself_is_not_believed() -> None:
    impostor = FakeMechanism(secret=b"another")
    client = Kerberos("krb5", mechanism=FakeMechanism())
    async with pair("2", "krb5", impostor, security=client) as (connection, echo, _):
        with pytest.raises(UnverifiedReply):
            await connection.call(ECHO, b"one")
        assert not echo.callers


BACK = Procedure(0x2000000A, 1, 1, "BACK", "echo", *DATA, *DATA, bound=ReplyBound(64))


class Back(Service):
    PROGRAM = Program(BACK.program, 1, "BACK_V1", {1: BACK})

    def __init__(self) -> None:
        self.runs = 0

    def echo(self, args: memoryview, context: CallContext) -> bytes:
        self.runs += 1
        return bytes(args)


class Anybodys(Back):
    ANY_SECURITY = True


@pytest.mark.thorough
@each_case("transport", ["tcp", "1", "2"])
def test_a_client_with_kerberos_answers_a_server_in_the_clear_only_if_it_was_told_to(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def statuses(back: Back, **client: Any) -> list[AuthStat | None]:
        found: list[AuthStat | None] = []
        async with pair(transport, "krb5i", FakeMechanism(), services=[back], **client) as (connection, echo, _):
            await connection.call(ECHO, b"here")
            server = echo.callers[0].client
            for credential in (None, AuthSys(uid=0, gid=0)):
                server.ready(credential)
                await server.call(null_procedure(BACK.program, 1), None)
                try:
                    await server.call(BACK, b"back")
                    found.append(None)
                except AuthError as error:
                    found.append(AuthStat(error.stat))
        assert back.runs == found.count(None)
        return found

    assert run(statuses(Back())) == [AuthStat.AUTH_TOOWEAK] * 2
    (said,) = [record.getMessage() for record in caplog.records if "BACK_V1" in record.getMessage()]
    assert said == (
        "calls of the server to BACK_V1 are refused, because Kerberos does not protect them; "
        "ConnectOptions(services_in_clear=True) takes them"
    )
    caplog.clear()
    assert run(statuses(Back(), services_in_clear=True)) == [None] * 2
    assert run(statuses(Anybodys())) == [None] * 2
    assert "refused" not in caplog.text


def test_tls_protects_the_calls_of_a_server_under_kerberos_too() -> None:
    assert ConnectOptions(security="krb5").services_security is not None
    assert ConnectOptions(security="krb5", xprtsec="tls").services_security is None
    assert ConnectOptions(security="sys").services_security is None
    assert ConnectOptions().services_security is None


class Gate:
    """Holds a thread in a long use of a context until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._opened = threading.Event()

    def __call__(self, octets: int) -> None:
        if octets > GSS_SHORT_OCTETS:
            assert threading.current_thread() is not threading.main_thread()
            self._loop.call_soon_threadsafe(self.entered.set)
            assert self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()


@pytest.mark.thorough
@each_case("flavor", ["krb5i", "krb5p"])
@each_case("transport", ["tcp", "1", "2"])
@with_threads
async def test_while_a_long_message_is_opened_or_sealed_other_clients_are_answered(transport: str, flavor: str) -> None:
    mechanism = FakeMechanism()
    apart = Kerberos(flavor, mechanism=FakeMechanism())
    async with pair(transport, flavor, mechanism, security=apart) as (connection, echo, server):
        other = ConnectOptions(security=Kerberos(flavor, mechanism=FakeMechanism()))
        async with connect(server.listening[0], echo.PROGRAM, options=other) as another:
            mechanism.on_use = gate = Gate()
            long = asyncio.create_task(connection.call(ECHO, bytes(MIB)))
            await gate.entered.wait()
            behind = asyncio.create_task(connection.call(ECHO, b"behind"))
            assert bytes(await another.call(ECHO, b"other")) == b"other"
            assert not long.done()
            assert not behind.done()
            gate.open()
            assert bytes(await behind) == b"behind"
            assert bytes(await long) == bytes(MIB)
            assert not connection.reconnects


@pytest.mark.thorough
@each_case("transport", ["tcp", "2"])
@with_threads
async def test_a_connection_that_is_cut_while_a_thread_works_for_it_leaves_nothing_behind(transport: str) -> None:
    mechanism = FakeMechanism()
    apart = Kerberos("krb5p", mechanism=FakeMechanism())
    async with pair(transport, "krb5p", mechanism, security=apart, reconnect=False) as (connection, echo, server):
        await connection.call(ECHO, b"first")
        mechanism.on_use = gate = Gate()
        long = asyncio.create_task(connection.call(ECHO, bytes(MIB)))
        await gate.entered.wait()
        connection._present.abort("cut off")
        with pytest.raises(TransportClosed):
            await long
        await until(lambda: not (server._rdma.connections or server._tcp.connections))
        gate.open()
        await until(lambda: not server._runner.running)
        assert server.statistics().buffer_octets_lent == 0
        assert len(echo.callers) == 1


@with_threads
async def test_a_call_that_is_given_up_while_it_is_sealed_is_not_sent_and_later_ones_are() -> None:
    own = FakeMechanism()
    apart = Kerberos("krb5p", mechanism=own)
    async with pair("2", "krb5p", FakeMechanism(), security=apart) as (connection, echo, _):
        await connection.call(ECHO, b"first")
        own.on_use = gate = Gate()
        long = asyncio.create_task(connection.call(ECHO, bytes(MIB)))
        await gate.entered.wait()
        behind = asyncio.create_task(connection.call(ECHO, b"behind"))
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        gate.open()
        assert bytes(await behind) == b"behind"
        assert len(echo.callers) == 2


@pytest.mark.thorough
@with_threads
async def test_a_result_that_is_given_up_while_it_is_opened_does_not_come_into_the_callers_memory() -> None:
    own = FakeMechanism()
    apart = Kerberos("krb5p", mechanism=own)
    async with pair("2", "krb5p", FakeMechanism(), security=apart) as (connection, _, _):
        into = bytearray(MIB)
        gate = Gate()
        opened = {"uses": 0}

        def second(octets: int) -> None:
            # The first long use seals the call.
            opened["uses"] += octets > GSS_SHORT_OCTETS
            if opened["uses"] == 2:
                gate(octets)

        own.on_use = second
        long = asyncio.create_task(connection.call(ECHO, b"\xaa" * MIB, into=into))
        await gate.entered.wait()
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        gate.open()
        await connection.call(ECHO, b"after")
        assert into == bytes(MIB)


GIVE = Procedure(ECHO.program, 1, 2, "GIVE", "give", encode_word, decode_word, *opaque_of(2 * MIB))


class Giving(Echo):
    PROGRAM = Program(ECHO.program, 1, "GIVING", {1: ECHO, 2: GIVE})

    def give(self, args: int, context: CallContext) -> bytes:
        self.callers.append(context)
        return bytes(args)


@each_case("transport", ["tcp", "1", "2"])
@with_threads
async def test_a_reply_for_whose_protection_there_is_no_memory_is_an_error(
    caplog: pytest.LogCaptureFixture, transport: str
) -> None:
    caplog.clear()
    mechanism = FakeMechanism()
    least = 0

    def lack(octets: int) -> None:
        if octets > least:
            raise MemoryError

    mechanism.on_use = lack
    apart = Kerberos("krb5p", mechanism=FakeMechanism())
    async with pair(transport, "krb5p", mechanism, service=Giving(), security=apart) as (connection, _, server):
        with pytest.raises(UserAuthenticationFailed, match="no context was made: "):
            await connection.call(GIVE, 5)
        least = MIB
        with pytest.raises(RemoteSystemError):
            await connection.call(GIVE, 2 * MIB)
        assert len(await connection.call(GIVE, 5)) == 5
        assert server.statistics().buffer_octets_lent == 0
    names = ("RPCSEC_GSS_INIT", "GIVE")
    assert caplog.messages == [f"{name} was answered with SYSTEM_ERR: no memory is left" for name in names]


@pytest.mark.thorough
@each_case("flavor", FLAVORS)
@with_threads
async def test_a_long_result_for_which_too_little_was_offered_comes_again_and_runs_once(flavor: str) -> None:
    async with pair("2", flavor, FakeMechanism(), service=Giving()) as (connection, giving, server):
        # The reply is kept for its repeat alone.
        server._tcp.answering._at_most_once.cache._reply_octets_max = 0
        assert len(await connection.call(GIVE, 2 * MIB)) == 2 * MIB
        assert connection.statistics.resent_larger == 1
        assert len(giving.callers) == 1


@pytest.mark.thorough
@each_case("flavor", ["krb5i", "krb5p"])
@with_threads
async def test_a_call_that_is_refused_while_its_context_is_in_use_comes_again_after_that(flavor: str) -> None:
    own, go_on = FakeMechanism(), asyncio.Event()

    class Waiting(Giving):
        async def give(self, args: int, context: CallContext) -> bytes:  # type: ignore[override]
            await go_on.wait()
            return super().give(args, context)

    apart = Kerberos(flavor, mechanism=own)
    async with pair("2", flavor, FakeMechanism(), service=Waiting(), security=apart) as (connection, giving, _):
        await connection.call(ECHO, b"first")
        result = asyncio.create_task(connection.call(GIVE, 2 * MIB))
        own.on_use = gate = Gate()
        long = asyncio.create_task(connection.call(ECHO, bytes(MIB)))
        await gate.entered.wait()
        go_on.set()
        await until(lambda: connection.statistics.calls_failed)
        gate.open()
        assert [len(each) for each in await asyncio.gather(result, long)] == [2 * MIB, MIB]
        assert len(giving.callers) == 3


@with_threads
async def test_a_call_refused_while_its_context_is_in_use_takes_its_next_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its first form it would be refused for as long as other calls keep the context in use."""

    def in_use(call: ProtectedCall, *_: Any) -> None:
        call.was_in_use = True

    monkeypatch.setattr(ProtectedCall, "encode_again", in_use)
    async with pair("2", "krb5i", FakeMechanism(), service=Giving()) as (connection, giving, _):
        assert len(await connection.call(GIVE, 2 * MIB, timeout_s=5)) == 2 * MIB
        assert (len(giving.callers), connection.statistics.calls_failed) == (1, 1)
