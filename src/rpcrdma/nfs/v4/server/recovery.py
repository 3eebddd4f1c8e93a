"""The memory of a server of NFS version 4.1 over a restart: clients that may reclaim, and the grace period.

The state of clients is lost with the server. A small database has the clients that may have had some, so that in the
grace period after a restart these clients, and no others, claim it again (RFC 8881 section 8.4.2). A client is written
to the disk before it gets its first open, lock or delegation: others, such as all that cannot open a file, would only
be waited for. It is deleted from there before its state is granted to others, when it ends, and when it holds nothing
and has reclaimed nothing, its lease passes or the server stops: it has nothing to reclaim.

The rows of the last run stay until the grace period ends, as a second restart within it needs them. A row names the
incarnation of the client: after the client has restarted, its earlier claims are void.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from rpcrdma.nfs.export.state_database import open_database

__all__ = ["ClientRow", "Grace", "RecoveryDatabase"]

_LOGGER = logging.getLogger("rpcrdma.server")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS client (
    addresses TEXT NOT NULL, owner BLOB NOT NULL, verifier BLOB NOT NULL, principal TEXT NOT NULL,
    exports TEXT NOT NULL,
    PRIMARY KEY (addresses, owner)
);
CREATE TABLE IF NOT EXISTS boot (number INTEGER NOT NULL);
"""
_PROBE = """
SELECT addresses, owner, verifier, principal, exports, number FROM client LEFT JOIN boot ON 1
ORDER BY addresses, owner
"""
"""Reads in the order of the index, so that index and table are both tried, also without a row of a run."""
_READ = """
SELECT exports, owner, verifier, principal FROM client WHERE addresses = ?
AND typeof(exports) = 'text' AND typeof(owner) = 'blob' AND typeof(verifier) = 'blob' AND typeof(principal) = 'text'
"""
_NOT_KEPT = "clients cannot reclaim their locks after a restart"
_NOT_FORGOTTEN = "a client keeps locks that it should lose"
_BOOTS = 1 << 32
_OWNERS_SHOWN = 3
_OWNER_OCTETS_SHOWN = 60
"""Octets of an owner in the log: Linux's are its version, host and number, such as "Linux NFSv4.2 node7"."""


class ClientRow(NamedTuple):
    """A client in the recovery database: its owner string, its verifier, and its principal (`principal_of`)."""

    owner: bytes
    verifier: bytes
    principal: str


class RecoveryDatabase:
    """The clients on the disk that may reclaim state after a restart, and the number of this run of the server.

    Thread-safe; its methods wait for the disk. Servers with other addresses may use the same file at the same time. The
    rows of each are apart: a client returns to the address that it knows, and no two servers have the same. Rows of a
    run that had none of the present exports stay where they are: none of their state can be claimed here. Raises
    OSError (the database cannot be used).

    Args:
        path: the database file; None keeps the database in memory.
        random_bytes: returns the given number of random octets, for the number of the first run.
        addresses: the addresses at which the server listens.
        exports: texts that identify the exports; without any, the rows of all exports count.
    """

    def __init__(
        self,
        path: Path | None,
        random_bytes: Callable[[int], bytes],
        *,
        addresses: Iterable[str] = (),
        exports: Iterable[str] = (),
    ) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._addresses = " ".join(sorted(addresses))
        present = set(exports)
        self._exports = "\n".join(sorted(present))
        self._failing: set[str] = set()
        """The consequences of failures of the disk that are logged already, until the same kind of write succeeds."""
        try:
            database = self._database = open_database(
                path, _SCHEMA, _PROBE, durable=True, loss="clients lose their locks in this restart"
            )
            with database:
                database.execute("BEGIN IMMEDIATE")
                row = database.execute("SELECT number FROM boot WHERE typeof(number) = 'integer'").fetchone()
                last = row[0] if row is not None else int.from_bytes(random_bytes(4), "big")
                self.boot = (last + 1) % _BOOTS
                """The number of this run, 0 to 2**32 - 1, one more than that of the last run with this database."""
                database.execute("DELETE FROM boot")
                database.execute("INSERT INTO boot VALUES (?)", (self.boot,))
            self.rows = [
                ClientRow(*row)
                for served, *row in database.execute(_READ, (self._addresses,))
                if not present or present & set(served.split("\n"))
            ]
            """The clients of the last run, which may reclaim their state now."""
            self._kept = {row.owner: row.principal for row in self.rows}
            """The principal of each owner that is on the disk, for this server."""
        except sqlite3.Error as error:
            raise OSError(
                f"{path}: {error}: free space on the disk, or remove the file to lose clients' locks"
            ) from error

    def keep(self, row: ClientRow) -> None:
        """Writes a client to the disk, in place of an earlier row of the same owner; logs a failure, raises nothing."""
        try:
            with self._lock:
                self._database.execute(
                    "INSERT OR REPLACE INTO client VALUES (?, ?, ?, ?, ?)", (self._addresses, *row, self._exports)
                )
                self._kept[row.owner] = row.principal
        except sqlite3.Error as error:
            self._tell(error, _NOT_KEPT)
        else:
            self._failing.discard(_NOT_KEPT)

    def serve(self, addresses: Iterable[str], exports: Iterable[str]) -> None:
        """Replaces the addresses and exports of this server, by which its next run finds the clients on the disk.

        Logs a failure of the disk, and raises nothing.

        Args:
            addresses: the addresses at which the server listens from now on.
            exports: texts that identify its exports from now on.
        """
        there, served = " ".join(sorted(addresses)), "\n".join(sorted(set(exports)))
        with self._lock:
            try:
                with self._database:
                    self._database.execute("BEGIN")
                    self._database.execute(
                        "UPDATE OR REPLACE client SET addresses = ?, exports = ? WHERE addresses = ?",
                        (there, served, self._addresses),
                    )
            except sqlite3.Error as error:
                _LOGGER.warning("%s: %s: clients may lose their locks with the next restart", self._path, error)
            # Before another thread writes a row: by the old addresses the next run would not find it.
            self._addresses, self._exports = there, served

    def forget(self, rows: Iterable[ClientRow]) -> bool:
        """Deletes clients, whatever their verifier; rows of the same owner with another principal stay.

        Returns:
            Whether the rows are gone; False if the disk has failed, which is logged.
        """
        try:
            with self._lock:
                found = [row for row in rows if self._kept.get(row.owner) == row.principal]
                if not found:
                    return True
                with self._database:
                    self._database.execute("BEGIN")
                    self._database.executemany(
                        "DELETE FROM client WHERE addresses = ? AND owner = ? AND principal = ?",
                        [(self._addresses, row.owner, row.principal) for row in found],
                    )
                for row in found:
                    self._kept.pop(row.owner, None)
        except sqlite3.Error as error:
            self._tell(error, _NOT_FORGOTTEN)
            return False
        self._failing.discard(_NOT_FORGOTTEN)
        return True

    def _tell(self, error: sqlite3.Error, consequence: str) -> None:
        """Logs a failure of the disk and the text `consequence`, once until a write that had this one succeeds."""
        if consequence not in self._failing:
            self._failing.add(consequence)
            _LOGGER.warning("%s: %s: %s", self._path, error, consequence)

    def close(self) -> None:
        """Closes the database; may be called again."""
        with self._lock:
            self._database.close()


class Grace:
    """The grace period after a restart: the clients that may reclaim, and the time of its end.

    The caller holds the lock of the state. The start and the end are logged, since clients of all versions of NFS wait
    meanwhile.

    Args:
        rows: the clients of the last run; without any there is no grace period.
        lease_s: the lease in seconds, for which the period lasts. Each reclaim prolongs it, to two leases at most.
        now_s: the present time, in seconds of a monotonic clock.
    """

    def __init__(self, rows: Iterable[ClientRow], lease_s: float, now_s: float) -> None:
        self.waiting = {row.owner: row for row in rows}
        """The clients that may still reclaim, by their owner strings."""
        self._lease_s = lease_s
        self._ends_s = now_s + lease_s
        self._last_s = now_s + 2 * lease_s
        self._awaited = len(self.waiting)
        if self.waiting:
            _LOGGER.info(
                "grace period of %g s, at most %g s while clients reclaim; clients of the last run that are awaited: "
                "%d (%s); until all have come back, calls wait that open, lock, create or change anything",
                lease_s,
                2 * lease_s,
                self._awaited,
                self._names(),
                extra={"event": {"event": "grace", "clients": self._awaited, "seconds": lease_s}},
            )

    def knows(self, row: ClientRow) -> bool:
        """Returns whether the client in `row` may reclaim: it had state in the last run, with the same verifier."""
        return self.waiting.get(row.owner) == row

    def awaits_other(self, owner: bytes, principal: str) -> bool:
        """Returns whether an owner may reclaim that is another principal than `principal`."""
        known = self.waiting.get(owner)
        return known is not None and known.principal != principal

    def leaves(self, row: ClientRow) -> None:
        """Takes the right to reclaim from a client that has ended or reclaimed all, and its other incarnations."""
        known = self.waiting.get(row.owner)
        if known is not None and known.principal == row.principal:
            del self.waiting[row.owner]

    def reclaimed(self, now_s: float) -> None:
        """Prolongs the grace period after a reclaim: to one lease from `now_s` on, but not beyond two leases in all."""
        self._ends_s = min(self._last_s, now_s + self._lease_s)

    def end(self) -> None:
        """Ends the grace period, and with it the right to reclaim; logs the clients that have not come back."""
        away = len(self.waiting)
        late = f"clients that did not come back: {away} ({self._names()})"
        _LOGGER.info(
            "the grace period is over: %s",
            late if away else "no client is awaited any more",
            extra={"event": {"event": "grace_over", "clients": self._awaited, "away": away}},
        )
        self.waiting.clear()

    def _names(self) -> str:
        """Returns the first 3 owner strings of awaited clients for the log, with their octets escaped and cut to 60."""
        shown = [repr(owner[:_OWNER_OCTETS_SHOWN])[2:-1] for owner in itertools.islice(self.waiting, _OWNERS_SHOWN)]
        more = len(self.waiting) - len(shown)
        return ", ".join([*shown, *([f"{more} more"] if more else [])])

    def left_s(self, now_s: float) -> float:
        """Returns the seconds from `now_s` until the grace period ends if no client reclaims; 0.0 if it is over."""
        return max(0.0, self._ends_s - now_s) if self.waiting else 0.0

    def is_over(self, now_s: float) -> bool:
        """Returns whether the grace period is over at `now_s`: its time has passed, or no client is awaited."""
        return not self.waiting or now_s >= self._ends_s
