"""From a URL to a file system: `nfs_open`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

from rpcrdma.aio.client.connect import Connection, ConnectOptions
from rpcrdma.aio.misuse import Opening, check_type
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.client.mount_client import Mount, confirm_root, connect_nfs, mount_export, unmount, unproved
from rpcrdma.nfs.client.security_choice import secured
from rpcrdma.nfs.client.volume import FileOptions
from rpcrdma.nfs.errors import ServerPathError

__all__ = ["MountedFilesystem", "mount_over", "mount_path", "nfs_open"]


class MountedFilesystem(NfsFilesystem):
    """The file system of one export, made by `nfs_open` or `mount_over`; `close` unmounts it.

    `export` is the name of the export, `directory` the part of the URL's path below the export, at which relative paths
    start; if that is a file, "." is the file. `listed_exports` are the names of the exports that the server lists.
    `url` is the text of the URL that was opened.

    Args:
        connection: the connection to the NFS server.
        url: the URL that was opened.
        mounted: the answer of MOUNT: the export, its root handle and the directory below it.
        options: the settings of `connection`; also of the connection for UMNT, if MOUNT has a port of its own.
        files: bounds of calls in flight, copies and listings; None for the defaults.
        owns_connection: whether `close` closes the connection, too.
    """

    def __init__(
        self,
        connection: Connection,
        url: Url,
        mounted: Mount,
        options: ConnectOptions,
        files: FileOptions | None,
        *,
        owns_connection: bool,
    ) -> None:
        root = replace(url, path=mounted.export)
        super().__init__(connection, mounted.handle, directory=mounted.directory, options=files, url=root)
        self.connection = connection
        self.url = str(url)
        self.export = mounted.export
        self.listed_exports = mounted.listed
        self._target = url
        self._mounted = mounted
        self._options = options
        self._owns_connection = owns_connection

    def __repr__(self) -> str:
        return f"<rpcrdma.nfs.client.MountedFilesystem {self.url}>"

    async def close(self) -> None:
        """Cancels background calls of open files, sends UMNT, and closes the connection if `owns_connection` was set.

        Open files are not flushed. Waits for the reply to UMNT up to 1 s, or 2 s if MOUNT has a port of its own, and
        ignores failures of UMNT.
        """
        try:
            await super().close()
            await unmount(self._target, self._mounted, self._options, self.connection)
        finally:
            if self._owns_connection:
                await self.connection.close()


async def mount_over(
    connection: Connection,
    url: Url,
    mounted: Mount,
    options: ConnectOptions,
    files: FileOptions | None = None,
    *,
    owns_connection: bool = False,
) -> MountedFilesystem:
    """Returns the file system of MOUNT's answer `mounted` over `connection`, which leads to the NFS server at `url`.

    One GETATTR checks that this server knows the root handle.

    Args:
        connection: the connection to the NFS server, which stays open after an error.
        url: the URL of the directory or file to be opened.
        mounted: the answer of MOUNT: the export, its root handle and the directory below it.
        options: the settings of `connection`; also of the connection for UMNT, if MOUNT has a port of its own.
        files: bounds of calls in flight, copies and listings; None for the defaults.
        owns_connection: whether the file system's `close` closes the connection, too.

    Raises:
        ConnectFailed: the NFS server does not know the root's handle, as another server has answered MOUNT; or it has
            no version 3.
        RpcRdmaError: the other errors of `Caller.call`.
    """
    await confirm_root(connection, url, mounted)
    return MountedFilesystem(connection, url, mounted, options, files, owns_connection=owns_connection)


class _Opening(Opening[MountedFilesystem]):
    """The result of `nfs_open`, which mounts when it is awaited or entered by `async with`; the exit unmounts."""

    OPENED_BY = "rpcrdma.nfs_open"

    def __init__(self, url: Url, mount_port: int | None, options: ConnectOptions, files: FileOptions | None) -> None:
        self._url = url
        self._mount_port = mount_port
        self._options = options
        self._files = files

    async def _open(self) -> MountedFilesystem:
        filesystem = await mount_path(self._url, self._mount_port, self._options, self._files)
        try:
            await filesystem.handle_of(".")
        except BaseException:
            await filesystem.close()
            raise
        return filesystem


async def mount_path(
    url: Url, mount_port: int | None, options: ConnectOptions, files: FileOptions | None
) -> MountedFilesystem:
    """Mounts the export that holds `url.path`, over a new connection, which `close` of the result closes.

    Whether the path below the export exists is not checked. After an error no connection is left.

    Args:
        url: the parsed URL.
        mount_port: the TCP port of MOUNT for a URL that names none; None: MOUNT is asked over the connection to NFS, at
            port 20048 and at the port that the port mapper names, until it answers.
        options: the settings of the connection.
        files: bounds of calls in flight, copies and listings; None for the defaults.

    Raises:
        NotPermitted: `options.reserved_port` is wanted, but not allowed.
        ConnectFailed: NFS or MOUNT cannot be reached; the message names the remedy.
        UserAuthenticationFailed: the export asks for a security flavor that this client cannot prove, or does not take
            `options.security`.
        NfsError: the server refuses to mount; FileNotFoundError: there is no such export.
        RpcRdmaError: a call fails otherwise, as by CallTimeout.
    """
    async with AsyncExitStack() as stack:
        asking = unproved(options)
        connection = await stack.enter_async_context(await connect_nfs(url, asking))
        try:
            mounted = await mount_export(url, asking, connection, mount_port=mount_port)
        except ServerPathError as error:
            error.found_at(url)
            raise
        options = await secured(options, url, mounted)
        if options != asking:
            await stack.aclose()
            connection = await stack.enter_async_context(await connect_nfs(url, options))
        filesystem = await mount_over(connection, url, mounted, options, files, owns_connection=True)
        stack.pop_all()
        return filesystem


def nfs_open(
    url: str,
    *,
    mount_port: int | None = None,
    options: ConnectOptions | None = None,
    files: FileOptions | None = None,
) -> _Opening:
    """Mounts a directory or file of an NFS server.

    `async with nfs_open("rdma://server/data") as fs:` or `fs = await nfs_open(...)`. MOUNT is asked for the file handle
    on the connection to NFS; if none answers there, at TCP port 20048, and then at the port that the port mapper names.

    Args:
        url: `rdma://HOST[:PORT]/EXPORT[/PATH]` or `tcp://`; `?mountport=PORT` at the end names the TCP port of MOUNT.
        mount_port: the TCP port of MOUNT for a URL that names none; None: the places above, one after the other.
        options: the settings of the connection; None for the defaults.
        files: bounds of calls in flight, copies and listings; None for the defaults.

    Returns:
        An object that mounts when it is awaited or entered, and yields the `MountedFilesystem`, whose `directory` is
        the path below the export; if that is a file, "." is the file.

    Raises:
        TypeError: an argument is of another type.
        LocalProtocolError: `url` is no such URL.
        NotPermitted: when entered or awaited: `options.reserved_port` is wanted, but not allowed.
        ConnectFailed: when entered or awaited: NFS or MOUNT cannot be reached; the message names the remedy.
        RpcRdmaError: when entered or awaited: a call fails otherwise, as by CallTimeout.
        UserAuthenticationFailed: when entered or awaited: the export asks for a security flavor that this client cannot
            prove, or does not take `options.security`.
        NfsError: when entered or awaited: the server refuses to mount, or the path cannot be reached
            (FileNotFoundError: there is no such export, or nothing at the path below it).
    """
    check_type("mount_port", mount_port, int, optional=True)
    check_type("options", options, ConnectOptions, optional=True)
    check_type("files", files, FileOptions, optional=True)
    return _Opening(parse_url(url), mount_port, options or ConnectOptions(), files)
