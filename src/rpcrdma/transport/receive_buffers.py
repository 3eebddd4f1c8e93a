"""Receives, and the memory in which messages arrive."""

from __future__ import annotations

from rpcrdma.verbs.queue_pair import Completion, QueuePair
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.buffers import Buffer

__all__ = ["MESSAGE_OCTETS_COPIED_MAX", "ReceiveBuffers"]

MESSAGE_OCTETS_COPIED_MAX = 16384
"""Messages up to here are copied, so that their memory serves the next one at once: what is decoded from a message
shows its octets for as long as the handler or the caller keeps it. Up to 32 KiB a copy takes no more time than another
buffer (READ and WRITE, 1 and 16 in flight); from here on it saves less than half of a buffer of the default size."""

_AHEAD = 8
"""Receives beyond those that are wanted: so many messages can arrive before the ones they took are replaced, in one
step. A receive that nothing arrives in holds no memory."""


class ReceiveBuffers:
    """The receives of one queue pair; `posted` counts those that are always there."""

    __slots__ = ("_pool", "_qp", "_used", "posted")

    def __init__(self, qp: QueuePair, pool: ReceivePool) -> None:
        self._qp = qp
        self._pool = pool
        self._used = _AHEAD
        self.posted = 0

    def post(self, wanted: int) -> None:
        """Sees to it that `wanted` messages can arrive from here on (RFC 8166 section 3.3.1, RFC 8167 section 4.3)."""
        count = wanted - self.posted + self._used
        self.posted = wanted
        self._used = 0
        self._qp.post_receives(count, self._pool)

    def take(self, completion: Completion) -> Buffer:
        """The message that has arrived."""
        self._used = used = self._used + 1
        if used == _AHEAD:
            self._used = 0
            self._qp.post_receives(used, self._pool)
        buffer = completion.wr
        assert isinstance(buffer, memoryview)
        length = completion.length
        if length > MESSAGE_OCTETS_COPIED_MAX:
            return buffer[:length]
        data = bytes(buffer[:length])
        self._pool.give_back(buffer)
        return data

    def give_back(self, completion: Completion) -> None:
        """What has arrived, or had begun to, is not looked at: the connection is about to end."""
        assert isinstance(completion.wr, memoryview)
        self._pool.give_back(completion.wr)
