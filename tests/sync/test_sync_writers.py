"""Written data arrives, though the file was dropped or left open."""

from __future__ import annotations

import gc
import gzip
import io
import logging
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma import sync
from rpcrdma.aio.awaited_call import _AwaitedCall
from rpcrdma.sync.file_object import files_around
from support.cases import each_case

if TYPE_CHECKING:
    from conftest import Running

pytestmark = pytest.mark.thorough


def test_a_dropped_file_is_written(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:
        with pytest.warns(ResourceWarning, match=r"unclosed file <.*/dropped' mode='wb'"):
            fs.open(f"{folder.name}/dropped", "wb").write(b"all of it")
        fs.open(f"{folder.name}/dropped").read(1)  # a file that is only read has nothing to lose
    assert (folder / "dropped").read_bytes() == b"all of it"


def test_files_are_closed_before_their_connection(
    running: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.nfs_open(running.url) as fs:
        left = [fs.open(f"{folder.name}/{number}", "wb") for number in range(3)]
        for file in left:
            file.write(b"left open")
    assert [file.closed for file in left] == [True] * 3
    assert caplog.text.count(" was open for writing when its file system was closed: ") == 3, "text may be around them"
    left[0].close()
    assert [(folder / str(number)).read_bytes() for number in range(3)] == [b"left open"] * 3


def test_text_that_is_held_arrives(running: Running, folder: Path) -> None:
    def garbage(collected: Callable[[], object]) -> None:
        circle: list[Any] = [fs.open(f"{folder.name}/circle", "a")]
        circle.append(circle)
        circle[0].write("text")
        del circle
        collected()

    async def collect() -> None:
        gc.collect()

    with sync.nfs_open(running.url) as fs:
        left = fs.open(f"{folder.name}/left", "w")
        left.write("text")
        with pytest.warns(ResourceWarning, match=r"unclosed file <.*/dropped' mode='w'"):
            fs.open(f"{folder.name}/dropped", "w").write("text")
        # Garbage in circles; the thread of the files cannot wait for itself when it collects that.
        for collected in (gc.collect, lambda: fs._loop.run(collect)):
            with pytest.warns(ResourceWarning, match=r"unclosed file <.*/circle' mode='a'"):
                garbage(collected)
    assert left.closed
    assert [(folder / name).read_text() for name in ("left", "dropped", "circle")] == ["text", "text", "texttext"]


def test_files_of_the_standard_library_around_a_file_are_closed_before_it(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:
        files = {name: fs.open(f"{folder.name}/{name}", "w+b") for name in ("text", "updated", "compressed", "archive")}
        text = io.TextIOWrapper(files["text"])
        updated = io.TextIOWrapper(io.BufferedRandom(files["updated"]))
        compressed = io.TextIOWrapper(gzip.GzipFile(fileobj=files["compressed"], mode="wb"))
        archive = zipfile.ZipFile(files["archive"], "w")
        for file in (text, updated, compressed):
            file.write("text")
        archive.writestr("text", "text")
        read = io.TextIOWrapper(fs.open(f"{folder.name}/text"))
    assert not read.closed
    assert [(folder / name).read_text() for name in ("text", "updated")] == ["text"] * 2
    assert gzip.decompress((folder / "compressed").read_bytes()) == b"text"
    assert zipfile.ZipFile(folder / "archive").read("text") == b"text"


def test_nothing_is_imported_to_look_around_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zipfile", None)
    assert files_around([]) == []


def test_text_that_is_held_arrives_from_frozen_objects(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:
        left = fs.open(f"{folder.name}/left", "w")
        left.write("text")
        gc.freeze()
    gc.unfreeze()
    assert (folder / "left").read_text() == "text"


def test_the_buffer_of_a_gzip_file_is_closed_by_that_file_alone(running: Running, folder: Path) -> None:
    """Some versions of Python have such a buffer, which leads back to its file."""

    class _WriteBufferStream(io.RawIOBase):
        def __init__(self, file: Buffered) -> None:
            self.file = file

        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            return self.file.below.write(data)

    class Buffered(io.BufferedIOBase):
        def __init__(self, below: sync.NfsFile) -> None:
            self.below, self.buffer = below, io.BufferedWriter(_WriteBufferStream(self))

        def close(self) -> None:
            if not self.closed:
                self.buffer.write(b"end")
                self.buffer.close()
            super().close()

    with sync.nfs_open(running.url) as fs:
        left = Buffered(fs.open(f"{folder.name}/left", "wb"))
        left.buffer.write(b"data, ")
    assert left.closed
    assert (folder / "left").read_bytes() == b"data, end"


def test_a_text_file_is_closed_by_one_thread_at_a_time(
    running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped files are closed by a thread of their own, and by their file system."""
    others: list[bool] = []

    def flush(file: sync.NfsFile) -> None:
        with ThreadPoolExecutor(1) as thread:
            others.append(thread.submit(text._closing.acquire, blocking=False).result())
        flushed(file)

    flushed = sync.NfsFile.flush
    with sync.nfs_open(running.url) as fs:
        text = fs.open(f"{folder.name}/text", "w")
        text.write("text")
        monkeypatch.setattr(sync.NfsFile, "flush", flush)
        text.close()
    assert others
    assert not any(others)


def test_flushed_text_is_at_the_server_behind_what_others_have_appended(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs, sync.nfs_open(running.url) as other:
        files = [each.open(f"{folder.name}/log", "a") for each in (fs, other)]
        for number in range(4):
            print(number, file=files[number % 2], flush=True)
            assert (folder / "log").read_text() == "".join(f"{each}\n" for each in range(number + 1))
        held = files[0].detach()
        held.close()
        assert not fs._writers.kept


def test_what_fails_is_raised_by_close_and_logged_for_what_was_dropped(
    running: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fs = sync.nfs_open(running.url)
    left, good = fs.open(f"{folder.name}/left", "wb"), fs.open(f"{folder.name}/good", "wb")
    left.write(b"x")
    good.write(b"y")
    fs.unlink(f"{folder.name}/left")
    with pytest.raises(OSError, match="left"):
        fs.close()
    assert not fs._loop.in_use
    assert (folder / "good").read_bytes() == b"y"
    caplog.clear()
    with sync.nfs_open(running.url) as fs, pytest.warns(ResourceWarning, match="unclosed"):
        drop_removed(fs, f"{folder.name}/gone")
    (record,) = caplog.records
    assert "/gone was not closed, and the data written to it last may be lost: " in record.getMessage()


def interrupted(_call: object) -> None:
    raise KeyboardInterrupt


@each_case("mode", ["a", "w", "r+"])
def test_text_that_an_interrupted_flush_has_written_is_not_written_again(
    running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (folder / "log").write_bytes(b"")
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/log", mode) as text:
        for line in ("one\n", "two\n", "two\n", "three\n"):
            text.write(line)
            # When the call has ended, and before its thread has noticed.
            with monkeypatch.context() as patch:
                patch.setattr(_AwaitedCall, "result", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    text.flush()
    assert (folder / "log").read_text() == "one\ntwo\ntwo\nthree\n"


def test_the_same_octets_are_appended_again_behind_a_flush(
    running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a program catches the interrupt of a write, flushes, and goes on with its next line."""
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/log", "ab") as file:
        for made_known in (file.flush, lambda: file.truncate(file.size)):
            with monkeypatch.context() as patch:
                patch.setattr(_AwaitedCall, "result", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    file.write(b"line\n")
            assert file.write(b"line\n") == 5, "repeated"
            with monkeypatch.context() as patch:
                patch.setattr(_AwaitedCall, "result", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    file.write(b"line\n")
            made_known()
            file.write(b"line\n")
    assert (folder / "log").read_bytes() == b"line\n" * 6


@each_case(
    "read", [sync.NfsFile.read, sync.NfsFile.readlines, lambda file: file.readinto(bytearray(2)), sync.NfsFile.readline]
)
def test_an_interrupted_read_leaves_the_position(
    running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[sync.NfsFile], object]
) -> None:
    (folder / "file").write_bytes(b"one\ntwo\n")
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/file") as file:
        with monkeypatch.context() as patch:
            patch.setattr(_AwaitedCall, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                read(file)
        assert file.read() == b"one\ntwo\n"


def test_an_interrupted_look_whether_a_file_is_closed_is_no_closed_file(running: Running, folder: Path) -> None:
    def interrupt(frame: FrameType, _event: str, _arg: object) -> None:
        if frame.f_code.co_name == "closed":
            raise KeyboardInterrupt

    with sync.nfs_open(running.url) as fs, io.BufferedWriter(fs.open(f"{folder.name}/file", "wb")) as file:
        sys.settrace(interrupt)
        try:
            file.write(b"written")
        finally:
            sys.settrace(None)
    assert (folder / "file").read_bytes() == b"written"


def test_log_handlers_of_one_file_do_not_overwrite_each_other(running: Running, folder: Path) -> None:
    path = f"{folder.name}/log"
    with sync.nfs_open(running.url) as one, sync.nfs_open(running.url) as other:
        handlers = [logging.StreamHandler(io.TextIOWrapper(fs.open(path, "ab"))) for fs in (one, other, one)]
        for number in range(9):
            record = logging.LogRecord("", 0, "", 0, f"{number}", None, None)
            handlers[number % 3].emit(record)
            with (folder / "log").open("a") as local:
                local.write("local\n")
        for handler in handlers:
            handler.stream.close()
    assert (folder / "log").read_text().split() == [word for number in range(9) for word in (f"{number}", "local")]


def drop_removed(fs: sync.NfsFilesystem, path: str) -> None:
    file = fs.open(path, "wb")
    file.write(b"x")
    fs.unlink(path)
