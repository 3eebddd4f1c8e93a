"""Holds the settings of `rpcrdma serve` against this machine: directories, names of hosts, certificates, packages."""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.export_sources import MAKE_DIRECTORY, ExportSources
from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.serve_conflicts import conflicts
from rpcrdma.cli.serve_health import expiry_warning
from rpcrdma.cli.serve_protection import hosts_of, least_protection
from rpcrdma.cli.settings.check_paths import FILES_OF_HOSTS, PATHS, PathLooks
from rpcrdma.cli.settings.credentials import Credential
from rpcrdma.cli.settings.effective import COMMAND_LINE, DEFAULT, Effective, in_keys
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.cli.settings.rules import doubts
from rpcrdma.commands import ExitStatus, console, describe
from rpcrdma.file_limits import CONFIGURATION_FAULTS_MAX
from rpcrdma.nfs.export.giving_way import give_way

__all__ = [
    "as_entries", "at_start", "find_mistakes", "first_ones", "is_installed", "report",
]  # fmt: skip

_OF_TLS: Final = frozenset({*FILES_OF_HOSTS, "tls-name", "host-auth", "rpcrdma-version", "listen"})
"""The settings of a server that have to fit together, and with the `xprtsec` of exports."""


def is_installed(package: str) -> bool:
    """Returns whether Python finds the module `package`, without importing it."""
    return importlib.util.find_spec(package) is not None


def find_mistakes(
    args: argparse.Namespace,
    found: Effective,
    names: HostNames | None = None,
    sources: ExportSources | None = None,
    served: Collection[str] = (),
) -> list[Mistake]:
    """Returns a mistake or warning for each fault in files and each setting unfit for this machine, each once.

    It looks up host names, asks the stores of URLs, and reads certificates and directories, and so may block; it binds
    no socket and changes nothing.

    Args:
        args: parsed arguments, with the values of `found`.
        found: the settings.
        names: looks up names of hosts; None: a new `HostNames`.
        sources: looks at directories and stores; None: a new `ExportSources`.
        served: the names of exports that a server serves now. If the source of one does not answer, that is an error,
            even if its setting `missing` is "skip".
    """
    names, sources = names or HostNames(), sources or ExportSources()
    looks = PathLooks(found, (*FILES_OF_HOSTS, *PATHS), sources.of_paths)
    exports = (*found.exports, *found.mistaken)
    sources.look(exports, needed=served)
    names.look_up(host for export in exports for host in export.all_hosts)
    faults = [*found.faults, *no_exports(args, found)]
    for export in exports:
        give_way()
        faults += _faults_of_export(export, found, names, sources, served)
    faults += _exposed_state(found, sources, looks)
    faults += _directories_within([export for export in exports if not sources.is_silent(export)])
    faults += _conflicts(args, found)
    faults += _faults_of_certificates(args, found, looks)
    faults += looks.faults(PATHS)
    faults += _faults_of_credentials(found, PATHS)
    faults += _missing_packages(found)
    audit, log = found.server["audit"], found.server["access-log"]
    if audit.origin != DEFAULT and log.value == "off" and "access-log" not in found.mistaken_settings:
        faults.append(Mistake(audit.origin, "audit has no effect without access-log; set it", is_warning=True))
    # Two looks at the state directory may have told the same.
    return [*dict.fromkeys(faults)]


def at_start(args: argparse.Namespace, found: Effective, sources: ExportSources) -> list[Mistake]:
    """Returns the mistakes (place, text) in settings with which a server must not start, and warnings.

    A warning (`Mistake.is_warning`) in this list is about an export that clients may change, but whose file system is
    mounted read-only. Mistakes that opening, binding or loading finds are left out: the start itself reports them.
    `args` are parsed arguments with the values of `found`. `sources` looks at the directories and stores of the
    exports, and has their answers afterwards. May block.
    """
    looks = PathLooks(found, (), sources.of_paths)
    sources.look((*found.exports, *found.mistaken))
    faults = [*found.faults, *no_exports(args, found), *_exposed_state(found, sources, looks)]
    faults += _faults_of_credentials(found, (*FILES_OF_HOSTS, *PATHS))
    faults += _missing_packages(found)
    for export in found.exports:
        faults += _faults_of_url(export)
        faults += _doubts_about_mount(export, sources)
    if args.config is not None:
        # A reload would refuse such a file, too.
        faults += _conflicts(args, found)
    return faults


def no_exports(args: argparse.Namespace, found: Effective) -> list[Mistake]:
    """Returns a list with the mistake that there is no export; [] if there are exports, or `found` has other mistakes.

    `args` has the configuration file, in which exports should be (`config`; None: there is no file).
    """
    if found.exports or found.faults:
        return []
    if args.config is None:
        remedy = "name a directory, or use --export NAME=DIR or --config FILE"
        return [Mistake(COMMAND_LINE, f"there is no export; {remedy}")]
    return [Mistake(str(args.config), "there is no export; write [[export]], or name a directory")]


def _missing_packages(found: Effective) -> Iterator[Mistake]:
    """Yields a mistake for Kerberos and for metrics, if the settings ask for it and its package is not installed."""
    exports = (*found.exports, *found.mistaken)
    rules = [rule for export in exports for rule in export.admitting if "sec" not in rule.mistaken]
    proved = next((rule for rule in rules if any(flavor.service is not None for flavor in rule.flavors)), None)
    if proved is not None and not is_installed("gssapi"):
        text = "Kerberos takes the package gssapi; pip install gssapi, or apt-get install python3-gssapi"
        yield Mistake(proved.origins["sec"], text)
    metrics = found.server["metrics"]
    if metrics.value is not None and not is_installed("prometheus_client"):
        text = "metrics takes the package prometheus-client; pip install prometheus-client"
        yield Mistake(metrics.origin, text)


def _faults_of_export(
    export: Exported, found: Effective, names: HostNames, sources: ExportSources, served: Collection[str]
) -> Iterator[Mistake]:
    yield from _faults_of_source(export, sources, served)
    yield from _doubts_about_mount(export, sources)
    yield from doubts(export, names)
    if "versions" in export.mistaken:
        return
    if (served := found.server["nfs"].value) and not any(str(each) in served.split(",") for each in export.versions):
        text = f"no version of {export.name} is served, since nfs is {served}; change one of both"
        yield Mistake(export.origins["versions"], text)


def _faults_of_source(export: Exported, sources: ExportSources, served: Collection[str]) -> Iterator[Mistake]:
    """Yields a mistake (place, text) if the source of an export, at which `sources` has looked, cannot be served.

    It is a warning if the export may be absent (`missing` is "skip"), unless the source does not answer and the export
    is one of those in `served`, which a server serves now.
    """
    if faults := [*_faults_of_url(export)]:
        yield from faults
        return
    try:
        sources.directory_of(export)
    except OSError as error:
        message, hint, _ = describe(error)
        text = f"{message}; {hint or MAKE_DIRECTORY}"
        may_wait = export.missing == "skip" and not (export.name in served and sources.is_silent(export))
        yield Mistake(export.origins[""], text, is_warning=may_wait)


def _doubts_about_mount(export: Exported, sources: ExportSources) -> Iterator[Mistake]:
    """Yields a warning if callers may change an export whose file system is mounted read-only in this process's view.

    Under systemd a unit's processes may see directories that its `ReadWritePaths=` lacks as read-only until a restart.
    """
    rules = (*export.rules, export)
    if export.is_read_only or sources.is_silent(export) or any("access" in rule.mistaken for rule in rules):
        return
    try:
        directory = sources.directory_of(export)
        is_read_only = directory is not None and bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:
        return
    if is_read_only:
        text = (
            f"{export.name} may be changed, but its file system is mounted read-only for this process; renew the "
            'drop-in by rpcrdma config unit and restart, mount it anew, or write access = "ro"'
        )
        yield Mistake(export.origins[""], text, is_warning=True)


def _exposed_state(found: Effective, sources: ExportSources, looks: PathLooks) -> Iterator[Mistake]:
    """Yields a mistake (place, text) for each export that contains the directory of the server's state.

    A client that reads the key of file handles there can forge handles. An export whose source has not answered is left
    out, as it is checked again before it is served. If the state directory does not answer, yields that mistake alone.
    """
    exports = [export for export in (*found.exports, *found.mistaken) if not sources.is_silent(export)]
    of_state = looks.place_of_state()
    if isinstance(of_state, Mistake):
        yield of_state
        return
    if of_state is None:
        return
    state = found.server["state-dir"].value
    for export in exports:
        give_way()
        if of_state.is_shown_by(export.source):
            place = export.origins[""]
            text = f"the export {export.name} has the directory of the server's state, {_real(state)}"
            yield Mistake(place, in_keys(f"{text}; set --state-dir to one that is not exported", place))


def _real(path: Path | str) -> str:
    """Returns the absolute path without symbolic links; links that form a circle stay in it."""
    from rpcrdma.nfs.export.mount_table import real_path  # noqa: PLC0415 - only a server has directories

    give_way()
    return real_path(path)


def _faults_of_url(export: Exported) -> Iterator[Mistake]:
    """Yields a mistake if a package for the export's URL is missing, or fsspec lacks the protocol; asks no store."""
    if isinstance(export.source, Path):
        return
    place = export.origins[""]
    if not is_installed("fsspec"):
        yield Mistake(place, "a url takes the package fsspec; pip install fsspec")
        return
    from fsspec import get_filesystem_class  # noqa: PLC0415 - an optional package

    *wrappers, last = export.source.split("::")
    # The end of a chain may be a path of this machine, as in zip::archive.zip.
    for part in (*wrappers, last) if "://" in last else wrappers:
        protocol = part.partition("://")[0]
        try:
            get_filesystem_class(protocol)
        except ImportError as error:
            from rpcrdma.nfs.export.fsspec_store import missing_package  # noqa: PLC0415 - an optional package

            missing = missing_package(protocol, error)
            yield Mistake(place, f"{export.shown} takes a package that is not installed: {missing}")
            return
        except ValueError:
            text = f"{export.shown}: fsspec knows no protocol {protocol!r}; correct it, or name a directory"
            yield Mistake(place, text)
            return


def _directories_within(exports: Sequence[Exported]) -> Iterator[Mistake]:
    by_directory: dict[str, Exported] = {}
    local = [(_real(export.source), export) for export in exports if isinstance(export.source, Path)]
    for directory, export in sorted(local, key=lambda each: each[0].rstrip("/").count("/")):
        above = next((by_directory[each] for each in _at_and_above(directory) if each in by_directory), None)
        if above is not None:
            text = f"{directory} lies within the export {above.name}, whose terms hold for it as well; compare both"
            yield Mistake(export.origins[""], text, is_warning=True)
        by_directory.setdefault(directory, export)


def _at_and_above(directory: str) -> Iterator[str]:
    yield directory
    while directory != "/":
        directory = directory.rpartition("/")[0] or "/"
        yield directory


def _conflicts(args: argparse.Namespace, found: Effective) -> list[Mistake]:
    """Returns the conflicts between settings (`conflicts`) as mistakes, at the places of the settings to blame.

    If the value of a setting about TLS, `listen` or `rpcrdma-version` is itself mistaken, only the conflict about
    `connections` is in the result.
    """
    exports = [*found.exports, *found.mistaken]
    rules = [rule for export in exports for rule in export.admitting]
    faults = []
    for conflict in conflicts(argparse.Namespace(**vars(args) | {"exports": exports})):
        if conflict.setting == "xprtsec":
            place = next(rule for rule in rules if rule.xprtsec != "none").origins["xprtsec"]
        else:
            place = found.server[conflict.setting].origin
        if conflict.setting == "connections" or found.mistaken_settings.isdisjoint(_OF_TLS):
            faults.append(Mistake(place, in_keys(f"{conflict.cause}; {conflict.remedy}", place)))
    return faults


def _faults_of_credentials(found: Effective, names: Iterable[str]) -> Iterator[Mistake]:
    """Yields a mistake for each setting of the server in `names` whose value is an unreadable credential of systemd."""
    for value, place in map(found.server.__getitem__, names):
        if isinstance(value, Credential) and (fault := value.fault()) is not None:
            yield Mistake(place, fault)


def _faults_of_certificates(args: argparse.Namespace, found: Effective, looks: PathLooks) -> Iterator[Mistake]:
    """Yields a mistake for each file of certificates that cannot be used, and warnings (`Mistake.is_warning`).

    The warnings: the certificate has expired, or does so within 14 days; `tls-name` does not bar clients without a
    certificate. `looks` has looked at the files; they are loaded only if they can be read and no other setting
    conflicts with them.
    """
    faults = [*looks.faults(FILES_OF_HOSTS), *_faults_of_credentials(found, FILES_OF_HOSTS)]
    yield from faults
    certificate = found.server["tls-cert"]
    values = (found.server[name].value for name in FILES_OF_HOSTS)
    hidden = any(isinstance(value, Credential) and value.is_hidden for value in values)
    if faults or hidden or certificate.value is None or not found.mistaken_settings.isdisjoint(_OF_TLS):
        return
    if (warning := expiry_warning(args.host_cert, time.time())) is not None:
        yield Mistake(certificate.origin, warning, is_warning=True)
    if any(conflict.setting != "connections" for conflict in conflicts(args)):
        return
    from rpcrdma.errors import HostAuthenticationFailed  # noqa: PLC0415
    from rpcrdma.transport.config import Role  # noqa: PLC0415

    hosts = hosts_of(args)
    try:
        hosts.tls(Role.SERVER, least_protection(found.exports))
        hosts.source(Role.SERVER)
    except HostAuthenticationFailed as error:
        message, hint, _ = describe(error)
        place = found.place_of_files(message)
        yield Mistake(place, in_keys(f"{message}; {hint}" if hint else message, place))
    rules = [rule for export in found.exports for rule in export.admitting]
    judged = hosts.wanted.value == "required" or any(rule.xprtsec == "mtls" or rule.certificates for rule in rules)
    if hosts.names and not judged:
        text = 'a client without a certificate needs none of these names; ask for one: xprtsec = "mtls"'
        yield Mistake(found.server["tls-name"].origin, text, is_warning=True)


def report(faults: list[Mistake], *, as_json: bool) -> int:
    """Prints the mistakes, 100 at most, on standard error; returns USAGE if one is an error, DONE for warnings alone.

    `as_json`: whether all of them are printed as one JSON object on standard output as well. If not, and if
    `console.errors_as_json` is set, each printed error is a JSON object of its own there.
    """
    failed = any(not fault.is_warning for fault in faults)
    shown, more = first_ones(faults)
    for fault in shown:
        if fault.is_warning:
            console.talk(f"warning: {fault}")
        else:
            console.error(str(fault), status=ExitStatus.USAGE, in_report=as_json)
    if more:
        console.talk(more)
    if as_json:
        console.json_line({"ok": not failed, "faults": as_entries(faults)})
    return ExitStatus.USAGE if failed else ExitStatus.DONE


def first_ones(faults: list[Mistake]) -> tuple[list[Mistake], str]:
    """Returns the first CONFIGURATION_FAULTS_MAX (100) of `faults`, and "and N more" about the others, or ""."""
    more = len(faults) - CONFIGURATION_FAULTS_MAX
    return faults[:CONFIGURATION_FAULTS_MAX], f"and {more} more" if more > 0 else ""


def as_entries(faults: list[Mistake]) -> list[dict[str, str]]:
    """Returns the mistakes as JSON objects with place, message and severity ("warning" or "error")."""
    return [
        {"place": fault.place, "message": fault.text, "severity": "warning" if fault.is_warning else "error"}
        for fault in faults
    ]
