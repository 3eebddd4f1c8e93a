"""Forwards the octets of connections between a client and a server, message by message, with the faults of rules."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rpcrdma_lab import limits
from rpcrdma_lab.commands.proxy.rules import Decision, ProxyRule, RuledConnection
from rpcrdma_lab.dissect.connection import IwarpConnection, Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.simulation.worlds.faults import Side

__all__ = ["DelayLine", "Relay"]

_READ_OCTETS = 1 << 18
_CONNECT_S = 10.0
_SIDES = (Side.CLIENT, Side.SERVER)

Told = Callable[[int, float, Side, Message, Decision], None]
"""Called for each faulty message: number of the connection, seconds since it began, sender, message and decision."""

Unreachable = Callable[[int, OSError | UnicodeError], None]
"""Called for each connection whose server cannot be reached: number of the connection, and the error."""


class Relay:
    """Forwards each accepted connection to the server, and applies the faults of rules to its messages.

    Args:
        address: host and port of the server.
        rules: the faults, and the selection of messages that meet them.
        settings: the decoder's settings.
        told: is called for each message to which rules apply faults, with the connection's number, seconds since the
            connection began, sender, message and decision.
        unreachable: is called for each connection whose server cannot be reached, with its number and the error.
    """

    def __init__(
        self,
        address: tuple[str, int],
        rules: Sequence[ProxyRule],
        settings: Settings,
        told: Told,
        unreachable: Unreachable,
    ) -> None:
        self._address = address
        self._rules = rules
        self._settings = settings
        self._told = told
        self._unreachable = unreachable
        self._connections = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards an accepted connection until it ends or fails, a rule cuts it, or the task is cancelled.

        The callback of `asyncio.start_server`, which passes the streams `reader` and `writer` of the client. Aborts the
        client's connection at the end, also if the server cannot be reached within 10 s. Cancellation and OSErrors are
        not raised.
        """
        self._connections += 1
        try:
            await self._relay(self._connections, reader, writer)
        except asyncio.CancelledError:
            # The end of the proxy: asyncio's streams would log a cancelled task as an error (Python 3.11).
            pass
        finally:
            writer.transport.abort()

    async def _relay(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                onward_reader, onward_writer = await asyncio.open_connection(*self._address)
        except (OSError, UnicodeError) as error:
            # To the client the server is not there.
            self._unreachable(number, error)
            return
        halves = _Halves(RuledConnection(self._rules, number), self._settings)
        ends = ((reader, onward_writer), (onward_reader, writer))
        try:
            async with asyncio.TaskGroup() as group:
                for end, (source, sink) in enumerate(ends):
                    line = DelayLine(sink)
                    group.create_task(self._forward(number, halves, end, source, line))
                    group.create_task(line.deliver())
        except* (_Cut, OSError):
            pass
        finally:
            onward_writer.transport.abort()

    async def _forward(
        self, number: int, halves: _Halves, end: int, source: asyncio.StreamReader, line: DelayLine
    ) -> None:
        """Puts the octets that one end sends into `line`, as rules decide for each message; returns at the end or cut.

        `number` is that of the connection, `end` the sender (0 the client, 1 the server), and `source` has its octets,
        in which `halves` finds the messages. `deliver` of the line cuts the connection. After a silent cut further
        octets of the sender are read and dropped, until the sender ends its direction; only then the connection is cut.

        Raises:
            OSError: the sender's connection fails.
        """
        while data := await source.read(_READ_OCTETS):
            for message, decision in halves.taken(end, data):
                if decision.words and message is not None:
                    self._told(number, halves.now_s, _SIDES[end], message, decision)
                await line.send(decision)
                if decision.cut and not decision.silent:
                    return
                if decision.cut:
                    # Nothing of this direction arrives any more, and neither end is told.
                    while await source.read(_READ_OCTETS):
                        pass
                    await line.send(Decision(bytearray(), cut=True))
                    return
        await line.send(Decision(halves.rest(end)), last=True)


class DelayLine:
    """The queue of one direction's messages to `sink`; each leaves after its delay, and not before earlier ones."""

    def __init__(self, sink: asyncio.StreamWriter) -> None:
        self._sink = sink
        # `drain` then waits for all octets: the end of the connection would discard the rest.
        sink.transport.set_write_buffer_limits(0)
        self._messages: asyncio.Queue[tuple[float, Decision, bool]] = asyncio.Queue()
        self._due_s = 0.0
        self._octets = 0
        self._room = asyncio.Event()

    async def send(self, decision: Decision, *, last: bool = False) -> None:
        """Adds a message to the queue; `last` says that no message follows.

        `decision` has the message's octets and delay, and whether to cut (end) the connection after the message. Waits
        while the queue has more than `PROXY_DELAYED_OCTETS_MAX` octets.
        """
        self._due_s = max(self._due_s, asyncio.get_running_loop().time() + decision.delay_s)
        self._octets += len(decision.data)
        self._messages.put_nowait((self._due_s, decision, last))
        while self._octets > limits.PROXY_DELAYED_OCTETS_MAX:
            self._room.clear()
            await self._room.wait()

    async def deliver(self) -> None:
        """Writes the messages to the sink when they are due; after the last one, ends the sink's direction and returns.

        Raises:
            _Cut: a message was written after which the connection is to be cut; a silent cut has no effect here.
            OSError: the sink's connection fails.
        """
        last = False
        while not last:
            due_s, decision, last = await self._messages.get()
            early_s = due_s - asyncio.get_running_loop().time()
            if early_s > 0:
                await asyncio.sleep(early_s)
            self._sink.write(decision.data)
            await self._sink.drain()
            self._octets -= len(decision.data)
            self._room.set()
            if decision.cut and not decision.silent:
                raise _Cut
        with contextlib.suppress(OSError):
            self._sink.write_eof()


class _Cut(Exception):
    """Raised when a rule ends the connection."""


class _Halves:
    """Both directions of one connection: holds octets until their message is whole, and applies the rules to it.

    `ruled` has the rules, and `settings` are those of the decoder that finds the messages.
    """

    def __init__(self, ruled: RuledConnection, settings: Settings) -> None:
        self._iwarp = IwarpConnection(settings)
        self._ruled = ruled
        self._held = (bytearray(), bytearray())
        self._forwarded = [0, 0]
        self._messages = 0
        self._start_s = time.monotonic()

    @property
    def now_s(self) -> float:
        """Seconds since the connection began."""
        return time.monotonic() - self._start_s

    def rest(self, end: int) -> bytearray:
        """Removes and returns the held octets, those of an unfinished message, that `end` (0 client, 1 server) sent."""
        rest, self._held[end][:] = self._held[end][:], b""
        return rest

    def taken(self, end: int, data: bytes) -> Iterator[tuple[Message | None, Decision]]:
        """Adds `data`, octets that `end` (0 client, 1 server) sent; yields each message that is now whole.

        The `Decision` that is yielded with a message says how to treat it, and has the octets to forward. Octets of a
        stream that is not iWARP or has a wrong start-up frame, or of a message longer than `PROXY_HELD_OCTETS_MAX`, are
        yielded at once, in a `Decision` that forwards them unchanged, with None in place of a message. When such a long
        message is whole, it is yielded with a decision about its last octets, in which the rules make no faults but a
        delay and a cut.
        """
        held, half = self._held[end], self._iwarp.halves[end]
        held += data
        for message in self._iwarp.feed(end, data):
            self._messages += 1
            message.number = self._messages
            self._iwarp.finish(end, message)
            # Behind the message are the octets that the decoder has not read yet.
            whole = bytes(held[: len(held) - half.unread])
            del held[: len(whole)]
            before, self._forwarded[end] = self._forwarded[end], 0
            yield message, self._ruled.decide(_SIDES[end], message, whole, self.now_s, before)
        if half.lost or len(held) > limits.PROXY_HELD_OCTETS_MAX:
            self._forwarded[end] += len(held)
            yield None, Decision(held[:])
            held.clear()
