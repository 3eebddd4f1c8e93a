"""The memory that this process may lock, which RDMA devices need for all that they reach."""

from __future__ import annotations

import resource
from pathlib import Path

__all__ = ["LOCKED_OCTETS_MIN", "lock_limit_octets"]

LOCKED_OCTETS_MIN = 64 << 20
"""Enough for one client: three times its receives (5 MB in version 2) and the data of 16 calls of 1 MiB in flight. With
less, a device would take the connection and break it under load."""
_CAP_IPC_LOCK = 14
_INITIAL_NAMESPACE = ["0", "0", "4294967295"]
"""The user identities of the initial user namespace: all of them, each as itself (user_namespaces(7))."""


def lock_limit_octets(root: Path = Path("/")) -> int | None:
    """Returns the soft limit RLIMIT_MEMLOCK of this process in octets; None if nothing limits the process.

    A process with CAP_IPC_LOCK in the initial user namespace is not limited; root of a container without that
    capability is. `root` is the directory that has `proc`; tests give another one.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if limit == resource.RLIM_INFINITY or _exempt(root) else limit


def _exempt(root: Path) -> bool:
    try:
        identities = (root / "proc/self/uid_map").read_text().split()
        status = (root / "proc/self/status").read_text()
    except OSError:
        return False
    rights = status.partition("\nCapEff:")[2].partition("\n")[0].strip()
    return identities == _INITIAL_NAMESPACE and bool(int(rights or "0", 16) >> _CAP_IPC_LOCK & 1)
