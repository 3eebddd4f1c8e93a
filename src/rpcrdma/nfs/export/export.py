"""The terms of an export: its name, the hosts that may use it, and the users as which their calls act."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rpcrdma.limits import NFS_FSSPEC_VALID_S
from rpcrdma.rpc.auth import AuthGss, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec

__all__ = [
    "ANONYMOUS",
    "UNPROVED",
    "Export",
    "ExportTerms",
    "Network",
    "UserAndGroups",
    "check_names",
    "parse_network",
]

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

    Raises:
        ValueError: the name is invalid, `xprtsec` unknown, or an anonymous number not within 0 to 2^32 - 2.
    """

    name: str
    """The name for clients: "/", "/NAME" or deeper."""
    read_only: bool = False
    """Whether changes are refused."""
    synchronous: bool = True
    """Whether changes of names and attributes are on the disk before their reply, as RFC 1813 section 3.3 asks;
    otherwise they may be lost when the machine (not the server) fails."""
    root_squash: bool = True
    """Whether root of a client acts as the anonymous user; matters only to a server that runs as root."""
    all_squash: bool = False
    """Whether all users act as the anonymous user; matters only to a server that runs as root."""
    anonymous_uid: int = ANONYMOUS
    """The number of the anonymous user."""
    anonymous_gid: int = ANONYMOUS
    """The number of the anonymous group."""
    hosts: tuple[Network, ...] = ()
    """The networks that may use the export; empty: all hosts."""
    xprtsec: XprtSec = "none"
    """The least protection by TLS (RFC 9289) of connections that use the export; RDMA has none."""
    mount_in_clear: bool = False
    """Whether MOUNT returns the root also without that protection, as Linux clients need."""
    groups: Literal["client", "server"] = "client"
    """The origin of the supplementary groups of users without a proof: the call, which carries 16 at most, or this
    machine's user database; matters only to a server that runs as root."""
    security: tuple[SecurityFlavor, ...] = UNPROVED
    """The security flavors of calls to the export, the preferred one first; MOUNT lists them."""

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

    def acting_as(self, credential: Credential | LocalUser) -> UserAndGroups:
        """Maps a call's credential to the user as whom the server acts.

        Args:
            credential: the credential, or the user of this machine that takes its place.

        Returns:
            User, group and supplementary groups; those of the anonymous user for squashed users, calls without an
            identity, and principals that are no users of this machine.
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
        """Returns whether a host may use the export.

        Args:
            peer: its IP address.
        """
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
    """An exported directory, of this machine or of a file system of fsspec, and the terms of its use.

        Export(name="/home", directory=Path("/srv/home"))
        Export(name="/data", url="s3://bucket/prefix", read_only=True)

    Raises:
        ValueError: as `ExportTerms`; or `directory` and `url` are both given or both missing, a URL is not exported
            read-only, or `valid_s` is negative.
    """

    directory: Path | None = None
    """The directory of this machine; None: the export has a `url`."""
    url: str | None = None
    """The URL of the directory, for fsspec and the package of its protocol, such as s3fs; None: it has a `directory`.
    Such an export is read-only."""
    valid_s: float = NFS_FSSPEC_VALID_S
    """Seconds for which the server uses an answer of the URL's file system: it sees changes made there after this
    time at the latest."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """The options for the URL's file system, as fsspec takes them."""

    def __post_init__(self) -> None:
        # `super()` does not find the class that `slots` makes anew.
        ExportTerms.__post_init__(self)
        if (self.directory is None) == (self.url is None):
            raise ValueError(f"the export {self.name} has to have either a directory or a url")
        if self.url is not None and not self.read_only:
            raise ValueError(f"the export {self.name} has a url, which cannot be written to: add read_only=True")
        if self.valid_s < 0:
            raise ValueError(f"valid_s of the export {self.name} is {self.valid_s}: use 0 or more")


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_network(text: str) -> Network:
    """Parses a host or network as people write it: "192.0.2.7", "192.0.2.0/24", "2001:db8::/32".

    Raises:
        ValueError: the text is neither, or has bits set beyond its prefix.
    """
    return ipaddress.ip_network(text)


def check_names(exports: Iterable[ExportTerms]) -> None:
    """Checks that each export has a name of its own.

    Raises:
        ValueError: two exports have one name.
    """
    names: set[str] = set()
    for export in exports:
        if export.name in names:
            raise ValueError(f"two exports have the name {export.name}: give each its own")
        names.add(export.name)
