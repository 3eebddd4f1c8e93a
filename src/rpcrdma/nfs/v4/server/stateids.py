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
"""The stateid (seqid, other) of I/O without an open (RFC 8881 section 8.2.3)."""
BYPASS: Final[_Key] = (0xFFFFFFFF, _ONES)
"""The stateid of READ that passes over share reservations."""
CURRENT: Final[_Key] = (1, _ZEROS)
"""Stands for the current stateid of the COMPOUND."""
INVALID: Final[_Key] = (0xFFFFFFFF, _ZEROS)
"""The current stateid after CLOSE."""


def bump(held: Held) -> stateid4:
    """Increments the seqid of a state, leaving out 0, which means the newest; returns the new stateid."""
    held.seqid = held.seqid % (_SEQIDS - 1) + 1
    return stateid4(held.seqid, held.other)


def is_older(seqid: int, held: Held) -> bool:
    """Returns whether a seqid is an earlier one of a state: of serial numbers the nearer way around decides."""
    return (held.seqid - seqid) % _SEQIDS < _SEQIDS // 2
