"""Universal addresses (RFC 5665 section 5.2.3), in which port mappers name an address with its port."""

from __future__ import annotations

__all__ = ["host_in", "port_in", "universal_address"]


def universal_address(host: str, port: int) -> str:
    """Returns the universal address of an IP address and a port (0 to 65535): "0.0.0.0.8.1" for port 2049."""
    return f"{host}.{port >> 8}.{port & 0xFF}"


def host_in(address: str) -> str:
    """Returns the host of a universal address: all but its last two parts, the port. The host is not checked."""
    return address.rsplit(".", 2)[0]


def port_in(address: str) -> int | None:
    """Returns the port (1 to 65535) in the last two numbers of a universal address; None if they are malformed or 0."""
    octets = address.split(".")[-2:]
    if len(octets) < 2 or not all(each.isascii() and each.isdigit() and len(each) <= 3 for each in octets):
        return None
    high, low = map(int, octets)
    return high << 8 | low if high < 256 and low < 256 and high | low else None
