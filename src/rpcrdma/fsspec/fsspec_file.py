"""The interface between open files and their file system, and the attributes that files of fsspec have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rpcrdma.fsspec.waiting import OwnLoop
from rpcrdma.nfs.client import NfsFile
from rpcrdma.sync.file_object import Writers

__all__ = ["FsspecFile", "OpeningFileSystem"]


class OpeningFileSystem(OwnLoop, Protocol):
    """The interface of a file system that its open files use; `RdmaFileSystem` implements it."""

    async def open_async(self, path: str, mode: str = "rb") -> NfsFile:
        """Opens and returns the file `path`, a path or URL.

        Args:
            path: the path.
            mode: "rb", "wb", "xb" or "ab", each also with "+".

        Raises:
            OSError: the server refuses, as FileNotFoundError, or the object is no regular file.
            ValueError: the mode is none of these.
            RpcRdmaError: the server cannot be reached, or does not answer.
        """

    def note_writer(self, file: Any) -> Writers:
        """Registers a file open for writing, for the file system's `close` and the end of the process to close.

        Returns the object that closes the file in the background if it is dropped; both wait for that.
        """

    def info(self, path: str, refresh: bool = False) -> dict[str, Any]:
        """Returns fsspec's attributes of the file at `path` by name; with `refresh` from the server, not from a cache.

        Raises:
            OSError: the server refuses.
            RpcRdmaError: the server cannot be reached, or does not answer.
        """


class FsspecFile:
    """A mixin with some attributes of `fsspec.spec.AbstractBufferedFile`, for open files that do not inherit from it.

    A derived class sets `fs` and `path`, and defines `tell`; other attributes, such as `mode` and `size`, are its own.
    """

    fs: OpeningFileSystem
    """The file system that has opened the file."""
    path: str
    """The path of the file in `fs`."""
    if TYPE_CHECKING:

        def tell(self) -> int: ...

    @property
    def full_name(self) -> str:
        """The URL of the file, with its server and ports."""
        return self.fs.unstrip_protocol(self.path)

    @property
    def details(self) -> dict[str, Any]:
        """The attributes of the file by name, the result of `info`; raises OSError or RpcRdmaError as `info` does."""
        return self.info()

    @property
    def loc(self) -> int:
        """The position in the file, in octets."""
        return self.tell()

    def info(self) -> dict[str, Any]:
        """Returns fsspec's attributes of the file by name ("name", "size", "type" and more), perhaps from the cache.

        Raises OSError if the server refuses, RpcRdmaError if it cannot be reached or does not answer.
        """
        return self.fs.info(self.path)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.full_name}>"
