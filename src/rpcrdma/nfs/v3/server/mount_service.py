"""The MOUNT version 3 service (RFC 1813 section 5): from the name of an export to the handle of its root."""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict

from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.export_limits import NFS_MOUNTS_MAX
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.tree import REFUSALS, FileKind, Node, Refused, Tree
from rpcrdma.nfs.mount import (
    MNTNAMLEN,
    MOUNT_V3_Service,
    exportnode,
    groupnode,
    mountbody,
    mountres3,
    mountres3_ok,
    mountstat3,
)
from rpcrdma.nfs.v3.server.attributes import name_of
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["MountService"]

_S = mountstat3
_BY_ERRNO = {
    errno.EPERM: _S.MNT3ERR_PERM,
    errno.ENOENT: _S.MNT3ERR_NOENT,
    errno.EIO: _S.MNT3ERR_IO,
    errno.EACCES: _S.MNT3ERR_ACCES,
    errno.ENOTDIR: _S.MNT3ERR_NOTDIR,
    errno.ENAMETOOLONG: _S.MNT3ERR_NAMETOOLONG,
    errno.ESTALE: _S.MNT3ERR_NOENT,
}


class MountService(MOUNT_V3_Service):
    """The MOUNT version 3 service: returns handles of exports, and of directories below them that a caller may reach.

    It is offered wherever NFS is, so that a client needs one address. It asks for no security flavor itself, and its
    replies name those of the export (RFC 2623 section 2.7). The list of mounts records MNT and UMNT; beyond
    `NFS_MOUNTS_MAX` the oldest mounts are dropped. An entry of the list gives no rights.
    """

    ANY_SECURITY = True
    OWN_LIMITS = True
    IDEMPOTENT = frozenset(MOUNT_V3_Service.PROGRAM.procedures)

    def __init__(self, exports: Exports) -> None:
        self._exports = exports
        self._by_path: tuple[list[Tree], dict[tuple[str, ...], Tree], int] = [], {}, 0
        """The exports when one was last looked for, these by the parts of their names, and the most parts of one."""
        self._mounts: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        self.WAITS_FOR = self._file_system_of

    def forget_gone(self) -> None:
        """Removes the mounts whose paths lie in no served export any more from the list of mounts."""
        self._by_path = [], {}, 0
        with self._lock:
            mounts = list(self._mounts)
        gone = [mount for mount in mounts if self._export_of(_names(mount[1])) is None]
        with self._lock:
            for mount in gone:
                self._mounts.pop(mount, None)

    @in_worker
    def mnt(self, args: str, context: CallContext) -> mountres3:
        try:
            node = self._find(args, context)
            flavors = [] if node is None else [int(each) for each in node.tree.flavors(context)]
        except REFUSALS as error:
            return mountres3(_BY_ERRNO.get(error.errno or 0, _S.MNT3ERR_SERVERFAULT), None)
        if node is None:
            return mountres3(_S.MNT3ERR_NOENT, None)
        if node.kind != FileKind.DIRECTORY:
            return mountres3(_S.MNT3ERR_NOTDIR, None)
        with self._lock:
            mount = context.peer[:MNTNAMLEN], args
            self._mounts[mount] = None
            self._mounts.move_to_end(mount)
            while len(self._mounts) > NFS_MOUNTS_MAX:
                self._mounts.popitem(last=False)
        return mountres3(_S.MNT3_OK, mountres3_ok(node.handle, flavors))

    @in_worker
    def dump(self, args: None, context: CallContext) -> list[mountbody]:  # noqa: ARG002 - the protocol's signature
        return [mountbody(host, path) for host, path in self.mounts()]

    def umnt(self, args: str, context: CallContext) -> None:
        with self._lock:
            self._mounts.pop((context.peer[:MNTNAMLEN], args), None)

    def umntall(self, args: None, context: CallContext) -> None:  # noqa: ARG002 - the protocol's signature
        self.forget_host(context.peer)

    def mounts(self) -> list[tuple[str, str]]:
        """Returns a copy of the list of mounts: (network address of a client, path as in its MNT), the oldest first.

        The age is that of the last MNT: a repeated one makes the mount the newest.
        """
        with self._lock:
            return list(self._mounts)

    def forget_host(self, address: str) -> list[str]:
        """Removes the mounts of the client at the network address `address` from the list; returns their paths.

        The paths are those of its MNT calls, the oldest first; empty if it has no mounts.
        """
        with self._lock:
            found = [mount for mount in self._mounts if mount[0] == address[:MNTNAMLEN]]
            for mount in found:
                del self._mounts[mount]
        return [path for _, path in found]

    @in_worker
    def export(self, args: None, context: CallContext) -> list[exportnode]:  # noqa: ARG002 - the protocol's signature
        shown = [tree.export for tree in self._exports.trees if not tree.export.hidden and 3 in tree.export.versions]
        return [exportnode(export.name, groups) for export in shown if (groups := _groups(export)) is not None]

    def _find(self, path: str, context: CallContext) -> Node | None:
        names = _names(path)
        tree = self._export_of(names)
        if tree is None:
            return None
        who = tree.admit_mount(context, 3)
        assert who is not None
        node = tree.root
        for name in names[len(_parts(tree)) :]:
            if name in {".", ".."}:
                raise Refused(errno.EACCES)
            found = node.lookup(who, name_of(name), at_once=False)
            assert found is not None
            node = found
        return node

    def _file_system_of(self, path: str | None) -> bytes | None:
        # None: EXPORT and DUMP wait for no file system.
        tree = None if path is None else self._export_of(_names(path))
        return None if tree is None else self._exports.waits_for(tree.root.handle)

    def _export_of(self, names: list[str]) -> Tree | None:
        """Returns the exported tree whose name is the longest that the path with parts `names` begins with.

        None if the path is in no export.
        """
        trees = list(self._exports.trees)
        known, by_path, longest = self._by_path
        if trees != known:
            by_path = {tuple(_parts(tree)): tree for tree in trees}
            longest = max(map(len, by_path), default=0)
            self._by_path = trees, by_path, longest
        found = (by_path.get(tuple(names[:length])) for length in range(min(len(names), longest), -1, -1))
        return next((tree for tree in found if tree is not None), None)


def _groups(export: ExportTerms) -> list[groupnode] | None:
    """Returns the networks that rules of `export` admit, for the reply of EXPORT; [] for all hosts, None for none."""
    networks: dict[str, None] = {}
    for rule in export.all_rules:
        if not rule.denied:
            if rule.hosts is None:
                return []
            networks |= dict.fromkeys(map(str, rule.hosts))
        if rule.hosts is None and not (rule.principals or rule.certificates):
            # No call reaches a later rule.
            break
    return [groupnode(network) for network in networks] or None


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _parts(tree: Tree) -> list[str]:
    return _names(tree.export.name)
