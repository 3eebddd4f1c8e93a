"""Which event loop a measurement runs on: both ends and both subjects use the same one."""

from __future__ import annotations

import asyncio
import importlib.util

LOOPS = ("asyncio", "uvloop") if importlib.util.find_spec("uvloop") else ("asyncio",)


def new_event_loop(name: str) -> asyncio.Runner:
    """A runner on the loop called `name`, to be used as a context manager."""
    if name == "uvloop":
        import uvloop  # noqa: PLC0415

        return asyncio.Runner(loop_factory=uvloop.new_event_loop)
    return asyncio.Runner()
