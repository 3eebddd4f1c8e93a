"""Directories of this machine as exports: the objects of all their handles."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections import defaultdict
from collections.abc import Sequence

from rpcrdma.limits import NFS_OBJECTS_OPEN_MAX
from rpcrdma.nfs.export.admission import HostAdmission
from rpcrdma.nfs.export.export import Export, check_names
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_files import Files
from rpcrdma.nfs.export.local_finding import Finding
from rpcrdma.nfs.export.local_listing import Listing
from rpcrdma.nfs.export.local_names import Naming
from rpcrdma.nfs.export.local_object import LocalParts, PartedTree
from rpcrdma.nfs.export.local_xattrs import Xattrs
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.object_tree import file_of
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.export.tree import BAD_HANDLE, Refused, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["LocalExports", "LocalNode", "LocalTree"]

_LOCKS = 256
"""Locks of all objects of a file system: two objects rarely share one."""


class LocalNode(Finding, Files, Naming, Listing, Xattrs):
    """An object of a local directory: see `tree.Node`."""

    __slots__ = ()


class LocalTree(PartedTree[LocalNode]):
    """One exported directory: see `tree.Tree`."""

    NODE = LocalNode


class LocalExports:
    """All exported directories of a server: see `tree.Exports`. Thread-safe.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory cannot be exported.
    """

    def __init__(self, exports: Sequence[Export], state: ServerState) -> None:
        _check_system()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.parts = LocalParts(state)
        self.nodes: ObjectCache[LocalNode] = ObjectCache(max(64, min(NFS_OBJECTS_OPEN_MAX, descriptors // 4)))
        self.admission = HostAdmission(self.parts.callers.of)
        self._trees: dict[bytes, LocalTree] = {}
        self._locks: defaultdict[bytes, list[threading.RLock]] = defaultdict(
            lambda: [threading.RLock() for _ in range(_LOCKS)]
        )
        check_names(exports)
        for export in exports:
            self.add(export)

    @property
    def trees(self) -> list[LocalTree]:
        """See `tree.Exports.trees`."""
        return list(self._trees.values())

    def add(self, export: Export) -> LocalTree:
        """Serves one more directory.

        Args:
            export: its terms, with a name that no other export has.

        Raises:
            OSError: the directory cannot be exported.
        """
        self.parts.callers.try_out(export)
        tree = LocalTree(export, self.parts, self.nodes, self._locks)
        # Calls may be looking through the present table.
        self._trees = {**self._trees, tree.identity: tree}
        self._file_systems = len({each.file_system for each in self._trees.values()})
        return tree

    def set_terms(self, export: Export) -> None:
        """Sets the terms of the export of the same name, whose directory stays."""
        for tree in self.trees:
            if tree.export.name == export.name:
                tree.export = export
                self.admission.forget()

    def admit(self, tree: Tree, context: CallContext, version: int = 3) -> Grant:
        """See `tree.Exports.admit`."""
        return self.admission.check(tree.export, context, version)

    def admit_mount(self, tree: Tree, context: CallContext, version: int = 3) -> Grant:
        """See `tree.Exports.admit_mount`."""
        return self.admission.check_mount(tree.export, context, version)

    def flavors(self, tree: Tree, context: CallContext) -> list[SecurityFlavor]:
        """See `tree.Exports.flavors`."""
        return self.admission.flavors(tree.export, context)

    def file_of(self, handle: bytes) -> bytes:
        """See `tree.Exports.file_of`."""
        tree = self._trees.get(self.parts.seal.export_in(handle))
        return handle if tree is None else file_of(tree, handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        """See `tree.Exports.waits_for`."""
        if self._file_systems == 1:
            return None
        tree = self._trees.get(self.parts.seal.export_in(handle))
        return None if tree is None else tree.file_system

    def locate(self, handle: bytes, context: CallContext, version: int = 3) -> tuple[LocalNode, Grant] | None:
        """See `tree.Exports.locate`."""
        node = self.nodes.held.get(handle)
        tree = self._tree_of(handle) if node is None else node.tree
        # In line, since every call comes here: the newest grant mostly holds.
        export, who = tree.export, self.admission.latest
        if (
            who.terms is not export
            or who.credential is not context.credential
            or who.origin is not context.client.origin
            or version not in export.versions
        ):
            who = self.admission.check(export, context, version)
        at_once = not context.may_block
        if node is not None and tree.is_inside(node, at_once=at_once):
            return node, who
        found: LocalNode | None = tree.find(handle, at_once=at_once)
        return None if found is None else (found, who)

    def _tree_of(self, handle: bytes) -> LocalTree:
        opened = self.parts.seal.open(handle)
        if opened is None:
            raise Refused(BAD_HANDLE)
        tree = self._trees.get(opened.export)
        if tree is None:
            raise Refused(errno.ESTALE)
        return tree

    def close_idle(self) -> None:
        """See `tree.Exports.close_idle`; writes places to disk as well."""
        self.nodes.drop_idle()
        self.parts.files.drop_idle()
        for tree in self._trees.values():
            tree.drop_idle()
        self.parts.state.places.flush()

    def close(self) -> list[OSError]:
        """See `tree.Exports.close`."""
        self.parts.leases.close()
        failures = self.parts.files.close()
        self.nodes.drop_all()
        self.parts.state.places.flush()
        self.admission.flush()
        return failures


def _check_system() -> None:
    try:
        os.readlink("/proc/self")
    except OSError:
        raise OSError("the NFS server needs /proc, which is not mounted: run mount -t proc proc /proc") from None
