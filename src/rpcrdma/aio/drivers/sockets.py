"""TCP sockets for the drivers: connecting, and the facts that they need."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import secrets
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from rpcrdma.errors import ConnectFailed, HostNotFound, NotPermitted

__all__ = [
    "KEEP_ALIVE_IDLE_S",
    "address_of",
    "addresses_of",
    "addresses_to_listen_at",
    "authority",
    "cannot_connect",
    "cannot_listen",
    "connected_socket",
    "fault_words",
    "local_socket",
    "maximum_segment_octets",
    "shortest_round_trip_s",
    "take_reserved_port",
    "tune",
    "unanswered",
]

_U32 = struct.Struct("=I")
_SEND_MSS_OFFSET = 16
_ADVERTISED_MSS_OFFSET = 84
_SHORTEST_ROUND_TRIP_OFFSET = 148
"""Layout of Linux's `struct tcp_info`: eight octets, 32-bit words, and among these four words of 64 bits."""

_NOT_MEASURED = (1 << 32) - 1

_HUGE_MSS_OCTETS = 16384

KEEP_ALIVE_IDLE_S = 60
"""Seconds of silence after which a peer is asked for a sign of life, as Linux's RPC over TCP does."""
_KEEP_ALIVE = {socket.TCP_KEEPIDLE: KEEP_ALIVE_IDLE_S, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
"""Seconds of silence, seconds between probes, probes: a connection to a dead machine ends within two minutes, as in
Linux's RPC over TCP."""

_CONGESTION_CONTROL_WITHIN_HOST = b"reno"
"""Every Linux kernel has it, and permits it to every program."""

_RESERVED_PORTS = range(665, 1024)
"""Local ports that prove a privileged caller: those of Linux's own RPC, above the ports of well-known services."""

_HEAD_START_S = 0.25
"""How long an address of a host is tried before the next one is tried as well (RFC 8305 section 5)."""

_NOT_A_NAME = "not a host name"

_DEFAULT_MSS_OCTETS = 536
"""TCP's default of the maximum segment size (RFC 9293 section 3.7.1)."""


def address_of(name: Any) -> tuple[str, int]:
    """Returns (address, port) for a result of `getsockname` or `getpeername`; an IPv4-mapped address becomes IPv4.

    A local socket has its path as address, and port 0.
    """
    if isinstance(name, str):
        return name, 0
    host: str = name[0]
    return host.removeprefix("::ffff:") if "." in host else host, name[1]


def maximum_segment_octets(sock: socket.socket) -> int:
    """Returns the effective maximum segment size in octets (EMSS) by which MPA sizes FPDUs (RFC 5044 section 4.5).

    If the kernel does not report it, TCP's default of 536 is returned.
    """
    send_mss, advertised_mss = (_tcp_info_word(sock, offset) for offset in (_SEND_MSS_OFFSET, _ADVERTISED_MSS_OFFSET))
    if send_mss is None or advertised_mss is None:
        return _DEFAULT_MSS_OCTETS
    # Linux keeps segments below half of the largest window seen so far, which on paths with huge segments (loopback)
    # is a passing state of a new connection.
    return max(send_mss, advertised_mss) if send_mss >= _HUGE_MSS_OCTETS else send_mss


def shortest_round_trip_s(sock: socket.socket) -> float | None:
    """Returns the shortest round trip that the kernel has measured on a connection, in seconds; None if unknown."""
    shortest_us = _tcp_info_word(sock, _SHORTEST_ROUND_TRIP_OFFSET)
    return None if shortest_us is None or shortest_us == _NOT_MEASURED else shortest_us / 1e6


def _tcp_info_word(sock: socket.socket, offset: int) -> int | None:
    """Returns the 32-bit word at `offset` octets in the kernel's `struct tcp_info` of a connection.

    Returns None if the structure of this kernel ends before that word, or if the socket is no TCP socket.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, offset + _U32.size)
    except OSError:
        return None
    return None if len(info) < offset + _U32.size else int(_U32.unpack_from(info, offset)[0])


def tune(sock: socket.socket) -> None:
    """Makes a connected TCP socket non-blocking and sets the options that iWARP and RPC over TCP need.

    TCP_NODELAY is set (RFC 5044 section 4.5), and keep-alive probes notice a dead machine. A connection within
    this machine has no path that could be congested: there the system's congestion control gives way to Reno, since BBR
    sets a timer for each segment, a tenth of the processor time of bulk data.

    Raises:
        OSError: the connection has ended.
    """
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    # The peer may be gone, or the system may refuse it: neither is a fault of the connection.
    with contextlib.suppress(OSError):
        if sock.getsockname()[0] == sock.getpeername()[0]:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _CONGESTION_CONTROL_WITHIN_HOST)


def authority(host: str, port: int | str) -> str:
    """Returns HOST:PORT, with an IPv6 address in brackets.

    Args:
        host: a host name or an address.
        port: the port, or a word in place of it.
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def addresses_of(host: str, port: int) -> list[tuple[Any, ...]]:
    """Looks up the addresses of a host to connect to: at least one tuple, as `getaddrinfo` returns for stream sockets.

    Returns these tuples in the order of preference.

    Raises:
        HostNotFound: the name has no address, or no name server answers.
    """
    try:
        try:
            return list(await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except RuntimeError:
            # The process ends: the threads that look names up end before its exit handlers run, and nothing else waits.
            return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or _NOT_A_NAME
        raise HostNotFound(
            f"cannot connect to {authority(host, port)}: {cause[0].lower()}{cause[1:]}; check the host name"
        ) from None


async def addresses_to_listen_at(host: str, port: int) -> list[tuple[Any, ...]]:
    """Looks up the addresses of a host of this machine: at least one tuple, as `getaddrinfo` returns.

    Returns these tuples, for stream sockets, in the order of preference.

    Raises:
        OSError: the name has no address, or no name server answers.
    """
    loop = asyncio.get_running_loop()
    try:
        return list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, _NOT_A_NAME) from None


async def connected_socket(host: str, port: int, *, reserved_port: bool = False) -> socket.socket:
    """Returns a socket connected to the first address of `host` that answers, with the options of `tune`.

    An address is tried when the one before has failed or has not answered for 250 ms, while that one is waited for.

    `reserved_port`: whether the local port is below 1024.

    Raises:
        NotPermitted: this process may not take a reserved port.
        HostNotFound: the name has no address, or no name server answers.
        ConnectFailed: no address answers, or no file descriptor or reserved port is free; the message names cause and
            remedy.
    """
    waiting = await addresses_of(host, port)
    attempts: set[asyncio.Task[None]] = set()
    connected: list[socket.socket] = []
    failure: OSError | ConnectFailed | None = None
    try:
        while not connected and (waiting or attempts):
            if waiting:
                where = authority(host, port) if reserved_port else None
                attempts.add(asyncio.create_task(_connect(waiting.pop(0), where, connected)))
            head_start_s = _HEAD_START_S if waiting else None
            ended, attempts = await asyncio.wait(attempts, timeout=head_start_s, return_when=asyncio.FIRST_COMPLETED)
            for attempt in ended:
                try:
                    attempt.result()
                except (OSError, ConnectFailed) as error:
                    failure = error
    except BaseException:
        for sock in connected:
            sock.close()
        raise
    finally:
        for attempt in attempts:
            attempt.cancel()
    if connected:
        return connected[0]
    if isinstance(failure, ConnectFailed):
        raise failure
    assert failure is not None, "getaddrinfo returns at least one address"
    raise cannot_connect(host, port, failure) from None


async def _connect(found: tuple[Any, ...], reserved_for: str | None, connected: list[socket.socket]) -> None:
    """Connects a socket to an address that `addresses_of` has found, and adds it to `connected` if that is empty.

    `reserved_for`: the server as HOST:PORT, if the local port is to be below 1024; else None.
    """
    family, kind, protocol, _, address = found
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        if reserved_for is not None:
            take_reserved_port(partial(_bind, sock), reserved_for)
        await asyncio.get_running_loop().sock_connect(sock, address)
        tune(sock)
        if not connected:
            connected.append(sock)
    finally:
        if sock not in connected:
            sock.close()


def local_socket(path: str) -> socket.socket:
    """Returns a non-blocking stream socket, connected to the local socket at `path`.

    Raises:
        ConnectFailed: nothing listens at `path`, this process may not connect, or too many clients wait there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A local socket is connected at once or not at all.
        sock.connect(path)
    except OSError as error:
        sock.close()
        refused = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
        cause = "too many clients wait" if isinstance(error, BlockingIOError) else os.strerror(error.errno or 0).lower()
        raise ConnectFailed(f"cannot connect to {path}: {cause}", refused=refused) from None
    return sock


def _bind(sock: socket.socket, port: int) -> None:
    sock.bind(("", port))


def take_reserved_port(bind: Callable[[int], None], where: str) -> None:
    """Binds to any free port from 665 to 1023, by which NFS servers recognise a privileged caller.

    Args:
        bind: binds to the port that it gets; raises OSError where it cannot.
        where: the server as HOST:PORT, for error messages.

    Raises:
        NotPermitted: this process may not take a reserved port.
        ConnectFailed: all of these ports are in use.
        OSError: `bind` failed in another way.
    """
    count = len(_RESERVED_PORTS)
    start = secrets.randbelow(count)
    for step in range(count):
        try:
            bind(_RESERVED_PORTS[(start + step) % count])
        except PermissionError:
            raise NotPermitted(
                f"cannot connect to {where} from a port below 1024: permission denied; that needs root or "
                "CAP_NET_BIND_SERVICE: run it with sudo, or do without the reserved port"
            ) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return
    raise ConnectFailed(
        f"cannot connect to {where} from a port below 1024: all from {_RESERVED_PORTS[0]} to {_RESERVED_PORTS[-1]} are "
        "in use; wait a minute for those of ended connections"
    )


def unanswered(where: str, after_s: float) -> ConnectFailed:
    """Returns the error for a server that did not answer in time.

    Args:
        where: the URL of the server, or HOST:PORT.
        after_s: the seconds that the caller waited.
    """
    return ConnectFailed(f"{where} did not answer within {after_s:g} s; check the address, the port and any firewall")


def fault_words(error: Exception) -> str:
    """Returns, in words, why a connection ends by `error`, which this side's own code has raised."""
    lacks = isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)
    return "there is no memory for a message" if lacks else "an internal error"


def cannot_connect(host: str, port: int, error: OSError) -> ConnectFailed:
    """Returns the error for a server to which no connection can be made; the message names cause and remedy.

    Args:
        host: the host of the server, as the user wrote it.
        port: the port of the server.
        error: the error of the socket.
    """
    refused = error.errno == errno.ECONNREFUSED
    remedy = "check that the server runs and listens there" if refused else "check the address and the network"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        remedy = "raise the limit of open files (ulimit -n), or close some"
    # The event loop puts the address before the cause; errors of name resolution have negative numbers.
    known = error.errno is not None and error.errno > 0
    cause = os.strerror(error.errno or 0) if known else error.strerror or str(error) or "no answer"
    return ConnectFailed(f"cannot connect to {authority(host, port)}: {cause.lower()}; {remedy}", refused=refused)


def cannot_listen(place: str, error: OSError | UnicodeError) -> ConnectFailed:
    """Returns the error for an address at which this process cannot listen; the message names cause and remedy.

    If the address is in use, the process that has it is looked for, which may block for half a second.

    Args:
        place: the URL, or HOST:PORT, of the address.
        error: the error of the socket, or the UnicodeError of a text that cannot be a host name.
    """
    if isinstance(error, UnicodeError):
        error = OSError(_NOT_A_NAME)
    cause = (error.strerror or str(error)).lower()
    remedy = "choose an address of this machine"
    if error.errno == errno.EADDRINUSE:
        from rpcrdma.aio.drivers.port_owner import address_in_use  # noqa: PLC0415 - clients do without it

        host, _, port = re.split("[/?]", place.partition("://")[2] or place, maxsplit=1)[0].rpartition(":")
        cause, remedy = address_in_use(host.strip("[]"), int(port))
        remedy = f"{remedy}, or choose another port (0 takes a free one)"
    elif error.errno in (errno.EACCES, errno.EPERM):
        remedy = "choose a port above 1023, or run as root"
    elif error.errno == errno.ENOSYS:
        # The words of a provider, which name its own remedy.
        cause, remedy = str(error.strerror), "otherwise take provider iwarp"
    return ConnectFailed(f"cannot listen at {place}: {cause}; {remedy}")
