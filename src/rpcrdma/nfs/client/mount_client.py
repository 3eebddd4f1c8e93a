"""The MOUNT protocol, by which a client gets its first file handle (RFC 1813 appendix I).

The service is looked for at the TCP port that the URL or the caller names; else on the connection to the NFS server,
where servers of this library answer; if MOUNT is refused there in any way while NFS answers, at TCP port 20048, where
Linux servers put it, and at the port that the port mapper names. A machine may run several servers, so a MOUNT service
at another port need not belong to the NFS server: its handle has to be tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect, tls_of
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.sockets import authority, unanswered
from rpcrdma.aio.urls import DEFAULT_PORTS, Url
from rpcrdma.errors import (
    AuthError,
    CallTimeout,
    ConnectFailed,
    HostAuthenticationFailed,
    HostNotFound,
    MessageTooLong,
    NotPermitted,
    ProgramMismatch,
    RemoteAccessError,
    RemoteProtocolError,
    RpcError,
    RpcRdmaError,
    TransportClosed,
)
from rpcrdma.limits import EXPORTS_ASKED_MAX
from rpcrdma.nfs import mount, port_mapper, v3
from rpcrdma.nfs.client.paths import names_in, normal
from rpcrdma.nfs.client.port_mapper import PORT_MAPPER_PORT, PROTOCOL_TCP, check_may_be_asked
from rpcrdma.nfs.errors import NfsError, NfsNotFound, NfsPermission, nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.rpc.auth import AuthStat
from rpcrdma.rpc.program import Caller

__all__ = [
    "MOUNT_PORT",
    "Exported",
    "Mount",
    "NoSuchExport",
    "confirm_root",
    "connect_nfs",
    "list_exports",
    "mount_export",
    "mount_with",
    "unmount",
    "unproved",
]

T = TypeVar("T")

_LOGGER = logging.getLogger("rpcrdma.client")
_REMEDY = "name the TCP port of the server's MOUNT with ?mountport=PORT at the end of the URL"
_REFUSALS = (RpcError, RemoteProtocolError, RemoteAccessError, TransportClosed, CallTimeout, MessageTooLong)
"""Errors of a call that a server without MOUNT may cause: a refusal by RPC, an error of the transport, silence."""
_SHOWN_MAX = 8
_UNMOUNT_S = 1.0
"""The time limit of UMNT in seconds, when a file system is closed: no data depends on the call."""

MOUNT_PORT = 20048
"""The TCP port registered for the MOUNT protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """The answer of MNT: an export, its root handle, and the wanted directory below it.

    `export` is the name of the export, and `handle` its root handle. `directory` is the rest of the wanted path, as an
    absolute path from the root of the export.
    """

    export: str
    handle: bytes
    directory: str
    port: int = 0
    """The TCP port of the MOUNT service; 0 if MOUNT has answered on the connection to the NFS server."""
    listed: frozenset[str] = frozenset()
    """The names of the exports that the server lists; it may have others."""
    flavors: tuple[int, ...] = ()
    """The security flavors of the export, the preferred flavor first; empty if the server names none."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export of a server, as `list_exports` describes it.

    `clients` are the hosts or networks that may mount it, empty if MOUNT names none; None if NFS version 4 answered.
    `flavors` are the security flavors, empty if they are not known; None if this client may not mount the export.
    """

    name: str
    clients: tuple[str, ...] | None
    flavors: tuple[int, ...] | None = None


class NoSuchExport(NfsNotFound):
    """No export is at `path` or above it: a FileNotFoundError with a note that names exports of the server.

    `exports` are the names of all exports that the server lists, sorted.
    """

    def __init__(self, path: str, exports: Iterable[str]) -> None:
        super().__init__(nfsstat3.NFS3ERR_NOENT, path)
        self.exports = tuple(sorted(exports))
        more = len(self.exports) - _SHOWN_MAX
        names = ", ".join(self.exports[:_SHOWN_MAX])
        self.add_note(f"the server exports {names}{f' and {more} more' if more > 0 else ''}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.exports)


def unproved(options: ConnectOptions) -> ConnectOptions:
    """Returns `options` for a connection that asks MOUNT for the security flavors of an export: without Kerberos.

    MOUNT takes no proof of users (RFC 2623 section 2.7): `security` is "sys", for calls with the AUTH_SYS `credential`.
    `services` is empty: calls of the server, which a security flavor may have to protect, are not answered there.
    """
    return replace(options, security="sys", services=())


class _Silence(CallTimeout):
    """MOUNT does not answer on a connection on which NFS has answered meanwhile."""


async def connect_nfs(url: Url, options: ConnectOptions) -> Connection:
    """Returns a new connection to the host and port of `url`, for NFS and MOUNT; raises as `rpcrdma.connect`."""
    connection = await connect(str(replace(url, path="", mount_port=None)), v3.PROGRAM, options=options)
    # The NULL calls that ask for a sign of life stay those of NFS.
    connection.program = None
    return connection


async def mount_export(
    url: Url, options: ConnectOptions, nfs: Caller | None = None, *, mount_port: int | None = None
) -> Mount:
    """Mounts the export that holds `url.path`, at the first MOUNT service that answers; returns MNT's answer.

    Args:
        url: the URL; a MOUNT port that it names precedes `mount_port`.
        options: the settings of connections to MOUNT, and the time limit of each call (`connect_timeout_s`).
        nfs: a connection to the NFS server at `url`, made by `connect_nfs`; None: MOUNT is asked at TCP ports alone.
        mount_port: the TCP port of MOUNT for a URL that names none, which alone is asked; None: MOUNT is asked on
            `nfs`, at port 20048 and at the port that the port mapper names, until it answers.

    Raises:
        NotPermitted: this process may not take a reserved port.
        ConnectFailed: no MOUNT service answers (the message names the ports tried), or the NFS server has no version 3.
        CallTimeout: the MOUNT service at a TCP port takes the connection and stays silent; further ports are not tried.
        NfsError: the server refuses; FileNotFoundError if no export holds that path.
        RpcRdmaError: with `nfs`, NFS does not answer: the errors of `Caller.call`; or MOUNT breaks the protocol, or
            asks for more protection (AuthError).
    """

    async def mounted(caller: Caller, port: int) -> Mount:
        try:
            found = await mount_with(caller, url.path or "/", timeout_s=options.connect_timeout_s)
        except NoSuchExport as error:
            if port and nfs is not None and not (url.mount_port or mount_port):
                await _confirm_list(caller, nfs, url, port, error.exports, options.connect_timeout_s)
            raise
        export = replace(url, path=found.export, mount_port=None)
        _LOGGER.info("mounted %s: MOUNT at %s", export, authority(url.host, port or url.port))
        return replace(found, port=port)

    return await _at_mount_service(url, options, nfs, mount_port, mounted)


async def list_exports(url: Url, options: ConnectOptions, *, mount_port: int | None = None) -> list[Exported]:
    """Returns the exports of the server at `url`, with admitted hosts and security flavors, sorted by name.

    Asks in turn, until one answers, MOUNT at the port of NFS; NFS version 4 there, which names no hosts; and MOUNT at
    TCP port 20048 and at the port that the port mapper names, with a warning in the log: it may be another server's. If
    `url.mount_port`, or else `mount_port`, is a port, MOUNT there alone is asked. `options`: the settings of
    connections. At MOUNT, MNT (for flavors) and UMNT follow for each of the first 256 exports.

    Raises:
        NotPermitted: this process may not take a reserved port.
        ConnectFailed: NFS does not answer, or no MOUNT service; the message names the ports that were tried.
        NfsError: no export of a server of version 4 alone is open to this host.
        CallTimeout, RpcRdmaError: a service stays silent, breaks the protocol, or asks for more protection.
    """

    async def listed(caller: Caller, port: int) -> list[Exported]:
        if port and not (url.mount_port or mount_port):
            _LOGGER.warning(
                "%s lists no exports itself; these are the ones of MOUNT at %s, which may belong to another server: "
                "%s if it does",
                url.server,
                authority(url.host, port),
                _REMEDY,
            )
        nodes = await caller.call(mount.EXPORT, None, timeout_s=options.connect_timeout_s)
        found = []
        for number, node in enumerate(sorted(nodes, key=lambda node: node.ex_dir)):
            flavors: tuple[int, ...] | None = ()
            try:
                if number < EXPORTS_ASKED_MAX:
                    _, flavors = await _mnt(caller, node.ex_dir, options.connect_timeout_s)
                    await caller.call(mount.UMNT, node.ex_dir, timeout_s=options.connect_timeout_s)
            except NfsError as error:
                # Any other error says nothing of the client: MNT3ERR_IO and MNT3ERR_SERVERFAULT may pass.
                flavors = None if isinstance(error, NfsPermission) else ()
            found.append(Exported(node.ex_dir, tuple(group.gr_name for group in node.ex_groups), flavors))
        return found

    if url.mount_port or mount_port:
        return await _at_mount_service(url, options, None, mount_port, listed)
    async with await connect_nfs(url, unproved(options)) as nfs:
        return await _at_mount_service(url, options, nfs, None, listed, _listed_by_version_4)


async def _listed_by_version_4(nfs: Caller, timeout_s: float) -> list[Exported]:
    """Returns the exports of a server of NFS version 4, asked through `nfs`; each call takes `timeout_s` s at most.

    Raises NfsError if no export is open to this host, and RpcRdmaError if a call fails or is refused.
    """
    # Version 4 takes a tenth of a second to import.
    from rpcrdma.nfs.v4.client.pseudo_root import exports_at  # noqa: PLC0415

    return [Exported(os.fsdecode(each.path), None, each.flavors) for each in await exports_at(nfs, timeout_s)]


async def _at_mount_service(
    url: Url,
    options: ConnectOptions,
    nfs: Caller | None,
    mount_port: int | None,
    work: Callable[[Caller, int], Awaitable[T]],
    instead: Callable[[Caller, float], Awaitable[T]] | None = None,
) -> T:
    """Calls `work` with a connection to the first MOUNT service that answers, and its TCP port; returns its result.

    Args:
        url: the server.
        options: the settings of connections to MOUNT.
        nfs: the connection to NFS, on which MOUNT is asked first (`work` gets the port 0); None: TCP ports alone.
        mount_port: the TCP port of MOUNT if `url` names none; a named port is asked alone. None: the usual ports.
        work: takes the connection and the port. Errors that lead to the next service: on `nfs` a refusal by RPC, an
            error of the transport, CallTimeout; at TCP ports RpcError, TransportClosed, ConnectFailed but those below.
        instead: takes `nfs` and a time limit in seconds; called if MOUNT fails on `nfs` while NFS answers; its
            RpcRdmaError leads to TCP ports. None: no such call.

    Raises:
        ConnectFailed: no service answers, and the message names the ports tried; `nfs` answers no call at all; or a
            NULL call on `nfs`, made after MOUNT has failed, finds no NFS version 3.
        NotPermitted, HostNotFound, HostAuthenticationFailed: a connection to a TCP port fails so; no other is tried.
        NfsError, RpcRdmaError: other errors of `work`: CallTimeout at a TCP port, AuthError at a named one or, with
            AUTH_TOOWEAK, on `nfs`; NfsError of `instead`; or, before TCP ports are tried, that NULL call has no answer.
    """
    tried: list[str] = []
    mount_port = url.mount_port or mount_port
    if mount_port is None and nfs is not None:
        try:
            # An empty call comes first: a list of exports has no bound, and the memory that is offered for it over RDMA
            # might offend a server that does not offer MOUNT there.
            await _offers_mount(nfs, url, options.connect_timeout_s)
            return await work(nfs, 0)
        except _REFUSALS as error:
            if isinstance(error, AuthError) and error.stat == AuthStat.AUTH_TOOWEAK:
                # The connection has too little protection, in the clear for a server with TLS alone: for NFS as well.
                raise
            if instead is None or not isinstance(error, (RpcError, _Silence)):
                # If NFS does not answer either, that error matters more than MOUNT's; so does the lack of version 3.
                with contextlib.suppress(RpcError), contextlib.nullcontext() if instead else _version_3_at(url):
                    await nfs.call(v3.NULL, None, timeout_s=options.connect_timeout_s)
            tried.append(f"{url.server}: {_cause(error, url.host, url.port)}")
            if instead is not None:
                try:
                    return await instead(nfs, options.connect_timeout_s)
                except RpcRdmaError as refusal:
                    tried.append(f"NFS version 4 there: {_cause(refusal, url.host, url.port)}")
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
                    f"MOUNT at port {port} offers no TLS, as that of Linux; with "
                    "ConnectOptions(mount_in_clear=True) it is asked in the clear, and NFS in TLS"
                )
            raise
        except NfsError as error:
            if mount_port is None and url.port != DEFAULT_PORTS[url.scheme]:
                answered = authority(url.host, port)
                error.add_note(f"MOUNT was answered by {answered}; if {url.authority} is another server, {_REMEDY}")
            raise
        except (ConnectFailed, TransportClosed, RpcError) as error:
            if mount_port is not None and isinstance(error, AuthError):
                error.found_at(f"tcp://{authority(url.host, port)}")
                raise
            tried.append(f"TCP port {port}: {_cause(error, url.host, port)}")
    if nfs is not None:
        # Without an answer MOUNT is the better clue.
        with contextlib.suppress(*_REFUSALS), _version_3_at(url):
            await nfs.call(v3.NULL, None, timeout_s=options.connect_timeout_s)
    raise ConnectFailed(f"no MOUNT service answers at {url.host} ({', '.join(tried)}); {_REMEDY}")


@contextlib.contextmanager
def _version_3_at(url: Url) -> Iterator[None]:
    """Raises ConnectFailed in place of a ProgramMismatch in the `with` block: NFS at `url` has no version 3."""
    try:
        yield
    except ProgramMismatch as error:
        versions = f"version {error.low}" if error.low == error.high else f"versions {error.low} to {error.high}"
        raise ConnectFailed(
            f"the server at {url.authority} speaks NFS {versions} alone, and this client version 3; have it serve "
            "version 3 as well (rpcrdma serve does so by default), or mount it by a kernel (mount -t nfs)"
        ) from None


async def _offers_mount(nfs: Caller, url: Url, within_s: float) -> None:
    """Waits up to `within_s` seconds for MOUNT's answer to a NULL call on `nfs`; halfway, NFS gets a NULL call, too.

    Raises:
        ConnectFailed: neither has answered within the time.
        _Silence: NFS answers, and MOUNT does not.
        RpcRdmaError: the other errors of `Caller.call`, as for a server without MOUNT.
    """
    asked = [asyncio.ensure_future(nfs.call(mount.NULL, None, timeout_s=within_s))]
    try:
        await asyncio.wait(asked, timeout=within_s / 2)
        if not asked[0].done():
            asked.append(asyncio.ensure_future(nfs.call(v3.NULL, None, timeout_s=within_s / 2)))
        try:
            await asked[0]
        except CallTimeout as error:
            if len(asked) == 1:
                raise
            try:
                await asked[-1]
            except CallTimeout:
                raise unanswered(url.server, within_s) from None
            raise _Silence(str(error)) from None
    finally:
        for call in asked:
            call.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


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
    """Checks by GETATTR that the NFS server at `url`, to which `caller` leads, knows the root handle of `mounted`.

    Raises ConnectFailed: the handle is stale or malformed for that server, as another has answered MOUNT, or the server
    has no NFS version 3; RpcRdmaError: the other errors of `Caller.call`. Ignores other statuses of GETATTR.
    """
    with _version_3_at(url):
        reply = await caller.call(v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(mounted.handle)))
    if reply.status in {nfsstat3.NFS3ERR_STALE, nfsstat3.NFS3ERR_BADHANDLE}:
        raise ConnectFailed(
            f"the NFS server at {url.authority} does not know the handle of {mounted.export} that MOUNT at "
            f"{authority(url.host, mounted.port or url.port)} gave: MOUNT and NFS are not one server; {_REMEDY}"
        )


async def _confirm_list(
    caller: Caller, nfs: Caller, url: Url, port: int, exports: Sequence[str], within_s: float
) -> None:
    """Checks that MOUNT at `port` belongs to the server at `url`: that the server knows a root handle from MNT.

    One of the first 8 `exports` is taken: the first for which no call, of MNT, UMNT and GETATTR, is refused. If there
    is none, nothing is checked. `caller` leads to MOUNT, `nfs` to NFS. Each call of MOUNT waits up to `within_s`
    seconds. Raises ConnectFailed if the server does not know the handle, and RpcRdmaError for a call without an answer.
    """
    for export in exports[:_SHOWN_MAX]:
        with contextlib.suppress(NfsError, RpcError):
            handle, _ = await _mnt(caller, export, within_s)
            await caller.call(mount.UMNT, export, timeout_s=within_s)
            await confirm_root(nfs, url, Mount(export=export, handle=handle, directory="/", port=port))
            return


async def mount_with(caller: Caller, path: str, *, timeout_s: float | None = None) -> Mount:
    """Mounts, by MNT calls through `caller`, an export that holds `path`; returns the export and the path below it.

    Tries first the directories along `path` that the server lists as exports, then the others, the longest path first.
    `timeout_s` is the time limit of each call in seconds; None: the caller's default.

    Raises:
        NfsError: the server refuses all of these: the first refusal, `NoSuchExport` if that is NFS3ERR_NOENT and the
            server lists exports. A refusal other than NFS3ERR_NOENT, NFS3ERR_NOTDIR and NFS3ERR_ACCES is raised at
            once, without further tries.
        RpcRdmaError: the errors of `Caller.call`; RpcError for the list of exports is ignored.
    """
    names = names_in(path)
    candidates = ["/" + "/".join(names[:count]) for count in range(len(names), -1, -1)]
    listed: dict[str, list[str]] | None = None
    with contextlib.suppress(RpcError):
        exports = await caller.call(mount.EXPORT, None, timeout_s=timeout_s)
        listed = {normal(node.ex_dir): [group.gr_name for group in node.ex_groups] for node in exports}
        # A list may leave out exports that this caller may mount: listed ones are tried first, then all others.
        candidates.sort(key=listed.__contains__, reverse=True)
    first: NfsError | None = None
    for export in candidates:
        try:
            handle, flavors = await _mnt(caller, export, timeout_s)
        except NfsError as error:
            first = first or error
            if error.status not in {nfsstat3.NFS3ERR_NOENT, nfsstat3.NFS3ERR_NOTDIR, nfsstat3.NFS3ERR_ACCES}:
                raise
        else:
            below = "/".join(names[len(names_in(export)) :]) + ("/" if path.endswith("/") else "")
            known = frozenset(listed or ())
            return Mount(export=export, handle=handle, directory="/" + below.lstrip("/"), listed=known, flavors=flavors)
    assert first is not None, "there is at least one candidate"
    # Servers that hide their list answer with an empty one.
    if listed and isinstance(first, NfsNotFound):
        raise NoSuchExport(path, listed)
    if isinstance(first, NfsPermission):
        first.add_note(_why_refused(first.path or "", (listed or {}).get(first.path or "", [])))
    raise first


def _why_refused(export: str, admitted: Sequence[str]) -> str:
    """Returns why MOUNT refuses the path `export`; `admitted`: the hosts listed for it ("*": all), empty if unknown."""
    if not admitted or "*" in admitted:
        lacks = "to ports from 1024 on (ConnectOptions(reserved_port=True)), or without TLS with a certificate"
        lacks += ' (ConnectOptions(xprtsec="mtls")); its log may have the reason'
        return f"the server's MOUNT refuses {export} to this host or user, {lacks}"
    more = len(admitted) - _SHOWN_MAX
    shown = ", ".join(admitted[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"the server exports {export} to {shown} alone"


async def unmount(url: Url, mounted: Mount, options: ConnectOptions, nfs: Connection) -> None:
    """Sends UMNT for the export of `mounted`, so that the server knows that it is no longer used; ignores failures.

    Waits up to 1 s for the reply, and for MOUNT at a port of its own up to 1 s more for the connection. `url`: the
    server. `options`: those of a connection to such a port. `nfs`: the connection to MOUNT at NFS, unless it is lost.
    """
    with contextlib.suppress(RpcRdmaError):
        if mounted.port:
            async with await _connected(url, mounted.port, options, timeout_s=_UNMOUNT_S) as caller:
                await caller.call(mount.UMNT, mounted.export, timeout_s=_UNMOUNT_S)
        elif not nfs.lost:
            await nfs.call(mount.UMNT, mounted.export, timeout_s=_UNMOUNT_S)


async def _mnt(caller: Caller, export: str, timeout_s: float | None) -> tuple[bytes, tuple[int, ...]]:
    """Calls MNT; returns an export's (root handle, security flavors). Raises NfsError and errors of `Caller.call`."""
    reply = await caller.call(mount.MNT, export, timeout_s=timeout_s)
    if reply.value is None:
        raise nfs_error(nfsstat3(int(reply.fhs_status)), export)
    return reply.value.fhandle, tuple(reply.value.auth_flavors)


async def _ports(url: Url, mount_port: int | None, options: ConnectOptions, tried: list[str]) -> AsyncIterator[int]:
    if mount_port is not None:
        yield mount_port
        return
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
    """Returns the message of `error` up to "; ", without the "cannot connect to HOST:PORT: " or "HOST:PORT " before."""
    where = authority(host, port)
    return error.message.partition("; ")[0].removeprefix(f"cannot connect to {where}: ").removeprefix(f"{where} ")
