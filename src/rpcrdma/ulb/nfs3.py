"""NFS version 3 over RPC-over-RDMA (RFC 8267 section 4): what may be placed directly, and how large results get.

Eligible are the data of WRITE and READ, the target of SYMLINK and of READLINK, and nothing else; that the interface
definition says so itself (`pragma ddp`) is what encoders go by. Here stand the sizes, computed from the XDR of
RFC 1813; octets, RPC header excluded.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.rpc.program import Procedure
from rpcrdma.transport.message_bounds import ReplyBound

__all__ = ["PROGRAM", "READLINK_OCTETS_MAX", "VERSION", "bind"]

PROGRAM = 100003
VERSION = 3

READLINK_OCTETS_MAX = 4096
"""The longest target of a symbolic link: PATH_MAX of Linux; RFC 1813 has no limit."""

_READLINK = 5
_READ = 6
_READDIR = 16
_READDIRPLUS = 17

# status 4, fattr3 84, post_op_attr 4 + 84 = 88, wcc_data 4 + 24 + 88 = 116, nfs_fh3 4 + 64 = 68, post_op_fh3 72
_RESULTS = {
    0: 0,  # NULL
    1: 88,  # GETATTR: status, fattr3
    2: 120,  # SETATTR: status, wcc_data
    3: 248,  # LOOKUP: status, nfs_fh3, two post_op_attr
    4: 96,  # ACCESS: status, post_op_attr, access
    7: 136,  # WRITE: status, wcc_data, count, committed, verifier
    8: 280,  # CREATE: status, post_op_fh3, post_op_attr, wcc_data
    9: 280,  # MKDIR
    10: 280,  # SYMLINK
    11: 280,  # MKNOD
    12: 120,  # REMOVE: status, wcc_data
    13: 120,  # RMDIR
    14: 236,  # RENAME: status, two wcc_data
    15: 208,  # LINK: status, post_op_attr, wcc_data
    18: 144,  # FSSTAT: status, post_op_attr, 52
    19: 140,  # FSINFO: status, post_op_attr, 48
    20: 116,  # PATHCONF: status, post_op_attr, 24
    21: 128,  # COMMIT: status, wcc_data, verifier
}
_FIXED = {number: ReplyBound(octets) for number, octets in _RESULTS.items()}

_READLINK_BOUND = ReplyBound(96, (READLINK_OCTETS_MAX,))
_READ_OCTETS = 104
"""READ without its data: status, post_op_attr, count, eof, length word."""
_DIRECTORY_OCTETS = 4 + 88
"""READDIR and READDIRPLUS: status and post_op_attr. The rest is bounded by the count that the call names."""
_VERIFIER_AND_ENDS_OCTETS = 8 + 4 + 4
"""A cookie verifier and two end marks: some servers count them, some do not."""


def bind(procedure: Procedure[Any, Any], args: Any) -> ReplyBound:
    """The reply bound of one NFSv3 call."""
    number = procedure.number
    fixed = _FIXED.get(number)
    if fixed is not None:
        return fixed
    if number == _READ:
        return ReplyBound(_READ_OCTETS, (args.count,))
    if number == _READLINK:
        return _READLINK_BOUND
    if number == _READDIR:
        return ReplyBound(_DIRECTORY_OCTETS + _VERIFIER_AND_ENDS_OCTETS + args.count)
    if number == _READDIRPLUS:
        return ReplyBound(_DIRECTORY_OCTETS + _VERIFIER_AND_ENDS_OCTETS + args.maxcount)
    raise ValueError(f"NFS version 3 has no procedure {number}")
