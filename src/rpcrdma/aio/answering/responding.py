"""What the calls that arrive on a connection are answered with: a server's, or a client's that is called back."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.aio.answering.at_most_once import AtMostOnce
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.rpc.dispatch import Dispatcher

__all__ = ["Responding"]


@dataclass(frozen=True, slots=True)
class Responding:
    """Finds handlers and runs them; shared by any number of connections."""

    dispatcher: Dispatcher
    runner: HandlerRunner
    at_most_once: AtMostOnce | None = None
    """For calls that may be repeats; None: each call that comes is run."""
