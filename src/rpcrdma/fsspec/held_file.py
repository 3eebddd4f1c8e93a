"""Octets that are read together with the opening: a whole small file, or the end of a file with its index there."""

from __future__ import annotations

import io
from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem

from rpcrdma.fsspec.fsspec_file import FsspecFile
from rpcrdma.nfs.client import DirEntry

__all__ = ["HELD_OCTETS", "HeldFile", "first_read", "within"]

HELD_OCTETS = 1 << 20
"""The largest file that is read whole when it is opened: one READ, which takes no more than two calls without data."""


_ENDS_READ_FIRST = (".parquet", ".orc", ".feather", ".arrow", ".zip", ".npz", ".xlsx")
"""Ends of the names of files in formats whose index is at their end."""

_END_OCTETS = 1 << 16
"""The octets that Arrow reads of a Parquet file first; the comment of a Zip archive may be as long."""


def first_read(path: str, entry: DirEntry) -> int | None:
    """Returns the offset, in octets, from which the opening reads the file `entry`; None if readers begin anywhere.

    The result is 0 for a file of up to 1 MiB, and 64 KiB before the end for a larger file if `path` ends as names of a
    format with an index at its end, such as .parquet or .zip.
    """
    size = entry.attributes.size
    if size <= HELD_OCTETS:
        return 0
    return size - _END_OCTETS if path.lower().endswith(_ENDS_READ_FIRST) else None


def within(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns (first, end), offsets in octets, of the slice from `start` up to `end` of a file of `size` octets.

    The slice is that of a Python sequence: None is the beginning or the end, negative numbers count from the end, and
    offsets beyond the end become `size`. If `end` is before `start`, both offsets are equal.
    """
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


class HeldFile(FsspecFile, io.BytesIO):
    """A small file, open for reading, with the content that the opening read or found in the cache.

    `io.BytesIO` reads the memory in which READ placed the data. Unpickling opens the file anew at the same position.

    Args:
        fs: the file system.
        path: the path of the file.
        data: the content.
    """

    mode = "rb"

    def __init__(self, fs: AbstractFileSystem, path: str, data: bytes) -> None:
        super().__init__(data)
        self.fs = fs
        self.path = path
        self.size = len(data)
        self.blocksize = len(data)

    def writable(self) -> bool:
        """Returns False, as the file is open for reading."""
        return False

    def write(self, *_args: object) -> NoReturn:
        """Always raises io.UnsupportedOperation, since the file is open for reading."""
        raise io.UnsupportedOperation(f"{self.full_name} is open for reading")

    writelines = truncate = write

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return _reopened, (self.fs, self.path, self.tell())


def _reopened(fs: AbstractFileSystem, path: str, position: int) -> Any:
    file = fs.open(path)
    file.seek(position)
    return file
