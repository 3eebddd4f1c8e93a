"""Tests with many cases: one item of pytest runs them all, for a fraction of the cost of an item for each."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from rpcrdma.aio.client import connect

__all__ = ["each_case"]


def each_case(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test function once for each case, as `pytest.mark.parametrize` does, but within one item.

    A failure ends the item; its note names the case. Each case has a `tmp_path` and a `monkeypatch` of its own, and
    finds `caplog`, `capsys` and `capfd` empty; other fixtures serve all cases. A coroutine function has an event
    loop for each case.

    Args:
        names: The arguments that a case gives: one name, names separated by commas, or a sequence of names.
        cases: The value of the only name, or a tuple with a value for each name.
    """
    single = isinstance(names, str) and "," not in names
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [dict(zip(keys, (case,) if single else case, strict=True)) for case in cases]
    assert rows, "a test without a case proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*instance: Any, **fixtures: Any) -> None:
            for number, row in enumerate(rows):
                # As before each item: a case meets its servers for the first time.
                connect._KNOWN_SERVERS.clear()
                with ExitStack() as stack:
                    try:
                        outcome = test(*instance, **_renewed(fixtures, number, stack), **row)
                        if inspect.iscoroutine(outcome):
                            asyncio.run(outcome)
                    except pytest.skip.Exception as reason:
                        raise AssertionError(f"a case would skip those after it: parametrize ({reason})") from None
                    except BaseException as error:
                        error.add_note("case: " + ", ".join(f"{name}={value!r}"[:300] for name, value in row.items()))
                        raise

        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _renewed(fixtures: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    """The fixtures of a test with those that keep something of an earlier case made anew or emptied."""
    renewed = dict(fixtures)
    if "monkeypatch" in fixtures:
        renewed["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
    if "tmp_path" in fixtures:
        renewed["tmp_path"] = fixtures["tmp_path"] / f"case-{number}"
        renewed["tmp_path"].mkdir()
    if "caplog" in fixtures:
        fixtures["caplog"].clear()
    for name in {"capsys", "capfd"} & fixtures.keys():
        fixtures[name].readouterr()
    return renewed
