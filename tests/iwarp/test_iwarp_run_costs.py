"""The cost of a run of FPDUs, and its end while the message goes on."""

from __future__ import annotations

import itertools
import sys
from types import FrameType

import pytest

from rpcrdma.iwarp import MpaRole
from rpcrdma.verbs import Access, SoftwareProtectionDomain
from support.raw_iwarp import RawPeer, fpdu, tagged

pytestmark = pytest.mark.in_python

BULK_OCTETS = 16_000
SMALL_OCTETS = 100


class Stream:
    """A socket that has all of its octets on hand."""

    def __init__(self, octets: bytes) -> None:
        self.rest = memoryview(octets)
        self.receives = 0
        self.error: OSError = BlockingIOError()

    def receive(self, buffers: list[memoryview]) -> tuple[int, object, int, object]:
        self.receives += 1
        if not self.rest:
            raise self.error
        taken = 0
        for buffer in buffers:
            part = self.rest[: len(buffer)]
            buffer[: len(part)] = part
            self.rest = self.rest[len(part) :]
            taken += len(part)
        return taken, [], 0, None


def receiving() -> tuple[RawPeer, bytearray, int, int]:
    """A responder, its memory, and the handle and offset of that."""
    numbers = itertools.count(1)
    raw = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(lambda bits: next(numbers) << 4 & (1 << bits) - 1))
    raw.connect()
    raw.give(fpdu(tagged(0, 0, 0)))
    memory = bytearray(60 * BULK_OCTETS)
    region = raw.pd.register(memory, Access.REMOTE_WRITE)
    return raw, memory, region.handle, region.offset


def written(handle: int, offset: int, octets: int, count: int) -> bytes:
    """An RDMA Write of `count` segments."""
    return b"".join(
        fpdu(tagged(0, handle, offset + n * octets, bytes([n + 1]) * octets, last=n == count - 1)) for n in range(count)
    )


def functions_entered(octets: int, count: int) -> tuple[int, int]:
    """Python functions entered for such a message that is on hand as a whole, receives left out; and the receives."""
    raw, memory, handle, offset = receiving()
    stream = Stream(written(handle, offset, octets, count))
    entered = 0

    def count_calls(frame: FrameType, event: str, _: object) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code is not Stream.receive.__code__

    sys.setprofile(count_calls)
    try:
        while stream.rest:
            got = stream.receive(raw.qp.next_buffers())[0]
            raw.qp.bytes_received(got, stream.receive, 1 << 30)
    finally:
        sys.setprofile(None)
    assert memory[: octets * count] == b"".join(bytes([n + 1]) * octets for n in range(count))
    return entered, stream.receives


def test_one_more_bulk_frame_of_a_message_costs_one_receive_and_no_function() -> None:
    few, receives = functions_entered(BULK_OCTETS, 10)
    assert functions_entered(BULK_OCTETS, 60) == (few, receives + 50)


def test_one_more_small_frame_in_the_receive_buffer_costs_no_function() -> None:
    # Both fit into one receive.
    assert functions_entered(SMALL_OCTETS, 60) == functions_entered(SMALL_OCTETS, 10)


def test_a_run_ends_when_as_much_has_come_as_was_allowed() -> None:
    raw, memory, handle, offset = receiving()
    stream = Stream(written(handle, offset, BULK_OCTETS, 60))
    turns = []
    while stream.rest:
        before = len(stream.rest)
        left = 100_000
        while left > 0 and stream.rest:
            got = stream.receive(raw.qp.next_buffers())[0]
            left = raw.qp.bytes_received(got, stream.receive, left - got)
        turns.append(before - len(stream.rest))
    assert len(turns) > 8
    # No turn goes on by more octets than one receive takes.
    assert all(100_000 <= octets < 100_000 + 2 * BULK_OCTETS for octets in turns[:-1])
    assert memory[59 * BULK_OCTETS : 60 * BULK_OCTETS] == bytes([60]) * BULK_OCTETS


def test_a_run_asks_no_further_once_the_stream_gave_less_than_it_could() -> None:
    raw, _, handle, offset = receiving()
    whole = written(handle, offset, BULK_OCTETS, 20)
    stream = Stream(whole[: 6 * (BULK_OCTETS + 20) + 5000])
    left = 1 << 20
    while left > 0:
        got = stream.receive(raw.qp.next_buffers())[0]
        left = raw.qp.bytes_received(got, stream.receive, left - got)
    assert not stream.rest
    # One into the receive buffer, for the rest of that frame one, and one for each that follows.
    assert stream.receives == 8


def test_an_error_of_the_socket_within_a_run_is_passed_on() -> None:
    raw, memory, handle, offset = receiving()
    whole = written(handle, offset, BULK_OCTETS, 5)
    stream = Stream(whole[: 3 * (BULK_OCTETS + 20) + 16])
    stream.error = ConnectionResetError()
    raw.qp.bytes_received(stream.receive(raw.qp.next_buffers())[0])
    with pytest.raises(ConnectionResetError):
        raw.qp.bytes_received(stream.receive(raw.qp.next_buffers())[0], stream.receive, 1 << 20)
    assert memory[: 3 * BULK_OCTETS] == b"".join(bytes([n + 1]) * BULK_OCTETS for n in range(3))
