"""NFS version 4.1 over RPC-over-RDMA, for the operations of nfs41.x: bounds of replies; nothing is placed directly.

Octets, RPC header excluded, with the bounds of nfs41.x. Of all our calls only EXCHANGE_ID may have a reply that exceeds
an inline message, and so travels with a Reply chunk.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import nfs41
from nfs41 import nfs41_cb_operation as cb_op
from nfs41 import nfs41_operation as op

from rpcrdma.transport import ReplyBound

__all__ = ["CB_COMPOUND", "COMPOUND"]

_STATUS = 8
"""An operation's number and its status."""
_STATEID = 16
_TEXT = 4 + nfs41.NFS41_OPAQUE
_CHANNEL = 7 * 4 + 4
_DELEGATION = 4 + _STATEID + 4 + 12 + 12 + _TEXT
"""A delegation for writing: type, stateid, whether recalled, space limit, permissions."""

_RESULTS: dict[int, int] = {
    op.OP41_CLOSE: _STATEID,
    op.OP41_GETATTR: 4 + 4 * nfs41.NFS41_BITMAP + _TEXT,
    op.OP41_GETFH: 4 + nfs41.NFS41_FHSIZE,
    op.OP41_OPEN: _STATEID + 20 + 4 + 4 + 4 * nfs41.NFS41_BITMAP + _DELEGATION,
    op.OP41_EXCHANGE_ID: 8 + 4 + 4 + 4 + 8 + _TEXT + _TEXT + 4 + _TEXT + _TEXT + 12,
    op.OP41_CREATE_SESSION: 16 + 4 + 4 + 2 * _CHANNEL,
    op.OP41_SEQUENCE: 16 + 20,
}
_CB_RESULTS: dict[int, int] = {cb_op.OP41_CB_SEQUENCE: 16 + 16}
"""Octets that an operation returns besides number and status; most return no more."""


def _bound(results: dict[int, int], args: Any) -> ReplyBound:
    tag = 4 + (len(args.tag) + 3 & ~3)
    octets = sum(_STATUS + results.get(operation.operation, 0) for operation in args.operations)
    return ReplyBound(4 + tag + 4 + octets)


COMPOUND = replace(nfs41.NFS41PROC_COMPOUND, bound=functools.partial(_bound, _RESULTS))
CB_COMPOUND = replace(nfs41.CB41PROC_COMPOUND, bound=functools.partial(_bound, _CB_RESULTS))
"""CB_COMPOUND of a callback program; the client chooses the program's number."""
