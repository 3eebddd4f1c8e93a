"""Record marking."""

from __future__ import annotations

import array
import itertools
import tracemalloc

import pytest

from rpcrdma.errors import InternalError, LocalProtocolError, MessageTooLong, RemoteProtocolError
from rpcrdma.limits import RPC_RECORD_SKIPPED_OCTETS_MAX as SKIPPED_MAX
from rpcrdma.rpc.record import LAST_FRAGMENT, RecordReceiver, RecordSender
from rpcrdma.xdr.codec import BulkItem, Encoder, Payload
from support.cases import each_case


def fragment(data: bytes, *, last: bool = True) -> bytes:
    return (len(data) | (LAST_FRAGMENT if last else 0)).to_bytes(4, "big") + data


def feed(receiver: RecordReceiver, stream: bytes, step: int = 1 << 30) -> list[bytes]:
    """Receives `stream`, at most `step` octets at once, as recvmsg_into would fill the buffers."""
    records = []
    view = memoryview(stream)
    while view:
        received = 0
        for buffer in receiver.next_buffers():
            count = min(len(buffer), len(view), step - received)
            buffer[:count] = view[:count]
            view = view[count:]
            received += count
        receiver.bytes_received(received)
        while (record := receiver.next_record()) is not None:
            records.append(bytes(record))
    return records


MESSAGES = [b"a" * 40, b"b" * 7, bytes(range(256)) * 400, b"c", bytes(70_000), b"d" * 32_768]
STREAM = b"".join(map(fragment, MESSAGES))


@pytest.mark.thorough
@each_case("step", [1 << 30, 1, 3, 4, 5, 1000, 32_768, 65_537])
def test_records_come_out_however_the_stream_is_cut(step: int) -> None:
    assert feed(RecordReceiver(), STREAM, step) == MESSAGES


@pytest.mark.thorough
@each_case("step", [1 << 30, 1, 4, 7, 50_000])
@each_case("size", [1, 5, 4000, 40_000])
def test_fragments_are_put_together(size: int, step: int) -> None:
    message = bytes(range(251)) * 600 if size > 100 else b"message of many small parts"
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    stream = b"".join(fragment(part, last=False) for part in parts) + fragment(b"") + fragment(b"next")
    assert feed(RecordReceiver(), stream, step) == [message, b"next"]


@pytest.mark.thorough
@each_case("step", [1 << 30, 1, 7])
def test_fragments_are_counted_for_each_record_anew(step: int) -> None:
    receiver = RecordReceiver(fragments_max=3)
    for size in (5, 40_000):
        small = fragment(b"x" * size)
        whole = fragment(b"a" * size, last=False) + fragment(b"b", last=False) + fragment(b"c")
        for _ in range(5):
            assert feed(receiver, small, step) == [b"x" * size]
            assert not receiver.mid_record
            assert feed(receiver, whole, step) == [b"a" * size + b"bc"]
            assert not receiver.mid_record


def test_an_empty_fragment_before_the_last_is_allowed() -> None:
    assert feed(RecordReceiver(), fragment(b"", last=False) + fragment(b"xyz")) == [b"xyz"]


def test_a_large_fragment_is_received_where_it_stays() -> None:
    receiver = RecordReceiver()
    receiver.next_buffers()[0][:4] = (LAST_FRAGMENT | 1_000_000).to_bytes(4, "big")
    receiver.bytes_received(4)
    place, behind = receiver.next_buffers()
    assert len(place) == 1_000_000
    assert len(behind) > 0
    memory = place.obj
    place[:] = b"x" * len(place)
    del place
    receiver.bytes_received(1_000_000)
    assert receiver.next_record() is memory


def test_a_header_alone_makes_nobody_allocate_the_whole_length() -> None:
    receiver = RecordReceiver(record_octets_max=1 << 30)
    receiver.next_buffers()[0][:4] = (LAST_FRAGMENT | 1 << 30).to_bytes(4, "big")
    receiver.bytes_received(4)
    first = sum(map(len, receiver.next_buffers()))
    assert first <= 2 << 20
    receiver.bytes_received(first)
    assert sum(map(len, receiver.next_buffers())) <= first


def test_a_large_record_is_received_in_steps() -> None:
    message = bytes(range(256)) * 20_000
    assert feed(RecordReceiver(record_octets_max=8 << 20), fragment(message)) == [message]


def test_whether_a_record_is_in_progress_is_known() -> None:
    receiver = RecordReceiver()
    for octet in fragment(b"abc"):
        receiver.next_buffers()[0][0] = octet
        receiver.bytes_received(1)
        assert receiver.mid_record is (receiver.next_record() is None)
    assert not receiver.mid_record


@each_case(
    ("stream", "what"),
    [
        (b"\xff\xff\xff\xff", "limit is 100"),
        (b"\x7f\xff\xff\xff", "limit is 100"),
        ((LAST_FRAGMENT | SKIPPED_MAX + 101).to_bytes(4, "big"), "limit is 100"),
        (fragment(b"no RPC call" + bytes(90)), "limit is 100"),
        (fragment(b"no RPC call" + bytes(49), last=False) + fragment(bytes(41)), "limit is 100"),
        (fragment(bytes(101), last=False) + fragment(b"", last=False) * 8, "8 fragments"),
        (fragment(b"", last=False) * 9, "8 fragments"),
        (fragment(b"x", last=False) * 9, "8 fragments"),
        (fragment(b""), "empty"),
        (fragment(b"", last=False) + fragment(b""), "empty"),
    ],
)
def test_what_breaks_a_bound_is_an_error_after_what_came_before(stream: bytes, what: str) -> None:
    receiver = RecordReceiver(record_octets_max=100, fragments_max=8)
    with pytest.raises(RemoteProtocolError, match=what):
        feed(receiver, fragment(b"whole") + stream)
    assert receiver.next_record() == b"whole"
    assert receiver.next_record() is None


def test_the_bounds_can_be_reached() -> None:
    receiver = RecordReceiver(record_octets_max=100, fragments_max=8)
    parts = fragment(bytes(12), last=False) * 7 + fragment(bytes(16))
    assert feed(receiver, parts * 2) == [bytes(100)] * 2


def payload(data: bytes) -> Payload:
    enc = Encoder()
    enc.u32(7, "word")
    enc.bulk(data, 1 << 30, "data")
    enc.u32(8, "word")
    return enc


def test_a_message_is_gathered_behind_its_header_without_a_copy() -> None:
    sender = RecordSender()
    data = bytes(range(5))
    sender.push(payload(data))
    gather = sender.next_gather()
    assert b"".join(gather) == bytes.fromhex("80000014 00000007 00000005 0001020304000000 00000008")
    assert any(part is data for part in gather)
    assert sender.unsent_octets == 24


@each_case("step", [1, 3, 10, 24, 25, 1000])
def test_partial_sends_go_on_where_they_stopped(step: int) -> None:
    sender = RecordSender()
    expected = b""
    for number in range(4):
        message = payload(bytes([number]) * (number * 3))
        expected += fragment(b"".join(message.gather()))
        sender.push(message, number)
    sent, tickets = b"", []
    while gather := sender.next_gather():
        chunk = b"".join(gather)[:step]
        sent += chunk
        tickets += sender.bytes_sent(len(chunk))
    assert sent == expected
    assert tickets == [0, 1, 2, 3]
    assert sender.unsent_octets == 0


def test_a_gather_list_stays_short_enough_for_one_system_call() -> None:
    sender = RecordSender()
    for _ in range(600):
        sender.push(Payload(b"x"))
    assert len(sender.next_gather()) == 512
    enc = Encoder()
    for _ in range(600):
        enc.bulk(b"four", 4, "item")
    long = RecordSender()
    long.push(enc)
    assert len(long.next_gather()) == 512


def test_a_message_that_no_record_can_carry_is_the_callers_error() -> None:
    with pytest.raises(LocalProtocolError):
        RecordSender().push(Payload(b""))

    class Huge(bytes):
        __slots__ = ()

        def __len__(self) -> int:
            return 1 << 31

    with pytest.raises(MessageTooLong, match="31 bits"):
        RecordSender().push(Payload(Huge()))


def test_a_message_over_the_senders_limit_is_refused_and_leaves_no_trace() -> None:
    sender = RecordSender(100, "the setting")
    sender.push(Payload(bytes(100)))
    with pytest.raises(MessageTooLong, match="101 octets is over this side's limit of 100: the setting") as raised:
        sender.push(Payload(bytes(101)))
    assert (raised.value.octets, raised.value.limit, raised.value.received) == (101, 100, False)
    assert sender.unsent_octets == 104
    assert b"".join(sender.next_gather()) == fragment(bytes(100))


def long_message(size: int, *, kind: int = 0) -> bytes:
    return b"\1\2\3\4" + kind.to_bytes(4, "big") + bytes(range(256)) * (size // 256) + bytes(size % 256)


@pytest.mark.thorough
@each_case("step", [1 << 30, 1, 3, 7, 100, 32_769])
@each_case("cuts", [(), (3,), (4, 8), (9, 100), (50, 99, 99, 500)])
def test_a_message_that_is_too_long_is_skipped_and_reported_once(cuts: tuple[int, ...], step: int) -> None:
    message = long_message(1000 if step == 1 else 100_000, kind=1)
    ends = [0, *cuts, len(message)]
    parts = [message[start:end] for start, end in itertools.pairwise(ends)]
    stream = b"".join(fragment(part, last=part is parts[-1]) for part in parts)
    receiver = RecordReceiver(record_octets_max=100)
    assert feed(receiver, fragment(b"before") + stream + fragment(b"after") + stream + fragment(b"end"), step) == [
        b"before",
        b"after",
        b"end",
    ]
    assert not receiver.mid_record
    (first, second) = receiver.too_long
    assert first == second
    assert (first.xid, first.is_call) == (0x01020304, False)
    assert 100 < first.octets <= len(message)


def test_what_is_skipped_takes_no_memory_and_is_reported_at_once() -> None:
    receiver = RecordReceiver(record_octets_max=100)
    message = long_message(1 << 20)
    feed(receiver, fragment(message)[:12])
    (told,) = receiver.too_long
    assert told == (0x01020304, True, len(message))
    tracemalloc.start()
    try:
        for at in range(8, len(message) - 1, 1 << 15):
            feed(receiver, message[at : min(at + (1 << 15), len(message) - 1)])
            assert (receiver.mid_record, receiver.expected_octets) == (True, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()
    assert feed(receiver, message[-1:] + fragment(b"next")) == [b"next"]
    assert len(receiver.too_long) == 1


def test_of_a_message_that_is_far_too_long_it_is_told_whose_it_was() -> None:
    receiver = RecordReceiver(record_octets_max=100)
    start = (LAST_FRAGMENT | SKIPPED_MAX + 101).to_bytes(4, "big") + long_message(100)
    with pytest.raises(RemoteProtocolError, match="limit is 100"):
        feed(receiver, start)
    assert [told.xid for told in receiver.too_long] == [0x01020304]
    # In fragments it is noticed as soon as they come to too much.
    receiver = RecordReceiver(record_octets_max=100)
    feed(receiver, fragment(long_message(200), last=False))
    with pytest.raises(RemoteProtocolError, match="limit is 100"):
        feed(receiver, SKIPPED_MAX.to_bytes(4, "big"))


def test_a_withdrawn_message_leaves_the_queue() -> None:
    sender = RecordSender()
    one, two = object(), object()
    sender.push(Payload(b"one"), one)
    sender.push(Payload(b"two"), two)
    sender.withdraw(one)
    sender.withdraw(object())
    assert b"".join(sender.next_gather()) == fragment(b"two")
    assert sender.unsent_octets == 7


def test_a_withdrawn_message_that_has_begun_no_longer_follows_its_memory() -> None:
    sender = RecordSender()
    memory = bytearray(b"before")
    ticket = object()
    sender.push(Payload(memory), ticket)
    assert sender.bytes_sent(6) == []
    sender.withdraw(ticket)
    memory[:] = b"after!"
    assert b"".join(sender.next_gather()) == b"fore"
    assert sender.bytes_sent(4) == [ticket]


def test_clearing_returns_what_was_not_sent_whole() -> None:
    sender = RecordSender()
    for number in range(3):
        sender.push(Payload(b"abcd"), number)
    assert sender.bytes_sent(10) == [0]
    assert sender.clear() == [1, 2]
    assert (sender.unsent_octets, sender.next_gather()) == (0, [])


@each_case("count", [0, -1, 9])
def test_octets_counted_wrong_are_a_fault_of_this_side(count: int) -> None:
    sender = RecordSender()
    sender.push(Payload(b"1234"))
    with pytest.raises(AssertionError, match="octets were sent of 8"):
        sender.bytes_sent(count)
    assert sender.bytes_sent(8) == [None]


def test_a_message_of_another_length_than_it_says_is_never_handed_out_as_sound() -> None:
    sender = RecordSender()
    doubles = memoryview(array.array("d", [1.0, 2.0]))
    with pytest.raises(InternalError, match="16 octets in 2 items"):
        sender.push(Payload(b"1234", [BulkItem(4, 4, doubles)]), "ticket")
    assert sender.clear() == ["ticket"]
