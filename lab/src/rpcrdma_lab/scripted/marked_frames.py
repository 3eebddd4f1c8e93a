"""Markers (RFC 5044 section 4.3): removes them from received frames, checks them, and inserts them into sent frames."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

__all__ = ["MarkedFrames", "Markers", "UnmarkedFrame"]

_SPACING_OCTETS = 512
_MARKER_OCTETS = _CRC_OCTETS = 4


class UnmarkedFrame(NamedTuple):
    """An FPDU without its markers, as received.

    Attributes:
        octets: the frame from its length field to its CRC.
        covered: the octets that the CRC covers, markers included.
        fault: a description of the first wrong marker; None if all are right.
    """

    octets: bytes
    covered: bytes
    fault: str | None


class MarkedFrames:
    """Reads FPDUs from a stream with markers, and checks and removes the markers.

    `reader` is at the end of the start-up frame, where the first marker is.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._position = self._start = 0
        self._octets = bytearray()
        self._covered = bytearray()
        self._fault: str | None = None

    async def next(self) -> UnmarkedFrame:
        """Waits for the next FPDU, and returns it without its markers, with the fault of its first wrong marker.

        The CRC is not checked.

        Raises:
            asyncio.IncompleteReadError: the stream ends before or within the FPDU.
            OSError: the connection fails.
        """
        self._start, self._fault = self._position, None
        self._octets.clear()
        self._covered.clear()
        await self._take_marker()
        self._start = self._position
        await self._read_to(2)
        end = 2 + int.from_bytes(self._octets) + 3 & ~3
        await self._read_to(end)
        await self._take_marker()
        covered = bytes(self._covered)
        await self._read_to(end + 4)
        return UnmarkedFrame(bytes(self._octets), covered, self._fault)

    async def _read_to(self, end: int) -> None:
        while len(self._octets) < end:
            await self._take_marker()
            room = _SPACING_OCTETS - self._position % _SPACING_OCTETS
            part = await self._reader.readexactly(min(end - len(self._octets), room))
            self._position += len(part)
            self._octets += part
            self._covered += part

    async def _take_marker(self) -> None:
        if self._position % _SPACING_OCTETS:
            return
        marker = await self._reader.readexactly(_MARKER_OCTETS)
        pointer = self._position - self._start
        if int.from_bytes(marker) != pointer and self._fault is None:
            self._fault = f"the marker at octet {self._position} is {marker.hex()} instead of {pointer:08x}"
        self._position += _MARKER_OCTETS
        self._covered += marker


class Markers:
    """Inserts MPA markers into the FPDUs of an outgoing stream, which begins with a marker.

    It counts the octets of the FPDUs, with markers and CRCs, to place one marker at each 512th octet.
    """

    def __init__(self) -> None:
        self._position = 0

    def insert(self, body: bytes, added: int = 0) -> bytes:
        """Returns the next FPDU of the stream, `body` (without its CRC), with its markers.

        The frame is counted with its CRC, so each FPDU is passed once, in order. `added` is added to the value of each
        marker: another number than 0 makes deliberately wrong markers.
        """
        begins = self._position % _SPACING_OCTETS == 0
        start = self._position + begins * _MARKER_OCTETS
        made, position = b"", self._position
        while True:
            if position % _SPACING_OCTETS == 0:
                pointer = max(position - start, 0)
                made += (pointer + added & 0xFFFFFFFF).to_bytes(_MARKER_OCTETS)
                position += _MARKER_OCTETS
            if not body:
                break
            part = body[: _SPACING_OCTETS - position % _SPACING_OCTETS]
            body = body[len(part) :]
            made += part
            position += len(part)
        self._position = position + _CRC_OCTETS
        return made
