"""Abilities that the files of a tree may have besides those of `tree.OpenFile`.

A version asks for one by `isinstance`, and refuses a call for which the tree has none. Refusals are error numbers, as
in `tree`. All methods may wait for a disk.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rpcrdma.nfs.export.tree import Change

__all__ = ["SparseFile"]


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
