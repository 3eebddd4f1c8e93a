"""Directories of this machine as exports: the objects of all their handles."""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
from collections import defaultdict
from collections.abc import Collection, Sequence

from rpcrdma.nfs.export.access_control import AdmittedExports, HostAdmission
from rpcrdma.nfs.export.access_terms import Export, check_names
from rpcrdma.nfs.export.export_limits import NFS_OBJECTS_OPEN_MAX
from rpcrdma.nfs.export.file_handle import export_identity
from rpcrdma.nfs.export.giving_way import give_way
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_files import Files
from rpcrdma.nfs.export.local_listing import Listing
from rpcrdma.nfs.export.local_names import Naming
from rpcrdma.nfs.export.local_object import LocalParts, PartedTree
from rpcrdma.nfs.export.local_xattrs import Xattrs
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.object_tree import file_of
from rpcrdma.nfs.export.server_state import ServerState, StatePlace
from rpcrdma.nfs.export.tree import BAD_HANDLE, Refused
from rpcrdma.nfs.export.user_groups import UserGroups
from rpcrdma.rpc.service import CallContext

__all__ = ["LocalExports", "LocalNode", "LocalTree"]

_LOGGER = logging.getLogger("rpcrdma.server")
_LOCKS = 256
"""Locks for all objects of a file system: so many that two objects rarely share a lock."""


class LocalNode(Naming, Files, Listing, Xattrs):
    """An object of an exported local directory; implements `tree.Node` and `abilities.Extended`."""

    __slots__ = ()


class LocalTree(PartedTree[LocalNode]):
    """One exported directory of this machine; implements `tree.Tree`."""

    NODE = LocalNode


class LocalExports(AdmittedExports):
    """The local directories that a server exports; implements `exports.Exports`. Thread-safe.

    Raises:
        ValueError: two exports have one name.
        OSError: a directory cannot be exported, or /proc is not mounted.
    """

    def __init__(self, exports: Sequence[Export], state: ServerState) -> None:
        _check_system()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.parts = LocalParts(state)
        self.nodes: ObjectCache[LocalNode] = ObjectCache(max(64, min(NFS_OBJECTS_OPEN_MAX, descriptors // 4)))
        self.groups = UserGroups()
        """The groups of users by this machine's user database, for exports that ask for them."""
        self.admission = HostAdmission(self.parts.callers.of, self.groups if self.parts.callers.switches else None)
        self._trees: dict[bytes, LocalTree] = {}
        self._gone: dict[bytes, LocalTree] = {}
        """Trees not served any more, by export, until `retire` closes them: running calls still use their objects."""
        self._locks: defaultdict[bytes, list[threading.RLock]] = defaultdict(
            lambda: [threading.RLock() for _ in range(_LOCKS)]
        )
        self.install(self.plan(exports))

    @property
    def trees(self) -> list[LocalTree]:
        return list(self._trees.values())

    @property
    def admissions(self) -> list[HostAdmission]:
        """A list of one element: the object that decides which calls may use the exports."""
        return [self.admission]

    def plan(self, exports: Sequence[Export], *, stay: bool = False) -> list[tuple[LocalTree, Export]]:
        """Returns a tree for each of `exports`, to be served by `install`; serves nothing yet; may block.

        An export whose name is served already keeps its tree if its path leads to the same directory. For others a tree
        is made; these are closed again if one fails. Logs a warning if a tree that takes the
        place of a served one has the same handle for its root.

        Args:
            exports: directories of this machine, each with a name of its own.
            stay: whether an export whose name is served keeps its tree without a look at its path.

        Returns:
            (tree, new terms) for each export, in order.

        Raises:
            ValueError: two exports have one name.
            OSError: a directory cannot be exported: the server may not open it or not act as the users of the export,
                or the directory contains the server's state.
        """
        check_names(exports)
        planned: list[tuple[LocalTree, Export]] = []
        mounts = MountTable()
        of_state: StatePlace | None = None
        try:
            for export in exports:
                give_way()
                self.parts.callers.try_out(export)
                assert export.directory is not None
                tree = self._trees.get(export_identity(export.name))
                if tree is None or not (stay or tree.stands_for(export.directory)):
                    # Where all trees stay, nothing waits for the disk of the state.
                    of_state = of_state or StatePlace(self.parts.state.directory, mounts)
                    of_state.refuse(export.directory)
                    before, tree = tree, LocalTree(export, self.parts, self.nodes, self._locks, mounts)
                    if before is not None and before.root.handle == tree.root.handle:
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

    def discard(self, planned: list[tuple[LocalTree, Export]]) -> None:
        """Closes the trees in `planned`, a result of `plan`, that are not served; is called in place of `install`."""
        for tree, _ in planned:
            if self._trees.get(tree.identity) is not tree:
                tree.close()

    def install(self, planned: list[tuple[LocalTree, Export]]) -> set[LocalTree]:
        """Serves the trees in `planned`, a result of `plan`, on their new terms from the next call on; never waits.

        No other trees are served then. Drops all remembered decisions about admission.

        Returns:
            The trees that are no longer served, which the caller passes to `retire`.
        """
        for tree, export in planned:
            tree.export = export
        # Calls may be looking through the present table.
        before, self._trees = self._trees, {tree.identity: tree for tree, _ in planned}
        gone = {tree for identity, tree in before.items() if self._trees.get(identity) is not tree}
        for tree in gone:
            tree.gone = True
        self._gone = {**self._gone, **{tree.identity: tree for tree in gone}}
        self._file_systems = len({each.file_system for each in self._trees.values()})
        self.admission.forget()
        return gone

    def retire(self, gone: Collection[LocalTree], *, close: bool) -> list[OSError]:
        """Syncs unstable data in trees that are no longer served, and drops their objects and files; may block.

        Args:
            gone: the trees, as `install` returned them.
            close: whether to close the descriptors of the trees themselves, too: only if no call uses a tree any more.

        Returns:
            An error for each file whose sync failed, so that data is lost.
        """
        failures = self.parts.files.retire(gone)
        self.nodes.drop_those(lambda node: node.tree in gone)
        names = {tree.identity for tree in gone}
        self.parts.listings.forget_those(lambda handle: self.parts.seal.export_in(handle) in names)
        if close:
            self._gone = {identity: tree for identity, tree in self._gone.items() if tree not in gone}
            for tree in gone:
                give_way()
                tree.close()
        return failures

    def file_of(self, handle: bytes) -> bytes:
        name = self.parts.seal.export_in(handle)
        tree = self._trees.get(name) or self._gone.get(name)
        return handle if tree is None else file_of(tree, handle)

    def waits_for(self, handle: bytes) -> bytes | None:
        if self._file_systems == 1:
            return None
        tree = self._trees.get(self.parts.seal.export_in(handle))
        return None if tree is None else tree.file_system

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[LocalNode, Grant] | None:
        node = self.nodes.held.get(handle)
        if node is not None and node.tree.gone:
            # A call that began before the change has left it here; the export may be back, with another tree.
            node = None
        tree = self._tree_of(handle) if node is None else node.tree
        if tree.gone:
            raise Refused(errno.ESTALE)
        # In line, since every call comes here: the newest grant mostly holds.
        export, who = tree.export, self.admission.latest
        if (
            who.terms is not export
            or who.credential is not context.credential
            or who.origin is not context.client.origin
            or version not in export.versions
        ):
            check = self.admission.check_mount if any_flavor else self.admission.check
            checked = check(export, context, version)
            if checked is None:
                return None
            who = checked
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
        """Drops cached objects and open files not used since the last call of this method, and outdated user groups.

        Files with unstable data stay open while they have a name. If groups are dropped, all remembered decisions about
        admission are as well. Drops unused results of searches for objects. Writes the places where objects were last
        seen to the database. May block.
        """
        self.nodes.drop_idle()
        self.parts.files.drop_idle()
        if self.groups.drop_old():
            self.admission.forget()
        for tree in self._trees.values():
            tree.drop_idle()
        self.parts.state.places.flush()

    def close(self) -> list[OSError]:
        """Ends all leases, syncs unstable data, and drops all cached objects and open files; may block.

        Writes recorded places of objects to the database, and logs refusals that were held back. Returns an error for
        each file whose sync failed, so that data is lost.
        """
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
