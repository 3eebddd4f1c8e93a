"""The URLs of services: `rdma://HOST[:PORT][/PATH][?mountport=PORT]`, and `tcp://`.

Where a server listens, `rdma://HOST[:PORT]?provider=NAME` chooses the provider.

The port of MOUNT may stand behind the server's own as well: `rdma://HOST:PORT+MOUNTPORT/PATH`. A URL of that form has
no character that a pattern of file names gives a meaning, and a path can be appended to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import quote, unquote, urlsplit

from rpcrdma.aio.drivers.provider import PROVIDERS, ProviderChoice
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import LocalProtocolError

__all__ = ["DEFAULT_PORTS", "Scheme", "Url", "parse_url", "url_form"]

Scheme = Literal["rdma", "tcp"]

DEFAULT_PORTS: dict[Scheme, int] = {"rdma": 20049, "tcp": 2049}
"""NFS over RDMA (RFC 8267 section 6.3) and NFS over TCP."""


_QUERY = re.compile(r"\?([^/?=]*=[^/?]*)$")
"""KEY=VALUE at the end. Any other question mark belongs to a name: file names have no queries."""

_AS_MOUNT = re.compile(r"((?:[^/:\[\]\s]+|\[[^\]/]+\])(?::\d+)?):(/(?!/).*)", re.DOTALL)
_USER = re.compile(r"^(\w+://)[^/?#@]*@")
_PLUS = re.compile(r"^([^:/]+://[^/+]+)\+([^/]*)")
"""The server's part up to a plus sign, and the port of MOUNT behind that."""

_UNSAFE = re.compile(r"%|\?(?=[^/?=]*=[^/?]*$)|[\udc80-\udcff]+")
"""Characters of a path that `parse_url` would take for something else, and octets that are no UTF-8."""

_OF_NAMES = str.maketrans({character: f"%{ord(character):02X}" for character in "#?\t\n\r"})
"""Characters of names: `urlsplit` would end the path at the first two and drop the other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A parsed URL of a service; `parse_url` of its `str` (with `listens` if `provider` is set) makes an equal object.

    `host` is a host name or an IP address, an IPv6 address without brackets. `path` is percent-decoded, and starts with
    "/" or is empty. `mount_port` is the TCP port of MOUNT, `provider` the name of the provider to listen over; None if
    the URL does not name it.
    """

    scheme: Scheme
    host: str
    port: int
    path: str = ""
    mount_port: int | None = None
    provider: ProviderChoice | None = None
    port_given: bool = field(default=True, compare=False)
    """False where the text named no port, and `port` is the default."""

    @property
    def authority(self) -> str:
        """HOST:PORT, with an IPv6 address in brackets."""
        return authority(self.host, self.port)

    @property
    def server(self) -> str:
        """The URL of the server alone: SCHEME://HOST:PORT."""
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        path = _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="surrogateescape"), self.path)
        query = "" if self.mount_port is None else f"?mountport={self.mount_port}"
        query += "" if self.provider is None else f"?provider={self.provider}"
        return f"{self.server}{path}{query}"


def url_form(text: str) -> str:
    """Returns a hint for messages about `text`, which is no URL: a clause that begins with "write".

    If `text` has the form HOST:/PATH of the command `mount`, the hint has the URLs that it may stand for; else the
    general form of URLs.
    """
    mounted = _AS_MOUNT.fullmatch(text)
    if mounted is None:
        return "write rdma://HOST[:PORT][/PATH] or tcp://HOST[:PORT][/PATH]"
    if mounted[1] in DEFAULT_PORTS:
        return f"write {mounted[1]}:/{mounted[2]}"
    return f"write rdma://{mounted[1]}{mounted[2]} or tcp://{mounted[1]}{mounted[2]}"


def parse_url(text: str, *, listens: bool = False) -> Url:
    """Parses the URL of a service.

    A port that `text` does not name is the scheme's default. `listens`: whether it is a URL at which a server listens,
    which may end with ?provider=NAME.

    Raises:
        LocalProtocolError: `text` is no such URL; the message names the fault.
        TypeError: `text` is no str.
    """
    if not isinstance(text, str):
        raise TypeError(f"a URL must be a str such as rdma://HOST/PATH, not {type(text).__name__}")
    form = url_form(text)
    user = _USER.match(text)
    if user is not None:
        # It may have a password.
        masked = f"{user[1]}***@{text[user.end() :]}"
        raise LocalProtocolError(f"{masked!r} names a user, whom no URL of a server has: leave out all up to '@'")
    mount_port = provider = None
    query = _QUERY.search(text)
    if query is not None:
        if listens and query[1].startswith("provider="):
            provider = _provider(text, query[1])
        else:
            mount_port = _mount_port(text, query[1])
        text = text[: query.start()]
    plus = _PLUS.match(text)
    if plus is not None:
        if mount_port is not None:
            raise LocalProtocolError(f"{text!r}: the port of MOUNT is named twice, behind '+' and as mountport")
        mount_port = _port_number(text, plus[2])
        text = plus[1] + text[plus.end() :]
    try:
        parts = urlsplit(text.translate(_OF_NAMES))
    except ValueError:
        raise LocalProtocolError(f"{text!r} has no valid address in its brackets: {form}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise LocalProtocolError(f"{text!r} is not a service URL: {form}")
    scheme = parts.scheme
    if parts.netloc.count(":") > 1 and "[" not in parts.netloc:
        raise LocalProtocolError(f"{text!r}: an IPv6 address stands in brackets, as in {scheme}://[::1]:20049")
    if not parts.hostname:
        raise LocalProtocolError(f"{text!r} names no host: {form}")
    try:
        port = parts.port
    except ValueError:
        raise LocalProtocolError(f"{text!r}: the port must be a number from 0 to 65535") from None
    path = unquote(parts.path, errors="surrogateescape")
    if "\0" in parts.hostname + path:
        raise LocalProtocolError(f"{text!r}: no name has a null character")
    return Url(
        scheme=scheme,
        host=parts.hostname,
        port=DEFAULT_PORTS[scheme] if port is None else port,
        path=path,
        mount_port=mount_port,
        provider=provider,
        port_given=port is not None,
    )


def _mount_port(text: str, query: str) -> int:
    key, _, value = query.partition("=")
    if key != "mountport":
        raise LocalProtocolError(
            f"{text!r}: {key!r} means nothing in a URL, which may end in ?mountport=PORT; "
            "write %3F for a question mark in a name"
        )
    return _port_number(text, value)


def _provider(text: str, query: str) -> ProviderChoice:
    value = query.partition("=")[2]
    if not text.startswith("rdma:") or value not in PROVIDERS:
        raise LocalProtocolError(f"{text!r}: provider= is for rdma:// and one of {', '.join(PROVIDERS)}")
    return cast("ProviderChoice", value)


def _port_number(text: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 65535:
        raise LocalProtocolError(f"{text!r}: mountport must be a number from 1 to 65535")
    return int(value)
