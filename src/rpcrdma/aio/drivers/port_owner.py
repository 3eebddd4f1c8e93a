"""The process that listens at an address of this machine, as far as /proc shows it to this user."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from rpcrdma.wire.peer_text import printable

__all__ = ["address_in_use"]

_IN_USE: Final = "address already in use"
_LISTENS: Final = "0A"
_DESCRIPTORS_MAX: Final = 1 << 16
"""Descriptors that are looked at, half a second: an error waits for no more."""
_PROC: Final = Path("/proc")
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_in_use(host: str, port: int) -> tuple[str, str]:
    """Returns cause and remedy where another socket has the address at which this process wants to listen.

    The cause names the process that has it, if this user may see its descriptors. May take half a second.

    Args:
        host: an address, or a name.
        port: the port.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(host, port)}
    owner = _owner(sockets) if sockets else None
    if owner == os.getpid():
        return f"{_IN_USE} by this process", "listen there once"
    if owner is not None:
        return f"{_IN_USE} by {_name(owner)} (pid {owner})", "stop it"
    if sockets and _of_kernel(port):
        return f"{_IN_USE} by Linux's own NFS server", "stop it (systemctl stop nfs-server)"
    return _IN_USE, "stop what listens there"


def _listening(host: str, port: int) -> Iterator[str]:
    """Yields the inode numbers of the sockets that listen at a port, with the address of `host` among theirs."""
    try:
        wanted = [ipaddress.ip_address(host)]
    except ValueError:
        wanted = []
    for table in ("tcp", "tcp6"):
        try:
            with (_PROC / "net" / table).open() as lines:
                next(lines, None)
                for line in lines:
                    columns = line.split()
                    if columns[3] != _LISTENS:
                        # Those that listen are the first ones, before maybe a million of connections.
                        break
                    address, _, number = columns[1].partition(":")
                    present = _address(address)
                    if int(number, 16) == port and all(_meet(present, each) for each in wanted):
                        yield columns[9]
        except OSError:
            continue


def _address(text: str) -> _Address:
    """Returns an address of /proc/net: words of 32 bits in hexadecimal, in the order of octets of this machine."""
    octets = bytes.fromhex(text)
    if sys.byteorder == "little":
        octets = b"".join(octets[at : at + 4][::-1] for at in range(0, len(octets), 4))
    return ipaddress.ip_address(octets)


def _meet(one: _Address, other: _Address) -> bool:
    """Returns whether two sockets with these addresses may get in each other's way at one port."""
    one, other = (getattr(each, "ipv4_mapped", None) or each for each in (one, other))
    return one == other or one.is_unspecified or other.is_unspecified


def _owner(sockets: set[str]) -> int | None:
    """Returns the process that has one of `sockets` open, the links of their descriptors; None: none is seen.

    Of several it is the one with the lowest number, which has started the others, but not that of systemd.
    """
    left = _DESCRIPTORS_MAX
    numbers = sorted(int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())
    for number in (*(each for each in numbers if each != 1), 1):
        try:
            descriptors = [*(_PROC / str(number) / "fd").iterdir()]
        except OSError:
            # It has ended, or is another user's.
            continue
        left -= len(descriptors)
        if left < 0:
            break
        for descriptor in descriptors:
            # It may be closed meanwhile.
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()) in sockets:
                    return number
    return None


def _name(process: int) -> str:
    try:
        name = (_PROC / str(process) / "comm").read_text(errors="surrogateescape")
    except OSError:
        return "a process"
    return printable(name.removesuffix("\n"))


def _of_kernel(port: int) -> bool:
    """Returns whether Linux's own NFS server, which has no descriptors, listens at a port."""
    try:
        return f"tcp {port}" in (_PROC / "fs/nfsd/portlist").read_text().splitlines()
    except OSError:
        return False
