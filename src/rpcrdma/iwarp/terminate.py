"""Terminate: the message by which one side reports the rule that the other has broken.

Layout: RFC 5040 section 4.8. Codes: there, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 8.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.errors import DecodeError, RemoteAccessError, RemoteProtocolError
from rpcrdma.iwarp.segments import TAGGED, TAGGED_CONTROL, UNTAGGED, UNTAGGED_CONTROL
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "Code",
    "PeerTerminated",
    "TerminateFault",
    "TerminateMessage",
    "Violation",
    "decode_terminate",
    "encode_terminate",
    "fault_of",
    "read_source_code",
    "tagged_code",
]

_WORD = struct.Struct(">BBBB")
_LENGTH = struct.Struct(">H")
_M, _D, _R = 0x80, 0x40, 0x20
_RESERVED = 0x1F


class Code(enum.IntEnum):
    """The cause of a Terminate: layer, error type and error code as its first two octets, 0xLTCC."""

    LOCAL_CATASTROPHIC = 0x0000
    PROTECTION_STAG = 0x0100
    PROTECTION_BOUNDS = 0x0101
    PROTECTION_RIGHTS = 0x0102
    PROTECTION_STREAM = 0x0103
    PROTECTION_WRAP = 0x0104
    PROTECTION_INVALIDATE = 0x0109
    PROTECTION_UNSPECIFIED = 0x01FF
    OPERATION_VERSION = 0x0205
    OPERATION_OPCODE = 0x0206
    OPERATION_STREAM = 0x0207
    OPERATION_GLOBAL = 0x0208
    OPERATION_INVALIDATE = 0x0209
    OPERATION_UNSPECIFIED = 0x02FF
    DDP_CATASTROPHIC = 0x1000
    TAGGED_STAG = 0x1100
    TAGGED_BOUNDS = 0x1101
    TAGGED_STREAM = 0x1102
    TAGGED_WRAP = 0x1103
    TAGGED_VERSION = 0x1104
    UNTAGGED_QUEUE = 0x1201
    UNTAGGED_NO_BUFFER = 0x1202
    UNTAGGED_MSN = 0x1203
    UNTAGGED_MO = 0x1204
    UNTAGGED_TOO_LONG = 0x1205
    UNTAGGED_VERSION = 0x1206
    MPA_CLOSED = 0x2001
    MPA_CRC = 0x2002
    MPA_MARKER = 0x2003
    MPA_FRAME = 0x2004
    MPA_CATASTROPHIC = 0x2005
    INSUFFICIENT_IRD = 0x2006
    NO_MATCHING_RTR = 0x2007


_WORDS = {
    Code.LOCAL_CATASTROPHIC: "local catastrophic error",
    Code.PROTECTION_STAG: "RDMA Read or invalidation of an invalid handle",
    Code.PROTECTION_BOUNDS: "RDMA Read outside the bounds of the memory",
    Code.PROTECTION_RIGHTS: "access rights violation",
    Code.PROTECTION_STREAM: "RDMA Read of a handle of another connection",
    Code.PROTECTION_WRAP: "RDMA Read past the end of the offset space",
    Code.PROTECTION_INVALIDATE: "invalidation of a handle that cannot be invalidated",
    Code.PROTECTION_UNSPECIFIED: "remote protection error",
    Code.OPERATION_VERSION: "invalid RDMAP version",
    Code.OPERATION_OPCODE: "unexpected opcode",
    Code.OPERATION_STREAM: "catastrophic error of the stream",
    Code.OPERATION_GLOBAL: "catastrophic error, global",
    Code.OPERATION_INVALIDATE: "a handle cannot be invalidated",
    Code.OPERATION_UNSPECIFIED: "remote operation error",
    Code.DDP_CATASTROPHIC: "local catastrophic error of DDP",
    Code.TAGGED_STAG: "RDMA Write to an invalid handle",
    Code.TAGGED_BOUNDS: "RDMA Write outside the bounds of the memory",
    Code.TAGGED_STREAM: "RDMA Write to a handle of another connection",
    Code.TAGGED_WRAP: "RDMA Write past the end of the offset space",
    Code.TAGGED_VERSION: "invalid DDP version in a tagged segment",
    Code.UNTAGGED_QUEUE: "invalid queue number",
    Code.UNTAGGED_NO_BUFFER: "no receive buffer was posted",
    Code.UNTAGGED_MSN: "message sequence number out of range",
    Code.UNTAGGED_MO: "invalid message offset",
    Code.UNTAGGED_TOO_LONG: "the message is longer than the receive buffer",
    Code.UNTAGGED_VERSION: "invalid DDP version in an untagged segment",
    Code.MPA_CLOSED: "the TCP connection was closed or lost",
    Code.MPA_CRC: "CRC mismatch",
    Code.MPA_MARKER: "marker and ULPDU length do not match",
    Code.MPA_FRAME: "invalid MPA start-up frame",
    Code.MPA_CATASTROPHIC: "local catastrophic error of MPA",
    Code.INSUFFICIENT_IRD: "insufficient resources for RDMA Reads",
    Code.NO_MATCHING_RTR: "no matching ready-to-receive frame",
}

_MPA_CODES = {code for code in Code if code >> 8 == 0x20}

_READ_SOURCE = {
    "invalid handle": Code.PROTECTION_STAG,
    "access rights": Code.PROTECTION_RIGHTS,
    "wrap": Code.PROTECTION_WRAP,
    "bounds": Code.PROTECTION_BOUNDS,
}

_TAGGED = {
    "invalid handle": Code.TAGGED_STAG,
    # DDP has no code for missing rights: the handle is not valid for writing.
    "access rights": Code.TAGGED_STAG,
    "wrap": Code.TAGGED_WRAP,
    "bounds": Code.TAGGED_BOUNDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateMessage:
    """A Terminate header (RFC 5040 figure 7).

    `code` is 0xLTCC: layer, error type, error code. `segment_octets` is the terminated DDP segment's length,
    `ddp_header` its header of 14 or 18 octets, `read_header` the 28 octets of an RDMA Read Request. Each of the three
    may be left out of the message: None, or b"".
    """

    code: int
    segment_octets: int | None = None
    ddp_header: bytes = b""
    read_header: bytes = b""

    @property
    def words(self) -> str:
        """The cause in words for a log, with the numbers of layer, type and code."""
        layer, etype, code = self.code >> 12, self.code >> 8 & 0xF, self.code & 0xFF
        words = _WORDS[Code(self.code)] if self.code in _WORDS else "unknown error"
        return f"{words} ({layer}/{etype}/{code:02x})"


class TerminateFault(RemoteProtocolError):
    """Raised for a fault that ends the connection with a Terminate, which has `code` and the offending headers.

    The peer has broken a rule on the stream, or this side cannot continue to send, as memory was invalidated. `code` is
    0xLTCC: layer, error type, error code. `segment_octets` is the length of the faulty DDP segment, None without one;
    `ddp_header` is its header, and `read_header` the header of an RDMA Read Request, each b"" without one.
    """

    def __init__(
        self,
        message: str,
        code: Code,
        *,
        segment_octets: int | None = None,
        ddp_header: bytes = b"",
        read_header: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.segment_octets = segment_octets
        self.ddp_header = ddp_header
        self.read_header = read_header

    def terminate(self) -> TerminateMessage:
        """Returns the Terminate for this fault, with the headers that RFC 5040 figure 10 demands for layer and type."""
        layer_and_type = self.code >> 8
        # RDMAP's catastrophic errors and MPA's errors quote no headers; only protection errors quote the Read Request.
        if layer_and_type in {0x00, 0x20} or self.segment_octets is None:
            return TerminateMessage(code=self.code)
        return TerminateMessage(
            code=self.code,
            segment_octets=self.segment_octets,
            ddp_header=self.ddp_header,
            read_header=self.read_header if layer_and_type == 0x01 else b"",
        )


Violation: TypeAlias = tuple[str, Code]
"""The rule that a segment breaks, in words, and the code for it."""


def fault_of(violation: Violation, header: tuple[int, ...], read_header: bytes = b"") -> TerminateFault:
    """Returns the error to raise for a segment that breaks a rule.

    `violation`: the rule, in words, and its `Code` (0xLTCC: layer, error type, error code). `header`: the fields of the
    segment's DDP header with MPA's ULPDU_Length, as unpacked by `segments.TAGGED` or `segments.UNTAGGED`.
    `read_header`: the encoded RDMA Read Request header that the Terminate quotes; empty for none.
    """
    layout = TAGGED if header[1] & TAGGED_CONTROL & ~UNTAGGED_CONTROL else UNTAGGED
    return TerminateFault(
        violation[0],
        violation[1],
        segment_octets=header[0],
        ddp_header=layout.pack(*header)[2:],
        read_header=read_header,
    )


def read_source_code(error: RemoteAccessError) -> Code:
    """Returns the Terminate code for the refused source of an RDMA Read, which RDMAP checks (RFC 5040 section 7.2)."""
    return _READ_SOURCE[error.reason]


def tagged_code(error: RemoteAccessError) -> Code:
    """Returns the Terminate code for a tagged segment's refused memory, which DDP checks (RFC 5041 section 7.2)."""
    return _TAGGED[error.reason]


class PeerTerminated(RemoteProtocolError):
    """Raised when the peer has sent a Terminate, which is `terminate`."""

    def __init__(self, terminate: TerminateMessage) -> None:
        told = f"the peer terminated: {terminate.words}"
        swapped = TerminateMessage(code=_nibbles_swapped(terminate.code >> 8) << 8 | terminate.code & 0xFF)
        # Without headers some codes are valid in both forms: the swapped octet turns an MPA code into one of RDMAP.
        if terminate.segment_octets is None and swapped.code in _MPA_CODES and terminate.code not in _MPA_CODES:
            told += f"; if it is Linux siw, this means: {swapped.words}"
        super().__init__(told)
        self.terminate = terminate


def _nibbles_swapped(octet: int) -> int:
    return (octet & 0xF) << 4 | octet >> 4


def encode_terminate(message: TerminateMessage) -> bytes:
    """Encodes the payload of a Terminate, in which the bits M, D and R announce the optional fields of `message`.

    Before a `ddp_header` without `segment_octets` stands the length 0, which M does not announce as valid.
    """
    flags = 0
    body = b""
    if message.segment_octets is not None:
        flags |= _M
    if message.segment_octets is not None or message.ddp_header:
        body = _LENGTH.pack(message.segment_octets or 0)
    if message.ddp_header:
        flags |= _D
        body += message.ddp_header
    if message.read_header:
        flags |= _R
        body += message.read_header
    return _WORD.pack(message.code >> 8, message.code & 0xFF, flags, 0) + body


def decode_terminate(data: Buffer) -> TerminateMessage:
    """Decodes the payload of a Terminate: the fields that M, D and R announce; trailing octets are ignored.

    `segment_octets` is the length before a DDP header also if M is not set. Linux siw swaps the nibbles of layer and
    type and mirrors M, D and R in the low bits. Its form is recognized by the mirrored bits, or by a code that is known
    only with the nibbles swapped.

    Raises:
        DecodeError: the octets end before an announced field does.
    """
    if len(data) < _WORD.size:
        raise DecodeError("Terminate control", 0, f"{_WORD.size} octets", f"{len(data)}", rfc="5040 4.8")
    first, code, flags, _ = _WORD.unpack_from(data)
    swapped = _nibbles_swapped(first)
    if flags & _RESERVED and not flags & ~_RESERVED & 0xFF:
        first = swapped
        flags = _M * (flags & 1) | _D * (flags >> 1 & 1) | _R * (flags >> 2 & 1)
    elif first << 8 | code not in _WORDS and swapped << 8 | code in _WORDS:
        first = swapped
    pos = _WORD.size

    def take(octets: int, field: str) -> bytes:
        nonlocal pos
        if len(data) - pos < octets:
            raise DecodeError(field, pos, f"{octets} octets", f"{len(data) - pos}", rfc="5040 4.8")
        pos += octets
        return bytes(data[pos - octets : pos])

    segment_octets = None
    # The length precedes the header even if only the header is announced (D without M).
    if flags & (_M | _D):
        segment_octets = _LENGTH.unpack(take(2, "DDP Segment Length"))[0]
    ddp_header = b""
    if flags & _D:
        tagged = pos < len(data) and data[pos] & 0x80
        ddp_header = take(14 if tagged else 18, "Terminated DDP Header")
    read_header = take(28, "Terminated RDMA Header") if flags & _R else b""
    return TerminateMessage(
        code=first << 8 | code, segment_octets=segment_octets, ddp_header=ddp_header, read_header=read_header
    )
