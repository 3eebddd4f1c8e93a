"""The model of the receives that calls promise for their replies, and a client with the extension against it.

From the draft of the extension (section 5.2: a requester says how many transmissions beyond the first one its response
may have) and the reading R4 of docs/round-trips.md: such receives are additional to the credits of calls, and are there
before a response relies on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from model_replay import Action, Observation, check, traces
from rpcrdma.transport import CallFailed, ReplyArrived, Role, TransportConfig
from support.octets import words
from transmission_peer import NOITEM, OCTETS, PAGE, PAGES, XMTREQ, XMTRESP, TransmissionPeer, in_segments

pytestmark = pytest.mark.thorough

LENGTHS = (1, 2, 4)
"""Transmissions of the longest response to a call."""
CALLS_MAX, IN_FLIGHT_MAX = 16, 4


@dataclass(frozen=True)
class State:
    """`unanswered` are calls by XID, with the transmissions that their responses may have."""

    unanswered: tuple[tuple[int, int], ...] = ()
    made: int = 0
    over: bool = False


class Promises:
    """A client whose calls have results of several lengths, all of which go by Send."""

    start = State()
    rare = frozenset({"all_at_once"})

    def actions(self, state: State) -> list[Action]:
        """A response has as many transmissions as its call permits, or one: the rest is given back."""
        if state.over:
            return []
        possible: list[Action] = [("answer", *call) for call in state.unanswered]
        possible += [("answer_shortly", xid) for xid, _ in state.unanswered]
        if len(state.unanswered) < IN_FLIGHT_MAX and state.made < CALLS_MAX:
            possible += [("call", state.made + 1, length) for length in LENGTHS]
        return [*possible, ("all_at_once",)]

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        match action:
            case ("call", xid, length):
                following = replace(state, made=xid, unanswered=(*state.unanswered, (xid, length)))
                return following, (("request", xid, length - 1),)
            case ("all_at_once",):
                return replace(state, over=True), tuple(("answered", *call) for call in state.unanswered)
            case ("answer", xid, length):
                told: Observation = (("answered", xid, length),)
            case (_, xid):
                told = (("answered", xid, 0),)
        return replace(state, unanswered=tuple(call for call in state.unanswered if call[0] != xid)), told


class Client:
    """The machine: an endpoint whose peer sends transmissions made by hand."""

    def __init__(self) -> None:
        config = TransportConfig(
            offered_receive_octets=OCTETS, offered_send_octets=OCTETS, credits_requested=IN_FLIGHT_MAX
        )
        self._peer = TransmissionPeer(Role.CLIENT, config)
        self._unanswered: dict[int, int] = {}

    def _observed(self) -> Observation:
        told: list[Observation] = []
        for heard in self._peer.heard():
            assert heard.kind == XMTREQ
            # No items; one range with one direction by Send; then the number of transmissions, and those promised.
            assert heard.body[:8] == words(0, 1), heard.body.hex()
            told.append(("request", heard.xid, int.from_bytes(heard.body[32:36], "big")))
        for event in self._peer.endpoint_events():
            assert isinstance(event, ReplyArrived | CallFailed)
            if isinstance(event, CallFailed):
                told.append(("failed", event.call.xid, str(event.error)))
                continue
            event.decoder.octets(8, "start")
            octets = len(event.decoder.bulk(1 << 20, "item")) if event.decoder.pos < event.decoder.end else 0
            told.append(("answered", event.call.xid, octets // (PAGES * PAGE)))
        return tuple(told)

    def call(self, xid: int, length: int) -> Observation:
        self._unanswered[xid] = length
        self._peer.call(xid, result=length * PAGES * PAGE)
        return self._observed()

    def _post(self, xid: int, length: int) -> None:
        """The response, before the endpoint looks at it."""
        del self._unanswered[xid]
        octets = length * PAGES * PAGE
        send, self._peer.send = self._peer.send, self._post_send  # type: ignore[method-assign]
        item = in_segments(12, octets, *range(length * PAGES)) if length else words(0, 0, NOITEM)
        payload = words(xid, 1, octets) if length else words(xid, 1)
        data = bytes(PAGES * PAGE if length else 0)
        self._peer.response(payload, item, xid=xid, count=max(1, length), data=data)
        for number in range(1, length):
            self._peer.go_on(number, xid=xid, begun_by=XMTRESP, data=data)
        self._peer.send = send  # type: ignore[method-assign]

    def _post_send(self, octets: bytes) -> list[bytes]:
        self._peer.qp.post_send(None, [octets], signaled=False)
        return []

    def answer(self, xid: int, length: int) -> Observation:
        self._post(xid, length)
        return self._observed()

    def answer_shortly(self, xid: int) -> Observation:
        self._post(xid, 0)
        return self._observed()

    def all_at_once(self) -> Observation:
        for xid, length in list(self._unanswered.items()):
            self._post(xid, length)
        return self._observed()


@pytest.mark.usefixtures("no_spare_receives")
@pytest.mark.req("RT-11")
def test_the_receives_that_calls_promise_are_there() -> None:
    assert check(Client, traces(Promises(), depth=4, walks=30, walk_steps=60)) > 500
