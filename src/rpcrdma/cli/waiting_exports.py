"""Exports whose directory is missing, or whose hosts have no address yet: the server looks for them while it runs."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rpcrdma.cli.export_options import Exported, served_directory
from rpcrdma.cli.host_names import HostNames, Network
from rpcrdma.commands import describe

if TYPE_CHECKING:
    from rpcrdma.nfs.server import Export

__all__ = ["WaitingExports"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NOBODY = ipaddress.ip_network("0.0.0.0/32")
"""The address of no peer: a list of hosts without it would be empty, and admit everybody."""


class WaitingExports:
    """Makes the exports of a server, and those that it can serve only later.

    Args:
        exports: all exports. One with `missing` "fail" raises its error at once.
        names: looks up names of hosts.
    """

    def __init__(self, exports: Sequence[Exported], names: HostNames | None = None) -> None:
        self.absent = list(exports)
        """Those that are not served yet."""
        self._exports = list(exports)
        self._names = names or HostNames()
        self._made: dict[str, Export] = {}
        """Those that can be served, by name."""
        self._unresolved: set[str] = set()
        """The names of those whose hosts have not all had an address."""
        self._told = False

    def ready(self) -> list[Export]:
        """Returns all exports that can be served, with the present addresses of their hosts; may block.

        The log has the first reason of each other one.

        Raises:
            OSError: an export with `missing` "fail" has no directory, or a host without an address.
        """
        # At once, so that all of them together wait for their name servers once.
        self._names.look_up(host for export in self._exports for host in export.hosts)
        for export in tuple(self.absent):
            try:
                self._made[export.name] = self._export(export)
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
        for export in self._exports:
            if export.hosts and export.name in self._made:
                self._admit_hosts(export)
        return [self._made[export.name] for export in self._exports if export.name in self._made]

    def _admit_hosts(self, exported: Exported) -> None:
        """Takes the addresses that the hosts of an export have by now."""
        networks, unknown = _networks(exported, self._names)
        if not unknown and exported.name in self._unresolved:
            self._unresolved.remove(exported.name)
            _LOGGER.info("all hosts of %s have addresses now", exported.name)
        if networks != self._made[exported.name].hosts:
            self._made[exported.name] = replace(self._made[exported.name], hosts=networks)

    def _export(self, exported: Exported) -> Export:
        from rpcrdma.nfs.server import Export  # noqa: PLC0415

        directory = served_directory(exported)
        networks, unknown = _networks(exported, self._names)
        if unknown:
            if exported.missing == "fail":
                raise unknown[0]
            self._unresolved.add(exported.name)
            for error in unknown:
                _LOGGER.warning("%s does not admit %s until the name has an address", exported.name, describe(error)[0])
        return Export(
            name=exported.name,
            directory=directory,
            url=exported.source if isinstance(exported.source, str) else None,
            valid_s=exported.fsspec_valid,
            read_only=exported.is_read_only,
            synchronous=exported.sync,
            root_squash=exported.squash != "none",
            all_squash=exported.squash == "all",
            anonymous_uid=exported.anonuid,
            anonymous_gid=exported.anongid,
            hosts=networks,
            xprtsec=exported.xprtsec,
            mount_in_clear=exported.mount_in_clear,
            security=exported.security,
        )


def _networks(export: Exported, names: HostNames) -> tuple[tuple[Network, ...], list[OSError]]:
    """Returns the networks of the hosts, and the errors of names without an address."""
    networks, unknown = names.networks_of(export.hosts)
    return tuple(networks) if networks or not unknown else (_NOBODY,), unknown
