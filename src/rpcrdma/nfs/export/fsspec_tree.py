"""File systems of fsspec as read-only exports: an object store, an archive, a directory of another protocol.

A handle names a path and a kind, by digest: an object that replaces another of its path and kind keeps the handle, and
has another state. The places of the server's state lead from the digest to the path, also after a restart.

The state of an object and the names in a directory are used for `Export.valid_s` seconds after the library was asked
for them. Libraries give directories no state in which a change of their entries would show. So a directory counts as
changed each time its state is asked for anew, and clients look at its names again.
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Callable, Iterator
from itertools import chain

from rpcrdma.nfs.export.access_control import AdmittedTree, HostAdmission
from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.directory_listing import COOKIE_DOT, COOKIE_DOT_DOT, DirectoryListings, ListedEntry, name_digest
from rpcrdma.nfs.export.export_limits import (
    NFS_FSSPEC_LISTINGS_OCTETS_MAX,
    NFS_FSSPEC_OBJECTS_MAX,
    NFS_FSSPEC_PATH_OCTETS_MAX,
)
from rpcrdma.nfs.export.file_handle import HandleSeal, export_identity
from rpcrdma.nfs.export.fsspec_info import ObjectInfo, packed_info, unpacked_info
from rpcrdma.nfs.export.fsspec_store import FsspecStore
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.name_rules import check_directory, check_name
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.read_ahead import BlockCache
from rpcrdma.nfs.export.read_only import ReadOnlyFile, ReadOnlyNode
from rpcrdma.nfs.export.server_state import DELETED, ServerState
from rpcrdma.nfs.export.tree import (
    LOOKUP,
    MODIFY,
    READ,
    TRANSFER_OCTETS_MAX,
    Access,
    Attributes,
    Entry,
    FileKind,
    Refused,
)

__all__ = ["FsspecFile", "FsspecNode", "FsspecParts", "FsspecTree"]

_MODES = {FileKind.FILE: 0o444, FileKind.DIRECTORY: 0o555, FileKind.SYMLINK: 0o777}
_FORMS = {FileKind.FILE: b"\x10", FileKind.DIRECTORY: b"\x11", FileKind.SYMLINK: b"\x12"}
"""The first octet of an object's identity in handles, by kind; a digest follows. `file_handle` uses other octets."""
_KINDS = {form: kind for kind, form in _FORMS.items()}
_SECOND_NS = 1_000_000_000


def _of_handle(refused: Refused) -> Refused:
    """Returns Refused(ESTALE) if `refused`, about the path of a handle, is ENOENT or ENOTDIR; else `refused` itself."""
    return Refused(errno.ESTALE) if refused.errno in {errno.ENOENT, errno.ENOTDIR} else refused


class FsspecNode(ReadOnlyNode):
    """An object of a store; implements `tree.Node` and `Cacheable`.

    `info` is the object's state when the store was asked for it: at `asked_s`, in seconds of `FsspecParts.clock`.
    """

    __slots__ = ("_attributes", "asked_s", "handle", "info", "number", "path", "tree", "used")

    def __init__(self, tree: FsspecTree, path: str, info: ObjectInfo, asked_s: float) -> None:
        self.tree = tree
        self.path = path
        """The path from the root of the export, "" for the root itself."""
        self.info = info
        self.asked_s = asked_s
        self.handle, self.number = tree.handle_of(path, info.kind)
        """The NFS handle, and the inode number."""
        self.used = True
        self._attributes: Attributes | None = None

    @property
    def kind(self) -> FileKind:
        return self.info.kind

    @property
    def size(self) -> int:
        """The size of the object in octets, 0 if it is unknown."""
        return self.info.size or 0

    @property
    def change(self) -> int:
        """A number that changes with the content; without one, the time when the store was asked, in ns since 1970."""
        return self.info.change or self.tree.clock_ns(self.asked_s)

    def attributes(self) -> Attributes:
        attributes = self._attributes
        if attributes is None:
            attributes = self._attributes = self._made()
        return attributes

    def _made(self) -> Attributes:
        info, export = self.info, self.tree.export
        mtime_ns = self.tree.started_ns if info.mtime_ns is None else info.mtime_ns
        # Version 3 knows states by this time alone: its parts of a second differ where the content does.
        ctime_ns = self.change if info.change is None else mtime_ns + info.change % _SECOND_NS
        return Attributes(
            info.kind,
            _MODES[info.kind],
            2 if info.kind is FileKind.DIRECTORY else 1,
            export.anonymous_uid,
            export.anonymous_gid,
            self.size,
            self.size,
            (0, 0),
            self.tree.fsid,
            self.number,
            mtime_ns,
            mtime_ns,
            ctime_ns,
            self.change,
        )

    def access(self, who: Grant, wanted: Access) -> Access:  # noqa: ARG002 - alike for all
        return wanted & (READ | LOOKUP if self.kind is FileKind.DIRECTORY else READ)

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> FsspecNode | None:  # noqa: ARG002 - alike for all
        check_directory(self)
        if name == b".":
            return self
        if name == b"..":
            return self.tree.known(self._above(), FileKind.DIRECTORY) if at_once else self.parent()
        check_name(name)
        return self.tree.child(self, name, at_once=at_once)

    def parent(self) -> FsspecNode:
        return self.tree.at(self._above(), FileKind.DIRECTORY)

    def read_link(self) -> bytes:
        if self.kind is not FileKind.SYMLINK:
            raise Refused(errno.EINVAL)
        target = self.info.target
        if target is None:
            target = self.tree.at(self.path, FileKind.SYMLINK, anew=True).info.target
        return target or b""

    def entries(self, who: Grant, after: int, *, detailed: bool) -> _Entries:  # noqa: ARG002 - alike for all
        check_directory(self)
        return _Entries(self, after, detailed=detailed)

    def open(self, who: Grant, wanted: Access, *, at_once: bool) -> FsspecFile:  # noqa: ARG002 - alike for all
        if self.kind is not FileKind.FILE:
            raise Refused(errno.EISDIR if self.kind is FileKind.DIRECTORY else errno.EINVAL)
        if wanted & MODIFY:
            raise Refused(errno.EROFS)
        return FsspecFile(self)

    def open_to_read(self, who: Grant, *, at_once: bool) -> tuple[FsspecFile, Attributes]:
        return self.open(who, READ, at_once=at_once), self.attributes()

    def _above(self) -> str:
        return self.path.rpartition("/")[0]


class FsspecFile(ReadOnlyFile):
    """An open file of a store in one state of its content; implements `tree.OpenFile` and `read_ahead.RemoteFile`."""

    __slots__ = ("_node", "change", "handle", "size")

    def __init__(self, node: FsspecNode) -> None:
        self._node = node
        self.handle = node.handle
        self.change = node.change
        self.size = node.size

    def attributes(self) -> Attributes:
        return self._node.attributes()

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        """Reads from `offset`, in octets, into a buffer; returns the number of octets read.

        The number is smaller than the buffer's length only at the end of the file, or with `at_once`, where reading
        stops before the first octet that the store has to be asked for. Raises OSError or Refused: EAGAIN: the size has
        changed, or the store cannot answer; EIO and others.
        """
        return self._node.tree.blocks.read(self, buffer, offset, at_once=at_once)

    def fetch(self, start: int, end: int) -> bytes:
        """Asks the store for the octets from `start` to before `end` of the file, and returns all of them.

        Raises Refused: ESTALE: the file is gone; EAGAIN: its size has changed; EIO: octets are missing; and other
        errors of `FsspecStore.read`.
        """
        node, store = self._node, self._node.tree.store
        try:
            data = store.read(node.path, start, end)
        except Refused as refused:
            raise _of_handle(refused) from None
        if len(data) != end - start:
            if node.tree.at(node.path, FileKind.FILE, anew=True).size != node.size:
                raise Refused(errno.EAGAIN)
            store.complain(node.path, f"{len(data)} octets were read from {start} to {end}; its size is {node.size}")
            raise Refused(errno.EIO)
        return data


class _Entries:
    """The entries of a directory of a store after a cookie, read during iteration; implements `tree.Entries`.

    `after` is the cookie, and `detailed` whether the entries have filehandles and attributes.
    """

    def __init__(self, directory: FsspecNode, after: int, *, detailed: bool) -> None:
        self.complete = False
        self._directory = directory
        self._after = after
        self._detailed = detailed

    def __iter__(self) -> Iterator[Entry]:
        tree, directory = self._directory.tree, self._directory
        rows, complete = tree.listed(directory, self._after)
        return chain(self._dots(), self._described(tree, directory, rows, complete=complete))

    def _dots(self) -> Iterator[Entry]:
        directory = self._directory
        for cookie, name in ((COOKIE_DOT, b"."), (COOKIE_DOT_DOT, b"..")):
            if cookie <= self._after:
                continue
            if self._detailed:
                node = directory if cookie == COOKIE_DOT else directory.parent()
                yield Entry(cookie, name, node.number, node.handle, node.attributes())
            else:
                above = directory.path if cookie == COOKIE_DOT else directory.path.rpartition("/")[0]
                yield Entry(cookie, name, directory.tree.handle_of(above, FileKind.DIRECTORY)[1])

    def _described(
        self, tree: FsspecTree, directory: FsspecNode, rows: Iterator[ListedEntry], *, complete: bool
    ) -> Iterator[Entry]:
        cookie, names = 0, set[bytes]()
        for row in rows:
            name, _, packed = row.name.partition(b"\0")
            if row.cookie != cookie:
                cookie, names = row.cookie, {name}
            elif name in names:
                # A store may have a file and a directory of one name.
                continue
            else:
                names.add(name)
            info, asked_s = unpacked_info(packed)
            path = tree.join(directory, name)
            if path is None:
                continue
            if not self._detailed or (info.size is None and info.kind is FileKind.FILE):
                yield Entry(cookie, name, tree.handle_of(path, info.kind)[1])
            else:
                node = tree.adopt(path, info, asked_s, directory.handle)
                yield Entry(cookie, name, node.number, node.handle, node.attributes())
        self.complete = complete


class FsspecParts:
    """The caches and the handle key of all fsspec trees of a server. Thread-safe.

    Args:
        state: has the key that seals file handles, and the places of objects; both stay from run to run.
        clock: returns monotonic seconds.
        admission: decides which calls may use the exports, and as which user.
    """

    def __init__(self, state: ServerState, clock: Callable[[], float], admission: HostAdmission) -> None:
        self.clock = clock
        self.admission = admission
        self._started_s = clock()
        self.started_ns = time.time_ns()
        self.seal = HandleSeal(state.key)
        self.places = state.places
        self.nodes: ObjectCache[FsspecNode] = ObjectCache(NFS_FSSPEC_OBJECTS_MAX)
        self.cookie_of = name_digest(state.key)
        self.listings = DirectoryListings(
            lambda row: self.cookie_of(row.partition(b"\0")[0]), NFS_FSSPEC_LISTINGS_OCTETS_MAX
        )
        self.blocks = BlockCache()

    def clock_ns(self, at_s: float) -> int:
        """Converts `at_s`, a time on `clock` in seconds, to nanoseconds since 1970."""
        return self.started_ns + round((at_s - self._started_s) * _SECOND_NS)


class FsspecTree(AdmittedTree):
    """One exported file system of fsspec, read-only; implements `tree.Tree`. All trees of a server share its `parts`.

    Raises OSError: a package is missing, or the export's URL cannot be read or leads to no directory.
    """

    in_memory = False
    keeps_removed = False
    transfer_octets = TRANSFER_OCTETS_MAX
    xattrs = False

    def __init__(self, export: Export, parts: FsspecParts) -> None:
        assert export.url is not None
        self.export = export
        self.gone = False
        """Whether the tree is no longer served: only calls that began before use its objects."""
        self._since_s = float("-inf")
        """The time on the server's clock, in seconds, since which nodes show the present terms."""
        self.identity = self.file_system = export_identity(export.name)
        self.fsid = int.from_bytes(self.identity, "big")
        self.started_ns = parts.started_ns
        self.clock_ns = parts.clock_ns
        self.blocks = parts.blocks
        self._parts = parts
        self.admission = parts.admission
        self.store = FsspecStore(export.url, export.storage_options, lambda: parts.clock_ns(parts.clock()))
        self._digest = hashlib.blake2b(self.store.identity + b"\0", digest_size=24, person=b"nfs-path")
        self._root_handle = self.handle_of("", FileKind.DIRECTORY)[0]

    @property
    def root(self) -> FsspecNode:
        # The library is not asked for it.
        return self.at("", FileKind.DIRECTORY)

    def stands_for(self, export: Export) -> bool:
        """Returns whether this tree can serve `export`: its URL and storage options are the same."""
        return (self.export.url, self.export.storage_options) == (export.url, export.storage_options)

    def set_terms(self, export: Export) -> None:
        """Replaces the terms of the export by `export`, with the same name and URL, for later calls; never waits."""
        if (export.anonymous_uid, export.anonymous_gid) != (self.export.anonymous_uid, self.export.anonymous_gid):
            self._since_s = self._parts.clock()
        super().set_terms(export)

    def close(self) -> None:
        """Logs the number of faults of the store that the log has held back; may be called again."""
        self.store.flush()

    def file_of(self, handle: bytes) -> bytes:
        """Returns the handle itself as the key in `claims.Claims`; an object in two exports so has two keys."""
        return handle

    def handle_of(self, path: str, kind: FileKind) -> tuple[bytes, int]:
        """Returns (NFS handle, inode number) of an object of `kind` at `path` below the root, which need not exist."""
        hashed = self._digest.copy()
        hashed.update(_FORMS[kind] + path.encode("utf-8", "surrogateescape"))
        digest = hashed.digest()
        number = int.from_bytes(digest[:8], "big") or 1
        return self._parts.seal.close(self.identity, number, _FORMS[kind] + digest[8:]), number

    def join(self, directory: FsspecNode, name: bytes) -> str | None:
        """Returns the path of `name` in `directory` (surrogateescape); None: `NFS_FSSPEC_PATH_OCTETS_MAX` exceeded."""
        text = name.decode("utf-8", "surrogateescape")
        path = f"{directory.path}/{text}" if directory.path else text
        # A character has four octets at the most.
        if 4 * len(path) > NFS_FSSPEC_PATH_OCTETS_MAX < len(path.encode("utf-8", "surrogateescape")):
            return None
        return path

    def known(self, path: str, kind: FileKind) -> FsspecNode | None:
        """Returns the cached object of a path and kind if its state is still valid, else None; never waits."""
        node = self._parts.nodes.held.get(self.handle_of(path, kind)[0])
        return node if node is not None and node.tree is self and self.is_inside(node) else None

    def is_inside(self, node: FsspecNode, *, at_once: bool = False) -> bool:  # noqa: ARG002 - it never waits
        """Returns whether a node's state is still valid, and marks the node as used; `at_once` has no effect.

        A state is valid for `Export.valid_s` seconds, unless the export's anonymous user or group changes earlier.
        """
        node.used = True
        return self._since_s <= node.asked_s and self._parts.clock() - node.asked_s < self.export.valid_s

    def at(self, path: str, kind: FileKind, *, anew: bool = False) -> FsspecNode:
        """Returns the object of a path below the root ("": the root itself) and a kind, cached or from the store.

        With `anew` the store is asked even if a valid state is cached.

        Raises Refused: ESTALE: the path has no object of this kind; other errors of `FsspecStore.info` and `adopt`.
        """
        node = None if anew else self.known(path, kind)
        if node is not None:
            return node
        asked_s = self._parts.clock()
        try:
            info = self.store.info(path, kind=kind)
        except Refused as refused:
            raise _of_handle(refused) from None
        if info.kind is not kind:
            raise Refused(errno.ESTALE)
        return self.adopt(path, info, asked_s)

    def child(self, directory: FsspecNode, name: bytes, *, at_once: bool) -> FsspecNode | None:
        """Returns the object `name` in `directory`, from the cache or the store.

        With `at_once` never waits, and returns None if the cache has no valid state of the object. Raises Refused:
        ENAMETOOLONG: the path is too long; ENOENT; errors of `FsspecStore.info`, `adopt` and `listed`.
        """
        path = self.join(directory, name)
        if path is None:
            raise Refused(errno.ENAMETOOLONG)
        for kind in _FORMS:
            if (node := self.known(path, kind)) is not None:
                return node
        if at_once:
            return None
        asked_s = self._parts.clock()
        if not self.store.only_lists:
            return self.adopt(path, self.store.info(path), asked_s, directory.handle)
        self.listed(directory, 0)
        cookie = self._parts.cookie_of(name)
        for row in self.listed(directory, cookie - 1)[0]:
            listed, _, packed = row.name.partition(b"\0")
            if listed == name:
                info = self.store.info(path, kind=unpacked_info(packed)[0].kind)
                return self.adopt(path, info, asked_s, directory.handle)
            if row.cookie != cookie:
                break
        raise Refused(errno.ENOENT)

    def adopt(self, path: str, info: ObjectInfo, asked_s: float, parent: bytes | None = None) -> FsspecNode:
        """Makes and returns a node for `path` in state `info`; caches it unless the cached one is as new or newer.

        Records the path, which may write to the disk. `asked_s` is the time (server's clock, in s) before the store was
        asked, `parent` the handle of the directory; None: it is computed. Raises Refused: EIO: a file without a size.
        """
        if info.size is None and info.kind is FileKind.FILE:
            self.store.complain(path, "the library does not tell its size, so that it cannot be read")
            raise Refused(errno.EIO)
        node = FsspecNode(self, path, info, asked_s)
        held = self._parts.nodes.held.get(node.handle)
        if held is None or held.tree is not self or held.asked_s < asked_s:
            self._parts.nodes.put(node)
        if path:
            above, _, name = path.rpartition("/")
            parent = parent or self.handle_of(above, FileKind.DIRECTORY)[0]
            places = self._parts.places
            places.remember(node.handle, parent, name.encode("utf-8", "surrogateescape"))
            if places.needs_flush:
                places.flush()
        return node

    def listed(self, directory: FsspecNode, after: int) -> tuple[Iterator[ListedEntry], bool]:
        """Returns (entries of `directory` after the cookie `after`, whether they reach to its end).

        Asks the store unless names read earlier serve. `ListedEntry.name` has the name, a null octet and the result of
        `packed_info`. Raises Refused: ESTALE: the directory is gone; other errors of `FsspecStore.listing`.
        """

        def scan() -> Iterator[tuple[bytes, int]]:
            asked_s = self._parts.clock()
            try:
                for name, info in self.store.listing(directory.path):
                    yield name + b"\0" + packed_info(info, asked_s), 0
            except Refused as refused:
                raise _of_handle(refused) from None

        version = self.clock_ns(directory.asked_s), 0
        return self._parts.listings.after(directory.handle, after, scan, version)

    def find(self, handle: bytes, *, at_once: bool) -> FsspecNode | None:
        """Returns the object of a handle of this server in its present state, from the cache or the store.

        With `at_once` always returns None, as the path of the handle may have to be read from the disk, or the state
        from the store. Raises Refused: ESTALE: no path is known for the handle, or the object is gone; other errors of
        `FsspecStore.info` and `adopt`.
        """
        if at_once:
            return None
        kind = _KINDS.get(HandleSeal.identity_in(handle)[:1])
        if kind is None:
            raise Refused(errno.ESTALE)
        held = self._parts.nodes.held.get(handle)
        path = self._path_of(handle) if held is None else held.path
        if self.handle_of(path, kind)[0] != handle:
            raise Refused(errno.ESTALE)
        return self.at(path, kind)

    def _path_of(self, handle: bytes) -> str:
        """Returns the path at which the object of a handle was last seen; raises Refused (ESTALE) if it is unknown."""
        names: list[bytes] = []
        octets = 0
        while handle != self._root_handle:
            place = self._parts.places.find(handle)
            if place is None or place == DELETED:
                raise Refused(errno.ESTALE)
            octets += len(place.name) + 1
            if octets > NFS_FSSPEC_PATH_OCTETS_MAX + 1:
                # A circle, which a damaged database may have.
                raise Refused(errno.ESTALE)
            names.append(place.name)
            handle = place.parent
        return b"/".join(reversed(names)).decode("utf-8", "surrogateescape")
