"""An object of the file system as the client holds it."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3

__all__ = ["Node"]


@dataclass(slots=True, eq=False)
class Node:
    """A file handle with what is known about it.

    `attributes` are as old as the reply that brought them; `fresh` says that the operation at hand has just got them.
    `target` is a symbolic link's, once read. `path` is for messages.
    """

    handle: nfs_fh3
    attributes: fattr3 | None
    path: str
    fresh: bool = False
    target: str | None = None

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory; one whose attributes were never asked for is the root."""
        return self.attributes is None or self.attributes.type == ftype3.NF3DIR

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self.attributes is not None and self.attributes.type == ftype3.NF3LNK
