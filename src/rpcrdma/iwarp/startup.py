"""MPA start-up frames: their octets, and the agreement that a Request and its Reply make (RFC 5044 7.1, RFC 6581).

The initiator sends a Request, the responder a Reply. Revision 2 with S set ("enhanced") puts four octets before the
upper layer's private data: the read queue depths IRD and ORD, and the bits A to D of the peer-to-peer model.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from rpcrdma.iwarp.config import IwarpConfig, MpaRole, ReadyFrame
from rpcrdma.iwarp.terminate import Code
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "HEADER_OCTETS",
    "NOT_NEGOTIATED",
    "Enhanced",
    "FrameKind",
    "MpaAgreement",
    "StartupExchange",
    "StartupFrame",
    "StartupRefused",
    "answer",
    "ask",
    "conclude",
    "decode_startup_frame",
    "encode_startup_frame",
    "size_startup_frame",
]

_HEADER = struct.Struct(">16sBBH")
_WORDS = struct.Struct(">HH")

HEADER_OCTETS = 20
_PRIVATE_DATA_OCTETS_MAX = 512
NOT_NEGOTIATED = 0x3FFF
"""The depth in a frame that leaves IRD or ORD to the upper layer."""

_MARKERS, _CRC, _REJECT, _ENHANCED = 0x80, 0x40, 0x20, 0x10
_HIGH, _SECOND, _DEPTH = 0x8000, 0x4000, 0x3FFF

_PREFERENCE = (ReadyFrame.WRITE, ReadyFrame.READ, ReadyFrame.SEND)
"""A Write needs neither a receive nor a read slot; a Send is last, since other RNICs make it take a receive."""

_UNNEGOTIATED_READS = 1
"""Outbound RDMA Reads to a peer that has not stated its depth: every RNIC that answers Reads holds one."""


class FrameKind(enum.Enum):
    """The kind of an MPA start-up frame, Request or Reply; the value is the frame's key field."""

    REQUEST = b"MPA ID Req Frame"
    REPLY = b"MPA ID Rep Frame"

    @property
    def other(self) -> FrameKind:
        """The kind of frame that the opposite role sends."""
        return FrameKind.REPLY if self is FrameKind.REQUEST else FrameKind.REQUEST


class Enhanced(NamedTuple):
    """The four octets of enhanced set-up (RFC 6581 section 9): IRD, ORD, and the bits of the peer-to-peer model.

    `peer_to_peer` is the bit A, `ready_frames` are the RTR frames of the bits B, C and D. A depth of 0x3FFF is not
    negotiated.
    """

    inbound_reads: int
    outbound_reads: int
    peer_to_peer: bool = False
    ready_frames: ReadyFrame = ReadyFrame(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupFrame:
    """An MPA Request or Reply Frame (RFC 5044 section 7.1.1).

    `markers`: the sender wants to receive markers. `crc`: the sender demands CRCs. `reject`: the Reply refuses the
    connection. `enhanced` is None unless S is set in a frame of revision 2; `private_data` is the upper layer's part.
    """

    kind: FrameKind
    revision: int
    markers: bool = False
    crc: bool = False
    reject: bool = False
    enhanced: Enhanced | None = None
    private_data: bytes = b""


class MpaAgreement(NamedTuple):
    """The terms of a connection on which the MPA Request and Reply agree, seen from one side.

    `crc`: FPDUs have CRCs. `markers`: this side must insert markers. `inbound_reads` and `outbound_reads` are this
    side's IRD and ORD; without enhanced set-up ORD is at most 1. `ready_frame`: the kind of RTR frame that the
    initiator sends first; None: it sends none.
    """

    crc: bool
    markers: bool
    inbound_reads: int
    outbound_reads: int
    ready_frame: ReadyFrame | None


class StartupRefused(RemoteProtocolError):
    """Raised for a well-formed Reply whose terms this side cannot accept; a Terminate reports `code` to the peer."""

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(message, rfc="6581 8")
        self.code = code


def encode_startup_frame(frame: StartupFrame) -> bytes:
    """Encodes an MPA Request or Reply Frame; the bit S is set if `frame.enhanced` is not None.

    Raises:
        LocalProtocolError: the private data has more than 512 octets, or more than 508 beside `enhanced`.
    """
    flags = _MARKERS * frame.markers | _CRC * frame.crc | _REJECT * frame.reject
    data = frame.private_data
    room = _PRIVATE_DATA_OCTETS_MAX - _WORDS.size * (frame.enhanced is not None)
    if len(data) > room:
        raise LocalProtocolError(f"{len(data)} octets of private data, more than {room}")
    if frame.enhanced is not None:
        flags |= _ENHANCED
        inbound, outbound, peer_to_peer, ready = frame.enhanced
        first = inbound | _HIGH * peer_to_peer | _SECOND * bool(ready & ReadyFrame.SEND)
        second = outbound | _HIGH * bool(ready & ReadyFrame.WRITE) | _SECOND * bool(ready & ReadyFrame.READ)
        data = _WORDS.pack(first, second) + data
    return _HEADER.pack(frame.kind.value, flags, frame.revision, len(data)) + data


def decode_startup_frame(kind: FrameKind, data: Buffer) -> StartupFrame:
    """Decodes the frame of `kind` that fills `data` exactly.

    Raises:
        RemoteProtocolError: `data` is not one whole frame of `kind`, or its revision is neither 1 nor 2. The caller
            closes the TCP connection (RFC 5044 section 8, error 4).
    """
    size = size_startup_frame(kind, data)
    if len(data) != size:
        raise DecodeError("MPA start-up frame", len(data), f"{size} octets", f"{len(data)}", rfc="5044 7.1.1")
    _, flags, revision, _ = _HEADER.unpack_from(data)
    private_data = bytes(data[HEADER_OCTETS:])
    enhanced = None
    # In revision 1 the bit S is reserved, and reserved bits are not checked.
    if revision >= 2 and flags & _ENHANCED:
        if len(private_data) < _WORDS.size:
            raise DecodeError("IRD and ORD", HEADER_OCTETS, "4 octets", f"{len(private_data)}", rfc="6581 6")
        first, second = _WORDS.unpack_from(private_data)
        private_data = private_data[_WORDS.size :]
        peer_to_peer = bool(first & _HIGH)
        ready = (
            ReadyFrame.SEND * bool(first & _SECOND)
            | ReadyFrame.WRITE * bool(second & _HIGH)
            | ReadyFrame.READ * bool(second & _SECOND)
        )
        # Without A the other bits mean nothing (RFC 6581 section 9.2).
        ready_frames = ReadyFrame(ready) if peer_to_peer else ReadyFrame(0)
        enhanced = Enhanced(first & _DEPTH, second & _DEPTH, peer_to_peer, ready_frames)
    return StartupFrame(
        kind=kind,
        revision=revision,
        markers=bool(flags & _MARKERS),
        crc=bool(flags & _CRC),
        reject=kind is FrameKind.REPLY and bool(flags & _REJECT),
        enhanced=enhanced,
        private_data=private_data,
    )


def size_startup_frame(kind: FrameKind, data: Buffer) -> int:
    """Returns the length in octets of the frame that begins with `data`; 20 while `data` is too short to show it.

    `kind`: the kind of frame that is expected. `data`: the octets received so far.

    Raises:
        RemoteProtocolError: `data` is not the beginning of an MPA start-up frame, or is the whole key of the other
            kind; the revision is neither 1 nor 2; or the frame has more than 512 octets of private data.
    """
    got = bytes(data[:16])
    if not kind.value.startswith(got):
        if got == kind.other.value:
            both = "initiators" if kind is FrameKind.REPLY else "responders"
            raise RemoteProtocolError(f"both sides are MPA {both}", rfc="5044 7.1.2")
        if not kind.other.value.startswith(got):
            raise RemoteProtocolError(f"not an MPA start-up frame: it starts with {got!r}", rfc="5044 7.1.1")
    if len(data) > 17 and data[17] not in {1, 2}:
        raise RemoteProtocolError(f"MPA revision {data[17]} is not supported", rfc="5044 7.1.1")
    if len(data) < HEADER_OCTETS:
        return HEADER_OCTETS
    length = data[18] << 8 | data[19]
    if length > _PRIVATE_DATA_OCTETS_MAX:
        raise RemoteProtocolError(f"{length} octets of private data, more than 512", rfc="5044 7.1.1")
    return HEADER_OCTETS + length


def ask(config: IwarpConfig, private_data: bytes) -> StartupFrame:
    """Returns the Request of an initiator with the settings `config` and this private data, whose length is unchecked.

    If the RTR frame may be an RDMA Read, the Request states an ORD of at least 1.
    """
    enhanced = None
    if config.enhanced:
        ready = config.ready_frames if config.peer_to_peer else ReadyFrame(0)
        outbound = config.outbound_reads
        if ready & ReadyFrame.READ:
            outbound = max(outbound, 1)
        enhanced = Enhanced(config.inbound_reads, outbound, config.peer_to_peer, ready)
    return StartupFrame(
        kind=FrameKind.REQUEST,
        revision=2 if config.enhanced else 1,
        crc=config.crc,
        enhanced=enhanced,
        private_data=private_data,
    )


def answer(
    request: StartupFrame, config: IwarpConfig, private_data: bytes, *, reject: bool = False
) -> tuple[StartupFrame, MpaAgreement]:
    """Returns the responder's Reply to `request`, and the terms (CRC, markers, IRD, ORD, RTR) for the responder.

    The Reply has the revision of the Request and is enhanced if that is, whatever `config.enhanced` is (RFC 6581
    section 10). It then states this side's IRD and ORD, reduced to the peer's ORD and IRD (0x3FFF where the peer has
    left one open; IRD at least 1 for an RTR frame that is an RDMA Read), and in the peer-to-peer model an RTR frame of
    this side, one in common if there is any. The initiator decides whether these terms suffice: nothing is raised. The
    length of the private data is not checked.

    Args:
        request: the peer's Request.
        config: the settings of this side.
        private_data: octets for the peer.
        reject: whether the Reply refuses the connection.
    """
    asked = request.enhanced
    crc = request.crc or config.crc
    inbound, outbound = config.inbound_reads, config.outbound_reads
    enhanced = None
    ready = None
    if asked is None:
        outbound = min(outbound, _UNNEGOTIATED_READS)
    else:
        if asked.peer_to_peer:
            common = asked.ready_frames & config.ready_frames
            ready = _preferred(common or config.ready_frames)
        told_inbound = told_outbound = NOT_NEGOTIATED
        if asked.outbound_reads != NOT_NEGOTIATED:
            inbound = min(inbound, asked.outbound_reads)
            if ready is ReadyFrame.READ:
                # The RTR frame itself takes a slot.
                inbound = max(inbound, 1)
            told_inbound = inbound
        if asked.inbound_reads != NOT_NEGOTIATED:
            told_outbound = outbound = min(outbound, asked.inbound_reads)
        enhanced = Enhanced(told_inbound, told_outbound, asked.peer_to_peer, ready or ReadyFrame(0))
    reply = StartupFrame(
        kind=FrameKind.REPLY,
        revision=request.revision,
        crc=crc,
        reject=reject,
        enhanced=enhanced,
        private_data=private_data,
    )
    return reply, MpaAgreement(crc, request.markers, inbound, outbound, ready)


def conclude(request: StartupFrame, reply: StartupFrame, config: IwarpConfig) -> MpaAgreement:
    """Returns the terms (CRC, markers, IRD, ORD, RTR frame) for the initiator after an accepting Reply.

    `request`: this side's Request. `reply`: the peer's Reply. `config`: the settings of this side.

    Raises:
        StartupRefused: the peer's ORD exceeds this side's IRD, the peer supports no RTR frame of the Request, or the
            RTR frame is an RDMA Read and the peer's IRD is 0. The caller sends a Terminate with its `code`.
        RemoteProtocolError: the Reply has another revision than the Request, or only one of them is enhanced. The
            caller closes the TCP connection.
    """
    asked, told = request.enhanced, reply.enhanced
    if reply.revision != request.revision or (asked is None) != (told is None):
        kind = "an enhanced" if asked else "a plain"
        raise RemoteProtocolError(
            f"the Reply (revision {reply.revision}) does not match {kind} Request of revision {request.revision}",
            rfc="6581 10",
        )
    crc = request.crc or reply.crc
    inbound, outbound = config.inbound_reads, config.outbound_reads
    if asked is None or told is None:
        return MpaAgreement(crc, reply.markers, inbound, min(outbound, _UNNEGOTIATED_READS), None)
    ready = None
    if asked.peer_to_peer:
        ready = _preferred(asked.ready_frames & told.ready_frames)
        if ready is None:
            raise StartupRefused("the peer supports none of our ready-to-receive frames", Code.NO_MATCHING_RTR)
    if told.outbound_reads != NOT_NEGOTIATED:
        if told.outbound_reads > inbound:
            raise StartupRefused(
                f"the peer wants {told.outbound_reads} RDMA Reads outstanding, more than {inbound}",
                Code.INSUFFICIENT_IRD,
            )
        inbound = told.outbound_reads
    if told.inbound_reads != NOT_NEGOTIATED:
        outbound = min(outbound, told.inbound_reads)
    if ready is ReadyFrame.READ:
        if told.inbound_reads == 0:
            raise StartupRefused("the peer wants an RDMA Read and takes none", Code.INSUFFICIENT_IRD)
        outbound = max(outbound, 1)
    return MpaAgreement(crc, reply.markers, inbound, outbound, ready)


def _preferred(frames: ReadyFrame) -> ReadyFrame | None:
    return next((frame for frame in _PREFERENCE if frame & frames), None)


class StartupExchange:
    """The MPA start-up of one end: collects the octets of the peer's frame while they arrive.

    `request` is the Request; a responder's queue pair sets it when the Request has arrived, None before. `peer_data` is
    the private data of the peer's frame, empty before. The queue pair sets `agreement` once both frames are known, None
    before.
    """

    __slots__ = ("_filled", "_kind", "_octets", "agreement", "peer_data", "request")

    def __init__(self, role: MpaRole, config: IwarpConfig, private_data: bytes) -> None:
        initiates = role is MpaRole.INITIATOR
        self._kind = FrameKind.REPLY if initiates else FrameKind.REQUEST
        # One octet more than the longest frame, so that an octet behind it is noticed.
        self._octets = bytearray(HEADER_OCTETS + _PRIVATE_DATA_OCTETS_MAX + 1)
        self._filled = 0
        self.request: StartupFrame | None = ask(config, private_data) if initiates else None
        self.peer_data = b""
        self.agreement: MpaAgreement | None = None

    def next_buffer(self) -> memoryview:
        """Returns the memory for the next octets of the peer's frame, and for one octet behind the longest frame."""
        return memoryview(self._octets)[self._filled :]

    def received(self, octets: int) -> StartupFrame | None:
        """Counts `octets` octets received into the memory of `next_buffer`.

        Returns the peer's frame once it is whole; None until then.

        Raises:
            RemoteProtocolError: the frame is malformed, of the wrong kind, or followed by further octets.
        """
        self._filled += octets
        data = memoryview(self._octets)[: self._filled]
        if len(data) < size_startup_frame(self._kind, data):
            return None
        frame = decode_startup_frame(self._kind, data)
        self._filled = 0
        self.peer_data = frame.private_data
        return frame

    def release(self) -> None:
        """Drops the memory of the start-up, `request` and `agreement` included; `peer_data` stays.

        Called when the connection is established. One octet of memory is left: an initiator that has not sent yet still
        notices what comes too early.
        """
        self._octets = bytearray(1)
        self.request = self.agreement = None
