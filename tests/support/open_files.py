"""The descriptors of this process, by which tests see what is left open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["open_files"]


def open_files() -> set[tuple[int, int, int]]:
    """Returns each descriptor's number with the device and inode of its file.

    A difference of two such sets shows what was opened and is still open. Numbers alone do not: garbage of earlier
    tests may be collected, and close its files, in between.
    """
    found = set()
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # the descriptor of the listing is closed by now
            status = os.fstat(descriptor)
            found.add((descriptor, status.st_dev, status.st_ino))
    return found
