"""Progress bars on standard error, where that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rpcrdma.cli import console

__all__ = ["Advance", "progress_bar"]

Advance = Callable[[int], None]
"""Takes the octets moved since the last call."""

_REFRESHES_PER_S = 8


@contextmanager
def progress_bar(description: str, total: int | None = None) -> Iterator[Advance]:
    """A bar for `total` octets (None: not known) as long as the context lasts; `rich` honours NO_COLOR."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _octets: None
        return
    # It takes longer to import than most commands take to run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), refresh_per_second=_REFRESHES_PER_S, transient=True
    ) as progress:
        task = progress.add_task(console.printable(description), total=total)
        yield lambda octets: progress.advance(task, octets)
