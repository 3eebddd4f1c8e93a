"""The MOUNT protocol, by which a client gets its first file handle (RFC 1813 appendix I); over TCP alone.

The service is looked for at the port that the URL or the caller names; else, for tcp:// servers, at the NFS port
itself; else at 20048, where Linux servers put it; else at the port that the server's port mapper names. A machine may
run several servers, so the MOUNT service that answers need not belong to the NFS server: its handle has to be tried.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rpcrdma.aio.client.connect import ConnectOptions, tls_of
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.aio.urls import DEFAULT_PORTS, Url
from rpcrdma.errors import (
    ConnectFailed,
    HostAuthenticationFailed,
    HostNotFound,
    NotPermitted,
    RpcError,
    RpcRdmaError,
    TransportClosed,
)
from rpcrdma.nfs import mount, port_mapper, v3
from rpcrdma.nfs.client.port_mapper import PORT_MAPPER_PORT, PROTOCOL_TCP, check_may_be_asked
from rpcrdma.nfs.errors import NfsError, NfsNotFound, NfsPermission, nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.rpc.program import Caller

__all__ = [
    "MOUNT_PORT",
    "Exported",
    "Mount",
    "NoSuchExport",
    "confirm_root",
    "list_exports",
    "mount_export",
    "mount_with",
    "unmount",
]

T = TypeVar("T")

_LOGGER = logging.getLogger("rpcrdma.client")
_REMEDY = "name the TCP port of the server's MOUNT with ?mountport=PORT in the URL, or with --mount-port"
_SHOWN_MAX = 8
_UNMOUNT_S = 1.0
"""Closing a file system waits no longer than this for MOUNT: no data depends on UMNT."""

MOUNT_PORT = 20048
"""The port registered for the MOUNT protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """The answer of MNT: the root handle of `export`, and the directory below it that the wanted path leads to."""

    export: str
    handle: bytes
    directory: str
    port: int = 0
    """The port of the MOUNT service."""
    listed: frozenset[str] = frozenset()
    """The exports that the server lists; it may have others."""
    flavors: tuple[int, ...] = ()
    """The security flavors of the export, the one that the server prefers first; some servers name none."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export, the hosts or networks that may mount it (none: the server names none), and its security flavors.

    `flavors` is None where this client may not mount the export.
    """

    name: str
    clients: tuple[str, ...]
    flavors: tuple[int, ...] | None = None


class NoSuchExport(NfsNotFound):
    """No export is at `path` or above it; `exports` are the names of the server's exports."""

    def __init__(self, path: str, exports: Iterable[str]) -> None:
        super().__init__(nfsstat3.NFS3ERR_NOENT, path)
        self.exports = tuple(sorted(exports))
        more = len(self.exports) - _SHOWN_MAX
        names = ", ".join(self.exports[:_SHOWN_MAX])
        self.add_note(f"the server exports {names}{f' and {more} more' if more > 0 else ''}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.exports)


async def mount_export(url: Url, options: ConnectOptions, *, mount_port: int | None = None) -> Mount:
    """Mounts the export that holds `url.path`; `mount_port` is for URLs that name no MOUNT port.

    Raises:
        NotPermitted: this process may not take a reserved port.
        HostNotFound: the host name has no address.
        ConnectFailed: no MOUNT service answers; the message names the ports that were tried.
        NfsError: the server refuses; FileNotFoundError if no export holds that path.
    """

    async def mounted(caller: Caller, port: int) -> Mount:
        found = await mount_with(caller, url.path or "/", timeout_s=options.connect_timeout_s)
        _LOGGER.info("mounted %s: MOUNT at %s", found.export, authority(url.host, port))
        return replace(found, port=port)

    return await _at_mount_service(url, options, mount_port, mounted)


async def list_exports(url: Url, options: ConnectOptions, *, mount_port: int | None = None) -> list[Exported]:
    """The exports that the server at `url` shows, by name; the arguments are those of `mount_export`.

    Raises:
        NotPermitted: this process may not take a reserved port.
        HostNotFound: the host name has no address.
        ConnectFailed: no MOUNT service answers; the message names the ports that were tried.
    """

    async def listed(caller: Caller, _port: int) -> list[Exported]:
        nodes = await caller.call(mount.EXPORT, None, timeout_s=options.connect_timeout_s)
        found = []
        for node in sorted(nodes, key=lambda node: node.ex_dir):
            flavors = None
            with contextlib.suppress(NfsError):
                _, flavors = await _mnt(caller, node.ex_dir, options.connect_timeout_s)
                await caller.call(mount.UMNT, node.ex_dir, timeout_s=options.connect_timeout_s)
            found.append(Exported(node.ex_dir, tuple(group.gr_name for group in node.ex_groups), flavors))
        return found

    return await _at_mount_service(url, options, mount_port, listed)


async def _at_mount_service(
    url: Url, options: ConnectOptions, mount_port: int | None, work: Callable[[Caller, int], Awaitable[T]]
) -> T:
    """Calls `work` with the first MOUNT service that answers and its port; the result of `work`."""
    tried: list[str] = []
    mount_port = url.mount_port or mount_port
    async for port in _ports(url, mount_port, options, tried):
        try:
            async with await _connected(url, port, options) as caller:
                return await work(caller, port)
        except (NotPermitted, HostNotFound):
            # Every other port would fail in the same way.
            raise
        except HostAuthenticationFailed as error:
            if error.cause == "absent":
                error.add_note(
                    f"MOUNT at port {port} offers no TLS, as that of Linux: --mount-in-clear asks it in the clear, and "
                    "NFS in TLS"
                )
            raise
        except NfsError as error:
            if mount_port is None and port != url.port != DEFAULT_PORTS[url.scheme]:
                answered = authority(url.host, port)
                error.add_note(f"MOUNT was answered by {answered}; if {url.authority} is another server, {_REMEDY}")
            raise
        except (ConnectFailed, TransportClosed, RpcError) as error:
            tried.append(f"TCP port {port}: {_cause(error, url.host, port)}")
    raise ConnectFailed(f"no MOUNT service answers at {url.host} ({', '.join(tried)}); {_REMEDY}")


async def _connected(url: Url, port: int, options: ConnectOptions, *, timeout_s: float | None = None) -> TcpConnection:
    return await TcpConnection.connect(
        url.host,
        port,
        options.credential,
        timeout_s=options.connect_timeout_s if timeout_s is None else timeout_s,
        reserved_port=options.reserved_port,
        observer=options.on_call,
        tls=None if options.mount_in_clear else tls_of(url, options),
        addressed=(mount.MOUNT_V3.number, mount.MOUNT_V3.version),
    )


async def confirm_root(caller: Caller, url: Url, mounted: Mount) -> None:
    """Asks the NFS server at `url`, which `caller` is connected to, whether it knows the handle that MOUNT gave.

    Raises:
        ConnectFailed: it does not know the handle: another server has answered MOUNT.
    """
    reply = await caller.call(v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(mounted.handle)))
    if reply.status in {nfsstat3.NFS3ERR_STALE, nfsstat3.NFS3ERR_BADHANDLE}:
        raise ConnectFailed(
            f"the NFS server at {url.authority} does not know the handle of {mounted.export} that MOUNT at "
            f"{authority(url.host, mounted.port)} gave: MOUNT and NFS are not one server; {_REMEDY}"
        )


async def mount_with(caller: Caller, path: str, *, timeout_s: float | None = None) -> Mount:
    """Mounts the export with the longest name that `path` is in; without a list, the longest that the server mounts.

    Raises:
        NfsError: see `mount_export`; and the errors of `Caller.call`.
    """
    names = _names(path)
    candidates = ["/" + "/".join(names[:count]) for count in range(len(names), -1, -1)]
    listed: dict[str, list[str]] | None = None
    with contextlib.suppress(RpcError):
        exports = await caller.call(mount.EXPORT, None, timeout_s=timeout_s)
        listed = {_normal(node.ex_dir): [group.gr_name for group in node.ex_groups] for node in exports}
        # A list may leave out exports that this caller may mount: listed ones are tried first, then all others.
        candidates.sort(key=listed.__contains__, reverse=True)
    first: NfsError | None = None
    for export in candidates:
        try:
            handle, flavors = await _mnt(caller, export, timeout_s)
        except NfsError as error:
            if first is None:
                first = error
            if error.status not in {nfsstat3.NFS3ERR_NOENT, nfsstat3.NFS3ERR_NOTDIR, nfsstat3.NFS3ERR_ACCES}:
                raise
        else:
            below = "/".join(names[len(_names(export)) :]) + ("/" if path.endswith("/") else "")
            directory = "/" + below.lstrip("/")
            return Mount(
                export=export, handle=handle, directory=directory, listed=frozenset(listed or ()), flavors=flavors
            )
    assert first is not None, "there is at least one candidate"
    # Servers that hide their list answer with an empty one.
    if listed and isinstance(first, NfsNotFound):
        raise NoSuchExport(path, listed)
    if isinstance(first, NfsPermission):
        first.add_note(_why_refused(first.path or "", (listed or {}).get(first.path or "", [])))
    raise first


def _why_refused(export: str, admitted: Sequence[str]) -> str:
    """The facts about a refusal of MOUNT: the hosts and networks that the server's list names for the export."""
    if not admitted:
        return f"the server's MOUNT refuses {export} to this host or user; the server's log may have the reason"
    more = len(admitted) - _SHOWN_MAX
    shown = ", ".join(admitted[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"the server exports {export} to {shown} alone"


async def unmount(url: Url, mounted: Mount, options: ConnectOptions) -> None:
    """Tells the server that the export is no longer used; failures have no effect, and are ignored."""
    with contextlib.suppress(RpcRdmaError):
        async with await _connected(url, mounted.port, options, timeout_s=_UNMOUNT_S) as caller:
            await caller.call(mount.UMNT, mounted.export, timeout_s=_UNMOUNT_S)


async def _mnt(caller: Caller, export: str, timeout_s: float | None) -> tuple[bytes, tuple[int, ...]]:
    """The handle and the security flavors of an export."""
    reply = await caller.call(mount.MNT, export, timeout_s=timeout_s)
    if reply.value is None:
        # The codes are NFSv3's own.
        raise nfs_error(nfsstat3(int(reply.fhs_status)), export)
    return reply.value.fhandle, tuple(reply.value.auth_flavors)


async def _ports(url: Url, mount_port: int | None, options: ConnectOptions, tried: list[str]) -> AsyncIterator[int]:
    if mount_port is not None:
        yield mount_port
        return
    if url.scheme == "tcp":
        yield url.port
    if url.scheme != "tcp" or url.port != MOUNT_PORT:
        yield MOUNT_PORT
    try:
        check_may_be_asked(options)
        async with await _connected(url, PORT_MAPPER_PORT, options) as caller:
            wanted = port_mapper.mapping(mount.MOUNT_V3.number, mount.MOUNT_V3.version, PROTOCOL_TCP, 0)
            port = await caller.call(port_mapper.PMAPPROC_GETPORT, wanted, timeout_s=options.connect_timeout_s)
    except RpcRdmaError as error:
        tried.append(f"port mapper: {_cause(error, url.host, PORT_MAPPER_PORT)}")
        return
    if 0 < port < 1 << 16 and port not in {url.port if url.scheme == "tcp" else 0, MOUNT_PORT}:
        yield port
    else:
        tried.append("port mapper: not registered there")


def _cause(error: RpcRdmaError, host: str, port: int) -> str:
    """The reason alone: the message that joins several of them has its own address and remedy."""
    where = authority(host, port)
    return str(error).partition("; ")[0].removeprefix(f"cannot connect to {where}: ").removeprefix(f"{where} ")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _normal(path: str) -> str:
    return "/" + "/".join(_names(path))
