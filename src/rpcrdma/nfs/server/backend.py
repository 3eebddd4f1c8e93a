"""The parts that all procedures share: exports by handle, open objects and files, locks, and attributes."""

from __future__ import annotations

import logging
import os
import re
import resource
import stat
import threading
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeAlias

from rpcrdma.limits import NFS_FILES_OPEN_MAX, NFS_OBJECTS_OPEN_MAX
from rpcrdma.nfs import v3
from rpcrdma.nfs.server.directory_listing import DirectoryListings, name_digest
from rpcrdma.nfs.server.export import Export, HostAdmission
from rpcrdma.nfs.server.file_access import Callers, OpenFiles
from rpcrdma.nfs.server.file_handle import HandleSeal
from rpcrdma.nfs.server.linux_calls import UTIME_NOW, UTIME_OMIT, set_file_times
from rpcrdma.nfs.server.object_cache import ObjectCache
from rpcrdma.nfs.server.object_tree import HeldNode, ObjectTree
from rpcrdma.nfs.server.refusal import Refused
from rpcrdma.nfs.server.state import ServerState
from rpcrdma.rpc.service import CallContext

__all__ = [
    "DOTS",
    "Backend",
    "Changes",
    "Procedures",
    "attributes_of",
    "check_changeable",
    "check_directory",
    "entry_name",
    "nfs_time",
    "post_op",
    "post_op_of",
    "set_times",
]

DOTS = {b".", b".."}
"""Names that every directory has for itself and for the directory above."""

_LOGGER = logging.getLogger("rpcrdma.server")
_LOCKS = 256
"""Locks of all objects of a file system: two objects rarely share one."""
_UMASK = re.compile(rb"^Umask:\s*([0-7]+)$", re.MULTILINE)
_TYPES = {
    stat.S_IFREG: v3.ftype3.NF3REG,
    stat.S_IFDIR: v3.ftype3.NF3DIR,
    stat.S_IFBLK: v3.ftype3.NF3BLK,
    stat.S_IFCHR: v3.ftype3.NF3CHR,
    stat.S_IFLNK: v3.ftype3.NF3LNK,
    stat.S_IFSOCK: v3.ftype3.NF3SOCK,
    stat.S_IFIFO: v3.ftype3.NF3FIFO,
}
_TYPE_BITS = 0o170000
_U32 = 0xFFFFFFFF
_SECOND = 1_000_000_000
_NO_DEVICE = v3.specdata3(0, 0)

_How: TypeAlias = v3.set_atime | v3.set_mtime


def entry_name(text: str) -> bytes:
    """The octets of a name that stands for one entry of a directory.

    Raises:
        Refused: NFS3ERR_ACCES for an empty name, or one that is a path (RFC 1813 section 4.6); NFS3ERR_NAMETOOLONG.
    """
    name = text.encode("utf-8", "surrogateescape")
    if not name or b"/" in name or b"\0" in name:
        raise Refused(v3.nfsstat3.NFS3ERR_ACCES)
    if len(name) > v3.NFS3_MAXNAMLEN:
        raise Refused(v3.nfsstat3.NFS3ERR_NAMETOOLONG)
    return name


class Backend:
    """Thread-safe.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory cannot be exported.
    """

    def __init__(self, exports: Sequence[Export], state: ServerState) -> None:
        _check_system()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.state = state
        self.seal = HandleSeal(state.key)
        self.callers = Callers()
        self.nodes: ObjectCache[HeldNode] = ObjectCache(max(64, min(NFS_OBJECTS_OPEN_MAX, descriptors // 4)))
        self.files = OpenFiles(max(16, min(NFS_FILES_OPEN_MAX, descriptors // 8)))
        self.listings = DirectoryListings(name_digest(state.key))
        self.umask = _umask()
        self._told_of_sync = False
        self.admission = HostAdmission()
        self.trees: dict[bytes, ObjectTree] = {}
        locks: defaultdict[bytes, list[threading.RLock]] = defaultdict(
            lambda: [threading.RLock() for _ in range(_LOCKS)]
        )
        for export in exports:
            self.callers.try_out(export)
            tree = ObjectTree(export, self.seal, state.places, self.nodes, locks)
            if tree.identity in self.trees:
                raise ValueError(f"two exports have the name {export.name}: give each its own")
            self.trees[tree.identity] = tree
        self._file_systems = len({tree.file_system for tree in self.trees.values()})

    def waits_for(self, args: Any) -> bytes | None:
        """The file system that a call has to wait for, by the handle that its arguments begin with.

        None where all exports are on one.
        """
        if self._file_systems == 1:
            return None
        while not isinstance(args, bytes):
            args = getattr(args, args.__slots__[0])
        tree = self.trees.get(self.seal.export_in(args))
        return None if tree is None else tree.file_system

    def locate(self, handle: bytes, context: CallContext) -> HeldNode | None:
        """The object of a handle, in its export now.

        None in the event loop where that may block: the call goes on in a worker thread and asks again.

        Raises:
            Refused: NFS3ERR_BADHANDLE: the handle is not ours; NFS3ERR_STALE: its export or the object is gone;
                NFS3ERR_ACCES: the export is closed to this host; NFS3ERR_JUKEBOX: see `ObjectTree.find`.
            CredentialTooWeak: the export asks for another security flavor.
            OSError: the server may not reach the object.
        """
        node = self.nodes.held.get(handle)
        tree = self._tree_of(handle) if node is None else node.tree
        export = tree.export
        if export.hosts or export.xprtsec != "none" or context.credential.flavor not in export.security:
            self.admission.check(export, context)
        at_once = not context.may_block
        if node is not None and tree.is_inside(node, at_once=at_once):
            return node
        return tree.find(handle, at_once=at_once)

    def locate_in_worker(self, handle: bytes, context: CallContext) -> HeldNode:
        """As `locate`, for a call that runs in a worker thread from the start."""
        node = self.locate(handle, context)
        assert node is not None
        return node

    def locate_to_change(self, handle: bytes, context: CallContext) -> HeldNode:
        """As `locate_in_worker`, for a call that changes the object.

        Raises:
            Refused: NFS3ERR_ROFS, or as `locate`.
        """
        node = self.locate_in_worker(handle, context)
        check_changeable(node)
        return node

    def _tree_of(self, handle: bytes) -> ObjectTree:
        opened = self.seal.open(handle)
        if opened is None:
            raise Refused(v3.nfsstat3.NFS3ERR_BADHANDLE)
        tree = self.trees.get(opened.export)
        if tree is None:
            raise Refused(v3.nfsstat3.NFS3ERR_STALE)
        return tree

    def synchronize(self, *nodes: HeldNode) -> None:
        """Puts the attributes or the names of files and directories on the disk, if the export is synchronous."""
        for node in nodes:
            tree = node.tree
            if tree.in_memory or not tree.export.synchronous or node.kind not in {stat.S_IFREG, stat.S_IFDIR}:
                continue
            file = self.files.get(node) if node.kind == stat.S_IFREG else None
            if file is not None:
                os.fsync(file.fd)
                continue
            try:
                fd = os.open(node.link, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except PermissionError:
                # fsync takes a descriptor opened for reading, which the serving user may not be allowed to open.
                if not self._told_of_sync:
                    self._told_of_sync = True
                    _LOGGER.warning(
                        "this server may not open all that it changes, so that it puts whole file systems on the disk, "
                        "which takes longer: with CAP_DAC_READ_SEARCH it may (first case: export %s)",
                        tree.export.name,
                    )
                tree.sync_file_system()
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def removed(self, node: HeldNode) -> None:
        """Notes that an object has lost a name."""
        if node.tree.removed(node):
            self.files.drop(node)
            self.listings.forget(node.handle)

    def close_idle(self) -> None:
        """Drops objects and files that were not used since the last call, and writes places to disk; may block."""
        self.nodes.drop_idle()
        self.files.drop_idle()
        for tree in self.trees.values():
            tree.drop_idle()
        self.state.places.flush()

    def close(self) -> list[OSError]:
        """Puts unstable data on the disk and drops all objects and files; returns the errors. May be called again."""
        failures = self.files.close()
        self.nodes.drop_all()
        self.state.places.flush()
        self.admission.flush()
        return failures


class Procedures:
    """Procedures over a backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend


def check_changeable(node: HeldNode) -> None:
    """Refuses with NFS3ERR_ROFS the objects of a read-only export."""
    if node.tree.export.read_only:
        raise Refused(v3.nfsstat3.NFS3ERR_ROFS)


def check_directory(node: HeldNode) -> None:
    """Refuses with NFS3ERR_NOTDIR objects other than directories."""
    if node.kind != stat.S_IFDIR:
        raise Refused(v3.nfsstat3.NFS3ERR_NOTDIR)


def nfs_time(nanoseconds: int) -> v3.nfstime3:
    """A time of the file system; times before 1970 and after 2106 become the nearest that the protocol knows."""
    seconds = nanoseconds // _SECOND
    if 0 <= seconds <= _U32:
        return v3.nfstime3(seconds, nanoseconds - seconds * _SECOND)
    return v3.nfstime3(0, 0) if seconds < 0 else v3.nfstime3(_U32, nanoseconds % _SECOND)


def attributes_of(status: os.stat_result, fsid: int) -> v3.fattr3:
    """fattr3 of an object; `fsid` is the export's, which stays the same from run to run."""
    mode = status.st_mode
    links = status.st_nlink
    device = _NO_DEVICE
    if status.st_rdev:
        device = v3.specdata3(os.major(status.st_rdev), os.minor(status.st_rdev))
    return v3.fattr3(
        _TYPES[mode & _TYPE_BITS],
        mode & 0o7777,
        min(links, _U32),
        status.st_uid,
        status.st_gid,
        status.st_size,
        status.st_blocks * 512,
        device,
        fsid,
        status.st_ino,
        nfs_time(status.st_atime_ns),
        nfs_time(status.st_mtime_ns),
        nfs_time(status.st_ctime_ns),
    )


def post_op_of(node: HeldNode, status: os.stat_result) -> v3.post_op_attr:
    """An object's attributes in a state of it; those of the last reply, if it is in the same state."""
    state = (
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_atime_ns,
        status.st_size,
        status.st_blocks,
        status.st_mode,
        status.st_nlink,
        status.st_uid,
        status.st_gid,
    )
    told = node.told
    if told is not None and told[0] == state:
        return told[1]
    attributes = v3.post_op_attr(True, attributes_of(status, node.tree.fsid))
    node.told = state, attributes
    return attributes


def post_op(node: HeldNode | None) -> v3.post_op_attr:
    """An object's current attributes; none without an object, or where they cannot be read."""
    if node is not None:
        try:
            return post_op_of(node, os.fstat(node.fd))
        except OSError:
            pass
    return v3.post_op_attr(False, None)


class Changes:
    """Weak cache consistency data of one object (RFC 1813 section 2.6).

    `with changes:` holds the lock of `node` from before the first look at its attributes until after the second: no
    other client's change goes unnoticed in between. Without such a block the reply has the present attributes alone.
    """

    __slots__ = ("_after", "_before", "node")

    def __init__(self) -> None:
        self.node: HeldNode | None = None
        self._before: os.stat_result | None = None
        self._after: v3.post_op_attr | None = None

    @property
    def before(self) -> os.stat_result:
        """The attributes before the change."""
        assert self._before is not None
        return self._before

    def __enter__(self) -> None:
        assert self.node is not None
        self.node.lock.acquire()
        try:
            self._before = os.fstat(self.node.fd)
        except BaseException:
            self.node.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        assert self.node is not None
        self._after = post_op(self.node)
        self.node.lock.release()

    def data(self) -> v3.wcc_data:
        """The `wcc_data` of the reply."""
        before, after = self._before, self._after
        if before is None or after is None:
            return v3.wcc_data(v3.pre_op_attr(False, None), post_op(self.node))
        return v3.wcc_data(
            v3.pre_op_attr(
                True, v3.wcc_attr(before.st_size, nfs_time(before.st_mtime_ns), nfs_time(before.st_ctime_ns))
            ),
            after,
        )


def set_times(path: bytes, wanted: v3.sattr3) -> None:
    """Sets the times that a client asks to be set, with the calling thread's identity.

    Raises:
        Refused: NFS3ERR_INVAL: nanoseconds that make a second or more.
        OSError: the file system refuses.
    """
    atime, mtime = _time(wanted.atime), _time(wanted.mtime)
    if atime[1] != UTIME_OMIT or mtime[1] != UTIME_OMIT:
        set_file_times(path, atime, mtime)


def _time(how: _How) -> tuple[int, int]:
    if how.set_it == v3.time_how.SET_TO_CLIENT_TIME:
        time = how.value
        assert time is not None
        if time.nseconds >= _SECOND:
            raise Refused(v3.nfsstat3.NFS3ERR_INVAL)
        return time.seconds, time.nseconds
    return 0, UTIME_NOW if how.set_it == v3.time_how.SET_TO_SERVER_TIME else UTIME_OMIT


def _check_system() -> None:
    try:
        os.readlink("/proc/self")
    except OSError:
        raise OSError("the NFS server needs /proc, which is not mounted: run mount -t proc proc /proc") from None


def _umask() -> int:
    """The process's umask, without the write that `os.umask` makes to read it."""
    with open("/proc/self/status", "rb") as file:
        found = _UMASK.search(file.read())
    return int(found[1], 8) if found else 0o022
