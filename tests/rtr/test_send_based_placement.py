"""Bulk data in placeable segments of receive buffers: no registration, no further round trip, no copy."""

from __future__ import annotations

import itertools
import mmap
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import Mock

import pytest

from rpcrdma.errors import OutOfMemory
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference, RoundTripConfig, requests
from rpcrdma.rtr.properties import Support
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallArrived, CallFailed, ReplyArrived, ReplySent, TransportConfig
from rtr_pair import RtrPair, address_of, slab_memory
from support.cases import each_case

ALWAYS = RoundTripConfig(preference=Preference.SEGMENTS)
SERVER = RoundTripConfig()


_PATTERN = bytes((index * 37 + index // 251) & 0xFF for index in range(1 << 19))


def octets(count: int, salt: int = 1) -> bytes:
    """Octets of which no two neighbours are alike."""
    return _PATTERN[salt * 251 : salt * 251 + count]


@pytest.mark.req("RT-5", "RT-7", "RT-12")
@each_case(("length", "transmissions"), [(8192, 1), (65536, 2), (4097, 1), (200_001, 7)])
def test_items_go_in_sends_alone_within_one_round_trip(length: int, transmissions: int) -> None:
    pair = RtrPair(ALWAYS, SERVER, version="2")
    before = pair.client.statistics.sends, pair.server.statistics.sends
    argument, result = octets(length), octets(length, 2)
    assert pair.exchange(argument, None).argument == argument
    assert pair.exchange(None, result).result == result
    client, server = pair.client.statistics, pair.server.statistics
    assert client.sends - before[0] == transmissions + 1
    assert server.sends - before[1] == transmissions + 1
    assert client.registrations == server.registrations == 0
    assert server.rdma_reads == server.rdma_writes == 0
    assert (client.items_sent_in_segments, client.items_in_segments) == (1, 1)
    assert client.octets_in_segments == length
    assert not pair.client_pd.regions


@each_case("preference", list(Preference))
@each_case(
    ("rest", "bounds", "items"),
    [
        (40_000, (10_000,), (10_000,)),
        # Just short enough for segments, and for no reply together with the rest.
        (80_000, (260_000,), (229_000,)),
        (40_000, (200_000, 200_000), (1000, 200_000)),
        (40_000, (200_000, 200_000), (200_000, 200_000)),
        (300_000, (20_000,), (20_000,)),
        # The second item has no direction, and is in the way of the first.
        (3900, (32_768, 1023), (32_768, 1023)),
        (100, (2000,) * 20, (2000,) * 20),
    ],
)
def test_a_call_whose_reply_keeps_to_its_bound_runs_once(
    preference: Preference, rest: int, bounds: tuple[int, ...], items: tuple[int, ...]
) -> None:
    pair = RtrPair(replace(ALWAYS, preference=preference), SERVER)
    pair.client.call(5, message(5, 0), ReplyBound(rest + 4 * len(items), bounds))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(5, 1, (bytes(rest), None), *((b"", octets(length)) for length in items)))
    pair.run()
    assert [type(event) for event in pair.server_events()] == [ReplySent]
    assert [type(event) for event in pair.client_events()] == [ReplyArrived]


@each_case("waits", [False, True])
def test_a_call_without_memory_for_its_messages_fails_alone_and_exposes_nothing(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    one = TransportConfig(credits_requested=1)
    pair = RtrPair(replace(ALWAYS, preference=Preference.EXPLICIT), SERVER, transport=one)
    argument, bound = octets(65536), ReplyBound(12, (200_001,))
    if waits:
        pair.client.call(1, message(1, 0), ReplyBound(8))
    with monkeypatch.context() as patch:
        patch.setattr(requests, "transmissions", Mock(side_effect=MemoryError))
        with nullcontext() if waits else pytest.raises(OutOfMemory):
            pair.client.call(2, message(2, 0, (b"argument", argument)), bound)
        if waits:
            (incoming,) = pair.arrived()
            pair.server.reply(incoming, message(1, 1))
            pair.run()
            answered, failed = pair.client_events()
            assert isinstance(answered, ReplyArrived)
            assert isinstance(failed, CallFailed)
            assert isinstance(failed.error, OutOfMemory)
    assert not pair.client_pd.regions
    assert pair.client.statistics.groups_sent == 0
    assert pair.exchange(argument, argument) == (argument, argument)


@pytest.mark.req("RT-34")
@each_case("settings", [(SERVER, ALWAYS), (ALWAYS, ALWAYS)])
def test_calls_of_both_directions_use_the_extension_by_the_preference_of_their_caller(
    settings: tuple[RoundTripConfig, RoundTripConfig],
) -> None:
    pair = RtrPair(*settings, version="2", reverse=True)
    pair.server.allow_reverse()
    argument, result = octets(65536), octets(200_001, 2)
    for forwards in range(3):
        # Promises of one direction leave the credits of the other as they are.
        for _ in range(forwards):
            assert pair.exchange(argument, result, placement="rtr") == (argument, result)
        assert pair.exchange(argument, None, backwards=True).argument == argument
        assert pair.exchange(None, result, backwards=True).result == result
        assert pair.exchange(argument, result, backwards=True) == (argument, result)
    ends = pair.client.statistics, pair.server.statistics
    assert [end.registrations for end in ends] == [end.rdma_reads for end in ends] == [0, 0]
    assert [(end.items_sent_in_segments, end.items_in_segments, end.items_joined) for end in ends] == [(9, 9, 0)] * 2
    assert pair.exchange(argument, result, placement="rdma", backwards=True) == (argument, result)
    assert (ends[0].rdma_writes, ends[0].items_in_segments, ends[1].items_in_segments) == (1, 9, 9)


@pytest.mark.req("RT-34")
@each_case("granted", [1, 2, 16])
@each_case("promises", [0, 8, 256])
def test_calls_of_both_directions_at_once_end_with_few_credits_and_with_many(granted: int, promises: int) -> None:
    config = TransportConfig(credits_granted=granted, reverse_credits_granted=granted)
    pair = RtrPair(*[replace(ALWAYS, promises_max=promises)] * 2, transport=config, reverse=True)
    pair.server.allow_reverse()
    ends = [(pair.client, pair.client_events), (pair.server, pair.server_events)]
    sizes = (None, 9000, 65_536, 2000, 200_001)
    for xid in range(1, 11):
        for end, _ in ends:
            item = sizes[xid % 5]
            bound = ReplyBound(12, (200_001,))
            end.call(xid, message(xid, 0, (b"argument", None if item is None else octets(item, xid))), bound)
    ended = 0
    while ended < 20:
        pair.run()
        events = [(end, event) for end, take in ends for event in take()]
        assert events, f"{ended} calls have ended"
        for end, event in reversed(events):
            if isinstance(event, CallArrived):
                xid = event.incoming.xid
                item = sizes[(xid + 2) % 5]
                end.reply(event.incoming, message(xid, 1, (b"response", b"" if item is None else octets(item, xid))))
            elif isinstance(event, ReplyArrived):
                xid = event.call.xid
                event.decoder.octets(16, "start")
                assert event.decoder.bulk(1 << 24, "item") == octets(sizes[(xid + 2) % 5] or 0, xid)
                ended += 1
            else:
                assert isinstance(event, ReplySent), event


@pytest.mark.req("RT-34")
def test_calls_to_a_client_that_takes_no_requests_of_the_extension_go_as_without() -> None:
    without = RoundTripConfig(support=Support.RESPONSE | Support.CONTINUE)
    pair = RtrPair(without, ALWAYS, reverse=True)
    pair.server.allow_reverse()
    data = octets(65536)
    assert pair.exchange(data, data, backwards=True) == (data, data)
    assert pair.server.statistics.groups_sent == 0


@each_case("length", [8192, 65536])
def test_an_item_is_handed_over_where_it_arrived(length: int) -> None:
    pair = RtrPair(ALWAYS, SERVER)
    for salt in range(40):
        data = octets(length, salt)
        argument, _ = pair.exchange(data, None)
        _, result = pair.exchange(None, data)
        for view, rtr in ((argument, pair.server_rtr), (result, pair.client_rtr)):
            assert view == data
            assert view is not None
            assert isinstance(view.obj, mmap.mmap), "the memory of a receive buffer"
            assert length < 16384 or any(address_of(view) in memory for memory in slab_memory(rtr))
            assert address_of(view) % 4096 == 0
    assert pair.client.statistics.items_joined == pair.server.statistics.items_joined == 0


@pytest.mark.req("RT-21")
@each_case("structured", list(itertools.product([4096, 0, 32768], repeat=2)))
def test_buffers_of_every_structure_are_filled(structured: tuple[int, int]) -> None:
    client, server = (RoundTripConfig(preference=Preference.SEGMENTS, segment_octets=size) for size in structured)
    pair = RtrPair(client, server)
    for length in (5000, 32768, 65536, 100_000):
        data = octets(length)
        done = pair.exchange(data, data)
        assert (done.argument, done.result) == (data, data)
    assert bool(pair.client.statistics.items_in_segments) == bool(structured[0])
    assert bool(pair.server.statistics.items_in_segments) == bool(structured[1])


@each_case("one_end", ["client", "server"])
def test_a_peer_without_the_extension_is_served_as_before(one_end: str) -> None:
    pair = RtrPair(ALWAYS if one_end == "client" else None, SERVER if one_end == "server" else None)
    data = octets(65536)
    assert pair.exchange(data, data) == (data, data)
    assert pair.client.statistics.groups_sent == pair.server.statistics.groups_sent == 0


@pytest.mark.req("RT-17")
@each_case("backwards", [False, True])
def test_promised_receives_are_posted_and_given_back(backwards: bool) -> None:
    pair = RtrPair(ALWAYS, ALWAYS, reverse=True)
    pair.server.allow_reverse()
    data = octets(65536)
    caller, receiving = (pair.server, pair.server_qp) if backwards else (pair.client, pair.client_qp)
    base = receiving.receives_posted
    for _ in range(300):
        pair.exchange(None, data, backwards=backwards)
    assert receiving.receives_posted <= base + 4
    assert caller.statistics.items_in_segments == 300


def test_memory_of_the_caller_is_filled_although_the_item_came_elsewhere() -> None:
    pair = RtrPair(ALWAYS, SERVER)
    data, memory = octets(65536), bytearray(65536)
    assert pair.exchange(None, data, into=(memory,)).result == data
    assert memory == data
