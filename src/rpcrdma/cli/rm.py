"""`rpcrdma rm`: removes files and trees on a server."""

from __future__ import annotations

import argparse
import errno
from typing import TYPE_CHECKING

from rpcrdma.cli.remote import Failures, Servers, ends_in_dots
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, service_url
from rpcrdma.commands.options import add_exclude

if TYPE_CHECKING:
    from rpcrdma.nfs.client import NfsFilesystem
    from rpcrdma.nfs.client.trees.tree_remove import RemoveReport

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma rm rdma://server/home/notes.txt
  rpcrdma rm -r -f rdma://server/home/scratch
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma rm` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument("-r", "-R", dest="recursive", action="store_true", help="remove directories and their contents")
    parser.add_argument("-f", dest="force", action="store_true", help="ignore URLs that do not exist")
    add_exclude(parser, "leave entries of trees, and the directories above them,")
    add_json(parser, "one JSON object a line for each URL whose removal is complete")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma rm`: removes the files, and with -r the trees, at the URLs `args.url`; returns the exit status.

    A URL without a path, or that ends in . or .., is an error (USAGE), which is printed before anything is removed.
    Other failures are reported, except for missing files with -f, and the other URLs follow. A tree in which --exclude
    keeps entries stays, with a message, and is no failure. Raises RpcRdmaError if a connection fails.
    """
    for url in args.url:
        if not url.path.strip("/"):
            return console.error(
                f"{url} is a whole export, which cannot be removed", "name something in it", status=ExitStatus.USAGE
            )
        if ends_in_dots(url):
            return console.error(
                f"{url} ends in . or .., which cannot be removed", "name the directory itself", status=ExitStatus.USAGE
            )
    failures = Failures()
    async with Servers(args, failures) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                try:
                    report = await _remove(args, filesystem, path)
                except FileNotFoundError:
                    if not args.force:
                        raise
                    continue
                if report is not None and report.failures:
                    failures.tell_of_tree(report.failures, report.failures_total, f"failures to remove parts of {url}")
                elif report is not None and report.excluded:
                    entries = console.counted(report.excluded, "entry", "entries")
                    console.talk(f"{url} stays, since --exclude keeps {entries} in it")
                elif args.json:
                    console.json_line({"removed": str(url)})
    return failures.status


async def _remove(args: argparse.Namespace, filesystem: NfsFilesystem, path: str) -> RemoveReport | None:
    """Removes the file or, with -r, the tree at `path`; returns the report on a tree, None for a file.

    Failures in a tree are in the report. Entries that match a pattern of `args.exclude` stay, with the directories
    above them.

    Raises:
        OSError: EBUSY: `path` is the root of the export. EISDIR: `path` is a directory, and -r is not given. Or `path`
            does not exist, or the server refuses.
    """
    from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

    if not path.strip("/"):
        raise ServerPathError(errno.EBUSY, "is a whole export, which cannot be removed; name something in it", path)
    attributes = await filesystem.lstat(path)
    if not attributes.is_dir():
        await filesystem.unlink(path)
    elif args.recursive:
        return await filesystem.rmtree(path, exclude=args.exclude)
    else:
        raise ServerPathError(errno.EISDIR, "is a directory; rm -r removes it and its contents", path)
    return None
