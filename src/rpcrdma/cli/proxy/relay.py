"""Forwards the octets of connections between a client and a server, message by message, with the faults of rules."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rpcrdma import limits
from rpcrdma.cli.proxy.rules import Decision, ProxyRule, RuledConnection
from rpcrdma.dissect.connection import IwarpConnection, Settings
from rpcrdma.dissect.fields import Message
from rpcrdma.simulation.worlds.faults import Side

__all__ = ["Relay"]

_READ_OCTETS = 1 << 18
_CONNECT_S = 10.0
_SIDES = (Side.CLIENT, Side.SERVER)

Told = Callable[[int, float, Side, Message, Decision], None]
"""Called with each fault: the number of the connection, the time since it began, the sender, the message."""


class Relay:
    """Takes connections, and forwards each to the server in a task of its own."""

    def __init__(
        self, address: tuple[str, int], rules: Sequence[ProxyRule], settings: Callable[[], Settings], told: Told
    ) -> None:
        self._address = address
        self._rules = rules
        self._settings = settings
        self._told = told
        self._connections = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards a connection until both directions have ended, or one was cut."""
        self._connections += 1
        number = self._connections
        try:
            async with asyncio.timeout(_CONNECT_S):
                onward_reader, onward_writer = await asyncio.open_connection(*self._address)
        except OSError:
            # To the client the server is not there.
            writer.transport.abort()
            return
        halves = _Halves(RuledConnection(self._rules, number), self._settings())
        ends = ((reader, onward_writer), (onward_reader, writer))
        try:
            async with asyncio.TaskGroup() as group:
                for end, (source, sink) in enumerate(ends):
                    group.create_task(self._forward(number, halves, end, source, sink))
        except* (_Cut, OSError):
            pass
        finally:
            for transport in (writer.transport, onward_writer.transport):
                transport.abort()

    async def _forward(
        self, number: int, halves: _Halves, end: int, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while data := await source.read(_READ_OCTETS):
            for message, decision in halves.taken(end, data):
                if decision.words and message is not None:
                    self._told(number, halves.now_s, _SIDES[end], message, decision)
                if decision.delay_s:
                    await asyncio.sleep(decision.delay_s)
                sink.write(decision.data)
                await sink.drain()
                if decision.cut:
                    await self._cut(decision, source)
        with contextlib.suppress(OSError):
            sink.write(halves.rest(end))
            sink.write_eof()

    @staticmethod
    async def _cut(decision: Decision, source: asyncio.StreamReader) -> None:
        if not decision.silent:
            raise _Cut
        # Nothing of this direction arrives any more, and neither end is told.
        while await source.read(_READ_OCTETS):
            pass
        raise _Cut


class _Cut(Exception):
    """A rule ends the connection."""


class _Halves:
    """Both directions of one connection: octets until a message is whole, and the fate of each message."""

    def __init__(self, ruled: RuledConnection, settings: Settings) -> None:
        self._iwarp = IwarpConnection(settings)
        self._ruled = ruled
        self._held = (bytearray(), bytearray())
        self._messages = 0
        self._start_s = time.monotonic()

    @property
    def now_s(self) -> float:
        """Seconds since the connection began."""
        return time.monotonic() - self._start_s

    def rest(self, end: int) -> bytes:
        """The octets of an unfinished message, which are forwarded at the end of the stream."""
        rest = bytes(self._held[end])
        self._held[end].clear()
        return rest

    def taken(self, end: int, data: bytes) -> Iterator[tuple[Message | None, Decision]]:
        """Adds octets of an end; the messages that are whole now, and octets that belong to none."""
        held, half = self._held[end], self._iwarp.halves[end]
        held += data
        for message in self._iwarp.feed(end, data):
            self._messages += 1
            message.number = self._messages
            self._iwarp.finish(end, message)
            # Behind the message are the octets that the decoder has not read yet.
            whole = bytes(held[: len(held) - half.unread])
            del held[: len(whole)]
            yield message, self._ruled.decide(_SIDES[end], message, whole, self.now_s)
        if half.foreign or len(held) > limits.PROXY_HELD_OCTETS_MAX:
            yield None, Decision(held[:])
            held.clear()
