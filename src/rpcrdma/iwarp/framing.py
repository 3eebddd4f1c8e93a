"""FPDUs: their size, padding, CRC and markers (RFC 5044 sections 3 and 4)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rpcrdma.iwarp.config import ULPDU_OCTETS_MAX, ULPDU_OCTETS_MIN
from rpcrdma.iwarp.terminate import Code, TerminateFault
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c

__all__ = [
    "CRC",
    "MARKER_SPACING_OCTETS",
    "NO_CRC",
    "PADS",
    "build_fpdu",
    "build_marked_fpdu",
    "size_fpdu",
    "size_mulpdu",
    "verify_crc",
]

CRC = struct.Struct("<I")
"""The layout of an FPDU's CRC, the only field in little-endian order (RFC 5044 section 4.4)."""

_CRC_RESIDUE = 0x48674BC7
"""The CRC-32C of any octets and their own CRC, in little-endian order."""

NO_CRC = bytes(4)
"""The CRC field when CRCs are off; its reader ignores it."""

PADS = (b"", b"\0\0\0", b"\0\0", b"\0")
"""The padding of an FPDU whose length field and ULPDU have n octets, by n modulo 4."""

MARKER_SPACING_OCTETS = 512
_MARKER = struct.Struct(">HH")


def size_mulpdu(emss: int, *, markers: bool) -> int:
    """Returns the size in octets of the largest ULPDU whose FPDU fits a TCP segment of `emss` octets (RFC 5044 4.5).

    The result is at least `ULPDU_OCTETS_MIN` (128) and at most `ULPDU_OCTETS_MAX` (64768). `markers`: whether the
    stream has markers.
    """
    overhead = 6 + emss % 4
    if markers:
        overhead += 4 * -(-emss // MARKER_SPACING_OCTETS)
    return min(max(emss - overhead, ULPDU_OCTETS_MIN), ULPDU_OCTETS_MAX)


def size_fpdu(ulpdu_octets: int) -> int:
    """Returns the size in octets of an FPDU without markers: length field, ULPDU of `ulpdu_octets`, padding and CRC."""
    return (ulpdu_octets + 5 & ~3) + 4


def build_fpdu(ulpdu: Sequence[Buffer], octets: int, *, crc: bool) -> list[Buffer]:
    """Returns the gather list of an FPDU without markers: the buffers of `ulpdu` themselves, then padding and CRC.

    `ulpdu`: the length field and the ULPDU, as buffers in order. `octets`: the length of both together. `crc`: whether
    to compute the CRC; if False the CRC field is zero.
    """
    pad = PADS[octets & 3]
    if not crc:
        return [*ulpdu, pad + NO_CRC]
    digest = 0
    for piece in ulpdu:
        digest = crc32c(piece, digest)
    if pad:
        digest = crc32c(pad, digest)
    return [*ulpdu, pad + CRC.pack(digest)]


def verify_crc(octets: memoryview, digest: int = 0) -> None:
    """Checks the CRC field of an FPDU (RFC 5044 section 4.4).

    Args:
        octets: the FPDU, or the rest of it if `digest` covers its beginning; the last four octets are the CRC field.
        digest: the CRC-32C of the FPDU's octets before `octets`; 0 if there are none.

    Raises:
        TerminateFault: the CRC does not match.
    """
    if crc32c(octets, digest) != _CRC_RESIDUE:
        raise TerminateFault("CRC mismatch", Code.MPA_CRC)


def build_marked_fpdu(ulpdu: Sequence[Buffer], octets: int, position: int, *, crc: bool) -> tuple[list[Buffer], int]:
    """Builds an FPDU with a marker at every 512th octet of the stream (RFC 5044 sections 4.3 and 4.4).

    The CRC also covers a marker before the FPDU's first octet, and one between padding and CRC.

    Args:
        ulpdu: the length field and the ULPDU, as buffers in order.
        octets: the length of `ulpdu`.
        position: the offset of the FPDU in the stream from the first octet of full operation, where the first marker
            is; only its remainder modulo 512 matters, so that TCP's sequence numbers may wrap.
        crc: whether to compute the CRC; if False the field is zero.

    Returns:
        The gather list of the FPDU, and the position behind the FPDU.
    """
    gather: list[Buffer] = []
    digest = 0
    pad = PADS[octets & 3]
    if position % MARKER_SPACING_OCTETS == 0:
        gather.append(NO_CRC)  # reserved and FPDUPTR are zero
        digest = crc32c(NO_CRC)
        position += 4
    start = position
    for piece in (*ulpdu, pad):
        view = memoryview(piece)
        done = 0
        while done < len(view):
            if position % MARKER_SPACING_OCTETS == 0:
                digest = _append_marker(gather, position - start, digest)
                position += 4
            part = view[done : done + MARKER_SPACING_OCTETS - position % MARKER_SPACING_OCTETS]
            gather.append(part)
            digest = crc32c(part, digest)
            done += len(part)
            position += len(part)
    if position % MARKER_SPACING_OCTETS == 0:
        digest = _append_marker(gather, position - start, digest)
        position += 4
    gather.append(CRC.pack(digest) if crc else NO_CRC)
    return gather, position + 4


def _append_marker(gather: list[Buffer], pointer: int, digest: int) -> int:
    marker = _MARKER.pack(0, pointer)
    gather.append(marker)
    return crc32c(marker, digest)
