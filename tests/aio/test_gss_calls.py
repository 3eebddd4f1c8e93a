"""Calls under RPCSEC_GSS over TCP and over RDMA in each version, with a mechanism that needs no realm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import UserAuthenticationFailed
from rpcrdma.rpc.auth import AuthStat, AuthSys
from rpcrdma.rpc.errors import AuthError
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.gss.initiator import GssSession, ProtectedCall, UnverifiedReply
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, execution_of
from rpcrdma.transport import Call
from rpcrdma.xdr.codec import Decoder, Encoder
from support.fake_gss import FakeMechanism
from support.waiting import until

MIB = 1 << 20
FLAVORS = ("krb5", "krb5i", "krb5p")
TRANSPORTS = ("tcp", "1", "2", "2-07", "rtr")


def encode(enc: Encoder, value: Any) -> None:
    enc.bulk(value, MIB, "data")


def decode(dec: Decoder) -> memoryview:
    return dec.bulk(MIB, "data")


ECHO = Procedure(
    0x20000009, 1, 1, "ECHO", "echo", encode, decode, encode, decode, bound=lambda args: ReplyBound(4, (MIB,))
)


class Echo(Service):
    PROGRAM = Program(0x20000009, 1, "ECHO_V1", {1: ECHO})

    def __init__(self) -> None:
        self.callers: list[CallContext] = []

    def echo(self, args: memoryview, context: CallContext) -> bytes:
        self.callers.append(context)
        return bytes(args)


@asynccontextmanager
async def pair(
    transport: str, flavor: str, mechanism: FakeMechanism, *, offered: tuple[str, ...] = FLAVORS, **client: Any
) -> AsyncIterator[tuple[Connection, Echo, Server]]:
    echo = Echo()
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


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_small_and_large_calls_come_back_whole_and_the_handler_sees_who_calls(transport: str, flavor: str) -> None:
    async def main() -> None:
        async with pair(transport, flavor, FakeMechanism()) as (connection, echo, _):
            for length in (0, 5, 5000, MIB):
                data = bytes(range(256)) * (length // 256) + bytes(length % 256)
                assert bytes(await connection.call(ECHO, data)) == data
                into = bytearray(length)
                got = await connection.call(ECHO, data, into=into) if length else b""
                assert bytes(got) == data == bytes(into)
            assert {context.principal for context in echo.callers} == {"alice@REALM"}
            assert {context.credential.flavor for context in echo.callers} == {SecurityFlavor[flavor.upper()]}
            assert connection.principal == "alice@REALM"

    asyncio.run(main())


@pytest.mark.req("V1-80", "V1-82", "V1-83", "V2-65")
@pytest.mark.parametrize("transport", TRANSPORTS[1:])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_without_protection_of_data_items_are_placed_and_with_it_none_is(transport: str, flavor: str) -> None:
    travelled: dict[str, str] = {}

    def note(call: Any) -> None:
        if call.procedure is ECHO:
            travelled["ECHO"] = call.travelled

    async def main() -> None:
        async with pair(transport, flavor, FakeMechanism(), on_call=note) as (connection, _, _):
            await connection.call(ECHO, bytes(MIB))

    asyncio.run(main())
    how = travelled["ECHO"]
    if flavor == "krb5":
        assert "read chunk" in how or "argument by" in how, how
        assert "write chunk" in how or "result by" in how, how
    else:
        # Whole, by a Position-Zero Read chunk and a Reply chunk.
        assert how == "long call + long reply"


@pytest.mark.req("OR-13")
@pytest.mark.parametrize("transport", ["tcp", "2"])
def test_a_server_that_has_lost_its_contexts_gets_a_new_one_and_the_call_again(transport: str) -> None:
    async def main() -> None:
        mechanism = FakeMechanism()
        async with pair(transport, "krb5i", mechanism) as (connection, echo, server):
            assert bytes(await connection.call(ECHO, b"one")) == b"one"
            acceptor(server)._contexts.clear()
            results = await asyncio.gather(*(connection.call(ECHO, bytes([n])) for n in range(20)))
            assert [bytes(result) for result in results] == [bytes([n]) for n in range(20)]
            assert mechanism.made == 2
            assert len(echo.callers) == 21

    asyncio.run(main())


def acceptor(server: Server) -> Any:
    return server._over_rdma._acceptor


@pytest.mark.req("OR-13")
def test_a_context_that_the_server_goes_on_refusing_is_made_anew_once_only() -> None:
    async def main() -> None:
        mechanism = FakeMechanism(lifetime_s=0.0)
        async with pair("tcp", "krb5", mechanism) as (connection, echo, _):
            with pytest.raises(AuthError) as error:
                await connection.call(ECHO, b"one")
            assert error.value.stat == AuthStat.RPCSEC_GSS_CTXPROBLEM
            assert mechanism.made == 2
            assert not echo.callers

    asyncio.run(main())


@pytest.mark.req("OR-13")
def test_other_refusals_lead_to_no_new_context() -> None:
    async def main() -> None:
        mechanism = FakeMechanism()
        async with pair("2", "krb5", mechanism, offered=("krb5p",)) as (connection, echo, _):
            await connection.call(null_procedure(ECHO.program, 1), None)
            with pytest.raises(AuthError) as error:
                await connection.call(ECHO, b"one")
            assert error.value.stat == AuthStat.AUTH_TOOWEAK
            assert mechanism.made == 1
            assert not echo.callers

    asyncio.run(main())


def test_a_server_that_asks_for_proof_takes_no_call_without_it_but_procedure_0() -> None:
    async def main() -> None:
        async with pair("tcp", "krb5p", FakeMechanism(), offered=("krb5p",), security="sys") as (connection, echo, _):
            await connection.call(null_procedure(ECHO.program, 1), None)
            with pytest.raises(AuthError) as error:
                await connection.call(ECHO, b"one")
            assert error.value.stat == AuthStat.AUTH_TOOWEAK
            assert not echo.callers

    asyncio.run(main())


def test_a_server_without_contexts_is_told_in_words() -> None:
    async def main() -> None:
        async with pair("tcp", "krb5p", FakeMechanism(), offered=("sys",)) as (connection, _, _):
            with pytest.raises(UserAuthenticationFailed, match=r"refuses RPCSEC_GSS .* --sec sys"):
                await connection.call(ECHO, b"one")

    asyncio.run(main())


def test_a_principal_that_the_server_refuses_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with pair("1", "krb5", FakeMechanism(refused={"alice@REALM"})) as (connection, _, _):
            with pytest.raises(UserAuthenticationFailed, match="the server says no"):
                await connection.call(ECHO, b"one")

    asyncio.run(main())
    assert "127.0.0.1 could not prove its user: the principal is refused" in caplog.text


@pytest.mark.parametrize("legs", [1, 3])
def test_concurrent_first_calls_wait_for_one_context_and_its_end_frees_it(legs: int) -> None:
    async def main() -> None:
        mechanism = FakeMechanism(legs=legs)
        async with pair("2", "krb5p", mechanism) as (connection, _, server):
            await asyncio.gather(*(connection.call(ECHO, b"x") for _ in range(10)))
            assert mechanism.made == legs
            assert len(acceptor(server)) == 1
            await connection.close()
            assert len(acceptor(server)) == 0

    asyncio.run(main())


def test_a_context_is_renewed_before_it_ends_and_used_on_where_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
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

    asyncio.run(main())


class Slow(Service):
    """Counts, and answers when `gate` is set."""

    PROGRAM = Program(0x20000009, 1, "SLOW", {1: ECHO})

    def __init__(self) -> None:
        self.runs = 0
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()

    async def echo(self, args: memoryview, context: CallContext) -> bytes:
        self.runs += 1
        self.entered.set()
        await self.gate.wait()
        return bytes(args)


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("transport", ["tcp", "1", "2"])
def test_a_call_that_is_repeated_on_a_new_connection_runs_once_and_is_sealed_anew(transport: str, flavor: str) -> None:
    async def main() -> None:
        async with pair(transport, flavor, FakeMechanism(), reconnect_delay_max_s=0.01) as (connection, _, server):
            slow = Slow()
            for dispatcher in (server._over_rdma, server._tcp.dispatcher):
                route = dispatcher._routes[ECHO.program, 1, 1]
                monkey_route(route, slow)
            calling = asyncio.create_task(connection.call(ECHO, bytes(5000)))
            await slow.entered.wait()
            number = session_of(connection).numbers[0]
            connection._present.abort("cut off")
            await connection.wait_reconnected(0)
            # The repeat was sent under a number of its own, and waits for the first run.
            await until(lambda: session_of(connection).numbers[0] > number)
            slow.gate.set()
            assert bytes(await calling) == bytes(5000)
            assert slow.runs == 1

    asyncio.run(main())


def monkey_route(route: Any, slow: Slow) -> None:
    route.handler = slow.echo
    route.execution = execution_of(slow.echo)


def session_of(connection: Connection) -> GssSession:
    assert connection._gss is not None
    session = connection._gss._session
    assert session is not None
    return session


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("transport", ["tcp", "2"])
def test_a_kept_reply_is_sealed_for_the_repeat_and_only_for_its_own_principal(transport: str, flavor: str) -> None:
    async def main() -> None:
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
                security=Kerberos(flavor, mechanism=mechanism),
                rpcrdma_version="auto" if transport == "tcp" else transport,
            )
            async with connect(server.listening[0], echo.PROGRAM, options=options) as other:
                await other.call(ECHO, b"first")
                repeat = Call(ECHO, b"once")
                repeat.xid = 77
                repeat.protection = ProtectedCall(session_of(other), SecurityFlavor[flavor.upper()].service)
                assert bytes(await other._present.start(repeat)) == b"once"
            assert [context.principal for context in echo.callers] == ["alice@REALM"] * 2 + ["bob@REALM"] * 2

    asyncio.run(main())


def test_a_server_that_cannot_prove_itself_is_not_believed() -> None:
    async def main() -> None:
        impostor = FakeMechanism(secret=b"another")
        client = Kerberos("krb5", mechanism=FakeMechanism())
        async with pair("2", "krb5", impostor, security=client) as (connection, echo, _):
            with pytest.raises(UnverifiedReply):
                await connection.call(ECHO, b"one")
            assert not echo.callers

    asyncio.run(main())


BACK = Procedure(0x2000000A, 1, 1, "BACK", "echo", encode, decode, encode, decode, bound=ReplyBound(64))


class Back(Service):
    PROGRAM = Program(BACK.program, 1, "BACK_V1", {1: BACK})

    def __init__(self) -> None:
        self.runs = 0

    def echo(self, args: memoryview, context: CallContext) -> bytes:
        self.runs += 1
        return bytes(args)


class Anybodys(Back):
    ANY_SECURITY = True


@pytest.mark.parametrize("transport", ["tcp", "1", "2"])
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

    assert asyncio.run(statuses(Back())) == [AuthStat.AUTH_TOOWEAK] * 2
    (said,) = [record.getMessage() for record in caplog.records if "BACK_V1" in record.getMessage()]
    assert said == (
        "calls of the server to BACK_V1 are refused, because Kerberos does not protect them; "
        "ConnectOptions(services_in_clear=True) takes them"
    )
    caplog.clear()
    assert asyncio.run(statuses(Back(), services_in_clear=True)) == [None] * 2
    assert asyncio.run(statuses(Anybodys())) == [None] * 2
    assert "refused" not in caplog.text


def test_tls_protects_the_calls_of_a_server_under_kerberos_too() -> None:
    assert ConnectOptions(security="krb5").services_security is not None
    assert ConnectOptions(security="krb5", xprtsec="tls").services_security is None
    assert ConnectOptions(security="sys").services_security is None
    assert ConnectOptions().services_security is None
