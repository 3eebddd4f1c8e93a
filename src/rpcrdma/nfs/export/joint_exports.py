"""The exports of a server that has directories of this machine and file systems of fsspec."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.nfs.export.export import Export, check_names
from rpcrdma.nfs.export.file_handle import HandleSeal, export_identity
from rpcrdma.nfs.export.fsspec_exports import FsspecExports
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_tree import LocalExports
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.export.tree import Exports, Node, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["JointExports"]


class JointExports:
    """The trees of both kinds: see `tree.Exports`. Thread-safe.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory or a file system cannot be exported.
    """

    def __init__(self, exports: Sequence[Export], state: ServerState) -> None:
        check_names(exports)
        urls = [export for export in exports if export.url is not None]
        self.local = LocalExports([export for export in exports if export.url is None], state)
        self._remote = FsspecExports(urls, state)
        self._in_remote = {export_identity(export.name) for export in urls}
        trees: list[Tree] = [*self.local.trees, *self._remote.trees]
        by_name = {tree.export.name: tree for tree in trees}
        self._trees = [by_name[export.name] for export in exports]

    @property
    def trees(self) -> list[Tree]:
        """See `tree.Exports.trees`."""
        return self._trees

    def add(self, export: Export) -> None:
        """Serves one more directory of this machine: see `LocalExports.add`."""
        self._trees = [*self._trees, self.local.add(export)]

    def set_terms(self, export: Export) -> None:
        """See `LocalExports.set_terms`."""
        self.local.set_terms(export)
        self._remote.set_terms(export)

    def locate(self, handle: bytes, context: CallContext, version: int = 3) -> tuple[Node, Grant] | None:
        """See `tree.Exports.locate`."""
        return self._part(handle).locate(handle, context, version)

    def admit(self, tree: Tree, context: CallContext, version: int = 3) -> Grant:
        """See `tree.Exports.admit`."""
        return self._part(tree.root.handle).admit(tree, context, version)

    def admit_mount(self, tree: Tree, context: CallContext, version: int = 3) -> Grant:
        """See `tree.Exports.admit_mount`."""
        return self._part(tree.root.handle).admit_mount(tree, context, version)

    def flavors(self, tree: Tree, context: CallContext) -> Sequence[SecurityFlavor]:
        """See `tree.Exports.flavors`."""
        return self._part(tree.root.handle).flavors(tree, context)

    def file_of(self, handle: bytes) -> bytes:
        """See `tree.Exports.file_of`."""
        return self._part(handle).file_of(handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        """See `tree.Exports.waits_for`."""
        return self._part(handle).waits_for(handle)

    def close_idle(self) -> None:
        """See `tree.Exports.close_idle`."""
        self.local.close_idle()
        self._remote.close_idle()

    def close(self) -> list[OSError]:
        """See `tree.Exports.close`."""
        return self.local.close() + self._remote.close()

    def _part(self, handle: bytes) -> Exports:
        """Returns the remote exports if a handle has the identity of one of them, else the local ones.

        Does not check whether the handle is ours.
        """
        return self._remote if HandleSeal.export_in(handle) in self._in_remote else self.local
