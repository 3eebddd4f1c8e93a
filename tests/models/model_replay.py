"""Traces of a small model, and their replay against the machine that the model is about.

A model is written from a specification and does not use the code of the machine. It has the possible actions of each
state, and for each action the following state and the expected observation. A machine has a method for each kind of
action, which returns an observation. A trace has the actions of one way through the model, each with the observation
that the model expects.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import pytest

__all__ = ["Action", "Difference", "Model", "Observation", "Step", "Trace", "check", "falsified", "replay", "traces"]

S = TypeVar("S", bound=Hashable)

Action: TypeAlias = tuple[Any, ...]
"""The name of a machine's method, and its arguments."""
Observation: TypeAlias = Hashable


class Model(Protocol[S]):
    """A transition system."""

    @property
    def start(self) -> S:
        """The first state."""

    @property
    def rare(self) -> frozenset[str]:
        """Kinds of actions that end much of a state, and so are rare on long ways."""

    def actions(self, state: S) -> Sequence[Action]:
        """The actions that are possible in a state."""

    def step(self, state: S, action: Action) -> tuple[S, Observation]:
        """The following state, and the expected observation."""


class Step(NamedTuple):
    """An action, and the observation that is expected of it."""

    action: Action
    expected: Observation


Trace: TypeAlias = tuple[Step, ...]


class Difference(AssertionError):
    """The machine differs from the model, at the step `number` of a trace."""

    def __init__(self, trace: Trace, number: int, observed: Observation) -> None:
        self.number = number
        before = "".join(f"\n  {action} -> {expected}" for action, expected in trace[:number])
        action, expected = trace[number]
        super().__init__(f"{before}\n  {action}\n    the model expects {expected}\n    the machine does  {observed}")


def _paths(model: Model[S], depth: int) -> Iterator[Trace]:
    """One way to each transition that `depth` actions can reach; ways that go on in another one are left out."""
    waiting: deque[tuple[S, Trace]] = deque([(model.start, ())])
    known = {model.start}
    while waiting:
        state, path = waiting.popleft()
        for action in model.actions(state):
            following, expected = model.step(state, action)
            longer = (*path, Step(action, expected))
            if following in known or len(longer) == depth:
                yield longer
            else:
                known.add(following)
                waiting.append((following, longer))


def _walk(model: Model[S], choose: random.Random, steps: int) -> Trace:
    """A way at random, as far as there are actions.

    Each kind of action is as likely as the others, a rare one a tenth of that.
    """
    state, path = model.start, []
    for _ in range(steps):
        actions = model.actions(state)
        if not actions:
            break
        kinds = sorted({action[0] for action in actions})
        (kind,) = choose.choices(kinds, [0.1 if kind in model.rare else 1.0 for kind in kinds])
        action = choose.choice([action for action in actions if action[0] == kind])
        state, expected = model.step(state, action)
        path.append(Step(action, expected))
    return tuple(path)


def traces(model: Model[S], *, depth: int, walks: int = 0, walk_steps: int = 0) -> list[Trace]:
    """A trace for each transition within `depth` actions, and `walks` longer ones at random, the same in each run."""
    found = list(_paths(model, depth))
    choose = random.Random(1)
    found += [_walk(model, choose, walk_steps) for _ in range(walks)]
    return found


def falsified(trace: Trace, seen: dict[str, list[Observation]]) -> tuple[Trace, int]:
    """The trace with one false expectation, and the number of that step; the same choice in each run.

    The false expectation is one that is true of another action of the same kind, where `seen` has any.
    """
    chosen = zlib.crc32(repr(trace).encode())
    number = chosen % len(trace)
    action, expected = trace[number]
    others = [other for other in seen[action[0]] if other != expected]
    if not others:
        others = [other for each in seen.values() for other in each if other != expected]
    step = Step(action, others[chosen % len(others)])
    return (*trace[:number], step, *trace[number + 1 :]), number


def replay(trace: Trace, machine: object) -> None:
    """Carries out the actions on the machine.

    Raises:
        Difference: an observation is not the expected one.
    """
    for number, (action, expected) in enumerate(trace):
        observed = getattr(machine, action[0])(*action[1:])
        if observed != expected:
            raise Difference(trace, number, observed)


def check(machine: Callable[[], object], found: Sequence[Trace]) -> int:
    """Replays each trace, and replays it with one expectation falsified, which must be noticed at that step.

    Returns the number of steps.
    """
    seen: dict[str, dict[Observation, None]] = {}
    for trace in found:
        for action, expected in trace:
            seen.setdefault(action[0], {})[expected] = None
    observations = {name: list(each) for name, each in seen.items()}
    for trace in found:
        replay(trace, machine())
        false, number = falsified(trace, observations)
        with pytest.raises(Difference) as difference:
            replay(false, machine())
        assert difference.value.number == number
    return sum(map(len, found))
