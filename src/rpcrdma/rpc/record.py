"""Record marking: RPC messages on a byte stream (RFC 5531 section 11).

A record is one message, cut into fragments. The header word of a fragment has its length, and bit 31 for the last one.

The receiver hands its driver the memory for the next octets: of a fragment, the memory of the message itself. Record
headers and small messages pass through a scratch buffer. So do the octets of a message that is too long; only its first
two words are kept, from which the answer is made.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from typing import Any, NamedTuple

from rpcrdma.errors import LocalProtocolError, MessageTooLong, RemoteProtocolError
from rpcrdma.limits import (
    RPC_RECORD_FRAGMENTS_MAX,
    RPC_RECORD_OCTETS_MAX,
    RPC_RECORD_SKIPPED_OCTETS_MAX,
    RPC_RECORD_STEP_OCTETS,
)
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import ResultMemory, bulk
from rpcrdma.xdr.codec import Payload

__all__ = ["LAST_FRAGMENT", "RecordReceiver", "RecordSender", "TooLong"]

LAST_FRAGMENT = 0x80000000
_LENGTH = 0x7FFFFFFF
_U32 = struct.Struct(">I")
_HEAD = struct.Struct(">2I")
_SCRATCH_OCTETS = 1 << 15
_GATHER_MAX = 512


class TooLong(NamedTuple):
    """A message over the bound, which is skipped: the XID and the type in its first two words.

    `octets` counts the octets that its fragment headers had announced when these words had arrived.
    """

    xid: int
    is_call: bool
    octets: int


class _Message:
    """A message that arrives in parts, in memory that `memory` lends; its length is that of the parts so far."""

    __slots__ = ("_length", "_memory", "_room")

    def __init__(self, memory: ResultMemory) -> None:
        self._memory = memory
        self._room = memoryview(bytearray())
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, octets: int) -> memoryview:
        """Returns writable memory for the next `octets` of the message and counts them in its length.

        The memory must be filled before the next call, which may copy the message to other memory.
        """
        start = self._length
        end = self._length = start + octets
        if end > len(self._room):
            # At least twice as long each time, so that each octet is copied once on average.
            room = self._memory.take(max(end, 2 * start))
            room[:start] = self._room[:start]
            self._room = room
        return self._room[start:end]

    def take(self) -> memoryview:
        """Returns the message, whose memory then belongs to the caller; this object becomes an empty message."""
        message = self._room[: self._length]
        self.clear()
        return message

    def clear(self) -> None:
        """Drops the parts so far and releases their memory; this object becomes an empty message."""
        self._room = memoryview(bytearray())
        self._length = 0


class RecordReceiver:
    """Divides a byte stream into RPC messages (record marking, RFC 5531 section 11).

    The owner receives octets into `next_buffers`, reports them by `bytes_received` and takes messages by `next_record`.
    An empty record is an error. As soon as the first two words of an RPC message that is too long have arrived, a
    `TooLong` is appended to the deque `too_long`, for the owner to remove; the message is skipped.

    Args:
        record_octets_max: the most octets of one message.
        fragments_max: the most fragments of one message.
        memory: lends the memory of large messages, perhaps to several receivers; None: memory of its own.
    """

    __slots__ = (
        "_fill",
        "_fragments",
        "_head",
        "_last",
        "_message",
        "_missing",
        "_records",
        "_scratch",
        "_skipped",
        "_to_skip",
        "_view",
        "fragments_max",
        "record_octets_max",
        "too_long",
    )

    def __init__(
        self,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        fragments_max: int = RPC_RECORD_FRAGMENTS_MAX,
        memory: ResultMemory | None = None,
    ) -> None:
        self.record_octets_max = record_octets_max
        self.fragments_max = fragments_max
        self._records: deque[Buffer] = deque()
        self._scratch = bulk(_SCRATCH_OCTETS)
        self._fill = 0
        """Octets of a header that the scratch holds already."""
        self._message = _Message(memory or ResultMemory())
        """The fragments so far, followed by room for `_view`, the part that the driver fills."""
        self._view: memoryview | None = None
        self._missing = 0
        """Octets of the current fragment that have not arrived and have no room in `_message` yet."""
        self._last = False
        self._fragments = 0
        self._head = bytearray()
        """The first octets of the record that is being skipped."""
        self._skipped = 0
        """Octets of the skipped record that its headers have announced so far; 0 if none is being skipped."""
        self._to_skip = 0
        """Octets of the skipped record's current fragment that have not arrived."""
        self.too_long: deque[TooLong] = deque()
        """Messages that are or were skipped, for the owner to take out."""

    @property
    def mid_record(self) -> bool:
        """True if part of a record has arrived, so that an end of the stream here cuts off a message."""
        return bool(self._fill or self._fragments)

    @property
    def expected_octets(self) -> int:
        """The octets that the fragment headers of the message being received have announced so far.

        0 between messages, and while a message that is too long is skipped.
        """
        return len(self._message) + self._missing

    def next_buffers(self) -> list[memoryview]:
        """Returns the buffers, in order, for the next octets of the stream; they are valid until `bytes_received`."""
        if self._view is None:
            return [self._scratch[self._fill :]]
        if self._missing:
            return [self._view]
        # The same system call also reads octets that follow the fragment in the same burst.
        return [self._view, self._scratch]

    def bytes_received(self, count: int) -> None:
        """Processes `count` > 0 octets that were received into `next_buffers`.

        Raises:
            RemoteProtocolError: the stream breaks a bound on fragments or on skipped octets, has an empty record, or a
                record that is too long and neither call nor reply. It cannot be read any further.
        """
        view = self._view
        if view is not None:
            if count < len(view):
                self._view = view[count:]
                view.release()
                return
            count -= len(view)
            view.release()
            self._view = None
            if self._missing:
                self._make_room()
                return
            self._fragment_done()
        self._parse_scratch(self._fill + count)

    def next_record(self) -> Buffer | None:
        """Returns the next whole message, whose memory is then the caller's; None if no message is complete."""
        return self._records.popleft() if self._records else None

    def clear(self) -> None:
        """Drops all memory and messages, except the reports in `too_long`; the receiver must not be used afterwards."""
        self._records.clear()
        self._scratch = memoryview(b"")
        self._message.clear()
        self._view = None

    def _parse_scratch(self, end: int) -> None:
        scratch = self._scratch
        pos = self._skip(0, end) if self._to_skip else 0
        while end - pos >= 4:
            length = self._check_header(_U32.unpack_from(scratch, pos)[0])
            pos += 4
            if self._skipped:
                self._to_skip = length
                pos = self._skip(pos, end)
                if self._skipped - self.record_octets_max > RPC_RECORD_SKIPPED_OCTETS_MAX:
                    raise self._over_the_bound()
            elif length <= end - pos:
                fragment = scratch[pos : pos + length]
                pos += length
                if self._last and not self._message:
                    self._records.append(bytes(fragment))
                    self._fragments = 0
                else:
                    self._message.extend(length)[:] = fragment
                    self._fragment_done()
            else:
                self._missing = length - (end - pos)
                self._make_room(scratch[pos:end])
                pos = end
        self._fill = end - pos
        if self._fill and pos:
            scratch[: self._fill] = bytes(scratch[pos:end])

    def _check_header(self, word: int) -> int:
        length = word & _LENGTH
        total = (self._skipped or len(self._message)) + length
        self._last = word >= LAST_FRAGMENT
        self._fragments += 1
        if total > self.record_octets_max:
            begins = not self._skipped
            self._skipped = total
            if begins:
                self._head = bytearray(self._message.take()[: _HEAD.size])
                self._look_at_head()
        if self._fragments > self.fragments_max:
            raise RemoteProtocolError(f"a record of more than {self.fragments_max} fragments", rfc="5531 11")
        if self._last and not total:
            raise RemoteProtocolError("an empty record", rfc="5531 11")
        return length

    def _skip(self, pos: int, end: int) -> int:
        """Skips octets of a message that is too long, which lie in the scratch buffer from `pos` to below `end`.

        Returns the offset behind the skipped octets: `end`, or that of the next fragment header. Enters the message in
        `too_long` once its first two words are known. Raises RemoteProtocolError if it is neither call nor reply.
        """
        count = min(self._to_skip, end - pos)
        missing = _HEAD.size - len(self._head)
        if missing and count:
            self._head += self._scratch[pos : pos + min(missing, count)]
            self._look_at_head()
        self._to_skip -= count
        if self._last and not self._to_skip:
            self._skipped = self._fragments = 0
        return pos + count

    def _look_at_head(self) -> None:
        if len(self._head) == _HEAD.size:
            xid, kind = _HEAD.unpack(self._head)
            if kind > 1:
                # Neither a call nor a reply: no sender waits for an answer to it, so the connection may end.
                raise self._over_the_bound()
            self.too_long.append(TooLong(xid, not kind, self._skipped))

    def _over_the_bound(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"a record of {self._skipped} octets or more, the limit is {self.record_octets_max}", rfc="5531 11"
        )

    def _make_room(self, part: Buffer = b"") -> None:
        """Makes room in the message for missing octets of the current fragment, and lets `next_buffers` return it.

        The room is at most RPC_RECORD_STEP_OCTETS octets, or the number of octets of the message that have arrived, if
        that is more. `part` has octets of the fragment that have arrived, which are copied into the message first.
        """
        arrived = len(part)
        step = min(self._missing, max(RPC_RECORD_STEP_OCTETS, len(self._message) + arrived))
        self._missing -= step
        room = self._message.extend(arrived + step)
        room[:arrived] = part
        self._view = room[arrived:]

    def _fragment_done(self) -> None:
        if self._last:
            self._records.append(self._message.take())
            self._fragments = 0


class _Queued:
    __slots__ = ("buffers", "ticket", "touched")

    def __init__(self, buffers: list[Buffer], ticket: Any) -> None:
        self.buffers = buffers
        self.ticket = ticket
        self.touched = False


class RecordSender:
    """Queues messages as records (RFC 5531 section 11) and returns them as gather lists, without copying data.

    Args:
        record_octets_max: the most octets of one message.
        setting: the option that sets this bound, for errors.
    """

    __slots__ = ("_pushed_octets", "_queue", "_record_octets_max", "_setting", "unsent_octets")

    def __init__(self, record_octets_max: int = _LENGTH, setting: str = "the length of a fragment has 31 bits") -> None:
        self._record_octets_max = min(record_octets_max, _LENGTH)
        self._setting = setting
        self._queue: deque[_Queued] = deque()
        self._pushed_octets = 0
        self.unsent_octets = 0
        """Octets pushed and not yet sent, record headers included."""

    @property
    def octets_sent(self) -> int:
        """Octets sent, record headers included."""
        return self._pushed_octets - self.unsent_octets

    def push(self, payload: Payload, ticket: Any = None) -> None:
        """Queues a message as a record of one fragment; its data must not change until sent.

        Args:
            payload: the message.
            ticket: an object that identifies the message: `bytes_sent` returns it when the whole message is sent.

        Raises:
            MessageTooLong: the message is over the bound; nothing has been queued.
            LocalProtocolError: the message is empty.
            InternalError: an item is a memoryview whose elements are not octets (`Payload.item_octets`). The message is
                queued with a wrong length, and the stream must end.
        """
        if payload.items:
            buffers = payload.gather()
            length = sum(map(len, buffers))
            buffers.insert(0, b"")
        else:
            buffers = [b"", payload.reduced]
            length = len(payload.reduced)
        if length > self._record_octets_max:
            raise MessageTooLong(length, self._record_octets_max, self._setting)
        if not length:
            raise LocalProtocolError("an empty record: no RPC message is empty")
        buffers[0] = _U32.pack(LAST_FRAGMENT | length)
        self._queue.append(_Queued(buffers, ticket))
        self.unsent_octets += length + 4
        self._pushed_octets += length + 4
        if payload.items:
            payload.item_octets()

    def next_gather(self) -> list[Buffer]:
        """Returns the next buffers to send, in order, at most 512; empty if all is sent.

        The caller must not change the list. The buffers stay queued until `bytes_sent` is called.
        """
        queue = self._queue
        if len(queue) == 1:
            buffers = queue[0].buffers
            return buffers if len(buffers) <= _GATHER_MAX else buffers[:_GATHER_MAX]
        return list(itertools.islice((buffer for queued in queue for buffer in queued.buffers), _GATHER_MAX))

    def bytes_sent(self, count: int) -> list[Any]:
        """Removes the first `count` octets of `next_gather` from the queue, as they were sent.

        Returns the tickets of the messages of which these were the last octets, in order.

        Raises:
            AssertionError: `count` is 0, or more octets than are unsent: the stream must end.
        """
        assert 0 < count <= self.unsent_octets, f"{count} octets were sent of {self.unsent_octets}"
        self.unsent_octets -= count
        tickets: list[Any] = []
        queue = self._queue
        while queue:
            queued = queue[0]
            buffers = queued.buffers
            done = 0
            for buffer in buffers:
                if count < len(buffer):
                    break
                count -= len(buffer)
                done += 1
            if done == len(buffers):
                tickets.append(queued.ticket)
                queue.popleft()
                continue
            if done or count:
                queued.touched = True
                rest = buffers[done:]
                if count:
                    rest[0] = memoryview(rest[0])[count:]
                queued.buffers = rest
            break
        return tickets

    def clear(self) -> list[Any]:
        """Drops all messages that have not been sent whole; returns their tickets in the order of `push`.

        The stream must end if one of them has been sent in part.
        """
        tickets = [queued.ticket for queued in self._queue]
        self._queue.clear()
        self._pushed_octets = self.octets_sent
        self.unsent_octets = 0
        return tickets

    def withdraw(self, ticket: Any) -> None:
        """Releases the caller's memory of the message pushed with `ticket`, which need not be sent any more.

        A message not yet begun leaves the queue, and `bytes_sent` will not return the ticket. The rest of a message
        that is partly sent is copied and still sent, as its record must be completed: `bytes_sent` returns its ticket
        at its end. Unknown tickets are ignored.
        """
        for queued in self._queue:
            if queued.ticket is ticket:
                if queued.touched:
                    queued.buffers = [bytes(buffer) for buffer in queued.buffers]
                else:
                    self._queue.remove(queued)
                    length = sum(map(len, queued.buffers))
                    self.unsent_octets -= length
                    self._pushed_octets -= length
                return
