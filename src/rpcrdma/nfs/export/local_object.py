"""The parts that all objects of local directories share: callers, open files, listings, and their tree."""

from __future__ import annotations

import logging
import os
import re
import resource
import threading
from collections import defaultdict
from typing import Any

from rpcrdma.nfs.export.access_control import AdmittedTree, HostAdmission
from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.directory_listing import DirectoryListings, name_digest
from rpcrdma.nfs.export.export_limits import NFS_FILES_OPEN_MAX, NFS_OBJECTS_OPEN_MAX
from rpcrdma.nfs.export.file_access import Callers, OpenFiles
from rpcrdma.nfs.export.file_handle import HandleSeal
from rpcrdma.nfs.export.linux_calls import has_user_xattrs
from rpcrdma.nfs.export.local_leases import LocalLeases
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.object_tree import N, ObjectTree
from rpcrdma.nfs.export.open_object import ChangeCounts, HeldNode
from rpcrdma.nfs.export.server_state import ServerState
from rpcrdma.nfs.export.tree import TRANSFER_OCTETS_MAX, FileKind
from rpcrdma.nfs.export.user_groups import UserGroups

__all__ = ["LocalObject", "LocalParts", "PartedTree"]

_LOCKS = 256
"""Locks for all objects of a file system: so many that two objects rarely share a lock."""
_LOGGER = logging.getLogger("rpcrdma.server")
_UMASK = re.compile(rb"^Umask:\s*([0-7]+)$", re.MULTILINE)


class LocalParts:
    """The parts that all local trees of a server share: objects, identities, leases, files, listings. Thread-safe.

    `state` is what the server keeps from run to run, with the key of its file handles. Raises PermissionError: the
    server runs as root without the capabilities to act as other users.
    """

    def __init__(self, state: ServerState) -> None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.state = state
        self.seal = HandleSeal(state.key)
        self.callers = Callers()
        self.groups = UserGroups()
        """The groups of users by this machine's user database, for exports that ask for them."""
        self.admission = HostAdmission(self.callers.of, self.groups if self.callers.switches else None)
        self.nodes: ObjectCache[Any] = ObjectCache(max(64, min(NFS_OBJECTS_OPEN_MAX, descriptors // 4)))
        self.locks: defaultdict[bytes, list[threading.RLock]] = defaultdict(
            lambda: [threading.RLock() for _ in range(_LOCKS)]
        )
        self.leases = LocalLeases()
        self.files = OpenFiles(max(16, min(NFS_FILES_OPEN_MAX, descriptors // 8)), state, self.leases)
        self.listings = DirectoryListings(name_digest(state.key))
        self.changes: ChangeCounts = {}
        self.umask = _umask()
        self._told_of_sync = False

    def synchronize(self, *nodes: HeldNode) -> None:
        """Syncs (fsync) each file and directory in `nodes` whose export is `synchronous` and on a disk; may block.

        Skips other nodes. Syncs the whole file system of an object that the server may not open to read, and logs a
        warning the first time. Raises OSError if an open or a sync fails.
        """
        for node in nodes:
            tree = node.tree
            if tree.in_memory or not tree.export.synchronous or node.kind not in {FileKind.FILE, FileKind.DIRECTORY}:
                continue
            file = self.files.get(node) if node.kind == FileKind.FILE else None
            if file is not None:
                file.sync()
                continue
            try:
                fd = os.open(node.proc_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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


class PartedTree(AdmittedTree, ObjectTree[N]):
    """An exported local directory with `parts`: what all such trees of a server share, such as their open files.

    `export` has the terms of the export, and `mounts` the mounted file systems. The class attributes implement fields
    of `tree.Tree`. Raises OSError: the directory cannot be exported.
    """

    keeps_removed = True
    transfer_octets = TRANSFER_OCTETS_MAX

    def __init__(self, export: Export, parts: LocalParts, mounts: MountTable) -> None:
        super().__init__(export, parts.seal, parts.state.places, parts.nodes, parts.locks, parts.changes, mounts)
        self.parts = parts
        self.admission = parts.admission
        self.xattrs = has_user_xattrs(self.root.proc_path)


class LocalObject(HeldNode):
    """An object of a `PartedTree`: the base of the classes that implement the methods of `tree.Node`."""

    __slots__ = ()
    tree: PartedTree[Any]

    def was_changed(self) -> None:
        """Counts a new, other or lost name of this object as a change of it, for its NFSv4 attribute `change`.

        `Changing` counts a change of a name for the directory alone, under the directory's lock. This method takes the
        object's lock; the caller holds no object's lock any more: threads that hold two might wait for each other.
        """
        with self.lock:
            self.count_change(self.attributes())

    def was_removed(self) -> None:
        """Drops the cached node and the recorded place of this object, which has lost a name.

        If no name is left, drops its cached open file and listing as well. May raise OSError.
        """
        if self.tree.removed(self):
            self.tree.parts.files.drop(self)
            self.tree.parts.listings.forget(self.handle)


def _umask() -> int:
    """Returns the process's umask without changing it, unlike `os.umask`; 0o022 if the kernel does not report it."""
    with open("/proc/self/status", "rb") as file:
        found = _UMASK.search(file.read())
    return int(found[1], 8) if found else 0o022
