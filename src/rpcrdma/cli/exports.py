"""`rpcrdma exports`: the exports of servers, and the clients that may mount them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rpcrdma.cli import console
from rpcrdma.cli.console import ExitStatus
from rpcrdma.cli.options import CommandParser, add_json, connect_options, service_url
from rpcrdma.cli.remote import Failures

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma exports rdma://server
  rpcrdma exports --json tcp://server:20048 | jq -r .export
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the command's arguments."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument(
        "url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT] or tcp://HOST[:PORT]"
    )
    add_json(parser, "one JSON object a line for each export")


async def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    for url in args.url:
        if url.path.strip("/"):
            return console.error(
                f"{url} is more than a server",
                f"name the server alone; rpcrdma ls {url} lists that directory",
                status=ExitStatus.USAGE,
            )
    failures = Failures()
    for url in args.url:
        with failures:
            await _list(args, url)
    return failures.status


async def _list(args: argparse.Namespace, url: Url) -> None:
    from rpcrdma.nfs.client.mount_client import list_exports  # noqa: PLC0415

    found = await list_exports(url, connect_options(args), mount_port=args.mount_port)
    if args.json:
        for export in found:
            console.json_line({"url": str(url), "export": export.name, "clients": list(export.clients)})
    else:
        if len(args.url) > 1:
            console.data(f"{url}:")
        console.table([(console.shown(one.name), console.shown(", ".join(one.clients)) or "*") for one in found])
