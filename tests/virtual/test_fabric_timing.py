"""The times of the model, one by one, on connections whose other costs are zero."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.virtual import (
    DELIVERED,
    NO_CAUSE,
    PROFILES,
    Delivery,
    EventKind,
    Fabric,
    FabricModel,
    Message,
    MessageKind,
    TraceEvent,
    VirtualLoop,
)
from rpcrdma.testing.virtual.queue_pair import SimulatedQueuePair
from rpcrdma.verbs import Access, Completion, Disconnected, MemoryRegion, ScatteredBuffer, Status, Verb

FREE = FabricModel(
    miles=0.0,
    bandwidth_bits_s=8e15,
    header_octets=0,
    message_s=0.0,
    rdma_operation_s=0.0,
    interrupt_s=0.0,
    registration_s=0.0,
    registration_page_s=0.0,
    local_invalidation_s=0.0,
    remote_invalidation_s=0.0,
    acknowledgement_octets=0,
    copy_octets_s=1e18,
    server_s=0.0,
    workers_s=0.0,
)
"""Everything at once; octets take a femtosecond each."""
EXACT = 1e-9


class Pair:
    """Two connected queue pairs of a fabric with this model, the times of their completions, and those of their ends.

    `fates` are those of the messages of some kinds. `blame` has `by_peer` and `protocol_error` of each end.
    """

    def __init__(self, fates: Mapping[MessageKind, Delivery] | None = None, **model: Any) -> None:
        self.loop = VirtualLoop()
        parameters = {name: getattr(FREE, name) for name in FREE.__dataclass_fields__}
        self.fates = fates or {}
        self.fabric = Fabric(FabricModel(**{**parameters, **model}), loop=self.loop, faults=self)
        self.near, self.far = self.fabric.pair(self.fabric.node("near"), self.fabric.node("far"))
        self.told: dict[SimulatedQueuePair, list[tuple[float, Completion]]] = {self.near: [], self.far: []}
        self.ended: dict[SimulatedQueuePair, float] = {}
        self.blame: dict[SimulatedQueuePair, tuple[bool, bool]] = {}
        for end in (self.near, self.far):
            end.on_news = self.taker(end)
        self.near.connect()
        self.loop.run_until_idle()
        self.far.accept(b"")
        self.loop.run_until_idle()
        self.began_s = self.loop.now_s
        self.first = len(self.fabric.trace.events)

    def taker(self, end: SimulatedQueuePair) -> Callable[[], None]:
        def take() -> None:
            for event in end.events:
                if isinstance(event, Disconnected):
                    self.ended[end] = self.loop.now_s - self.began_s
                    self.blame[end] = event.by_peer, event.protocol_error
            end.events.clear()
            while end.completions:
                self.told[end].append((self.loop.now_s, end.completions.popleft()))

        return take

    def on_message(self, message: Message) -> Delivery:
        return self.fates.get(message.kind, DELIVERED)

    def on_register(self, node: str, octets: int) -> float:
        del node, octets
        return 0.0

    def run(self) -> None:
        self.near.transmit()
        self.far.transmit()
        self.loop.run_until_idle()

    def times(self, end: SimulatedQueuePair) -> list[float]:
        """The times of the completions, from the begin of the test on, in seconds."""
        return [at_s - self.began_s for at_s, _ in self.told[end]]

    def events(self, kind: EventKind) -> list[TraceEvent]:
        return [event for event in self.fabric.trace.events[self.first :] if event.kind is kind]

    def at(self, after_s: float, step: Callable[..., object], *args: Any) -> None:
        """Has a step take place so long after the begin of the test."""
        self.loop.call_at(self.began_s + after_s, step, *args)

    def receive(self, count: int = 1, octets: int = 4096) -> None:
        for number in range(count):
            self.far.post_receive(number, memoryview(bytearray(octets)))

    def exposed(self, octets: int = 4096) -> MemoryRegion:
        region = self.far.pd.register(bytearray(octets), Access.REMOTE_READ | Access.REMOTE_WRITE)
        self.loop.follow(-1)
        return region

    def sink(self, octets: int = 4096) -> MemoryRegion:
        return self.near.pd.register(bytearray(octets), Access.LOCAL_WRITE | Access.REMOTE_WRITE)


def close(*times_s: float) -> Any:
    return pytest.approx(list(times_s), abs=EXACT)


def test_a_mile_takes_sixteen_microseconds_of_round_trip() -> None:
    for miles in (1.0, 30.0):
        pair = Pair(miles=miles)
        pair.receive()
        pair.near.post_send("s", [b"x"])
        pair.run()
        assert pair.times(pair.far) == close(8e-6 * miles)
        # The Send is done when its acknowledgement has come.
        assert pair.times(pair.near) == close(16e-6 * miles)


def test_a_kibibyte_takes_200_ns_at_40_gigabits_and_messages_leave_one_after_another() -> None:
    pair = Pair(bandwidth_bits_s=40e9)
    pair.receive(3)
    for _ in range(3):
        pair.near.post_send("s", [bytes(1000)])
    pair.run()
    assert pair.times(pair.far) == close(200e-9, 400e-9, 600e-9)
    first, second, third = pair.events(EventKind.LEAVE)
    assert (first.text, second.text, third.text) == (
        "send",
        f"send behind {first.number}",
        f"send behind {second.number}",
    )


def test_headers_and_acknowledgements_occupy_the_wire() -> None:
    pair = Pair(bandwidth_bits_s=8e9, header_octets=50, acknowledgement_octets=100)
    pair.receive()
    pair.near.post_send("s", [bytes(950)])
    pair.run()
    assert pair.times(pair.far) == close(1e-6)
    assert pair.times(pair.near) == close(1.1e-6)
    (leave,), (acknowledge,) = pair.events(EventKind.LEAVE), pair.events(EventKind.ACKNOWLEDGE)
    assert (leave.octets, acknowledge.octets) == (1000, 100)
    assert leave.cost_s == pytest.approx(1e-6)


def test_an_acknowledgement_passes_between_the_packets_of_a_message_and_takes_its_time() -> None:
    pair = Pair(bandwidth_bits_s=8e9, acknowledgement_octets=100)
    pair.receive()
    for number in range(2):
        pair.near.post_receive(number, memoryview(bytearray(4096)))
    pair.near.post_send("s", [bytes(1000)], signaled=False)
    pair.far.post_send("first", [bytes(3000)], signaled=False)

    def post() -> None:
        pair.far.post_send("later", [bytes(1000)], signaled=False)
        pair.far.transmit()

    pair.at(2e-6, post)
    pair.run()
    # The acknowledgement leaves at 1 us, while the first message leaves.
    assert pair.times(pair.near) == close(3e-6, 4.1e-6)


def test_the_rnic_prepares_a_message_while_another_one_leaves() -> None:
    pair = Pair(message_s=1e-6, bandwidth_bits_s=8e9)
    pair.receive(2)
    for _ in range(2):
        pair.near.post_send("s", [bytes(3000)])
    pair.run()
    assert pair.times(pair.far) == close(4e-6, 7e-6)
    assert [event.cost_s for event in pair.events(EventKind.LEAVE)] == close(4e-6, 4e-6)


def test_an_rdma_read_takes_a_round_trip_and_the_work_of_both_rnics() -> None:
    pair = Pair(miles=10.0, rdma_operation_s=1e-6, message_s=0.5e-6)
    region, sink = pair.exposed(), pair.sink()
    pair.near.post_read("r", sink, 0, 4096, region.handle, region.offset)
    pair.run()
    assert pair.times(pair.near) == close(160e-6 + 2 * 1.5e-6)
    assert [event.octets for event in pair.events(EventKind.LEAVE)] == [28, 4096]


def test_rdma_reads_beyond_the_depth_wait_for_a_round_trip() -> None:
    pair = Pair(miles=10.0, read_depth=2)
    region, sink = pair.exposed(), pair.sink()
    for number in range(5):
        pair.near.post_read(number, sink, 0, 8, region.handle, region.offset)
    pair.run()
    assert pair.times(pair.near) == close(160e-6, 160e-6, 320e-6, 320e-6, 480e-6)


def test_the_depth_of_rdma_reads_is_the_lower_one_of_both_ends() -> None:
    loop = VirtualLoop()
    fabric = Fabric(loop=loop)
    near, far = fabric.pair(fabric.node("near"), fabric.node("far"), b"", (9, 7), (20, 5))
    near.connect()
    loop.run_until_idle()
    far.accept(b"")
    assert (near.inbound_reads, near.outbound_reads) == (far.outbound_reads, far.inbound_reads) == (5, 7)
    for end in (near, far):
        with pytest.raises(LocalProtocolError, match="no peer asks to be accepted"):
            end.accept(b"")


def test_completions_during_an_interrupt_are_taken_along() -> None:
    pair = Pair(interrupt_s=5e-6, bandwidth_bits_s=8e9)
    pair.receive(3)
    for octets in (1000, 2000, 4000):
        pair.near.post_send("s", [bytes(octets)], signaled=False)
    pair.run()
    # They arrive at 1, 3 and 7 us.
    assert pair.times(pair.far) == close(6e-6, 6e-6, 12e-6)
    assert len(pair.events(EventKind.INTERRUPT)) == 2
    first, second, third = pair.events(EventKind.COMPLETE)
    causes = [pair.fabric.trace.events[event.cause].kind for event in (first, second, third)]
    assert causes == [EventKind.INTERRUPT, EventKind.ARRIVE, EventKind.INTERRUPT]
    assert [event.cost_s for event in (first, second, third)] == close(0.0, 3e-6, 0.0)


def test_posted_work_is_told_before_messages_that_came_earlier() -> None:
    pair = Pair(interrupt_s=5e-6, bandwidth_bits_s=8e9)
    pair.receive()
    pair.near.post_receive("in", memoryview(bytearray(4096)))
    pair.far.post_send("from the peer", [bytes(1000)], signaled=False)
    pair.near.post_send("s", [bytes(2000)])
    pair.run()
    assert [completion.wr for _, completion in pair.told[pair.near]] == ["s", "in"]


def test_news_that_wait_for_an_interrupt_are_told_before_the_end_of_the_connection() -> None:
    pair = Pair(interrupt_s=5e-6, bandwidth_bits_s=8e9)
    pair.receive()
    for number in range(2):
        pair.near.post_receive(number, memoryview(bytearray(4096)))
    pair.far.post_send("from the peer", [bytes(1000)], signaled=False)
    pair.near.post_send("s", [bytes(2000)])
    pair.at(3e-6, pair.near.abort, "enough")
    pair.run()
    assert [(each.wr, each.status) for each in pair.near.completions] == [
        ("s", Status.SUCCESS),
        (0, Status.SUCCESS),
        (1, Status.FLUSHED),
    ]


def test_a_stalled_host_takes_no_completion_before_it_goes_on() -> None:
    pair = Pair(interrupt_s=5e-6, bandwidth_bits_s=8e9)
    pair.receive(2)
    # The first interrupt has begun before the host stalls; the second one waits.
    for octets, after_s in ((1000, 0.0), (1000, 20e-6)):
        pair.at(after_s, pair.near.post_send, "s", [bytes(octets)])
        pair.at(after_s, pair.near.transmit)
        pair.at(after_s + (2e-6 if after_s == 0 else 0), pair.far.host.stall, 10e-6)
    pair.run()
    assert pair.times(pair.far) == close(12e-6, 35e-6)


def test_a_crash_ends_messages_that_have_not_left_and_no_others() -> None:
    pair = Pair(miles=10.0, bandwidth_bits_s=8e9)
    pair.receive(2)
    for octets in (1000, 2000):
        pair.near.post_send("s", [bytes(octets)])
    pair.at(2e-6, pair.near.host.crash)
    pair.run()
    assert [completion.length for _, completion in pair.told[pair.far]] == [1000]


def test_a_host_that_was_restarted_waits_for_nothing_from_before_the_crash() -> None:
    pair = Pair(bandwidth_bits_s=8e3, interrupt_s=0.5)
    host = pair.far.host
    other, _ = pair.fabric.pair(host, pair.near.host)
    pair.told[other], other.on_news = [], pair.taker(other)
    pair.receive()
    # An interrupt has begun, and a message occupies the wire for a second.
    pair.near.post_send("s", [b""], signaled=False)
    pair.far.post_send("long", [bytes(1000)], signaled=False)
    left: list[float] = []

    def restart() -> None:
        host.stall(100.0)
        host.crash()
        host.restart()
        left.append(host.leave(MessageKind.SEND, 0, NO_CAUSE, -1)[0] - pair.began_s)
        host.interrupt(other, Completion("new", Verb.RECEIVE, Status.SUCCESS, 0), NO_CAUSE)

    pair.at(0.25, restart)
    pair.run()
    assert (left, pair.times(other)) == (close(0.25), close(0.75))


def test_a_stall_goes_on_where_a_shorter_one_begins() -> None:
    pair = Pair()
    pair.receive()
    for duration_s in (4.0, 1.0):
        pair.far.host.stall(duration_s)
    pair.near.post_send("s", [b""])
    pair.run()
    assert pair.times(pair.far) == close(4.0)


def test_without_coalescing_each_completion_has_an_interrupt_of_its_own() -> None:
    pair = Pair(interrupt_s=5e-6, coalescing=False)
    pair.receive(3)
    for _ in range(3):
        pair.near.post_send("s", [b"x"], signaled=False)
    pair.run()
    assert pair.times(pair.far) == close(5e-6, 10e-6, 15e-6)


def test_unsignaled_work_interrupts_its_poster_not_at_all() -> None:
    pair = Pair(interrupt_s=5e-6)
    pair.receive(2)
    pair.near.post_send("quiet", [b"x"], signaled=False)
    pair.near.post_send("told", [b"x"])
    pair.run()
    assert [completion.wr for _, completion in pair.told[pair.near]] == ["told"]
    assert [event.node for event in pair.events(EventKind.INTERRUPT)].count("near") == 1


def test_registration_delays_the_message_that_follows() -> None:
    pair = Pair(registration_s=3e-6, registration_page_s=1e-6)
    pair.receive()
    pair.near.pd.register(bytearray(2 * 4096 + 1), Access.REMOTE_READ)
    pair.near.post_send("s", [b"x"])
    pair.run()
    assert pair.times(pair.far) == close(6e-6)
    (post,) = pair.events(EventKind.POST)
    assert pair.fabric.trace.events[post.cause].kind is EventKind.REGISTER


def test_local_invalidation_costs_its_host_once() -> None:
    pair = Pair(local_invalidation_s=2e-6)
    domain = pair.near.pd
    for access in (Access.REMOTE_READ, Access.REMOTE_WRITE):
        region = domain.register(bytearray(8), access)
        domain.abandon(region)
        domain.invalidate(region)
    assert pair.loop.time() - pair.began_s == pytest.approx(4e-6)
    assert len(pair.events(EventKind.INVALIDATE_LOCAL)) == 2
    assert pair.near.host.registered_octets == 0


def test_remote_invalidation_costs_the_message_that_brings_it() -> None:
    pair = Pair(remote_invalidation_s=2e-6)
    region = pair.exposed()
    pair.receive()
    pair.near.post_send("s", [b"x"], invalidate=region.handle)
    pair.run()
    assert pair.times(pair.far) == close(2e-6)
    assert pair.events(EventKind.INVALIDATE_LOCAL) == []


def test_octets_of_a_plain_receive_are_copied_and_those_of_a_divided_one_are_not() -> None:
    pair = Pair(copy_octets_s=1e9)
    divided: Any = ScatteredBuffer([memoryview(bytearray(4096))])
    for buffer in (memoryview(bytearray(4096)), divided):
        pair.far.post_receive(buffer, buffer)
        pair.near.post_send("s", [bytes(1000)])
        pair.run()
    (copy,) = pair.events(EventKind.COPY)
    assert (copy.octets, copy.cost_s) == (1000, pytest.approx(1e-6))


def test_a_host_takes_completions_one_after_another_as_long_as_each_occupies_it() -> None:
    pair = Pair()
    pair.receive(3)
    take = pair.far.on_news

    def spend() -> None:
        take()
        pair.loop.spend(4e-6)

    pair.far.on_news = spend
    for _ in range(3):
        pair.near.post_send("s", [b"x"])
    pair.run()
    assert pair.times(pair.far) == close(0.0, 4e-6, 8e-6)


def test_on_an_unreliable_service_nothing_is_acknowledged_and_work_is_done_when_it_has_left() -> None:
    pair = Pair(acknowledged=False, miles=10.0, bandwidth_bits_s=8e9)
    pair.receive()
    pair.near.post_send("s", [bytes(1000)])
    pair.run()
    assert pair.times(pair.near) == close(1e-6)
    assert pair.times(pair.far) == close(81e-6)
    assert pair.events(EventKind.ACKNOWLEDGE) == []


def test_posts_name_the_header_or_the_handle_of_their_work() -> None:
    pair = Pair()
    pair.receive(2)
    region = pair.exposed()
    # XID, version, credits and type (RFC 8166 section 4.2).
    pair.near.post_send("s", [struct.pack(">4I", 0x1234, 1, 32, 4), b"more"])
    pair.near.post_send("short", [bytes(15)])
    pair.near.post_write("w", [b"x"], region.handle, region.offset)
    pair.run()
    assert [event.text for event in pair.events(EventKind.POST)] == [
        "send 0x00001234 version 1 type 4",
        "send",
        f"rdma-write handle {region.handle:#010x}",
    ]


def test_the_end_whose_work_reaches_no_memory_has_broken_the_rule() -> None:
    pair = Pair()
    region = pair.exposed()
    pair.near.post_write("w", [b"x"], region.handle ^ 1, region.offset)
    pair.run()
    assert pair.blame == {pair.near: (False, True), pair.far: (True, True)}
    assert [(each.wr, each.status) for _, each in pair.told[pair.near]] == [("w", Status.REMOTE_ACCESS)]


def test_an_rdma_read_whose_sink_has_gone_fails_at_its_own_end() -> None:
    pair = Pair(miles=10.0)
    region, sink = pair.exposed(), pair.sink()
    pair.near.post_read("r", sink, 0, 8, region.handle, region.offset)
    pair.at(1e-6, pair.near.pd.invalidate, sink)
    pair.run()
    assert pair.blame[pair.near] == (False, True)
    assert [(each.wr, each.status) for _, each in pair.told[pair.near]] == [("r", Status.REMOTE_ACCESS)]
    # The peer hears of it half a round trip later.
    assert pair.ended == pytest.approx({pair.near: 160e-6, pair.far: 240e-6})


CUT = Delivery(cut_at=5)
GONE_S = 2.0
"""`lost_after_s` of the model."""


def test_both_ends_hear_of_a_cut_when_the_last_octets_before_it_arrive() -> None:
    for kind in (MessageKind.SEND, MessageKind.WRITE, MessageKind.READ_RESPONSE):
        pair = Pair({kind: CUT}, miles=10.0)
        region, sink = pair.exposed(), pair.sink()
        memory = memoryview(bytearray(16))
        pair.far.post_receive("in", memory)
        if kind is MessageKind.SEND:
            pair.near.post_send("s", [b"arrivesnot"])
        elif kind is MessageKind.WRITE:
            pair.near.post_write("w", [b"arrivesnot"], region.handle, region.offset)
            memory = region.view
        else:
            region.view[:10] = b"arrivesnot"
            pair.near.post_read("r", sink, 0, 10, region.handle, region.offset)
            memory = sink.view
        pair.run()
        assert bytes(memory[:10]) == b"arriv" + bytes(5), kind
        trips = 2 if kind is MessageKind.READ_RESPONSE else 1
        assert pair.ended == pytest.approx({pair.near: trips * 80e-6, pair.far: trips * 80e-6}), kind
        (arrival,) = (event for event in pair.events(EventKind.ARRIVE) if event.text == f"{kind.value} in part")
        assert arrival.octets == 5
        assert [event.text.partition(": ")[2] for event in pair.events(EventKind.FAULT)] == ["cut after 5 octets"]


def test_after_a_silent_cut_the_sender_gives_up_when_no_acknowledgement_has_come_for_so_long() -> None:
    pair = Pair({MessageKind.SEND: Delivery(cut_at=5, silent=True)}, miles=10.0)
    pair.receive()
    pair.near.post_send("s", [b"arrivesnot"])
    pair.run()
    assert pair.ended == {pair.near: pytest.approx(GONE_S)}
    assert [event.text for event in pair.events(EventKind.FAULT)] == ["send 2: silently cut after 5 octets"]


def test_a_message_that_has_left_before_a_silent_cut_arrives_and_is_not_acknowledged() -> None:
    pair = Pair(miles=10.0)
    pair.receive()
    pair.near.post_send("s", [b"x"])
    pair.at(10e-6, lambda: pair.near.cut(silent=True))
    pair.run()
    assert [completion.wr for _, completion in pair.told[pair.far]] == [0]
    assert pair.ended == {pair.near: pytest.approx(GONE_S + 80e-6)}


def test_a_sender_gives_up_on_a_host_that_is_down() -> None:
    pair = Pair(miles=10.0)
    pair.far.host.crash()
    pair.near.post_send("s", [b"x"])
    pair.run()
    assert pair.ended[pair.near] == pytest.approx(GONE_S + 80e-6)


def test_no_message_overtakes_a_delayed_one() -> None:
    pair = Pair({MessageKind.SEND: Delivery(delay_s=0.5)})
    region = pair.exposed()
    pair.receive()
    pair.near.post_send("s", [b"x"])
    pair.near.post_write("w", [b"y"], region.handle, region.offset)
    pair.run()
    assert pair.times(pair.near) == close(0.5, 0.5)
    assert [event.text for event in pair.events(EventKind.ARRIVE)] == ["send", "rdma-write"]
    assert [event.text for event in pair.events(EventKind.FAULT)] == ["send 2: delayed by 0.5 s"]


def test_an_equal_fate_is_no_fault() -> None:
    pair = Pair({MessageKind.SEND: Delivery()})
    pair.receive()
    pair.near.post_send("s", [b"x"])
    pair.run()
    assert pair.events(EventKind.FAULT) == []


def test_a_connection_ends_in_order_after_all_work_is_acknowledged() -> None:
    pair = Pair(miles=10.0)
    pair.receive()
    pair.near.post_send("s", [b"x"])
    pair.near.disconnect()
    pair.run()
    assert [(each.wr, each.status) for _, each in pair.told[pair.near]] == [("s", Status.SUCCESS)]
    assert pair.ended == pytest.approx({pair.near: 160e-6, pair.far: 240e-6})


def test_profiles_differ_by_their_distance_alone() -> None:
    distances = [model.miles for model in PROFILES.values()]
    assert distances == sorted(distances)
    assert list(PROFILES) == ["machine-room", "campus", "metropolitan"]
    assert len({(model.bandwidth_bits_s, model.interrupt_s, model.server_s) for model in PROFILES.values()}) == 1
