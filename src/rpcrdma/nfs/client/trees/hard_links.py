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

    `key` holds the time of the last change as well as the numbers of file and file system: the number of a file that is
    removed while the tree is copied may be given to another one.
    """

    key: tuple[int, ...]
    names: int


def shared_by_server(attributes: fattr3) -> SharedFile | None:
    """Returns the file with these attributes, if it has several names."""
    if attributes.nlink < 2 or attributes.type != ftype3.NF3REG:
        return None
    changed = attributes.ctime
    return SharedFile((attributes.fsid, attributes.fileid, changed.seconds, changed.nseconds), attributes.nlink)


def shared_by_local(found: os.stat_result) -> SharedFile | None:
    """Returns the identity of a local file with further names, as `shared_by_server` does; else None."""
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
        return None
    return SharedFile((found.st_dev, found.st_ino, found.st_ctime_ns), found.st_nlink)


class HardLinks(Generic[C]):
    """The copies of files with further names, so that those become links; C is the place of a copy.

    For each name, call `copy_of` first. If it returns None, call `begin` before the copying and `end` after it; `end`
    alone follows a copy that was made because a link was refused.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, ...], tuple[C, int, int]] = {}
        """The copy, the names of the file that are still expected, and the octets that it counts for."""
        self._in_progress: dict[tuple[int, ...], asyncio.Event] = {}
        self._octets = 0

    @property
    def incomplete(self) -> int:
        """Files of which names have been copied, but not all; the others may lie outside of the tree."""
        return len(self._copies)

    async def copy_of(self, file: SharedFile) -> C | None:
        """Returns the copy of an earlier name, when it is whole; None if there is none."""
        while (ended := self._in_progress.get(file.key)) is not None:
            await ended.wait()
        known = self._copies.get(file.key)
        return None if known is None else known[0]

    def begin(self, file: SharedFile) -> None:
        """Records that this name of `file` is being copied; `copy_of` waits for it until `end`."""
        self._in_progress[file.key] = asyncio.Event()

    def linked(self, file: SharedFile) -> None:
        """Counts one more name of `file` that is a link to its copy."""
        if (known := self._copies.pop(file.key, None)) is not None:
            copy, left, octets = known
            if left > 1:
                self._copies[file.key] = (copy, left - 1, octets)
            else:
                self._octets -= octets

    def end(self, file: SharedFile, copy: C | None, octets: int) -> bool:
        """Ends the copying of a name; `copy` is the place of the copy, None after a failure, `octets` count for it.

        Returns whether later calls of `copy_of` find the copy: the bounds of `limits` may be used up.
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
