"""`rpcrdma get`: copies files and trees from a server."""

from __future__ import annotations

import argparse
import errno
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
  rpcrdma get rdma://server/home/notes.txt .
  rpcrdma get rdma://server/home/reports ./reports
  rpcrdma get --resume -T rdma://server/home/reports ./reports
  rpcrdma get --json rdma://server/home/a rdma://server/home/b /tmp
"""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma get` to `parser`."""
    parser.describe(run, "URL ... DEST", _EXAMPLES)
    parser.add_argument("source", nargs="+", metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH, a file or a tree")
    parser.add_argument(
        "dest", type=local_name, metavar="DEST", help="local name of the copy, or a directory for the copies"
    )
    add_copy_options(
        parser,
        "copy the server's permissions regardless of the umask, onto existing files and directories as well; existing "
        "directories also get the times",
    )


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma get`: copies the files and trees at the URLs `args.source` to the local path `args.dest`.

    A source that is no URL, and a URL as destination, are errors (USAGE), which are printed before anything is copied.
    Failures of files and trees are printed, and the others follow. A connection that fails is printed, not raised, and
    ends the copying. Then prints the totals (`Copies.report`), and returns the exit status.
    """
    if is_url(args.dest):
        return console.error(f"{args.dest} is not a local path", "put copies to a server", status=ExitStatus.USAGE)
    for source in args.source:
        if not is_url(source):
            return no_url(source)
    # Not parsed with the arguments: a source that is no URL is more likely in the wrong place than misspelt.
    try:
        urls = [service_url(source) for source in args.source]
    except argparse.ArgumentTypeError as error:
        return console.error(str(error), status=ExitStatus.USAGE)
    return await _get(args, urls, Path(args.dest))


async def _get(args: argparse.Namespace, urls: list[Url], dest: Path) -> int:
    from rpcrdma.nfs.client.trees.not_carried import lost_from_server  # noqa: PLC0415

    with naming_partial_files(args), progress_bar("get") as bar:
        copies = Copies(bar)
        failures = copies.failures
        async with Servers(args, failures) as servers:
            with copies.telling_the_end():
                directory = dest.is_dir()  # noqa: ASYNC240 - nothing else goes on
                if dest.exists() and not directory and not dest.is_file():  # noqa: ASYNC240
                    text = f"is a device, pipe or socket, which no copy replaces; rpcrdma cat URL > {dest} writes there"
                    raise OSError(errno.EINVAL, text, str(dest))
                into = copies.place(args, len(urls), str(dest), directory=directory)
                for url in urls:
                    with failures, copies.naming_missing_directory(str(dest)):
                        filesystem, path = await servers.locate(url)
                        name = url.path.rstrip("/").rpartition("/")[2]
                        target = dest / name if into and name not in {"", ".", ".."} else dest
                        found = await filesystem.stat(path)
                        how = {"exact_modes": args.exact_modes, **copies.settings(args)}
                        if found.is_dir():
                            if into and not target.exists():
                                copies.tell_where_resumed(args, str(dest), str(target))
                            report = await filesystem.download_tree(path, target, exclude=args.exclude, **how)
                            copies.add_tree(report, in_url=True)
                        else:
                            copies.take_file_place(args.dest, str(target), directory=directory, taken=target.is_dir())
                            if len(urls) == 1:
                                bar.expect(found.st_size)
                            octets = await filesystem.download(path, target, **how)
                            copies.add_file(octets, lost_from_server(found), sparse=args.sparse)
    return copies.report(args)
