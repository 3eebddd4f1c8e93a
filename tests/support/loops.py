"""Decorators of tests that are coroutine functions: each names the event loop that the test runs in."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from rpcrdma.testing.virtual import loop

__all__ = ["asynchronous", "decorator_of", "in_virtual_time"]

Test = Callable[..., Coroutine[Any, Any, None]]


def decorator_of(
    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
) -> Callable[[Test], Callable[..., None]]:
    """A decorator that has `run` execute the test."""

    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def executed(*arguments: Any, **fixtures: Any) -> None:
            run(functools.partial(test, *arguments, **fixtures))

        executed.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
        return executed

    return decorate


asynchronous = decorator_of(lambda main: asyncio.run(main()))
"""As without a decorator; Hypothesis takes no coroutine functions."""
in_virtual_time = decorator_of(loop.run)
"""`rpcrdma.testing.virtual.loop`: no descriptors and no threads."""
