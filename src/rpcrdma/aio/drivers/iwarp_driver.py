"""Moves octets between a TCP socket and the software RNIC's queue pair.

The socket is driven directly (`add_reader`, `recvmsg_into`, `sendmsg`): asyncio's transports cost two to three times as
much a round trip and would copy the data that they receive. The queue pair says where the next octets belong, so that
bulk data go from the kernel straight into registered memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial

from rpcrdma.aio.drivers.capture import CapturedStream
from rpcrdma.aio.drivers.deadline_timer import Alarm, DeadlineTimer
from rpcrdma.aio.drivers.effects import effects_of
from rpcrdma.aio.drivers.hang_up import forget_hang_up, watch_hang_up
from rpcrdma.aio.drivers.provider import Terms
from rpcrdma.aio.drivers.sockets import fault_words, shortest_round_trip_s
from rpcrdma.iwarp import IwarpQueuePair
from rpcrdma.limits import CONNECTION_TURN_S
from rpcrdma.verbs import ProtectionDomain
from rpcrdma.wire.native import NativeSend

__all__ = ["IwarpDriver"]

_LOGGER = logging.getLogger("rpcrdma")

_RECEIVE_BUDGET_OCTETS = 1 << 20
"""The octets received in one turn of the loop before other connections get theirs; small frames end the turn by their
time."""

_SEND_OCTETS = 17 << 16
"""Offered to one `sendmsg`: a result of 1 MiB with its reply, for which the peer then wakes once. A peer that is faster
than this side would sleep, and wake again, whenever the CRCs of a further part are computed."""

_DISCARD_OCTETS = 1 << 16

_HUNG_UP_AGAIN_S = 0.05
"""Seconds between two reads of a dead socket: at the second time there is seldom anything left."""

_LINGER_S = 2.0
"""How long the end of the peer's stream is awaited after ours: closing at once could make TCP reset the connection and
destroy a Terminate on its way (RFC 5040 section 6.2.1 asks for a graceful close)."""

_QUIET_S = 0.5
"""A peer that has sent nothing for so long is awaited no more: TCP resets a closed connection only for new octets."""


class IwarpDriver:
    """Moves data between an iWARP queue pair and its connected, non-blocking TCP socket; implements `Driver`.

    `TcpLink.open` makes it.

    Args:
        loop: the event loop.
        sock: the socket, which the driver closes.
        queue_pair: the queue pair of the software RNIC.
        on_turn: called when the queue pair may have completions or events.
        on_closed: called once, when everything is released.
        timer: the connection's timer.
        peer: the other end's HOST:PORT, for the log.
        capture: records the octets of the connection; None: no capture.
    """

    __slots__ = (
        "_capture",
        "_clock",
        "_closed",
        "_dead",
        "_descriptor",
        "_ending",
        "_give_up_s",
        "_linger",
        "_loop",
        "_native_send",
        "_on_closed",
        "_on_turn",
        "_peer",
        "_socket",
        "_timer",
        "blocked",
        "queue_pair",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        queue_pair: IwarpQueuePair,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
        timer: DeadlineTimer,
        *,
        peer: str,
        capture: CapturedStream | None = None,
    ) -> None:
        self._loop = loop
        self._clock = effects_of(loop).clock
        self._socket = sock
        self.queue_pair = queue_pair
        self._on_turn = on_turn
        self._on_closed = on_closed
        self._peer = peer
        self._capture = capture
        self._descriptor = sock.fileno()
        self._native_send: NativeSend | None = None
        if queue_pair.native is not None:
            self._native_send = partial(queue_pair.native.send, self._descriptor)
        self.blocked = False
        """Whether the socket takes nothing at present, or is closed."""
        self._closed = False
        self._ending = False
        self._timer = timer
        self._linger = Alarm(self._give_up)
        self._give_up_s: float | None = None
        self._dead = Alarm(self._hung_up)
        timer.watch(queue_pair)
        timer.watch(self._linger)
        timer.watch(self._dead)
        # First, as it may need a descriptor: without one, nothing is left registered for the socket.
        watch_hang_up(loop, sock.fileno(), self._hung_up)
        loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        if self._ending:
            self._discard()
            return
        queue_pair = self.queue_pair
        native_receiver = queue_pair.native_receiver
        try:
            if native_receiver is not None and (frames := native_receiver.frames) is not None:
                outcome = frames.receive(self._descriptor, _RECEIVE_BUDGET_OCTETS)
                if outcome:
                    queue_pair.received_natively(outcome)
            else:
                self._receive()
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(error)
        except Exception as error:  # noqa: BLE001 - logged
            self._break(error)
        # Data that were placed need no turn, and an RDMA Read of the peer only an answer.
        if not (queue_pair.completions or queue_pair.events):
            self.flush()
        if queue_pair.completions or queue_pair.events:
            self._on_turn()
        if native_receiver is not None and native_receiver.frames is None:
            queue_pair.hand_over()

    def _receive(self) -> None:
        queue_pair = self.queue_pair
        receive = self._socket.recvmsg_into
        budget = _RECEIVE_BUDGET_OCTETS
        until_s: float | None = None
        while budget > 0:
            buffers = queue_pair.next_buffers()
            octets = receive(buffers)[0]
            if self._capture is not None:
                self._capture.received(buffers, octets)
            if octets == 0:
                queue_pair.end_of_stream()
                break
            queue_pair.bytes_received(octets)
            budget -= octets
            if octets < sum(map(len, buffers)):
                break
            # Most turns end before: they do not look at the clock.
            now_s = self._clock()
            until_s = until_s or now_s + CONNECTION_TURN_S
            if now_s > until_s:
                break

    def _hung_up(self) -> None:
        """Reads the octets before the end of a dead connection, which the event loop may not report.

        Reads again every 50 ms until the driver is closed.
        """
        if not self._closed:
            self._readable()
        if not self._closed:
            self._dead.due_s = self._loop.time() + _HUNG_UP_AGAIN_S
            self._timer.look()

    def _lost(self, error: OSError) -> None:
        if error.errno in (errno.ECONNRESET, errno.EPIPE):
            self.queue_pair.end_of_stream()
        else:
            self.queue_pair.abort(f"the TCP connection failed: {error.strerror}")

    def _break(self, error: Exception) -> None:
        """Logs `error`, a fault of this side's own code, and ends the connection."""
        _LOGGER.error("a fault in the connection with %s, which is ended", self._peer, exc_info=error)
        self.queue_pair.abort(fault_words(error))

    @property
    def protection_domain(self) -> ProtectionDomain:
        return self.queue_pair.pd

    @property
    def terms(self) -> Terms:
        queue_pair = self.queue_pair
        return Terms(
            crc=queue_pair.crc, inbound_reads=queue_pair.inbound_reads, outbound_reads=queue_pair.outbound_reads
        )

    @property
    def round_trip_s(self) -> float | None:
        return shortest_round_trip_s(self._socket)

    def expect_end(self) -> None:
        """Sets an alarm, unless one is set, to end connection and driver in 2 s, or earlier if the peer is silent."""
        if self._linger.due_s is None and not self._closed:
            self._linger.due_s = self._loop.time() + _LINGER_S
            self._timer.look()

    def _give_up(self) -> None:
        self.queue_pair.abort("the peer did not let the connection end")
        # The owner takes the end before the socket is closed: calls fail, and replies give their memory back.
        self._on_turn()
        self.close()

    def flush(self) -> None:
        """Sends the frames of the queue pair, as far as the socket takes them; the rest is sent when it is writable.

        An error of the socket, or of this side's own code (which is logged), is not raised: it ends the connection. The
        event loop calls `on_turn` afterwards, in which the owner takes the end from the queue pair.

        If the queue pair has nothing more to send and wants the connection to end (`wants_close`), the sending
        direction of the TCP connection is shut down at once.
        """
        queue_pair = self.queue_pair
        if self._closed:
            return
        try:
            native_send = self._native_send
            while not self.blocked:
                sent = None if native_send is None else queue_pair.send(native_send)
                if sent:
                    break
                if sent is None:
                    gather = queue_pair.next_gather(_SEND_OCTETS)
                    if not gather:
                        break
                    octets = self._socket.sendmsg(gather)
                    if self._capture is not None:
                        self._capture.sent(gather, octets)
                    queue_pair.bytes_sent(octets)
                else:
                    self._block()
        except BlockingIOError:
            self._block()
        except OSError as error:
            self._lost(error)
            # The caller may be in the midst of its own work: a callback of its own tells it of the loss.
            self._loop.call_soon(self._on_turn)
        except Exception as error:  # noqa: BLE001 - logged
            self._break(error)
            self._loop.call_soon(self._on_turn)
        if queue_pair.timed:
            self._timer.look()
        if queue_pair.wants_close:
            self._finish()

    def _block(self) -> None:
        """Sets the attribute `blocked`, and has the event loop call `_writable` when the socket takes octets again."""
        self.blocked = True
        self._loop.add_writer(self._descriptor, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self.blocked = False
        self.flush()
        self._on_turn()

    def _finish(self) -> None:
        if self._ending or self._closed:
            return
        self._ending = True
        self.expect_end()
        self._give_up_s = self._linger.due_s
        self._wait_quiet()
        self._loop.call_soon(self._on_turn)
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._discard()

    def _wait_quiet(self) -> None:
        """Sets the alarm that ends the connection to 0.5 s from now, at the latest to the loop time `_give_up_s`.

        Called when the sending direction ends, and whenever octets arrive after that.
        """
        assert self._give_up_s is not None
        self._linger.due_s = min(self._give_up_s, self._loop.time() + _QUIET_S)
        self._timer.look()

    def _discard(self) -> None:
        try:
            for _ in range(_RECEIVE_BUDGET_OCTETS // _DISCARD_OCTETS):
                octets = len(self._socket.recv(_DISCARD_OCTETS))
                if not octets:
                    break
                self._wait_quiet()
                if octets < _DISCARD_OCTETS:
                    return
            else:
                # More next time: other connections are served in between, and the deadline is looked at.
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Closes the socket at once and calls `on_closed`; no effect when repeated.

        Before the end of the connection, callers call the queue pair's `abort` first.
        """
        if self._closed:
            return
        self._closed = True
        self._timer.stop()
        descriptor = self._socket.fileno()
        forget_hang_up(self._loop, descriptor)
        self._loop.remove_reader(descriptor)
        if self.blocked:
            self._loop.remove_writer(descriptor)
        self.blocked = True
        self._socket.close()
        if self._capture is not None:
            self._capture.close()
        self._on_closed()
