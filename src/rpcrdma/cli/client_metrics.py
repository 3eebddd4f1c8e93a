"""`--client-metrics`: the calls of a command that connects, told to Prometheus while it runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from rpcrdma.cli import console

__all__ = ["telling_metrics"]


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
