"""The calls of a command as others see them: the lines of `-vv`, the file of `--pcap`, and `--client-metrics`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rpcrdma.cli import console

if TYPE_CHECKING:
    from rpcrdma.aio.connections.call_record import CallObserver, CallRecord

__all__ = ["call_logger", "capturing", "telling_metrics"]

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


@contextlib.contextmanager
def capturing(args: argparse.Namespace) -> Iterator[None]:
    """For the length of the context, `args.capture` records packets; it is None where `--pcap` is not given."""
    args.capture = None
    if getattr(args, "pcap", None) is None:
        yield
        return
    from rpcrdma.aio.drivers.capture import PacketCapture  # noqa: PLC0415

    args.capture = capture = PacketCapture(args.pcap)
    try:
        yield
    finally:
        capture.close()
        if not capture.connections:
            console.talk(f"warning: {args.pcap} is empty: --pcap records RDMA connections, and there was none")


@contextlib.contextmanager
def telling_metrics(args: argparse.Namespace) -> Iterator[None]:
    """For the length of the context, `args.metrics_told` is told of connections; None without `--client-metrics`."""
    args.metrics_told = None
    if getattr(args, "client_metrics", None) is None:
        yield
        return
    from rpcrdma.aio.client.client_metrics import ClientMetrics  # noqa: PLC0415

    with ClientMetrics() as metrics:
        metrics.start(*args.client_metrics)
        console.talk(f"metrics at {metrics.url}")
        args.metrics_told = metrics
        yield
