"""Two machines of host authentication that are joined in memory."""

from __future__ import annotations

import ssl
from pathlib import Path

from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.rpc.host_identity import host_name
from rpcrdma.transport import Role
from rpcrdma.transport.host_authentication import HostAuthenticator
from rpcrdma.transport.host_policy import HostPolicy
from support.host_certificates import Authority, tls_context

__all__ = ["ALERT", "Hosts", "Pair", "shaken"]

CLIENT, SERVER = Role.CLIENT, Role.SERVER
REQUIRED = HostPolicy.REQUIRED
ALERT = b"\x15\x03\x03\x00\x02\x02"
"""A fatal alert in the clear; its description follows."""


class Hosts:
    """A client and a server with good certificates of one authority."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.client = self.authority.issue("client.example", "192.0.2.7", subject="the client")
        self.server = self.authority.issue("server.example", "2001:db8::1", "urn:host:server", subject="the server")

        self.contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None

    def context(self, role: Role, certificate: Path | None = None) -> ssl.SSLContext:
        return tls_context(role, certificate or (self.client if role is CLIENT else self.server), self.authority.path)


class Pair:
    """A client and a server; `run` carries values between them until neither has one, or one fails."""

    def __init__(
        self,
        hosts: Hosts,
        *,
        policies: tuple[HostPolicy, HostPolicy] = (REQUIRED, REQUIRED),
        client: Path | None = None,
        server: Path | None = None,
        client_names: tuple[str, ...] = ("server.example",),
        server_names: tuple[str, ...] = (),
        contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    ) -> None:
        of_client, of_server = contexts or (hosts.context(CLIENT, client), hosts.context(SERVER, server))
        self.client = HostAuthenticator(of_client, CLIENT, policies[0], [host_name(name) for name in client_names])
        self.server = HostAuthenticator(of_server, SERVER, policies[1], [host_name(name) for name in server_names])
        self.sent: list[tuple[Role, bytes]] = []
        """All HOSTAUTH values, with who sends them."""
        self.failures: dict[Role, HostAuthenticationFailed] = {}

    def step(self, role: Role, value: bytes | None, *, first: bool) -> bytes | None:
        """The answer of `role`; after a failure its alert."""
        machine = self.client if role is CLIENT else self.server
        try:
            answer = machine.begin(value) if first else None if value is None else machine.receive(value)
        except HostAuthenticationFailed as error:
            self.failures[role] = error
            answer = error.alert or None
        if answer is not None:
            self.sent.append((role, answer))
        return answer

    def run(self) -> Pair:
        value = self.client.announce()
        if value is not None:
            self.sent.append((CLIENT, value))
        value = self.step(SERVER, value, first=True)
        value = self.step(CLIENT, value, first=True)
        role = SERVER
        while value is not None:
            value = self.step(role, value, first=False)
            role = CLIENT if role is SERVER else SERVER
        return self

    def causes(self) -> dict[Role, str]:
        return {role: error.cause for role, error in self.failures.items()}


def shaken(hosts: Hosts, role: Role, values: int) -> tuple[HostAuthenticator, bytes]:
    """The machine of `role` that has taken so many values after the first messages, and the next one for it."""
    pair = Pair(hosts)
    machines = {CLIENT: pair.client, SERVER: pair.server}
    value = pair.client.begin(pair.server.begin(pair.client.announce()))
    receiver, taken = SERVER, 0
    while receiver is not role or taken < values:
        assert value is not None
        taken += receiver is role
        value = machines[receiver].receive(value)
        receiver = CLIENT if receiver is SERVER else SERVER
    assert value is not None
    return machines[role], value
