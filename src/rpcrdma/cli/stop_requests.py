"""Requests to stop a server: signals, and the end of standard input; and SIGHUP, which may ask for a reload."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from rpcrdma.cli.event_lines import write_last_lines
from rpcrdma.cli.event_loop import HeldHangUp, has_terminal
from rpcrdma.commands import console

__all__ = ["handle_hang_ups", "stop_at_eof", "stop_on_signals"]


def stop_on_signals(stop: asyncio.Event) -> Callable[[int], None]:
    """Installs a handler in the running event loop that sets `stop` on SIGINT and SIGTERM; returns the handler.

    The handler takes the number of the signal; a caller may call it with SIGHUP, too. Once `stop` is set, a further
    SIGINT or SIGTERM ends the process, with a message that waits 2 s at most for a reader of standard error, and as
    long for one of --json, and the status 128 + number; SIGHUP has no effect.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            if number == signal.SIGHUP:
                # The end of a terminal sends two of them: one is the kernel's, the other the shell's.
                return
            # Threads may be stuck in a file system: no orderly way out is left.
            console.error("aborted; calls in progress were not answered")
            # The threads that write the lines of a server end with the process.
            write_last_lines()
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return on_signal


def handle_hang_ups(renew: Callable[[], None] | None, hung_up: Callable[[], None]) -> None:
    """Installs a handler of SIGHUP in the running event loop; calls it at once if SIGHUP has arrived during the start.

    During the start `HeldHangUp` is the handler, which notes the signal. A process that has ignored SIGHUP so far, as
    under nohup, outlives its terminal: `hung_up` is never called, and without `renew` the signal stays ignored.

    Args:
        renew: called at each SIGHUP to read files again; None: there are no files to read.
        hung_up: called in place of `renew` if that is None, or the process has lost the terminal that it had.
    """
    held = signal.getsignal(signal.SIGHUP)
    if held is signal.SIG_IGN:
        if renew is None:
            return
        had_terminal = False
    else:
        had_terminal = held.had_terminal if isinstance(held, HeldHangUp) else has_terminal()

    def on_hang_up() -> None:
        if renew is None or (had_terminal and not has_terminal()):
            hung_up()
        else:
            renew()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hang_up)
    if isinstance(held, HeldHangUp) and held.received:
        on_hang_up()


def stop_at_eof(stop: asyncio.Event) -> None:
    """Reads and discards standard input from now on, in the event loop or a thread, and sets `stop` when it ends.

    Input that is closed or cannot be read has ended. Does not wait; to be called in the running event loop.
    """
    loop = asyncio.get_running_loop()
    if sys.__stdin__ is None:
        # It was closed when the process began, and its number may be that of any other file.
        stop.set()
        return

    def readable() -> None:
        if _at_eof():
            loop.remove_reader(0)
            stop.set()

    def read_to_end() -> None:
        while not _at_eof():
            pass
        # The loop is closed where a signal was faster.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)

    try:
        loop.add_reader(0, readable)
    except PermissionError:
        # Files and some devices cannot be waited for, /dev/null among them: they are always readable.
        threading.Thread(target=read_to_end, name="standard input", daemon=True).start()


def _at_eof() -> bool:
    """Reads up to 64 KiB from standard input and discards them; returns whether it has ended or cannot be read."""
    try:
        return not os.read(0, 1 << 16)
    except BlockingIOError:
        return False
    except OSError:
        return True
