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
    """Returns (cause, remedy), clauses for an error: another socket listens where this process wants to listen.

    The cause names the process that has that socket, if this user may see its file descriptors. May block for half a
    second.

    Args:
        host: the IP address at which this process wants to listen, or a host name.
        port: the TCP port.
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
    """Yields the inode numbers, as text, of the TCP sockets that keep others from listening at `host` and `port`.

    They listen at `port`; their address equals `host`, or one of both is unspecified (0.0.0.0 or ::). If `host` is a
    name, all sockets that listen at the port are yielded.
    """
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
    """Returns the IP address that `text` from /proc/net/tcp or tcp6 denotes.

    `text` has 32-bit words in hexadecimal, each in this machine's order of octets.
    """
    octets = bytes.fromhex(text)
    if sys.byteorder == "little":
        octets = b"".join(octets[at : at + 4][::-1] for at in range(0, len(octets), 4))
    return ipaddress.ip_address(octets)


def _meet(one: _Address, other: _Address) -> bool:
    """Returns whether two sockets cannot both listen at these addresses with one port: equal, or one unspecified.

    An IPv4-mapped IPv6 address counts as IPv4.
    """
    one, other = (getattr(each, "ipv4_mapped", None) or each for each in (one, other))
    return one == other or one.is_unspecified or other.is_unspecified


def _owner(sockets: set[str]) -> int | None:
    """Returns the process ID of a process that has one of `sockets` open; None if none is found.

    `sockets` are texts such as "socket:[INODE]", as the links in /proc/PID/fd have them. Of several processes the one
    with the lowest ID is taken, since it has started the others; process 1 comes last. Only processes whose descriptors
    this user may see are found, and of more than _DESCRIPTORS_MAX descriptors only the first ones are looked at.
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
    """Returns whether Linux's own NFS server, which has no file descriptors, listens at the TCP port `port`.

    False also if the kernel's list of these ports cannot be read.
    """
    try:
        return f"tcp {port}" in (_PROC / "fs/nfsd/portlist").read_text().splitlines()
    except OSError:
        return False
