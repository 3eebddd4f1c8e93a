"""Renames and removes objects of local directories, and gives them further names."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.open_object import Changing
from rpcrdma.nfs.export.tree import DOTS, Change, FileKind, Node, Refused, check_name

__all__ = ["Naming"]


class Naming(LocalObject):
    """The methods of `tree.Node` that rename and remove objects, and give them further names."""

    __slots__ = ()

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """See `tree.Node.remove`."""
        self.check_directory()
        check_name(name)
        if name in DOTS and not is_directory:
            raise Refused(errno.EACCES)
        if name in DOTS:
            raise Refused(errno.EINVAL if name == b"." else errno.EEXIST)
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
        parts.synchronize(self)

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        """See `tree.Node.rename`."""
        self.check_directory()
        if target.kind != FileKind.DIRECTORY:
            raise Refused(errno.ENOTDIR)
        check_name(old)
        check_name(new)
        if old in DOTS or new in DOTS:
            raise Refused(errno.EINVAL)
        tree = self.tree
        if not isinstance(target, LocalObject) or target.tree is not tree:
            raise Refused(errno.EXDEV)
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
            if replaced is None or replaced.handle != moved.handle:
                if replaced is not None:
                    replaced.was_removed()
                tree.moved(moved, target, new)
                moved.count_change(moved.attributes())
        tree.parts.synchronize(*({self, target}))

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        """See `tree.Node.link`."""
        if directory.kind != FileKind.DIRECTORY:
            raise Refused(errno.ENOTDIR)
        check_name(name)
        if name in DOTS:
            raise Refused(errno.EEXIST)
        if self.kind == FileKind.DIRECTORY:
            raise Refused(errno.EISDIR)
        if not isinstance(directory, LocalObject) or directory.tree is not self.tree:
            raise Refused(errno.EXDEV)
        with Changing(directory, change), who.identity:
            os.link(self.proc_path, name, dst_dir_fd=directory.fd, follow_symlinks=True)
            self.count_change(self.attributes())
        self.tree.parts.synchronize(self, directory)
