"""Lists local directories."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from itertools import chain

from rpcrdma.nfs.export.directory_listing import COOKIE_DOT, COOKIE_DOT_DOT, ListedEntry, Version
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.linux_calls import faccess_as_caller, file_clock_ns
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.name_rules import check_directory
from rpcrdma.nfs.export.open_object import attributes_of
from rpcrdma.nfs.export.tree import DOTS, Entry, Refused

__all__ = ["Listing"]

_SETTLED_NS = 2_100_000_000
"""Nanoseconds after which another change surely has another time: file systems count in two seconds at the most."""


class Listing(LocalObject):
    """A base class of `LocalNode`, the objects of local directories: the method `tree.Node.entries`, a listing."""

    __slots__ = ()

    def entries(self, who: Grant, after: int, *, detailed: bool) -> _Entries:
        check_directory(self)
        with who.identity:
            readable = faccess_as_caller(self.fd, os.R_OK)
            searchable = detailed and faccess_as_caller(self.fd, os.X_OK)
        if not readable:
            raise Refused(errno.EACCES)
        return _Entries(self, after, detailed=detailed, searchable=searchable)


class _Entries:
    """The entries of a local directory after the cookie `after`, read during iteration; implements `tree.Entries`.

    `detailed`: whether entries have handles and attributes; if the caller may not search the directory (`searchable`
    is False), only "." and ".." have them.
    """

    def __init__(self, directory: LocalObject, after: int, *, detailed: bool, searchable: bool) -> None:
        self.complete = False
        self._directory = directory
        self._after = after
        self._detailed = detailed
        self._searchable = searchable

    def __iter__(self) -> Iterator[Entry]:
        directory, cookie = self._directory, self._after
        listings = directory.tree.parts.listings
        entries: Iterator[ListedEntry]
        entries, complete = listings.after(directory.handle, cookie, self._names, _version(directory))
        if cookie < COOKIE_DOT_DOT:
            entries = chain(_dots(directory)[cookie:], entries)
        some = False
        while True:
            for entry in entries:
                cookie = entry.cookie
                shown = self._described(entry) if self._detailed else Entry(cookie, entry.name, entry.inode)
                if shown is not None:
                    some = True
                    yield shown
            if complete or some:
                self.complete = complete
                return
            # All entries of this part of the directory have been removed since it was read.
            entries, complete = listings.after(directory.handle, cookie, self._names)

    def _names(self) -> Iterator[tuple[bytes, int]]:
        fd = os.open(self._directory.proc_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    yield os.fsencode(entry.name), entry.inode()
        finally:
            os.close(fd)

    def _described(self, entry: ListedEntry) -> Entry | None:
        """Returns `entry` with handle and attributes, or without them if they cannot be read; None: its name is gone.

        For ".." raises Refused (ESTALE: the directory above is not in the export) or OSError.
        """
        directory = self._directory
        if entry.name in DOTS:
            above = directory if entry.name == b"." else directory.tree.parent(directory)
            attributes = above.attributes()
            return Entry(entry.cookie, entry.name, attributes.number, above.handle, attributes)
        if self._searchable:
            try:
                found = directory.tree.identify(directory, entry.name)
            except FileNotFoundError:
                return None
            except OSError:
                found = None
            if found is not None:
                handle, status = found
                counted = directory.changes.get(directory.tree.file_of(handle))
                attributes = attributes_of(status, directory.fsid, counted)
                return Entry(entry.cookie, entry.name, status.st_ino, handle, attributes)
        return Entry(entry.cookie, entry.name, entry.inode)


def _dots(directory: LocalObject) -> list[ListedEntry]:
    root = directory.tree.root
    parent = directory.tree.parent(directory) if directory is not root else directory
    return [ListedEntry(COOKIE_DOT, b".", directory.inode), ListedEntry(COOKIE_DOT_DOT, b"..", parent.inode)]


def _version(directory: LocalObject) -> Version:
    if directory.tree.always_waits:
        # FUSE over object stores, such as rclone, leaves the times of a directory as they are when entries change.
        return None
    status = os.fstat(directory.fd)
    if file_clock_ns() - status.st_ctime_ns < _SETTLED_NS:
        return None
    return status.st_ctime_ns, status.st_mtime_ns
