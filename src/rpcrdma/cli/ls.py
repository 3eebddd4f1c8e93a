"""`rpcrdma ls`: lists directories on a server."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rpcrdma.cli.listing_format import attributes_json, long_columns
from rpcrdma.cli.remote import Failures, Servers
from rpcrdma.commands import CommandParser, add_json, console, service_url
from rpcrdma.limits import EXPORTS_ASKED_MAX, NFS_TREE_PENDING_MAX

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url
    from rpcrdma.nfs.client import NfsFilesystem
    from rpcrdma.nfs.client.attributes import Stat
    from rpcrdma.nfs.client.node import DirEntry

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma ls rdma://server/home
  rpcrdma ls -l -a rdma://server:20049/home/reports
  rpcrdma ls -R --json tcp://server/home | jq -r .path

ls rdma://server/ lists the exports of a server as directories.
"""
E = TypeVar("E")
_Exports: TypeAlias = list[list[str]]
"""Exports at or below a directory, each by the names that lead to it from there; [] is the directory itself."""

_READLINKS_AT_ONCE = 16
_SORTED_MAX = 20_000
"""Entries held for sorting, some 1,200 octets each; of more entries, each run of this many is sorted by itself."""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma ls` to `parser`."""
    parser.describe(run, "URL ...", _EXAMPLES)
    parser.add_argument("url", nargs="+", type=service_url, metavar="URL", help="rdma://HOST[:PORT]/EXPORT/PATH")
    parser.add_argument("-l", dest="long", action="store_true", help="show mode, links, owner, group, size and time")
    parser.add_argument("-R", dest="recursive", action="store_true", help="list directories recursively")
    parser.add_argument("-a", dest="all", action="store_true", help="show names that start with a dot, too")
    add_json(parser, "one JSON object a line for each name")


@dataclass(slots=True)
class _Listing:
    """The state of the output of one `rpcrdma ls`.

    `headed`: whether each directory has a heading, since several are listed. `first`: whether `head` was never called.
    """

    args: argparse.Namespace
    headed: bool
    first: bool = True

    def head(self, shown_as: str) -> None:
        """Prints the heading `shown_as` of a directory, after an empty line unless the directory is the first.

        Prints nothing with --json, or if only one directory is listed.
        """
        if self.headed and not self.args.json:
            console.write(("" if self.first else "\n") + console.shown(shown_as) + ":\n")
        self.first = False


@dataclass(frozen=True, slots=True)
class _Row:
    """One entry of a listing; `name` is its name, or with --json its path.

    `attributes` are None if the server refuses to describe the entry (`refused`). They are also None for an export or
    directory above exports whose attributes were not read, which is shown as a directory. `target` is the target of a
    symbolic link, None if it was not read. `export`: whether the name is that of an export, in a directory that is in
    no export itself.
    """

    name: str
    attributes: Stat | None
    target: str | None = None
    export: bool = False
    refused: bool = False


async def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma ls`: lists the files and directories at the URLs `args.url`; returns the exit status.

    An error about one URL (OSError or UserAuthenticationFailed) is printed, and the next URL follows. Raises
    RpcRdmaError if a connection fails.
    """
    failures = Failures()
    listing = _Listing(args, headed=args.recursive or len(args.url) > 1)
    async with Servers(args, failures) as servers:
        for url in args.url:
            await _ls_url(listing, servers, failures, url)
    return failures.status


async def _ls_url(listing: _Listing, servers: Servers, failures: Failures, top: Url) -> None:
    """Prints the file or directory at the URL `top`; with -R also what is below it.

    Exports below a directory are listed only if the directory is in no export itself. OSErrors and
    UserAuthenticationFailed are reported by `failures`.
    """
    from rpcrdma.nfs.client.mount_client import NoSuchExport  # noqa: PLC0415

    # Without recursion, and for directories above exports without calls: a server may list exports of 500 names each,
    # and thousands of them, whose names are therefore split once.
    waiting: list[tuple[Url, _Exports | None]] = [(top, None)]
    while waiting:
        url, exports = waiting.pop()
        with failures:
            if exports is None or [] in exports:
                try:
                    await _list_url(listing, servers, failures, url)
                    continue
                except NoSuchExport as error:
                    exports = _exports_below(error.exports, url.path) if exports is None else exports
                    if not any(exports):
                        raise
            below = _by_name(exports)
            await _list_exports(listing, servers, url, below)
            if listing.args.recursive:
                prefix = url.path.rstrip("/") + "/"
                waiting += [(replace(url, path=prefix + name), below[name]) for name in reversed(below)]


async def _list_url(listing: _Listing, servers: Servers, failures: Failures, url: Url) -> None:
    """Prints the file or the content of the directory at `url`; with -R also that of the directories below it.

    Errors about entries of the directory are reported by `failures`.

    Raises:
        NoSuchExport: no export contains `url`.
        OSError: there is no such file, or the server refuses it.
        RpcRdmaError: the connection cannot be made or fails, the user is refused, or the server breaks the protocol.
    """
    args = listing.args
    filesystem, path = await servers.locate(url)
    if (await filesystem.stat(path)).is_dir():
        await _list_tree(listing, filesystem, path, url.path or "/", failures)
        return
    attributes = await filesystem.lstat(path)
    targets = await _targets(args, filesystem, [path] if attributes.is_symlink() else [], failures)
    _print(args, [_Row(url.path, attributes, targets.get(path))])


async def _list_tree(listing: _Listing, filesystem: NfsFilesystem, top: str, shown_as: str, failures: Failures) -> None:
    """Prints the content of the directory `top`, and with -R of those below it, each sorted by name.

    A directory with over 20,000 entries is sorted in runs of that length, in the order of the listing. `shown_as` is
    the path of `top` in headings and in JSON. Failures are reported by `failures`; but without -l, -R and --json an
    OSError that ends the listing of `top` is raised after the names before the error are printed.
    """
    args = listing.args
    prefix = shown_as.rstrip("/") + "/"
    waiting: list[DirEntry] = []
    listing.head(shown_as)
    if not (args.long or args.json or args.recursive):
        names = filesystem.scan_names(top, onerror=failures.tell)
        async for names_run in _sorted_runs(args, names, str):
            console.names(names_run)
        return
    directory: DirEntry | str = top
    cut: int | None = None
    while True:
        below: list[DirEntry] = []
        with failures:
            entries = filesystem.scandir(directory, onerror=failures.tell)
            async for run in _sorted_runs(args, entries, _name):
                if cut is None:
                    # The server's paths may begin with the target of a link where the URL has the link.
                    cut = len(run[0].path) - len(run[0].name)
                links = [entry.path for entry in run if entry.refusal is None and entry.is_symlink()]
                targets = await _targets(args, filesystem, links, failures)
                _print(args, [_row(args, entry, prefix + entry.path[cut:], targets) for entry in run])
                for entry in run:
                    if entry.refusal is not None:
                        failures.tell(entry.refusal)
                if args.recursive:
                    below += _with_room(run, len(waiting) + len(below), failures)
        waiting += reversed(below)
        if not waiting:
            return
        directory = waiting.pop()
        listing.head(prefix + directory.path[cut:])


def _row(args: argparse.Namespace, entry: DirEntry, path: str, targets: dict[str, str]) -> _Row:
    name = path if args.json else entry.name
    if entry.refusal is not None:
        return _Row(name, None, refused=True)
    return _Row(name, entry.stat(), targets.get(entry.path))


async def _sorted_runs(
    args: argparse.Namespace, entries: AsyncIterator[E], name_of: Callable[[E], str]
) -> AsyncIterator[list[E]]:
    """Yields the entries in lists of `_SORTED_MAX` (20,000), the last one shorter, each list sorted by name.

    Entries whose names begin with a dot are left out without -a. `name_of` returns the name of an entry. An OSError of
    `entries` is raised after the entries before it were yielded.
    """
    run: list[E] = []
    failure: OSError | None = None
    try:
        async for entry in entries:
            if args.all or not name_of(entry).startswith("."):
                run.append(entry)
            if len(run) == _SORTED_MAX:
                yield sorted(run, key=name_of)
                run = []
    except OSError as error:
        failure = error
    if run:
        yield sorted(run, key=name_of)
    if failure is not None:
        raise failure


def _name(entry: DirEntry) -> str:
    return entry.name


def _with_room(run: list[DirEntry], waiting: int, failures: Failures) -> list[DirEntry]:
    """Returns the directories in `run` that -R lists later, while `waiting` other directories already wait for that.

    At most NFS_TREE_PENDING_MAX (50,000) wait in all. The last ones in `run` are left out if need be, for which each
    call has `failures` report one error.
    """
    directories = [entry for entry in run if entry.refusal is None and entry.is_dir()]
    room = max(0, NFS_TREE_PENDING_MAX - waiting)
    if len(directories) > room:
        from rpcrdma.nfs.client.trees.tree_walk import too_many_pending  # noqa: PLC0415

        failures.tell(too_many_pending(directories[room].path))
    return directories[:room]


async def _targets(
    args: argparse.Namespace, filesystem: NfsFilesystem, links: list[str], failures: Failures
) -> dict[str, str]:
    """Returns the targets of the symbolic links at the paths `links`, by path; none unless they are shown (-l, --json).

    Links that were removed are left out, and so are refused ones, which are reported by `failures`.
    """
    import asyncio  # noqa: PLC0415 - see `run_async`

    targets: dict[str, str] = {}

    async def read(path: str) -> None:
        # A link that was removed since it was listed, or that this caller may not read, is shown without target.
        with failures, contextlib.suppress(FileNotFoundError):
            targets[path] = await filesystem.readlink(path)

    if args.long or args.json:
        for start in range(0, len(links), _READLINKS_AT_ONCE):
            await asyncio.gather(*map(read, links[start : start + _READLINKS_AT_ONCE]))
    return targets


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _exports_below(exports: Iterable[str], path: str) -> _Exports:
    """Returns those of `exports` at or below the directory `path`, each as the list of names that lead to it there."""
    above = _names(path)
    return [names[len(above) :] for names in map(_names, exports) if names[: len(above)] == above]


def _by_name(exports: _Exports) -> dict[str, _Exports]:
    """Returns the first names in `exports`, sorted; the value of each has the rests of the exports that begin so."""
    found: dict[str, _Exports] = {}
    for names in filter(None, exports):
        found.setdefault(names[0], []).append(names[1:])
    return dict(sorted(found.items()))


async def _list_exports(listing: _Listing, servers: Servers, url: Url, below: dict[str, _Exports]) -> None:
    """Prints the names in `below` as directories; the value of a name has the exports at or below it.

    `url` is the URL of the directory that has the names; it is in no export. With -l or --json each name that is an
    export itself ([] is in its value) is mounted, to read its attributes; if that raises OSError or
    UserAuthenticationFailed, the name is printed without attributes, as is a name with exports below it alone, or after
    the first 256 names.
    """
    from rpcrdma.errors import UserAuthenticationFailed  # noqa: PLC0415

    args = listing.args
    listing.head(url.path or "/")
    prefix = url.path.rstrip("/") + "/"
    rows: list[_Row] = []
    for name, exports in below.items():
        attributes = None
        is_export = [] in exports
        if is_export and (args.long or args.json) and len(rows) < EXPORTS_ASKED_MAX:
            try:
                filesystem, path = await servers.locate(replace(url, path=prefix + name))
                attributes = await filesystem.stat(path)
            except (OSError, UserAuthenticationFailed):
                # The export exists, though this caller may not mount it.
                attributes = None
        rows.append(_Row(prefix + name if args.json else name, attributes, export=is_export))
    _print(args, rows)


def _print(args: argparse.Namespace, rows: Sequence[_Row]) -> None:
    if args.json:
        for row in rows:
            console.json_line(_json(row))
    elif args.long:
        console.table([_columns(row) for row in rows], right=range(1, 5), names=[6])
    else:
        console.names([row.name for row in rows])


def _columns(row: _Row) -> list[str]:
    name = row.name if row.target is None else f"{row.name} -> {row.target}"
    if row.attributes is not None:
        return [*long_columns(row.attributes), name]
    return [("?" if row.refused else "d") + "?" * 9, *"?????", name]


def _json(row: _Row) -> dict[str, Any]:
    if row.attributes is None:
        facts: dict[str, Any] = {"path": row.name, "type": "unknown" if row.refused else "directory"}
    else:
        facts = attributes_json(row.name, row.attributes)
    if row.target is not None:
        facts["target"] = row.target
    return facts | {"export": True} if row.export else facts
