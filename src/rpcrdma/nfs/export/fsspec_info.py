"""The state of an object in a file system of fsspec, from the `info` dictionary of its library.

Libraries agree on `name`, `type` and `size` alone. Times and identities of the content have a key and a form of their
own in each. The first of the known keys that has a value of a known form is used, so that `info` and `ls` of a library
give one state.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from rpcrdma.nfs.export.tree import OFFSET_MAX, FileKind

__all__ = ["ObjectInfo", "Unusable", "info_of", "packed_info", "unpacked_info"]

_TIMES = (
    "mtime",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "updated",
    "modified",
    "modify",
    "server_modified",
    "modifiedTime",
    "date_time",
    "created",
)
"""Keys of the time of the last change; `created` is that of stores whose objects are replaced, never changed."""
_IDENTITIES = (
    "ETag",
    "etag",
    "e_tag",
    "md5Hash",
    "Content-MD5",
    "content_md5",
    "content_hash",
    "checksum",
    "crc32c",
    "CRC",
    "sha",
    "hex",
    "generation",
    "rev",
    "VersionId",
)
"""Keys of a value that differs for each content of an object, such as an ETag."""
_SECOND_NS = 1_000_000_000
_SETTLED_NS = 2_100_000_000
"""Nanoseconds after which another change surely has another time: stores count in two seconds at the most."""
_TIME_NS_MAX = (1 << 63) - 1
_PACKED = struct.Struct(">BQqQd")
_KINDS = (FileKind.FILE, FileKind.DIRECTORY, FileKind.SYMLINK)
_NO_SIZE = (1 << 64) - 1
_NO_TIME = -_TIME_NS_MAX - 1


class Unusable(ValueError):
    """An `info` of a library that describes no file, directory or link that NFS can serve; the text says why."""


class ObjectInfo(NamedTuple):
    """The state of an object of a store.

    `size` is in octets, None if the library does not report it, and `mtime_ns` in nanoseconds since 1970, None without
    a time. `change` differs between two states of a file. It is None if nothing in the info tells one content from the
    next, as for directories: the object then counts as changed each time the store is asked.
    """

    kind: FileKind
    size: int | None
    mtime_ns: int | None
    change: int | None
    target: bytes | None = None
    """The path in a symbolic link; None for other objects, and for links whose info `unpacked_info` has decoded."""


def info_of(info: object, now_ns: int) -> ObjectInfo:
    """Returns the state that `info`, an answer of `info` or an item of `ls` of fsspec, describes.

    `now_ns` is the time when the library was asked, in nanoseconds since 1970. If the mtime is so near to `now_ns` that
    a later change might have the same mtime, `change` is None without an ETag or the like. Raises Unusable: `info` is
    no mapping, or describes nothing that NFS can serve; the text says why.
    """
    if not isinstance(info, Mapping):
        raise Unusable(f"info is no mapping but {type(info).__name__}")
    kind, target = _kind_of(info)
    if kind is FileKind.DIRECTORY:
        return ObjectInfo(kind, 0, _mtime(info), None)
    if target is not None:
        # The other values may be those of the object that the link leads to.
        return ObjectInfo(kind, len(target), None, _digest(0, 0, target), target)
    size, mtime_ns = _size(info), _mtime(info)
    identity = next((value for key in _IDENTITIES if (value := _text(info.get(key)))), None)
    # A file that another one has replaced has another number, whatever its times are.
    number = info.get("ino")
    change: int | None = None
    if identity is not None or (mtime_ns is not None and _is_settled(mtime_ns, now_ns)):
        change = _digest(size or 0, mtime_ns or 0, identity or _text(number) or b"")
    return ObjectInfo(kind, size, mtime_ns, change)


def packed_info(info: ObjectInfo, asked_s: float) -> bytes:
    """Returns 33 octets with `info`, except a link's target, and `asked_s`, the time when the store was asked.

    `asked_s` is in seconds on the clock of the server's exports, which never decreases (`ServerExports.clock`).
    """
    return _PACKED.pack(
        _KINDS.index(info.kind),
        _NO_SIZE if info.size is None else info.size,
        _NO_TIME if info.mtime_ns is None else info.mtime_ns,
        info.change or 0,
        asked_s,
    )


def unpacked_info(octets: bytes) -> tuple[ObjectInfo, float]:
    """Returns (state, time when the store was asked, in seconds) from `octets`, a result of `packed_info`.

    The time is on the clock of the server's exports. `target` of the state is None, also for links.
    """
    kind, size, mtime_ns, change, asked_s = _PACKED.unpack(octets)
    return (
        ObjectInfo(
            _KINDS[kind], None if size == _NO_SIZE else size, None if mtime_ns == _NO_TIME else mtime_ns, change or None
        ),
        asked_s,
    )


def _kind_of(info: Mapping[Any, Any]) -> tuple[FileKind, bytes | None]:
    kind = info.get("type")
    if kind == "link" or info.get("islink") is True:
        target = _text(info.get("destination"))
        if target is None or b"\0" in target:
            raise Unusable("a symbolic link without its target")
        return FileKind.SYMLINK, target
    if kind == "file":
        return FileKind.FILE, None
    if kind == "directory":
        return FileKind.DIRECTORY, None
    raise Unusable(f"neither a file, a directory nor a symbolic link: its type is {str(kind)[:40]!r}")


def _size(info: Mapping[Any, Any]) -> int | None:
    size = info.get("size")
    if size is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= OFFSET_MAX:
        raise Unusable(f"its size is {str(size)[:40]!r}")
    return size


def _is_settled(mtime_ns: int, now_ns: int) -> bool:
    """Returns whether a later change must have another time: `mtime_ns` has parts of a second, or is 2.1 s past."""
    return mtime_ns % _SECOND_NS != 0 or now_ns - mtime_ns > _SETTLED_NS


def _digest(size: int, mtime_ns: int, identity: bytes) -> int:
    hashed = hashlib.blake2b(b"%d %d " % (size, mtime_ns), digest_size=8, person=b"nfs-change")
    hashed.update(identity)
    return int.from_bytes(hashed.digest(), "big") or 1


def _text(value: object) -> bytes | None:
    """Returns an int (in decimal), str (in UTF-8) or bytes of a library's info as octets.

    Returns None for an empty value, a value of another type, and a str that UTF-8 cannot encode. Characters U+DC80 to
    U+DCFF, by which Python represents octets that are not UTF-8, become these octets.
    """
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape") or None
        except UnicodeEncodeError:
            return None
    return bytes(value) or None if isinstance(value, bytes | bytearray) else None


def _mtime(info: Mapping[Any, Any]) -> int | None:
    for key in _TIMES:
        if (value := info.get(key)) is not None:
            try:
                time_ns = _nanoseconds(value)
            except (ValueError, OverflowError, OSError, TypeError):
                continue
            if abs(time_ns) <= _TIME_NS_MAX:
                return time_ns
    return None


def _nanoseconds(value: object) -> int:
    """Converts a time in a library's info to nanoseconds since 1970; a time without a zone is in UTC.

    The value is a text of ISO 8601, FTP or HTTP, six numbers from year to second, a datetime, or seconds since 1970.
    Raises ValueError, OverflowError, OSError or TypeError if it is no time.
    """
    if isinstance(value, str):
        value = _parsed(value)
    elif isinstance(value, tuple | list):
        year, month, day, hour, minute, second = value
        value = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    if isinstance(value, datetime):
        value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    seconds, part = divmod(value, 1)
    return int(seconds) * _SECOND_NS + round(part * _SECOND_NS)


def _parsed(text: str) -> datetime:
    """Parses a time of ISO 8601, FTP (RFC 3659 section 2.3) or HTTP; raises ValueError or TypeError for others."""
    digits = text.partition(".")[0]
    if digits.isascii() and digits.isdigit() and len(digits) == 14:
        return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)
