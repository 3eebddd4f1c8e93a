"""Files that commands write when their work is done, opened before it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["empty", "opened_before_work"]


@contextmanager
def opened_before_work(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to write the result of work inside the `with` block.

    If the block raises before it has written anything, a new file is removed. A file that cannot be opened raises
    OSError before the work begins. An existing file keeps its content: the caller calls `empty` before it writes, since
    octets are appended. A named pipe stays open during the work, so that its reader waits for the result.
    """
    is_new = not os.path.lexists(path)
    with path.open("ab") as file:
        try:
            yield file
        except BaseException:
            if is_new and not file.tell():
                path.unlink(missing_ok=True)
            raise


def empty(file: BinaryIO) -> None:
    """Cuts an open file to 0 octets before a result is written; a pipe or device stays as it is. Raises OSError."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)
