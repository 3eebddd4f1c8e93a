"""Reads directories page by page: READDIRPLUS with attributes, READDIR for names alone.

A directory may change while it is read. Cookies then go on meaning what they meant or the server says
NFS3ERR_BAD_COOKIE; in that case the reading starts over, and no name is yielded twice either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rpcrdma.aio.files.procedures import NfsProcedures
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.client.directory_entry import DirEntry
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import join, listed_name
from rpcrdma.nfs.errors import NfsError, NfsNotFound
from rpcrdma.nfs.v3 import NFS3_COOKIEVERFSIZE, entry3, entryplus3, nfsstat3

__all__ = ["entry_pages", "name_pages"]

_NO_VERIFIER = bytes(NFS3_COOKIEVERFSIZE)
_RESTARTS_MAX = 5
_PAGE_OCTETS_MAX = 1 << 20
_IDLE_PAGES_MAX = 3
"""Pages in a row without a new name; after a restart as many more as had been read before."""
_LOOKUPS_AT_ONCE = 16

_Entry = entry3 | entryplus3


async def name_pages(procedures: NfsProcedures, directory: Node, octets: int) -> AsyncIterator[list[str]]:
    """The names in `directory`, `octets` of them at a time.

    Raises:
        NfsError: the directory cannot be read.
        RemoteProtocolError: the server lists what cannot be a name, or the same entries without end.
    """
    async for page in _pages(procedures, directory, octets, plus=False):
        yield [name for name, _ in page]


async def entry_pages(procedures: NfsProcedures, directory: Node, octets: int) -> AsyncIterator[list[DirEntry]]:
    """The entries of `directory` with attributes; those that the listing leaves out are looked up.

    Raises: see `name_pages`.
    """
    try:
        async for page in _pages(procedures, directory, octets, plus=True):
            yield await _entries(procedures, directory, page)
    except NfsError as error:
        if error.status != nfsstat3.NFS3ERR_NOTSUPP:
            raise
    else:
        return
    async for page in _pages(procedures, directory, octets, plus=False):
        yield await _entries(procedures, directory, page)


async def _pages(
    procedures: NfsProcedures, directory: Node, octets: int, *, plus: bool
) -> AsyncIterator[list[tuple[str, _Entry]]]:
    seen: set[str] = set()
    cookie, verifier, restarts = 0, _NO_VERIFIER, 0
    pages, idle, idle_max = 0, 0, _IDLE_PAGES_MAX
    entries: list[entry3] | list[entryplus3]
    while True:
        try:
            if plus:
                with_attributes = await procedures.readdirplus(directory, cookie, verifier, octets)
                entries, eof = with_attributes.reply.entries, with_attributes.reply.eof
                verifier = with_attributes.cookieverf
            else:
                without = await procedures.readdir(directory, cookie, verifier, octets)
                entries, eof, verifier = without.reply.entries, without.reply.eof, without.cookieverf
        except NfsError as error:
            if error.status == nfsstat3.NFS3ERR_BAD_COOKIE and cookie and restarts < _RESTARTS_MAX:
                cookie, verifier, restarts = 0, _NO_VERIFIER, restarts + 1
                idle, idle_max = 0, _IDLE_PAGES_MAX + pages
                continue
            if error.status == nfsstat3.NFS3ERR_TOOSMALL and octets < _PAGE_OCTETS_MAX:
                octets *= 4
                continue
            raise
        page: list[tuple[str, _Entry]] = []
        for entry in entries:
            name = listed_name(entry.name)
            if name is not None and name not in seen:
                seen.add(name)
                page.append((name, entry))
        pages += 1
        idle = 0 if page else idle + 1
        if page:
            yield page
        if eof:
            return
        if not entries or entries[-1].cookie == cookie or idle > idle_max:
            raise RemoteProtocolError(
                f"the server lists the same entries of {directory.path} again and again", rfc="1813 3.3.16"
            )
        cookie = entries[-1].cookie


async def _entries(procedures: NfsProcedures, directory: Node, page: list[tuple[str, _Entry]]) -> list[DirEntry]:
    found: list[DirEntry | None] = []
    missing: list[int] = []
    for name, entry in page:
        known: DirEntry | None = None
        if isinstance(entry, entryplus3):
            attributes, handle = entry.name_attributes.value, entry.name_handle.value
            if attributes is not None and handle is not None:
                known = DirEntry(name, join(directory.path, name), handle, attributes)
        if known is None:
            missing.append(len(found))
        found.append(known)
    if missing:
        await _look_up(procedures, directory, [name for name, _ in page], missing, found)
    return [entry for entry in found if entry is not None]


async def _look_up(
    procedures: NfsProcedures, directory: Node, names: list[str], missing: list[int], found: list[DirEntry | None]
) -> None:
    async def one(index: int) -> None:
        name = names[index]
        try:
            node = await procedures.lookup(directory, name, join(directory.path, name))
        except NfsNotFound:
            return  # removed since it was listed
        assert node.attributes is not None, "lookup() sees to it"
        found[index] = DirEntry(name, node.path, node.handle, node.attributes)

    for start in range(0, len(missing), _LOOKUPS_AT_ONCE):
        await asyncio.gather(*(one(index) for index in missing[start : start + _LOOKUPS_AT_ONCE]))
