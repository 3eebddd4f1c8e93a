"""Procedures that move data: READ, WRITE, COMMIT."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.server.backend import Changes, Procedures, check_changeable, post_op, post_op_of
from rpcrdma.nfs.server.file_access import CallerIdentity, OpenFile, check_writer
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v3 import (
    COMMIT3args,
    COMMIT3res,
    COMMIT3resfail,
    COMMIT3resok,
    READ3args,
    READ3res,
    READ3resfail,
    READ3resok,
    WRITE3args,
    WRITE3res,
    WRITE3resfail,
    WRITE3resok,
    nfsstat3,
    stable_how,
)
from rpcrdma.rpc.service import MAY_BLOCK, ActAs, CallContext, Steps, in_worker, inline_or_worker
from rpcrdma.wire.buffers import Buffer

__all__ = ["TRANSFER_MAX", "DataProcedures"]

TRANSFER_MAX = 1 << 20
"""Octets of one READ or WRITE."""

_OK = nfsstat3.NFS3_OK
_OFFSET_MAX = (1 << 63) - 1


class DataProcedures(Procedures):
    """The procedures that move data."""

    @inline_or_worker
    def read(self, args: READ3args, context: CallContext) -> Steps[READ3res]:
        node = None
        try:
            while (node := self.backend.locate(args.file.data, context)) is None:
                yield MAY_BLOCK
            files, in_memory = self.backend.files, node.tree.in_memory
            caller = self.backend.callers.of(context.credential, node.tree.export)
            while (opened := files.for_reading(node, caller, at_once=not (in_memory or context.may_block))) is None:
                yield MAY_BLOCK
            # Attributes that are older than the data make a client read again at worst; newer ones would make it keep
            # old data.
            file, status = opened
            offset = args.offset
            # Beyond the end, also where no file of this system can be: no data, and the end (RFC 1813 section 3.3.6).
            wanted = min(args.count, TRANSFER_MAX, status.st_size - offset)
            data: Buffer = b""
            got = 0
            if wanted > 0:
                if not (file.tells_waiting or in_memory):
                    yield MAY_BLOCK
                data = buffer = context.buffer(wanted)
                if in_memory or context.may_block:
                    got = os.preadv(file.fd, (buffer,), offset)
                else:
                    got = _read_cached(file, buffer, offset)
                    if got < wanted:
                        yield MAY_BLOCK
                if got < wanted:
                    got = _read_on(file, buffer, offset, got)
                if got < wanted:
                    data = buffer[:got]
                    status = os.fstat(file.fd)
            attributes = post_op_of(node, status)
            return READ3res(_OK, READ3resok(attributes, got, offset + got >= status.st_size, data))
        except REFUSALS as error:
            return READ3res(status_of(error), READ3resfail(post_op(node)))

    @inline_or_worker
    def write(self, args: WRITE3args, context: CallContext) -> Steps[WRITE3res]:
        changes = Changes()
        try:
            files = self.backend.files
            while (node := self.backend.locate(args.file.data, context)) is None:
                yield MAY_BLOCK
            check_changeable(node)
            changes.node = node
            in_memory = node.tree.in_memory
            caller = self.backend.callers.of(context.credential, node.tree.export)
            file = files.open_for_writing(node)
            if not in_memory and (file is None or args.stable != stable_how.UNSTABLE):
                yield MAY_BLOCK
            if args.count > len(args.data):
                raise Refused(nfsstat3.NFS3ERR_INVAL)
            if args.count and args.offset + args.count > _OFFSET_MAX:
                raise Refused(nfsstat3.NFS3ERR_FBIG)
            if file is None:
                file = files.for_writing(node, caller)
            # As the caller, without the server's capabilities: quotas, reserved space and the clearing of set-user-id
            # bits depend on both.
            if in_memory:
                with caller:
                    return self._write(file, node, caller, changes, args)
            # Brief for an open file without a wish for the disk: its data goes to the page cache.
            yield ActAs(caller)
            return self._write(file, node, caller, changes, args)
        except REFUSALS as error:
            return WRITE3res(status_of(error), WRITE3resfail(changes.data()))

    @in_worker
    def commit(self, args: COMMIT3args, context: CallContext) -> COMMIT3res:
        changes = Changes()
        try:
            node = changes.node = self.backend.locate_to_change(args.file.data, context)
            file = self.backend.files.for_writing(node, self.backend.callers.of(context.credential, node.tree.export))
            verifier = self.backend.state.write_verifier
            with changes:
                # A WRITE that comes after this marks the file again.
                file.unstable = False
            try:
                os.fsync(file.fd)
            except OSError:
                self.backend.state.data_lost()
                raise
            return COMMIT3res(_OK, COMMIT3resok(changes.data(), verifier))
        except REFUSALS as error:
            return COMMIT3res(status_of(error), COMMIT3resfail(changes.data()))

    def _write(
        self, file: OpenFile, node: HeldNode, caller: CallerIdentity, changes: Changes, args: WRITE3args
    ) -> WRITE3res:
        """Writes with the caller's identity, which the thread has."""
        state = self.backend.state
        stable = args.stable
        # Taken before the data is written: if the data is lost later, COMMIT returns another verifier.
        verifier = state.write_verifier
        data = (
            args.data
            if args.count == len(args.data) <= TRANSFER_MAX
            else memoryview(args.data)[: min(args.count, TRANSFER_MAX)]
        )
        check_writer(file, node, caller)
        with changes:
            if stable == stable_how.UNSTABLE:
                file.unstable = True
            written = os.pwrite(file.fd, data, args.offset) if data else 0
        try:
            if stable == stable_how.DATA_SYNC:
                os.fdatasync(file.fd)
            elif stable == stable_how.FILE_SYNC:
                os.fsync(file.fd)
        except OSError:
            state.data_lost()
            raise
        return WRITE3res(_OK, WRITE3resok(changes.data(), written, stable, verifier))


def _read_cached(file: OpenFile, buffer: memoryview, offset: int) -> int:
    """Reads the leading octets that the page cache holds into `buffer`, without waiting; returns their number."""
    try:
        return os.preadv(file.fd, (buffer,), offset, os.RWF_NOWAIT)
    except OSError as error:
        file.tells_waiting = error.errno != errno.EOPNOTSUPP
        # A true error comes up again when a worker thread reads on.
        return 0


def _read_on(file: OpenFile, buffer: memoryview, offset: int, got: int) -> int:
    """Reads on behind the first `got` octets of `buffer`, up to the end of the file; returns how many it then has."""
    fd = file.fd
    while got < len(buffer):
        count = os.preadv(fd, (buffer[got:],) if got else (buffer,), offset + got)
        if not count:
            break
        got += count
    return got
