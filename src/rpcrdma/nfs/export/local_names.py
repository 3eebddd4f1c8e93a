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
    """The part of the class of local nodes that finds and changes names, and reports: methods of `tree.Node`."""

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

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """Removes `name` from this directory, as the caller `who`, and syncs the directory if the export asks for that.

        `change` receives the directory's attributes before and after. `is_directory`: `name` has to be a directory's
        (True), must not be (False), or may be either (None). Raises Refused or OSError: ENOENT, ENOTEMPTY; EACCES: an
        invalid name, a mount point or no right; ENOTDIR, EISDIR: against `is_directory`; and others.
        """
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
        """Renames `old` of this directory to `new` in `target`, as the caller `who`; replaces an object named `new`.

        Both names stay if they stand for one object. `source` and `into` receive the attributes of this directory and
        of `target` before and after. Syncs both directories if the export asks for that. Raises Refused or OSError:
        EXDEV: `target` is in another tree; EINVAL: "." or "..", or `target` is in the renamed directory; ENOENT,
        EACCES; ENOTEMPTY, ENOTDIR, EISDIR: the object named `new` cannot be replaced; and others.
        """
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
        """Gives this object the further name `name` in `directory`, as the caller `who`.

        `change` receives the attributes of `directory` before and after. Syncs this object and `directory` if the
        export asks for that. Raises Refused or OSError: ENOTDIR: `directory` is no directory; EISDIR: this object is a
        directory; EXDEV: `directory` is in another tree; EEXIST, EACCES, EMLINK and others.
        """
        check_link(self, directory, name)
        assert isinstance(directory, LocalObject)
        with Changing(directory, change), who.identity:
            os.link(self.proc_path, name, dst_dir_fd=directory.fd, follow_symlinks=True)
        self.was_changed()
        self.tree.parts.synchronize(self, directory)

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
