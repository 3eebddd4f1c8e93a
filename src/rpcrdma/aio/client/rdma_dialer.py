"""Connecting over RDMA, in a version of the protocol that the server speaks.

A server that knows none of the versions that begin with a message of their own says so, and the connection goes on with
another one. Some only lose the connection, or say nothing: then one more is made, with the version that every server
knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.provider import Link, Provider
from rpcrdma.aio.drivers.sockets import unanswered
from rpcrdma.aio.urls import Url
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, TransportClosed
from rpcrdma.transport import offered

__all__ = ["RdmaDialer"]

_LOGGER = logging.getLogger("rpcrdma.client")


class _MakeConnection(Protocol):
    def __call__(self, link: Link, *, version: str, on_version_refused: Callable[[], None] | None) -> RdmaConnection:
        """A connection over `link`."""


class RdmaDialer:
    """Makes connections to the server of one URL; `make` puts one on a link of `provider`.

    `version` is one of `rpcrdma.transport.VERSION_CHOICES`; with a choice of several, `known` has versions of servers.
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

    async def dial(self) -> RdmaConnection:
        """An established connection.

        Raises:
            HostAuthenticationFailed: the hosts are not content with each other.
            ConnectFailed: no connection could be made; the message names cause, attempts and remedy.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._dial()
        except TimeoutError:
            raise unanswered(self.url.host, self.url.port, self._timeout_s) from None

    async def _dial(self) -> RdmaConnection:
        *_, fallback = self._names
        loop, known, server = asyncio.get_running_loop(), self._known, self.server
        if len(self._names) > 1 and known.version_of(server, loop.time()) == fallback:
            return await self._established(await self._begin(fallback, on_version_refused=lambda: known.forget(server)))
        connection = await self._begin(self._version)
        try:
            await self._established(connection, answer_s=self._timeout_s / 2)
        except ConnectFailed:
            if len(self._names) == 1 or not connection.unanswered:
                raise
            first = connection
            trying = "%s: version %s of RPC-over-RDMA had no answer, trying version %s"
            _LOGGER.info(trying, self.url.authority, self._names[0], fallback)
        else:
            if len(self._names) > 1:
                known.found(server, connection.negotiated.dialect, loop.time())
            return connection
        try:
            connection = await self._established(await self._begin(fallback))
        except ConnectFailed as error:
            lost = "" if first.end_reason is None else f" ({first.end_reason.reason})"
            tried = f"version {self._names[0]} of RPC-over-RDMA had no answer{lost}, then version {fallback} was tried"
            raise ConnectFailed(f"{error}; {tried}", refused=error.refused) from None
        known.guessed(server, fallback, loop.time(), connection.statistics)
        return connection

    async def _begin(self, version: str, on_version_refused: Callable[[], None] | None = None) -> RdmaConnection:
        link = await self.provider.connect(self.url.host, self.url.port, reserved_port=self._reserved_port)
        return self._make(link, version=version, on_version_refused=on_version_refused)

    async def _established(self, connection: RdmaConnection, *, answer_s: float | None = None) -> RdmaConnection:
        """Waits until the connection stands, or has failed; `answer_s` at most if the server does not answer."""
        try:
            await self._wait(connection, answer_s)
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

    async def _wait(self, connection: RdmaConnection, answer_s: float | None) -> None:
        if answer_s is not None:
            try:
                async with asyncio.timeout(answer_s):
                    await connection.wait_established()
                    return
            except TimeoutError:
                if connection.unanswered:
                    # The rest of the time is for the version that every server knows.
                    connection.abort(f"no answer within {answer_s:g} s")
        await connection.wait_established()
