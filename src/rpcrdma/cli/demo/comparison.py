"""Whether two trees are the same: the SHA-256 of every file, the target of every link, and no more and no less."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["digests", "mismatches"]


def digests(root: Path, on_octets: Callable[[int], None] = lambda _count: None) -> dict[str, str]:
    """The content of each path below `root`: a digest, a link's target or "directory".

    Raises:
        OSError: an entry cannot be read.
    """
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                path = Path(entry.path)
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                    description = "directory"
                elif stat.S_ISLNK(status.st_mode):
                    description = f"link to {path.readlink()}"
                elif stat.S_ISREG(status.st_mode):
                    with path.open("rb") as file:
                        description = hashlib.file_digest(file, "sha256").hexdigest()
                    on_octets(status.st_size)
                else:
                    continue
                found[os.path.relpath(path, root)] = description
    return found


def mismatches(source: dict[str, str], copy: dict[str, str]) -> list[str]:
    """The paths that differ, or that one of the two lacks, in order."""
    return sorted(path for path in source.keys() | copy.keys() if source.get(path) != copy.get(path))
