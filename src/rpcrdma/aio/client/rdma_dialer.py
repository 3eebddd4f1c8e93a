"""Connecting over RDMA, in a version of the protocol that the server speaks.

A server without the versions that begin with a message of their own says so, and the connection continues in another
version. Some servers only end the connection, or stay silent: then a second one is made in the version that every
server knows. A busy server stays silent, too. It answers its oldest message first, so the first connection stays open
meanwhile, and is used if it is answered by the time that the second one is established. A server known to speak the
newer version is not asked in an older one because of its silence, or of one lost connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.provider import Link, Provider
from rpcrdma.aio.drivers.sockets import cannot_connect, unanswered
from rpcrdma.aio.urls import Url
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, TransportClosed
from rpcrdma.limits import NEGOTIATION_S
from rpcrdma.transport import offered

__all__ = ["RdmaDialer", "end_attempts", "with_added_cause"]

_LOGGER = logging.getLogger("rpcrdma.client")
_PATIENCE = 0.1
"""The part of the time for the first answer in which that answer still counts after a second connection exists."""


class _MakeConnection(Protocol):
    def __call__(self, link: Link, *, version: str, on_version_refused: Callable[[], None] | None) -> RdmaConnection:
        """Returns a new connection, not established yet, over `link`, a path to the server.

        `version` is "auto", "1" or "2". `on_version_refused` is called when the server refuses a call because of the
        version, and the connection then ends; None: the call alone fails.
        """


class RdmaDialer:
    """Makes connections to the server of `url` over one provider, in a version of RPC-over-RDMA that the server speaks.

    Args:
        provider: the implementation of RDMA.
        url: the server.
        make: makes the connection over a link of the provider.
        version: one of `rpcrdma.transport.VERSION_CHOICES`.
        known: remembers versions of servers, if `version` permits several; updated.
        timeout_s: the time limit of `dial` in seconds.
        reserved_port: whether to connect from a port below 1024.
    """

    def __init__(
        self,
        provider: Provider,
        url: Url,
        make: _MakeConnection,
        *,
        version: str,
        known: KnownServers,
        timeout_s: float,
        reserved_port: bool,
    ) -> None:
        self.provider = provider
        self.url = url
        self._make = make
        self._version = version
        self._names = [dialect.name for dialect in offered(version)]
        self._known = known
        self.server = (provider.name, url.host, url.port)
        self._timeout_s = timeout_s
        self._reserved_port = reserved_port
        self._first: RdmaConnection | None = None

    async def dial(self) -> RdmaConnection:
        """Makes a connection and returns it when it is established.

        Raises:
            HostNotFound: the host name has no address, or no name server answers.
            HostAuthenticationFailed: either host refused the other.
            NotPermitted: the process may not take a reserved port.
            ConnectFailed: no connection could be made in time; the message names cause, attempts and remedy.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._dial()
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> ConnectFailed:
        """Returns the error for an attempt to connect that has used up its time.

        If `known` has the newest version offered as that of the server, the entry is removed: the server may speak
        another one.
        """
        newest = self._names[0]
        if self._known.speaks(self.server, newest):
            self._known.forget(self.server)
        if self._first is None or not self._first.unanswered:
            return unanswered(self.url.server, self._timeout_s)
        cause = f"no answer in version {newest} of RPC-over-RDMA within {self._timeout_s:g} s"
        return ConnectFailed(self.provider.explain_unmade(self.url.authority, cause))

    async def _dial(self) -> RdmaConnection:
        newest, fallback = self._names[0], self._names[-1]
        known, server = self._known, self.server
        if newest != fallback and known.version_of(server, asyncio.get_running_loop().time()) == fallback:
            return await self._made(fallback, on_version_refused=lambda: known.forget(server))
        self._first = await self._begin(self._version)
        attempts = [asyncio.ensure_future(self._established(self._first))]
        chosen = None
        try:
            chosen = await self._choose(self._first, attempts)
            return chosen
        finally:
            end_attempts(attempts, chosen, "another version was answered")

    async def _choose(self, first: RdmaConnection, attempts: list[asyncio.Task[RdmaConnection]]) -> RdmaConnection:
        """Returns the connection of the first attempt, in the newest version offered, or of a second, in the oldest.

        `first` is the connection of the only task in `attempts`. If it has no answer after NEGOTIATION_S seconds, or
        half of `timeout_s` if that is less, or ends without one, a second attempt is made and its task appended to
        `attempts`. The caller ends the connection that is not chosen. The version found is recorded in `known`.

        If a single version is offered, or `known` has the newest one as that of the server, the method waits for the
        first attempt alone. If the server then ends the connection without an answer, although `known` has its version,
        its entry there is removed, and the method returns the connection of a new `_dial`, in any version offered.

        Raises:
            HostAuthenticationFailed: either host refused the other.
            HostNotFound: the host name has no address, or no name server answers.
            NotPermitted: the process may not take a reserved port.
            ConnectFailed: both attempts, or the only one, failed.
        """
        newest, fallback = self._names[0], self._names[-1]
        loop, known, server = asyncio.get_running_loop(), self._known, self.server
        (answer,) = attempts
        patient = newest == fallback or known.speaks(server, newest)
        answer_s = min(NEGOTIATION_S, self._timeout_s / 2)
        await asyncio.wait(attempts, timeout=None if patient else answer_s)
        failed = answer.exception() if answer.done() else None
        silent = first.unanswered and (not answer.done() or isinstance(failed, ConnectFailed))
        if newest == fallback or not silent:
            connection = await answer
            if newest != fallback:
                known.found(server, str(connection.negotiated.version), loop.time())
            return connection
        if patient:
            # It is known to speak this version: a server that is restarted, or has too many start-ups, ends some.
            known.forget(server)
            return await self._dial()
        trying = "%s: version %s of RPC-over-RDMA had no answer, trying version %s"
        _LOGGER.info(trying, self.url.authority, newest, fallback)
        second = asyncio.ensure_future(self._made(fallback))
        attempts.append(second)
        if not answer.done():
            await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
            refused = second.done() and second.exception() is not None
            await asyncio.wait([answer], timeout=None if refused else answer_s * _PATIENCE)
        if answer.done() and answer.exception() is None:
            known.found(server, str(first.negotiated.version), loop.time())
            return first
        try:
            connection = await second
        except ConnectFailed as error:
            if type(error) is not ConnectFailed:
                raise
            lost = "" if first.end_reason is None else f" ({first.end_reason.reason})"
            tried = f", in version {fallback} of RPC-over-RDMA after version {newest} had no answer{lost}"
            raise with_added_cause(error, tried) from None
        known.guessed(server, fallback, loop.time(), connection.statistics)
        return connection

    async def _made(self, version: str, on_version_refused: Callable[[], None] | None = None) -> RdmaConnection:
        return await self._established(await self._begin(version, on_version_refused))

    async def _begin(self, version: str, on_version_refused: Callable[[], None] | None = None) -> RdmaConnection:
        host, port = self.url.host, self.url.port
        link: Link | None = None
        try:
            link = await self.provider.connect(host, port, reserved_port=self._reserved_port)
            return self._make(link, version=version, on_version_refused=on_version_refused)
        except OSError as error:
            if link is not None:
                link.refuse()
            raise cannot_connect(host, port, error) from error

    async def _established(self, connection: RdmaConnection) -> RdmaConnection:
        """Waits until the connection is established, and returns it; after any failure the connection is ended.

        Raises:
            HostAuthenticationFailed: either host refused the other.
            ConnectFailed: the connection failed for another reason; the message names the remedy.
        """
        try:
            await connection.wait_established()
        except BaseException as error:
            connection.abort("connecting was given up")
            if isinstance(error, HostAuthenticationFailed):
                raise HostAuthenticationFailed(f"{self.url.authority}: {error}", cause=error.cause) from None
            if not isinstance(error, TransportClosed):
                raise
            if connection.version_refused:
                raise ConnectFailed(f"{self.url.authority}: {error}") from None
            raise ConnectFailed(self.provider.explain_unmade(self.url.authority, str(error))) from None
        return connection


def with_added_cause(error: ConnectFailed, more: str) -> ConnectFailed:
    """Returns a copy of `error` whose message has `more` behind the cause, before the last "; " and the remedy.

    A message without "; " has `more` at its end. `more` is inserted unchanged, and so begins with its own separator.
    """
    cause, semicolon, remedy = str(error).rpartition("; ")
    return ConnectFailed(f"{cause}{more}; {remedy}" if semicolon else f"{remedy}{more}", refused=error.refused)


def end_attempts(attempts: Iterable[asyncio.Task[RdmaConnection]], chosen: RdmaConnection | None, reason: str) -> None:
    """Cancels attempts to connect; their connections, except `chosen`, end with `reason` as soon as the attempts do.

    The function awaits nothing: if its caller were cancelled meanwhile, `chosen` would be lost, and stay open.
    """

    def end(attempt: asyncio.Task[RdmaConnection]) -> None:
        if not attempt.cancelled() and attempt.exception() is None and (made := attempt.result()) is not chosen:
            made.abort(reason)

    for attempt in attempts:
        attempt.cancel()
        attempt.add_done_callback(end)
