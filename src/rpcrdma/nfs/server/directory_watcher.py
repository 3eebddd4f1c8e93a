"""Turns the kernel's events about directories into the changes that each subscription is sent.

A subscription sees names that its caller may list, none outside the export: every directory is reached and watched
with the caller's identity, so that the kernel judges; its watch ends when it leaves the tree, when its permissions are
taken away, or (the one subscribed to) when it is no longer inside the export. Mount points and symbolic links are
reported, not entered.

Everything here happens in one thread, which may block in the file system.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from rpcrdma.limits import NFS_WATCH_DIRECTORIES_MAX, NFS_WATCH_SCAN_ENTRIES_MAX, NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX
from rpcrdma.nfs.export.file_access import CallerIdentity
from rpcrdma.nfs.export.linux_calls import faccess_as_caller
from rpcrdma.nfs.export.local_tree import LocalExports, LocalNode
from rpcrdma.nfs.export.tree import BAD_HANDLE, REFUSALS
from rpcrdma.nfs.server.directory_events import DirectoryEvent, Happening, Renaming, paired
from rpcrdma.nfs.watch import watch_change, watch_kind, watch_status
from rpcrdma.rpc.service import CallContext

__all__ = ["ChangeSink", "DirectoryWatcher", "Notifier", "TooManyDirectories", "WatchedTree", "watch_status_of"]

_BY_ERRNO = {
    errno.EPERM: watch_status.WATCHERR_PERM,
    errno.EACCES: watch_status.WATCHERR_ACCES,
    errno.ENOENT: watch_status.WATCHERR_STALE,
    errno.ESTALE: watch_status.WATCHERR_STALE,
    BAD_HANDLE: watch_status.WATCHERR_BADHANDLE,
    errno.EAGAIN: watch_status.WATCHERR_JUKEBOX,
    errno.ENOTDIR: watch_status.WATCHERR_NOTDIR,
    # The user's watches, or instances of inotify, are used up.
    errno.ENOSPC: watch_status.WATCHERR_NOSPC,
    errno.EMFILE: watch_status.WATCHERR_JUKEBOX,
    errno.ENOMEM: watch_status.WATCHERR_JUKEBOX,
    errno.ENOSYS: watch_status.WATCHERR_NOTSUPP,
}
_DENIED = {watch_status.WATCHERR_ACCES, watch_status.WATCHERR_PERM}
_KINDS = {
    Happening.CREATED: watch_kind.WATCH_CREATED,
    Happening.MOVED_TO: watch_kind.WATCH_CREATED,
    Happening.REMOVED: watch_kind.WATCH_REMOVED,
    Happening.MOVED_FROM: watch_kind.WATCH_REMOVED,
    Happening.CHANGED: watch_kind.WATCH_CHANGED,
    Happening.ATTRIBUTES: watch_kind.WATCH_ATTRIBUTES,
}


class TooManyDirectories(Exception):
    """More directories would be watched, or entries looked through, than the bounds allow."""


def watch_status_of(error: Exception) -> watch_status:
    """Returns the status for an error because of which a directory is not watched, or not any longer."""
    if isinstance(error, TooManyDirectories):
        return watch_status.WATCHERR_NOSPC
    return _BY_ERRNO.get(getattr(error, "errno", None) or 0, watch_status.WATCHERR_IO)


class Notifier(Protocol):
    """The part of inotify that the watcher uses."""

    def add(self, link: bytes) -> int:
        """Watches the directory that a path leads to; returns the number of the watch, the same for the same directory.

        Raises:
            OSError: this thread's identity may not read the directory, or the user's watches are used up.
        """

    def remove(self, watch: int) -> None:
        """Ends a watch; no effect on one that has ended."""


class ChangeSink(Protocol):
    """The receiver of changes: a `ChangeJournal`, or an object that guards one with a lock."""

    def add(self, change: watch_change) -> None:
        """See `ChangeJournal.add`."""

    def lose(self) -> None:
        """See `ChangeJournal.lose`."""

    def end(self, status: watch_status) -> None:
        """See `ChangeJournal.end`."""


class WatchedTree:
    """One subscription: a directory, and with `recursive` those below it that its caller may list."""

    def __init__(
        self, watcher: DirectoryWatcher, top: LocalNode, caller: CallerIdentity, sink: ChangeSink, *, recursive: bool
    ) -> None:
        self._watcher = watcher
        self._top = top
        self._caller = caller
        self._sink = sink
        self._recursive = recursive
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        # Watches of directories whose names the caller may list, but whose entries it may not reach.
        self._unsearchable: set[int] = set()
        # Paths reported when a new directory was looked through, whose own events may still come from the kernel.
        self._found: set[str] = set()
        # Paths of directories that were not there when they were to be watched: an event that the kernel has waiting
        # may tell that a directory above was renamed meanwhile, and they with it.
        self._missing: set[str] = set()
        self.closed = False

    def open(self) -> None:
        """Begins to watch.

        Raises:
            Refused, OSError: the directory may not be listed.
            TooManyDirectories: there are more below it than may be watched.
        """
        self._top.check_directory()
        self._look("", told=False)

    def close(self) -> None:
        """Ends all watches; may be called again."""
        self.closed = True
        for watch in list(self._paths):
            self._leave(watch)

    def end(self, status: watch_status) -> None:
        """Ends the subscription; its last entry tells the reason."""
        if not self.closed:
            self.close()
            self._sink.end(status)

    def confine(self) -> bool:
        """Returns whether the directory is still in the export; if not, ends the subscription."""
        try:
            inside = self._top.tree.is_inside(self._top)
        except OSError:
            inside = False
        if not inside:
            self.end(watch_status.WATCHERR_STALE)
        return inside

    def settled(self) -> None:
        """Forgets the entries that listings have found or missed.

        To be called when the kernel has no more events waiting.
        """
        self._found.clear()
        self._missing.clear()

    def begin_anew(self) -> None:
        """Watches the tree as it is, after a loss of events, then reports that changes were missed."""
        for watch, path in list(self._paths.items()):
            if path:
                self._leave(watch)
        self._found.clear()
        self._missing.clear()
        if self._recursive:
            self._guarded("", told=False)
        self._sink.lose()

    def happened(self, event: DirectoryEvent) -> None:
        """Reports an event of one of the directories to the subscription."""
        where = self._paths.get(event.watch)
        if where is None:
            return
        if event.happening is Happening.GONE:
            self._leave(event.watch, ended=True)
            if not where:
                self.end(watch_status.WATCHERR_STALE)
        elif event.name is None:
            # For a directory below the top, the event of its parent reports the same change.
            if event.happening is Happening.ATTRIBUTES and not where:
                self._tell(watch_kind.WATCH_ATTRIBUTES, "", is_directory=True)
                self._check("")
        else:
            self._happened_to(_join(where, event.name), event)

    def renamed(self, renaming: Renaming) -> None:
        """Reports a renaming; one half of it may be outside of the subscription."""
        source, target = renaming
        before, after = self._paths.get(source.watch), self._paths.get(target.watch)
        if before is None or after is None:
            # For the subscription, an entry from outside is new and an entry moved out is removed.
            self.happened(target if before is None else source)
            return
        assert source.name is not None and target.name is not None, "halves of a renaming have names"  # noqa: PT018
        old, new = _join(before, source.name), _join(after, target.name)
        self._found.discard(new)
        self._tell(watch_kind.WATCH_RENAMED, old, target=new, is_directory=target.is_directory)
        if not target.is_directory or not self._recursive:
            return
        missing = self._no_longer_missing(old)
        if old in self._watches:
            # The renaming has replaced a directory that was there before.
            self._leave_below(new)
            for watch, path in list(self._paths.items()):
                if _is_within(path, old):
                    self._enter(watch, new + path[len(old) :])
            for path in missing:
                self._guarded(new + path[len(old) :], told=True)
        else:
            # It was renamed before it could be looked through.
            self._guarded(new, told=True)

    def _happened_to(self, path: str, event: DirectoryEvent) -> None:
        happening, is_directory = event.happening, event.is_directory
        if happening in {Happening.CREATED, Happening.MOVED_TO} and path in self._found:
            self._found.discard(path)
            return
        if happening in {Happening.REMOVED, Happening.MOVED_FROM}:
            self._leave_below(path)
            self._no_longer_missing(path)
            self._found.discard(path)
        self._tell(_KINDS[happening], path, is_directory=is_directory)
        if not is_directory or not self._recursive:
            return
        if happening is Happening.ATTRIBUTES and path in self._watches:
            self._check(path)
        elif happening is Happening.MOVED_TO or (
            happening in {Happening.CREATED, Happening.ATTRIBUTES} and path not in self._watches
        ):
            # A moved directory may replace one whose path is still in `_watches`, so it is looked through anyway.
            self._guarded(path, told=True)

    def _tell(self, kind: watch_kind, path: str, *, target: str = "", is_directory: bool) -> None:
        self._sink.add(
            watch_change(kind, is_directory=is_directory, path=path, target=target, status=watch_status.WATCH_OK)
        )

    def _guarded(self, path: str, *, told: bool) -> None:
        """As `_look`, but an error ends the subscription."""
        try:
            self._look(path, told=told)
        except (TooManyDirectories, *REFUSALS) as error:
            self.end(watch_status_of(error))

    def _look(self, path: str, *, told: bool) -> None:
        """Watches a directory, then lists it, in this order so that no change between the two is missed.

        With `told` its entries are reported as created, since they appeared together with it.

        Raises:
            Refused, OSError: of the top only; other directories that may not be listed are left out.
            TooManyDirectories: the tree is larger than the bounds allow.
        """
        pending = [path]
        entries_left = NFS_WATCH_SCAN_ENTRIES_MAX
        while pending:
            path = pending.pop()
            try:
                names = self._watch(path)
            except REFUSALS as error:
                if not path or (isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EMFILE}):
                    raise
                if watch_status_of(error) not in _DENIED:
                    if len(self._missing) >= NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX:
                        raise TooManyDirectories from None
                    self._missing.add(path)
                continue
            for name, is_directory in names:
                entries_left -= 1
                if entries_left < 0:
                    raise TooManyDirectories
                inner = _join(path, name)
                if told:
                    self._found.add(inner)
                    self._tell(watch_kind.WATCH_CREATED, inner, is_directory=is_directory)
                if is_directory:
                    pending.append(inner)

    def _watch(self, path: str) -> Iterable[tuple[str, bool]]:
        """Watches one directory; returns (name, is a directory) of its entries if the subscription is recursive."""
        with self._caller:
            node = self._reach(path)
            node.check_directory()
            # Checked before the kernel adds a watch, which would have to be removed again.
            self._watcher.check_room(len(self._paths))
            watch = self._watcher.add(self, node.proc_path)
            self._enter(watch, path)
            if not self._recursive:
                return ()
            if not faccess_as_caller(node.fd, os.X_OK):
                self._unsearchable.add(watch)
            fd = os.open(node.proc_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with os.scandir(fd) as entries:
                    return [
                        (os.fsencode(entry.name).decode("utf-8", "surrogateescape"), _is_directory(entry))
                        for entry, _ in zip(entries, range(NFS_WATCH_SCAN_ENTRIES_MAX + 1), strict=False)
                    ]
            finally:
                os.close(fd)

    def _reach(self, path: str) -> LocalNode:
        node = self._top
        for name in path.split("/") if path else ():
            node = node.tree.child(node, name.encode("utf-8", "surrogateescape"))
        return node

    def _check(self, path: str) -> None:
        """Ends the watch of a directory that the caller may no longer list, or of those below that it may not reach.

        Directories below are looked for again when the caller may reach them.
        """
        try:
            with self._caller:
                node = self._reach(path)
                readable = faccess_as_caller(node.fd, os.R_OK)
                searchable = faccess_as_caller(node.fd, os.X_OK)
        except REFUSALS:
            readable = searchable = False
        if not readable:
            if not path:
                self.end(watch_status.WATCHERR_ACCES)
            self._leave_below(path)
        elif not searchable:
            self._unsearchable.add(self._watches[path])
            for watch, other in list(self._paths.items()):
                if other != path and _is_within(other, path):
                    self._leave(watch)
        elif self._watches[path] in self._unsearchable:
            self._unsearchable.discard(self._watches[path])
            self._guarded(path, told=True)

    def _enter(self, watch: int, path: str) -> None:
        if self._watches.get(path, watch) != watch:
            self._leave_below(path)
        old = self._paths.get(watch)
        if old is not None and self._watches.get(old) == watch:
            del self._watches[old]
        self._paths[watch] = path
        self._watches[path] = watch

    def _leave(self, watch: int, *, ended: bool = False) -> None:
        path = self._paths.pop(watch, None)
        self._unsearchable.discard(watch)
        if path is not None and self._watches.get(path) == watch:
            del self._watches[path]
        self._watcher.remove(self, watch, ended=ended)

    def _no_longer_missing(self, top: str) -> list[str]:
        """Returns the missing directories at `top` and below, and forgets them."""
        found = [path for path in self._missing if _is_within(path, top)]
        self._missing.difference_update(found)
        return found

    def _leave_below(self, path: str) -> None:
        if path in self._watches:
            for watch, other in list(self._paths.items()):
                if _is_within(other, path):
                    self._leave(watch)


class DirectoryWatcher:
    """All subscriptions over one notifier."""

    def __init__(self, exports: LocalExports, notifier: Notifier) -> None:
        self._exports = exports
        self._notifier = notifier
        self._users: dict[int, set[WatchedTree]] = {}
        self._trees: set[WatchedTree] = set()

    @property
    def directories(self) -> int:
        """How many directories are watched."""
        return len(self._users)

    def open(self, handle: bytes, context: CallContext, sink: ChangeSink, *, recursive: bool) -> WatchedTree:
        """Begins to tell `sink` of changes in the directory of a handle; may block, and so must `context`.

        Raises:
            Refused, OSError: the handle leads to no directory that its caller may list.
            TooManyDirectories: there are more below it than may be watched.
        """
        node = self._admitted(handle, context)
        caller = node.tree.acting_as(context.credential)
        tree = WatchedTree(self, node, caller, sink, recursive=recursive)
        try:
            tree.open()
        except BaseException:
            tree.close()
            raise
        self._trees.add(tree)
        return tree

    def close(self, tree: WatchedTree) -> None:
        """Ends one subscription."""
        tree.close()
        self._trees.discard(tree)

    def take(self, events: Sequence[DirectoryEvent]) -> None:
        """Hands the kernel's events, in order, to the subscriptions that they concern."""
        inside: dict[WatchedTree, bool] = {}
        for event in paired(events):
            if isinstance(event, Renaming):
                involved = self._users.get(event.source.watch, set()) | self._users.get(event.target.watch, set())
            elif event.happening is Happening.OVERFLOW:
                for tree in list(self._trees):
                    tree.begin_anew()
                continue
            else:
                involved = set(self._users.get(event.watch, ()))
            for tree in involved:
                if tree not in inside:
                    inside[tree] = tree.confine()
                if not inside[tree]:
                    continue
                if isinstance(event, Renaming):
                    tree.renamed(event)
                else:
                    tree.happened(event)
            if not isinstance(event, Renaming) and event.happening is Happening.GONE:
                self._users.pop(event.watch, None)
        self._trees = {tree for tree in self._trees if not tree.closed}

    def admit(self, handle: bytes, context: CallContext) -> None:
        """Checks that a subscription may go on for the caller of this call; may block.

        Raises:
            Refused, OSError: the directory is gone, or its export is closed to this host.
        """
        self._admitted(handle, context)

    def _admitted(self, handle: bytes, context: CallContext) -> LocalNode:
        node = self._exports.locate_in_worker(handle, context)
        self._exports.admission.check_calls_back(node.tree.export, context)
        return node

    def confine(self) -> None:
        """Ends subscriptions to directories that have left their export; to be called now and then."""
        for tree in list(self._trees):
            if not tree.confine():
                self._trees.discard(tree)

    def settled(self) -> None:
        """Forgets, in all trees, the entries that listings have found or missed.

        To be called when the kernel has no more events waiting.
        """
        for tree in self._trees:
            tree.settled()

    def check_room(self, watched: int) -> None:
        """Checks, for a tree that watches `watched` directories, that one more may be watched.

        Raises:
            TooManyDirectories: that would be too many.
        """
        if watched >= NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX or len(self._users) >= NFS_WATCH_DIRECTORIES_MAX:
            raise TooManyDirectories

    def add(self, tree: WatchedTree, link: bytes) -> int:
        """Watches the directory at the path `link` for a tree; returns the number of the watch."""
        watch = self._notifier.add(link)
        self._users.setdefault(watch, set()).add(tree)
        return watch

    def remove(self, tree: WatchedTree, watch: int, *, ended: bool) -> None:
        """Ends the use of a watch by a tree, and with the last use the watch, unless the kernel has `ended` it."""
        users = self._users.get(watch)
        if users is None or tree not in users:
            return
        users.discard(tree)
        if not users:
            del self._users[watch]
            if not ended:
                self._notifier.remove(watch)


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _is_within(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(top + "/")


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
