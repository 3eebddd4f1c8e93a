"""`rpcrdma stat`: the attributes of files on a server."""

from __future__ import annotations

import argparse
import stat
from typing import TYPE_CHECKING

from rpcrdma.cli.listing_format import attributes_json, kind_of, local_time
from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.commands import CommandParser, add_json, console, service_url

if TYPE_CHECKING:
    from rpcrdma.nfs.client.attributes import Stat

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma stat rdma://server/home/notes.txt
  rpcrdma stat -L --json rdma://server/home/latest
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma stat` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument("-L", dest="follow", action="store_true", help="follow symbolic links")
    add_json(parser, "one JSON object a line for each file")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma stat`: prints the attributes of the file at each of the URLs `args.url`; returns the exit status.

    An error about one file (OSError, or UserAuthenticationFailed, as of an export that demands Kerberos) is printed,
    and the next URL follows. Raises RpcRdmaError if a server cannot be reached, or breaks the protocol.
    """
    failures = Failures()
    async with Servers(args, failures) as servers:
        for url in args.url:
            with failures:
                filesystem, path = await servers.locate(url)
                attributes = await (filesystem.stat(path) if args.follow else filesystem.lstat(path))
                target = await filesystem.readlink(path) if attributes.is_symlink() else None
                if args.json:
                    facts = attributes_json(url.path or "/", attributes)
                    console.json_line(facts if target is None else facts | {"target": target})
                else:
                    _print(url.path or "/", attributes, target)
    return failures.status


def _print(path: str, attributes: Stat, target: str | None) -> None:
    mode = attributes.st_mode
    rows = [
        ("path", path if target is None else f"{path} -> {target}"),
        ("type", kind_of(attributes)),
        ("mode", f"{stat.S_IMODE(mode):04o} ({stat.filemode(mode)})"),
        ("links", str(attributes.st_nlink)),
        ("owner", f"uid {attributes.st_uid}, gid {attributes.st_gid}"),
        ("size", f"{attributes.st_size} bytes"),
        ("accessed", local_time(attributes.st_atime_ns)),
        ("modified", local_time(attributes.st_mtime_ns)),
        ("changed", local_time(attributes.st_ctime_ns)),
        ("fileid", str(attributes.st_ino)),
    ]
    console.table(rows, names=[1])
