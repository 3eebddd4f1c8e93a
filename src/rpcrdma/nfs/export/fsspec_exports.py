"""File systems of fsspec as exports: the objects of all their handles."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.nfs.export.admission import HostAdmission
from rpcrdma.nfs.export.export import Export, Network, check_names
from rpcrdma.nfs.export.fsspec_tree import FsspecNode, FsspecParts, FsspecTree
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.export.tree import Refused, Tree, check_changeable
from rpcrdma.rpc.service import CallContext

__all__ = ["FsspecExports"]


class FsspecExports:
    """The exported file systems of fsspec of a server: see `tree.Exports`. Thread-safe.

    `clock` gives seconds, that of the running event loop by default.

    Raises:
        ValueError: two exports have one name.
        OSError: a package is missing, or a URL leads to no directory.
    """

    def __init__(
        self, exports: Sequence[Export], state: ServerState, *, clock: Callable[[], float] | None = None
    ) -> None:
        self.parts = FsspecParts(state, clock or loop_clock())
        self.admission = HostAdmission()
        self._trees: dict[bytes, FsspecTree] = {}
        check_names(exports)
        for export in exports:
            tree = FsspecTree(export, self.parts)
            self._trees[tree.identity] = tree

    @property
    def trees(self) -> list[FsspecTree]:
        """See `tree.Exports.trees`."""
        return list(self._trees.values())

    def admit_hosts(self, name: str, hosts: tuple[Network, ...]) -> None:
        """Sets the networks that may use the export of a name."""
        for tree in self.trees:
            if tree.export.name == name:
                tree.export = replace(tree.export, hosts=hosts)
                self.admission.forget()

    def admit(self, tree: Tree, context: CallContext, *, mounts: bool) -> bool:
        """See `tree.Exports.admit`."""
        self.admission.check(tree.export, context, mounts=mounts)
        return True

    def file_of(self, handle: bytes) -> bytes:
        """See `tree.Exports.file_of`."""
        return handle

    def waits_for(self, handle: bytes) -> bytes | None:
        """See `tree.Exports.waits_for`."""
        return self.parts.seal.export_in(handle)

    def locate(self, handle: bytes, context: CallContext) -> FsspecNode | None:
        """See `tree.Exports.locate`."""
        node = self.parts.nodes.held.get(handle)
        tree = self._tree_of(handle) if node is None else node.tree
        export = tree.export
        if export.hosts or export.xprtsec != "none" or context.credential.flavor not in export.security:
            self.admission.check(export, context)
        if node is not None and tree.is_valid(node):
            return node
        return tree.find(handle) if context.may_block else None

    def locate_in_worker(self, handle: bytes, context: CallContext) -> FsspecNode:
        """See `tree.Exports.locate_in_worker`."""
        node = self.locate(handle, context)
        assert node is not None
        return node

    def locate_to_change(self, handle: bytes, context: CallContext) -> FsspecNode:
        """See `tree.Exports.locate_to_change`: EROFS."""
        node = self.locate_in_worker(handle, context)
        check_changeable(node)
        return node

    def _tree_of(self, handle: bytes) -> FsspecTree:
        self.parts.identity_in(handle)
        tree = self._trees.get(self.parts.seal.export_in(handle))
        if tree is None:
            raise Refused(errno.ESTALE)
        return tree

    def close_idle(self) -> None:
        """See `tree.Exports.close_idle`; writes places to disk as well."""
        self.parts.nodes.drop_idle()
        self.parts.places.flush()

    def close(self) -> list[OSError]:
        """See `tree.Exports.close`."""
        self.parts.nodes.drop_all()
        self.parts.blocks.drop_all()
        self.parts.places.flush()
        self.admission.flush()
        for tree in self._trees.values():
            tree.store.flush()
        return []
