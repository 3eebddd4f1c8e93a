"""The mount points of this machine, and the names of their units of systemd."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["mount_points", "mount_unit"]

_TABLES: Final = (("/proc/self/mountinfo", 4), ("/etc/fstab", 1))
"""The tables of what is mounted and of what is to be, and the column of mount points: proc(5), fstab(5)."""
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_PLAIN: Final = re.compile(r"[A-Za-z0-9:_.]")


def mount_points() -> frozenset[Path]:
    """Returns the mount points of the mounted file systems and of those in /etc/fstab, without "/".

    A table that cannot be read counts as empty.
    """
    return frozenset(path for table, column in _TABLES for path in _points(Path(table), column))


def _points(table: Path, column: int) -> Iterator[Path]:
    try:
        lines = table.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        columns = line.split()
        if len(columns) > column and columns[column].startswith(b"/") and not line.lstrip().startswith(b"#"):
            path = _OCTAL.sub(lambda escape: bytes((int(escape[1], 8) & 0xFF,)), columns[column])
            if path.strip(b"/"):
                yield Path(os.fsdecode(path))


def mount_unit(point: Path) -> str:
    """Returns the name of the systemd mount unit of a mount point, such as "srv-data.mount" for /srv/data.

    `point` is an absolute path other than "/"; it is escaped as `systemd-escape --path` does.
    """
    parts = [part for part in point.parts if part != "/"]
    text = "-".join("".join(map(_escaped, part)) for part in parts)
    return f"{_hex(text[0]) + text[1:] if text.startswith('.') else text}.mount"


def _escaped(letter: str) -> str:
    return letter if _PLAIN.match(letter) else _hex(letter)


def _hex(letter: str) -> str:
    return "".join(f"\\x{octet:02x}" for octet in os.fsencode(letter))
