"""Where paths lead: without symbolic links, and in the file system of their mount."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from rpcrdma.nfs.export.linux_calls import birth_and_mount, is_asked_elsewhere

__all__ = ["MountTable", "is_at_or_below", "real_path"]

_TABLE = "/proc/self/mountinfo"
_OCTAL = re.compile(rb"\\([0-7]{3})")
"""An octet of a path in /proc/self/mountinfo that would end the path there."""
_LAYERS = re.compile(rb"(?:^|,)(?:lowerdir\+?|upperdir)=([^,]*)")
"""The directories of an overlayfs in its options, separated by colons; a colon in a path has a backslash before it."""


class _Mount(NamedTuple):
    """A mount: device number as text, the path in that file system that is mounted, and the path of the mount.

    `layers` are the paths of the directories of which an overlayfs consists.
    """

    device: bytes
    root: str
    point: str
    layers: tuple[str, ...] = ()


_UNKNOWN = _Mount(b"", "", "")


class MountTable:
    """The mounts of this process, read from /proc/self/mountinfo when a mount is asked for that is not known yet.

    Use an instance for one pass over directories only: the kernel may give the number of a mount that has ended to
    another one. Its methods may block, and raise OSError if the file cannot be read.
    """

    def __init__(self) -> None:
        self._mounts: dict[int, _Mount] = {}

    def file_system_of(self, mount: int) -> bytes:
        """Returns the device number (b"major:minor") of a mount's file system, the same for all its mounts.

        `mount` is the number of the mount in /proc/self/mountinfo; b"" is returned if it is unknown.
        """
        return self._mount(mount).device

    def has_layer_elsewhere(self, mount: int) -> bool:
        """Returns whether a mount is an overlayfs with a layer for which `is_asked_elsewhere` is true.

        Returns False also if the layers are out of reach, as those of a container's root are in the container. `mount`
        is the number of the mount. May block.
        """
        return any(map(_is_asked_elsewhere, self._mount(mount).layers))

    def place_of(self, path: Path | str) -> tuple[bytes, str]:
        """Returns (device number of the file system of `path`, path of the object from the root of that file system).

        Both are the same whichever mount of the file system `path` leads through. Symbolic links are followed. If
        `path` does not exist, the file system is that of the first directory above that does. Where the mount is
        unknown, returns (b"", absolute path). Raises OSError if the path or the directory above cannot be examined.
        """
        real = real_path(path)
        fd = _opened_at_or_above(real)
        try:
            device, root, point = self._mount(birth_and_mount(fd)[1])[:3]
        finally:
            os.close(fd)
        if not device or not is_at_or_below(real, point):
            return b"", real
        below = real[len(point) :].strip("/")
        return device, os.path.join(root, below) if below else root

    def _mount(self, number: int) -> _Mount:
        if number not in self._mounts:
            self._mounts = _read()
        return self._mounts.get(number, _UNKNOWN)


def real_path(path: Path | str, *, strict: bool = False) -> str:
    """Returns the absolute path of `path` without symbolic links, as `os.path.realpath` does, but faster; may block.

    `strict`: whether the path must exist. Raises OSError if `strict` and the path does not exist or cannot be reached.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            return os.readlink(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    except OSError:
        return os.path.realpath(path, strict=strict)


def is_at_or_below(path: str, directory: str) -> bool:
    """Returns whether `path` is `directory`, or lies below it; both are absolute, without symbolic links."""
    return path == directory or path.startswith(directory if directory.endswith("/") else f"{directory}/")


def _opened_at_or_above(real: str) -> int:
    """Returns an O_PATH descriptor, for the caller to close, of a path or the next directory above that can be opened.

    `real` is absolute. Raises OSError if not even the root directory can be opened.
    """
    while True:
        try:
            return os.open(real, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            if real == "/":
                raise
            real = os.path.dirname(real)


def _read() -> dict[int, _Mount]:
    found = {}
    with open(_TABLE, "rb") as lines:
        for line in lines:
            number, _, device, root, point, rest = line.split(b" ", 5)
            kind, *more = rest.partition(b" - ")[2].split(b" ", 2)
            layers = _layers(more[-1]) if kind == b"overlay" else ()
            found[int(number)] = _Mount(device, _path(root), _path(point), layers)
    return found


def _layers(options: bytes) -> tuple[str, ...]:
    listed = ":".join(map(_path, _LAYERS.findall(options.rstrip())))
    return tuple(re.sub(r"\\(.)", r"\1", each) for each in re.split(r"(?<!\\):+", listed))


def _is_asked_elsewhere(path: str) -> bool:
    # A relative path is one from the directory in which the overlayfs was mounted.
    if not path.startswith("/"):
        return False
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_asked_elsewhere(fd)
    finally:
        os.close(fd)


def _path(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda escape: bytes((int(escape[1], 8),)), field))
