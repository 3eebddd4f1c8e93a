"""Entries of the send queue of full operation."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.segments import READ_REQUEST, SEND, WRITE, encode_read_header
from rpcrdma.verbs.queue_pair import Status, Verb
from rpcrdma.wire.buffers import Buffer

__all__ = ["MESSAGE_OCTETS_MAX", "ReadWork", "Work", "check_remote", "ready_work"]

MESSAGE_OCTETS_MAX = 0xFFFFFFFF
"""Octets of the longest DDP message."""

_OFFSET_MASK = 0xFFFFFFFFFFFFFFFF
"""An RDMA Read of no octets may name the end of all memory."""

_READY_HANDLE = 1
"""The steering tag of RTR frames: its value has no meaning, but some RNICs refuse 0."""


class Work:
    """One entry of the send queue of an iWARP queue pair.

    `wr` identifies the work in its completion. `verb` None is an orderly disconnect. `control` is the RDMAP control
    octet; `handle` and `offset` name remote memory; for a Send with Invalidate, `handle` is the one to invalidate.
    `gather` is the data, of `length` octets. Work that is not `signaled` completes only if it fails. `end` is the
    position in the outgoing stream after the work's last octet, 0 until its last FPDU is built. `internal` work was not
    posted by the upper layer and gets no completion. `status` is that of the completion if the connection ends first.
    """

    __slots__ = (
        "control",
        "end",
        "gather",
        "handle",
        "internal",
        "length",
        "offset",
        "signaled",
        "status",
        "verb",
        "wr",
    )

    def __init__(
        self,
        wr: object,
        verb: Verb | None,
        control: int,
        gather: Sequence[Buffer],
        length: int,
        handle: int = 0,
        offset: int = 0,
        *,
        signaled: bool = True,
    ) -> None:
        self.wr = wr
        self.verb = verb
        self.control = control
        self.gather = gather
        self.length = length
        self.handle = handle
        self.offset = offset
        self.signaled = signaled
        self.end = 0
        self.internal = False
        self.status = Status.FLUSHED


class ReadWork(Work):
    """An RDMA Read in the send queue: its response is placed at `sink_handle` and `sink_offset` of this side's memory.

    `length` is the number of octets to read, `handle` and `offset` name the peer's memory. `received` counts the octets
    of the response so far, and `done` is True once it is complete. `gather` has the Read Request header.
    """

    __slots__ = ("done", "received", "sink_handle", "sink_offset")

    def __init__(
        self, wr: object, control: int, length: int, handle: int, offset: int, sink_handle: int, sink_offset: int
    ) -> None:
        request = encode_read_header((sink_handle, sink_offset, length, handle, offset & _OFFSET_MASK))
        super().__init__(wr, Verb.RDMA_READ, control, (request,), length, handle, offset)
        self.sink_handle = sink_handle
        self.sink_offset = sink_offset
        self.received = 0
        self.done = False


def ready_work(frame: ReadyFrame) -> Work:
    """Returns the work that sends an RTR frame of kind `frame`, which permits the responder to send (RFC 6581 9.2).

    The work is `internal`: no completion reports it.
    """
    work: Work
    if frame is ReadyFrame.READ:
        work = ReadWork(None, READ_REQUEST, 0, _READY_HANDLE, 0, _READY_HANDLE, 0)
    elif frame is ReadyFrame.WRITE:
        work = Work(None, Verb.RDMA_WRITE, WRITE, (), 0, _READY_HANDLE)
    else:
        work = Work(None, Verb.SEND, SEND, (), 0)
    work.internal = True
    return work


def check_remote(handle: int, offset: int, length: int) -> None:
    """Checks that a message can name `length` octets of the peer's memory at this handle and offset.

    Raises:
        LocalProtocolError: the handle is not within 32 bits, the memory not within 64-bit offsets, or `length` not
            within 0 to 2^32 - 1.
    """
    if not (0 <= handle <= 0xFFFFFFFF and offset >= 0 and offset + length <= _OFFSET_MASK + 1):
        raise LocalProtocolError(f"no memory can be at handle {handle:#x}, offset {offset:#x}, length {length}")
    if not 0 <= length <= MESSAGE_OCTETS_MAX:
        raise LocalProtocolError(f"{length} octets: DDP messages stay below 2^32")
