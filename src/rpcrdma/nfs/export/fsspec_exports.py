"""File systems of fsspec as exports: the objects of all their handles."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.nfs.export.admission import HostAdmission
from rpcrdma.nfs.export.export import Export, check_names
from rpcrdma.nfs.export.fsspec_tree import FsspecNode, FsspecParts, FsspecTree
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.export.tree import Refused, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
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
        user = ServingUser()
        self.admission = HostAdmission(lambda _: user)
        self._trees: dict[bytes, FsspecTree] = {}
        check_names(exports)
        for export in exports:
            tree = FsspecTree(export, self.parts)
            self._trees[tree.identity] = tree

    @property
    def trees(self) -> list[FsspecTree]:
        """See `tree.Exports.trees`."""
        return list(self._trees.values())

    def set_terms(self, export: Export) -> None:
        """Sets the terms of the export of the same name, whose URL stays."""
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
        return handle

    def waits_for(self, handle: bytes) -> bytes | None:
        """See `tree.Exports.waits_for`."""
        return self.parts.seal.export_in(handle)

    def locate(self, handle: bytes, context: CallContext, version: int = 3) -> tuple[FsspecNode, Grant] | None:
        """See `tree.Exports.locate`."""
        node = self.parts.nodes.held.get(handle)
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
        if node is not None and tree.is_valid(node):
            return node, who
        return (tree.find(handle), who) if context.may_block else None

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
