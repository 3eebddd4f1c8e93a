"""Listening sockets: accepting without ever spinning or giving up."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Listening
from rpcrdma.aio.drivers.sockets import addresses_to_listen_at, authority, tune

__all__ = ["Listener"]

_BACKLOG = 128
_ALL_OF_IPV4 = frozenset({"0.0.0.0"})  # noqa: S104 - to be recognised
_ACCEPT_RETRY_S = 1.0
"""Seconds without accepting after this process has run out of files or memory. The connection stays in the backlog, so
the loop would otherwise report it as ready all the time."""


class Listener:
    """Accepts TCP connections at the addresses of hosts, and passes each socket to `on_connection`.

    The sockets are non-blocking, with the options of `tune`. If `on_connection` raises OSError, the socket is closed,
    and nothing is logged. `log` gets failures to accept, after which the listener accepts again in 1 s.
    """

    def __init__(self, on_connection: Callable[[socket.socket], None], log: LimitedLog) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_connection = on_connection
        self._log = log
        self._sockets: list[socket.socket] = []
        self._asked: dict[socket.socket, set[str]] = {}
        """The IPv4 addresses that were asked for, beside its own, at a socket that has all of them: one of "::" that
        takes both families, or of 0.0.0.0 in its place."""
        self._retries: set[asyncio.TimerHandle] = set()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each listening socket, in the order in which they were added."""
        return [sock.getsockname()[:2] for sock in self._sockets]

    async def listen(self, host: str, port: int) -> list[Listening]:
        """Starts to accept at every address of `host`, a name or an IP address, and returns these addresses.

        Port 0 takes a free port, the same for all addresses. The address "::" alone takes IPv4 connections as well, as
        with most servers on Linux, unless this listener has an IPv4 address with the same port. An IPv4 address that is
        served in this way already is returned, too.

        Raises:
            OSError: `host` is unknown, or an address is in use, not of this machine or not permitted. No address is
                added then.
        """
        added: list[socket.socket] = []
        served: list[Listening] = []
        addresses = await addresses_to_listen_at(host, port)
        try:
            for family, kind, protocol, _, address in addresses:
                if family == socket.AF_INET and self._asked_at(port) is not None:
                    served.append(Listening(str(address[0]), port))
                    continue
                sock = socket.socket(family, kind, protocol)
                added.append(sock)
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    everywhere = address[0] == "::" and len(addresses) == 1 and not self._has_ipv4(port)
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not everywhere)
                sock.bind((address[0], port, *address[2:]))
                sock.listen(_BACKLOG)
                host, port = sock.getsockname()[:2]
                served.append(Listening(host, port))
                if family == socket.AF_INET6 and everywhere:
                    self._asked[sock] = set()
        except BaseException:
            for sock in added:
                sock.close()
            raise
        for sock in added:
            self._sockets.append(sock)
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        if (asked := self._asked_at(port)) is not None:
            asked.update(each.host for each in served if ":" not in each.host)
        return served

    def _asked_at(self, port: int) -> set[str] | None:
        """Returns the IPv4 addresses given to `listen`, if one socket serves all of IPv4 at the port; else None."""
        return next((asked for sock, asked in self._asked.items() if sock.getsockname()[1] == port), None)

    def _has_ipv4(self, port: int) -> bool:
        return any(sock.family == socket.AF_INET and sock.getsockname()[1] == port for sock in self._sockets)

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        """Stops accepting at the given pairs of host and port; accepted connections continue.

        Unknown pairs have no effect. When the socket of "::" is closed, each IPv4 address that it served gets a socket
        of its own, or all share one of 0.0.0.0 if that is among them; an address that fails is given up, and logged.
        While "::" stays, it takes all IPv4 connections, also those to addresses at which accepting was stopped.
        """
        for host, port in places:
            (self._asked_at(port) or set()).discard(host)
        for sock in [each for each in self._sockets if each.getsockname()[:2] in places]:
            self._sockets.remove(sock)
            port = sock.getsockname()[1]
            self._loop.remove_reader(sock.fileno())
            sock.close()
            asked = self._asked.pop(sock, set())
            for host in asked & _ALL_OF_IPV4 or sorted(asked):
                self._go_on_at(host, port, asked - {host})

    def _go_on_at(self, host: str, port: int, others: set[str]) -> None:
        try:
            sock = socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as error:
            where = authority(host, port)
            self._log.log(logging.ERROR, "listen", "cannot listen at %s any more: %s", where, error.strerror)
            return
        sock.setblocking(False)
        self._sockets.append(sock)
        self._loop.add_reader(sock.fileno(), self._accept, sock)
        if host in _ALL_OF_IPV4:
            self._asked[sock] = others

    def close(self) -> None:
        """Stops accepting at every address; accepted connections continue."""
        for retry in self._retries:
            retry.cancel()
        self._retries.clear()
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        self._asked.clear()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_BACKLOG):
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if listener not in self._sockets:
                    # `on_connection` has called `stop` or `close`.
                    return
                self._log.log(logging.ERROR, "accept", "cannot accept a connection: %s", error.strerror)
                self._pause(listener)
                return
            try:
                tune(sock)
                self._on_connection(sock)
            except OSError:
                # The peer was gone before anything could be said to it.
                sock.close()

    def _pause(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener.fileno())
        retry: asyncio.TimerHandle

        def again() -> None:
            self._retries.discard(retry)
            if listener not in self._sockets:
                return
            self._loop.add_reader(listener.fileno(), self._accept, listener)

        retry = self._loop.call_later(_ACCEPT_RETRY_S, again)
        self._retries.add(retry)
