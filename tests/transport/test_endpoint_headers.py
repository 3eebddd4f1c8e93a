"""Every message that an endpoint sends, read back by the definition of RFC 8166 and by nothing of this transport."""

from __future__ import annotations

import itertools
import struct
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, BarePeer, EndpointPair, message
from rpcrdma.transport import ReplyBound, Role, TransportConfig
from rpcrdma.verbs import Access
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.xdr.codec import Decoder, Encoder
from rpcrdma.xdr.language import compile_source
from support.cases import each_case

CALL, REPLY = 0, 1
XID = 0x11223344

DEFINITION = """
struct segment { unsigned handle; unsigned length; unsigned hyper offset; };
struct read_segment { unsigned position; segment target; };
struct read_list { read_segment entry; read_list *next; };
struct write_chunk { segment target<999>; };
struct write_list { write_chunk entry; write_list *next; };
struct lists { read_list *reads; write_list *writes; write_chunk *reply; };
struct versions { unsigned low; unsigned high; };
enum problem { VERS = 1, CHUNK = 2 };
union error switch (problem which) { case VERS: versions range; case CHUNK: void; };
enum form { MSG = 0, NOMSG = 1, MSGP = 2, DONE = 3, ERROR = 4 };
union body switch (form which) { case MSG: lists here; case NOMSG: lists elsewhere; case ERROR: error what; };
struct header { unsigned xid; unsigned vers; unsigned credit; body rest; };
"""


@pytest.fixture(scope="module")
def rfc() -> Iterator[Any]:
    module = types.ModuleType("transport_header_of_test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)  # dataclasses look themselves up there
        exec(compile_source(DEFINITION, source_name="header.x").text, module.__dict__)
        yield module


def split(rfc: Any, octets: bytes) -> tuple[Any, bytes]:
    """The header that the definition reads from a message, which must encode to the same octets, and the rest."""
    decoder = Decoder(octets)
    header = rfc.decode_header(decoder)
    encoder = Encoder()
    rfc.encode_header(encoder, header)
    assert b"".join(encoder.gather()) == octets[: decoder.pos]
    return header, octets[decoder.pos :]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All messages that are sent over the loopback, in order."""
    messages: list[bytes] = []
    post_send = LoopbackQueuePair.post_send

    def recorded(self: LoopbackQueuePair, wr: object, gather: Any, **options: Any) -> None:
        messages.append(b"".join(gather))
        post_send(self, wr, gather, **options)

    monkeypatch.setattr(LoopbackQueuePair, "post_send", recorded)
    return messages


@pytest.mark.req("V1-36", "V1-38", "V1-40", "V1-85", "V1-44")
def test_calls_and_replies_of_every_form_are_the_octets_of_the_definition(rfc: Any, sent: list[bytes]) -> None:
    # Segments that are no multiple of four, so that chunks have several.
    config = replace(SMALL_MESSAGES, segment_octets_max=3001, credits_requested=99)
    pair = EndpointPair(config, TransportConfig(credits_granted=55)).connect()
    shapes = set()
    for xid, sizes in enumerate(itertools.product((0, 9000), repeat=4), start=XID):
        argument, plain, result, body = sizes
        sent.clear()
        pair.client.call(xid, message(xid, CALL, (bytes(plain), bytes(argument))), ReplyBound(body, (result,)))
        (incoming,) = pair.arrived()
        pair.server.reply(incoming, message(xid, REPLY, (bytes(body), bytes(result))))
        pair.run()
        pair.client_events()
        pair.server_events()
        for octets, direction, credits_ in zip(sent, (CALL, REPLY), (99, 55), strict=True):
            header, rest = split(rfc, octets)
            assert (header.xid, header.vers, header.credit) == (xid, 1, credits_)
            long = header.rest.which is rfc.form.NOMSG
            lists = header.rest.value
            shapes.add((direction, long, bool(lists.reads), bool(lists.writes), lists.reply is not None))
            # The RPC message follows at once, with no record mark.
            assert rest[:8] == (b"" if long else struct.pack(">II", xid, direction))
    assert {shape[:2] for shape in shapes} == {(CALL, False), (CALL, True), (REPLY, False), (REPLY, True)}
    assert {shape[2:] for shape in shapes if shape[0] == CALL} == set(itertools.product((False, True), repeat=3))
    assert {shape[2] for shape in shapes if shape[0] == REPLY} == {False}


@pytest.mark.req("V1-20", "V1-21", "V1-32", "V1-85", "V1-92")
@each_case("plain", [0, 9000])
def test_segments_of_a_read_chunk_have_one_position_and_are_joined_in_their_order(rfc: Any, plain: int) -> None:
    peer = BarePeer(Role.CLIENT, replace(SMALL_MESSAGES, segment_octets_max=1001))
    first, second = bytes(n % 251 for n in range(5003)), bytes(n % 241 for n in range(4002))
    payload = message(XID, CALL, (bytes(plain), first), (b"", second))
    peer.endpoint.call(XID, payload, ReplyBound(0))
    peer.run()
    header, rest = split(rfc, peer.received[0])
    chunks: dict[int, bytes] = {}
    counts: dict[int, int] = {}
    for listed in header.rest.value.reads:
        segment = listed.entry
        target = segment.target
        data = peer.endpoint_pd.find(target.handle, target.offset, target.length, Access.REMOTE_READ)
        chunks[segment.position] = chunks.get(segment.position, b"") + bytes(data)
        counts[segment.position] = counts.get(segment.position, 0) + 1
    reduced = chunks.pop(0, rest)
    items = {8 + plain + 4: first, 8 + plain + 4 + 5004 + 4: second}
    assert chunks == items
    assert {position: counts[position] for position in items} == dict(zip(items, (5, 4), strict=True))
    assert reduced == struct.pack(">II", XID, CALL) + bytes(plain) + struct.pack(">II", 5003, 4002)
