"""Interrupts, forks and the end of the process: waiting calls end, and open objects are named."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma import sync
from rpcrdma.aio.awaited_call import _AwaitedCall
from rpcrdma.sync import background_loop

if TYPE_CHECKING:
    from conftest import Running


@contextlib.contextmanager
def interrupted(begun: threading.Event) -> Iterator[None]:
    """Sends this thread SIGINT, as Ctrl-C does, when `begun` is set and it waits in the block."""
    main = threading.get_ident()

    def waits() -> bool:
        frame = sys._current_frames().get(main)
        while frame is not None and frame.f_code is not _AwaitedCall.wait.__code__:
            frame = frame.f_back
        return frame is not None

    def send() -> None:
        begun.wait()
        while not waits():
            os.sched_yield()
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


def test_an_interrupt_cancels_what_is_waited_for_and_waits_for_its_end() -> None:
    begun, said = threading.Event(), []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(1000):
                await asyncio.sleep(0)
            said.append("ended")

    with background_loop.claimed_loop() as loop:
        with interrupted(begun):
            loop.run(work)
        assert said == ["ended"]


def test_a_call_that_nobody_waits_for_is_not_collected() -> None:
    begun, waiting, ended = threading.Event(), [], []

    async def work() -> None:
        future = asyncio.get_running_loop().create_future()
        waiting.append(weakref.ref(future))
        begun.set()
        try:
            ended.append(await future)
        except GeneratorExit:
            ended.append("collected")

    async def end() -> None:
        gc.collect()
        if (future := waiting[0]()) is not None:
            future.set_result("done")

    with background_loop.claimed_loop() as loop:
        loop.post(work)
        begun.wait()
        loop.run(end)
        loop.run(lambda: asyncio.sleep(0))
    assert ended == ["done"]


def test_what_was_made_when_the_interrupt_came_is_undone() -> None:
    begun, undone = threading.Event(), []

    async def open_something() -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        return "open"

    async def close(opened: str) -> None:
        undone.append(opened)

    with background_loop.claimed_loop() as loop:
        with interrupted(begun):
            loop.run(open_something, undo=close)
        assert undone == ["open"]


PROGRAM = """
import logging, multiprocessing, os, sys, threading, warnings
import rpcrdma.sync as sync
from rpcrdma.errors import LocalProtocolError
url, folder = sys.argv[1:]
# Development mode warns of turns of an event loop that a busy machine makes long.
logging.getLogger("asyncio").setLevel(logging.ERROR)

def in_child(work):
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)

def ends_as_programs_do():
    child = os.fork()
    if not child:
        sys.exit()  # with the exit handlers of libraries in C
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status

with sync.nfs_open(url) as fs:
    fs.write_bytes(folder + "/f", b"of the parent")
    assert "rpcrdma-sync" in [thread.name for thread in threading.enumerate()]

def reads_anew():
    with sync.nfs_open(url) as fs:
        assert fs.read_bytes(folder + "/f") == b"of the parent"

# Forked after closing: no thread was there to be lost.
in_child(lambda: [None for _ in [0] if threading.active_count() == 1] or sys.exit("a thread"))
ends_as_programs_do()
in_child(reads_anew)
reads_anew()

with sync.nfs_open(url) as fs, fs.open(folder + "/g", "wb") as file, fs.open(folder + "/t", "w") as text:
    file.write(b"before")
    text.write("before")

    def is_told():
        for use in (lambda: fs.listdir(), lambda: file.write(b"child"), lambda: fs.connection.call(None, None)):
            try:
                use()
            except LocalProtocolError as error:
                assert "spawn or forkserver" in str(error), error
            else:
                raise AssertionError("no error")
        file.close()
        text.close()
        fs.close()
        reads_anew()

    # On Python 3.12 forking a process with threads warns, and rightly so.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        in_child(is_told)
    file.write(b" and after")
    text.write(" and after")
with sync.nfs_open(url) as fs:
    assert fs.read_bytes(folder + "/g") == fs.read_bytes(folder + "/t") == b"before and after"
left_open = sync.nfs_open(url)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    ends_as_programs_do()
unclosed = left_open.open(folder + "/unclosed", "wb")
unclosed.write(b"written at the end")
unclosed_text = left_open.open(folder + "/text", "w")
unclosed_text.write("written at the end")
print("ends")
"""


@pytest.mark.thorough
def test_forks_and_the_end_of_a_process(running: Running, folder: Path) -> None:
    """In a process of its own, since this one has other threads."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, running.url, folder.name],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONASYNCIODEBUG": ""},
    )
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
    (warning,) = done.stderr.splitlines()
    assert warning.startswith(
        f"{running.url.partition('/?')[0]}/{folder.name}/unclosed was open for writing when its file system "
    )
    assert (folder / "unclosed").read_bytes() == (folder / "text").read_bytes() == b"written at the end"


@pytest.mark.thorough
def test_the_thread_ends_before_a_fork_if_nothing_is_open(running: Running) -> None:
    with sync.nfs_open(running.url):
        present = background_loop._present
        assert present is not None
        background_loop._before_fork()
        background_loop._guard.release()
        assert background_loop._present is present
    background_loop._before_fork()
    background_loop._guard.release()
    assert background_loop._present is None
    assert [thread for thread in threading.enumerate() if thread.name == "rpcrdma-sync"] == []
    with sync.nfs_open(running.url) as fs:
        fs.stat(".")
