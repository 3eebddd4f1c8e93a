"""The entries of the queues of a simulated queue pair: posted work, posted receives, and the end of a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.verbs import MemoryRegion, ReceiveBuffer, ReceiveSource, Status, Verb
from rpcrdma.wire.buffers import Buffer, gather_length

__all__ = ["Ending", "PostedWork", "ReceiveQueue"]


class PostedWork:
    """One entry of the send queue; `verb` None stands for an orderly disconnect."""

    __slots__ = (
        "cause", "ended", "gather", "handle", "length", "offset", "ready_s", "signaled", "sink", "sink_start", "status",
        "verb", "wr",
    )  # fmt: skip

    def __init__(self, wr: object, verb: Verb | None, gather: Sequence[Buffer] = (), *, signaled: bool = True) -> None:
        self.wr = wr
        self.verb = verb
        self.gather = gather
        self.signaled = signaled
        self.handle: int | None = None
        self.offset = 0
        self.length = gather_length(gather)
        self.sink: MemoryRegion | None = None
        self.sink_start = 0
        self.ended = False
        self.status = Status.SUCCESS
        self.ready_s = 0.0
        self.cause = -1


class Ending(NamedTuple):
    """Told with the end of a connection: the work of the receiver that has broken a rule, if any has."""

    broken: PostedWork | None
    protocol_error: bool


class ReceiveQueue:
    """The posted receives of one queue pair, the oldest first; receives with memory of a pool come last."""

    __slots__ = ("_own", "_pool", "_shared")

    def __init__(self) -> None:
        self._own: deque[tuple[object, ReceiveBuffer]] = deque()
        self._shared = 0
        self._pool: ReceiveSource | None = None

    def post(self, wr: object, buffer: ReceiveBuffer) -> None:
        """See `QueuePair.post_receive`."""
        self._own.append((wr, buffer))

    def post_shared(self, count: int, pool: ReceiveSource) -> None:
        """See `QueuePair.post_receives`."""
        self._shared += count
        self._pool = pool

    def next_for(self, length: int) -> tuple[object, ReceiveBuffer] | None:
        """The receive for a message of `length` octets, which stays posted; None if there is none."""
        if not self._own:
            if not self._shared:
                return None
            assert self._pool is not None
            self._shared -= 1
            buffer: ReceiveBuffer = self._pool.take() if length <= self._pool.short_octets else self._pool.draw()
            self._own.append((buffer, buffer))
        return self._own[0]

    def take(self) -> None:
        """Removes the receive that `next_for` has returned."""
        self._own.popleft()

    def flush(self) -> list[object]:
        """Removes all receives; returns the work requests of the ones with a buffer."""
        flushed = [wr for wr, _ in self._own]
        self._own.clear()
        self._shared = 0
        return flushed
