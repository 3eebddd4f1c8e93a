"""Every Send of both ends in version 2, taken apart word by word without the transport's own decoders."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import CallArrived, Ready, ReplyArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs.memory import Access
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import RESPONSE

CALL, REPLY = 0, 1
SMALL = {"offered_send_octets": 4096, "offered_receive_octets": 4096}
NOTHING = ReplyBound(0)


@pytest.mark.req("V2-A5", "V2-79")
@each_case("named", ["read", "first", "second", "reply", None])
def test_a_reply_invalidates_the_handle_that_its_call_names_wherever_that_stands(named: str | None) -> None:
    peer = BareMessages(Role.SERVER)
    regions = {name: peer.pd.register(bytearray(64), Access(7)) for name in ("read", "first", "second", "reply")}
    handles = {name: region.handle for name, region in regions.items()}
    segments = {name: (region.handle, 64, region.offset) for name, region in regions.items()}
    peer.post(
        raw.message(
            7,
            struct.pack(">II", 7, CALL),
            ends=0 if named is None else handles[named],
            reads=raw.read_segment(8, segments["read"]),
            writes=raw.chunk(segments["first"]) + raw.chunk(segments["second"]),
            reply=raw.chunk(segments["reply"]),
        )
    )
    peer.run()
    (incoming,) = calls_in(peer.endpoint_events())
    peer.endpoint.reply(incoming, message(7, REPLY))
    peer.run()
    assert peer.invalidated == [None if named is None else handles[named]]
    assert {name for name, handle in handles.items() if handle not in peer.pd.regions} == {named} - {None}


@pytest.mark.req("V2-8")
@each_case("version", ["2", "auto"])
@each_case("role", Role)
def test_every_end_takes_messages_of_4096_octets_from_the_first_on(role: Role, version: str) -> None:
    config = TransportConfig(inline_receive_octets=1024, **SMALL)
    peer = BareMessages(role, config, introduce=False, versions=version)
    start = raw.properties((2, raw.word(4096)), (0xBEEF, b""), give=9)
    peer.send(raw.properties((2, raw.word(4096)), (0xBEEF, bytes(4096 - len(start))), give=9))
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    peer.heard()
    payload = struct.pack(">II", 7, CALL if role is Role.SERVER else REPLY) + bytes(4096 - 36 - 8)
    if role is Role.CLIENT:
        peer.endpoint.call(7, message(7, CALL), NOTHING)
        peer.send(raw.message(7, payload, RESPONSE))
        (event,) = peer.endpoint_events()
        assert isinstance(event, ReplyArrived)
        decoder = event.decoder
    else:
        peer.send(raw.message(7, payload))
        (event,) = peer.endpoint_events()
        assert isinstance(event, CallArrived)
        decoder = event.incoming.decoder
    assert decoder.octets(len(payload), "all") == payload
