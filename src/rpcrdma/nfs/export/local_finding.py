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
    """The part of the class of local nodes that finds objects and reports on them: methods of `tree.Node`."""

    __slots__ = ()

    def access(self, who: Grant, wanted: Access) -> Access:
        """Returns the rights in `wanted`, a sum of READ and so on, that `who` has on this object; never waits.

        They are those that the kernel grants, without those to write if the grant is read-only. May raise OSError.
        """
        granted = 0
        if who.read_only:
            wanted &= ~_WRITING
        with who.identity:
            for mode, bits in _OF_DIRECTORIES if self.kind == FileKind.DIRECTORY else _OF_OTHERS:
                if wanted & bits and faccess_as_caller(self.fd, mode):
                    granted |= wanted & bits
        return granted

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> Self | None:
        """Returns the object of a name in this directory, "." and ".." included; never waits for a disk if `at_once`.

        Returns None only with `at_once`, if the look-up may have to wait.

        Raises:
            Refused: ENOTDIR, ENAMETOOLONG; EACCES: the name is invalid, a mount point, or the caller may not search;
                ESTALE for "..": the directory above is not in the export.
            OSError: ENOENT, EACCES and others.
        """
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
        """Returns the directory above this one; the root of the export is its own parent. May block.

        Raises Refused (ESTALE) if the directory above is not in the export, or OSError if it cannot be reached.
        """
        above: Self = self.tree.parent(self)
        return above

    def read_link(self) -> bytes:
        """Returns the path in this symbolic link; may block. Raises Refused (EINVAL) for other objects, or OSError."""
        if self.kind != FileKind.SYMLINK:
            raise Refused(errno.EINVAL)
        return os.fsencode(os.readlink(b"", dir_fd=self.fd))

    def space(self) -> Space:
        """Returns the octets and files of the object's file system: total, free, free for users; may raise OSError."""
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
        """Returns the most hard links of an object and the most octets of a name in the object's file system.

        They are at most 2^32 - 1 and `NAME_OCTETS_MAX`, which also stand for unknown ones.
        """
        return PathLimits(self._bound("PC_LINK_MAX", _LINKS_MAX), self._bound("PC_NAME_MAX", NAME_OCTETS_MAX))

    def _bound(self, name: str, most: int) -> int:
        """Returns the bound that `pathconf` has by `name`, such as "PC_NAME_MAX"; `most` if it is larger or unknown."""
        try:
            value = os.pathconf(self.proc_path, name)
        except OSError:
            return most
        return min(value, most) if value >= 0 else most
