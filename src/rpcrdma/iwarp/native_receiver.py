"""The receiving half of full operation with the native module, which takes the usual FPDUs.

The native module has the same state as the receiver in Python. It receives until an unusual FPDU arrives. Then the
receiver in Python continues, with the octets that the native module has not taken. It hands over again once it has no
unfinished FPDU or message.
"""

from __future__ import annotations

import contextlib
from collections import deque

from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.receiver import Receiver, Scratch
from rpcrdma.iwarp.segments import TAGGED_BIT, ReadHeader
from rpcrdma.iwarp.sender import Sender
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveSource
from rpcrdma.wire.native import Native, NativeFrames, native

__all__ = ["NativeReceiver"]

if native is not None:
    native.use_types(Completion, ReadResponse, ReadHeader, Verb.RECEIVE, Status.SUCCESS)


class NativeReceiver(Receiver):
    """A `Receiver` with which the native module, written in C, takes turns.

    While `frames` is not None, the native module receives, and `frames` is its receiver.

    Args:
        pd: the protection domain of the connection.
        sender: the sending half of the connection.
        completions: the completion queue, to which completions of work are appended.
        scratch: the memory that `view` has at first.
        step: the native module itself (`rpcrdma.wire.native.native`).
    """

    __slots__ = ("_completions", "_native", "_sender", "frames")

    def __init__(
        self,
        pd: SoftwareProtectionDomain,
        sender: Sender,
        completions: deque[Completion],
        scratch: Scratch,
        step: Native,
    ) -> None:
        super().__init__(pd, sender, completions, scratch)
        self._sender = sender
        self._completions = completions
        self._native = step
        self.frames: NativeFrames | None = None

    def hand_over(self) -> None:
        """Lets the native module, which is written in C, receive from now on: attribute `frames` is then its receiver.

        No effect while an RTR frame is awaited, while a Send or a large FPDU has arrived in part, and if the
        unprocessed octets begin with an FPDU that only Python handles, such as a Terminate or a faulty one.
        """
        untagged, sender = self.untagged, self._sender
        if self.direct.trailer or untagged.send_octets or self.ready_frame is not None:
            return
        frames = self._native.Receiver(
            self._pd.regions, sender.reads, sender.responses, self._completions, sender.read_answered
        )
        frames.send_number, frames.read_number, _ = untagged.numbers
        frames.reads_max = untagged.inbound_reads
        frames.crc = self.crc
        frames.pool = untagged.pool
        if sender.reads:
            frames.received = sender.reads[0].received
        if self.tagged.opened is not None:
            frames.opened = True
            frames.opened_rdmap, frames.opened_handle = self.tagged.opened
        if frames.feed(self.view[: self.filled])[0]:
            # It stops before the FPDU that has arrived in part, and has not taken all of that.
            return
        if not untagged.receives:
            frames.posted = untagged.shared
            untagged.shared = 0
        self._forget_octets()
        self.frames = frames

    def take_over(self) -> None:
        """Lets Python receive in place of the native (C) module, which hands over the octets that it has not processed.

        A Send or a large FPDU that has arrived in part continues. No effect if the native module does not receive.
        """
        frames = self.frames
        if frames is None:
            return
        self.frames = None
        untagged, reads = self.untagged, self._sender.reads
        untagged.numbers[:2] = frames.send_number, frames.read_number
        untagged.shared += frames.posted
        if reads:
            reads[0].received = frames.received
        self.tagged.opened = (frames.opened_rdmap, frames.opened_handle) if frames.opened else None
        sending = frames.trailer and not frames.control & TAGGED_BIT
        if frames.trailer:
            direct = self.direct
            direct.header = frames.length, frames.control, frames.rdmap, frames.handle, frames.offset
            if sending:
                direct.header = *direct.header[:4], 0, frames.offset, 0
            direct.placed = frames.placed
            direct.left = frames.left
            direct.digest = frames.digest
            direct.trailer = frames.trailer
            direct.fault = None
        message_header = frames.message_rdmap, frames.message_handle
        octets, message = frames.hand_over()
        if message:
            untagged.write(0, memoryview(message))
            if not sending:
                untagged.send_octets = len(message)
                untagged.send_opened = message_header
        self._continue_with(octets)

    def post(self, count: int, pool: ReceiveSource) -> None:
        """Posts `count` receives without a buffer: `pool`, which never lacks one, lends it when a message arrives."""
        frames = self.frames
        if frames is None or self.untagged.receives:
            super().post(count, pool)
        else:
            self.untagged.pool = frames.pool = pool
            frames.posted += count

    def flush(self) -> None:
        """Stops the native module, drops an incomplete FPDU and ends all receives, because the connection has ended.

        Receives with a buffer, posted with the receive or drawn from the pool for a Send that has arrived in part,
        complete with the status FLUSHED; the others get no completion.
        """
        # A Send that has arrived in part is dropped even without memory for it.
        with contextlib.suppress(MemoryError):
            self.take_over()
        super().flush()
