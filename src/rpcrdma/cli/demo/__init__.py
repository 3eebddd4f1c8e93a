"""`rpcrdma demo`: a real file tree travels over RPC-over-RDMA in both directions, and every file is compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from rpcrdma.commands import CommandParser, add_json, octets

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma demo
  rpcrdma demo --pcap demo.pcap --limit-bytes 1M       then: wireshark demo.pcap
  rpcrdma demo --source ~/photos --json
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma demo` to `parser`."""
    parser.describe(run, "", _EXAMPLES)
    add = parser.add_argument
    add(
        "--source",
        type=Path,
        metavar="DIR",
        help="the tree to copy, which stays unchanged (default: 64 MB of Python's library and packages)",
    )
    add("--keep", type=Path, metavar="DIR", help="keep the copies in DIR, which must be new or empty")
    add(
        "--address",
        default="127.0.0.1",
        help="the address of this machine over which the data goes: that of an RDMA device tries the device (default: "
        "%(default)s)",
    )
    add("--limit-bytes", type=octets, metavar="N", help="the amount of data to move, for example 5M")
    add_json(parser)


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma demo`: starts a server with a file tree, copies the tree out and back over RDMA, and compares.

    The tree is `args.source`, by default files of Python. Returns the exit status, FAILED if a copy differs. Raises
    OSError if there is too little space or a directory is unfit, RpcRdmaError if the server or a connection failed.
    """
    from rpcrdma.cli.demo.journey import demonstrate  # noqa: PLC0415

    return await demonstrate(args)
