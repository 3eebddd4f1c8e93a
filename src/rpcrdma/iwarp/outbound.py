"""FPDUs that are built and not sent yet, as a gather list, and the RDMA Reads of the peer that they answer.

An RDMA Read Response is sent straight from the source region, which stays in use meanwhile: its owner may change it,
the peer may write to it, and it may be invalidated. So if TCP does not take all octets at once, the rest is checked
before it is handed out again (`renew`): CRCs are computed anew, and an invalidated region ends the connection.
The driver does nothing between `next_gather`, the send and `bytes_sent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.errors import RemoteAccessError
from rpcrdma.iwarp.framing import CRC, NO_CRC, PADS
from rpcrdma.iwarp.segments import (
    LAST,
    TAGGED,
    TAGGED_CONTROL,
    TAGGED_OCTETS,
    UNTAGGED,
    ReadHeader,
    encode_read_header,
)
from rpcrdma.iwarp.terminate import TerminateFault, read_source_code
from rpcrdma.verbs.protection_domain import MemoryRegion, SoftwareProtectionDomain
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c

__all__ = ["Outbound", "ReadResponse", "ResponseSource", "build_tagged_run"]


class ReadResponse(NamedTuple):
    """The response that is due to an RDMA Read Request of the peer.

    `header` is the Read Request header. `request` has the fields of the DDP header before it, which a Terminate quotes
    if the response breaks off.
    """

    header: ReadHeader
    request: tuple[int, ...]

    def broken_off(self, position: int, error: RemoteAccessError) -> TerminateFault:
        """Returns the error to raise if the response cannot continue (RFC 5040 section 4.8).

        `position`: the octets of the response that are built; the Terminate quotes the rest of the RDMA Read. `error`:
        the refused access.
        """
        sink_handle, sink_offset, length, source_handle, source_offset = self.header
        rest = ReadHeader(
            sink_handle,
            sink_offset + position & 0xFFFFFFFFFFFFFFFF,
            length - position,
            source_handle,
            source_offset + position,
        )
        return TerminateFault(
            f"memory was withdrawn during an RDMA Read: {error}",
            read_source_code(error),
            segment_octets=self.request[0],
            ddp_header=UNTAGGED.pack(*self.request)[2:],
            read_header=encode_read_header(rest),
        )


ResponseSource = tuple[MemoryRegion, ReadResponse, int]
"""The region that an FPDU shows, the Read Response that the FPDU is part of, and its position in that response."""


class Outbound:
    """The octets of one connection that are built and not sent yet.

    `pieces` is their gather list; `built` and `sent` count octets of the stream, start-up frames included. `frames` has
    for each FPDU in `pieces` (offset of its end in the stream, `ResponseSource` of its payload or None), perhaps behind
    FPDUs that are sent already; the first one in `frames` begins at the offset `start`. `has_sources`: the payload of
    some FPDU may be a view of a region.
    """

    __slots__ = ("_digest", "_pd", "built", "frames", "has_sources", "pieces", "sent", "start")

    def __init__(self, pd: SoftwareProtectionDomain) -> None:
        self._pd = pd
        self.pieces: list[Buffer] = []
        self.built = 0
        self.sent = 0
        self.frames: list[tuple[int, ResponseSource | None]] = []
        self.start = 0
        self.has_sources = False
        # The CRC of the sent part of the first FPDU, if that shows a region.
        self._digest = 0

    def put(self, frame: bytes) -> None:
        """Appends an MPA start-up frame, or the rest of an FPDU that is partly sent, to the unsent octets."""
        self.pieces.append(frame)
        self.built += len(frame)

    def put_rest(self, rest: bytes) -> None:
        """Sets the unsent octets to `rest`, the end of an FPDU that the native module has built and sent in part.

        The caller has counted all built octets as sent; this subtracts the length of `rest` from `sent`. The FPDU's own
        `start` is unknown here: it becomes `sent` - 1, since for `cut` any offset below `sent` will do.
        """
        self.pieces = [rest]
        self.frames = [(self.built, None)]
        self.sent -= len(rest)
        self.start = self.sent - 1

    def append(self, fpdu: Sequence[Buffer], octets: int, source: ResponseSource | None = None) -> None:
        """Appends an FPDU of `octets` octets, whose last piece ends with the CRC.

        `fpdu`: the gather list of the FPDU. `source`: for an FPDU of a Read Response (the region of which its payload
        is a view, the response, offset of the payload in the response); None for other FPDUs.
        """
        self.pieces += fpdu
        self.built += octets
        self.frames.append((self.built, source))
        if source is not None:
            self.has_sources = True

    def append_run(
        self, pieces: Sequence[Buffer], sizes: Sequence[int], source: ResponseSource | None = None, step: int = 0
    ) -> None:
        """Appends the FPDUs of one message.

        Args:
            pieces: the gather list of all FPDUs.
            sizes: the octets of each FPDU.
            source: for a Read Response (the region of which the payloads are views, the response, offset of the first
                FPDU's payload in the response); None for other messages.
            step: the octets of payload in each FPDU except the last, by which the offset in `source` grows from FPDU to
                FPDU; without effect if `source` is None or there is one FPDU.
        """
        self.pieces += pieces
        frames, built = self.frames, self.built
        for octets in sizes:
            built += octets
            frames.append((built, source))
            if source is not None:
                region, response, position = source
                source = region, response, position + step
                self.has_sources = True
        self.built = built

    def bytes_sent(self, octets: int) -> None:
        """Removes the first `octets` octets, at least 1, from the unsent ones (`pieces`): TCP has taken them."""
        assert 0 < octets <= self.built - self.sent, "more octets were sent than handed out"
        if octets == self.built - self.sent:
            self.sent = self.built
            self.clear()
            return
        if self.has_sources:
            self._digest_sent(octets)
        self.sent += octets
        pieces = self.pieces
        index = 0
        while octets >= len(pieces[index]):
            octets -= len(pieces[index])
            index += 1
        self.pieces = pieces = pieces[index:]
        if octets:
            pieces[0] = memoryview(pieces[0])[octets:]

    def _digest_sent(self, octets: int) -> None:
        """Updates `_digest` and `frames` for `octets` more octets that TCP has taken.

        If the last of these is inside an FPDU whose payload is a view of a region, `_digest` becomes the CRC of the
        sent part of that FPDU: `renew` continues from it, since the region may change later. Entries in `frames` of
        FPDUs that are sent whole are dropped.
        """
        after = self.sent + octets
        start = self.start
        digest = self._digest
        frames = self.frames
        index = 0
        while frames[index][0] <= after:
            start = frames[index][0]
            digest = 0
            index += 1
        self.frames = frames[index:]
        self.start = start
        if frames[index][1] is not None:
            position = self.sent
            for piece in self.pieces:
                end = position + len(piece)
                if end > start and position < after:
                    digest = crc32c(memoryview(piece)[max(start - position, 0) : after - position], digest)
                position = end
        self._digest = digest

    def renew(self, *, crc: bool) -> ResponseSource | None:
        """Prepares unsent FPDUs for another try: computes anew the CRCs of those whose payload is a view of a region.

        A CRC covers octets that are sent already as they were then, and the others as they are now. It stays as it is
        if part of the CRC itself has been sent. `crc`: whether the FPDUs have CRCs. Stops at the first FPDU whose
        region is invalidated, changes neither that FPDU nor those behind it, and returns (region, Read Response, offset
        of the payload in the response); returns None if there is no such FPDU.
        """
        if not self.has_sources:
            return None
        sent = self.sent
        start = self.start
        digest = self._digest
        position = sent
        index = 0
        for frame_end, source in self.frames:
            if frame_end > sent and source is not None and self._withdrawn(source):
                return source
            # If part of the CRC has been sent, all of the payload has, too.
            renewing = crc and source is not None and frame_end - sent >= CRC.size
            if start >= sent:
                digest = 0
            while position < frame_end:
                piece = self.pieces[index]
                position += len(piece)
                if renewing:
                    last = position == frame_end
                    covered = memoryview(piece)[: -CRC.size] if last else piece
                    digest = crc32c(covered, digest)
                    if last:
                        self.pieces[index] = bytes(covered) + CRC.pack(digest)
                index += 1
            start = frame_end
        return None

    def _withdrawn(self, source: ResponseSource) -> bool:
        region = source[0]
        return region.abandoned or self._pd.regions.get(region.handle) is not region

    def clear(self) -> None:
        """Drops all octets that are built and not sent; the counts `built` and `sent` stay."""
        # A new list: the driver may still hold the old one.
        self.pieces = []
        self.frames = []
        self.has_sources = False
        self._digest = 0
        self.start = self.built

    def cut(self) -> int | None:
        """Keeps a copy of the rest of the FPDU that is partly sent, if any, and drops all FPDUs after it.

        A copy, because the memory of the rest belongs to the upper layer again. Returns the number of octets dropped.
        Returns None if the payload of the partly sent FPDU is in an invalidated region: the rest is then dropped, too,
        so that the peer never gets the whole FPDU.
        """
        start, end, source = self.start, self.sent, None
        for frame_end, frame_source in self.frames:
            if frame_end > self.sent:
                if start < self.sent:
                    end, source = frame_end, frame_source
                break
            start = frame_end
        rest = b"".join(self.pieces)[: end - self.sent]
        forgotten = self.built - end
        self.built = self.sent
        self.clear()
        if source is not None and self._withdrawn(source):
            return None
        if rest:
            self.put(rest)
        return forgotten


def build_tagged_run(
    rdmap: int, handle: int, offset: int, payload: memoryview, payload_max: int, room: tuple[int, int], *, crc: bool
) -> tuple[list[Buffer], list[int]]:
    """Builds FPDUs of one tagged message: all headers and CRCs in one step.

    The first FPDU is always built, further ones as far as `room` allows. The message's last FPDU has the L bit. Returns
    the gather list (header, payload, padding with CRC for each FPDU), and the octets of each FPDU.

    Args:
        rdmap: the RDMAP control octet.
        handle: the STag.
        offset: the tagged offset of the payload.
        payload: the rest of the message, for which no FPDUs are built yet.
        payload_max: the most octets of payload in one FPDU.
        room: (octets, pieces): no further FPDU is begun once the gather list has more than `octets` octets, or at least
            `pieces` buffers.
        crc: whether to compute CRCs; if False the CRC fields are zero.
    """
    pieces: list[Buffer] = []
    sizes: list[int] = []
    octets_max, pieces_max = room
    start = built = 0
    left = len(payload)
    while not sizes or (left and built <= octets_max and len(pieces) < pieces_max):
        octets = min(left, payload_max)
        left -= octets
        control = TAGGED_CONTROL if left else TAGGED_CONTROL | LAST
        header = TAGGED.pack(TAGGED_OCTETS + octets, control, rdmap, handle, offset + start & 0xFFFFFFFFFFFFFFFF)
        part = payload[start : start + octets]
        start += octets
        trailer = PADS[octets & 3]
        if crc:
            digest = crc32c(part, crc32c(header))
            trailer += CRC.pack(crc32c(trailer, digest) if trailer else digest)
        else:
            trailer += NO_CRC
        pieces += (header, part, trailer)
        size = TAGGED.size + octets + len(trailer)
        sizes.append(size)
        built += size
    return pieces, sizes
