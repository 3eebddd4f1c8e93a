"""READ: the data of an open file."""

from __future__ import annotations

import struct
from typing import Final

from rpcrdma.aio.answering.buffer_pool import OutOfBuffers
from rpcrdma.nfs.export import claims, tree
from rpcrdma.nfs.export.tree import FileKind, OpenFile
from rpcrdma.nfs.v4.nfs4 import READ4args, nfsstat4, stateid4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound, Placeable
from rpcrdma.nfs.v4.server.opens import check_regular, io_file
from rpcrdma.rpc.service import WorkerNeeded
from rpcrdma.wire.buffers import Buffer

__all__ = ["file_to_read", "lent_buffer", "read"]

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""
_FILE: Final = FileKind.FILE
_ENDS: Final = struct.Struct(">2I")
"""The result of READ without the data: whether the file ends, and the length of the data."""


def file_to_read(compound: Compound, stateid: stateid4) -> OpenFile:
    """Returns the current file, open for reading by a stateid, or opened now by the caller's rights.

    The latter if `io_file` returns None, as for a special stateid or another user's, and always in a tree that does not
    keep removed files. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as
    NFS4ERR_ISDIR or EACCES.
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
        raise Refused(nfsstat4.NFS4ERR_DELAY) from None


def read(compound: Compound, args: READ4args) -> Placeable:
    """Runs READ (RFC 8881 section 18.22): returns the encoded result, with the data as its DDP-eligible item.

    Reads at most `Tree.transfer_octets` octets, also if the call asks for more.
    In the event loop, reads only data that need no wait for a disk. If more are wanted, keeps the data read in
    `compound.partial`, and raises WorkerNeeded: `read` runs again in a worker thread, and reads the rest. Raises
    Refused, tree.Refused or OSError, such as NFS4ERR_BAD_STATEID, or Refused with the status in `compound.too_big` if
    the reply has no room.
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
