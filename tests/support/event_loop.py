"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["in_event_loop"]


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test, or each of its cases, in an event loop of its own, by `asyncio.run`."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        # A fixture may have put another function into the place of this one.
        asyncio.run(test(*args, **fixtures))

    return run
