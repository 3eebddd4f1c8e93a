"""Locks a range of a file, and appends lines under the lock: `lock_holder.py MODE FILE START OCTETS [MARK]`.

It makes MARK, by default /tmp/held, when it has the lock, and ends when that is removed. It then prints the number of
its lines, each of which was on the server's disk before the next. With the mode `wait` it waits for the lock; with
`hold`, `keep` and `try` it exits with status 1 if another process has it. With `keep` it appends nothing. With `try` it
ends as soon as it has the lock.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

_PAUSE_S = 0.2


def main() -> int:
    mode, path, start, octets = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    held = Path(sys.argv[5] if len(sys.argv) > 5 else "/tmp/held")
    file = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | (0 if mode == "wait" else fcntl.LOCK_NB), octets, start)
    except BlockingIOError:
        return 1
    if mode == "try":
        return 0
    held.touch()
    lines = 0
    while held.exists():
        if mode != "keep":
            lines += 1
            os.write(file, b"line %d\n" % lines)
            os.fsync(file)
        time.sleep(_PAUSE_S)
    fcntl.lockf(file, fcntl.LOCK_UN, octets, start)
    print(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
