"""A server that is full while a file is written: the file takes no more, and says so until it is closed."""

from __future__ import annotations

import errno
import gc
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fsspec_server import Served, at
from rpcrdma import sync
from rpcrdma.nfs.client import NfsFile

pytestmark = pytest.mark.thorough

PIECE = bytes(range(256)) * 2460
PIECES = 10
"""6.3 MB: more than a block, and less than the blocks that may be in flight."""


class Full:
    """Whether the server's disk is full."""

    def __init__(self) -> None:
        self.full = True


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Full:
    state = Full()
    write = os.pwrite

    def pwrite(*args: Any) -> int:
        if state.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*args)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return state


@pytest.fixture(params=["sync", "fsspec"])
def file(request: pytest.FixtureRequest, served: Served, disk: Full) -> Iterator[Any]:
    """A file that is open for writing on a server which is full, by each API that waits for its calls."""
    name = secrets.token_hex(4)
    url = f"rdma://127.0.0.1:{served.ports['rdma']}/data?mountport={served.ports['tcp']}"
    disk.full = False
    if request.param == "fsspec":
        fs = fsspec.filesystem("rdma", **served.options("rdma"))
        made: Any = fs.open(f"/data/{name}", "wb")
        end: Callable[[], None] = fs.close
    else:
        fs = sync.nfs_open(url)
        made, end = fs.open(name, "wb"), fs.close
    made.at_server = served.directory / name
    disk.full = True
    yield made
    end()


def test_a_failure_to_write_is_raised_by_every_later_call(file: Any, disk: Full) -> None:
    at_server: Path = file.at_server

    def raises(call: Callable[[], object]) -> None:
        with pytest.raises(OSError, match="No space left on device") as caught:
            call()
        assert caught.value.errno == errno.ENOSPC

    def write_all() -> None:
        for _ in range(PIECES):
            file.write(PIECE)
        file.flush()

    raises(write_all)
    disk.full = False
    raises(file.flush)
    raises(lambda: (file.write(PIECE), file.flush()))
    raises(file.flush)
    raises(file.close)
    # The end of the use all the same: nothing is left that warns or raises when the file is dropped.
    file.close()
    assert at_server.stat().st_size < PIECES * len(PIECE)


def test_an_error_that_is_kept_does_not_hinder_the_next_write(file: Any) -> None:
    kept = []
    for _ in range(3):
        try:
            file.write(b"some")
            file.flush()
        except OSError as error:
            kept.append(error)
    assert [error.errno for error in kept] == [errno.ENOSPC] * 3
    with pytest.raises(OSError, match="No space left"):
        file.close()


def test_an_error_that_is_not_kept_is_gone_at_once_with_all_that_its_frames_hold(file: Any) -> None:
    def failed() -> weakref.ref[BaseException]:
        try:
            file.write(PIECE)
            file.flush()
        except OSError as error:
            return weakref.ref(error)
        raise AssertionError("no error")

    gc.disable()
    try:
        error = failed()
        # The thread of the calls may be in the frames that raised it still. In a circle it would stay for good.
        while error() is not None:
            os.sched_yield()
    finally:
        gc.enable()
    with pytest.raises(OSError, match="No space left"):
        file.close()


def test_a_file_of_a_full_server_leaves_no_file_open(file: Any) -> None:
    with pytest.raises(OSError, match="No space left"):
        file.write(PIECE * 20)
    with pytest.raises(OSError, match="No space left"):
        file.close()
    inner = next(each for each in (file, *vars(file).values()) if isinstance(each, NfsFile))
    assert inner.closed
    assert (inner._behind.unsent, inner._behind.uncommitted) == (0, 0)


def test_a_failure_in_a_transaction_names_the_file_and_no_temporary_one(served: Served, disk: Full) -> None:
    fs = fsspec.filesystem("rdma", **served.options("rdma"), auto_mkdir=False)
    (served.directory / "taken").mkdir()
    disk.full = False
    taken = fs.transaction.__enter__().fs.open("/data/taken", "wb")
    taken.close()
    with pytest.raises(IsADirectoryError, match=r"directory: 'rdma://[0-9.:]+/data/taken'$"):
        taken.commit()
    with pytest.raises(FileNotFoundError, match=r"directory: 'rdma://[0-9.:]+/data/none/x'$"):
        fs.open("/data/none/x", "wb")
    file = fs.open("/data/x", "wb")
    disk.full = True
    file.write(b"1")
    with pytest.raises(OSError, match=r"No space left on device: 'rdma://[0-9.:]+/data/x'$") as failed:
        file.close()
    assert failed.value.filename == "/data/x"
    fs.transaction.complete(commit=False)


def test_files_that_are_left_open_in_a_transaction_are_shown_when_they_are_complete(fs: Any, top: Path) -> None:
    with fs.transaction:
        left, text = fs.open(at(top, "left"), "wb"), fs.open(at(top, "text"), "w")
        left.write(b"all of it")
        text.write("all of it")
    assert (top / "left").read_bytes() == (top / "text").read_bytes() == b"all of it"
    assert left.closed
    assert text.closed
