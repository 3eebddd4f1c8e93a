"""A packet capture of iWARP connections, written by the library itself: no privileges, no network card needed.

The octets of each TCP stream are written with synthetic IP and TCP headers, one MPA FPDU a segment, because Wireshark
dissects only the first RPC-over-RDMA message of a segment. TCP checksums are left zero, as with checksum offload.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import logging
import os
import select
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

from rpcrdma.wire import DELIBERATE_END, Buffer

__all__ = ["CapturedStream", "PacketCapture"]

_LOGGER = logging.getLogger(__name__)

_LINKTYPE_RAW = 101
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 17, _LINKTYPE_RAW)
_RECORD = struct.Struct("<IIII")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_IPV6 = struct.Struct(">IHBB16s16s")
_TCP = struct.Struct(">HHIIBBHHH")
_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16
_MPA_STARTUP_OCTETS = 20
_SEGMENT_OCTETS = 65000
_READER_MS = 2000
"""How long a write waits for the reader of a pipe that takes nothing; the connections stand still meanwhile."""


class _CaptureFile(io.FileIO):
    """A file that is replaced, or a pipe or device, whose reader a write awaits for 2 s at most."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "w")
        os.set_blocking(self.fileno(), False)
        self._reader_ms = _READER_MS
        self._room = select.poll()
        self._room.register(self.fileno(), select.POLLOUT)

    def write(self, data: Buffer, /) -> int:  # type: ignore[override]
        """Writes at least the first octets of `data`; returns their number.

        Raises:
            TimeoutError: the reader of a pipe has taken nothing. Later writes do not wait for it.
            OSError: the file cannot be written.
        """
        if not self._room.poll(self._reader_ms):
            self._reader_ms = 0
            raise TimeoutError(errno.ETIMEDOUT, "its reader takes no more")
        return super().write(data)


class PacketCapture:
    """A pcap file with nanosecond time stamps for any number of iWARP connections, which can be opened in Wireshark.

    A write error, or a reader of a pipe that takes nothing for 2 s, ends the file early and is logged; the connections
    continue.

    Args:
        path: the file, which is replaced, or a pipe.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file: BinaryIO | None = io.BufferedWriter(cast("io.RawIOBase", _CaptureFile(path)))
        self._file.write(_FILE_HEADER)
        self.connections = 0
        """The number of connections that were recorded so far."""

    def stream(
        self, local: tuple[str, int], remote: tuple[str, int], *, active: bool, deliberate: bool = False
    ) -> CapturedStream:
        """Starts the record of one connection with a synthetic TCP handshake.

        Args:
            local: IP address and port of this end.
            remote: IP address and port of the peer.
            active: whether this side opened the connection.
            deliberate: whether this side breaks rules on purpose, as tests do; a TCP option of its SYN records it.

        Returns:
            The stream that takes the connection's octets.
        """
        self.connections += 1
        return CapturedStream(self, local, remote, active=active, deliberate=deliberate)

    def write_packet(self, packet: bytes) -> None:
        """Appends a packet with the present time; no effect on a closed file. Logs a write error and closes the file.

        Args:
            packet: an IPv4 or IPv6 packet.
        """
        if self._file is not None:
            seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
            try:
                self._file.write(_RECORD.pack(seconds, nanoseconds, len(packet), len(packet)))
                self._file.write(packet)
            except OSError as error:
                self._close(error)

    def close(self) -> None:
        """Completes and closes the file; later packets are dropped. A write error is logged."""
        self._close(None)

    def _close(self, error: OSError | None) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                # `close` writes the buffered octets, and may meet the earlier error again.
                file.close()
            except OSError as closing:
                error = error or closing
            if error is not None:
                _LOGGER.warning("%s ends early: %s", self._path, error.strerror)


class _Direction:
    """One direction of a captured connection: collects octets in `pending` until an MPA frame is whole.

    `source` and `destination` are pairs of a packed IP address and a port. `sequence` is the TCP sequence number of the
    next octet to be written.
    """

    __slots__ = ("destination", "in_startup", "pending", "sequence", "source")

    def __init__(self, source: tuple[bytes, int], destination: tuple[bytes, int]) -> None:
        self.source = source
        self.destination = destination
        self.sequence = 1
        self.pending = bytearray()
        self.in_startup = True

    def next_unit(self) -> int:
        """Returns the length in octets of the first frame in `pending`, MPA start-up or FPDU; 0 if it is not whole."""
        pending = self.pending
        if self.in_startup:
            if len(pending) < _MPA_STARTUP_OCTETS:
                return 0
            need = _MPA_STARTUP_OCTETS + int.from_bytes(pending[18:20], "big")
        else:
            if len(pending) < 2:
                return 0
            need = ((2 + int.from_bytes(pending[:2], "big") + 3) & ~3) + 4
        return need if len(pending) >= need else 0


class CapturedStream:
    """One iWARP connection in a `PacketCapture`; each MPA frame becomes one or more TCP segments.

    `PacketCapture.stream` makes the object; the constructor writes the TCP handshake into `capture`. `local` and
    `remote` are IP address and port of each end. `active`: whether this end opened the connection; `deliberate`:
    whether it breaks rules on purpose, which a TCP option of its SYN records. A stream with MPA markers is cut into
    segments at arbitrary places.
    """

    def __init__(
        self,
        capture: PacketCapture,
        local: tuple[str, int],
        remote: tuple[str, int],
        *,
        active: bool,
        deliberate: bool = False,
    ) -> None:
        self._capture = capture
        ends = [(ipaddress.ip_address(host.partition("%")[0]).packed, port) for host, port in (local, remote)]
        self._sent = _Direction(ends[0], ends[1])
        self._received = _Direction(ends[1], ends[0])
        self._closed = False
        first, second = (self._sent, self._received) if active else (self._received, self._sent)
        first.sequence = second.sequence = 0
        own, none = DELIBERATE_END if deliberate else b"", b""
        self._packet(first, second, _SYN, b"", own if active else none)
        first.sequence = 1
        self._packet(second, first, _SYN | _ACK, b"", none if active else own)
        second.sequence = 1
        self._packet(first, second, _ACK, b"")

    def sent(self, gather: Iterable[Buffer], octets: int) -> None:
        """Records the first `octets` octets of the concatenated buffers `gather` as sent by this end."""
        self._take(self._sent, self._received, gather, octets)

    def received(self, scatter: Iterable[Buffer], octets: int) -> None:
        """Records the first `octets` octets of the concatenated buffers `scatter` as received from the peer."""
        self._take(self._received, self._sent, scatter, octets)

    def close(self) -> None:
        """Records the octets of incomplete frames, and a FIN in both directions; no effect when repeated."""
        if self._closed:
            return
        self._closed = True
        for direction, other in ((self._sent, self._received), (self._received, self._sent)):
            self._write(direction, other, bytes(direction.pending))
            direction.pending.clear()
            self._packet(direction, other, _FIN | _ACK, b"")
            direction.sequence = (direction.sequence + 1) & 0xFFFFFFFF

    def _take(self, direction: _Direction, other: _Direction, buffers: Iterable[Buffer], octets: int) -> None:
        for buffer in buffers:
            if octets <= 0:
                break
            direction.pending += buffer[:octets]
            octets -= len(buffer)
        while unit := direction.next_unit():
            direction.in_startup = False
            data = bytes(direction.pending[:unit])
            del direction.pending[:unit]
            self._write(direction, other, data)

    def _write(self, direction: _Direction, other: _Direction, data: bytes) -> None:
        """Writes `data` as packets of `direction`, and advances its sequence number.

        Each packet acknowledges all octets that were written for the direction `other`.
        """
        for start in range(0, len(data), _SEGMENT_OCTETS):
            part = data[start : start + _SEGMENT_OCTETS]
            self._packet(direction, other, _PSH | _ACK, part)
            direction.sequence = (direction.sequence + len(part)) & 0xFFFFFFFF

    def _packet(self, direction: _Direction, other: _Direction, flags: int, data: bytes, options: bytes = b"") -> None:
        """Writes one packet with the TCP `flags` in `direction`; with ACK it acknowledges all octets of `other`.

        `data` is the payload, `options` the TCP options, whose length is a multiple of four octets. The caller advances
        sequence numbers.
        """
        acknowledged = other.sequence if flags & _ACK else 0
        offset = (5 + len(options) // 4) << 4
        ports = direction.source[1], direction.destination[1]
        tcp = _TCP.pack(*ports, direction.sequence, acknowledged, offset, flags, 65535, 0, 0) + options
        length = len(tcp) + len(data)
        source, destination = direction.source[0], direction.destination[0]
        if len(source) == 4:
            header = _IPV4.pack(0x45, 0, 20 + length, 0, 0x4000, 64, 6, 0, source, destination)
            checksum = _internet_checksum(header)
            header = header[:10] + checksum.to_bytes(2, "big") + header[12:]
        else:
            header = _IPV6.pack(6 << 28, length, 6, 64, source, destination)
        self._capture.write_packet(header + tcp + data)


def _internet_checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
