"""The file systems of fsspec: files and directories of `rpcrdma.nfs.client` under fsspec's names."""

from __future__ import annotations

import asyncio
import errno
import shutil
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fsspec.asyn import _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from rpcrdma.fsspec.buffered_file import BufferedNfsFile
from rpcrdma.fsspec.held_file import HeldFile, first_read, within
from rpcrdma.fsspec.server_filesystem import ServerFileSystem, names_below
from rpcrdma.fsspec.servers import ServerPath
from rpcrdma.fsspec.updated_file import UpdatedFile
from rpcrdma.fsspec.waiting import sync, waits_by_sync
from rpcrdma.nfs.client import DirEntry, MountedFilesystem, NfsFile
from rpcrdma.nfs.client.mount_client import NoSuchExport
from rpcrdma.sync.file_object import Writers
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = ["RdmaFileSystem", "TcpFileSystem"]

T = TypeVar("T")


@waits_by_sync
class RdmaFileSystem(ServerFileSystem):
    """The files of NFSv3 servers over RDMA for fsspec: `fsspec.filesystem("rdma")`, or by URL.

    Paths begin with the server, then name the export: "server:20049/data/x.csv" for `rdma://server:20049/data/x.csv`.
    One object reaches any number of servers. Errors are those of `os` and `open`; a server that is out of reach, or
    does not answer, leads to `ConnectFailed` or another RpcRdmaError, which are no OSErrors.

    `info`, `exists`, `isfile` and `isdir` use cached attributes, the first two not with `refresh=True`. Changes through
    this object invalidate them, as `invalidate_cache` does; `open` asks the server (close-to-open consistency).

    Objects with the same options share the connections of their event loop; `close`, or the end of the process, ends
    them. After a fork an object connects anew in the child; open files are the parent's, and raise an error.

    Args:
        host: the server of paths that begin with a slash.
        port: the port of `host`, or without it of all servers whose paths name none.
        mountport: the TCP port of MOUNT at `host`, or without it at all servers; or a mapping of HOST[:PORT] to ports.
        options: the `options` of `rpcrdma.nfs_open`, or a dictionary of fields.
        files: the `files` of `rpcrdma.nfs_open`, or a dictionary of fields.
        auto_mkdir: whether missing directories above a written file are made, as tools for object stores expect.
        attributes_valid_s: seconds for which cached attributes are used; 0: never.
        close_to_open: False for files that do not change meanwhile: `open` then uses cached attributes as well, and the
            cached data of files of up to 1 MiB.
        kwargs: options of `fsspec.AbstractFileSystem`.

    Raises:
        TypeError: an option is unknown.
        ValueError, LocalProtocolError: `host`, or a server of `mountport`, is not valid.

    Shared by the methods:
        path: a path or URL.
        refresh: whether to ask the server instead of the cache.
        _kwargs: options that fsspec and its users pass; ignored.
    """

    protocol = "rdma"

    # Reading

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_kwargs: Any) -> bytes:
        if (start or 0) < 0 or (end is not None and end < 0):
            size = (await self._info(path, refresh=True))["size"]
            start, end = within(size, start, end)
        first = start or 0
        count = -1 if end is None else max(0, end - first)
        place = self.place(path)
        known = await self._found(place)
        entry = None if known is None else known.entry
        async with self._at(place) as (fs, at):
            return await fs.read_bytes(entry or at, offset=first, size=count)

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,  # noqa: ARG002 - one READ for two ranges is no better than two at a time
        batch_size: int | None = None,
        on_error: str = "return",
        **_kwargs: Any,
    ) -> list[Any]:
        if not isinstance(paths, list):
            raise TypeError("cat_ranges takes a list of paths")
        firsts, lasts = _one_each(starts, len(paths)), _one_each(ends, len(paths))
        opened = {path: asyncio.ensure_future(self.open_async(path)) for path in dict.fromkeys(paths)}

        async def read(path: str, start: int | None, end: int | None) -> bytes:
            file = await opened[path]
            first, last = within(file.size, start, end)
            return await file.pread(last - first, first)

        try:
            found: list[Any] = await _run_coros_in_chunks(
                [read(*each) for each in zip(paths, firsts, lasts, strict=True)],
                batch_size=batch_size or self.batch_size,
                nofiles=True,
                return_exceptions=True,
            )
        finally:
            await asyncio.gather(*opened.values(), return_exceptions=True)
        if on_error != "return":
            for result in found:
                if isinstance(result, BaseException):
                    raise result
        return found

    async def _get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **_kwargs: Any) -> None:
        if hasattr(lpath, "write"):
            await self._get_into(rpath, lpath, callback)
            return
        if callback is not DEFAULT_CALLBACK:
            info = await self._info(rpath)
            # A directory is made, and no octets of it are copied.
            callback.set_size(info["size"] if info["type"] == "file" else 0)
        if await asyncio.to_thread(Path(lpath).is_dir) and await self._isfile(rpath):
            raise IsADirectoryError(errno.EISDIR, "a directory, which no file replaces", str(lpath))
        try:
            async with self._at(rpath) as (fs, at):
                await fs.download(at, lpath, progress=lambda _files, octets: callback.absolute_update(octets))
        except IsADirectoryError:
            await asyncio.to_thread(Path(lpath).mkdir, parents=True, exist_ok=True)

    async def _get_into(self, rpath: str, target: Any, callback: Callback) -> None:
        file = await self.open_async(rpath)
        callback.set_size(file.size)
        async for block in file.views():
            await asyncio.to_thread(target.write, block)
            callback.relative_update(len(block))

    # Writing

    async def _making_directories(self, path: str, call: Callable[[MountedFilesystem, str], Awaitable[T]]) -> T:
        """Calls `call(fs, at)`, which is to create `path`, and returns the result.

        `fs` is the mounted export that `path` is in, `at` the path within that. If `call` raises FileNotFoundError and
        `auto_mkdir` is set, makes the missing directories above `path`, and calls once more. Raises the errors of
        `call`, of mounting the export and of making directories.
        """
        try:
            async with self._at(path) as (fs, at):
                return await call(fs, at)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
        await self._make_directories(self._parent(path))
        async with self._at(path) as (fs, at):
            return await call(fs, at)

    async def _create(self, path: str, mode: str) -> NfsFile:
        return await self._making_directories(path, lambda fs, at: fs.open(at, mode))

    async def _pipe_file(self, path: str, value: Buffer, mode: str = "overwrite", **_kwargs: Any) -> None:
        view = as_view(value, "value")

        async def write(fs: MountedFilesystem, at: str) -> None:
            async with await fs.open(at, "xb" if mode == "create" else "wb") as file:
                await file.write(view)

        with self._changing(path):
            await self._making_directories(path, write)

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Callback = DEFAULT_CALLBACK, **_kwargs: Any
    ) -> None:
        # Before anything is made at the server: the local path may be wrong.
        found = await asyncio.to_thread(Path(lpath).stat)
        if stat.S_ISDIR(found.st_mode):
            await self._makedirs(rpath, exist_ok=True)
            return
        callback.set_size(found.st_size)

        def progress(_files: int, octets: int) -> None:
            callback.absolute_update(octets)

        async def upload(fs: MountedFilesystem, at: str) -> None:
            if mode == "create":
                # The name is taken first: the copy replaces a file of that name.
                await (await fs.open(at, "xb")).close()
            elif await fs.is_dir(at):
                url = self.unstrip_protocol(rpath)
                raise IsADirectoryError(errno.EISDIR, "a directory, which no file replaces", url)
            try:
                await fs.upload(lpath, at, progress=progress)
            except BaseException:
                if mode == "create":
                    await fs.unlink(at)
                raise

        with self._changing(rpath):
            await self._making_directories(rpath, upload)

    async def _cp_file(self, path1: str, path2: str, **_kwargs: Any) -> None:
        try:
            source = await self.open_async(path1)
        except (IsADirectoryError, NoSuchExport) as error:
            if isinstance(error, NoSuchExport) and not names_below(self.place(path1).path, error.exports):
                raise
            await self._makedirs(path2, exist_ok=True)
            return
        if await self._leads_to(path2, path1, source):
            raise shutil.SameFileError(
                f"{self.unstrip_protocol(path1)!r} and {self.unstrip_protocol(path2)!r} are the same file"
            )
        with self._changing(path2):
            async with await self._create(path2, "wb") as target:
                async for block in source.views():
                    await target.write(block)

    async def _leads_to(self, path: str, source: str, file: NfsFile) -> bool:
        """Returns whether `path` leads to `file`, which was opened at `source`; False if nothing exists at `path`."""
        try:
            async with self._at(path) as (fs, at):
                there = await fs.stat(at)
        except FileNotFoundError:
            return False
        here = await file.stat()
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            return False
        # Two servers may number their files alike, or export the same files.
        one_server = self.place(path).server.url == self.place(source).server.url
        return one_server or there.st_ctime_ns == here.st_ctime_ns

    def touch(self, path: str, truncate: bool = True, **_kwargs: Any) -> None:
        """Makes an empty file, or empties or touches a file that exists; raises OSError if the server refuses.

        `truncate`: whether an existing file is emptied; otherwise its times are set to now.
        """
        sync(self.loop, self._touch, path, truncate)

    async def _touch(self, path: str, truncate: bool = True) -> None:
        async def touch(fs: MountedFilesystem, at: str) -> None:
            await (await fs.open(at, "wb" if truncate else "ab")).close()
            if not truncate:
                await fs.utime(at)

        with self._changing(path):
            await self._making_directories(path, touch)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BufferedNfsFile | HeldFile | UpdatedFile:
        if "+" in mode:
            updated = UpdatedFile(self, path, mode, self._mounts_here(path).updated, autocommit=autocommit)
            self.note_writer(updated)
            return updated
        mode = "".join(sorted(mode, key="rwxab".find))  # fsspec's file knows one order of the letters
        if mode == "rb" and block_size is None and not cache_options and not kwargs:
            opened, data = self._believed_data(path) or sync(self.loop, self._open_reading, path)
            if opened is None:
                return HeldFile(self, path, data)
            return BufferedNfsFile(self, path, mode, opened=opened, tail=data)
        return BufferedNfsFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)

    async def open_async(self, path: str, mode: str = "rb", **_kwargs: Any) -> NfsFile:
        """Opens a file for coroutines; returns the file, whose methods are coroutines.

        Args:
            path: a path or URL.
            mode: a mode of `rpcrdma.NfsFilesystem.open`, such as "rb" or "r+b".

        Raises the errors of `rpcrdma.NfsFilesystem.open`; OSError or RpcRdmaError if the export cannot be mounted.
        """
        place = self.place(path)
        if mode == "rb":
            known = place.known.find(place.key, self._valid_s)
            if known is not None and known.entry.is_file():
                return await self._open_known(place, known.entry, ask=self._close_to_open)
            async with self._at(place) as (fs, at):
                return await fs.open(at)
        if "r" in mode:
            async with self._at(place) as (fs, at):
                file = await fs.open(at, mode)
        else:
            file = await self._create(path, mode)
        place.known.note_writer(place.key, file)
        return file

    def _believed_data(self, path: str) -> tuple[None, bytes] | None:
        """Returns (None, the whole data) of a small file from the cache, without a call to the server.

        Returns None if the whole data of the file is not cached, or if `close_to_open` is set.
        """
        known = None if self._close_to_open else self._believed(path)
        return (None, known.data) if known is not None and known.data and not first_read(path, known.entry) else None

    async def _open_reading(self, path: str) -> tuple[NfsFile | None, bytes]:
        """Opens a file for reading; returns (None, its data) for a regular file of up to 1 MiB, else (file, tail).

        The tail is the last 64 KiB of a file whose name is that of a format with an index at the end, such as .parquet,
        since readers read it first; it is empty for other files. A file that changes meanwhile is returned as (file,
        b""). Raises OSError if the server refuses, and RpcRdmaError.
        """
        place = self.place(path)
        known = await self._found(place)
        entry = (await self._look(place))[1] if known is None else known.entry
        if entry is None or not entry.is_file():
            return await self.open_async(path), b""
        start = first_read(path, entry)
        if start is None:
            return await self._open_known(place, entry, ask=self._close_to_open), b""
        data = await self._unchanged_data(place, entry, start, b"" if known is None else known.data)
        if data is None:
            place.known.forget(place.key)
            return await self.open_async(path), b""
        place.known.hold(place.key, entry, data, self._valid_s)
        return (await self._open_known(place, entry, ask=False) if start else None), data

    async def _unchanged_data(self, place: ServerPath, entry: DirEntry, start: int, held: bytes) -> bytes | None:
        """Returns the octets of the file at `place` from offset `start` on; None if it may have changed since `entry`.

        `held` has these octets if they are cached; if it is empty, they are read. Cached octets are returned without a
        call to the server, unless `close_to_open` is set: the server is then asked whether the file has changed.
        """
        if not held and entry.attributes.size:
            async with self._at(place) as (fs, _):
                return await fs.read_unchanged(entry, offset=start)
        if self._close_to_open:
            async with self._at(place) as (fs, _):
                return held if await fs.is_unchanged(entry) else None
        return held

    async def _open_known(self, place: ServerPath, entry: DirEntry, *, ask: bool) -> NfsFile:
        async with self._at(place) as (fs, _):
            return await fs.open(entry, ask=ask)

    def note_writer(self, file: BufferedNfsFile | UpdatedFile) -> Writers:
        """Registers a file, which `close` or the end of the process closes if it still exists then.

        Returns the object that closes the file in the background if it is dropped; both wait for that.

        Args:
            file: a file open for writing.
        """
        mounts = self._mounts_here(file.path)
        mounts.note_writer(file)
        return mounts.updated

    # Directories and names

    async def _mkdir(self, path: str, create_parents: bool = True, **_kwargs: Any) -> None:
        with self._changing(path, above=True):
            async with self._at(path) as (fs, at):
                await fs.mkdir(at, parents=create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await (self._make_directories(path) if exist_ok else self._mkdir(path))

    async def _make_directories(self, path: str) -> None:
        server, prefix, at, _ = self.place(path)
        with self._changing(path, above=True):
            await self._mounts(server).make_directories(at, prefix=prefix)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory; raises OSError if it is not empty, or the server refuses for another reason."""
        sync(self.loop, self._rmdir, path)

    async def _rmdir(self, path: str) -> None:
        with self._changing(path):
            async with self._at(path) as (fs, at):
                await fs.rmdir(at)

    async def _rm_file(self, path: str, **_kwargs: Any) -> None:
        with self._changing(path):
            await self._unlink(path)

    async def _rm(
        self,
        path: str | list[str],
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **_kwargs: Any,
    ) -> None:
        whole = recursive and maxdepth is None
        paths = await self._expand_path(path, recursive=recursive and not whole, maxdepth=maxdepth)
        with self._changing(*paths, trees=whole):
            if maxdepth is not None:
                # Deepest first, one after the other: a directory has to be empty.
                for each in reversed(paths):
                    await self._remove_name(each)
                return
            await _run_coros_in_chunks(
                [self._remove(each) if recursive else self._unlink(each) for each in paths],
                batch_size=batch_size or self.batch_size,
                nofiles=True,
            )

    async def _unlink(self, path: str) -> None:
        async with self._at(path) as (fs, at):
            await fs.unlink(at)

    async def _remove(self, path: str) -> None:
        """Removes a file, or a directory with its contents; raises OSError if nothing is there or the server refuses.

        If entries of the tree cannot be removed, raises an ExceptionGroup after the others were removed. It has at most
        1,000 errors, each an OSError, RpcError or RemoteProtocolError.
        """
        async with self._at(path) as (fs, at):
            if (await fs.lstat(at)).is_dir():
                (await fs.rmtree(at)).check()
            else:
                await fs.unlink(at)

    async def _remove_name(self, path: str) -> None:
        """Removes a file, or an empty directory; raises OSError if a directory is not empty, or the server refuses."""
        async with self._at(path) as (fs, at):
            await (fs.rmdir(at) if (await fs.lstat(at)).is_dir() else fs.unlink(at))

    def mv(self, path1: str, path2: str, recursive: bool = False, **_kwargs: Any) -> None:
        """Renames an object; between exports, or for a pattern, copies its data alone and removes it.

        Raises OSError if the server refuses, or contents of a directory were not copied: that directory stays. A copy
        that would include a symbolic link to a directory raises IsADirectoryError, and nothing is copied or removed.

        Args:
            path1: the present path, or a pattern.
            path2: the new path; an existing directory, or a path that ends with a slash, takes the object by its name.
                A file replaces an existing file at the new path.
            recursive: whether a copy includes the contents of directories.
            _kwargs: ignored, `maxdepth` as by fsspec's local files: a directory is moved whole.
        """
        sync(self.loop, self._mv, path1, path2, recursive)

    async def _mv(self, path1: str, path2: str, recursive: bool = False) -> None:
        if isinstance(path1, str) and isinstance(path2, str) and await self._is_name(path1):
            target = self._strip_protocol(path2)
            if path2.endswith("/") or await self._isdir(path2):
                target = f"{target.rstrip('/')}/{self._strip_protocol(path1).rpartition('/')[2]}"
            try:
                await self._mv_file(path1, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return
        for each in await self._expand_path(path1, recursive=recursive):
            if (await self._info(each))["islink"] and await self._isdir(each):
                # The copy leaves it out, or has an empty directory in place of it.
                url = self.unstrip_protocol(each)
                raise IsADirectoryError(errno.EISDIR, "a symbolic link to a directory is moved by renaming only", url)
        await self._copy(path1, path2, recursive=recursive, on_error="raise")
        await self._rm(path1, recursive=recursive)

    async def _mv_file(self, path1: str, path2: str) -> None:
        async with self._at(path1) as (source, below):
            pass

        async def rename(fs: MountedFilesystem, at: str) -> None:
            if fs is not source:
                urls = self.unstrip_protocol(path1), self.unstrip_protocol(path2)
                raise OSError(errno.EXDEV, "these are different exports", urls[0], None, urls[1])
            try:
                await fs.rename(below, at)
            except FileNotFoundError:
                await fs.lstat(below)  # raises if the source is missing
                raise

        with self._changing(path1, path2, trees=True):
            await self._making_directories(path2, rename)


class TcpFileSystem(RdmaFileSystem):
    """`RdmaFileSystem` over TCP: `nfstcp://HOST[:PORT]/PATH`."""

    protocol = "nfstcp"


def _one_each(values: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    """Returns the starts, or the ends, of `count` ranges: the sequence `values`, or one number or None `count` times.

    Raises:
        ValueError: `values` is a sequence of another length than `count`.
    """
    if values is None or isinstance(values, int):
        return [values] * count
    if len(values) != count:
        raise ValueError(f"{len(values)} limits of ranges for {count} paths")
    return values
