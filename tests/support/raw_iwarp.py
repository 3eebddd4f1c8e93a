"""An iWARP peer made of octets: frames put together by hand, right or wrong, and a queue pair to send them to.

Nothing here uses the encoders of `rpcrdma.iwarp`, so that a mistake there does not hide itself: the frames are those
of `rpcrdma_lab.scripted`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.iwarp.sender import Sender
from rpcrdma.testing.joined_pair import Chunking, feed, whole
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Disconnected, QueuePairEvent
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.native import native
from rpcrdma_lab.scripted.frames import make_fpdu, make_segments, make_startup
from rpcrdma_lab.scripted.marked_frames import Markers
from rpcrdma_lab.scripted.values import Names
from support.draws import draws

__all__ = [
    "RawPeer",
    "bound_gather",
    "completions_of",
    "connected",
    "end_of",
    "events_of",
    "fpdu",
    "marked",
    "read_request",
    "startup_frame",
    "tagged",
    "terminate",
    "untagged",
]

_NO_NAMES = Names()
_GATHER_OCTETS = 1 << 18
_GATHERS_MAX = 300
"""No test has a queue pair send more gather lists at once: a mistake that makes it send for ever is an assertion."""

NATIVE_PEERS = False
"""Whether the native module receives for the queue pairs of raw peers: a fixture of tests/iwarp sets it."""


def startup_frame(kind: str, flags: int, revision: int, data: bytes = b"", length: int | None = None) -> bytes:
    """An MPA start-up frame; `kind` is "Req" or "Rep", `length` a false length of `data`."""
    fields = {"key": {"text": f"MPA ID {kind} Frame"}, "flags": flags, "revision": revision, "data": data.hex()}
    told = {} if length is None else {"length": length}
    return make_startup({**fields, **told, "enhanced": False}, _NO_NAMES, "")


def fpdu(ulpdu: bytes, *, crc: bool = True, flaw: int = 0) -> bytes:
    """One FPDU without markers; `flaw` is added to its CRC."""
    return make_fpdu(ulpdu, {"crc": flaw} if flaw else {}, _NO_NAMES, crc=crc)


def marked(ulpdus: Iterable[bytes]) -> bytes:
    """The first FPDUs of a stream with markers."""
    markers = Markers()
    return b"".join(make_fpdu(each, {}, _NO_NAMES, crc=True, markers=markers) for each in ulpdus)


def tagged(
    opcode: int,
    handle: int,
    offset: int,
    payload: bytes = b"",
    *,
    last: bool = True,
    ddp_version: int = 1,
    rdmap_version: int = 1,
) -> bytes:
    """A tagged DDP segment."""
    fields = {"tagged": 1, "last": last, "version": ddp_version, "rdmap_version": rdmap_version}
    return _segment(payload, {**fields, "opcode": opcode, "handle": handle, "offset": offset})


def untagged(
    opcode: int,
    queue: int,
    msn: int,
    payload: bytes = b"",
    *,
    offset: int = 0,
    invalidate: int = 0,
    last: bool = True,
    ddp_version: int = 1,
    rdmap_version: int = 1,
) -> bytes:
    """An untagged DDP segment."""
    fields = {"tagged": 0, "last": last, "version": ddp_version, "rdmap_version": rdmap_version}
    places = {"queue": queue, "number": msn, "offset": offset}
    return _segment(payload, {**fields, **places, "opcode": opcode, "invalidate": invalidate})


def _segment(payload: bytes, fields: dict[str, int]) -> bytes:
    (made,) = make_segments(payload, fields, {}, _NO_NAMES)
    return made


def read_request(
    msn: int, sink_handle: int, sink_offset: int, length: int, source_handle: int, source_offset: int
) -> bytes:
    """The segment of an RDMA Read Request."""
    return untagged(1, 1, msn, struct.pack(">IQIIQ", sink_handle, sink_offset, length, source_handle, source_offset))


def terminate(code: int, segment: bytes = b"", *, read_header: bool = False) -> bytes:
    """The FPDU of a Terminate with `code` (0xLTCC) that quotes the headers of `segment`, or none if it is empty."""
    if not segment:
        return fpdu(untagged(7, 2, 1, struct.pack(">HBB", code, 0, 0)))
    header = 14 if segment[0] & 0x80 else 18
    told = struct.pack(">H", len(segment)) + segment[:header]
    if read_header:
        told += segment[header : header + 28]
    return fpdu(untagged(7, 2, 1, struct.pack(">HBB", code, 0xE0 if read_header else 0xC0, 0) + told))


def completions_of(qp: IwarpQueuePair) -> list[Completion]:
    """All completions on hand."""
    found = list(qp.completions)
    qp.completions.clear()
    return found


def events_of(qp: IwarpQueuePair) -> list[QueuePairEvent]:
    """All events on hand."""
    found = list(qp.events)
    qp.events.clear()
    return found


def end_of(qp: IwarpQueuePair) -> Disconnected:
    """The end of the connection, which is the only event on hand."""
    (event,) = events_of(qp)
    assert isinstance(event, Disconnected)
    return event


class _Bounded(list[Buffer]):
    """A gather list that is looked at so often and no more: a gather that goes on without end fails."""

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        assert self.looks < 2000
        return super().__len__()


def bound_gather(sender: Sender) -> None:
    """Lets the next gather of `sender` fail if it goes on without end."""
    if not sender.out.pieces:
        sender.out.pieces = _Bounded()


class RawPeer:
    """A queue pair `qp` with its protection domain `pd`, fed with octets by a test; `sent` is all that `qp` sent."""

    def __init__(
        self,
        role: MpaRole,
        pd: SoftwareProtectionDomain,
        config: IwarpConfig | None = None,
        *,
        emss: int = 1460,
        private_data: bytes = b"",
        chunking: Chunking = whole,
        natively: bool | None = None,
    ) -> None:
        self.pd = pd
        step = native if (NATIVE_PEERS if natively is None else natively) else None
        self.qp = IwarpQueuePair(role, pd, config or IwarpConfig(), emss, private_data, native=step)
        self.chunking = chunking
        self.sent = b""

    def take(self) -> bytes:
        """The octets that the queue pair has to send now."""
        taken = bytearray()
        gathers = 0
        bound_gather(self.qp._sender)
        while gather := self.qp.next_gather(_GATHER_OCTETS):
            gathers += 1
            assert gathers <= _GATHERS_MAX, "the queue pair sends without an end"
            data = b"".join(gather)
            self.qp.bytes_sent(len(data))
            taken += data
            bound_gather(self.qp._sender)
        self.sent += taken
        return bytes(taken)

    def give(self, octets: Buffer) -> None:
        """Sends `octets` to the queue pair, cut as `chunking` says."""
        view = memoryview(octets)
        start = 0
        while start < len(view):
            step = self.chunking(len(view) - start)
            receiver = self.qp.native_receiver
            frames = None if receiver is None else receiver.frames
            if frames is None:
                fed = feed(self.qp, view[start : start + step])
                self.qp.hand_over()
            else:
                outcome, fed = frames.feed(view[start : start + step])
                if outcome:
                    self.qp.received_natively(outcome)
            # The native module takes nothing where the receiver in Python has to go on.
            assert fed or frames, f"the queue pair takes none of the {len(view) - start} octets that are left"
            start += fed

    def connect(self, *, crc: bool = True, markers: bool = False, depth: int = 32) -> bytes:
        """Goes through an enhanced start-up; returns the queue pair's frame.

        A responder's upper layer accepts at once. It may not send before it has received an FPDU.
        """
        flags = 0x10 | 0x40 * crc | 0x80 * markers
        words = struct.pack(">HH", depth, depth)
        if self.qp.role is MpaRole.INITIATOR:
            frame = self.take()
            self.give(startup_frame("Rep", flags, 2, words))
        else:
            self.give(startup_frame("Req", flags, 2, words))
            self.qp.accept(b"")
            frame = self.take()
        return frame


def connected(
    role: MpaRole = MpaRole.INITIATOR,
    config: IwarpConfig | None = None,
    *,
    emss: int = 1460,
    chunking: Chunking = whole,
    crc: bool = True,
    markers: bool = False,
    depth: int = 32,
) -> RawPeer:
    """A raw peer behind start-up; a responder has had an empty RDMA Write, so that it may speak."""
    raw = RawPeer(role, SoftwareProtectionDomain(draws()), config, emss=emss, chunking=chunking)
    raw.connect(crc=crc, markers=markers, depth=depth)
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(tagged(0, 0, 0), crc=crc))
    events_of(raw.qp)
    raw.sent = b""
    return raw
