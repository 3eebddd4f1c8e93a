"""The conformance suite of RDMA providers: rules that any pair of queue pairs must keep, except its `Deviations`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.joined_sides import (
    Side,
    connected,
    ended,
    establish,
    expect_alive,
    expect_broken,
    expect_private_data,
    pattern,
    sides,
)
from rpcrdma.testing.pair_under_test import Deviations, MakePair, PairParts
from rpcrdma.testing.pooled_receives import (  # noqa: F401 - checks
    check_messages_lie_in_the_parts_of_their_buffers,
    check_shared_receives_end_silently,
    check_shared_receives_take_memory_as_messages_come,
    check_too_long_send_for_shared_memory_breaks_the_connection,
)
from rpcrdma.verbs.protection_domain import Access, MemoryRegion
from rpcrdma.verbs.queue_pair import (
    ConnectRequested,
    Disconnected,
    Established,
    Status,
    Verb,
)
from rpcrdma.wire.buffers import Buffer

__all__ = ["CHECKS", "Check", "Deviations", "MakePair", "PairParts"]

_RECEIVE_OCTETS = 4096
_LONG = 200_000
"""Octets of a message longer than any frame of a provider."""

Check: TypeAlias = Callable[[MakePair], None]
"""One rule for queue pairs: raises AssertionError if the provider of the pair breaks it."""


def check_private_data_reaches_both_sides(make_pair: MakePair) -> None:
    """Asserts on a pair that the private data of each side reaches the other side unchanged while they connect."""
    a, b = sides(make_pair, private_data=b"from the initiator")
    a.progress()
    (request,) = b.events()
    assert isinstance(request, ConnectRequested)
    expect_private_data(a, request.private_data, b"from the initiator")
    b.qp.accept(b"from the responder")
    a.progress()
    (event,) = a.events()
    assert isinstance(event, Established)
    expect_private_data(a, event.private_data, b"from the responder")
    b.receive("first")
    a.qp.post_send("first", [b"x"])
    a.progress()
    (event,) = b.events()
    assert isinstance(event, Established)
    expect_private_data(a, event.private_data, b"from the initiator")


def check_read_limits_are_agreed_on(make_pair: MakePair) -> None:
    """Asserts on a pair that no side gets more outbound RDMA Reads than its peer accepts inbound.

    The active side must not get more inbound Reads than it permits, either.
    """
    a, b = sides(make_pair, inbound_reads=(3, 7), outbound_reads=(20, 30))
    mine, theirs = establish(a, b)
    assert mine.outbound_reads <= 7, f"{mine.outbound_reads} outbound reads, the peer takes 7"
    assert mine.inbound_reads <= 3, f"{mine.inbound_reads} inbound reads, 3 were allowed"
    if theirs is not mine:
        assert theirs.outbound_reads <= 3, f"{theirs.outbound_reads} outbound reads, the peer takes 3"


def check_rejection_ends_both_sides(make_pair: MakePair) -> None:
    """Asserts on a pair that a rejected initiator has the event `Disconnected`, `by_peer`, and a flushed receive."""
    a, b = sides(make_pair)
    a.receive("never")
    a.progress()
    assert isinstance(b.events()[0], ConnectRequested)
    b.qp.reject(b"no")
    a.progress()
    (event,) = a.events()
    assert isinstance(event, Disconnected), f"the initiator was told {event}"
    assert event.by_peer
    assert ended(a.completions(), Verb.RECEIVE) == [("never", Status.FLUSHED, 0)]


def check_work_posted_before_the_connection_waits(make_pair: MakePair) -> None:
    """Asserts on a pair that Sends posted while connecting are sent after the connection is made, in order."""
    a, b = sides(make_pair)
    buffers = [b.receive(number) for number in range(3)]
    for number in range(3):
        a.qp.post_send(number, [b"message %d" % number])
    assert not a.completions()
    establish(a, b)
    a.progress()
    assert ended(b.completions(), Verb.RECEIVE) == [(number, Status.SUCCESS, 9) for number in range(3)]
    assert [bytes(buffer[:9]) for buffer in buffers] == [b"message 0", b"message 1", b"message 2"]
    assert [wr for wr, status, _ in ended(a.completions(), Verb.SEND) if status is Status.SUCCESS] == [0, 1, 2]


def check_sends_fill_receives_in_order(make_pair: MakePair) -> None:
    """Asserts on a pair that each Send, also an empty or a full one, fills the oldest receive, in both directions."""
    a, b = connected(make_pair)
    for here, there in ((a, b), (b, a)):
        sizes = (1, 0, 100, _RECEIVE_OCTETS, 17)
        buffers = [there.receive(("receive", number)) for number in range(len(sizes))]
        for number, size in enumerate(sizes):
            here.qp.post_send(("send", number), [pattern(size)])
        here.progress()
        assert ended(there.completions(), Verb.RECEIVE) == [
            (("receive", number), Status.SUCCESS, size) for number, size in enumerate(sizes)
        ]
        for buffer, size in zip(buffers, sizes, strict=True):
            assert bytes(buffer[:size]) == pattern(size)
        assert [wr for wr, _, _ in ended(here.completions(), Verb.SEND)] == [("send", n) for n in range(len(sizes))]


def check_gather_lists_arrive_joined(make_pair: MakePair) -> None:
    """Asserts that a message is the concatenation of its gather list: bytes, bytearrays, views, and empty buffers."""
    a, b = connected(make_pair)
    buffer = b.receive("r")
    pieces: list[Buffer] = [b"one", bytearray(b"two"), memoryview(b"xthreex")[1:6], b"", b"4"]
    a.qp.post_send("s", pieces)
    a.progress()
    assert ended(b.completions(), Verb.RECEIVE) == [("r", Status.SUCCESS, 12)]
    assert bytes(buffer[:12]) == b"onetwothree4"


def check_unsignaled_work_reports_nothing(make_pair: MakePair) -> None:
    """Asserts on a pair that unsignaled Sends and Writes have no completion, while a signaled Send after them has."""
    a, b = connected(make_pair)
    region = b.pd.register(bytearray(8), Access.REMOTE_WRITE)
    b.receive(1)
    b.receive(2)
    a.qp.post_write("w", [b"12345678"], region.handle, region.offset, signaled=False)
    a.qp.post_send("s", [b"x"], signaled=False)
    a.qp.post_send("t", [b"y"])
    a.progress()
    assert [c.wr for c in a.completions()] == ["t"]
    assert bytes(region.view) == b"12345678"


def check_send_without_receive_breaks_the_connection(make_pair: MakePair) -> None:
    """Asserts on a pair that a Send for which no receive is posted ends the connection instead of being buffered."""
    a, b = connected(make_pair)
    a.qp.post_send("s", [b"nobody is ready"])
    expect_broken(a, b, "a Send without a receive", blind=b)


def check_too_long_send_breaks_the_connection(make_pair: MakePair) -> None:
    """Asserts that a Send longer than its receive ends the connection and writes nothing beyond the buffer."""
    a, b = connected(make_pair)
    memory = bytearray(pattern(128))
    b.qp.post_receive("r", memoryview(memory)[:64])
    a.qp.post_send("s", [bytes(65)])
    expect_broken(a, b, "a Send longer than its receive")
    assert memory[64:] == pattern(128)[64:], "octets behind the receive buffer were written"


def check_write_places_before_the_next_send(make_pair: MakePair) -> None:
    """Asserts on a pair of `make_pair` that the data of a Write is in place when a later Send is received.

    The target gets no completion of the Write.
    """
    a, b = connected(make_pair)
    for here, there in ((a, b), (b, a)):
        for size in (1, 3, 4096, _LONG):
            data = pattern(size)
            memory = bytearray(size + 16)
            region = there.pd.register(memory, Access.REMOTE_WRITE)
            there.receive("r")
            half = size // 2
            here.qp.post_write(
                "w", [memoryview(data)[:half], memoryview(data)[half:]], region.handle, region.offset + 8
            )
            here.qp.post_send("s", [b"written"])
            here.progress()
            assert [c.wr for c in there.completions()] == ["r"]
            assert memory[8:-8] == data, f"a Write of {size} octets did not arrive as it was sent"
            assert memory[:8] == memory[-8:] == bytes(8), "a Write strayed"
            assert [(c.wr, c.verb, c.status) for c in here.completions()] == [
                ("w", Verb.RDMA_WRITE, Status.SUCCESS),
                ("s", Verb.SEND, Status.SUCCESS),
            ]
            there.pd.invalidate(region)


def check_zero_length_operations(make_pair: MakePair) -> None:
    """Asserts on a pair of `make_pair` that a Write and a Read of no octets complete and leave the connection alive."""
    a, b = connected(make_pair)
    target = b.pd.register(bytearray(4), Access.REMOTE_WRITE | Access.REMOTE_READ)
    sink = a.pd.register(bytearray(4), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    a.qp.post_write("w", [], target.handle, target.offset)
    a.qp.post_read("r", sink, 0, 0, target.handle, target.offset)
    a.progress()
    assert [(c.wr, c.status) for c in a.completions()] == [("w", Status.SUCCESS), ("r", Status.SUCCESS)]
    expect_alive(a, b)


def _forbidden_write(make_pair: MakePair, what: str, access: Access, handle: int, offset: int, length: int) -> None:
    a, b = connected(make_pair)
    memory = bytearray(64)
    region = b.pd.register(memoryview(memory)[16:48], access)
    a.qp.post_write("w", [b"\xff" * length], region.handle ^ handle, (region.offset + offset) % (1 << 64))
    expect_broken(a, b, what)
    assert memory == bytes(64), f"{what}: memory was changed"


def check_write_outside_bounds_is_refused(make_pair: MakePair) -> None:
    """Asserts that a Write outside of its region ends the connection and changes no memory, however far outside."""
    for offset, length in ((1, 32), (-1, 1), (32, 1), (0, 33), (1 << 40, 1), (1 << 63, 16)):
        _forbidden_write(make_pair, f"a Write of {length} at {offset} of 32", Access.REMOTE_WRITE, 0, offset, length)


def check_write_to_unknown_handle_is_refused(make_pair: MakePair) -> None:
    """Asserts on a pair that a Write to a handle that differs by one bit from a registered one ends the connection."""
    for bit in (0, 7, 8, 31):
        _forbidden_write(make_pair, "a Write to an unknown handle", Access.REMOTE_WRITE, 1 << bit, 0, 8)


def check_write_without_the_right_is_refused(make_pair: MakePair) -> None:
    """Asserts on a pair of `make_pair` that a Write to memory that the peer may only read ends the connection."""
    _forbidden_write(make_pair, "a Write to readable memory", Access.REMOTE_READ, 0, 0, 8)


def check_write_after_invalidation_is_refused(make_pair: MakePair) -> None:
    """Asserts on a pair that a Write after `invalidate` has returned ends the connection and changes no memory.

    Invalidating the region twice must have no further effect.
    """
    a, b = connected(make_pair)
    memory = bytearray(32)
    region = b.pd.register(memory, Access.REMOTE_WRITE)
    b.pd.invalidate(region)
    b.pd.invalidate(region)
    a.qp.post_write("w", [b"\xff" * 8], region.handle, region.offset)
    expect_broken(a, b, "a Write after invalidation")
    assert memory == bytes(32)


def check_read_brings_data(make_pair: MakePair) -> None:
    """Asserts on a pair that Reads bring data to any place of the sink, in both directions, and complete in order."""
    a, b = connected(make_pair)
    for here, there in ((a, b), (b, a)):
        data = pattern(_LONG)
        source = there.pd.register(data, Access.REMOTE_READ)
        memory = bytearray(_LONG + 16)
        sink = here.pd.register(memory, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        here.qp.post_read(1, sink, 8, 100, source.handle, source.offset)
        here.qp.post_read(2, sink, 108, _LONG - 101, source.handle, source.offset + 100)
        here.qp.post_read(3, sink, _LONG + 7, 1, source.handle, source.offset + _LONG - 1)
        here.progress()
        assert memory[8:-8] == data, "RDMA Reads did not bring what was there"
        assert memory[:8] == memory[-8:] == bytes(8), "an RDMA Read strayed"
        assert ended(here.completions(), Verb.RDMA_READ) == [
            (1, Status.SUCCESS, 100),
            (2, Status.SUCCESS, _LONG - 101),
            (3, Status.SUCCESS, 1),
        ]
        assert not there.completions(), "the data source was told of an RDMA Read"


def check_reads_wait_for_a_slot(make_pair: MakePair) -> None:
    """Asserts on a pair that Reads beyond the number that the peer accepts at once wait, and all complete."""
    a, b = connected(make_pair, inbound_reads=(1, 2), outbound_reads=(1, 2))
    for here, there in ((a, b), (b, a)):
        data = pattern(40)
        source = there.pd.register(data, Access.REMOTE_READ)
        memory = bytearray(40)
        sink = here.pd.register(memory, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        for number in range(40):
            here.qp.post_read(number, sink, number, 1, source.handle, source.offset + number)
        here.progress()
        assert [c.wr for c in here.completions()] == list(range(40))
        assert memory == data


def check_completions_keep_the_order_of_posting(make_pair: MakePair) -> None:
    """Asserts on a pair that the completion of a Send does not precede that of a Read posted before it."""
    a, b = connected(make_pair)
    source = b.pd.register(pattern(1000), Access.REMOTE_READ)
    sink = a.pd.register(bytearray(1000), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    b.receive("x")
    a.qp.post_read("read", sink, 0, 1000, source.handle, source.offset)
    a.qp.post_send("send", [b"x"])
    a.progress()
    assert [c.wr for c in a.completions()] == ["read", "send"]


def check_read_of_what_may_not_be_read_is_refused(make_pair: MakePair) -> None:
    """Asserts on a pair that a Read beyond bounds or rights ends the connection and brings no data.

    The same is asserted of a Read of invalidated or abandoned memory.
    """
    cases: list[tuple[str, Access, Callable[[Side, MemoryRegion], object], int, int]] = [
        ("out of bounds", Access.REMOTE_READ, lambda _s, _r: None, 0, 33),
        ("before the start", Access.REMOTE_READ, lambda _s, _r: None, -1, 8),
        ("of writable memory", Access.REMOTE_WRITE, lambda _s, _r: None, 0, 8),
        ("of ended memory", Access.REMOTE_READ, lambda side, region: side.pd.invalidate(region), 0, 8),
        ("of abandoned memory", Access.REMOTE_READ, lambda side, region: side.pd.abandon(region), 0, 8),
    ]
    for what, access, before, offset, length in cases:
        a, b = connected(make_pair)
        region = b.pd.register(bytearray(pattern(32)), access)
        before(b, region)
        memory = bytearray(64)
        sink = a.pd.register(memory, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        a.qp.post_read("read", sink, 0, length, region.handle, (region.offset + offset) % (1 << 64))
        if access is Access.REMOTE_WRITE and a.deviations.reads_without_right:
            a.progress()
            assert ended(a.completions(), Verb.RDMA_READ) == [("read", Status.SUCCESS, length)]
            expect_alive(a, b)
            continue
        expect_broken(a, b, f"an RDMA Read {what}")
        assert memory == bytes(64), f"an RDMA Read {what} brought data"
        statuses = [c.status for c in a.completions() if c.verb is Verb.RDMA_READ]
        assert len(statuses) == 1, f"an RDMA Read {what}: reported {statuses}"
        assert statuses[0] is not Status.SUCCESS, f"an RDMA Read {what}: reported {statuses}"


def check_send_with_invalidate_ends_the_handle(make_pair: MakePair) -> None:
    """Asserts on a pair that the completion of a Send with Invalidate names the handle, and the handle has ended."""
    a, b = connected(make_pair)
    memory = bytearray(8)
    region = b.pd.register(memory, Access.REMOTE_WRITE)
    b.receive("r")
    a.qp.post_write("w", [b"12345678"], region.handle, region.offset)
    a.qp.post_send("s", [b"done"], invalidate=region.handle)
    a.progress()
    if a.deviations.cannot_invalidate_remotely:
        expect_broken(a, b, "a Send with Invalidate", blind=a)
        assert ended(b.completions(), Verb.RECEIVE) == [("r", Status.FLUSHED, 0)]
        return
    (completion,) = b.completions()
    assert completion.status is Status.SUCCESS, f"a Send with Invalidate: received {completion}"
    assert completion.invalidated == (None if b.deviations.hides_invalidation else region.handle)
    assert memory == b"12345678"
    b.receive("r")
    a.qp.post_send("s", [b"plain"])
    a.progress()
    (completion,) = b.completions()
    assert completion.invalidated is None
    a.qp.post_write("w", [b"xxxxxxxx"], region.handle, region.offset)
    expect_broken(a, b, "a Write after remote invalidation")
    assert memory == b"12345678"


def check_invalidation_of_an_unknown_handle_breaks_the_connection(make_pair: MakePair) -> None:
    """Asserts on a pair that a Send that invalidates an unknown handle is not delivered and ends the connection."""
    a, b = connected(make_pair)
    b.receive("r")
    a.qp.post_send("s", [b"done"], invalidate=0x12345678)
    expect_broken(a, b, "invalidation of an unknown handle", blind=a)
    assert [c.status for c in b.completions()] == [Status.FLUSHED]


def check_late_writes_to_abandoned_memory_vanish(make_pair: MakePair) -> None:
    """Asserts that a Write to a region after `abandon` completes, changes no memory, and leaves the connection alive.

    A Send may still invalidate the handle; after `invalidate`, a Write to it ends the connection.
    """
    a, b = connected(make_pair)
    memory = bytearray(_LONG)
    region = b.pd.register(memory, Access.REMOTE_WRITE)
    b.pd.abandon(region)
    if not (a.deviations.cannot_abandon or a.deviations.cannot_invalidate_remotely):
        argument = b.pd.register(bytes(8), Access.REMOTE_READ)
        b.pd.abandon(argument)
        b.receive("r")
        a.qp.post_send("s", [b"done"], signaled=False, invalidate=argument.handle)
        a.progress()
        assert ended(b.completions(), Verb.RECEIVE) == [("r", Status.SUCCESS, 4)], (
            "abandoned memory was not invalidated"
        )
    a.qp.post_write("w", [pattern(_LONG)], region.handle, region.offset)
    a.progress()
    assert memory == bytes(_LONG), "abandoned memory was written"
    if a.deviations.cannot_abandon:
        expect_broken(a, b, "a Write to abandoned memory")
        return
    assert [(c.wr, c.status) for c in a.completions()] == [("w", Status.SUCCESS)]
    expect_alive(a, b)
    b.pd.invalidate(region)
    a.qp.post_write("w", [b"x"], region.handle, region.offset)
    expect_broken(a, b, "a Write to abandoned memory that has ended for good")


def check_read_only_memory_is_not_registered_for_writing(make_pair: MakePair) -> None:
    """Asserts on a pair of `make_pair` that registering immutable memory for writing raises LocalProtocolError."""
    a, _ = connected(make_pair)
    for access in (Access.REMOTE_WRITE, Access.LOCAL_WRITE):
        with suppress(LocalProtocolError):
            a.pd.register(b"immutable", access)
            raise AssertionError(f"immutable memory was registered for {access!r}")


def check_handles_are_not_reused_at_once(make_pair: MakePair) -> None:
    """Asserts that live regions have different handles, and a new region does not get the handle that ended last."""
    a, _ = connected(make_pair)
    regions = [a.pd.register(bytearray(1), Access.REMOTE_READ) for _ in range(64)]
    assert len({region.handle for region in regions}) == 64
    assert all(0 <= region.handle < 1 << 32 for region in regions)
    assert all(0 <= region.offset < 1 << 64 for region in regions)
    ended = regions.pop()
    a.pd.invalidate(ended)
    assert a.pd.register(bytearray(1), Access.REMOTE_READ).handle != ended.handle


def check_disconnect_sends_what_was_posted(make_pair: MakePair) -> None:
    """Asserts that `disconnect` delivers messages posted before it, then flushes both sides without protocol error."""
    a, b = connected(make_pair)
    b.receive("arrives")
    b.receive("flushed")
    a.receive("flushed, too")
    a.qp.post_send("last", [b"last words"])
    a.qp.disconnect()
    a.progress()
    assert ended(b.completions(), Verb.RECEIVE) == [("arrives", Status.SUCCESS, 10), ("flushed", Status.FLUSHED, 0)]
    assert ("flushed, too", Status.FLUSHED, 0) in ended(a.completions(), Verb.RECEIVE)
    (mine,) = a.events()
    (theirs,) = b.events()
    assert isinstance(mine, Disconnected)
    assert isinstance(theirs, Disconnected)
    assert not mine.protocol_error
    assert not theirs.protocol_error
    assert theirs.by_peer
    assert not mine.by_peer


def check_abort_flushes_everything(make_pair: MakePair) -> None:
    """Asserts on a pair that `abort` flushes each work request once, also unsignaled work, and ends both sides."""
    a, b = connected(make_pair)
    source = b.pd.register(bytearray(16), Access.REMOTE_READ)
    sink = a.pd.register(bytearray(16), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    a.receive("receive")
    a.qp.post_read("read", sink, 0, 16, source.handle, source.offset)
    a.qp.post_send("send", [b"x"], signaled=False)
    a.qp.abort("enough")
    a.progress()
    flushed = sorted((str(completed.wr), completed.status) for completed in a.completions())
    assert flushed == [(wr, Status.FLUSHED) for wr in ("read", "receive", "send")], f"flushed: {flushed}"
    (event,) = a.events()
    assert isinstance(event, Disconnected)
    assert (event.reason, event.by_peer) == ("enough", False)
    (event,) = b.events()
    assert isinstance(event, Disconnected)
    assert event.by_peer


def check_work_posted_after_the_end_is_flushed(make_pair: MakePair) -> None:
    """Asserts on a pair that posting after the connection's end raises nothing, and the work completes as flushed.

    `disconnect` and `abort` after the end must not report a second one.
    """
    a, b = connected(make_pair)
    a.qp.abort("over")
    a.progress()
    for side in (a, b):
        side.events()
        side.completions()
        sink = side.pd.register(bytearray(4), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        side.receive("receive")
        side.qp.post_send("send", [b"x"])
        side.qp.post_write("write", [b"x"], 1, 0)
        side.qp.post_read("read", sink, 0, 4, 1, 0)
        side.qp.disconnect()
        side.qp.abort("again")
        side.progress()
        late = {(c.wr, c.status) for c in side.completions()}
        assert late == {(wr, Status.FLUSHED) for wr in ("receive", "send", "write", "read")}, f"flushed: {late}"
        assert not side.events(), "a second end was reported"


CHECKS: tuple[Check, ...] = tuple(value for name, value in sorted(globals().items()) if name.startswith("check_"))
"""All checks of the conformance suite for providers, by name."""
