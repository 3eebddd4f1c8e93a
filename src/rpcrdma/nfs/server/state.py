"""The state that a server keeps from one run to the next: the key of its file handles and where it last saw objects."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from rpcrdma.nfs.server.place_index import PlaceIndex

__all__ = ["ServerState", "open_state"]

_KEY_FILE = "file-handle.key"
_INDEX_FILE = "places.sqlite3"
_KEY_OCTETS = 32
_VERIFIER_OCTETS = 8


class ServerState:
    """The key, the places index and the write verifier of this run (RFC 1813 section 3.3.7)."""

    __slots__ = ("key", "places", "write_verifier")

    def __init__(self, key: bytes, write_verifier: bytes, places: PlaceIndex) -> None:
        self.key = key
        self.write_verifier = write_verifier
        self.places = places

    def data_lost(self) -> None:
        """Changes the write verifier, so that clients send their uncommitted data again."""
        self.write_verifier = hashlib.blake2b(self.write_verifier, key=self.key, digest_size=8).digest()

    def close(self) -> None:
        """Writes places that are only in memory to the database, and closes it; may be called again."""
        self.places.close()


def open_state(directory: Path, random_bytes: Callable[[int], bytes]) -> ServerState:
    """The state kept in `directory`, which is made if need be; `random_bytes` must be fit for keys.

    Raises:
        PermissionError: other users may read the key.
        OSError: the directory cannot be used.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _read_or_make_key(directory / _KEY_FILE, random_bytes)
    return ServerState(key, random_bytes(_VERIFIER_OCTETS), PlaceIndex(directory / _INDEX_FILE))


def _read_or_make_key(path: Path, random_bytes: Callable[[int], bytes]) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        _make_key(path, random_bytes)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in {os.geteuid(), 0}:
            raise PermissionError(
                f"{path} is open to users other than its owner: run chmod 600, or remove it to get a new key"
            )
        key = file.read(_KEY_OCTETS + 1)
    if len(key) != _KEY_OCTETS:
        raise OSError(f"{path} has {len(key)} octets, no key of {_KEY_OCTETS}: remove it to get a new one")
    return key


def _make_key(path: Path, random_bytes: Callable[[int], bytes]) -> None:
    """Writes a temporary file and links it into place: two servers that start at once both use the first one's."""
    aside = path.with_name(f"{path.name}.{random_bytes(8).hex()}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(random_bytes(_KEY_OCTETS))
            file.flush()
            os.fsync(fd)
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
