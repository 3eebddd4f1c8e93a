"""Refused calls that are sent again in another form, where the version names the cause."""

from __future__ import annotations

import struct

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import (
    CallFailed,
    CallRefused,
    ChunkRefused,
    ReplyArrived,
    ReplyBound,
    Role,
    TransportConfig,
)
from rpcrdma.transport.call import Call
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.dialects.header_v1 import RdmaMsg, RdmaNoMsg, decode_header
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Cause, Inbound, Kind, Refusal
from rpcrdma.transport.reactions import REACTIONS, CallForm, Reaction, form_after
from rpcrdma.wire.buffers import Buffer
from support.cases import each_case

XID, CALL, REPLY = 7, 0, 1
CAUSES = list(Cause)
LARGE = limits.REPLY_OCTETS_MAX


class Talkative(Version1):
    """A version whose errors name the cause: procedure 99, then cause, chunk and octets."""

    def decode(self, data: Buffer) -> Inbound | None:
        if len(data) == 28 and data[12:16] == struct.pack(">I", 99):
            xid, version, credits_, _, cause, chunk, needed = struct.unpack(">7I", data)
            return Inbound(Kind.ERROR, xid, credits_, version, refusal=Refusal(CAUSES[cause], chunk, needed))
        return super().decode(data)


def error(cause: Cause, chunk: int = 0, needed: int = 0) -> bytes:
    return struct.pack(">7I", XID, 1, 9, 99, CAUSES.index(cause), chunk, needed)


class Caller(BarePeer):
    """A client with one call out, whose server refuses as it is told."""

    def __init__(
        self,
        bound: ReplyBound,
        *arguments: int,
        into: tuple[bytearray | None, ...] = (),
        config: TransportConfig | None = None,
    ) -> None:
        super().__init__(Role.CLIENT, config, dialects=(Talkative(),))
        parts = [(b"", bytes(octets)) for octets in arguments]
        self.handle: Call = self.endpoint.call(XID, message(XID, CALL, *parts), bound, into)
        self.run()
        self.first = chunks_of(self.received[0])

    def refuse(self, cause: Cause, chunk: int = 0, needed: int = 0) -> RdmaMsg | RdmaNoMsg | None:
        """The call as it is then sent again, if it is."""
        before = set(self.endpoint_pd.regions)
        answers = self.send(error(cause, chunk, needed))
        assert not before & set(self.endpoint_pd.regions), "the first form's memory is still exposed"
        if not answers:
            return None
        (again,) = answers
        header = decode_header(again)
        assert isinstance(header, RdmaMsg | RdmaNoMsg)
        assert header.xid == XID
        return header

    def failed(self) -> None:
        (event,) = self.endpoint_events()
        assert isinstance(event, CallFailed)
        assert event.call is self.handle
        assert isinstance(event.error, ChunkRefused | CallRefused)
        assert not self.endpoint_pd.regions


def chunks_of(octets: bytes) -> ChunkLists:
    header = decode_header(octets)
    assert isinstance(header, RdmaMsg | RdmaNoMsg)
    return header.chunks


def test_too_many_read_chunks_become_one() -> None:
    caller = Caller(ReplyBound(8), 5000, 6000)
    assert len(caller.first.reads) == 2
    again = caller.refuse(Cause.READ_CHUNKS)
    assert isinstance(again, RdmaNoMsg)
    (read,) = again.chunks.reads
    assert (read.position, read.length) == (0, 8 + 4 + 5000 + 4 + 6000)
    assert caller.refuse(Cause.READ_CHUNKS) is None, "there is no simpler form"
    caller.failed()


def test_a_reply_chunk_that_is_too_small_grows_to_what_is_needed() -> None:
    caller = Caller(ReplyBound(100))
    assert caller.first.reply is None
    again = caller.refuse(Cause.REPLY_RESOURCE, needed=9000)
    assert again is not None
    assert again.chunks.reply is not None
    assert again.chunks.reply.length >= 9000
    # The reply in it is the call's reply.
    (segment,) = again.chunks.reply.segments
    reply = struct.pack(">II", XID, REPLY) + bytes(8992)
    caller.write(segment.handle, segment.offset, [reply])
    echo = struct.pack(">IIIIIIIIIIQ", XID, 1, 9, 1, 0, 0, 1, 1, segment.handle, 9000, segment.offset)
    caller.send(echo)
    (event,) = caller.endpoint_events()
    assert isinstance(event, ReplyArrived)
    assert event.call is caller.handle
    assert not caller.endpoint_pd.regions
    assert caller.endpoint.calls_in_flight == 0


def test_a_write_chunk_that_is_too_small_grows_to_what_is_needed() -> None:
    caller = Caller(ReplyBound(20, (2000, 5000)))
    again = caller.refuse(Cause.WRITE_RESOURCE, chunk=2, needed=7000)
    assert again is not None
    assert [write.length for write in again.chunks.writes] == [2000, 7000]


@each_case(
    ("cause", "chunk", "needed"),
    [
        *((cause, 0, 0) for cause in Cause if cause not in REACTIONS and cause is not Cause.VERSION),
        (Cause.WRITE_RESOURCE, 1, 7000),  # the caller's own memory
        (Cause.WRITE_RESOURCE, 0, 7000),
        (Cause.WRITE_RESOURCE, 3, 7000),
        (Cause.WRITE_RESOURCE, 2, 3000),  # as much was offered
        (Cause.WRITE_RESOURCE, 2, LARGE + 1),
        (Cause.REPLY_RESOURCE, 0, LARGE + 1),
        (Cause.REPLY_RESOURCE, 0, 20),
    ],
)
def test_what_cannot_be_mended_fails(cause: Cause, chunk: int, needed: int) -> None:
    caller = Caller(ReplyBound(20, (5000, 3000)), into=(bytearray(5000), None))
    assert caller.refuse(cause, chunk, needed) is None
    caller.failed()
    assert caller.endpoint.calls_in_flight == 0


@each_case(("needed", "mended"), [(9000, True), (9001, False)])
@each_case(("cause", "chunk"), [(Cause.REPLY_RESOURCE, 0), (Cause.WRITE_RESOURCE, 1)])
def test_a_responder_that_asks_for_more_gets_no_more_than_calls_may_offer(
    cause: Cause, chunk: int, needed: int, mended: bool
) -> None:
    caller = Caller(ReplyBound(20, (2000,)), config=TransportConfig(reply_octets_max=9000))
    again = caller.refuse(cause, chunk, needed)
    assert (again is not None) == mended


def test_a_call_is_not_sent_again_for_ever() -> None:
    caller = Caller(ReplyBound(20))
    sent = 1
    while caller.refuse(Cause.REPLY_RESOURCE, needed=10_000 * sent) is not None:
        sent += 1
    assert sent == limits.CALL_ATTEMPTS_MAX
    caller.failed()


def test_an_abandoned_call_is_not_sent_again() -> None:
    caller = Caller(ReplyBound(100))
    caller.endpoint.abandon(caller.handle)
    assert caller.refuse(Cause.REPLY_RESOURCE, needed=9000) is None
    assert caller.endpoint_events() == []


def test_a_form_that_cannot_be_sent_fails_the_call() -> None:
    read_only = memoryview(bytes(5000))
    caller = Caller(ReplyBound(20, (500,)), into=(None,))
    caller.handle.into = (None, read_only)
    caller.handle.form = CallForm(ReplyBound(20, (500, 5000)))
    assert caller.refuse(Cause.WRITE_RESOURCE, chunk=1, needed=6000) is None
    (event,) = caller.endpoint_events()
    assert isinstance(event, CallFailed)
    assert "read-only" in str(event.error)
    assert not caller.endpoint_pd.regions
    assert caller.endpoint.calls_in_flight == 0


def test_each_form_is_counted() -> None:
    form = CallForm(ReplyBound(10))
    after = form_after(Refusal(Cause.REPLY_RESOURCE, needed=50), form, (), LARGE, 1 << 20)
    assert after == CallForm(ReplyBound(50), one_chunk=False, attempts=2)
    assert form_after(Refusal(Cause.READ_CHUNKS), after, (), LARGE, 1 << 20) == CallForm(
        ReplyBound(50), one_chunk=True, attempts=3
    )
    assert Reaction.FAIL not in REACTIONS.values()
