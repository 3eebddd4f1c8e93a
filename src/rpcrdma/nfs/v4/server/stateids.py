"""Stateids of version 4.1 with a meaning of their own, and the count of changes in those of states."""

from __future__ import annotations

from typing import Final, TypeAlias

from rpcrdma.nfs.v4.nfs4 import stateid4
from rpcrdma.nfs.v4.server.clients import Held

__all__ = ["ANONYMOUS", "BYPASS", "CURRENT", "INVALID", "bump", "is_older"]

_ZEROS, _ONES = bytes(12), b"\xff" * 12
_SEQIDS: Final = 1 << 32

_Key: TypeAlias = tuple[int, bytes]
ANONYMOUS: Final[_Key] = (0, _ZEROS)
"""The stateid (seqid, other) of I/O without an open (RFC 8881 section 8.2.3): the anonymous stateid."""
BYPASS: Final[_Key] = (0xFFFFFFFF, _ONES)
"""The READ bypass stateid: READ with it ignores share reservations (RFC 8881 section 8.2.3)."""
CURRENT: Final[_Key] = (1, _ZEROS)
"""The special stateid that stands for the current stateid of the COMPOUND."""
INVALID: Final[_Key] = (0xFFFFFFFF, _ZEROS)
"""The invalid special stateid, which is the current stateid after CLOSE."""


def bump(held: Held) -> stateid4:
    """Increments the seqid of `held`, from 2**32 - 1 to 1 since 0 means the newest; returns the new stateid."""
    held.seqid = held.seqid % (_SEQIDS - 1) + 1
    return stateid4(held.seqid, held.other)


def is_older(seqid: int, held: Held) -> bool:
    """Returns whether `seqid`, which differs from that of `held`, is an earlier one, by 32-bit serial arithmetic."""
    return (held.seqid - seqid) % _SEQIDS < _SEQIDS // 2
