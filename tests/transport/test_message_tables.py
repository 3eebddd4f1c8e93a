"""The tables of the transport in a version that counts messages, each row by its effect on connections and messages.

States and inputs of host authentication, which has tables of its own to be driven by, are not among them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Closed, ReplyBound, Role
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.message import Kind
from rpcrdma.transport.routing import ROUTES
from rpcrdma.verbs import Access
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import CONNPROP, MORE, RESPONSE

CALL, REPLY = 0, 1
XID = 9
SETTLE_S = 0.25


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


def sent(peer: BareMessages, *messages: bytes, invalidate: int | None = None) -> BareMessages:
    for octets in messages:
        peer.send(octets, invalidate=invalidate)
    return peer


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


def test_calls_that_were_made_early_leave_when_the_peer_has_told_its_properties() -> None:
    peer = settling()
    handle = peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    assert peer.received == []
    peer.endpoint.on_time(1.0 + SETTLE_S)
    assert [each.kind for each in peer.heard()] == [CONNPROP]
    assert peer.endpoint.calls_in_flight == 0
    peer.send(raw.properties())
    assert [each.xid for each in peer.heard()] == [handle.xid]
