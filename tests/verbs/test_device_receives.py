"""The receives of an RDMA device: scatter lists over slabs of its own, and copies where these are not to be had."""

from __future__ import annotations

import errno
from typing import Any, cast
from unittest.mock import Mock

import pytest

from rpcrdma.errors import OutOfMemory
from rpcrdma.limits import RECEIVE_SLABS_USED_MAX
from rpcrdma.rtr.receive_slabs import SlabBuffer, SlabReceives, SlabStore
from rpcrdma.verbs import Disconnected, device_receives
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair
from rpcrdma.verbs.device_receives import _SLAB_BUFFERS
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.device_pairs import DevicePairs
from support.memory_of_device import Domain

HEAD, SLOT = 64, 4096


class Receiving:
    """Two connected queue pairs of `device`; `messages` go to the one that has `posted` receives in parts."""

    def __init__(self, device: DeviceInMemory, posted: int = 8) -> None:
        parts = DevicePairs(device, "127.0.0.1", quiet_s=0.0).make()
        self._near, self._far = cast("DeviceQueuePair", parts[0]), cast("DeviceQueuePair", parts[2])
        self._progress = parts[4]
        store = SlabStore(HEAD, SLOT)
        store.short_octets = HEAD
        self.pool = SlabReceives(store)
        self._far.post_receives(posted, self.pool)
        self._far.accept(b"")
        self._progress()

    @property
    def registrations(self) -> int:
        """Registrations of the receiving end."""
        domain = self._far.pd._domain
        assert isinstance(domain, Domain)
        return len(domain.regions)

    def messages(self, *several: bytes) -> list[Any]:
        """The `wr` of the receives in which messages have arrived together, after as many more were posted."""
        for data in several:
            self._near.post_send("s", [data], signaled=False)
        self._progress()
        arrived = list(self._far.completions)
        self._far.completions.clear()
        assert [completion.length for completion in arrived] == [len(data) for data in several]
        self._far.post_receives(len(several), self.pool)
        return [completion.wr for completion in arrived]

    def message(self, data: bytes) -> Any:
        """The only one of `messages`."""
        return self.messages(data)[0]

    def in_place(self, data: bytes) -> SlabBuffer | None:
        """The buffer of a long message that was not copied; None if it was."""
        buffer = self.message(data)
        assert isinstance(buffer, SlabBuffer)
        assert buffer.joined(len(data)) == data
        # A copy lies in a buffer that was drawn.
        drawn = self.pool.short_octets == 0
        if drawn:
            self.pool.keep(buffer)
        return None if drawn else buffer


def long_message(number: int) -> bytes:
    return bytes([number % 251]) * HEAD + bytes([number % 253]) * (SLOT - number % 7)


def test_long_messages_lie_in_heads_and_in_slots_side_by_side() -> None:
    receiving = Receiving(DeviceInMemory())
    buffers = [receiving.in_place(long_message(number)) for number in range(20)]
    starts = [buffer.start for buffer in buffers if buffer is not None]
    assert starts == [number * SLOT for number in range(20)]
    assert len({id(buffer.slab) for buffer in buffers if buffer is not None}) == 1


def test_a_message_that_fits_the_head_is_delivered_as_bytes() -> None:
    receiving = Receiving(DeviceInMemory())
    assert receiving.message(b"p" * HEAD) == b"p" * HEAD
    assert isinstance(receiving.message(b"p" * (HEAD + 1)), SlabBuffer)


def test_no_two_posted_receives_have_the_same_memory() -> None:
    several = [bytes([number]) * 9 for number in range(2 * _SLAB_BUFFERS)]
    receiving = Receiving(DeviceInMemory(), posted=len(several))
    for _ in range(3):
        assert receiving.messages(*several) == several


def test_a_slab_is_posted_again_when_nothing_refers_to_its_messages() -> None:
    receiving = Receiving(DeviceInMemory())
    for number in range(5 * _SLAB_BUFFERS):
        assert receiving.in_place(long_message(number)) is not None
    assert receiving.registrations == 2


def test_a_message_stays_as_it_is_while_a_view_of_it_exists() -> None:
    receiving = Receiving(DeviceInMemory())
    buffer = receiving.in_place(long_message(1))
    assert buffer is not None
    view = buffer.slab.view(buffer.start, 8)
    receiving.pool.keep(buffer)
    before = bytes(view)
    del buffer
    for number in range(10 * _SLAB_BUFFERS):
        receiving.message(long_message(number))
    assert view == before


def test_messages_are_copied_when_those_in_use_occupy_so_many_slabs() -> None:
    receiving = Receiving(DeviceInMemory())
    held: list[SlabBuffer] = []
    while (buffer := receiving.in_place(long_message(len(held)))) is not None:
        held.append(buffer)
    assert len(held) == (RECEIVE_SLABS_USED_MAX + 2) * _SLAB_BUFFERS
    assert receiving.in_place(long_message(1)) is None
    # The slots that are posted now are used up, and slabs after them again.
    held.clear()
    del buffer
    assert [receiving.in_place(long_message(each)) is None for each in range(9)] == [True] * 8 + [False]


def test_a_device_with_one_entry_has_its_messages_copied() -> None:
    device = DeviceInMemory()
    device.attributes["max_entries"] = 1
    receiving = Receiving(device)
    assert receiving.message(b"short") == b"short"
    assert [receiving.in_place(long_message(each)) for each in range(40)] == [None] * 40
    assert receiving.registrations == 1


def test_a_message_without_memory_for_its_copy_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceInMemory()
    device.attributes["max_entries"] = 1
    receiving = Receiving(device)
    receiving._far.events.clear()
    monkeypatch.setattr(SlabReceives, "draw", Mock(side_effect=MemoryError))
    for data in (b"short", long_message(1), b"later"):
        receiving._near.post_send("s", [data])
    receiving._progress()
    assert [each.wr for each in receiving._far.completions] == [b"short"]
    assert receiving._far.events == [Disconnected(reason="no memory for a message", by_peer=False)]


@each_case("mapped", [True, False])
def test_where_no_slab_can_be_made_messages_are_copied(mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    register = Domain.register

    def little(self: Domain, buffer: memoryview, access: int, keep: bool) -> object:
        if len(buffer) > 1 << 16:
            raise OSError(errno.ENOMEM, "Cannot allocate memory", "ibv_reg_mr")
        return register(self, buffer, access, keep)

    if mapped:
        monkeypatch.setattr(Domain, "register", little)
    else:
        monkeypatch.setattr(device_receives, "behind", Mock(side_effect=OutOfMemory))
    receiving = Receiving(DeviceInMemory())
    assert receiving.in_place(long_message(1)) is None
    # It is not asked for one again.
    monkeypatch.undo()
    assert [receiving.in_place(long_message(each)) for each in range(9)] == [None] * 9
