"""The meanings of the command's exit status."""

from __future__ import annotations

import enum

__all__ = ["ExitStatus"]


class ExitStatus(enum.IntEnum):
    """The exit status of every command; ended by a signal and piped away as the shell reports it (128 + signal)."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_CONNECTED = 3
    """No connection could be made."""
    PROTOCOL_VIOLATION = 4
    """The peer broke the protocol."""
    HUNG_UP = 129
    """The terminal has ended."""
    INTERRUPTED = 130
    READER_GONE = 141
    """The reader of standard output has closed it."""
    TERMINATED = 143
