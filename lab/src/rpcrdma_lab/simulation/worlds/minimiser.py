"""Makes a failing world smaller: fewer faults, fewer clients, fewer calls, as long as the same checker complains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rpcrdma_lab.simulation.worlds.plan import Kept, Plan

__all__ = ["minimise"]

T = TypeVar("T")

_TRIES_MAX = 400
"""The largest number of worlds that a minimisation runs: half a minute."""


def minimise(plan: Plan, fails: Callable[[Kept], bool], kept: Kept | None = None) -> Kept:
    """Looks for a smaller part of a plan whose world still fails; returns the numbers of its faults, clients and calls.

    Leaving out any single fault, client or call of the result would end the failure, unless 400 worlds were too few to
    find that. `fails` is called 400 times at most.

    Args:
        plan: the whole plan of a world that fails.
        fails: runs the world of a part of the plan, and returns whether it still violates a rule.
        kept: a part that is known to fail, with which the search begins; None: the whole plan.
    """
    left = _TRIES_MAX

    def still_fails(tried: Kept) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(tried)

    parts: dict[str, frozenset[Any]] = {
        "faults": frozenset(range(len(plan.faults))),
        "clients": frozenset(client.number for client in plan.clients),
        "calls": frozenset((client.number, call.number) for client in plan.clients for call in client.calls),
    }
    parts |= {name: value for name, value in (kept or Kept())._asdict().items() if value is not None}
    before = None
    while before != parts:
        before = dict(parts)
        for name in parts:

            def fails_with(some: frozenset[Any], name: str = name) -> bool:
                return still_fails(Kept(**{**parts, name: some}))

            parts[name] = _fewer(parts[name], fails_with)
            parts["calls"] = frozenset(call for call in parts["calls"] if call[0] in parts["clients"])
    return Kept(**parts)


def _fewer(items: Iterable[T], fails: Callable[[frozenset[T]], bool]) -> frozenset[T]:
    """Returns a subset of `items` for which `fails` still returns True; all items if no smaller one was found.

    Tries to leave out all items, then each half, and so on down to each single item.
    """
    kept = sorted(items)  # type: ignore[type-var]
    size = len(kept)
    while size:
        start = 0
        while start < len(kept):
            tried = kept[:start] + kept[start + size :]
            if fails(frozenset(tried)):
                kept = tried
            else:
                start += size
        size //= 2
    return frozenset(kept)
