"""Peers that misuse the probe, the handshake or the records of RPC-with-TLS: they harm only themselves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

import local_tcp
from jumping_sockets import now_s
from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.connections import tcp_connection
from rpcrdma.aio.drivers import tls_socket
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server import tcp_server
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.limits import TLS_HANDSHAKE_S, TLS_TURN_RECORDS_MAX
from rpcrdma.rpc.host_identity import XprtSec
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from rpcrdma.transport import Role
from support.cases import each_case
from support.host_certificates import Authority
from support.host_pair import Hosts
from support.programs import procedure
from support.waiting import until

ADD = procedure(0x20000003, 1, "add")
WAIT = procedure(0x20000003, 2, "wait")
PROGRAM = Program(0x20000003, 1, "ADD_V1", {1: ADD, 2: WAIT})
PROBE = bytes.fromhex(
    "80000028 01020304 00000000 00000002 20000003 00000001 00000000 00000007 00000000 00000000 00000000"
)
OFFER = bytes.fromhex("80000020 01020304 00000001 00000000 00000000 00000008 5354415254544c53 00000000")
CALL = bytes.fromhex(
    "8000002c 0a0b0c0d 00000000 00000002 20000003 00000001 00000001 00000000 00000000 00000000 00000000 00000029"
)
RESULT = bytes.fromhex("8000001c 0a0b0c0d 00000001 00000000 00000000 00000000 00000000 0000002a")
BAD_CREDENTIAL = bytes.fromhex("80000014 01020304 00000001 00000001 00000001 00000001")


class Adding(Service):
    PROGRAM = PROGRAM

    def __init__(self) -> None:
        self.calls = 0
        self.ended = asyncio.Event()

    async def wait(self, args: int, context: Any) -> int:
        self.calls += 1
        await self.ended.wait()
        return args

    def add(self, args: int, context: Any) -> int:
        self.calls += 1
        return args + 1


@asynccontextmanager
async def serving(hosts: Hosts, xprtsec: XprtSec = "none") -> AsyncIterator[tuple[Server, Adding]]:
    """A server; in the end, after all that the test has done, an honest client is answered in TLS."""
    given = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
    config = TcpServerConfig(xprtsec=xprtsec, host_authentication=given)
    service = Adding()
    async with serve([service], ["tcp://127.0.0.1:0"], options=ServeOptions(tcp=config, drain_s=0)) as server:
        yield server, service
        honest = HostAuthentication(authorities=hosts.authority.path, names=["server.example"])
        options = ConnectOptions(xprtsec="tls", host_authentication=honest)
        async with connect(server.listening[0], PROGRAM, options=options) as connection:
            assert await connection.call(ADD, 1) == 2


class Raw:
    """A client made of octets; its TLS is OpenSSL's over memory."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    @classmethod
    async def connected(cls, server: Server) -> Raw:
        return cls(await local_tcp.dial("127.0.0.1", parse_url(server.listening[0]).port))

    async def send(self, octets: bytes) -> None:
        await self.loop.sock_sendall(self.sock, octets)

    async def read(self, count: int) -> bytes:
        octets = b""
        while len(octets) < count and (part := await self.loop.sock_recv(self.sock, count - len(octets))):
            octets += part
        return octets

    async def to_the_end(self) -> bytes:
        octets = await local_tcp.received_until_closed(self.sock)
        self.sock.close()
        return octets

    async def offered(self) -> Raw:
        await self.send(PROBE)
        assert await self.read(len(OFFER)) == OFFER
        return self

    def session(self, hosts: Hosts, secrets: Path | None = None, names: Sequence[str] = ()) -> ssl.SSLObject:
        """A session whose client logs its secrets, and names protocols in the handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        if secrets is not None:
            context.keylog_filename = secrets
        context.load_verify_locations(hosts.authority.path)
        if names:
            context.set_alpn_protocols(list(names))
        return context.wrap_bio(self.incoming, self.outgoing)

    async def shaken(self, hosts: Hosts, secrets: Path | None = None, names: Sequence[str] = ()) -> ssl.SSLObject:
        session = self.session(hosts, secrets, names)
        while True:
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                await self.send(self.outgoing.read())
                self.incoming.write(await self.loop.sock_recv(self.sock, 65536))
            else:
                await self.send(self.outgoing.read())
                return session

    async def answered(self, session: ssl.SSLObject, count: int) -> bytes:
        octets = b""
        while len(octets) < count:
            try:
                octets += session.read(count - len(octets))
            except ssl.SSLWantReadError:
                part = await self.loop.sock_recv(self.sock, 65536)
                assert part, "the connection ended"
                self.incoming.write(part)
        return octets


@pytest.mark.req("TLS-23", "TLS-18", "TLS-21", "TLS-39", "TLS-17")
@without_network
async def test_the_server_names_sunrpc_alone_and_offers_the_usual_suites(hosts: Hosts) -> None:
    server = HostAuthentication(certificate=hosts.server).tls(Role.SERVER, "tls").context()

    async with serving(hosts) as (running, _):
        raw = await (await Raw.connected(running)).offered()
        session = await raw.shaken(hosts, names=["h2", "sunrpc", "http/1.1"])
        assert session.version() == "TLSv1.3"
        assert session.selected_alpn_protocol() == "sunrpc"
        raw.sock.close()
    suites = [cipher["name"] for cipher in server.get_ciphers() if cipher["protocol"] == "TLSv1.3"]
    assert "TLS_AES_128_GCM_SHA256" in suites
    assert all("GCM" in suite or "POLY1305" in suite for suite in suites), "no suite without encryption"
    assert server.minimum_version is ssl.TLSVersion.TLSv1_3
    assert server.num_tickets == 0, "without tickets there is no resumption, and so no early data"


@pytest.mark.req("TLS-23")
@each_case(("names", "admitted"), [((), True), (("h2", "sunrpc"), True), (("http/1.1",), False), (("h2", "x"), False)])
@without_network
async def test_a_client_that_names_other_protocols_alone_is_refused(
    hosts: Hosts, names: tuple[str, ...], admitted: bool
) -> None:
    """Linux's tlshd names none, and is admitted."""
    async with serving(hosts) as (running, _):
        raw = await (await Raw.connected(running)).offered()
        session = raw.session(hosts, names=names)
        ended = False
        for _ in range(2):
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
                session.write(CALL)
            await raw.send(raw.outgoing.read())
            raw.incoming.write(octets := await raw.loop.sock_recv(raw.sock, 65536))
            ended = not octets
        assert ended is not admitted
        raw.sock.close()


@pytest.mark.req("TLS-25", "TLS-26")
@without_network
async def test_octets_in_the_clear_behind_the_probe_end_the_connection_unanswered(hosts: Hosts) -> None:
    """An attacker puts them before the client's TLS: they must not count as the client's calls."""

    for behind in (CALL, CALL[:7], b"\x80", PROBE):
        async with serving(hosts) as (server, service):
            raw = await Raw.connected(server)
            await raw.send(PROBE + behind)
            assert await raw.to_the_end() == b"", behind
            assert service.calls == 0


@pytest.mark.thorough
@pytest.mark.req("TLS-25", "TLS-26")
@without_network
async def test_octets_in_the_clear_instead_of_the_handshake_end_the_connection_unanswered(hosts: Hosts) -> None:
    # To the last one OpenSSL itself would answer with an alert.
    too_long = b"\x16\x03\x01\xff\xff" + bytes(100)
    for instead in (CALL, PROBE, b"GET / HTTP/1.1\r\n\r\n", bytes(100), os.urandom(100), too_long):
        async with serving(hosts) as (server, service):
            raw = await (await Raw.connected(server)).offered()
            await raw.send(instead)
            assert await raw.to_the_end() == b"", instead
            assert service.calls == 0


@pytest.mark.req("TLS-27")
@without_network
async def test_octets_in_the_clear_after_the_handshake_end_the_connection(hosts: Hosts) -> None:
    async with serving(hosts) as (server, service):
        raw = await (await Raw.connected(server)).offered()
        await raw.shaken(hosts)
        await raw.send(CALL)
        assert RESULT not in await raw.to_the_end()
        assert service.calls == 0


@pytest.mark.req("TLS-10")
@without_network
async def test_a_probe_within_tls_is_denied_and_the_session_goes_on(hosts: Hosts) -> None:
    async with serving(hosts) as (server, _):
        raw = await (await Raw.connected(server)).offered()
        session = await raw.shaken(hosts)
        session.write(PROBE + CALL)
        await raw.send(raw.outgoing.read())
        expected = BAD_CREDENTIAL + RESULT
        assert await raw.answered(session, len(expected)) == expected
        raw.sock.close()


@without_network
async def test_calls_before_the_probe_are_answered_in_the_clear_if_that_is_allowed(hosts: Hosts) -> None:
    async with serving(hosts) as (server, service):
        raw = await Raw.connected(server)
        await raw.send(CALL)
        assert await raw.read(len(RESULT)) == RESULT
        session = await (await raw.offered()).shaken(hosts)
        session.write(CALL)
        await raw.send(raw.outgoing.read())
        assert await raw.answered(session, len(RESULT)) == RESULT
        raw.sock.close()
        assert service.calls == 1, "the second call repeats the first one"


@without_network
async def test_a_probe_in_the_midst_of_calls_ends_the_connection(hosts: Hosts) -> None:
    """The reply would come in TLS to a call in the clear."""
    waiting = bytearray(CALL)
    waiting[27] = 2

    async with serving(hosts) as (server, service):
        raw = await Raw.connected(server)
        await raw.send(bytes(waiting))
        await until(lambda: service.calls == 1)
        await raw.send(PROBE)
        assert await raw.to_the_end() == b""
        service.ended.set()


@without_network
async def test_a_handshake_that_does_not_end_is_ended(hosts: Hosts) -> None:
    async with serving(hosts) as (server, _):
        raw = await (await Raw.connected(server)).offered()
        assert await raw.to_the_end() == b""
        assert now_s() == pytest.approx(TLS_HANDSHAKE_S, abs=0.1)


@without_network
async def test_a_handshake_of_many_octets_is_ended(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_socket, "TLS_HANDSHAKE_OCTETS_MAX", 64)

    caplog.set_level(logging.INFO)
    async with serving(hosts) as (server, _):
        raw = await (await Raw.connected(server)).offered()
        await raw.send(b"\x16\x03\x01\x40\x00" + bytes(60))
        assert await raw.to_the_end() == b""
        monkeypatch.setattr(tls_socket, "TLS_HANDSHAKE_OCTETS_MAX", 128 << 10)
    assert "(more than 64 octets)" in caplog.text


@without_network
async def test_unfinished_handshakes_give_way_to_a_newcomer_and_are_bounded(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_server, "TLS_HANDSHAKES_MAX", 3)

    async with serving(hosts) as (server, _):
        flood = [await (await Raw.connected(server)).offered() for _ in range(3)]
        # All of them are of one address, which has its share: the fourth one is refused.
        fourth = await Raw.connected(server)
        await fourth.send(PROBE)
        assert await fourth.to_the_end() == b""
        assert server._tcp._handshakes.starting == 3
        for raw in flood:
            raw.sock.close()
        await until(lambda: not len(server._tcp._handshakes))


@without_network
async def test_a_client_that_does_not_read_refusals_is_cut_off(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals of calls that arrive together leave together: they are unsent until then."""
    monkeypatch.setattr(tcp_connection, "RPC_UNSENT_REPLY_OCTETS_MAX", 100)

    async def flood(raw: Raw) -> None:
        while True:
            await raw.send(CALL * 50)

    async with serving(hosts, "tls") as (server, service):
        raw = await Raw.connected(server)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await flood(raw)
        raw.sock.close()
        assert service.calls == 0


@pytest.mark.req("TLS-30")
@without_network
async def test_both_sides_end_a_session_with_a_closure_alert(hosts: Hosts) -> None:
    async with serving(hosts) as (server, _):
        raw = await (await Raw.connected(server)).offered()
        session = await raw.shaken(hosts)
        of_server = next(iter(server._tcp.connections))
        await until(lambda: of_server.xprtsec == "tls")
        of_server.abort("the test ends it")
        raw.incoming.write(await raw.to_the_end())
        assert session.read(1) == b"", "without the alert OpenSSL would ask for more"
        raw = await (await Raw.connected(server)).offered()
        session = await raw.shaken(hosts)
        await until(lambda: any(each.xprtsec == "tls" for each in server._tcp.connections))
        with pytest.raises(ssl.SSLWantReadError):
            session.unwrap()
        await raw.send(raw.outgoing.read())
        raw.incoming.write(await raw.to_the_end())
        session.unwrap()


@without_network
async def test_one_octet_at_a_time_makes_a_session_as_well(hosts: Hosts) -> None:
    async with serving(hosts) as (server, _):
        raw = await Raw.connected(server)
        whole = raw.send

        async def slowly(octets: bytes) -> None:
            for octet in octets:
                await whole(bytes([octet]))
                await asyncio.sleep(0)

        raw.send = slowly  # type: ignore[method-assign]
        session = await (await raw.offered()).shaken(hosts)
        session.write(CALL)
        await raw.send(raw.outgoing.read())
        assert await raw.answered(session, len(RESULT)) == RESULT
        raw.sock.close()


class Sealed:
    """Seals records of TLS 1.3 with a traffic secret (RFC 8446 sections 5.2, 7.2 and 7.3), as OpenSSL would not."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.count = 0
        self._expand()

    def _derived(self, label: bytes, length: int) -> bytes:
        label = b"tls13 " + label
        info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(SHA384(), length, info).derive(self.secret)

    def _expand(self) -> None:
        self.cipher, self.iv = AESGCM(self._derived(b"key", 32)), int.from_bytes(self._derived(b"iv", 12), "big")

    def record(self, content: bytes, kind: int = 23) -> bytes:
        header = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        nonce = (self.iv ^ self.count).to_bytes(12, "big")
        self.count += 1
        return header + self.cipher.encrypt(nonce, content + bytes([kind]), header)

    def change_of_keys(self) -> bytes:
        """That asks for an answer."""
        octets = self.record(bytes.fromhex("1800000101"), kind=22)
        self.secret, self.count = self._derived(b"traffic upd", 48), 0
        self._expand()
        return octets


def sealing(secrets: Path, sender: str) -> Sealed:
    """What seals the sender's records, by the secrets that OpenSSL has logged."""
    secret = re.search(rf"^{sender}_TRAFFIC_SECRET_0 \w+ (\w+)", secrets.read_text(), re.MULTILINE)
    assert secret is not None
    return Sealed(bytes.fromhex(secret[1]))


def in_tls(hosts: Hosts, role: Role, directory: Path) -> tuple[tls_socket.TlsSocket, socket.socket, Sealed]:
    """One end of a session, the socket of its peer, and what seals the peer's records."""
    near, far = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    contexts = []
    for each, certificate in ((Role.CLIENT, None), (Role.SERVER, hosts.server)):
        given = HostAuthentication(certificate=certificate, authorities=hosts.authority.path, names=["server.example"])
        contexts.append(given.tls(each, "tls").context())
    ours, theirs = contexts if role is Role.CLIENT else reversed(contexts)
    secrets = directory / "secrets"
    theirs.keylog_filename = secrets
    theirs.check_hostname = False
    ends = tls_socket.TlsSocket(near, ours), tls_socket.TlsSocket(far, theirs)
    ends[0 if role is Role.CLIENT else 1].begin()
    while not all(end.secured for end in ends):
        for end in ends:
            try:
                end.advance()
            except BlockingIOError:
                continue
    return ends[0], far, sealing(secrets, "CLIENT" if role is Role.SERVER else "SERVER")


@each_case("role", [Role.CLIENT, Role.SERVER])
@each_case(("last", "told"), [("alert", "the peer refuses"), ("changed", "octets were changed")])
def test_octets_before_the_record_that_ends_a_session_arrive(
    hosts: Hosts, role: Role, last: str, told: str, tmp_path: Path
) -> None:
    end, peer, sealed = in_tls(hosts, role, tmp_path)
    octets = sealed.record(b"data")
    peer.send(octets + (sealed.record(b"\2\x50", kind=21) if last == "alert" else sealed.record(b"")[:-1] + b"\0"))
    buffer = memoryview(bytearray(100))
    assert (end.recvmsg_into([buffer]), bytes(buffer[:4])) == ((4,), b"data")
    assert end.more
    with pytest.raises(ConnectionError, match=told):
        end.recvmsg_into([buffer])
    end.close()
    peer.close()


@each_case("role", [Role.CLIENT, Role.SERVER])
def test_octets_around_changes_of_keys_that_cannot_be_answered_arrive(hosts: Hosts, role: Role, tmp_path: Path) -> None:
    end, peer, sealed = in_tls(hosts, role, tmp_path)
    sent = b"".join(sealed.change_of_keys() + sealed.record(bytes(10_000)) for _ in range(12))
    assert peer.send(sent) == len(sent)
    peer.close()
    buffer = memoryview(bytearray(200_000))
    octets = 0
    while (got := end.recvmsg_into([buffer])[0]) and (octets := octets + got):
        pass
    assert (octets, end.unsent) == (120_000, 0)
    end.close()


def test_the_reason_of_a_refusal_is_told_though_the_peer_has_left(hosts: Hosts, tmp_path: Path) -> None:
    near, far = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    serving = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
    trusting = HostAuthentication(authorities=Authority(tmp_path).path)
    client = tls_socket.TlsSocket(near, trusting.tls(Role.CLIENT, "tls").context())
    server = tls_socket.TlsSocket(far, serving.tls(Role.SERVER, "tls").context())
    client.begin()
    server.advance()
    far.close()
    with pytest.raises(HostAuthenticationFailed):
        client.advance()
    near.close()


ANSWER_OCTETS = 27
"""A record with a change of keys."""


@each_case("role", [Role.CLIENT, Role.SERVER])
def test_a_turn_takes_few_records_and_the_next_ones_go_on(hosts: Hosts, role: Role, tmp_path: Path) -> None:
    """Changes of keys and records of one octet; a record's header and body may come apart."""
    count = 10 * TLS_TURN_RECORDS_MAX
    end, peer, sealed = in_tls(hosts, role, tmp_path)
    octets = b"".join(sealed.change_of_keys() for _ in range(count)) + sealed.record(b"data")
    buffer = memoryview(bytearray(100))
    got = b""
    turns = 0

    def turn() -> bytes:
        nonlocal turns
        turns += 1
        try:
            return bytes(buffer[: end.recvmsg_into([buffer])[0]])
        except BlockingIOError:
            return b""

    def answers() -> int:
        try:
            octets = peer.recv(1 << 20)
        except BlockingIOError:
            return 0
        assert not len(octets) % ANSWER_OCTETS, len(octets)
        return len(octets) // ANSWER_OCTETS

    # Behind the first turn's octets, the cut leaves a part of a header, then of a body.
    for part in (octets[:3], octets[3:20], octets[20:]):
        peer.send(part)
        got += turn()
    answered = answers()
    assert answered <= TLS_TURN_RECORDS_MAX
    while end.more:
        got += turn()
        new = answers()
        assert new <= TLS_TURN_RECORDS_MAX
        answered += new
    # OpenSSL keeps the answer to the first change until it sends something else.
    assert (got, answered) == (b"data", count - 1)

    peer.send(b"".join(sealed.record(b"x") for _ in range(count)))
    turns, got = 0, b""
    buffer = memoryview(bytearray(1 << 16))
    while len(got) < count:
        got += turn()
    assert turns >= count / TLS_TURN_RECORDS_MAX
    end.close()
    peer.close()


@each_case("role", [Role.CLIENT, Role.SERVER])
def test_a_peer_that_reads_no_answers_to_its_changes_of_keys_is_cut_off(
    hosts: Hosts, role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 8192
    monkeypatch.setattr(tls_socket, "TLS_UNSENT_OCTETS_MAX", bound)
    end, peer, sealed = in_tls(hosts, role, tmp_path)
    most = 0

    def flood() -> None:
        nonlocal most
        for _ in range(1000):
            peer.send(sealed.change_of_keys())
            with contextlib.suppress(BlockingIOError):
                end.recvmsg_into([memoryview(bytearray(100))])
            most = max(most, end.unsent)

    with pytest.raises(ConnectionResetError, match="does not read the answers"):
        flood()
    assert 0 < most <= bound
    end.close()
    peer.close()


@without_network
async def test_answers_of_tls_alone_are_sent_when_the_socket_takes_them_again(hosts: Hosts, tmp_path: Path) -> None:
    """They count as unsent octets of the connection, and wait for the socket, not for the next reply."""
    secrets = tmp_path / "secrets"
    async with serving(hosts) as (server, _):
        raw = await (await Raw.connected(server)).offered()
        session = await raw.shaken(hosts, secrets)
        sealed = sealing(secrets, "CLIENT")
        stream = next(iter(server._tcp.connections))._stream
        while not stream.unsent_octets:
            await raw.send(sealed.change_of_keys())
            await asyncio.sleep(0)
        assert stream.blocked_at is not None
        while stream.unsent_octets:
            raw.incoming.write(await raw.loop.sock_recv(raw.sock, 65536))
        await raw.send(sealed.record(CALL))
        assert await raw.answered(session, len(RESULT)) == RESULT
        raw.sock.close()
