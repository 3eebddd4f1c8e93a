"""The URLs of services: `rdma://HOST[:PORT][/PATH]` and `tcp://HOST[:PORT][/PATH]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from rpcrdma.aio.sockets import authority
from rpcrdma.errors import LocalProtocolError

__all__ = ["DEFAULT_PORTS", "Scheme", "Url", "parse_url"]

Scheme = Literal["rdma", "tcp"]

DEFAULT_PORTS: dict[Scheme, int] = {"rdma": 20049, "tcp": 2049}
"""NFS over RDMA (RFC 8267 section 6.3) and NFS over TCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A parsed URL; `path` is percent-decoded and starts with "/" or is empty."""

    scheme: Scheme
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> str:
        """HOST:PORT, an IPv6 address in brackets."""
        return authority(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Url:
    """Parses a service URL.

    Raises:
        LocalProtocolError: it is not one; the message says what is wrong and shows the form.
    """
    form = "write rdma://HOST[:PORT][/PATH] or tcp://HOST[:PORT][/PATH]"
    # A path may hold "?" and "#", which mean nothing in a file name's URL.
    try:
        parts = urlsplit(text.replace("#", "%23").replace("?", "%3F"))
    except ValueError:
        raise LocalProtocolError(f"{text!r} has no valid address in its brackets: {form}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise LocalProtocolError(f"{text!r} is not a service URL: {form}")
    scheme = parts.scheme
    if not parts.hostname or parts.username is not None:
        raise LocalProtocolError(f"{text!r} names no host: {form}")
    try:
        port = parts.port
    except ValueError:
        raise LocalProtocolError(f"{text!r}: the port must be a number from 0 to 65535") from None
    path = unquote(parts.path, errors="surrogateescape")
    return Url(scheme=scheme, host=parts.hostname, port=DEFAULT_PORTS[scheme] if port is None else port, path=path)
