"""The cache of replies to calls that must not run twice: its content, for how long, and within which bounds."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.limits import REPLY_CACHE_SMALL_OCTETS
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.reply_cache import CallKey, KnownCall, ReplyCache, call_key, detached
from rpcrdma.xdr.codec import BulkItem, Decoder, Payload, PlacedByPosition
from support.cases import each_case

PROCEDURE = null_procedure(7, 1)


def key(xid: int, octets: bytes = b"call", client: str = "192.0.2.7") -> CallKey:
    return call_key(client, xid, PROCEDURE, Decoder(octets))


def reply(length: int) -> Payload:
    return Payload(bytes(length))


def answer(cache: ReplyCache, xid: int, length: int, now_s: float) -> None:
    cache.finish(cache.begin(key(xid)), reply(length), now_s)


def kept(cache: ReplyCache, xid: int, now_s: float) -> bool | None:
    """Whether the reply is there; None if the call is not known at all."""
    known = cache.find(key(xid), now_s)
    return None if known is None else known.reply is not None


class Answered(dict[CallKey, KnownCall]):
    """Calls, of which the oldest may be looked for 100 times."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        assert self.looks <= 100, "the oldest call does not go"
        return super().values()


def watched(**bounds: Any) -> ReplyCache:
    """A cache that fails where it would make room for ever."""
    cache = ReplyCache(**bounds)
    cache._answered = Answered()
    return cache


def test_a_call_is_known_while_it_runs_and_then_by_its_reply() -> None:
    cache = ReplyCache()
    assert cache.find(key(1), 0.0) is None
    call = cache.begin(key(1))
    assert cache.find(key(1), 1e9) is call
    assert call.running
    assert repr(call) == "KnownCall(xid=0x00000001, running)"
    result = reply(8)
    cache.finish(call, result, 5.0)
    assert cache.find(key(1), 6.0) is call
    assert not call.running
    assert call.reply is result
    assert repr(call) == "KnownCall(xid=0x00000001, answered)"
    assert len(cache) == 1


@each_case(
    "other",
    [
        key(2),
        key(1, client="192.0.2.8"),
        key(1, b"cal1"),
        key(1, b"call\0"),
        call_key("192.0.2.7", 1, null_procedure(7, 2), Decoder(b"call")),
        call_key("192.0.2.7", 1, null_procedure(8, 1), Decoder(b"call")),
    ],
)
def test_a_call_that_differs_in_anything_is_another_one(other: CallKey) -> None:
    cache = ReplyCache()
    answer(cache, 1, 8, 0.0)
    assert cache.find(key(1), 0.0) is not None
    assert cache.find(other, 0.0) is None


def test_the_checksum_covers_the_whole_call_and_nothing_before_it() -> None:
    calls = [bytes(CallEncoder(AuthSys(uid=uid, gid=0)).encode(1, PROCEDURE, None).reduced) for uid in (1, 2)]
    assert key(1, calls[0]) != key(1, calls[1])
    whole = bytes(100_000)
    for changed in (0, 4095, 4096, 50_000, 99_999):
        assert key(1, whole) != key(1, whole[:changed] + b"a" + whole[changed + 1 :])
    # The octets before the call are the transport's.
    assert call_key("", 1, PROCEDURE, Decoder(b"header" + whole, 6)) == call_key("", 1, PROCEDURE, Decoder(whole))


def placed_key(head: bytes, items: list[bytes], *, in_chunks: set[int]) -> CallKey:
    """The key of a call of `head` and bulk items, some of which come in Read chunks."""
    stream, chunks, position = bytearray(head), {}, len(head)
    for index, item in enumerate(items):
        stream += len(item).to_bytes(4, "big")
        position += 4
        padded = item + bytes(-len(item) % 4)
        if index in in_chunks:
            # With its padding, or without (RFC 8166 section 3.4.5.2).
            chunks[position] = memoryview(padded if index % 2 else item)
        else:
            stream += padded
        position += len(padded)
    decoder = Decoder(stream, placed=PlacedByPosition(chunks) if chunks else None)
    decoder.octets(len(head), "head")
    for item in items:
        assert decoder.bulk(1 << 20, "item") == item
    decoder.done("call")
    return call_key("192.0.2.7", 1, PROCEDURE, decoder)


ITEMS = [bytes(range(256)) * 20, b"odd", b"", bytes(9001)]


@each_case("in_chunks", [{0}, {1}, {3}, {0, 1, 3}, {0, 1, 2, 3}])
def test_the_key_covers_what_is_in_chunks_as_if_it_were_in_the_stream(in_chunks: set[int]) -> None:
    plain = placed_key(b"head", ITEMS, in_chunks=set())
    assert placed_key(b"head", ITEMS, in_chunks=in_chunks) == plain
    for index, item in enumerate(ITEMS):
        for at in {0, len(item) // 2, len(item) - 1} if item else ():
            other = [*ITEMS]
            other[index] = item[:at] + bytes([item[at] ^ 1]) + item[at + 1 :]
            assert placed_key(b"head", other, in_chunks=in_chunks) != plain
    assert placed_key(b"head", [*ITEMS[:3], bytes(9002)], in_chunks=in_chunks) != plain


def test_answered_calls_are_forgotten_with_age() -> None:
    cache = watched(age_s=10.0)
    answer(cache, 1, 8, 0.0)
    answer(cache, 2, 8, 5.0)
    assert kept(cache, 1, 10.0)
    assert kept(cache, 1, 10.1) is None
    assert kept(cache, 2, 15.0)
    answer(cache, 3, 8, 16.0)
    assert len(cache) == 1
    assert cache.octets == 8


def test_the_oldest_make_room_and_running_calls_do_not_count() -> None:
    cache = watched(entries_max=3)
    running = [cache.begin(key(100 + number)) for number in range(10)]
    for xid in range(5):
        answer(cache, xid, 8, 0.0)
    assert [kept(cache, xid, 0.0) for xid in range(5)] == [None, None, True, True, True]
    assert all(cache.find(call.key, 1e9) is call for call in running)
    assert (cache.octets, len(cache)) == (24, 13)


def test_calls_are_forgotten_only_while_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(cache: ReplyCache, call: KnownCall) -> None:
        assert len(cache) > 2
        forgotten(cache, call)

    forgotten = ReplyCache._forget
    monkeypatch.setattr(ReplyCache, "_forget", forget)
    cache = watched(entries_max=2)
    for xid in range(5):
        answer(cache, xid, 8, 0.0)
        assert len(cache) == min(xid + 1, 2)


def test_replies_are_let_go_only_while_they_take_too_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def let_go(cache: ReplyCache, call: KnownCall) -> None:
        assert cache.octets > 100
        gone(cache, call)

    gone = ReplyCache._let_go
    monkeypatch.setattr(ReplyCache, "_let_go", let_go)
    cache = watched(octets_max=100)
    for xid in range(5):
        answer(cache, xid, 50, 0.0)
        assert cache.octets == min(50 * (xid + 1), 100)


def test_a_reply_that_takes_too_much_room_goes_and_its_call_stays_known() -> None:
    cache = watched(octets_max=100, reply_octets_max=60)
    answer(cache, 1, 40, 0.0)
    answer(cache, 2, 61, 0.0)
    answer(cache, 3, 60, 0.0)
    assert [kept(cache, xid, 0.0) for xid in (1, 2, 3)] == [True, False, True]
    assert cache.octets == 100
    answer(cache, 4, 1, 0.0)
    assert [kept(cache, xid, 0.0) for xid in (1, 2, 3, 4)] == [False, False, True, True]
    assert cache.octets == 61
    known = cache.find(key(1), 0.0)
    assert repr(known) == "KnownCall(xid=0x00000001, reply not kept)"


def test_large_replies_make_room_before_small_ones() -> None:
    small, large = REPLY_CACHE_SMALL_OCTETS, REPLY_CACHE_SMALL_OCTETS + 1
    cache = watched(octets_max=4 * large)
    for xid in range(2):
        answer(cache, xid, small, 0.0)
    for xid in range(10, 20):
        answer(cache, xid, large, 0.0)
    assert [kept(cache, xid, 0.0) for xid in (0, 1, *range(10, 20))] == [True, True, *[False] * 8, True, True]
    for xid in range(2, 5):
        answer(cache, xid, small, 0.0)
    assert [kept(cache, xid, 0.0) for xid in (*range(5), 18, 19)] == [False, *[True] * 4, False, False]


def test_all_bounds_hold_together() -> None:
    cache = ReplyCache(entries_max=20, octets_max=500, reply_octets_max=90, age_s=7.0)
    for xid in range(2000):
        answer(cache, xid, xid * 37 % 100, xid * 0.5)
        assert cache.octets <= 500
        assert len(cache) <= 15
    replies = [known.reply for known in cache._answered.values() if known.reply is not None]
    assert cache.octets == sum(each.length for each in replies)


def test_a_kept_reply_has_octets_of_its_own() -> None:
    memory = bytearray(b"result")
    own = detached(Payload(b"head", [BulkItem(4, 4, memory)]))
    memory[:] = b"reused"
    assert b"".join(own.gather()) == b"headresult\0\0"
    plain = Payload(b"head")
    assert detached(plain) is plain


def refused(cache: ReplyCache, xid: int, length: int, client: str = "192.0.2.7") -> KnownCall:
    call = cache.begin(key(xid, client=client))
    result = reply(length)
    cache.finish(call, result, 0.0)
    cache.hold(call, result)
    return call


def test_a_refused_reply_is_held_until_it_is_sent_however_long_it_is() -> None:
    cache = ReplyCache(reply_octets_max=100, refused_octets_max=1000)
    call = refused(cache, 1, 1000)
    assert call.reply is None
    held = cache.held(call)
    assert held is not None
    assert held.length == 1000
    cache.hold(call, held)
    assert cache.held(call) is held
    cache.sent(call)
    assert cache.held(call) is None
    assert cache.held(refused(cache, 2, 1001)) is None
    # A reply that is kept in any case stays after it is sent.
    small = refused(cache, 3, 100)
    cache.sent(small)
    assert cache.held(small) is small.reply


def test_of_refused_replies_the_client_that_holds_most_loses_its_oldest() -> None:
    cache = ReplyCache(reply_octets_max=0, refused_octets_max=1000)
    greedy = [refused(cache, xid, 300) for xid in range(3)]
    modest = [refused(cache, 1, 300, f"192.0.2.{host}") for host in (8, 9)]
    assert [cache.held(call) is not None for call in greedy] == [False, False, True]
    assert [cache.held(call) is not None for call in modest] == [True, True]
    # One of its own makes room for another one, and no other client's.
    greedy += [refused(cache, 3, 300)]
    assert [cache.held(call) is not None for call in greedy + modest] == [False, False, False, True, True, True]
    # Among equals the newest stays.
    newest = refused(cache, 1, 400, "192.0.2.10")
    assert cache.held(newest) is not None
    assert sum(cache.held(call) is not None for call in greedy + modest) == 2


def test_a_refused_reply_goes_with_its_call() -> None:
    cache = watched(entries_max=1, reply_octets_max=0)
    call = refused(cache, 1, 300)
    answer(cache, 2, 8, 1.0)
    assert cache.held(call) is None
    cache.hold(call, reply(300))
    assert cache.held(call) is None
