"""Files on NFSv3 servers: `nfs_open`, `NfsFilesystem`, and the objects and errors of their calls."""

from rpcrdma.nfs.client.attributes import Stat, StatVfs
from rpcrdma.nfs.client.connecting import MountedFilesystem, nfs_open
from rpcrdma.nfs.client.filesystem import LocalPath, NfsFilesystem
from rpcrdma.nfs.client.node import DirEntry
from rpcrdma.nfs.client.streams.file_stream import NfsFile
from rpcrdma.nfs.client.trees.copy_source import FileChanged
from rpcrdma.nfs.client.trees.not_carried import NotCarried
from rpcrdma.nfs.client.trees.tree_copy import CopyFailure, CopyReport, Progress
from rpcrdma.nfs.client.trees.tree_remove import RemoveReport
from rpcrdma.nfs.client.volume import FileOptions

__all__ = [
    "CopyFailure",
    "CopyReport",
    "DirEntry",
    "FileChanged",
    "FileOptions",
    "LocalPath",
    "MountedFilesystem",
    "NfsFile",
    "NfsFilesystem",
    "NotCarried",
    "Progress",
    "RemoveReport",
    "Stat",
    "StatVfs",
    "nfs_open",
]
