"""File systems of fsspec as exports: the objects of all their handles."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Sequence

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.nfs.export.access_control import AdmittedExports, HostAdmission
from rpcrdma.nfs.export.access_terms import Export, check_names
from rpcrdma.nfs.export.file_handle import export_identity
from rpcrdma.nfs.export.fsspec_tree import FsspecNode, FsspecParts, FsspecTree
from rpcrdma.nfs.export.giving_way import give_way
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.server_state import ServerState, StatePlace
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.rpc.service import CallContext

__all__ = ["FsspecExports"]


class FsspecExports(AdmittedExports):
    """Those exports of a server that the package fsspec reads; implements `exports.Exports`. Thread-safe.

    `clock` returns seconds that never decrease; None: the clock of the running event loop, or without one that of the
    machine.

    Raises:
        ValueError: two exports have one name.
        OSError: a package is missing, or a URL cannot be read, leads to no directory, or contains the directory of the
            server's state.
    """

    def __init__(
        self, exports: Sequence[Export], state: ServerState, *, clock: Callable[[], float] | None = None
    ) -> None:
        self._state = state
        self.parts = FsspecParts(state, clock or loop_clock())
        user = ServingUser()
        self.admission = HostAdmission(lambda _: user)
        self._trees: dict[bytes, FsspecTree] = {}
        self.install(self.plan(exports))

    @property
    def trees(self) -> list[FsspecTree]:
        return list(self._trees.values())

    def plan(self, exports: Sequence[Export]) -> list[tuple[FsspecTree, Export]]:
        """Returns (tree, new terms) for each of `exports`, in order, for a later `install`; may block.

        Changes nothing that is served. The tree is the served one if name, URL and options are the same, else a new
        one.

        Raises:
            ValueError: two exports have one name.
            OSError: a package is missing, or a URL cannot be read, leads to no directory, or contains the directory of
                the server's state.
        """
        check_names(exports)
        planned = []
        of_state: StatePlace | None = None
        for export in exports:
            give_way()
            tree = self._trees.get(export_identity(export.name))
            if tree is None or not tree.stands_for(export):
                assert export.url is not None
                of_state = of_state or StatePlace(self._state.directory)
                of_state.refuse(export.url)
                tree = FsspecTree(export, self.parts)
            planned.append((tree, export))
        return planned

    def install(self, planned: Sequence[tuple[FsspecTree, Export]]) -> set[FsspecTree]:
        """Serves the trees in `planned`, a result of `plan`, and no others, from the next call on.

        Returns the trees that were served before and are no longer, for `retire`. Never waits.
        """
        for tree, export in planned:
            tree.set_terms(export)
        before, self._trees = self._trees, {tree.identity: tree for tree, _ in planned}
        gone = {tree for identity, tree in before.items() if self._trees.get(identity) is not tree}
        for tree in gone:
            tree.gone = True
        self.admission.forget()
        return gone

    def retire(self, gone: Collection[FsspecTree]) -> None:
        """Drops what is cached of the trees `gone`, a result of `install`, and the file data cached of all trees.

        Does nothing if `gone` is empty. Logs the number of faults of their stores that the log has held back.
        """
        if gone:
            names = {tree.identity for tree in gone}
            self.parts.nodes.drop_those(lambda node: node.tree in gone)
            self.parts.listings.forget_those(lambda handle: self.parts.seal.export_in(handle) in names)
            self.parts.blocks.drop_all()
        for tree in gone:
            tree.store.flush()

    def file_of(self, handle: bytes) -> bytes:
        """Returns the handle itself as the key in `claims.Claims`; an object in two exports so has two keys."""
        return handle

    def waits_for(self, handle: bytes) -> bytes | None:
        """Returns the four octets in a handle that identify its export, on whose store a call may block; never None."""
        return self.parts.seal.export_in(handle)

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[FsspecNode, Grant] | None:
        """Finds an object as `exports.Exports.locate`; None in the event loop if no valid one is cached."""
        node = self.parts.nodes.held.get(handle)
        if node is not None and node.tree.gone:
            # As in `LocalExports.locate`.
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
            assert checked is not None, "all users have the same rights, so that no groups are looked up"
            who = checked
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
        """Drops cached objects not used since the last `close_idle`, and saves new paths of handles in the state.

        May block.
        """
        self.parts.nodes.drop_idle()
        self.parts.places.flush()

    def close(self) -> list[OSError]:
        """Drops all cached objects and file data, saves new paths of handles in the state, and returns []; may block.

        Logs the numbers of refusals and faults that the log has held back.
        """
        self.parts.nodes.drop_all()
        self.parts.blocks.drop_all()
        self.parts.places.flush()
        self.admission.flush()
        for tree in self._trees.values():
            tree.store.flush()
        return []
