"""Memory windows: an exposure is a window that is bound for one call, and its handle ends with that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import MEMORY_WINDOWS_KEPT_MAX
from rpcrdma.verbs import Access, Completion, Disconnected, Status, Verb
from rpcrdma.verbs.device_memory import DeviceRegion
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair
from rpcrdma.verbs.posting import EndState
from rpcrdma.wire.bulk_memory import PooledMemory
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.device_pairs import DevicePairs

OCTETS = 64


class Joined:
    """Two connected queue pairs of a device with memory windows; `far` exposes memory to `near`."""

    def __init__(self) -> None:
        self.device = DeviceInMemory()
        self.pairs = DevicePairs(self.device, "127.0.0.1", quiet_s=0.0)
        parts = self.pairs.make()
        self.near, self.far = cast("DeviceQueuePair", parts[0]), cast("DeviceQueuePair", parts[2])
        self.progress: Callable[[], object] = parts[4]
        self.far.accept(b"")
        self.progress()
        for end in (self.near, self.far):
            end.events.clear()

    @property
    def domain(self) -> Any:
        """The far end's domain of the device."""
        return self.far.pd._domain

    def tell(self, *, invalidate: int | None = None) -> list[Completion]:
        """Sends a message to the far end; returns its completions."""
        self.far.post_receive("r", memoryview(bytearray(8)))
        self.near.post_send("s", [b"told"], invalidate=invalidate)
        self.progress()
        found = [each for each in self.far.completions if each.verb is Verb.RECEIVE]
        self.far.completions.clear()
        self.near.completions.clear()
        return found

    def attack(self, region: DeviceRegion, verb: Verb) -> None:
        """The near end uses a handle that has ended: the connection breaks."""
        if verb is Verb.RDMA_WRITE:
            self.near.post_write("late", [b"x" * OCTETS], region.handle, region.offset)
        else:
            sink = self.near.pd.register(bytearray(OCTETS), Access.LOCAL_WRITE)
            self.near.post_read("late", sink, 0, OCTETS, region.handle, region.offset)
        self.progress()
        assert [each.status for each in self.near.completions] == [Status.REMOTE_ACCESS]
        for end in (self.near, self.far):
            (ended,) = end.events
            assert isinstance(ended, Disconnected)
            assert ended.protocol_error


@pytest.fixture
def joined() -> Joined:
    return Joined()


@each_case("kind", [bytearray, PooledMemory])
@each_case("verb", [Verb.RDMA_WRITE, Verb.RDMA_READ])
@each_case("remotely", [True, False])
def test_a_handle_that_has_ended_breaks_the_connection(kind: type[bytearray], verb: Verb, remotely: bool) -> None:
    joined, memory = Joined(), kind(OCTETS)
    region = joined.far.pd.register(memory, Access.REMOTE_WRITE | Access.REMOTE_READ)
    joined.tell()
    if remotely:
        (received,) = joined.tell(invalidate=region.handle)
        assert received.invalidated == region.handle
    joined.far.pd.invalidate(region)
    joined.attack(region, verb)
    assert memory[:] == bytes(OCTETS)


def test_a_window_has_the_bounds_and_the_right_of_its_exposure_alone(joined: Joined) -> None:
    memory = PooledMemory(3 * OCTETS)
    part = memoryview(memory)[OCTETS : 2 * OCTETS]
    region = joined.far.pd.register(part, Access.REMOTE_WRITE)
    joined.tell()
    joined.near.post_write("w", [b"y" * OCTETS], region.handle, region.offset)
    joined.progress()
    assert memory[:] == bytes(OCTETS) + b"y" * OCTETS + bytes(OCTETS)
    joined.near.completions.clear()
    joined.near.post_write("w", [b"z"], region.handle, region.offset + OCTETS)
    joined.progress()
    assert [each.status for each in joined.near.completions] == [Status.REMOTE_ACCESS]
    assert memory[2 * OCTETS] == 0


def test_the_handle_of_the_registration_itself_is_useless_to_the_peer(joined: Joined) -> None:
    memory = PooledMemory(OCTETS)
    region = joined.far.pd.register(memory, Access.REMOTE_WRITE | Access.REMOTE_READ)
    joined.tell()
    assert region.pinned is not None
    registered = region.pinned.region
    assert registered.handle != region.handle
    joined.near.post_write("w", [b"x"], registered.handle, registered.address)
    joined.progress()
    assert [each.status for each in joined.near.completions] == [Status.REMOTE_ACCESS]
    assert memory[:] == bytes(OCTETS)


def test_remote_invalidation_keeps_the_window_and_the_registration_for_the_next_call(joined: Joined) -> None:
    memory = PooledMemory(OCTETS)
    handles = set()
    for _ in range(300):
        region = joined.far.pd.register(memory, Access.REMOTE_WRITE)
        joined.tell(invalidate=region.handle)
        joined.far.pd.invalidate(region)
        handles.add(region.handle)
    assert len(joined.domain.made_windows) == 1
    assert len({handle >> 8 for handle in handles}) == 1
    assert len(handles) == 256
    assert joined.far.pd.counts.reused == 299


def test_an_end_by_this_side_ends_the_window(joined: Joined) -> None:
    regions = [joined.far.pd.register(bytearray(OCTETS), Access.REMOTE_WRITE) for _ in range(3)]
    joined.tell()
    assert len(joined.domain.made_windows) == 3
    (received,) = joined.tell(invalidate=regions[1].handle)
    assert received.invalidated == regions[1].handle
    before = len(joined.domain.regions)
    for region in regions:
        joined.far.pd.invalidate(region)
        joined.far.pd.invalidate(region)
    assert len(joined.domain.made_windows) == 1, "the window that the peer has unbound is kept, the others end"
    assert (joined.domain.windows, len(joined.domain.regions)) == ({}, before - 3)
    assert not joined.far.pd._bound


def test_empty_memory_is_exposed_without_a_window_and_without_rights(joined: Joined) -> None:
    region = joined.far.pd.register(bytearray(), Access.REMOTE_WRITE | Access.REMOTE_READ)
    assert (region.length, region.window) == (0, None)
    joined.tell()
    joined.near.post_write("w", [b"x"], region.handle, region.offset)
    joined.progress()
    assert [each.status for each in joined.near.completions] == [Status.REMOTE_ACCESS]


def test_a_binding_that_was_not_posted_is_withdrawn(joined: Joined) -> None:
    kept, ended = (joined.far.pd.register(bytearray(OCTETS), Access.REMOTE_WRITE) for _ in range(2))
    assert joined.far.binds
    joined.far.pd.invalidate(ended)
    joined.tell()
    assert not joined.far.binds
    assert set(joined.domain.windows) == {kept.handle}
    assert joined.far.idle
    joined.far.pd.invalidate(kept)
    assert not joined.far.events


def test_no_more_unbound_windows_are_kept_than_the_bound_says(joined: Joined) -> None:
    regions = [joined.far.pd.register(bytearray(8), Access.REMOTE_READ) for _ in range(MEMORY_WINDOWS_KEPT_MAX + 9)]
    joined.tell()
    for region in regions:
        joined.tell(invalidate=region.handle)
    assert len(joined.far.pd._free) == MEMORY_WINDOWS_KEPT_MAX


def test_a_device_without_a_further_window_refuses_the_exposure_in_words(joined: Joined) -> None:
    joined.device.attributes["max_windows"] = 2
    regions = [joined.far.pd.register(bytearray(8), Access.REMOTE_READ) for _ in range(2)]
    with pytest.raises(
        LocalProtocolError, match=r"memory0 has no further memory window: .*; it has 2: make fewer calls"
    ):
        joined.far.pd.register(bytearray(8), Access.REMOTE_READ)
    joined.tell(invalidate=regions[0].handle)
    joined.far.pd.invalidate(regions[0])
    joined.far.pd.register(bytearray(8), Access.REMOTE_READ)
    assert not joined.far.events


def test_an_exposure_without_memory_for_it_gives_its_window_back(joined: Joined) -> None:
    joined.device.attributes["max_regions"] = 0
    for _ in range(3):
        with pytest.raises(LocalProtocolError, match="registers no 8 octets"):
            joined.far.pd.register(bytearray(8), Access.REMOTE_READ)
    assert len(joined.domain.made_windows) == 1


def test_the_end_of_a_connection_ends_its_windows_before_the_queue_pair(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = [joined.far.pd.register(bytearray(8), Access.REMOTE_READ) for _ in range(3)]
    joined.tell(invalidate=regions[0].handle)
    bound_at_end: list[int] = []
    device_end = joined.far._device.end

    def end() -> None:
        bound_at_end.append(len(joined.domain.windows))
        device_end()

    monkeypatch.setattr(joined.far._device, "end", end)
    joined.far.abort("enough")
    assert bound_at_end == [0]
    for region in regions:
        joined.far.pd.invalidate(region)
    domain = joined.domain
    late = [joined.far.pd.register(bytearray(8), Access.REMOTE_READ) for _ in range(2)]
    joined.far.pd.invalidate(late[0])
    joined.far.release()
    assert (len(domain.made_windows), domain.windows) == (0, {})
    joined.far.pd.invalidate(late[1])
    with pytest.raises(LocalProtocolError, match="closed"):
        joined.far.pd.register(bytearray(8), Access.REMOTE_READ)


@each_case(("of", "ending"), [("window", "end"), ("region", "deregister")])
def test_a_device_that_does_not_end_an_exposure_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, of: str, ending: str
) -> None:
    joined = Joined()
    region = joined.far.pd.register(bytearray(8), Access.REMOTE_READ)
    joined.tell()
    assert region.pinned is not None

    def fails(_self: object) -> None:
        raise OSError(5, "Input/output error", "ibv_dealloc_mw")

    monkeypatch.setattr(type(region.window if of == "window" else region.pinned.region), ending, fails)
    with pytest.raises(LocalProtocolError, match="memory0 does not let go of registered memory: Input/output error"):
        joined.far.pd.invalidate(region)
    joined.far.pd.register(bytearray(8), Access.REMOTE_READ)
    joined.far.abort("enough")
    assert joined.far.state is EndState.CLOSED


def test_a_handle_that_no_window_has_counts_as_no_invalidation(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    # The flag by which rxe tells of an invalidation is one for checksums at other devices.
    region = joined.far.pd.register(bytearray(8), Access.REMOTE_WRITE)
    taken = joined.far._device.completions

    def completions(most: int, arm: bool) -> list[tuple[Any, int, int, int]]:
        return [(work, status, octets, 0xBADBAD) for work, status, octets, _ in taken(most, arm)]

    monkeypatch.setattr(joined.far._device, "completions", completions)
    (received,) = joined.tell()
    assert received.invalidated is None
    assert region.window is not None


def test_a_window_that_the_device_does_not_bind_ends_the_connection_in_words(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = joined.far.pd.register(bytearray(8), Access.REMOTE_WRITE)
    monkeypatch.setattr(type(region.window), "bind", lambda *_: False)
    joined.far.flush()
    joined.far.poll()
    (ended,) = joined.far.events
    assert ended == Disconnected(reason="the device binds no memory window: status 6", by_peer=False)
    assert not joined.far.completions
