"""What was handed to the driver and is not sent: pieces of FPDUs, some of which show registered memory.

An answer to an RDMA Read is sent straight from the memory, which lives on meanwhile: its owner may change it, the peer
may write to it, and it may be withdrawn. So whenever TCP did not take everything at once, what is left is looked over
before it is handed out again (`renew`): CRCs are computed anew, and withdrawn memory is not shown. The driver
does nothing between asking for octets, sending them and saying how many were sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.iwarp.framing import CRC
from rpcrdma.iwarp.work import ReadResponse
from rpcrdma.verbs.memory import MemoryRegion, SoftwareProtectionDomain
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c

__all__ = ["Exposure", "Outbound"]

Exposure = tuple[MemoryRegion, ReadResponse, int]
"""The region that an FPDU shows, the response it is part of, and where in that it starts."""


class Outbound:
    """`pieces` is the gather list; `built` and `sent` count octets of the stream, start-up frames included."""

    __slots__ = ("_digest", "_exposed", "_frames", "_pd", "_start", "built", "pieces", "sent")

    def __init__(self, pd: SoftwareProtectionDomain) -> None:
        self._pd = pd
        self.pieces: list[Buffer] = []
        self.built = 0
        self.sent = 0
        # Where each FPDU in `pieces` ends and what it shows; the first begins at `_start`.
        self._frames: list[tuple[int, Exposure | None]] = []
        self._start = 0
        # Whether anything is shown, and the CRC so far of the first FPDU, if it shows something and is partly sent.
        self._exposed = False
        self._digest = 0

    def put(self, frame: bytes) -> None:
        """Appends a start-up frame, or octets that end one FPDU."""
        self.pieces.append(frame)
        self.built += len(frame)

    def append(self, fpdu: Sequence[Buffer], octets: int, exposure: Exposure | None = None) -> None:
        """Appends an FPDU of `octets`, whose last piece ends with the CRC."""
        self.pieces += fpdu
        self.built += octets
        self._frames.append((self.built, exposure))
        if exposure is not None:
            self._exposed = True

    def append_run(self, pieces: Sequence[Buffer], sizes: Sequence[int], shown: Sequence[Exposure] = ()) -> None:
        """Appends FPDUs of these sizes, which show `shown` if that is not empty."""
        self.pieces += pieces
        frames, built = self._frames, self.built
        for index, octets in enumerate(sizes):
            built += octets
            frames.append((built, shown[index] if shown else None))
        self.built = built
        if shown:
            self._exposed = True

    def bytes_sent(self, octets: int) -> None:
        """The first `octets` are with TCP."""
        assert 0 < octets <= self.built - self.sent, "more octets were sent than handed out"
        if octets == self.built - self.sent:
            # As `clear`, in one step: this is the usual end of every message.
            self.pieces = []
            self._frames = []
            self._exposed = False
            self._digest = 0
            self._start = self.sent = self.built
            return
        if self._exposed:
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
        """Keeps the CRC of what has been sent of an FPDU that shows memory, as it was when it was sent."""
        after = self.sent + octets
        start = self._start
        digest = self._digest
        frames = self._frames
        index = 0
        while frames[index][0] <= after:
            start = frames[index][0]
            digest = 0
            index += 1
        self._frames = frames[index:]
        self._start = start
        if frames[index][1] is not None:
            position = self.sent
            for piece in self.pieces:
                end = position + len(piece)
                if end > start and position < after:
                    digest = crc32c(memoryview(piece)[max(start - position, 0) : after - position], digest)
                position = end
        self._digest = digest

    def renew(self, *, crc: bool) -> Exposure | None:
        """Looks over what is left: answers what may not be shown any more; if nothing, CRCs are those of today."""
        if not self._exposed:
            return None
        sent = self.sent
        start = self._start
        digest = self._digest
        position = sent
        index = 0
        for frame_end, exposure in self._frames:
            if frame_end > sent and exposure is not None and self._withdrawn(exposure):
                return exposure
            # Of a CRC that is partly sent, the payload is with TCP, too.
            renewing = crc and exposure is not None and frame_end - sent >= CRC.size
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

    def _withdrawn(self, exposure: Exposure) -> bool:
        region = exposure[0]
        return self._pd.regions.get(region.handle) is not region

    def clear(self) -> None:
        """Forgets what is not sent."""
        # A new list: the driver may still look at the old one.
        self.pieces = []
        self._frames = []
        self._exposed = False
        self._digest = 0
        self._start = self.built

    def cut(self) -> int | None:
        """Keeps a copy of the rest of the FPDU that is partly sent, if any, and forgets everything behind it.

        A copy, because the memory is the upper layer's again. Answers how many octets that were built are forgotten,
        or None if that FPDU shows withdrawn memory: the stream then ends inside it, and the peer delivers none of it.
        """
        start, end, exposure = self._start, self.sent, None
        for frame_end, frame_exposure in self._frames:
            if frame_end > self.sent:
                if start < self.sent:
                    end, exposure = frame_end, frame_exposure
                break
            start = frame_end
        rest = b"".join(self.pieces)[: end - self.sent]
        forgotten = self.built - end
        self.built = self.sent
        self.clear()
        if exposure is not None and self._withdrawn(exposure):
            return None
        if rest:
            self.put(rest)
        return forgotten
