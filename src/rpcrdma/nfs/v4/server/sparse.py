"""Holes and space of files: SEEK, ALLOCATE, DEALLOCATE, IO_ADVISE (RFC 7862 section 15)."""

from __future__ import annotations

from typing import Final

from rpcrdma.nfs.export import claims
from rpcrdma.nfs.export.abilities import SparseFile
from rpcrdma.nfs.export.tree import OFFSET_MAX, Change, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import bits, bits_of, words
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.opens import check_file, check_regular, io_file
from rpcrdma.nfs.v4.server.reading import file_to_read
from rpcrdma.nfs.v4.server.writing import opened_to_write

__all__ = ["advise", "allocate", "deallocate", "seek"]

_S = nfs4.nfsstat4
_WHAT: Final = frozenset(nfs4.data_content4)
_LENGTHS: Final = 1 << 64
_NEEDED: Final = bits(nfs4.IO_ADVISE4_WILLNEED, nfs4.IO_ADVISE4_WILLNEED_OPPORTUNISTIC)
"""Hints that are followed: the others would hold for all clients of a file."""


def seek(compound: Compound, args: nfs4.SEEK4args) -> nfs4.SEEK4resok:
    """Runs SEEK (RFC 7862 section 15.11): returns the offset of the next data or hole in the current file.

    The end of a file is a hole; if there is nothing before, returns the end with `sr_eof` True. Raises WorkerNeeded
    (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_NXIO for an offset not before the
    end.
    """
    if args.sa_what not in _WHAT:
        raise Refused(_S.NFS4ERR_UNION_NOTSUPP)
    file = file_to_read(compound, args.sa_stateid)
    if not compound.node.tree.in_memory:
        compound.wait()
    size, hole = file.attributes().size, args.sa_what == nfs4.data_content4.NFS4_CONTENT_HOLE
    if args.sa_offset >= size:
        raise Refused(_S.NFS4ERR_NXIO)
    whole = size if hole else args.sa_offset
    found = file.seek(args.sa_offset, hole=hole) if isinstance(file, SparseFile) else whole
    if found is None or found >= size:
        return nfs4.SEEK4resok(True, size)
    return nfs4.SEEK4resok(False, found)


def allocate(compound: Compound, args: nfs4.ALLOCATE4args) -> None:
    """Runs ALLOCATE (RFC 7862 section 15.1): allocates a range of the current file, which it extends if it is shorter.

    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_FBIG or
    ENOSPC.
    """
    if args.aa_offset + args.aa_length > OFFSET_MAX:
        raise Refused(_S.NFS4ERR_FBIG)
    file = _file_to_change(compound, args.aa_stateid, args.aa_length)
    with compound.caller.identity:
        file.allocate(args.aa_offset, args.aa_length, Change())


def deallocate(compound: Compound, args: nfs4.DEALLOCATE4args) -> None:
    """Runs DEALLOCATE (RFC 7862 section 15.4): frees a range of the current file, which then reads as zeros.

    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_INVAL or
    EROFS.
    """
    if args.da_offset + args.da_length > _LENGTHS:
        raise Refused(_S.NFS4ERR_INVAL)
    file = _file_to_change(compound, args.da_stateid, args.da_length)
    with compound.caller.identity:
        file.deallocate(args.da_offset, args.da_length, Change())


def _file_to_change(compound: Compound, stateid: nfs4.stateid4, octets: int) -> SparseFile:
    """Returns the current file, open for writing by a stateid, or opened now by the caller's rights.

    The latter if `io_file` returns None, as for a special stateid. The caller closes neither: a file opened now closes
    with the last reference to it (see `OpenFile`).

    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_INVAL if
    `octets`, the length of the range to change, is 0, NFS4ERR_NOTSUPP (a tree without holes), or EROFS if the export
    is read-only for the caller, also with a stateid.
    """
    node = compound.node
    check_file(node)
    check_changeable(compound.caller)
    if not octets:
        raise Refused(_S.NFS4ERR_INVAL)
    compound.wait()
    file = io_file(compound, stateid, claims.WRITE) or opened_to_write(compound)
    if not isinstance(file, SparseFile):
        raise Refused(_S.NFS4ERR_NOTSUPP)
    return file


def advise(compound: Compound, args: nfs4.IO_ADVISE4args) -> nfs4.IO_ADVISE4resok:
    """Runs IO_ADVISE (RFC 7862 section 15.5): reads a range of the current file ahead, if the hints say WILLNEED.

    Returns the hints that are followed: none in a tree in memory, or where `io_file` returns None, as for a special
    stateid. Raises WorkerNeeded (run again in a worker thread), OSError, or Refused, as `io_file` does or for an object
    that is no regular file.
    """
    check_regular(compound.node)
    file = io_file(compound, args.iaa_stateid, claims.READ)
    wanted = bits_of(args.iaa_hints) & _NEEDED
    if not wanted or compound.node.tree.in_memory or not isinstance(file, SparseFile):
        return nfs4.IO_ADVISE4resok([])
    compound.wait()
    size = file.attributes().size
    if args.iaa_offset < size:
        file.will_need(args.iaa_offset, min(args.iaa_count or size, size - args.iaa_offset))
    return nfs4.IO_ADVISE4resok(words(wanted))
