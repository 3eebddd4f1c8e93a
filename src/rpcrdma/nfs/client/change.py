"""A change in a watched directory, and the check of a server's report before it becomes one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.watch import watch_change, watch_kind

__all__ = ["RESCAN", "Change", "ChangeKind", "believed"]


class ChangeKind(enum.Enum):
    """The kind of a change."""

    CREATED = "created"
    """A name was added: an object was made, or moved in from a directory that is not watched."""
    REMOVED = "removed"
    """A name was removed, with all below it: the object was removed, or moved to a directory that is not watched."""
    RENAMED = "renamed"
    CHANGED = "changed"
    """A file has other content."""
    ATTRIBUTES = "attributes"
    """Mode, owner, times or other attributes were set."""
    RESCAN = "rescan"
    """Changes were missed: only listing the whole tree shows its present state."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change; paths are relative to the watched directory, "" is itself."""

    kind: ChangeKind
    path: str = ""
    target: str | None = None
    """RENAMED: what `path` is called now."""
    is_directory: bool = False


RESCAN = Change(ChangeKind.RESCAN, is_directory=True)

_KINDS = {
    watch_kind.WATCH_CREATED: ChangeKind.CREATED,
    watch_kind.WATCH_REMOVED: ChangeKind.REMOVED,
    watch_kind.WATCH_RENAMED: ChangeKind.RENAMED,
    watch_kind.WATCH_CHANGED: ChangeKind.CHANGED,
    watch_kind.WATCH_ATTRIBUTES: ChangeKind.ATTRIBUTES,
}


def believed(told: watch_change) -> Change:
    """The change that a server reports, after a check of its paths.

    Raises:
        RemoteProtocolError: a path could lead out of the directory, or cannot be a path.
    """
    kind = _KINDS.get(told.kind)
    if kind is None:
        return RESCAN
    names_itself = kind is ChangeKind.ATTRIBUTES
    target = _path(told.target) if kind is ChangeKind.RENAMED else None
    return Change(kind, _path(told.path, may_be_empty=names_itself), target, told.is_directory)


def _path(path: str, *, may_be_empty: bool = False) -> str:
    if (path or not may_be_empty) and any(name in {"", ".", ".."} or "\0" in name for name in path.split("/")):
        raise RemoteProtocolError(f"the server tells of a change at {path!r}, which can be no path in a directory")
    return path
