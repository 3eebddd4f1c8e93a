"""The checks of the suite of providers for receives from a pool, among them those in several parts."""

from __future__ import annotations

from rpcrdma.testing.joined_sides import connected, expect_broken
from rpcrdma.testing.pair_under_test import MakePair
from rpcrdma.verbs.queue_pair import Completion, Disconnected, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceivePool, ScatteredBuffer

__all__ = [
    "check_messages_lie_in_the_parts_of_their_buffers",
    "check_shared_receives_end_silently",
    "check_shared_receives_take_memory_as_messages_come",
    "check_too_long_send_for_shared_memory_breaks_the_connection",
]

_HEAD, _TAIL = 16, 48
_LONG = 17, 40, 64
"""Messages that go on behind the head."""


class _TwoParts:
    """A `ReceiveSource` of buffers that consist of a head of 16 octets and a tail of 48 octets elsewhere in memory."""

    octets = _HEAD + _TAIL
    short_octets = plain_octets = _HEAD
    # Version and header type of the messages of the check, where each octet has the message's length as its value.
    scattered = frozenset((octets * 0x01010101,) * 2 for octets in _LONG)

    def take(self) -> memoryview:
        return memoryview(bytearray(_HEAD))

    def draw(self) -> ScatteredBuffer:
        return self.divide(memoryview(bytearray(self.octets)), 1)[0]

    def divide(self, memory: memoryview, count: int) -> list[ScatteredBuffer]:
        heads, tails = memory[: count * _HEAD], memory[count * _HEAD :]
        return [
            ScatteredBuffer((heads[each * _HEAD :][:_HEAD], tails[each * _TAIL :][:_TAIL])) for each in range(count)
        ]

    def give_back(self, buffer: ReceiveBuffer) -> None:
        del buffer


def check_messages_lie_in_the_parts_of_their_buffers(make_pair: MakePair) -> None:
    """Asserts on a pair that a message longer than the first part of its buffer continues in the next part.

    A message no longer than the first part may arrive in a plain buffer or as `bytes`. A message longer than the whole
    buffer must end the connection.
    """
    near, _, far, _, progress, _ = make_pair()
    messages = [bytes([octets]) * octets for octets in (64, 16, *_LONG, 0)]
    far.post_receives(len(messages) + 1, _TwoParts())
    for message in messages:
        near.post_send("s", [message[:9], message[9:]], signaled=False)
    progress()
    far.accept(b"")
    progress()
    arrived = [far.completions.popleft() for _ in range(len(far.completions))]
    assert [(one.verb, one.status, one.length) for one in arrived] == [
        (Verb.RECEIVE, Status.SUCCESS, len(message)) for message in messages
    ]
    for completion, message in zip(arrived, messages, strict=True):
        buffer = completion.wr
        if isinstance(buffer, ScatteredBuffer):
            assert [len(part) for part in buffer.parts] == [_HEAD, _TAIL]
            assert buffer.joined(len(message)) == message
        else:
            assert isinstance(buffer, bytes | memoryview)
            assert len(message) <= _HEAD, "a long message is not in the parts of a buffer"
            assert buffer[: len(message)] == message
    near.post_send("s", [bytes(_HEAD + _TAIL + 1)])
    progress()
    assert any(isinstance(event, Disconnected) for event in far.events), "a message longer than its buffer was taken"


def check_shared_receives_take_memory_as_messages_come(make_pair: MakePair) -> None:
    """Asserts on a pair that messages fill receives with a buffer of their own first, then those of a pool.

    A message for a receive of the pool arrives in a buffer of the pool, or as `bytes`; a buffer that was given back is
    used again. One message more than there are receives must end the connection.
    """
    a, b = connected(make_pair)
    pool = ReceivePool(64)
    b.receive("own")
    b.qp.post_receives(2, pool)
    for text in (b"one", b"two", b"three"):
        a.qp.post_send("s", [text], signaled=False)
    a.progress()
    own, second, third = b.completions()
    assert own.wr == "own"
    for completion, text in ((second, b"two"), (third, b"three")):
        buffer = completion.wr
        assert completion == Completion(buffer, Verb.RECEIVE, Status.SUCCESS, len(text))
        if isinstance(buffer, bytes):
            assert buffer == text
            continue
        assert isinstance(buffer, memoryview)
        assert len(buffer) == 64
        assert buffer[: len(text)] == text
        pool.give_back(buffer)
    assert second.wr is not third.wr, "two messages share memory"
    b.qp.post_receives(1, pool)
    a.qp.post_send("s", [b"in memory that was used before"], signaled=False)
    a.progress()
    (again,) = b.completions()
    assert isinstance(again.wr, bytes) or again.wr is third.wr
    a.qp.post_send("s", [b"one too many"])
    expect_broken(a, b, "a Send without a receive", blind=b)


def check_too_long_send_for_shared_memory_breaks_the_connection(make_pair: MakePair) -> None:
    """Asserts on a pair of `make_pair` that a Send longer than a buffer of the pool ends the connection."""
    a, b = connected(make_pair)
    b.qp.post_receives(1, ReceivePool(64))
    a.qp.post_send("s", [bytes(65)])
    expect_broken(a, b, "a Send longer than the memory of the pool")


def check_shared_receives_end_silently(make_pair: MakePair) -> None:
    """Asserts on a pair that unused receives of a pool do not complete at the connection's end, nor if posted later."""
    a, b = connected(make_pair)
    b.qp.post_receives(100, ReceivePool(64))
    b.qp.abort("enough")
    a.progress()
    b.qp.post_receives(1, ReceivePool(64))
    assert not b.completions()
