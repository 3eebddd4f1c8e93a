"""Our client at the kernel's export, one procedure at a time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from failures import CheckFailed
from guest import Guest
from kernel_server import EXPORT, PORT

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.mount_client import mount_export
from rpcrdma.transport import TransportStatistics

__all__ = ["KEEP", "Export", "connected_export", "equal", "ok", "url_of"]

KEEP = v3.sattr3(
    v3.set_mode3(False, None),
    v3.set_uid3(False, None),
    v3.set_gid3(False, None),
    v3.set_size3(False, None),
    v3.set_atime(v3.time_how.DONT_CHANGE, None),
    v3.set_mtime(v3.time_how.DONT_CHANGE, None),
)
"""Attributes for SETATTR that change none."""


@dataclass(frozen=True, slots=True)
class Export:
    """A connection to the kernel's server, and the handle of a directory that belongs to one check."""

    connection: Connection
    nfs: v3.NFS_V3_Client
    directory: v3.nfs_fh3

    @property
    def statistics(self) -> TransportStatistics:
        """The connection's counters."""
        found = self.connection.statistics
        assert found is not None
        return found

    def at(self, name: str) -> v3.diropargs3:
        """A name in the directory."""
        return v3.diropargs3(self.directory, name)

    async def lookup(self, name: str) -> v3.nfs_fh3:
        """The handle of the object `name` in the directory."""
        handle: v3.nfs_fh3 = ok(await self.nfs.lookup(v3.LOOKUP3args(self.at(name)))).object
        return handle

    async def create(self, name: str) -> v3.nfs_fh3:
        """An empty file's handle."""
        how = v3.createhow3(v3.createmode3.GUARDED, KEEP)
        handle: v3.nfs_fh3 = ok(await self.nfs.create(v3.CREATE3args(self.at(name), how))).obj.value
        return handle


def url_of(server: Guest, path: str = "") -> str:
    """The URL of `path` below the export."""
    return f"rdma://{server.address}{EXPORT}/{path}".rstrip("/")


@contextlib.asynccontextmanager
async def connected_export(
    server: Guest, directory: str, options: ConnectOptions | None = None
) -> AsyncIterator[Export]:
    """Connects, mounts, and makes an empty `directory` of mode 777 for a check."""
    options = options or ConnectOptions()
    path = f"{EXPORT}/{directory}"
    server.run(f"rm -rf {path}; mkdir {path}; chmod 777 {path}")
    root = v3.nfs_fh3((await mount_export(parse_url(url_of(server)), options)).handle)
    async with connect(f"rdma://{server.address}:{PORT}", v3.NFS_V3, options=options) as connection:
        nfs = v3.NFS_V3_Client(connection)
        found = ok(await nfs.lookup(v3.LOOKUP3args(v3.diropargs3(root, directory))))
        yield Export(connection, nfs, found.object)


def ok(reply: Any) -> Any:
    """The value of a reply without an error.

    Raises:
        CheckFailed: It has another status.
    """
    if reply.status is not v3.nfsstat3.NFS3_OK:
        raise CheckFailed(f"the server answered {reply.status.name}")
    return reply.value


def equal(what: str, found: object, wanted: object) -> None:
    """Compares.

    Raises:
        CheckFailed: They are not the same.
    """
    if found != wanted:
        raise CheckFailed(f"{what}: {found!r}, not {wanted!r}")
