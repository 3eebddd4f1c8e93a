"""Two machines of host authentication, joined: the authenticated host, its evidence, and the reasons of failures."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed
from rpcrdma.transport import Role
from rpcrdma.transport.config import OFFERED_OCTETS_MIN
from rpcrdma.transport.host_authentication import HandshakeState, HostAuthenticator
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.transport.host_refusals import REFUSALS, HostCause
from support.cases import each_case
from support.host_certificates import CLIENT_USE, SERVER_USE, Authority, tls_context
from support.host_pair import ALERT, Hosts, Pair, shaken

OFF, OPTIONAL, REQUIRED = HostPolicy.OFF, HostPolicy.OPTIONAL, HostPolicy.REQUIRED
CLIENT, SERVER = Role.CLIENT, Role.SERVER
DOCUMENT = Path(__file__).parents[2] / "docs" / "tls.md"


class TestGoodHosts:
    def test_both_sides_learn_who_the_other_is(self, hosts: Hosts) -> None:
        pair = Pair(hosts).run()
        assert pair.failures == {}
        assert pair.client.finished
        assert pair.server.finished
        server, client = pair.client.peer, pair.server.peer
        assert server is not None
        assert client is not None
        assert server.names == ("server.example", "2001:db8::1", "urn:host:server")
        assert (server.subject, server.issuer) == ("commonName=the server", "commonName=authority")
        assert (client.dns_names, client.addresses, client.uris) == (("client.example",), ("192.0.2.7",), ())

    def test_the_binding_is_the_same_at_both_ends_and_no_other_time(self, hosts: Hosts) -> None:
        bindings = set()
        for _ in range(3):
            pair = Pair(hosts).run()
            assert pair.client.peer is not None
            assert pair.server.peer is not None
            assert pair.client.peer.channel_binding == pair.server.peer.channel_binding
            bindings.add(pair.client.peer.channel_binding)
        assert {len(binding) for binding in bindings} == {32}
        assert len(bindings) == 3

    def test_the_values_are_as_documented(self, hosts: Hosts) -> None:
        sent = Pair(hosts).run().sent
        assert [role for role, _ in sent] == [CLIENT, SERVER, CLIENT, SERVER, CLIENT, SERVER]
        assert [bool(value) for _, value in sent] == [False, False, True, True, True, False]
        assert sent[2][1][:2] == b"\x16\x03"
        # Each flight in one message, also of OpenSSL 3.5 with key shares of ML-KEM.
        assert max(len(value) for _, value in sent) < OFFERED_OCTETS_MIN

    def test_nobody_is_known_before_the_end(self, hosts: Hosts) -> None:
        begun = Pair(hosts).server
        assert (begun.peer, begun.finished, begun.state) == (None, False, HandshakeState.WAITING)
        assert begun.begin(b"") == b""
        assert (begun.peer, begun.finished, begun.state) == (None, False, HandshakeState.HANDSHAKE)
        machine, end_mark = shaken(hosts, CLIENT, 1)
        assert (machine.peer, machine.finished, machine.state) == (None, False, HandshakeState.CONFIRMING)
        assert end_mark == b""
        assert machine.receive(end_mark) is None
        assert machine.finished
        assert machine.peer is not None

    def test_a_server_that_wants_another_group_of_keys_gets_one(self, hosts: Hosts) -> None:
        """The longest handshake there is: its values are as many as may come."""
        server = hosts.context(SERVER)
        server.set_ecdh_curve("secp521r1")
        contexts = (hosts.context(CLIENT), server)
        pair = Pair(hosts, contexts=contexts).run()
        assert pair.failures == {}
        for role in Role:
            after_announcement = [value for sender, value in pair.sent if sender is role][1:]
            assert len(after_announcement) == limits.HOST_AUTHENTICATION_VALUES_MAX

    @each_case("name", ["server.example", "SERVER.example.", "2001:DB8:0::1", "urn:host:server"])
    def test_a_server_may_be_known_by_any_of_its_names(self, hosts: Hosts, name: str) -> None:
        assert Pair(hosts, client_names=("other.example", name)).run().failures == {}

    def test_a_server_may_name_its_clients(self, hosts: Hosts) -> None:
        assert Pair(hosts, server_names=("192.0.2.8", "client.example")).run().failures == {}


class TestPolicies:
    def test_each_pair_of_policies_does_what_the_document_says(self, hosts: Hosts) -> None:
        """Its table has nine rows: client, server, outcome."""
        rows = re.findall(
            r"^\| (off|optional|required) \| (off|optional|required) \| ([^|]*) \|", DOCUMENT.read_text(), re.MULTILINE
        )
        assert {(client, server) for client, server, _ in rows} == {
            (a.value, b.value) for a in HostPolicy for b in HostPolicy
        }
        assert len(rows) == 9
        for client, server, outcome in rows:
            pair = Pair(hosts, policies=(HostPolicy(client), HostPolicy(server))).run()
            states = {pair.client.state, pair.server.state}
            if pair.causes() == {SERVER: "absent", CLIENT: "refused"}:
                found = "the server refuses"
            elif pair.causes() == {CLIENT: "absent", SERVER: "refused"}:
                found = "the client refuses"
            else:
                assert pair.failures == {}
                assert len(states) == 1
                found = states.pop().value
            assert found == outcome, (client, server)

    def test_a_side_that_is_off_needs_no_certificate_and_learns_what_it_lacks(self, hosts: Hosts) -> None:
        client = HostAuthenticator(None, CLIENT, OFF)
        server = HostAuthenticator(hosts.context(SERVER), SERVER, REQUIRED)
        assert client.announce() is None
        with pytest.raises(HostAuthenticationFailed, match="takes no part") as absent:
            server.begin(client.announce())
        with pytest.raises(HostAuthenticationFailed, match=r"wants a certificate .*; give this side one"):
            client.begin(absent.value.alert)

    def test_a_server_that_is_off_hears_of_a_client_that_requires_it(self, hosts: Hosts) -> None:
        server = HostAuthenticator(None, SERVER, OFF)
        assert server.begin(b"") is None
        assert server.finished
        with pytest.raises(HostAuthenticationFailed, match="wants a certificate"):
            server.receive(ALERT + b"\x74")
        assert not server.finished


class TestUnfitHosts:
    @each_case("unfit", [CLIENT, SERVER])
    @each_case(
        ("made", "cause", "told"),
        [
            ({"days": (-3, -1)}, HostCause.EXPIRED, "has expired"),
            ({"days": (1, 3)}, HostCause.NOT_YET_VALID, "not valid yet"),
            ({"uses": "those of the other side"}, HostCause.UNFIT, "does not serve"),
            ({"names": ["other.example"]}, HostCause.WRONG_NAME, "another host"),
            ({"names": []}, HostCause.WRONG_NAME, "another host"),
            ({"names": [], "subject": "server.example"}, HostCause.WRONG_NAME, "another host"),
        ],
    )
    def test_both_sides_are_told_why(
        self, hosts: Hosts, unfit: Role, made: dict[str, Any], cause: HostCause, told: str
    ) -> None:
        made = dict(made)
        if "uses" in made:
            made["uses"] = [SERVER_USE if unfit is CLIENT else CLIENT_USE]
        names = made.pop("names", ["client.example", "server.example"])
        certificate = hosts.authority.issue(*names, **made)
        pair = Pair(
            hosts,
            client=certificate if unfit is CLIENT else None,
            server=certificate if unfit is SERVER else None,
            server_names=("client.example",),
        ).run()
        judge = SERVER if unfit is CLIENT else CLIENT
        assert pair.causes() == {judge: cause.value, unfit: HostCause.REFUSED.value}
        assert told in str(pair.failures[judge])
        assert pair.failures[judge].alert == ALERT + bytes((REFUSALS[cause].alert,))
        assert "the peer refuses: " in str(pair.failures[unfit])
        assert pair.client.state is pair.server.state is HandshakeState.FAILED
        assert pair.client.peer is pair.server.peer is None
        for error in pair.failures.values():
            assert isinstance(error, ConnectFailed)
            message, semicolon, remedy = str(error).rpartition("; ")
            assert semicolon
            assert remedy
            assert ";" not in message

    @each_case("unfit", [CLIENT, SERVER])
    def test_another_authority_is_none(self, hosts: Hosts, tmp_path: Path, unfit: Role) -> None:
        other = Authority(tmp_path, "stranger").issue("client.example", "server.example")
        pair = Pair(hosts, **{unfit.value: other}).run()
        judge = SERVER if unfit is CLIENT else CLIENT
        assert pair.causes() == {judge: "unknown issuer", unfit: "refused"}
        assert "does not know the authority" in str(pair.failures[unfit])

    def test_a_client_without_a_certificate_is_refused(self, hosts: Hosts) -> None:
        contexts = (tls_context(CLIENT, None, hosts.authority.path), hosts.context(SERVER))
        pair = Pair(hosts, contexts=contexts).run()
        assert pair.causes() == {SERVER: "no certificate", CLIENT: "refused"}
        assert "wants a certificate of this side" in str(pair.failures[CLIENT])

    def test_a_client_shows_nothing_to_a_server_with_another_name(self, hosts: Hosts) -> None:
        """Its certificate would tell who it is."""
        pair = Pair(hosts, client_names=("another.example",)).run()
        assert [value for role, value in pair.sent if role is CLIENT][2:] == [ALERT + b"\x31"]
        assert "names server.example, 2001:db8::1, urn:host:server, not another.example" in str(pair.failures[CLIENT])

    @each_case("old", [CLIENT, SERVER])
    def test_tls_1_2_is_refused(self, hosts: Hosts, old: Role) -> None:
        contexts = [hosts.context(role) for role in (CLIENT, SERVER)]
        context = contexts[0 if old is CLIENT else 1]
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        pair = Pair(hosts, contexts=(contexts[0], contexts[1])).run()
        refuser = SERVER if old is CLIENT else CLIENT
        assert pair.failures[refuser].cause in {"version", "refused"}
        assert any(error.cause == "version" for error in pair.failures.values())

    @each_case("other", [CLIENT, SERVER])
    @each_case("protocols", [["h2"], []])
    def test_a_handshake_of_another_protocol_is_refused(self, hosts: Hosts, other: Role, protocols: list[str]) -> None:
        contexts = [hosts.context(role) for role in (CLIENT, SERVER)]
        contexts[0 if other is CLIENT else 1].set_alpn_protocols(protocols)
        pair = Pair(hosts, contexts=(contexts[0], contexts[1])).run()
        assert "other use" in pair.causes().values()
        assert pair.client.state is pair.server.state is HandshakeState.FAILED
