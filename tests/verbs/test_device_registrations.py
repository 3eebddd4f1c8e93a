"""Registrations of pooled memory that are kept for further calls: found again, bounded, and ended with the memory."""

from __future__ import annotations

import errno
import threading

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.verbs import Access
from rpcrdma.verbs.binding import Right
from rpcrdma.verbs.device_memory import DeviceProtectionDomain
from rpcrdma.verbs.device_registrations import KeptRegistrations
from rpcrdma.wire.bulk_memory import PooledMemory
from support.cases import each_case
from support.device_in_memory import DeviceInMemory

OCTETS = 8192


class Kept:
    """A protection domain of a device in memory, whose pooled memory stays registered within bounds."""

    def __init__(self, *, count_max: int = 100, octets_max: int = 1 << 30) -> None:
        self.device = DeviceInMemory(windows=0)
        self.registrations = KeptRegistrations(count_max=count_max, octets_max=octets_max)
        self.pd = self.domain()

    def domain(self) -> DeviceProtectionDomain:
        domain = self.device.EventChannel().identifier().domain()
        return DeviceProtectionDomain(domain, self.registrations)

    def use(self, *memories: PooledMemory) -> None:
        for memory in memories:
            self.pd.unpin(self.pd.pin(memory, 0))

    def is_kept(self, memory: PooledMemory) -> bool:
        before = self.device.registered
        self.use(memory)
        return self.device.registered == before


def test_pooled_memory_is_registered_once_and_each_further_use_is_counted() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    for _ in range(5):
        kept.use(memory)
    assert kept.device.registered == 1
    assert (kept.pd.counts.made, kept.pd.counts.reused) == (1, 4)
    assert kept.registrations.octets == OCTETS


def test_other_memory_is_registered_for_each_use_and_not_kept() -> None:
    kept, memory = Kept(), bytearray(OCTETS)
    for number in range(3):
        pinned = kept.pd.pin(memoryview(memory)[number:], 0)
        assert pinned.start == 0
        kept.pd.unpin(pinned)
    assert (kept.pd.counts.made, kept.pd.counts.reused, len(kept.registrations)) == (3, 0, 0)
    memory.append(0)  # a registration would hold it


@each_case("pooled", [True, False])
@each_case("exposed", [True, False])
def test_a_registration_that_fails_is_not_counted(pooled: bool, exposed: bool) -> None:
    kept = Kept()
    kept.device.attributes["max_regions"] = 0
    memory = PooledMemory(OCTETS) if pooled else memoryview(bytearray(OCTETS))
    with pytest.raises(LocalProtocolError):
        kept.pd.register(memory, Access.REMOTE_READ) if exposed else kept.pd.pin(memory, 0)
    assert (kept.pd.counts.made, kept.pd.counts.reused) == (0, 0)


def test_a_part_is_found_in_the_registration_of_the_whole() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    for view, start in (
        (memoryview(memory)[100:200], 100),
        (memoryview(memory)[OCTETS - 1 :].toreadonly(), OCTETS - 1),
    ):
        pinned = kept.pd.pin(view, 0)
        assert pinned.start == start
        kept.pd.unpin(pinned)
    assert kept.device.registered == 1


def test_kept_memory_has_local_rights_alone() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    pinned = kept.pd.pin(memory, 0)
    assert pinned.region.access == Right.LOCAL_WRITE  # type: ignore[attr-defined]
    exposed = kept.pd.register(memory, Access.REMOTE_READ)
    assert exposed.handle != pinned.region.handle


def test_memory_that_its_pool_frees_leaves_with_its_registration() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    pinned = kept.pd.pin(memory, 0)
    region = pinned.region
    del memory
    assert len(kept.registrations) == 1, "memory in use was let go of"
    assert region.domain.regions, "memory in use was deregistered"  # type: ignore[attr-defined]
    kept.pd.unpin(pinned)
    assert region.domain.regions == {}  # type: ignore[attr-defined]
    assert (len(kept.registrations), kept.registrations.octets) == (0, 0)


def test_memory_at_the_place_of_freed_memory_is_registered_anew() -> None:
    kept = Kept()
    for number in range(50):
        kept.use(PooledMemory(OCTETS))
        assert kept.device.registered == number + 1


def test_memory_may_be_freed_in_another_thread() -> None:
    kept = Kept()
    held = [PooledMemory(OCTETS)]
    kept.use(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert (len(kept.registrations), kept.registrations.octets) == (0, 0)


@each_case("bounds", [{"count_max": 2}, {"octets_max": 2 * OCTETS}])
def test_beyond_a_bound_the_memory_that_was_used_longest_ago_goes(bounds: dict[str, int]) -> None:
    kept = Kept(**bounds)
    first, second, third = (PooledMemory(OCTETS) for _ in range(3))
    kept.use(first, second, first, third)
    assert len(kept.registrations) == 2
    assert kept.is_kept(first)
    assert kept.is_kept(third)
    assert not kept.is_kept(second)


def test_unused_memory_goes_as_soon_as_other_memory_exceeds_the_bound() -> None:
    kept = Kept(count_max=1)
    first, second = PooledMemory(OCTETS), PooledMemory(OCTETS)
    kept.use(first)
    kept.pd.pin(second, 0)
    assert (len(kept.registrations), kept.registrations.octets) == (1, OCTETS)


def test_memory_in_use_stays_registered_beyond_the_bounds() -> None:
    kept = Kept(count_max=1)
    memories = [PooledMemory(OCTETS) for _ in range(3)]
    pinned = [kept.pd.pin(memory, 0) for memory in (*memories, memories[0])]
    assert len(kept.registrations) == 3
    for each in pinned:
        assert each.region.start_of(each.kept.memory) == 0  # type: ignore[union-attr]
    for each in pinned:
        kept.pd.unpin(each)
    assert len(kept.registrations) == 1


def test_a_device_without_room_gets_it_from_unused_registrations() -> None:
    kept = Kept()
    kept.device.attributes["max_regions"] = 2
    first, second, third = (PooledMemory(OCTETS) for _ in range(3))
    held = kept.pd.pin(first, 0)
    kept.use(second)
    kept.use(third)
    assert not kept.is_kept(second)
    assert kept.is_kept(first)
    pinned = kept.pd.pin(bytes(OCTETS), 0)
    with pytest.raises(LocalProtocolError, match=f"memory0 registers no {OCTETS} octets: Cannot allocate.*ulimit -l"):
        kept.pd.pin(third, 0)
    kept.pd.unpin(held)
    kept.pd.unpin(pinned)
    kept.use(third)


def test_memory_that_has_changed_its_length_is_refused_and_not_held() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    kept.use(memory)
    memory.resize(2 * OCTETS)
    with pytest.raises(LocalProtocolError, match=rf"{OCTETS} octets has {2 * OCTETS} now: its length must not change"):
        kept.pd.pin(memory, 0)
    kept.registrations.clear()
    assert len(kept.registrations) == 0


def test_the_end_of_a_connection_ends_its_registrations_and_no_others() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    ended = kept.domain()
    region = ended.pin(memory, 0).region
    kept.use(memory)
    assert len(kept.registrations) == 2
    ended.close()
    assert region.domain.regions == {}  # type: ignore[attr-defined]
    assert len(kept.registrations) == 1
    assert kept.is_kept(memory)


def test_a_use_that_ends_after_its_connection_keeps_nothing() -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    pinned = kept.pd.pin(memory, 0)
    kept.pd.close()
    kept.pd.unpin(pinned)
    assert (len(kept.registrations), kept.registrations.octets) == (0, 0)


def test_a_device_that_lets_go_of_nothing_breaks_no_other_use(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, memory = Kept(), PooledMemory(OCTETS)
    pinned = kept.pd.pin(memory, 0)

    def deregister() -> None:
        raise OSError(errno.EIO, "Input/output error", "ibv_dereg_mr")

    monkeypatch.setattr(pinned.region, "deregister", deregister)
    kept.pd.unpin(pinned)
    kept.registrations.clear()
    assert len(kept.registrations) == 0
    kept.use(memory)
