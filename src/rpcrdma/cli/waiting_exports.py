"""Exports whose directory is missing, or whose hosts have no address yet: the server looks for them while it runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.export_options import ALL_HOSTS, Exported, ExportedRule, Network, allowed_networks, served_directory
from rpcrdma.commands import describe

if TYPE_CHECKING:
    from rpcrdma.nfs.server import Export
    from rpcrdma.nfs.server.services import ServedNfs
    from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot

__all__ = ["WaitingExports"]

_LOGGER = logging.getLogger("rpcrdma.server")


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
            export, unknown = _export(exported)
            if not unknown:
                self._unresolved.remove(exported)
                nfs.exports.set_terms(export)
                _LOGGER.info("all hosts of %s have addresses now", exported.name)
        return [export for export in before if export not in self.absent]

    def _made(self, exported: Exported) -> Export:
        export, unknown = _export(exported)
        if unknown:
            if exported.missing == "fail":
                raise unknown[0]
            self._unresolved.append(exported)
            for error in unknown:
                _LOGGER.warning("%s does not admit %s until the name has an address", export.name, describe(error)[0])
        return export


def _export(exported: Exported) -> tuple[Export, list[OSError]]:
    """Returns an export as a server takes it, and the errors of names of hosts without an address.

    Raises:
        OSError: there is no directory.
    """
    from rpcrdma.nfs.server import AccessTerms, Export  # noqa: PLC0415

    unknown: list[OSError] = []
    export = Export(
        name=exported.name,
        directory=served_directory(exported),
        url=exported.source if isinstance(exported.source, str) else None,
        valid_s=exported.fsspec_valid,
        rules=tuple(AccessTerms(**_terms(rule, exported, unknown)) for rule in exported.rules),
        synchronous=exported.sync,
        mount_in_clear=exported.mount_in_clear,
        transports=tuple(exported.transports),
        versions=tuple(exported.versions),
        hidden=exported.hidden,
        reserved_port=exported.reserved_port,
        **_terms(exported, exported, unknown),
    )
    return export, unknown


def _terms(rule: ExportedRule, exported: Exported, unknown: list[OSError]) -> dict[str, Any]:
    """Returns a rule as arguments of `AccessTerms`; adds the errors of names without an address to `unknown`."""
    return {
        "hosts": _networks(rule.hosts, unknown),
        "principals": tuple(rule.principals),
        "certificates": tuple(rule.certificates),
        "denied": rule.access == "none",
        "read_only": rule.access == "ro" or isinstance(exported.source, str),
        "root_squash": rule.squash != "none",
        "all_squash": rule.squash == "all",
        "anonymous_uid": rule.anonuid,
        "anonymous_gid": rule.anongid,
        "xprtsec": rule.xprtsec,
        "security": rule.flavors,
    }


def _networks(hosts: Sequence[str], unknown: list[OSError]) -> tuple[Network, ...] | None:
    """Returns the networks of hosts, None for all hosts; adds the errors of names without an address to `unknown`."""
    if not hosts or ALL_HOSTS in hosts:
        return None
    networks: list[Network] = []
    for host in hosts:
        try:
            networks += allowed_networks([host])
        except OSError as error:
            unknown.append(error)
    return tuple(networks)
