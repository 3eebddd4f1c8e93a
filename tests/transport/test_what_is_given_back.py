"""Memory of calls that are pulled, and results that come into memory of the caller's."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.limits import RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.rpc.calling import ResultDecoder
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, message
from rpcrdma.transport import CallArrived, Closed, ReplyBound, Role, TransportConfig
from rpcrdma.transport.carriers import IncomingItems
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment
from rpcrdma.transport.message import Inbound, Kind
from rpcrdma.transport.responder import Responder
from rpcrdma.verbs import Access
from rpcrdma.xdr.codec import PlacedInOrder
from support.cases import each_case
from support.raw_calls import header, read_segment

CALL, REPLY = 0, 1


class Buffers:
    """Memory that is counted; `missing` says that there is none, for now or at all."""

    def __init__(self) -> None:
        self.held: list[memoryview] = []
        self.released: list[memoryview] = []
        self.missing: type[Exception] | None = None
        self.later = False
        self.counted = 0

    def acquire(self, length: int) -> memoryview | None:
        if self.missing is not None:
            raise self.missing("none")
        if self.later:
            return None
        self.held.append(memoryview(bytearray(length)))
        return self.held[-1]

    def release(self, view: memoryview) -> None:
        (held,) = (each for each in self.held if each is view)
        self.held = [each for each in self.held if each is not held]
        self.released.append(view)

    def take_in(self, octets: int) -> bool:
        self.counted += octets
        return True

    def give_back(self, octets: int) -> None:
        self.counted -= octets


class Server(BarePeer):
    """A server of which calls with a Read chunk are asked for."""

    def __init__(self, config: TransportConfig | None = None) -> None:
        self.buffers = Buffers()
        super().__init__(Role.SERVER, config, buffers=self.buffers)  # type: ignore[arg-type]
        self.region = self.pd.register(bytearray(100), Access.REMOTE_READ)

    @property
    def responder(self) -> Responder:
        assert self.endpoint.responder is not None
        return self.endpoint.responder

    def called(self, xid: int = 7, octets: int = 10) -> list[bytes]:
        reads = read_segment(8, self.region.handle, octets, self.region.offset)
        return self.send(header(reads=reads, xid=xid) + struct.pack(">II", xid, CALL))


@each_case("octets", [1, 4, 10, 12, 100])
def test_a_call_that_is_pulled_holds_its_octets_until_it_is_answered(octets: int) -> None:
    server = Server()
    assert server.called(7, octets) == []
    (event,) = server.endpoint_events()
    assert isinstance(event, CallArrived)
    incoming = event.incoming
    held = octets + -octets % 4
    assert (server.responder._held_octets, incoming.held_octets, incoming.pending_reads) == (held, held, 0)
    assert [len(view) for view in server.buffers.held] == [held]
    assert incoming.sink_region is None
    server.endpoint.reply(incoming, message(7, REPLY))
    assert (server.responder._held_octets, incoming.held_octets) == (0, 0)
    assert incoming.sink is None
    assert (len(server.buffers.held), len(server.buffers.released)) == (0, 1)
    assert server.endpoint._session.owed == 0


@each_case("missing", [MemoryError, RpcRdmaError])
def test_a_call_without_memory_is_refused_and_holds_nothing(missing: type[Exception]) -> None:
    server = Server()
    server.buffers.missing = missing
    (answer,) = server.called()
    assert answer[12:20] == struct.pack(">II", 4, 2)
    assert server.endpoint_events() == []
    assert (server.responder._held_octets, server.endpoint.wanted_octets, server.responder.unanswered) == (0, 0, 0)
    assert server.endpoint.statistics.rdma_reads == 0
    server.buffers.missing = None
    assert server.called(8) == []
    assert len(server.endpoint_events()) == 1
    assert server.responder._held_octets == 12


def test_a_call_waits_for_memory_that_it_is_given_later() -> None:
    server = Server()
    assert server.endpoint.wanted_octets == 0
    server.buffers.later = True
    assert server.called(7) == server.called(8, 20) == []
    assert (server.responder._held_octets, server.endpoint.wanted_octets) == (0, 12)
    assert server.endpoint_events() == []
    server.buffers.later = False
    server.endpoint.resume_pulls()
    assert (server.responder._held_octets, server.endpoint.wanted_octets) == (32, 0)
    server.run()
    assert len(server.endpoint_events()) == 2


def test_a_call_that_still_waits_for_memory_holds_nothing_after_the_end() -> None:
    server = Server()
    server.buffers.later = True
    reads = (ReadChunk(8, (Segment(server.region.handle, 10, server.region.offset),)),)
    long_call = Inbound(Kind.CALL, 7, 1, 1, ChunkLists(reads), struct.pack(">II", 7, CALL))
    assert server.responder.on_call(long_call, None, IncomingItems({}, 1 << 20))
    assert (server.endpoint.wanted_octets, server.buffers.counted) == (12, (1 << 20) - RPC_UNCOUNTED_CALL_OCTETS)
    server.endpoint.abort("the test ends it")
    server.run()
    assert (server.endpoint.wanted_octets, server.buffers.counted, server.responder._held_octets) == (0, 0, 0)
    assert server.endpoint.calls_unanswered == 0


def test_calls_that_are_answered_after_the_end_are_no_longer_in_progress() -> None:
    server = Server()
    for xid in (7, 8, 9):
        server.called(xid)
    calls = [event.incoming for event in server.endpoint_events() if isinstance(event, CallArrived)]
    assert server.endpoint.calls_unanswered == 3
    server.endpoint.abort("the test ends it")
    server.run()
    server.endpoint.reply(calls[0], message(7, REPLY))
    server.endpoint.fail_call(calls[1])
    server.endpoint.drop(calls[2])
    assert (server.endpoint.calls_unanswered, server.responder._held_octets) == (0, 0)


@each_case("fails", [False, True])
def test_memory_that_may_still_be_written_to_is_not_given_back(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    reads = read_segment(8, server.region.handle, 10, server.region.offset)
    server.qp.post_send("send", [header(reads=reads, xid=7) + struct.pack(">II", 7, CALL)], signaled=False)
    while server.responder.pulling is None:
        assert server.link.progress(1)
        server.endpoint.progress()
    incoming = server.responder.pulling
    assert (server.endpoint._session.owed, incoming.answered) == (1, False)

    def invalidate(*_: object) -> None:
        raise LocalProtocolError("the provider cannot")

    if fails:
        monkeypatch.setattr(type(server.endpoint_pd), "invalidate", invalidate)
    server.endpoint.abort("the test ends it")
    server.run()
    assert isinstance(server.endpoint_events()[-1], Closed)
    assert incoming.answered
    assert (server.endpoint._session.owed, server.responder.pulling) == (0, None)
    assert (len(server.buffers.held), len(server.buffers.released)) == ((1, 0) if fails else (0, 1))
    assert server.responder._held_octets == 0


def test_a_call_whose_memory_cannot_be_fenced_ends_the_connection_and_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()

    def invalidate(*_: object) -> None:
        raise LocalProtocolError("the device does not let go of it")

    monkeypatch.setattr(type(server.endpoint_pd), "invalidate", invalidate)
    reads = (ReadChunk(8, (Segment(server.region.handle, 10, server.region.offset),)),)
    long_call = Inbound(Kind.CALL, 7, 1, 1, ChunkLists(reads), struct.pack(">II", 7, CALL))
    assert server.responder.on_call(long_call, None, IncomingItems({}, 1 << 20))
    server.run()
    (event,) = server.endpoint_events()
    assert isinstance(event, Closed)
    assert event.reason == "memory cannot be invalidated: the device does not let go of it"
    assert (server.endpoint._session.owed, server.buffers.counted, server.buffers.released) == (0, 0, [])


def results(*inline: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(each)) + each + bytes(-len(each) % 4) for each in inline)


def test_results_that_come_inline_are_put_where_the_caller_wants_them() -> None:
    first, last = bytearray(5), bytearray(8)
    into = (memoryview(first), None, memoryview(last))
    decoder = ResultDecoder(b"head" + results(b"one", b"twotwo", b"three", b"four"), 4, None, into)
    assert (decoder.pos, decoder.placed) == (4, None)
    assert [bytes(decoder.bulk(10, "result")) for _ in range(4)] == [b"one", b"twotwo", b"three", b"four"]
    assert (bytes(first), bytes(last)) == (b"one\0\0", b"three\0\0\0")
    decoder.done("results")


def test_an_inline_result_is_put_into_memory_beside_its_message() -> None:
    memory = bytearray(results(b"four") + bytes(4))
    view = memoryview(memory)
    found = ResultDecoder(view, 0, None, (view[8:],)).bulk(4, "result")
    assert (found, memory[8:]) == (b"four", b"four")


def test_a_result_that_was_placed_where_the_caller_wants_it_is_handed_over_as_it_is() -> None:
    target = memoryview(bytearray(b"four"))
    decoder = ResultDecoder(struct.pack(">I", 4), 0, PlacedInOrder([target]), (target,))
    assert decoder.bulk(4, "result") is target


@each_case("end", ["call", "reply"])
@each_case("items", [(), (5,), (8, 3)])
def test_calls_of_a_server_fit_a_message_and_so_do_their_replies(end: str, items: tuple[int, ...]) -> None:
    """Without chunks there is no other way for them."""
    pair = EndpointPair(reverse=True).connect()
    pair.client.call(1, message(1, CALL), ReplyBound(8))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY))
    pair.run()
    pair.server.allow_reverse()
    padded = sum(length + -length % 4 for length in items)
    call, reply = 4096 - 28 - 8, 4096 - 28 - 32 - padded
    plain, bound = (call, 8) if end == "call" else (0, reply)
    more = (4, 0) if end == "call" else (0, 1)
    with pytest.raises(LocalProtocolError, match="needs chunks"):
        pair.server.call(9, message(9, CALL, (bytes(plain + more[0]), None)), ReplyBound(bound + more[1], items))
    pair.server.call(9, message(9, CALL, (bytes(plain), None)), ReplyBound(bound, items))
    assert pair.server.reverse_calls_in_flight == 1
