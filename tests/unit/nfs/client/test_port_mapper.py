"""Ports in universal addresses (RFC 5665 section 5.2.3.3)."""

from __future__ import annotations

import pytest

from rpcrdma.nfs import port_mapper
from rpcrdma.nfs.client.port_mapper import _registration


@pytest.mark.parametrize(
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
