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
"""The place of an object: a path, or a name in a directory, whose cost does not depend on the depth."""


@dataclass(slots=True, eq=False)
class Node:
    """A file handle with the attributes and the place of its object.

    `attributes` are as old as the reply that contained them; `fresh` says that the current operation has fetched them.
    `target` is a symbolic link's, once read. `place` is for messages.
    """

    handle: nfs_fh3
    attributes: fattr3 | None
    place: LazyPath
    fresh: bool = False
    target: str | None = None

    @property
    def path(self) -> str:
        """The path at which it was found."""
        return path_of(self.place)

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory; a node without attributes is the root."""
        return self.attributes is None or self.attributes.type == ftype3.NF3DIR

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self.attributes is not None and self.attributes.type == ftype3.NF3LNK


def path_of(place: LazyPath) -> str:
    """Returns the path of `place`."""
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
    """Adds the URL of the object at `place` to a call's error, if the export's URL is known; returns the error.

    The end of a connection is the error of many calls, and about the server: it stays as it is.
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
        refusal: the server's refusal to describe the entry, such as a mount point, or None. All but `name`, `path` and
            `directory` raise it.
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
        """The server's handle of the object; raises `refusal` if there is one."""
        return self._handle or self._refuse()

    @property
    def attributes(self) -> fattr3:
        """The attributes at the time of the listing; raises `refusal` if there is one."""
        return self._attributes or self._refuse()

    def _refuse(self) -> NoReturn:
        assert self.refusal is not None, "without a handle there is a refusal"
        raise copy.copy(self.refusal)

    @property
    def path(self) -> str:
        """The absolute path."""
        return path_of((self.directory, self.name))

    @property
    def node(self) -> Node:
        """The object itself."""
        return Node(self.handle, self.attributes, (self.directory, self.name))

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def is_file(self) -> bool:
        """Returns whether it is a regular file."""
        return self.attributes.type == ftype3.NF3REG

    def is_dir(self) -> bool:
        """Returns whether it is a directory."""
        return self.attributes.type == ftype3.NF3DIR

    def is_symlink(self) -> bool:
        """Returns whether it is a symbolic link."""
        return self.attributes.type == ftype3.NF3LNK

    def inode(self) -> int:
        """Returns the object's number in its file system."""
        return self.attributes.fileid

    def is_unchanged(self, present: fattr3 | None) -> bool:
        """Returns whether attributes are of the same object, unchanged since the listing.

        Args:
            present: the attributes, or None.
        """
        return present is not None and _version(present) == _version(self.attributes)

    def stat(self) -> Stat:
        """Returns the entry's own attributes."""
        return stat_from(self.attributes)


def _version(attributes: fattr3) -> tuple[int, ...]:
    """Returns the object's number, size and times; any change of its data or attributes changes one of them."""
    changed, modified = attributes.ctime, attributes.mtime
    times = changed.seconds, changed.nseconds, modified.seconds, modified.nseconds
    return attributes.fsid, attributes.fileid, attributes.size, *times
