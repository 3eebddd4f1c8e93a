"""Runs a test on both drafts of version 2: `raw`, its first parameter, makes and reads the messages of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from support import raw_messages, raw_messages_07
from support.cases import each_case

Raw: TypeAlias = ModuleType
DRAFTS: Sequence[Raw] = (raw_messages, raw_messages_07)


def each_draft(
    names: str | tuple[str, ...], cases: Callable[[Raw], Sequence[Any] | Mapping[str, Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test with `raw` and with cases that are made of the messages of each draft, as `each_case` does."""
    names = (names,) if isinstance(names, str) else names
    found: list[tuple[Any, ...]] = []
    for raw in DRAFTS:
        made = cases(raw)
        values = made.values() if isinstance(made, Mapping) else made
        found.extend((raw, *(case if len(names) > 1 else (case,))) for case in values)
    return each_case(("raw", *names), found)


def in_first_draft(raw: Raw, cases: Callable[[], list[Any]]) -> list[Any]:
    """Cases of `each_draft` whose octets only the first draft can have."""
    return cases() if raw is raw_messages else []


def offers(raw: Raw) -> tuple[str, ...]:
    """The version by which an end speaks this draft to a peer that does; only the first is in `auto`."""
    return ("auto", "2") if raw is raw_messages else ("2-07",)


FIRST_DRAFT = each_case("raw", [raw_messages])
EACH_OFFER = each_case(("raw", "versions"), [(raw, versions) for raw in DRAFTS for versions in offers(raw)])
