"""The sending half of full operation with the native module, which frames and sends messages in one call."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest

from rpcrdma.errors import RemoteAccessError
from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.segments import READ_REQUEST, READ_RESPONSE
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.work import ReadWork, Work
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Verb
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.native import NativeSend

__all__ = ["NativeSender"]

_NOTHING = memoryview(b"")

_TURNS_MAX = 8
"""Messages of each kind that are made ready at once where work and Read Responses take turns."""


class NativeSender(Sender):
    """A `Sender` whose messages the native module, written in C, frames and sends.

    The module begins with the first `send` after the connection has opened, unless there are markers or Python is in
    the middle of a message. From then on the attribute `native` is True, and `next_gather` returns only octets that
    were built before, and the rest of an FPDU that TCP has taken in part. Unsignaled work of which TCP takes all
    octets in one call, while `in_flight` is empty, is not kept there: it has succeeded without a completion.
    """

    __slots__ = ("native",)

    def __init__(self, pd: SoftwareProtectionDomain, completions: deque[Completion]) -> None:
        super().__init__(pd, completions, flush_each_message=False)
        self.native = False

    def next_gather(self, max_octets: int) -> list[Buffer]:
        """Returns a gather list to send without the native module, of whole FPDUs, or of the rest of an FPDU.

        The list has at most `max_octets` octets, unless the first FPDU alone has more. Once the native module sends,
        the list has only octets that were built before, and is empty if there are none.

        Raises:
            TerminateFault: memory was withdrawn while an RDMA Read of it was being answered.
            LocalProtocolError: an RDMA Read was posted to a peer that takes none.
        """
        return super().next_gather(max_octets) if self.out.pieces or not self.native else self.out.pieces

    def send(self, send: NativeSend) -> bool | None:
        """Frames and sends all messages that may be sent now, by calls of the function `send`, and completes sent work.

        `send`: `Native.send` with its first argument, the connection's socket, filled in. Returns True if no message
        that may be sent is left, False if the socket takes no more, and None if the octets of `next_gather` must be
        sent first, or the native module cannot send: before the connection is open, if it uses markers, and while
        Python is in the middle of a message.

        Raises:
            OSError: the connection is broken.
            TerminateFault: memory was withdrawn while an RDMA Read of it was being answered.
            LocalProtocolError: an RDMA Read was posted to a peer that takes none.
        """
        out, queue = self.out, self.send_queue
        if out.pieces:
            return None
        if not self.native:
            if not self.open or self.markers or self.under_way:
                return None
            self.native = True
            self._position = 0
        while True:
            messages = self._turns() if self.responses or self.current is not None else queue
            if not messages:
                return True
            reads = self.outbound_reads - len(self.reads)
            done, position, octets, rest = send(
                messages, self._position, self._msn, self._tagged_max, self._untagged_max, self.crc, reads
            )
            if not octets and rest is None:
                self._wait(messages[0])
                return True
            self._position = position
            out.built += octets
            out.start = out.sent = out.built
            if rest:
                out.put_rest(rest)
            if messages is queue and not position:
                begun = queue[:done]
                del queue[:done]
                for work in begun:
                    # Unsignaled work with an unsent rest still fails if the connection ends before that is sent.
                    if work.signaled or self.in_flight or (rest and work is begun[-1]):
                        work.end = out.built
                        self.in_flight.append(work)
                    if work.control == READ_REQUEST:
                        assert isinstance(work, ReadWork)
                        self.reads.append(work)
            else:
                self._note_sent(messages, done)
            if self.in_flight:
                self.report()
            if rest is not None:
                return False

    def _turns(self) -> list[Work]:
        """Returns messages for the native module: posted work and due Read Responses alternately, at most 8 of each.

        Work that is sent in part counts besides these 8; a message that is sent in part is the first one. If the first
        work is a disconnect or an RDMA Read beyond the agreed depth, and Read Responses are due, these alone are
        returned; if none is due, the work is returned, and the native module sends nothing.

        Raises:
            TerminateFault: the peer may not read the memory of a Read Response any more.
        """
        work = self.send_queue[:_TURNS_MAX]
        if self.current is not None:
            work.insert(0, self.current)
        if not self.responses:
            return work
        first = work[0] if work else None
        if first is not None and (first.verb is None or (isinstance(first, ReadWork) and self._reads_full)):
            # Read Responses do not wait for that.
            work = []
        answers_first = self._responding or (self._response_turn and self.current is None)
        messages: list[Work] = []
        for response, other in zip_longest(self.responses[:_TURNS_MAX], work):
            answer = [] if response is None else [self._answer(response)]
            others = [] if other is None else [other]
            messages += answer + others if answers_first else others + answer
        return messages

    @property
    def _reads_full(self) -> bool:
        """Whether no further RDMA Read of this side may begin: the agreed number (ORD), perhaps 0, is outstanding."""
        return len(self.reads) >= self.outbound_reads

    def _answer(self, response: ReadResponse) -> Work:
        """Returns a due Read Response as a `Work`, with the data and the sink at the peer, for the native module.

        Raises:
            TerminateFault: the peer may not read the memory any more.
        """
        sink_handle, sink_offset, length, source_handle, source_offset = response.header
        view = _NOTHING
        if length:
            try:
                view = self._pd.find(source_handle, source_offset, length, Access.REMOTE_READ)
            except RemoteAccessError as error:
                begun = self._responding and response is self.responses[0]
                raise response.broken_off(self._position if begun else 0, error) from None
        return Work(None, Verb.RDMA_WRITE, READ_RESPONSE, (view,), length, sink_handle, sink_offset)

    def _note_sent(self, messages: list[Work], done: int) -> None:
        """Updates the queues after a send: work that has begun moves to `in_flight`, an RDMA Read also to `reads`.

        Work that is sent in part becomes `current`; Read Responses that are sent whole are dropped. `messages`: the
        messages that were given to the native module. `done`: the number of them, from the first, that are sent whole.
        The caller has set `_position`: the octets sent of the message after these; 0 for none, or without a message.
        """
        self._responding = False
        current, self.current = self.current, None
        for work in messages[: done + (self._position > 0)]:
            whole = done > 0
            done -= 1
            self._response_turn = work.control != READ_RESPONSE
            if work.control == READ_RESPONSE:
                if whole:
                    self.responses.pop(0)
                self._responding = not whole
                continue
            if work is not current:
                self.send_queue.remove(work)
                self.in_flight.append(work)
            if isinstance(work, ReadWork):
                self.reads.append(work)
            if whole:
                work.end = self.out.built
            else:
                self.current = work
