"""`rpcrdma cat`: prints files of a server."""

from __future__ import annotations

import argparse
import os
import sys

from rpcrdma.cli.event_loop import stop_at_once
from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.commands import CommandParser, console, service_url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma cat rdma://server/home/notes.txt
  rpcrdma cat rdma://server/backup/all.tar.zst | tar --zstd -t
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma cat` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma cat`: writes the files at the URLs `args.url` to standard output; returns the exit status.

    A file that fails, perhaps after a part of it was written, is reported, and the others follow. A signal raises
    `Stopped` at any point, even while standard output blocks.

    Raises:
        RpcRdmaError: a connection fails.
        OSError: standard output has refused octets, after which none follow.
    """
    failures = Failures()
    # Standard output may block for as long as its reader likes, and a signal must end even that.
    stop_at_once()
    console.write(flush=True)
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
    with console.naming_standard_output():
        while data:
            data = data[os.write(descriptor, data) :]
