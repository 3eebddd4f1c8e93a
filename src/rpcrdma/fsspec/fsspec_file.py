"""The interface between open files and their file system, and the attributes that files of fsspec have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rpcrdma.fsspec.waiting import OwnLoop
from rpcrdma.nfs.client import NfsFile

__all__ = ["FsspecFile", "OpeningFileSystem"]


class OpeningFileSystem(OwnLoop, Protocol):
    """The file system of an open file, as the file uses it."""

    async def open_async(self, path: str, mode: str = "rb") -> NfsFile:
        """Opens a file for coroutines."""

    def note_writer(self, file: Any) -> None:
        """Registers a file for closing at the end of the process."""

    def note_written(self, path: str) -> None:
        """Invalidates the cached attributes of a file that has been written."""

    def info(self, path: str, refresh: bool = False) -> dict[str, Any]:
        """Returns the attributes of a file; with `refresh` those at the server now."""


class FsspecFile:
    """The attributes of `fsspec.spec.AbstractBufferedFile`, for open files with another base class."""

    fs: OpeningFileSystem
    path: str
    if TYPE_CHECKING:

        def tell(self) -> int: ...

    @property
    def full_name(self) -> str:
        """The URL of the file."""
        return self.fs.unstrip_protocol(self.path)

    @property
    def details(self) -> dict[str, Any]:
        """The attributes of the file."""
        return self.info()

    @property
    def loc(self) -> int:
        """The position."""
        return self.tell()

    def info(self) -> dict[str, Any]:
        """Returns the attributes of the file, as `fs.info` does."""
        return self.fs.info(self.path)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.full_name}>"
