"""Procedures that list directories: READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Entry, Node
from rpcrdma.nfs.v3.server.attributes import fattr3_of, post_op
from rpcrdma.nfs.v3.server.procedures import REFUSALS, Procedures, StatusRefusal, status_of
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["ListingProcedures"]

_OK = v3.nfsstat3.NFS3_OK
_REPLY_OCTETS_MAX = 1 << 20
_NO_VERIFIER = bytes(8)
"""The cookie verifier of every reply: cookies are valid for ever, so none needs to be verified."""

_FIXED_OCTETS = 88 + 8 + 4 + 4
"""Octets of a reply without entries: dir_attributes, cookieverf, the end of the list, eof."""
_ENTRY_OCTETS = 4 + 8 + 4 + 8
"""Octets of an entry without its name: value follows, fileid, length of the name, cookie."""
_NO_ATTRIBUTES = v3.post_op_attr(False, None)
_NO_HANDLE = v3.post_op_fh3(False, None)

E = TypeVar("E", v3.entry3, v3.entryplus3)
_Describe: TypeAlias = Callable[[Entry], tuple[E, int, int]]
"""Returns (the entry for a reply, its octets there, those without attributes and handle)."""


class _Page(Generic[E]):
    """The entries of a READDIR or READDIRPLUS reply, within the octets that the client asks for.

    `octets_max` bounds the whole result, which never has more than 1 MiB. `names_octets_max` bounds the octets of
    names, fileids and cookies, but the first entry of a page may exceed it. `eof`, False at first, is set by the owner.
    """

    def __init__(self, octets_max: int, names_octets_max: int = _REPLY_OCTETS_MAX) -> None:
        self.entries: list[E] = []
        self.eof = False
        self._cookies: list[int] = []
        self._left = min(octets_max, _REPLY_OCTETS_MAX) - _FIXED_OCTETS
        self._names_left = names_octets_max

    def add(self, entry: Entry, item: E, octets: int, plain_octets: int) -> bool:
        """Adds `item` to the reply if it fits, and returns whether it did.

        If not, entries at the end of the reply whose cookie equals that of `entry` are removed, too: the client's next
        call continues after a cookie.

        Args:
            entry: the entry of the directory, whose cookie is used.
            item: the same entry as entry3 or entryplus3, for the reply.
            octets: the octets of `item` in the reply.
            plain_octets: the octets of `item` without attributes and handle.
        """
        names_octets = plain_octets - 4
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
    """READDIR and READDIRPLUS (RFC 1813 sections 3.3.16 and 3.3.17), for `NfsService`."""

    @in_worker
    def readdir(self, args: v3.READDIR3args, context: CallContext) -> v3.READDIR3res:
        node = None
        try:
            node, who = self.locate_in_worker(args.dir.data, context)
            page = _Page[v3.entry3](args.count)
            _fill(page, node, who, args.cookie, _plain, detailed=False)
            return v3.READDIR3res(
                _OK, v3.READDIR3resok(post_op(node), _NO_VERIFIER, v3.dirlist3(page.entries, page.eof))
            )
        except REFUSALS as error:
            return v3.READDIR3res(status_of(error), v3.READDIR3resfail(post_op(node)))

    @in_worker
    def readdirplus(self, args: v3.READDIRPLUS3args, context: CallContext) -> v3.READDIRPLUS3res:
        node = None
        try:
            node, who = self.locate_in_worker(args.dir.data, context)
            page = _Page[v3.entryplus3](args.maxcount, args.dircount)
            _fill(page, node, who, args.cookie, _described, detailed=True)
            return v3.READDIRPLUS3res(
                _OK, v3.READDIRPLUS3resok(post_op(node), _NO_VERIFIER, v3.dirlistplus3(page.entries, page.eof))
            )
        except REFUSALS as error:
            return v3.READDIRPLUS3res(status_of(error), v3.READDIRPLUS3resfail(post_op(node)))


def _fill(page: _Page[E], node: Node, who: Grant, cookie: int, describe: _Describe[E], *, detailed: bool) -> None:
    entries = node.entries(who, cookie, detailed=detailed)
    for entry in entries:
        if not page.add(entry, *describe(entry)):
            if not page.entries:
                raise StatusRefusal(v3.nfsstat3.NFS3ERR_TOOSMALL)
            return
    page.eof = entries.complete


def _plain(entry: Entry) -> tuple[v3.entry3, int, int]:
    name = entry.name
    octets = _ENTRY_OCTETS + ((len(name) + 3) & ~3)
    return v3.entry3(entry.number, name.decode("utf-8", "surrogateescape"), entry.cookie), octets, octets


def _described(entry: Entry) -> tuple[v3.entryplus3, int, int]:
    """Returns (`entry` as entryplus3, its octets in the reply, its octets there without attributes and handle)."""
    name, fh, found = entry.name, entry.handle, entry.attributes
    attributes, handle = _NO_ATTRIBUTES, _NO_HANDLE
    plain_octets = _ENTRY_OCTETS + ((len(name) + 3) & ~3)
    octets = plain_octets + 4 + 4
    if fh is not None and found is not None:
        attributes = v3.post_op_attr(True, fattr3_of(found))
        handle = v3.post_op_fh3(True, v3.nfs_fh3(fh))
        octets += 84 + 4 + ((len(fh) + 3) & ~3)
    text = name.decode("utf-8", "surrogateescape")
    return v3.entryplus3(entry.number, text, entry.cookie, attributes, handle), octets, plain_octets
