"""RPC-with-TLS over TCP between this library's client and server, and a client's refusal of everything less."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import local_tcp
from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import tls_socket
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.errors import (
    AuthError,
    CallTimeout,
    ConnectFailed,
    HostAuthenticationFailed,
    LocalProtocolError,
    NoAnswer,
    TransportClosed,
)
from rpcrdma.rpc.auth import AuthStat, AuthSys
from rpcrdma.rpc.host_identity import XprtSec
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from support.cases import each_case
from support.host_certificates import CLIENT_USE, SERVER_USE, Authority
from support.host_pair import Hosts
from support.programs import bulk_of, procedure
from support.waiting import until

DATA = bulk_of(4 << 20)
ECHO, BACK, WHO = (procedure(0x20000003, n, name, DATA, DATA) for n, name in enumerate(("echo", "back", "who"), 1))
PROGRAM = Program(0x20000003, 1, "ECHO_V1", {1: ECHO, 2: BACK, 3: WHO})
SERVER_NAME = "server.example"


class Echo(Service):
    PROGRAM = PROGRAM

    def echo(self, args: memoryview, context: Any) -> bytes:
        return bytes(args)

    async def back(self, args: memoryview, context: Any) -> bytes:
        context.client.ready()
        return bytes(await context.client.call(ECHO, bytes(args)))

    def who(self, args: memoryview, context: Any) -> bytes:
        identity = context.host_identity
        names = () if identity is None else identity.names
        return f"{context.client.xprtsec} {','.join(names)} {context.credential.uid}".encode()


def options_of(hosts: Hosts, xprtsec: XprtSec = "tls", **changes: Any) -> ConnectOptions:
    certificate = hosts.client if xprtsec == "mtls" else None
    given = {"certificate": certificate, "authorities": hosts.authority.path, "names": [SERVER_NAME], **changes}
    return ConnectOptions(
        xprtsec=xprtsec,
        host_authentication=HostAuthentication(**given),
        reconnect=False,
        credential=AuthSys(uid=7, gid=7),
    )


@asynccontextmanager
async def serving(hosts: Hosts, xprtsec: XprtSec = "tls", **changes: Any) -> AsyncIterator[Server]:
    given = {"certificate": hosts.server, "authorities": hosts.authority.path, **changes}
    hosts_known = HostAuthentication(**given)
    config = TcpServerConfig(xprtsec=xprtsec, host_authentication=hosts_known, record_octets_max=5 << 20)
    async with serve([Echo()], ["tcp://127.0.0.1:0"], options=ServeOptions(tcp=config, drain_s=0.5)) as server:
        yield server


def connecting(server: Server, options: ConnectOptions) -> Any:
    return connect(server.listening[0], PROGRAM, options=options)


async def answer(connection: Connection, data: bytes = b"data") -> bytes:
    return bytes(await connection.call(ECHO, data))


def failure_of(hosts: Hosts, options: ConnectOptions, **served: Any) -> str:
    """Why the connection is refused before any call."""

    async def work() -> str:
        async with serving(hosts, **served) as server:
            with pytest.raises(HostAuthenticationFailed) as failed:
                await connecting(server, options)
        assert str(failed.value).count("; ") == 1
        return str(failed.value).partition(": ")[2]

    return local_tcp.run(work())


@pytest.mark.req("TLS-6", "TLS-11", "TLS-14", "TLS-19", "TLS-28")
@each_case("xprtsec", ["tls", "mtls"])
@without_network
async def test_calls_in_tls_are_answered_and_tell_hosts_from_users(hosts: Hosts, xprtsec: XprtSec) -> None:
    async with serving(hosts, xprtsec) as server, connecting(server, options_of(hosts, xprtsec)) as connection:
        assert await answer(connection) == b"data"
        assert connection.xprtsec == xprtsec
        assert "server.example" in connection.host_identity.names
        told = bytes(await connection.call(WHO, b"")).decode()
        assert told == ("mtls client.example,192.0.2.7 7" if xprtsec == "mtls" else "tls  7")


@pytest.mark.req("TLS-1")
@without_network
async def test_a_certificate_alone_offers_tls_beside_calls_in_the_clear(hosts: Hosts) -> None:
    async with serving(hosts, "none") as server:
        async with connecting(server, ConnectOptions()) as clear:
            assert await answer(clear) == b"data"
        async with connecting(server, options_of(hosts)) as secured:
            assert await answer(secured) == b"data"


@pytest.mark.thorough
@without_network
async def test_bulk_data_of_every_size_arrives_in_both_directions(hosts: Hosts) -> None:
    """Sizes around those of TLS records, of the ciphertext buffer and of the parts that are encrypted at once."""
    sizes = [0, 1, 3, 16_379, 16_380, 16_384, 16_385, 32_768, 262_140, 262_144, 262_149, 1 << 20, (4 << 20) - 8]
    content = os.urandom(4 << 20)

    options = options_of(hosts)
    async with serving(hosts) as server:
        connection = await connect(
            server.listening[0],
            PROGRAM,
            options=ConnectOptions(
                xprtsec="tls", host_authentication=options.host_authentication, record_octets_max=5 << 20
            ),
        )
        for size in sizes:
            assert await answer(connection, content[:size]) == content[:size], size
        answers = await asyncio.gather(*(answer(connection, content[: 99_991 * n]) for n in range(24)))
        assert [len(each) for each in answers] == [99_991 * n for n in range(24)]
        assert all(each == content[: len(each)] for each in answers)
        buffer = bytearray(1 << 20)
        await connection.call(ECHO, content[: 1 << 20], into=buffer)
        assert buffer == content[: 1 << 20]
        await connection.close()


@pytest.mark.thorough
@without_network
async def test_a_peer_that_reads_nothing_for_a_while_gets_everything(hosts: Hosts) -> None:
    """Replies wait in the sender, as TLS records, and in the socket."""

    async with serving(hosts) as server, connecting(server, options_of(hosts)) as connection:
        stream = connection._keeper.connection._stream
        stream._loop.remove_reader(stream._fd)
        calls = [asyncio.ensure_future(answer(connection, bytes([n]) * 1_000_000)) for n in range(24)]
        of_server = next(iter(server._tcp.connections))
        await until(lambda: of_server._stream.blocked_at is not None and of_server._stream.tls.unsent)
        stream._loop.add_reader(stream._fd, stream._on_readable)
        assert [each[:1] for each in await asyncio.gather(*calls)] == [bytes([n]) for n in range(24)]


@pytest.mark.req("TLS-29")
@without_network
async def test_the_server_calls_back_in_the_same_session(hosts: Hosts) -> None:
    options = options_of(hosts)
    given = ConnectOptions(
        xprtsec="tls", host_authentication=options.host_authentication, services=[Echo()], reconnect=False
    )
    async with serving(hosts) as server, connecting(server, given) as connection:
        assert bytes(await connection.call(BACK, b"there and back")) == b"there and back"
        assert len(server._tcp.connections) == 1


@without_network
async def test_a_fault_of_the_server_after_the_handshake_ends_the_connection(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    async with serving(hosts) as server:
        monkeypatch.setattr(TcpConnection, "_secured", fails)
        async with connecting(server, options_of(hosts)) as connection:
            with pytest.raises(TransportClosed):
                await connection.call(ECHO, b"data", timeout_s=20)
        assert not server._tcp.connections
    assert "a fault in the connection with" in caplog.text


@pytest.mark.req("TLS-41")
@without_network
async def test_a_server_that_comes_back_without_tls_gets_no_call(hosts: Hosts) -> None:
    """A certificate is taken from the server while a client is connected: its calls wait, and fail with the reason."""

    class Silent(Echo):
        def echo(self, args: memoryview, context: Any) -> bytes:
            raise AssertionError("a call in the clear")

    options = ConnectOptions(
        xprtsec="tls", host_authentication=options_of(hosts).host_authentication, reconnect_delay_max_s=1.0
    )
    async with serving(hosts) as server:
        connection = await connecting(server, options)
        assert await answer(connection) == b"data"
        port = int(server.listening[0].rpartition(":")[2])
    async with serve([Silent()], [f"tcp://127.0.0.1:{port}"]) as clear:
        with pytest.raises(CallTimeout, match="offers no TLS"):
            await connection.call(ECHO, b"data", timeout_s=20)
        assert clear._tcp.calls
        assert clear._tcp.dispatcher.calls_of_procedures() == {}
    await connection.close()


@pytest.mark.req("TLS-33", "TLS-13")
def test_another_host_is_refused_by_its_names(hosts: Hosts) -> None:
    said = failure_of(hosts, options_of(hosts, names=["other.example"]))
    assert said == (
        "host authentication failed: the peer is another host (its certificate names server.example, 2001:db8::1, "
        "urn:host:server, not other.example); check the address, or, if it is the right host, allow one of its names "
        "(HostAuthentication(names=...))"
    )


@pytest.mark.req("TLS-35")
def test_an_address_is_looked_for_among_the_addresses(hosts: Hosts) -> None:
    """The URL names 127.0.0.1, and so do the certificate's dNSName and its common name, which do not count."""
    for wrong in (
        hosts.authority.issue("127-0-0-1.example", subject="127.0.0.1"),
        hosts.authority.issue("127.0.0.2", subject="127.0.0.1"),
    ):
        assert "the peer is another host" in failure_of(hosts, options_of(hosts, names=()), certificate=wrong)

    async def work() -> bytes:
        right = hosts.authority.issue("127.0.0.1")
        async with (
            serving(hosts, certificate=right) as server,
            connecting(server, options_of(hosts, names=())) as connection,
        ):
            return await answer(connection)

    assert local_tcp.run(work()) == b"data"


@pytest.mark.req("TLS-33", "TLS-34")
@each_case("by_option", [False, True])
@each_case(
    ("presented", "wanted", "admitted"),
    [
        ("server.example", "SERVER.Example.", True),
        ("server.example", "server.example.org", False),
        ("*.server.example", "a.server.example", False),
        ("192.0.2.9", "127.0.0.1", False),
        ("xn--bcher-kva.example", "b\u00fccher.example", True),
    ],
)
def test_a_server_has_the_name_of_the_url_or_the_one_that_the_option_gives(
    hosts: Hosts, presented: str, wanted: str, admitted: bool, by_option: bool
) -> None:
    """The name of the option counts instead of that of the URL."""
    certificate = hosts.authority.issue(presented)
    options = options_of(hosts, names=[wanted] if by_option else ())

    async def work() -> bool | None:
        async with serving(hosts, certificate=certificate) as server:
            host = presented.removeprefix("*.") if by_option else wanted
            url = server.listening[0].replace("127.0.0.1", host)
            try:
                async with connect(url, PROGRAM, options=options) as connection:
                    return await answer(connection) == b"data"
            except HostAuthenticationFailed as error:
                return False if "the peer is another host" in str(error) else None

    assert local_tcp.run(work()) is admitted


@pytest.mark.req("TLS-32", "TLS-13")
def test_unfit_certificates_of_the_server_are_refused_with_words(hosts: Hosts, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "foreign")
    for certificate, words in (
        (hosts.authority.issue(SERVER_NAME, days=(-3, -1)), "has expired"),
        (hosts.authority.issue(SERVER_NAME, days=(1, 3)), "is not valid yet"),
        (foreign.issue(SERVER_NAME), "of no authority that is trusted here"),
        (hosts.authority.issue(SERVER_NAME, uses=(CLIENT_USE,)), "does not serve to authenticate it"),
    ):
        assert words in failure_of(hosts, options_of(hosts), certificate=certificate), words


@pytest.mark.thorough
@pytest.mark.req("TLS-36", "TLS-13", "TLS-37")
def test_unfit_certificates_of_the_client_get_no_call_answered(hosts: Hosts, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "foreign")

    async def refused(client: Path, **served: Any) -> str:
        async with serving(hosts, "mtls", **served) as server:
            with pytest.raises((NoAnswer, TransportClosed, HostAuthenticationFailed)) as failed:
                async with connecting(server, options_of(hosts, "mtls", certificate=client)) as connection:
                    await answer(connection)
            assert server._tcp.calls == 0
        return str(failed.value)

    for certificate, words in (
        (hosts.authority.issue("client.example", days=(-3, -1)), "has expired"),
        (foreign.issue("client.example"), "does not know the authority"),
        (hosts.authority.issue("client.example", uses=(SERVER_USE,)), "does not serve to authenticate it"),
    ):
        assert words in local_tcp.run(refused(certificate)), words
    local_tcp.run(refused(hosts.client, names=["other.example"]))


@pytest.mark.req("TLS-13")
@without_network
async def test_a_client_without_a_certificate_is_told_to_get_one(hosts: Hosts) -> None:
    async with serving(hosts, "mtls") as server:
        options = ConnectOptions(xprtsec="tls", host_authentication=options_of(hosts).host_authentication)
        async with connecting(server, options) as connection:
            with pytest.raises(TransportClosed, match="wants a certificate of this side; give this side one"):
                await answer(connection)
        assert server._tcp.calls == 0


@without_network
async def test_calls_in_the_clear_are_refused_where_tls_is_wanted(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(hosts) as server, connecting(server, ConnectOptions(reconnect=False)) as connection:
        for _ in range(2):
            with pytest.raises(AuthError) as refused:
                await answer(connection)
            assert refused.value.stat is AuthStat.AUTH_TOOWEAK
        assert server._tcp.dispatcher.calls_of_procedures() == {}
    assert "in the clear: this server asks for tls (TcpServerConfig(xprtsec=...))" in caplog.text


@pytest.mark.req("TLS-40", "TLS-19")
@without_network
async def test_both_sides_log_the_protection_of_each_connection(hosts: Hosts, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(hosts) as server, connecting(server, options_of(hosts, "mtls")) as connection:
        await answer(connection)
    assert "RPC over TCP in TLS with server.example, 2001:db8::1, urn:host:server" in caplog.text
    secured = [record.event for record in caplog.records if getattr(record, "event", {}).get("event") == "secured"]
    assert [(event["xprtsec"], event["host_identity"]["names"]) for event in secured] == [
        ("mtls", ["client.example", "192.0.2.7"])
    ]
    assert secured[0]["cipher"].startswith("TLS_")


@without_network
async def test_renewed_certificates_count_for_the_next_connection(hosts: Hosts, tmp_path: Path) -> None:
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(hosts.server.read_bytes())

    options = options_of(hosts, names=[SERVER_NAME, "renewed.example"])
    async with serving(hosts, certificate=certificate) as server:
        async with connecting(server, options) as connection:
            assert SERVER_NAME in connection.host_identity.names
        certificate.write_bytes(hosts.authority.issue("renewed.example").read_bytes())
        server.reload_certificates()
        async with connecting(server, options) as connection:
            assert connection.host_identity.names == ("renewed.example",)
        certificate.write_text("no certificate")
        with pytest.raises(HostAuthenticationFailed, match=r"holds no certificate in PEM; .*\(certificate="):
            server.reload_certificates()
        async with connecting(server, options) as connection:
            assert connection.host_identity.names == ("renewed.example",)


@pytest.mark.thorough
@without_network
async def test_connections_of_hosts_end_when_their_authorities_are_replaced(hosts: Hosts, tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.pem"
    ours = hosts.authority.path.read_bytes()
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others", "others").path.read_bytes()

    authorities.write_bytes(ours)
    async with (
        serving(hosts, authorities=authorities) as server,
        connecting(server, options_of(hosts, "mtls")) as proved,
        connecting(server, options_of(hosts)) as unproved,
    ):
        await answer(proved)
        server.reload_certificates()
        await answer(proved)
        authorities.write_bytes(others)
        await answer(proved)
        server.reload_certificates()
        with pytest.raises(TransportClosed):
            await answer(proved)
        await answer(unproved)
        with pytest.raises(TransportClosed):
            async with connecting(server, options_of(hosts, "mtls")) as connection:
                await answer(connection)
        authorities.write_bytes(ours + others)
        server.reload_certificates()
        async with connecting(server, options_of(hosts, "mtls")) as connection:
            await answer(connection)


@without_network
async def test_rdma_is_refused_with_the_names_of_its_protections(hosts: Hosts) -> None:
    with pytest.raises(HostAuthenticationFailed, match=r"RPC over RDMA has no TLS; .*krb5p.*IPsec.*tcp://"):
        await connect("rdma://127.0.0.1:1", PROGRAM, options=options_of(hosts))
    config = TcpServerConfig(
        xprtsec="tls", host_authentication=HostAuthentication(certificate=hosts.server, authorities=None)
    )
    with pytest.raises(LocalProtocolError, match="RPC over RDMA has no TLS"):
        await serve([Echo()], ["rdma://127.0.0.1:0"], options=ServeOptions(tcp=config))


def test_options_that_cannot_serve_are_refused_with_the_remedy(hosts: Hosts) -> None:
    for made in (ConnectOptions, TcpServerConfig):
        with pytest.raises(ValueError, match="xprtsec is 'TLS', not one of none, tls, mtls"):
            made(xprtsec="TLS")  # type: ignore[arg-type]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for options, words in (
        (ConnectOptions(xprtsec="mtls"), "no certificate of this host; name its file (HostAuthentication(cert"),
        (ConnectOptions(xprtsec="tls", host_authentication=HostAuthentication(key=hosts.client)), "no certificate of"),
        (ConnectOptions(xprtsec="tls", host_authentication=HostAuthentication(context=context)), "serves over RDMA"),
        (
            ConnectOptions(xprtsec="tls", host_authentication=HostAuthentication(policy="required", authorities="x")),
            'add ConnectOptions(xprtsec="mtls"), or',
        ),
        (ConnectOptions(xprtsec="tls", host_authentication=HostAuthentication(names=["*"])), "not the name of a host"),
    ):

        async def work(options: ConnectOptions = options) -> None:
            await connect("tcp://127.0.0.1:1", PROGRAM, options=options)

        with pytest.raises(HostAuthenticationFailed) as failed:
            local_tcp.run(work())
        assert words in str(failed.value)


@each_case(("xprtsec", "offered"), [("none", 0), ("mtls", 1)])
@without_network
async def test_required_hosts_are_offered_services_over_tcp_in_mutual_tls_alone(
    hosts: Hosts, xprtsec: XprtSec, offered: int
) -> None:
    given = HostAuthentication(policy="required", certificate=hosts.server, authorities=hosts.authority.path)

    options = ServeOptions(
        rdma=RdmaServerConfig(host_authentication=given),
        tcp=TcpServerConfig(xprtsec=xprtsec, host_authentication=given),
    )
    async with serve([Echo()], ["tcp://127.0.0.1:0"], options=options) as server:
        assert len(server._tcp.dispatcher.services) == offered


async def faked(reply: Callable[[bytes], Sequence[bytes]], options: ConnectOptions) -> tuple[str, bytes]:
    """Connects to a server whose answer to the probe is `reply`: why that fails, and the octets after the probe."""
    loop = asyncio.get_running_loop()
    after = b""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def answers() -> None:
            nonlocal after
            sock, _ = await loop.sock_accept(listener)
            with sock:
                sock.setblocking(False)
                probe = await loop.sock_recv(sock, 4096)
                for part in reply(probe):
                    await loop.sock_sendall(sock, part)
                sock.shutdown(socket.SHUT_WR)
                # Octets that the client has left unread make the end of the connection a reset.
                with contextlib.suppress(ConnectionResetError):
                    while part := await loop.sock_recv(sock, 4096):
                        after += part

        server = asyncio.ensure_future(answers())
        with pytest.raises(ConnectFailed) as failed:
            await connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}", PROGRAM, options=options)
        await server
    return str(failed.value), after


def record(octets: str) -> bytes:
    message = bytes.fromhex(octets)
    return (0x80000000 | len(message)).to_bytes(4, "big") + message


@pytest.mark.thorough
@pytest.mark.req("TLS-7", "TLS-41")
def test_nothing_follows_an_answer_without_starttls(hosts: Hosts) -> None:
    """An attacker who strips the offer, a server without TLS, and servers of something else."""

    def accepted(probe: bytes) -> list[bytes]:
        return [record(probe[4:8].hex() + "00000001 00000000 00000000 00000000 00000000")]

    def denied(probe: bytes) -> list[bytes]:
        return [record(probe[4:8].hex() + "00000001 00000001 00000001 00000001")]

    for reply in (
        accepted,
        denied,
        lambda probe: [record("00000000" + "00000001 00000000 00000000 00000008 5354415254544c53 00000000")],
        lambda probe: [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        lambda probe: [b"\x80\x00\x00\x00"],
        lambda probe: [b"\x80\x00\x02\x04" + bytes(516)],
    ):
        said, after = asyncio.run(faked(reply, options_of(hosts)))
        assert "offers no TLS, or someone on the network hides it: nothing else was sent" in said
        assert after == b""


@pytest.mark.thorough
def test_a_server_that_hangs_up_on_the_probe_is_no_server_with_tls(hosts: Hosts) -> None:
    for reply in (list, lambda probe: [b"\x80\x00"]):
        said, after = asyncio.run(faked(lambda probe, reply=reply: reply(b""), options_of(hosts)))  # type: ignore[misc]
        assert "closed the connection when it was asked for TLS" in said
        assert after == b""


async def with_context(context: ssl.SSLContext, options: ConnectOptions) -> str:
    """Connects to a server that makes its handshake with a context of the test's: "done", or why that fails."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answers() -> None:
            sock, _ = listener.accept()
            with sock:
                probe = sock.recv(4096)
                sock.sendall(record(probe[4:8].hex() + "00000001 00000000 00000000 00000008 5354415254544c53 00000000"))
                try:
                    with context.wrap_socket(sock, server_side=True) as secured:
                        secured.recv(1)
                except OSError:
                    pass

        server = loop.run_in_executor(None, answers)
        try:
            connection = await connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}", PROGRAM, options=options)
        except HostAuthenticationFailed as error:
            return str(error)
        finally:
            if "connection" in locals():
                await connection.close()
            await server
    return "done"


@pytest.mark.thorough
@pytest.mark.req("TLS-17")
def test_a_server_with_an_older_tls_is_refused(hosts: Hosts) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(hosts.server)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert "have no version of TLS in common" in asyncio.run(with_context(context, options_of(hosts)))


@pytest.mark.thorough
@pytest.mark.req("TLS-22")
def test_the_client_names_sunrpc_and_refuses_another_protocol(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(hosts.server)
    assert asyncio.run(with_context(context, options_of(hosts))) == "done", "Linux's tlshd names no protocol"
    context.set_alpn_protocols(["sunrpc"])
    assert asyncio.run(with_context(context, options_of(hosts))) == "done"
    # A server can only name a protocol that is offered: the client expects another one than it offers.
    monkeypatch.setattr(tls_socket, "ALPN", "other")
    assert "begun for another protocol" in asyncio.run(with_context(context, options_of(hosts)))
