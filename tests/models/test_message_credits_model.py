"""The model of credits that count messages (version 2), and an endpoint in either role against it.

From section 4.3.1 of the draft, with the readings V2-D1 and V2-D21 to V2-D23 (docs/versions.md): each direction begins
with one credit, each message but a grant takes one, and nothing leaves without. A message in pieces takes one for each
piece, waits between them, and lets no other message in. Credits in errors do not count. A receive is posted for all
that was granted, and for one grant more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from endpoint_events import observed_events
from model_replay import Action, Observation, check, traces
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Call, IncomingCall, ReplyBound, Role
from rpcrdma.transport.config import TransportConfig
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.raw_messages import MORE, NOMSG, RESPONSE

pytestmark = pytest.mark.thorough

REQUESTED, GRANTED = 3, 32
GIVEN_FIRST = REQUESTED + 2
"""Credits in the first message of the peer: for as many calls, for one message more, and for a grant."""
GIFTS = (0, 0, 1, 3)
"""A second zero, so that credits run out."""
LONG_OCTETS, LONG_PIECES = 10_000, 3
MESSAGES_MAX = 16


@dataclass(frozen=True)
class State:
    """`queue` has messages of the endpoint, as XID and the number of pieces that have not left.

    `waiting` are the unanswered calls, sent whole by the client or arrived at the server.
    """

    balance: int
    made: int = 0
    queue: tuple[tuple[int, int], ...] = ()
    waiting: tuple[int, ...] = ()
    over: bool = False


class MessageCredits:
    """An endpoint that makes calls as a client, or answers calls as a server, in messages of one piece or of three."""

    rare = frozenset({"all_at_once", "refuse"})

    def __init__(self, role: Role, balance: int) -> None:
        self.start = State(balance)
        self._client = role is Role.CLIENT

    def actions(self, state: State) -> list[Action]:
        """The peer answers each call once, and gives any number of credits."""
        if state.over:
            return []
        possible: list[Action] = [("all_at_once",)]
        if self._client:
            possible += [("reply", xid, give) for xid in state.waiting for give in GIFTS]
            possible += [("refuse", xid, give) for xid in state.waiting for give in GIFTS]
            if state.made < MESSAGES_MAX:
                possible += [("call", state.made, pieces) for pieces in (1, LONG_PIECES)]
        else:
            possible += [("answer", xid, pieces) for xid in state.waiting for pieces in (1, LONG_PIECES)]
            if state.made < MESSAGES_MAX:
                possible += [("peer_call", state.made, give) for give in GIFTS]
        if state.queue and not state.balance:
            possible += [("grant", give) for give in GIFTS if give]
        return possible

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        following, told = getattr(self, "_" + action[0])(state, *action[1:])
        following, left = self._leave(following)
        return following, (told, left)

    def _leave(self, state: State) -> tuple[State, Observation]:
        balance, queue, waiting, left = state.balance, list(state.queue), list(state.waiting), []
        begun = bool(queue) and state.queue[0][1] < 0
        while queue and balance and (begun or not self._client or len(waiting) < REQUESTED):
            xid, pieces = queue[0]
            balance -= 1
            more = abs(pieces) > 1
            left.append((xid, more))
            # A message that has begun has a negative number.
            queue[0] = (xid, 1 - abs(pieces))
            begun = more
            if not more:
                del queue[0]
                if self._client:
                    waiting.append(xid)
        return replace(state, balance=balance, queue=tuple(queue), waiting=tuple(waiting)), tuple(left)

    def _call(self, state: State, xid: int, pieces: int) -> tuple[State, Observation]:
        return replace(state, made=xid + 1, queue=(*state.queue, (xid, pieces))), ()

    def _end(self, state: State, xid: int, give: int, outcome: str) -> tuple[State, Observation]:
        waiting = tuple(other for other in state.waiting if other != xid)
        return replace(state, waiting=waiting, balance=state.balance + give), ((outcome, xid),)

    def _reply(self, state: State, xid: int, give: int) -> tuple[State, Observation]:
        return self._end(state, xid, give, "answered")

    def _refuse(self, state: State, xid: int, _give: int) -> tuple[State, Observation]:
        return self._end(state, xid, 0, "failed")

    def _grant(self, state: State, give: int) -> tuple[State, Observation]:
        return replace(state, balance=state.balance + give), ()

    def _peer_call(self, state: State, xid: int, give: int) -> tuple[State, Observation]:
        state = replace(state, made=xid + 1, waiting=(*state.waiting, xid), balance=state.balance + give)
        return state, (("taken", xid),)

    def _answer(self, state: State, xid: int, pieces: int) -> tuple[State, Observation]:
        waiting = tuple(other for other in state.waiting if other != xid)
        return replace(state, waiting=waiting, queue=(*state.queue, (xid, pieces))), ()

    def _all_at_once(self, state: State) -> tuple[State, Observation]:
        """The peer uses all credits before the endpoint looks: each message finds a receive, and so does a grant."""
        ended = tuple(("answered", xid) for xid in state.waiting) if self._client else ()
        return replace(state, over=True, waiting=()), (ended or "all taken")


class Endpoint:
    """The machine: an endpoint whose peer sends octets made by hand, and has both accounts of credits."""

    def __init__(self, role: Role) -> None:
        self._client = role is Role.CLIENT
        config = TransportConfig(credits_requested=REQUESTED, credits_granted=GRANTED, in_messages_octets_max=1 << 20)
        self._peer = BareMessages(role, config, give=GIVEN_FIRST)
        self._calls: dict[int, Call] = {}
        self._taken: dict[int, IncomingCall] = {}
        self._waiting: list[int] = []
        self.balance = self._peer_balance = 0
        self._count(self._peer.introduced)
        # Both have sent their properties.
        self.balance += GIVEN_FIRST + 1
        self._peer_balance += 0

    def _count(self, heard: list[raw.HeardMessage]) -> None:
        for each in heard:
            self._peer_balance += each.give
            self.balance -= (each.kind, each.xid) != (NOMSG, 0)

    def _observed(self) -> Observation:
        left = []
        heard = self._peer.heard()
        self._count(heard)
        told = observed_events(self._peer.endpoint_events(), self._taken)
        for each in heard:
            more = bool(each.flags & MORE)
            left.append((each.xid, more))
            if self._client and not more:
                self._waiting.append(each.xid)
        return tuple(told), tuple(left)

    def _send(self, octets: bytes, give: int = 0, takes: int = 1) -> None:
        """Sends a message that gives so many credits."""
        self._peer_balance -= takes
        self._peer.post(octets[:10] + give.to_bytes(2, "big") + octets[12:])

    def call(self, xid: int, pieces: int) -> Observation:
        self._calls[xid] = self._peer.endpoint.call(xid, self._message(xid, 0, pieces), ReplyBound(0))
        return self._observed()

    def answer(self, xid: int, pieces: int) -> Observation:
        self._peer.endpoint.reply(self._taken.pop(xid), self._message(xid, 1, pieces))
        return self._observed()

    @staticmethod
    def _message(xid: int, direction: int, pieces: int):  # type: ignore[no-untyped-def]
        return message(xid, direction, (bytes(LONG_OCTETS if pieces > 1 else 0), None))

    def reply(self, xid: int, give: int) -> Observation:
        self._waiting.remove(xid)
        self._send(raw.message(xid, _start(xid, 1), RESPONSE), give)
        return self._observed()

    def refuse(self, xid: int, give: int) -> Observation:
        self._waiting.remove(xid)
        self._send(raw.error(xid, raw.SYSTEM), give)
        return self._observed()

    def grant(self, give: int) -> Observation:
        self._send(raw.grant(0), give, 0)
        return self._observed()

    def peer_call(self, xid: int, give: int) -> Observation:
        self._send(raw.message(xid, _start(xid, 0)), give)
        return self._observed()

    def all_at_once(self) -> Observation:
        messages = self._peer_balance
        if self._client:
            # One message for each reply; the first of them has a piece for each credit that is left.
            pieces = messages - len(self._waiting) if self._waiting else 0
            for number in range(pieces):
                payload = _start(self._waiting[0], 1) if not number else bytes(4)
                self._send(raw.message(self._waiting[0], payload, RESPONSE | MORE))
            for number, xid in enumerate(self._waiting):
                payload = bytes(4) if pieces and not number else _start(xid, 1)
                self._send(raw.message(xid, payload, RESPONSE))
        else:
            for xid in range(1000, 1000 + messages):
                self._send(raw.message(xid, _start(xid, 0)))
        # Grants are not counted: here the second one takes the receive that is posted ahead of need.
        for _ in range(2):
            self._send(raw.grant(0))
        told, left = self._observed()  # type: ignore[misc]
        left = tuple(each for each in left if each != (0, False))
        everything = not told if self._client else len(told) == messages >= GRANTED / 2
        if everything:
            told = "all taken"
        return told, left


def _start(xid: int, direction: int) -> bytes:
    return xid.to_bytes(4, "big") + direction.to_bytes(4, "big")


@pytest.mark.usefixtures("no_spare_receives")
@pytest.mark.req("V2-4", "V2-7", "V2-41", "V2-44", "V2-49")
@pytest.mark.parametrize("role", Role)
def test_messages_leave_as_the_model_of_message_credits_says(role: Role) -> None:
    model = MessageCredits(role, Endpoint(role).balance)
    assert check(lambda: Endpoint(role), traces(model, depth=4, walks=40, walk_steps=60)) > 1000
