"""SIGHUP at `rpcrdma serve --config`: reads the configuration again, and applies the settings that need no restart."""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.cli.settings.check import find_mistakes
from rpcrdma.cli.settings.effective import DEFAULT, Effective, effective
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.commands import describe
from rpcrdma.commands.options import log_level
from rpcrdma.commands.setting import Renewal
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.file_limits import CONFIGURATION_FAULTS_MAX
from rpcrdma.wire.peer_text import printable

__all__ = ["ConfigurationReload"]

_LOGGER: Final = logging.getLogger("rpcrdma.server")
Report: TypeAlias = Callable[[dict[str, Any], str], None]
"""Reports an event of the server: the object for programs, and the line for people."""


class ConfigurationReload:
    """Reads the configuration of a running server again.

    Args:
        given: the parsed arguments, with the values of the command line alone.
        found: the settings with which the server starts.
    """

    def __init__(self, given: argparse.Namespace, found: Effective) -> None:
        self._given = given
        self._in_use = found
        self._requested = asyncio.Event()
        self.last: tuple[float, str] | None = None
        """The time of the last reading, in seconds since 1970, and what could not be applied; None: there was none."""

    def request(self) -> None:
        """Requests one more reading; requests during a reading lead to a single one after it."""
        self._requested.set()

    async def run(self, manager: ServiceManager, status: str, renew: Callable[[], None] | None, report: Report) -> None:
        """Serves requests until it is cancelled.

        Args:
            manager: the service manager, which receives the beginning and the end of each reading.
            status: the line for the service manager after a reading without faults.
            renew: reads the certificates in use again, or raises HostAuthenticationFailed; None: there are none.
            report: reports the end of each reading.
        """
        while True:
            await self._requested.wait()
            self._requested.clear()
            manager.reloading()
            try:
                ended = await self._read(renew, report)
            except Exception:  # the present settings stay in use, and the next reading may succeed
                _LOGGER.exception("cannot reload the configuration")
                ended = "reload refused: see the log"
            self.last = time.time(), ended
            manager.ready(ended or status)

    async def _read(self, renew: Callable[[], None] | None, report: Report) -> str:
        """Reads and applies the settings; returns a line about what could not be applied, "" if there is nothing."""
        args = argparse.Namespace(**vars(self._given))
        # Disks and name servers may take their time, and calls go on.
        found, faults = await asyncio.to_thread(_examined, args)
        _log(faults)
        refusals = [fault for fault in faults if not fault.is_warning]
        if not refusals and renew is not None:
            try:
                renew()
            except HostAuthenticationFailed as error:
                message, hint, _ = describe(error)
                text = f"{message}; {hint}" if hint else message
                refusals = [Mistake(self._in_use.server["tls-cert"].origin, text)]
                _log(refusals)
        if refusals:
            report(
                {"event": "reload", "ok": False, "faults": _plain(refusals)},
                "the reload is refused: all settings stay as they are",
            )
            return f"reload refused: {refusals[0]}{_more(refusals)}"
        logging.getLogger().setLevel(log_level(args))
        waiting = list(_waiting(self._in_use, found, str(args.config)))
        taken = {each.name: found.server[each.name] for each in OF_SERVER if each.renewal is Renewal.HANG_UP}
        applied = [name for name, value in taken.items() if value.value != self._in_use.server[name].value]
        self._in_use = self._in_use._replace(server={**self._in_use.server, **taken})
        _log(waiting)
        report(
            {"event": "reload", "ok": True, "applied": applied, "needs_restart": _plain(waiting)},
            f"the configuration was read again; changed: {', '.join(applied) or 'nothing'}",
        )
        return f"reloaded, but {waiting[0]}{_more(waiting)}" if waiting else ""


def _examined(args: argparse.Namespace) -> tuple[Effective, list[Mistake]]:
    """Reads the files, sets the values of `args` and examines them as `--check` does."""
    found = effective(args)
    found.put_into(args)
    return found, find_mistakes(args, found)


def _waiting(in_use: Effective, found: Effective, path: str) -> Iterator[Mistake]:
    """Returns the changes that wait for a restart of the server.

    Args:
        in_use: the settings of the running server.
        found: those of its files now.
        path: the place of a value that the files no longer have.
    """
    for setting in OF_SERVER:
        value, origin = found.server[setting.name]
        if setting.renewal is not Renewal.HANG_UP and value != in_use.server[setting.name].value:
            yield _restart(path if origin == DEFAULT else origin, setting.name)
    before = {export.name: export for export in in_use.exports}
    for export in found.exports:
        old = before.pop(export.name, None)
        place = export.origins[""]
        if old is None:
            yield _restart(place, f"the new export {export.name}")
            continue
        if export.rules != old.rules:
            yield _restart(place, f"a rule of {export.name}")
        if export.source != old.source:
            yield _restart(place, f"the source of {export.name}")
        for setting in OF_EXPORTS:
            if getattr(export, setting.dest) != getattr(old, setting.dest):
                origin = export.origins[setting.dest]
                yield _restart(place if origin == DEFAULT else origin, f"{setting.name} of {export.name}")
    for name in before:
        yield _restart(path, f"the removal of the export {name}")


def _restart(place: str, change: str) -> Mistake:
    return Mistake(place, f"{change} needs a restart", is_warning=True)


def _log(faults: list[Mistake]) -> None:
    for fault in faults[:CONFIGURATION_FAULTS_MAX]:
        _LOGGER.log(logging.WARNING if fault.is_warning else logging.ERROR, "%s", printable(str(fault)))
    if len(faults) > CONFIGURATION_FAULTS_MAX:
        _LOGGER.warning("and %d more", len(faults) - CONFIGURATION_FAULTS_MAX)


def _more(faults: list[Mistake]) -> str:
    return f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""


def _plain(faults: list[Mistake]) -> list[dict[str, str]]:
    return [{"place": fault.place, "message": fault.text} for fault in faults[:CONFIGURATION_FAULTS_MAX]]
