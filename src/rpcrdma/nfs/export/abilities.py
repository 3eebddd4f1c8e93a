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
    """An open file that may have holes, which are ranges without space on the disk that read as zeros.

    An `OpenFile` that implements this protocol supports SEEK, ALLOCATE, DEALLOCATE and IO_ADVISE of RFC 7862. Offsets
    and lengths are in octets, and `change` receives the attributes of the file before and after.
    """

    def seek(self, offset: int, *, hole: bool) -> int | None:
        """Returns the first offset, `offset` or larger, that is in a hole (`hole` True) or in data (`hole` False).

        The end of the file counts as a hole, so a hole is found for each `offset` in the file. Returns None if `hole`
        is False and no data follows, or, in either case, if `offset` is at the end of the file or beyond. Raises
        OSError: EIO and others.
        """

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        """Reserves disk space for `octets` octets at `offset`, and extends a file shorter than `offset + octets`.

        To be called in a thread that acts as the NFS caller. The result is on the disk at return. `change` gets the
        attributes before and after. Raises Refused or OSError: ENOSPC, EFBIG, EOPNOTSUPP and others.
        """

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        """Frees the disk space of `octets` octets at `offset`, up to the end of the file; they read as zeros then.

        The file keeps its size. To be called in a thread that acts as the NFS caller. The result is on the disk at
        return. `change` gets the attributes before and after. Raises OSError: EOPNOTSUPP, EIO and others.
        """

    def will_need(self, offset: int, octets: int) -> None:
        """Starts to read `octets` octets from `offset` into memory; does not wait for them; may raise OSError."""


@runtime_checkable
class CopyTarget(Protocol):
    """An open file into which the file system copies data of another file or of itself, without reads by the server.

    `source` is an open file, and offsets and lengths are in octets. The methods are to be called in threads that act as
    the NFS caller.
    """

    def copy_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> Written:
        """Copies at most `octets` octets from `source` at `source_offset` into this file at `offset`.

        Copies nothing if `octets` is 0, or if `source_offset` is at the end of `source` or beyond. `change` gets the
        attributes of this file before and after. Raises Refused or OSError: EXDEV: the source is in another file
        system; EINVAL: ranges of one file overlap; and others.

        Returns:
            The number of octets copied, possibly fewer than `octets` also before the end of `source`, their stability,
            UNSTABLE until `OpenFile.commit`, and the write verifier.
        """

    def clone_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> None:
        """Lets a range of this file share the disk blocks of a range of `source`: the whole range, or nothing of it.

        `octets` is the length, 0 for all up to the end of `source`; `source_offset` and `offset` are the starts in
        `source` and here. The result is on the disk at return. `change` gets the attributes of this file before and
        after. Raises Refused or OSError: EOPNOTSUPP: the file system cannot share blocks; EXDEV: `source` is in another
        file system; EINVAL: ranges of one file overlap, or do not begin and end at blocks; and others.
        """


class XattrHow(enum.IntEnum):
    """Whether `Extended.set_xattr` creates or replaces an attribute; the values are those of Linux and of RFC 8276."""

    EITHER = 0
    """The attribute is created if it does not exist, and replaced otherwise."""
    CREATE = os.XATTR_CREATE
    """The attribute is created; EEXIST if it exists."""
    REPLACE = os.XATTR_REPLACE
    """The attribute is replaced; ENODATA if it does not exist."""


@runtime_checkable
class Extended(Protocol):
    """A `Node` with extended attributes (RFC 8276): pairs of a name and a value that only programs interpret.

    `Tree.xattrs` says whether the objects of a tree have them. Names lack the prefix "user." that Linux puts before
    them. The methods are called for regular files and directories alone.
    """

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        """Returns the value of the attribute `name`, if the caller `who` may read the object.

        Raises Refused or OSError: ENODATA: there is no such attribute; EACCES.
        """

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        """Sets the attribute `name`, if the caller `who` may write the object.

        `change` gets the object's attributes (`tree.Attributes`) before and after.

        Raises:
            Refused, OSError: either, with any of these numbers: EEXIST: `how` is CREATE and the attribute exists;
                ENODATA: `how` is REPLACE and it does not; E2BIG, ENOSPC: the object's extended attributes are too
                large; EACCES.
        """

    def list_xattrs(self, who: Grant) -> list[bytes]:
        """Returns the names, without "user.", of all extended attributes, if the caller `who` may read the object.

        Raises Refused or OSError: EACCES: the caller may not.
        """

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        """Removes the attribute `name`, if the caller `who` may write the object.

        `change` gets the object's attributes (`tree.Attributes`) before and after. Raises Refused or OSError: ENODATA:
        there is no such attribute; EACCES.
        """
