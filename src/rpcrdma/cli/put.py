"""`rpcrdma put`: copies files and trees to a server."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.cli.copies import Copies, add_copy_options, naming_partial_files
from rpcrdma.cli.remote import Servers
from rpcrdma.commands import CommandParser, ExitStatus, console, service_url
from rpcrdma.commands.arguments import is_url, local_name, no_url
from rpcrdma.commands.progress import progress_bar

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma put notes.txt rdma://server/home/notes.txt
  rpcrdma put ./reports rdma://server/home
  rpcrdma put --resume -T ./reports rdma://server/home/reports
  rpcrdma put --json a b c tcp://server/home/drop
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma put` to `parser`."""
    parser.describe(run, "SOURCE ... URL", _EXAMPLES)
    parser.add_argument("source", nargs="+", type=local_name, metavar="SOURCE", help="a local file or tree")
    parser.add_argument("dest", metavar="URL", help="name of the copy, or an existing directory for the copies")
    add_copy_options(parser, "give existing directories the permissions and times of the local ones as well")


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma put`: copies the local files and trees `args.source` to the URL `args.dest`.

    A source that is a URL, and a destination that is none, are errors (USAGE), which are printed before anything is
    copied. Failures of files and trees are printed, and the others follow. A connection that fails is printed, not
    raised, and ends the copying. Then prints the totals (`Copies.report`), and returns the exit status.
    """
    if not is_url(args.dest):
        return no_url(args.dest)
    for source in args.source:
        if is_url(source):
            return console.error(f"{source} is not a local path", "get copies from a server", status=ExitStatus.USAGE)
    try:
        url = service_url(args.dest)
    except argparse.ArgumentTypeError as error:
        return console.error(str(error), status=ExitStatus.USAGE)
    return await _put(args, [Path(source) for source in args.source], url)


async def _put(args: argparse.Namespace, sources: list[Path], url: Url) -> int:
    import asyncio  # noqa: PLC0415 - see `run_async`

    from rpcrdma.nfs.client.trees.not_carried import lost_from_local  # noqa: PLC0415

    with naming_partial_files(args), progress_bar("put") as bar:
        copies = Copies(bar, at_server=True)
        failures = copies.failures
        with contextlib.suppress(OSError):
            if all(source.is_file() for source in sources):
                bar.expect(sum(source.stat().st_size for source in sources))
        async with Servers(args, failures) as servers:
            with copies.telling_the_end():
                filesystem, dest = await servers.locate(url)
                directory = await filesystem.is_dir(dest)
                into = copies.place(args, len(sources), dest, directory=directory)
                for source in sources:
                    with failures, copies.naming_missing_directory(dest):
                        shared = copies.settings(args)
                        name = source.name if source.name not in {"", ".."} else source.resolve().name
                        target = f"{dest.rstrip('/')}/{name}" if into else dest
                        if source.is_dir():
                            if into and not await filesystem.exists(target):
                                copies.tell_where_resumed(args, url.path, f"{url.path.rstrip('/')}/{name}")
                            how = {"exact_modes": args.exact_modes, "exclude": args.exclude, **shared}
                            copies.add_tree(await filesystem.upload_tree(source, target, **how))
                        else:
                            taken = directory and await filesystem.is_dir(target)
                            copies.take_file_place(dest, target, directory=directory, taken=taken)
                            octets = await filesystem.upload(source, target, **shared)
                            lost = await asyncio.to_thread(lost_from_local, source.stat(), str(source.resolve()))
                            copies.add_file(octets, lost, sparse=args.sparse)
    return copies.report(args)
