"""`rpcrdma watch`: the changes in a directory of a server, as they happen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.remote import Servers
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, service_url
from rpcrdma.commands.arguments import positive_count, seconds

if TYPE_CHECKING:
    from rpcrdma.nfs.client import Change, Changes

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma watch rdma://server/home/reports
  rpcrdma watch --recursive --json rdma://server/home | jq -r .path
  rpcrdma watch --count 1 rdma://server/home/inbox && echo something came

output:
  created, removed, changed, attributes: and the path in the directory
  renamed: the path before, ->, and the path now
  rescan: changes were missed, for instance while the server was down: list
          the directory anew

A lost connection is made again; changes of the time between follow then.
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the command's arguments."""
    parser.describe(run, "URL", _EXAMPLES)
    add = parser.add_argument
    add("url", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/DIRECTORY")
    add("-R", "--recursive", action="store_true", help="watch the directories below, too")
    add("-c", "--count", type=positive_count, metavar="COUNT", help="end after this many changes (default: never)")
    add(
        "--changes-in-clear",
        action="store_true",
        help="with --sec krb5, krb5i or krb5p: take changes all the same, whose names nothing protects on the way",
    )
    add("--seconds", type=seconds, metavar="SECONDS", help="end after this time (default: never)")
    add_json(
        parser,
        "one JSON object a line for each event: watching, created, removed, renamed, changed, attributes, rescan, "
        "reconnected, error",
    )
    parser.set_defaults(beside_errors={"event": "error"})


async def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    import asyncio  # noqa: PLC0415 - see `run_async`

    async with Servers(args) as servers:
        filesystem, path = await servers.locate(args.url)
        watching = filesystem.watch(
            path,
            recursive=args.recursive,
            on_reconnected=lambda: _say(args, {"event": "reconnected"}, "connection lost; reconnected"),
        )
        async with watching as changes:
            _say(args, {"event": "watching", "url": str(args.url)}, f"watching {args.url}")
            try:
                async with asyncio.timeout(args.seconds) as limit:
                    await _print(args, changes)
            except TimeoutError:
                if not limit.expired():
                    raise
            except asyncio.CancelledError:
                # The usual end of this command is an interrupt.
                pass
    return ExitStatus.DONE


async def _print(args: argparse.Namespace, changes: Changes) -> None:
    left = args.count
    async for change in changes:
        if args.json:
            console.json_line(_described(change))
        else:
            console.write(_line(change) + "\n", flush=True)
        if left is not None:
            left -= 1
            if not left:
                return


def _described(change: Change) -> dict[str, Any]:
    return {
        "event": change.kind.value,
        "path": change.path,
        "target": change.target,
        "is_directory": change.is_directory,
    }


def _line(change: Change) -> str:
    from rpcrdma.nfs.client import ChangeKind  # noqa: PLC0415

    if change.kind is ChangeKind.RESCAN:
        return "rescan"
    slash = "/" if change.is_directory else ""
    line = f"{change.kind.value} {console.shown(change.path or '.')}{slash}"
    return line if change.target is None else f"{line} -> {console.shown(change.target)}{slash}"


def _say(args: argparse.Namespace, event: dict[str, Any], text: str) -> None:
    """Prints an event: as a message, with --json on standard output."""
    if args.json:
        console.json_line(event)
    else:
        console.talk(text)
