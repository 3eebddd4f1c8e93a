"""Options of a mounted file system: calls in flight, memory, and how long look-ups stay valid."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.limits import NFS_LISTED_NAMES_HELD_MAX, NFS_LISTED_NAMES_MAX

__all__ = ["FileOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Bounds and defaults of an `NfsFilesystem`; octets and seconds."""

    read_ahead_blocks: int = 8
    """Reads that a stream has in flight at most, each of the server's preferred size (usually 1 MiB)."""
    write_behind_blocks: int = 8
    """Writes that a stream has in flight at most."""
    uncommitted_octets_max: int = 32 << 20
    """Written, but not yet committed data that a stream keeps in memory, to write it again if the server restarts."""
    direct_calls: int = 8
    """Calls in flight for one `read_into`, `pread` or copied file: 8 MiB hide the latency of a local network."""
    transfer_octets_max: int = 32 << 20
    """Buffers of all downloads and uploads together."""
    commit_octets: int = 64 << 20
    """Octets written by an upload between two COMMITs."""
    files_at_once: int = 32
    """Files that a tree copy has in progress."""
    lookup_valid_s: float = 3.0
    """Validity of cached directories along a path; Linux starts with 3 s. 0: no cache."""
    listed_names_max: int = NFS_LISTED_NAMES_MAX
    """Names in one directory; listing more is an error, since the listing may be endless."""
    listed_names_held_max: int = NFS_LISTED_NAMES_HELD_MAX
    """The same for calls that hold all names in memory: `listdir` and `walk`."""
