"""Records in TLS (RFC 9289): a client asks for TLS before its first call, a server changes to it when asked."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from rpcrdma.aio.drivers.deadline_timer import Alarm
from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.tls_socket import TlsSocket
from rpcrdma.errors import ConnectFailed, DecodeError, HostAuthenticationFailed
from rpcrdma.limits import TLS_HANDSHAKE_S
from rpcrdma.rpc.host_identity import HostName
from rpcrdma.rpc.record import LAST_FRAGMENT
from rpcrdma.rpc.tls_probe import offers_tls, probe_call
from rpcrdma.xdr.codec import Payload

__all__ = ["TlsRecordStream", "begin_tls"]

_REPLY_OCTETS_MAX: Final = 512
"""Octets of a reply to the probe: a verifier of 400 octets, and the rest of the header."""


class TlsRecordStream(RecordStream):
    """A `RecordStream` in TLS: over a `TlsSocket`, or over a socket that `start_tls` changes to TLS.

    Args:
        sock: a socket with a TLS session; or a plain socket, whose records are in the clear until `start_tls`.
        **arguments: the keyword arguments of `RecordStream`.
    """

    def __init__(self, sock: socket.socket | TlsSocket, **arguments: Any) -> None:
        self._on_secured: Callable[[TlsSocket], None] | None = None
        """Set while the handshake is made. Messages are queued meanwhile: `_waits_to_write` holds."""
        self._reads_on = False
        super().__init__(sock, **arguments)
        self.tls: TlsSocket | None = sock if isinstance(sock, TlsSocket) else None
        """The session; None before `start_tls`."""
        self._overdue = Alarm(self._on_overdue)
        self._read_on()

    def start_tls(
        self, reply: bytes, context: ssl.SSLContext, names: Sequence[HostName], on_secured: Callable[[TlsSocket], None]
    ) -> None:
        """Answers a client's TLS probe with `reply`, and starts the server's handshake; called within `on_record`.

        Returns at once and raises nothing; the handshake runs in the event loop, and `send` queues messages until its
        end. The stream ends, and `on_lost` is called, if the socket does not take the whole reply at once, if the
        handshake fails or takes longer than TLS_HANDSHAKE_S seconds, or if the peer has sent octets after its probe:
        an attacker could have inserted them as a part of the peer's TLS session (RFC 9289 section 5.1.1).

        Args:
            reply: the octets of the reply, without record header.
            context: the SSL context of a server, with its certificate; it decides whether clients must show one.
            names: the host names of which the client's certificate, if it shows one, must have one; empty: any.
            on_secured: called with the TLS session after the handshake; then messages are delivered again.
        """
        if self._receiver.mid_record or self._receiver.next_record() is not None:
            self._lose("the peer sent octets in the clear behind its probe for TLS", protocol_error=True)
            return
        self._sender.push(Payload(reply))
        self._flush()
        if self._sender.unsent_octets:
            self._lose("the peer does not read the answer to its probe for TLS")
        if self.closed:
            return
        assert isinstance(self._sock, socket.socket)
        self._sock = self.tls = TlsSocket(self._sock, context, names)
        self._on_secured = on_secured
        self._waits_to_write = True
        self._overdue.due_s = self._loop.time() + TLS_HANDSHAKE_S
        self.timer.watch(self._overdue)
        self.timer.look()

    @property
    def unsent_octets(self) -> int:
        """The number of octets queued, in the clear or encrypted, that the kernel has not taken."""
        return self._sender.unsent_octets + (0 if self.tls is None else self.tls.unsent)

    def resume(self) -> None:
        """Ends a `pause`: delivers arrived messages, and reads again, also octets that the TLS session holds."""
        super().resume()
        self._read_on()

    def close(self) -> None:
        """Ends the TLS session and closes the socket at once; `on_lost` is not called. No effect when repeated."""
        self._overdue.disarm()
        self._on_secured = None
        super().close()

    def _on_overdue(self) -> None:
        self._lose(f"the peer did not finish the TLS handshake within {TLS_HANDSHAKE_S:g} s")

    def _on_readable(self) -> None:
        if self._on_secured is not None:
            self._shake_hands(self._on_secured)
        else:
            super()._on_readable()
            self._wait_to_write()
        self._read_on()

    def _shake_hands(self, on_secured: Callable[[TlsSocket], None]) -> None:
        assert self.tls is not None
        try:
            finished = self.tls.advance()
        except (BlockingIOError, InterruptedError):
            return
        except HostAuthenticationFailed as error:
            self._lose(str(error))
            return
        except OSError as error:
            self._lose(f"the connection failed: {error.strerror}")
            return
        self._wait_to_write()
        if finished:
            self._overdue.due_s = self._on_secured = None
            self._waits_to_write = bool(self.tls.unsent)
            try:
                on_secured(self.tls)
            except Exception as error:  # noqa: BLE001 - logged
                self._fault(error)
            if not self.closed:
                self._process()

    def _read_on(self) -> None:
        """Schedules a read if the TLS session holds octets taken from the socket, which the event loop does not report.

        No effect if a read is scheduled already, or while the stream is paused or closed.
        """
        if self.tls is not None and self.tls.more and not (self._reads_on or self._paused or self.closed):
            self._reads_on = True
            self._loop.call_soon(self._read_left)

    def _read_left(self) -> None:
        self._reads_on = False
        if not (self._paused or self.closed):
            self._on_readable()

    def _flush(self) -> None:
        super()._flush()
        if not self._waits_to_write:
            self._wait_to_write()

    def _wait_to_write(self) -> None:
        """Has the event loop send the encrypted octets that wait as soon as the socket is writable.

        No effect without such octets, or after `finish`.
        """
        if self.tls is not None and self.tls.unsent and not (self.closed or self._finishing):
            self._waits_to_write = True
            if self.blocked_at is None:
                self.blocked_at = self._loop.time()
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        if self.tls is not None:
            try:
                self.tls.flush()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._lose(f"the connection failed: {error.strerror}")
                return
            self.blocked_at = None
            if self._on_secured is not None:
                self._loop.remove_writer(self._fd)
                return
        super()._on_writable()


async def begin_tls(
    sock: socket.socket,
    context: Callable[[], ssl.SSLContext],
    names: Sequence[HostName],
    server_name: str | None,
    where: str,
    *,
    addressed: tuple[int, int],
) -> TlsSocket:
    """Sends a server the TLS probe (RFC 9289 section 4.1), makes the handshake as the client, and returns the session.

    Nothing but the probe is sent in the clear. The function has no time limit of its own.

    Args:
        sock: the connected, non-blocking socket, which is closed if this raises or is cancelled.
        context: returns the SSL context of a client, with its certificate, if any, and its authorities.
        names: the host names of which the server's certificate must have one; empty: any.
        server_name: the DNS name by which the server is reached, sent as SNI; None for an address.
        where: the server's HOST:PORT, for error messages.
        addressed: the number and the version of the RPC program that the probe names.

    Raises:
        HostAuthenticationFailed: the server offers no TLS, or either host refuses the other.
        ConnectFailed: the connection has failed, or the server has closed it.
    """
    try:
        return await _session(sock, context(), names, server_name, where, addressed)
    except OSError as error:
        sock.close()
        raise ConnectFailed(f"{where}: no TLS: {error.strerror}; the server's log may have the reason") from None
    except BaseException:
        sock.close()
        raise


async def _session(
    sock: socket.socket,
    context: ssl.SSLContext,
    names: Sequence[HostName],
    server_name: str | None,
    where: str,
    addressed: tuple[int, int],
) -> TlsSocket:
    loop = asyncio.get_running_loop()
    xid = random_bits(32)
    probe = probe_call(xid, *addressed)
    await loop.sock_sendall(sock, (LAST_FRAGMENT | len(probe)).to_bytes(4, "big") + probe)
    if not await _offers_tls(sock, xid):
        raise HostAuthenticationFailed(
            f"{where} offers no TLS, or someone on the network hides it: nothing else was sent; give the server a "
            'certificate (HostAuthentication(certificate=...)), or do without TLS (ConnectOptions(xprtsec="none"))',
            cause="absent",
        )
    tls = TlsSocket(sock, context, names, server_name)
    try:
        tls.begin()
        while not tls.secured:
            if not tls.more:
                await _ready(loop.add_reader, loop.remove_reader, sock.fileno())
            try:
                tls.advance()
            except (BlockingIOError, InterruptedError):
                continue
        while tls.unsent:
            await _ready(loop.add_writer, loop.remove_writer, sock.fileno())
            try:
                tls.flush()
            except (BlockingIOError, InterruptedError):
                continue
    except HostAuthenticationFailed as error:
        raise HostAuthenticationFailed(f"{where}: {error}", cause=error.cause) from None
    return tls


async def _offers_tls(sock: socket.socket, xid: int) -> bool:
    """Receives the reply to the probe with the XID `xid`; returns whether it offers TLS.

    Returns False, too, if the octets are no reply to the probe.

    Raises:
        OSError: the connection has failed, or the peer has closed it.
    """
    head = int.from_bytes(await _read(sock, 4), "big")
    if not LAST_FRAGMENT < head <= LAST_FRAGMENT + _REPLY_OCTETS_MAX:
        return False
    try:
        return offers_tls(await _read(sock, head - LAST_FRAGMENT), xid)
    except DecodeError:
        return False


async def _read(sock: socket.socket, count: int) -> bytes:
    """Waits for exactly `count` octets from the socket, and returns them.

    Raises:
        OSError: the connection has failed, or the peer has closed it after fewer octets.
    """
    loop = asyncio.get_running_loop()
    octets = b""
    while len(octets) < count:
        part = await loop.sock_recv(sock, count - len(octets))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "the peer closed the connection when it was asked for TLS")
        octets += part
    return octets


async def _ready(watch: Callable[..., Any], forget: Callable[[int], Any], descriptor: int) -> None:
    """Waits until a socket is readable or writable, then ends the watch, also if cancelled.

    Args:
        watch: `add_reader` or `add_writer` of the event loop.
        forget: the method that ends the watch: `remove_reader` or `remove_writer`.
        descriptor: the socket's file descriptor.
    """
    ready = asyncio.get_running_loop().create_future()
    watch(descriptor, _done, ready)
    try:
        await ready
    finally:
        forget(descriptor)


def _done(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
