"""Renames and removes objects of local directories, and gives them further names."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.name_rules import check_link, check_removal, check_rename
from rpcrdma.nfs.export.open_object import Changing
from rpcrdma.nfs.export.tree import Change, FileKind, Node, Refused

__all__ = ["Naming"]


class Naming(LocalObject):
    """A base class of `LocalNode`, the objects of local directories: the methods that change names, of `tree.Node`."""

    __slots__ = ()

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
