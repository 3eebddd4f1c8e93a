"""An NFS export in memory whose server can crash: for tests, and for simulated servers."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import TRANSFER_OCTETS_MAX
from rpcrdma.nfs.v3.server.service import NfsService
from rpcrdma.rpc.service import Service

__all__ = ["MemoryFiles"]


class MemoryFiles:
    """Files in memory that NFS version 3 serves; they outlive their server.

    Args:
        now_s: returns the time in seconds since 1970, for the times of files.
        transfer_octets: the most octets of one READ or WRITE.
    """

    root: bytes
    """The file handle of the root directory."""

    def __init__(self, now_s: Callable[[], float], *, transfer_octets: int = TRANSFER_OCTETS_MAX) -> None:
        self._tree = MemoryTree(now_s, transfer_octets=transfer_octets)
        self.root = self._tree.root.handle

    def service(self) -> Service:
        """Returns a new service of NFS version 3 that serves the files; each run of a server needs a new one."""
        return NfsService(self._tree)

    def crash(self, is_kept: Callable[[], bool]) -> None:
        """Changes the files as a loss of power does: unstable writes without a later COMMIT may be lost.

        The write verifier changes, and writes that are kept become stable. To be called between two runs of a server.

        Args:
            is_kept: called for each such write, by the age of the files, and of the writes of each file, the oldest
                first; returns whether the write is kept.
        """
        self._tree.crash(is_kept)

    def content(self, name: str) -> bytes | None:
        """Returns the octets of a file in the root directory, unstable ones included; None: there is no such file.

        Args:
            name: the file's name.
        """
        entry = self._tree.root.names.get(name.encode())
        return None if entry is None else bytes(entry[1].data)

    def is_stable(self, name: str) -> bool:
        """Returns whether a crash would keep every octet of a file in the root directory.

        Args:
            name: the file's name; a missing file counts as stable.
        """
        entry = self._tree.root.names.get(name.encode())
        return entry is None or entry[1].stable is None
