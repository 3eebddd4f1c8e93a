"""Drives a connected stream socket that carries RPC records, for the caller and the server alike.

The socket is read and written directly from the event loop's readiness callbacks: received data goes straight into the
message that it belongs to, and a message is sent from where its parts are.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import sys
import termios
from collections.abc import Callable
from typing import Any

from rpcrdma.aio.drivers.deadline_timer import Alarm, DeadlineTimer
from rpcrdma.aio.drivers.effects import effects_of
from rpcrdma.aio.drivers.hang_up import forget_hang_up, watch_hang_up
from rpcrdma.aio.drivers.sockets import fault_words
from rpcrdma.aio.drivers.tls_socket import TlsSocket
from rpcrdma.errors import MessageTooLong, RemoteProtocolError, TransportClosed
from rpcrdma.limits import CONNECTION_TURN_S
from rpcrdma.rpc.record import RecordReceiver, RecordSender, TooLong
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import ResultMemory
from rpcrdma.xdr.codec import Payload

__all__ = ["RecordStream"]

_LOGGER = logging.getLogger("rpcrdma")
_HUNG_UP_READS = 64
_HUNG_UP_AGAIN_S = 0.05
"""Seconds between the reads of a dead socket whose data is not all read."""


class RecordStream:
    """A connected stream socket that carries RPC records (RFC 5531 section 11): queued to send, and being received.

    All of the functions given may call any method. An exception of one of them, or of this class when it receives,
    delivers or sends messages, ends the stream and is logged; it is not raised. `on_lost` must not raise.

    Args:
        sock: the socket, which the stream makes non-blocking and closes.
        peer: the other end, for the log.
        record_octets_max: the bound on the octets of a message, in both directions.
        setting: the name of the option of that bound, for error messages.
        memory: the memory into which large messages are received.
        on_too_long: called once for each call or reply over the bound, whose octets are discarded. Any other message
            over the bound, and one with over RPC_RECORD_SKIPPED_OCTETS_MAX octets more, ends the stream.
        on_record: called with each received message.
        on_lost: called once, with the reason, when the stream ends other than by `close`.
        on_sent: called with the ticket, the argument of `send`, of each message that has left whole; or None.
        on_expected: called when the announced octets of the message that is being received have changed, with their
            number (0: none are announced); or None.
    """

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        *,
        peer: str,
        record_octets_max: int,
        setting: str,
        memory: ResultMemory,
        on_too_long: Callable[[TooLong], None],
        on_record: Callable[[Buffer], None],
        on_lost: Callable[[TransportClosed], None],
        on_sent: Callable[[Any], None] | None = None,
        on_expected: Callable[[int], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = effects_of(self._loop).clock
        self._sock = sock
        self._peer = peer
        self._fd = sock.fileno()
        self._receiver = RecordReceiver(record_octets_max, memory=memory)
        self._sender = RecordSender(record_octets_max, setting)
        self._on_record = on_record
        self._on_too_long = on_too_long
        self._on_lost = on_lost
        self._on_sent = on_sent
        self._on_expected = on_expected
        self._expected = 0
        self.awaited_at = 0.0
        """Since when the rest of the message that is being received has been awaited and read, in the loop's time."""
        self.timer = DeadlineTimer(self._loop)
        """The only timer of the connection."""
        self._dead = Alarm(self._on_hang_up)
        self.timer.watch(self._dead)
        self._paused = False
        self._busy = False
        self._goes_on = False
        """Whether messages may be left for the next turn of the event loop."""
        self._waits_to_write = False
        self._finishing = False
        self.closed = False
        self.blocked_at: float | None = None
        """Since when octets have waited that the socket does not take, in the loop's time; None: none wait."""
        sock.setblocking(False)
        # First, as it may need a descriptor: without one, nothing is left registered for the socket.
        watch_hang_up(self._loop, self._fd, self._on_hang_up)
        self._loop.add_reader(self._fd, self._on_readable)

    @property
    def unsent_octets(self) -> int:
        """The octets that are queued and that the kernel has not taken."""
        return self._sender.unsent_octets

    @property
    def octets_sent(self) -> int:
        """The octets of sent records, headers included: those that the kernel has taken, in TLS those encrypted."""
        return self._sender.octets_sent

    @property
    def paused(self) -> bool:
        """Whether the stream reads nothing: `pause` was called, and since then neither `resume` nor `finish`."""
        return self._paused

    @property
    def unread_octets(self) -> int:
        """The octets from the peer that the kernel holds and this side has not read."""
        return int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def send(self, payload: Payload, ticket: Any = None) -> None:
        """Sends a message now, or as soon as the socket takes it; never after `finish`; no effect once closed.

        `ticket` is any object that identifies the message for `on_sent` and `withdraw`. The memory of `payload` must
        not change until `on_sent` or `withdraw` is called with the ticket, or the stream has ended.

        Raises:
            MessageTooLong: the message exceeds `record_octets_max`: nothing was sent, and the stream continues.
        """
        if self.closed:
            return
        try:
            self._sender.push(payload, ticket)
        except MessageTooLong:
            raise
        except Exception as error:  # noqa: BLE001 - logged
            self._fault(error)
            return
        if self._waits_to_write:
            if self.blocked_at is None:
                # All that waited before was withdrawn, but the socket may still take nothing.
                self.blocked_at = self._loop.time()
        elif not self._busy:
            # During a burst of received messages their replies leave together at its end.
            self._process()

    def deliver_to(self, on_record: Callable[[Buffer], None]) -> None:
        """Replaces the function that is called with each received message, from the next message on."""
        self._on_record = on_record

    def withdraw(self, ticket: Any) -> None:
        """Releases the memory of the message that `send` got with this ticket; no effect if the ticket is unknown.

        If a part of the message was sent, the rest is copied and sent later, after which `on_sent` is called. Otherwise
        the message is not sent, and `on_sent` is not called.
        """
        self._sender.withdraw(ticket)
        if not self.unsent_octets:
            self.blocked_at = None

    def pause(self) -> None:
        """Delivers no more messages and reads nothing from the socket until `resume` or `finish`."""
        if not self._paused and not self.closed:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Ends a `pause`: delivers the messages that have arrived and reads again; no effect without one."""
        if self._paused and not self.closed:
            self._paused = False
            self.awaited_at = self._loop.time()
            self._loop.add_reader(self._fd, self._on_readable)
            if not self._busy:
                self._process()

    def finish(self) -> None:
        """Ends the sending direction at once: unsent octets are not sent, and received octets are discarded.

        When the peer closes the connection, or the socket fails, `on_lost` is called.

        Closing outright would reset the connection if anything unread was left, and the peer could lose replies that it
        has not read.
        """
        if self.closed:
            return
        self._finishing = True
        if self._paused:
            self._paused = False
            self._loop.add_reader(self._fd, self._on_readable)
        if self._waits_to_write:
            # Sending after the shutdown would fail, and a failure closes the socket.
            self._waits_to_write = False
            self._loop.remove_writer(self._fd)
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._lose(f"the connection failed: {error.strerror}")

    def unsent_tickets(self) -> list[Any]:
        """Returns the tickets that `send` got with messages that have not left completely, and drops these messages.

        Called after the end of the stream.
        """
        return self._sender.clear()

    def close(self) -> None:
        """Closes the socket and stops `timer` at once; `on_lost` is not called. No effect when repeated."""
        if self.closed:
            return
        self.closed = True
        self.timer.stop()
        forget_hang_up(self._loop, self._fd)
        if not self._paused:
            self._loop.remove_reader(self._fd)
        if self._waits_to_write:
            self._loop.remove_writer(self._fd)
        self._sock.close()
        self._receiver.clear()
        # The owner refers to the stream: without this, the memory of both waits for the garbage collector.
        self._dead.disarm()
        self._on_record = self._on_too_long = self._on_lost = _ignore
        self._on_sent = self._on_expected = None

    def _lose(self, reason: str, *, protocol_error: bool = False) -> None:
        if not self.closed:
            on_lost = self._on_lost
            self.close()
            on_lost(TransportClosed(reason, protocol_error=protocol_error))

    def _fault(self, error: Exception) -> None:
        """Logs an exception of this side's own code, closes the stream and calls `on_lost`."""
        _LOGGER.error("a fault in the connection with %s, which is ended", self._peer, exc_info=error)
        self._lose(fault_words(error))

    def _on_hang_up(self) -> None:
        """Reads the octets before the end of a dead connection, which the event loop may not report.

        Reads for CONNECTION_TURN_S seconds at most, or nothing while the stream is paused, and again every 50 ms until
        the stream is closed.
        """
        until_s = self._clock() + CONNECTION_TURN_S
        for _ in range(_HUNG_UP_READS):
            if self._paused or self.closed:
                break
            self._on_readable()
            if self._clock() > until_s:
                break
        if not self.closed:
            self._dead.due_s = self._loop.time() + _HUNG_UP_AGAIN_S
            self.timer.look()

    def _on_readable(self) -> None:
        if self._goes_on:
            # The messages that are there come first; the kernel holds the rest.
            return
        receiver = self._receiver
        try:
            count = self._sock.recvmsg_into(receiver.next_buffers())[0]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(f"the connection failed: {error.strerror}")
            return
        if not count:
            where = " in the middle of a message" if receiver.mid_record else ""
            self._lose(f"the peer closed the connection{where}")
            return
        if self._finishing:
            return
        try:
            receiver.bytes_received(count)
            if receiver.too_long:
                self._report_too_long()
            # Before messages are delivered: one that is whole is no longer expected.
            if self._on_expected is not None and receiver.expected_octets != self._expected:
                if not self._expected:
                    self.awaited_at = self._loop.time()
                self._expected = receiver.expected_octets
                self._on_expected(self._expected)
        except RemoteProtocolError as error:
            self._report_too_long()
            self._process()
            self._lose(f"the peer broke the record protocol: {error}", protocol_error=True)
            return
        except Exception as error:  # noqa: BLE001 - logged
            self._fault(error)
            return
        self._process()

    def _report_too_long(self) -> None:
        too_long = self._receiver.too_long
        try:
            while too_long and not self.closed:
                self._on_too_long(too_long.popleft())
        except Exception as error:  # noqa: BLE001 - logged
            self._fault(error)

    def _process(self) -> None:
        """Delivers received messages and sends queued messages, as far as both are possible now.

        After CONNECTION_TURN_S seconds the event loop runs callbacks of other connections before further messages.
        """
        self._busy = True
        until_s = self._clock() + CONNECTION_TURN_S
        try:
            while not self.closed:
                idle = True
                while not (self._paused or self.closed or self._goes_on or self._finishing):
                    record = self._receiver.next_record()
                    if record is None:
                        break
                    idle = False
                    if self._expected:
                        # The message that is being received has begun after this one.
                        self.awaited_at = self._loop.time()
                    self._on_record(record)
                    if self._clock() > until_s:
                        self._goes_on = True
                        self._loop.call_soon(self._go_on)
                if self._sender.unsent_octets and not (self._waits_to_write or self._finishing):
                    self._flush()
                    continue
                if idle:
                    return
        except Exception as error:  # noqa: BLE001 - logged
            self._fault(error)
        finally:
            self._busy = False

    def _go_on(self) -> None:
        """Delivers the messages that `_process` has left because it ran for CONNECTION_TURN_S seconds."""
        self._goes_on = False
        if not self.closed:
            self._process()

    def _flush(self) -> None:
        sender = self._sender
        while not (self.closed or self._finishing):
            gather = sender.next_gather()
            if not gather:
                self.blocked_at = None
                return
            try:
                count = self._sock.sendmsg(gather)
            except (BlockingIOError, InterruptedError):
                self._waits_to_write = True
                if self.blocked_at is None:
                    self.blocked_at = self._loop.time()
                self._loop.add_writer(self._fd, self._on_writable)
                return
            except OSError as error:
                self._lose(f"the connection failed: {error.strerror}")
                return
            tickets = sender.bytes_sent(count)
            on_sent = self._on_sent
            if on_sent is not None:
                for ticket in tickets:
                    on_sent(ticket)

    def _on_writable(self) -> None:
        self._waits_to_write = False
        self._loop.remove_writer(self._fd)
        self._process()


def _ignore(_event: object) -> None:
    """Does nothing: takes the place of the callbacks of a closed stream."""
