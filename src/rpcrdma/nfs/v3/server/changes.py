"""Procedures that make, change, rename and remove objects: all that change something, except WRITE and COMMIT."""

from __future__ import annotations

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import claims
from rpcrdma.nfs.export.tree import MODIFY, Change, Create, CreateHow, FileKind, Make, Node, Wanted
from rpcrdma.nfs.v3.server.attributes import name_of, nfs_time, post_op, wanted_of, wcc
from rpcrdma.nfs.v3.server.procedures import REFUSALS, Procedures, StatusRefusal, status_of
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["ChangeProcedures"]

_OK = v3.nfsstat3.NFS3_OK
_HOW = {
    v3.createmode3.UNCHECKED: CreateHow.UNCHECKED,
    v3.createmode3.GUARDED: CreateHow.GUARDED,
    v3.createmode3.EXCLUSIVE: CreateHow.EXCLUSIVE,
}
_SPECIAL = {
    v3.ftype3.NF3CHR: FileKind.CHARACTER_DEVICE,
    v3.ftype3.NF3BLK: FileKind.BLOCK_DEVICE,
    v3.ftype3.NF3SOCK: FileKind.SOCKET,
    v3.ftype3.NF3FIFO: FileKind.FIFO,
}


class ChangeProcedures(Procedures):
    """SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME and LINK (RFC 1813 section 3.3)."""

    @in_worker
    def setattr(self, args: v3.SETATTR3args, context: CallContext) -> v3.SETATTR3res:
        change, node = Change(), None
        try:
            node, who = self.locate_to_change(args.object.data, context)
            ctime = args.guard.value if args.guard.check else None
            guard = None if ctime is None else lambda before: nfs_time(before.ctime_ns) == ctime
            wanted = wanted_of(args.new_attributes)
            if wanted.size is not None:
                self.check_claims(node, claims.WRITE)
            if wanted.size is not None:
                # Before the kernel sees the file opened for writing, which ends its lease.
                self.check_delegations(node)
                _file = node.open(who, MODIFY, at_once=False)
            with self.without_delegations(node):
                node.set_attributes(who, wanted, change, guard=guard)
            return v3.SETATTR3res(_OK, v3.SETATTR3resok(wcc(node, change)))
        except REFUSALS as error:
            return v3.SETATTR3res(status_of(error), v3.SETATTR3resfail(wcc(node, change)))

    @in_worker
    def create(self, args: v3.CREATE3args, context: CallContext) -> v3.CREATE3res:
        change, directory = Change(), None
        try:
            directory, who = self.locate_to_change(args.where.dir.data, context)
            how, value = _HOW[args.how.mode], args.how.value
            create = Create(how, wanted_of(value)) if isinstance(value, v3.sattr3) else Create(how, verifier=value)
            name = name_of(args.where.name)
            cuts = how is CreateHow.UNCHECKED and create.wanted.size is not None
            cut = self.existing_object(directory, name, who) if cuts else None
            if cut is not None:
                self.check_claims(cut, claims.WRITE)
            with self.without_delegations(cut):
                made = directory.create(who, name, create, change)
            return v3.CREATE3res(_OK, v3.CREATE3resok(*_shown(made), wcc(directory, change)))
        except REFUSALS as error:
            return v3.CREATE3res(status_of(error), v3.CREATE3resfail(wcc(directory, change)))

    @in_worker
    def mkdir(self, args: v3.MKDIR3args, context: CallContext) -> v3.MKDIR3res:
        change, directory = Change(), None
        try:
            directory, who = self.locate_to_change(args.where.dir.data, context)
            name, wanted = name_of(args.where.name), wanted_of(args.attributes)
            made = directory.make(who, name, Make(FileKind.DIRECTORY), wanted, change)
            return v3.MKDIR3res(_OK, v3.MKDIR3resok(*_shown(made), wcc(directory, change)))
        except REFUSALS as error:
            return v3.MKDIR3res(status_of(error), v3.MKDIR3resfail(wcc(directory, change)))

    @in_worker
    def symlink(self, args: v3.SYMLINK3args, context: CallContext) -> v3.SYMLINK3res:
        change, directory = Change(), None
        try:
            directory, who = self.locate_to_change(args.where.dir.data, context)
            name, wanted = name_of(args.where.name), wanted_of(args.symlink.symlink_attributes)
            link = Make(FileKind.SYMLINK, target=name_of(args.symlink.symlink_data))
            made = directory.make(who, name, link, wanted, change)
            return v3.SYMLINK3res(_OK, v3.SYMLINK3resok(*_shown(made), wcc(directory, change)))
        except REFUSALS as error:
            return v3.SYMLINK3res(status_of(error), v3.SYMLINK3resfail(wcc(directory, change)))

    @in_worker
    def mknod(self, args: v3.MKNOD3args, context: CallContext) -> v3.MKNOD3res:
        change, directory = Change(), None
        try:
            node, wanted = _node_wanted(args.what)
            directory, who = self.locate_to_change(args.where.dir.data, context)
            made = directory.make(who, name_of(args.where.name), node, wanted, change)
            return v3.MKNOD3res(_OK, v3.MKNOD3resok(*_shown(made), wcc(directory, change)))
        except REFUSALS as error:
            return v3.MKNOD3res(status_of(error), v3.MKNOD3resfail(wcc(directory, change)))

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


def _shown(made: Node | None) -> tuple[v3.post_op_fh3, v3.post_op_attr]:
    """Returns (handle, attributes) of a new object for a reply, both without value if `made` is None."""
    if made is None:
        # The object exists, but without its handle: the client may look it up.
        return v3.post_op_fh3(False, None), v3.post_op_attr(False, None)
    return v3.post_op_fh3(True, v3.nfs_fh3(made.handle)), post_op(made)


def _node_wanted(what: v3.mknoddata3) -> tuple[Make, Wanted]:
    """Returns (kind and device number of the special file that MKNOD is to make, the attributes that it gets).

    Raises:
        StatusRefusal: NFS3ERR_BADTYPE: the type is that of no device, socket or FIFO.
        Refused: EINVAL: a time has 10**9 nanoseconds or more.
    """
    kind = _SPECIAL.get(what.type)
    if kind is None:
        raise StatusRefusal(v3.nfsstat3.NFS3ERR_BADTYPE)
    if isinstance(what.value, v3.devicedata3):
        spec = what.value.spec
        return Make(kind, device=(spec.specdata1, spec.specdata2)), wanted_of(what.value.dev_attributes)
    assert isinstance(what.value, v3.sattr3)
    return Make(kind), wanted_of(what.value)
