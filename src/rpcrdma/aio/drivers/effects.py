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
    """The sources of randomness, time and threads that code in one event loop uses; a simulation replaces them."""

    random_bits: Callable[[int], int] = secrets.randbits
    """Returns the given number of random bits, which no peer can guess."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds; it advances while a callback of the loop runs."""
    worker_pool: Callable[..., Any] | None = None
    """Makes an object with the interface of `WorkerPool`, from the same arguments; None: `WorkerPool` itself."""
    known_servers: Any = None
    """The `KnownServers` of connections; None: those known to the process."""
    before_handler: Callable[[str], None] | None = None
    """Is called with the name of a procedure before its handler runs in the event loop."""


_MACHINE = Effects()


def effects_of(loop: asyncio.AbstractEventLoop) -> Effects:
    """Returns the sources of randomness, time and threads for code in `loop`.

    They are the attribute `effects` of `loop`, which a loop of a simulation has, or else those of this machine.
    """
    found: Effects = getattr(loop, "effects", _MACHINE)
    return found


def _running() -> Effects:
    try:
        return effects_of(asyncio.get_running_loop())
    except RuntimeError:
        return _MACHINE


def random_bits(count: int) -> int:
    """Returns an integer of `count` random bits: unpredictable ones, or those of the simulation that runs this code."""
    return _running().random_bits(count)


def random_fraction() -> float:
    """Returns a random number from 0 to less than 1, made of 53 `random_bits`."""
    return random_bits(53) / (1 << 53)


def loop_clock() -> Callable[[], float]:
    """Returns a monotonic clock, a function that returns seconds: `time.monotonic`, or that of a simulation."""
    return _running().clock
