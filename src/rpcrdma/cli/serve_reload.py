"""SIGHUP at `rpcrdma serve --config`: reads the configuration again, and applies what a running server can take."""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.running_server import RunningServer, changes_of_exports
from rpcrdma.cli.serve_audit import NoAccessLog
from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.cli.settings.check import as_entries, find_mistakes, first_ones
from rpcrdma.cli.settings.effective import Effective, effective, in_keys
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.cli.settings.table import OF_SERVER
from rpcrdma.commands import describe
from rpcrdma.commands.setting import Renewal
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, LocalProtocolError
from rpcrdma.limits import CONFIGURATION_READ_S
from rpcrdma.wire.peer_text import printable

__all__ = ["ConfigurationReload"]

_LOGGER: Final = logging.getLogger("rpcrdma.server")
Report: TypeAlias = Callable[[dict[str, Any], str], None]
"""Reports an event of the server: the object for programs, and the line for people."""


class ConfigurationReload:
    """Reads the configuration of a running server again on request, and applies it.

    Args:
        given: the parsed arguments, with the values of the command line alone.
        found: the settings with which the server starts.
    """

    def __init__(self, given: argparse.Namespace, found: Effective) -> None:
        self._given = given
        self._in_use = found
        self._requested = asyncio.Event()
        self.names = HostNames()
        """Looks up the names of hosts of the settings in use."""
        self.on_end: Callable[[bool], None] | None = None
        """Is called at the end of each reading with whether the settings of the files are in use; None: nothing is
        called."""
        self.last: tuple[float, str] | None = None
        """The time of the last reading, in seconds since 1970, and a line on what was not applied, or ""; None: no
        reading has ended."""

    def request(self) -> None:
        """Requests another reading by `run`; several requests during a reading lead to a single one after it.

        To be called in the event loop; does not wait.
        """
        self._requested.set()

    async def run(
        self,
        manager: ServiceManager,
        server: RunningServer,
        renew: Callable[[], Callable[[], None]] | None,
        report: Report,
    ) -> None:
        """Reads and applies the configuration at each `request` until cancelled; logs failures, which change nothing.

        Args:
            manager: the service manager, which is notified of the beginning and the end of each reading.
            server: the running server.
            renew: reads the certificates again, or raises HostAuthenticationFailed, and returns a function that uses
                them; None: there are no certificates.
            report: called with an event (a JSON object) and a line for people about the outcome of each reading.
        """
        while True:
            await self._requested.wait()
            self._requested.clear()
            manager.reloading()
            try:
                ended, taken = await self._read(server, renew, report)
            except Exception as error:  # the present settings stay in use, and the next reading may succeed
                _LOGGER.exception("cannot reload the configuration")
                message = f"internal error: {type(error).__name__}: {error}"
                ended = _refuse([Mistake(str(self._given.config), f"{message}; please report it with the log")], report)
                taken = False
            self.last = time.time(), ended
            if self.on_end is not None:
                self.on_end(taken)
            manager.ready(ended or server.status)

    async def _read(
        self, server: RunningServer, renew: Callable[[], Callable[[], None]] | None, report: Report
    ) -> tuple[str, bool]:
        """Reads the files, applies their settings to `server` and calls `report` with the outcome.

        Args:
            server: the running server.
            renew: reads the certificates again, and returns a function that uses them; None: there are none.
            report: called with an event (a JSON object) and a line for people.

        Returns:
            A line about settings that could not be applied, "" if there are none; and whether the other settings of the
            files are in use now, False if the reload was refused as a whole.
        """
        args, names = argparse.Namespace(**vars(self._given)), self.names.renewed()
        before, path = self._in_use, str(args.config)
        # Disks and name servers may take their time, and calls go on.
        examined = asyncio.to_thread(_examined, args, names, server.exports.waiting.sources, server.exports.names)
        try:
            found, faults = await asyncio.wait_for(examined, CONFIGURATION_READ_S)
        except TimeoutError:
            text = f"reading it, and looking at what it names, takes over {CONFIGURATION_READ_S:g} s"
            faults = [Mistake(path, f"{text}; reload again when its file systems answer")]
        except OSError as error:
            faults = [Mistake(path, "; ".join(filter(None, describe(error)[:2])))]
        _log(faults)
        refusals = [fault for fault in faults if not fault.is_warning]
        if not refusals:
            try:
                # Comparing hundreds of exports takes longer than a call should wait.
                fitting, waiting, changes = await asyncio.to_thread(_compared, server, before, found, path)
                await server.apply(fitting, names, renew)
            except (HostAuthenticationFailed, ConnectFailed, LocalProtocolError, ValueError, OSError) as error:
                message, hint, _ = describe(error)
                place = path
                if isinstance(error, HostAuthenticationFailed):
                    place = before.server["tls-cert"].origin
                elif isinstance(error, ConnectFailed | LocalProtocolError):
                    place = fitting.server["listen"].origin
                elif isinstance(error, NoAccessLog):
                    place = fitting.server["access-log"].origin
                refusals = [Mistake(place, in_keys(f"{message}; {hint}" if hint else message, place))]
                _log(refusals)
        if refusals:
            return _refuse(refusals, report), False
        at_once = [each.name for each in OF_SERVER if each.renewal in {Renewal.HANG_UP, Renewal.INCREASE}]
        applied = [name for name in at_once if fitting.server[name].value != before.server[name].value]
        applied += changes
        self._in_use, self.names = fitting, names
        _log(waiting)
        report(
            {"event": "reload", "ok": True, "applied": applied, "needs_restart": as_entries(first_ones(waiting)[0])},
            f"the configuration was read again; changed: {', '.join(applied) or 'nothing'}",
        )
        return f"reloaded, but {waiting[0]}{_more(waiting)}" if waiting else "", True


def _refuse(refusals: list[Mistake], report: Report) -> str:
    """Calls `report` with a refused reload, of which `refusals` are the reasons; returns a line with the first one."""
    report(
        {"event": "reload", "ok": False, "faults": as_entries(first_ones(refusals)[0])},
        "the reload is refused: all settings stay as they are",
    )
    return f"reload refused: {refusals[0]}{_more(refusals)}"


def _compared(
    server: RunningServer, before: Effective, found: Effective, path: str
) -> tuple[Effective, list[Mistake], list[str]]:
    """Returns the settings that the server can take, mistakes about the others, and phrases for changes of exports.

    `before` are the settings in use, `found` the settings that were read, and `path` is the path of the configuration
    file for the mistakes (`RunningServer.takes`). There is a phrase for each change of an export between `before` and
    the settings that the server can take, such as "access of /data".
    """
    fitting, waiting = server.takes(before, found, path)
    return fitting, waiting, list(changes_of_exports(before, fitting))


def _examined(
    args: argparse.Namespace, names: HostNames, sources: ExportSources, served: Collection[str]
) -> tuple[Effective, list[Mistake]]:
    """Reads the configuration, puts its values into `args`, and checks them as --check does. May block.

    `names` looks up names of hosts, `sources` looks at directories and stores, and `served` has the names of the
    exports that the server serves now. Returns the settings and the mistakes.
    """
    found = effective(args)
    found.put_into(args)
    return found, find_mistakes(args, found, names, sources, served)


def _log(faults: list[Mistake]) -> None:
    shown, more = first_ones(faults)
    for fault in shown:
        _LOGGER.log(logging.WARNING if fault.is_warning else logging.ERROR, "%s", printable(str(fault)))
    if more:
        _LOGGER.warning("%s", more)


def _more(faults: list[Mistake]) -> str:
    return f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
