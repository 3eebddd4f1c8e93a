"""`rpcrdma ls`: what directories on a server hold."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcrdma.cli import console
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.listing_format import attributes_json, long_columns
from rpcrdma.cli.options import Subparsers, add_command, add_json, service_url
from rpcrdma.cli.remote import Failures, Servers

if TYPE_CHECKING:
    from rpcrdma.aio.files import NfsFilesystem
    from rpcrdma.nfs.client.attributes import Stat

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma ls rdma://server/home
  rpcrdma ls -l -a rdma://server:20049/home/reports
  rpcrdma ls -R --json tcp://server/home | jq -r .path
"""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers, "ls", run, arguments="URL ...", summary="list directories on a server", examples=_EXAMPLES
    )
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument("-l", dest="long", action="store_true", help="show mode, links, owner, group, size and time")
    parser.add_argument("-R", dest="recursive", action="store_true", help="list what directories hold, too")
    parser.add_argument("-a", dest="all", action="store_true", help="show names that start with a dot, too")
    add_json(parser, "one JSON object a line for each name")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    return run_async(_ls(args))


async def _ls(args: argparse.Namespace) -> int:
    failures = Failures()
    headed = args.recursive or len(args.url) > 1
    first = True
    async with Servers(args) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                attributes = await filesystem.stat(path)
                if not attributes.is_dir():
                    _print(args, [(url.path, await filesystem.lstat(path))])
                    continue
                waiting = [(path, url.path or "/")]
                while waiting:
                    directory, shown_as = waiting.pop()
                    if headed and not args.json:
                        console.data(("" if first else "\n") + console.shown(shown_as) + ":")
                    first = False
                    below = await _list(args, filesystem, directory, shown_as)
                    if args.recursive:
                        waiting += reversed(below)
    return failures.status


async def _list(
    args: argparse.Namespace, filesystem: NfsFilesystem, directory: str, shown_as: str
) -> list[tuple[str, str]]:
    """Prints one directory in the order of its names; returns the directories in it."""
    found = [entry async for entry in filesystem.scandir(directory) if args.all or not entry.name.startswith(".")]
    found.sort(key=lambda entry: entry.name)
    prefix = shown_as.rstrip("/") + "/"
    _print(args, [(prefix + entry.name if args.json else entry.name, entry.stat()) for entry in found])
    return [(entry.path, prefix + entry.name) for entry in found if entry.is_dir()]


def _print(args: argparse.Namespace, entries: Sequence[tuple[str, Stat]]) -> None:
    if args.json:
        for name, attributes in entries:
            console.json_line(attributes_json(name, attributes))
    elif args.long:
        console.table(
            [[*long_columns(attributes), console.shown(name)] for name, attributes in entries], right=range(1, 5)
        )
    else:
        for name, _ in entries:
            console.data(console.shown(name))
