"""Every interleaving of two endpoints with small windows: none gets stuck, and no message comes without a receive.

The space that is explored is that of `window_space`; some of its messages go in groups of an extension.

As a program, the file explores the larger spaces, too:  python tests/transport/test_windows_exhaustively.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.rtr.requests import Promises
from rpcrdma.transport.message import Inbound, Kind, Outgoing
from window_space import (
    DROPPED,
    ERROR,
    GROUP,
    NESTED,
    PLAIN,
    PROPERTIES,
    Call,
    Overrun,
    Scenario,
    State,
    Stuck,
    Unpaid,
    explore_mistaken,
    print_sizes,
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
LARGER_SCENARIOS = {
    "every kind of answer": Scenario(
        (3, 2), (2, 2), (Call(2, ERROR), Call(1, 2, nested=True), PLAIN), (Call(1, 2), Call(2, 1), Call(1, ERROR))
    ),
    "three calls each": Scenario((3, 1), (3, 1), (Call(1, 2, nested=True),) * 2 + (NESTED,), (Call(1, 2),) * 3),
    "two handlers that call": Scenario((6, 2), (2, 2), (NESTED,) * 2 + (PLAIN,) * 3, (Call(1, 2), PLAIN)),
    "errors and handlers that call": Scenario(
        (6, 2), (2, 2), (Call(1, ERROR),) * 6 + (Call(2, ERROR),), (NESTED, NESTED)
    ),
    "long calls": Scenario((2, 2), (2, 2), (Call(5, 2), Call(1, 3)), (Call(4, 1), Call(1, 3))),
}


def small_windows(*calls: tuple[Call, ...]) -> Iterator[Scenario]:
    """The same calls, with windows of every size from 1 to 3."""
    for sizes in itertools.product((1, 2, 3), repeat=4):
        yield Scenario(sizes[:2], sizes[2:], *calls)


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_interleaving_comes_to_its_end(name: str) -> None:
    floor = 50 if "drop" in name else 200
    assert SCENARIOS[name].space().explore() > floor


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


class CallsUnbounded:
    """Calls may take the credits for answers."""

    __slots__ = ()
    allowed = property(lambda self: self.requested, lambda _self, _value: None)


class NoGrants:
    """Credits travel in the headers of other messages only."""

    __slots__ = ()
    refresh_due = False


class GrantsAtHalf:
    """A grant waits until half is owed even where nothing is left."""

    __slots__ = ()

    @property
    def _refreshable(self) -> bool:
        return self._heard and self.owed > 1 and self.owed >= self.outstanding


class GrantsAtOnce:
    """All owed credits are granted."""

    __slots__ = ()
    low = property(lambda _self: True, lambda _self, _value: None)

    @property
    def refresh_due(self) -> bool:
        return not self._unproven and self._heard and self.owed > 0


class GrantsUnproven:
    """A grant does not wait for a sign that the one before has arrived."""

    __slots__ = ()

    @property
    def refresh_due(self) -> bool:
        return self._refreshable


class NoneOver:
    """The peer gets credits for calls and answers only."""

    __slots__ = ()

    def __init__(self, requested: int, granted: int, reservable: int) -> None:
        super().__init__(requested, granted, reservable)
        self._base = granted


class NoneForAnswers:
    """The peer has to keep credits back for its answers."""

    __slots__ = ()
    _base = property(lambda self: self.granted + 1 - self.in_flight, lambda _self, _value: None)


class AnswersReserved:
    """Calls are bounded by the owed answers, of which each keeps a credit, and not by the peer's receives."""

    __slots__ = ()
    allowed = property(lambda self: self.requested if self.balance > self.unanswered else 0, lambda _self, _value: None)


class ErrorsGive:
    """Errors bring credits, which their receiver does not look at."""

    __slots__ = ()

    def admit(self, message: Outgoing) -> int:
        word = super().admit(message)
        return word | self._give() if message.kind is Kind.ERROR else word


class UncountedIsRoom:
    """A message that has just come is taken for room for one more call."""

    __slots__ = ()

    def on_arrival(self, message: Inbound | None) -> bool:
        taken = super().on_arrival(message)
        self._count(Kind.PROPERTIES)
        return taken


class SendsAnyway:
    """Pieces go out without credits."""

    __slots__ = ()
    overdrawn = 100


class SendsOneAnyway:
    """One piece goes out without a credit, for which there is a receive: that for grants."""

    __slots__ = ()
    overdrawn = 1


class NoneOverPromises(Promises):
    """The peer gets as many credits for a reply as that needs, and no more."""

    __slots__ = ()

    def make(self, messages: int) -> None:
        self._take(messages)


@pytest.mark.parametrize(
    ("mistake", "name", "outcome"),
    [
        (CallsUnbounded, "more calls than credits", Stuck),
        (NoGrants, "pieces both ways", Stuck),
        (GrantsAtHalf, "pieces both ways", Stuck),
        (GrantsAtOnce, "dropped calls", Stuck),
        (GrantsUnproven, "one long call each", Overrun),
        (NoneOver, "a handler that calls", Stuck),
        (NoneForAnswers, "long replies", Stuck),
        (AnswersReserved, "errors and handlers that call", Stuck),
        (ErrorsGive, "errors", Stuck),
        (UncountedIsRoom, "more calls than credits, and a long reply", Stuck),
        (SendsAnyway, "long and short ones", Overrun),
        (SendsOneAnyway, "long and short ones", Unpaid),
        (NoneOverPromises, "notices use up what a reply needs", Stuck),
    ],
)
def test_mistakes_in_the_policy_are_found(mistake: type, name: str, outcome: type[AssertionError]) -> None:
    with pytest.raises(outcome):
        explore_mistaken(mistake, (SCENARIOS | GROUPS | LARGER_SCENARIOS)[name])


def main() -> None:
    """Explores the larger spaces, too, and says how large they are."""
    explored = {name: [scenario] for name, scenario in (SCENARIOS | GROUPS | LARGER_SCENARIOS).items()}
    explored["every size"] = list(small_windows((Call(2, 3, nested=True), Call(3, 1)), (Call(1, 2), Call(2, ERROR))))
    print_sizes(explored)


if __name__ == "__main__":
    main()
