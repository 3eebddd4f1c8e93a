"""Universal addresses (RFC 5665 section 5.2.3), in which port mappers name an address with its port."""

from __future__ import annotations

__all__ = ["host_in", "port_in", "universal_address"]


def universal_address(host: str, port: int) -> str:
    """Returns the universal address of an IP address and a port, such as "0.0.0.0.8.1"."""
    return f"{host}.{port >> 8}.{port & 0xFF}"


def host_in(address: str) -> str:
    """Returns the part of a universal address before its port, which is no IP address if the whole is malformed."""
    return address.rsplit(".", 2)[0]


def port_in(address: str) -> int | None:
    """Returns the port of a universal address, whose last two numbers are its octets; None if it is malformed or 0."""
    octets = address.split(".")[-2:]
    if len(octets) < 2 or not all(each.isascii() and each.isdigit() and len(each) <= 3 for each in octets):
        return None
    high, low = map(int, octets)
    return high << 8 | low if high < 256 and low < 256 and high | low else None
