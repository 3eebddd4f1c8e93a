"""`rpcrdma mv`: renames and moves on one server."""

from __future__ import annotations

import argparse
import errno
import posixpath
from dataclasses import replace

from rpcrdma.cli.remote import Failures, Servers, ends_in_dots
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, service_url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma mv rdma://server/home/draft.txt rdma://server/home/final.txt
  rpcrdma mv rdma://server/home/a rdma://server/home/b rdma://server/home/archive
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma mv` to `parser`."""
    parser.describe(run, "SOURCE ... DEST", _EXAMPLES)
    parser.add_argument("source", nargs="+", type=service_url, metavar="SOURCE", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument(
        "dest", type=service_url, metavar="DEST", help="the new name, or the directory to move the sources to"
    )
    add_json(parser, "one JSON object a line for each source")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma mv`: renames or moves the URLs `args.source` to `args.dest`; returns the exit status.

    If `args.dest` is a directory, the sources are moved into it; several sources need one. URLs that differ in scheme,
    host or port, and a source that ends in . or .., are errors (USAGE), which are printed before anything is moved. A
    source that fails, as one in another export, is reported, and the others follow. Raises RpcRdmaError if a connection
    fails.
    """
    from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

    dest = args.dest
    for source in args.source:
        if (source.scheme, source.host, source.port) != (dest.scheme, dest.host, dest.port):
            return console.error(
                f"{source} and {dest} are not on one server", "copy with get and put, then rm", status=ExitStatus.USAGE
            )
        if ends_in_dots(source):
            text = f"{source} ends in . or .., which cannot be moved"
            return console.error(text, "name the directory itself", status=ExitStatus.USAGE)
    failures = Failures()
    async with Servers(args, failures) as servers:
        with failures:
            filesystem, dest = await servers.locate(args.dest)
            try:
                into = (await filesystem.stat(dest)).is_dir()
            except FileNotFoundError:
                into = False
            if len(args.source) > 1 and not into:
                raise ServerPathError(errno.ENOTDIR, "is no directory to move several files to", dest)
            moved: set[str] = set()
            for source in args.source:
                with failures:
                    origin, path = await servers.locate(source)
                    if origin is not filesystem:
                        reason = "is in another export; copy with get and put, then rm"
                        raise ServerPathError(errno.EXDEV, reason, path)
                    if not path.strip("/"):
                        reason = "is a whole export, which cannot be moved; name something in it"
                        raise ServerPathError(errno.EBUSY, reason, path)
                    target = posixpath.join(dest, posixpath.basename(path.rstrip("/"))) if into else dest
                    if target in moved:
                        raise ServerPathError(errno.EEXIST, "would replace an earlier source, which has its name", path)
                    try:
                        await filesystem.rename(path, target)
                    except OSError as error:
                        if error.errno == errno.EINVAL and target.startswith(f"{path.rstrip('/')}/"):
                            error.add_note("a directory cannot be moved into itself")
                        raise
                    moved.add(target)
                    if args.json:
                        name = posixpath.basename(target)
                        to = replace(args.dest, path=posixpath.join(args.dest.path, name)) if into else args.dest
                        console.json_line({"moved": str(source), "to": str(to)})
    return failures.status
