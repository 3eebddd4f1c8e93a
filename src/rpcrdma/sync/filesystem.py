"""Mounted file systems whose calls wait for their results."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, overload

from rpcrdma.aio.awaited_call import without_frames
from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.nfs import client as asynchronous
from rpcrdma.nfs.client import DirEntry, FileOptions
from rpcrdma.nfs.client.paths import Path
from rpcrdma.sync.background_loop import BackgroundLoop, Waits, claimed_loop, iterate, waiting
from rpcrdma.sync.connection import Connection
from rpcrdma.sync.file_object import NfsFile, TextFile, Writers, binary_mode

if TYPE_CHECKING:
    from _typeshed import OpenBinaryMode, OpenTextMode

__all__ = ["MountedFilesystem", "NfsFilesystem", "nfs_open"]

_ENTRIES_AT_ONCE = 1000
"""Entries for which a thread waits at a time: a wait takes as long as decoding some ten entries."""


class NfsFilesystem(Waits[asynchronous.NfsFilesystem]):
    """A file system with calls that block, which threads may share; for its methods see `rpcrdma.NfsFilesystem`.

    The background thread calls the functions `progress` and `onerror`.

    Args:
        filesystem: the asynchronous file system.
        loop: the background thread's loop.
    """

    def __init__(self, filesystem: asynchronous.NfsFilesystem, loop: BackgroundLoop) -> None:
        self._asynchronous = filesystem
        self._loop = loop
        self._writers = Writers()

    def __repr__(self) -> str:
        return f"<rpcrdma.sync.{type(self).__name__} of {self._asynchronous!r}>"

    @property
    def directory(self) -> str:
        """The directory at which relative paths start, as an absolute path from the root of the mount."""
        return self._asynchronous.directory

    handle_of = waiting(asynchronous.NfsFilesystem.handle_of)

    stat = waiting(asynchronous.NfsFilesystem.stat)
    lstat = waiting(asynchronous.NfsFilesystem.lstat)
    exists = waiting(asynchronous.NfsFilesystem.exists)
    is_dir = waiting(asynchronous.NfsFilesystem.is_dir)
    is_file = waiting(asynchronous.NfsFilesystem.is_file)
    access = waiting(asynchronous.NfsFilesystem.access)
    chmod = waiting(asynchronous.NfsFilesystem.chmod)
    chown = waiting(asynchronous.NfsFilesystem.chown)
    utime = waiting(asynchronous.NfsFilesystem.utime)
    truncate = waiting(asynchronous.NfsFilesystem.truncate)
    statvfs = waiting(asynchronous.NfsFilesystem.statvfs)

    entry = waiting(asynchronous.NfsFilesystem.entry)
    is_unchanged = waiting(asynchronous.NfsFilesystem.is_unchanged)
    listdir = waiting(asynchronous.NfsFilesystem.listdir)
    first_entries = waiting(asynchronous.NfsFilesystem.first_entries)
    mkdir = waiting(asynchronous.NfsFilesystem.mkdir)
    rmdir = waiting(asynchronous.NfsFilesystem.rmdir)
    rmtree = waiting(asynchronous.NfsFilesystem.rmtree)

    unlink = waiting(asynchronous.NfsFilesystem.unlink)
    rename = waiting(asynchronous.NfsFilesystem.rename)
    link = waiting(asynchronous.NfsFilesystem.link)
    symlink = waiting(asynchronous.NfsFilesystem.symlink)
    readlink = waiting(asynchronous.NfsFilesystem.readlink)

    read_into = waiting(asynchronous.NfsFilesystem.read_into)
    read_bytes = waiting(asynchronous.NfsFilesystem.read_bytes)
    read_unchanged = waiting(asynchronous.NfsFilesystem.read_unchanged)
    write_bytes = waiting(asynchronous.NfsFilesystem.write_bytes)
    read_text = waiting(asynchronous.NfsFilesystem.read_text)
    write_text = waiting(asynchronous.NfsFilesystem.write_text)

    download = waiting(asynchronous.NfsFilesystem.download)
    upload = waiting(asynchronous.NfsFilesystem.upload)
    download_tree = waiting(asynchronous.NfsFilesystem.download_tree)
    upload_tree = waiting(asynchronous.NfsFilesystem.upload_tree)

    def scan_names(self, path: Path = ".", *, onerror: Callable[[OSError], None] | None = None) -> Iterator[str]:
        """Yields the names in a directory as the server lists them, without "." and "..".

        `onerror` gets the OSError for each invalid name, which is left out; None raises RemoteProtocolError. Other
        errors, such as OSError if the server refuses: see `rpcrdma.NfsFilesystem.scan_names`. The iteration raises all
        of them.
        """
        scan_names = functools.partial(self._asynchronous.scan_names, path, onerror=onerror)
        return iterate(self._loop, scan_names, at_once=_ENTRIES_AT_ONCE)

    def scandir(
        self, path: Path | DirEntry = ".", *, onerror: Callable[[OSError], None] | None = None
    ) -> Iterator[DirEntry]:
        """Yields the entries of a directory, given by path or `DirEntry`, with attributes, as the server lists them.

        `onerror` gets the OSError for each invalid name, which is left out; None raises RemoteProtocolError. Other
        errors, such as OSError if the server refuses: see `rpcrdma.NfsFilesystem.scandir`. The iteration raises all of
        them.
        """
        scandir = functools.partial(self._asynchronous.scandir, path, onerror=onerror)
        return iterate(self._loop, scandir, at_once=_ENTRIES_AT_ONCE)

    def walk(
        self, top: Path = ".", *, topdown: bool = True, onerror: Callable[[OSError], None] | None = None
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yields (absolute path, names of subdirectories, other names) for each directory of a tree, like `os.walk`.

        With `topdown` a directory precedes its subdirectories; the caller may remove names from the list of
        subdirectories, which are then not walked. `onerror` gets each OSError, as of a directory that cannot be listed;
        None ignores them. The iteration raises RpcRdmaError if a call fails; see `rpcrdma.NfsFilesystem.walk`.
        """
        walk = functools.partial(self._asynchronous.walk, top, topdown=topdown, onerror=onerror)
        # One at a time: the caller may remove directories from the list before they are entered.
        return iterate(self._loop, walk, at_once=1)

    def glob(
        self, pattern: Path, *, include_hidden: bool = False, onerror: Callable[[OSError], None] | None = None
    ) -> Iterator[str]:
        """Yields the paths that match `pattern`, as `glob.glob` with `recursive=True`; `**` follows no symbolic links.

        The paths are relative if `pattern` is. `include_hidden` lets wildcards match names that begin with a dot.
        `onerror` gets each OSError, as of a directory that cannot be listed; None: the iteration raises it. The
        iteration raises ValueError for an empty pattern. For other errors see `rpcrdma.NfsFilesystem.glob`.
        """
        glob = functools.partial(self._asynchronous.glob, pattern, include_hidden=include_hidden, onerror=onerror)
        # One at a time: the next match may be far away in the tree.
        return iterate(self._loop, glob, at_once=1)

    @overload
    def open(
        self, path: Path | DirEntry, mode: OpenBinaryMode = "rb", *, permissions: int = 0o644, ask: bool = True
    ) -> NfsFile: ...
    @overload
    def open(
        self,
        path: Path | DirEntry,
        mode: OpenTextMode,
        *,
        permissions: int = 0o644,
        ask: bool = True,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextFile: ...
    @overload
    def open(
        self,
        path: Path | DirEntry,
        mode: str,
        *,
        permissions: int = 0o644,
        ask: bool = True,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> NfsFile | TextFile: ...
    @without_frames
    def open(
        self,
        path: Path | DirEntry,
        mode: str = "rb",
        *,
        permissions: int = 0o644,
        ask: bool = True,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> NfsFile | TextFile:
        """Opens a regular file as a binary file (see `rpcrdma.NfsFilesystem.open`) or a text file.

        Args:
            path: the path, or an entry from `scandir` or `entry`.
            mode: with "b" a mode of `rpcrdma.NfsFilesystem.open`; without it "r", "w", "x" or "a", also with "+" or
                "t".
            permissions: the mode of a new file.
            ask: False opens the `DirEntry` of a regular file with "rb" or "r" without asking the server about the file.
            encoding: the encoding of a text file; None: UTF-8 in every locale.
            errors: the treatment of encoding errors in a text file, as for the built-in `open`.
            newline: the treatment of line ends in a text file, as for the built-in `open`.

        Returns:
            An `io.RawIOBase` whose reads are short only at the end of the file, or a text file.

        Raises:
            ValueError: the mode or `newline` is invalid, or a binary mode has an argument for text files.
            LookupError: the encoding is unknown; nothing has been opened.
            OSError, RpcRdmaError: as `rpcrdma.NfsFilesystem.open`.
        """
        binary = binary_mode(mode)
        if binary != mode:
            encoding = "utf-8" if encoding is None else encoding
            io.TextIOWrapper(io.BytesIO(), encoding, errors, newline)
        elif (encoding, errors, newline) != (None, None, None):
            raise ValueError(f"binary mode {mode!r} takes no encoding, errors or newline")

        async def opened() -> NfsFile:
            file = await self._asynchronous.open(path, binary, permissions=permissions, ask=ask)
            return NfsFile(file, self._loop, binary, self._writers)

        file = self._loop.run(opened, undo=NfsFile._abandon)  # noqa: SLF001 - its own package's
        if encoding is None:
            return file
        return TextFile(file, mode, encoding=encoding, errors=errors, newline=newline)

    @without_frames
    def close(self) -> None:
        """Closes the file system's files that are open for writing, and cancels calls of its other files.

        Files of `io`, and others of text or compressed data, around a binary file are closed before it. The log warns
        of a binary file that these have not closed: other objects may hold data for it. The connection stays open, and
        the file system can be used further. No effect in a child process that inherited it by a fork. Raises, after all
        of that, OSError or RpcRdmaError if data cannot be written.
        """
        if not self._loop.forked:
            try:
                self._writers.close_around()
            finally:
                self._loop.run(self._finish)

    async def _finish(self) -> None:
        try:
            await self._writers.close()
        finally:
            await self._asynchronous.close()


class MountedFilesystem(NfsFilesystem):
    """The file system of one export, made by `nfs_open`: `rpcrdma.nfs.MountedFilesystem` with calls that block.

    `connection` is its connection, `url` the URL that was opened, `export` the name of the export, and `listed_exports`
    are the names of all exports that the server lists.

    Args:
        filesystem: the asynchronous file system.
        loop: the background thread's loop.
    """

    _asynchronous: asynchronous.MountedFilesystem

    def __init__(self, filesystem: asynchronous.MountedFilesystem, loop: BackgroundLoop) -> None:
        super().__init__(filesystem, loop)
        self.connection = Connection(filesystem.connection, loop)
        self.url = filesystem.url
        self.export = filesystem.export
        self.listed_exports = filesystem.listed_exports
        self._closed = False

    def __repr__(self) -> str:
        return f"<rpcrdma.sync.MountedFilesystem {self.url}>"

    @without_frames
    def close(self) -> None:
        """Closes the files open for writing, unmounts and closes the connection.

        No effect if closed already, or in a child process that inherited the file system. Raises, after all of that,
        OSError or RpcRdmaError if data cannot be written.
        """
        if not self._closed:
            super().close()

    async def _finish(self) -> None:
        self._closed = True
        try:
            await super()._finish()
        finally:
            self._loop.release(self._asynchronous)


@without_frames
def nfs_open(
    url: str, *, mount_port: int | None = None, options: ConnectOptions | None = None, files: FileOptions | None = None
) -> MountedFilesystem:
    """Mounts a directory or file of an NFS server over a new connection; blocks until that is done.

    `url` is `rdma://HOST[:PORT]/EXPORT[/PATH]` or `tcp://`. `mount_port` is the TCP port of MOUNT (None: several are
    tried), `options` are settings of the connection, and `files` bounds of calls and listings (None: the defaults).
    Raises ConnectFailed, RpcRdmaError, NfsError: see `rpcrdma.nfs_open`.

    Returns:
        The file system, whose calls block; as a context manager it closes itself, see `MountedFilesystem.close`.
    """
    with claimed_loop() as loop:

        async def opened() -> MountedFilesystem:
            filesystem = await asynchronous.nfs_open(url, mount_port=mount_port, options=options, files=files)
            mounted = MountedFilesystem(filesystem, loop)
            loop.keep(filesystem, filesystem.close, finish=functools.partial(mounted._writers.end, loop))  # noqa: SLF001 - its own module's
            return mounted

        return loop.run(opened, undo=MountedFilesystem._finish)  # noqa: SLF001 - its own module's
