"""Names of hosts are looked up all at once, within a time, and again when their addresses are old."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rpcrdma.cli import host_names
from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.settings.linux_exports import in_toml
from rpcrdma.limits import HOST_NAME_VALID_S, HOST_NAMES_AT_ONCE
from support.functions_entered import functions_entered


class Resolver:
    """Takes the place of the system's resolver, which does not answer for names that begin with "slow"."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.at_once = 0
        self.most_at_once = 0

    def look_up(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if host.startswith("slow"):
            self.go_on.wait()
        self.at_once -= 1
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (each, 0, 0, 0)) for each in self.addresses[host]]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", found.look_up)
    monkeypatch.setattr(host_names, "HOST_NAME_ANSWERS_S", 0.01)
    yield found
    found.go_on.set()


def shown(names: HostNames, *hosts: str) -> tuple[list[str], list[str]]:
    """The networks of hosts, and the causes of those that have none."""
    networks, unknown = names.networks_of(hosts)
    return list(map(str, networks)), [str(error.strerror) for error in unknown]


def test_a_name_without_an_answer_keeps_nobody_waiting_and_is_known_later(resolver: Resolver) -> None:
    names = HostNames()
    resolver.addresses = {"one": ["192.0.2.1", "192.0.2.1", "fe80::1%eth0"], "slow": ["192.0.2.2"]}
    # A real limit of time: it ends the wait for a thread that an event holds.
    names.look_up(["198.51.100.0/24", "slow", "none"])
    names.look_up(["slow", "none"])
    assert resolver.asked.count("slow") == 1, "one thread asks for a name"
    networks, causes = shown(names, "198.51.100.7/24", "slow", "none")
    assert networks == ["198.51.100.0/24"]
    assert causes == [
        "neither an address, a network nor a host name (no answer within 0.01 s)",
        "neither an address, a network nor a host name (Name or service not known)",
    ]
    resolver.go_on.set()
    while shown(names, "slow")[1]:
        pass
    assert shown(names, "slow") == (["192.0.2.2/32"], [])


def test_threads_are_bounded(resolver: Resolver) -> None:
    names = HostNames()
    many = [f"slow {number}" for number in range(2 * HOST_NAMES_AT_ONCE)]
    resolver.addresses = {name: ["192.0.2.1"] for name in many}
    names.look_up(many)
    while len(resolver.asked) < HOST_NAMES_AT_ONCE:
        pass
    names.look_up(many)
    resolver.go_on.set()
    while shown(names, *many)[1]:
        pass
    assert resolver.most_at_once <= HOST_NAMES_AT_ONCE
    assert sorted(resolver.asked) == sorted(many)


def test_a_lack_of_threads_passes(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    def starts_not(_: object) -> None:
        raise RuntimeError("can't start new thread")

    names = HostNames()
    resolver.addresses = {"one": ["192.0.2.1"]}
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", starts_not)
        with pytest.raises(OSError, match="no further thread can be started"):
            names.look_up(["one"])
    monkeypatch.setattr(host_names, "HOST_NAME_ANSWERS_S", 60)
    names.look_up(["one"])
    assert shown(names, "one") == (["192.0.2.1/32"], [])


def test_old_addresses_are_looked_up_again_and_kept_without_an_answer(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_names, "HOST_NAME_ANSWERS_S", 60.0)
    now = [0.0]
    names = HostNames(lambda: now[0])
    resolver.addresses["one"] = ["192.0.2.1", "2001:db8::1"]
    names.look_up(["one"])
    assert shown(names, "one") == (["192.0.2.1/32", "2001:db8::1/128"], [])
    resolver.addresses["one"] = ["192.0.2.2"]
    now[0] = HOST_NAME_VALID_S - 1
    names.look_up(["one"])
    assert resolver.asked == ["one"]
    now[0] = HOST_NAME_VALID_S
    names.look_up(["one"])
    assert shown(names, "one") == (["192.0.2.2/32"], [])
    del resolver.addresses["one"]
    now[0] *= 2
    names.look_up(["one"])
    assert shown(names, "one") == (["192.0.2.2/32"], []), "its name server is away"
    assert len(resolver.asked) == 3
    assert ipaddress.ip_network("192.0.2.2/32") in names.networks_of(["one"])[0]


def test_the_clients_of_a_line_of_exports_5_are_not_compared_each_with_each() -> None:
    counts = []
    for number in (50, 200):
        line = "/srv " + " ".join(f"10.0.{each}.0/24(rw)" for each in range(number))
        counts.append(functions_entered(lambda line=line: in_toml(line, "exports")))
    assert counts[1] < 5 * counts[0]
