"""Exports whose directory or store is missing, or whose hosts lack an address: the server looks for them as it runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.export_options import ALL_HOSTS, Exported, ExportedRule
from rpcrdma.cli.export_sources import MAKE_DIRECTORY, ExportSources
from rpcrdma.cli.host_names import WRITE_ADDRESS, HostNames, Network
from rpcrdma.cli.settings.effective import COMMAND_LINE
from rpcrdma.commands import describe

if TYPE_CHECKING:
    from rpcrdma.nfs.server import Export

__all__ = ["WaitingExports", "warn_not_served"]

_LOGGER = logging.getLogger("rpcrdma.server")


class WaitingExports:
    """Makes the exports of a server from its settings, and keeps those that it can serve only later.

    An export waits while its directory is missing or does not answer, or its URL leads to no directory or cannot be
    reached. It also waits while the name of a host has no address, if a later rule, which could match the host instead,
    gives more rights than the rule that names the host.

    Args:
        exports: the settings of all exports. The error of an export with `missing` "fail" is raised by `ready`.
        names: looks up names of hosts; None: a new `HostNames`.
        sources: looks at the directories and stores; the first `ready` takes answers of earlier looks. None: a new one.
        served: exports that the server serves now: those of a URL are taken as ready without asking their stores.
    """

    def __init__(
        self,
        exports: Sequence[Exported],
        names: HostNames | None = None,
        sources: ExportSources | None = None,
        *,
        served: Sequence[Export] = (),
    ) -> None:
        self.absent = list(exports)
        """The exports that cannot be served yet."""
        self.exports = list(exports)
        """All exports, in the order of the settings."""
        self.names = names or HostNames()
        """Looks up the names of the exports' hosts."""
        self.sources = sources or ExportSources()
        """Looks at the exports' directories and stores."""
        self._stores = {(export.name, export.url) for export in served}
        self._made: dict[str, Export] = {}
        """The exports that can be served, by name."""
        self._unresolved: set[str] = set()
        """The names of the exports of which a host has had no address."""
        self._told = False

    def ready(self) -> list[Export]:
        """Returns all exports that can be served, with the present addresses of their hosts; may block for seconds.

        They have the order of the settings, and are removed from `absent`. The first call asks no directory or store
        that `sources` has looked at before, and logs the reason why an export is not served.

        Raises:
            OSError: an export in `absent`, with `missing` "fail", has no directory, a store out of reach, or any host
                name without an address, whatever later rules give; the text begins with FILE:LINE unless the export is
                from the command line.
        """
        asked = [export for export in self.absent if not self._is_open(export)]
        self.sources.look(asked, again=self._told)
        # At once, so that all of them together wait for their name servers once.
        self.names.look_up(host for export in self.exports for host in export.all_hosts)
        earlier = tuple(self._made)
        for export in tuple(self.absent):
            try:
                self._made[export.name] = self._new(export)
            except OSError as error:
                if export.missing == "fail":
                    message, hint, _ = describe(error)
                    if not hint:
                        hint = WRITE_ADDRESS if error.filename in export.all_hosts else MAKE_DIRECTORY
                        error.add_note(hint)
                    if (place := export.origins[""]) == COMMAND_LINE:
                        raise
                    raise OSError(f"{place}: {message}; {hint}") from None
                if not self._told:
                    warn_not_served(export.name, error)
            else:
                self.absent.remove(export)
        self._told = True
        by_name = {export.name: export for export in self.exports}
        for name in earlier:
            if by_name[name].all_hosts:
                self._admit_hosts(by_name[name])
        return [self._made[export.name] for export in self.exports if export.name in self._made]

    def _admit_hosts(self, exported: Exported) -> None:
        """Replaces the `Export` made from the settings `exported` if the addresses of its hosts have changed."""
        before = self._made[exported.name]
        export, unknown = _export(exported, before.directory, self.names)
        if not unknown and exported.name in self._unresolved:
            self._unresolved.remove(exported.name)
            _LOGGER.info("all hosts of %s have addresses now", exported.name)
        if export != before:
            self._made[exported.name] = export

    def _new(self, exported: Exported) -> Export:
        # A host must not have the rights of a later rule because its name has no address.
        for error in self.names.networks_of(exported.restrained_hosts)[1]:
            raise error
        directory = None if self._is_open(exported) else self.sources.directory_of(exported)
        export, unknown = _export(exported, directory, self.names)
        if unknown:
            if exported.missing == "fail":
                raise unknown[0]
            self._unresolved.add(exported.name)
            for error in unknown:
                _LOGGER.warning("%s does not admit %s until the name has an address", export.name, describe(error)[0])
        return export

    def _is_open(self, exported: Exported) -> bool:
        """Returns whether `served` has an export of this name and of this URL: then its store is not asked."""
        return (exported.name, exported.source) in self._stores


def warn_not_served(name: str, error: Exception) -> None:
    """Logs a warning that the export `name` is not served because of `error`, and will be once that is mended."""
    message, hint, _ = describe(error)
    remedy = f"{hint}; " if hint else ""
    _LOGGER.warning("%s is not served: %s; %sit will be once that is mended", name, message, remedy)


def _export(exported: Exported, directory: Path | None, names: HostNames) -> tuple[Export, list[OSError]]:
    """Returns (the `Export` for NFS services, an error for each host name without an address) from settings.

    `exported` has the settings, `directory` is its directory, None for a URL; `names` has looked up its hosts. A host
    without an address is left out of the `Export`.
    """
    from rpcrdma.nfs.server import AccessTerms, Export  # noqa: PLC0415

    unknown: list[OSError] = []

    def terms(rule: ExportedRule) -> dict[str, Any]:
        """Returns the keyword arguments of `AccessTerms` for a rule; adds errors of unknown hosts to `unknown`."""
        return {
            "hosts": _networks(rule.hosts, names, unknown),
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

    export = Export(
        name=exported.name,
        directory=directory,
        url=exported.source if isinstance(exported.source, str) else None,
        valid_s=exported.fsspec_valid,
        rules=tuple(AccessTerms(**terms(rule)) for rule in exported.rules),
        synchronous=exported.sync,
        mount_in_clear=exported.mount_in_clear,
        transports=tuple(exported.transports),
        versions=tuple(exported.versions),
        hidden=exported.hidden,
        reserved_port=exported.reserved_port,
        groups=exported.groups,
        **terms(exported),
    )
    return export, unknown


def _networks(hosts: Sequence[str], names: HostNames, unknown: list[OSError]) -> tuple[Network, ...] | None:
    """Returns the networks of `hosts`; None, which stands for all hosts, if `hosts` is empty or contains "*".

    Adds an error to `unknown` for each host name without an address.
    """
    if not hosts or ALL_HOSTS in hosts:
        return None
    networks, lacking = names.networks_of(hosts)
    unknown += lacking
    return tuple(networks)
