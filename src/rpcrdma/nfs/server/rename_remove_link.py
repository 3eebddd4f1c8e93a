"""Procedures that rename and remove objects, and give them further names: RENAME, REMOVE, RMDIR, LINK."""

from __future__ import annotations

import os
import stat

from rpcrdma.nfs.server.backend import DOTS, Changes, Procedures, check_directory, entry_name, post_op
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v3 import (
    LINK3args,
    LINK3res,
    LINK3resfail,
    LINK3resok,
    REMOVE3args,
    REMOVE3res,
    REMOVE3resfail,
    REMOVE3resok,
    RENAME3args,
    RENAME3res,
    RENAME3resfail,
    RENAME3resok,
    RMDIR3args,
    RMDIR3res,
    RMDIR3resfail,
    RMDIR3resok,
    diropargs3,
    nfsstat3,
)
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["RenameRemoveLinkProcedures"]

_OK = nfsstat3.NFS3_OK


class RenameRemoveLinkProcedures(Procedures):
    """The procedures that rename and remove objects, and give them further names."""

    @in_worker
    def remove(self, args: REMOVE3args, context: CallContext) -> REMOVE3res:
        changes = Changes()
        try:
            self._remove(args.object, context, changes, is_directory=False)
            return REMOVE3res(_OK, REMOVE3resok(changes.data()))
        except REFUSALS as error:
            return REMOVE3res(status_of(error), REMOVE3resfail(changes.data()))

    @in_worker
    def rmdir(self, args: RMDIR3args, context: CallContext) -> RMDIR3res:
        changes = Changes()
        try:
            self._remove(args.object, context, changes, is_directory=True)
            return RMDIR3res(_OK, RMDIR3resok(changes.data()))
        except REFUSALS as error:
            return RMDIR3res(status_of(error), RMDIR3resfail(changes.data()))

    @in_worker
    def rename(self, args: RENAME3args, context: CallContext) -> RENAME3res:
        source, target = Changes(), Changes()
        try:
            self._rename(args, context, source, target)
            return RENAME3res(_OK, RENAME3resok(source.data(), target.data()))
        except REFUSALS as error:
            return RENAME3res(status_of(error), RENAME3resfail(source.data(), target.data()))

    @in_worker
    def link(self, args: LINK3args, context: CallContext) -> LINK3res:
        changes = Changes()
        node = None
        try:
            node = self.backend.locate_to_change(args.file.data, context)
            self._link(node, args, context, changes)
            return LINK3res(_OK, LINK3resok(post_op(node), changes.data()))
        except REFUSALS as error:
            return LINK3res(status_of(error), LINK3resfail(post_op(node), changes.data()))

    def _remove(self, where: diropargs3, context: CallContext, changes: Changes, *, is_directory: bool) -> None:
        directory = changes.node = self.backend.locate_to_change(where.dir.data, context)
        check_directory(directory)
        name = entry_name(where.name)
        if name in DOTS and not is_directory:
            raise Refused(nfsstat3.NFS3ERR_ACCES)
        if name in DOTS:
            raise Refused(nfsstat3.NFS3ERR_INVAL if name == b"." else nfsstat3.NFS3ERR_EXIST)
        with changes:
            with self.backend.callers.of(context.credential, directory.tree.export):
                node = directory.tree.child(directory, name)
                if node.kind == stat.S_IFDIR and not is_directory:
                    raise Refused(nfsstat3.NFS3ERR_ISDIR)
                (os.rmdir if is_directory else os.unlink)(name, dir_fd=directory.fd)
            self.backend.removed(node)
        self.backend.synchronize(directory)

    def _rename(self, args: RENAME3args, context: CallContext, source: Changes, target: Changes) -> None:
        backend = self.backend
        before = source.node = backend.locate_to_change(args.from_.dir.data, context)
        after = target.node = backend.locate_to_change(args.to.dir.data, context)
        check_directory(before)
        check_directory(after)
        old, new = entry_name(args.from_.name), entry_name(args.to.name)
        if old in DOTS or new in DOTS:
            raise Refused(nfsstat3.NFS3ERR_INVAL)
        if before.tree is not after.tree:
            raise Refused(nfsstat3.NFS3ERR_XDEV)
        # Every call takes two locks in the same order.
        first, second = (source, target) if id(before.lock) <= id(after.lock) else (target, source)
        with first, second:
            with backend.callers.of(context.credential, before.tree.export):
                moved = before.tree.child(before, old)
                try:
                    replaced = after.tree.child(after, new)
                except FileNotFoundError:
                    replaced = None
                os.rename(old, new, src_dir_fd=before.fd, dst_dir_fd=after.fd)
            if replaced is None or replaced.handle != moved.handle:
                if replaced is not None:
                    backend.removed(replaced)
                after.tree.moved(moved, after, new)
        backend.synchronize(*({before, after}))

    def _link(self, node: HeldNode, args: LINK3args, context: CallContext, changes: Changes) -> None:
        directory = changes.node = self.backend.locate_to_change(args.link.dir.data, context)
        check_directory(directory)
        name = entry_name(args.link.name)
        if name in DOTS:
            raise Refused(nfsstat3.NFS3ERR_EXIST)
        if node.kind == stat.S_IFDIR:
            raise Refused(nfsstat3.NFS3ERR_ISDIR)
        if node.tree is not directory.tree:
            raise Refused(nfsstat3.NFS3ERR_XDEV)
        with changes, self.backend.callers.of(context.credential, directory.tree.export):
            os.link(node.link, name, dst_dir_fd=directory.fd, follow_symlinks=True)
        self.backend.synchronize(node, directory)
