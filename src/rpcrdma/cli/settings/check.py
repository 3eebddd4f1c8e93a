"""Holds the settings of `rpcrdma serve` against this machine: directories, names of hosts, certificates, packages."""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rpcrdma.cli.export_options import Exported, reached_source
from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.serve_health import expiry_warning
from rpcrdma.cli.serve_protection import hosts_of, least_protection, tls_conflict
from rpcrdma.cli.settings.effective import COMMAND_LINE, DEFAULT, Effective, in_keys
from rpcrdma.cli.settings.file import Mistake, Value
from rpcrdma.cli.settings.rules import doubts, faults_of_hosts
from rpcrdma.commands import ExitStatus, console, describe
from rpcrdma.file_limits import CONFIGURATION_FAULTS_MAX

__all__ = [
    "as_entries", "at_start", "find_mistakes", "first_ones", "is_installed", "report",
]  # fmt: skip


def is_installed(package: str) -> bool:
    """Returns whether Python finds the module `package`, without importing it."""
    return importlib.util.find_spec(package) is not None


def find_mistakes(args: argparse.Namespace, found: Effective, names: HostNames | None = None) -> list[Mistake]:
    """Returns a mistake (place, cause, remedy) for each fault in files and each setting unfit for this machine.

    It looks up host names, asks the stores of URLs, and reads certificates and directories, and so may block; it binds
    no socket and changes nothing.

    Args:
        args: parsed arguments, with the values of `found`.
        found: the settings.
        names: looks up names of hosts; None: a new `HostNames`.
    """
    names = names or HostNames()
    exports = (*found.exports, *found.mistaken)
    names.look_up(host for export in exports for host in export.all_hosts)
    faults = [*found.faults, *no_exports(args, found)]
    if not exports:
        return faults
    for export in found.exports:
        faults += _faults_of_export(export, found, names)
    for export in found.mistaken:
        faults += _faults_of_source(export)
        faults += faults_of_hosts(export, names)
    faults += _exposed_state(found)
    faults += _directories_within(exports)
    faults += _faults_of_state(found.server["state-dir"])
    admin = found.server["admin"]
    if isinstance(admin.value, Path) and not admin.value.absolute().parent.is_dir():
        faults.append(Mistake(admin.origin, f"there is no directory {admin.value.parent} for the socket; make it"))
    faults += _faults_of_certificates(args, found)
    keytab = found.server["keytab"]
    if keytab.value is not None and not os.access(keytab.value, os.R_OK):
        faults.append(Mistake(keytab.origin, f"{keytab.value} cannot be read; name a keytab that this user may read"))
    rules = [rule for export in found.exports for rule in export.admitting]
    proved = next((rule for rule in rules if any(flavor.service is not None for flavor in rule.flavors)), None)
    if proved is not None and not is_installed("gssapi"):
        faults.append(
            Mistake(
                proved.origins["sec"],
                "Kerberos takes the package gssapi; pip install gssapi, or apt-get install python3-gssapi",
            )
        )
    metrics = found.server["metrics"]
    if metrics.value is not None and not is_installed("prometheus_client"):
        faults.append(Mistake(metrics.origin, "metrics takes the package prometheus-client; install it"))
    faults += _faults_of_access_log(found)
    return faults


def _faults_of_access_log(found: Effective) -> Iterator[Mistake]:
    log, audit = found.server["access-log"], found.server["audit"]
    if log.value == "off":
        if audit.origin != DEFAULT:
            yield Mistake(audit.origin, "audit has no effect without access-log; set it", is_warning=True)
    elif isinstance(log.value, Path):
        path = log.value.absolute()
        there = path if path.exists() else path.parent
        if path.exists() and not path.is_file():
            yield Mistake(log.origin, f"{path} is no regular file; name another one")
        elif not there.exists():
            yield Mistake(log.origin, f"there is no directory {there}; make it")
        elif not os.access(there, os.W_OK):
            yield Mistake(log.origin, f"this user may not write to {there}; allow it, or name another file")


def at_start(args: argparse.Namespace, found: Effective) -> list[Mistake]:
    """Returns the mistakes in settings (place, cause, remedy) with which a server must not start.

    Those that opening, binding or loading would find are left out: the start finds them itself. `args` are parsed
    arguments with the values of `found`.
    """
    faults = [*found.faults, *no_exports(args, found), *_exposed_state(found)]
    if args.config is not None:
        # A reload would refuse such a file, too.
        faults += _conflicts_of_tls(args, found)
        for export in found.exports:
            faults += _faults_of_url(export)
    return faults


def no_exports(args: argparse.Namespace, found: Effective) -> list[Mistake]:
    """Returns the mistake that there is nothing to serve, in a list; an empty list if there are exports.

    The list is also empty if other mistakes may be the cause.
    """
    if found.exports or found.faults:
        return []
    if args.config is None:
        remedy = "name a directory, or use --export NAME=DIR or --config FILE"
        return [Mistake(COMMAND_LINE, f"there is no export; {remedy}")]
    return [Mistake(str(args.config), "there is no export; write [[export]], or name a directory")]


def _faults_of_export(export: Exported, found: Effective, names: HostNames) -> Iterator[Mistake]:
    yield from _faults_of_source(export)
    yield from doubts(export, names)
    if (served := found.server["nfs"].value) and not any(str(each) in served.split(",") for each in export.versions):
        text = f"no version of {export.name} is served, since nfs is {served}; change one of both"
        yield Mistake(export.origins["versions"], text)


def _faults_of_source(export: Exported) -> Iterator[Mistake]:
    """Yields a mistake (place, cause, remedy) if the source of an export cannot be served at present; may block."""
    if faults := [*_faults_of_url(export)]:
        yield from faults
        return
    try:
        reached_source(export)
    except OSError as error:
        message, hint, _ = describe(error)
        text = f"{message}; {hint or 'make the directory, or name another one'}"
        yield Mistake(export.origins[""], text, is_warning=export.missing == "skip")


def _exposed_state(found: Effective) -> Iterator[Mistake]:
    """Yields a mistake (place, cause, remedy) for each export that contains the directory of the server's state.

    A client that reads the key of file handles there can make handles of its own.
    """
    from rpcrdma.nfs.export.server_state import StatePlace  # noqa: PLC0415 - the database takes its time

    state = found.server["state-dir"].value
    of_state = StatePlace(state)
    for export in (*found.exports, *found.mistaken):
        if of_state.is_shown_by(export.source):
            place = export.origins[""]
            text = f"the export {export.name} has the directory of the server's state, {_real(state)}"
            yield Mistake(place, in_keys(f"{text}; set --state-dir to one that is not exported", place))


def _real(path: Path | str) -> str:
    """Returns the absolute path without symbolic links; a circle of links stays as it is."""
    from rpcrdma.nfs.export.mount_table import real_path  # noqa: PLC0415 - only a server has directories

    return real_path(path)


def _faults_of_url(export: Exported) -> Iterator[Mistake]:
    """Yields a mistake if a package for the export's URL is missing, or fsspec lacks the protocol; asks no store."""
    if isinstance(export.source, Path):
        return
    place = export.origins[""]
    if not is_installed("fsspec"):
        yield Mistake(place, "a url takes the package fsspec; install it")
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
            text = f"{export.shown}: fsspec knows no protocol {protocol!r}; correct it, or write directory"
            yield Mistake(place, text)
            return


def _faults_of_state(state: Value) -> Iterator[Mistake]:
    """Yields a mistake if the server cannot make or use the directory in `state`, value and origin of `state-dir`."""
    directory = Path(state.value).absolute()
    place = next(each for each in (directory, *directory.parents) if os.path.lexists(each))
    if not place.is_dir():
        yield Mistake(state.origin, f"{place} is no directory, so that it cannot hold the state; set another state-dir")
    elif not os.access(place, os.W_OK | os.X_OK):
        yield Mistake(state.origin, f"this user may not write to {place}; allow it, or set another state-dir")
    else:
        from rpcrdma.nfs.export.server_state import check_format  # noqa: PLC0415 - as above

        try:
            check_format(directory)
        except OSError as error:
            yield Mistake(state.origin, str(error))


def _directories_within(exports: tuple[Exported, ...]) -> Iterator[Mistake]:
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


def _conflicts_of_tls(args: argparse.Namespace, found: Effective) -> Iterator[Mistake]:
    """Yields a mistake if the settings about TLS contradict each other or lack files; at most one."""
    if found.exports and (fault := tls_conflict(args)) is not None:
        rules = [rule for export in found.exports for rule in export.admitting]
        asking = next((rule for rule in rules if rule.xprtsec != "none"), rules[0])
        place = asking.origins["xprtsec"]
        yield Mistake(place, in_keys("; ".join(fault), place))


def _faults_of_certificates(args: argparse.Namespace, found: Effective) -> Iterator[Mistake]:
    certificate = found.server["tls-cert"]
    conflicts = [*_conflicts_of_tls(args, found)]
    yield from conflicts
    if conflicts or certificate.value is None or not found.exports:
        return
    from rpcrdma.errors import HostAuthenticationFailed  # noqa: PLC0415
    from rpcrdma.transport.config import Role  # noqa: PLC0415

    try:
        hosts_of(args).tls(Role.SERVER, least_protection(found.exports))
        hosts_of(args).source(Role.SERVER)
    except HostAuthenticationFailed as error:
        message, hint, _ = describe(error)
        yield Mistake(certificate.origin, f"{message}; {hint}" if hint else message)
    if (warning := expiry_warning(certificate.value, time.time())) is not None:
        yield Mistake(certificate.origin, warning, is_warning=True)


def report(faults: list[Mistake], *, as_json: bool) -> int:
    """Prints the mistakes and returns the exit status: USAGE if one is more than a warning, else DONE.

    `as_json`: whether they are printed as one JSON object on standard output as well.
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
    """Returns the first CONFIGURATION_FAULTS_MAX (100) of `faults`, and a line with the number of others, or ""."""
    more = len(faults) - CONFIGURATION_FAULTS_MAX
    return faults[:CONFIGURATION_FAULTS_MAX], f"and {more} more" if more > 0 else ""


def as_entries(faults: list[Mistake]) -> list[dict[str, str]]:
    """Returns the mistakes as JSON objects with place, message and severity ("warning" or "error")."""
    return [
        {"place": fault.place, "message": fault.text, "severity": "warning" if fault.is_warning else "error"}
        for fault in faults
    ]
