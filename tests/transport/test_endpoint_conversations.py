"""Whole conversations of endpoints, octet by octet as they were recorded once.

All forms of calls and replies, in both directions, with refusals, cancelled calls and bad messages. The work that
an endpoint posts (Send, RDMA Write, RDMA Read), the ends of exposed memory and its reports to the owner
must equal `tests/vectors/transport/conversations.txt`, in the same order. Run as a program, this file writes
that one anew: for a change of octets that is meant.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rpcrdma import limits
from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, BarePeer, EndpointPair, message
from rpcrdma.transport import CallArrived, CallFailed, Closed, Endpoint, IncomingCall, ReplyBound, Role, TransportConfig
from rpcrdma.transport.chunks import Segment
from rpcrdma.verbs import Access, SoftwareProtectionDomain
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.wire.buffers import Buffer
from support.cases import each_case
from support.octets import words

RECORDED = Path(__file__).parents[1] / "vectors" / "transport" / "conversations.txt"
CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)
SHOWN_OCTETS_MAX = 400
CONVERSATIONS: dict[str, Callable[[Recording], None]] = {}


def pattern(length: int, seed: int = 0) -> bytes:
    return bytes((seed + n * 7) & 0xFF for n in range(length))


def shown(gather: Sequence[Buffer]) -> str:
    octets = b"".join(gather)
    if len(octets) <= SHOWN_OCTETS_MAX:
        return octets.hex(" ", -4) or "nothing"
    digest = hashlib.sha256(octets).hexdigest()[:32]
    return f"{octets[:128].hex(' ', -4)} ... {len(octets)} octets, sha256 {digest}"


class Recording:
    """The lines of one conversation; `watch` makes it hear of both ends of a connection."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[object] = []

    def watch(self, name: str, queue_pair: LoopbackQueuePair, pd: SoftwareProtectionDomain) -> None:
        self.names[id(queue_pair)] = self.names[id(pd)] = name
        self.kept += [queue_pair, pd]

    def note(self, subject: object, words: str) -> None:
        name = self.names.get(id(subject))
        if name is not None:
            self.lines.append(f"{name}: {words}")

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            post_send, post_write = LoopbackQueuePair.post_send, LoopbackQueuePair.post_write
            post_read, abort = LoopbackQueuePair.post_read, LoopbackQueuePair.abort
            invalidate, abandon = SoftwareProtectionDomain.invalidate, SoftwareProtectionDomain.abandon

            def send(qp: Any, wr: object, gather: Any, *, invalidate: int | None = None, signaled: bool = True) -> None:
                suffix = "" if invalidate is None else f" invalidating {invalidate:08x}"
                self.note(qp, f"Send{suffix} {shown(gather)}")
                post_send(qp, wr, gather, invalidate=invalidate, signaled=signaled)

            def write(qp: Any, wr: object, gather: Any, handle: int, offset: int, *, signaled: bool = True) -> None:
                self.note(qp, f"Write {handle:08x} {offset:016x} {shown(gather)}")
                post_write(qp, wr, gather, handle, offset, signaled=signaled)

            def read(qp: Any, wr: Any, sink: Any, start: int, length: int, handle: int, offset: int) -> None:
                self.note(qp, f"Read {handle:08x} {offset:016x} {length}")
                post_read(qp, wr, sink, start, length, handle, offset)

            def end(qp: Any, reason: str) -> None:
                self.note(qp, f"abort: {reason}")
                abort(qp, reason)

            def fence(pd: Any, region: Any) -> None:
                if pd.regions.get(region.handle) is region:
                    self.note(pd, f"invalidates {region.handle:08x}")
                invalidate(pd, region)

            def give_up(pd: Any, region: Any) -> None:
                self.note(pd, f"abandons {region.handle:08x}")
                abandon(pd, region)

            for owner, name, replacement in (
                (LoopbackQueuePair, "post_send", send),
                (LoopbackQueuePair, "post_write", write),
                (LoopbackQueuePair, "post_read", read),
                (LoopbackQueuePair, "abort", end),
                (SoftwareProtectionDomain, "invalidate", fence),
                (SoftwareProtectionDomain, "abandon", give_up),
            ):
                patch.setattr(owner, name, replacement)
            yield


class Pair(EndpointPair):
    """Two endpoints whose every step is recorded."""

    def __init__(
        self,
        recording: Recording,
        client: TransportConfig | None = None,
        server: TransportConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__(client, server, **options)
        self.recording = recording
        recording.watch("client", self.client_qp, self.client_pd)
        recording.watch("server", self.server_qp, self.server_pd)
        self.connect()

    def settle(self) -> tuple[list[IncomingCall], list[IncomingCall]]:
        """Runs; the calls that then wait at the server and at the client."""
        self.run()
        return tuple(  # type: ignore[return-value]
            take(self.recording, name, events)
            for name, events in (("server", self.server_events()), ("client", self.client_events()))
        )

    def served(self, answer: Callable[[IncomingCall], object]) -> None:
        """Runs, answers the server's open calls, and runs again."""
        for incoming in self.settle()[0]:
            answer(incoming)
        self.settle()

    def reply(self, *parts: tuple[bytes, Buffer | None]) -> Callable[[IncomingCall], object]:
        return lambda incoming: self.server.reply(incoming, message(incoming.xid, REPLY, *parts))


def take(recording: Recording, name: str, events: Sequence[Any]) -> list[IncomingCall]:
    calls = []
    for event in events:
        words = type(event).__name__
        if isinstance(event, CallArrived):
            calls.append(event.incoming)
            words += f" {event.incoming.xid:08x} {contents(event.incoming.decoder)}"
        elif isinstance(event, Closed):
            words += f" by_peer={event.by_peer} protocol_error={event.protocol_error}: {event.reason}"
        elif isinstance(event, CallFailed):
            words += f" {event.call.xid:08x} {type(event.error).__name__}: {event.error}"
        elif hasattr(event, "decoder"):
            words += f" {event.call.xid:08x} {contents(event.decoder)}"
        elif hasattr(event, "incoming"):
            words += f" {event.incoming.xid:08x}"
        recording.lines.append(f"{name} reports {words}")
    return calls


def contents(decoder: Any) -> str:
    return shown([memoryview(decoder.data)[decoder.pos : decoder.end]])


class Bare:
    """An endpoint whose peer sends the octets that the test chooses."""

    def __init__(self, recording: Recording, role: Role, config: TransportConfig | None = None, **options: Any) -> None:
        self.recording = recording
        self.name = role.value
        self.peer = BarePeer(role, config, **options)
        recording.watch(self.name, self.peer.qp._peer, self.peer.endpoint_pd)
        self.endpoint: Endpoint = self.peer.endpoint

    def say(self, *octets: bytes, invalidate: int | None = None) -> list[IncomingCall]:
        self.recording.lines.append(f"peer says {shown(octets)}")
        self.peer.send(*octets, invalidate=invalidate)
        return take(self.recording, self.name, self.peer.endpoint_events())

    def settle(self) -> list[IncomingCall]:
        self.peer.run()
        return take(self.recording, self.name, self.peer.endpoint_events())


def segment(item: Segment) -> bytes:
    return struct.pack(">IIQ", *item)


def call_header(xid: int, *, procedure: int = 0, lists: bytes = bytes(12), version: int = 1) -> bytes:
    return words(xid, version, 32, procedure) + lists


def conversation(function: Callable[[Recording], None]) -> Callable[[Recording], None]:
    CONVERSATIONS[function.__name__] = function
    return function


SEGMENTED = replace(SMALL_MESSAGES, segment_octets_max=3000)
SMALL = TransportConfig(inline_send_octets=1024, inline_receive_octets=1024)
PLAIN = replace(SMALL_MESSAGES, remote_invalidation=False)


@conversation
def short_calls_and_more_than_credits_allow(recording: Recording) -> None:
    pair = Pair(recording, server=replace(SMALL_MESSAGES, credits_granted=3))
    for xid in range(1, 9):
        pair.client.call(xid, message(xid, CALL, (pattern(4 * xid), None)), ReplyBound(8))
    for _ in range(4):
        waiting, _ = pair.settle()
        for incoming in waiting:
            pair.server.reply(incoming, message(incoming.xid, REPLY, (b"fine", None)))
    pair.client.disconnect()
    pair.settle()


@conversation
def arguments_in_read_chunks(recording: Recording) -> None:
    for client in (None, SEGMENTED, SMALL, PLAIN):
        pair = Pair(recording, client)
        for xid, sizes in enumerate(((4100,), (4101, 900), (1, 2, 5003), (2000, 2001, 2002, 2003), (0, 1023, 1024)), 1):
            parts = [(b"head", pattern(size, size)) for size in sizes]
            pair.client.call(xid, message(xid, CALL, *parts, (b"tail", None)), ReplyBound(8))
            pair.served(pair.reply((b"done", None)))


@conversation
def long_calls(recording: Recording) -> None:
    for client in (None, SEGMENTED, SMALL, replace(SMALL_MESSAGES, read_chunks_max=1)):
        pair = Pair(recording, client)
        pair.client.call(1, message(1, CALL, (pattern(6000), None)), NOTHING)
        pair.served(pair.reply())
        parts = [(pattern(2000, n), pattern(3001 + n, n)) for n in range(3)]
        pair.client.call(2, message(2, CALL, *parts, (b"tail", pattern(17))), ReplyBound(9000))
        pair.served(pair.reply((pattern(20), None)))


@conversation
def results_in_write_chunks(recording: Recording) -> None:
    for client in (None, SEGMENTED, PLAIN):
        pair = Pair(recording, client)
        for xid, length in enumerate((0, 1, 2999, 3000, 5000), 1):
            pair.client.call(xid, message(xid, CALL), ReplyBound(20, (5000,)), (bytearray(5000),))
            pair.served(pair.reply((b"before..", pattern(length, length)), (b"aft.", None)))
        pair.client.call(9, message(9, CALL), ReplyBound(20, (0, 3000, 10, 4000)))
        pair.served(pair.reply((b"", b""), (b"", pattern(7)), (b"", pattern(9))))
        pair.client.call(10, message(10, CALL), ReplyBound(20, (3000, 4000)), (None, bytearray(100)))
        pair.served(pair.reply((b"none", None)))
        pair.client.call(11, message(11, CALL), ReplyBound(20, (60,)), (bytearray(60),))
        pair.served(pair.reply((b"", pattern(50))))


@conversation
def replies_in_reply_chunks(recording: Recording) -> None:
    for client in (None, SEGMENTED, PLAIN):
        pair = Pair(recording, client)
        for xid, length in enumerate((20, 4040, 4048, 9000, 20_000), 1):
            pair.client.call(xid, message(xid, CALL), ReplyBound(20_000))
            pair.served(pair.reply((pattern(length), None)))
        for xid, length in enumerate((20, 9000), 10):
            pair.client.call(xid, message(xid, CALL), ReplyBound(20_000, (5000, 6000)), (bytearray(5000),))
            pair.served(pair.reply((pattern(length), pattern(4999)), (b"more", pattern(6000))))


@conversation
def everything_at_once(recording: Recording) -> None:
    pair = Pair(recording, SEGMENTED)
    for xid in (1, 2, 3):
        parts = [(pattern(1500, n), pattern(4001 + n, n)) for n in range(3)]
        pair.client.call(xid, message(xid, CALL, *parts), ReplyBound(9000, (7000, 10)), (bytearray(7000),))
    waiting, _ = pair.settle()
    for incoming in reversed(waiting):
        pair.server.reply(incoming, message(incoming.xid, REPLY, (pattern(8000), pattern(6999)), (b"", b"1")))
    for incoming in pair.settle()[0]:
        pair.server.reply(incoming, message(incoming.xid, REPLY, (b"", pattern(6999))))
    for incoming in pair.settle()[0]:
        pair.server.drop(incoming)
    pair.client.disconnect()
    pair.settle()


@conversation
def refused_calls(recording: Recording) -> None:
    pair = Pair(recording, server=replace(SMALL_MESSAGES, call_octets_pulled_max=9000))
    pair.client.call(1, message(1, CALL, (b"", pattern(5000))), NOTHING)
    pair.served(pair.server.fail_call)
    pair.client.call(2, message(2, CALL, (b"", pattern(9001))), NOTHING)
    pair.settle()
    pair.client.call(3, message(3, CALL), ReplyBound(100, (4500,)))
    pair.served(pair.reply((b"", pattern(4501))))
    pair.client.call(4, message(4, CALL), ReplyBound(5000))
    pair.served(pair.reply((pattern(5100), None)))
    pair.client.call(5, message(5, CALL), NOTHING)
    pair.served(pair.reply((pattern(5100), None)))
    pair.client.call(6, message(6, CALL), NOTHING)
    pair.served(pair.reply((b"well", None)))
    # Replies that go inline in spite of larger items than were announced.
    pair.client.call(7, message(7, CALL), ReplyBound(0, (10,)), (bytearray(4),))
    pair.served(pair.reply((b"", pattern(10))))


@conversation
def calls_that_cannot_be_sent(recording: Recording) -> None:
    for reverse in (False, True):
        pair = Pair(recording, SMALL, reverse=True)
        pair.server.allow_reverse()
        endpoint = pair.server if reverse else pair.client
        segments = replace(SMALL_MESSAGES, segment_octets_max=8)
        for pair_of, items, result_items in (
            (endpoint, [b"argument"], (5000,)),
            (endpoint, [bytes(4000)] * 20, (3000,) * 20),
            (Pair(recording, segments).client, [bytes(5000)], ()),
        ):
            try:
                pair_of.call(
                    1, message(1, CALL, *((b"", item) for item in items)), ReplyBound(0, result_items), (bytes(5000),)
                )
            except LocalProtocolError as error:
                recording.lines.append(f"refused at once: {error}")
        pair.settle()


@conversation
def cancelled_calls(recording: Recording) -> None:
    pair = Pair(recording, server=replace(SMALL_MESSAGES, credits_granted=2))
    first = pair.client.call(1, message(1, CALL), ReplyBound(20, (5000,)), (bytearray(5000),))
    second = pair.client.call(2, message(2, CALL, (b"", pattern(5000))), NOTHING)
    pair.client.abandon(second)
    pair.client.abandon(first)
    pair.client.abandon(first)
    third = pair.client.call(3, message(3, CALL, (pattern(40), None)), ReplyBound(6000))
    pair.served(pair.reply((b"", pattern(5000))))
    pair.client.abandon(third)
    pair.served(pair.reply((pattern(6000), None)))
    # An argument that the peer still reads ends the connection.
    fourth = pair.client.call(4, message(4, CALL, (b"", pattern(5000))), NOTHING)
    pair.client_qp.progress(1)
    pair.server.progress()
    pair.client.abandon(fourth)
    pair.settle()


@conversation
@mock.patch.object(limits, "CONNECTION_OCTETS_PULLED_MAX", 16_000)
def calls_that_wait_for_others(recording: Recording) -> None:
    bounds = replace(SMALL_MESSAGES, call_octets_pulled_max=10_000)
    pair = Pair(recording, server=bounds)
    pair.client.call(1, message(1, CALL), NOTHING)
    pair.served(pair.reply())
    for xid in range(2, 8):
        pair.client.call(xid, message(xid, CALL, (b"", pattern(4096 + 1000 * xid))), NOTHING)
    for _ in range(6):
        waiting, _ = pair.settle()
        for incoming in waiting[:1]:
            pair.server.reply(incoming, message(incoming.xid, REPLY))
        for incoming in waiting[1:]:
            pair.server.fail_call(incoming)
    pair.server.disconnect()
    pair.settle()


@conversation
def calls_in_both_directions(recording: Recording) -> None:
    pair = Pair(recording, reverse=True)
    pair.server.allow_reverse()
    for xid in range(1, 4):
        pair.client.call(xid, message(xid, CALL, (b"ahead...", None)), ReplyBound(8))
        pair.server.call(xid, message(xid, CALL, (b"back....", pattern(100))), ReplyBound(8, (90,)))
    at_server, at_client = pair.settle()
    for incoming in at_server:
        pair.server.reply(incoming, message(incoming.xid, REPLY, (b"from server ", None)))
    for incoming in at_client:
        pair.client.reply(incoming, message(incoming.xid, REPLY, (b"from client ", pattern(90))))
    at_server, at_client = pair.settle()
    for incoming in at_client[:1]:
        pair.client.fail_call(incoming)
    for incoming in at_client[1:]:
        pair.client.reply(incoming, message(incoming.xid, REPLY, (pattern(5000), None)))
    pair.settle()
    waiting = pair.server.call(9, message(9, CALL), NOTHING)
    pair.settle()
    pair.server.abandon(waiting)
    pair.server.disconnect()
    pair.settle()


@conversation
def chunks_in_both_directions(recording: Recording) -> None:
    general = replace(SMALL_MESSAGES, reverse_chunks=True)
    pair = Pair(recording, general, general, reverse=True)
    pair.server.allow_reverse()
    pair.server.call(1, message(1, CALL, (b"", pattern(5000))), ReplyBound(10_000, (7000,)), (bytearray(7000),))
    pair.server.call(2, message(2, CALL, (pattern(5000), None)), NOTHING)
    for _ in range(2):
        for incoming in pair.settle()[1]:
            pair.client.reply(incoming, message(incoming.xid, REPLY, (pattern(9000 // incoming.xid**5), pattern(6000))))
    pair.settle()


BAD_MESSAGES = [
    b"",
    words(7, 1, 32),
    call_header(7)[:27],
    call_header(7, version=2)[:27],
    call_header(7, version=2),
    call_header(7, version=0, procedure=9),
    call_header(7, procedure=3) + bytes(8),
    words(7, 1, 32, 2, 64, 64, 0, 0, 0) + words(7, CALL),
    call_header(7, procedure=5),
    call_header(7, lists=words(2, 0, 0)) + words(7, CALL),
    call_header(7, lists=words(1, 3, 1, 1, 0, 0, 0, 0, 0)) + words(7, CALL),
    call_header(7, lists=words(0, 1, 0xFFFF)) + words(7, CALL),
    call_header(7) + words(7),
    call_header(7) + words(7, 2),
    call_header(7) + words(8, CALL),
    call_header(7) + words(8, REPLY),
    call_header(7) + words(7, REPLY),
    call_header(7, procedure=1),
    call_header(7, procedure=1, lists=words(1, 4, 1, 1, 0, 0, 0, 0, 0)),
    call_header(7, procedure=1, lists=words(1, 0, 1, 8, 0, 0, 0, 0, 0)) + b"more",
    call_header(7, procedure=1, lists=words(0, 0, 1, 1, 9, 8, 0, 0)),
    call_header(7, lists=words(1, 0, 1, 8, 0, 0, 0, 0, 0)) + words(7, CALL),
    call_header(7, lists=words(1, 4, 1, 8, 0, 0, 1, 0, 1, 8, 0, 0, 0, 0, 0)) + words(7, CALL, 0, 0),
    call_header(7, lists=words(1, 4000, 1, 8, 0, 0, 0, 0, 0)) + words(7, CALL, 0, 0),
    call_header(7, lists=words(0, 1, 1, 5, 2, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0)) + words(7, CALL),
    words(7, 1, 32, 4, 1, 1, 2),
    words(7, 2, 32, 4, 1, 1, 2),
    words(7, 1, 32, 4, 2),
    words(7, 1, 32, 4, 3),
    words(7, 1, 32, 4, 1, 1),
    words(0xDEAD, 1, 32, 4, 2),
]


@conversation
def bad_messages_to_a_server(recording: Recording) -> None:
    for reverse in (False, True):
        bare = Bare(recording, Role.SERVER, reverse=reverse)
        if reverse:
            bare.endpoint.allow_reverse()
        for octets in BAD_MESSAGES:
            for incoming in bare.say(octets):
                bare.endpoint.fail_call(incoming)
        bare.say(call_header(7) + words(7, CALL), invalidate=1)


@conversation
def bad_messages_to_a_client(recording: Recording) -> None:
    for reverse in (False, True):
        bare = Bare(recording, Role.CLIENT, reverse=reverse)
        for octets in BAD_MESSAGES:
            bare.endpoint.call(7, message(7, CALL), ReplyBound(100, (5000,)))
            for incoming in bare.say(octets):
                bare.endpoint.drop(incoming)
            with contextlib.suppress(LocalProtocolError):
                bare.endpoint.call(8, message(8, CALL), NOTHING)
            # Open calls are answered, so that the next message meets the same state.
            for xid in (7, 8):
                bare.say(words(xid, 1, 4, 4, 2))


@conversation
def calls_beyond_the_credits(recording: Recording) -> None:
    bare = Bare(recording, Role.SERVER, replace(SMALL_MESSAGES, credits_granted=2))
    for xid in (1, 2, 3):
        bare.say(call_header(xid) + words(xid, CALL))
    bare = Bare(recording, Role.CLIENT, replace(SMALL_MESSAGES, reverse_credits_granted=1), reverse=True)
    for xid in (1, 2):
        bare.say(call_header(xid) + words(xid, CALL))


@conversation
def chunks_in_the_reverse_direction_refused(recording: Recording) -> None:
    bare = Bare(recording, Role.CLIENT, reverse=True)
    bare.say(call_header(1, lists=words(0, 1, 0, 0, 0)) + words(1, CALL))
    bare.say(call_header(2, procedure=1, lists=words(1, 0, 9, 8, 0, 0, 0, 0, 0)))


@conversation
def replies_that_do_not_echo_their_call(recording: Recording) -> None:
    def again(answer: Callable[[Bare, Segment, Segment], object]) -> None:
        bare = Bare(recording, Role.CLIENT)
        bare.endpoint.call(1, message(1, CALL), ReplyBound(9000, (5000,)), (bytearray(5000),))
        bare.settle()
        numbers = struct.unpack_from(">9IQ5IQ", bare.peer.received[0])
        answer(bare, Segment(*numbers[7:10]), Segment(*numbers[13:16]))
        bare.settle()
        bare.endpoint.disconnect()
        bare.settle()

    def lists(write: Segment, reply: Segment | None) -> bytes:
        tail = words(0) if reply is None else words(1, 1) + segment(reply)
        return words(0, 1, 1) + segment(write) + words(0) + tail

    body = words(1, REPLY, 0, 0)
    again(lambda bare, w, r: bare.say(call_header(1, lists=lists(w, r._replace(length=0))) + body))
    again(lambda bare, w, r: bare.say(call_header(1, lists=lists(w, r)) + body))
    again(lambda bare, w, r: bare.say(call_header(1, lists=lists(w._replace(length=5001), None)) + body))
    again(lambda bare, w, r: bare.say(call_header(1) + body))
    again(lambda bare, w, r: bare.say(call_header(1, lists=words(1, 4, 1, 1, 0, 0, 0, 0, 0)) + body))
    again(lambda bare, w, r: bare.say(call_header(1, procedure=1, lists=lists(w, r))))
    again(lambda bare, w, r: bare.say(call_header(1, procedure=1, lists=lists(w, None))))
    again(lambda bare, w, r: bare.say(call_header(1, lists=lists(w, None)) + body, invalidate=w.handle))
    again(lambda bare, w, r: bare.say(words(1, 1, 9, 4, 2), invalidate=r.handle))
    again(lambda bare, w, r: bare.say(words(1, 1, 9, 4, 1, 2, 3)))
    again(lambda bare, w, r: bare.say(words(2, 1, 9, 4, 2), invalidate=w.handle))
    again(lambda bare, w, r: bare.say(call_header(1, lists=lists(w, None)) + body, invalidate=1))
    again(lambda bare, w, r: bare.peer.qp.abort("the peer goes"))


@conversation
def invalidation_that_was_not_agreed_on(recording: Recording) -> None:
    bare = Bare(recording, Role.CLIENT, PLAIN)
    bare.endpoint.call(1, message(1, CALL), ReplyBound(9000))
    bare.settle()
    (handle,) = bare.peer.endpoint_pd.regions
    bare.say(call_header(1) + words(1, REPLY), invalidate=handle)


@conversation
def reads_of_memory_that_is_not_there(recording: Recording) -> None:
    bare = Bare(recording, Role.SERVER)
    bare.say(call_header(1, lists=words(1, 8, 77, 100, 0, 0, 0, 0, 0)) + words(1, CALL))
    bare = Bare(recording, Role.SERVER)
    region = bare.peer.pd.register(bytearray(words(5, 1) * 10), Access.REMOTE_READ)
    bare.say(words(4, 1, 32, 1, 1, 0, region.handle, 80) + struct.pack(">Q", region.offset) + words(0, 0, 0))
    bare.say(call_header(6, procedure=1, lists=words(1, 0, region.handle, 0, 0, 0, 0, 0, 0)))


def recorded(function: Callable[[Recording], None]) -> list[str]:
    recording = Recording()
    with recording.listening():
        try:
            function(recording)
        except RpcRdmaError as error:
            recording.lines.append(f"raised {type(error).__name__}: {error}")
    return recording.lines


def as_written() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in RECORDED.read_text().splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = lines = []
        elif line:
            lines.append(line)
    return found


def test_every_conversation_is_recorded() -> None:
    assert list(as_written()) == list(CONVERSATIONS)


@each_case("name", CONVERSATIONS)
def test_conversation_is_the_recorded_one(name: str) -> None:
    assert recorded(CONVERSATIONS[name]) == as_written()[name]


if __name__ == "__main__":
    with RECORDED.open("w") as file:
        for title, each in CONVERSATIONS.items():
            print(f"[{title}]", *recorded(each), "", sep="\n", file=file)
    sys.exit()
