"""The terms of an export: its name, the hosts that may use it, and the users as which their calls act."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rpcrdma.rpc.auth import AuthGss, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.xprtsec import XPRTSEC_CHOICES, XprtSec

__all__ = ["ANONYMOUS", "UNPROVED", "Export", "ExportTerms", "Network", "UserAndGroups", "parse_network"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
UserAndGroups: TypeAlias = tuple[int, int, tuple[int, ...]]
"""User, group and supplementary groups."""

ANONYMOUS = 65534
"""The user and group that Linux gives to users without an identity."""
UNPROVED = (SecurityFlavor.SYS, SecurityFlavor.NONE)
"""The flavors of an export that asks nobody for a proof."""
_NO_ID = 0xFFFFFFFF
"""No identity: to the kernel this number means that nothing is to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTerms:
    """The name under which clients mount a tree of files, and the terms on which they may use it.

    `name` is absolute, "/" or "/NAME" or deeper. `hosts` empty admits every host. With `synchronous`, changes to
    names and attributes are on the disk before they are answered, as RFC 1813 section 3.3 asks; without it they
    may be lost when the machine (not the server) fails. The squash options only matter to a server that runs as root.
    `security` are the flavors with which files are reached, the preferred one first; MOUNT tells them to clients.
    """

    name: str
    read_only: bool = False
    synchronous: bool = True
    root_squash: bool = True
    all_squash: bool = False
    anonymous_uid: int = ANONYMOUS
    anonymous_gid: int = ANONYMOUS
    hosts: tuple[Network, ...] = ()
    xprtsec: XprtSec = "none"
    """The least protection by TLS (RFC 9289) of the connections over which the export is used; RDMA has none."""
    mount_in_clear: bool = False
    """Whether MOUNT hands out the export's root without that protection: Linux clients ask MOUNT in the clear."""
    security: tuple[SecurityFlavor, ...] = UNPROVED

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if parts[0] or len(parts) == 1 or (self.name != "/" and any(part in {"", ".", ".."} for part in parts[1:])):
            raise ValueError(f"{self.name!r} is not a name for an export: use / or /NAME")
        if "\0" in self.name:
            raise ValueError(f"{self.name!r} is not a name for an export: remove the null character")
        if self.xprtsec not in XPRTSEC_CHOICES:
            raise ValueError(f"xprtsec is {self.xprtsec!r}, not one of {', '.join(XPRTSEC_CHOICES)}")
        for number in (self.anonymous_uid, self.anonymous_gid):
            if not 0 <= number < _NO_ID:
                raise ValueError(f"{number} is not the number of a user or group: use 0 to {_NO_ID - 1}")

    def acting_as(self, credential: Credential) -> UserAndGroups:
        """As whom the server acts for a call with this credential; the anonymous user where root is squashed.

        The anonymous user stands for calls without an identity, too, and for principals that are no users of this
        machine.
        """
        user = credential.user if isinstance(credential, AuthGss) else credential
        if isinstance(user, AuthSys | LocalUser) and not (self.all_squash or (self.root_squash and user.uid == 0)):
            gid, gids = user.gid, user.gids
            if self.root_squash:
                gid = gid or self.anonymous_gid
                gids = tuple(filter(None, gids))
            if _NO_ID not in {user.uid, gid, *gids}:
                return user.uid, gid, gids
        return self.anonymous_uid, self.anonymous_gid, ()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(ExportTerms):
    """One directory of this machine, exported on these terms."""

    directory: Path


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_network(text: str) -> Network:
    """A host or network as people write it: "192.0.2.7", "192.0.2.0/24", "2001:db8::/32".

    Raises:
        ValueError: the text is neither, or has bits set beyond its prefix.
    """
    return ipaddress.ip_network(text)
