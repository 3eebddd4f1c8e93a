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
    """Returns RLIMIT_MEMLOCK in octets; None without a limit, or if it does not bind this process (CAP_IPC_LOCK).

    The kernel asks for the capability in the initial user namespace: root of a container without it is bound. `root` is
    the directory in which /proc is found, for tests.
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
