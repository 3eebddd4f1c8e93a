"""The API of `rpcrdma` for programs without an event loop: the same names, and calls that wait for their results.

One thread in the background does the work of all connections. It may be used from any number of threads, and from one
in which an event loop runs, such as a notebook's.
"""

from rpcrdma.sync.connection import Connection, connect
from rpcrdma.sync.file_object import NfsFile, TextFile
from rpcrdma.sync.filesystem import MountedFilesystem, NfsFilesystem, nfs_open

__all__ = ["Connection", "MountedFilesystem", "NfsFile", "NfsFilesystem", "TextFile", "connect", "nfs_open"]
