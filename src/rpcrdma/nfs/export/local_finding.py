"""Finds objects of local directories and reports on them."""

from __future__ import annotations

import errno
import os
from typing import Self

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.linux_calls import faccess_as_caller
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.name_rules import check_directory, check_name
from rpcrdma.nfs.export.tree import (
    APPEND,
    DELETE,
    DOTS,
    EXECUTE,
    LOOKUP,
    MODIFY,
    NAME_OCTETS_MAX,
    READ,
    Access,
    FileKind,
    PathLimits,
    Refused,
    Space,
)

__all__ = ["Finding"]

_LINKS_MAX = 0xFFFFFFFF
_WRITING = MODIFY | APPEND | DELETE
_OF_DIRECTORIES = ((os.R_OK, READ), (os.X_OK, LOOKUP), (os.W_OK | os.X_OK, MODIFY | APPEND | DELETE))
_OF_OTHERS = ((os.R_OK, READ), (os.W_OK, MODIFY | APPEND), (os.X_OK, EXECUTE))


class Finding(LocalObject):
    """The methods of `tree.Node` that find objects and report on them."""

    __slots__ = ()

    def access(self, who: Grant, wanted: Access) -> Access:
        """See `tree.Node.access`."""
        granted = 0
        if who.read_only:
            wanted &= ~_WRITING
        with who.identity:
            for mode, bits in _OF_DIRECTORIES if self.kind == FileKind.DIRECTORY else _OF_OTHERS:
                if wanted & bits and faccess_as_caller(self.fd, mode):
                    granted |= wanted & bits
        return granted

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> Self | None:
        """See `tree.Node.lookup`."""
        check_name(name)
        check_directory(self)
        tree = self.tree
        if name not in DOTS:
            found: Self | None
            with who.identity:
                found = tree.child_at_once(self, name) if at_once else tree.child(self, name)
            return found
        if at_once and name == b"..":
            return None
        with who.identity:
            searchable = faccess_as_caller(self.fd, os.X_OK)
        if not searchable:
            raise Refused(errno.EACCES)
        return self if name == b"." else self.parent()

    def parent(self) -> Self:
        """See `tree.Node.parent`."""
        above: Self = self.tree.parent(self)
        return above

    def read_link(self) -> bytes:
        """See `tree.Node.read_link`."""
        if self.kind != FileKind.SYMLINK:
            raise Refused(errno.EINVAL)
        return os.fsencode(os.readlink(b"", dir_fd=self.fd))

    def space(self) -> Space:
        """See `tree.Node.space`."""
        space = os.fstatvfs(self.fd)
        unit = space.f_frsize
        return Space(
            space.f_blocks * unit,
            space.f_bfree * unit,
            space.f_bavail * unit,
            space.f_files,
            space.f_ffree,
            space.f_favail,
        )

    def path_limits(self) -> PathLimits:
        """See `tree.Node.path_limits`."""
        return PathLimits(self._bound("PC_LINK_MAX", _LINKS_MAX), self._bound("PC_NAME_MAX", NAME_OCTETS_MAX))

    def _bound(self, name: str, most: int) -> int:
        """A bound of the file system, at most `most`; the kernel's negative value means that it has none."""
        try:
            value = os.pathconf(self.proc_path, name)
        except OSError:
            return most
        return min(value, most) if value >= 0 else most
