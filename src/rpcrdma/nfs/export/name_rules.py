"""Rules for names in directories that hold in every tree, before its file system is asked."""

from __future__ import annotations

import errno
from typing import Any, Protocol

from rpcrdma.nfs.export.tree import DOTS, NAME_OCTETS_MAX, FileKind, Refused

__all__ = ["check_directory", "check_link", "check_name", "check_new_name", "check_removal", "check_rename"]


class _Object(Protocol):
    """The attributes of a `tree.Node` that the rules look at: its kind, and its tree for comparison."""

    @property
    def kind(self) -> FileKind: ...

    @property
    def tree(self) -> Any: ...


def check_name(name: bytes) -> None:
    """Checks that a name can stand for one entry of a directory; "." and ".." pass.

    Raises:
        Refused: EACCES: the name is empty, or has a slash or null octet; ENAMETOOLONG: it has more than 255 octets.
    """
    if not name or b"/" in name or b"\0" in name:
        raise Refused(errno.EACCES)
    if len(name) > NAME_OCTETS_MAX:
        raise Refused(errno.ENAMETOOLONG)


def check_directory(node: _Object) -> None:
    """Raises Refused (ENOTDIR) unless the object is a directory."""
    if node.kind != FileKind.DIRECTORY:
        raise Refused(errno.ENOTDIR)


def check_new_name(directory: _Object, name: bytes) -> None:
    """Checks a name that an object is to get in a directory; does not look whether it is taken.

    Raises Refused: ENOTDIR: `directory` is not a directory; EACCES: the name is empty, or has a slash or null octet;
    ENAMETOOLONG: it has more than 255 octets; EEXIST: "." and "..".
    """
    check_directory(directory)
    check_name(name)
    if name in DOTS:
        raise Refused(errno.EEXIST)


def check_link(node: _Object, directory: _Object, name: bytes) -> None:
    """Checks a hard link: a further name for the object `node` in a directory.

    Raises:
        Refused: ENOTDIR: `directory` is no directory; EACCES, ENAMETOOLONG: the name is invalid; EEXIST: "." and "..";
            EISDIR: the object is a directory; EXDEV: `directory` is in another tree.
    """
    check_new_name(directory, name)
    if node.kind == FileKind.DIRECTORY:
        raise Refused(errno.EISDIR)
    if directory.tree is not node.tree:
        raise Refused(errno.EXDEV)


def check_removal(directory: _Object, name: bytes, *, is_directory: bool | None) -> None:
    """Checks a name that is to be removed from a directory.

    Does not look whether the name exists. `is_directory`: whether the caller asks to remove a directory; None: an
    object of any kind; it only decides about "." and "..". Raises Refused: ENOTDIR: `directory` is not a directory;
    EACCES, ENAMETOOLONG: the name is invalid; for "." EINVAL if `is_directory`, else EACCES; for ".." EEXIST if
    `is_directory`, else EACCES.
    """
    check_directory(directory)
    check_name(name)
    if name in DOTS:
        raise Refused(errno.EACCES if not is_directory else errno.EINVAL if name == b"." else errno.EEXIST)


def check_rename(directory: _Object, old: bytes, target: _Object, new: bytes) -> None:
    """Checks the names of a rename from `old` in `directory` to `new` in `target`, which may be the same directory.

    Raises:
        Refused: ENOTDIR: `directory` or `target` is no directory; EACCES, ENAMETOOLONG: a name is invalid; EINVAL: "."
            and ".."; EXDEV: the directories are in two trees.
    """
    check_directory(directory)
    check_directory(target)
    check_name(old)
    check_name(new)
    if old in DOTS or new in DOTS:
        raise Refused(errno.EINVAL)
    if target.tree is not directory.tree:
        raise Refused(errno.EXDEV)
