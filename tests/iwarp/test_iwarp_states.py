"""The life of a connection, pair by pair."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.iwarp.states import TRANSITIONS, Input, State

pytestmark = pytest.mark.in_python

LEGAL = {
    State.AWAITING_REPLY: {Input.REPLY_ACCEPTED, Input.FAULT, Input.END},
    State.AWAITING_REQUEST: {Input.REQUEST, Input.END},
    State.REQUESTED: {Input.ACCEPT, Input.REJECT, Input.END},
    State.REPLYING: {Input.REPLY_OUT, Input.REPLY_OUT_PEER_TO_PEER, Input.END},
    State.AWAITING_READY: {Input.FPDU, Input.FAULT, Input.END},
    State.MUTE: {Input.FPDU, Input.END},
    State.OPEN: {Input.DISCONNECT, Input.FAULT, Input.END},
    State.DRAINING: {Input.FAULT, Input.END},
    State.LAST_WORDS: {Input.LAST_WORDS_OUT, Input.END},
    State.CLOSED: set(),
}


def test_each_state_takes_what_may_happen_in_it() -> None:
    for state, moved in itertools.product(State, Input):
        assert ((state, moved) in TRANSITIONS) == (moved in LEGAL[state])
        assert moved is not Input.END or TRANSITIONS.get((state, moved), State.CLOSED) is State.CLOSED


@pytest.mark.req("MPA-41")
def test_a_responder_opens_by_a_frame_of_the_initiator_alone() -> None:
    ways = {(state, moved) for (state, moved), after in TRANSITIONS.items() if after is State.OPEN}
    assert ways == {
        (State.AWAITING_REPLY, Input.REPLY_ACCEPTED),
        (State.AWAITING_READY, Input.FPDU),
        (State.MUTE, Input.FPDU),
    }


@pytest.mark.req("RD-11")
def test_nothing_but_the_end_follows_the_last_words() -> None:
    assert {after for (state, _), after in TRANSITIONS.items() if state is State.LAST_WORDS} == {State.CLOSED}
