"""Extensions: the effect of their rows on a connection of version 2, and of messages that no row is for."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from array import array
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError, TransportClosed
from rpcrdma.limits import EXTENSION_MESSAGES_REMEMBERED
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, message
from rpcrdma.transport import (
    CallArrived,
    CallFailed,
    Closed,
    ErrorRow,
    Extension,
    ExtensionError,
    ExtensionLink,
    ExtensionMessage,
    ExtensionRefused,
    HeaderRow,
    PropertyRow,
    Role,
    TransportConfig,
    check_extensions,
    offered,
)
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.message import Cause
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ScatteredBuffer
from support import raw_messages as raw
from support.cases import each_case

ASK, ANSWER, UNFLAGGED = 0x100, 0x101, 0x102
BOLD = 0x40
SIZE = 0x200
REFUSED = 0x300
RESPONSE, MORE = 1, 2


class Recorded:
    """One end's extension, which stores its arguments."""

    def __init__(self, value: bytes | None = b"\0\0\0\7") -> None:
        self.messages: list[tuple[int, int, int, bool, bytes]] = []
        self.errors: list[ExtensionError] = []
        self.ready: list[Any] = []
        self.extension = Extension(
            name="recorded",
            headers=(
                HeaderRow(ASK, "ASK", self._take, flags=BOLD, continues=True),
                HeaderRow(ANSWER, "ANSWER", self._take),
            ),
            properties=(PropertyRow(SIZE, "size", value, _number),),
            errors=(ErrorRow(REFUSED, "REFUSED", words=2),),
            on_ready=lambda link: self.ready.append(dict(link.peer)),
            on_error=lambda _, error: self.errors.append(error),
        )

    def _take(self, link: ExtensionLink, taken: ExtensionMessage) -> None:
        if bytes(taken.body) == b"faulty  ":
            raise DecodeError("body", 0, "another one", "this one")
        if bytes(taken.body) == b"refuse  ":
            link.refuse(taken, REFUSED, 5, 6)
        self.messages.append((taken.header_type, taken.xid, taken.flags, taken.answers, bytes(taken.body)))


def _number(data: bytes) -> int:
    if len(data) != 4:
        raise DecodeError("size", 0, "4 octets", f"{len(data)}")
    return int.from_bytes(data)


class Pair(EndpointPair):
    def __init__(self, client: Recorded, server: Recorded | None, version: str = "2", **sizes: int) -> None:
        self.of_client, self.of_server = client, server
        config = TransportConfig(**sizes)
        super().__init__(
            config,
            config,
            version=version,
            client_extensions=[client.extension],
            server_extensions=[] if server is None else [server.extension],
        )
        self.connect()
        self.link = self.client.extensions["recorded"]


def test_both_ends_learn_what_the_other_tells_before_any_message() -> None:
    pair = Pair(Recorded(b"\0\0\0\7"), Recorded(b"\0\0\0\x09"))
    assert pair.of_client.ready == [{SIZE: 9}]
    assert pair.of_server is not None
    assert pair.of_server.ready == [{SIZE: 7}]
    assert pair.link.supported
    assert pair.link.role is Role.CLIENT
    assert [end.unanswered for end in (pair.client, pair.server)] == [False, False]
    assert (pair.link.own_shown, pair.link.peer_shown) == ({"size": "7"}, {"size": "9"})


@each_case("start", [(6, 1), (7, 0), (7, 2)])
def test_what_an_extension_delivers_begins_with_the_xid_and_direction(start: tuple[int, int]) -> None:
    pair = Pair(Recorded(), Recorded())
    pair.client.call(7, message(7, 0), ReplyBound(8))
    server = pair.server.extensions["recorded"]
    for octets in (struct.pack(">II", *start), struct.pack(">II", 7, 1)[:7]):
        with pytest.raises(DecodeError, match="XID 0x00000007 and message type 1"):
            pair.link.deliver_reply(7, octets, None)
        with pytest.raises(DecodeError, match="XID 0x00000006 and message type 0"):
            server.deliver_call(6, octets, NO_CHUNKS, None)
    assert not pair.link.deliver_reply(8, struct.pack(">II", 8, 1), None)
    assert pair.link.deliver_reply(7, struct.pack(">II", 7, 1), None)
    assert not server.deliver_reply(7, struct.pack(">II", 7, 1), None)


@each_case(("octets", "pieces"), [(4076, 1), (4077, 2)])
def test_a_body_that_one_message_holds_is_joined_with_its_header(
    octets: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(Recorded(), Recorded(), offered_send_octets=4096, offered_receive_octets=4096)
    sent = []
    monkeypatch.setattr(LoopbackQueuePair, "post_send", lambda _qp, _wr, gather, **_: sent.append(len(gather)))
    pair.link.send(ASK, [bytes(octets)])
    assert sent[0] == pieces


def test_a_body_is_octets_without_gaps() -> None:
    pair = Pair(Recorded(), Recorded())
    for unfit in ("words", memoryview(bytes(8))[::2]):
        with pytest.raises(TypeError, match="body"):
            pair.link.send(ASK, [unfit])  # type: ignore[list-item]
    pair.link.send(ASK, [array("I", [1, 2]), memoryview(b"octets")[:4]])
    pair.run()
    assert pair.of_server is not None
    assert [body for *_, body in pair.of_server.messages] == [array("I", [1, 2]).tobytes() + b"octe"]


@each_case("octets", [4000, 4096, 4097, 10_000, 100_000])
def test_a_long_body_goes_on_in_further_messages(octets: int) -> None:
    pair = Pair(Recorded(), Recorded(), offered_send_octets=4096, offered_receive_octets=4096)
    body = bytes(range(256)) * (octets // 256 + 1)
    xid = pair.link.send(ASK, [body[:octets]], flags=BOLD)
    pair.run()
    assert pair.of_server is not None
    assert pair.of_server.messages == [(ASK, xid, BOLD, False, body[:octets])]
    assert pair.client.statistics.pieces_sent == pair.server.statistics.pieces_received
    assert (pair.client.statistics.pieces_sent > 0) == (octets + 20 > 4096)


def test_a_body_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    pair = Pair(Recorded(), Recorded(), offered_send_octets=4096, offered_receive_octets=4096)
    with pytest.raises(LocalProtocolError, match="ANSWER: 4097 octets, one message holds 4096"):
        pair.link.send(ANSWER, [bytes(4077)])
    with pytest.raises(LocalProtocolError, match="header type 0x102: the extension recorded has no such row"):
        pair.link.send(UNFLAGGED)
    with pytest.raises(LocalProtocolError, match="flags 0x40 of ANSWER"):
        pair.link.send(ANSWER, flags=BOLD)
    xid = pair.link.send(ANSWER, [bytes(4076)])
    pair.run()
    assert pair.of_server is not None
    assert pair.of_server.messages == [(ANSWER, xid, 0, False, bytes(4076))]


def test_a_version_without_extensions_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="a version without extensions"):
        Pair(Recorded(), Recorded(), "1").link.send(ANSWER)


def test_nothing_is_sent_on_a_connection_that_has_ended() -> None:
    pair = Pair(Recorded(), Recorded())
    pair.client.abort("enough")
    pair.run()
    with pytest.raises(TransportClosed, match="enough"):
        pair.link.send(ANSWER)


def test_an_error_of_an_extension_at_the_end_keeps_no_call_and_no_other_extension_from_its_own() -> None:
    ended: list[str] = []

    def fails(link: ExtensionLink) -> None:
        ended.append(link.extension.name)
        raise KeyError("a fault of the extension")

    extensions = [Extension(name="first", on_closed=fails), Extension(name="second", on_closed=fails)]
    pair = EndpointPair(version="2", client_extensions=extensions).connect()
    pair.client.call(1, message(1, 0), ReplyBound(8))
    pair.client.abort("the test ends it")
    with pytest.raises(KeyError):
        pair.client.progress()
    assert [type(event) for event in pair.client.events] == [CallFailed, Closed]
    assert ended == ["first", "second"]


def test_errors_of_the_extension_reach_the_sender() -> None:
    pair = Pair(Recorded(), Recorded())
    refused = pair.link.send(ANSWER, [b"refuse  "])
    faulty = pair.link.send(ANSWER, [b"faulty  "])
    pair.run()
    assert pair.of_client.errors == [
        ExtensionError(refused, REFUSED, (5, 6), Cause.EXTENSION),
        ExtensionError(faulty, 0, (), Cause.HEADER),
    ]


def test_a_message_with_a_repeated_xid_is_the_last_one_to_be_forgotten() -> None:
    pair = Pair(Recorded(), Recorded())
    for body in (b"word", *[b"more"] * (EXTENSION_MESSAGES_REMEMBERED - 1), b"refuse  ", b"more"):
        pair.link.send(ANSWER, [body], xid=None if body == b"more" else 5)
    pair.run()
    assert pair.of_client.errors == [ExtensionError(5, REFUSED, (5, 6), Cause.EXTENSION)]


async def test_an_awaited_answer_ends_with_the_answer_the_peers_error_or_the_connection() -> None:
    def answers(link: ExtensionLink, taken: ExtensionMessage) -> None:
        link.answer(taken.xid, bytes(taken.body))

    asking = Recorded()
    asking.extension = dataclasses.replace(
        asking.extension, headers=(HeaderRow(ASK, "ASK", answers), HeaderRow(ANSWER, "ANSWER", answers))
    )
    pair = Pair(asking, Recorded())
    pair.link.asked.new_future = asyncio.get_running_loop().create_future
    bodies = [b"refuse  ", b"word", *[b"more"] * EXTENSION_MESSAGES_REMEMBERED, b"given up"]
    refused, answered, *waiting, cancelled = [asyncio.ensure_future(pair.link.ask(ANSWER, [body])) for body in bodies]
    await asyncio.sleep(0)
    cancelled.cancel()
    pair.run()
    with pytest.raises(ExtensionRefused) as caught:
        await refused
    assert (caught.value.error.code, caught.value.error.words) == (REFUSED, (5, 6))
    assert pair.of_client.errors == []
    assert pair.of_server is not None
    xid = pair.of_server.messages[1][1]
    pair.server.extensions["recorded"].send(ASK, [b"here"], xid=xid, answer=True)
    pair.run()
    assert await answered == b"here"
    assert not pair.link.answer(xid, b"again")
    pair.client.abort("enough")
    pair.run()
    for each in waiting:
        with pytest.raises(TransportClosed, match="enough"):
            await each
    assert pair.link.asked.futures == {}
    with pytest.raises(TransportClosed, match="enough"):
        await pair.link.ask(ANSWER)


def test_only_errors_with_a_row_are_sent() -> None:
    pair = Pair(Recorded(), Recorded())
    taken = ExtensionMessage(ASK, 1, 0, False, memoryview(b""))
    for code, words in ((REFUSED, ()), (REFUSED, (1, 2, 3)), (REFUSED + 1, ())):
        with pytest.raises(LocalProtocolError, match="has no such row"):
            pair.link.refuse(taken, code, *words)


def row(code: int) -> HeaderRow:
    return HeaderRow(code, "ROW", lambda *_: None)


@each_case("code", [0, 1, 0x7F, 0x80, 0x81])
def test_codes_from_0x80_on_are_for_extensions(code: int) -> None:
    owners = []
    for extension in (
        Extension(name="a", headers=(row(code),)),
        Extension(name="a", properties=(PropertyRow(code, "p", None, bytes),)),
        Extension(name="a", errors=(ErrorRow(code, "e"),)),
    ):
        try:
            check_extensions([extension])
        except LocalProtocolError as error:
            owners.append(str(error).rpartition(" ")[2])
    assert owners == (["protocol"] * 3 if code < 0x80 else [])


def announcing(octets: int) -> Extension:
    """An extension with one long property."""
    row = PropertyRow(SIZE, "long", bytes(octets), bytes)
    return Extension(name="recorded", properties=(row,))


@pytest.mark.req("V2-11", "V2-10", "V2-37")
@each_case("octets", [100, 932, 936, 5000, 20_000])
def test_the_first_message_of_a_client_is_small_however_much_it_tells(octets: int) -> None:
    peer = BarePeer(Role.CLIENT, dialects=offered("2"), ready=False, extensions=[announcing(octets)])
    (first,) = peer.received
    assert len(first) <= 1024
    assert peer.endpoint.unanswered
    (flags,) = struct.unpack_from(">16xI", first)
    assert flags == (MORE if octets > 932 else 0)
    whole = first[20:]
    peer.received.clear()
    if flags:
        # Nothing else leaves before the server has given credits, which let the rest of the properties go.
        peer.send(struct.pack(">9I", 0, 2, 64 << 16 | 64, 1, 0, 0, 0, 0, 0))
        assert all(len(piece) <= 4096 for piece in peer.received)
        whole += b"".join(piece[20:] for piece in peer.received)
    assert whole.endswith(struct.pack(">II", SIZE, octets) + bytes(octets))


def test_both_ends_learn_properties_that_are_longer_than_a_message() -> None:
    """The server grants credits for the client's pieces before it tells anything: no answer, and nothing opens."""
    ready: list[tuple[Role, int]] = []
    client, server = (
        dataclasses.replace(announcing(octets), on_ready=lambda link: ready.append((link.role, len(link.peer[SIZE]))))
        for octets in (20_000, 9000)
    )
    EndpointPair(version="2", client_extensions=[client], server_extensions=[server]).connect()
    assert ready == [(Role.SERVER, 20_000), (Role.CLIENT, 9000)]


def test_properties_sent_in_part_are_dropped_when_the_server_speaks_version_1() -> None:
    client = BarePeer(Role.CLIENT, dialects=offered(), ready=False, extensions=[announcing(5000)])
    server = BarePeer(Role.SERVER)
    client.endpoint.call(7, message(7, 0), ReplyBound(0))
    (answer,) = server.send(client.received.pop())
    (call,) = client.send(answer)
    assert (call[:8], client.endpoint.version) == (struct.pack(">II", 7, 1), 1)
    assert server.send(call) == []
    assert [type(event) for event in server.endpoint_events()] == [CallArrived]


@each_case("bad", [(0x201, b"\0"), (2, b"\0")])
def test_a_set_of_properties_with_one_invalid_value_tells_an_extension_nothing(bad: tuple[int, bytes]) -> None:
    second = Extension(name="second", properties=(PropertyRow(0x201, "second", None, _number),))
    peer = BarePeer(Role.SERVER, dialects=offered("2"), ready=False, extensions=[Recorded().extension, second])
    peer.send(raw.properties((SIZE, b"\0\0\0\7"), bad))
    assert raw.heard(peer.received[0]).kind == raw.ERROR
    assert not peer.endpoint.extensions["recorded"].supported


class InParts:
    """Memory of which messages of the type ASK stay in two parts; `lent` is what was not given back."""

    short_octets = plain_octets = 100
    scattered = frozenset({(2, ASK)})

    def __init__(self, octets: int) -> None:
        self.octets = octets
        self.lent: list[ReceiveBuffer] = []

    def take(self) -> memoryview:
        memory = memoryview(bytearray(self.octets))
        self.lent.append(memory)
        return memory

    def draw(self) -> ScatteredBuffer:
        (buffer,) = self.divide(memoryview(bytearray(self.octets)), 1)
        self.lent.append(buffer)
        return buffer

    def divide(self, memory: memoryview, _count: int) -> list[ScatteredBuffer]:
        return [ScatteredBuffer([memory[:100], memory[100:]])]

    def give_back(self, buffer: ReceiveBuffer) -> None:
        self.lent = [each for each in self.lent if each is not buffer]


def test_a_message_that_no_handler_takes_gives_its_memory_back_by_the_end() -> None:
    extension = dataclasses.replace(Recorded().extension, receives=InParts)
    peer = BarePeer(Role.SERVER, dialects=offered("2"), ready=False, extensions=[extension])
    peer.send(struct.pack(">6I", 1, 2, 64, 5, 0, 0))
    pool = peer.endpoint.extensions["recorded"].receives
    assert isinstance(pool, InParts)
    refused = struct.pack(">5I", 7, 2, 1, ASK, BOLD << 1) + bytes(200)
    for _ in range(3):
        peer.send(refused)
        assert [type(each) for each in pool.lent] == [ScatteredBuffer]
    peer.endpoint.abort("the test ends it")
    peer.run()
    assert pool.lent == []
