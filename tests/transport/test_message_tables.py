"""The tables of the transport in a version that counts messages, each row by its effect on connections and messages.

States and inputs of host authentication, which has tables of its own to be driven by, are not among them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, made_call, message
from rpcrdma.transport import Closed, ReplyBound, Role
from rpcrdma.transport import session as session_module
from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.connection_states import MAY_LEAVE, TRANSITIONS, Input, State
from rpcrdma.transport.message import Cause, Kind, Outgoing, OutgoingError, OutgoingGrant, OutgoingProperties, Refusal
from rpcrdma.transport.routing import ROUTES
from rpcrdma.verbs import Access
from rpcrdma.xdr.codec import Decoder
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import CONNPROP, MORE, NOMSG, RESPONSE

CALL, REPLY = 0, 1
XID = 9
SETTLE_S = 0.25
PAIRS_OF_AUTHENTICATION = {
    pair for pair in TRANSITIONS if pair[0] is State.AUTHENTICATING or pair[1] is Input.AUTHENTICATE
}
CANNOT_COME_ABOUT = {
    # No message is looked at before the provider's connection stands, and none after the first breach.
    (State.CONNECTING, Input.BREAK),
    (State.BROKEN, Input.BREAK),
}


def rpc(direction: int, xid: int = XID) -> bytes:
    return struct.pack(">II", xid, direction)


MESSAGES = {
    Kind.CALL: raw.message(XID, rpc(CALL)),
    Kind.REPLY: raw.message(XID, rpc(REPLY), RESPONSE),
    Kind.ERROR: raw.error(XID, 10),
    Kind.UNREADABLE: raw.prefix(XID, 77, give=1),
    Kind.PROPERTIES: raw.properties(xid=XID),
    Kind.GRANT: raw.grant(1),
    Kind.PIECE: raw.message(XID, rpc(CALL), MORE),
}
OLDER = struct.pack(">IIIIIII", XID, 1, 32, 0, 0, 0, 0) + rpc(CALL)
REFUSED = struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 1, 1)


def client(settle_s: float = 0.0, versions: str = "auto") -> BareMessages:
    return BareMessages(Role.CLIENT, introduce=False, versions=versions, settle_s=settle_s, reverse=True)


def server(versions: str = "auto") -> BareMessages:
    return BareMessages(Role.SERVER, introduce=False, versions=versions, reverse=True)


def settling(versions: str = "auto") -> BareMessages:
    peer = client(SETTLE_S, versions)
    assert peer.endpoint.untimed
    assert peer.endpoint.next_deadline_s(1.0) == 1.0 + SETTLE_S
    assert not peer.endpoint.untimed, "once is enough"
    return peer


def settled(versions: str) -> BareMessages:
    peer = settling(versions)
    peer.endpoint.on_time(1.0 + SETTLE_S)
    peer.run()
    return peer


def sent(peer: BareMessages, *messages: bytes, invalidate: int | None = None) -> BareMessages:
    for octets in messages:
        peer.send(octets, invalidate=invalidate)
    return peer


def breaking(peer: BareMessages) -> BareMessages:
    """More messages than credits allow, where that state counts them; else one that invalidates something."""
    region = peer.endpoint_pd.register(bytearray(8), Access.REMOTE_WRITE)
    return sent(peer, b"x", invalidate=region.handle)


def ended(peer: BareMessages) -> BareMessages:
    peer.qp.abort("the test ends it")
    peer.run()
    return peer


def introducing_server() -> BareMessages:
    return sent(server(), raw.prefix(XID, CONNPROP, MORE, give=1))


def overrun(peer: BareMessages) -> BareMessages:
    """More messages than credits allow, posted before the endpoint sees the first, so that the end comes after."""
    region = peer.endpoint_pd.register(bytearray(8), Access.REMOTE_WRITE)
    peer.qp.post_send("send", [b"x"], invalidate=region.handle, signaled=False)
    peer.qp.post_send("send", [b"x"], signaled=False)
    peer.run()
    return peer


DRIVES: dict[tuple[State, Input], Callable[[], BarePeer]] = {
    (State.CONNECTING, Input.SETTLE): settling,
    (State.CONNECTING, Input.AWAIT): server,
    (State.CONNECTING, Input.INTRODUCE): client,
    (State.CONNECTING, Input.AGREE): lambda: BarePeer(Role.CLIENT),
    (State.SETTLING, Input.INTRODUCE): lambda: settled("auto"),
    (State.SETTLING, Input.AGREE): lambda: settled("1"),
    (State.SETTLING, Input.BREAK): lambda: breaking(settling()),
    (State.SETTLING, Input.END): lambda: ended(settling()),
    (State.AWAITING, Input.INTRODUCE): introducing_server,
    (State.AWAITING, Input.AGREE): lambda: sent(server(), OLDER),
    (State.AWAITING, Input.BREAK): lambda: breaking(server()),
    (State.AWAITING, Input.END): lambda: ended(server()),
    (State.INTRODUCING, Input.AGREE): lambda: sent(client(), raw.properties()),
    (State.INTRODUCING, Input.BREAK): lambda: breaking(client()),
    (State.INTRODUCING, Input.END): lambda: ended(client()),
    (State.OPEN, Input.BREAK): lambda: breaking(sent(client(), raw.properties())),
    (State.OPEN, Input.END): lambda: ended(sent(client(), raw.properties())),
    (State.BROKEN, Input.END): lambda: overrun(sent(client(), raw.properties())),
}
"""For each pair, something by which it comes about."""


class Observed(dict[tuple[State, Input], State]):
    """A table that remembers its look-ups; a pair that it lacks is an error."""

    def __init__(self) -> None:
        super().__init__(TRANSITIONS)
        self.used: list[tuple[State, Input]] = []

    def __getitem__(self, key: tuple[State, Input]) -> State:
        self.used.append(key)
        return super().__getitem__(key)


@each_case("pair", DRIVES)
def test_a_transition_comes_about(pair: tuple[State, Input], monkeypatch: pytest.MonkeyPatch) -> None:
    table = Observed()
    monkeypatch.setattr(session_module, "TRANSITIONS", table)
    peer = DRIVES[pair]()
    assert pair in table.used
    assert peer.endpoint._session.state in {TRANSITIONS[pair], State.CLOSED}


def test_a_connection_that_is_refused_ends_before_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Observed()
    monkeypatch.setattr(session_module, "TRANSITIONS", table)

    pair = EndpointPair(version="2")
    pair.client_qp.abort("refused")
    pair.run()
    assert [type(event) for event in pair.client_events()] == [Closed]
    assert table.used.count((State.CONNECTING, Input.END)) == len(table.used)


def test_every_transition_is_driven_or_cannot_come_about() -> None:
    driven = set(DRIVES) | {(State.CONNECTING, Input.END)}
    assert driven | CANNOT_COME_ABOUT | PAIRS_OF_AUTHENTICATION == set(TRANSITIONS)
    assert not driven & (CANNOT_COME_ABOUT | PAIRS_OF_AUTHENTICATION)


# Who takes a message


def opened(role: Role) -> BareMessages:
    peer = BareMessages(role, reverse=True)
    if role is Role.SERVER:
        peer.endpoint.allow_reverse()
    return peer


STATES: dict[tuple[Role, State], Callable[[], BareMessages]] = {
    (Role.CLIENT, State.SETTLING): settling,
    (Role.CLIENT, State.INTRODUCING): client,
    (Role.SERVER, State.AWAITING): server,
    (Role.SERVER, State.INTRODUCING): lambda: sent(server(), raw.error(XID, 10)),
    (Role.CLIENT, State.OPEN): lambda: opened(Role.CLIENT),
    (Role.SERVER, State.OPEN): lambda: opened(Role.SERVER),
}

# The message itself ends the state, in which it is not routed any more.
MOVED_ON = {
    **{(kind, Role.SERVER, State.AWAITING): State.OPEN for kind in (Kind.CALL, Kind.REPLY, Kind.GRANT)},
    **{
        (kind, Role.SERVER, State.AWAITING): State.INTRODUCING
        for kind in (Kind.ERROR, Kind.UNREADABLE, Kind.PROPERTIES, Kind.PIECE)
    },
    **{(kind, role, State.INTRODUCING): State.OPEN for kind in (Kind.CALL, Kind.REPLY, Kind.GRANT) for role in Role},
}


@each_case("kind", MESSAGES)
@each_case(("role", "state"), STATES)
def test_each_kind_of_message_is_for_whom_the_table_says(kind: Kind, role: Role, state: State) -> None:
    peer = STATES[role, state]()
    assert peer.endpoint._session.state is state
    if kind in {Kind.REPLY, Kind.ERROR} and state is State.OPEN:
        peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    peer.heard()
    before = peer.endpoint.statistics.discarded
    peer.send(MESSAGES[kind])
    taken = (kind, role, MOVED_ON.get((kind, role, state), state)) in ROUTES
    if kind is Kind.REPLY and state is not State.OPEN:
        # It is for the requester, which knows no such call yet.
        taken = False
    assert peer.endpoint.statistics.discarded == before + (not taken)
    events = {type(event).__name__ for event in peer.endpoint_events()}
    told = {Kind.CALL: "CallArrived", Kind.REPLY: "ReplyArrived", Kind.ERROR: "CallFailed"}.get(kind)
    if taken and told and (kind is Kind.CALL or state is State.OPEN):
        assert told in events
    answered = any(each.kind == 4 for each in peer.heard())
    refused = kind is Kind.UNREADABLE or (kind is Kind.PROPERTIES and state is State.OPEN)
    assert answered == (refused and taken)


def test_a_version_that_nobody_speaks_is_answered_while_the_first_message_is_awaited() -> None:
    peer = server()
    (answer,) = peer.send(raw.prefix(XID, 0, version=9))
    assert struct.unpack(">II4xIIII", answer) == (XID, 9, 4, 1, 1, 2)
    assert peer.endpoint._session.state is State.AWAITING
    assert (Kind.UNREADABLE, Role.SERVER, State.AWAITING) in ROUTES


def test_a_client_whose_first_message_is_refused_for_its_version_goes_on_with_another() -> None:
    peer = client()
    assert peer.send(REFUSED) == []
    assert peer.endpoint.version == 1
    assert (Kind.ERROR, Role.CLIENT, State.INTRODUCING) in ROUTES


def test_rows_stand_only_for_states_in_which_messages_are_taken() -> None:
    reached = {(role, state) for role, state in STATES if state is not State.SETTLING}
    reached |= {(role, State.AUTHENTICATING) for role in Role}
    assert {(role, state) for _, role, state in ROUTES} == reached


def test_nothing_is_taken_once_the_peer_broke_the_protocol() -> None:
    peer = opened(Role.SERVER)
    region = peer.endpoint_pd.register(bytearray(8), Access.REMOTE_WRITE)
    peer.qp.post_send("send", [b"x"], invalidate=region.handle, signaled=False)
    for octets in MESSAGES.values():
        peer.qp.post_send("send", [octets], signaled=False)
    peer.run()
    assert [type(event) for event in peer.endpoint_events()] == [Closed]
    assert peer.heard() == []


# Messages that may leave


def outgoing(kind: Kind) -> Outgoing:
    if kind is Kind.CALL:
        return made_call(XID, message(XID, CALL), ReplyBound(8), ())
    if kind is Kind.REPLY:
        incoming = IncomingCall(XID, Decoder(b""))
        incoming.ready = bytes(message(XID, REPLY).reduced)
        return incoming
    if kind is Kind.ERROR:
        return OutgoingError(XID, 2, Refusal(Cause.SYSTEM), answers_call=False)
    if kind is Kind.PROPERTIES:
        return OutgoingProperties(XID, raw.property_set((2, raw.word(4096))))
    return OutgoingGrant()


SENT_KINDS = (Kind.CALL, Kind.REPLY, Kind.ERROR, Kind.PROPERTIES)


@each_case("state", State)
@each_case("kind", SENT_KINDS)
def test_each_kind_of_message_leaves_in_the_states_that_the_table_says(kind: Kind, state: State) -> None:
    peer = opened(Role.SERVER)
    session, outbox = peer.endpoint._session, peer.endpoint._outbox
    session.state = state
    preparer = peer.endpoint.requester if kind is Kind.CALL else None
    assert outbox.send(outgoing(kind), preparer) == (kind in MAY_LEAVE[state])
    assert outbox.waiting(kind) == (kind not in MAY_LEAVE[state])
    # A waiting message goes out as soon as the state allows it.
    session.state = State.OPEN
    outbox.drain()
    assert outbox.waiting(kind) == 0
    assert [each.xid for each in peer.heard() if each.xid] == [XID]


@each_case("state", State)
def test_grants_leave_in_the_states_that_the_table_says(state: State) -> None:
    peer = opened(Role.SERVER)
    peer.endpoint._session.state = state
    peer.endpoint._outbox.send_grant()
    peer.endpoint._session.state = State.OPEN
    grants = [each for each in peer.heard() if (each.kind, each.xid) == (NOMSG, 0)]
    assert len(grants) == (Kind.GRANT in MAY_LEAVE[state])


def test_calls_that_were_made_early_leave_when_the_peer_has_told_its_properties() -> None:
    peer = settling()
    handle = peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    assert peer.received == []
    peer.endpoint.on_time(1.0 + SETTLE_S)
    assert [each.kind for each in peer.heard()] == [CONNPROP]
    assert peer.endpoint.calls_in_flight == 0
    peer.send(raw.properties())
    assert [each.xid for each in peer.heard()] == [handle.xid]


def test_calls_of_a_server_wait_for_the_clients_word() -> None:
    peer = BareMessages(Role.SERVER, reverse=True)
    with pytest.raises(LocalProtocolError, match="ready for calls"):
        peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    peer.endpoint.allow_reverse()
    peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    assert [each.xid for each in peer.heard()] == [XID]


def test_every_kind_is_driven() -> None:
    # Those of extensions are in test_extensions.py.
    kinds = set(Kind) - {Kind.EXTENSION}
    assert set(MESSAGES) == kinds
    assert {*SENT_KINDS, Kind.GRANT} == kinds - {Kind.UNREADABLE, Kind.PIECE}, "the others are only received"
    assert set(MAY_LEAVE) == set(State)
    assert all(pair in itertools.product(State, Input) for pair in TRANSITIONS)
