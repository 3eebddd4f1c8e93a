"""The limit of open files, raised for the connections that a server may have."""

from __future__ import annotations

import resource

__all__ = ["raise_file_limit"]

_OTHERS = 64
"""Open files beside connections: standard streams, listeners, the state's database."""


def raise_file_limit(connections: int) -> int:
    """Raises the limit of open files so that `connections` fit beside other files, as far as the system allows.

    Returns the number of connections that fit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    # The NFS server keeps up to three eighths of all descriptors for objects and files.
    wanted = (connections + _OTHERS) * 8 // 5
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, soft * 5 // 8 - _OTHERS)
