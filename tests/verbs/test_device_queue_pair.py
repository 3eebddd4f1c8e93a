"""The queue pair of RDMA devices, beyond the suite of providers: limits of the device, and memory that it guards."""

from __future__ import annotations

import errno
import os
from typing import Any, cast
from unittest.mock import Mock

import pytest

from rpcrdma.errors import LocalProtocolError, OutOfMemory
from rpcrdma.testing.provider_suite import PairParts
from rpcrdma.verbs import Access, Completion, Disconnected, Established, ReceivePool, Status, Verb, device_memory
from rpcrdma.verbs.binding import ManagerEvent, ManagerEventKind, WorkStatus
from rpcrdma.verbs.device_memory import DeviceProtectionDomain, MemorySlots
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair
from rpcrdma.verbs.device_registrations import KeptRegistrations
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.device_pairs import DevicePairs
from support.memory_of_device import Region


class Joined:
    """Two connected queue pairs of `device`."""

    def __init__(self, device: DeviceInMemory) -> None:
        self.device = device
        parts: PairParts = DevicePairs(device, "127.0.0.1", quiet_s=0.0).make()
        self.near, self.far = cast("DeviceQueuePair", parts[0]), cast("DeviceQueuePair", parts[2])
        self.progress = parts[4]
        self.far.accept(b"")
        self.progress()
        for end in (self.near, self.far):
            assert isinstance(end.events[-1], Established)
            end.events.clear()


@pytest.fixture
def joined() -> Joined:
    return Joined(DeviceInMemory())


def end_of(queue_pair: DeviceQueuePair) -> Disconnected:
    """The end of the connection, which is the only event."""
    (end,) = queue_pair.events
    assert isinstance(end, Disconnected)
    return end


def posted_by(queue_pair: DeviceQueuePair, monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The work that the queue pair posts to its device from now on, as it is posted together."""
    batches: list[list[Any]] = []
    post = queue_pair._device.post_sends

    def post_sends(works: Any) -> None:
        batches.append(list(works))
        post(works)

    monkeypatch.setattr(queue_pair._device, "post_sends", post_sends)
    return batches


def event(kind: int, status: int = 0) -> ManagerEvent:
    return ManagerEvent(None, None, kind, status, b"", 0, 0)  # type: ignore[arg-type]


def test_a_write_is_divided_by_the_entries_and_the_message_size_of_the_device(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = joined.device.attributes
    most = attributes["ports"][0]["max_message_octets"]
    data = [bytes([number]) * (most // 3 + number) for number in range(3 * attributes["max_entries"])]
    memory = bytearray(sum(map(len, data)))
    region = joined.far.pd.register(memory, Access.REMOTE_WRITE)
    batches = posted_by(joined.near, monkeypatch)
    joined.near.post_write("w", data, region.handle, region.offset)
    joined.progress()
    assert memory == b"".join(data)
    entries = [work[1] for works in batches for work in works]
    assert max(map(len, entries)) <= attributes["max_entries"]
    octets = [sum(octets for _, _, octets in each) for each in entries]
    assert (sum(octets), max(octets) <= most) == (len(memory), True)
    assert list(joined.near.completions) == [Completion("w", Verb.RDMA_WRITE, Status.SUCCESS, len(memory))]
    # Divided, it would be several messages.
    with pytest.raises(LocalProtocolError, match=f"a Send of {most + 1} octets: .* at most {most}"):
        joined.near.post_send("s", [bytes(most), b"1"])


def test_more_private_data_than_the_connection_manager_takes_is_refused() -> None:
    parts = DevicePairs(DeviceInMemory(), "127.0.0.1", quiet_s=0.0).make()
    asked = cast("DeviceQueuePair", parts[2])
    for answer in (asked.accept, asked.reject):
        with pytest.raises(LocalProtocolError, match="256 octets of private data: a device takes 255"):
            answer(bytes(256))
    asked.accept(bytes(255))


def test_work_that_the_device_reports_too_early_is_reported_in_its_order(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = joined.far.pd.register(b"12345678", Access.REMOTE_READ)
    sink = joined.near.pd.register(bytearray(8), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    joined.far.post_receive("r", memoryview(bytearray(8)))
    joined.near.post_read("read", sink, 0, 8, source.handle, source.offset)
    joined.near.post_send("send", [b"x"])
    joined.far.flush()
    joined.near.flush()
    read, send = joined.near._device.completions(2, True)
    for early, reported in ((send, []), (read, ["read", "send"])):
        monkeypatch.setattr(joined.near._device, "completions", lambda _most, _arm, early=early: [early])
        joined.near.poll()
        assert [each.wr for each in joined.near.completions] == reported


def test_work_done_before_an_end_that_flushes_earlier_work_is_reported_as_done(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = joined.near
    source = joined.far.pd.register(b"12345678", Access.REMOTE_READ)
    sink = near.pd.register(bytearray(8), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    joined.far.post_receives(2, ReceivePool(8))
    near.post_read("read", sink, 0, 8, source.handle, source.offset)
    near.post_send("unsignaled", [b"x"], signaled=False)
    near.post_send("send", [b"yz"])
    joined.far.flush()
    near.flush()
    early = near._device.completions(3, True)[1:]
    monkeypatch.setattr(near._device, "completions", lambda _most, _arm: early)
    near.poll()
    near.abort("enough")
    assert list(near.completions) == [
        Completion("read", Verb.RDMA_READ, Status.FLUSHED),
        Completion("send", Verb.SEND, Status.SUCCESS, 2),
    ]


def test_no_more_reads_are_posted_than_the_ends_have_agreed_on(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    source = joined.far.pd.register(bytes(range(10)), Access.REMOTE_READ)
    memory = bytearray(10)
    sink = joined.near.pd.register(memory, Access.LOCAL_WRITE)
    joined.far.flush()
    joined.near.outbound_reads = 3
    batches = posted_by(joined.near, monkeypatch)
    for place in range(10):
        joined.near.post_read(place, sink, place, 1, source.handle, source.offset + place)
    joined.near.post_send("s", [b"after"])
    joined.far.post_receive("r", memoryview(bytearray(8)))
    joined.progress()
    assert list(map(len, batches)) == [3, 3, 3, 2]
    assert memory == bytes(range(10))
    assert [each.wr for each in joined.near.completions] == [*range(10), "s"]


def test_no_more_work_is_posted_than_the_send_queue_holds() -> None:
    device = DeviceInMemory()
    device.attributes["max_queue_pair_work"] = 4
    joined = Joined(device)
    memory = bytearray(50)
    region = joined.far.pd.register(memory, Access.REMOTE_WRITE)
    joined.far.flush()
    for place in range(50):
        joined.near.post_write(place, [bytes([place])], region.handle, region.offset + place)
    joined.progress()
    assert memory == bytes(range(50))
    assert [each.wr for each in joined.near.completions] == list(range(50))


def test_a_probe_asks_a_silent_peer_and_is_not_reported(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = posted_by(joined.near, monkeypatch)
    room = joined.near._sends.room
    joined.near.heard = False
    joined.near.probe()
    joined.near.probe()
    joined.progress()
    ((probe,),) = batches
    assert probe[1:3] == ((), joined.device.RDMA_WRITE)
    assert joined.near.heard
    assert (joined.near._sends.room, joined.near.idle, list(joined.near.completions)) == (room, True, [])
    joined.near.probe()
    joined.near.abort("the end")
    assert not joined.near.completions
    joined.near.probe()
    assert len(batches) == 1


def test_memory_that_the_device_does_not_take_ends_the_connection_with_the_remedy(joined: Joined) -> None:
    joined.device.attributes["max_regions"] = 0
    joined.near.post_write("w", [bytes(1 << 20)], 1, 0)
    assert list(joined.near.completions) == [Completion("w", Verb.RDMA_WRITE, Status.FLUSHED)]
    assert "raise the limit of locked memory (ulimit -l" in end_of(joined.near).reason


def test_more_receives_than_the_device_holds_end_the_connection_and_name_the_setting(joined: Joined) -> None:
    joined.near.post_receives(10_000, ReceivePool(64))
    assert "lower credits_granted" in end_of(joined.near).reason


@each_case(
    ("happened", "by_peer", "words"),
    [
        (event(ManagerEventKind.DEVICE_REMOVED), False, "the RDMA device memory0 was removed"),
        (event(ManagerEventKind.ADDRESS_CHANGED), False, "moved to another device"),
        (event(ManagerEventKind.UNREACHABLE), False, "the peer does not answer"),
        (event(ManagerEventKind.REJECTED), True, "the peer rejected the connection"),
        (event(ManagerEventKind.DISCONNECTED), True, "the peer disconnected"),
    ],
)
def test_an_event_that_ends_the_connection_is_told_in_words(happened: ManagerEvent, by_peer: bool, words: str) -> None:
    near = Joined(DeviceInMemory()).near
    near.on_event(happened)
    near.on_event(happened)
    end = end_of(near)
    assert (end.by_peer, end.protocol_error) == (by_peer, False)
    assert words in end.reason


class Asking:
    """An end that asks for a connection, by a call that has not returned."""

    def __init__(self) -> None:
        device = DeviceInMemory()
        channel = device.EventChannel()
        self.identifier = channel.identifier()
        self.identifier.resolve_address("127.0.0.1", 1, 0, 1)
        domain = self.identifier.domain()
        self.end = DeviceQueuePair(device, self.identifier, domain, KeptRegistrations(), b"", None)
        self.end.asks = lambda _ask: True
        self.end.post_receive("r", memoryview(bytearray(8)))
        self.end.flush()
        self.calls: list[str] = []
        self.identifier.disconnect = lambda: self.calls.append("disconnect")  # type: ignore[method-assign]
        self.end._device.end = lambda: self.calls.append("end")  # type: ignore[method-assign]
        self._domain = domain

    @property
    def registrations(self) -> int:
        return len(self._domain.regions)


def test_events_wait_for_the_call_that_asks_for_the_connection() -> None:
    asking = Asking()
    asking.end.on_event(event(ManagerEventKind.ESTABLISHED))
    asking.end.flush()
    assert asking.end.events == []
    asking.end.asked(None)
    assert [type(each) for each in asking.end.events] == [Established]


def test_an_end_waits_with_the_device_for_the_call_that_asks_for_the_connection() -> None:
    asking = Asking()
    asking.end.abort("enough")
    assert asking.end.events == [Disconnected(reason="enough", by_peer=False)]
    # The device may still write to the memory of the receive.
    assert list(asking.end.completions) == []
    assert asking.registrations == 1
    assert asking.calls == []
    asking.end.asked(OSError(errno.ETIMEDOUT, "Connection timed out", "rdma_connect"))
    assert asking.calls == ["disconnect", "end"]
    assert [(each.wr, each.status) for each in asking.end.completions] == [("r", Status.FLUSHED)]
    assert asking.registrations == 0
    assert len(asking.end.events) == 1


@each_case(
    ("number", "reason"),
    [(errno.ECONNREFUSED, "connection refused"), (errno.ETIMEDOUT, "rdma_connect failed: Connection timed out")],
)
def test_the_failure_of_the_call_that_asks_for_the_connection_ends_it(number: int, reason: str) -> None:
    asking = Asking()
    asking.end.asked(OSError(number, os.strerror(number), "rdma_connect"))
    assert end_of(asking.end).reason == reason


def test_a_receive_that_fails_is_a_breach_of_the_peer_and_not_a_fault_of_the_network(joined: Joined) -> None:
    # Linux's rxe reports a message that is too long in this way.
    joined.near.post_receive("r", memoryview(bytearray(8)))
    work, _ = joined.near._device.receives.pop()  # type: ignore[attr-defined]
    joined.near._device._complete(1, work, WorkStatus.LOCAL_OPERATION)  # type: ignore[attr-defined]
    joined.near.poll()
    reason = "the peer sent a message that is longer than the receive for it (status 2)"
    assert joined.near.events == [Disconnected(reason=reason, by_peer=True, protocol_error=True)]


@each_case(
    ("status", "words", "breach"),
    [
        (WorkStatus.REMOTE_REQUEST, "the peer's device refused a message: ", True),
        (WorkStatus.REMOTE_OPERATION, "the peer's device refused a message: ", True),
        (WorkStatus.BAD_RESPONSE, "the device stopped the connection: the peer broke a rule", True),
        (WorkStatus.REMOTE_ACCESS, "the peer's device refused access to memory: ", True),
        (WorkStatus.NOT_READY, "the peer has no receive for a message, though it has granted", True),
        (WorkStatus.RETRIES_EXCEEDED, "the peer does not answer any more", False),
        (21, "the device failed: status 21; see the kernel's log (dmesg)", False),
    ],
)
def test_work_that_the_device_could_not_do_is_told_in_words(status: int, words: str, breach: bool) -> None:
    near = Joined(DeviceInMemory()).near
    near._device.fail_sends(status)  # type: ignore[attr-defined]
    near.post_send("s", [b"x"])
    near.flush()
    near.poll()
    end = end_of(near)
    assert words in end.reason
    assert (end.by_peer, end.protocol_error) == (False, breach)


@each_case("sends", [True, False])
@each_case(
    ("error", "reason"), [(OutOfMemory("nothing left"), "nothing left"), (MemoryError(), "no memory for a message")]
)
def test_work_without_memory_ends_the_connection(
    error: MemoryError, reason: str, sends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call cannot fail alone, as the credits are spent by then."""
    near = Joined(DeviceInMemory()).near
    with monkeypatch.context() as patch:
        patch.setattr(device_memory, "bulk", Mock(side_effect=error))
        if sends:
            near.post_send("s", [b"x"])
        else:
            near.post_receives(1, ReceivePool(4096))
    assert end_of(near).reason == reason


@each_case(
    ("number", "remedy"),
    [
        (errno.ENOMEM, "raise the limit of locked memory"),
        (errno.EAGAIN, "raise the limit of the control group"),
        (errno.EFAULT, "such as a bytearray"),
        (errno.EOPNOTSUPP, "such as a bytearray"),
        (errno.EIO, "bring it back"),
        (errno.ENODEV, "bring it back"),
        (errno.EINVAL, "the kernel's log"),
    ],
)
def test_memory_that_is_not_registered_has_the_remedy_of_its_cause(
    joined: Joined, number: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Region:
        raise OSError(number, os.strerror(number), "ibv_reg_mr")

    monkeypatch.setattr(joined.near.pd._domain, "register", refuse)
    with pytest.raises(LocalProtocolError) as caught:
        joined.near.pd.register(bytearray(8), Access.LOCAL_WRITE)
    told = str(caught.value)
    assert remedy in told
    assert ("locked memory" in told) is (number == errno.ENOMEM)


def test_memory_beyond_the_longest_registration_is_refused_with_the_limit(joined: Joined) -> None:
    joined.device.attributes["max_region_octets"] = 8
    joined.near.pd.register(bytearray(8), Access.LOCAL_WRITE)
    with pytest.raises(LocalProtocolError, match="registers no 9 octets: it takes 8 at a time; use smaller buffers"):
        joined.near.pd.register(bytearray(9), Access.LOCAL_WRITE)


def test_a_message_that_overtakes_the_event_of_the_connection_comes_after_it() -> None:
    parts = DevicePairs(DeviceInMemory(), "127.0.0.1", quiet_s=0.0).make()
    near, far = cast("DeviceQueuePair", parts[0]), cast("DeviceQueuePair", parts[2])
    far.post_receive("r", memoryview(bytearray(8)))
    far.events.clear()
    far.accept(b"")
    near.on_event(event(ManagerEventKind.ESTABLISHED))
    near.post_send("s", [b"early"])
    near.flush()
    far.poll()
    assert [type(each) for each in far.events] == [Established]
    assert [each.wr for each in far.completions] == ["r"]
    parts[4]()
    assert len(far.events) == 1, "the connection was reported twice"


@each_case(("iwarp", "exposed"), [(False, False), (True, True)])
def test_a_sink_is_exposed_only_where_the_wire_names_it(iwarp: bool, exposed: bool) -> None:
    device = DeviceInMemory()
    device.attributes["iwarp"] = iwarp
    joined = Joined(device)
    memory = bytearray(8)
    sink = joined.near.pd.register(memory, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    joined.far.post_write("w", [b"12345678"], sink.handle, sink.offset)
    joined.progress()
    assert (memory == b"12345678") is exposed


def test_nothing_stays_registered_when_the_connection_is_released(joined: Joined) -> None:
    near = joined.near
    domain = near.pd._domain
    assert domain is not None
    near.post_receives(4, ReceivePool(64))
    near.post_receive("r", memoryview(bytearray(9000)))
    near.post_send("s", [b"short"])
    near.post_send("l", [bytes(9000)])
    near.flush()
    near.abort("enough")
    near.release()
    left = [region for region in domain.regions.values() if len(region.view) == 9000]  # type: ignore[attr-defined]
    assert left == []
    with pytest.raises(LocalProtocolError, match="closed"):
        near.pd.register(bytearray(1), Access.REMOTE_READ)


def test_a_device_that_does_not_let_go_of_memory_keeps_no_work_from_its_end(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = joined.near, joined.far

    def deregister(_self: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "ibv_dereg_mr")

    monkeypatch.setattr(Region, "deregister", deregister)
    far.post_receive("r", memoryview(bytearray(9000)))
    near.post_send("done", [bytes(9000)])
    joined.progress()
    assert [each.wr for each in (*near.completions, *far.completions)] == ["done", "r"]
    near.completions.clear()
    near.post_receive("r", memoryview(bytearray(9000)))
    near.post_send("s", [bytes(9000)])
    near.abort("enough")
    assert [(each.wr, each.status) for each in near.completions] == [("r", Status.FLUSHED), ("s", Status.FLUSHED)]
    assert near.events == [Disconnected(reason="enough", by_peer=False)]


def test_slots_are_registered_together_and_used_again() -> None:
    device = DeviceInMemory()
    domain = device.EventChannel().identifier().domain()
    slots = MemorySlots(DeviceProtectionDomain(domain, KeptRegistrations()), 4096, 0)
    taken = [slots.take() for _ in range(16)]
    assert len(domain.regions) == 1
    assert len({slot.start for slot in taken}) == 16
    slots.give_back(taken[3])
    assert slots.take() is taken[3]
