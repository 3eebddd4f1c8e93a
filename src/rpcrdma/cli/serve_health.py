"""The health of `rpcrdma serve`: whether it is ready, which exports are there, and when its certificate expires."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rpcrdma import __version__
from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.commands import describe
from rpcrdma.rpc.certificate_dates import first_expiry_s

if TYPE_CHECKING:
    from rpcrdma.aio.server.metrics import Health
    from rpcrdma.cli.serve_audit import AccessLog
    from rpcrdma.nfs.server.registration import RegisteredPrograms
    from rpcrdma.nfs.v4.server.recovery import RecoveryDatabase

__all__ = ["ServerHealth", "expiry_warning"]

_LOGGER = logging.getLogger("rpcrdma.server")
_LOOK_S: Final = 5.0
"""How often directories and the certificate are looked at."""
_DAY_S: Final = 86400
_WARN_S: Final = 14 * _DAY_S
"""How long before a certificate expires the log says so: authorities renew those of 90 days 30 days before the end."""


def expiry_warning(certificate: Path, now_s: float) -> str | None:
    """Returns a warning if any certificate in a PEM file has expired, or expires within 14 days; else None.

    `now_s` is the present time in seconds since 1970. None is returned as well if no certificate can be read.
    """
    expires_s = _expiry_s(certificate)
    if expires_s is None or expires_s - now_s >= _WARN_S:
        return None
    day = datetime.fromtimestamp(expires_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{certificate} {'expires' if expires_s > now_s else 'has expired'} at {day}; renew the certificate"


def _expiry_s(certificate: Path) -> float | None:
    """Returns the earliest time, in seconds since 1970, at which a certificate in a PEM file expires.

    None: the file cannot be read, or has no certificate, or a broken one.
    """
    try:
        return first_expiry_s(certificate.read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError):
        return None


class ServerHealth:
    """Checks the exports and the certificate of a running server every five seconds, in threads of its own.

    A file system that does not answer counts as away after EXPORT_NEEDED_ANSWERS_S (30) seconds, and holds up the
    results of the other exports for that time, once. The store of an exported URL is not asked: once served, it counts
    as there.

    Args:
        exports: returns all exports of the server.
        absent: returns the exports that are not served yet.
        certificate: the file of the server's certificate; None: it has none.
        audit: the access log, whose number of lost records is reported; None: no number is reported.
        database: the recovery database of NFS version 4, whose failure is reported; None: there is no database.
        wall_clock: returns the time in seconds since 1970.
    """

    def __init__(
        self,
        exports: Callable[[], Iterable[Exported]],
        absent: Callable[[], Iterable[Exported]],
        certificate: str | PathLike[str] | None,
        audit: AccessLog | None = None,
        database: RecoveryDatabase | None = None,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._exports = exports
        self._absent = absent
        self._certificate = None if certificate is None else Path(certificate)
        self._audit = audit
        self._database = database
        self._wall_clock = wall_clock
        self._away: dict[str, str] = {}
        """The cause for each export whose directory cannot be reached, by the export's name."""
        self._sources = ExportSources()
        self._expires_s: float | None = None
        self._warned_day = -1
        self._unready = "the server starts"
        self._registered: RegisteredPrograms | None = None
        self._reload_taken: bool | None = None
        self._reload_taken_at_s: float | None = None
        self._closed = threading.Event()

    def start(self) -> None:
        """Starts the thread, which checks at once and then every five seconds until `close`."""
        threading.Thread(target=self._run, name="rpcrdma-health", daemon=True).start()

    def close(self) -> None:
        """Ends the checks; does not wait for the thread."""
        self._closed.set()

    def ready(self, registered: RegisteredPrograms | None) -> None:
        """Records that the server takes calls; `registered` are its programs at rpcbind, None if it registers none."""
        self._unready, self._registered = "", registered

    def configuration_read(self, taken: bool) -> None:
        """Records a reading of the configuration, the first one at the start.

        `taken`: whether its settings are in use; if not, earlier settings stay in use.
        """
        self._reload_taken = taken
        if taken:
            self._reload_taken_at_s = self._wall_clock()

    def stopping(self) -> None:
        """Records that the server stops, so that it is not ready any more."""
        self._unready = "the server stops"

    def away(self) -> dict[str, str]:
        """Returns the cause, as last checked, for each export out of reach or not served yet, by name; never waits."""
        return self._away | {export.name: "it is not served yet" for export in self._absent()}

    def state(self) -> Health:
        """Returns readiness, exports, certificate expiry and last reload, for health checks and metrics; never waits.

        The server is unready while it starts or stops, while an export with `missing` "fail" is away, and while the
        recovery database cannot be written.
        """
        from rpcrdma.aio.server.metrics import Health  # noqa: PLC0415

        exports = [*self._exports()]
        away = self.away()
        lacking = [export.name for export in exports if export.missing == "fail" and export.name in away]
        failure = "" if self._database is None else self._database.failure
        unready = self._unready or "".join(f"{name} is away: {away[name]}" for name in lacking[:1]) or failure
        return Health(
            unready=unready,
            exports={export.name: export.name not in away for export in exports},
            registered=None if self._registered is None else self._registered.complete,
            certificate_expires_s=self._expires_s,
            audit_lost=None if self._audit is None else self._audit.lost,
            reload_taken=self._reload_taken,
            reload_taken_at_s=self._reload_taken_at_s,
            state_written=None if self._database is None else not failure,
            version=__version__,
        )

    def look(self) -> None:
        """Checks the certificate and the directory of each served export once. May block.

        Logs exports that go away or return, and once a day the `expiry_warning` of the certificate, if there is one.
        """
        now_s = self._wall_clock()
        if self._certificate is not None:
            self._expires_s = _expiry_s(self._certificate)
            day = int(now_s // _DAY_S)
            if day != self._warned_day and (warning := expiry_warning(self._certificate, now_s)) is not None:
                self._warned_day = day
                _LOGGER.warning("%s", warning)
        absent = {export.name for export in self._absent()}
        away = {}
        served = [each for each in self._exports() if each.name not in absent and isinstance(each.source, Path)]
        self._sources.look(served, needed={export.name for export in served})
        for export in served:
            try:
                self._sources.directory_of(export)
            except OSError as error:
                away[export.name] = cause = describe(error)[0]
                if export.name not in self._away:
                    _LOGGER.warning("%s is away: %s", export.name, cause)
            else:
                if export.name in self._away:
                    _LOGGER.info("%s is there again", export.name)
        self._away = away

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:  # the next look may succeed, and the server goes on
                _LOGGER.exception("cannot look at exports and certificates")
            if self._closed.wait(_LOOK_S):
                return
