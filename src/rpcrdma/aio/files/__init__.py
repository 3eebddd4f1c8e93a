"""Files on NFSv3 servers: `nfs_open`, `NfsFilesystem` and what they hand out."""

from rpcrdma.aio.files.connecting import MountedFilesystem, nfs_open
from rpcrdma.aio.files.file_stream import NfsFile
from rpcrdma.aio.files.filesystem import LocalPath, NfsFilesystem
from rpcrdma.aio.files.options import FileOptions
from rpcrdma.aio.files.tree_copy import CopyFailure, CopyReport, Progress
from rpcrdma.aio.files.tree_remove import RemoveReport

__all__ = [
    "CopyFailure",
    "CopyReport",
    "FileOptions",
    "LocalPath",
    "MountedFilesystem",
    "NfsFile",
    "NfsFilesystem",
    "Progress",
    "RemoveReport",
    "nfs_open",
]
