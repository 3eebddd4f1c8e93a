"""`rpcrdma cat`: prints files of a server."""

from __future__ import annotations

import argparse
import os
import sys

from rpcrdma.cli.event_loop import run_async, stop_at_once
from rpcrdma.cli.options import Subparsers, add_command, service_url
from rpcrdma.cli.remote import Failures, Servers

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma cat rdma://server/home/notes.txt
  rpcrdma cat rdma://server/backup/all.tar.zst | tar --zstd -t
"""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "cat",
        run,
        arguments="URL ...",
        summary="print files of a server to standard output",
        examples=_EXAMPLES,
    )
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    return run_async(_cat(args))


async def _cat(args: argparse.Namespace) -> int:
    failures = Failures()
    # Standard output may block for as long as its reader likes, and a signal must end even that.
    stop_at_once()
    sys.stdout.flush()
    output = sys.stdout.fileno()
    async with Servers(args, failures) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                async with await filesystem.open(path, "rb") as file:
                    async for data in file.views():
                        _write_all(output, data)
    return failures.status


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
