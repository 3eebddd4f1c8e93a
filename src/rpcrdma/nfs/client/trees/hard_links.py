"""Which files of a tree with several names have been copied, so that further names become links to the copies.

A name waits while another name of its file is being copied. If that fails, the waiting name is copied itself.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Generic, NamedTuple, TypeVar

from rpcrdma.limits import NFS_COPY_LINKED_FILES_MAX, NFS_COPY_LINKED_OCTETS_MAX
from rpcrdma.nfs.v3 import fattr3, ftype3

__all__ = ["HardLinks", "SharedFile", "shared_by_local", "shared_by_server"]

C = TypeVar("C")


class SharedFile(NamedTuple):
    """A regular file that has more than one name.

    Attributes:
        key: the numbers of file and file system, and the time of the last change: the number of a file that is removed
            while the tree is copied may be given to another file.
        names: the number of its names, at least 2.
    """

    key: tuple[int, ...]
    names: int


def shared_by_server(attributes: fattr3) -> SharedFile | None:
    """Returns the `SharedFile` of a regular file at the server; None if it has one name, or is no regular file."""
    if attributes.nlink < 2 or attributes.type != ftype3.NF3REG:
        return None
    changed = attributes.ctime
    return SharedFile((attributes.fsid, attributes.fileid, changed.seconds, changed.nseconds), attributes.nlink)


def shared_by_local(found: os.stat_result) -> SharedFile | None:
    """Returns the `SharedFile` of a local regular file; None if it has one name, or is no regular file."""
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
        return None
    return SharedFile((found.st_dev, found.st_ino, found.st_ctime_ns), found.st_nlink)


class HardLinks(Generic[C]):
    """The copies of files with several names, so that further names become links; C is the place of a copy.

    For each name, call `copy_of` first. If it returns None, call `begin` before the copying and `end` after it. If the
    link is made, call `linked`; if it is refused, the name is copied, and `end` is called alone.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, ...], tuple[C, int, int]] = {}
        """By key: (the copy, the number of names that are still expected, the octets that it counts for)."""
        self._in_progress: dict[tuple[int, ...], asyncio.Event] = {}
        self._octets = 0

    @property
    def incomplete(self) -> int:
        """The number of files of which some names were copied, but not all: the rest may lie outside of the tree.

        Files for whose copies the bounds of `end` left no room are not counted.
        """
        return len(self._copies)

    async def copy_of(self, file: SharedFile) -> C | None:
        """Returns the place (path or node) of a copy of `file` under another name; None if there is none.

        Waits while the file is being copied under another name.
        """
        while (ended := self._in_progress.get(file.key)) is not None:
            await ended.wait()
        known = self._copies.get(file.key)
        return None if known is None else known[0]

    def begin(self, file: SharedFile) -> None:
        """Records that a name of `file` is being copied; `copy_of` for another name waits until `end`."""
        self._in_progress[file.key] = asyncio.Event()

    def linked(self, file: SharedFile) -> None:
        """Counts a further name of `file` that is now a link to the copy; forgets the copy after the last name."""
        if (known := self._copies.pop(file.key, None)) is not None:
            copy, left, octets = known
            if left > 1:
                self._copies[file.key] = (copy, left - 1, octets)
            else:
                self._octets -= octets

    def end(self, file: SharedFile, copy: C | None, octets: int) -> bool:
        """Ends the copying of a name of `file`, and the waits of `copy_of` for it.

        `copy` is the copy's place (path or node), None after a failure; `octets` is the memory that the place takes.
        Returns whether `copy_of` finds the copy for all further names: False after a failure, and when the bounds on
        all places (`NFS_COPY_LINKED_FILES_MAX`, 200,000, and `NFS_COPY_LINKED_OCTETS_MAX`, 32 MiB) are used up.
        """
        ended = self._in_progress.pop(file.key, None)
        if ended is not None:
            ended.set()
        if copy is None:
            return False
        left = file.names - 1
        if (known := self._copies.pop(file.key, None)) is not None:
            left = known[1] - 1
            self._octets -= known[2]
        if len(self._copies) >= NFS_COPY_LINKED_FILES_MAX or self._octets + octets > NFS_COPY_LINKED_OCTETS_MAX:
            return False
        if left > 0:
            self._copies[file.key] = (copy, left, octets)
            self._octets += octets
        return True
