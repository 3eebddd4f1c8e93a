"""Procedures that find objects and report on them: LOOKUP, GETATTR, ACCESS, READLINK, FSSTAT, FSINFO, PATHCONF."""

from __future__ import annotations

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.tree import OFFSET_MAX
from rpcrdma.nfs.v3.server.attributes import name_of, post_op, post_op_of, text_of
from rpcrdma.nfs.v3.server.procedures import REFUSALS, Procedures, status_of
from rpcrdma.rpc.service import MAY_BLOCK, CallContext, Steps, in_worker, inline_or_worker

__all__ = ["InformationProcedures"]

_OK = v3.nfsstat3.NFS3_OK
_DIRECTORY_OCTETS_PREFERRED = 1 << 16


class InformationProcedures(Procedures):
    """LOOKUP, GETATTR, ACCESS, READLINK, FSSTAT, FSINFO and PATHCONF (RFC 1813 section 3.3), for `NfsService`."""

    @inline_or_worker
    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> Steps[v3.GETATTR3res]:
        try:
            while (found := self.exports.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            node, _ = found
            attributes = post_op_of(node.attributes()).value
            assert attributes is not None
            return v3.GETATTR3res(_OK, v3.GETATTR3resok(attributes))
        except REFUSALS as error:
            return v3.GETATTR3res(status_of(error), None)

    @inline_or_worker
    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> Steps[v3.LOOKUP3res]:
        directory = None
        try:
            while (found := self.exports.locate(args.what.dir.data, context)) is None:
                yield MAY_BLOCK
            directory, who = found
            name = name_of(args.what.name)
            while (node := directory.lookup(who, name, at_once=not context.may_block)) is None:
                yield MAY_BLOCK
            return v3.LOOKUP3res(_OK, v3.LOOKUP3resok(v3.nfs_fh3(node.handle), post_op(node), post_op(directory)))
        except REFUSALS as error:
            return v3.LOOKUP3res(status_of(error), v3.LOOKUP3resfail(post_op(directory)))

    @inline_or_worker
    def access(self, args: v3.ACCESS3args, context: CallContext) -> Steps[v3.ACCESS3res]:
        node = None
        try:
            while (found := self.exports.locate(args.object.data, context)) is None:
                yield MAY_BLOCK
            node, who = found
            granted = node.access(who, args.access)
            return v3.ACCESS3res(_OK, v3.ACCESS3resok(post_op(node), granted))
        except REFUSALS as error:
            return v3.ACCESS3res(status_of(error), v3.ACCESS3resfail(post_op(node)))

    @in_worker
    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        node = None
        try:
            node, _ = self.locate_in_worker(args.symlink.data, context)
            target = text_of(node.read_link())
            return v3.READLINK3res(_OK, v3.READLINK3resok(post_op(node), target))
        except REFUSALS as error:
            return v3.READLINK3res(status_of(error), v3.READLINK3resfail(post_op(node)))

    @in_worker
    def fsstat(self, args: v3.FSSTAT3args, context: CallContext) -> v3.FSSTAT3res:
        node = None
        try:
            node, _ = self.locate_in_worker(args.fsroot.data, context)
            return v3.FSSTAT3res(_OK, v3.FSSTAT3resok(post_op(node), *node.space(), 0))
        except REFUSALS as error:
            return v3.FSSTAT3res(status_of(error), v3.FSSTAT3resfail(post_op(node)))

    @inline_or_worker
    def fsinfo(self, args: v3.FSINFO3args, context: CallContext) -> Steps[v3.FSINFO3res]:
        node = None
        try:
            while (found := self.exports.locate(args.fsroot.data, context)) is None:
                yield MAY_BLOCK
            node, _ = found
            transfer_octets = node.tree.transfer_octets
            return v3.FSINFO3res(
                _OK,
                v3.FSINFO3resok(
                    obj_attributes=post_op(node),
                    rtmax=transfer_octets,
                    rtpref=transfer_octets,
                    rtmult=4096,
                    wtmax=transfer_octets,
                    wtpref=transfer_octets,
                    wtmult=4096,
                    dtpref=_DIRECTORY_OCTETS_PREFERRED,
                    maxfilesize=OFFSET_MAX,
                    time_delta=v3.nfstime3(0, 1),
                    properties=v3.FSF3_LINK | v3.FSF3_SYMLINK | v3.FSF3_HOMOGENEOUS | v3.FSF3_CANSETTIME,
                ),
            )
        except REFUSALS as error:
            return v3.FSINFO3res(status_of(error), v3.FSINFO3resfail(post_op(node)))

    @in_worker
    def pathconf(self, args: v3.PATHCONF3args, context: CallContext) -> v3.PATHCONF3res:
        node = None
        try:
            node, _ = self.locate_in_worker(args.object.data, context)
            limits = node.path_limits()
            return v3.PATHCONF3res(
                _OK,
                v3.PATHCONF3resok(
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
            return v3.PATHCONF3res(status_of(error), v3.PATHCONF3resfail(post_op(node)))
