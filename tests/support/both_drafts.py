"""Runs a test on both drafts of version 2: `raw`, its first parameter, makes and reads the messages of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from support import raw_messages, raw_messages_07

Raw: TypeAlias = ModuleType
DRAFTS: Sequence[Raw] = (raw_messages, raw_messages_07)


def each_draft(
    names: str | tuple[str, ...], cases: Callable[[Raw], Sequence[object] | Mapping[str, object]]
) -> pytest.MarkDecorator:
    """As `parametrize`, with cases that are made of the messages of each draft; those of a mapping have names."""
    names = (names,) if isinstance(names, str) else names
    found = []
    for raw in DRAFTS:
        made = cases(raw)
        named = made if isinstance(made, Mapping) else {str(number): case for number, case in enumerate(made)}
        for name, case in named.items():
            values = case if len(names) > 1 else (case,)
            found.append(pytest.param(raw, *values, id=f"{raw.NAME}-{name}"))  # type: ignore[misc]
    return pytest.mark.parametrize(("raw", *names), found)


def in_first_draft(raw: Raw, cases: Callable[[], list[Any]]) -> list[Any]:
    """Cases of `each_draft` whose octets only the first draft can have."""
    return cases() if raw is raw_messages else []


def offers(raw: Raw) -> tuple[str, ...]:
    """The version by which an end speaks this draft to a peer that does; only the first is in `auto`."""
    return ("auto", "2") if raw is raw_messages else ("2-07",)


FIRST_DRAFT = pytest.mark.parametrize("raw", [raw_messages], ids=["2"])
LAST_DRAFT = pytest.mark.parametrize("raw", [raw_messages_07], ids=["2-07"])
EACH_OFFER = pytest.mark.parametrize(
    ("raw", "versions"),
    [pytest.param(raw, versions, id=versions) for raw in DRAFTS for versions in offers(raw)],
)
