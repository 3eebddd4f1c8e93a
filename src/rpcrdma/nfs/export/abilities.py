"""Abilities that the files of a tree may have besides those of `tree.OpenFile`.

A version asks for one by `isinstance`, and refuses a call for which the tree has none. Refusals are error numbers, as
in `tree`. All methods may wait for a disk.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rpcrdma.nfs.export.tree import Change, OpenFile, Written

__all__ = ["CopyTarget", "SparseFile"]


@runtime_checkable
class SparseFile(Protocol):
    """An open file that may have holes: ranges without space on the disk, which are read as zeros."""

    def seek(self, offset: int, *, hole: bool) -> int | None:
        """The offset at or behind `offset`, in the file, where the next hole or data begins; None: there is none.

        The end of a file counts as a hole.
        """

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        """Takes space on the disk for a range, and extends the file to its end; by a thread that acts as the caller."""

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        """Frees the space of a range as far as the file goes, which then reads as zeros; by a thread as `allocate`."""

    def will_need(self, offset: int, octets: int) -> None:
        """Begins to read a range of the file into memory."""


@runtime_checkable
class CopyTarget(Protocol):
    """An open file into which data of another one, or of its own, is copied without being read by the server.

    Both methods are called by a thread that acts as the caller. They refuse with EXDEV a source of another file system,
    and with EINVAL ranges of one file that overlap.
    """

    def copy_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> Written:
        """Copies at most these octets, unstable until `OpenFile.commit`; `Written.octets` may be fewer."""

    def clone_from(self, source: OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> None:
        """Lets the range have the same blocks on the disk as that of the source, all or none of it.

        `octets` 0: to the end of the source. EOPNOTSUPP: the file system cannot do so.
        """
