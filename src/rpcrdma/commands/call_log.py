"""The lines of `-vv`: one for each call."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcrdma.aio.connections.calls_made import CallObserver
    from rpcrdma.transport import Call

__all__ = ["call_logger"]

_LOGGER = logging.getLogger("rpcrdma.calls")


def call_logger() -> CallObserver | None:
    """Returns a function that logs its argument, an RPC call that has ended, at level DEBUG.

    Returns None, which costs RPC calls nothing, if the logger `rpcrdma.calls` is off at that level now.
    """
    return _log if _LOGGER.isEnabledFor(logging.DEBUG) else None


def _log(call: Call) -> None:
    _LOGGER.debug(
        "xid 0x%08x %s to %s: %s, %d bytes out, %d in, %.0f µs%s",
        call.xid,
        call.procedure.name,
        call.peer,
        call.travelled,
        call.octets_sent,
        call.octets_received,
        call.elapsed_s * 1e6,
        "" if call.error is None else f", {_outcome(call.error)}",
    )


def _outcome(error: BaseException) -> str:
    return "given up" if isinstance(error, asyncio.CancelledError) else f"failed: {error}"
