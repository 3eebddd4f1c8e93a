"""Randomness, clock and handlers' threads of an event loop: those of the machine, or those of a simulation.

A loop of simulated time has an attribute `effects`. No other part of `aio` and `nfs.client` asks which loop runs it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Effects", "effects_of", "loop_clock", "random_bits", "random_fraction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects of one event loop."""

    random_bits: Callable[[int], int] = secrets.randbits
    """Returns the given number of random bits, which no peer can guess."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds; they advance while a callback of the loop runs."""
    worker_pool: Callable[..., Any] | None = None
    """Makes the object that has the interface of `WorkerPool`, from its arguments; None: that one."""
    known_servers: Any = None
    """The `KnownServers` of connections; None: those known to the process."""
    before_handler: Callable[[str], None] | None = None
    """Is called with the name of a procedure before its handler runs in the event loop."""


_MACHINE = Effects()


def effects_of(loop: asyncio.AbstractEventLoop) -> Effects:
    """Returns the effects of this loop."""
    found: Effects = getattr(loop, "effects", _MACHINE)
    return found


def _running() -> Effects:
    try:
        return effects_of(asyncio.get_running_loop())
    except RuntimeError:
        return _MACHINE


def random_bits(count: int) -> int:
    """Returns random bits of the running loop, or of the machine outside of loops."""
    return _running().random_bits(count)


def random_fraction() -> float:
    """Returns a random number from 0 to less than 1, by `random_bits`."""
    return random_bits(53) / (1 << 53)


def loop_clock() -> Callable[[], float]:
    """Returns the clock of the running loop, in seconds, or the machine's outside of loops."""
    return _running().clock
