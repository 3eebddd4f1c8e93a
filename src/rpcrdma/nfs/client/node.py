"""Objects of the file system as the client knows them: by handle, and as entries of a directory listing."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, TypeVar

from rpcrdma.errors import RpcRdmaError, TransportClosed
from rpcrdma.nfs.client.attributes import Stat, stat_from
from rpcrdma.nfs.client.paths import join
from rpcrdma.nfs.errors import ExportPath, NfsError, in_words
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3

__all__ = ["DirEntry", "LazyPath", "Node", "found_at", "path_of"]

E = TypeVar("E", bound=RpcRdmaError)

LazyPath: TypeAlias = "str | tuple[Node, str]"
"""The place of an object: its absolute path, or (its directory, its name), which takes constant memory at any depth."""


@dataclass(slots=True, eq=False)
class Node:
    """A file handle with the attributes and the place of its object.

    Attributes:
        handle: the server's file handle.
        attributes: the attributes stored last; None while unknown, as for the root at first.
        place: where the object was found, for messages: its absolute path, or (node of its directory, name).
        fresh: whether the present operation has fetched the attributes.
        target: the target of a symbolic link; None before it is read.
    """

    handle: nfs_fh3
    attributes: fattr3 | None
    place: LazyPath
    fresh: bool = False
    target: str | None = None

    @property
    def path(self) -> str:
        """The absolute path at which the object was found."""
        return path_of(self.place)

    @property
    def is_dir(self) -> bool:
        """Whether the object is a directory; True also while `attributes` is None."""
        return self.attributes is None or self.attributes.type == ftype3.NF3DIR

    @property
    def is_symlink(self) -> bool:
        """Whether the object is a symbolic link; False without attributes."""
        return self.attributes is not None and self.attributes.type == ftype3.NF3LNK


def path_of(place: LazyPath) -> str:
    """Returns the absolute path in the mount of `place`, which is that path, or (node of the directory, name).

    The result is an `ExportPath`, a `str` with the URL of the export, if that is known.
    """
    names: list[str] = []
    while not isinstance(place, str):
        directory, name = place
        names.append(name)
        place = directory.place
    if not names:
        return place
    path = join(place, "/".join(reversed(names)))
    return place.with_text(path) if isinstance(place, ExportPath) else path


def found_at(place: LazyPath, error: E) -> E:
    """Sets `error.url` to the URL of the object at `place`, if the export's URL is known; returns `error` itself.

    `place`: the object's path, or (node of its directory, name). `error`: the error of a call. A URL that `error` has
    stays, unless the new one begins with it. A TransportClosed, which is about the server, is not changed.
    """
    if not isinstance(error, TransportClosed) and isinstance(path := path_of(place), ExportPath):
        error.found_at(in_words(path))
    return error


class DirEntry:
    """An entry of a directory with its attributes at the time of the listing; its methods make no calls.

    Like `os.DirEntry`, but methods describe the entry itself and never follow a symbolic link; `await fs.stat(entry)`
    does.

    Args:
        name: the name in the directory.
        directory: the directory.
        handle: the object's handle, or None with a `refusal`.
        attributes: the attributes at the time of the listing, or None with a `refusal`.
        refusal: the server's refusal to describe the entry, as where that is a mount point; or None. All members but
            `name`, `path` and `directory` raise it.
    """

    __slots__ = ("_attributes", "_handle", "directory", "name", "refusal")

    def __init__(
        self,
        name: str,
        directory: Node,
        handle: nfs_fh3 | None,
        attributes: fattr3 | None,
        refusal: NfsError | None = None,
    ) -> None:
        self.name = name
        self.directory = directory
        self._handle = handle
        self._attributes = attributes
        self.refusal = refusal

    @property
    def handle(self) -> nfs_fh3:
        """The server's handle of the object; raises `refusal` if the server has refused to describe the entry."""
        return self._handle or self._refuse()

    @property
    def attributes(self) -> fattr3:
        """The attributes at the time of the listing; raises `refusal` if the server has refused to describe it."""
        return self._attributes or self._refuse()

    def _refuse(self) -> NoReturn:
        assert self.refusal is not None, "without a handle there is a refusal"
        raise copy.copy(self.refusal)

    @property
    def path(self) -> str:
        """The absolute path of the entry in the mount."""
        return path_of((self.directory, self.name))

    @property
    def node(self) -> Node:
        """A new `Node` for the object; raises `refusal` if the server has refused to describe the entry."""
        return Node(self.handle, self.attributes, (self.directory, self.name))

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def is_file(self) -> bool:
        """Returns whether the entry is a regular file; raises `refusal` unless it is None."""
        return self.attributes.type == ftype3.NF3REG

    def is_dir(self) -> bool:
        """Returns whether the entry is a directory; raises `refusal` unless it is None."""
        return self.attributes.type == ftype3.NF3DIR

    def is_symlink(self) -> bool:
        """Returns whether the entry is a symbolic link; raises `refusal` unless it is None."""
        return self.attributes.type == ftype3.NF3LNK

    def inode(self) -> int:
        """Returns the object's number in its file system (fileid); raises `refusal` unless it is None."""
        return self.attributes.fileid

    def is_unchanged(self, present: fattr3 | None) -> bool:
        """Returns whether `present` are attributes of the same object, with the size, mtime and ctime of the listing.

        Args:
            present: the attributes; None: the result is False.

        Raises:
            NfsError: `refusal`, if the server has refused to describe the entry in the listing.
        """
        return present is not None and _version(present) == _version(self.attributes)

    def stat(self) -> Stat:
        """Returns the attributes at the time of the listing, of a symbolic link itself and not of its target.

        Raises `refusal` if the server has refused to describe the entry.
        """
        return stat_from(self.attributes)


def _version(attributes: fattr3) -> tuple[int, ...]:
    """Returns (fsid, fileid, size, seconds and ns of ctime, those of mtime), by which a change of a file shows."""
    changed, modified = attributes.ctime, attributes.mtime
    times = changed.seconds, changed.nseconds, modified.seconds, modified.nseconds
    return attributes.fsid, attributes.fileid, attributes.size, *times
