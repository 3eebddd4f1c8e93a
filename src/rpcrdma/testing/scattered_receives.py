"""The check of the suite of providers for receives whose buffers have several parts."""

from __future__ import annotations

from rpcrdma.testing.pair_under_test import MakePair
from rpcrdma.verbs.queue_pair import Disconnected, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ScatteredBuffer

__all__ = ["check_messages_lie_in_the_parts_of_their_buffers"]

_HEAD, _TAIL = 16, 48


class _TwoParts:
    """Buffers of a head and a tail, apart from each other."""

    octets = _HEAD + _TAIL
    short_octets = plain_octets = _HEAD

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
    """A message that fills the first part of its buffer goes on in the next one, and one too long ends the connection.

    A short message may be `bytes`.
    """
    near, _, far, _, progress, _ = make_pair()
    messages = [bytes([octets]) * octets for octets in (64, 16, 17, 0, 40)]
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
