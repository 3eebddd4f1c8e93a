"""Holes and space of files: SEEK, READ_PLUS, ALLOCATE, DEALLOCATE, IO_ADVISE (RFC 7862 section 15)."""

from __future__ import annotations

from typing import Any, Final

from rpcrdma.nfs.export import claims
from rpcrdma.nfs.export.abilities import SparseFile
from rpcrdma.nfs.export.tree import OFFSET_MAX, Change, OpenFile, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import bits, bits_of, words
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.data import file_to_read, lent_buffer, opened_to_write
from rpcrdma.nfs.v4.server.opens import check_file, check_regular, io_file
from rpcrdma.nfs.v4.server.state import state_of
from rpcrdma.nfs.v4.state_limits import NFS4_READ_PLUS_PARTS_MAX

__all__ = ["advise", "allocate", "deallocate", "read_plus", "seek"]

_S = nfs4.nfsstat4
_WHAT: Final = frozenset(nfs4.data_content4)
_LENGTHS: Final = 1 << 64
_NEEDED: Final = bits(nfs4.IO_ADVISE4_WILLNEED, nfs4.IO_ADVISE4_WILLNEED_OPPORTUNISTIC)
"""Hints that are followed: the others would hold for all clients of a file."""
_ENDS_OCTETS: Final = 8
"""Octets of the result of READ_PLUS besides its parts: whether the file ends, and the number of parts."""
_DATA_OCTETS: Final = 4 + 8 + 4
"""Octets of a part with data besides the data: its type, the offset, and the length."""
_HOLE_OCTETS: Final = 4 + 8 + 8


def seek(compound: Compound, args: nfs4.SEEK4args) -> nfs4.SEEK4resok:
    """Runs SEEK (RFC 7862 section 15.11): returns the offset of the next data or hole in the current file.

    If there is none before the end of the file, returns the end with `sr_eof` True. Raises WorkerNeeded (run again in a
    worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_NXIO for an offset not before the end.
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


def read_plus(compound: Compound, args: nfs4.READ_PLUS4args) -> nfs4.READ_PLUS4resok:
    """Runs READ_PLUS (RFC 7862 section 15.10): returns data and holes of a range of the current file.

    Returns as many as the reply has room for, at most `NFS4_READ_PLUS_PARTS_MAX` (64); the client asks for the rest.
    The result is no longer than one data part with all requested octets: a client of Linux has no more memory for it.
    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_BAD_STATEID,
    or Refused with the status in `compound.too_big` if nothing fits.
    """
    node = compound.node
    file = file_to_read(compound, args.rpa_stateid)
    if not node.tree.in_memory:
        compound.wait()
    size, at = file.attributes().size, args.rpa_offset
    count = min(args.rpa_count, node.tree.transfer_octets)
    end = min(size, at + count)
    room = min(compound.left() - _ENDS_OCTETS, _DATA_OCTETS + (count + 3 & ~3))
    parts: list[nfs4.read_plus_content] = []
    while at < end and len(parts) < NFS4_READ_PLUS_PARTS_MAX:
        data = _next(file, at, size, hole=False)
        if data == size:
            # No data follows: the file may have been cut meanwhile.
            size = data = min(size, file.attributes().size)
            end = min(end, size)
            if at >= end:
                break
        if data > at:
            room -= _HOLE_OCTETS
            if room < 0:
                break
            # A hole is reported up to its end, unless the rest of it may be locked (section 15.10.3).
            hole_end = min(data, end) if _is_locked(compound) else data
            parts.append(
                nfs4.read_plus_content(nfs4.data_content4.NFS4_CONTENT_HOLE, nfs4.data_info4(at, hole_end - at))
            )
            at = hole_end
            continue
        # Where somebody has made a hole meanwhile, its octets are data.
        octets = min(end, _next(file, at + 1, size, hole=True)) - at
        octets = min(octets, room - _DATA_OCTETS & ~3)
        if octets <= 0:
            break
        buffer = lent_buffer(compound, octets)
        got = file.read(buffer[:octets], at, at_once=False)
        if got:
            # A view: the reply is encoded before the memory is used again.
            view: Any = buffer[:got]
            parts.append(nfs4.read_plus_content(nfs4.data_content4.NFS4_CONTENT_DATA, nfs4.data4(at, view)))
            room -= _DATA_OCTETS + (got + 3 & ~3)
            at += got
        if got < octets:
            # Another call has cut the file meanwhile.
            size = end = file.attributes().size
            break
    if not parts and at < end:
        raise Refused(compound.too_big)
    return nfs4.READ_PLUS4resok(at >= size, parts)


def _next(file: OpenFile, offset: int, size: int, *, hole: bool) -> int:
    """Returns the first offset from `offset` on, below `size`, of a hole (`hole`) or of data; `size` if there is none.

    A file that is no `SparseFile` has data alone up to `size`. Raises OSError if the file cannot be searched.
    """
    if not isinstance(file, SparseFile):
        return size if hole else offset
    found = file.seek(offset, hole=hole)
    return size if found is None else min(found, size)


def _is_locked(compound: Compound) -> bool:
    """Returns whether any client has a byte-range lock on the current file; takes the lock of the `State`."""
    state = state_of(compound)
    with state.lock:
        return bool(state.claims.range_holders(compound.file_of(compound.node)))


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

    It is opened now for a special stateid or another principal's, and then closes with the last reference to it: the
    caller closes no file.

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

    Returns the hints that are followed: none in a tree in memory, nor with a stateid by which the file is not open for
    reading, such as a special one. Raises WorkerNeeded (run again in a worker thread), OSError, or Refused: the stateid
    is not valid, or the object is no regular file.
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
