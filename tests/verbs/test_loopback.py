"""Properties of the loopback provider beyond the provider suite: single steps, and misuse."""

from __future__ import annotations

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.verbs import Access, ConnectRequested, Disconnected, SoftwareProtectionDomain, Status, Verb
from rpcrdma.verbs.loopback import LoopbackQueuePair
from support.cases import each_case


def make_pair(
    reads: int = 32,
) -> tuple[LoopbackQueuePair, SoftwareProtectionDomain, LoopbackQueuePair, SoftwareProtectionDomain]:
    pd_a, pd_b = SoftwareProtectionDomain(counted_bits(1)), SoftwareProtectionDomain(counted_bits(999))
    a, b = LoopbackQueuePair.pair(pd_a, pd_b, private_data=b"hi", outbound_reads=(reads, reads))
    return a, pd_a, b, pd_b


def connect(a: LoopbackQueuePair, b: LoopbackQueuePair) -> None:
    a.progress()
    b.events.pop(0)
    b.accept(b"")
    a.progress()
    a.events.pop(0)
    b.events.pop(0)


def test_nothing_moves_without_progress() -> None:
    a, _, b, _ = make_pair()
    connect(a, b)
    buffer = memoryview(bytearray(8))
    b.post_receive("r", buffer)
    a.post_send("s", [b"x"])
    assert not a.completions
    assert not b.completions
    assert b.progress()
    assert not a.progress()
    assert a.completions.popleft()


def test_steps_move_one_work_request_of_each_side() -> None:
    a, _, b, _ = make_pair()
    connect(a, b)
    for number in range(3):
        b.post_receive(number, memoryview(bytearray(8)))
        a.post_send(number, [b"x"])
    for number in range(3):
        assert a.progress(1)
        completion = b.completions.popleft()
        assert completion is not None
        assert completion.wr == number
        assert not b.completions
    assert not a.progress(1)
    assert not a.progress(0)


def test_read_takes_a_step_to_ask_and_one_to_answer() -> None:
    a, pd_a, b, pd_b = make_pair()
    connect(a, b)
    source = pd_b.register(b"data", Access.REMOTE_READ)
    sink = pd_a.register(bytearray(4), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    a.post_read("r", sink, 0, 4, source.handle, source.offset)
    a._step()
    assert not a.completions
    # The read octets are those of the moment when the peer answers.
    pd_b.invalidate(source)
    b._step()
    completion = a.completions.popleft()
    assert completion is not None
    assert (completion.verb, completion.status) == (Verb.RDMA_READ, Status.REMOTE_ACCESS)


def test_a_long_read_into_an_abandoned_sink_goes_nowhere() -> None:
    a, pd_a, b, pd_b = make_pair()
    connect(a, b)
    memory = bytearray(200_000)
    source = pd_b.register(b"x" * 200_000, Access.REMOTE_READ)
    sink = pd_a.register(memory, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    a.post_read("r", sink, 0, 200_000, source.handle, source.offset)
    pd_a.abandon(sink)
    a.progress()
    assert a.completions.popleft().status is Status.SUCCESS
    assert memory == bytes(200_000)


def test_read_into_a_sink_that_ended_breaks_the_connection() -> None:
    a, pd_a, b, pd_b = make_pair()
    connect(a, b)
    source = pd_b.register(b"data", Access.REMOTE_READ)
    sink = pd_a.register(bytearray(4), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    pd_a.invalidate(sink)
    a.post_read("r", sink, 0, 4, source.handle, source.offset)
    a.progress()
    assert isinstance(a.events.pop(0), Disconnected)


def test_read_where_none_is_allowed_breaks_the_connection() -> None:
    a, pd_a, b, _ = make_pair(reads=0)
    connect(a, b)
    sink = pd_a.register(bytearray(4), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    a.post_read("r", sink, 0, 4, 1, 0)
    a.progress()
    event = a.events.pop(0)
    assert isinstance(event, Disconnected)
    assert "read slot" in event.reason
    completions = [a.completions.popleft()]
    assert completions[0] is not None
    assert completions[0].status is Status.FLUSHED
    assert not a.completions


def test_only_a_request_can_be_answered() -> None:
    a, _, b, _ = make_pair()
    for queue_pair in (a, b):
        with pytest.raises(LocalProtocolError):
            queue_pair.accept(b"")
        with pytest.raises(LocalProtocolError):
            queue_pair.reject()
    a.progress()
    assert b.events.pop(0) == ConnectRequested(private_data=b"hi")
    b.accept(b"")
    with pytest.raises(LocalProtocolError):
        b.accept(b"")


@each_case("which", [0, 1])
def test_disconnecting_before_the_connection_stands_ends_it(which: int) -> None:
    a, _, b, _ = make_pair()
    a.progress()
    b.events.pop(0)
    (a, b)[which].disconnect()
    assert isinstance(a.events.pop(0), Disconnected)
    assert isinstance(b.events.pop(0), Disconnected)
