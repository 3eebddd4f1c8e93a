"""Files that are read and written in place, as h5py and databases do: "r+b", "w+b", "a+b" and "x+b"."""

from __future__ import annotations

from typing import Any

from rpcrdma.fsspec.buffered_file import OpeningFileSystem, check_transaction
from rpcrdma.fsspec.waiting import FilesLoop
from rpcrdma.sync.file_object import NfsFile, Writers

__all__ = ["UpdatedFile"]


class UpdatedFile(NfsFile):
    """A raw binary file with the attributes of fsspec's files: `fs`, `path`, `full_name`, `info`.

    Its octets are read and written at any position, and written ones are gathered in blocks as in `rpcrdma.sync`.
    """

    def __init__(
        self, fs: OpeningFileSystem, path: str, mode: str, writers: Writers, *, autocommit: bool = True, **_kwargs: Any
    ) -> None:
        """Opens the file; `writers` closes it at the end of the process, if nothing else does.

        Raises:
            io.UnsupportedOperation: it is opened in a transaction (`autocommit=False`).
            ValueError: there is no such mode.
            OSError: as `open`.
        """
        if not autocommit:
            check_transaction(fs.unstrip_protocol(path), mode)
        loop = FilesLoop(fs, path)
        super().__init__(loop.run(lambda: fs.open_async(path, mode)), loop, mode, writers)
        self.fs = fs
        self.path = path

    @property
    def full_name(self) -> str:
        """The URL."""
        return self.fs.unstrip_protocol(self.path)

    def info(self) -> dict[str, Any]:
        """The attributes of the file, as `fs.info` tells them, with all data written before."""
        self.flush()
        return self.fs.info(self.path, refresh=True)

    def close(self) -> None:
        """Sends the rest, and ends the use of the file."""
        if not self.closed:
            try:
                super().close()
            finally:
                self.fs.note_written(self.path)
