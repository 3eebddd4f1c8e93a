"""Procedures that find objects and report on them: LOOKUP, GETATTR, ACCESS, READLINK, FSSTAT, FSINFO, PATHCONF."""

from __future__ import annotations

from rpcrdma.nfs.export.tree import OFFSET_MAX
from rpcrdma.nfs.v3 import (
    FSF3_CANSETTIME,
    FSF3_HOMOGENEOUS,
    FSF3_LINK,
    FSF3_SYMLINK,
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
from rpcrdma.nfs.v3.server.attributes import name_of, post_op, post_op_of, text_of
from rpcrdma.nfs.v3.server.procedures import Procedures
from rpcrdma.nfs.v3.server.statuses import REFUSALS, status_of
from rpcrdma.rpc.service import MAY_BLOCK, CallContext, Steps, in_worker, inline_or_worker

__all__ = ["InformationProcedures"]

_OK = nfsstat3.NFS3_OK
_DIRECTORY_OCTETS_PREFERRED = 1 << 16


class InformationProcedures(Procedures):
    """The procedures that find objects and report on them."""

    @inline_or_worker
    def getattr(self, args: GETATTR3args, context: CallContext) -> Steps[GETATTR3res]:
        try:
            while (found := self.exports.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            node, _ = found
            attributes = post_op_of(node.attributes()).value
            assert attributes is not None
            return GETATTR3res(_OK, GETATTR3resok(attributes))
        except REFUSALS as error:
            return GETATTR3res(status_of(error), None)

    @inline_or_worker
    def lookup(self, args: LOOKUP3args, context: CallContext) -> Steps[LOOKUP3res]:
        directory = None
        try:
            while (found := self.exports.locate(args.what.dir.data, context)) is None:
                yield MAY_BLOCK
            directory, who = found
            name = name_of(args.what.name)
            while (node := directory.lookup(who, name, at_once=not context.may_block)) is None:
                yield MAY_BLOCK
            return LOOKUP3res(_OK, LOOKUP3resok(nfs_fh3(node.handle), post_op(node), post_op(directory)))
        except REFUSALS as error:
            return LOOKUP3res(status_of(error), LOOKUP3resfail(post_op(directory)))

    @inline_or_worker
    def access(self, args: ACCESS3args, context: CallContext) -> Steps[ACCESS3res]:
        node = None
        try:
            while (found := self.exports.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            node, who = found
            granted = node.access(who, args.access)
            return ACCESS3res(_OK, ACCESS3resok(post_op(node), granted))
        except REFUSALS as error:
            return ACCESS3res(status_of(error), ACCESS3resfail(post_op(node)))

    @in_worker
    def readlink(self, args: READLINK3args, context: CallContext) -> READLINK3res:
        node = None
        try:
            node, _ = self.locate_in_worker(args.symlink.data, context)
            target = text_of(node.read_link())
            return READLINK3res(_OK, READLINK3resok(post_op(node), target))
        except REFUSALS as error:
            return READLINK3res(status_of(error), READLINK3resfail(post_op(node)))

    @in_worker
    def fsstat(self, args: FSSTAT3args, context: CallContext) -> FSSTAT3res:
        node = None
        try:
            node, _ = self.locate_in_worker(args.fsroot.data, context)
            space = node.space()
            return FSSTAT3res(
                _OK,
                FSSTAT3resok(
                    post_op(node),
                    space.total,
                    space.free,
                    space.available,
                    space.files_total,
                    space.files_free,
                    space.files_available,
                    0,
                ),
            )
        except REFUSALS as error:
            return FSSTAT3res(status_of(error), FSSTAT3resfail(post_op(node)))

    @inline_or_worker
    def fsinfo(self, args: FSINFO3args, context: CallContext) -> Steps[FSINFO3res]:
        node = None
        try:
            while (found := self.exports.locate(args.fsroot.data, context)) is None:
                yield MAY_BLOCK
            node, _ = found
            transfer_octets = node.tree.transfer_octets
            return FSINFO3res(
                _OK,
                FSINFO3resok(
                    obj_attributes=post_op(node),
                    rtmax=transfer_octets,
                    rtpref=transfer_octets,
                    rtmult=4096,
                    wtmax=transfer_octets,
                    wtpref=transfer_octets,
                    wtmult=4096,
                    dtpref=_DIRECTORY_OCTETS_PREFERRED,
                    maxfilesize=OFFSET_MAX,
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
            node, _ = self.locate_in_worker(args.object.data, context)
            limits = node.path_limits()
            return PATHCONF3res(
                _OK,
                PATHCONF3resok(
                    obj_attributes=post_op(node),
                    linkmax=limits.links,
                    name_max=limits.name_octets,
                    no_trunc=True,
                    chown_restricted=True,
                    case_insensitive=False,
                    case_preserving=True,
                ),
            )
        except REFUSALS as error:
            return PATHCONF3res(status_of(error), PATHCONF3resfail(post_op(node)))
