"""The memory protection unit in software."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.verbs import Access, SoftwareProtectionDomain
from support.cases import each_case

READ, WRITE = Access.REMOTE_READ, Access.REMOTE_WRITE


def domain() -> SoftwareProtectionDomain:
    return SoftwareProtectionDomain(counted_bits())


@pytest.mark.req("V1-1")
def test_handles_have_32_bits_and_addresses_64() -> None:
    pd = SoftwareProtectionDomain(lambda bits: (1 << bits) - 1)
    region = pd.register(bytearray(100), READ)
    assert region.handle == 0xFFFFFFFF
    assert region.offset + region.length < 1 << 64
    # The two are all it takes to find each octet.
    for start, length in ((0, 100), (0, 1), (99, 1)):
        assert len(pd.find(region.handle, region.offset + start, length, READ)) == length


def test_handle_in_use_is_not_given_again() -> None:
    draws = iter([7, 7, 7, 9, 0, 1, 8])
    pd = SoftwareProtectionDomain(lambda bits: next(draws))
    assert [pd.register(b"x", READ).handle for _ in range(3)] == [7, 9, 8]


@each_case(("start", "length"), [(0, 0), (0, 1), (0, 16), (15, 1), (16, 0), (5, 7)])
def test_memory_within_bounds_is_found(start: int, length: int) -> None:
    pd = domain()
    memory = bytearray(range(16))
    region = pd.register(memory, READ | WRITE)
    view = pd.find(region.handle, region.offset + start, length, WRITE)
    assert view == memory[start : start + length]
    view[:] = bytes(length)
    assert memory[start : start + length] == bytes(length)


@each_case(
    ("handle", "start", "length", "access", "reason"),
    [
        (1, 0, 1, READ, "invalid handle"),
        (0, 0, 1, WRITE, "access rights"),
        (0, -1, 1, READ, "bounds"),
        (0, 0, 17, READ, "bounds"),
        (0, 16, 1, READ, "bounds"),
        (0, 17, 0, READ, "bounds"),
        (0, (1 << 64) - 1 - 0x1000, 0xFFFFFFFF, READ, "wrap"),
    ],
)
def test_memory_out_of_reach_is_not(handle: int, start: int, length: int, access: Access, reason: str) -> None:
    # Every address is 4096.
    pd = SoftwareProtectionDomain(lambda bits: 1 << 32 | 0x100)
    region = pd.register(bytes(16), READ)
    with pytest.raises(RemoteAccessError) as caught:
        pd.find(region.handle ^ handle, region.offset + start, length, access)
    assert caught.value.reason == reason


def test_ended_memory_is_out_of_reach() -> None:
    pd = domain()
    ways = (pd.invalidate, lambda region: pd.invalidate_handle(region.handle))
    for end in ways:
        region = pd.register(bytes(16), READ)
        end(region)
        with pytest.raises(RemoteAccessError, match="invalid handle"):
            pd.find(region.handle, region.offset, 1, READ)
    assert pd.invalidate_handle(1) is None


def test_invalidating_twice_does_not_end_the_handles_next_owner() -> None:
    pd = SoftwareProtectionDomain(lambda bits: 7)
    first = pd.register(b"first", READ)
    pd.invalidate(first)
    second = pd.register(b"second", READ)
    assert second.handle == first.handle
    pd.invalidate(first)
    assert pd.find(second.handle, second.offset, 6, READ) == b"second"


def test_writes_to_abandoned_memory_go_nowhere_within_its_old_bounds() -> None:
    pd = domain()
    memory = bytearray(16)
    region = pd.register(memory, WRITE)
    pd.abandon(region)
    pd.find(region.handle, region.offset, 16, WRITE)[:] = b"\xff" * 16
    assert memory == bytes(16)
    with pytest.raises(RemoteAccessError, match="bounds"):
        pd.find(region.handle, region.offset, 17, WRITE)
    with pytest.raises(RemoteAccessError, match="access rights"):
        pd.find(region.handle, region.offset, 1, READ)
    # The memory itself can be resized: nothing refers to it any more.
    memory.clear()
    pd.invalidate(region)
    assert not pd.regions


def test_abandoned_memory_cannot_be_read_and_its_handle_can_be_invalidated() -> None:
    pd = domain()
    for access, refusal in ((READ, "invalid handle"), (READ | WRITE, "access rights")):
        memory = bytearray(16)
        region = pd.register(memory, access)
        pd.abandon(region)
        with pytest.raises(RemoteAccessError, match=refusal):
            pd.find(region.handle, region.offset, 1, READ)
        memory.clear()
        assert pd.invalidate_handle(region.handle) is region
        assert not pd.regions


@each_case("access", [WRITE, Access.LOCAL_WRITE, WRITE | READ])
def test_read_only_memory_is_not_registered_for_writing(access: Access) -> None:
    with pytest.raises(LocalProtocolError, match="read-only"):
        domain().register(b"immutable", access)


def test_number_of_regions_is_bounded() -> None:
    pd = SoftwareProtectionDomain(counted_bits(), max_regions=3)
    regions = [pd.register(b"x", READ) for _ in range(3)]
    with pytest.raises(LocalProtocolError, match="3 regions"):
        pd.register(b"x", READ)
    pd.invalidate(regions[0])
    pd.register(b"x", READ)


def test_region_tells_what_it_is_and_not_what_it_holds() -> None:
    region = domain().register(b"secret", READ)
    assert "length=6" in repr(region)
    assert "secret" not in repr(region)
    assert len(set(itertools.chain([region.handle], [region.offset]))) == 2
