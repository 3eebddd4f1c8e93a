"""SIGHUP at `rpcrdma serve`: a request to read files again, or the end of the terminal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["HeldHangUp", "handle_hang_ups", "holding_hang_ups"]


class HeldHangUp:
    """The handler of SIGHUP while a server starts: a reload that comes too early must not end it."""

    def __init__(self) -> None:
        self.received = False
        self.had_terminal = _has_terminal()

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Keeps the signal for `handle_hang_ups`."""
        self.received = True


@contextmanager
def holding_hang_ups() -> Iterator[None]:
    """Keeps SIGHUP for `handle_hang_ups` within the context, unless the process ignores it, as under nohup."""
    before = signal.getsignal(signal.SIGHUP)
    if before in {signal.SIG_IGN, None} or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGHUP, HeldHangUp())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def handle_hang_ups(renew: Callable[[], None] | None, hung_up: Callable[[], None]) -> None:
    """Handles SIGHUP in the running event loop, also one that was held back.

    A process that ignores the signal, as under nohup, outlives its terminal.

    Args:
        renew: reads files again; None: there are none.
        hung_up: is called where `renew` is None, or the terminal of this process is gone.
    """
    import asyncio  # noqa: PLC0415 - every command imports this module

    held = signal.getsignal(signal.SIGHUP)
    if held is signal.SIG_IGN:
        if renew is None:
            return
        had_terminal = False
    else:
        had_terminal = held.had_terminal if isinstance(held, HeldHangUp) else _has_terminal()

    def on_hang_up() -> None:
        if renew is None or (had_terminal and not _has_terminal()):
            hung_up()
        else:
            renew()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hang_up)
    if isinstance(held, HeldHangUp) and held.received:
        on_hang_up()


def _has_terminal() -> bool:
    """Returns whether this process has a controlling terminal, which it has no longer once that hung up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
