"""`rpcrdma mv`: renames and moves on one server."""

from __future__ import annotations

import argparse
import errno
import posixpath

from rpcrdma.cli import console
from rpcrdma.cli.event_loop import run_async
from rpcrdma.cli.exit_status import ExitStatus
from rpcrdma.cli.options import Subparsers, add_command, add_json, service_url
from rpcrdma.cli.remote import Failures, Servers

__all__ = ["add_parser", "run"]

_EXAMPLES = """\
  rpcrdma mv rdma://server/home/draft.txt rdma://server/home/final.txt
  rpcrdma mv rdma://server/home/a rdma://server/home/b rdma://server/home/archive
"""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "mv",
        run,
        arguments="SOURCE ... DEST",
        summary="rename or move files on one server",
        examples=_EXAMPLES,
    )
    parser.add_argument("source", nargs="+", type=service_url, metavar="SOURCE", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument(
        "dest", type=service_url, metavar="DEST", help="the new name, or the directory to move the sources to"
    )
    add_json(parser, "one JSON object a line for each source")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    dest = args.dest
    for source in args.source:
        if (source.scheme, source.host, source.port) != (dest.scheme, dest.host, dest.port):
            return console.error(
                f"{source} and {dest} are not on one server", "copy with get and put, then rm", status=ExitStatus.USAGE
            )
    return run_async(_mv(args))


async def _mv(args: argparse.Namespace) -> int:
    failures = Failures()
    async with Servers(args, failures) as servers:
        with failures:
            filesystem, dest = await servers.locate(args.dest)
            try:
                into = (await filesystem.stat(dest)).is_dir()
            except FileNotFoundError:
                into = False
            if len(args.source) > 1 and not into:
                raise NotADirectoryError(errno.ENOTDIR, "is no directory to move several files to", args.dest.path)
            for source in args.source:
                with failures:
                    origin, path = await servers.locate(source)
                    if origin is not filesystem:
                        reason = "is in another export; copy with get and put, then rm"
                        raise OSError(errno.EXDEV, reason, source.path)
                    target = posixpath.join(dest, posixpath.basename(path.rstrip("/"))) if into else dest
                    await filesystem.rename(path, target)
                    if args.json:
                        console.json_line({"moved": str(source), "to": str(args.dest)})
    return failures.status
