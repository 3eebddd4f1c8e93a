"""The objects of one export: from a handle to an open descriptor, and from a directory and a name to a handle.

An object is held by an O_PATH descriptor that was reached from the root of the export one name at a time, never
through a symbolic link, a mount point or "..". Whether it is still inside is asked of the kernel before each use
(the descriptor's link in /proc), so an object that is moved out of the export leaves it.

An object that is not held is looked for by its handle, cheapest way first:

    where it was last seen    the places index, which outlives the server
    where the kernel says     `open_by_handle_at`, for a privileged server: local processes have renamed the object
    by a search               for other servers, and for files that the kernel knows without their path

Each of these only gives names, which are then walked from the root and must end at the very object. Only deleted
objects are remembered as such: an object that has left the export may come back.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.file_handle import HandleSeal, OpenedHandle, export_identity, kernel_handle, object_identity
from rpcrdma.nfs.export.linux_calls import (
    birth_and_mount,
    is_asked_elsewhere,
    lives_in_memory,
    open_by_handle,
    open_cached,
    sync_file_system,
)
from rpcrdma.nfs.export.long_paths import LEVELS_AT_ONCE, path_above, path_of_ancestor, reach
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.open_object import DELETED_SUFFIX, ChangeCounts, HeldNode, is_really_called
from rpcrdma.nfs.export.server_state import DELETED, PlaceIndex
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.nfs.export.tree_search import TreeSearch

__all__ = ["ObjectTree"]

_REACH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH_MAX = 2048
"""The most names between the root and an object, PATH_MAX / 2; a longer chain of remembered places is a circle."""
_NAMES_ONE_BY_ONE = 16
"""Names at the end of a path that are opened one by one, so that their places are remembered."""
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENAMETOOLONG, errno.EXDEV}
_PLACES_TRIED_MAX = 16
"""Names with one inode number that are tried after a search; a file may have tens of thousands."""
_SECOND = 1_000_000_000

N = TypeVar("N", bound=HeldNode)
_Way: TypeAlias = tuple[N, Sequence[bytes]]
"""A directory that is held, and the names that lead down from it to an object."""


class ObjectTree(Generic[N]):
    """An exported local directory, which finds the open object of a file handle or of a name. Thread-safe.

    All trees of a server share the arguments other than `export` and `mounts`, so that an object in two exports has one
    lock. `seal` makes and checks file handles, `places` knows where objects were last seen, and `cache` bounds the open
    objects. `locks` has a list for each file system, by `MountTable.file_system_of`, so that a change that waits for
    one disk does not hold up changes on another. `changes` counts changes for the change attribute. Raises OSError: the
    directory cannot be exported.
    """

    NODE: type[N]
    """The class of the tree's objects; subclasses set it."""

    def __init__(
        self,
        export: Export,
        seal: HandleSeal,
        places: PlaceIndex,
        cache: ObjectCache[N],
        locks: Mapping[bytes, Sequence[threading.RLock]],
        changes: ChangeCounts,
        mounts: MountTable,
    ) -> None:
        self.changes = changes
        self.export = export
        self.gone = False
        """Whether the tree is no longer served: only calls that began before use its objects."""
        self.identity = export_identity(export.name)
        self.fsid = int.from_bytes(self.identity, "big")
        self._seal = seal
        self._places = places
        self._cache = cache
        self._search_lock = threading.Lock()
        assert export.directory is not None
        fd = os.open(export.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        with ExitStack() as undo:
            undo.callback(os.close, fd)
            self._identity = object_identity(fd)
            self._mount = self._identity[1]
            self.file_system = mounts.file_system_of(self._mount)
            self.locks = locks[self.file_system]
            self.in_memory = lives_in_memory(fd)
            """Whether reading and writing files never waits for a disk."""
            self.always_waits = is_asked_elsewhere(fd) or mounts.has_layer_elsewhere(self._mount)
            self._search = TreeSearch(fd)
            undo.pop_all()
            self.root = self._adopt(fd)
            undo.callback(self.close)
            self._root_path = _with_slash(os.readlink(self.root.proc_path))
            self._readable_root = self._open_for_handles()
            self._may_ask_cached = not self.always_waits and self._can_ask_cached()
            undo.pop_all()

    def stands_for(self, export: Export) -> bool:
        """Returns whether the path of a local export leads to this tree's directory, over the same mount; may block.

        Raises OSError: the path leads to no directory, or may not be followed.
        """
        assert export.directory is not None
        fd = os.open(export.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return os.fstat(fd).st_ino == self.root.inode and object_identity(fd) == self._identity
        finally:
            os.close(fd)

    def close(self) -> None:
        """Drops its descriptors, which close with the last reference; no call may use the tree. May be called again."""
        self.gone = True
        # Each root refers to its tree: without this the next collection of garbage would close them.
        for name in ("root", "_readable_root"):
            self.__dict__.pop(name, None)

    def file_of(self, handle: bytes) -> bytes:
        """Returns the key in `claims.Claims` of a handle's object, the same in all exports of its file system."""
        return self.file_system + HandleSeal.object_in(handle)

    def is_inside(self, node: N, *, at_once: bool = False) -> bool:
        """Returns whether a node's object is still in the export and not deleted, by the path that the kernel reports.

        Marks the node as used. May wait for a disk if the path is too long for the kernel or ends in " (deleted)"; with
        `at_once` the result is then False where finding it out takes milliseconds. Raises OSError if /proc fails.
        """
        node.used = True
        root = self._root_path
        try:
            path = os.readlink(node.proc_path)
            # The short course, in every call that names an object: neither the object nor the root has moved.
            seen, below = node.seen
            if path == seen and root is below:
                return True
            if (at_once and path.endswith(DELETED_SUFFIX)) or self._below_root(path, node.proc_path) is None:
                return False
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return self._is_inside_far_down(node, at_once=at_once)
        if not path.endswith(DELETED_SUFFIX):
            node.seen = path, root
        return True

    def find(self, handle: bytes, *, at_once: bool) -> N | None:
        """Finds the object of `handle`, known to be the server's own and of this export, and caches its node.

        To be called where no valid node is cached. With `at_once` returns None where finding it may block. Raises
        Refused: ESTALE: the object is gone from the export, or was not met by the last search of the tree; EAGAIN: it
        has left the place where that search met it, and the next search is not due. Raises OSError: searching fails.
        """
        if handle == self.root.handle:
            self._cache.put(self.root)
            return self.root
        if at_once:
            return None
        self._cache.drop(handle)
        if self._places.needs_flush:
            self._places.flush()
        if self._places.find(handle) != DELETED:
            with closing(self._ways_to(handle)) as ways:
                for start, names in ways:
                    node = self._arrives(start, names, handle)
                    if node is not None:
                        return node
        raise Refused(errno.ESTALE)

    def child(self, directory: N, name: bytes) -> N:
        """Returns the object of a name in a directory, as the thread's user; caches it, notes its place; may block.

        Raises Refused: EACCES: the name is a mount point; or OSError: no object has it, or the user may not search.
        """
        return self._child(directory, name, os.open(name, _REACH, dir_fd=directory.fd))

    def created(self, directory: N, name: bytes, fd: int) -> N:
        """Returns the node of the file behind `fd`, which was just created with this name; the caller still owns `fd`.

        The name may stand for another object by now. Raises OSError: the file's identity cannot be read, or no
        descriptor is left.
        """
        return self._child(directory, name, os.open(b"/proc/self/fd/%d" % fd, os.O_PATH | os.O_CLOEXEC))

    def just_made(self, directory: N, name: bytes, kind: int, since: int) -> N | None:
        """Returns the node of the object that was just made with this name and `kind` (its bits of `st_mode`).

        None if the name is gone, or leads to an object of another kind or made before `since` (`file_clock_ns`; no
        effect with `always_waits`, where another host's clock may count), mostly since a local process has renamed the
        object. Raises OSError: EMFILE, EIO and others.
        """
        try:
            fd = os.open(name, _REACH, dir_fd=directory.fd)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        try:
            status = os.fstat(fd)
            # Where birth times are not kept, a new object was last modified when it was made.
            made = birth_and_mount(fd)[0] or status.st_mtime_ns
        except BaseException:
            os.close(fd)
            raise
        if not made % _SECOND:
            # The file system may count whole seconds.
            since -= since % _SECOND
        if stat.S_IFMT(status.st_mode) != kind or (made < since and not self.always_waits):
            os.close(fd)
            return None
        return self._child(directory, name, fd)

    def child_at_once(self, directory: N, name: bytes) -> N | None:
        """Returns the object of a name in a directory as `child` does, but never waits; None: only `child` can tell."""
        if not self._may_ask_cached or self._places.needs_flush:
            return None
        try:
            fd = open_cached(directory.fd, name)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise Refused(errno.EACCES) from None
            raise
        return self._child(directory, name, fd)

    def parent(self, directory: N) -> N:
        """Returns the directory above a directory, and caches its node; the root is its own parent. May block.

        Raises:
            Refused: ESTALE: the directory above is not in the export.
            OSError: the directory above cannot be reached.
        """
        if directory.handle == self.root.handle:
            return self.root
        node = self._adopt(os.open(b"..", _REACH | os.O_DIRECTORY, dir_fd=directory.fd))
        if node.handle == self.root.handle:
            return self.root
        if not self.is_inside(node):
            raise Refused(errno.ESTALE)
        self._cache.put(node)
        return node

    def sync_file_system(self) -> None:
        """Puts all data of the export's file system on the disk, or of all file systems if the root may not be opened.

        Raises OSError: some of the data is lost, or the root cannot be opened for a reason other than its permissions.
        When all file systems are synced, a loss is not noticed.
        """
        try:
            fd = os.open(self.root.proc_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            os.sync()
            return
        try:
            sync_file_system(fd)
        finally:
            os.close(fd)

    def drop_idle(self) -> None:
        """Drops the names that the last walk through the tree collected, if unused since the last `drop_idle`.

        They stay while the next walk is not allowed yet (`TreeSearch.is_due`), and during a search. Never waits.
        """
        if self._search_lock.acquire(blocking=False):
            self._search.drop_idle()
            self._search_lock.release()

    def identify(self, directory: N, name: bytes) -> tuple[bytes, os.stat_result] | None:
        """Returns (handle, `stat` result) of the object of a name; None for a mount point.

        Records the directory and the name by the handle, so that the object is found there later.

        Raises OSError: no object has this name, or the thread's user may not search the directory.
        """
        fd = os.open(name, _REACH, dir_fd=directory.fd)
        try:
            identity, mount = object_identity(fd)
            if mount != self._mount:
                return None
            status = os.fstat(fd)
        finally:
            os.close(fd)
        handle = self._seal.close(self.identity, status.st_ino, identity)
        self._places.remember(handle, directory.handle, name)
        return handle, status

    def moved(self, node: N, directory: N, name: bytes) -> None:
        """Records that the object of `node` has the name `name` in `directory`, so that its handle is found there."""
        self._places.remember(node.handle, directory.handle, name)

    def removed(self, node: N) -> bool:
        """Drops the cached node of an object that has lost a name, and the place recorded for it; may raise OSError.

        Returns whether the object has no name left, by its own status: a local process may have renamed it before, even
        out of the export, and given its former name to another object, which was removed instead.
        """
        self._cache.drop(node.handle)
        deleted = node.is_deleted()
        self._places.forget(node.handle, deleted=deleted)
        return deleted

    def _open_for_handles(self) -> N | None:
        """Returns a node of the root whose descriptor `open_by_handle` takes; None if such opens are not possible."""
        known = kernel_handle(self._identity[0])
        if known is None:
            return None
        try:
            fd = os.open(self.root.proc_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            root = self.NODE(self, fd, self.root.handle, self.root.status)
            os.close(open_by_handle(fd, *known))
        except OSError:
            return None
        return root

    def _can_ask_cached(self) -> bool:
        try:
            os.close(open_cached(self.root.fd, b"."))
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return True

    def _adopt(self, fd: int) -> N:
        try:
            identity, mount = object_identity(fd)
            # Not of what is mounted there, which may not answer.
            status = os.fstat(fd) if mount == self._mount else None
        except BaseException:
            os.close(fd)
            raise
        if status is None:
            os.close(fd)
            raise Refused(errno.EACCES)
        handle = self._seal.close(self.identity, status.st_ino, identity)
        return self.NODE(self, fd, handle, status)

    def _child(self, directory: N, name: bytes, fd: int) -> N:
        node = self._adopt(fd)
        if 0 < directory.levels < LEVELS_AT_ONCE:
            node.levels = directory.levels + 1
        self._places.remember(node.handle, directory.handle, name)
        before = self._cache.put(node)
        if before is not None:
            # Its descriptor may stand for another name, but the attributes are those of the object.
            node.told = before.told
        return node

    def _below_root(self, path: bytes, link: bytes | None = None) -> bytes | None:
        """Returns the part of `path` below the root of the export; None: it is not below, or its object is deleted.

        `link` is the link in /proc that gave the path; None: the object is known to exist. Raises OSError: /proc fails.
        """
        root = self._root_path
        if not (path + b"/").startswith(root):
            root = self._root_path = _with_slash(os.readlink(self.root.proc_path))
            if not (path + b"/").startswith(root):
                return None
        if link is not None and path.endswith(DELETED_SUFFIX) and not is_really_called(path, link):
            return None
        return path[len(root) :]

    def _is_inside_far_down(self, node: N, *, at_once: bool) -> bool:
        """Returns whether a node whose path is too long for the kernel is still in the export; False on errors.

        With `at_once` never waits, and is also False where the answer takes a wait.
        """
        status = os.fstat(node.fd)
        if not status.st_nlink:
            return False
        directory = node
        try:
            if node.kind != stat.S_IFDIR:
                place = None if at_once else self._places.find(node.handle)  # that may wait for the database
                above = self._cache.held.get(place.parent) if place is not None else None
                if place is None or above is None:
                    return False
                if not os.path.samestat(os.stat(place.name, dir_fd=above.fd, follow_symlinks=False), status):
                    return False
                above.used = True
                directory = above
            # An object is below the root if a directory above it is, and the root's own path is short enough to tell.
            if directory.levels:
                path = path_above(directory.fd, directory.levels)
                if path is not None and self._below_root(path) is not None:
                    return True
            if at_once:
                return False
            path, directory.levels = path_of_ancestor(directory.fd)
            return self._below_root(path) is not None
        except OSError:
            return False

    def _arrives(self, start: N, names: Sequence[bytes], handle: bytes) -> N | None:
        """Returns the node at the end of a path of names below `start` if its handle is `handle`, else None.

        Raises OSError: the path cannot be followed for a reason other than a missing name.
        """
        try:
            node = start
            if len(names) > _NAMES_ONE_BY_ONE:
                node = self._adopt(reach(start.fd, names[:-_NAMES_ONE_BY_ONE]))
            for name in names[-_NAMES_ONE_BY_ONE:]:
                node = self.child(node, name)
        except Refused:
            return None
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        return node if node.handle == handle else None

    def _ways_to(self, handle: bytes) -> Generator[_Way[N], None, None]:
        """Yields (directory node, names below it) for paths at which the object of a handle may be, cheapest first.

        The caller closes the generator, which may hold the lock of searches until then. Raises OSError: a
        directory cannot be read; or Refused: ESTALE: the object is deleted or outside; EAGAIN: the search has to wait.
        """
        if (way := self._where_last_seen(handle)) is not None:
            yield way
        opened = self._seal.open(handle)
        assert opened is not None
        if (way := self._where_the_kernel_says(opened, handle)) is not None:
            yield way
        with self._search_lock:
            # The thread that held the lock may have found it in its own search.
            if (way := self._where_last_seen(handle)) is not None:
                yield way
            shown = False
            for names in islice(self._search.places(opened.inode), _PLACES_TRIED_MAX):
                shown = True
                yield self.root, names
            if self._search.is_due():
                self._search.walk()
                for names in islice(self._search.places(opened.inode), _PLACES_TRIED_MAX):
                    yield self.root, names
            elif shown:
                raise Refused(errno.EAGAIN)
            self._search.check()

    def _where_last_seen(self, handle: bytes) -> _Way[N] | None:
        names: list[bytes] = []
        above = handle
        for _ in range(_DEPTH_MAX):
            place = self._places.find(above)
            if place is None or place == DELETED:
                return None
            names.append(place.name)
            above = place.parent
            start = self.root if above == self.root.handle else self._cache.held.get(above)
            if start is not None:
                return (start, names[::-1]) if start is self.root or self.is_inside(start) else None
        return None

    def _where_the_kernel_says(self, opened: OpenedHandle, handle: bytes) -> _Way[N] | None:
        known = kernel_handle(opened.identity)
        if self._readable_root is None or known is None:
            return None
        try:
            fd = open_by_handle(self._readable_root.fd, *known)
        except OSError as error:
            if error.errno == errno.ESTALE:
                self._places.forget(handle, deleted=True)
                raise Refused(errno.ESTALE) from None
            return None
        try:
            is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
            link = b"/proc/self/fd/%d" % fd
            path = self._below_root(os.readlink(link), link)
        except OSError:
            return None
        finally:
            os.close(fd)
        if path:
            return self.root, path.split(b"/")
        if is_directory:
            # The kernel always knows the path of a directory, unlike that of a file.
            raise Refused(errno.ESTALE)
        return None


def _with_slash(path: bytes) -> bytes:
    return path if path == b"/" else path + b"/"
