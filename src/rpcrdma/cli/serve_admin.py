"""The answers of `rpcrdma serve` to `rpcrdma admin`, over its local socket."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rpcrdma import __version__
from rpcrdma.commands import console
from rpcrdma.errors import ConnectFailed

if TYPE_CHECKING:
    from rpcrdma.aio.server.admin_socket import AdminSocket
    from rpcrdma.aio.server.serve import Server
    from rpcrdma.aio.server.server_statistics import HostStatistics
    from rpcrdma.cli.serve_reload import ConfigurationReload
    from rpcrdma.nfs.server import NfsServices
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["AdminAnswers", "admin_socket_path"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NAME: Final = "admin.sock"


def admin_socket_path(setting: Path | str | None, state_dir: Path) -> Path | None:
    """Returns the path of a server's admin socket; None if the setting turns it off.

    `setting` is the value of `admin`: a path, "off", or None for the default, admin.sock in `state_dir`.
    """
    if setting is None:
        return state_dir / _NAME
    return setting if isinstance(setting, Path) else None


@dataclass(frozen=True, slots=True)
class AdminAnswers:
    """Answers the requests of `rpcrdma admin` at a running server: status, clients, exports, and revoking state."""

    args: argparse.Namespace
    """The settings of the server."""
    server: Server
    services: NfsServices
    """The server's services of NFS version 3 and MOUNT."""
    nfs4: Nfs4Service | None
    """The service of version 4; None: it is not offered."""
    away: Callable[[], Mapping[str, str]]
    """Returns the cause for each export whose files cannot be reached, by the export's name."""
    reload: ConfigurationReload | None
    """Reads the configuration again; None: there is no file."""
    started_s: float = field(default_factory=time.monotonic)

    async def start(self) -> AdminSocket | None:
        """Starts to listen at the admin socket, and to answer there.

        Returns:
            The socket, to be closed after the server. None: the setting is "off", or the default socket cannot be made,
            as when another server has it, which the log says.

        Raises:
            ConnectFailed: the socket that the settings name cannot be made.
        """
        setting = self.args.admin
        path = admin_socket_path(setting, self.args.state_dir)
        if path is None:
            return None
        from rpcrdma.aio.server.admin_socket import AdminSocket, SocketInUse  # noqa: PLC0415

        handlers = {"status": self._status, "clients": self._clients, "exports": self._exports, "revoke": self._revoke}
        admin = AdminSocket(path, handlers)
        try:
            admin.start()
        except OSError as error:
            cause = error.strerror or str(error)
            if setting is not None:
                remedy = "stop that server" if isinstance(error, SocketInUse) else "mend that"
                end = "" if "; " in cause else f"; {remedy}, or name another path"
                raise ConnectFailed(f"{cause}{end} (--admin PATH)") from None
            _LOGGER.warning("%s; rpcrdma admin does not reach this server (--admin PATH gives it a socket)", cause)
            return None
        return admin

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        found = self.server.statistics()
        names = {export.name for export in self.args.exports}
        absent = sorted(names & self.away().keys())
        now_s = time.monotonic()
        grace = None
        clients = 0
        if self.nfs4 is not None:
            state = self.nfs4.state
            with state.lock:
                clients = len(state.clients.by_id)
                grace = {
                    "active": state.claims.in_grace,
                    "left_s": round(state.grace.left_s(now_s), 1) if state.claims.in_grace else 0,
                    "awaited": len(state.grace.waiting),
                }
        last = None if self.reload is None else self.reload.last
        return {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": round(now_s - self.started_s, 1),
            "listening": list(self.server.listening),
            "config": None if self.args.config is None else str(self.args.config),
            "last_reload": None if last is None else {"unix_s": round(last[0], 3), "result": last[1] or "done"},
            "grace": grace,
            "clients": clients,
            "connections": {"rdma": found.rdma.connections, "tcp": found.tcp.connections},
            "calls": {"rdma": found.rdma.calls, "tcp": found.tcp.calls, "running": found.calls_running},
            "memory": {"used_bytes": found.buffer_octets_lent, "limit_bytes": found.buffer_octets_max},
            "exports": {"available": len(names) - len(absent), "absent": absent},
        }

    async def _clients(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        from rpcrdma.aio.server.server_statistics import HostStatistics  # noqa: PLC0415

        clients: list[dict[str, Any]] = []
        if self.nfs4 is not None:
            from rpcrdma.nfs.v4.server.client_reports import clients_of  # noqa: PLC0415

            state = self.nfs4.state
            # Of thousands of clients it takes a tenth of a second.
            clients = await asyncio.to_thread(lambda: [_plain(each) for each in clients_of(state, time.monotonic())])
        versions: dict[str, set[str]] = {}
        mounts: dict[str, list[str]] = {}
        for client in clients:
            versions.setdefault(client["address"], set()).update(client["versions"])
        for address, path in self.services.mount.mounts():
            versions.setdefault(address, set()).add("3")
            mounts.setdefault(address, []).append(path)
        hosts = []
        seen = set()
        for host in await self.server.hosts():
            seen.add(host.address)
            hosts.append(_host(host, versions, mounts))
        hosts += [
            _host(HostStatistics(address=address), versions, mounts) for address in sorted(versions.keys() - seen)
        ]
        return {"hosts": hosts, "clients": clients}

    async def _exports(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        from rpcrdma.nfs.export.file_handle import export_identity  # noqa: PLC0415

        held: Mapping[bytes, Any] = {}
        if self.nfs4 is not None:
            from rpcrdma.nfs.v4.server.client_reports import held_by_export  # noqa: PLC0415

            held = await asyncio.to_thread(held_by_export, self.nfs4.state, time.monotonic())
        away = self.away()
        exports = []
        for export in self.args.exports:
            of_export = held.get(export_identity(export.name))
            exports.append(
                {
                    "name": export.name,
                    "source": export.shown,
                    "access": export.most_access,
                    "available": export.name not in away,
                    **({"opens": 0, "locks": 0, "delegations": 0} if of_export is None else asdict(of_export)),
                }
            )
        return {"exports": exports}

    async def _revoke(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name = request.get("client")
        if not isinstance(name, str) or not name:
            raise LookupError("the request names no client; rpcrdma admin clients lists them")
        if self.nfs4 is not None:
            from rpcrdma.nfs.v4.server.client_reports import revoke_client  # noqa: PLC0415

            found = await asyncio.to_thread(revoke_client, self.nfs4.state, name, time.monotonic())
            if found is not None:
                lost = asdict(found.holdings)
                _tell(f"client {found.id} ({found.name} at {found.address})", lost)
                return {"client": found.id, "address": found.address, "name": found.name, **lost, "mounts": []}
        mounts = self.services.mount.forget_host(name)
        if not mounts:
            raise LookupError(
                f"there is no client of version 4 with the id {name!r}, nor a mount of version 3 by a host of this "
                "address; rpcrdma admin clients lists the ids, and the mounts"
            )
        _tell(f"host {name}", {"mounts": len(mounts)})
        return {
            "client": name, "address": name, "name": "", "opens": 0, "locks": 0, "delegations": 0, "mounts": mounts,
        }  # fmt: skip


def _plain(report: Any) -> dict[str, Any]:
    """Converts a `ClientReport` on a client of NFS version 4 to a JSON object, with the items of its `holdings`."""
    found = asdict(report)
    found |= found.pop("holdings")
    return {**found, "versions": list(report.versions), "silent_s": round(report.silent_s, 1)}


def _host(host: HostStatistics, versions: Mapping[str, set[str]], mounts: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        "address": host.address,
        "rdma_connections": host.rdma_connections,
        "tcp_connections": host.tcp_connections,
        "versions": sorted(versions.get(host.address, ())),
        "calls": host.calls,
        "bytes_received": host.octets_received,
        "bytes_sent": host.octets_sent,
        "mounts": mounts.get(host.address, []),
    }


def _tell(client: str, lost: Mapping[str, int]) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in lost.items())
    event = {"event": "revoked", "client": client, **lost}
    text = "the administrator has revoked the state of %s: %s"
    _LOGGER.info(text, client, counts, extra={**console.NOTICE, "event": event})
