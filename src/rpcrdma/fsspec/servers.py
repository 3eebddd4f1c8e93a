"""The servers that one file system reaches, by its URLs, `rdma://HOST[:PORT][+MOUNTPORT]/PATH` and `nfstcp://`.

A path begins with its server, as one of s3 begins with its bucket: `HOST:PORT+MOUNTPORT/PATH`, with the ports that the
URL names. Tools put such paths and `rdma://` together again, so either is read back to the same server, and no server
is written with a character of patterns or with `::`, at which fsspec splits URLs: an IPv6 address has all of its eight
groups and no brackets. A path that begins with a slash leaves its server to the options of the file system.

The rest of a path stands as it is: data tools put URLs together from names without encoding them, so `%20` is the
name's own. They append names to a `?mountport=PORT` as well, which therefore may stand in front of any slash of a URL.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Any, NamedTuple, TypeAlias, TypeVar

from fsspec.utils import tokenize

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import DEFAULT_PORTS, Scheme, Url, parse_url
from rpcrdma.errors import LocalProtocolError
from rpcrdma.fsspec.known_files import KnownFiles, known_files
from rpcrdma.fsspec.mounts import Server
from rpcrdma.nfs.client import FileOptions

__all__ = [
    "PROTOCOLS",
    "MountPorts",
    "ServerPath",
    "Servers",
    "authority_of",
    "number_of",
    "server_of",
    "split_path",
    "strip_url",
]

N = TypeVar("N", int, float)

PROTOCOLS: dict[str, Scheme] = {"rdma": "rdma", "nfstcp": "tcp"}
"""The schemes of fsspec's URLs, and the schemes of `nfs_open` that they stand for.

`tcp` says too little among all of those that fsspec knows, and universal-pathlib takes the text after a plus sign, as
in `nfs+tcp`, for no part of the name.
"""

_MOUNT_PORT = re.compile(r"\?mountport=[^/?]*(?=/|$)")

_EIGHT_GROUPS = re.compile(r"((?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?:%[^:+?]*)?)(?![^:+?])", re.IGNORECASE)

MountPorts: TypeAlias = int | str | Mapping[str, int | str] | None
"""The TCP port of MOUNT, or the ports of several servers by HOST or HOST:PORT."""

_HOST = re.compile(r"\[[^\[\]/]+\]|[^\[\]/]+")


class ServerPath(NamedTuple):
    """A path at its server, as `Servers.place` finds it.

    Attributes:
        server: the server.
        prefix: the server as the caller's path names it; empty if it names none.
        path: the path at the server, which begins with a slash.
        known: the cache of the server's files.
    """

    server: Server
    prefix: str
    path: str
    known: KnownFiles

    @property
    def name(self) -> str:
        """`prefix` and `path` joined, without a slash at the end; "/" if nothing else is left."""
        return self.prefix + self.path.rstrip("/") or "/"

    @property
    def key(self) -> str:
        """The key of `path` in the cache `known`: without double slashes, and without "." before the last name."""
        *above, last = self.path.split("/")
        return "/".join(("", *(name for name in above if name not in {"", "."}), last))


class Servers:
    """Finds the servers that paths name, with the options of a file system of fsspec.

    Args:
        protocol: "rdma" or "nfstcp".
        host: the server of paths that name none; None: every path must name its server.
        port: the port of `host`; without a host, of every server whose path names no port. None: the usual port.
        mount_ports: the TCP port of MOUNT at `host`, or without a host at every server; or ports by HOST or HOST:PORT.
            At other servers, and with None, MOUNT is asked on the connection to NFS, then at port 20048, then at the
            port that the port mapper names.
        options: the settings of connections, or their fields by name; None for the defaults.
        files: bounds of calls and listings, or their fields by name; None for the defaults.

    Raises:
        ValueError: `host` is no name or address of a host, or a port is no number.
        LocalProtocolError: `mount_ports` has a server that is not valid.
        TypeError: `options` or `files` has an unknown field.
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
        self._port = number_of("port", port, int) if port else DEFAULT_PORTS[PROTOCOLS[protocol]]
        self._mount_port: int | None = None
        self._mount_ports: dict[tuple[str, int], int] = {}
        self._told = (options, files)
        self._options = options if isinstance(options, ConnectOptions) else ConnectOptions(**(options or {}))
        self._files = files if isinstance(files, FileOptions) else FileOptions(**(files or {}))
        self.own: Url | None = None
        """The URL of `host` with its ports; None without a host."""
        if isinstance(mount_ports, Mapping):
            self._mount_ports = {
                self._address(server): number_of("mountport", each, int) for server, each in mount_ports.items()
            }
        elif mount_ports is not None:
            self._mount_port = number_of("mountport", mount_ports, int)
        if host:
            own = Url(scheme=PROTOCOLS[protocol], host=self._checked(host), port=self._port)
            self.own = replace(own, mount_port=self._mount_port_of(own.host, own.port))
        self._found: dict[str, Server] = {}

    def place(self, path: str) -> ServerPath:
        """Returns the server that `path`, a path or URL, names, with the path at the server and the server's cache.

        Raises:
            ValueError: `path` names no server, and neither does the option `host`; or it is a URL of another protocol.
            LocalProtocolError: the server is not valid.
            TypeError: `path` is no str.
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
        return ServerPath(server, prefix, at, known_files(server.key))

    def used(self) -> Iterable[Server]:
        """Returns the servers that `place` has returned so far; one that paths name in several ways may be repeated."""
        return list(self._found.values())

    def _named(self, url: Url) -> Url:
        """Returns `url` with the ports of the options in place of those that it does not name.

        The option `port` applies to the host that the option `host` names, or without that option to any host. The
        port of MOUNT is that which the options have for the server; None if they have none.
        """
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
        bare = str(host).strip("[]").lower()
        if isinstance(host, str) and _HOST.fullmatch(host):
            with contextlib.suppress(AddressValueError):
                return str(IPv6Address(bare)) if ":" in bare else bare
        form = f"{self._protocol}://HOST[:PORT]/PATH"
        raise ValueError(
            f"{host!r} is no host: write {form}, or give the option host= (storage_options={{'host': ...}})"
        )


def number_of(name: str, value: Any, kind: Callable[[Any], N]) -> N:
    """Returns `kind(value)`: the value of the option `name`, a number or a number's text, as an int or float.

    Raises:
        ValueError: `value` is no such number; the message has `name`.
    """
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"the option {name} must be a number, not {value!r}") from None


def strip_url(text: str, protocol: str) -> str:
    """Returns `text`, a URL or a path, without scheme and last slash: "SERVER/PATH", "SERVER" alone, "/PATH" or "/".

    SERVER is HOST[:PORT][+MOUNTPORT], also for a URL with ?mountport=. `protocol` is the scheme, "rdma" or "nfstcp".

    Raises:
        TypeError: the path is no str.
        ValueError: the URL is of another protocol.
        LocalProtocolError: the server is not valid; the message says why and shows the form.
    """
    try:
        scheme, separator, rest = text.partition("://")
    except (AttributeError, TypeError):
        raise TypeError(f"a path must be of type str or os.PathLike, not {type(text).__name__}") from None
    query = None
    if separator and "/" not in scheme:
        if scheme != protocol:
            raise ValueError(f"{text!r} is no URL of {protocol}://, and no path: those begin with HOST or with '/'")
        query = _MOUNT_PORT.search(rest)
        if query is not None:
            rest = rest[: query.start()] + rest[query.end() :]
    else:
        # Only a query of the server itself is one: the names of files may end like that.
        rest = text
    authority, _, path = rest.partition("/")
    path = path.strip("/")
    if not authority:
        return f"/{path}"
    server = _usual_form(protocol, authority + (query[0] if query else ""))
    return f"{server}/{path}" if path else server


def split_path(stripped: str) -> tuple[str, str]:
    """Splits a path without scheme, as `strip_url` returns it, into (SERVER, "/PATH").

    SERVER is "" if the path names none; "/PATH" is "/" for a server alone.
    """
    server, _, path = stripped.partition("/")
    return server, f"/{path}"


@lru_cache(maxsize=256)
def server_of(protocol: str, authority: str) -> Url:
    """Parses `authority`, the part of a path or URL that names the server; returns the server's URL.

    `authority` is HOST[:PORT][+MOUNTPORT] or has "?mountport=PORT" at its end. `protocol` is "rdma" or "nfstcp".

    Raises:
        LocalProtocolError: `authority` is not valid; the message says why and shows the form.
    """
    if authority.startswith("[") and "]" not in authority:
        raise LocalProtocolError(
            f"{authority!r}: fsspec splits URLs at '::'; write the address in full, or rdma:///PATH and the option "
            "host='::1'"
        )
    groups = _EIGHT_GROUPS.match(authority)
    if groups is not None:
        authority = f"[{groups[1]}]{authority[groups.end() :]}"
    url = parse_url(f"{PROTOCOLS[protocol]}://{authority}")
    return replace(url, host=str(IPv6Address(url.host))) if ":" in url.host else url


def authority_of(url: Url) -> str:
    """Returns the server of `url` as paths name it: HOST[:PORT][+MOUNTPORT], with only the ports that the URL names.

    An IPv6 address has all of its eight groups, and no brackets.
    """
    host = url.host
    if ":" in host:
        address = IPv6Address(host)
        groups = address.packed.hex(":", 2).split(":")
        host = ":".join(f"{int(group, 16):x}" for group in groups)
        if address.scope_id is not None:
            host += f"%{address.scope_id}"
    port = f":{url.port}" if url.port_given else ""
    mount_port = "" if url.mount_port is None else f"+{url.mount_port}"
    return f"{host}{port}{mount_port}"


@lru_cache(maxsize=256)
def _usual_form(protocol: str, authority: str) -> str:
    return authority_of(server_of(protocol, authority))
