"""Files on NFSv3 servers: `nfs_open`, `NfsFilesystem` and what they hand out."""

from rpcrdma.aio.files.connecting import MountedFilesystem, nfs_open
from rpcrdma.aio.files.file_stream import NfsFile
from rpcrdma.aio.files.filesystem import LocalPath, NfsFilesystem
from rpcrdma.aio.files.not_carried import NotCarried
from rpcrdma.aio.files.options import FileOptions
from rpcrdma.aio.files.tree_copy import CopyFailure, CopyReport, Progress
from rpcrdma.aio.files.tree_remove import RemoveReport
from rpcrdma.aio.files.unchanged import FileChanged
from rpcrdma.aio.files.watching import Changes
from rpcrdma.nfs.client.change import Change, ChangeKind

__all__ = [
    "Change",
    "ChangeKind",
    "Changes",
    "CopyFailure",
    "CopyReport",
    "FileChanged",
    "FileOptions",
    "LocalPath",
    "MountedFilesystem",
    "NfsFile",
    "NfsFilesystem",
    "NotCarried",
    "Progress",
    "RemoveReport",
    "nfs_open",
]
