"""The entries that a directory listing yields."""

from __future__ import annotations

from rpcrdma.nfs.client.attributes import Stat, stat_from
from rpcrdma.nfs.client.node import Node, path_of
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3

__all__ = ["DirEntry"]


class DirEntry:
    """An entry of a directory with its attributes as of the listing; needs no further calls.

    As `os.DirEntry`, except that its methods describe the entry itself and never follow a symbolic link;
    `await fs.stat(entry)` follows it.
    """

    __slots__ = ("attributes", "directory", "handle", "name")

    def __init__(self, name: str, directory: Node, handle: nfs_fh3, attributes: fattr3) -> None:
        self.name = name
        self.directory = directory
        self.handle = handle
        self.attributes = attributes

    @property
    def path(self) -> str:
        """Its absolute path."""
        return path_of((self.directory, self.name))

    @property
    def node(self) -> Node:
        """The object itself."""
        return Node(self.handle, self.attributes, (self.directory, self.name))

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.attributes.type == ftype3.NF3REG

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.attributes.type == ftype3.NF3DIR

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self.attributes.type == ftype3.NF3LNK

    def inode(self) -> int:
        """The object's number in its file system."""
        return self.attributes.fileid

    def is_unchanged(self, present: fattr3 | None) -> bool:
        """Whether these are attributes of the same object, to which nothing has been done since the listing."""
        listed = self.attributes
        return (
            present is not None
            and (present.fsid, present.fileid) == (listed.fsid, listed.fileid)
            and (present.ctime, present.mtime, present.size) == (listed.ctime, listed.mtime, listed.size)
        )

    def stat(self) -> Stat:
        """The entry's own attributes."""
        return stat_from(self.attributes)
