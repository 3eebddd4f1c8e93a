"""An exported directory: its name, the hosts that may use it, the users as which they act, and refusals of others."""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.nfs.server.refusal import Refused
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.rpc.auth import AuthGss, AuthSys, Credential, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext, CredentialTooWeak
from rpcrdma.rpc.xprtsec import XPRTSEC_CHOICES, XprtSec, protects

__all__ = ["ANONYMOUS", "UNPROVED", "Export", "HostAdmission", "Network", "UserAndGroups", "parse_network"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
UserAndGroups: TypeAlias = tuple[int, int, tuple[int, ...]]
"""User, group and supplementary groups."""

ANONYMOUS = 65534
"""The user and group that Linux gives to users without an identity."""
UNPROVED = (SecurityFlavor.SYS, SecurityFlavor.NONE)
"""The flavors of an export that asks nobody for a proof."""
_NO_ID = 0xFFFFFFFF
"""No identity: to the kernel this number means that nothing is to be changed."""
_LOGGER = logging.getLogger("rpcrdma.server")
_PEERS_MAX = 1024
_NETWORKS_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An exported directory and the name under which clients mount it.

    Raises:
        ValueError: the name is invalid, `xprtsec` unknown, or an anonymous number not within 0 to 2^32 - 2.
    """

    name: str
    """The name for clients: "/", "/NAME" or deeper."""
    directory: Path
    """The directory."""
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

    def acting_as(self, credential: Credential) -> UserAndGroups:
        """Maps a call's credential to the user as whom the server acts.

        Args:
            credential: the credential.

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


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_network(text: str) -> Network:
    """A host or network as people write it: "192.0.2.7", "192.0.2.0/24", "2001:db8::/32".

    Raises:
        ValueError: the text is neither, or has bits set beyond its prefix.
    """
    return ipaddress.ip_network(text)


def _when_the_next_comes(_delay_s: float, _callback: object) -> None:
    """Sets no timer, since worker threads have no event loop: the next refusal or `flush` logs those held back."""


class HostAdmission:
    """Thread-safe. Decides which addresses, and which security flavors, may use an export."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}
        self._guard = threading.Lock()
        self._log = LimitedLog(_LOGGER, later=_when_the_next_comes)

    def check(self, export: Export, context: CallContext, *, mounts: bool = False) -> None:
        """Lets a call pass whose host, connection and security flavor the export takes; else logs the refusal.

        `mounts`: the call is one of MOUNT, which takes every flavor.

        Raises:
            Refused: NFS3ERR_ACCES: the export is closed to this host, or to connections like this one.
            CredentialTooWeak: the export asks for another flavor.
        """
        peer = context.peer
        if export.xprtsec != "none" and not (mounts and export.mount_in_clear):
            self._check_protection(export, peer, context.client.xprtsec, mounts=mounts)
        if export.hosts:
            admitted = self._known.get((export.name, peer))
            if admitted is None:
                admitted = export.admits(peer)
                if len(self._known) >= _PEERS_MAX:
                    self._known.clear()
                self._known[export.name, peer] = admitted
            if not admitted:
                self._tell(export, peer)
                raise Refused(nfsstat3.NFS3ERR_ACCES)
        if not mounts and context.credential.flavor not in export.security:
            self._refuse_flavor(export, context)

    def _check_protection(self, export: Export, peer: str, present: XprtSec, *, mounts: bool) -> None:
        if protects(present, export.xprtsec):
            return
        event = {"event": "refused", "client": peer, "export": export.name, "xprtsec": export.xprtsec}
        remedy = "; Linux asks MOUNT in the clear, which Export(mount_in_clear=True) allows" if mounts else ""
        with self._guard:
            self._log.log(
                logging.WARNING,
                f"{export.name} {peer} {present}",
                "refused %s the export %s: it asks for xprtsec=%s, the connection has %s%s",
                peer,
                export.name,
                export.xprtsec,
                present,
                remedy,
                extra={"event": event},
            )
        raise Refused(nfsstat3.NFS3ERR_ACCES)

    def _refuse_flavor(self, export: Export, context: CallContext) -> NoReturn:
        peer, wanted = context.peer, ", ".join(map(str, export.security))
        event = {"event": "refused", "client": peer, "export": export.name, "security": [*map(str, export.security)]}
        with self._guard:
            self._log.log(
                logging.WARNING,
                f"security {export.name} {peer}",
                "refused %s the export %s: it came with %s, and the export asks for %s",
                peer,
                export.name,
                context.credential.flavor,
                wanted,
                extra={"event": event},
            )
        raise CredentialTooWeak(f"{export.name} asks for {wanted}")

    def check_calls_back(self, export: Export, context: CallContext) -> None:
        """Lets a call pass whose client may be called back with names of the export, which only TLS encrypts.

        Raises:
            Refused: NFS3ERR_ACCES: the export takes encrypted calls alone, and these would not be.
        """
        if set(export.security) != {SecurityFlavor.KRB5P} or context.client.xprtsec != "none":
            return
        peer = context.peer
        event = {"event": "refused", "client": peer, "export": export.name, "security": ["krb5p"]}
        with self._guard:
            self._log.log(
                logging.WARNING,
                f"calls back {export.name} {peer}",
                "refused to tell %s of changes in the export %s: it asks for krb5p, which does not encrypt the calls "
                "that tell of them; TLS does, and sec=krb5p:krb5i allows them in the clear",
                peer,
                export.name,
                extra={"event": event},
            )
        raise Refused(nfsstat3.NFS3ERR_ACCES)

    def flush(self) -> None:
        """Logs the refusals that were held back."""
        with self._guard:
            self._log.flush()

    def _tell(self, export: Export, peer: str) -> None:
        networks = [str(network) for network in export.hosts]
        more = len(networks) - _NETWORKS_SHOWN_MAX
        admitted = ", ".join(networks[:_NETWORKS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        event = {"event": "refused", "client": peer, "export": export.name, "admitted": networks}
        with self._guard:
            self._log.log(
                logging.WARNING,
                f"{export.name} {peer}",
                "refused %s the export %s: it admits %s alone",
                peer,
                export.name,
                admitted,
                extra={"event": event},
            )
