"""An exported directory: its name, the hosts that may use it, and the users as which they act."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["ANONYMOUS", "Export", "Network", "parse_network"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ANONYMOUS = 65534
"""The user and group `nobody` of Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One directory and the name under which clients mount it.

    `name` is absolute, "/" or "/NAME" or deeper. `hosts` empty admits every host. With `synchronous`, changes to
    names and attributes are on the disk before they are answered, as RFC 1813 section 3.3 asks; without it they
    may be lost when the machine (not the server) fails. The squash options only matter to a server that runs as root.
    """

    name: str
    directory: Path
    read_only: bool = False
    synchronous: bool = True
    root_squash: bool = True
    all_squash: bool = False
    anonymous_uid: int = ANONYMOUS
    anonymous_gid: int = ANONYMOUS
    hosts: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if parts[0] or len(parts) == 1 or (self.name != "/" and any(part in {"", ".", ".."} for part in parts[1:])):
            raise ValueError(f"{self.name!r} is no name for an export: it must be / or /NAME")
        if "\0" in self.name:
            raise ValueError(f"{self.name!r} is no name for an export: it holds a null character")
        for number in (self.anonymous_uid, self.anonymous_gid):
            if not 0 <= number < 0xFFFFFFFF:
                raise ValueError(f"{number} is no user or group: it must be from 0 to {0xFFFFFFFF - 1}")

    def admits(self, peer: str) -> bool:
        """Whether the host at this network address may use the export."""
        if not self.hosts:
            return True
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return _within(address, self.hosts)


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_network(text: str) -> Network:
    """A host or network as people write it: "192.0.2.7", "192.0.2.0/24", "2001:db8::/32".

    Raises:
        ValueError: the text is neither, or has bits set beyond its prefix.
    """
    return ipaddress.ip_network(text)
