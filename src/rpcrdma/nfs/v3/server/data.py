"""Procedures that move data: READ, WRITE, COMMIT."""

from __future__ import annotations

import errno

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import claims
from rpcrdma.nfs.export.tree import MODIFY, OFFSET_MAX, Change, Refused, Stable, check_changeable
from rpcrdma.nfs.v3.server.attributes import post_op, post_op_of, wcc
from rpcrdma.nfs.v3.server.procedures import REFUSALS, Procedures, status_of
from rpcrdma.rpc.service import MAY_BLOCK, ActAs, CallContext, Steps, in_worker, inline_or_worker
from rpcrdma.wire.buffers import Buffer

__all__ = ["DataProcedures"]

_OK = v3.nfsstat3.NFS3_OK
_STABLE = {how: Stable(how) for how in v3.stable_how}
_HOW = {Stable(how): how for how in v3.stable_how}


class DataProcedures(Procedures):
    """READ, WRITE and COMMIT (RFC 1813 section 3.3), for `NfsService`."""

    @inline_or_worker
    def read(self, args: v3.READ3args, context: CallContext) -> Steps[v3.READ3res]:
        node = None
        try:
            while (found := self.exports.locate(args.file.data, context)) is None:
                yield MAY_BLOCK
            node, who = found
            if self.claims.denials:
                self.check_claims(node, claims.READ)
            tree = node.tree
            in_memory = tree.in_memory
            while (opened := node.open_to_read(who, at_once=not (in_memory or context.may_block))) is None:
                yield MAY_BLOCK
            # Attributes that are older than the data make a client read again at worst; newer ones would make it keep
            # old data.
            file, attributes = opened
            offset = args.offset
            # Beyond the end, also where no file of this system can be: no data, and the end (RFC 1813 section 3.3.6).
            wanted = min(args.count, tree.transfer_octets, attributes.size - offset)
            data: Buffer = b""
            got = 0
            if wanted > 0:
                data = buffer = context.buffer(wanted)
                got = file.read(buffer, offset, at_once=not context.may_block)
                if got < wanted:
                    if not (in_memory or context.may_block):
                        yield MAY_BLOCK
                        got += file.read(buffer[got:], offset + got, at_once=False)
                    if got < wanted:
                        data = buffer[:got]
                        attributes = file.attributes()
            at_end = offset + got >= attributes.size
            return v3.READ3res(_OK, v3.READ3resok(post_op_of(attributes), got, at_end, data))
        except REFUSALS as error:
            return v3.READ3res(status_of(error), v3.READ3resfail(post_op(node)))

    @inline_or_worker
    def write(self, args: v3.WRITE3args, context: CallContext) -> Steps[v3.WRITE3res]:
        change, node = Change(), None
        try:
            while (found := self.exports.locate(args.file.data, context)) is None:
                yield MAY_BLOCK
            target, who = found
            check_changeable(who)
            if self.claims.in_grace or self.claims.denials or self.claims.delegations:
                self.check_no_grace()
                self.check_claims(target, claims.WRITE)
                self.check_delegations(target)
            node, tree = target, target.tree
            in_memory = tree.in_memory
            file = node.opened_for_writing()
            if not in_memory and (file is None or args.stable != v3.stable_how.UNSTABLE):
                yield MAY_BLOCK
            data, count = args.data, args.count
            given = len(data)
            if count > given:
                raise Refused(errno.EINVAL)
            if count and args.offset + count > OFFSET_MAX:
                raise Refused(errno.EFBIG)
            if count < given:
                data = memoryview(data)[:count]
            if file is None:
                file = node.open(who, MODIFY, at_once=False)
                assert file is not None
                # While it is open for writing, no client gets a delegation: this is the last look.
                self.check_delegations(node)
            stable = _STABLE[args.stable]
            # As the caller, without the server's capabilities: quotas, reserved space and the clearing of set-user-id
            # bits depend on both.
            if in_memory:
                with who.identity:
                    written = file.write(data, args.offset, stable, change, judge=True)
            else:
                # Brief for an UNSTABLE write to an open file: its data goes to the page cache.
                yield ActAs(who.identity)
                written = file.write(data, args.offset, stable, change, judge=True)
            resok = v3.WRITE3resok(wcc(node, change), written.octets, _HOW[written.stable], written.verifier)
            return v3.WRITE3res(_OK, resok)
        except REFUSALS as error:
            return v3.WRITE3res(status_of(error), v3.WRITE3resfail(wcc(node, change)))

    @in_worker
    def commit(self, args: v3.COMMIT3args, context: CallContext) -> v3.COMMIT3res:
        change, node = Change(), None
        try:
            # Of a read-only export too, which may have been one for writing before: it changes nothing.
            self.check_no_grace()
            node, who = self.locate_in_worker(args.file.data, context)
            if node.opened_for_writing() is None:
                # Before the kernel sees the file opened for writing, which ends its lease.
                self.check_delegations(node)
            file = node.open(who, MODIFY, at_once=False)
            assert file is not None
            verifier = file.commit(change)
            return v3.COMMIT3res(_OK, v3.COMMIT3resok(wcc(node, change), verifier))
        except REFUSALS as error:
            return v3.COMMIT3res(status_of(error), v3.COMMIT3resfail(wcc(node, change)))
