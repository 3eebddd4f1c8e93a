"""A TCP socket whose octets travel in TLS (RFC 9289): it reads and writes as `RecordStream` reads and writes sockets.

OpenSSL works on buffers in memory: the socket is read in large parts, and records are decrypted straight into the
memory of their message.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Final

from rpcrdma.limits import TLS_HANDSHAKE_OCTETS_MAX, TLS_TURN_RECORDS_MAX, TLS_UNSENT_OCTETS_MAX
from rpcrdma.rpc.host_identity import HostIdentity, HostName, XprtSec
from rpcrdma.transport.host_authentication import proved_host, refusal_of
from rpcrdma.transport.host_refusals import HostCause, refused
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import bulk

__all__ = ["ALPN", "TlsSocket"]

_SHARED = threading.local()
"""The memory for encrypted octets, which no connection of a thread holds beyond a call."""

ALPN: Final = "sunrpc"
"""The application protocol of RPC-with-TLS (RFC 9289 section 7.2)."""
_BINDING_LABEL: Final = b"rpcrdma RPC-with-TLS"
_CIPHERTEXT_OCTETS: Final = 1 << 16
"""Octets that one system call reads: four records. OpenSSL keeps as much memory for each direction of a connection."""
_PLAINTEXT_OCTETS: Final = 1 << 16
"""Octets that are encrypted before the socket is asked to take them."""
_RECORD_OCTETS: Final = 1 << 14
"""Octets of a TLS record (RFC 8446 section 5.1). Shorter parts are joined: each record costs 22 octets and a call."""
_HEADER_OCTETS: Final = 5
"""The header of an encrypted record, in the clear: its type, a version, and the length of the rest in two octets."""
_HANDSHAKE: Final = b"\x16"
"""The type of a record of the handshake."""
_HELLO_START_OCTETS: Final = 38
"""Octets of a ClientHello before the session: the header of the message, a version, and a random number."""
_ALPN_EXTENSION: Final = b"\0\x10"


class TlsSocket:
    """A connected, non-blocking TCP socket with a TLS session, which `RecordStream` uses in place of a socket.

    `begin`, at a client, and `advance` make the handshake. Afterwards `sendmsg` and `recvmsg_into` carry the data.
    `context` has the certificates, and decides whether this end is client or server. If the peer shows a certificate,
    `context` must accept it, and it must have one of `names`, any name if `names` is empty. `host` is the name of the
    server that a client sends (SNI), None for none. Bad octets of the peer raise `HostAuthenticationFailed` in the
    handshake, and `ConnectionError` afterwards, nothing else.
    """

    __slots__ = (
        "_ended", "_failure", "_heard", "_held", "_hello", "_incoming", "_names", "_outgoing", "_rest", "_session",
        "_sock", "_unsent", "buffer", "identity", "more", "secured",
    )  # fmt: skip

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, names: Sequence[HostName] = (), host: str | None = None
    ) -> None:
        self._sock = sock
        self._names = names
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        server_side = context.protocol is ssl.PROTOCOL_TLS_SERVER
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=None if server_side else host
        )
        if not hasattr(_SHARED, "buffer"):
            _SHARED.buffer = bulk(_CIPHERTEXT_OCTETS)
        self.buffer: memoryview = _SHARED.buffer
        """The memory for encrypted octets that arrive, which all connections of a thread share."""
        self._unsent = memoryview(b"")
        self._heard = 0
        self._held = b""
        """Encrypted octets that OpenSSL gets in a later turn, from the header of a record on."""
        self._rest = 0
        """Octets of the last record that OpenSSL has a part of, which have not arrived."""
        self._hello = bytearray()
        """The octets that a client has sent for the handshake, until it is finished."""
        self._ended = False
        self._failure = ""
        """The text of an error that is raised once the octets decrypted before it are delivered."""
        self.identity: HostIdentity | None = None
        """The identity that the peer's host has proved; None before the handshake, and without a certificate."""
        self.secured = False
        """Whether the handshake is finished at this end."""
        self.more = False
        """Whether this object may hold octets to read, so that its owner reads on although the socket has none."""

    @property
    def protection(self) -> XprtSec:
        """The protection by TLS; "none" before the end of the handshake.

        At a server it is "mtls" if the client has shown a certificate, else "tls". At a client it is "tls", since a
        client cannot see whether it was asked for a certificate.
        """
        if not self.secured:
            return "none"
        return "mtls" if self._session.server_side and self.identity is not None else "tls"

    @property
    def cipher(self) -> str:
        """The name of the cipher suite in OpenSSL; "" before the handshake."""
        found = self._session.cipher()
        return found[0] if found else ""

    @property
    def unsent(self) -> int:
        """The number of encrypted octets that the socket has not taken yet."""
        return len(self._unsent) + self._outgoing.pending

    def fileno(self) -> int:
        """Returns the file descriptor of the socket."""
        return self._sock.fileno()

    def getpeername(self) -> object:
        """Returns the peer's address, as `socket.socket.getpeername`."""
        return self._sock.getpeername()

    def setblocking(self, flag: bool) -> None:
        """Sets whether the socket blocks, as `socket.socket.setblocking`; the session needs False."""
        self._sock.setblocking(flag)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Sets an option of the socket, as `socket.socket.setsockopt`."""
        self._sock.setsockopt(level, option, value)

    def begin(self) -> None:
        """Sends the client's first message of the handshake, as far as the socket takes it; `flush` sends the rest.

        Raises:
            HostAuthenticationFailed: OpenSSL cannot begin a handshake with these settings.
            OSError: the connection has failed.
        """
        self._shake_hands()

    def advance(self) -> bool:
        """Reads the octets of the handshake that have arrived, and answers them; returns whether it is finished.

        Raises:
            HostAuthenticationFailed: the peer is not accepted, does not accept this end, or sends no TLS.
            BlockingIOError: nothing has arrived.
            ConnectionError: the peer has closed the connection, or does not read.
            OSError: the connection has failed.
        """
        self._feed()
        if self._ended:
            raise _ended("the peer closed it in the TLS handshake")
        if self._heard > TLS_HANDSHAKE_OCTETS_MAX:
            raise refused(HostCause.TOO_LONG, f"more than {TLS_HANDSHAKE_OCTETS_MAX} octets")
        self._shake_hands()
        return self.secured

    def _shake_hands(self) -> None:
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            self._send_out()
            return
        except ssl.SSLError as error:
            refusal = refusal_of(error, self._session)
            # Octets of no TLS get no answer (RFC 9289 section 5.1.1), and a refusal of the peer none either.
            if refusal.cause not in {HostCause.NOT_TLS.value, HostCause.REFUSED.value}:
                with contextlib.suppress(OSError):
                    self._send_out()
            raise refusal from None
        # Linux's tlshd names no protocol. OpenSSL selects none where a client names others alone (RFC 7301 3.2).
        chosen = self._session.selected_alpn_protocol()
        if chosen not in {None, ALPN} or (chosen is None and _names_protocols(self._hello)):
            raise refused(HostCause.OTHER_USE)
        self._hello.clear()
        if not self._session.server_side or self._session.getpeercert(binary_form=True) is not None:
            self.identity = proved_host(self._session, _BINDING_LABEL, self._names, wildcards=False)
        self.secured = self.more = True
        self._send_out()

    def _feed(self) -> None:
        """Passes at most TLS_TURN_RECORDS_MAX records to OpenSSL, of which the last may be incomplete.

        They are those left over from the last call. Only if less than the header of a record is left, the socket is
        read. OpenSSL gets few at a time, as it does not return before it has processed all, or one that has data. At
        the end of the stream `_ended` is set.

        Raises:
            BlockingIOError: the socket was to be read, and nothing has arrived.
            OSError: the connection has failed.
        """
        data = memoryview(self._held)
        if len(data) < _HEADER_OCTETS:
            begun = len(data)
            self.buffer[:begun] = data
            received = self._sock.recv_into(self.buffer[begun:])
            if not received:
                # The record marking tells a whole message from one that was cut off: TLS need not.
                self._ended = True
                return
            self._heard += received
            data = self.buffer[: begun + received]
        end = self._rest
        for _ in range(TLS_TURN_RECORDS_MAX):
            if len(data) < end + _HEADER_OCTETS:
                break
            end += _HEADER_OCTETS + (data[end + 3] << 8 | data[end + 4])
        self._incoming.write(data[:end])
        if self._session.server_side and not self.secured:
            self._hello += data[:end]
        self._rest = max(end - len(data), 0)
        self._held = bytes(data[end:])
        self.more = len(self._held) >= _HEADER_OCTETS

    def _send_out(self) -> None:
        """Sends the octets that OpenSSL has produced, as far as the socket takes them; `flush` sends the rest.

        Raises:
            ConnectionError: more than TLS_UNSENT_OCTETS_MAX octets wait, as the peer does not read.
            OSError: the connection has failed.
        """
        if self._outgoing.pending:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                self.flush()
            if self.unsent > TLS_UNSENT_OCTETS_MAX:
                raise _ended("the peer does not read the answers to its changes of keys")

    def flush(self) -> None:
        """Sends all encrypted octets that wait to be sent.

        Raises:
            BlockingIOError: the socket does not take all of them; the rest still waits.
            OSError: the connection has failed.
        """
        while self.unsent:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int]:
        """Decrypts received octets into the buffers, one buffer after the other, as `socket.socket.recvmsg_into`.

        Returns:
            The number of decrypted octets, as a tuple of one element; 0 at the end of the stream.

        Raises:
            BlockingIOError: nothing has arrived, no whole record, or only records without data.
            ConnectionError: the peer refuses this end or does not read what TLS itself answers; or its octets were
                changed or are no TLS.
            OSError: the connection has failed.
        """
        count = self._decrypt(buffers)
        if not (count or self._ended):
            self._feed()
            if not self._ended:
                count = self._decrypt(buffers)
            if not (count or self._ended):
                raise BlockingIOError(errno.EAGAIN, "no data yet")
        return (count,)

    def _decrypt(self, buffers: Sequence[memoryview]) -> int:
        if self._failure:
            raise _ended(self._failure)
        read = self._session.read
        count = 0
        try:
            for buffer in buffers:
                at, end = 0, len(buffer)
                while at < end:
                    got: int = read(end - at, buffer[at:])  # type: ignore[assignment] # it fills a buffer
                    if not got:
                        self._ended, self.more = True, bool(count)
                        return count
                    at += got
                    count += got
        except ssl.SSLWantReadError:
            self.more = len(self._held) >= _HEADER_OCTETS
            try:
                # The answer to a change of keys, which TLS itself sends.
                self._send_out()
            except OSError as error:
                if self.unsent > TLS_UNSENT_OCTETS_MAX:
                    return self._end_after(count, error.strerror or str(error))
                # Nothing can be sent any more; the socket tells that where it is read, after all that has arrived.
                self._outgoing.read()
                self._unsent = memoryview(b"")
            return count
        except ssl.SSLError as error:
            refusal = refusal_of(error, self._session)
            if refusal.cause == HostCause.REFUSED.value:
                return self._end_after(count, str(refusal))
            with contextlib.suppress(OSError):
                self._send_out()
            reason = (error.reason or "not TLS").replace("_", " ").lower()
            return self._end_after(count, f"octets were changed or are no TLS ({reason})")
        self.more = True
        return count

    def _end_after(self, count: int, failure: str) -> int:
        """Returns `count`, the octets decrypted before an error; if it is 0, raises ConnectionError(`failure`).

        Otherwise the next call of `_decrypt` raises the error.
        """
        if not count:
            raise _ended(failure) from None
        self._failure = failure
        self.more = True
        return count

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """Encrypts the first octets of the buffers, in order, and sends them as far as the socket takes them.

        `flush` sends the rest.

        Returns:
            The number of octets that were encrypted, sent or not; the caller continues after them.

        Raises:
            BlockingIOError: the socket has not taken all octets encrypted before; nothing was encrypted.
            OSError: the connection has failed.
        """
        self.flush()
        write = self._session.write
        count = 0
        short: list[Buffer] = []
        short_octets = 0
        for buffer in buffers:
            length = len(buffer)
            if short_octets + length <= _RECORD_OCTETS:
                short.append(buffer)
                short_octets += length
                continue
            if short:
                write(b"".join(short))
                count += short_octets
                short, short_octets = [], 0
            data = memoryview(buffer)
            room = min(length, max(_PLAINTEXT_OCTETS - count, _RECORD_OCTETS))
            at = 0
            while at < room:
                at += write(data[at:room])
            count += at
            if count >= _PLAINTEXT_OCTETS:
                break
        if short:
            write(b"".join(short))
            count += short_octets
        with contextlib.suppress(BlockingIOError, InterruptedError):
            self.flush()
        return count

    def shutdown(self, how: int) -> None:
        """Sends close_notify, and shuts the socket down as `socket.socket.shutdown`.

        No close_notify is sent before the end of the handshake, or while octets wait to be sent. `how` is
        socket.SHUT_RD, SHUT_WR or SHUT_RDWR.

        Raises:
            OSError: the connection has failed.
        """
        self._end_session()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Sends close_notify, unless octets wait or the handshake is not finished, and closes the socket."""
        self._end_session()
        self._sock.close()

    def _end_session(self) -> None:
        if self.secured and not self._unsent:
            # The peer's own close_notify need not have come.
            with contextlib.suppress(ssl.SSLError):
                self._session.unwrap()
            with contextlib.suppress(OSError):
                self._send_out()


def _ended(reason: str) -> ConnectionError:
    return ConnectionResetError(errno.ECONNRESET, reason)


def _names_protocols(records: bytes | bytearray) -> bool:
    """Returns whether the ClientHello in `records` has the ALPN extension (RFC 7301 section 3.1).

    `records` are the TLS records that a client has sent in the handshake.
    """
    hello, at = bytearray(), 0
    while records[at : at + 1] == _HANDSHAKE:
        end = at + _HEADER_OCTETS + int.from_bytes(records[at + 3 : at + _HEADER_OCTETS], "big")
        hello += records[at + _HEADER_OCTETS : end]
        at = end
    at = _HELLO_START_OCTETS
    # Three fields of variable length: session identifier, cipher suites, compression methods. Each begins with its
    # length, a number of this width in octets.
    for width in (1, 2, 1):
        at += width + int.from_bytes(hello[at : at + width], "big")
    end = at + 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 2
    while at + 4 <= min(end, len(hello)):
        if hello[at : at + 2] == _ALPN_EXTENSION:
            return True
        at += 4 + int.from_bytes(hello[at + 2 : at + 4], "big")
    return False
