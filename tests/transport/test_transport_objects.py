"""Objects of a connection have all of their attributes from the beginning, and begin with nothing in progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import EndpointPair, made_call, message
from rpcrdma.transport.assembly import Assembly
from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.config import Role
from rpcrdma.transport.host_authentication import HostAuthenticator
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    Outgoing,
    OutgoingError,
    OutgoingExtension,
    OutgoingGrant,
    OutgoingProperties,
    Refusal,
)
from rpcrdma.transport.message_credits import MessageWindow
from rpcrdma.transport.message_memory import MessageMemory
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
    made = MADE[name]()
    assert missing(made) == []
    if isinstance(made, Outgoing):
        assert (made.chunks, made.long, made.ends, made.group) == (NO_CHUNKS, False, None, None)


def test_what_a_received_message_or_a_refusal_does_not_have_is_nothing() -> None:
    found = Inbound(Kind.CALL, 7, 1, 1)
    assert (found.chunks, found.data, found.start, found.long, found.ends) == (NO_CHUNKS, b"", 0, False, None)
    assert (found.refusal, found.properties, found.broken) == (None, (), None)
    assert (found.header_type, found.flags, found.answers) == (0, 0, False)
    assert Refusal(Cause.SYSTEM)[1:] == (*[0] * 6, ())
