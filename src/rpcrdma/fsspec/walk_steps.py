"""The steps of a walk through a tree by a loop: fsspec recurses at each level, and reports errors of the top alone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from rpcrdma.limits import NFS_TREE_DEPTH_MAX

__all__ = ["OnError", "WalkStep", "Walked", "raise_unless_missing", "steps_after"]

OnError: TypeAlias = "str | Callable[[OSError], None] | None"

Walked: TypeAlias = tuple[str, Any, Any]
"""(directory, names of directories, names of other entries); the names are a list, or a dictionary with their infos."""


class WalkStep(NamedTuple):
    """The directory `path`, `depth` levels from the top of a walk, which is to be listed, or `found`, to be yielded."""

    path: str
    depth: int = 1
    found: Walked | None = None


def steps_after(found: Walked, depth: int, maxdepth: int | None, *, topdown: bool) -> list[WalkStep]:
    """Returns the steps of a walk that follow the listing `found` of a directory at `depth`, the last step first.

    `maxdepth`: levels of directories; None: all. `topdown`: whether the caller has yielded `found` before. Raises
    OSError (ENAMETOOLONG) for a tree of more than `NFS_TREE_DEPTH_MAX` (2048) levels.
    """
    path, names, _ = found
    steps = [] if topdown else [WalkStep(path, depth, found)]
    if depth != maxdepth and names:
        if depth > NFS_TREE_DEPTH_MAX:
            text = f"the directories in it are more than {NFS_TREE_DEPTH_MAX:,} levels deep"
            raise OSError(errno.ENAMETOOLONG, text, path)
        steps += [WalkStep(f"{path.rstrip('/')}/{name}", depth + 1) for name in reversed(names)]
    return steps


def raise_unless_missing(error: OSError) -> None:
    """Raises `error` again unless it is FileNotFoundError: another client may remove a directory during a walk."""
    if not isinstance(error, FileNotFoundError):
        raise error
