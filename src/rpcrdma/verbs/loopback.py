"""A provider in memory: two queue pairs joined end to end, with no wire between them.

It obeys the rules of hardware: a Send needs a posted receive of sufficient size, remote memory is reached only through
its protection domain, RDMA Reads wait for a free slot, work completes in the order of posting, and the end of a
connection flushes everything. Data moves when `progress` is called, one work request of each side in turn, so that a
run is reproducible to the step.
"""

# ruff: noqa: SLF001 - the two ends of a connection are one thing

from __future__ import annotations

from collections import deque

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.verbs.posting import EndState, PostedWork, PostingQueuePair
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Established,
    Status,
    Verb,
)

__all__ = ["LoopbackQueuePair"]


class LoopbackQueuePair(PostingQueuePair):
    """One end of a connection in memory, made by `pair`; implements `rpcrdma.provider.QueuePair`.

    Args:
        pd: the protection domain of this end.
        private_data: octets for the peer.
        inbound_reads: RDMA Reads that the peer may have outstanding.
        outbound_reads: RDMA Reads that this end may have outstanding.

    Shared by the methods:
        LocalProtocolError: `accept` or `reject` without a `ConnectRequested`.
    """

    def __init__(
        self, pd: SoftwareProtectionDomain, private_data: bytes, inbound_reads: int, outbound_reads: int
    ) -> None:
        super().__init__(inbound_reads, outbound_reads)
        self.pd = pd
        self.state = EndState.IDLE
        self._private_data = private_data
        self._reads_asked: deque[PostedWork] = deque()
        self._peer: LoopbackQueuePair

    @staticmethod
    def pair(
        pd_a: SoftwareProtectionDomain,
        pd_b: SoftwareProtectionDomain,
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> tuple[LoopbackQueuePair, LoopbackQueuePair]:
        """Makes both ends of a connection; the first `progress` reports `ConnectRequested` to the responder.

        Args:
            pd_a: the initiator's protection domain.
            pd_b: the responder's protection domain.
            private_data: the initiator's octets for the responder.
            inbound_reads: limits of inbound RDMA Reads of (initiator, responder).
            outbound_reads: limits of outbound RDMA Reads of (initiator, responder).

        Returns:
            The initiator and the responder.
        """
        initiator = LoopbackQueuePair(pd_a, private_data, inbound_reads[0], outbound_reads[0])
        responder = LoopbackQueuePair(pd_b, b"", inbound_reads[1], outbound_reads[1])
        initiator._peer = responder
        responder._peer = initiator
        initiator.state = EndState.CONNECTING
        return initiator, responder

    def accept(self, private_data: bytes) -> None:
        if self.state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be accepted")
        self._private_data = private_data
        self.state = EndState.ACCEPTED

    def reject(self, private_data: bytes = b"") -> None:
        del private_data  # `Disconnected` has no field that could carry it to the peer
        if self.state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be rejected")
        self._end("rejected", by_peer=False)
        self._peer._end("the peer rejected the connection", by_peer=True)

    def disconnect(self) -> None:
        if self.state is EndState.ESTABLISHED:
            self._send_queue.append(PostedWork(None, None))
        elif self.state is not EndState.CLOSED:
            self.abort("disconnected before the connection was made")

    def abort(self, reason: str) -> None:
        self._end(reason, by_peer=False)
        self._peer._end("the peer ended the connection", by_peer=True)

    def progress(self, steps: int | None = None) -> bool:
        """Moves data in both directions; a call at either end serves both.

        Args:
            steps: the most steps of each side, which are work requests, answers to RDMA Reads, and steps of the
                connection's opening; None: until nothing moves any more.

        Returns:
            Whether anything moved.
        """
        moved = False
        while steps is None or steps > 0:
            # Both sides always get their turn.
            if not (self._step() | self._peer._step()):
                break
            moved = True
            if steps is not None:
                steps -= 1
        return moved

    def _step(self) -> bool:
        peer = self._peer
        state = self.state
        if state is EndState.ESTABLISHED:
            if peer._reads_asked:
                self._respond(peer._reads_asked.popleft())
                return True
            if peer.state is EndState.ESTABLISHED and self._send_queue:
                return self._work(self._send_queue[0])
            return False
        if state is EndState.CONNECTING and peer.state is EndState.IDLE:
            peer.state = EndState.REQUESTED
            peer.events.append(ConnectRequested(private_data=self._private_data))
            return True
        if state is EndState.ACCEPTED:
            for end in (self, peer):
                end.state = EndState.ESTABLISHED
                end.inbound_reads = min(end.inbound_reads, end._peer.outbound_reads)
            for end in (self, peer):
                end.outbound_reads = end._peer.inbound_reads
                end.events.append(
                    Established(
                        private_data=end._peer._private_data,
                        inbound_reads=end.inbound_reads,
                        outbound_reads=end.outbound_reads,
                    )
                )
            return True
        return False

    def _work(self, work: PostedWork) -> bool:
        peer = self._peer
        if work.verb is Verb.RDMA_READ:
            if len(self._reads_asked) >= self.outbound_reads:
                if not self.outbound_reads:
                    self._break("RDMA Read without a read slot", work)
                return not self.outbound_reads
            self._send_queue.popleft()
            self._unreported.append(work)
            self._reads_asked.append(work)
            return True
        self._send_queue.popleft()
        self._unreported.append(work)
        if work.verb is None:
            self._unreported.pop()
            self._end("disconnected", by_peer=False)
            peer._end("the peer disconnected", by_peer=True)
        elif work.verb is Verb.SEND:
            self._send(work)
        else:
            try:
                self._write(work)
            except RemoteAccessError as error:
                work.status = Status.REMOTE_ACCESS
                self._break(str(error), work)
        self._ended(work)
        return True

    def _send(self, work: PostedWork) -> None:
        peer = self._peer
        receive = peer._receives.next_for(work.length)
        if receive is None:
            self._break("receiver not ready: no receive is posted", work)
            return
        wr, buffer = receive
        if work.length > len(buffer):
            self._break(f"a message of {work.length} octets for a receive of {len(buffer)}", work)
            return
        if work.handle is not None and peer.pd.invalidate_handle(work.handle) is None:
            self._break(f"invalidation of unknown handle {work.handle:#010x}", work)
            return
        peer._receives.fill(work.gather)
        peer._receives.take()
        peer.completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, work.length, work.handle))

    def _write(self, work: PostedWork) -> None:
        assert work.handle is not None
        self._peer.pd.place(work.handle, work.offset, work.length, work.gather)

    def _respond(self, work: PostedWork) -> None:
        """Answers the peer's RDMA Read `work`: copies the data into its sink; a refused access ends the connection."""
        peer = self._peer
        sink = work.sink
        assert sink is not None
        assert work.handle is not None
        try:
            if work.length:
                data = self.pd.find(work.handle, work.offset, work.length, Access.REMOTE_READ)
                peer.pd.place(sink.handle, sink.offset + work.sink_start, work.length, [data])
        except RemoteAccessError as error:
            work.status = Status.REMOTE_ACCESS
            peer._break(str(error), work)
        peer._ended(work)

    def _ended(self, work: PostedWork) -> None:
        work.ended = True
        unreported = self._unreported
        while unreported and unreported[0].ended:
            done = unreported.popleft()
            if done.verb is not None and (done.signaled or done.status is not Status.SUCCESS):
                self.completions.append(Completion(done.wr, done.verb, done.status, done.length))

    def _break(self, reason: str, work: PostedWork) -> None:
        """Ends the connection at both ends because `work`, posted at this end, broke a rule, named in `reason`."""
        if work.status is Status.SUCCESS:
            work.status = Status.FLUSHED
        self._ended(work)
        self._end(reason, by_peer=False, protocol_error=True)
        self._peer._end(reason, by_peer=True, protocol_error=True)

    def _end(self, reason: str, *, by_peer: bool, protocol_error: bool = False) -> None:
        if self.state is EndState.CLOSED:
            return
        self.state = EndState.CLOSED
        self._reads_asked.clear()
        self._flush(reason, by_peer=by_peer, protocol_error=protocol_error)
