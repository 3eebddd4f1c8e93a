"""The gate for Sends, before a window that holds back replies as well: one whose credits count every message."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, message
from rpcrdma.transport import CallArrived, Closed, ReplyArrived, ReplyBound, ReplySent, Role, TransportConfig
from rpcrdma.transport.dialects.header_v1 import RdmaError, RdmaMsg, decode_header
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Inbound, Outgoing
from rpcrdma.verbs import Access
from support.cases import each_case

CALL, REPLY = 0, 1


class EveryMessage:
    """Credits that count Sends of any kind; each received call gives back the balance that it names."""

    counts_arrivals = False
    low = refresh_due = False

    def __init__(self) -> None:
        self.allowed = self.granted = 64
        self.receives_wanted = 80
        self.balance = self.in_flight = 0

    def admit(self, _outgoing: Outgoing) -> int:
        assert self.balance
        self.balance -= 1
        return 0

    def on_received(self, inbound: Inbound) -> bool:
        self.balance += inbound.credit_word
        return True

    def may_owe(self, _sends: int) -> bool:
        return True


class Counted(Version1):
    def __init__(self) -> None:
        self.credits = EveryMessage()

    def window(self, *_: object, **__: object) -> EveryMessage:  # type: ignore[override]
        return self.credits


class Server(BarePeer):
    """A server that also calls."""

    def __init__(self) -> None:
        self.dialect = Counted()
        super().__init__(Role.SERVER, TransportConfig(reverse_chunks=True), reverse=True, dialects=(self.dialect,))
        self.endpoint.allow_reverse()

    def called(self, xid: int, *, credit: int = 0, chunks: bytes = bytes(12)) -> CallArrived:
        self.send(struct.pack(">IIII", xid, 1, credit, 0) + chunks + struct.pack(">II", xid, CALL))
        (event,) = self.endpoint_events()
        assert isinstance(event, CallArrived)
        return event

    def heard(self) -> list[tuple[str, int]]:
        """The messages that the peer has received since the last call of this."""
        heard = []
        for octets in self.received:
            header = decode_header(octets)
            kind = "error" if isinstance(header, RdmaError) else "reply" if octets[35] else "call"
            heard.append((kind, header.xid))
        self.received.clear()
        return heard

    def credit(self, count: int) -> None:
        """The peer gives so many credits, and the endpoint's owner lets it go on."""
        self.dialect.credits.balance += count
        self.endpoint._outbox.drain()
        self.run()


def test_errors_go_first_and_calls_last() -> None:
    server = Server()
    server.endpoint.call(50, message(50, CALL), ReplyBound(8))
    first = server.called(1).incoming
    second = server.called(2).incoming
    third = server.called(3).incoming
    server.endpoint.reply(first, message(1, REPLY))
    server.endpoint.fail_call(second)
    server.endpoint.call(51, message(51, CALL), ReplyBound(8))
    server.endpoint.reply(third, message(3, REPLY))
    server.run()
    assert server.heard() == []
    server.credit(2)
    assert server.heard() == [("error", 2), ("reply", 1)]
    server.credit(2)
    assert server.heard() == [("reply", 3), ("call", 50)]
    server.credit(1)
    assert server.heard() == [("call", 51)]


def test_a_message_does_not_overtake_one_that_goes_first() -> None:
    server = Server()
    server.endpoint.call(50, message(50, CALL), ReplyBound(8))
    server.dialect.credits.balance = 1
    server.endpoint.call(51, message(51, CALL), ReplyBound(8))
    server.run()
    assert server.heard() == [], "the older one has not gone yet"
    waiting = server.called(1).incoming
    server.endpoint.reply(waiting, message(1, REPLY))
    server.run()
    assert server.heard() == [("reply", 1)]


def test_a_reply_that_waits_writes_nothing_before_it_goes() -> None:
    server = Server()
    memory = bytearray(5000)
    region = server.pd.register(memory, Access.REMOTE_WRITE)
    chunks = struct.pack(">IIIIIQII", 0, 1, 1, region.handle, 5000, region.offset, 0, 0)
    incoming = server.called(1, chunks=chunks).incoming
    assert server.endpoint.reply(incoming, message(1, REPLY, (b"", b"\x07" * 5000)))
    server.run()
    assert memory == bytes(5000)
    assert server.endpoint.timed, "its buffers are in use"
    server.credit(1)
    assert memory == b"\x07" * 5000
    (reply,) = server.received
    assert isinstance(decode_header(reply), RdmaMsg)


def test_a_reply_that_waits_gives_its_buffers_back_when_the_connection_ends() -> None:
    server = Server()
    region = server.pd.register(bytearray(200), Access.REMOTE_WRITE)
    chunks = struct.pack(">IIIIIQII", 0, 1, 1, region.handle, 200, region.offset, 0, 0)
    incoming = server.called(1, chunks=chunks).incoming
    plain = server.called(2).incoming
    assert server.endpoint.reply(incoming, message(1, REPLY, (b"", bytes(200))))
    assert not server.endpoint.reply(plain, message(2, REPLY))
    server.qp.abort("the test ends it")
    server.run()
    sent, closed = server.endpoint_events()
    assert sent == ReplySent(incoming)
    assert isinstance(closed, Closed)
    assert not server.endpoint.timed


@each_case("version", ["1", "2"])
def test_a_call_that_cannot_be_sent_takes_no_credit(version: str) -> None:
    """It is decided first how a message travels, and then its credits are taken: there are none to give back."""
    pair = EndpointPair(version=version).connect()
    window = pair.client._session.window
    slots = [name for part in type(window).__mro__ for name in getattr(part, "__slots__", ())]
    before = [getattr(window, name) for name in slots]
    with pytest.raises(LocalProtocolError):
        pair.client.call(50, message(50, CALL), ReplyBound(8, (1 << 20,)), (memoryview(bytes(1 << 20)),))
    assert [getattr(window, name) for name in slots] == before
    pair.client.call(51, message(51, CALL), ReplyBound(8))
    assert [call.xid for call in pair.arrived()] == [51]


@each_case("credit", [1, 3])
def test_what_waits_goes_when_a_reply_brings_credits(credit: int) -> None:
    server = Server()
    server.dialect.credits.balance = 1
    for xid in (50, 51, 52, 53):
        server.endpoint.call(xid, message(xid, CALL), ReplyBound(8))
    server.run()
    assert server.heard() == [("call", 50)]
    server.send(struct.pack(">IIIIIIIII", 50, 1, credit, 0, 0, 0, 0, 50, REPLY))
    assert [type(event) for event in server.endpoint_events()] == [ReplyArrived]
    assert server.heard() == [("call", xid) for xid in (51, 52, 53)[:credit]]
