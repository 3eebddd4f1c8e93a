"""The event loop that commands run on, uvloop where it is installed, and the signals that end them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

__all__ = ["HeldHangUp", "Stopped", "has_terminal", "holding_hang_ups", "run_async", "stop_at_once"]

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """An interruption of the command by the signal `number`, whose name, such as "SIGTERM", is the message."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class HeldHangUp:
    """A handler of SIGHUP for the start of a server, which sets `received` and does not end the process.

    The server handles the signal when it has started. `had_terminal`: whether the process had a controlling terminal
    when the handler was made.
    """

    def __init__(self) -> None:
        self.received = False
        self.had_terminal = has_terminal()

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Sets `received`; the server handles the signal when it has started."""
        self.received = True


@contextmanager
def holding_hang_ups() -> Iterator[None]:
    """Has a `HeldHangUp` note each SIGHUP while the context lasts, and restores the earlier handler at exit.

    A noted SIGHUP has an effect only if `handle_hang_ups` is called in the context. The context changes nothing outside
    the main thread, and if the process ignores SIGHUP, as under nohup.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before in {signal.SIG_IGN, None} or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGHUP, HeldHangUp())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def has_terminal() -> bool:
    """Returns whether this process has a controlling terminal that has not hung up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine of a command in a new event loop, uvloop's if it is installed, and returns its result.

    The first SIGINT, SIGTERM or SIGHUP cancels the coroutine, so that it can remove unfinished files; a further SIGINT
    or SIGTERM ends the process at once, a further SIGHUP does nothing. Signals that the process ignores stay ignored,
    and `HeldHangUp` stays the handler of SIGHUP if it is. Outside the main thread no signal is handled. Exceptions of
    the coroutine propagate. The result of a cancelled coroutine that suppresses the CancelledError is returned.

    Raises:
        Stopped: the coroutine has raised CancelledError after a signal; the exception has the notes of that error.
    """
    # Every command has this function; --help of no command needs this slow import.
    import asyncio  # noqa: PLC0415

    factory: Callable[[], asyncio.AbstractEventLoop] | None
    try:
        from uvloop import new_event_loop as factory  # noqa: PLC0415
    except ImportError:
        factory = None
    stopping = _Stopping()
    # An exception at any point would leave a loop open while it is made or closed.
    with stopping.handling(), asyncio.Runner(loop_factory=factory) as runner:
        try:
            return runner.run(stopping.run(main))
        except asyncio.CancelledError as error:
            if stopping.number is None:
                raise
            stopped = Stopped(stopping.number)
            for note in getattr(error, "__notes__", ()):
                stopped.add_note(note)
            raise stopped from None


def stop_at_once() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP, unless ignored, raise `Stopped` at any point of the main thread from now on.

    It replaces the handlers of `run_async`, for commands without unfinished files, which need no orderly end. When
    `run_async` ends, it restores the handlers that were there before it began.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    for number in _heeded():
        signal.signal(number, stop)


class _Stopping:
    def __init__(self) -> None:
        self.number: int | None = None
        """The number of the signal received; None before."""
        self._cancel: Callable[[], object] = lambda: None

    async def run(self, main: Coroutine[Any, Any, T]) -> T:
        import asyncio  # noqa: PLC0415

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "called by a coroutine"

        def cancel() -> None:
            task.cancel()
            # Wakes the loop if it waits for its sockets.
            loop.call_soon_threadsafe(lambda: None)

        self._cancel = cancel
        try:
            if self.number is not None:
                cancel()
            return await main
        finally:
            self._cancel = lambda: None

    @contextmanager
    def handling(self) -> Iterator[None]:
        def stop(number: int, _frame: FrameType | None) -> None:
            if self.number is not None:
                if number == signal.SIGHUP:
                    # The end of a terminal sends two of them: one is the kernel's, the other the shell's.
                    return
                # Written as it is: the handler may have interrupted a print.
                os.write(2, b"error: aborted; unfinished files were not removed\n")
                os._exit(128 + number)
            self.number = number
            self._cancel()

        before = {number: signal.signal(number, stop) for number in _heeded()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _heeded() -> list[signal.Signals]:
    """Returns those of SIGINT, SIGTERM and SIGHUP that the process neither ignores nor holds back by a `HeldHangUp`.

    The list is empty outside the main thread, which alone may set handlers. Background jobs of scripts ignore SIGINT,
    programs under nohup SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    return [
        number
        for number, handler in handlers.items()
        if handler not in {signal.SIG_IGN, None} and not isinstance(handler, HeldHangUp)
    ]
