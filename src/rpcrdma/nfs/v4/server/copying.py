"""Copies that the server makes: COPY, always synchronous, and CLONE (RFC 7862 section 15).

They go from the saved file to the current one. No copy comes from another server.
"""

from __future__ import annotations

from rpcrdma.nfs.export import claims, tree
from rpcrdma.nfs.export.abilities import CopyTarget
from rpcrdma.nfs.export.tree import OFFSET_MAX, Change, OpenFile, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.data import opened_to_write
from rpcrdma.nfs.v4.server.opens import check_file, io_file
from rpcrdma.nfs.v4.state_limits import NFS4_COPY_OCTETS_MAX

__all__ = ["clone", "copy"]

_S = nfs4.nfsstat4


def copy(compound: Compound, args: nfs4.COPY4args) -> nfs4.COPY4resok:
    """Runs COPY (RFC 7862 section 15.2): copies a range of the saved file to the current one, before the answer.

    Copies at most `NFS4_COPY_OCTETS_MAX` octets, less those of other COPYs in the COMPOUND; a count of 0 stands for the
    rest of the source. Returns the number of octets copied, their stability and the write verifier. Raises WorkerNeeded
    (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_PARTNER_NOTSUPP for a file of
    another server, NFS4ERR_INVAL for a copy within one file or beyond the end of the source, NFS4ERR_DELAY if the other
    COPYs have used up that limit, NFS4ERR_BAD_STATEID or ENOSPC.
    """
    if args.ca_source_server:
        raise Refused(_S.NFS4ERR_PARTNER_NOTSUPP)
    source, target = _files(compound, args.ca_src_stateid, args.ca_dst_stateid)
    assert compound.saved is not None
    if compound.file_of(compound.saved) == compound.file_of(compound.node):
        # A copy within one file, which CLONE allows (RFC 7862 section 15.2.3).
        raise Refused(_S.NFS4ERR_INVAL)
    octets = _range(source, args.ca_src_offset, args.ca_dst_offset, args.ca_count)
    left = NFS4_COPY_OCTETS_MAX - compound.copied
    if not left:
        raise Refused(_S.NFS4ERR_DELAY)
    with compound.caller.identity:
        written = target.copy_from(source, args.ca_src_offset, args.ca_dst_offset, min(octets, left), Change())
    compound.copied += written.octets
    response = nfs4.write_response4([], written.octets, nfs4.stable_how4(written.stable), written.verifier)
    return nfs4.COPY4resok(response, nfs4.copy_requirements4(True, True))


def clone(compound: Compound, args: nfs4.CLONE4args) -> None:
    """Runs CLONE (RFC 7862 section 15.13): replaces a range of the current file by shared blocks of the saved file.

    Clones all octets or none; a count of 0 stands for the rest of the saved file. Raises WorkerNeeded (run again in a
    worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, EXDEV or EOPNOTSUPP.
    """
    source, target = _files(compound, args.cl_src_stateid, args.cl_dst_stateid)
    _range(source, args.cl_src_offset, args.cl_dst_offset, args.cl_count)
    with compound.caller.identity:
        target.clone_from(source, args.cl_src_offset, args.cl_dst_offset, args.cl_count, Change())


def _files(compound: Compound, source: nfs4.stateid4, target: nfs4.stateid4) -> tuple[OpenFile, CopyTarget]:
    """Returns (the saved file, open for reading; the current file, open for writing).

    Their stateids are `source` and `target`. With a special stateid, another principal's, or a source's that is open
    for writing, the file is opened by the caller's rights. Raises WorkerNeeded (run again in a worker thread), Refused,
    tree.Refused or OSError, such as NFS4ERR_NOFILEHANDLE, NFS4ERR_NOTSUPP (the tree cannot copy), NFS4ERR_BAD_STATEID
    or EROFS.
    """
    node, saved = compound.node, compound.saved
    if saved is None:
        raise Refused(_S.NFS4ERR_NOFILEHANDLE)
    check_file(saved)
    check_file(node)
    check_changeable(compound.caller)
    compound.wait()
    reader = io_file(compound, source, claims.READ, saved=True) or saved.open(
        compound.saved_caller, tree.READ, at_once=False
    )
    writer = io_file(compound, target, claims.WRITE) or opened_to_write(compound)
    if reader is None or not isinstance(writer, CopyTarget):
        raise Refused(_S.NFS4ERR_NOTSUPP)
    return reader, writer


def _range(source: OpenFile, source_offset: int, offset: int, count: int) -> int:
    """Returns the number of octets to copy or clone, which the source has; `count` 0 stands for the rest of the source.

    `source_offset` is an offset in the source, `offset` one in the target. Raises Refused: NFS4ERR_INVAL if the range
    extends beyond the end of the source, NFS4ERR_FBIG if its end in the target exceeds `OFFSET_MAX`.
    """
    size = source.attributes().size
    if source_offset > size or source_offset + count > size:
        raise Refused(_S.NFS4ERR_INVAL)
    octets = count or size - source_offset
    if offset + octets > OFFSET_MAX:
        raise Refused(_S.NFS4ERR_FBIG)
    return octets
