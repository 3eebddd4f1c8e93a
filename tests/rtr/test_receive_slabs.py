"""The memory for messages of the extension: slabs, the store that connections share, and one connection's buffers."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.rtr import receive_slabs
from rpcrdma.rtr.messages import (
    XMTCONT,
    XMTREQ,
    XMTRESP,
    TransmitContinue,
    TransmitRequest,
    TransmitResponse,
    encode_transmit_continue,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.receive_slabs import LentSlots, Slab, SlabBuffer, SlabReceives, SlabStore
from rtr_link import tried
from support.cases import each_case

HEAD, SLOT = 64, 32
OTHER = 0


def put(buffer: SlabBuffer, header_type: int, count: int, prefix: int = 20) -> None:
    """Writes the start of a message into its buffer; `count` transmissions make up the group that it begins."""
    body = bytes(4)
    if header_type == XMTREQ:
        body = encode_transmit_request(TransmitRequest((), (), count, 0, 0))
    elif header_type == XMTRESP:
        body = encode_transmit_response(TransmitResponse((), count, 0))
    elif header_type == XMTCONT:
        body = encode_transmit_continue(TransmitContinue(1, XMTREQ, 0))
    octets = bytes(12) + header_type.to_bytes(4) + bytes(prefix - 16) + body
    buffer.head[:] = octets.ljust(HEAD, b"\xff")


def places(receives: SlabReceives, messages: list[tuple[int, int]], prefix: int = 20) -> list[tuple[int, int]]:
    """The slab, counted from 0, and the slot of each message, of which all are kept."""
    receives.prefix_octets = prefix
    slabs: list[Slab] = []
    found = []
    for header_type, count in messages:
        buffer = tried(receives.draw)
        assert isinstance(buffer, SlabBuffer), buffer
        assert isinstance(buffer.slab, Slab)
        if buffer.slab not in slabs:
            slabs.append(buffer.slab)
        slot, rest = divmod(buffer.start, SLOT)
        assert not rest
        found.append((slabs.index(buffer.slab), slot))
        put(buffer, header_type, count, prefix)
    return found


def group(lead: int, count: int) -> list[tuple[int, int]]:
    return [(lead, count)] + [(XMTCONT, 0)] * (count - 1)


def test_lent_slots_follow_the_heads() -> None:
    memory = memoryview(bytearray(range(100)))
    short = LentSlots(memory, 30)
    assert short.octets == short.pinned_octets == 70
    assert short.view(0, 3) == bytes((30, 31, 32))
    assert short.view(2, 68) == bytes(range(32, 100))
    slots = LentSlots(memory, 10, 4)
    assert (slots.octets, slots.pinned_octets) == (15, 60)
    assert slots.view(0, 2) == bytes((40, 41))


@each_case(
    ("head", "slot", "short"),
    [(64, 32, 96), (8192, 8191, 16383), (8192, 8192, 16384), (8192, 8193, 16384), (4096, 32768, 16384)],
)
def test_short_messages_have_16_kib_or_the_whole_buffer(head: int, slot: int, short: int) -> None:
    receives = SlabReceives(SlabStore(head, slot))
    assert receives.octets == head + slot
    assert receives.plain_octets == head
    assert receives.short_octets == short
    assert receives.prefix_octets == 0
    assert len(receives.take()) == short


def test_so_many_heads_and_short_pieces_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_slabs, "RECEIVE_BUFFERS_KEPT_MAX", 2)
    store = SlabStore(HEAD, SLOT)
    receives = SlabReceives(store)
    for take, give, octets in (
        (store.take_head, store.give_head, HEAD),
        (receives.take, receives.give_back, HEAD + SLOT),
    ):
        given = [take() for _ in range(4)]
        assert [len(each) for each in given] == [octets] * 4
        for each in given:
            give(each)
        again = [take() for _ in range(4)]
        assert {id(each) for each in again[:2]} == {id(each) for each in given[:2]}
        assert not {id(each) for each in again[2:]} & {id(each) for each in given}


def test_slabs_that_are_used_up_are_used_again_in_turn_when_nothing_refers_to_them() -> None:
    store = SlabStore(HEAD, SLOT)
    slabs = [store.take_slab() for _ in range(4)]
    views = [slab.view(0, 1) for slab in slabs]
    for slab in slabs:
        slab.taken = slab.touched = slab.slots
        store.give_slab(slab)
    # Often enough for an interpreter to specialise or compile the code that counts references.
    assert not any(store.take_slab() in slabs for _ in range(3000))
    views[2].release()
    del views[2]
    again = store.take_slab()
    assert again is slabs[2]
    assert again.taken == 0
    assert again.pinned_octets == again.slots * SLOT
    views.clear()
    # The first two were looked at before the third, and stand behind the fourth since.
    assert [slabs.index(store.take_slab()) for _ in range(3)] == [3, 0, 1]


def test_so_many_slabs_that_are_used_up_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_slabs, "RTR_SLABS_KEPT_MAX", 2)
    store = SlabStore(HEAD, SLOT)
    slabs = [store.take_slab() for _ in range(3)]
    for slab in slabs:
        slab.taken = slab.slots
        store.give_slab(slab)
    assert [store.take_slab() in slabs for _ in range(3)] == [True, True, False]


def test_beyond_so_many_slabs_each_has_one_slot_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_slabs, "RTR_SLABS_MAX", 1)
    store = SlabStore(HEAD, SLOT)
    whole, single = store.take_slab(), store.take_slab()
    assert (len(whole.memory), len(single.memory)) == (24 * SLOT, SLOT)
    assert (single.slots, single.spare) == (1, 0)
    assert list(store.memory) == [whole.memory]
    store.give_slab(single)
    assert store.take_slab() is not single


def test_slabs_that_are_not_kept_count_as_long_as_their_items_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_slabs, "RTR_SLABS_MAX", 3)
    monkeypatch.setattr(receive_slabs, "RTR_SLABS_KEPT_MAX", 1)
    store = SlabStore(HEAD, SLOT)
    items = []
    for slots in (16, 16, 16, 1, 1):
        slab = store.take_slab()
        assert slab.slots == slots
        items.append(slab.view(0, 1))
        slab.taken = slab.slots
        store.give_slab(slab)
    assert len(store.memory) == 3
    del slab
    items.clear()
    # That of the one that is kept.
    assert len(store.memory) == 1
    assert store.take_slab().slots == 16


SINGLES = [(XMTREQ, 1)]
BOTH_LEADS = each_case("lead", [XMTREQ, XMTRESP])


@each_case("prefix", [16, 20])
@BOTH_LEADS
def test_a_group_that_begins_in_a_slab_ends_in_it(lead: int, prefix: int) -> None:
    for before, count in itertools.product((7, 8, 9, 14, 15), (1, 2, 3, 7, 8)):
        receives = SlabReceives(SlabStore(HEAD, SLOT))
        found = places(receives, SINGLES * before + group(lead, count) + SINGLES * 17, prefix)
        end = before + count
        assert found[:end] == [(0, slot) for slot in range(end)]
        # The next messages begin another slab where the first one has given out its sixteen slots.
        rest = max(0, 16 - end)
        assert found[end : end + rest] == [(0, slot) for slot in range(end, end + rest)]
        assert found[end + rest :][:16] == [(1, slot) for slot in range(16)][: 17 - rest]


@each_case(
    ("last", "follow", "stay"),
    [
        # The message in the last slot, the next messages, and how many of the next ones lie behind it.
        ((OTHER, 0), [(OTHER, 0)] * 2, 0),
        ((XMTCONT, 0), [(XMTCONT, 0)] * 2, 0),
        ((XMTREQ, 0), [(XMTCONT, 0)] * 2, 0),
        ((XMTRESP, 0), [(XMTCONT, 0)] * 2, 0),
        ((XMTREQ, 1000), [(XMTCONT, 0)] * 9, 7),
        ((XMTRESP, 1 << 31), [(XMTCONT, 0)] * 9, 7),
        # The group is broken off by a message of another kind, which still lies behind it.
        ((XMTREQ, 5), [(OTHER, 0)] * 3, 1),
        ((XMTREQ, 5), [(XMTCONT, 0), (XMTREQ, 1), (XMTCONT, 0)], 2),
        ((XMTREQ, 2), [(XMTRESP, 4), (XMTREQ, 8), *[(XMTCONT, 0)] * 8], 8),
        ((XMTREQ, 2), [(XMTRESP, 1), (XMTRESP, 1)], 1),
    ],
)
def test_the_spare_slots_are_for_as_many_messages_as_the_last_group_awaits(
    last: tuple[int, int], follow: list[tuple[int, int]], stay: int
) -> None:
    store = SlabStore(HEAD, SLOT)
    found = places(SlabReceives(store), SINGLES * 15 + [last] + follow)
    assert [slot for slab, slot in found if not slab] == list(range(16 + stay))
    assert [slot for slab, slot in found if slab] == list(range(len(follow) - stay))
    # The store has the full slab again, which nothing refers to any more.
    assert store.take_slab().touched == 16 + stay


@BOTH_LEADS
def test_a_header_that_cannot_be_read_begins_no_group(lead: int) -> None:
    receives = SlabReceives(SlabStore(HEAD, SLOT))
    places(receives, SINGLES * 15)
    last = receives.draw()
    # A count of items that no message may have.
    last.head[:] = (bytes(12) + lead.to_bytes(4) + bytes(4)).ljust(HEAD, b"\xff")
    following = receives.draw()
    assert following.slab is not last.slab
    assert following.start == 0


def test_buffers_that_were_kept_are_used_for_no_other_message_while_those_given_back_are() -> None:
    store = SlabStore(HEAD, SLOT)
    receives = SlabReceives(store)
    first, second, third = receives.draw(), receives.draw(), receives.draw()
    slab = first.slab
    assert isinstance(slab, Slab)
    assert (slab.taken, slab.touched) == (3, 3)
    # Only the last one can be given out again: slots are in the order in which messages arrive.
    receives.give_back(first)
    assert slab.taken == 3
    receives.give_back(third)
    assert (slab.taken, slab.touched) == (2, 3)
    assert third.parts == ()
    again = receives.draw()
    assert (again.slab, again.start) == (slab, 2 * SLOT)
    assert again.head is third.head
    assert slab.pinned_octets == 3 * SLOT
    receives.keep(second)
    assert slab.taken == 3
    assert receives.draw().start == 3 * SLOT
    assert slab.touched == 4
