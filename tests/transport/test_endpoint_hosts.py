"""Host authentication as an endpoint drives it: against a peer that sends any values."""

from __future__ import annotations

import itertools
import struct

import pytest

from rpcrdma.limits import NEGOTIATION_S
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import CallArrived, Closed, Ready, Role, TransportConfig, offered
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.dialects import encode_property_set
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.host_authentication import HandshakeState, HostAuthenticator
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingGrant, OutgoingProperties, PropertySet
from rpcrdma.transport.properties import HOST_AUTHENTICATION, encode_host_authentication
from rpcrdma.verbs.queue_pair import Disconnected
from support import raw_messages as raw
from support.cases import each_case
from support.host_pair import ALERT, Hosts

CLIENT, SERVER = Role.CLIENT, Role.SERVER
OFF, REQUIRED = HostPolicy.OFF, HostPolicy.REQUIRED
CREDITS = (64 << 16) + 16
SIZES: PropertySet = ((1, struct.pack(">I", 4096)),)


class Facing(BarePeer):
    """An endpoint of `role` with its authenticator, before a bare peer that tells and hears properties."""

    def __init__(self, role: Role, authenticator: HostAuthenticator | None, *choices: str) -> None:
        super().__init__(
            role,
            TransportConfig(offered_send_octets=4096, offered_receive_octets=4096),
            dialects=[dialect for choice in choices or ("2",) for dialect in offered(choice)],
            authenticator=authenticator,
            ready=False,
        )
        self.dialect = Version2()
        self.credits = CREDITS
        self.xid = 0
        self.xids: list[int] = []

    def tell(self, properties: PropertySet) -> None:
        """Sends transport properties."""
        self.xid += 1
        header = self.dialect.encode(OutgoingProperties(self.xid, properties), self.credits)
        self.send(header + encode_property_set(properties))

    def value(self, value: bytes) -> None:
        self.tell(encode_host_authentication(value))

    def taken(self) -> list[Inbound]:
        """The messages that came since the last time."""
        found = [self.dialect.decode(octets) for octets in self.received]
        self.received.clear()
        return [message for message in found if message is not None and message.kind is not Kind.GRANT]

    def values(self) -> list[bytes | None]:
        """The values of host authentication in the messages that came, which are all of properties."""
        found = self.taken()
        assert {message.kind for message in found} <= {Kind.PROPERTIES}
        self.xids += [message.xid for message in found]
        assert len(set(self.xids)) == len(self.xids)
        raw = [dict(message.properties).get(HOST_AUTHENTICATION) for message in found]
        return [None if data is None else data[4 : 4 + int.from_bytes(data[:4], "big")] for data in raw]

    def closed(self) -> Closed:
        """The last event, which is the only one."""
        (event,) = self.endpoint_events()
        assert isinstance(event, Closed)
        assert any(isinstance(ended, Disconnected) for ended in self.events)
        return event


def machine(hosts: Hosts, role: Role, policy: HostPolicy = REQUIRED) -> HostAuthenticator:
    return HostAuthenticator(hosts.context(role), role, policy)


def authenticating(hosts: Hosts, role: Role) -> tuple[Facing, HostAuthenticator]:
    """An endpoint that is about to get the peer's first flight, and the authenticator of the peer."""
    facing = Facing(role, machine(hosts, role))
    other = machine(hosts, SERVER if role is CLIENT else CLIENT)
    if role is SERVER:
        facing.tell((*SIZES, *encode_host_authentication(other.announce() or b"")))
        (answer,) = facing.values()
        assert other.begin(answer) is not None
    else:
        (announced,) = facing.values()
        assert announced == b""
        facing.tell((*SIZES, *encode_host_authentication(other.begin(announced) or b"")))
        (hello,) = facing.values()
        assert hello
    assert facing.endpoint_events() == []
    return facing, other


def opened(hosts: Hosts, role: Role) -> Facing:
    """An endpoint that has been through host authentication."""
    facing = Facing(role, machine(hosts, role))
    other = machine(hosts, SERVER if role is CLIENT else CLIENT)
    if role is SERVER:
        facing.tell((*SIZES, *encode_host_authentication(other.announce() or b"")))
        value = other.begin(facing.values()[0])
    else:
        facing.tell((*SIZES, *encode_host_authentication(other.begin(facing.values()[0]) or b"")))
        value = other.receive(facing.values()[0] or b"")
    while value is not None:
        facing.value(value)
        answer = facing.values()
        value = other.receive(answer[0] or b"") if answer else None
    assert other.finished
    assert [type(event) for event in facing.endpoint_events()] == [Ready]
    return facing


@each_case("role", Role)
def test_a_peer_that_does_not_go_on_is_left(hosts: Hosts, role: Role) -> None:
    facing, _ = authenticating(hosts, role)
    assert facing.endpoint.untimed
    assert facing.endpoint.next_deadline_s(100.0) == 100.0 + NEGOTIATION_S
    facing.endpoint.on_time(100.0 + NEGOTIATION_S - 0.001)
    facing.run()
    assert facing.endpoint_events() == []
    facing.endpoint.on_time(100.0 + NEGOTIATION_S)
    facing.run()
    assert "host authentication has not come to its end within 5 s" in facing.closed().reason


def test_the_deadline_is_for_all_rounds_together(hosts: Hosts) -> None:
    facing, other = authenticating(hosts, SERVER)
    assert facing.endpoint.next_deadline_s(100.0) == 100.0 + NEGOTIATION_S
    announced = HostAuthenticator(hosts.context(CLIENT), CLIENT, REQUIRED)
    hello = announced.begin(b"")
    assert hello is not None
    facing.value(hello)
    assert facing.values() != []
    assert facing.endpoint.next_deadline_s(103.0) == 100.0 + NEGOTIATION_S
    assert other.state is HandshakeState.HANDSHAKE


@each_case("role", Role)
@each_case("value", [b"", b"garbage", b"\x17\x03\x03\x00\x02ab"])
def test_a_bad_value_is_answered_with_an_alert_and_the_end(hosts: Hosts, role: Role, value: bytes) -> None:
    facing, _ = authenticating(hosts, role)
    facing.value(value)
    (answer,) = facing.values()
    assert answer is not None
    assert (answer[:6], len(answer)) == (ALERT, 7)
    closed = facing.closed()
    assert closed.refusal is not None
    assert closed.reason == str(closed.refusal)
    assert (closed.protocol_error, closed.by_peer) == (False, False)


def test_a_peer_that_does_not_take_the_alert_is_left(hosts: Hosts) -> None:
    facing = opened(hosts, SERVER)
    facing.xid += 1
    properties = encode_host_authentication(b"garbage")
    header = facing.dialect.encode(OutgoingProperties(facing.xid, properties), facing.credits)
    facing.qp.post_send(None, [header + encode_property_set(properties)], signaled=False)
    facing.link.progress(1)
    facing.endpoint.progress()
    assert facing.endpoint_events() == []
    assert facing.endpoint.untimed
    assert facing.endpoint.next_deadline_s(100.0) == 100.0 + NEGOTIATION_S
    facing.endpoint.on_time(100.0 + NEGOTIATION_S)
    facing.endpoint.progress()
    (closed,) = facing.endpoint_events()
    assert isinstance(closed, Closed)
    assert closed.refusal is not None


@each_case("role", Role)
def test_an_alert_is_not_answered(hosts: Hosts, role: Role) -> None:
    facing, _ = authenticating(hosts, role)
    facing.value(ALERT + b"\x30")
    assert facing.values() == []
    assert "the peer refuses: it does not know the authority" in facing.closed().reason


@each_case("role", Role)
def test_a_value_when_all_is_done_ends_the_connection(hosts: Hosts, role: Role) -> None:
    facing = opened(hosts, role)
    facing.value(b"more")
    (alert,) = facing.values()
    assert alert == ALERT + b"\x0a"
    assert "none is awaited" in facing.closed().reason


@each_case("role", Role)
def test_sizes_cannot_change_any_more(hosts: Hosts, role: Role) -> None:
    """Neither with a value of host authentication nor instead of one; the handshake goes on."""
    for further in (SIZES, (*SIZES, *encode_host_authentication(b"")), ()):
        facing, _ = authenticating(hosts, role)
        facing.tell(further)
        refusals = [found.refusal for found in facing.taken() if found.kind is Kind.ERROR]
        assert [refusal and refusal.cause for refusal in refusals] == [Cause.HEADER]
        assert facing.endpoint._session.state is State.AUTHENTICATING


def test_no_call_is_run_before_the_client_is_known(hosts: Hosts) -> None:
    facing, _ = authenticating(hosts, SERVER)
    facing.send(call())
    assert facing.endpoint_events() == []
    assert facing.endpoint.statistics.discarded == 1
    assert facing.endpoint.statistics.calls == 0


def call() -> bytes:
    pair = Facing(CLIENT, None)
    pair.tell(SIZES)
    pair.received.clear()
    pair.endpoint.call(9, message(9, 0), ReplyBound(8))
    pair.run()
    return next(octets for octets in pair.received if pair.dialect.decode(octets).kind is Kind.CALL)  # type: ignore[union-attr]


def test_a_client_that_begins_with_a_call_is_refused_without_running_it(hosts: Hosts) -> None:
    facing = Facing(SERVER, machine(hosts, SERVER))
    facing.send(call())
    assert facing.values() == [ALERT + b"\x74"]
    assert "takes no part" in facing.closed().reason
    assert facing.endpoint.statistics.calls == 0


def test_a_server_that_requires_it_does_not_speak_versions_without(hosts: Hosts) -> None:
    facing = Facing(SERVER, machine(hosts, SERVER), "2", "1")
    facing.send(struct.pack(">IIIIIIIII", 7, 1, 1, 0, 0, 0, 0, 7, 0))
    (refusal,) = facing.received
    assert struct.unpack(">II4xIIII", refusal) == (7, 1, 4, 1, 2, 2)
    assert facing.endpoint_events() == []


def test_a_side_without_an_authenticator_passes_over_what_is_said_of_it(hosts: Hosts) -> None:
    facing = Facing(SERVER, None)
    facing.tell((*SIZES, *encode_host_authentication(b"")))
    assert facing.values() == [None]
    assert [type(event) for event in facing.endpoint_events()] == [Ready]
    facing.value(b"")
    (refusal,) = facing.taken()
    assert refusal.kind is Kind.ERROR


def test_a_server_that_goes_on_without_properties_is_none_that_takes_part(hosts: Hosts) -> None:
    """Credits alone are an answer to the client's properties, too. They are counted after that: no alert goes out."""
    facing = Facing(CLIENT, machine(hosts, CLIENT))
    assert facing.values() == [b""]
    facing.send(facing.dialect.encode(OutgoingGrant(), facing.credits))
    assert facing.values() == []
    assert "the peer takes no part in it" in facing.closed().reason


@each_case("announces", [False, True])
def test_it_is_too_late_to_announce_it_after_the_first_call(hosts: Hosts, announces: bool) -> None:
    facing = Facing(SERVER, machine(hosts, SERVER, HostPolicy.OPTIONAL))
    facing.send(call())
    assert facing.values() == [None]
    assert [type(event) for event in facing.endpoint_events()] == [Ready, CallArrived]
    facing.tell((*SIZES, *encode_host_authentication(b"")) if announces else SIZES)
    if announces:
        assert facing.values() == [ALERT + b"\x0a"]
        assert "none is awaited" in facing.closed().reason
    else:
        assert facing.values() == []
        assert facing.endpoint_events() == []


@pytest.mark.req("V2-80")
@each_case("role", Role)
def test_calls_are_made_when_both_hosts_are_known(hosts: Hosts, role: Role) -> None:
    facing = opened(hosts, role)
    if role is CLIENT:
        facing.endpoint.call(9, message(9, 0), ReplyBound(8))
        facing.run()
        assert [found.kind for found in facing.taken()] == [Kind.CALL]


MESSAGES = [
    raw.message(9, raw.word(9) + raw.word(0)),
    raw.message(9, raw.word(9) + raw.word(1), raw.RESPONSE),
    raw.message(9, raw.word(9), raw.MORE),
    raw.grant(8),
    raw.prefix(9, 77),
    raw.error(1, raw.BAD_XDR),
    raw.error(1, 1, 1, 1),
    raw.error(1, 1, 2, 2),
    raw.properties(),
    raw.properties((HOST_AUTHENTICATION, bytes(4))),
    raw.properties((HOST_AUTHENTICATION, raw.word(4) + b"data")),
    struct.pack(">IIIIIIIII", 9, 1, 1, 0, 0, 0, 0, 9, 0),
]
"""One of each kind; also those that refuse a version, take part in host authentication, or are of version 1."""


# After them the client chooses a version, hosts authenticate, or the connection is open with properties or without.
FIRST = [MESSAGES[2], raw.properties((HOST_AUTHENTICATION, bytes(4))), raw.properties(), raw.grant(8)]


@each_case("role", Role)
@each_case("policy", [HostPolicy.OPTIONAL, REQUIRED])
def test_no_message_of_a_peer_is_more_to_an_endpoint_than_the_end_of_its_connection(
    hosts: Hosts, policy: HostPolicy, role: Role
) -> None:
    context = hosts.context(role)
    for first, second in itertools.product(FIRST, MESSAGES):
        facing = Facing(role, HostAuthenticator(context, role, policy), "auto")
        facing.send(first)
        facing.send(second)
        for event in facing.endpoint_events():
            assert isinstance(event, Ready | CallArrived | Closed), (first, second)
            assert not isinstance(event, Closed) or event.protocol_error or event.refusal, (first, second)


def test_a_server_cannot_refuse_the_version_in_which_hosts_authenticate(hosts: Hosts) -> None:
    facing = Facing(CLIENT, machine(hosts, CLIENT, HostPolicy.OPTIONAL), "auto")
    facing.send(raw.properties((HOST_AUTHENTICATION, bytes(4))))
    facing.send(raw.error(1, 1, 1, 1))
    closed = facing.closed()
    assert "refused the version in which it had sent its transport properties" in closed.reason
    assert closed.protocol_error
