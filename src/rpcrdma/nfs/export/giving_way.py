"""Pauses of long work in threads, so that the event loop gets its turn of the interpreter."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic, sleep
from typing import Final

__all__ = ["give_way"]

_WORK_S: Final = 0.004
"""Seconds of work between two pauses: half of what a call may wait beside its own work."""
_PAUSE_S: Final = 50e-6
"""Seconds of a pause: the event loop wakes up and takes the interpreter's lock in less."""


class _Worked(threading.local):
    since_s: float | None = None
    """The time of the thread's last pause, by `monotonic`; None before its first call of `give_way`."""


_worked: Final = _Worked()


def give_way() -> None:
    """Pauses for 50 µs if this thread has worked for 4 ms since its last pause; never in the thread of an event loop.

    Loops over many exports call it for each. In such a loop each short system call frees the interpreter's lock (GIL),
    and takes it back before the event loop is awake. The event loop then waits another `sys.getswitchinterval()` before
    it demands the lock, so that thousands of such system calls keep it waiting for 0.1 s.
    """
    now_s = monotonic()
    if _worked.since_s is None:
        _worked.since_s = now_s
    elif now_s - _worked.since_s >= _WORK_S:
        if not _has_event_loop():
            sleep(_PAUSE_S)
        _worked.since_s = monotonic()


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
