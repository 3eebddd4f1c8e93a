"""The small databases in which a server keeps its state from one run to the next."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from pathlib import Path
from typing import Final

__all__ = ["is_damage", "open_database", "put_aside"]

_LOGGER = logging.getLogger("rpcrdma.server")

_DAMAGED: Final = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Codes of errors that a repeated try does not change; SQLITE_ERROR is that of a table with other columns."""


def open_database(path: Path | None, schema: str, probe: str, *, durable: bool, loss: str) -> sqlite3.Connection:
    """Opens or makes a SQLite database; renames a damaged one, logs a warning, and makes a new one in its place.

    May block.

    Args:
        path: the file, made for its owner alone; None: the database is in memory.
        schema: the statements that make the tables.
        probe: a query whose rows are all read; it fails if the tables have other columns or needed rows are damaged.
        durable: whether each transaction is on the disk when it ends.
        loss: the consequence of losing the database, for the log.

    Returns:
        The connection, in autocommit mode, for use by any thread, one at a time.

    Raises:
        sqlite3.Error: the database can be neither opened nor made; among others, it was locked for 5 s.
    """
    if path is not None:
        _make_private(path)
    for last in (False, True):
        database = sqlite3.connect(
            ":memory:" if path is None else path, timeout=5, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            database.executescript(schema)
            for _row in database.execute(probe):
                # The octets of a row are read, and damage is met, when its turn comes.
                pass
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                database.close()
            if last or path is None or not is_damage(error) or not put_aside(path, error, loss):
                raise
            _make_private(path)
        else:
            break
    return database


def _make_private(path: Path) -> None:
    """Makes an empty database file that its owner alone may read, if none exists; ignores errors.

    SQLite's other files take the mode of this one.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether `error` means that a database is damaged, is no SQLite file, or has other tables or columns.

    True also for an error without a SQLite code.
    """
    # The low octet is the code, the others give details.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGED


def put_aside(path: Path, error: sqlite3.Error, loss: str) -> bool:
    """Renames the damaged database at `path` to `<name>.damaged`, removes its log files, and logs a warning.

    `error`, by which the damage was found, and `loss`, the consequence, occur in the warning. Returns True; or False,
    without a warning, if a file cannot be renamed or removed.
    """
    aside = path.with_name(f"{path.name}.damaged")
    try:
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            # Its log would be applied to the next database.
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError:
        return False
    _LOGGER.warning("%s is damaged (%s) and now called %s: %s", path, error, aside.name, loss)
    return True
