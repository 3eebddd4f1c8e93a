"""The exports of a server that has directories of this machine and file systems of fsspec."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from rpcrdma.nfs.export.access_control import HostAdmission
from rpcrdma.nfs.export.access_terms import Export, check_names
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.file_handle import HandleSeal
from rpcrdma.nfs.export.fsspec_exports import FsspecExports
from rpcrdma.nfs.export.fsspec_tree import FsspecTree
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_tree import LocalExports, LocalTree
from rpcrdma.nfs.export.server_state import ServerState
from rpcrdma.nfs.export.tree import Node, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["JointExports"]


class PlannedJoint(NamedTuple):
    """The result of `JointExports.plan`: (tree, new terms) of each local and fsspec export, and all names in order."""

    local: list[tuple[LocalTree, Export]]
    remote: list[tuple[FsspecTree, Export]]
    names: list[str]


class JointExports:
    """All exports of a server: directories of this machine and file systems of fsspec. Implements `exports.Exports`.

    Thread-safe.

    Args:
        exports: the exports to serve; ignored if `local` is given.
        state: the key of file handles and the places of objects.
        local: the local directories that are served already, which stay the only exports until `install`; None: no
            export is served yet.

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
        return self._trees

    @property
    def admissions(self) -> list[HostAdmission]:
        """The two objects that decide which calls may use exports: that for local directories, and that for fsspec."""
        return [self.local.admission, self._remote.admission]

    def plan(self, exports: Sequence[Export], *, stay: bool = False) -> PlannedJoint:
        """Returns a tree with new terms for each of `exports`, for a later `install` or `discard`; may block.

        Changes nothing that is served. An export has the served tree if its name and directory, or its name, URL and
        options, are the same, else a new one. `stay`: whether a served local export keeps its tree without a look at
        whether the path of its directory still leads to the same directory.

        Raises:
            ValueError: two exports have one name.
            OSError: a directory or a file system cannot be exported.
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
        """Closes the new trees in `planned`, a result of `plan` that is not to be installed."""
        self.local.discard(planned.local)

    def install(self, planned: PlannedJoint) -> set[Any]:
        """Serves the trees in `planned`, a result of `plan`, and no others, from the next call on.

        Returns the trees that were served before and are no longer, for `retire`. Never waits.
        """
        gone = {*self.local.install(planned.local), *self._remote.install(planned.remote)}
        self._in_remote = frozenset(tree.identity for tree, _ in planned.remote)
        by_name: dict[str, Tree] = {export.name: tree for tree, export in planned.local}
        by_name.update({export.name: tree for tree, export in planned.remote})
        self._trees = [by_name[name] for name in planned.names]
        return gone

    def retire(self, gone: Collection[Any], *, close: bool) -> list[OSError]:
        """Syncs unstable data of the trees `gone`, and drops their objects; returns the errors of syncs; may block.

        `gone` is a result of `install`. `close`: whether no call uses these trees any more, so that their own
        descriptors are closed as well.
        """
        self._remote.retire({tree for tree in gone if isinstance(tree, FsspecTree)})
        return self.local.retire({tree for tree in gone if isinstance(tree, LocalTree)}, close=close)

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[Node, Grant] | None:
        return self._part(handle).locate(handle, context, version, any_flavor=any_flavor)

    def admit(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        return self._part_of(tree).admit(tree, context, version)

    def admit_mount(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        return self._part_of(tree).admit_mount(tree, context, version)

    def flavors(self, tree: Tree, context: CallContext) -> Sequence[SecurityFlavor]:
        return self._part_of(tree).flavors(tree, context)

    def file_of(self, handle: bytes) -> bytes:
        return self._part(handle).file_of(handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        return self._part(handle).waits_for(handle)

    def close_idle(self) -> None:
        self.local.close_idle()
        self._remote.close_idle()

    def close(self) -> list[OSError]:
        return self.local.close() + self._remote.close()

    def _part(self, handle: bytes) -> Exports:
        """Returns all fsspec exports if a handle names one of them, else all local ones; the handle may be forged."""
        return self._remote if HandleSeal.export_in(handle) in self._in_remote else self.local

    def _part_of(self, tree: Tree) -> Exports:
        """Returns the exports to which `tree` belongs, or belonged: another tree may have its name by now."""
        return self._remote if isinstance(tree, FsspecTree) else self.local
