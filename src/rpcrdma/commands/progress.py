"""Progress bars on standard error, where that is a terminal."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rpcrdma.commands import console

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.text import Text

__all__ = ["Advance", "Bar", "progress_bar", "progress_line"]

Advance = Callable[[int, int], None]
"""Takes the octets and the files moved since the last call."""

_REFRESHES_PER_S = 8
_WIDTH_WITH_SPEED, _WIDTH_WITH_BAR = 70, 80
"""Columns of a terminal that has room for files, speed and time, and for the bar as well."""


class Bar:
    """Passes the progress of a transfer to the bar on the terminal; an `Advance` that `progress_bar` yields.

    `update` is called at each change: with the keywords `advance`, the octets moved since the last call, and `files`,
    the text about files; or with `total`. By default it does nothing.
    """

    def __init__(self, update: Callable[..., None] = lambda **_: None) -> None:
        self._update = update
        self._files = 0

    def __call__(self, octets: int, files: int = 0) -> None:
        """Adds `octets`, the number moved since the last call, and `files`, the number completed since then."""
        self._files += files
        self._update(advance=octets, files=console.counted(self._files, "file") if self._files else "")

    def expect(self, octets: int) -> None:
        """Sets the total of octets that the whole transfer moves; callers call it once that is known."""
        self._update(total=octets)


@contextmanager
def progress_bar(description: str, total: int | None = None) -> Iterator[Bar]:
    """Shows a bar on standard error, removed at the context's end, and yields the `Bar`.

    While it is shown, text written to `sys.stdout` appears on standard error instead, above the bar. Without a terminal
    there, or with TERM=dumb, it shows nothing and changes no stream.

    Args:
        description: the text before the bar.
        total: the octets to move; None: unknown.
    """
    if not _can_be_written_over():
        yield Bar()
        return
    # `rich` takes longer to import than most commands take to run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Octets(DownloadColumn):
        def render(self, task: Task) -> Text:
            if task.total is not None:
                return super().render(task)
            return Text(console.readable_octets(task.completed), style="progress.download")

    terminal = Console(stderr=True)
    # A line that wraps could not be written over.
    one_line = functools.partial(Column, no_wrap=True)
    files = TextColumn("{task.fields[files]}", style="progress.download", markup=False, table_column=one_line())
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False, table_column=one_line()),
        Octets(table_column=one_line()),
    ]
    if terminal.width >= _WIDTH_WITH_SPEED:
        columns[1:1] = [files]
        columns += [TransferSpeedColumn(table_column=one_line()), TimeRemainingColumn(table_column=one_line())]
    if terminal.width >= _WIDTH_WITH_BAR:
        columns[1:1] = [BarColumn(min(40, terminal.width - _WIDTH_WITH_SPEED), table_column=one_line())]
    with Progress(*columns, console=terminal, refresh_per_second=_REFRESHES_PER_S, transient=True) as progress:
        task = progress.add_task(console.printable(description), total=total, files="")
        yield Bar(functools.partial(progress.update, task))


@contextmanager
def progress_line(total: int) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal which of `total` steps is under way, in a line that the end of the context removes.

    Yields:
        A function to call at the beginning of each step, with the step's name. Without a terminal, or with TERM=dumb,
            it does nothing.
    """
    if not _can_be_written_over():
        yield lambda _: None
        return
    # Its compression formats are 6 modules.
    from shutil import get_terminal_size  # noqa: PLC0415

    step = 0

    def tell(name: str) -> None:
        nonlocal step
        step += 1
        width = get_terminal_size().columns - 1
        console.write_error("\r\x1b[K" + console.printable(f"{step:,} of {total:,}: {name}")[:width])

    try:
        yield tell
    finally:
        console.write_error("\r\x1b[K")


def _can_be_written_over() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
