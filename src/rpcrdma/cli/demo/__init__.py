"""`rpcrdma demo`: a real file tree travels over RPC-over-RDMA in both directions, and every file is compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.options import Subparsers, add_command, add_json, octets

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma demo
  rpcrdma demo --pcap demo.pcap --limit-bytes 1M       then: wireshark demo.pcap
  rpcrdma demo --source ~/photos --json
"""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "demo",
        run,
        arguments="",
        summary="export a real file tree, copy it out and back over RDMA, verify and report",
        examples=_EXAMPLES,
    )
    add = parser.add_argument
    add(
        "--source",
        type=Path,
        metavar="DIR",
        help="the tree to copy, which stays unchanged (default: 64 MB of Python's library and packages)",
    )
    add("--keep", type=Path, metavar="DIR", help="keep the copies in DIR, which must be new or empty")
    add("--limit-bytes", type=octets, metavar="N", help="the amount of data to move, for example 5M")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from rpcrdma.cli.demo.journey import demonstrate  # noqa: PLC0415

    return run_async(demonstrate(args))
