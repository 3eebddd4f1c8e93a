"""What an NFSv3 client knows without doing I/O: paths, attributes, directory entries, sizes, caches."""

from rpcrdma.nfs.client.attributes import Stat, StatVfs
from rpcrdma.nfs.client.directory_entry import DirEntry
from rpcrdma.nfs.client.lookup_cache import LookupCache
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.transfer_sizes import TransferSizes

__all__ = ["DirEntry", "LookupCache", "Node", "Stat", "StatVfs", "TransferSizes"]
