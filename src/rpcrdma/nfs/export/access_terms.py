"""The terms of an export: its name, the rules that decide who may use it, and the users as which their calls act."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rpcrdma.aio.misuse import check_word
from rpcrdma.nfs.export.export_limits import NFS_FSSPEC_VALID_S
from rpcrdma.nfs.export.file_handle import export_identity
from rpcrdma.rpc.auth import AuthGss, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import TRANSPORTS, XPRTSEC_CHOICES, CallOrigin, Transport, XprtSec, host_name, is_named

__all__ = [
    "ANONYMOUS",
    "UNPROVED",
    "VERSIONS",
    "AccessTerms",
    "Export",
    "ExportTerms",
    "Network",
    "UserAndGroups",
    "check_name",
    "check_names",
    "check_principal",
]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
UserAndGroups: TypeAlias = tuple[int, int, tuple[int, ...]]
"""The numbers of a user, of its group and of its supplementary groups."""

ANONYMOUS = 65534
"""The number of the user and group "nobody", which Linux gives to users without an identity."""
UNPROVED = (SecurityFlavor.SYS, SecurityFlavor.NONE)
"""The default security flavors of an export: those that ask for no proof of the user's identity."""
VERSIONS = (3, 4)
"""The versions of NFS; 4 stands for 4.1 and 4.2."""
_PART_OCTETS_MAX, _NAME_OCTETS_MAX = 255, 1024
"""The most octets between two slashes of the name of an export, which is a name in a directory of version 4, and of the
whole name, which is a path in MOUNT (RFC 1813 section 5)."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHOWN_MAX = 60
_NO_ID = 0xFFFFFFFF
"""Not a valid user or group: in system calls this number stands for "no change"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTerms:
    """A rule of an export: the callers that it matches, and the terms on which they may use the export.

    Raises:
        ValueError: `xprtsec` is unknown, an anonymous number not within 0 to 2^32 - 2, or an element of `principals` or
            `certificates` malformed.
    """

    hosts: tuple[Network, ...] | None = None
    """The networks that the caller's address has to be in; None: all hosts match; an empty tuple: none does."""
    principals: tuple[str, ...] = ()
    """The RPCSEC_GSS principals that match: `user@REALM`, or `*@REALM` for a whole realm; empty: every caller, with or
    without a proof."""
    certificates: tuple[str, ...] = ()
    """The names of which the TLS certificate of the caller's host must have one: DNS names, IP addresses or URIs;
    empty: every host."""
    denied: bool = False
    """Whether all calls are refused."""
    read_only: bool = False
    """Whether changes are refused."""
    root_squash: bool = True
    """Whether the user and group 0 of a client become the anonymous ones; has an effect only if the server can act as
    other users, as root can."""
    all_squash: bool = False
    """Whether all users act as the anonymous user; has an effect only if the server can act as other users, as root
    can."""
    anonymous_uid: int = ANONYMOUS
    """The number of the anonymous user, 0 to 2^32 - 2."""
    anonymous_gid: int = ANONYMOUS
    """The number of the anonymous group, 0 to 2^32 - 2."""
    xprtsec: XprtSec = "none"
    """The least protection by TLS (RFC 9289) of connections that use the export; RDMA has none."""
    security: tuple[SecurityFlavor, ...] = UNPROVED
    """The security flavors of calls to the export, the preferred one first; MOUNT lists them."""

    def __post_init__(self) -> None:
        check_word("xprtsec", self.xprtsec, XPRTSEC_CHOICES)
        for number in (self.anonymous_uid, self.anonymous_gid):
            if not 0 <= number < _NO_ID:
                raise ValueError(f"{number} is not the number of a user or group: use 0 to {_NO_ID - 1}")
        for principal in self.principals:
            check_principal(principal)
        for name in self.certificates:
            host_name(name)

    def acting_as(self, credential: Credential | LocalUser) -> UserAndGroups:
        """Returns the numbers of the user and groups as which the server acts for a call with this credential.

        Args:
            credential: the call's credential, or a `LocalUser` in its place: UID, GID and groups by this machine's
                database.

        Returns:
            (user, group, supplementary groups). They are the anonymous user's, without supplementary groups, for
            squashed users, calls without an identity or with 2^32 - 1 among its numbers, and principals that are no
            users of this machine. With `root_squash` the group 0 becomes the anonymous group, and a supplementary
            group 0 is left out.
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

    def fits(self, origin: CallOrigin) -> bool:
        """Returns whether the host of a call matches `hosts` and `certificates` of the rule, whatever the principal is.

        Args:
            origin: the origin of the call: address, transport and proved identity of its host.
        """
        if self.certificates and (
            origin.identity is None
            or not is_named(origin.identity, [host_name(name) for name in self.certificates], wildcards=False)
        ):
            return False
        return self.hosts is None or _within(origin.host, self.hosts)

    def takes(self, principal: str | None) -> bool:
        """Returns whether a principal matches `principals` of the rule (empty: all do); does not look at the host.

        Args:
            principal: the principal that RPCSEC_GSS has proved; None: a call without a proof, which matches only a rule
                without principals.
        """
        if not self.principals:
            return True
        _, at, realm = (principal or "").rpartition("@")
        return principal in self.principals or (at != "" and f"*@{realm}" in self.principals)

    @property
    def flavors(self) -> tuple[SecurityFlavor, ...]:
        """The flavors in `security` with which calls match: only those of RPCSEC_GSS if the rule names principals."""
        return tuple(flavor for flavor in self.security if not self.principals or flavor.service is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTerms(AccessTerms):
    """The name under which clients mount an export, and the terms on which they may use it.

    The fields of `AccessTerms` that it inherits are the last rule, after `rules`. `principals` and `certificates` have
    to be empty there, so that this rule matches every caller of its `hosts`; nothing checks that.

    Raises:
        ValueError: a field of `AccessTerms` has an invalid value; the name is invalid; `transports` or `versions` is
            empty or has an unknown element; or `groups` is unknown.
    """

    name: str
    """The name for clients: "/", "/NAME" or deeper."""
    rules: tuple[AccessTerms, ...] = ()
    """The rules; the first one that matches a call holds for it."""
    synchronous: bool = True
    """Whether changes of names and attributes are on the disk before their reply, as RFC 1813 section 3.3 asks;
    otherwise they may be lost when the machine (not the server) fails."""
    mount_in_clear: bool = False
    """Whether MOUNT returns the root also without the protection by `xprtsec`, as Linux clients need."""
    transports: tuple[Transport, ...] = TRANSPORTS
    """The transports over which NFS serves the export; MOUNT serves it over all, as Linux clients need."""
    versions: tuple[int, ...] = VERSIONS
    """The versions of NFS that serve the export: 3 with MOUNT, and 4."""
    hidden: bool = False
    """Whether the list of exports of MOUNT, and listings of the directories above the export, leave it out."""
    reserved_port: bool = False
    """Whether NFS calls (not MOUNT's) over TCP without a proof of the user have to come from a port below 1024."""
    groups: Literal["client", "server"] = "client"
    """The origin of the supplementary groups of users without a proof: the call, which carries 16 at most, or this
    machine's user database; matters only to a server that can act as other users, as root can."""

    def __post_init__(self) -> None:
        # `super()` does not find the class that `slots` makes anew.
        AccessTerms.__post_init__(self)
        check_name(self.name)
        check_word(f"groups of {self.name}", self.groups, ("client", "server"))
        for what, given, known in (("transports", self.transports, TRANSPORTS), ("versions", self.versions, VERSIONS)):
            if not given or not set(given) <= set(known):
                raise ValueError(f"{what} of {self.name} is {given!r}: use some of {', '.join(map(str, known))}")

    @property
    def all_rules(self) -> tuple[AccessTerms, ...]:
        """The rules in the order in which calls are compared: those in `rules`, then the export's own terms."""
        return (*self.rules, self)

    @property
    def never_changes(self) -> bool:
        """Whether every rule refuses changes, so that no client can change the export."""
        return all(rule.read_only or rule.denied for rule in self.all_rules)

    def matching(self, origin: CallOrigin, principal: str | None) -> AccessTerms | None:
        """Returns the first rule that matches a call, even if it denies access; None: no rule matches.

        Args:
            origin: the origin of the call: address, transport and proved identity of its host.
            principal: the principal that RPCSEC_GSS has proved; None: the call has no proof.
        """
        return next((rule for rule in self.all_rules if rule.fits(origin) and rule.takes(principal)), None)

    def admitting(self, origin: CallOrigin) -> list[AccessTerms]:
        """Returns the rules that can admit a call from this origin, with a principal or without, in their order.

        Args:
            origin: the origin of the calls: address, transport and proved identity of their host.

        Returns:
            The rules; empty: all calls of the origin are refused.
        """
        found = []
        for rule in self.all_rules:
            if rule.fits(origin):
                if not rule.denied:
                    found.append(rule)
                if not rule.principals:
                    break
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(ExportTerms):
    """An exported directory, local or of a remote file system by the package fsspec, and the terms of its use.

    A directory, and an object store::

        Export(name="/home", directory=Path("/srv/home"))
        Export(name="/data", url="s3://bucket/prefix", read_only=True)

    Raises:
        ValueError: a field of `ExportTerms` has an invalid value; `directory` and `url` are both given or both missing;
            a URL is not exported read-only; or `valid_s` is negative.
    """

    directory: Path | None = None
    """The directory of this machine; None: the export has a `url`."""
    url: str | None = None
    """The URL of the directory, for fsspec and the package of its protocol, such as s3fs; None: the export has a
    `directory`. An export with a URL has to be read-only."""
    valid_s: float = NFS_FSSPEC_VALID_S
    """Seconds for which the server reuses an answer of the URL's file system: its replies show changes made there after
    this time at the latest. Clients may use their own caches for longer."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """The options for the URL's file system, passed to fsspec."""

    def __post_init__(self) -> None:
        # `super()` does not find the class that `slots` makes anew.
        ExportTerms.__post_init__(self)
        if (self.directory is None) == (self.url is None):
            raise ValueError(f"the export {self.name} has to have either a directory or a url")
        if self.url is not None and not self.never_changes:
            raise ValueError(f"the export {self.name} has a url, which cannot be written to: add read_only=True")
        if self.valid_s < 0:
            raise ValueError(f"valid_s of the export {self.name} is {self.valid_s}: use 0 or more")


def _within(host: str, networks: Iterable[Network]) -> bool:
    """Returns whether a host's address is in one of the networks; False for text that is no address.

    A zone index is ignored, and an IPv4-mapped IPv6 address counts as the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address.version == network.version and address in network for network in map(_as_ipv4, networks))


def _as_ipv4(network: Network) -> Network:
    """Returns the IPv4 network that a network of IPv4-mapped IPv6 addresses stands for; any other network as it is."""
    mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    return network if mapped is None else ipaddress.IPv4Network((mapped, network.prefixlen - 96))


def check_principal(text: str) -> str:
    """Returns `text` unchanged if it is a principal for a rule: `user@REALM`, or `*@REALM` for a whole realm.

    Raises:
        ValueError: the text has neither form.
    """
    name, _, realm = text.rpartition("@")
    if not name or not realm or ("*" in name and name != "*"):
        raise ValueError(f"{text!r} is no principal: write user@REALM, or *@REALM for all of a realm")
    return text


def check_name(name: str) -> str:
    """Returns `name` unchanged if clients of all versions can mount an export by it: "/", "/NAME" or deeper.

    Raises:
        ValueError: it is no such name; the message says how to correct it.
    """
    parts = name.split("/")
    octets = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if parts[0] or len(parts) == 1 or (name != "/" and any(part in {"", ".", ".."} for part in parts[1:])):
        remedy = "use / or /NAME"
    elif _CONTROL.search(name):
        remedy = "remove its control characters"
    elif max(octets) > _PART_OCTETS_MAX:
        remedy = f"shorten the part of {max(octets)} octets to {_PART_OCTETS_MAX}, the most for a name in a directory"
    elif (total := sum(octets) + len(parts) - 1) > _NAME_OCTETS_MAX:
        remedy = f"shorten its {total} octets to {_NAME_OCTETS_MAX}, the most for a path in MOUNT"
    else:
        return name
    shown = name if len(name) <= _SHOWN_MAX else name[:_SHOWN_MAX] + "..."
    raise ValueError(f"{shown!r} is not a name for an export: {remedy}")


def check_names(exports: Iterable[ExportTerms]) -> None:
    """Checks that no two exports have the same name, or names with the same `export_identity`.

    Raises:
        ValueError: two exports do; the message names them.
    """
    names: dict[bytes, str] = {}
    for export in exports:
        other = names.setdefault(identity := export_identity(export.name), "")
        if other == export.name:
            raise ValueError(f"two exports have the name {other}: give each its own")
        if other:
            raise ValueError(
                f"{other} and {export.name} look alike in file handles, by chance: rename one of the exports"
            )
        names[identity] = export.name
