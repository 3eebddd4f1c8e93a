"""Progress bars on standard error, where that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rpcrdma.cli import console

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID
    from rich.text import Text

__all__ = ["Advance", "Bar", "progress_bar"]

Advance = Callable[[int, int], None]
"""Takes the octets and the files moved since the last call."""

_REFRESHES_PER_S = 8


class Bar:
    """A progress bar, or a stand-in that shows none; an `Advance`."""

    def __init__(self, progress: Progress | None = None, task: TaskID | None = None) -> None:
        self._progress = progress
        self._task = task
        self._files = 0

    def __call__(self, octets: int, files: int = 0) -> None:
        """Adds octets that have been moved, and files that are complete."""
        if self._progress is not None and self._task is not None:
            self._files += files
            told = f"{self._files:,} {'file' if self._files == 1 else 'files'}" if self._files else ""
            self._progress.update(self._task, advance=octets, files=told)

    def expect(self, octets: int) -> None:
        """Sets the total of octets to move."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=octets)


@contextmanager
def progress_bar(description: str, total: int | None = None) -> Iterator[Bar]:
    """A bar for `total` octets (None: not known) as long as the context lasts; `rich` honours NO_COLOR."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Bar()
        return
    # `rich` takes longer to import than most commands take to run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    class Octets(DownloadColumn):
        def render(self, task: Task) -> Text:
            if task.total is not None:
                return super().render(task)
            return Text(console.readable_octets(task.completed), style="progress.download")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[files]}", style="progress.download", markup=False),
        Octets(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), refresh_per_second=_REFRESHES_PER_S, transient=True
    ) as progress:
        task = progress.add_task(console.printable(description), total=total, files="")
        yield Bar(progress, task)
