"""How many files this process may have open, for as many connections as it is to have."""

from __future__ import annotations

import resource

__all__ = ["raise_file_limit"]

_OTHERS = 64
"""Files of the process itself: standard streams, listeners, the state's database."""


def raise_file_limit(connections: int) -> int:
    """Lets this process have `connections` beside the files that it may have open now, as far as the system allows.

    Returns how many connections there can be.
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
