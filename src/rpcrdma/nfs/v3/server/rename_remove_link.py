"""Procedures that rename and remove objects, and give them further names: RENAME, REMOVE, RMDIR, LINK."""

from __future__ import annotations

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.tree import Change
from rpcrdma.nfs.v3.server.attributes import name_of, post_op, wcc
from rpcrdma.nfs.v3.server.procedures import Procedures
from rpcrdma.nfs.v3.server.statuses import REFUSALS, status_of
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["RenameRemoveLinkProcedures"]

_OK = v3.nfsstat3.NFS3_OK


class RenameRemoveLinkProcedures(Procedures):
    """RENAME, REMOVE, RMDIR and LINK (RFC 1813 section 3.3), for `NfsService`."""

    @in_worker
    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        change, directory = Change(), None
        try:
            directory, who = self.locate_to_change(args.object.dir.data, context)
            name = name_of(args.object.name)
            with self.without_delegations(self.existing_object(directory, name, who)):
                directory.remove(who, name, change, is_directory=False)
            return v3.REMOVE3res(_OK, v3.REMOVE3resok(wcc(directory, change)))
        except REFUSALS as error:
            return v3.REMOVE3res(status_of(error), v3.REMOVE3resfail(wcc(directory, change)))

    @in_worker
    def rmdir(self, args: v3.RMDIR3args, context: CallContext) -> v3.RMDIR3res:
        change, directory = Change(), None
        try:
            directory, who = self.locate_to_change(args.object.dir.data, context)
            directory.remove(who, name_of(args.object.name), change, is_directory=True)
            return v3.RMDIR3res(_OK, v3.RMDIR3resok(wcc(directory, change)))
        except REFUSALS as error:
            return v3.RMDIR3res(status_of(error), v3.RMDIR3resfail(wcc(directory, change)))

    @in_worker
    def rename(self, args: v3.RENAME3args, context: CallContext) -> v3.RENAME3res:
        left, entered = Change(), Change()
        source = target = None
        try:
            source, who = self.locate_to_change(args.from_.dir.data, context)
            target, _ = self.locate_to_change(args.to.dir.data, context)
            old, new = name_of(args.from_.name), name_of(args.to.name)
            moved, replaced = self.existing_object(source, old, who), self.existing_object(target, new, who)
            with self.without_delegations(moved, replaced):
                source.rename(who, old, target, new, left, entered)
            return v3.RENAME3res(_OK, v3.RENAME3resok(wcc(source, left), wcc(target, entered)))
        except REFUSALS as error:
            return v3.RENAME3res(status_of(error), v3.RENAME3resfail(wcc(source, left), wcc(target, entered)))

    @in_worker
    def link(self, args: v3.LINK3args, context: CallContext) -> v3.LINK3res:
        change = Change()
        node = directory = None
        try:
            node, who = self.locate_to_change(args.file.data, context)
            directory, _ = self.locate_to_change(args.link.dir.data, context)
            with self.without_delegations(node):
                node.link(who, directory, name_of(args.link.name), change)
            return v3.LINK3res(_OK, v3.LINK3resok(post_op(node), wcc(directory, change)))
        except REFUSALS as error:
            return v3.LINK3res(status_of(error), v3.LINK3resfail(post_op(node), wcc(directory, change)))
