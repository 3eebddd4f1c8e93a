"""`rpcrdma serve --access-log`: where the access log goes, and the services that it is about."""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.cli.daemon_threads import in_time
from rpcrdma.commands import describe
from rpcrdma.limits import PATH_ANSWERS_S

if TYPE_CHECKING:
    from rpcrdma.aio.drivers.audit_log import AuditLog, Destination
    from rpcrdma.nfs.server import NfsServices
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["AccessLog", "NoAccessLog", "opened_log"]


class NoAccessLog(OSError):
    """The access log cannot be opened for writing, at the start or a reload; the text has the cause and a remedy."""


class AccessLog:
    """The access log of `rpcrdma serve`, which can be turned on, turned off and moved while the server runs.

    While it is off, calls are handled as without it.

    Args:
        services: the services of version 3 and MOUNT.
        nfs4: the service of version 4 over the same exports; None: it is not offered.
        args: the settings `access_log` and `audit` with which the server starts.

    Raises:
        NoAccessLog: the log cannot be written.
    """

    def __init__(self, services: NfsServices, nfs4: Nfs4Service | None, args: argparse.Namespace) -> None:
        self._services = services
        self._nfs4 = nfs4
        self._log: AuditLog | None = None
        if args.access_log != "off":
            self.use(args, opened_log(args.access_log))

    @property
    def lost(self) -> int | None:
        """The number of records lost since the server has started; None if the log was off all that time."""
        return None if self._log is None else self._log.lost

    def use(self, args: argparse.Namespace, place: Destination | None = None) -> None:
        """Makes records of the kinds `args.audit`, or none if `args.access_log` is "off", from the next call on.

        If a server offers the services already, its `renew_handlers` has to be called then. Never waits.

        Args:
            args: the settings.
            place: the place of the records, from `opened_log`; the log closes it. None: the present place; if the log
                has had none yet, the call has no effect.
        """
        from rpcrdma.aio.drivers.audit_log import AuditLog  # noqa: PLC0415
        from rpcrdma.nfs.server.audit import Audit  # noqa: PLC0415

        log, opened = self._log, place
        if log is None:
            if place is None:
                return
            log, opened = AuditLog(place), None
        audit = Audit(() if args.access_log == "off" else args.audit, log.put, time.time_ns)
        audit.watch(self._services)
        if self._nfs4 is not None:
            from rpcrdma.nfs.server.audit_of_compounds import watch_compounds  # noqa: PLC0415

            watch_compounds(audit, self._nfs4)
        if opened is not None:
            log.move(opened)
        self._log = log

    def close(self) -> None:
        """Closes the log; blocks, 2 s at most, until waiting records are written. No effect if it was always off."""
        if self._log is not None:
            self._log.close()


def opened_log(setting: Path | str) -> Destination:
    """Opens the place of the access log that the setting `access-log` names: a file, "journal", or "off".

    A missing file is made. The place of "off" discards all records. Blocks, for a file PATH_ANSWERS_S (30) seconds at
    most.

    Raises:
        NoAccessLog: the log cannot be written, or its file system does not answer.
    """
    from rpcrdma.aio.drivers.audit_log import AuditFile, Journal, Nowhere  # noqa: PLC0415

    try:
        if isinstance(setting, Path):
            late = f"{setting} does not answer within {PATH_ANSWERS_S:g} s: mend its file system"
            return in_time(functools.partial(AuditFile, setting), PATH_ANSWERS_S, late, AuditFile.close)
        return Journal() if setting == "journal" else Nowhere()
    except OSError as error:
        remedy = "name a file in a directory to which this user may write (--access-log)"
        raise NoAccessLog(f"cannot write the access log: {describe(error)[0]}; {remedy}") from None
