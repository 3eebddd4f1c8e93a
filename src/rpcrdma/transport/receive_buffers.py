"""Posted receives, and the memory of arriving messages."""

from __future__ import annotations

from rpcrdma.verbs.queue_pair import Completion, QueuePair
from rpcrdma.verbs.receive_pool import KIND_OF_MESSAGE, ReceiveBuffer, ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer

__all__ = ["AHEAD", "MESSAGE_OCTETS_COPIED_MAX", "ReceiveBuffers"]

MESSAGE_OCTETS_COPIED_MAX = 16384
"""Messages up to this length are copied, so that their memory serves the next message at once; handlers and callers
keep references to the octets that they decode. Up to 32 KiB a copy takes no more time than another buffer (READ and
WRITE, 1 and 16 in flight); above this length the copy saves less than half of a buffer of the default size."""

AHEAD = 8
"""Receives beyond the required number: messages that can arrive before one step replaces their receives. An unused
receive holds no memory."""


class ReceiveBuffers:
    """The receives of one queue pair, with memory from `pool`; `posted` is the guaranteed number of receives.

    The owner calls `replace` after every AHEAD (8) messages, and `take` for messages that were not delivered as `bytes`
    of up to `pool.plain_octets`, which the owner uses as they are. Messages of the kinds that the pool has as
    `scattered` stay in their pieces of memory. For such a message, `arrived` has its buffer and its length. If
    `arrived` is not None, the owner calls `ReceiveBuffers.close` before the next message, which frees that buffer.
    """

    __slots__ = ("_qp", "arrived", "pool", "posted")

    def __init__(self, qp: QueuePair, pool: ReceiveSource) -> None:
        self._qp = qp
        self.pool = pool
        self.posted = 0
        self.arrived: tuple[ScatteredBuffer, int] | None = None

    @property
    def octets(self) -> int:
        """The octets of all messages together that the posted receives can take, at the largest size of a message."""
        return (self.posted + AHEAD) * self.pool.octets

    def post(self, wanted: int) -> None:
        """Raises the guaranteed number of posted receives to `wanted`, which must exceed `posted`.

        The first call posts AHEAD (8) receives more. See RFC 8166 section 3.3.1.
        """
        count = wanted - self.posted if self.posted else wanted + AHEAD
        self.posted = wanted
        self._qp.post_receives(count, self.pool)

    def replace(self) -> None:
        """Posts AHEAD (8) receives; to be called after every 8 received messages, each of which has used up one."""
        self._qp.post_receives(AHEAD, self.pool)

    def take(self, completion: Completion) -> Buffer:
        """Returns the octets of a received message: a copy, whose buffer is reused, or a view of a long message.

        `completion`: that of the receive; its `wr` is a buffer of `pool`, or `bytes` longer than `pool.plain_octets`,
        which are returned themselves. But a message whose version and header type are in `pool.scattered` stays in
        several pieces of memory, or is copied there from `bytes`: only the first piece is returned, and
        `ReceiveBuffers.arrived` has the `ScatteredBuffer` and the length.
        """
        buffer = completion.wr
        length = completion.length
        if isinstance(buffer, bytes):
            if KIND_OF_MESSAGE.unpack_from(buffer) not in self.pool.scattered:
                return buffer
            memory = self.pool.take()
            memory[:length] = buffer
            return self._take_scattered(self.pool.divide(memory, 1)[0], length)
        if not isinstance(buffer, memoryview):
            assert isinstance(buffer, ScatteredBuffer)
            return self._take_scattered(buffer, length)
        if length > self.pool.plain_octets and KIND_OF_MESSAGE.unpack_from(buffer) in self.pool.scattered:
            return self._take_scattered(self.pool.divide(buffer, 1)[0], length)
        if length > MESSAGE_OCTETS_COPIED_MAX:
            return buffer[:length]
        data = bytes(buffer[:length])
        self.pool.give_back(buffer)
        return data

    def give_back(self, completion: Completion) -> None:
        """Returns the buffer of a message that is not read, because the connection is about to end, to the pool.

        `completion`: the completion of the receive; no effect if the message was delivered as `bytes`.
        """
        if isinstance(completion.wr, ReceiveBuffer):
            self.pool.give_back(completion.wr)

    def close(self) -> None:
        """Returns the buffer in the attribute `arrived`, if any, to the pool, and sets `arrived` to None."""
        if self.arrived is not None:
            self.pool.give_back(self.arrived[0])
            self.arrived = None

    def _take_scattered(self, buffer: ScatteredBuffer, length: int) -> Buffer:
        """Returns the first piece of a message of a scattered kind, or a copy of another message.

        The scattered kinds are the (version, header type) in `pool.scattered`: for these, `self.arrived` is set. After
        a copy `buffer`, the memory of the message in pieces, is given back to the pool. `length`: that of the message.
        """
        first = buffer.parts[0]
        if length >= KIND_OF_MESSAGE.size and KIND_OF_MESSAGE.unpack_from(first) in self.pool.scattered:
            self.arrived = (buffer, length)
            return first[:length]
        data = buffer.joined(length)
        self.pool.give_back(buffer)
        return data
