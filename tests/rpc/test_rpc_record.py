"""Record marking step by step: the room for octets, the octets awaited, the report of a message that is too long."""

from __future__ import annotations

import array
import itertools
import tracemalloc
import weakref

import pytest

from rpcrdma.errors import InternalError, LocalProtocolError, MessageTooLong, RemoteProtocolError
from rpcrdma.limits import (
    RESULT_OCTETS_KEPT_MAX,
    RPC_RECORD_STEP_OCTETS,
)
from rpcrdma.limits import RPC_RECORD_SKIPPED_OCTETS_MAX as SKIPPED_MAX
from rpcrdma.rpc.record import LAST_FRAGMENT, RecordReceiver, RecordSender
from rpcrdma.wire.bulk_memory import ResultMemory
from rpcrdma.xdr.codec import BulkItem, Encoder, Payload
from support.cases import each_case

SCRATCH = 32 << 10
LAST = 1 << 31


def word(length: int, *, last: bool = True) -> bytes:
    return (length | LAST * last).to_bytes(4, "big")


def fragments(message: bytes, *sizes: int) -> bytes:
    """The message in fragments of these sizes, and one with the rest."""
    ends = [0, *itertools.accumulate(sizes), len(message)]
    parts = [message[start:end] for start, end in itertools.pairwise(ends)]
    return b"".join(word(len(part), last=False) + part for part in parts[:-1]) + word(len(parts[-1])) + parts[-1]


def fragment(data: bytes, *, last: bool = True) -> bytes:
    return word(len(data), last=last) + data


def feed(receiver: RecordReceiver, stream: bytes) -> list[bytes]:
    """Receives `stream` as recvmsg_into would fill the buffers."""
    records = []
    view = memoryview(stream)
    while view:
        received = 0
        for buffer in receiver.next_buffers():
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            received += count
        receiver.bytes_received(received)
        while (record := receiver.next_record()) is not None:
            records.append(bytes(record))
    return records


def put(receiver: RecordReceiver, octets: bytes) -> None:
    """All at once, as one system call would."""
    rest = memoryview(octets)
    for buffer in receiver.next_buffers():
        count = min(len(buffer), len(rest))
        buffer[:count] = rest[:count]
        rest = rest[count:]
    assert not rest, "no room for what has arrived"
    receiver.bytes_received(len(octets))


def taken(receiver: RecordReceiver) -> list[bytes]:
    found = [receiver.next_record() for _ in range(20)]
    return [bytes(record) for record in found if record is not None]


def rooms(receiver: RecordReceiver) -> list[int]:
    return [len(buffer) for buffer in receiver.next_buffers()]


def test_what_is_awaited_is_known_after_each_octet() -> None:
    for sizes, step in itertools.product(((), (1,), (3, 0, 2), (0, 8), (4, 4)), range(1, 9)):
        message = b"0123456789"
        stream = fragments(message, *sizes)
        receiver = RecordReceiver()
        announced, at, ends = 0, 0, []
        for size in [*sizes, len(message) - sum(sizes)]:
            announced += size
            ends.append((at + 4, at + 4 + size, announced))
            at += 4 + size
        for begin in range(0, len(stream), step):
            end = min(begin + step, len(stream))
            put(receiver, stream[begin:end])
            known = [total for header_end, _, total in ends if header_end <= end]
            assert receiver.expected_octets == (known[-1] if known and end < len(stream) else 0)
            assert receiver.mid_record is (end < len(stream))
        assert taken(receiver) == [message]


def test_a_long_fragment_gets_room_in_steps_as_it_arrives() -> None:
    total = 4 * RPC_RECORD_STEP_OCTETS + 7
    receiver = RecordReceiver(record_octets_max=total)
    message = bytes(range(256)) * (total // 256) + bytes(range(total % 256))
    put(receiver, word(total))
    steps, at = [], 0
    for _ in range(20):
        if not receiver.mid_record:
            break
        assert receiver.expected_octets == total
        room, *behind = rooms(receiver)
        assert behind == ([SCRATCH] if at + room == total else [])
        steps.append(room)
        put(receiver, message[at : at + room])
        at += room
    # A header alone asks for the first step at most; each further one doubles the memory.
    step = RPC_RECORD_STEP_OCTETS
    assert steps == [step, step, 2 * step, 7]
    assert taken(receiver) == [message]


@each_case(
    ("sizes", "told_after", "announced"),
    [
        ((), 12, 300),
        ((100,), 108, 300),
        ((101,), 12, 101),
        ((60, 60), 68, 120),
        ((4, 4, 200), 20, 208),
        ((4, 200), 16, 204),
        ((7, 200), 16, 207),
        ((0, 0, 299), 20, 299),
    ],
)
@each_case("kind", [0, 1])
def test_a_message_over_the_bound_is_told_with_what_is_announced_by_then(
    kind: int, sizes: tuple[int, ...], told_after: int, announced: int
) -> None:
    message = (77).to_bytes(4, "big") + kind.to_bytes(4, "big") + bytes(292)
    stream = fragments(message, *sizes)
    receiver = RecordReceiver(record_octets_max=100)
    for end in range(1, len(stream) + 1):
        put(receiver, stream[end - 1 : end])
        assert list(receiver.too_long) == ([(77, kind == 0, announced)] if end >= told_after else []), end
        assert receiver.mid_record is (end < len(stream)), end
    assert taken(receiver) == []
    put(receiver, word(3) + b"abc")
    assert taken(receiver) == [b"abc"]
    # The next one that is too long is told anew.
    put(receiver, stream)
    assert list(receiver.too_long) == [(77, kind == 0, announced)] * 2
    assert not receiver.mid_record


@each_case("beyond", [0, 1])
@each_case("first", [101, 200])
def test_so_much_is_skipped_and_not_an_octet_more(first: int, beyond: int) -> None:
    receiver = RecordReceiver(record_octets_max=100)
    head = (77).to_bytes(4, "big") + bytes(first - 4)
    rest = 100 + SKIPPED_MAX - first + beyond
    put(receiver, word(first, last=False) + head)
    assert receiver.mid_record
    if beyond:
        with pytest.raises(RemoteProtocolError, match=f"a record of {100 + SKIPPED_MAX + 1} octets or more"):
            put(receiver, word(rest))
    else:
        put(receiver, word(rest))
        assert receiver.mid_record
        assert rooms(receiver) == [SCRATCH]


@each_case("kind", [2, 3, 0xFFFFFFFF])
@each_case("sizes", [(), (4,), (101,)])
def test_what_is_too_long_and_no_rpc_message_ends_the_stream(sizes: tuple[int, ...], kind: int) -> None:
    receiver = RecordReceiver(record_octets_max=100)
    with pytest.raises(RemoteProtocolError, match="octets or more, the limit is 100"):
        put(receiver, fragments(bytes(4) + kind.to_bytes(4, "big") + bytes(200), *sizes))
    assert not receiver.too_long


@each_case("count", [1, 2, 5])
def test_fragments_are_bounded_in_messages_that_are_skipped_as_well(count: int) -> None:
    receiver = RecordReceiver(record_octets_max=100, fragments_max=count)
    put(receiver, fragments(bytes(120), *[101, 1, 1, 1][: count - 1]))
    assert not receiver.mid_record
    with pytest.raises(RemoteProtocolError, match=f"more than {count} fragments"):
        put(receiver, fragments(bytes(120), *[101, 1, 1, 1, 1][:count]))


def test_a_receiver_that_is_cleared_holds_nothing() -> None:
    receiver = RecordReceiver()
    put(receiver, word(1) + b"a" + word(50) + b"b")
    assert receiver.expected_octets == 50
    receiver.clear()
    assert receiver.next_record() is None
    assert receiver.expected_octets == 0
    assert sum(rooms(receiver)) == 0


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
    message = receiver.next_record()
    assert isinstance(message, memoryview)
    assert message.obj is memory


def test_streams_that_end_in_a_message_give_its_memory_back_but_for_what_the_next_ones_use() -> None:
    shared = ResultMemory()
    receivers = [RecordReceiver(memory=shared) for _ in range(40)]
    for receiver in receivers:
        put(receiver, word(1 << 20))
    memories = [weakref.ref(receiver._message._room.obj) for receiver in receivers]
    for receiver in receivers:
        receiver.clear()
    assert sum(memory() is not None for memory in memories) == RESULT_OCTETS_KEPT_MAX >> 20
    shared.clear()
    assert not any(memory() for memory in memories)


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


def long_message(size: int, *, kind: int = 0) -> bytes:
    return b"\1\2\3\4" + kind.to_bytes(4, "big") + bytes(range(256)) * (size // 256) + bytes(size % 256)


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


def sent(sender: RecordSender) -> bytes:
    return b"".join(sender.next_gather())


def test_the_rest_is_what_was_not_sent() -> None:
    for steps in itertools.product((1, 4, 5, 9), repeat=3):
        sender = RecordSender()
        items = [BulkItem(4, 4, b"item")]
        sender.push(Payload(b"head", items), "first")
        sender.push(Payload(b"x"), "second")
        sender.push(Payload(b"yz"), "third")
        stream = word(8) + b"headitem" + word(1) + b"x" + word(2) + b"yz"
        ends = {12: "first", 17: "second", 23: "third"}
        at = 0
        for step in steps:
            count = min(step, len(stream) - at)
            if not count:
                break
            assert (sent(sender), sender.unsent_octets) == (stream[at:], len(stream) - at)
            assert sender.bytes_sent(count) == [ticket for end, ticket in ends.items() if at < end <= at + count]
            at += count
        assert (sent(sender), sender.unsent_octets) == (stream[at:], len(stream) - at)
        left = [ticket for end, ticket in ends.items() if end > at]
        assert sender.octets_sent == at
        assert sender.clear() == left
        assert (sender.next_gather(), sender.unsent_octets, sender.octets_sent) == ([], 0, at)


@each_case("count", range(1, 13))
@each_case("withdrawn", ["first", "second"])
def test_a_withdrawn_message_is_completed_only_if_it_has_begun(withdrawn: str, count: int) -> None:
    sender = RecordSender()
    first, second = bytearray(b"one"), bytearray(b"two")
    sender.push(Payload(first), "first")
    sender.push(Payload(second), "second")
    assert sender.bytes_sent(count) == (["first"] if count >= 7 else [])
    sender.withdraw(withdrawn)
    first[:] = second[:] = b"new"
    one, two, new = (word(3) + octets for octets in (b"one", b"two", b"new"))
    if withdrawn == "first":
        expected = one[count:] + new[max(0, count - 7) :]
    else:
        expected = two[count - 7 :] if count > 7 else new[count:]
    assert (sent(sender), sender.unsent_octets, sender.octets_sent) == (expected, len(expected), count)


@each_case("buffers", [510, 511, 512, 513])
@each_case("alone", [False, True])
def test_a_gather_list_has_at_most_512_buffers(buffers: int, alone: bool) -> None:
    sender = RecordSender()
    # A header, octets before the items, and the items.
    items = [BulkItem(4, 4 + 4 * index, b"item") for index in range(buffers - 2)]
    sender.push(Payload(b"head", items))
    if not alone:
        sender.push(Payload(b"next"))
    gather = sender.next_gather()
    assert len(gather) == min(buffers if alone else buffers + 2, 512)
    stream = word(4 + 4 * (buffers - 2)) + b"head" + b"item" * (buffers - 2) + (b"" if alone else word(4) + b"next")
    assert stream.startswith(b"".join(gather))
    assert sender.unsent_octets == len(stream)


@each_case("step", [*range(1, 12), 100, 1000])
@each_case("most", [100, 5])
def test_a_header_is_read_once_all_of_it_has_arrived(step: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages that are skipped as well."""
    lengths = [9, 1 | LAST, 0, 3, 2 | LAST, 12 | LAST, 4, 40 | LAST]
    stream = b"".join(length.to_bytes(4, "big") + bytes(length & ~LAST) for length in lengths)
    headers = iter(lengths)

    def check(receiver: RecordReceiver, header: int) -> int:
        assert header == next(headers, None)
        return check_header(receiver, header)

    def skip(receiver: RecordReceiver, begin: int, end: int) -> int:
        after = passed_over(receiver, begin, end)
        assert begin <= after <= end
        return after

    check_header, passed_over = RecordReceiver._check_header, RecordReceiver._skip
    monkeypatch.setattr(RecordReceiver, "_check_header", check)
    monkeypatch.setattr(RecordReceiver, "_skip", skip)
    receiver = RecordReceiver(record_octets_max=most)
    for at in range(0, len(stream), step):
        put(receiver, stream[at : at + step])
    assert next(headers, None) is None
    assert not receiver.mid_record


@each_case("first", [1, 50, 100])
def test_buffers_are_the_drivers_until_octets_arrive_in_them(first: int) -> None:
    receiver = RecordReceiver()
    put(receiver, word(100))
    (room, _) = receiver.next_buffers()
    put(receiver, bytes(first))
    with pytest.raises(ValueError, match="released"):
        room[0] = 1


def test_a_message_in_many_partsmoves_seldom_as_it_grows() -> None:
    receiver = RecordReceiver()
    parts, memories = [bytes([number]) * 4000 for number in range(200)], []
    for part in parts:
        put(receiver, word(len(part), last=False) + part)
        if receiver._message._room.obj not in memories:
            memories.append(receiver._message._room.obj)
    put(receiver, word(0))
    assert taken(receiver) == [b"".join(parts)]
    assert len(memories) == 9


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


def test_a_withdrawn_message_leaves_the_queue() -> None:
    sender = RecordSender()
    one, two = object(), object()
    sender.push(Payload(b"one"), one)
    sender.push(Payload(b"two"), two)
    sender.withdraw(one)
    sender.withdraw(object())
    assert b"".join(sender.next_gather()) == fragment(b"two")
    assert sender.unsent_octets == 7


def test_a_message_of_another_length_than_it_says_is_never_handed_out_as_sound() -> None:
    sender = RecordSender()
    doubles = memoryview(array.array("d", [1.0, 2.0]))
    with pytest.raises(InternalError, match="16 octets in 2 items"):
        sender.push(Payload(b"1234", [BulkItem(4, 4, doubles)]), "ticket")
    assert sender.clear() == ["ticket"]
