"""Procedures that list directories: READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from rpcrdma.nfs.server.backend import DOTS, Procedures, attributes_of, check_directory, post_op
from rpcrdma.nfs.server.directory_listing import COOKIE_DOT, COOKIE_DOT_DOT, ListedEntry, Version
from rpcrdma.nfs.server.file_access import CallerIdentity
from rpcrdma.nfs.server.linux_calls import faccess_as_caller, file_clock_ns
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v3 import (
    READDIR3args,
    READDIR3res,
    READDIR3resfail,
    READDIR3resok,
    READDIRPLUS3args,
    READDIRPLUS3res,
    READDIRPLUS3resfail,
    READDIRPLUS3resok,
    dirlist3,
    dirlistplus3,
    entry3,
    entryplus3,
    nfs_fh3,
    nfsstat3,
    post_op_attr,
    post_op_fh3,
)
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["ListingProcedures"]

_OK = nfsstat3.NFS3_OK
_REPLY_OCTETS_MAX = 1 << 20
_NO_VERIFIER = bytes(8)
"""The cookie verifier of every reply: cookies are valid for ever, so none needs to be verified."""

_FIXED_OCTETS = 88 + 8 + 4 + 4
"""dir_attributes, cookieverf, the end of the list, eof."""
_ENTRY_OCTETS = 4 + 8 + 4 + 8
"""An entry but for its name: value follows, fileid, length of the name, cookie."""

_SETTLED_NS = 2_100_000_000
"""File systems count times in two seconds at the most: after that another change has another time."""
_NO_ATTRIBUTES = post_op_attr(False, None)
_NO_HANDLE = post_op_fh3(False, None)

E = TypeVar("E", entry3, entryplus3)
_Describe: TypeAlias = Callable[[ListedEntry], tuple[E, int] | None]
"""The entry as the reply holds it, and the octets that it takes there; None if the object was removed."""


class _Page(Generic[E]):
    """One reply's entries, within the octets that the client asks for.

    The bound on the octets of names is advice: at least one entry is given.
    """

    def __init__(self, octets_max: int, names_octets_max: int = _REPLY_OCTETS_MAX) -> None:
        self.entries: list[E] = []
        self.eof = False
        self._cookies: list[int] = []
        self._left = min(octets_max, _REPLY_OCTETS_MAX) - _FIXED_OCTETS
        self._names_left = names_octets_max

    def add(self, entry: ListedEntry, item: E, octets: int) -> bool:
        """Adds an entry if it fits; returns whether it did."""
        names_octets = _ENTRY_OCTETS - 4 + _padded(entry.name)
        if octets > self._left or (names_octets > self._names_left and self.entries):
            # A listing goes on after a cookie: entries that share one stay together.
            while self._cookies and self._cookies[-1] == entry.cookie:
                self._cookies.pop()
                self.entries.pop()
            return False
        self._left -= octets
        self._names_left -= names_octets
        self._cookies.append(entry.cookie)
        self.entries.append(item)
        return True


class ListingProcedures(Procedures):
    """The procedures that list directories."""

    @in_worker
    def readdir(self, args: READDIR3args, context: CallContext) -> READDIR3res:
        node = None
        try:
            node = self.backend.locate_in_worker(args.dir.data, context)
            self._check_readable(node, self.backend.callers.of(context.credential, node.tree.export))
            page = _Page[entry3](args.count)
            self._fill(node, args.cookie, page, _plain)
            return READDIR3res(_OK, READDIR3resok(post_op(node), _NO_VERIFIER, dirlist3(page.entries, page.eof)))
        except REFUSALS as error:
            return READDIR3res(status_of(error), READDIR3resfail(post_op(node)))

    @in_worker
    def readdirplus(self, args: READDIRPLUS3args, context: CallContext) -> READDIRPLUS3res:
        node = None
        try:
            node = self.backend.locate_in_worker(args.dir.data, context)
            caller = self.backend.callers.of(context.credential, node.tree.export)
            self._check_readable(node, caller)
            with caller:
                searchable = faccess_as_caller(node.fd, os.X_OK)
            page = _Page[entryplus3](args.maxcount, args.dircount)
            self._fill(node, args.cookie, page, lambda entry: _described(node, entry, searchable=searchable))
            return READDIRPLUS3res(
                _OK, READDIRPLUS3resok(post_op(node), _NO_VERIFIER, dirlistplus3(page.entries, page.eof))
            )
        except REFUSALS as error:
            return READDIRPLUS3res(status_of(error), READDIRPLUS3resfail(post_op(node)))

    def _check_readable(self, node: HeldNode, caller: CallerIdentity) -> None:
        check_directory(node)
        with caller:
            readable = faccess_as_caller(node.fd, os.R_OK)
        if not readable:
            raise Refused(nfsstat3.NFS3ERR_ACCES)

    def _fill(self, node: HeldNode, cookie: int, page: _Page[E], describe: _Describe[E]) -> None:
        def names() -> Iterator[tuple[bytes, int]]:
            return _names(node)

        listings = self.backend.listings
        entries: Iterator[ListedEntry]
        entries, complete = listings.after(node.handle, cookie, names, _version(node))
        if cookie < COOKIE_DOT_DOT:
            entries = chain(_dots(node)[cookie:], entries)
        while True:
            for entry in entries:
                cookie = entry.cookie
                described = describe(entry)
                if described is not None and not page.add(entry, *described):
                    if not page.entries:
                        raise Refused(nfsstat3.NFS3ERR_TOOSMALL)
                    return
            if complete or page.entries:
                page.eof = complete
                return
            # All entries of this part of the directory have been removed since it was read.
            entries, complete = listings.after(node.handle, cookie, names)


def _plain(entry: ListedEntry) -> tuple[entry3, int]:
    text = entry.name.decode("utf-8", "surrogateescape")
    return entry3(entry.inode, text, entry.cookie), _ENTRY_OCTETS + _padded(entry.name)


def _described(node: HeldNode, entry: ListedEntry, *, searchable: bool) -> tuple[entryplus3, int] | None:
    """An entry, with attributes and handle where they can be read; None if it was removed."""
    attributes, handle = _NO_ATTRIBUTES, _NO_HANDLE
    octets = _ENTRY_OCTETS + _padded(entry.name) + 4 + 4
    inode = entry.inode
    found: tuple[bytes, os.stat_result] | None = None
    if entry.name in DOTS:
        above = node if entry.name == b"." else node.tree.parent(node)
        found = above.handle, os.fstat(above.fd)
    elif searchable:
        try:
            found = node.tree.identify(node, entry.name)
        except FileNotFoundError:
            return None
        except OSError:
            found = None
    if found is not None:
        fh, status = found
        inode = status.st_ino
        attributes = post_op_attr(True, attributes_of(status, node.tree.fsid))
        handle = post_op_fh3(True, nfs_fh3(fh))
        octets += 84 + 4 + ((len(fh) + 3) & ~3)
    text = entry.name.decode("utf-8", "surrogateescape")
    return entryplus3(inode, text, entry.cookie, attributes, handle), octets


def _dots(node: HeldNode) -> list[ListedEntry]:
    parent = node.tree.parent(node) if node is not node.tree.root else node
    return [ListedEntry(COOKIE_DOT, b".", node.inode), ListedEntry(COOKIE_DOT_DOT, b"..", parent.inode)]


def _version(node: HeldNode) -> Version:
    status = os.fstat(node.fd)
    if file_clock_ns() - status.st_ctime_ns < _SETTLED_NS:
        return None
    return status.st_ctime_ns, status.st_mtime_ns


def _names(node: HeldNode) -> Iterator[tuple[bytes, int]]:
    fd = os.open(node.link, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                yield os.fsencode(entry.name), entry.inode()
    finally:
        os.close(fd)


def _padded(name: bytes) -> int:
    return (len(name) + 3) & ~3
