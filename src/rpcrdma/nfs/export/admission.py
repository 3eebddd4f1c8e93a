"""Decides which hosts, connections and security flavors may use an export, and logs the refusals."""

from __future__ import annotations

import errno
import logging
import threading
from typing import NoReturn

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.nfs.export.export import ExportTerms
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.rpc.host_identity import XprtSec, protects
from rpcrdma.rpc.service import CallContext, CredentialTooWeak

__all__ = ["HostAdmission"]

_LOGGER = logging.getLogger("rpcrdma.server")
_PEERS_MAX = 1024
_NETWORKS_SHOWN_MAX = 8


def _when_the_next_comes(_delay_s: float, _callback: object) -> None:
    """Sets no timer, since worker threads have no event loop: the next refusal or `flush` logs those held back."""


class HostAdmission:
    """Thread-safe. Decides which addresses, and which security flavors, may use an export."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}
        self._guard = threading.Lock()
        self._log = LimitedLog(_LOGGER, later=_when_the_next_comes)

    def forget(self) -> None:
        """Drops the decisions about hosts, after the hosts of an export have changed."""
        self._known = {}

    def check(self, export: ExportTerms, context: CallContext, *, mounts: bool = False) -> None:
        """Lets a call pass whose host, connection and security flavor the export takes; else logs the refusal.

        `mounts`: the call is one of MOUNT, which takes every flavor.

        Raises:
            Refused: EACCES: the export is closed to this host, or to connections like this one.
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
                raise Refused(errno.EACCES)
        if not mounts and context.credential.flavor not in export.security:
            self._refuse_flavor(export, context)

    def _check_protection(self, export: ExportTerms, peer: str, present: XprtSec, *, mounts: bool) -> None:
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
        raise Refused(errno.EACCES)

    def _refuse_flavor(self, export: ExportTerms, context: CallContext) -> NoReturn:
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

    def flush(self) -> None:
        """Logs the refusals that were held back."""
        with self._guard:
            self._log.flush()

    def _tell(self, export: ExportTerms, peer: str) -> None:
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
