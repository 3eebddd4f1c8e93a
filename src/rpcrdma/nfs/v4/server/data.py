"""Operations that read and change files: READ, WRITE, COMMIT, SETATTR."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from typing import Final

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.nfs.export import claims, tree
from rpcrdma.nfs.export.tree import MODIFY, OFFSET_MAX, Change, FileKind, OpenFile, Stable, Wanted, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import bits, bits_of, differing, wanted_of, words
from rpcrdma.nfs.v4.refusal import Refused, status_of
from rpcrdma.nfs.v4.server.compound import Compound, Placeable
from rpcrdma.nfs.v4.server.delegations import wait_for_delegations, without_delegations
from rpcrdma.nfs.v4.server.opens import check_regular, io_file
from rpcrdma.rpc.service import WorkerNeeded
from rpcrdma.wire.buffers import Buffer

__all__ = ["commit", "file_to_read", "lent_buffer", "opened_to_write", "read", "set_attributes", "write"]

_S = nfs4.nfsstat4
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""
_FILE: Final = FileKind.FILE
_ENDS: Final = struct.Struct(">2I")
"""The result of READ without the data: whether the file ends, and the length of the data."""
_BRIEF: Final = {nfs4.nfs_opnum4.OP_GETATTR, None}
"""The next operation (None: none) with which a WRITE may run in the thread for brief calls: it does not block."""


def file_to_read(compound: Compound, stateid: nfs4.stateid4) -> OpenFile:
    """Returns the current file, open for reading by a stateid, or opened now by the caller's rights.

    It is opened now for a special stateid, another principal's or that of an open for writing, and always in a tree
    that does not keep removed files. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_ISDIR or EACCES.
    """
    node = compound.current
    assert node is not None
    if node.kind is not _FILE:
        check_regular(node)
    file = io_file(compound, stateid, claims.READ)
    if file is None or not node.tree.keeps_removed:
        # A store's file that was opened before has the content of then, the present object that of its attributes.
        file = compound.or_wait(node.open(compound.caller, tree.READ, at_once=compound.at_once))
    return file


def lent_buffer(compound: Compound, octets: int) -> memoryview:
    """Returns writable memory for `octets` octets of a result; the RPC layer takes it back after the reply.

    Raises Refused (NFS4ERR_DELAY) if there is no memory for the COMPOUND now, or its connection has ended.
    """
    try:
        return compound.context.buffer(octets)
    except OutOfBuffers:
        raise Refused(_S.NFS4ERR_DELAY) from None


def read(compound: Compound, args: nfs4.READ4args) -> Placeable:
    """Runs READ (RFC 8881 section 18.22): returns the encoded result, with the data as its DDP-eligible item.

    Reads at most `Tree.transfer_octets` octets. In the event loop, reads only data that need no wait for a disk. If
    more are wanted, keeps the data read in `compound.partial`, and raises WorkerNeeded: `read` runs again in a worker
    thread, and reads the rest. Raises Refused, tree.Refused or OSError, such as NFS4ERR_BAD_STATEID, or Refused with
    the status in `compound.too_big` if the reply has no room.
    """
    # The file may have lost its end meanwhile: memory that is not needed any more is not for the next READ.
    begun, compound.partial = compound.partial, None
    file, offset = file_to_read(compound, args.stateid), args.offset
    node = compound.current
    assert node is not None
    exported, size = node.tree, file.attributes().size
    # Beyond the end, also where no file of this system can be: no data, and the end.
    wanted = max(0, min(args.count, exported.transfer_octets, size - offset))
    if compound.left(wanted) < _ENDS.size:
        raise Refused(compound.too_big)
    data: Buffer = b""
    got = 0
    if wanted:
        buffer, got = begun or (lent_buffer(compound, wanted), 0)
        wanted = min(wanted, len(buffer))
        at_once = not (exported.in_memory or compound.context.may_block)
        if got < wanted:
            got += file.read(buffer[got:wanted], offset + got, at_once=at_once)
        if got < wanted and at_once:
            compound.partial = buffer, got
            raise WorkerNeeded
        data = buffer[:got]
        if got < wanted:
            size = file.attributes().size
    return _tuple(Placeable, (_ENDS.pack(offset + got >= size, got), data))


def write(compound: Compound, args: nfs4.WRITE4args) -> nfs4.WRITE4resok:
    """Runs WRITE (RFC 8881 section 18.32): writes to the current file, at most `Tree.transfer_octets` octets.

    The thread takes on the caller's identity meanwhile, on which quotas depend. Returns the number of octets written,
    their stability and the write verifier. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_BAD_STATEID, NFS4ERR_DELAY while delegations are recalled, or ENOSPC.
    """
    node = compound.node
    check_regular(node)
    check_changeable(compound.caller)
    octets = len(args.data)
    if octets and args.offset + octets > OFFSET_MAX:
        raise Refused(_S.NFS4ERR_FBIG)
    who, within = compound.caller, node.tree
    file = io_file(compound, args.stateid, claims.WRITE) or opened_to_write(compound)
    if not within.in_memory:
        brief = args.stable == nfs4.stable_how4.UNSTABLE4 and compound.next_operation in _BRIEF
        compound.wait(who.identity if brief else None)
    data = args.data if octets <= within.transfer_octets else memoryview(args.data)[: within.transfer_octets]
    with contextlib.nullcontext() if compound.acting else who.identity:
        written = file.write(data, args.offset, Stable(args.stable), Change(), judge=False)
    return nfs4.WRITE4resok(written.octets, nfs4.stable_how4(written.stable), written.verifier)


def opened_to_write(compound: Compound) -> OpenFile:
    """Opens the current file for writing by the rights of the caller, for a call whose stateid gives no open file.

    Raises WorkerNeeded (run again in a worker thread), Refused (NFS4ERR_DELAY while delegations are recalled),
    tree.Refused or OSError.
    """
    node = compound.node
    file = compound.or_wait(node.open(compound.caller, MODIFY, at_once=compound.at_once))
    # While it is open for writing, no client gets a delegation: this is the last look.
    wait_for_delegations(compound, node)
    return file


def commit(compound: Compound, _args: nfs4.COMMIT4args) -> nfs4.COMMIT4resok:
    """Runs COMMIT (RFC 8881 section 18.3): syncs unstable data of the current file; returns the write verifier.

    Raises WorkerNeeded (run again in a worker thread), Refused (such as NFS4ERR_DELAY while delegations are recalled),
    tree.Refused or OSError, such as EIO if data is lost.
    """
    node = compound.node
    check_regular(node)
    # Of a read-only export too, which may have been one for writing before: it changes nothing.
    if not node.tree.in_memory:
        compound.wait()
    file = node.opened_for_writing()
    if file is None:
        # Before the kernel sees the file opened for writing, which ends its lease.
        wait_for_delegations(compound, node)
        file = opened_to_write(compound)
    return nfs4.COMMIT4resok(file.commit(Change()))


def set_attributes(compound: Compound, args: nfs4.SETATTR4args) -> nfs4.SETATTR4resok:
    """Runs SETATTR (RFC 8881 section 18.30): sets attributes of the current object; returns the bitmap4 of those set.

    A size needs the stateid in `args`. Ignores the mode of a symbolic link. Raises WorkerNeeded (run again in a worker
    thread), Refused, tree.Refused or OSError, such as NFS4ERR_ATTRNOTSUPP, NFS4ERR_BAD_STATEID, NFS4ERR_DELAY while
    delegations are recalled, NFS4ERR_GRACE, or EROFS. If setting fails halfway, `Refused.value` has the attributes that
    were set.
    """
    node = compound.node
    check_changeable(compound.caller)
    compound.wait()
    wanted = wanted_of(args.obj_attributes)
    if wanted.size is not None:
        check_regular(node)
        # Refuses what share reservations, locks and a grace period forbid. The file stays open until it is cut.
        _file = io_file(compound, args.stateid, claims.WRITE) or opened_to_write(compound)
    elif compound.server.state.claims.in_grace:
        # A client may have the object delegated, and has yet to reclaim that.
        raise Refused(_S.NFS4ERR_GRACE)
    attributes = bits_of(args.obj_attributes.attrmask)
    if node.kind is FileKind.SYMLINK:
        # Linux has no permissions of symbolic links; its own server passes over them, too.
        wanted = dataclasses.replace(wanted, mode=None)
        attributes &= ~bits(nfs4.FATTR4_MODE)
    change = Change()
    try:
        with without_delegations(compound, node):
            node.set_attributes(compound.caller, wanted, change)
    except (tree.Refused, OSError) as error:
        raise Refused(status_of(error), nfs4.SETATTR4resok(words(_set_before(wanted, change)))) from None
    return nfs4.SETATTR4resok(words(attributes))


def _set_before(wanted: Wanted, change: Change) -> int:
    """Returns the set of attributes that a failed SETATTR has changed to the values in `wanted`, without the times.

    `change` has the attributes of the object before and after; if one of them is missing, the set is empty. Bit n of
    the set stands for attribute number n. Trees set the times last.
    """
    if change.before is None or change.after is None:
        return 0
    return differing(wanted, change.before) & ~differing(wanted, change.after)
