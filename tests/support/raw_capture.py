"""A packet capture of one iWARP connection, made by hand: every octet of both sides is the test's own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from rpcrdma.aio.drivers.capture import PacketCapture
from support.raw_iwarp import fpdu, read_request, startup_frame, tagged, untagged

__all__ = ["CLIENT", "SERVER", "HandMadeCapture"]

CLIENT, SERVER = 0, 1
_ENDS = (("192.0.2.1", 40000), ("192.0.2.2", 20049))
_ENHANCED = bytes.fromhex("00200020")
_WANTS_CRC, _ENHANCED_FLAG = 0x40, 0x10


class HandMadeCapture:
    """Writes the octets of both ends to a file that Wireshark reads; `started` with MPA's frames or without.

    `deliberate`: the client's mistakes are marked as made on purpose.
    """

    def __init__(self, path: Path, *, started: bool = True, deliberate: bool = False) -> None:
        self._capture = PacketCapture(path)
        self._stream = self._capture.stream(*_ENDS, active=True, deliberate=deliberate)
        self._sends = [0, 0]
        self._reads = [0, 0]
        if started:
            flags = _WANTS_CRC | _ENHANCED_FLAG
            self.octets(CLIENT, startup_frame("Req", flags, 2, _ENHANCED))
            self.octets(SERVER, startup_frame("Rep", flags, 2, _ENHANCED))

    def __enter__(self) -> HandMadeCapture:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()
        self._capture.close()

    def octets(self, end: int, data: bytes) -> None:
        """`data` as it is."""
        if end == CLIENT:
            self._stream.sent([data], len(data))
        else:
            self._stream.received([data], len(data))

    def send(self, end: int, message: bytes, invalidated: int | None = None) -> None:
        """A Send, or a Send with Invalidate, of one segment."""
        self._sends[end] += 1
        opcode = 3 if invalidated is None else 4
        self.octets(end, fpdu(untagged(opcode, 0, self._sends[end], message, invalidate=invalidated or 0)))

    def write(self, end: int, handle: int, offset: int, data: bytes) -> None:
        """An RDMA Write of one segment."""
        self.octets(end, fpdu(tagged(0, handle, offset, data)))

    def read(self, end: int, source: tuple[int, int], sink: tuple[int, int], data: bytes) -> None:
        """An RDMA Read of `end`, request and response; `source` and `sink` are handle and offset."""
        self._reads[end] += 1
        self.octets(end, fpdu(read_request(self._reads[end], *sink, len(data), *source)))
        self.octets(1 - end, fpdu(tagged(2, *sink, data)))
