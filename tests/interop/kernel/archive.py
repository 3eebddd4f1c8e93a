"""The archive that the kernel unpacks as its first file system: cpio, format "newc"."""

from __future__ import annotations

import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

__all__ = ["Archive"]


class Archive:
    """Writes files, links and the directories above them; the kernel takes several archives one after another."""

    def __init__(self, path: Path, *, over: Archive | None = None) -> None:
        """Begins an archive; the guest unpacks `over` before it, so the files in `over` exist already."""
        self._partial = path.with_name(path.name + ".partial")
        self._path = path
        self._file: BinaryIO = self._partial.open("wb")
        self._names: set[str] = set(over._names) if over else set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._entry("TRAILER!!!", 0, b"")
        self._file.close()
        if kind is None:
            # Only a whole archive gets its final name.
            self._partial.replace(self._path)
        else:
            self._partial.unlink()

    def __contains__(self, name: str) -> bool:
        return name.strip("/") in self._names

    def directory(self, name: str) -> None:
        """A directory and all above it."""
        name = name.strip("/")
        if name and name not in self._names:
            self.directory(name.rpartition("/")[0])
            self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes | Path, *, executable: bool = False) -> None:
        """A regular file; a second one of the same name is left out."""
        data = content.read_bytes() if isinstance(content, Path) else content
        self._placed(name, stat.S_IFREG | (0o755 if executable else 0o644), data)

    def link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._placed(name, stat.S_IFLNK | 0o777, target.encode())

    def _placed(self, name: str, mode: int, data: bytes) -> None:
        name = name.strip("/")
        if name not in self._names:
            self.directory(name.rpartition("/")[0])
            self._add(name, mode, data)

    def _add(self, name: str, mode: int, data: bytes) -> None:
        self._names.add(name)
        self._entry(name, mode, data)

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        path = name.encode() + b"\0"
        number, owner, group, links, time = len(self._names), 0, 0, 1, 0
        fields = (number, mode, owner, group, links, time, len(data), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + path
        self._file.write(head + bytes(-len(head) % 4))
        self._file.write(data)
        self._file.write(bytes(-len(data) % 4))
