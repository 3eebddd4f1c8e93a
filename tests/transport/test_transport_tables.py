"""The tables of the transport, each pair of them by its real effect on calls and connections."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import Call, ReplyBound, Role
from rpcrdma.transport import requester as requester_module
from rpcrdma.transport.call_states import TRANSITIONS as CALL_TRANSITIONS
from rpcrdma.transport.call_states import CallInput, CallState
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Cause, Inbound, Kind, Refusal
from rpcrdma.wire.buffers import Buffer
from support.octets import words

CALL, REPLY = 0, 1
FIRST, OTHER = 1, 2
K = TypeVar("K")
V = TypeVar("V")


class Observed(dict[K, V]):
    """A table that remembers its look-ups; a pair that it lacks is an error."""

    def __init__(self, table: Mapping[K, V]) -> None:
        super().__init__(table)
        self.used: set[K] = set()

    def __getitem__(self, key: K) -> V:
        self.used.add(key)
        return super().__getitem__(key)


class Mending(Version1):
    """Errors with more than 20 octets ask for a larger Reply chunk."""

    def decode(self, data: Buffer) -> Inbound | None:
        if len(data) == 24 and data[12:16] == struct.pack(">I", 4):
            xid, version, credits_, *_, needed = struct.unpack(">6I", data)
            return Inbound(Kind.ERROR, xid, credits_, version, refusal=Refusal(Cause.REPLY_RESOURCE, needed=needed))
        return super().decode(data)


def reply(xid: int, granted: int = 2) -> bytes:
    return words(xid, 1, granted, 0, 0, 0, 0, xid, REPLY)


class Caller(BarePeer):
    """A client with one credit, and the call that is looked at."""

    def __init__(self) -> None:
        super().__init__(Role.CLIENT, dialects=(Mending(),))

    def called(self, xid: int) -> Call:
        handle = self.endpoint.call(xid, message(xid, CALL), ReplyBound(8))
        self.run()
        return handle


def queued(peer: Caller) -> Call:
    peer.called(OTHER)
    return peer.called(FIRST)


def sent(peer: Caller) -> Call:
    return peer.called(FIRST)


def abandoned(peer: Caller) -> Call:
    handle = sent(peer)
    peer.endpoint.abandon(handle)
    return handle


def done(peer: Caller) -> Call:
    handle = sent(peer)
    peer.send(reply(FIRST))
    return handle


BROUGHT: dict[CallState, Callable[[Caller], Call]] = {
    CallState.QUEUED: queued,
    CallState.SENT: sent,
    CallState.ABANDONED: abandoned,
    CallState.DONE: done,
}
EVENTS: dict[str, Callable[[Caller, Call], object]] = {
    "the other call is answered": lambda peer, _: peer.send(reply(OTHER)),
    "it is answered": lambda peer, _: peer.send(reply(FIRST)),
    "it is refused for good": lambda peer, _: peer.send(words(FIRST, 1, 9, 4, 2)),
    "it is refused for its Reply chunk": lambda peer, _: peer.send(words(FIRST, 1, 9, 4, 9, 9000)),
    "its caller abandons it": lambda peer, handle: peer.endpoint.abandon(handle),
    "the connection ends": lambda peer, _: peer.qp.abort("the test ends it"),
}
AFTERWARDS = {
    (CallState.QUEUED, "the other call is answered"): CallState.SENT,
    (CallState.QUEUED, "its caller abandons it"): CallState.DONE,
    (CallState.QUEUED, "the connection ends"): CallState.DONE,
    (CallState.SENT, "it is answered"): CallState.DONE,
    (CallState.SENT, "it is refused for good"): CallState.DONE,
    (CallState.SENT, "it is refused for its Reply chunk"): CallState.SENT,
    (CallState.SENT, "its caller abandons it"): CallState.ABANDONED,
    (CallState.SENT, "the connection ends"): CallState.DONE,
    (CallState.ABANDONED, "it is answered"): CallState.DONE,
    (CallState.ABANDONED, "it is refused for good"): CallState.DONE,
    (CallState.ABANDONED, "it is refused for its Reply chunk"): CallState.DONE,
    (CallState.ABANDONED, "the connection ends"): CallState.DONE,
}
"""All other events leave a call where it is."""


def happen(state: CallState, event: str) -> None:
    peer = Caller()
    handle = BROUGHT[state](peer)
    assert handle.state is state
    EVENTS[event](peer, handle)
    peer.run()
    assert handle.state is AFTERWARDS.get((state, event), state)
    assert (handle.payload is None) == (handle.state in {CallState.ABANDONED, CallState.DONE}), "kept to be sent again"


def test_calls_take_every_way_of_their_table_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Observed(CALL_TRANSITIONS)
    monkeypatch.setattr(requester_module, "TRANSITIONS", table)
    for state, event in itertools.product(CallState, EVENTS):
        happen(state, event)
    # A call whose turn comes and that cannot be sent.
    peer = Caller()
    peer.called(OTHER)
    handle = peer.endpoint.call(FIRST, message(FIRST, CALL), ReplyBound(8, (5000,)), (bytes(5000),))
    peer.send(reply(OTHER))
    assert handle.state is CallState.DONE
    assert table.used == set(table)
    assert len(set(itertools.product(CallState, CallInput)) - set(table)) == 7, "pairs that cannot come about"
