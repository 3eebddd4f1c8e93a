"""`rpcrdma ls`: what directories on a server hold."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from rpcrdma.cli import console
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.listing_format import attributes_json, long_columns
from rpcrdma.cli.options import Subparsers, add_command, add_json, service_url
from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.limits import NFS_TREE_PENDING_MAX

if TYPE_CHECKING:
    from rpcrdma.aio.files import NfsFilesystem
    from rpcrdma.nfs.client.attributes import Stat
    from rpcrdma.nfs.client.directory_entry import DirEntry

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma ls rdma://server/home
  rpcrdma ls -l -a rdma://server:20049/home/reports
  rpcrdma ls -R --json tcp://server/home | jq -r .path
"""

_SORTED_MAX = 20_000
"""Entries that are held to be sorted, some 1,200 octets each; of more, runs of so many are sorted each by itself."""


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
    headings = _Headings(needed=(args.recursive or len(args.url) > 1) and not args.json)
    async with Servers(args) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                attributes = await filesystem.stat(path)
                if attributes.is_dir():
                    await _list_tree(args, filesystem, path, url.path or "/", failures, headings)
                else:
                    _print(args, [(url.path, await filesystem.lstat(path))])
    return failures.status


class _Headings:
    """Names directories before what they hold, with an empty line in between."""

    def __init__(self, *, needed: bool) -> None:
        self._needed = needed
        self._first = True

    def tell(self, path: str) -> None:
        if self._needed:
            console.data(("" if self._first else "\n") + console.shown(path) + ":")
        self._first = False


async def _list_tree(
    args: argparse.Namespace,
    filesystem: NfsFilesystem,
    top: str,
    shown_as: str,
    failures: Failures,
    headings: _Headings,
) -> None:
    """Prints a directory, with -R also those below it: each in the order of its names."""
    prefix = shown_as.rstrip("/") + "/"
    waiting: list[DirEntry] = []
    headings.tell(shown_as)
    directory: DirEntry | str = top
    cut: int | None = None
    while True:
        below: list[DirEntry] = []
        with failures:
            async for run in _sorted_runs(args, filesystem, directory, failures):
                if cut is None:
                    # The server's paths may begin otherwise than the URL's: with the target of a link.
                    cut = len(run[0].path) - len(run[0].name)
                _print(args, [(prefix + entry.path[cut:] if args.json else entry.name, entry.stat()) for entry in run])
                if args.recursive:
                    below += _with_room(run, len(waiting) + len(below), failures)
        waiting += reversed(below)
        if not waiting:
            return
        directory = waiting.pop()
        headings.tell(prefix + directory.path[cut:])


async def _sorted_runs(
    args: argparse.Namespace, filesystem: NfsFilesystem, directory: DirEntry | str, failures: Failures
) -> AsyncIterator[list[DirEntry]]:
    """The entries to be shown, sorted: all of them, or if they are many, so many at a time."""
    run: list[DirEntry] = []
    failure: OSError | None = None
    try:
        async for entry in filesystem.scandir(directory, onerror=failures.tell):
            if args.all or not entry.name.startswith("."):
                run.append(entry)
            if len(run) == _SORTED_MAX:
                yield sorted(run, key=_name)
                run = []
    except OSError as error:
        failure = error
    if run:
        yield sorted(run, key=_name)
    if failure is not None:
        raise failure


def _name(entry: DirEntry) -> str:
    return entry.name


def _with_room(run: list[DirEntry], waiting: int, failures: Failures) -> list[DirEntry]:
    """The directories in `run` that may wait to be listed beside `waiting` others."""
    directories = [entry for entry in run if entry.is_dir()]
    room = max(0, NFS_TREE_PENDING_MAX - waiting)
    if len(directories) > room:
        from rpcrdma.nfs.client.descent import too_many_pending  # noqa: PLC0415

        failures.tell(too_many_pending(directories[room].path))
    return directories[:room]


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
