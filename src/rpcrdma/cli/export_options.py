"""The arguments of `rpcrdma serve` for exports, the hosts allowed, and the directory of its state."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from rpcrdma.rpc.gss.flavors import SECURITY_NAMES, SecurityFlavor, security_flavor
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec

__all__ = [
    "ExportArgument",
    "Exported",
    "absolute_export_name",
    "allowed_networks",
    "default_state_dir",
    "existing_directory",
    "export_name",
    "fsspec_url",
    "parse_export",
    "parse_root",
    "parse_security",
    "served_directory",
]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
"""The beginning of a URL of fsspec: s3://bucket, zip::s3://bucket/file. A directory of such a name is ./NAME."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class ExportArgument:
    """An export as the command line or a file has it: `own` has the terms that it does not leave to the defaults.

    `origins` has the place of the export in a file under "", and those of its own terms; it is empty for exports of the
    command line.
    """

    name: str
    source: Path | str
    own: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A directory with the name under which clients mount it, and all terms, by the attributes of their settings.

    `source` is a directory of this machine, or the URL of a file system of fsspec. `sec` has the flavors with which the
    export may be used, the preferred one first; None for those without a proof.
    """

    name: str
    source: Path | str
    access: str
    squash: str
    anonuid: int
    anongid: int
    sync: bool
    sec: tuple[SecurityFlavor, ...] | None
    xprtsec: XprtSec
    mount_in_clear: bool
    hosts: Sequence[str]
    groups: Literal["client", "server"]
    fsspec_valid: float
    mount_point: bool
    missing: str
    origins: Mapping[str, str]
    """The place of the export in a file under "", and that of each term by its attribute."""

    @property
    def is_read_only(self) -> bool:
        """Whether changes are refused, as every export of a URL refuses them."""
        return self.access == "ro" or isinstance(self.source, str)

    @property
    def security(self) -> tuple[SecurityFlavor, ...]:
        """The security flavors."""
        from rpcrdma.nfs.export.export import UNPROVED  # noqa: PLC0415

        return UNPROVED if self.sec is None else self.sec

    @property
    def shown(self) -> str:
        """The source as people may see it: an absolute path, or a URL without its password."""
        if isinstance(self.source, Path):
            return str(self.source.absolute())
        from rpcrdma.nfs.export.fsspec_store import shown_url  # noqa: PLC0415

        return shown_url(self.source)


def parse_xprtsec(text: str) -> XprtSec:
    """Parses an argument none, tls or mtls."""
    for choice in XPRTSEC_CHOICES:
        if text == choice:
            return choice
    raise argparse.ArgumentTypeError(f"{text!r} is no protection by TLS: {', '.join(XPRTSEC_CHOICES)}")


def parse_security(text: str) -> tuple[SecurityFlavor, ...]:
    """Parses an argument such as krb5p:krb5i, the preferred flavor first."""
    try:
        found = tuple(security_flavor(name) for name in text.split(":"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} names a security flavor twice")
    return found


_SWITCHES: Final = {"ro": ("access", "ro"), "rw": ("access", "rw")}
"""Options without a value: the field of `Exported`, and its value."""
_VALUED: Final[dict[str, tuple[str, Callable[[str], Any], frozenset[str]]]] = {
    "sec": ("sec", parse_security, frozenset(SECURITY_NAMES)),
    "xprtsec": ("xprtsec", parse_xprtsec, frozenset()),
}
"""Options with a value: the field, the parser, and words that may continue the value after a colon."""


def parse_export(text: str) -> ExportArgument:
    """Parses an argument NAME=DIR or NAME=URL with options, each after a colon.

    The options are ro, rw, sec=FLAVOR[:FLAVOR]..., and xprtsec=none, tls or mtls. They are read from the end, so that a
    directory may have colons in its name.
    """
    name, equals, directory = text.partition("=")
    if not equals or not directory:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an export: write NAME=DIR, NAME=URL, or NAME=DIR:ro for read-only"
        )
    if (path := export_name(name)) in {None, "/"}:
        raise argparse.ArgumentTypeError(f"{text!r}: the name must be a path such as data or home/data")
    fields: dict[str, Any] = {}
    while (found := _last_option(directory)) is not None:
        directory, field, value = found
        if field in fields:
            raise argparse.ArgumentTypeError(f"{text!r} has two options for one thing")
        fields[field] = value
    source = _source(directory)
    if isinstance(source, str) and fields.get("access") == "rw":
        raise argparse.ArgumentTypeError(f"{text!r}: a URL is exported read-only: leave out :rw")
    return ExportArgument(str(path), source, fields)


def parse_root(text: str) -> ExportArgument:
    """Parses an argument DIR or URL, to be exported as /."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or directory is empty")
    return ExportArgument("/", _source(text))


def export_name(text: str) -> str | None:
    """Returns the name of an export with a slash before it and none at its end; None if it cannot be one."""
    parts = text.strip("/").split("/")
    if parts != [""] and any(part in {"", ".", ".."} for part in parts):
        return None
    return "/" + "/".join(parts)


def absolute_export_name(text: str) -> str:
    """Parses the name of an export in a file, which has a slash before it."""
    name = export_name(text)
    if name is None or name != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of an export; write {name or '/NAME'}")
    return name


def fsspec_url(text: str) -> str:
    """Parses the URL of a file system of fsspec."""
    if not _URL.match(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; write PROTOCOL://PATH, or directory for a directory")
    return text


def _source(text: str) -> Path | str:
    return text if _URL.match(text) else Path(text)


def _last_option(text: str) -> tuple[str, str, Any] | None:
    """Splits off the last option: the text before it, its field and its value; None if the text ends with no option."""
    rest, colon, word = text.rpartition(":")
    if not colon or not rest:
        return None
    if word in _SWITCHES:
        return rest, *_SWITCHES[word]
    value: list[str] = []
    while colon and rest:
        key, equals, first = word.partition("=")
        if equals and key in _VALUED:
            field, parse, _ = _VALUED[key]
            return rest, field, parse(":".join([first, *value]))
        if not any(word in words for _, _, words in _VALUED.values()):
            return None
        value.insert(0, word)
        rest, colon, word = rest.rpartition(":")
    return None


def existing_directory(directory: Path) -> Path:
    """Returns the absolute path of a directory.

    Raises:
        OSError: `directory` is no directory, or cannot be read; the error has the absolute path.
    """
    try:
        found = directory.resolve(strict=True)
        if not stat.S_ISDIR(found.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(found, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        # `resolve` names the first missing part of the path.
        error.filename = str(directory.absolute())
        raise
    return found


def served_directory(export: Exported) -> Path | None:
    """Returns the absolute path of an export's directory; None for a URL.

    Raises:
        OSError: it is no directory, cannot be read, or has no file system mounted, if it must be a mount point.
    """
    if isinstance(export.source, str):
        return None
    directory = existing_directory(export.source)
    if export.mount_point and not directory.is_mount():
        raise OSError(f"{directory}: no file system is mounted there; mount it")
    return directory


def allowed_networks(texts: Sequence[str]) -> list[Network]:
    """Returns the networks of addresses, networks and host names.

    Raises:
        OSError: a host name has no address.
    """
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            try:
                found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                cause = getattr(error, "strerror", None) or str(error)
                raise OSError(errno.EINVAL, f"neither an address, a network nor a host name ({cause})", text) from None
            networks += [ipaddress.ip_network(str(address[0]).partition("%")[0]) for *_, address in found]
    return networks


def default_state_dir() -> Path:
    """Returns the directory of the state that must survive a restart: below $XDG_STATE_HOME if that is set.

    Otherwise it is the machine's for root, and the user's for others.
    """
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "rpcrdma"
    return Path("/var/lib/rpcrdma") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "rpcrdma"
