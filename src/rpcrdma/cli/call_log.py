"""The lines of `-vv`: one for each call."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpcrdma.aio.connections.call_record import CallObserver, CallRecord

__all__ = ["call_logger"]

_LOGGER = logging.getLogger("rpcrdma.calls")


def call_logger() -> CallObserver | None:
    """A function that logs each call; None where the log level hides it, so that calls cost nothing."""
    return _log if _LOGGER.isEnabledFor(logging.DEBUG) else None


def _log(record: CallRecord) -> None:
    _LOGGER.debug(
        "xid 0x%08x %s to %s: %s, %d bytes out, %d in, %.0f µs%s",
        record.xid,
        record.procedure,
        record.peer,
        record.form,
        record.octets_sent,
        record.octets_received,
        record.elapsed_s * 1e6,
        "" if record.error is None else f", {_outcome(record.error)}",
    )


def _outcome(error: BaseException) -> str:
    return "given up" if isinstance(error, asyncio.CancelledError) else f"failed: {error}"
