"""`--pcap`: one file for all RDMA connections of a command."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from rpcrdma.cli import console

__all__ = ["capturing"]


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
