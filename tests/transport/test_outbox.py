"""The gate for Sends, before a window that holds back replies as well: one whose credits count every message."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.errors import OutOfMemory
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import CallArrived, CallFailed, Closed, ReplyBound, ReplySent, Role, TransportConfig
from rpcrdma.transport.dialects.header_v1 import RdmaError, decode_header
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Inbound, Outgoing
from rpcrdma.verbs import Access
from rpcrdma.wire import bulk_memory
from rpcrdma.wire.bulk_memory import PooledMemory
from rpcrdma.xdr.codec import Payload
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
    outbox = server.endpoint._outbox
    assert (server.heard(), outbox.queued) == ([], 5)
    server.credit(2)
    assert (server.heard(), outbox.queued) == ([("error", 2), ("reply", 1)], 3)
    server.credit(2)
    assert (server.heard(), outbox.queued) == ([("reply", 3), ("call", 50)], 1)
    server.credit(1)
    assert (server.heard(), outbox.queued) == ([("call", 51)], 0)


def without_memory(*_: object) -> None:
    raise MemoryError


@each_case(("argument", "result"), [(0, 1 << 20), (0, 5000), (100, 0)])
def test_a_call_without_memory_fails_alone(argument: int, result: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    bound = ReplyBound(8, (result,)) if result else ReplyBound(8)
    parts = [(b"", bytes(argument))] if argument else []
    server.endpoint.call(50, message(50, CALL, *parts), bound)
    server.endpoint.call(51, message(51, CALL), ReplyBound(8))
    monkeypatch.setattr(bulk_memory, "PooledMemory", lambda _octets: PooledMemory(1 << 60))
    monkeypatch.setattr(bulk_memory, "bytearray", without_memory, raising=False)
    monkeypatch.setattr(Payload, "gather", without_memory)
    server.credit(2)
    (failed,) = server.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert (failed.call.xid, type(failed.error)) == (50, OutOfMemory)
    assert (server.heard(), server.endpoint._outbox.queued) == ([("call", 51)], 0)
    # Nor does one that need not wait.
    with pytest.raises(OutOfMemory):
        server.endpoint.call(52, message(52, CALL, *parts), bound)
    assert (failed.call.transmissions, server.endpoint.reverse_calls_in_flight) == (0, 1)
    assert server.endpoint.statistics.calls_unsendable == 2
    assert not server.endpoint_pd.regions


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
    assert server.endpoint._session.owed == 0
