"""Finds, renames and removes objects of local directories, gives them further names, and reports on them."""

from __future__ import annotations

import errno
import os
from typing import Self

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.linux_calls import faccess_as_caller
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.name_rules import check_directory, check_link, check_name, check_removal, check_rename
from rpcrdma.nfs.export.open_object import Changing
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
    Change,
    FileKind,
    Node,
    PathLimits,
    Refused,
    Space,
)

__all__ = ["Naming"]

_LINKS_MAX = 0xFFFFFFFF
_WRITING = MODIFY | APPEND | DELETE
_OF_DIRECTORIES = ((os.R_OK, READ), (os.X_OK, LOOKUP), (os.W_OK | os.X_OK, MODIFY | APPEND | DELETE))
_OF_OTHERS = ((os.R_OK, READ), (os.W_OK, MODIFY | APPEND), (os.X_OK, EXECUTE))


class Naming(LocalObject):
    """The part of the class of local nodes that finds and changes names, and reports: methods of `tree.Node`.

    Changes are synced if the export asks for that (`ExportTerms.synchronous`).
    """

    __slots__ = ()

    def access(self, who: Grant, wanted: Access) -> Access:
        """Returns what the kernel grants of `wanted`, no right to write if `who` is read-only; may raise OSError."""
        granted = 0
        if who.read_only:
            wanted &= ~_WRITING
        with who.identity:
            for mode, bits in _OF_DIRECTORIES if self.kind == FileKind.DIRECTORY else _OF_OTHERS:
                if wanted & bits and faccess_as_caller(self.fd, mode):
                    granted |= wanted & bits
        return granted

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> Self | None:
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
        above: Self = self.tree.parent(self)
        return above

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        check_removal(self, name, is_directory=is_directory)
        parts = self.tree.parts
        with Changing(self, change):
            with who.identity:
                removed: LocalObject = self.tree.child(self, name)
                was_directory = removed.kind == FileKind.DIRECTORY
                if was_directory and is_directory is False:
                    raise Refused(errno.EISDIR)
                (os.rmdir if is_directory or (is_directory is None and was_directory) else os.unlink)(
                    name, dir_fd=self.fd
                )
            removed.was_removed()
        removed.was_changed()
        parts.synchronize(self)

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        check_rename(self, old, target, new)
        assert isinstance(target, LocalObject)
        tree = self.tree
        changing = [(self, Changing(self, source)), (target, Changing(target, into))]
        # Every call takes two locks in the same order.
        (_, first), (_, second) = sorted(changing, key=lambda pair: id(pair[0].lock))
        with first, second:
            with who.identity:
                moved: LocalObject = tree.child(self, old)
                replaced: LocalObject | None
                try:
                    replaced = tree.child(target, new)
                except FileNotFoundError:
                    replaced = None
                os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=target.fd)
            # Of two names of one object, rename(2) leaves both.
            if are_one := replaced is not None and replaced.handle == moved.handle:
                replaced = None
                for _, unchanged in changing:
                    unchanged.in_vain = True
            else:
                if replaced is not None:
                    replaced.was_removed()
                tree.moved(moved, target, new)
        if not are_one:
            moved.was_changed()
        if replaced is not None:
            replaced.was_changed()
        tree.parts.synchronize(*({self, target}))

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        check_link(self, directory, name)
        assert isinstance(directory, LocalObject)
        with Changing(directory, change), who.identity:
            os.link(self.proc_path, name, dst_dir_fd=directory.fd, follow_symlinks=True)
        self.was_changed()
        self.tree.parts.synchronize(self, directory)

    def read_link(self) -> bytes:
        if self.kind != FileKind.SYMLINK:
            raise Refused(errno.EINVAL)
        return os.fsencode(os.readlink(b"", dir_fd=self.fd))

    def space(self) -> Space:
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
        return PathLimits(self._bound("PC_LINK_MAX", _LINKS_MAX), self._bound("PC_NAME_MAX", NAME_OCTETS_MAX))

    def _bound(self, name: str, most: int) -> int:
        """Returns the bound that `pathconf` has by `name`, such as "PC_NAME_MAX"; `most` if it is larger or unknown."""
        try:
            value = os.pathconf(self.proc_path, name)
        except OSError:
            return most
        return min(value, most) if value >= 0 else most
