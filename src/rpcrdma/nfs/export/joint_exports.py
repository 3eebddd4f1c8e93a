"""The exports of a server that has directories of this machine and file systems of fsspec."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from rpcrdma.nfs.export.access_terms import Export, check_names
from rpcrdma.nfs.export.admission import HostAdmission
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.file_handle import HandleSeal
from rpcrdma.nfs.export.fsspec_exports import FsspecExports
from rpcrdma.nfs.export.fsspec_tree import FsspecTree
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_tree import LocalExports, LocalTree
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.export.tree import Node, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["JointExports"]


class PlannedJoint(NamedTuple):
    """Planned trees of both kinds, and the names of all in their order."""

    local: list[tuple[LocalTree, Export]]
    remote: list[tuple[FsspecTree, Export]]
    names: list[str]


class JointExports:
    """The trees of both kinds: see `exports.Exports`. Thread-safe.

    Args:
        exports: the exports.
        state: the state that file handles depend on.
        local: directories that are served already, in place of `exports`; None: there are none.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory or a file system cannot be exported.
    """

    def __init__(self, exports: Sequence[Export], state: ServerState, *, local: LocalExports | None = None) -> None:
        self.local = LocalExports([], state) if local is None else local
        self._remote = FsspecExports([], state)
        if self.local.admission.observer is not None:
            self._remote.admission.watch(self.local.admission.observer)
        self._in_remote: frozenset[bytes] = frozenset()
        self._trees: list[Tree] = [*self.local.trees]
        if local is None:
            self.install(self.plan(exports))

    @property
    def trees(self) -> list[Tree]:
        """See `exports.Exports.trees`."""
        return self._trees

    @property
    def admissions(self) -> list[HostAdmission]:
        """The objects that decide which calls may use the exports."""
        return [self.local.admission, self._remote.admission]

    def plan(self, exports: Sequence[Export], *, stay: bool = False) -> PlannedJoint:
        """See `LocalExports.plan`.

        Raises:
            ValueError, OSError: as for the class.
        """
        check_names(exports)
        local = self.local.plan([export for export in exports if export.url is None], stay=stay)
        try:
            remote = self._remote.plan([export for export in exports if export.url is not None])
        except BaseException:
            self.local.discard(local)
            raise
        return PlannedJoint(local, remote, [export.name for export in exports])

    def discard(self, planned: PlannedJoint) -> None:
        """See `LocalExports.discard`."""
        self.local.discard(planned.local)

    def install(self, planned: PlannedJoint) -> set[Any]:
        """See `LocalExports.install`."""
        gone = {*self.local.install(planned.local), *self._remote.install(planned.remote)}
        self._in_remote = frozenset(tree.identity for tree, _ in planned.remote)
        by_name: dict[str, Tree] = {export.name: tree for tree, export in planned.local}
        by_name.update({export.name: tree for tree, export in planned.remote})
        self._trees = [by_name[name] for name in planned.names]
        return gone

    def retire(self, gone: Collection[Any], *, close: bool) -> list[OSError]:
        """See `LocalExports.retire`."""
        self._remote.retire({tree for tree in gone if isinstance(tree, FsspecTree)})
        return self.local.retire({tree for tree in gone if isinstance(tree, LocalTree)}, close=close)

    def locate(self, handle: bytes, context: CallContext, version: int = 3) -> tuple[Node, Grant] | None:
        """See `exports.Exports.locate`."""
        return self._part(handle).locate(handle, context, version)

    def admit(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        """See `exports.Exports.admit`."""
        return self._part(tree.root.handle).admit(tree, context, version)

    def admit_mount(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        """See `exports.Exports.admit_mount`."""
        return self._part(tree.root.handle).admit_mount(tree, context, version)

    def flavors(self, tree: Tree, context: CallContext) -> Sequence[SecurityFlavor]:
        """See `exports.Exports.flavors`."""
        return self._part(tree.root.handle).flavors(tree, context)

    def file_of(self, handle: bytes) -> bytes:
        """See `exports.Exports.file_of`."""
        return self._part(handle).file_of(handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        """See `exports.Exports.waits_for`."""
        return self._part(handle).waits_for(handle)

    def close_idle(self) -> None:
        """See `exports.Exports.close_idle`."""
        self.local.close_idle()
        self._remote.close_idle()

    def close(self) -> list[OSError]:
        """See `exports.Exports.close`."""
        return self.local.close() + self._remote.close()

    def _part(self, handle: bytes) -> Exports:
        """Returns the remote exports if a handle has the identity of one of them, else the local ones.

        Does not check whether the handle is ours.
        """
        return self._remote if HandleSeal.export_in(handle) in self._in_remote else self.local
