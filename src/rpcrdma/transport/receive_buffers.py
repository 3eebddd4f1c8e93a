"""Receives, and the memory in which messages arrive."""

from __future__ import annotations

import struct
from collections.abc import Container

from rpcrdma.verbs.queue_pair import Completion, QueuePair
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer

__all__ = ["MESSAGE_OCTETS_COPIED_MAX", "ReceiveBuffers"]

MESSAGE_OCTETS_COPIED_MAX = 16384
"""Messages up to here are copied, so that their memory serves the next one at once: what is decoded from a message
shows its octets for as long as the handler or the caller keeps it. Up to 32 KiB a copy takes no more time than another
buffer (READ and WRITE, 1 and 16 in flight); from here on it saves less than half of a buffer of the default size."""

_VERSION_AND_TYPE = struct.Struct(">4xI4xI")
"""Of a header in any version."""

_AHEAD = 8
"""Receives beyond those that are wanted: so many messages can arrive before the ones they took are replaced, in one
step. A receive that nothing arrives in holds no memory."""


class ReceiveBuffers:
    """The receives of one queue pair, with memory from `pool`; `posted` counts those that are always there.

    Messages of the versions and header types `kept_scattered` stay in the pieces of memory in which they have arrived:
    of such a one, `arrived` has its buffer and its octets until the next message comes.
    """

    __slots__ = ("_qp", "_used", "arrived", "kept_scattered", "pool", "posted")

    def __init__(self, qp: QueuePair, pool: ReceiveSource) -> None:
        self._qp = qp
        self.pool = pool
        self._used = _AHEAD
        self.posted = 0
        self.kept_scattered: Container[tuple[int, ...]] = ()
        self.arrived: tuple[ScatteredBuffer, int] | None = None

    def post(self, wanted: int) -> None:
        """Sees to it that `wanted` messages can arrive from here on (RFC 8166 section 3.3.1, RFC 8167 section 4.3)."""
        count = wanted - self.posted + self._used
        self.posted = wanted
        self._used = 0
        self._qp.post_receives(count, self.pool)

    def take(self, completion: Completion) -> Buffer:
        """The message that has arrived."""
        self._used = used = self._used + 1
        if used == _AHEAD:
            self._used = 0
            self._qp.post_receives(used, self.pool)
        if self.arrived is not None:
            # The message before this one was not handed on.
            self.close()
        buffer = completion.wr
        length = completion.length
        if not isinstance(buffer, memoryview):
            assert isinstance(buffer, ScatteredBuffer)
            return self._take_scattered(buffer, length)
        if length > self.pool.plain_octets and _VERSION_AND_TYPE.unpack_from(buffer) in self.kept_scattered:
            return self._take_scattered(self.pool.in_parts(buffer), length)
        if length > MESSAGE_OCTETS_COPIED_MAX:
            return buffer[:length]
        data = bytes(buffer[:length])
        self.pool.give_back(buffer)
        return data

    def give_back(self, completion: Completion) -> None:
        """What has arrived, or had begun to, is not looked at: the connection is about to end."""
        assert isinstance(completion.wr, ReceiveBuffer)
        self.pool.give_back(completion.wr)

    def close(self) -> None:
        """Nothing more is done with the message that has arrived last."""
        if self.arrived is not None:
            self.pool.give_back(self.arrived[0])
            self.arrived = None

    def _take_scattered(self, buffer: ScatteredBuffer, length: int) -> Buffer:
        """The start of the message, where the rest is in place; else all of it, put together."""
        first = buffer.parts[0]
        if length >= _VERSION_AND_TYPE.size and _VERSION_AND_TYPE.unpack_from(first) in self.kept_scattered:
            self.arrived = (buffer, length)
            return first[:length]
        data = buffer.joined(length)
        self.pool.give_back(buffer)
        return data
