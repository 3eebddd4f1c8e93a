"""The URLs of data tools, `rdma://HOST[:PORT][+MOUNTPORT]/PATH` and `nfstcp://`, and the paths in them.

A path begins with its server, as one of s3 begins with its bucket: `HOST:PORT+MOUNTPORT/PATH`, with the ports that the
URL names. Tools put such paths and `rdma://` together again, so either is read back to the same server, and no server
is written with a character of patterns or with `::`, at which fsspec splits URLs: an IPv6 address has all of its eight
groups and no brackets. A path that begins with a slash leaves its server to the options of the file system.

The rest of a path stands as it is: data tools put URLs together from names without encoding them, so `%20` is the
name's own. They append names to a `?mountport=PORT` as well, which therefore may stand in front of any slash of a URL.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv6Address

from rpcrdma.aio.urls import Scheme, Url, parse_url
from rpcrdma.errors import LocalProtocolError

__all__ = ["PROTOCOLS", "authority_of", "server_of", "split_path", "strip_url"]

PROTOCOLS: dict[str, Scheme] = {"rdma": "rdma", "nfstcp": "tcp"}
"""The schemes of fsspec's URLs, and which ones of `nfs_open` they stand for: `tcp` says too little among all of those
that fsspec knows, and universal-pathlib takes what follows a plus sign, as in `nfs+tcp`, for no part of the name."""

_MOUNT_PORT = re.compile(r"\?mountport=[^/?]*(?=/|$)")

_EIGHT_GROUPS = re.compile(r"((?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?:%[^:+?]*)?)(?![^:+?])", re.IGNORECASE)


def strip_url(text: str, protocol: str) -> str:
    """The path of a URL, or a path in its usual form: "SERVER/PATH", "SERVER" alone, "/PATH" or "/".

    Raises:
        ValueError: the URL is one of another protocol.
        LocalProtocolError: the server is not valid; the message says why and shows the form.
    """
    scheme, separator, rest = text.partition("://")
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
    """(the server, the path in it) of a path in its usual form; the server is empty if the path names none."""
    server, _, path = stripped.partition("/")
    return server, f"/{path}"


@lru_cache(maxsize=256)
def server_of(protocol: str, authority: str) -> Url:
    """The server that is named at the beginning of a path or URL.

    Raises:
        LocalProtocolError: it is not valid; the message says why and shows the form.
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
    """The server as paths name it, with those of its ports that are known."""
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
