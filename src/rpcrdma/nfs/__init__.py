"""NFS version 3 and MOUNT (RFC 1813): files of servers, and exports; `v3` and `mount` have the procedures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.nfs.client import (
        CopyFailure,
        CopyReport,
        DirEntry,
        FileChanged,
        FileOptions,
        MountedFilesystem,
        NfsFile,
        NotCarried,
        Progress,
        RemoveReport,
        Stat,
        StatVfs,
    )
    from rpcrdma.nfs.errors import NfsError
    from rpcrdma.nfs.export.access_terms import Export
    from rpcrdma.nfs.export.server_state import open_state
    from rpcrdma.nfs.server.services import build_services

__all__ = [
    "CopyFailure",
    "CopyReport",
    "DirEntry",
    "Export",
    "FileChanged",
    "FileOptions",
    "MountedFilesystem",
    "NfsError",
    "NfsFile",
    "NotCarried",
    "Progress",
    "RemoveReport",
    "Stat",
    "StatVfs",
    "build_services",
    "open_state",
]

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.nfs.client": (
            "CopyFailure",
            "CopyReport",
            "DirEntry",
            "FileChanged",
            "FileOptions",
            "MountedFilesystem",
            "NfsFile",
            "NotCarried",
            "Progress",
            "RemoveReport",
            "Stat",
            "StatVfs",
        ),
        "rpcrdma.nfs.errors": ("NfsError",),
        "rpcrdma.nfs.export.access_terms": ("Export",),
        "rpcrdma.nfs.server.services": ("build_services",),
        "rpcrdma.nfs.export.server_state": ("open_state",),
    },
)
