"""The model of groups of transmissions, and a server with the round-trip extension against it.

From the draft of the extension (sections 4.2, 5.4 and 9), with the readings R3, R4, R6, R11 and R12 of
docs/round-trips.md, and V2-D22: the transmissions of a group follow each other, numbered, without another message but
grants of credits; a message that breaks a group is reported with its cause, and the rest of the group is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from model_replay import Action, Observation, check, traces
from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.testing.endpoint_pair import calls_in
from rpcrdma.transport import Role
from support.octets import words
from transmission_peer import (
    BADCONT,
    BADHMT,
    BADOMT,
    BADSEQ,
    BADXID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    TransmissionPeer,
)

pytestmark = pytest.mark.thorough

MESSAGES_MAX = 12


@dataclass(frozen=True)
class State:
    """`group` is the open one: its XID, its number of transmissions, and how many have come.

    `left_alone` are the XIDs of the last report, whose further transmissions are not used. No XID is used twice.
    """

    group: tuple[int, int, int] | None = None
    left_alone: frozenset[int] = frozenset()
    sent: int = 0


class Groups:
    """A peer that begins groups, continues them in any way, and sends other messages."""

    start = State()
    rare = frozenset({"misnumbered", "begin_wrongly", "plain_call", "stray", "misattributed"})

    def actions(self, state: State) -> list[Action]:
        """Each message of a new XID takes the next one."""
        if state.sent >= MESSAGES_MAX:
            return []
        xid = state.sent + 1
        possible: list[Action] = [("begin", xid, count) for count in (1, 2, 3)]
        possible += [("begin_wrongly", xid, count) for count in (0, RTR_TRANSMISSIONS_MAX + 1)]
        next_number = 1 if state.group is None else state.group[2]
        possible += [("plain_call", xid), ("stray", xid, next_number), ("grant",)]
        possible += [("left_over", other) for other in sorted(state.left_alone) if state.group is None]
        if state.group is not None:
            own, _, arrived = state.group
            possible.append(("go_on", own, arrived))
            possible += [("misnumbered", own, number) for number in (0, arrived - 1, arrived + 1) if number != arrived]
            possible.append(("misattributed", own, arrived))
        return possible

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        name, *words_ = action
        if name in {"begin", "begin_wrongly", "plain_call", "stray"}:
            state = replace(state, sent=state.sent + 1)
        step: Callable[..., tuple[State, Observation]] = getattr(self, "_" + name)
        return step(state, *words_)

    @staticmethod
    def _report(state: State, xid: int, number: int, code: int, *values: int) -> tuple[State, Observation]:
        lead = None if state.group is None else (state.group[0], 0, 0)
        alone = {xid} if state.group is None else {xid, state.group[0]}
        following = replace(state, group=None, left_alone=frozenset(alone))
        return following, (("reported", (xid, 0, number), lead, code, values),)

    def _begin(self, state: State, xid: int, count: int) -> tuple[State, Observation]:
        if state.group is not None:
            return self._report(state, xid, 0, BADOMT, XMTCONT, XMTREQ)
        # Transmissions that are left over may still come, but none can follow another first transmission.
        state = replace(state, left_alone=frozenset())
        if count == 1:
            return state, (("taken", xid, 1),)
        return replace(state, group=(xid, count, 1)), ()

    def _begin_wrongly(self, state: State, xid: int, count: int) -> tuple[State, Observation]:
        if state.group is not None:
            return self._report(state, xid, 0, BADOMT, XMTCONT, XMTREQ)
        return self._report(state, xid, 0, BADSEQ, RTR_TRANSMISSIONS_MAX, count)

    def _plain_call(self, state: State, xid: int) -> tuple[State, Observation]:
        if state.group is not None:
            return self._report(state, xid, 0, BADHMT, XMTCONT, 0)
        return state, (("taken", xid, 0),)

    def _stray(self, state: State, xid: int, number: int) -> tuple[State, Observation]:
        """A continuation with an XID that has no group, numbered as the next one of the open group if there is one."""
        if state.group is None:
            return self._report(state, xid, number, BADCONT)
        return self._report(state, xid, number, BADXID, state.group[0], xid)

    def _grant(self, state: State) -> tuple[State, Observation]:
        return state, ()

    def _left_over(self, state: State, xid: int) -> tuple[State, Observation]:
        return state, ()

    def _go_on(self, state: State, xid: int, number: int) -> tuple[State, Observation]:
        assert state.group is not None
        count = state.group[1]
        if number + 1 == count:
            return replace(state, group=None), (("taken", xid, count),)
        return replace(state, group=(xid, count, number + 1)), ()

    def _misnumbered(self, state: State, xid: int, number: int) -> tuple[State, Observation]:
        assert state.group is not None
        return self._report(state, xid, number, BADSEQ, state.group[2], number)

    def _misattributed(self, state: State, xid: int, number: int) -> tuple[State, Observation]:
        """A continuation that says that a response began its group."""
        return self._report(state, xid, number, BADOMT, XMTREQ, XMTRESP)


class Server:
    """The machine: an endpoint whose peer sends transmissions made by hand."""

    def __init__(self) -> None:
        self._peer = TransmissionPeer(Role.SERVER)

    def _observed(self) -> Observation:
        told: list[Observation] = []
        for heard in self._peer.heard():
            bad, lead, code, values = heard.report
            told.append(("reported", bad, lead, code, values))
        for incoming in calls_in(self._peer.endpoint_events()):
            decoder = incoming.decoder
            payload = bytes(decoder.octets(decoder.end - decoder.pos, "all"))
            transmissions = len(payload) // 8 - 1
            assert payload == words(incoming.xid, 0) + b"".join(words(0, index) for index in range(transmissions))
            told.append(("taken", incoming.xid, transmissions))
            self._peer.endpoint.drop(incoming)
        return tuple(told)

    def begin(self, xid: int, count: int) -> Observation:
        self._peer.request(words(xid, 0, 0, 0), xid=xid, count=count)
        return self._observed()

    begin_wrongly = begin

    def plain_call(self, xid: int) -> Observation:
        self._peer.plain_call(xid)
        return self._observed()

    def grant(self) -> Observation:
        self._peer.grant()
        return self._observed()

    def left_over(self, xid: int) -> Observation:
        self._peer.go_on(1, words(0, 1), xid=xid)
        return self._observed()

    def go_on(self, xid: int, number: int) -> Observation:
        self._peer.go_on(number, words(0, number), xid=xid)
        return self._observed()

    misnumbered = stray = go_on

    def misattributed(self, xid: int, number: int) -> Observation:
        self._peer.go_on(number, words(0, number), xid=xid, begun_by=XMTRESP)
        return self._observed()


@pytest.mark.req("RT-2", "RT-13", "RT-14", "RT-33")
def test_groups_are_taken_and_reported_as_the_model_says() -> None:
    model = Groups()
    assert check(Server, traces(model, depth=3, walks=40, walk_steps=40)) > 1000
