"""The arguments of `rpcrdma serve` for exports, the hosts allowed, and the directory of its state."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Exported", "allowed_networks", "default_state_dir", "existing_directory", "parse_export"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A directory and the name that clients mount it by; `read_only` None: as the command's options say."""

    name: str
    directory: Path
    read_only: bool | None = None


def parse_export(text: str) -> Exported:
    """An argument NAME=DIR, NAME=DIR:ro or NAME=DIR:rw."""
    name, equals, directory = text.partition("=")
    name = name.strip("/")
    if not equals or not directory:
        raise argparse.ArgumentTypeError(f"{text!r} is not an export: write NAME=DIR, or NAME=DIR:ro for read-only")
    if not name or "//" in name or any(part in {".", ".."} for part in name.split("/")):
        raise argparse.ArgumentTypeError(f"{text!r}: the name must be a path such as data or home/data")
    read_only = None
    for suffix, value in ((":ro", True), (":rw", False)):
        if directory.endswith(suffix):
            directory, read_only = directory.removesuffix(suffix), value
            break
    return Exported(name="/" + name, directory=Path(directory), read_only=read_only)


def existing_directory(directory: Path) -> Path:
    """The absolute path of a directory.

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


def allowed_networks(texts: list[str]) -> list[Network]:
    """The networks that addresses, networks and host names stand for.

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
    """The directory of the state that must survive a restart: for root the machine's, for others the user's."""
    if os.geteuid() == 0:
        return Path("/var/lib/rpcrdma")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "rpcrdma"
