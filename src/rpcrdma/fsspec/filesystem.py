"""The file systems of fsspec: its names for what `rpcrdma.nfs.client` does."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import io
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import stringify_path, tokenize

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import DEFAULT_PORTS, Scheme, Url
from rpcrdma.fsspec.addresses import PROTOCOLS, split_url, url_options
from rpcrdma.fsspec.buffered_file import FILE_MODES, BufferedNfsFile
from rpcrdma.fsspec.entry_info import Info, info_above, info_at, listed_infos
from rpcrdma.fsspec.held_file import HELD_OCTETS, HeldFile
from rpcrdma.fsspec.known_files import Known, known_files
from rpcrdma.fsspec.mounts import Mounts, Server, close_mounts, mounts_of
from rpcrdma.fsspec.waiting import sync
from rpcrdma.nfs.client import DirEntry, FileOptions, MountedFilesystem, NfsFile
from rpcrdma.nfs.client.mount_client import NoSuchExport
from rpcrdma.wire.buffers import Buffer

__all__ = ["RdmaFileSystem", "TcpFileSystem"]

T = TypeVar("T")


class _StripProtocol:
    """The path of a URL: fsspec asks the class where it has no file system, which knows what server it is of."""

    def __get__(self, filesystem: RdmaFileSystem | None, owner: type) -> Callable[[Any], Any]:
        return _path if filesystem is None else filesystem.path_of


def _path(path: Any) -> Any:
    if isinstance(path, list):
        return [_path(each) for each in path]
    return split_url(stringify_path(path))[1]


class RdmaFileSystem(AsyncFileSystem):
    """The files of an NFSv3 server over RDMA: `fsspec.filesystem("rdma", host="server")`, or by URL.

    Paths begin at the server and name the export first: "/data/x.csv" of `rdma://server/data/x.csv`. `options` and
    `files` are those of `rpcrdma.nfs_open`, or dictionaries of their fields; `mountport` is the TCP port of MOUNT.
    With `auto_mkdir`, which is the default, a file that is written gets the directories above it that are missing,
    as tools for object stores expect. Errors are those of `os` and `open`.

    What the server has told of a file is believed for `attributes_valid_s` seconds by `info`, `exists`, `isfile` and
    `isdir`, unless they are given `refresh=True`; what this file system changes is asked for anew, and `open` always
    asks. `invalidate_cache` drops it, and 0 keeps nothing.

    All objects with the same options share the connections of their event loop; `close` ends them, and so does the end
    of the process. An object that was made before a fork cannot be used in the child.
    """

    protocol = "rdma"
    root_marker = "/"

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        mountport: int | None = None,
        *,
        options: ConnectOptions | Mapping[str, Any] | None = None,
        files: FileOptions | Mapping[str, Any] | None = None,
        auto_mkdir: bool = True,
        attributes_valid_s: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not host:
            form = f"{self.protocol}://HOST[:PORT]/PATH"
            raise ValueError(f"which server? write {form}, or give the option host= (storage_options={{'host': ...}})")
        scheme: Scheme = PROTOCOLS[self.protocol]
        self.auto_mkdir = auto_mkdir
        url = Url(scheme=scheme, host=host, port=int(port or DEFAULT_PORTS[scheme]), mount_port=_number(mountport))
        self.server = Server(
            url=url,
            options=options if isinstance(options, ConnectOptions) else ConnectOptions(**(options or {})),
            files=files if isinstance(files, FileOptions) else FileOptions(**(files or {})),
            key=tokenize(str(url), options, files),
        )
        self._known = known_files(self.server.key, float(attributes_valid_s))

    _strip_protocol = _StripProtocol()

    def path_of(self, path: Any) -> Any:
        """The path of a URL, a list of paths for a list; what is no URL is a path already.

        Raises:
            ValueError: the URL names another server.
        """
        if isinstance(path, list):
            return [self.path_of(each) for each in path]
        server, found = split_url(stringify_path(path))
        if server is not None and not self._is_of(server):
            raise ValueError(
                f"{path} is at another server than this file system ({self.fsid}): one list of URLs, or one file "
                "system, is of one server; read each server's files by themselves and join them (dask.dataframe.concat)"
            )
        return found

    def _is_of(self, server: Url) -> bool:
        own = self.server.url
        return server.host == own.host and (not server.port_given or server.port == own.port)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str | int]:
        return url_options(path)

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, which names the server."""
        url = self.server.url
        query = "" if url.mount_port is None else f"?mountport={url.mount_port}"
        return f"{self.protocol}://{url.authority}{self._strip_protocol(name)}{query}"

    @property
    def fsid(self) -> str:
        """The server's address."""
        return f"{self.protocol}://{self.server.url.authority}"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the calls run in."""
        self._require_own_process()
        loop: asyncio.AbstractEventLoop | None = self._loop
        return loop

    def close(self) -> None:
        """Ends the connections that this object and its equals share; a later call makes new ones."""
        sync(self.loop, self._close)

    async def _close(self) -> None:
        await close_mounts(self.server)

    def _require_own_process(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(
                f"this {type(self).__name__} was made before a fork: its connections and their thread are the parent "
                "process's; start processes by 'spawn' or 'forkserver' (multiprocessing.set_start_method), or make a "
                "file system in the child, by fsspec.filesystem or a URL"
            )

    def _mounts(self) -> Mounts:
        self._require_own_process()
        return mounts_of(self.server, asyncio.get_running_loop())

    async def _run(self, path: str, call: Callable[[MountedFilesystem, str], Awaitable[T]]) -> T:
        return await self._mounts().run(self._strip_protocol(path), call)

    async def _making_directories(self, path: str, call: Callable[[MountedFilesystem, str], Awaitable[T]]) -> T:
        """`_run` for what makes the file `path`, once more after the directories above it have been made."""
        try:
            return await self._run(path, call)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
        await self._mounts().make_directories(self._strip_protocol(self._parent(path)))
        return await self._run(path, call)

    # Names and attributes

    def info(self, path: str, refresh: bool = False, **_kwargs: Any) -> Info:
        """The attributes of what `path` leads to."""
        known = None if refresh else self._believed(path)
        if known is not None:
            return dict(known.info)
        info: Info = sync(self.loop, self._info, path, refresh=refresh)
        return info

    async def _info(self, path: str, refresh: bool = False, **_kwargs: Any) -> Info:
        path = self.path_of(path)
        known = None if refresh else self._known.find(path)
        if known is not None:
            return dict(known.info)
        try:
            return dict((await self._look(path))[0])
        except NoSuchExport as error:
            if _names_below(path, error.exports):
                return info_above(path)
            raise

    def _believed(self, path: str) -> Known | None:
        self._require_own_process()
        return self._known.find(self.path_of(path))

    async def _look(self, path: str) -> tuple[Info, DirEntry | None]:
        """What the server tells of `path`, kept for the next one that asks."""
        changes = self._known.changes
        info, entry = await self._run(path, lambda fs, at: info_at(fs, at, path))
        if entry is not None:
            self._known.keep(path, info, entry, changes=changes)
        return info, entry

    def invalidate_cache(self, path: str | None = None) -> None:
        """Drops what is believed of `path` and of all below it, or of everything."""
        if path is None:
            self._known.forget_all()
        else:
            self._known.forget_tree(self.path_of(path))
        super().invalidate_cache(path)

    async def _ls(self, path: str, detail: bool = True, **_kwargs: Any) -> list[Info] | list[str]:
        path = self._strip_protocol(path)
        prefix = path.rstrip("/") + "/"
        try:
            if detail:
                return await self._listed(path, prefix)
            names = await self._run(path, lambda fs, at: fs.listdir(at))
        except NotADirectoryError:
            info = await self._info(path)
            return [info] if detail else [path]
        except NoSuchExport as error:
            names = _names_below(path, error.exports)
            if not names:
                raise
            if detail:
                return [info_above(prefix + name) for name in names]
        return [prefix + name for name in names]

    async def _listed(self, path: str, prefix: str) -> list[Info]:
        changes = self._known.changes

        def keep(info: Info, entry: DirEntry) -> None:
            self._known.keep(info["name"], dict(info), entry, changes=changes)

        return await self._run(path, lambda fs, at: listed_infos(fs, at, prefix, keep))

    def exists(self, path: str, refresh: bool = False, **_kwargs: Any) -> bool:
        """Whether `path` leads to something."""
        believed = not refresh and self._believed(path) is not None
        return believed or bool(sync(self.loop, self._exists, path))

    def isdir(self, path: str) -> bool:
        """Whether `path` leads to a directory."""
        known = self._believed(path)
        return bool(sync(self.loop, self._isdir, path)) if known is None else known.entry.is_dir()

    def isfile(self, path: str) -> bool:
        """Whether `path` leads to a regular file."""
        known = self._believed(path)
        return bool(sync(self.loop, self._isfile, path)) if known is None else known.entry.is_file()

    async def _exists(self, path: str, **_kwargs: Any) -> bool:
        return await self._asked(path, lambda fs, at: fs.exists(at), above=True)

    async def _isdir(self, path: str) -> bool:
        return await self._asked(path, lambda fs, at: fs.is_dir(at), above=True)

    async def _isfile(self, path: str) -> bool:
        return await self._asked(path, lambda fs, at: fs.is_file(at), above=False)

    async def _asked(
        self, path: str, question: Callable[[MountedFilesystem, str], Awaitable[bool]], *, above: bool
    ) -> bool:
        """The answer to `question`; for a path in no export whether it is above one, if that is asked for."""
        try:
            return await self._run(path, question)
        except NoSuchExport as error:
            return above and bool(_names_below(self._strip_protocol(path), error.exports))

    def checksum(self, path: str) -> int:
        """A number that another content of the file has not, by its size and times."""
        info = self.info(path, refresh=True)
        return int(tokenize(self.fsid, *(info.get(name) for name in ("ino", "size", "mtime", "ctime"))), 16)

    def modified(self, path: str) -> dt.datetime:
        """When the file was last modified."""
        return dt.datetime.fromtimestamp(self.info(path, refresh=True)["mtime"], tz=dt.UTC)

    def created(self, path: str) -> dt.datetime:
        """No server can tell.

        Raises:
            io.UnsupportedOperation: always.
        """
        raise io.UnsupportedOperation(f"{path}: NFSv3 has no time of creation; `modified` has that of the last change")

    # Reading

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_kwargs: Any) -> bytes:
        if (start or 0) < 0 or (end is not None and end < 0):
            size = (await self._info(path, refresh=True))["size"]
            start, end = _within(size, start, end)
        first = start or 0
        count = -1 if end is None else max(0, end - first)
        known = self._known.find(self.path_of(path))
        entry = None if known is None else known.entry
        return await self._run(path, lambda fs, at: fs.read_bytes(entry or at, offset=first, size=count))

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
        firsts, lasts = _each(starts, len(paths)), _each(ends, len(paths))
        opened = {path: asyncio.ensure_future(self.open_async(path)) for path in paths}

        async def read(path: str, start: int | None, end: int | None) -> bytes:
            file = await opened[path]
            first, last = _within(file.size, start, end)
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
            callback.set_size((await self._info(rpath))["size"])

        def progress(_files: int, octets: int) -> None:
            callback.absolute_update(octets)

        try:
            await self._run(rpath, lambda fs, at: fs.download(at, lpath, progress=progress))
        except IsADirectoryError:
            await asyncio.to_thread(Path(lpath).mkdir, parents=True, exist_ok=True)

    async def _get_into(self, rpath: str, target: Any, callback: Callback) -> None:
        file = await self.open_async(rpath)
        callback.set_size(file.size)
        async for block in file.views():
            await asyncio.to_thread(target.write, block)
            callback.relative_update(len(block))

    # Writing

    async def _pipe_file(self, path: str, value: Buffer, mode: str = "overwrite", **_kwargs: Any) -> None:
        async def write(fs: MountedFilesystem, at: str) -> None:
            async with await fs.open(at, "xb" if mode == "create" else "wb") as file:
                await file.write(value)

        with self._changing(path):
            await self._making_directories(path, write)

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Callback = DEFAULT_CALLBACK, **_kwargs: Any
    ) -> None:
        if callback is not DEFAULT_CALLBACK:
            callback.set_size((await asyncio.to_thread(Path(lpath).stat)).st_size)

        def progress(_files: int, octets: int) -> None:
            callback.absolute_update(octets)

        async def upload(fs: MountedFilesystem, at: str) -> None:
            if mode != "create":
                await fs.upload(lpath, at, progress=progress)
                return
            # The name is taken first: the copy replaces what has it.
            await (await fs.open(at, "xb")).close()
            try:
                await fs.upload(lpath, at, progress=progress)
            except BaseException:
                await fs.unlink(at)
                raise

        try:
            with self._changing(rpath):
                await self._making_directories(rpath, upload)
        except IsADirectoryError:
            await self._makedirs(rpath, exist_ok=True)

    async def _cp_file(self, path1: str, path2: str, **_kwargs: Any) -> None:
        try:
            source = await self.open_async(path1)
        except (IsADirectoryError, NoSuchExport) as error:
            if isinstance(error, NoSuchExport) and not _names_below(self._strip_protocol(path1), error.exports):
                raise
            await self._makedirs(path2, exist_ok=True)
            return
        if await self._leads_to(path2, source):
            raise shutil.SameFileError(f"{path1!r} and {path2!r} are the same file")
        with self._changing(path2):
            async with await self._making_directories(path2, lambda fs, at: fs.open(at, "wb")) as target:
                async for block in source.views():
                    await target.write(block)

    async def _leads_to(self, path: str, file: NfsFile) -> bool:
        try:
            there = await self._run(path, lambda fs, at: fs.stat(at))
        except FileNotFoundError:
            return False
        here = await file.stat()
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def touch(self, path: str, truncate: bool = True, **_kwargs: Any) -> None:
        """Makes an empty file; of one that exists without `truncate` only sets the times."""
        sync(self.loop, self._touch, path, truncate)

    async def _touch(self, path: str, truncate: bool = True) -> None:
        async def touch(fs: MountedFilesystem, at: str) -> None:
            await (await fs.open(at, "wb" if truncate else "ab")).close()
            if not truncate:
                await fs.utime(at)

        with self._changing(path):
            await self._making_directories(path, touch)

    @contextlib.contextmanager
    def _changing(self, *paths: str, trees: bool = False) -> Iterator[None]:
        """Drops in the end what is believed of the paths: it may have changed even where the change has failed."""
        try:
            yield
        finally:
            for path in paths:
                (self._known.forget_tree if trees else self._known.forget)(self.path_of(path))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BufferedNfsFile | HeldFile:
        if mode not in FILE_MODES:
            raise ValueError(
                f"{path}: fsspec's files are opened with rb, wb, ab or xb, not {mode}; rpcrdma.sync.nfs_open has files "
                "for reading and writing"
            )
        if mode == "rb" and block_size is None and not cache_options and not kwargs:
            opened = sync(self.loop, self._open_reading, path)
            if isinstance(opened, bytes):
                return HeldFile(self, self.path_of(path), opened)
            return BufferedNfsFile(self, path, mode, opened=opened)
        return BufferedNfsFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)

    async def open_async(self, path: str, mode: str = "rb", **_kwargs: Any) -> NfsFile:
        """An open file for coroutines; see `rpcrdma.NfsFilesystem.open`."""
        path = self.path_of(path)
        if mode == "rb":
            known = self._known.find(path)
            entry = None if known is None else known.entry
            return await self._run(path, lambda fs, at: fs.open(entry or at))
        if "r" in mode:
            file = await self._run(path, lambda fs, at: fs.open(at, mode))
        else:
            file = await self._making_directories(path, lambda fs, at: fs.open(at, mode))
        self._known.note_writer(path, file)
        return file

    async def _open_reading(self, path: str) -> NfsFile | bytes:
        """All octets of a small regular file, and any other one as an open file."""
        path = self.path_of(path)
        known = self._known.find(path)
        entry = (await self._look(path))[1] if known is None else known.entry
        if entry is None or not entry.is_file():
            return await self.open_async(path)
        if entry.stat().st_size > HELD_OCTETS:
            return await self._run(path, lambda fs, _: fs.open(entry))
        data = await self._run(path, lambda fs, _: fs.read_bytes(entry, size=HELD_OCTETS + 1))
        return data if len(data) <= HELD_OCTETS else await self.open_async(path)

    def note_written(self, path: str) -> None:
        """Has the server be asked for the attributes of a file that has been written."""
        self._known.forget(self.path_of(path))

    def note_writer(self, file: BufferedNfsFile) -> None:
        """Has the end of the process close the file, if nothing else does."""
        loop = self.loop
        assert loop is not None, "a file that waits for its calls needs a loop to wait for"
        mounts_of(self.server, loop).writers.add(file)

    # Directories and names

    async def _mkdir(self, path: str, create_parents: bool = True, **_kwargs: Any) -> None:
        await self._run(path, lambda fs, at: fs.mkdir(at, parents=create_parents))

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        if exist_ok:
            await self._mounts().make_directories(self._strip_protocol(path))
        else:
            await self._mkdir(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        with self._changing(path):
            sync(self.loop, self._run, path, lambda fs, at: fs.rmdir(at))

    async def _rm_file(self, path: str, **_kwargs: Any) -> None:
        with self._changing(path):
            await self._run(path, lambda fs, at: fs.unlink(at))

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
                    await self._run(each, _remove_name)
                return
            await _run_coros_in_chunks(
                [self._run(each, _remove if recursive else _unlink) for each in paths],
                batch_size=batch_size or self.batch_size,
                nofiles=True,
            )

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_kwargs: Any) -> None:
        """Renames; what lies in different exports, or is named by a pattern, is copied and removed."""
        sync(self.loop, self._mv, path1, path2, recursive, maxdepth)

    async def _mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        if isinstance(path1, str) and isinstance(path2, str) and maxdepth is None and not has_magic(path1):
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
        await self._copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise")
        await self._rm(path1, recursive=recursive, maxdepth=maxdepth)

    async def _mv_file(self, path1: str, path2: str) -> None:
        source, below = await self._run(path1, _place)

        async def rename(fs: MountedFilesystem, at: str) -> None:
            if fs is not source:
                raise OSError(errno.EXDEV, "these are different exports", path1, None, path2)
            try:
                await fs.rename(below, at)
            except FileNotFoundError:
                await fs.lstat(below)  # what is missing may be the source
                raise

        with self._changing(path1, path2, trees=True):
            await self._making_directories(path2, rename)


class TcpFileSystem(RdmaFileSystem):
    """The same over TCP: `nfstcp://HOST[:PORT]/PATH`."""

    protocol = "nfstcp"


async def _place(fs: MountedFilesystem, at: str) -> tuple[MountedFilesystem, str]:
    return fs, at


async def _unlink(fs: MountedFilesystem, at: str) -> None:
    await fs.unlink(at)


async def _remove(fs: MountedFilesystem, at: str) -> None:
    if (await fs.lstat(at)).is_dir():
        (await fs.rmtree(at)).check()
    else:
        await fs.unlink(at)


async def _remove_name(fs: MountedFilesystem, at: str) -> None:
    await (fs.rmdir(at) if (await fs.lstat(at)).is_dir() else fs.unlink(at))


def _names_below(path: str, exports: Iterable[str]) -> list[str]:
    """The next names on the way from `path`, which is in no export, to those below it."""
    prefix = path.rstrip("/") + "/"
    return sorted({export.removeprefix(prefix).partition("/")[0] for export in exports if export.startswith(prefix)})


def _within(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """The range that a slice of so many octets means: negative numbers count from the end."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def _each(values: int | Sequence[int | None] | None, count: int) -> Sequence[int | None]:
    if values is None or isinstance(values, int):
        return [values] * count
    if len(values) != count:
        raise ValueError(f"{len(values)} limits of ranges for {count} paths")
    return values


def _number(value: int | str | None) -> int | None:
    return None if value is None else int(value)
