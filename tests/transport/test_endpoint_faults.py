"""Calls that a responder can answer neither with a reply nor with an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from rpcrdma.errors import InternalError, LocalProtocolError
from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, EndpointPair, message
from rpcrdma.transport import CallFailed, Closed, Endpoint, IncomingCall, ReplyArrived, ReplyBound
from rpcrdma.transport.call import NO_MEMORY
from rpcrdma.transport.message_memory import PlainBuffers
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.xdr.codec import Payload
from support.cases import each_case

XID, CALL, REPLY = 1, 0, 1
# Everything that could be moved by RDMA is.
CHUNKS = replace(SMALL_MESSAGES, in_messages_octets_max=0)
Answer = Callable[[Endpoint, IncomingCall], Any]


class Lending(PlainBuffers):
    """Counts the lent pieces."""

    def __init__(self) -> None:
        self.lent = 0

    def acquire(self, length: int) -> memoryview:
        self.lent += 1
        return super().acquire(length)

    def release(self, view: memoryview) -> None:
        self.lent -= 1


# How, and the result's Write chunk.
ANSWERS: dict[str, tuple[Answer, ReplyBound]] = {
    "short": (lambda endpoint, call: endpoint.reply(call, message(XID, REPLY)), ReplyBound(0)),
    "in a Write chunk": (
        lambda endpoint, call: endpoint.reply(call, message(XID, REPLY, (b"", bytes(5000)))),
        ReplyBound(0, (5000,)),
    ),
    "refused for its size": (
        lambda endpoint, call: endpoint.reply(call, message(XID, REPLY, (b"", bytes(5000)))),
        ReplyBound(0),
    ),
    "refused": (lambda endpoint, call: endpoint.fail_call(call), ReplyBound(0)),
}


@pytest.mark.req("V1-67", "V2-A17")
@each_case("version", ["1", "2"])
@each_case("how", ANSWERS)
def test_a_call_that_cannot_be_answered_ends_the_connection(
    how: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, bound = ANSWERS[how]
    buffers = Lending()
    pair = EndpointPair(CHUNKS, CHUNKS, buffers=buffers, version=version).connect()
    pair.client.call(XID, message(XID, CALL, (b"", bytes(5000))), bound)
    (incoming,) = pair.arrived()
    assert buffers.lent == 1

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(LoopbackQueuePair, "post_send", fail)
        with pytest.raises(InternalError):
            answer(pair.server, incoming)
    assert buffers.lent == 0
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.reply(incoming, message(XID, REPLY))
    pair.run()
    assert [type(event) for event in pair.server_events()] == [Closed]
    assert [type(event) for event in pair.client_events()] == [CallFailed, Closed]
    assert not pair.client_pd.regions
    assert not pair.server_pd.regions


@each_case("version", ["1", "2"])
def test_a_call_whose_reply_finds_no_memory_is_refused_alone(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = EndpointPair(version=version).connect()
    reply = message(XID, REPLY, (b"", bytes(100)))
    with monkeypatch.context() as patch:
        patch.setattr(Payload, "gather", Mock(side_effect=MemoryError))
        pair.client.call(XID, message(XID, CALL), ReplyBound(200))
        (incoming,) = pair.arrived()
        assert not pair.server.reply(incoming, reply)
        assert incoming.refusal is NO_MEMORY
        pair.run()
    (failed,) = pair.client_events()
    assert isinstance(failed, CallFailed)
    pair.client.call(XID, message(XID, CALL), ReplyBound(200))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, reply)
    pair.run()
    assert [type(event) for event in pair.client_events()] == [ReplyArrived]
    assert pair.server_events() == []
