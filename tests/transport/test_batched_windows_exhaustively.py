"""Every interleaving of two endpoints that put several calls, or replies, into one message comes to its end.

The space that is explored is that of `window_space`.

As a program, the file says how large the spaces are:  python tests/transport/test_batched_windows_exhaustively.py
"""

from __future__ import annotations

import pytest

from rpcrdma.transport.message import Outgoing
from window_space import GROUP, NESTED, PLAIN, Call, Scenario, Stuck, explore_mistaken, print_sizes

# Each case is an item: run_mutants.py runs no item of more than two seconds.
pytestmark = pytest.mark.thorough

BATCHES = {
    "calls together": Scenario((6, 1), (1, 3), (PLAIN,) * 6, (), together=3),
    "calls of both ends together": Scenario((3, 2), (2, 3), (PLAIN,) * 3, (PLAIN,) * 2, together=3),
    "calls together, with long replies": Scenario((4, 1), (1, 3), (Call(1, 2), *[PLAIN] * 3), (), together=3),
    "calls together, whose handlers call": Scenario((3, 2), (2, 2), (NESTED, PLAIN, PLAIN), (PLAIN,), together=2),
    "calls together, and replies in groups": Scenario(
        (3, 0), (0, 3), (PLAIN, PLAIN, Call(1, GROUP + 2), PLAIN, PLAIN), (), promises=2, together=2
    ),
}


@pytest.mark.req("V2-4", "V2-7", "V2-44")
@pytest.mark.parametrize("name", BATCHES)
def test_every_interleaving_of_batches_comes_to_its_end(name: str) -> None:
    assert BATCHES[name].space().explore() > 200


class OnePaid:
    """Of several calls in one message only one counts."""

    __slots__ = ()

    def admit_several(self, first: Outgoing, _count: int) -> int:
        return self.admit(first)


def test_calls_that_are_not_counted_are_found() -> None:
    with pytest.raises(Stuck):
        explore_mistaken(OnePaid, BATCHES["calls together"])


if __name__ == "__main__":
    print_sizes({name: [scenario] for name, scenario in BATCHES.items()})
