"""All exports of a server: directories of this machine and file systems of fsspec, with the objects of all handles."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.nfs.export.access_terms import Export, check_names
from rpcrdma.nfs.export.file_handle import HandleSeal, export_identity
from rpcrdma.nfs.export.fsspec_tree import FsspecParts, FsspecTree
from rpcrdma.nfs.export.giving_way import give_way
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_files import Files
from rpcrdma.nfs.export.local_listing import Listing
from rpcrdma.nfs.export.local_names import Naming
from rpcrdma.nfs.export.local_object import LocalParts, PartedTree
from rpcrdma.nfs.export.local_xattrs import Xattrs
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.server_state import ServerState, StatePlace
from rpcrdma.nfs.export.tree import BAD_HANDLE, Node, Refused
from rpcrdma.rpc.service import CallContext

__all__ = ["LocalNode", "LocalTree", "ServerExports"]

_LOGGER = logging.getLogger("rpcrdma.server")


class LocalNode(Naming, Files, Listing, Xattrs):
    """An object of an exported local directory; implements `tree.Node` and `abilities.Extended`."""

    __slots__ = ()


class LocalTree(PartedTree[LocalNode]):
    """One exported directory of this machine; implements `tree.Tree`."""

    NODE = LocalNode


_Tree: TypeAlias = LocalTree | FsspecTree
_Planned: TypeAlias = Sequence[tuple[_Tree, Export]]


class ServerExports:
    """The directories and file systems of fsspec that a server exports; implements `exports.Exports`. Thread-safe.

    Args:
        exports: the exports to serve.
        state: the key of file handles and the places of objects.
        clock: returns seconds that never decrease; None: the clock of the running event loop, or without one that of
            the machine.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory or a URL cannot be exported, or /proc is not mounted.
    """

    def __init__(
        self, exports: Sequence[Export], state: ServerState, *, clock: Callable[[], float] | None = None
    ) -> None:
        _check_system()
        self.parts = LocalParts(state)
        """What the trees of directories share, and the admission to all trees."""
        self.remote = FsspecParts(state, clock or loop_clock(), self.parts.admission)
        """What the trees of fsspec share."""
        self._trees: dict[bytes, _Tree] = {}
        self._gone: dict[bytes, _Tree] = {}
        """Trees not served any more, by export, until `retire` closes them: running calls still use their objects."""
        self.install(self.plan(exports))

    @property
    def trees(self) -> list[_Tree]:
        return list(self._trees.values())

    def plan(self, exports: Sequence[Export], *, stay: bool = False) -> _Planned:
        """Returns a tree for each of `exports`, to be served by `install`; serves nothing yet; may block.

        An export whose name is served already keeps its tree if its path leads to the same directory, or its URL and
        options are the same. For others a tree is made; these are closed again if one fails. Logs a warning if a tree
        of a directory that takes the place of a served one has the same handle for its root.

        Args:
            exports: directories of this machine and file systems of fsspec, each with a name of its own.
            stay: whether an export whose name is served, with the same URL or none, keeps its tree without a look at
                its path or its options.

        Returns:
            (tree, new terms) for each export, in order.

        Raises:
            ValueError: two exports have one name.
            OSError: a directory cannot be exported: the server may not open it or not act as the users of the export; a
                package is missing, or a URL cannot be read or leads to no directory; or the export contains the
                server's state.
        """
        check_names(exports)
        planned: list[tuple[_Tree, Export]] = []
        mounts = MountTable()
        of_state: StatePlace | None = None
        try:
            for export in exports:
                give_way()
                if export.url is None:
                    self.parts.callers.try_out(export)
                tree = before = self._trees.get(export_identity(export.name))
                if tree is None or tree.export.url != export.url or not (stay or tree.stands_for(export)):
                    # Where all trees stay, nothing waits for the disk of the state.
                    of_state = of_state or StatePlace(self.parts.state.directory, mounts)
                    source = export.directory or export.url
                    assert source is not None
                    of_state.refuse(source)
                    tree = self._made(export, mounts)
                    if export.url is None and before is not None and before.root.handle == tree.root.handle:
                        _LOGGER.warning(
                            "%s: clients that have mounted it meet the new directory by their old handle, since both "
                            "are roots of file systems of one kind; let them mount it again",
                            export.name,
                        )
                planned.append((tree, export))
        except BaseException:
            self.discard(planned)
            raise
        return planned

    def _made(self, export: Export, mounts: MountTable) -> _Tree:
        return LocalTree(export, self.parts, mounts) if export.url is None else FsspecTree(export, self.remote)

    def discard(self, planned: _Planned) -> None:
        """Closes the trees in `planned`, a result of `plan`, that are not served; is called in place of `install`."""
        for tree, _ in planned:
            if self._trees.get(tree.identity) is not tree:
                tree.close()

    def install(self, planned: _Planned) -> set[_Tree]:
        """Serves the trees in `planned`, a result of `plan`, on their new terms from the next call on; never waits.

        No other trees are served then. Drops all remembered decisions about admission.

        Returns:
            The trees that are no longer served, which the caller passes to `retire`.
        """
        for tree, export in planned:
            tree.set_terms(export)
        # Calls may be looking through the present table.
        before, self._trees = self._trees, {tree.identity: tree for tree, _ in planned}
        gone = {tree for identity, tree in before.items() if self._trees.get(identity) is not tree}
        for tree in gone:
            tree.gone = True
        self._gone = {**self._gone, **{tree.identity: tree for tree in gone}}
        alone = len({tree.file_system for tree, export in planned if export.url is None}) == 1
        self._waits = {
            tree.identity: tree.file_system for tree, export in planned if export.url is not None or not alone
        }
        self.parts.admission.forget()
        return gone

    def retire(self, gone: Collection[_Tree], *, close: bool) -> list[OSError]:
        """Syncs unstable data in trees that are no longer served, and drops their objects and files; may block.

        If a tree of fsspec is among them, drops the file data cached of all such trees.

        Args:
            gone: the trees, as `install` returned them.
            close: whether to close the descriptors of the trees themselves, too: only if no call uses a tree any more.

        Returns:
            An error for each file whose sync failed, so that data is lost.
        """
        local = [tree for tree in gone if isinstance(tree, LocalTree)]
        failures = self.parts.files.retire(local)
        names = {tree.identity for tree in gone}
        for parts in (self.parts, self.remote):
            parts.nodes.drop_those(lambda node: node.tree in gone)
            parts.listings.forget_those(lambda handle: HandleSeal.export_in(handle) in names)
        if len(local) < len(gone):
            self.remote.blocks.drop_all()
        if close:
            self._gone = {identity: tree for identity, tree in self._gone.items() if tree not in gone}
            for tree in gone:
                give_way()
                tree.close()
        return failures

    def file_of(self, handle: bytes) -> bytes:
        name = HandleSeal.export_in(handle)
        tree = self._trees.get(name) or self._gone.get(name)
        return handle if tree is None else tree.file_of(handle)

    def tree_of(self, handle: bytes | None) -> _Tree | None:
        """Returns the served tree that a handle, which may be forged, names; None for no handle, or without a tree."""
        return None if handle is None else self._trees.get(HandleSeal.export_in(handle))

    def waits_for(self, handle: bytes) -> bytes | None:
        return self._waits.get(HandleSeal.export_in(handle)) if self._waits else None

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[Node, Grant] | None:
        node: Any = self.parts.nodes.held.get(handle) or self.remote.nodes.held.get(handle)
        if node is not None and node.tree.gone:
            # A call that began before the change has left it here; the export may be back, with another tree.
            node = None
        tree: _Tree = self._tree_of(handle) if node is None else node.tree
        if tree.gone:
            raise Refused(errno.ESTALE)
        if tree.always_waits and not context.may_block:
            return None
        # In line, since every call comes here: the newest grant mostly holds.
        export, admission = tree.export, self.parts.admission
        who = admission.latest
        if (
            who.terms is not export
            or who.credential is not context.credential
            or who.origin is not context.client.origin
            or version not in export.versions
        ):
            check = admission.check_mount if any_flavor else admission.check
            checked = check(export, context, version)
            if checked is None:
                return None
            who = checked
        at_once = not context.may_block
        if node is not None and tree.is_inside(node, at_once=at_once):
            return node, who
        found: Node | None = tree.find(handle, at_once=at_once)
        return None if found is None else (found, who)

    def _tree_of(self, handle: bytes) -> _Tree:
        opened = self.parts.seal.open(handle)
        if opened is None:
            raise Refused(BAD_HANDLE)
        tree = self._trees.get(opened.export)
        if tree is None:
            raise Refused(errno.ESTALE)
        return tree

    def close_idle(self) -> None:
        """Drops cached objects and open files not used since the last call of this method, and outdated user groups.

        Files with unstable data stay open while they have a name. If groups are dropped, all remembered decisions about
        admission are as well. Drops unused results of searches for objects. Writes the places where objects were last
        seen to the database. May block.
        """
        self.parts.nodes.drop_idle()
        self.remote.nodes.drop_idle()
        self.parts.files.drop_idle()
        if self.parts.groups.drop_old():
            self.parts.admission.forget()
        for tree in self._trees.values():
            if isinstance(tree, LocalTree):
                tree.drop_idle()
        self.parts.state.places.flush()

    def close(self) -> list[OSError]:
        """Ends all leases, syncs unstable data, and drops all cached objects and open files; may block.

        Writes recorded places of objects to the database, and logs refusals, and faults of stores, that were held back.
        Returns an error for each file whose sync failed, so that data is lost.
        """
        self.parts.leases.close()
        failures = self.parts.files.close()
        self.parts.nodes.drop_all()
        self.remote.nodes.drop_all()
        self.remote.blocks.drop_all()
        self.parts.state.places.flush()
        self.parts.admission.flush()
        for tree in self._trees.values():
            if isinstance(tree, FsspecTree):
                tree.close()
        return failures


def _check_system() -> None:
    try:
        os.readlink("/proc/self")
    except OSError:
        raise OSError("the NFS server needs /proc, which is not mounted: run mount -t proc proc /proc") from None
