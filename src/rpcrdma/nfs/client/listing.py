"""Reads directories page by page: READDIRPLUS with attributes, READDIR for names alone.

A directory may change while it is read. Then either its cookies stay valid, or the server answers NFS3ERR_BAD_COOKIE
and the reading starts over; no name is yielded twice either way. For that the names are kept in memory. Those of a
large directory are dropped: its reading does not start over, and names that the server repeats are yielded again.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import NFS_LISTED_NAMES_KNOWN_MAX
from rpcrdma.nfs.client.node import DirEntry, Node, found_at
from rpcrdma.nfs.client.paths import listed_name
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import NfsError, NfsNotFound, ServerPathError
from rpcrdma.nfs.v3 import NFS3_COOKIEVERFSIZE, entry3, entryplus3, nfsstat3

__all__ = ["Refused", "entry_pages", "first_entries", "name_pages"]

Refused: TypeAlias = Callable[[OSError], None]
"""A function that takes the error (OSError, EINVAL) for a listed entry that is left out, as its name is not valid."""

_NO_VERIFIER = bytes(NFS3_COOKIEVERFSIZE)
_RESTARTS_MAX = 5
_PAGE_OCTETS_MAX = 1 << 20
_IDLE_PAGES_MAX = 3
"""Pages in a row without a new name; when the listing starts over, the number of pages read before is added."""
_LOOKUPS_AT_ONCE = 16

_Entry = entry3 | entryplus3


async def name_pages(
    volume: Volume, directory: Node, *, names_max: int, refused: Refused | None = None
) -> AsyncIterator[list[str]]:
    """Yields the names in `directory`, in the server's order, without "." and "..", a list for each READDIR reply.

    A name that the server repeats is left out. Once more than 50,000 names (`NFS_LISTED_NAMES_KNOWN_MAX`) are listed,
    all further repeats are yielded. A reply without new names yields no list.

    Args:
        volume: the file system.
        directory: the directory.
        names_max: the number of names, invalid names included, after which no further reply is asked for.
        refused: called with the error for each name that is not valid; None: the error is raised.

    Raises:
        NfsError: the directory cannot be read; and the errors of `Caller.call`.
        OSError: EOVERFLOW: the listing continues after `names_max` names.
        RemoteProtocolError: the server lists the same entries without end, or, without `refused`, an entry whose name
            is not valid.
    """
    listing = _Listing(volume.procedures, directory, (await volume.sizes()).names, names_max, refused)
    async for page in listing.pages(plus=False):
        yield [name for name, _ in page]


async def entry_pages(
    volume: Volume, directory: Node, *, names_max: int, refused: Refused | None = None
) -> AsyncIterator[list[DirEntry]]:
    """Yields the entries of `directory` with attributes: a list for each READDIRPLUS reply with new names.

    The entries are in the server's order, without "." and "..". Attributes and handles that the listing lacks are asked
    for by LOOKUP; if the server refuses it, the entry has the error as `refusal`. Entries removed meanwhile are left
    out. READDIR is used if the server has no READDIRPLUS.

    `names_max` is the number of names after which no further reply is asked for. `refused` gets the error of each name
    that is not valid; None: the error is raised.

    Raises:
        NfsError: the directory cannot be read; and the errors of `Caller.call`.
        OSError: EOVERFLOW: the listing continues after `names_max` names.
        RemoteProtocolError: the server lists the same entries without end, or, without `refused`, an invalid name.
    """
    procedures = volume.procedures
    listing = _Listing(procedures, directory, (await volume.sizes()).listing, names_max, refused)
    try:
        async for page in listing.pages(plus=True):
            yield await _entries(procedures, directory, page)
    except NfsError as error:
        if error.status != nfsstat3.NFS3ERR_NOTSUPP:
            raise
    else:
        return
    async for page in listing.pages(plus=False):
        yield await _entries(procedures, directory, page)


async def first_entries(volume: Volume, directory: Node) -> list[DirEntry]:
    """Returns the entries of `directory` that one READDIRPLUS call lists with attributes and handles.

    Entries without these, and those with invalid names, are left out, also "." and "..".

    Raises:
        NfsError: the directory cannot be read, or the server has no READDIRPLUS (NFS3ERR_NOTSUPP); and the errors of
            `Caller.call`.
    """
    listing = _Listing(volume.procedures, directory, (await volume.sizes()).listing, 0, lambda _error: None)
    page, _, _ = await listing.page(0, _NO_VERIFIER, plus=True)
    entries = (_with_attributes(directory, name, entry) for name, entry in listing.new(page))
    return [entry for entry in entries if entry is not None]


class _Listing:
    def __init__(
        self, procedures: NfsProcedures, directory: Node, octets: int, names_max: int, refused: Refused | None
    ) -> None:
        self._procedures = procedures
        self._directory = directory
        self._octets = octets
        self._names_max = names_max
        self._refused = refused
        self._names = 0
        self._known: set[str] | None = set()
        """The names so far; None once they are more than `NFS_LISTED_NAMES_KNOWN_MAX`."""

    async def pages(self, *, plus: bool) -> AsyncIterator[list[tuple[str, _Entry]]]:
        cookie, verifier, restarts = 0, _NO_VERIFIER, 0
        pages, idle, idle_max = 0, 0, _IDLE_PAGES_MAX
        circle = _Circle()
        while True:
            try:
                entries, eof, verifier = await self.page(cookie, verifier, plus=plus)
            except NfsError as error:
                repeatable = cookie and restarts < _RESTARTS_MAX and self._known is not None
                if error.status == nfsstat3.NFS3ERR_BAD_COOKIE and repeatable:
                    cookie, verifier, restarts = 0, _NO_VERIFIER, restarts + 1
                    idle, idle_max = 0, _IDLE_PAGES_MAX + pages
                    circle = _Circle()
                    continue
                if error.status == nfsstat3.NFS3ERR_TOOSMALL and self._octets < _PAGE_OCTETS_MAX:
                    self._octets *= 4
                    continue
                raise
            page = self.new(entries)
            pages += 1
            idle = 0 if page else idle + 1
            if page:
                yield page
            if eof:
                return
            if not entries or entries[-1].cookie == cookie or idle > idle_max or circle.closes(entries[-1].cookie):
                text = "the server lists the same entries again and again"
                raise found_at(self._directory.place, RemoteProtocolError(text, rfc="1813 3.3.16"))
            if self._names >= self._names_max:
                text = f"the server lists more than {self._names_max:,} names here, perhaps without end"
                raise ServerPathError(errno.EOVERFLOW, text, self._directory.path)
            cookie = entries[-1].cookie

    async def page(
        self, cookie: int, verifier: bytes, *, plus: bool
    ) -> tuple[list[entry3] | list[entryplus3], bool, bytes]:
        arguments = (self._directory, cookie, verifier, self._octets)
        if plus:
            with_attributes = await self._procedures.readdirplus(*arguments)
            return with_attributes.reply.entries, with_attributes.reply.eof, with_attributes.cookieverf
        without = await self._procedures.readdir(*arguments)
        return without.reply.entries, without.reply.eof, without.cookieverf

    def new(self, entries: list[entry3] | list[entryplus3]) -> list[tuple[str, _Entry]]:
        known = self._known
        page: list[tuple[str, _Entry]] = []
        for entry in entries:
            try:
                name = listed_name(entry.name)
            except RemoteProtocolError as error:
                if self._refused is None:
                    raise found_at(self._directory.place, error) from None
                self._names += 1
                self._refused(ServerPathError(errno.EINVAL, str(error), self._directory.path))
                continue
            if name is None or (known is not None and name in known):
                continue
            self._names += 1
            page.append((name, entry))
            if known is not None:
                known.add(name)
        if known is not None and len(known) > NFS_LISTED_NAMES_KNOWN_MAX:
            self._known = None
        return page


class _Circle:
    """Detects cookies that repeat, in constant memory: keeps one cookie, and replaces it after 1, 2, 4, 8... pages.

    `closes` takes the cookie that ends a page; it returns True if that equals the kept cookie, which stays, else False.
    """

    def __init__(self) -> None:
        self._mark: int | None = None
        self._steps = 0
        self._most = 1

    def closes(self, cookie: int) -> bool:
        if cookie == self._mark:
            return True
        self._steps += 1
        if self._steps == self._most:
            self._mark, self._steps, self._most = cookie, 0, 2 * self._most
        return False


async def _entries(procedures: NfsProcedures, directory: Node, page: list[tuple[str, _Entry]]) -> list[DirEntry]:
    found: list[DirEntry | None] = []
    missing: list[int] = []
    for name, entry in page:
        known = _with_attributes(directory, name, entry)
        if known is None:
            missing.append(len(found))
        found.append(known)
    if missing:
        await _look_up(procedures, directory, [name for name, _ in page], missing, found)
    return [entry for entry in found if entry is not None]


def _with_attributes(directory: Node, name: str, entry: _Entry) -> DirEntry | None:
    """Returns the `DirEntry` of `name` in `directory`; None if `entry`, of a reply, lacks its attributes or handle."""
    if isinstance(entry, entryplus3):
        attributes, handle = entry.name_attributes.value, entry.name_handle.value
        if attributes is not None and handle is not None:
            return DirEntry(name, directory, handle, attributes)
    return None


async def _look_up(
    procedures: NfsProcedures, directory: Node, names: list[str], missing: list[int], found: list[DirEntry | None]
) -> None:
    async def one(index: int) -> None:
        name = names[index]
        try:
            node = await procedures.lookup(directory, name)
        except NfsNotFound:
            return  # removed since it was listed
        except NfsError as error:
            found[index] = DirEntry(name, directory, None, None, error)
            return
        assert node.attributes is not None, "lookup() sees to it"
        found[index] = DirEntry(name, directory, node.handle, node.attributes)

    for start in range(0, len(missing), _LOOKUPS_AT_ONCE):
        await asyncio.gather(*(one(index) for index in missing[start : start + _LOOKUPS_AT_ONCE]))
