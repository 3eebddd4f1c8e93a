"""The memory that this process may lock, which RDMA devices need for all that they reach."""

from __future__ import annotations

import resource
from pathlib import Path

__all__ = ["LOCKED_OCTETS_MIN", "lock_limit_octets"]

LOCKED_OCTETS_MIN = 64 << 20
"""Enough for one client: three times its receives (5 MB in version 2) and the data of 16 calls of 1 MiB in flight. With
less, a device would take the connection and break it under load."""
_CAP_IPC_LOCK = 14


def lock_limit_octets(root: Path = Path("/")) -> int | None:
    """RLIMIT_MEMLOCK in octets; None where there is no limit, or where it does not bind this process (CAP_IPC_LOCK)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if limit == resource.RLIM_INFINITY or _exempt(root) else limit


def _exempt(root: Path) -> bool:
    try:
        status = (root / "proc/self/status").read_text()
    except OSError:
        return False
    rights = status.partition("\nCapEff:")[2].partition("\n")[0].strip()
    return bool(int(rights or "0", 16) >> _CAP_IPC_LOCK & 1)
