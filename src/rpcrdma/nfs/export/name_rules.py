"""Rules for names in directories that hold in every tree, before its file system is asked."""

from __future__ import annotations

import errno
from typing import Any, Protocol

from rpcrdma.nfs.export.tree import DOTS, NAME_OCTETS_MAX, FileKind, Refused

__all__ = ["check_directory", "check_link", "check_name", "check_new_name", "check_removal", "check_rename"]


class _Object(Protocol):
    """The part of a `tree.Node` that the rules look at."""

    @property
    def kind(self) -> FileKind: ...

    @property
    def tree(self) -> Any: ...


def check_name(name: bytes) -> None:
    """Refuses names that stand for no single entry of a directory.

    Raises:
        Refused: EACCES: the name is empty or a path (RFC 1813 section 4.6); ENAMETOOLONG.
    """
    if not name or b"/" in name or b"\0" in name:
        raise Refused(errno.EACCES)
    if len(name) > NAME_OCTETS_MAX:
        raise Refused(errno.ENAMETOOLONG)


def check_directory(node: _Object) -> None:
    """Refuses with ENOTDIR an object other than a directory."""
    if node.kind != FileKind.DIRECTORY:
        raise Refused(errno.ENOTDIR)


def check_new_name(directory: _Object, name: bytes) -> None:
    """Checks a name that an object is to get in a directory.

    Raises:
        Refused: ENOTDIR; as `check_name`; EEXIST: "." and "..".
    """
    check_directory(directory)
    check_name(name)
    if name in DOTS:
        raise Refused(errno.EEXIST)


def check_link(node: _Object, directory: _Object, name: bytes) -> None:
    """Checks a further name for an object in a directory of the same tree.

    Raises:
        Refused: as `check_new_name`; EISDIR: the object is a directory; EXDEV: the directory is in another tree.
    """
    check_new_name(directory, name)
    if node.kind == FileKind.DIRECTORY:
        raise Refused(errno.EISDIR)
    if directory.tree is not node.tree:
        raise Refused(errno.EXDEV)


def check_removal(directory: _Object, name: bytes, *, is_directory: bool | None) -> None:
    """Checks a name to be removed from a directory; `is_directory` as for `Node.remove`.

    Raises:
        Refused: ENOTDIR; as `check_name`; EACCES, EINVAL, EEXIST: "." and "..".
    """
    check_directory(directory)
    check_name(name)
    if name in DOTS:
        raise Refused(errno.EACCES if not is_directory else errno.EINVAL if name == b"." else errno.EEXIST)


def check_rename(directory: _Object, old: bytes, target: _Object, new: bytes) -> None:
    """Checks the names of a rename from a directory to another one of the same tree, or within it.

    Raises:
        Refused: ENOTDIR; as `check_name`; EINVAL: "." and ".."; EXDEV: the directories are in two trees.
    """
    check_directory(directory)
    check_directory(target)
    check_name(old)
    check_name(new)
    if old in DOTS or new in DOTS:
        raise Refused(errno.EINVAL)
    if target.tree is not directory.tree:
        raise Refused(errno.EXDEV)
