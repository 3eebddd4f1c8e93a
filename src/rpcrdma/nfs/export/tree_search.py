"""Finds the objects of an export by inode number: one walk through the whole tree answers for all handles.

It is for handles whose objects are neither where they were last seen nor where the kernel says. Its results are hints:
an object may have been renamed since. A walk through many entries is not repeated soon, however many handles are
asked for; until then objects that it has not shown count as gone, or as failed if it could not read all directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from rpcrdma.nfs.export.export_limits import (
    NFS_SEARCH_ENTRIES_MAX,
    NFS_SEARCH_FREE_ENTRIES,
    NFS_SEARCH_OCTETS_MAX,
    NFS_SEARCH_REST_NS,
)
from rpcrdma.nfs.export.linux_calls import file_clock_ns, open_beneath
from rpcrdma.nfs.export.name_table import NameTable

__all__ = ["TreeSearch"]

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PASSED_OVER = {
    errno.EACCES,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.ESTALE,
    errno.EXDEV,
}
"""Errors of directories that are gone, on another mount, or closed to the server in every walk."""
_DEPTH_MAX = 2048
_PATH_OCTETS_AN_ENTRY = 32
"""Octets of a path whose resolution takes the kernel the time of one directory entry."""


class TreeSearch:
    """Finds objects of an export by inode number, in the names that the last walk through its directories collected.

    `root` is a descriptor of the exported directory, whose mount the walk does not leave. Not thread-safe.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._root_inode = os.fstat(root).st_ino
        self._names: NameTable | None = None
        self._cost = 0
        self._ended = 0
        self._failure = 0
        """The error number of a directory that the last walk could not read to its end; 0: it has read all."""
        self._used = False

    def is_due(self) -> bool:
        """Returns whether the tree may be walked now.

        True before the first walk, and if the last walk cost at most `NFS_SEARCH_FREE_ENTRIES`: a directory entry
        costs 1, and each 32 octets of a directory's path cost 1. Otherwise True once the whole cost times
        `NFS_SEARCH_REST_NS` nanoseconds have passed since the end of the walk, or if the clock was set back.
        """
        if self._cost <= NFS_SEARCH_FREE_ENTRIES:
            return True
        # A clock that was set back must not put off the next walk for long.
        return not 0 <= file_clock_ns() - self._ended < self._cost * NFS_SEARCH_REST_NS

    def walk(self) -> None:
        """Walks through the tree, and replaces the collected names; may take seconds.

        Ends early at a cost of `NFS_SEARCH_ENTRIES_MAX` (a directory entry costs 1, and each 32 octets of a directory's
        path cost 1) or at `NFS_SEARCH_OCTETS_MAX` octets of collected names. Directories that `directory_entries`
        passes over are left out, as is the rest of one whose opening or reading fails; in the latter case `check`
        raises an error afterwards.
        """
        table = NameTable()
        cost = failure = 0
        # The path above is shared by all directories in it that are still to be looked at.
        waiting = [(b"", b".", self._root_inode)]
        while waiting and cost < NFS_SEARCH_ENTRIES_MAX and table.octets < NFS_SEARCH_OCTETS_MAX:
            above, name, inode = waiting.pop()
            path = above + b"/" + name if above else name
            cost += len(path) // _PATH_OCTETS_AN_ENTRY
            try:
                for entry in directory_entries(self._root, path):
                    cost += 1
                    if cost > NFS_SEARCH_ENTRIES_MAX or table.octets >= NFS_SEARCH_OCTETS_MAX:
                        break
                    inner = os.fsencode(entry.name)
                    table.add(entry.inode(), inode, inner)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((path, inner, entry.inode()))
            except OSError as error:
                # The walk goes on: otherwise each handle that is asked for would begin it anew.
                failure = error.errno or errno.EIO
        table.sort()
        self._names = table
        self._failure = failure
        self._cost = cost
        self._ended = file_clock_ns()

    def check(self) -> None:
        """Raises OSError if opening or reading a directory failed in the last walk: an object not met may be there.

        Does not raise for directories that `directory_entries` passes over, nor if the walk ended early.
        """
        if self._failure:
            raise OSError(self._failure, os.strerror(self._failure))

    def places(self, inode: int) -> Iterator[list[bytes]]:
        """Yields, for each path at which the last walk met this inode number, the list of names from the root down.

        The last name is that of the object. Yields nothing for a number that the walk did not meet, before the first
        walk, and after `drop_idle` has dropped the names.
        """
        self._used = True
        if self._names is not None:
            for row in self._names.rows(inode):
                if row.key != inode:
                    return
                names = self._way_to(row.value)
                if names is not None:
                    yield [*names, row.name]

    def drop_idle(self) -> None:
        """Drops the collected names if `is_due()`, and `places` was not called since the last call of this method."""
        if not self._used and self.is_due():
            self._names = None
        self._used = False

    def _way_to(self, directory: int) -> list[bytes] | None:
        assert self._names is not None
        names: list[bytes] = []
        while directory != self._root_inode:
            row = next(self._names.rows(directory), None)
            if row is None or row.key != directory or len(names) == _DEPTH_MAX:
                # Renamed while the tree was walked through.
                return None
            names.append(row.name)
            directory = row.value
        names.reverse()
        return names


def directory_entries(directory: int, path: bytes) -> Iterator[os.DirEntry[str]]:
    """Yields the entries, without "." and "..", of the directory at `path` below the descriptor `directory`.

    Yields nothing if the directory is gone, may not be opened, or is on another mount, which is not asked: its device
    or server may never answer. May block. Raises OSError if opening fails for another reason, such as a lack of
    descriptors, or reading fails.
    """
    try:
        reached = open_beneath(directory, path)
        try:
            fd = os.open(b"/proc/self/fd/%d" % reached, _LIST)
        finally:
            os.close(reached)
    except OSError as error:
        if error.errno in _PASSED_OVER:
            return
        raise
    try:
        with os.scandir(fd) as entries:
            yield from entries
    finally:
        os.close(fd)
