"""Objects of a connection have all of their attributes from the beginning, and begin with nothing in progress."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, made_call, message
from rpcrdma.transport import offered
from rpcrdma.transport.assembly import Assembly
from rpcrdma.transport.authenticator import HostPolicy
from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.call_states import CallState
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.config import Role
from rpcrdma.transport.events import CallArrived
from rpcrdma.transport.host_authentication import HandshakeState, HostAuthenticator, _Tls
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    OutgoingError,
    OutgoingExtension,
    OutgoingGrant,
    OutgoingProperties,
    Refusal,
)
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.message_windows import MessageWindow
from rpcrdma.transport.responder import PlainBuffers
from rpcrdma.xdr.codec import Decoder, Payload
from support.cases import each_case


def slots_of(made: object) -> list[str]:
    return [slot for each in type(made).__mro__ for slot in getattr(each, "__slots__", ()) if slot[:2] != "__"]


def missing(made: object) -> list[str]:
    return [f"{type(made).__name__}.{slot}" for slot in slots_of(made) if not hasattr(made, slot)]


def parts_of(whole: object) -> list[object]:
    """It, and all objects of the transport that it holds."""
    found: dict[int, object] = {}
    left = [whole]
    while left:
        part = left.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        held = [getattr(part, slot) for slot in slots_of(part) if hasattr(part, slot)]
        if isinstance(part, list | tuple):
            held += part
        left += [
            each for each in held if isinstance(each, list | tuple) or "rpcrdma.transport" in type(each).__module__
        ]
    return list(found.values())


@each_case("role", list(Role))
def test_pieces_count_in_the_memory_of_their_connection(role: Role) -> None:
    buffers = PlainBuffers()
    endpoint = BarePeer(role, dialects=offered("2"), ready=False).endpoint
    pair = EndpointPair(version="2", buffers=buffers)
    assert pair.server._memory._room is buffers
    assert pair.client._memory._room is None
    dialect: Any = endpoint._session.dialect
    assert dialect._assembly.memory is endpoint._memory


def test_a_call_that_arrives_waits_for_no_reads_at_first() -> None:
    incoming = IncomingCall(7, Decoder(b""))
    assert (incoming.xid, incoming.pending_reads) == (7, 0)


@each_case("role", list(Role))
def test_only_a_server_takes_the_side_of_the_server_in_tls(role: Role) -> None:
    class Context:
        def wrap_bio(self, incoming: object, outgoing: object, *, server_side: bool) -> object:
            return incoming, outgoing, server_side

    context: Any = Context()
    tls = _Tls(context, role)
    assert tls.of == (tls.incoming, tls.outgoing, role is Role.SERVER)


@each_case("reverse", [False, True])
@each_case("version", ["1", "2"])
def test_no_attribute_of_a_connection_is_missing(version: str, reverse: bool) -> None:
    pair = EndpointPair(version=version, reverse=reverse)
    for end in (pair.client, pair.server):
        parts = parts_of(end)
        assert len(parts) >= 10
        assert [each for part in parts for each in missing(part)] == []
    pair.connect()
    handle = pair.client.call(1, message(1, 0, (b"", bytes(20_000))), ReplyBound(8, (5000,)))
    (incoming,) = pair.arrived()
    for whole in (pair.client, pair.server, handle, incoming):
        assert [each for part in parts_of(whole) for each in missing(part)] == []


MADE: dict[str, Callable[[], Any]] = {
    "Assembly": Assembly,
    "Call": lambda: made_call(7, Payload(b""), ReplyBound(8), ()),
    "HostAuthenticator": lambda: HostAuthenticator(None, Role.CLIENT, HostPolicy.OFF),
    "IncomingCall": lambda: IncomingCall(7, Decoder(b"")),
    "MessageMemory": MessageMemory,
    "MessageWindow": lambda: MessageWindow(4, 4),
    "OutgoingError": lambda: OutgoingError(7, 1, Refusal(Cause.SYSTEM), answers_call=True),
    "OutgoingExtension": lambda: OutgoingExtension(7, 1, 0, (), answer=False),
    "OutgoingGrant": OutgoingGrant,
    "OutgoingProperties": lambda: OutgoingProperties(7, ()),
}


@each_case("name", MADE)
def test_no_attribute_is_missing(name: str) -> None:
    assert missing(MADE[name]()) == []


def test_a_call_begins_with_nothing_in_progress() -> None:
    payload, bound, into = Payload(b"call"), ReplyBound(8), (memoryview(bytearray(4)),)
    handle = made_call(7, payload, bound, into)
    assert (handle.xid, handle.payload, tuple(handle.into), handle.kind) == (7, payload, into, Kind.CALL)
    assert (handle.answers_call, handle.long, handle.ends, handle.group) == (False, False, None, None)
    assert handle.chunks is NO_CHUNKS
    assert (handle.carried, handle.sending, handle.placement) == (None, False, "")
    assert (handle.future, handle.state, handle.exposure) == (None, CallState.QUEUED, None)
    assert tuple(handle.form) == (bound, 1, False, False, 0, False)
    assert repr(handle) == "<Call NULL xid=0x00000007>"


@each_case(("long", "ends"), [(False, None), (True, 5)])
def test_an_arrived_call_begins_as_its_message_says(long: bool, ends: int | None) -> None:
    server = BarePeer(Role.SERVER)
    assert server.endpoint.responder is not None
    data = struct.pack(">II", 7, 0)
    assert server.endpoint.responder.on_call(Inbound(Kind.CALL, 7, 1, 1, data=data, long=long, ends=ends), None)
    (event,) = server.endpoint_events()
    assert isinstance(event, CallArrived)
    incoming = event.incoming
    assert (incoming.xid, incoming.long, incoming.invalidates, incoming.carried) == (7, long, ends, None)
    assert incoming.chunks is NO_CHUNKS
    assert (incoming.answered, incoming.refusal, incoming.plan) == (False, "", None)
    assert (incoming.pending_reads, incoming.held_octets, incoming.message_octets) == (0, 0, 0)
    assert (incoming.sink, incoming.sink_region) == (None, None)
    assert repr(incoming) == "<IncomingCall xid=0x00000007>"
    assert (incoming.kind, incoming.answers_call, incoming.ends, incoming.group) == (Kind.REPLY, True, None, None)


@each_case("answers", [False, True])
def test_messages_begin_as_they_are_made(answers: bool) -> None:
    refusal = Refusal(Cause.SYSTEM)
    error = OutgoingError(7, 2, refusal, answers_call=answers)
    assert (error.xid, error.version, error.refusal, error.answers_call, error.kind) == (
        7,
        2,
        refusal,
        answers,
        Kind.ERROR,
    )
    extension = OutgoingExtension(8, 9, 1, (b"body",), answer=answers)
    assert (extension.header_type, extension.flags, extension.ready, extension.answer) == (9, 1, (b"body",), answers)
    properties = OutgoingProperties(9, b"x")
    grant = OutgoingGrant()
    assert (properties.ready, error.ready, grant.xid) == ((b"x",), b"", 0)
    assert [each.kind for each in (extension, properties, grant)] == [Kind.EXTENSION, Kind.PROPERTIES, Kind.GRANT]
    for each in (extension, properties, grant):
        assert not each.answers_call
    for each in (error, extension, properties, grant):
        assert (each.long, each.ends, each.group) == (False, None, None)
        assert each.chunks is NO_CHUNKS


def test_what_messages_are_has_its_numbers() -> None:
    # Tables are looked up by these numbers.
    assert [kind.name for kind in sorted(Kind)] == [
        "CALL",
        "REPLY",
        "ERROR",
        "UNREADABLE",
        "PROPERTIES",
        "GRANT",
        "PIECE",
        "EXTENSION",
    ]
    assert [int(kind) for kind in Kind] == list(range(8))


def test_an_authenticator_begins_waiting_and_knows_no_peer() -> None:
    for policy in HostPolicy:
        if policy is HostPolicy.OFF:
            made = HostAuthenticator(None, Role.CLIENT, policy)
            assert (made.state, made.required, made.finished) == (HandshakeState.WAITING, False, False)
            assert (made.peer, made.announce()) == (None, None)
        else:
            with pytest.raises(AssertionError):
                HostAuthenticator(None, Role.CLIENT, policy)
