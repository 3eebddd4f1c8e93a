"""`rpcrdma exports`: the exports of servers, the clients that may mount them, and their security flavors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rpcrdma.cli.remote import Failures
from rpcrdma.commands import CommandParser, ExitStatus, add_json, connect_options, console, service_url

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma exports rdma://server
  rpcrdma exports --json tcp://server:20048 | jq -r .export

The columns are an export, the clients that may mount it, * for any, and its
security flavors, - where this client may not mount it, sec=? where they are not
known. NFS version 4, which is asked where the server does not offer MOUNT at
the same address, does not tell the clients: ?
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma exports` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument(
        "url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT] or tcp://HOST[:PORT]"
    )
    add_json(parser, "one JSON object a line for each export")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma exports`: prints the exports of the servers at the URLs `args.url`; returns the exit status.

    A URL with a path is an error (USAGE), which is printed, and no server is asked. An OSError, as of a server without
    an export for this host, and UserAuthenticationFailed are printed, and the other servers follow. Raises RpcRdmaError
    at the first server that does not answer, refuses the calls themselves or breaks the protocol.
    """
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
    from rpcrdma.nfs.client.security_choice import flavor_names  # noqa: PLC0415
    from rpcrdma.nfs.errors import NfsError  # noqa: PLC0415

    try:
        found = await list_exports(url, connect_options(args), mount_port=args.mount_port)
    except NfsError as error:
        error.found_at(url)
        raise
    if args.json:
        for export in found:
            clients = None if export.clients is None else list(export.clients)
            security = None if export.flavors is None else flavor_names(export.flavors)
            report = {"url": str(url), "export": export.name, "clients": clients, "security": security}
            console.json_line(report)
    else:
        if len(args.url) > 1:
            console.data(f"{url}:")
        console.table(
            [
                (
                    one.name,
                    "?" if one.clients is None else ", ".join(one.clients) or "*",
                    "-" if one.flavors is None else "sec=" + (":".join(flavor_names(one.flavors)) or "?"),
                )
                for one in found
            ],
            names=[0, 1],
        )
