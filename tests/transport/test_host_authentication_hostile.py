"""Values of hostile peers: each ends host authentication with one typed error, and authenticates no host."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.transport import Role
from rpcrdma.transport.host_authentication import HandshakeState, HostAuthenticator
from rpcrdma.transport.host_policy import HostPolicy
from support.cases import each_case
from support.host_certificates import Authority, tls_context
from support.host_pair import ALERT, Hosts, Pair, shaken

OFF, OPTIONAL, REQUIRED = HostPolicy.OFF, HostPolicy.OPTIONAL, HostPolicy.REQUIRED
CLIENT, SERVER = Role.CLIENT, Role.SERVER


class TestHostilePeers:
    def cases(self, hosts: Hosts) -> list[tuple[Role, int]]:
        """Each value that comes after the announcements: to whom, and how many come before it."""
        return [(SERVER, 0), (CLIENT, 0), (SERVER, 1), (CLIENT, 1)]

    @pytest.mark.thorough
    def test_truncated_values(self, hosts: Hosts) -> None:
        """At offsets in the first records of each flight, and at some after them."""
        for role, values in self.cases(hosts)[:3]:
            _, whole = shaken(hosts, role, values)
            offsets = [*range(0, min(80, len(whole)), 5), *range(80, len(whole), 97)]
            for offset in offsets:
                machine, value = shaken(hosts, role, values)
                with pytest.raises(HostAuthenticationFailed) as failure:
                    machine.receive(value[: min(offset, len(value) - 1)])
                assert failure.value.cause == "unexpected", offset
                assert machine.peer is None

    @pytest.mark.thorough
    def test_damaged_values(self, hosts: Hosts) -> None:
        for role, values in self.cases(hosts)[1:3]:
            _, whole = shaken(hosts, role, values)
            for offset in range(0, len(whole), 41):
                machine, value = shaken(hosts, role, values)
                damaged = bytearray(value)
                damaged[min(offset, len(damaged) - 1)] ^= 0x5A
                with pytest.raises(HostAuthenticationFailed):
                    machine.receive(bytes(damaged))
                assert machine.state is HandshakeState.FAILED

    def test_empty_values(self, hosts: Hosts) -> None:
        for role, values in self.cases(hosts)[:3]:
            machine, _ = shaken(hosts, role, values)
            with pytest.raises(HostAuthenticationFailed, match="an empty one within the handshake"):
                machine.receive(b"")
            assert machine.state is HandshakeState.FAILED

    def test_alerts_in_the_clear(self, hosts: Hosts) -> None:
        for alert in range(256):
            value = ALERT + bytes((alert,))
            machine = HostAuthenticator(None, CLIENT, OFF)
            with pytest.raises(HostAuthenticationFailed) as failure:
                machine.begin(value)
            assert (failure.value.cause, failure.value.alert) == ("refused", b"")
            assert machine.state is HandshakeState.FAILED
            if alert % 50 == 0:
                for role, values in self.cases(hosts):
                    machine, _ = shaken(hosts, role, values)
                    with pytest.raises(HostAuthenticationFailed) as failure:
                        machine.receive(value)
                    assert failure.value.cause == "refused"

    def test_alerts_that_tls_encrypts(self, hosts: Hosts, tmp_path: Path) -> None:
        """Another implementation may leave them to its TLS library, which encrypts them after the handshake."""
        server = tls_context(SERVER, hosts.server, Authority(tmp_path, "stranger").path)
        pair = Pair(hosts)
        hello = pair.client.begin(pair.server.begin(pair.client.announce()))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = server.wrap_bio(incoming, outgoing, server_side=True)
        assert hello is not None
        incoming.write(hello)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        proof = pair.client.receive(outgoing.read())
        assert proof is not None
        incoming.write(proof)
        with pytest.raises(ssl.SSLCertVerificationError):
            tls.do_handshake()
        alert = outgoing.read()
        assert alert[0] == 0x17
        with pytest.raises(HostAuthenticationFailed, match="the peer refuses: it does not know the authority"):
            pair.client.receive(alert)

    @each_case("in_flight", [True, False])
    def test_application_data_after_the_handshake(self, hosts: Hosts, in_flight: bool) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = hosts.context(CLIENT).wrap_bio(incoming, outgoing)
        machine = HostAuthenticator(hosts.context(SERVER), SERVER, REQUIRED)
        assert machine.begin(b"") == b""
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        flight = machine.receive(outgoing.read())
        assert flight is not None
        incoming.write(flight)
        tls.do_handshake()
        if in_flight:
            tls.write(b"more")
            with pytest.raises(HostAuthenticationFailed, match="not one whole flight"):
                machine.receive(outgoing.read())
        else:
            assert machine.receive(outgoing.read()) == b""
            tls.write(b"more")
            with pytest.raises(HostAuthenticationFailed, match="none is awaited"):
                machine.receive(outgoing.read())
        assert machine.peer is None

    @each_case("sends", ["data", "tickets"])
    @each_case("in_flight", [True, False])
    def test_a_server_that_says_more_than_its_handshake(self, hosts: Hosts, sends: str, in_flight: bool) -> None:
        server = hosts.context(SERVER)
        if sends == "tickets":
            server.num_tickets = 2
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = server.wrap_bio(incoming, outgoing, server_side=True)
        machine = HostAuthenticator(hosts.context(CLIENT), CLIENT, REQUIRED)
        hello = machine.begin(b"")
        assert hello is not None
        incoming.write(hello)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        flight = outgoing.read()
        if in_flight:
            with pytest.raises(HostAuthenticationFailed, match="not one whole flight"):
                machine.receive(flight + b"\x17\x03\x03\x00\x05hello")
            return
        proof = machine.receive(flight)
        assert proof is not None
        incoming.write(proof)
        tls.do_handshake()
        if sends == "data":
            tls.write(b"more")
        value = outgoing.read()
        assert value
        with pytest.raises(HostAuthenticationFailed, match="records after the handshake"):
            machine.receive(value)
        assert machine.peer is None

    def test_values_that_nobody_awaits(self, hosts: Hosts) -> None:
        before = Pair(hosts).server
        declined = Pair(hosts, policies=(OPTIONAL, OPTIONAL)).server
        assert declined.begin(None) is None
        done, end_mark = shaken(hosts, CLIENT, 1)
        done.receive(end_mark)
        for machine in (before, declined, done):
            with pytest.raises(HostAuthenticationFailed, match="none is awaited"):
                machine.receive(b"")
            assert machine.state is HandshakeState.FAILED
            assert machine.peer is None

    def test_a_second_wish_for_another_group_of_keys(self, hosts: Hosts) -> None:
        """So the rounds have an end for each answer of a server."""
        server = hosts.context(SERVER)
        server.set_ecdh_curve("secp521r1")
        machine = HostAuthenticator(hosts.context(CLIENT), CLIENT, REQUIRED)
        hello = machine.begin(b"")
        assert hello is not None
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = server.wrap_bio(incoming, outgoing, server_side=True)
        incoming.write(hello)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        retry = outgoing.read()
        assert machine.receive(retry)
        with pytest.raises(HostAuthenticationFailed):
            machine.receive(retry)
