"""The functions that a piece of work enters, or its instructions: as many on a slow machine as on a fast one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["functions_entered", "instructions_run"]


def functions_entered(run: Callable[[], object]) -> int:
    """Calls `run`; returns the number of functions that this thread enters in it, in Python and in C."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def instructions_run(run: Callable[[], object]) -> int:
    """Calls `run`; returns the number of instructions of Python that this thread runs in it, without those in C."""
    count = 0

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
