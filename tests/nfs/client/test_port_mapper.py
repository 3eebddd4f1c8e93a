"""Ports in universal addresses (RFC 5665 section 5.2.3.3), and which transports lead to a host."""

from __future__ import annotations

from rpcrdma.nfs import port_mapper
from rpcrdma.nfs.client.port_mapper import _registration, reaches
from support.cases import each_case


@each_case(
    ("netid", "address", "port"),
    [
        ("tcp", "0.0.0.0.8.1", 2049),
        ("tcp6", "::.78.81", 20049),
        ("rdma6", "2001:db8::1.0.111", 111),
        ("local", "/run/rpcbind.sock.1.1", None),
        ("tcp", "0.0.0.0.0.0", None),
        ("tcp", "0.0.0.0.256.1", None),
        ("tcp", "0.0.0.0.-1.1", None),
        ("tcp", "0.0.0.0.0001.1", None),
        ("tcp", "\u0661.\u0661", None),
        ("tcp", "", None),
        ("tcp", "7", None),
    ],
)
def test_ports_are_read_from_addresses_that_have_one(netid: str, address: str, port: int | None) -> None:
    found = _registration(port_mapper.binding(100003, 3, netid, address, ""))
    assert (found.address, found.port) == (address, port)


@each_case(
    ("host", "netids"),
    [
        ("192.0.2.1", ["tcp", "rdma"]),
        ("2001:db8::1", ["tcp6", "rdma6"]),
        ("fe80::1%eth0", ["tcp6", "rdma6"]),
        ("server", ["tcp", "tcp6", "rdma", "rdma6"]),
    ],
)
def test_addresses_are_reached_over_transports_of_their_family(host: str, netids: list[str]) -> None:
    assert [netid for netid in ("tcp", "tcp6", "rdma", "rdma6") if reaches(host, netid)] == netids
