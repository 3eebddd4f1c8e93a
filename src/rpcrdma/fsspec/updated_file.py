"""Files that are read and written in place, as h5py and databases do: "r+b", "w+b", "a+b" and "x+b"."""

from __future__ import annotations

from typing import Any

from rpcrdma.fsspec.buffered_file import check_transaction
from rpcrdma.fsspec.fsspec_file import FsspecFile, OpeningFileSystem
from rpcrdma.fsspec.waiting import FilesLoop
from rpcrdma.sync.file_object import NfsFile, Writers

__all__ = ["UpdatedFile"]


class UpdatedFile(FsspecFile, NfsFile):
    """An open file in mode "r+b", "w+b", "a+b" or "x+b", read and written at any position: an `rpcrdma.sync.NfsFile`.

    Args:
        fs: the file system.
        path: the path of the file.
        mode: the mode.
        writers: closes the file when the file system is closed or the process ends, if nothing else does.
        autocommit: False, as in a transaction, is refused.
        _kwargs: ignored.

    Raises:
        io.UnsupportedOperation: the file is opened in a transaction.
        OSError: the server refuses.
        ValueError: the mode is unknown.
        RpcRdmaError: the server cannot be reached, or does not answer; also raised by the methods.
    """

    def __init__(
        self, fs: OpeningFileSystem, path: str, mode: str, writers: Writers, *, autocommit: bool = True, **_kwargs: Any
    ) -> None:
        if not autocommit:
            check_transaction(fs.unstrip_protocol(path), mode)
        loop = FilesLoop(fs, path)
        super().__init__(loop.run(lambda: fs.open_async(path, mode)), loop, mode, writers)
        self.fs = fs
        self.path = path

    @property
    def name(self) -> str:
        """The path of the file, as it was given to the constructor."""
        return self.path

    def info(self) -> dict[str, Any]:
        """Flushes the file, and returns its attributes by name ("name", "size", "type" and more) from the server.

        Raises OSError if a write has failed or the server refuses, ValueError if the file is closed.
        """
        self.flush()
        return self.fs.info(self.path, refresh=True)
