"""The model of credits that count calls (version 1), and an endpoint in either role against it.

From RFC 8166 section 3.3: a credit is the right to one unanswered call; each direction begins with one; the lower of
the number asked for and the number granted last counts; an increase is backed by receives before it is told. From RFC
8167 section 4: the directions have separate credits and share the receives, and an error grants nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import pytest

from endpoint_events import observed_events
from model_replay import Action, Observation, check, traces
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import Call, IncomingCall, ReplyBound, Role
from rpcrdma.transport.config import TransportConfig
from support.cases import each_case
from support.raw_calls import header as call_header
from support.raw_replies import header as reply_header

pytestmark = pytest.mark.thorough

REQUESTED, GRANTED = 5, 3
"""Unanswered calls that the endpoint asks for, and those that it grants its peer."""
GRANTS = (0, 1, 4, 9)
"""Of the peer. Zero is illegal, and leaves one credit, since a connection without any could never go on."""
CALLS_MAX = 12


@dataclass(frozen=True)
class State:
    """`sent` are the endpoint's unanswered calls, `given_up` those of them whose caller waits no more."""

    made: int = 0
    queued: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()
    given_up: frozenset[int] = frozenset()
    allowed: int = 1
    peer_made: int = 0
    unanswered: tuple[int, ...] = ()
    peer_allowed: int = 1
    over: bool = False


class CallCredits:
    """An endpoint that makes calls and answers its peer's."""

    start = State()
    rare = frozenset({"all_at_once", "give_up", "refuse"})

    def actions(self, state: State) -> list[Action]:
        """The peer keeps to its credits, and answers each call once."""
        if state.over:
            return []
        possible: list[Action] = [("reply", xid, grant) for xid in state.sent for grant in GRANTS]
        possible += [("refuse", xid) for xid in state.sent]
        possible += [("give_up", xid) for xid in state.queued + state.sent if xid not in state.given_up]
        possible += [("answer", xid) for xid in state.unanswered]
        if state.made < CALLS_MAX:
            possible.append(("call", state.made))
        if len(state.unanswered) < state.peer_allowed and state.peer_made < CALLS_MAX:
            possible.append(("peer_call", state.peer_made))
        return [*possible, ("all_at_once",)]

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        following, told = getattr(self, "_" + action[0])(state, *action[1:])
        leaving = following.queued[: max(0, following.allowed - len(following.sent))]
        following = replace(
            following, queued=following.queued[len(leaving) :], sent=tuple(sorted(following.sent + leaving))
        )
        return following, (told, tuple(("call", xid, REQUESTED) for xid in leaving))

    def _call(self, state: State, xid: int) -> tuple[State, Observation]:
        return replace(state, made=xid + 1, queued=(*state.queued, xid)), ()

    def _end(self, state: State, xid: int, outcome: str) -> tuple[State, Observation]:
        sent = tuple(other for other in state.sent if other != xid)
        return replace(state, sent=sent), () if xid in state.given_up else ((outcome, xid),)

    def _reply(self, state: State, xid: int, grant: int) -> tuple[State, Observation]:
        return self._end(replace(state, allowed=max(1, min(grant, REQUESTED))), xid, "answered")

    def _refuse(self, state: State, xid: int) -> tuple[State, Observation]:
        return self._end(state, xid, "failed")

    def _give_up(self, state: State, xid: int) -> tuple[State, Observation]:
        """A call that was sent keeps its credit until the reply."""
        if xid in state.sent:
            return replace(state, given_up=state.given_up | {xid}), ()
        return replace(state, queued=tuple(other for other in state.queued if other != xid)), ()

    def _peer_call(self, state: State, xid: int) -> tuple[State, Observation]:
        return replace(state, peer_made=xid + 1, unanswered=(*state.unanswered, xid)), (("taken", xid),)

    def _answer(self, state: State, xid: int) -> tuple[State, Observation]:
        unanswered = tuple(other for other in state.unanswered if other != xid)
        return replace(state, unanswered=unanswered, peer_allowed=GRANTED), (("reply", xid, GRANTED),)

    def _all_at_once(self, state: State) -> tuple[State, Observation]:
        """The peer sends all that it may before the endpoint looks: every message finds a receive."""
        told: list[Observation] = [
            ("taken", state.peer_made + index) for index in range(state.peer_allowed - len(state.unanswered))
        ]
        for xid in state.sent:
            state, ended = self._reply(state, xid, 1)
            told += ended  # type: ignore[arg-type]
        return replace(state, over=True), tuple(told)


class Endpoint:
    """The machine: an endpoint whose peer sends octets made by hand."""

    def __init__(self, role: Role) -> None:
        client = role is Role.CLIENT
        own = "credits" if client else "reverse_credits"
        other = "reverse_credits" if client else "credits"
        config = TransportConfig(**{own + "_requested": REQUESTED, other + "_granted": GRANTED})
        self._peer = BarePeer(role, config, reverse=True)
        if not client:
            self._peer.endpoint.allow_reverse()
        self._calls: dict[int, Call] = {}
        self._taken: dict[int, IncomingCall] = {}
        self._peer_made = self._unanswered = 0
        self._in_flight: set[int] = set()
        self._peer_allowed = 1

    def _observed(self) -> Observation:
        peer = self._peer
        peer.run()
        told = observed_events(peer.endpoint_events(), self._taken)
        calls = []
        for octets in peer.received:
            xid, _, credit, kind, *_, direction = struct.unpack_from(">IIII12xII", octets)
            assert kind == 0
            if direction:
                told.append(("reply", xid, credit))
                self._peer_allowed = credit
            else:
                calls.append(("call", xid, credit))
                self._in_flight.add(xid)
        peer.received.clear()
        return tuple(told), tuple(calls)

    def _post(self, octets: bytes) -> None:
        self._peer.qp.post_send(None, [octets], signaled=False)

    def call(self, xid: int) -> Observation:
        self._calls[xid] = self._peer.endpoint.call(xid, message(xid, 0), ReplyBound(0))
        return self._observed()

    def reply(self, xid: int, grant: int) -> Observation:
        self._in_flight.discard(xid)
        self._post(reply_header(xid, grant=grant) + struct.pack(">II", xid, 1))
        return self._observed()

    def refuse(self, xid: int) -> Observation:
        """With a credit field that has to be left alone."""
        self._in_flight.discard(xid)
        self._post(struct.pack(">IIIII", xid, 1, 9, 4, 2))
        return self._observed()

    def give_up(self, xid: int) -> Observation:
        self._peer.endpoint.abandon(self._calls[xid])
        return self._observed()

    def peer_call(self, xid: int) -> Observation:
        self._peer_made += 1
        self._unanswered += 1
        self._post(call_header(xid=xid) + struct.pack(">II", xid, 0))
        return self._observed()

    def answer(self, xid: int) -> Observation:
        self._unanswered -= 1
        self._peer.endpoint.reply(self._taken.pop(xid), message(xid, 1))
        return self._observed()

    def all_at_once(self) -> Observation:
        for xid in range(self._peer_made, self._peer_made + self._peer_allowed - self._unanswered):
            self._post(call_header(xid=xid) + struct.pack(">II", xid, 0))
        for xid in sorted(self._in_flight):
            self._post(reply_header(xid, grant=1) + struct.pack(">II", xid, 1))
        return self._observed()


@pytest.mark.usefixtures("no_spare_receives")
@pytest.mark.req("V1-2", "V1-3", "V1-5", "V1-6", "V1-7", "V1-8", "V1-87", "BD-2", "BD-3")
@each_case("role", Role)
def test_calls_leave_as_the_model_of_call_credits_says(role: Role) -> None:
    assert check(lambda: Endpoint(role), traces(CallCredits(), depth=5, walks=60, walk_steps=60)) > 2000
