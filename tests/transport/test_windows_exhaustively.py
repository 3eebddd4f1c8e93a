"""Every interleaving of two endpoints with small windows: none gets stuck, and no message comes without a receive.

The space that is explored is that of `window_space`; some of its messages go in groups of an extension, or several
calls or replies in one message.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from window_space import (
    DROPPED,
    ERROR,
    GROUP,
    NESTED,
    PLAIN,
    PROPERTIES,
    Call,
    Scenario,
    State,
)

# Each case is an item: run_mutants.py runs no item of more than two seconds.
pytestmark = pytest.mark.thorough

SCENARIOS = {
    "pieces both ways": Scenario((2, 1), (1, 1), (Call(2, 2), Call(3, 2)), (PLAIN,)),
    "long and short ones": Scenario((1, 1), (1, 1), (Call(3, 3), PLAIN), (Call(2, 3),)),
    "a handler that calls": Scenario((3, 1), (3, 3), (Call(1, 2, nested=True), Call(2, 1), PLAIN), (Call(1, 2),)),
    "long replies": Scenario((3, 3), (3, 2), (PLAIN, PLAIN), (Call(1, 2),) * 3),
    "more calls than credits": Scenario((5, 1), (1, 1), (PLAIN,) * 6, (PLAIN,)),
    "more calls than credits, and a long reply": Scenario((5, 1), (1, 1), (PLAIN,) * 6, (Call(1, 3), PLAIN)),
    "handlers that call at both ends": Scenario((2, 2), (2, 2), (NESTED, PLAIN), (NESTED, PLAIN)),
    "errors": Scenario((3, 1), (1, 2), (Call(1, ERROR),) * 3 + (PLAIN, Call(2, ERROR)), (Call(1, ERROR),)),
    "dropped calls": Scenario((12, 1), (1, 2), (Call(1, DROPPED), Call(2, DROPPED)) * 4 + (PLAIN,), ()),
    "dropped calls and others": Scenario((6, 1), (1, 2), (Call(1, ERROR), Call(1, DROPPED)) * 2 + (PLAIN,), (PLAIN,)),
    "properties": Scenario(
        (1, 2), (1, 1), (Call(1, PROPERTIES), Call(2, 2)), (Call(2, PROPERTIES), Call(1, PROPERTIES))
    ),
    "long replies with credits in reserve": Scenario((2, 1), (1, 1), (Call(1, 5), PLAIN), (Call(1, 2),), reserved=3),
    "one long call each": Scenario((1, 2), (1, 1), (Call(4, 1),), (Call(6, 1),)),
}
GROUPS = {
    "a reply in a group": Scenario((1, 0), (0, 1), (Call(1, GROUP + 3),) * 2, (), 6),
    "notices use up what a reply needs": Scenario((1, 0), (0, 1), (Call(1, GROUP + 4),), (Call(1, PROPERTIES),) * 5, 9),
    "calls in groups": Scenario((2, 0), (0, 3), (Call(GROUP + 3, 1), Call(GROUP + 2, GROUP + 3), PLAIN), (), 6),
    "groups both ways": Scenario((2, 0), (0, 4), (Call(GROUP + 2, GROUP + 3),) * 3, (Call(1, PROPERTIES),), 8),
    "groups and long ones": Scenario((2, 1), (1, 2), (Call(GROUP + 2, GROUP + 2), Call(3, 3)), (Call(2, 2),), 4),
    "groups and errors": Scenario(
        (3, 1), (1, 3), (Call(GROUP + 3, ERROR), Call(2, GROUP + 3), Call(1, ERROR)), (PLAIN,), 8
    ),
    "more promises than are left": Scenario((3, 0), (0, 2), (Call(1, GROUP + 3),) * 4, (Call(1, PROPERTIES),) * 2, 5),
    "a handler that calls, and answers in a group": Scenario(
        (2, 2), (1, 2), (Call(GROUP + 2, GROUP + 2, nested=True), Call(1, GROUP + 2)), (), 4
    ),
}
BATCHES = {
    "calls together": Scenario((6, 1), (1, 3), (PLAIN,) * 6, (), together=3),
    "calls of both ends together": Scenario((3, 2), (2, 3), (PLAIN,) * 3, (PLAIN,) * 2, together=3),
    "calls together, with long replies": Scenario((4, 1), (1, 3), (Call(1, 2), *[PLAIN] * 3), (), together=3),
    "calls together, whose handlers call": Scenario((3, 2), (2, 2), (NESTED, PLAIN, PLAIN), (PLAIN,), together=2),
    "calls together, and replies in groups": Scenario(
        (3, 0), (0, 3), (PLAIN, PLAIN, Call(1, GROUP + 2), PLAIN, PLAIN), (), promises=2, together=2
    ),
}


def small_windows(*calls: tuple[Call, ...]) -> Iterator[Scenario]:
    """The same calls, with windows of every size from 1 to 3."""
    for sizes in itertools.product((1, 2, 3), repeat=4):
        yield Scenario(sizes[:2], sizes[2:], *calls)


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@pytest.mark.parametrize("name", SCENARIOS | BATCHES)
def test_every_interleaving_comes_to_its_end(name: str) -> None:
    floor = 50 if "drop" in name else 200
    assert (SCENARIOS | BATCHES)[name].space().explore() > floor


@pytest.mark.req("V2-4", "V2-7", "V2-44")
def test_small_windows_of_every_size_come_to_their_end() -> None:
    count = 0
    for scenario in small_windows((Call(1, 2, nested=True),), (Call(3, 1),)):
        count += scenario.space().explore()
    assert count > 15_000


@pytest.mark.req("V2-4", "V2-7", "RT-3")
@pytest.mark.parametrize("name", GROUPS)
def test_groups_that_go_when_all_their_credits_are_there_come_to_their_end(name: str) -> None:
    assert GROUPS[name].space().explore() >= 20


@pytest.mark.req("V2-4", "V2-7", "RT-3")
@given(data=st.data(), seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_long_conversations_in_groups_come_to_their_end(data: st.DataObject, seed: int) -> None:
    calls = st.builds(
        Call,
        st.sampled_from((1, 1, 3, GROUP + 1, GROUP + 2, GROUP + 4, GROUP + 8)),
        st.sampled_from((1, 4, ERROR, GROUP + 2, GROUP + 5, GROUP + 8)),
        nested=st.just(False),
        wakes=st.none(),
    )
    notices = st.sampled_from([Call(pieces, PROPERTIES) for pieces in (1, 2, 3)])
    scenario = Scenario(
        (data.draw(st.integers(1, 9)), data.draw(st.integers(0, 1))),
        (data.draw(st.integers(0, 1)), data.draw(st.integers(1, 12))),
        tuple(data.draw(st.lists(calls, min_size=1, max_size=12))),
        # The properties, from which the peer learns how many calls there may be: groups do not teach that.
        (Call(1, PROPERTIES), *data.draw(st.lists(notices, max_size=12))),
        data.draw(st.integers(0, 40)),
    )
    random = Random(seed)
    assert scenario.space().walk(random.choice) >= len(scenario.calls)


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@given(data=st.data(), seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_long_conversations_come_to_their_end(data: st.DataObject, seed: int) -> None:
    sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
    calls = st.builds(
        Call,
        st.integers(1, 12),
        st.sampled_from((1, 1, 1, 2, 5, 12, ERROR, PROPERTIES)),
        nested=st.just(False),
        wakes=st.none(),
    )
    own_calls = st.lists(calls | st.just(NESTED) | st.just(Call(2, 3, nested=True)), min_size=1, max_size=12)
    scenario = Scenario(
        data.draw(sizes), data.draw(sizes), tuple(data.draw(own_calls)), tuple(data.draw(st.lists(calls, max_size=12)))
    )
    # Now one kind of step is preferred, now another: else no long queues come about.
    random = Random(seed)
    preferred = 0

    def choose(steps: list[State]) -> State:
        nonlocal preferred
        if random.random() < 0.1:
            preferred = random.randrange(4)
        return steps[preferred % len(steps)]

    least = sum(call.pieces for call in scenario.calls + scenario.peer_calls)
    assert scenario.space().walk(choose) >= 2 * least
