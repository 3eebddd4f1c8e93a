"""The admission of hosts to exports, with a log of refusals."""

from __future__ import annotations

import logging
import threading

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.nfs.server.export import Export
from rpcrdma.nfs.server.refusal import Refused
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["Admission"]

_LOGGER = logging.getLogger("rpcrdma.server")
_PEERS_MAX = 1024
_NETWORKS_SHOWN_MAX = 8


def _when_the_next_comes(_delay_s: float, _callback: object) -> None:
    """Worker threads have no event loop: refusals that were held back are told by the next one, or by `flush`."""


class Admission:
    """Thread-safe. Remembers which addresses may use an export."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}
        self._guard = threading.Lock()
        self._log = LimitedLog(_LOGGER, later=_when_the_next_comes)

    def check(self, export: Export, peer: str) -> None:
        """Lets the host at the address `peer` pass if `export` admits it; else logs the refusal.

        Raises:
            Refused: NFS3ERR_ACCES: the export is closed to this host.
        """
        if not export.hosts:
            return
        admitted = self._known.get((export.name, peer))
        if admitted is None:
            admitted = export.admits(peer)
            if len(self._known) >= _PEERS_MAX:
                self._known.clear()
            self._known[export.name, peer] = admitted
        if not admitted:
            self._tell(export, peer)
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
                "refused %s the export %s: it is for %s alone",
                peer,
                export.name,
                admitted,
                extra={"event": event},
            )
