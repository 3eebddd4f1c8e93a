"""Procedures that find objects and report on them: LOOKUP, GETATTR, ACCESS, READLINK, FSSTAT, FSINFO, PATHCONF."""

from __future__ import annotations

import os
import stat

from rpcrdma.nfs.server.backend import DOTS, Procedures, check_directory, entry_name, post_op, post_op_of
from rpcrdma.nfs.server.data import TRANSFER_MAX
from rpcrdma.nfs.server.file_access import CallerIdentity
from rpcrdma.nfs.server.linux_calls import faccess_as_caller
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v3 import (
    ACCESS3_DELETE,
    ACCESS3_EXECUTE,
    ACCESS3_EXTEND,
    ACCESS3_LOOKUP,
    ACCESS3_MODIFY,
    ACCESS3_READ,
    FSF3_CANSETTIME,
    FSF3_HOMOGENEOUS,
    FSF3_LINK,
    FSF3_SYMLINK,
    NFS3_MAXNAMLEN,
    ACCESS3args,
    ACCESS3res,
    ACCESS3resfail,
    ACCESS3resok,
    FSINFO3args,
    FSINFO3res,
    FSINFO3resfail,
    FSINFO3resok,
    FSSTAT3args,
    FSSTAT3res,
    FSSTAT3resfail,
    FSSTAT3resok,
    GETATTR3args,
    GETATTR3res,
    GETATTR3resok,
    LOOKUP3args,
    LOOKUP3res,
    LOOKUP3resfail,
    LOOKUP3resok,
    PATHCONF3args,
    PATHCONF3res,
    PATHCONF3resfail,
    PATHCONF3resok,
    READLINK3args,
    READLINK3res,
    READLINK3resfail,
    READLINK3resok,
    nfs_fh3,
    nfsstat3,
    nfstime3,
)
from rpcrdma.rpc.service import MAY_BLOCK, CallContext, Steps, in_worker, inline_or_worker

__all__ = ["InformationProcedures"]

_OK = nfsstat3.NFS3_OK
_DIRECTORY_OCTETS_PREFERRED = 1 << 16
_FILE_OCTETS_MAX = (1 << 63) - 1
_LINKS_MAX = 0xFFFFFFFF

_WRITING = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE
_OF_DIRECTORIES = (
    (os.R_OK, ACCESS3_READ),
    (os.X_OK, ACCESS3_LOOKUP),
    (os.W_OK | os.X_OK, ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE),
)
_OF_OTHERS = (
    (os.R_OK, ACCESS3_READ),
    (os.W_OK, ACCESS3_MODIFY | ACCESS3_EXTEND),
    (os.X_OK, ACCESS3_EXECUTE),
)


class InformationProcedures(Procedures):
    """The procedures that find objects and report on them."""

    @inline_or_worker
    def getattr(self, args: GETATTR3args, context: CallContext) -> Steps[GETATTR3res]:
        try:
            while (node := self.backend.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            attributes = post_op_of(node, os.fstat(node.fd)).value
            assert attributes is not None
            return GETATTR3res(_OK, GETATTR3resok(attributes))
        except REFUSALS as error:
            return GETATTR3res(status_of(error), None)

    @inline_or_worker
    def lookup(self, args: LOOKUP3args, context: CallContext) -> Steps[LOOKUP3res]:
        directory = None
        try:
            while (directory := self.backend.locate(args.what.dir.data, context)) is None:
                yield MAY_BLOCK
            name = entry_name(args.what.name)
            caller = self.backend.callers.of(context.credential, directory.tree.export)
            while (node := _find(directory, name, caller, at_once=not context.may_block)) is None:
                yield MAY_BLOCK
            attributes = post_op(node) if name in DOTS else post_op_of(node, node.status)
            return LOOKUP3res(_OK, LOOKUP3resok(nfs_fh3(node.handle), attributes, post_op(directory)))
        except REFUSALS as error:
            return LOOKUP3res(status_of(error), LOOKUP3resfail(post_op(directory)))

    @inline_or_worker
    def access(self, args: ACCESS3args, context: CallContext) -> Steps[ACCESS3res]:
        node = None
        try:
            while (node := self.backend.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            granted = 0
            wanted = args.access & ~_WRITING if node.tree.export.read_only else args.access
            with self.backend.callers.of(context.credential, node.tree.export):
                for mode, bits in _OF_DIRECTORIES if node.kind == stat.S_IFDIR else _OF_OTHERS:
                    if wanted & bits and faccess_as_caller(node.fd, mode):
                        granted |= wanted & bits
            return ACCESS3res(_OK, ACCESS3resok(post_op(node), granted))
        except REFUSALS as error:
            return ACCESS3res(status_of(error), ACCESS3resfail(post_op(node)))

    @in_worker
    def readlink(self, args: READLINK3args, context: CallContext) -> READLINK3res:
        node = None
        try:
            node = self.backend.locate_in_worker(args.symlink.data, context)
            if node.kind != stat.S_IFLNK:
                raise Refused(nfsstat3.NFS3ERR_INVAL)
            target = os.readlink(b"", dir_fd=node.fd).decode("utf-8", "surrogateescape")
            return READLINK3res(_OK, READLINK3resok(post_op(node), target))
        except REFUSALS as error:
            return READLINK3res(status_of(error), READLINK3resfail(post_op(node)))

    @in_worker
    def fsstat(self, args: FSSTAT3args, context: CallContext) -> FSSTAT3res:
        node = None
        try:
            node = self.backend.locate_in_worker(args.fsroot.data, context)
            space = os.fstatvfs(node.fd)
            unit = space.f_frsize
            return FSSTAT3res(
                _OK,
                FSSTAT3resok(
                    post_op(node),
                    space.f_blocks * unit,
                    space.f_bfree * unit,
                    space.f_bavail * unit,
                    space.f_files,
                    space.f_ffree,
                    space.f_favail,
                    0,
                ),
            )
        except REFUSALS as error:
            return FSSTAT3res(status_of(error), FSSTAT3resfail(post_op(node)))

    @inline_or_worker
    def fsinfo(self, args: FSINFO3args, context: CallContext) -> Steps[FSINFO3res]:
        node = None
        try:
            while (node := self.backend.locate(args.fsroot.data, context)) is None:
                yield MAY_BLOCK
            return FSINFO3res(
                _OK,
                FSINFO3resok(
                    obj_attributes=post_op(node),
                    rtmax=TRANSFER_MAX,
                    rtpref=TRANSFER_MAX,
                    rtmult=4096,
                    wtmax=TRANSFER_MAX,
                    wtpref=TRANSFER_MAX,
                    wtmult=4096,
                    dtpref=_DIRECTORY_OCTETS_PREFERRED,
                    maxfilesize=_FILE_OCTETS_MAX,
                    time_delta=nfstime3(0, 1),
                    properties=FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
                ),
            )
        except REFUSALS as error:
            return FSINFO3res(status_of(error), FSINFO3resfail(post_op(node)))

    @in_worker
    def pathconf(self, args: PATHCONF3args, context: CallContext) -> PATHCONF3res:
        node = None
        try:
            node = self.backend.locate_in_worker(args.object.data, context)
            return PATHCONF3res(
                _OK,
                PATHCONF3resok(
                    obj_attributes=post_op(node),
                    linkmax=_bound(node, "PC_LINK_MAX", _LINKS_MAX),
                    name_max=min(_bound(node, "PC_NAME_MAX", NFS3_MAXNAMLEN), NFS3_MAXNAMLEN),
                    no_trunc=True,
                    chown_restricted=True,
                    case_insensitive=False,
                    case_preserving=True,
                ),
            )
        except REFUSALS as error:
            return PATHCONF3res(status_of(error), PATHCONF3resfail(post_op(node)))


def _find(directory: HeldNode, name: bytes, caller: CallerIdentity, *, at_once: bool) -> HeldNode | None:
    """The object that a directory has under this name; with `at_once` None where that may block."""
    check_directory(directory)
    tree = directory.tree
    if name not in DOTS:
        with caller:
            return tree.child_at_once(directory, name) if at_once else tree.child(directory, name)
    if at_once and name == b"..":
        return None
    with caller:
        searchable = faccess_as_caller(directory.fd, os.X_OK)
    if not searchable:
        raise Refused(nfsstat3.NFS3ERR_ACCES)
    return directory if name == b"." else tree.parent(directory)


def _bound(node: HeldNode, name: str, most: int) -> int:
    """A bound of the file system, at most `most`; the kernel's negative value means that it has none."""
    try:
        value = os.pathconf(node.link, name)
    except OSError:
        return most
    return min(value, most) if value >= 0 else most
