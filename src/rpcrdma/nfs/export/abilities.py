"""Abilities that the objects of a tree may have besides those of `tree.Node` and `tree.OpenFile`.

A version asks for one by `isinstance`, and refuses a call for which the tree has none. Refusals are error numbers, as
in `tree`. All methods may wait for a disk.
"""

from __future__ import annotations

import enum
import os
from typing import Protocol, runtime_checkable

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Change, OpenFile, Written

__all__ = ["CopyTarget", "Extended", "SparseFile", "XattrHow"]


@runtime_checkable
class SparseFile(Protocol):
    """An open file that may have holes: ranges without space on the disk, which are read as zeros."""

    def seek(self, offset: int, *, hole: bool) -> int | None:
        """Returns the offset from `offset` on at which the next hole, or else data, begins; None: there is none.

        The end of a file counts as a hole.
        """

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        """Takes space on the disk for a range, and extends the file to its end; the thread acts as the caller."""

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        """Frees the space of a range up to the end of the file; the range reads as zeros then. See `allocate`."""

    def will_need(self, offset: int, octets: int) -> None:
        """Begins to read a range of the file into memory."""


@runtime_checkable
class CopyTarget(Protocol):
    """An open file into which data of another one, or of its own, is copied without being read by the server.

    Both methods are called by a thread that acts as the caller. They refuse with EXDEV a source of another file system,
    and with EINVAL ranges of one file that overlap.
    """

    def copy_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> Written:
        """Copies at most `octets` octets, unstable until `OpenFile.commit`; the result may have fewer."""

    def clone_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> None:
        """Lets the range have the same blocks on the disk as that of the source, all or none of it.

        `octets` 0: to the end of the source. EOPNOTSUPP: the file system cannot do so.
        """


class XattrHow(enum.IntEnum):
    """The treatment of an existing attribute by `Extended.set_xattr`; the values are those of Linux and of NFS."""

    EITHER = 0
    """The attribute gets the value, and is created if need be."""
    CREATE = os.XATTR_CREATE
    """EEXIST if the attribute exists."""
    REPLACE = os.XATTR_REPLACE
    """ENODATA if it does not exist."""


@runtime_checkable
class Extended(Protocol):
    """A node with extended attributes, which are names with values that only programs interpret.

    `Tree.xattrs` says whether the nodes of a tree have them. Names are those of the namespace "user" of Linux without
    its prefix. Only regular files and directories are asked.
    """

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        """Returns the value of an attribute, for callers who may read the object.

        Raises:
            Refused, OSError: ENODATA: there is none; EACCES.
        """

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        """Sets an attribute, for callers who may write the object; `change` is the object's.

        Raises:
            Refused, OSError: EEXIST, ENODATA: see `XattrHow`; E2BIG, ENOSPC: the object's attributes are too large.
        """

    def list_xattrs(self, who: Grant) -> list[bytes]:
        """Returns the names of all attributes, for callers who may read the object; Refused: EACCES."""

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        """Removes an attribute, for callers who may write the object; Refused or OSError: ENODATA, EACCES."""
