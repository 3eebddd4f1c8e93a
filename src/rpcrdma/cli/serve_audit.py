"""`rpcrdma serve --access-log`: where the access log goes, and the services that it is about."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.cli.daemon_threads import in_time
from rpcrdma.commands import describe
from rpcrdma.limits import PATH_ANSWERS_S

if TYPE_CHECKING:
    from rpcrdma.aio.drivers.audit_log import AuditLog, Destination
    from rpcrdma.nfs.server import NfsServices
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["audited", "opened_log"]


@contextmanager
def audited(args: argparse.Namespace, services: NfsServices, nfs4: Nfs4Service | None) -> Iterator[AuditLog | None]:
    """Writes the access log of `services` and `nfs4` while the context lasts; clients must not reach these before.

    Yields:
        The log, which is closed at exit; None: the settings want none.

    Raises:
        OSError: the log cannot be written.
    """
    if args.access_log == "off":
        yield None
        return
    from rpcrdma.aio.drivers.audit_log import AuditLog  # noqa: PLC0415
    from rpcrdma.nfs.server.audit import Audit  # noqa: PLC0415

    log = AuditLog(opened_log(args.access_log))
    audit = Audit(args.audit, log.put, time.time_ns)
    audit.watch(services)
    if nfs4 is not None:
        from rpcrdma.nfs.server.audit_of_compounds import watch_compounds  # noqa: PLC0415

        watch_compounds(audit, nfs4)
    try:
        yield log
    finally:
        log.close()


def opened_log(setting: Path | str) -> Destination:
    """Opens the place of the access log, the value of `access-log`: a file, "journal" or "off".

    Waits for a file PATH_ANSWERS_S (30) seconds at most.

    Raises:
        OSError: the log cannot be written, or its file system does not answer; the text has the cause and a remedy.
    """
    from rpcrdma.aio.drivers.audit_log import AuditFile, Journal, Nowhere  # noqa: PLC0415

    try:
        if isinstance(setting, Path):
            late = f"{setting} does not answer within {PATH_ANSWERS_S:g} s"
            return in_time(functools.partial(AuditFile, setting), PATH_ANSWERS_S, late, AuditFile.close)
        return Journal() if setting == "journal" else Nowhere()
    except OSError as error:
        remedy = "name a file in a directory to which this user may write (--access-log)"
        raise OSError(f"cannot write the access log: {describe(error)[0]}; {remedy}") from None
