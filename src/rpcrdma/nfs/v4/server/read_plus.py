"""READ_PLUS: the data of an open file without its holes (RFC 7862 section 15.10)."""

from __future__ import annotations

from typing import Any, Final

from rpcrdma.nfs.export.abilities import SparseFile
from rpcrdma.nfs.export.tree import OpenFile
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.reading import file_to_read, lent_buffer
from rpcrdma.nfs.v4.server.state import state_of
from rpcrdma.nfs.v4.state_limits import NFS4_READ_PLUS_PARTS_MAX

__all__ = ["read_plus"]

_ENDS_OCTETS: Final = 8
"""Octets of the result of READ_PLUS besides its parts: whether the file ends, and the number of parts."""
_DATA_OCTETS: Final = 4 + 8 + 4
"""Octets of a part with data besides the data: its type, the offset, and the length."""
_HOLE_OCTETS: Final = 4 + 8 + 8


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
