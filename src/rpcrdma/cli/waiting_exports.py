"""Exports whose directory is missing, or whose hosts have no address yet: the server looks for them while it runs."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcrdma.cli.export_options import Exported, Network, allowed_networks, served_directory
from rpcrdma.commands import describe

if TYPE_CHECKING:
    from rpcrdma.nfs.server import Export
    from rpcrdma.nfs.server.services import ServedNfs
    from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot

__all__ = ["WaitingExports"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NOBODY = ipaddress.ip_network("0.0.0.0/32")
"""The address of no peer: a list of hosts without it would be empty, and admit everybody."""


class WaitingExports:
    """Makes the exports of a server, and those that it can serve only later.

    Args:
        exports: all exports. One with `missing` "fail" raises its error at once.
    """

    def __init__(self, exports: Sequence[Exported]) -> None:
        self.absent = list(exports)
        """Those that are not served yet."""
        self._unresolved: list[Exported] = []
        self._told = False

    def ready(self) -> list[Export]:
        """Returns the exports that can be served from now on; the log has the first reason of each other one.

        Raises:
            OSError: an export with `missing` "fail" has no directory, or a host without an address.
        """
        found = []
        for export in tuple(self.absent):
            try:
                found.append(self._made(export))
            except OSError as error:
                if export.missing == "fail":
                    raise
                if not self._told:
                    _LOGGER.warning(
                        "%s is not served: %s; it will be when the directory is there", export.name, describe(error)[0]
                    )
            else:
                self.absent.remove(export)
        self._told = True
        return found

    def look(self, nfs: ServedNfs, above: PseudoRoot | None, now_ns: int) -> list[Exported]:
        """Serves the exports that have become ready, and admits hosts that have an address by now.

        Args:
            nfs: the running service.
            above: the pseudo file system of version 4; None: it is not offered.
            now_ns: the time in nanoseconds since 1970.

        Returns:
            The exports that are served from now on.
        """
        before = tuple(self.absent)
        for export in self.ready():
            nfs.exports.add(export)
            if above is not None:
                above.renew(now_ns)
        for exported in tuple(self._unresolved):
            networks, unknown = _networks(exported)
            tree = next((tree for tree in nfs.exports.trees if tree.export.name == exported.name), None)
            if tree is not None and not unknown:
                self._unresolved.remove(exported)
                nfs.exports.admit_hosts(exported.name, networks)
                _LOGGER.info("all hosts of %s have addresses now", exported.name)
        return [export for export in before if export not in self.absent]

    def _made(self, export: Exported) -> Export:
        from rpcrdma.nfs.server import Export  # noqa: PLC0415

        directory = served_directory(export)
        networks, unknown = _networks(export)
        if unknown:
            if export.missing == "fail":
                raise unknown[0]
            self._unresolved.append(export)
            for error in unknown:
                _LOGGER.warning("%s does not admit %s until the name has an address", export.name, describe(error)[0])
        return Export(
            name=export.name,
            directory=directory,
            url=export.source if isinstance(export.source, str) else None,
            valid_s=export.fsspec_valid,
            read_only=export.is_read_only,
            synchronous=export.sync,
            root_squash=export.squash != "none",
            all_squash=export.squash == "all",
            anonymous_uid=export.anonuid,
            anonymous_gid=export.anongid,
            hosts=networks,
            xprtsec=export.xprtsec,
            mount_in_clear=export.mount_in_clear,
            groups=export.groups,
            security=export.security,
        )


def _networks(export: Exported) -> tuple[tuple[Network, ...], list[OSError]]:
    """Returns the networks of the hosts, and the errors of names without an address."""
    networks: list[Network] = []
    unknown = []
    for host in export.hosts:
        try:
            networks += allowed_networks([host])
        except OSError as error:
            unknown.append(error)
    return tuple(networks) if networks or not unknown else (_NOBODY,), unknown
