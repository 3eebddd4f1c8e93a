"""`rpcrdma df`: the space of file systems on servers."""

from __future__ import annotations

import argparse
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.commands import CommandParser, add_json, console, service_url
from rpcrdma.limits import EXPORTS_ASKED_MAX

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url
    from rpcrdma.nfs.client.attributes import StatVfs

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma df rdma://server/home
  rpcrdma df --json rdma://server | jq .available_bytes

df rdma://server shows each export of the server.
"""
_HEADINGS = ("path", "size", "used", "available", "use", "files")


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma df` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    add_json(parser, "one JSON object a line for each file system")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma df`: prints the space in the file systems at the URLs `args.url`; returns the exit status.

    A URL above exports stands for all of these. An error about one URL (OSError or UserAuthenticationFailed) is
    printed, and the next URL follows. Raises RpcRdmaError if a connection fails, after the table of the earlier URLs.
    """
    failures = Failures()
    rows = []
    try:
        async with Servers(args, failures) as servers:
            for url in args.url:
                with failures:
                    async for one in _exports_at(servers, url):
                        with failures:
                            filesystem, path = await servers.locate(one)
                            facts = _facts(one.path or "/", await filesystem.statvfs(path))
                            if args.json:
                                console.json_line(facts)
                            else:
                                rows.append(_row(facts))
    finally:
        console.table(rows, right=range(1, len(_HEADINGS)), headings=_HEADINGS if rows else (), names=[0])
    return failures.status


async def _exports_at(servers: Servers, url: Url) -> AsyncIterator[Url]:
    """Yields `url` itself if an export contains it, else the URLs of the exports below it, in the server's order.

    Raises:
        OSError: E2BIG, after the first `EXPORTS_ASKED_MAX` (256) exports below it, if there are more.
        NoSuchExport: no export contains `url` or is below it.
        NfsError, RpcRdmaError: the server refuses to mount, cannot be reached, or does not answer.
    """
    from rpcrdma.nfs.client.mount_client import NoSuchExport  # noqa: PLC0415
    from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

    try:
        await servers.locate(url)
    except NoSuchExport as error:
        below = [name for name in error.exports if name.startswith(url.path.rstrip("/") + "/")]
        if not below:
            raise
        for name in below[:EXPORTS_ASKED_MAX]:
            yield replace(url, path=name)
        if len(below) > EXPORTS_ASKED_MAX:
            text = f"only {EXPORTS_ASKED_MAX} of {len(below):,} exports are shown; name the other ones to see theirs"
            excess = ServerPathError(errno.E2BIG, text, url.path)
            excess.found_at(url)
            raise excess from None
    else:
        yield url


def _facts(path: str, space: StatVfs) -> dict[str, Any]:
    unit = space.f_frsize
    return {
        "path": path,
        "size_bytes": space.f_blocks * unit,
        "used_bytes": max(0, space.f_blocks - space.f_bfree) * unit,
        "available_bytes": space.f_bavail * unit,
        "files": space.f_files,
        "files_used": max(0, space.f_files - space.f_ffree),
        "files_available": space.f_favail,
    }


def _row(facts: dict[str, Any]) -> list[str]:
    usable = facts["used_bytes"] + facts["available_bytes"]
    return [
        facts["path"],
        *(console.readable_octets(facts[key]) for key in ("size_bytes", "used_bytes", "available_bytes")),
        f"{-(-100 * facts['used_bytes'] // usable)} %" if usable else "-",
        f"{facts['files_used']:,}",
    ]
