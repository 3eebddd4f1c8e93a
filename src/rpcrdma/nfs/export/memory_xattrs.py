"""Extended attributes of objects in memory: see `abilities.Extended`."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from rpcrdma.nfs.export.abilities import XattrHow
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Change, Refused

__all__ = ["MemoryXattrs"]

_OCTETS_MAX: Final = 64 << 10
"""Octets of all attributes of an object: the bound of Linux for a list of names alone."""
_ENTRY_OCTETS: Final = 160
"""Octets of memory that an attribute takes besides its name and its value, which may be as short as 1 and 0 octets."""


class MemoryXattrs:
    """The base of `MemoryNode` that has the object's extended attributes; implements `abilities.Extended`.

    Changes of them are stable at once. `tree`, `changing` and `touch` are those of `MemoryObject`.
    """

    __slots__ = ("xattrs",)

    tree: Any
    changing: Callable[[Change], AbstractContextManager[None]]
    touch: Callable[[], None]

    def __init__(self) -> None:
        self.xattrs: dict[bytes, bytes] = {}

    @property
    def xattr_octets(self) -> int:
        """Octets of all attributes of the object: names, values, and the memory of each entry."""
        return sum(_ENTRY_OCTETS + len(name) + len(value) for name, value in self.xattrs.items())

    def get_xattr(self, who: Grant, name: bytes) -> bytes:
        """Returns the value of the extended attribute `name`; raises Refused (ENODATA) if there is none."""
        with self.tree.lock:
            return self._found(name)

    def set_xattr(self, who: Grant, name: bytes, value: bytes, how: XattrHow, change: Change) -> None:
        """Creates or replaces the extended attribute `name`, as `how` allows.

        `change` gets the object's `tree.Attributes` before and after. Raises Refused: EEXIST: `how` is CREATE and the
        attribute exists; ENODATA: `how` is REPLACE and it does not; E2BIG: all extended attributes of the object
        (`xattr_octets`) would take more than 64 KiB; ENOSPC: the tree has too little room left.
        """
        with self.changing(change):
            before = self.xattrs.get(name)
            if how is XattrHow.CREATE and before is not None:
                raise Refused(errno.EEXIST)
            if how is XattrHow.REPLACE:
                self._found(name)
            growth = len(value) + (_ENTRY_OCTETS + len(name) if before is None else -len(before))
            if self.xattr_octets + growth > _OCTETS_MAX:
                raise Refused(errno.E2BIG)
            self.tree.take(growth)
            self.xattrs[name] = value
            self.touch()

    def list_xattrs(self, who: Grant) -> list[bytes]:
        """Returns the names of all extended attributes of the object."""
        with self.tree.lock:
            return list(self.xattrs)

    def remove_xattr(self, who: Grant, name: bytes, change: Change) -> None:
        """Removes the extended attribute `name`; `change` gets the object's `tree.Attributes` before and after.

        Raises Refused: ENODATA: there is no such attribute.
        """
        with self.changing(change):
            self.tree.take(-_ENTRY_OCTETS - len(name) - len(self._found(name)))
            del self.xattrs[name]
            self.touch()

    def _found(self, name: bytes) -> bytes:
        found = self.xattrs.get(name)
        if found is None:
            raise Refused(errno.ENODATA)
        return found
