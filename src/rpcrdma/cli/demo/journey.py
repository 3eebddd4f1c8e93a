"""The demonstration itself: a server in another process, a tree copied out and put back, and the comparison."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpcrdma.aio.urls import parse_url
from rpcrdma.cli.copies import Copies
from rpcrdma.cli.demo.report import Outcome, as_json, print_report
from rpcrdma.cli.demo.server_process import ServerProcess
from rpcrdma.cli.demo.source_tree import (
    ENOUGH_FILES,
    ENOUGH_OCTETS,
    TreeSize,
    candidate_roots,
    digests,
    measure,
    mismatches,
    snapshot,
)
from rpcrdma.cli.export_options import existing_directory
from rpcrdma.cli.remote import Servers
from rpcrdma.commands import ExitStatus, console
from rpcrdma.commands.progress import progress_bar
from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs.client import NfsFilesystem

__all__ = ["demonstrate", "free_octets"]

_SPARE_OCTETS = 64 << 20
"""Octets of the file system to leave free beside the copies."""


@dataclass(frozen=True, slots=True)
class _Places:
    source: Path
    fetched: Path
    returned: Path
    state: Path


async def demonstrate(args: argparse.Namespace) -> int:
    """Serves a file tree from another process, copies it out and back over RDMA, and compares the copies with it.

    Prints the outcome, as JSON with --json.

    Returns:
        `ExitStatus.DONE`, or FAILED if a copy differs.

    Raises:
        OSError: there is too little space, `args.keep` is a directory that is not empty, `args.source` cannot be read,
            or contains the directory of the copies.
        RpcRdmaError: the server or a connection failed.
    """
    with _workspace(args.keep) as workspace:
        places, size = _prepare(args, workspace)
        places.returned.mkdir()
        outcome = await _travel(args, places, size)
    if args.json:
        console.json_line(as_json(outcome))
    else:
        print_report(outcome)
    return ExitStatus.FAILED if outcome.mismatches else ExitStatus.DONE


@contextlib.contextmanager
def _workspace(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="rpcrdma-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise OSError(errno.ENOTEMPTY, "is not empty; name a new directory for the copies", str(keep))
    yield keep.resolve()


def _prepare(args: argparse.Namespace, workspace: Path) -> tuple[_Places, TreeSize]:
    fetched, returned, state = (workspace / name for name in ("fetched", "returned", "state"))
    if args.source is not None:
        source = existing_directory(args.source)
        if workspace.resolve().is_relative_to(source):
            remedy = "set TMPDIR to another place" if args.keep is None else "name another one with --keep"
            text = f"lies within {source}, so that the copies would be copied, too; {remedy}"
            raise OSError(errno.EINVAL, text, str(workspace))
        if args.limit_bytes is None:
            size = measure(source)
            _check_space(workspace, 2 * size.octets)
            return _Places(source, fetched, returned, state), size
        roots, octets, files = [(source.name or "source", source)], args.limit_bytes, 0
    else:
        roots, octets = candidate_roots(), args.limit_bytes or ENOUGH_OCTETS
        files = 0 if args.limit_bytes else ENOUGH_FILES
    # A copy, because other programs write to the original at any time: Python itself compiles its library there.
    _check_space(workspace, 3 * octets)
    source = workspace / "source"
    source.mkdir()
    console.talk(f"taking files of this machine: {', '.join(str(root) for _, root in roots[:2])} ...")
    with progress_bar("preparing", octets) as advance:
        size = snapshot(roots, source, octets=octets, files=files, on_octets=advance)
    return _Places(source, fetched, returned, state), size


def free_octets(directory: Path) -> int:
    """Returns the free octets of the file system of `directory`, as far as this user may use them."""
    return shutil.disk_usage(directory).free


def _check_space(workspace: Path, octets: int) -> None:
    free = free_octets(workspace)
    if free < octets + _SPARE_OCTETS:
        raise OSError(
            errno.ENOSPC,
            f"the copies need {console.readable_octets(octets + _SPARE_OCTETS)}, "
            f"{console.readable_octets(free)} are free; set TMPDIR to another place, or move less with --limit-bytes",
            str(workspace),
        )


async def _travel(args: argparse.Namespace, places: _Places, size: TreeSize) -> Outcome:
    start = time.perf_counter()
    # With a slash at its end: a directory may have a name that ends as an option does.
    exports = [f"source={os.path.join(places.source, '')}:ro", f"copy={places.returned}:rw"]  # noqa: PTH118
    async with ServerProcess(args, exports, places.state) as server:
        async with Servers(args) as servers:
            source, _ = await servers.locate(parse_url(f"{server.rdma_url}/source"))
            get_s = await _copy(source, places.fetched, size, outward=True)
            copy, _ = await servers.locate(parse_url(f"{server.rdma_url}/copy"))
            put_s = await _copy(copy, places.fetched, size, outward=False)
            negotiated = copy.connection.negotiated
        # With the last call, which ends the mount.
        statistics = copy.connection.statistics
        # Before it stops, the server reports the end of the connection with its counters.
        if await server.stop():
            raise RpcRdmaError("the server failed; see its messages above")
    moved_s = time.perf_counter() - start
    assert negotiated is not None, "an RDMA connection"
    different = await asyncio.to_thread(_compare, places, size)
    return Outcome(
        source=str(args.source or "python library and packages"),
        files=size.files,
        octets=size.octets,
        mismatches=different,
        get_s=get_s,
        put_s=put_s,
        seconds=moved_s,
        negotiated=negotiated,
        client=statistics,
        server=server.statistics(),
    )


async def _copy(filesystem: NfsFilesystem, local: Path, size: TreeSize, *, outward: bool) -> float:
    """Copies the export `filesystem` to the directory `local` (`outward`), or the content of `local` to that export.

    Returns the seconds that the copying took. `size` is the size of the tree, for the progress bar. Failures of single
    entries are printed.
    """
    with progress_bar("copying out" if outward else "copying back", size.octets) as advance:
        copies = Copies(advance)
        start = time.perf_counter()
        if outward:
            report = await filesystem.download_tree("/", local, progress=copies.progress())
        else:
            report = await filesystem.upload_tree(local, "/", progress=copies.progress())
        seconds = time.perf_counter() - start
    copies.add_tree(report)
    return seconds


def _compare(places: _Places, size: TreeSize) -> list[str]:
    """Compares the trees `fetched` and `returned` of `places` with `source`; returns differing paths ("fetched: a/b").

    `size` is the size of `source`, for the progress bar.
    """
    with progress_bar("comparing", 3 * size.octets) as advance:
        source = digests(places.source, advance)
        fetched = mismatches(source, digests(places.fetched, advance))
        returned = mismatches(source, digests(places.returned, advance))
    return [f"fetched: {path}" for path in fetched] + [f"returned: {path}" for path in returned]
