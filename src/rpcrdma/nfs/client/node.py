"""An object of the file system as the client knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.nfs.client.paths import join
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3

__all__ = ["Node", "Place", "path_of"]

Place: TypeAlias = "str | tuple[Node, str]"
"""The place of an object: a path, or a name in a directory, which costs no more the deeper the directory is."""


@dataclass(slots=True, eq=False)
class Node:
    """A file handle, with the attributes and the place of its object.

    `attributes` are as old as the reply that brought them; `fresh` says that the current operation has fetched them.
    `target` is a symbolic link's, once read. `place` is for messages.
    """

    handle: nfs_fh3
    attributes: fattr3 | None
    place: Place
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


def path_of(place: Place) -> str:
    """The path that `place` stands for."""
    names: list[str] = []
    while not isinstance(place, str):
        directory, name = place
        names.append(name)
        place = directory.place
    return join(place, "/".join(reversed(names))) if names else place
