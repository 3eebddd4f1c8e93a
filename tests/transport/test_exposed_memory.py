"""The memory that calls expose: when it begins, when it ends, and the end of the connection where that fails."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError, RemoteAccessError, RemoteProtocolError
from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, EndpointPair, calls_in, message
from rpcrdma.transport import (
    Call,
    CallArrived,
    CallFailed,
    Closed,
    EndpointEvent,
    IncomingCall,
    ReplyArrived,
    ReplyBound,
    TransportConfig,
)
from rpcrdma.verbs import Access, MemoryRegion
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from support.cases import each_case

CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)
SMALL_CHUNKS = replace(SMALL_MESSAGES, in_messages_octets_max=0, remote_invalidation=False, offered_receive_octets=4096)


def kinds(events: list[EndpointEvent]) -> list[type]:
    return [type(event) for event in events]


def called(pair: EndpointPair) -> list[int]:
    """The XIDs of the calls that have arrived, among other events."""
    pair.run()
    return [event.incoming.xid for event in pair.server_events() if isinstance(event, CallArrived)]


@each_case("version", ["1", "2"])
def test_the_late_reply_to_an_abandoned_call_may_invalidate_the_memory_of_its_argument(version: str) -> None:
    config = replace(SMALL_MESSAGES, in_messages_octets_max=0, offered_receive_octets=4096)
    pair = EndpointPair(config, version=version).connect()
    handle = pair.client.call(1, message(1, CALL, (b"", bytes(5000))), NOTHING)
    (incoming,) = pair.arrived()
    assert len(pair.client_pd.regions) == 1
    pair.client.abandon(handle)
    pair.server.reply(incoming, message(1, REPLY))
    pair.run()
    assert pair.server.statistics.remote_invalidations == 1
    assert not pair.client_pd.regions
    assert pair.client_events() == []
    assert pair.client.calls_in_flight == 0


@each_case("given_up", [True, False])
def test_a_late_use_of_a_handle_that_no_provider_could_keep_is_no_fault_of_the_peer(
    given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the client connects again, as after any loss of a connection."""
    monkeypatch.setattr(SoftwareProtectionDomain, "abandon", SoftwareProtectionDomain.invalidate)
    config = replace(SMALL_MESSAGES, in_messages_octets_max=0, offered_receive_octets=4096)
    pair = EndpointPair(config, version="1").connect()
    pair.client.call(9, message(9, CALL), NOTHING)
    (first,) = pair.arrived()
    pair.server.reply(first, message(9, REPLY))
    pair.run()
    assert kinds(pair.client_events()) == [ReplyArrived]
    handle, _ = [pair.client.call(xid, message(xid, CALL, (b"", bytes(5000))), NOTHING) for xid in (1, 2)]
    (incoming, _) = pair.arrived()
    if given_up:
        pair.client.abandon(handle)
    else:
        pair.client_pd.regions.clear()
    pair.server.reply(incoming, message(1, REPLY))
    pair.run()
    *failed, closed = pair.client_events()
    assert kinds([*failed, closed]) == [CallFailed] * (1 if given_up else 2) + [Closed]
    assert closed.protocol_error is not given_up
    assert {one.error.protocol_error for one in failed} == {not given_up}


@pytest.mark.req("V1-66", "V2-96", "V2-97")
@each_case("version", ["1", "2"])
def test_memory_is_invalidated_before_the_reply_is_reported(version: str) -> None:
    pair = EndpointPair(SMALL_CHUNKS, version=version).connect()
    assert not pair.client_pd.regions
    pair.client.call(1, message(1, CALL, (b"", bytes(5000))), ReplyBound(9000, (5000,)))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY, (b"", bytes(5000))))
    assert len(pair.client_pd.regions) == 3
    pair.client_qp.progress()
    pair.client.progress()
    assert not pair.client_pd.regions
    assert kinds(pair.client_events()) == [ReplyArrived]


@pytest.mark.req("V2-64", "V1-77")
@each_case("version", ["1", "2"])
def test_each_chunk_is_open_to_what_it_is_for(version: str) -> None:
    pair = EndpointPair(SMALL_CHUNKS, SMALL_CHUNKS, version=version).connect()
    pair.client.call(1, message(1, CALL, (b"", bytes(5001))), ReplyBound(9000, (5000,)))
    (incoming,) = pair.arrived()
    remote = Access.REMOTE_READ | Access.REMOTE_WRITE
    opened = {region.length: region.access & remote for region in pair.client_pd.regions.values()}
    assert (opened.pop(5001), opened.pop(5000)) == (Access.REMOTE_READ, Access.REMOTE_WRITE)
    assert list(opened.values()) == [Access.REMOTE_WRITE]
    assert not pair.server_pd.regions, "what was read is not open any more"
    pair.server.fail_call(incoming)
    pair.run()
    assert kinds(pair.client_events()) == [CallFailed]
    assert not pair.client_pd.regions
    # A whole call, and the memory into which the responder reads it.
    pair.client.call(2, message(2, CALL, (bytes(9001), None)), ReplyBound(8))
    assert {region.access & remote for region in pair.client_pd.regions.values()} == {Access.REMOTE_READ}
    while not pair.server_pd.regions:
        pair.client_qp.progress(1)
        pair.server.progress()
    assert {region.access & remote for region in pair.server_pd.regions.values()} == {Access.REMOTE_WRITE}


@pytest.mark.req("V2-96")
@each_case("version", ["1", "2"])
def test_a_call_that_waits_for_a_credit_exposes_nothing_yet(version: str) -> None:
    pair = EndpointPair(SMALL_CHUNKS, TransportConfig(credits_granted=1), version=version).connect()
    for xid in (1, 2):
        pair.client.call(xid, message(xid, CALL, (b"", bytes(5000))), ReplyBound(9000, (5000,)))
    (incoming,) = pair.arrived()
    assert len(pair.client_pd.regions) == 3
    pair.server.reply(incoming, message(1, REPLY, (b"", bytes(5000))))
    assert called(pair) == [2]
    assert kinds(pair.client_events()) == [ReplyArrived]
    assert len(pair.client_pd.regions) == 3


ENDS: dict[str, Callable[[EndpointPair, Call, IncomingCall], object]] = {
    "answered": lambda pair, _, incoming: pair.server.reply(incoming, message(1, REPLY)),
    "refused": lambda pair, _, incoming: pair.server.fail_call(incoming),
    "abandoned": lambda pair, handle, _: pair.client.abandon(handle),
}


@pytest.mark.req("V2-98")
@each_case("version", ["1", "2"])
def test_a_late_reply_leaves_the_memory_of_a_call_that_was_given_up_as_it_is(version: str) -> None:
    pair = EndpointPair(SMALL_CHUNKS, version=version).connect()
    memory = bytearray(5000)
    handle = pair.client.call(1, message(1, CALL), ReplyBound(9000, (5000,)), (memory,))
    (incoming,) = pair.arrived()
    chunks = handle.chunks
    pair.client.abandon(handle)
    for chunk in chunks.chunks:
        for segment in chunk.segments:
            region = pair.client_pd.regions[segment.handle]
            assert region.abandoned
            assert not region.view
    pair.server.reply(incoming, message(1, REPLY, (bytes(8000), b"\xff" * 5000)))
    pair.run()
    assert memory == bytes(5000)
    assert pair.client_events() == []
    assert not pair.client_pd.regions
    pair.client.call(2, message(2, CALL), NOTHING)
    assert called(pair) == [2], "the connection goes on"


@each_case("queued", [False, True])
def test_an_abandoned_call_lets_go_of_the_memory_of_its_caller(queued: bool) -> None:
    pair = EndpointPair(server=TransportConfig(credits_granted=1)).connect()
    memories = [bytearray(5000), bytearray(5000)]
    bound = ReplyBound(0, (5000,))
    handles = [
        pair.client.call(xid, message(xid, CALL), bound, (memoryview(memory),)) for xid, memory in enumerate(memories)
    ]
    with pytest.raises(BufferError):
        memories[queued].clear()
    pair.client.abandon(handles[queued])
    # Its size cannot change while anything refers to it.
    memories[queued].clear()
    assert handles[queued].payload is None


def test_an_abandoned_reverse_call_without_chunks_is_sent_as_it_was() -> None:
    pair = EndpointPair(version="1", reverse=True).connect()
    pair.server.allow_reverse()
    memory = bytearray(b"a" * 500)
    pair.server.abandon(pair.server.call(1, message(1, CALL, (b"", memory)), ReplyBound(0, (100,))))
    memory[:] = b"b" * len(memory)
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, CallArrived)
    assert bytes(event.incoming.decoder.data).endswith(b"a" * 500)


@pytest.mark.req("V1-66", "V2-A17")
@each_case("version", ["1", "2"])
@each_case("how", ENDS)
@each_case("fails", [1, 2, 3])
def test_the_connection_ends_when_any_memory_of_a_call_cannot_be_invalidated(
    fails: int, how: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = EndpointPair(SMALL_CHUNKS, version=version).connect()
    handle = pair.client.call(1, message(1, CALL, (b"", bytes(5000))), ReplyBound(9000, (5000,)))
    (incoming,) = pair.arrived()
    count = itertools.count(1)
    for name in ("invalidate", "abandon"):
        end = getattr(type(pair.client_pd), name)

        def fail(self: object, region: MemoryRegion, end: Any = end) -> None:
            if self is pair.client_pd and next(count) == fails:
                raise LocalProtocolError("the device does not answer")
            end(self, region)

        monkeypatch.setattr(type(pair.client_pd), name, fail)
    ENDS[how](pair, handle, incoming)
    pair.run()
    *failed, closed = pair.client_events()
    assert isinstance(closed, Closed)
    assert "memory cannot be invalidated: the device does not answer" in closed.reason
    assert [type(event) for event in failed] == [CallFailed] * (how != "abandoned")
    assert [type(event) for event in pair.server_events()][-1] is Closed
    # Later regions are invalidated all the same.
    assert not pair.client_pd.regions


@pytest.mark.req("V1-96")
@each_case("version", ["1", "2"])
@each_case("backwards", [False, True])
@each_case("how", [*ENDS, "unusable", "closed"])
def test_no_peer_reaches_the_memory_of_a_call_that_has_ended_for_its_caller(
    how: str, backwards: bool, version: str
) -> None:
    config = replace(SMALL_CHUNKS, reverse_chunks=True)
    pair = EndpointPair(config, config, version=version, reverse=True).connect()
    pair.server.allow_reverse()
    ends = (pair.client, pair.client_qp, pair.client_pd, pair.client_events), (
        pair.server, pair.server_qp, pair.server_pd, pair.server_events
    )  # fmt: skip
    (caller, qp, pd, events), (answerer, _, _, arrived) = reversed(ends) if backwards else ends
    memory = bytearray(5000)
    call = caller.call(1, message(1, CALL, (b"", bytes(5000))), ReplyBound(9000, (5000,)), (memory,))
    pair.run()
    (incoming,) = calls_in(arrived())
    segments = [segment for chunk in call.chunks.chunks for segment in chunk.segments]
    assert len(segments) == len(pd.regions) == 3
    match how:
        case "answered":
            answerer.reply(incoming, message(1, REPLY))
        case "refused":
            answerer.fail_call(incoming)
        case "abandoned":
            caller.abandon(call)
        case "unusable":
            assert caller.requester is not None
            caller.requester.fail(1, RemoteProtocolError("a reply that cannot be read"))
        case "closed":
            caller.abort("the test ends it")
    qp.progress()
    caller.progress()
    # From here on the caller uses its memory.
    assert bool(events()) is (how != "abandoned")
    memory[:] = b"mine " * 1000
    for handle, length, offset in segments:
        with pytest.raises(RemoteAccessError):
            pd.find(handle, offset, length, Access.REMOTE_READ)
        with contextlib.suppress(RemoteAccessError):
            pd.place(handle, offset, length, [b"theirs"])
    assert memory == b"mine " * 1000
