"""The servers that one file system reaches: the server of each path, and the options with which it is reached."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import AddressValueError, IPv6Address
from typing import Any, NamedTuple, TypeAlias

from fsspec.utils import tokenize

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import DEFAULT_PORTS, Url
from rpcrdma.fsspec.addresses import PROTOCOLS, server_of, split_path, strip_url
from rpcrdma.fsspec.known_files import KnownFiles, known_files
from rpcrdma.fsspec.mounts import Server
from rpcrdma.nfs.client import FileOptions

__all__ = ["MountPorts", "ServerPath", "Servers"]

MountPorts: TypeAlias = int | str | Mapping[str, int | str] | None
"""The TCP port of MOUNT, or the ports of several servers by HOST or HOST:PORT."""

_HOST = re.compile(r"\[[^\[\]/]+\]|[^\[\]/]+")


class ServerPath(NamedTuple):
    """A path, at its server: `path` begins with a slash, and `prefix` is the server as the whole path names it."""

    server: Server
    prefix: str
    path: str

    @property
    def name(self) -> str:
        """The whole path."""
        return self.prefix + self.path.rstrip("/") or "/"

    @property
    def known(self) -> KnownFiles:
        """The files of which the server has told a moment ago."""
        return known_files(self.server.key)


class Servers:
    """The servers by how paths name them, with the options of the file system.

    `port` and `mount_ports` speak of `host`; without a host they speak of every server whose path does not name such a
    port. A path without a server is of `host`.

    Raises:
        ValueError: `host` is no name or address of a host.
        LocalProtocolError: `mount_ports` has a server that is not valid.
    """

    def __init__(
        self,
        protocol: str,
        host: str | None,
        port: int | str | None,
        mount_ports: MountPorts,
        options: ConnectOptions | Mapping[str, Any] | None,
        files: FileOptions | Mapping[str, Any] | None,
    ) -> None:
        self._protocol = protocol
        self._port = int(port) if port else DEFAULT_PORTS[PROTOCOLS[protocol]]
        self._mount_port: int | None = None
        self._mount_ports: dict[tuple[str, int], int] = {}
        self._told = (options, files)
        self._options = options if isinstance(options, ConnectOptions) else ConnectOptions(**(options or {}))
        self._files = files if isinstance(files, FileOptions) else FileOptions(**(files or {}))
        self.own: Url | None = None
        """`host`, with its ports."""
        if isinstance(mount_ports, Mapping):
            self._mount_ports = {self._address(server): int(each) for server, each in mount_ports.items()}
        elif mount_ports is not None:
            self._mount_port = int(mount_ports)
        if host:
            own = Url(scheme=PROTOCOLS[protocol], host=self._checked(host), port=self._port)
            self.own = replace(own, mount_port=self._mount_port_of(own.host, own.port))
        self._found: dict[str, Server] = {}

    def place(self, path: str) -> ServerPath:
        """The place that a path or a URL names.

        Raises:
            ValueError: it names no server, and neither does the option `host`; or it is a URL of another protocol.
            LocalProtocolError: the server is not valid.
        """
        prefix, at = split_path(strip_url(path, self._protocol))
        server = self._found.get(prefix)
        if server is None:
            url = self.own if not prefix else self._named(server_of(self._protocol, prefix))
            if url is None:
                raise ValueError(
                    f"{at}: which server? Write {self._protocol}://HOST[:PORT]{at}, or give the option host= "
                    "(storage_options={'host': ...})"
                )
            server = self._found[prefix] = self._reached(url)
        return ServerPath(server, prefix, at)

    def used(self) -> Iterable[Server]:
        """The servers of the paths so far."""
        return list(self._found.values())

    def _named(self, url: Url) -> Url:
        """The server that a path names, with the ports that it leaves to the options."""
        if not url.port_given and (self.own is None or self.own.host == url.host):
            url = replace(url, port=self._port)
        if url.mount_port is None:
            url = replace(url, mount_port=self._mount_port_of(url.host, url.port))
        return replace(url, port_given=True)

    def _mount_port_of(self, host: str, port: int) -> int | None:
        of_all = self._mount_port if self.own is None or (host, port) == (self.own.host, self.own.port) else None
        return self._mount_ports.get((host, port), of_all)

    def _reached(self, url: Url) -> Server:
        return Server(url=url, options=self._options, files=self._files, key=tokenize(str(url), *self._told))

    def _address(self, server: str) -> tuple[str, int]:
        url = server_of(self._protocol, server)
        return url.host, url.port if url.port_given else self._port

    def _checked(self, host: str) -> str:
        bare = host.strip("[]").lower()
        if _HOST.fullmatch(host):
            with contextlib.suppress(AddressValueError):
                return str(IPv6Address(bare)) if ":" in bare else bare
        form = f"{self._protocol}://HOST[:PORT]/PATH"
        raise ValueError(
            f"{host!r} is no host: write {form}, or give the option host= (storage_options={{'host': ...}})"
        )
