"""The event loop that commands run on: uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run_async"]

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Runs a command to its end; an interrupt cancels it and is raised as KeyboardInterrupt."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None
    try:
        from uvloop import new_event_loop as factory  # noqa: PLC0415
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
