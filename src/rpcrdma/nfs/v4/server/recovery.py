"""The memory of a server of NFS version 4.1 over a restart: clients that may reclaim, and the grace period.

The state of clients is lost with the server. A small database has the clients that may have had some, so that in the
grace period after a restart these clients, and no others, claim it again (RFC 8881 section 8.4.2). A client is written
to the disk before it creates its first file, and gets its first open, lock or delegation: others, such as all that
cannot open a file, would only be waited for. It is deleted from there before its state is granted to others, when it
ends, and when it holds nothing and has reclaimed nothing, its lease passes or the server stops: it has nothing to
reclaim.

What a client is told is on the disk before: an operation whose row cannot be written or deleted is put off, and the
client repeats it until the disk works again.

The rows of the last run stay until the grace period ends, as a second restart within it needs them. A row names the
incarnation of the client: after the client has restarted, its earlier claims are void.

Several servers may use one database at the same time, each at addresses of its own, also with the same exports. Rows
belong to a run of a server, and a later run takes those of a run with an address in common, to which clients return.
Rows of a run at other addresses wait for a server there only if it has run beside others: else another run has served
the same exports since, and their clients have lost to others what they had (RFC 8881 section 8.4.3).
"""

from __future__ import annotations

import itertools
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from rpcrdma.nfs.export.claims import Range
from rpcrdma.nfs.export.lock_mirror import LocalLocks
from rpcrdma.nfs.export.state_database import open_database

__all__ = ["ClientRow", "Grace", "RecoveryDatabase"]

_LOGGER = logging.getLogger("rpcrdma.server")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS server (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, addresses TEXT NOT NULL, exports TEXT NOT NULL,
    shares INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS client (
    server INTEGER NOT NULL, owner BLOB NOT NULL, verifier BLOB NOT NULL, principal TEXT NOT NULL,
    PRIMARY KEY (server, owner)
);
CREATE TABLE IF NOT EXISTS boot (number INTEGER NOT NULL);
"""
_PROBE = """
SELECT server, owner, verifier, principal, 0 FROM client INDEXED BY sqlite_autoindex_client_1 WHERE server >= 0
UNION ALL SELECT number, name, addresses, exports, shares FROM server
UNION ALL SELECT number, 0, 0, 0, 0 FROM boot
"""
"""Reads by the index, so that index and table are both tried."""
_SERVERS = """
SELECT number, name, addresses, exports, shares FROM server WHERE number != ?
AND typeof(name) = 'text' AND typeof(addresses) = 'text' AND typeof(exports) = 'text' ORDER BY number
"""
_READ = """
SELECT owner, verifier, principal FROM client WHERE server = ?
AND typeof(owner) = 'blob' AND typeof(verifier) = 'blob' AND typeof(principal) = 'text'
"""
_TRY = (
    "INSERT INTO client VALUES (-1, x'', x'', '')",
    "DELETE FROM client WHERE server = -1",
    "UPDATE boot SET number = number",
)
"""Changes nothing in the end, and takes as much of the disk as a client does."""
_BOOTS = 1 << 32
_EVERY_HOST: Final = {"0.0.0.0", "[::]"}  # noqa: S104 - listens nowhere
_OWNERS_SHOWN = 3
_OWNER_OCTETS_SHOWN = 60
"""Octets of an owner in the log: Linux's are its version, host and number, such as "Linux NFSv4.2 node7"."""


class ClientRow(NamedTuple):
    """A client in the recovery database: its owner string, its verifier, and its principal, such as "sys:1000"."""

    owner: bytes
    verifier: bytes
    principal: str


class _Server(NamedTuple):
    """A run of a server in the database: its number, the texts by which later runs know it, and `shares`."""

    number: int
    name: str
    """The text by which clients know the server in each of its runs, see `RecoveryDatabase.name`."""
    addresses: str
    """The addresses, divided by spaces."""
    exports: str
    """The texts that identify the exports, divided by line feeds."""
    shares: int
    """Whether (1 or 0) the server has run at the same time as another one with the same exports."""


class RecoveryDatabase:
    """The clients on the disk that may reclaim state after a restart, and the number of this run of the server.

    Thread-safe; its methods wait for the disk. Servers with other addresses may use the same file at the same time.
    Rows of a run that had none of the present exports stay where they are: none of their state can be claimed here.
    The constructor raises OSError if the database cannot be used.

    Args:
        path: the database file; None keeps the database in memory. Beside it is a file with the locks by which servers
            see which of them are running.
        random_bytes: returns the given number of random octets, for the number of the first run, and for the attribute
            `name`, by which clients know the server, if no address has a port other than 0.
        addresses: the URLs at which the server listens; clients do not return to one with the port 0 (any free port).
            Without any, an earlier run without any is one of this server.
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
        self._exports = "\n".join(sorted(set(exports)))
        self.failure = ""
        """The path and the error of the last write, if it failed; "": it did not. May be read at any time."""
        self._noted: tuple[str, str] | None = None
        """The addresses and exports of this server that are on the disk; None: none are."""
        self._runs: LocalLocks | None = None
        if path is not None:
            beside = path.with_name(f"{path.name}.lock")
            self._runs = LocalLocks(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), exclusive=True)
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
            others = self._others()
            here = [each for each in others if self._is_earlier(each)]
            self._earlier = [each for each in here if self._serves(each.exports)]
            """The runs whose clients may reclaim their state now, the latest one last."""
            rows = (ClientRow(*row) for each in self._earlier for row in database.execute(_READ, (each.number,)))
            found = {row.owner: row for row in rows}
        except sqlite3.Error as error:
            raise OSError(
                f"{path}: {error}: free space on the disk, or remove the file to lose clients' locks"
            ) from error
        self.rows = list(found.values())
        """The clients of the last run, which may reclaim their state now."""
        self._kept = {row.owner: row.principal for row in self.rows}
        """The principal of each owner that is on the disk, for this server."""
        name = here[-1].name if here else self._addresses
        if not _meet(self._addresses, self._addresses):
            name = random_bytes(16).hex()
        elif name in {each.name for each in others if each not in here}:
            name = f"{name} {self.boot}"
        self.name = name
        """A text that no other server with this database has, the same in each run with an address in common."""

    def _others(self) -> list[_Server]:
        return [_Server(*row) for row in self._database.execute(_SERVERS, (self.boot,))]

    def _serves(self, exports: str) -> bool:
        """Returns whether this server has one of `exports`, texts divided by line feeds, or was given none itself."""
        return not self._exports or bool({*self._exports.split("\n")} & {*exports.split("\n")})

    def _is_earlier(self, other: _Server) -> bool:
        """Returns whether `other` is an earlier run of this server: it has ended, and both have an address in common.

        A run with exactly the addresses of this server counts as ended: no two servers listen at the same ones.
        """
        ended = other.addresses == self._addresses or not self._is_running(other)
        return ended and _meet(other.addresses, self._addresses)

    def _is_running(self, other: _Server) -> bool:
        place = Range(other.number, other.number + 1, True)
        return self._runs is not None and self._runs.in_the_way(place) is not None

    def begin(self) -> bool:
        """Takes over the rows of earlier runs of this server in the database; to be called once the server listens.

        A start that fails before leaves these rows to the next one. Rows of servers that have ended at other addresses,
        with exports that this one serves from now on, are deleted, with a warning, unless such a server has run at the
        same time as another with these exports (`_Server.shares`). May be called again, which has no effect unless the
        last write has failed: then tries the disk again. A failure of the disk is logged, and raises nothing.

        Returns:
            Whether this server and the rows that it has taken over are on the disk; False if the disk has failed.
        """
        if not self.failure and self._noted is not None:
            return True

        def attempt() -> None:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                for statement in _TRY:
                    database.execute(statement)

        return self._write(attempt)

    def _write(self, step: Callable[[], object]) -> bool:
        """Calls `step`, which writes to the database, after `_note`, which writes this server's addresses and exports.

        Returns False if the disk has failed (sqlite3.Error, or OSError of the file with the locks); this is logged once
        until a write succeeds, which is logged as well. Takes the lock of the database.
        """
        with self._lock:
            try:
                self._note()
                step()
            except (sqlite3.Error, OSError) as error:
                failed, self.failure = self.failure, f"{self._path}: {error}"
                if not failed:
                    _LOGGER.warning(
                        "%s: %s: clients of version 4 that open or lock their first files, or end, wait; "
                        "free space on its disk, or let the server write there again",
                        self._path,
                        error,
                    )
                return False
            if self.failure:
                self.failure = ""
                _LOGGER.info("%s is written again: clients of version 4 go on", self._path)
            return True

    def _note(self) -> None:
        """Writes the addresses and exports of this server to the disk unless they are there.

        The caller holds the lock of the database. The first call also takes over the clients of earlier runs
        (`_earlier`). Each write deletes other servers that have ended, with their clients (`_void`), and logs these.
        Raises sqlite3.Error or OSError if the disk fails.
        """
        now = self._addresses, self._exports
        if self._noted == now:
            return
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            if self._noted is None:
                if self._runs is not None:
                    self._runs.change(Range(self.boot, self.boot + 1, True))
                shares = max((each.shares for each in self._earlier), default=0)
                own = _Server(self.boot, self.name, *now, shares)
                database.execute("INSERT OR REPLACE INTO server VALUES (?, ?, ?, ?, ?)", own)
                for each in self._earlier:
                    database.execute(
                        "UPDATE OR REPLACE client SET server = ? WHERE server = ?", (self.boot, each.number)
                    )
                    database.execute("DELETE FROM server WHERE number = ?", (each.number,))
            else:
                database.execute("UPDATE server SET addresses = ?, exports = ? WHERE number = ?", (*now, self.boot))
            lost = self._void()
        self._noted = now
        self._tell_of(lost)

    def _void(self) -> list[tuple[str, int]]:
        """Deletes other servers that have ended and had an export of this one, and their clients, whose locks are lost.

        A server with `shares` at other addresses stays, since it may return. Sets `shares` of this server and of each
        running one with an export in common. The caller holds the lock of the database, and a transaction has begun.
        Returns (addresses, number of clients) of each server that is deleted.
        """
        execute, lost = self._database.execute, []
        for each in self._others():
            if not self._serves(each.exports):
                continue
            if self._is_running(each):
                execute("UPDATE server SET shares = 1 WHERE number IN (?, ?)", (self.boot, each.number))
            elif not each.shares or _meet(each.addresses, self._addresses):
                count = execute("DELETE FROM client WHERE server = ?", (each.number,)).rowcount
                execute("DELETE FROM server WHERE number = ?", (each.number,))
                lost.append((each.addresses, count))
        return lost

    def _tell_of(self, lost: Iterable[tuple[str, int]]) -> None:
        for addresses, count in lost:
            if count:
                _LOGGER.warning(
                    "the clients of an earlier run at %s, %d, lose their opens and locks: this server has its exports "
                    "now, and does not know these clients",
                    addresses,
                    count,
                )

    def keep(self, row: ClientRow) -> bool:
        """Writes a client to the disk, in place of this server's row of the owner, of any principal; raises nothing.

        Returns:
            Whether the row is there; False if the disk has failed, which is logged.
        """

        def write() -> None:
            self._database.execute("INSERT OR REPLACE INTO client VALUES (?, ?, ?, ?)", (self.boot, *row))
            self._kept[row.owner] = row.principal

        return self._write(write)

    def serve(self, addresses: Iterable[str], exports: Iterable[str]) -> None:
        """Replaces the addresses and exports of this server, by which its next run finds the clients on the disk.

        Deletes, with a warning, the rows of each server that has ended at other addresses, with one of these exports,
        unless it ran beside another with one of them. Logs a failure of the disk; the next write, or `begin`, tries
        again.

        Args:
            addresses: the addresses at which the server listens from now on.
            exports: texts that identify its exports from now on.
        """
        with self._lock:
            # Together: a row that another thread writes meanwhile is found by them.
            self._addresses, self._exports = " ".join(sorted(addresses)), "\n".join(sorted(set(exports)))
        self._write(lambda: None)

    def forget(self, rows: Iterable[ClientRow]) -> bool:
        """Deletes the clients of `rows` from the disk: rows with their owner and principal, whatever the verifier.

        Returns:
            Whether there are no such rows any more; False if the disk has failed, which is logged.
        """
        with self._lock:
            found = [row for row in rows if self._kept.get(row.owner) == row.principal]

        def delete() -> None:
            with self._database as database:
                database.execute("BEGIN")
                database.executemany(
                    "DELETE FROM client WHERE server = ? AND owner = ? AND principal = ?",
                    [(self.boot, row.owner, row.principal) for row in found],
                )
            for row in found:
                self._kept.pop(row.owner, None)

        return not found or self._write(delete)

    def close(self) -> None:
        """Closes the database, and releases the lock by which others see this run as running; may be called again."""
        with self._lock:
            self._database.close()
            self._runs = None


def _meet(one: str, other: str) -> bool:
    """Returns whether `one` and `other`, URLs of servers divided by spaces, have an address in common.

    Schemes and ports have to be equal, and hosts, unless one is "0.0.0.0" or "[::]". An address with the port 0 equals
    none. Two texts without any address count as having one in common.
    """
    for (scheme, host, port), there in itertools.product(map(_place, one.split(" ")), map(_place, other.split(" "))):
        hosts = {host, there[1]}
        if (scheme, port) == (there[0], there[2]) and port != "0" and (len(hosts) == 1 or hosts & _EVERY_HOST):
            return True
    return False


def _place(address: str) -> tuple[str, str, str]:
    """Returns (scheme, host, port) of a URL such as "tcp://[::]:2049"; for other text the last two may be empty."""
    head, _, port = address.rpartition(":")
    scheme, _, host = head.partition("://")
    return scheme, host, port


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
        """Returns whether the client in `row`, with this verifier and principal, may still reclaim state."""
        return self.waiting.get(row.owner) == row

    def awaits_other(self, owner: bytes, principal: str) -> bool:
        """Returns whether another principal than `principal` may still reclaim the state of the client `owner`."""
        known = self.waiting.get(owner)
        return known is not None and known.principal != principal

    def leaves(self, row: ClientRow) -> None:
        """Ends the right to reclaim of the client in `row`, and of its other incarnations (of any verifier)."""
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
        """Returns up to 3 owner strings of awaited clients, each cut to 60 octets and escaped, and how many more."""
        shown = [repr(owner[:_OWNER_OCTETS_SHOWN])[2:-1] for owner in itertools.islice(self.waiting, _OWNERS_SHOWN)]
        more = len(self.waiting) - len(shown)
        return ", ".join([*shown, *([f"{more} more"] if more else [])])

    def left_s(self, now_s: float) -> float:
        """Returns the seconds from `now_s` until the grace period ends if no reclaim prolongs it; 0.0 if it is over."""
        return max(0.0, self._ends_s - now_s) if self.waiting else 0.0

    def is_over(self, now_s: float) -> bool:
        """Returns whether the grace period is over at `now_s`: its time has passed, or no client is awaited."""
        return not self.waiting or now_s >= self._ends_s
