"""A server as fsspec sees it: which one it is, its connections, and what is at a path."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.utils import stringify_path, tokenize

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import DEFAULT_PORTS, Scheme, Url
from rpcrdma.fsspec.addresses import PROTOCOLS, ServerPath, StripProtocol, split_url, url_options
from rpcrdma.fsspec.entry_info import Info, info_above, info_at, listed_infos
from rpcrdma.fsspec.known_files import Known, known_files
from rpcrdma.fsspec.mounts import Mounts, Server, close_mounts, mounts_of
from rpcrdma.fsspec.waiting import sync
from rpcrdma.nfs.client import DirEntry, FileOptions, MountedFilesystem
from rpcrdma.nfs.client.mount_client import NoSuchExport

__all__ = ["ServerFileSystem", "names_below"]

T = TypeVar("T")

_OPTIONS = "host, port, mountport, options, files, auto_mkdir, attributes_valid_s, close_to_open"
_FSSPEC_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}
"""Those of every file system: what else is given is a mistake, which fsspec itself would pass over."""

_HOST = re.compile(r"\[[^\[\]/]+\]|[^\[\]/]+")


class ServerFileSystem(AsyncFileSystem):
    """What a file system of fsspec is asked about: `RdmaFileSystem` has what is done with the files."""

    protocol: str = ""
    root_marker = "/"
    _pid: int

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        mountport: int | None = None,
        *,
        options: ConnectOptions | Mapping[str, Any] | None = None,
        files: FileOptions | Mapping[str, Any] | None = None,
        attributes_valid_s: float = 1.0,
        **kwargs: Any,
    ) -> None:
        unknown = sorted(set(kwargs) - _FSSPEC_OPTIONS)
        if unknown:
            raise TypeError(f"{self.protocol}:// has no option {', '.join(unknown)}: {_OPTIONS}")
        super().__init__(**kwargs)
        if not host or not _HOST.fullmatch(host):
            form = f"{self.protocol}://HOST[:PORT]/PATH"
            which = f"{host!r} is no host" if host else "which server?"
            raise ValueError(f"{which}: write {form}, or give the option host= (storage_options={{'host': ...}})")
        scheme: Scheme = PROTOCOLS[self.protocol]
        url = Url(
            scheme=scheme,
            host=host.strip("[]").lower(),
            port=int(port or DEFAULT_PORTS[scheme]),
            mount_port=None if mountport is None else int(mountport),
        )
        self.server = Server(
            url=url,
            options=options if isinstance(options, ConnectOptions) else ConnectOptions(**(options or {})),
            files=files if isinstance(files, FileOptions) else FileOptions(**(files or {})),
            key=tokenize(str(url), options, files),
        )
        self._valid_s = float(attributes_valid_s)
        self._known = known_files(self.server.key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fsid}>"

    _strip_protocol = StripProtocol()

    def path_of(self, path: Any) -> Any:
        """The path of a URL, a list of paths for a list; what is no URL is a path already.

        Raises:
            ValueError: the URL names another server.
        """
        if isinstance(path, list):
            return [self.path_of(each) for each in path]
        server, found = split_url(stringify_path(path))
        if server is None and isinstance(path, ServerPath):
            server = path.server
        if server is not None and not self._is_of(server):
            raise ValueError(
                f"{found} of {server.authority} was asked of the file system of {self.fsid}: a list of URLs, as a file "
                "system, is of one server; read each server's files by themselves and join them (dask.dataframe.concat)"
            )
        return found

    def _is_of(self, server: Url) -> bool:
        own = self.server.url
        if server.host != own.host:
            return False
        return server.port == own.port or not server.port_given or server.scheme != own.scheme

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str | int]:
        return url_options(path)

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, which names the server."""
        url = self.server.url
        query = "" if url.mount_port is None else f"?mountport={url.mount_port}"
        return f"{self.protocol}://{url.authority}{self.path_of(name)}{query}"

    @property
    def fsid(self) -> str:
        """The server's address."""
        return f"{self.protocol}://{self.server.url.authority}"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the calls run in: after a fork the child's own, where connections are made anew."""
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
        """Ends the connections that this object and its equals share; a later call makes new ones."""
        sync(self.loop, self._close)

    async def _close(self) -> None:
        await close_mounts(self.server)

    def _mounts(self) -> Mounts:
        return mounts_of(self.server, asyncio.get_running_loop())

    async def _run(self, path: str, call: Callable[[MountedFilesystem, str], Awaitable[T]]) -> T:
        return await self._mounts().run(self.path_of(path), call)

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
        known = None if refresh else self._known.find(path, self._valid_s)
        if known is not None:
            return dict(known.info)
        try:
            return dict((await self._look(path))[0])
        except NoSuchExport as error:
            if names_below(path, error.exports):
                return info_above(path)
            raise

    def _believed(self, path: str) -> Known | None:
        return self._known.find(self.path_of(path), self._valid_s)

    async def _look(self, path: str) -> tuple[Info, DirEntry | None]:
        """What the server tells of `path`, kept for the next one that asks."""
        changes = self._known.changes
        info, entry = await self._run(path, lambda fs, at: info_at(fs, at, path))
        if entry is not None and self._valid_s > 0:
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
        path = self.path_of(path)
        prefix = path.rstrip("/") + "/"
        try:
            if detail:
                return await self._listed(path, prefix)
            names = await self._run(path, lambda fs, at: fs.listdir(at))
        except NotADirectoryError:
            info = await self._info(path)
            return [info] if detail else [path]
        except NoSuchExport as error:
            names = names_below(path, error.exports)
            if not names:
                raise
            if detail:
                return [info_above(prefix + name) for name in names]
        return [prefix + name for name in names]

    async def _listed(self, path: str, prefix: str) -> list[Info]:
        changes = self._known.changes

        def keep(info: Info, entry: DirEntry) -> None:
            if self._valid_s > 0:
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
            return above and bool(names_below(self.path_of(path), error.exports))

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


def names_below(path: str, exports: Iterable[str]) -> list[str]:
    """The next names on the way from `path`, which is in no export, to those below it."""
    prefix = path.rstrip("/") + "/"
    return sorted({export.removeprefix(prefix).partition("/")[0] for export in exports if export.startswith(prefix)})
