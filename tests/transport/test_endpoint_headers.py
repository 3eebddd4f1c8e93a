"""Every message that an endpoint sends, read back by the definition of RFC 8166 and by nothing of this transport."""

from __future__ import annotations

import struct
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import ReplyBound, Role, TransportConfig
from rpcrdma.verbs import Access
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


@pytest.mark.req("V1-20", "V1-21", "V1-32", "V1-85", "V1-92")
@each_case("plain", [0, 9000])
def test_segments_of_a_read_chunk_have_one_position_and_are_joined_in_their_order(rfc: Any, plain: int) -> None:
    peer = BarePeer(Role.CLIENT, TransportConfig(segment_octets_max=1001))
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
