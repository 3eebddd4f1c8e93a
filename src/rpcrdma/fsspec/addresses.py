"""The URLs that data tools are given: `rdma://HOST[:PORT]/PATH[?mountport=PORT]`, and `nfstcp://`.

Host and ports become options of the file system, the path is what its methods take. A path stands in such a URL as it
is: data tools put URLs together from names without encoding them, so `%20` is the name's own. What they add goes
behind a `?mountport=PORT` as well, which therefore may stand in front of any slash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from fsspec.utils import stringify_path

from rpcrdma.aio.urls import Scheme, Url, parse_url
from rpcrdma.errors import LocalProtocolError

__all__ = ["PROTOCOLS", "ServerPath", "StripProtocol", "split_url", "url_options"]

PROTOCOLS: dict[str, Scheme] = {"rdma": "rdma", "nfstcp": "tcp"}
"""The schemes of fsspec's URLs, and which ones of `nfs_open` they stand for: `tcp` says too little among all of those
that fsspec knows, and universal-pathlib takes what follows a plus sign, as in `nfs+tcp`, for no part of the name."""

_MOUNT_PORT = re.compile(r"\?mountport=[^/?]*(?=/|$)")


def split_url(text: str) -> tuple[Url | None, str]:
    """(the server, the path in it): no server for a path alone, or where a URL leaves the host to the options.

    The path begins with a slash and ends in one only if it is the root.

    Raises:
        LocalProtocolError: the host or a port is not valid; the message says what is wrong and shows the form.
    """
    protocol, separator, rest = text.partition("://")
    if not separator or protocol not in PROTOCOLS:
        return None, _normal(text)
    query = _MOUNT_PORT.search(rest)
    if query is not None:
        rest = rest[: query.start()] + rest[query.end() :]
    if rest.startswith("[") and "]" not in rest:
        raise LocalProtocolError(
            f"{text!r}: fsspec splits URLs at '::'; write the address in full, or rdma:///PATH and the option "
            "host='::1'"
        )
    authority, _, path = rest.partition("/")
    if not authority:
        return None, _normal(path)
    return _server(f"{PROTOCOLS[protocol]}://{authority}{query[0] if query else ''}"), _normal(path)


def url_options(text: str) -> dict[str, str | int]:
    """The options of a file system that the URL has: `host`, and `port` and `mountport` where they are named."""
    server, _ = split_url(text)
    if server is None:
        return {}
    found: dict[str, str | int] = {"host": server.host}
    if server.port_given:
        found["port"] = server.port
    if server.mount_port is not None:
        found["mountport"] = server.mount_port
    return found


class KnowsItsServer(Protocol):
    """A file system."""

    def path_of(self, path: Any) -> Any:
        """The path of a URL of its server."""


class ServerPath(str):  # noqa: SLOT000 - one has a server, for which it needs a dictionary
    """A path that came out of a URL, and still knows of which server it is.

    fsspec splits all URLs of a list into server and path, and makes one file system for the first one's server. With
    plain paths that would look for the files of all servers there.
    """

    server: Url


class StripProtocol:
    """The path of a URL: fsspec asks the class where it has no file system, which knows what server it is of."""

    def __get__(self, filesystem: KnowsItsServer | None, owner: type) -> Callable[[Any], Any]:
        return _path if filesystem is None else filesystem.path_of


def _path(path: Any) -> Any:
    if isinstance(path, list):
        return [_path(each) for each in path]
    server, found = split_url(stringify_path(path))
    server = server or getattr(path, "server", None)
    if server is None:
        return found
    of_server = ServerPath(found)
    of_server.server = server
    return of_server


@lru_cache(maxsize=256)
def _server(url: str) -> Url:
    """`parse_url`, which every file of a data set asks for the same."""
    return parse_url(url)


def _normal(path: str) -> str:
    return "/" + path.strip("/")
