"""The native receiver and the one in Python come to the same, for random streams, right and damaged, cut at random."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import threading
import tracemalloc
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.iwarp.states import State
from rpcrdma.verbs import Completion, Status, Verb
from rpcrdma.wire.native import DATA_PATH, native
from support.cases import each_case
from support.raw_iwarp import completions_of, fpdu, read_request, tagged, untagged
from support.two_receivers import PAYLOAD, POOL_OCTETS, READ_OCTETS, End, compare

pytestmark = [pytest.mark.in_python, pytest.mark.skipif(native is None, reason=DATA_PATH)]


@given(octets=st.binary(min_size=1, max_size=400))
def test_both_receivers_come_to_the_same(octets: bytes) -> None:
    compare(octets)


def test_both_receivers_come_to_the_same_in_long_random_streams() -> None:
    for seed in range(150):
        numbers = random.Random(seed)
        compare(numbers.randbytes(numbers.randint(100, 600)))


def test_no_octets_are_lost_of_a_large_fpdu_that_breaks_a_rule_and_arrives_in_two_parts() -> None:
    compare(bytes.fromhex("2e2effffdf022e4f00000000000000fdffffabffff0100fdff2ad9f7"))


def both() -> list[End]:
    return [End(native=natively, crc=True, by_socket=False) for natively in (False, True)]


def test_memory_is_out_of_reach_behind_the_send_that_invalidates_it_in_one_step() -> None:
    ends = both()
    target = ends[0].regions[0]
    write = fpdu(tagged(0, target.handle, target.offset, b"early"))
    late = fpdu(tagged(0, target.handle, target.offset, b"later"))
    for end in ends:
        end.give(write + fpdu(untagged(4, 0, 1, b"the reply", invalidate=target.handle)) + late)
        end.note()
        assert end.memory[0][:5] == b"early"
    assert ends[1].outcome == ends[0].outcome


def test_the_crc_of_a_placed_payload_may_arrive_in_two_parts() -> None:
    for cut in range(1, 8):
        ends = both()
        target = ends[0].regions[0]
        stream = b"".join(fpdu(tagged(0, target.handle, target.offset, bytes([n]) * 9001)) for n in (1, 2))
        for end in ends:
            end.give(stream[:5000])
            end.give(stream[5000 : len(stream) // 2 - cut])
            end.give(stream[len(stream) // 2 - cut :])
            end.note()
            assert end.memory[0][:9001] == bytes([2]) * 9001
        assert ends[1].outcome == ends[0].outcome


@each_case("crc", [True, False])
@each_case("by_socket", [True, False])
def test_usual_fpdus_do_not_leave_the_native_module(*, crc: bool, by_socket: bool) -> None:
    end = End(native=True, crc=crc, by_socket=by_socket)
    target, sink, source = end.regions
    first = end.frames()
    assert first is not None
    segments = [
        untagged(3, 0, 1, b"a message"),
        untagged(5, 0, 2, bytes(2000), last=False),
        untagged(5, 0, 2, bytes(2000), offset=2000),
        untagged(3, 0, 3, bytes(POOL_OCTETS)),
        tagged(0, target.handle, target.offset, bytes(65_000), last=False),
        tagged(0, target.handle, target.offset + 65_000, bytes(3000)),
        read_request(1, 5, 0, 100, source.handle, source.offset),
        untagged(4, 0, 4, b"the reply", invalidate=target.handle),
        tagged(2, sink.handle, sink.offset, bytes(READ_OCTETS[1])),
        tagged(2, sink.handle, sink.offset, bytes(60_000), last=False),
        tagged(2, sink.handle, sink.offset + 60_000, bytes(READ_OCTETS[2] - 60_000)),
    ]
    stream = b"".join(fpdu(segment, crc=crc) for segment in segments)
    # The answer to an RDMA Read of 0 octets is unusual, and comes first.
    end.give(fpdu(tagged(2, sink.handle, sink.offset), crc=crc))
    first = end.frames()
    for start in range(0, len(stream), 17_001):
        end.give(stream[start : start + 17_001])
        assert end.frames() is first
    end.note()
    end.close()
    assert len([each for each in end.outcome if isinstance(each, Completion)]) == 7


@each_case("by_socket", [True, False])
def test_a_long_send_that_stays_in_the_parts_of_its_buffer_leaves_the_native_module(*, by_socket: bool) -> None:
    end = End(native=True, crc=True, by_socket=by_socket, short_octets=100, scattered=True)
    stream = fpdu(untagged(3, 0, 1, PAYLOAD[:20_000]))
    end.give(stream[:9000])
    assert end.frames() is None
    end.give(stream[9000:])
    end.close()
    (arrived,) = completions_of(end.raw.qp)
    assert isinstance(arrived.wr, memoryview)
    assert arrived.wr[:20_000] == PAYLOAD[:20_000]


def test_a_long_send_ends_by_its_crc_and_its_invalidation_as_in_python() -> None:
    for kind, invalidate, flaw in ((3, 0, 1), (4, 99, 0), (4, 99, 1)):
        ends = both()
        for end in ends:
            stream = fpdu(untagged(kind, 0, 1, PAYLOAD[:20_000], invalidate=invalidate), flaw=flaw)
            for start in range(0, len(stream), 9000):
                end.give(stream[start : start + 9000])
            end.note()
        assert ends[1].outcome == ends[0].outcome
        assert ends[1].raw.qp.wants_close or ends[1].raw.qp.state is not State.OPEN


@pytest.mark.thorough
def test_the_native_receiver_keeps_no_memory() -> None:
    """Of references that were not given back, the objects stay."""

    def run() -> int:
        for seed in range(60):
            compare(random.Random(seed).randbytes(300))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        run()
        before = run()
        growth = min(run() - before, run() - before)
    finally:
        tracemalloc.stop()
    # Growth is 0: of one object in each conversation, 60 would stay, of some 30 octets each.
    assert growth < 500


def completed(end: End) -> list[tuple[Verb, Status]]:
    end.note()
    return [(each.verb, each.status) for each in end.outcome if isinstance(each, Completion)]


def test_completions_come_in_the_order_of_the_stream() -> None:
    for end in both():
        sink = end.regions[1]
        end.give(fpdu(tagged(2, sink.handle, sink.offset)))
        segments = [
            untagged(3, 0, 1, b"before"),
            tagged(2, sink.handle, sink.offset, bytes(READ_OCTETS[1])),
            untagged(3, 0, 2, b"behind"),
        ]
        end.give(b"".join(map(fpdu, segments)))
        verbs = [verb for verb, _ in completed(end)]
        assert verbs == [Verb.RDMA_READ, Verb.RECEIVE, Verb.RDMA_READ, Verb.RECEIVE]


def test_the_receive_of_a_send_that_has_arrived_in_part_is_flushed() -> None:
    for end in both():
        end.give(fpdu(untagged(3, 0, 1, b"the first", last=False)))
        end.raw.qp.abort("enough")
        assert (Verb.RECEIVE, Status.FLUSHED) in completed(end)


def test_two_threads_in_one_receiver_are_an_error() -> None:
    end = End(native=True, crc=True, by_socket=False)
    frames = end.frames()
    assert frames is not None
    ours, theirs = socket.socketpair()
    outcomes: list[int] = []

    def receive() -> None:
        # In a Python without a lock of its own, the other thread may be in `hand_over` just now.
        while not outcomes:
            with contextlib.suppress(RuntimeError):
                outcomes.append(frames.receive(ours.fileno(), 1))

    thread = threading.Thread(target=receive)
    thread.start()
    with ours, theirs:
        with contextlib.suppress(RuntimeError):
            while True:
                frames.hand_over()
        calls = (frames.hand_over, partial(frames.feed, b""), partial(frames.receive, ours.fileno(), 1))
        for call in calls:
            with pytest.raises(RuntimeError, match="another thread receives with this Receiver"):
                call()
        theirs.sendall(fpdu(untagged(3, 0, 1, b"a message")))
        thread.join()
    assert outcomes == [0]
    assert completed(end) == [(Verb.RECEIVE, Status.SUCCESS)]
