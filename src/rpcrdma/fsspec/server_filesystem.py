"""Servers as fsspec sees them: their connections, and the answers to its questions about paths."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from glob import has_magic
from pathlib import PurePosixPath
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.utils import stringify_path, tokenize

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.errors import RpcRdmaError
from rpcrdma.fsspec.entry_info import Info, entry_info, info_above, info_at, listed_infos
from rpcrdma.fsspec.known_files import Known, known_files
from rpcrdma.fsspec.mounts import MountedPath, Mounts, Server, close_left_open, close_mounts, mounts_of, open_writers
from rpcrdma.fsspec.servers import MountPorts, ServerPath, Servers, authority_of, number_of, strip_url
from rpcrdma.fsspec.waiting import sync
from rpcrdma.fsspec.walk_steps import OnError, Walked, WalkStep, raise_unless_missing, steps_after
from rpcrdma.nfs.client import DirEntry, FileOptions, MountedFilesystem
from rpcrdma.nfs.client.mount_client import NoSuchExport

__all__ = ["ServerFileSystem", "names_below"]

T = TypeVar("T")

_OPTIONS = "host, port, mountport, options, files, auto_mkdir, attributes_valid_s, close_to_open"
_FSSPEC_OPTIONS = {
    "asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache",
    "use_listings_cache",
}  # fmt: skip
"""The options of every file system: fsspec itself ignores unknown options, which are mistakes."""

_PASSED_OVER = {"anon"}
"""Options that tools add by themselves: after a PermissionError pandas opens the file once more, with `anon=True`."""


class ServerFileSystem(AsyncFileSystem):
    """The base of `RdmaFileSystem`, which documents the options; has methods for connections, attributes and lists."""

    protocol: str = ""
    root_marker = "/"
    _pid: int

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        mountport: MountPorts = None,
        *,
        options: ConnectOptions | Mapping[str, Any] | None = None,
        files: FileOptions | Mapping[str, Any] | None = None,
        auto_mkdir: bool = True,
        attributes_valid_s: float = 1.0,
        close_to_open: bool = True,
        **kwargs: Any,
    ) -> None:
        unknown = sorted(set(kwargs) - _FSSPEC_OPTIONS - _PASSED_OVER)
        if unknown:
            raise TypeError(f"{self.protocol}:// has no option {', '.join(unknown)}: {_OPTIONS}")
        super().__init__(**kwargs)
        self._servers = Servers(self.protocol, host, port, mountport, options, files)
        self.auto_mkdir = auto_mkdir
        self._valid_s = number_of("attributes_valid_s", attributes_valid_s, float)
        self._close_to_open = close_to_open

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fsid}>"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Returns a URL or path without its scheme: "SERVER/PATH", "SERVER" alone, or "/PATH"; a list for a list.

        Raises TypeError if it is neither str nor `os.PathLike`, ValueError for a URL of another protocol, and
        LocalProtocolError if the server is not valid.
        """
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return strip_url(stringify_path(path), cls.protocol)

    @classmethod
    def _parent(cls, path: str) -> str:
        stripped: str = cls._strip_protocol(path)
        above, separator, _ = stripped.rpartition("/")
        return above or (cls.root_marker if separator else stripped)

    def place(self, path: str) -> ServerPath:
        """Finds the server that a path or URL names, and the path there.

        Returns:
            The server, the part of `path` that names it, the path at the server, and the cache of its files.

        Raises:
            ValueError: `path` names no server, and the option `host` does not either; or it is a URL of another
                protocol.
            LocalProtocolError: the server is not valid.
            TypeError: `path` is neither str nor `os.PathLike`.
        """
        return self._servers.place(stringify_path(path))

    @property
    def server(self) -> Server:
        """The server, set by the option `host`, of paths that name none.

        Raises:
            ValueError: the option `host` was not given.
        """
        return self.place(self.root_marker).server

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path or URL, with the server and the ports that it is reached at.

        Raises ValueError, LocalProtocolError or TypeError if `name` is none, or names no valid server.
        """
        place = self.place(name)
        return f"{self.protocol}://{place._replace(prefix=authority_of(place.server.url)).name}"

    @property
    def fsid(self) -> str:
        """PROTOCOL://HOST:PORT of the server that the option `host` names; without that option, the protocol alone."""
        own = self._servers.own
        return self.protocol if own is None else f"{self.protocol}://{own.authority}"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which blocking methods run their calls; after a fork the child's own, with new connections.

        Never None, though the base class permits that.

        Raises:
            RuntimeError: the object was made with `asynchronous=True`: only its coroutines can be used.
        """
        if self._pid != os.getpid():
            self._loop = None if self.asynchronous else get_loop()
            self._pid = os.getpid()
        if self._loop is None:
            raise RuntimeError(
                f"this {type(self).__name__} was made with asynchronous=True: await its methods with an underscore, as "
                "fs._cat_file(path), or make one without that option"
            )
        loop: asyncio.AbstractEventLoop | None = self._loop
        return loop

    def close(self) -> None:
        """Closes the connections that all objects with the same options share in the event loop `loop`, and waits.

        Files open for writing are closed first, after those of text or compressed data around them; the log warns of a
        file that these did not close, since the program may hold data for it. All are closed, also if that raises an
        OSError or RpcRdmaError, one of which is raised at the end. A later call connects anew.
        """
        loop = self.loop
        assert loop is not None, "its property raises an error instead"
        with contextlib.ExitStack() as stack:
            stack.callback(sync, loop, self._close)
            for server in self._servers.used():
                for file in reversed(open_writers(server, loop)):
                    stack.callback(close_left_open, file)

    async def _close(self) -> None:
        for end in await asyncio.gather(*map(close_mounts, self._servers.used()), return_exceptions=True):
            if isinstance(end, BaseException):
                raise end

    def _mounts(self, server: Server) -> Mounts:
        return mounts_of(server, asyncio.get_running_loop())

    def _mounts_here(self, path: str) -> Mounts:
        loop = self.loop
        assert loop is not None, "a file that waits for its calls needs a loop to wait for"
        return mounts_of(self.place(path).server, loop)

    def _at(self, path: str | ServerPath) -> MountedPath:
        """Returns a context manager that mounts the export with `path`: `async with self._at(path) as (fs, at):`.

        `fs` is the export's file system, `at` the path in it. Raises ValueError if `path` names no server, and
        LocalProtocolError if it names no valid one; entering raises NoSuchExport, or another OSError or RpcRdmaError.
        """
        server, prefix, at, _ = path if isinstance(path, ServerPath) else self.place(path)
        hint = None
        if prefix and ":" not in prefix and self._servers.own is not None:
            hint = f"{prefix!r} was taken for a server: paths of the option host= begin with a slash"
        return MountedPath(self._mounts(server), at, prefix, hint)

    # Names and attributes

    def info(self, path: str, refresh: bool = False, **_kwargs: Any) -> Info:
        """Returns an object's attributes by name: "name", "size", "type", "mtime", "mode" and more; follows links.

        A path above an export is a directory with the first three and "islink" alone. `refresh`: asks the server even
        if the answer is cached.

        Raises:
            FileNotFoundError: nothing exists there, or a link leads nowhere.
            OSError: the server refuses.
            ValueError, LocalProtocolError: `path` names no server, or not a valid one.
            ConnectFailed, RpcRdmaError: the server cannot be reached, or does not answer.
        """
        known = None if refresh else self._believed(path)
        if known is not None:
            return {**known.info, "name": self._strip_protocol(path)}
        info: Info = sync(self.loop, self._info, path, refresh=refresh)
        return info

    async def _info(self, path: str, refresh: bool = False, **_kwargs: Any) -> Info:
        place = self.place(path)
        known = None if refresh else await self._found(place)
        if known is not None:
            return {**known.info, "name": place.name}
        try:
            return (await self._look(place))[0]
        except NoSuchExport as error:
            if names_below(place.path, error.exports):
                return info_above(place.name)
            raise

    async def _found(self, place: ServerPath) -> Known | None:
        """Returns the cached state of `place`, or None if there is none.

        At the third miss in a directory it first reads a page of its listing and caches the entries; misses there wait
        for a page that is being read.
        """
        known, key = place.known, place.key
        found = known.find(key, self._valid_s)
        if found is not None or self._valid_s <= 0:
            return found
        directory, _, name = key.rpartition("/")
        listings = self._mounts(place.server).listings
        listing = listings.get(directory)
        if listing is None and name and known.is_worth_listing(directory, self._valid_s):
            listing = asyncio.get_running_loop().create_task(self._list_page(place, directory))
            listings[directory] = listing
            listing.add_done_callback(lambda _: listings.pop(directory))
        if listing is None:
            return None
        # A caller that is cancelled does not end it for the others.
        await asyncio.wait([listing])
        return known.find(key, self._valid_s)

    async def _list_page(self, place: ServerPath, directory: str) -> None:
        """Reads the first page of the listing of `directory` at the server of `place`, one READDIRPLUS, and caches it.

        Symbolic links are not cached. OSErrors and RpcRdmaErrors are ignored.
        """
        known = place.known
        changes = known.changes
        with contextlib.suppress(OSError, RpcRdmaError):
            async with self._at(place._replace(path=directory or "/")) as (fs, at):
                entries = await fs.first_entries(at)
            for entry in entries:
                if not entry.is_symlink():
                    path = f"{directory}/{entry.name}"
                    known.keep(path, entry_info(entry, path), entry, changes=changes)

    def _believed(self, path: str) -> Known | None:
        place = self.place(path)
        return place.known.find(place.key, self._valid_s)

    async def _look(self, place: ServerPath) -> tuple[Info, DirEntry | None]:
        """Asks the server about `place`, caches the answer, and returns it: (info of fsspec, directory entry).

        For a symbolic link, the root of an export, and a path that ends with "." or "..", the entry is None and nothing
        is cached. Raises OSError if the server refuses, RpcRdmaError if it cannot be reached.
        """
        known = place.known
        changes = known.changes
        async with self._at(place) as (fs, at):
            info, entry = await info_at(fs, at, place.name)
        if entry is not None and self._valid_s > 0:
            known.keep(place.key, dict(info), entry, changes=changes)
        return info, entry

    @contextlib.contextmanager
    def _changing(self, *paths: str, trees: bool = False, above: bool = False) -> Iterator[None]:
        """Context manager for changes: on exit drops the cached states of `paths` and of their directories.

        With `trees` it also drops those of all paths below, with `above` those of all directories above. It does so,
        too, if the block raises.
        """
        try:
            yield
        finally:
            for place in map(self.place, paths):
                (place.known.forget_tree if trees else place.known.forget)(place.key)
                for directory in PurePosixPath(place.key).parents if above else ():
                    place.known.forget(str(directory))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Drops the cached state of a path, of its directory and of all paths below it.

        Args:
            path: the path or URL; None: all paths of the servers used so far.
        """
        if path is None:
            for server in self._servers.used():
                known_files(server.key).forget_all()
        else:
            place = self.place(path)
            place.known.forget_tree(place.key)
        super().invalidate_cache(path)

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: OnError = None, **kwargs: Any
    ) -> Iterator[Walked]:
        """Walks a tree of directories.

        Other file systems of fsspec ignore every directory that cannot be listed. This method, and so `find`, `glob`
        and `du`, ignores only a missing directory unless `on_error` says otherwise.

        Args:
            path: the directory at the top.
            maxdepth: levels of directories, at least 1; None: all.
            topdown: whether a directory precedes those below it.
            on_error: "omit" ignores the OSError of a directory, "raise" raises it; or a function that is called with
                it. None: raises it unless the directory is missing.
            kwargs: `detail=True` for infos by name.

        Yields:
            (directory, names of directories, names of other entries) for each directory, without names for an ignored
            one; with `detail=True` dictionaries from names to infos in place of names.

        Raises:
            OSError: a directory cannot be listed, unless `on_error` says otherwise; ENAMETOOLONG: it is more than 2048
                levels deep.
            ConnectFailed, RpcRdmaError: the server cannot be reached, or does not answer, whatever `on_error` is.
        """
        tell = on_error or raise_unless_missing
        levels = 1 if maxdepth is None else min(maxdepth, 1)  # fsspec refuses less than 1
        waiting = [WalkStep(path)]
        while waiting:
            step = waiting.pop()
            if step.found is not None:
                yield step.found
                continue
            for found in super().walk(step.path, levels, on_error=tell, **kwargs):
                if topdown:
                    yield found
                waiting += steps_after(found, step.depth, maxdepth, topdown=topdown)

    async def _walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: OnError = None, **kwargs: Any
    ) -> AsyncIterator[Walked]:
        tell = on_error or raise_unless_missing
        levels = 1 if maxdepth is None else min(maxdepth, 1)  # fsspec refuses less than 1
        waiting = [WalkStep(path)]
        while waiting:
            step = waiting.pop()
            if step.found is not None:
                yield step.found
                continue
            async for found in super()._walk(step.path, levels, on_error=tell, **kwargs):
                if topdown:
                    yield found
                waiting += steps_after(found, step.depth, maxdepth, topdown=topdown)

    async def _expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, assume_literal: bool = False
    ) -> list[str]:
        found: set[str] = set()
        others: list[str] = []
        for each in [path] if isinstance(path, str) or not isinstance(path, Iterable) else path:
            name = self._strip_protocol(each)
            # An object with such a name is meant itself: as a pattern, a[1] would have rm remove a1.
            if has_magic(name) and (assume_literal or await self._is_name(name)):
                found.add(name)
                if recursive:
                    found.update(await self._find(name, maxdepth=maxdepth, withdirs=True))
            else:
                others.append(name)
        if others or not found:
            found.update(await super()._expand_path(others, recursive=recursive, maxdepth=maxdepth))
        return sorted(found)

    async def _ls(self, path: str, detail: bool = True, **_kwargs: Any) -> list[Info] | list[str]:
        place = self.place(path)
        above = place.name.rstrip("/") + "/"
        try:
            if detail:
                return await self._listed(place, above)
            async with self._at(place) as (fs, at):
                names = await fs.listdir(at)
        except NotADirectoryError:
            # Which raises the error again if a name on the way is no directory.
            return [await self._info(path)] if detail else [(await self._info(path))["name"]]
        except NoSuchExport as error:
            names = names_below(place.path, error.exports)
            if not names:
                raise
            if detail:
                return [info_above(above + name) for name in names]
        return [above + name for name in names]

    async def _listed(self, place: ServerPath, above: str) -> list[Info]:
        known, directory = place.known, place.key.rstrip("/")
        changes = known.changes

        def keep(info: Info, entry: DirEntry) -> None:
            if self._valid_s > 0:
                known.keep(f"{directory}/{entry.name}", dict(info), entry, changes=changes)

        async with self._at(place) as (fs, at):
            return await listed_infos(fs, at, above, keep)

    def exists(self, path: str, refresh: bool = False, **_kwargs: Any) -> bool:
        """Returns whether `path` leads to an object, or is above an export; False if a link leads nowhere.

        Returns False also if a name on the way is no directory, links form a circle, a name is too long, or `path`
        cannot be a path. Raises OSError or RpcRdmaError where the server gives no answer. `refresh`: asks the server
        even if the answer is cached.
        """
        believed = not refresh and self._believed(path) is not None
        return believed or bool(sync(self.loop, self._exists, path))

    def isdir(self, path: str) -> bool:
        """Returns whether `path` leads to a directory, or is above an export; False if nothing exists there.

        False also for a name below a file, or for links in a circle. Raises OSError or RpcRdmaError without an answer.
        """
        known = self._believed(path)
        return bool(sync(self.loop, self._isdir, path)) if known is None else known.entry.is_dir()

    def isfile(self, path: str) -> bool:
        """Returns whether `path` leads to a regular file, perhaps by symbolic links; False if nothing exists there.

        False also for a name below a file, or for links in a circle. Raises OSError or RpcRdmaError without an answer.
        """
        known = self._believed(path)
        return bool(sync(self.loop, self._isfile, path)) if known is None else known.entry.is_file()

    async def _exists(self, path: str, **_kwargs: Any) -> bool:
        return await self._asked(path, MountedFilesystem.exists, above=True)

    async def _isdir(self, path: str) -> bool:
        return await self._asked(path, MountedFilesystem.is_dir, above=True)

    async def _isfile(self, path: str) -> bool:
        return await self._asked(path, MountedFilesystem.is_file, above=False)

    async def _is_name(self, path: str) -> bool:
        """Returns whether `path` is no pattern: it has no wildcards, or an object with this name exists.

        A path with wildcards is taken for a pattern also if the server refuses to look it up.
        """
        if not has_magic(path):
            return True
        try:
            async with self._at(path) as (fs, at):
                await fs.lstat(at)
        except OSError:
            return False
        return True

    async def _asked(
        self, path: str, question: Callable[[MountedFilesystem, str], Awaitable[bool]], *, above: bool
    ) -> bool:
        """Returns the result of `question(fs, at)`: `fs` is the mounted export with `path`, `at` the path in that.

        If no export has `path`, returns False, or if `above` is set, whether `path` is above an export. Raises the
        errors of `question`, and of mounting the export.
        """
        try:
            async with self._at(path) as (fs, at):
                return await question(fs, at)
        except NoSuchExport as error:
            return above and bool(names_below(self.place(path).path, error.exports))

    def checksum(self, path: str) -> int:
        """Returns a number that changes with a file's content: a hash of its server, inode, size, mtime and ctime.

        Asks the server. Raises OSError if it refuses, RpcRdmaError if it cannot be reached.
        """
        info = self.info(path, refresh=True)
        address = self.place(path).server.url.authority
        return int(
            tokenize(self.protocol, address, *(info.get(name) for name in ("ino", "size", "mtime", "ctime"))), 16
        )

    def modified(self, path: str) -> dt.datetime:
        """Returns the time of a file's last modification, in UTC, from the server; raises OSError and RpcRdmaError."""
        return dt.datetime.fromtimestamp(self.info(path, refresh=True)["mtime"], tz=dt.UTC)

    def created(self, path: str) -> dt.datetime:
        """Always raises io.UnsupportedOperation, since NFSv3 has no time of creation."""
        raise io.UnsupportedOperation(
            f"{self.unstrip_protocol(path)}: NFSv3 has no time of creation; `modified` has that of the last change"
        )


def names_below(path: str, exports: Iterable[str]) -> list[str]:
    """Returns the names directly below `path` that lead to `exports`, sorted; empty if no export is below `path`.

    `path` is in no export. For the path "/a" and the export "/a/b/c" the name is "b".
    """
    prefix = path.rstrip("/") + "/"
    return sorted({export.removeprefix(prefix).partition("/")[0] for export in exports if export.startswith(prefix)})
