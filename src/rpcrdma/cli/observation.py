"""`--pcap` and `--client-metrics`: connections and calls of a command, recorded and reported while it runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from rpcrdma.commands import console

__all__ = ["capturing", "telling_metrics"]


@contextlib.contextmanager
def capturing(args: argparse.Namespace) -> Iterator[None]:
    """Sets `args.capture` for the context: a packet capture to the file of --pcap, or None without that option.

    At exit the file is closed; without an error, a warning is printed if no connection was recorded.

    Raises:
        OSError: the file cannot be opened.
    """
    args.capture = None
    if getattr(args, "pcap", None) is None:
        yield
        return
    from rpcrdma.aio.drivers.capture import PacketCapture  # noqa: PLC0415

    args.capture = capture = PacketCapture(args.pcap)
    try:
        yield
        # An error tells its own cause, such as a provider that is not recorded.
        if not capture.connections:
            console.talk(f"warning: {args.pcap} is empty: --pcap records RDMA connections, and there was none")
    finally:
        capture.close()


@contextlib.contextmanager
def telling_metrics(args: argparse.Namespace) -> Iterator[None]:
    """Sets `args.metrics_told` for the context: with --client-metrics to a `ClientMetrics`, without it to None.

    The command's connections report to the `ClientMetrics`, which serves their metrics over HTTP, for Prometheus, at
    the address of that option until the context ends. The URL is printed on standard error.

    Raises:
        ConnectFailed: the address cannot be listened at, or the package prometheus-client is not installed.
    """
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
