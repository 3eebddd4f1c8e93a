"""Files and directories by calls that wait, and files in the hands of the standard library."""

from __future__ import annotations

import array
import asyncio
import collections
import copy
import csv
import ctypes
import functools
import io
import json
import logging
import mmap
import pickle
import re
import shutil
import threading
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from rpcrdma import sync
from rpcrdma.errors import ConnectFailed, LocalProtocolError, RpcRdmaError
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client import FileOptions
from rpcrdma.rpc.loaded_interface import load_interface
from rpcrdma.sync import background_loop, filesystem

if TYPE_CHECKING:
    from conftest import Running

pytestmark = pytest.mark.thorough


def test_file_systems_and_connections_show_their_urls(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:
        assert repr(fs) == f"<rpcrdma.sync.MountedFilesystem {fs.url}>"
        assert repr(fs.connection) == f"<rpcrdma.sync.Connection {fs.connection.url}>"
        assert repr(fs._asynchronous) == f"<rpcrdma.nfs.client.MountedFilesystem {fs.url}>"
        assert fs.url.startswith("rdma://127.0.0.1:")
        inner = sync.NfsFilesystem(fs._asynchronous, fs._loop)
        assert repr(inner) == f"<rpcrdma.sync.NfsFilesystem of {fs._asynchronous!r}>"
    # What other processes cannot have is not pickled.
    (folder / "f").touch()
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/f") as file:
        for refused in (fs, fs.connection, file):
            for use in (pickle.dumps, copy.copy):
                with pytest.raises(TypeError, match=r"open it anew where it is to be used, or use rpcrdma\.fsspec"):
                    use(refused)


def test_a_walk_can_be_pruned_and_listings_left_early(
    running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "_ENTRIES_AT_ONCE", 100)
    for number in range(700):  # some pages
        (folder / f"{number:04}").touch()
    (folder / "left-out" / "below").mkdir(parents=True)
    with sync.nfs_open(running.url) as fs:
        seen = []
        for top, directories, _ in fs.walk(folder.name):
            seen.append(top)
            directories.clear()
        assert seen == [f"/{folder.name}"]
        entries = fs.scandir(folder.name)
        next(entries)
        entries.close()
        # All of them, though they are handed over a hundred at a time.
        assert len({entry.name for entry in fs.scandir(folder.name)}) == 701
    # An error that ends a listing comes behind the entries before it.
    with sync.nfs_open(running.url, files=FileOptions(listed_names_max=300)) as fs:
        seen = []
        entries = fs.scandir(folder.name)
        with pytest.raises(OSError, match="more than 300 names"):
            collections.deque(map(seen.append, entries))
        assert len(seen) >= 300


def test_a_file_is_a_raw_one(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:
        path = f"{folder.name}/f"
        with fs.open(path, "w+b") as file:
            assert isinstance(file, io.RawIOBase)
            assert (file.readable(), file.writable(), file.seekable(), file.mode) == (True, True, True, "w+b")
            assert file.write(memoryview(b"first\nsecond\nthird")) == 18
            assert file.seek(-5, io.SEEK_END) == 13
            assert file.read() == b"third"
            assert file.pread(6, 6) == b"second"
            file.seek(0)
            assert file.readline() == b"first\n"
            assert list(file) == [b"second\n", b"third"]
            assert file.truncate(5) == 5
            assert file.stat().st_size == 5
        assert file.closed
        with pytest.raises(ValueError, match="closed"):
            file.read()
        with pytest.raises(io.UnsupportedOperation, match="not opened for writing"), fs.open(path) as file:
            file.write(b"x")
    assert (folder / "f").read_bytes() == b"first"
    # Arguments and closed files are refused as by raw files.
    with sync.nfs_open(running.url) as fs:
        file = fs.open(f"{folder.name}/f", "w+b")
        for use in (lambda: file.seek(1.5), lambda: file.read(1.5), lambda: file.truncate(1.5)):  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
                use()
        with pytest.raises(ValueError, match="negative"):
            file.truncate(-1)
        file.close()
        for refused in (file.readable, file.writable, file.seekable, file.tell, file.flush, file.isatty):
            with pytest.raises(ValueError, match="closed"):
                refused()


def test_octets_are_placed_in_memory_of_any_format_but_none_with_gaps(running: Running, folder: Path) -> None:
    numbers = array.array("d", range(512))
    with sync.nfs_open(running.url) as fs:
        with fs.open(f"{folder.name}/f", "w+b") as file:
            assert file.write(numbers) == 4096
            assert file.pwrite(numbers, 4096) == 4096
            file.seek(0)
            found = (ctypes.c_double * 512)()
            assert file.readinto(found) == 4096
            assert list(found) == list(numbers)
            square = memoryview(bytearray(4096)).cast("B", (64, 64))
            assert file.preadinto(square, 4096) == 4096
            assert square.tobytes() == numbers.tobytes()
        fs.write_bytes(f"{folder.name}/f", numbers)
        assert fs.read_into(f"{folder.name}/f", found) == 4096
    assert (folder / "f").read_bytes() == numbers.tobytes()
    (folder / "f").write_bytes(b"content")
    gappy = memoryview(bytearray(16))[::2]
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/f", "r+b") as file:
        for name, use in (
            ("data", lambda: file.write(gappy)),
            ("data", lambda: file.pwrite(gappy, 0)),
            ("data", lambda: fs.write_bytes(f"{folder.name}/f", gappy)),
            ("buffer", lambda: file.readinto(gappy)),
            ("buffer", lambda: file.preadinto(gappy, 0)),
            ("buffer", lambda: fs.read_into(f"{folder.name}/f", gappy)),
        ):
            with pytest.raises(TypeError, match=f"{name}: .*not C-contiguous"):
                use()
        for read in (file.readinto, lambda memory: file.preadinto(memory, 0)):
            with pytest.raises(TypeError, match="buffer: the bytes is read-only"):
                read(bytes(7))
    assert (folder / "f").read_bytes() == b"content"
    content = bytes(range(256)) * 16
    (folder / "f").write_bytes(content)
    with sync.nfs_open(running.url) as fs, fs.open(f"{folder.name}/f") as file, mmap.mmap(-1, 8192) as memory:
        assert file.readinto(memory) == 4096
        assert memory[:4096] == content
        buffer = bytearray(1000)
        assert file.preadinto(buffer, 256) == 1000
        assert buffer == content[256:1256]
        file.seek(0)
        assert b"".join(bytes(view) for view in file.views()) == content


def test_the_standard_library_takes_the_files(running: Running, folder: Path) -> None:
    with sync.nfs_open(running.url) as fs:

        def path(name: str) -> str:
            return f"{folder.name}/{name}"

        with io.TextIOWrapper(fs.open(path("t.csv"), "wb"), newline="") as text:
            csv.writer(text).writerows([["a", "b"], ["1", "ö"]])
        with io.TextIOWrapper(io.BufferedReader(fs.open(path("t.csv"))), newline="") as text:
            assert list(csv.reader(text)) == [["a", "b"], ["1", "ö"]]
        with fs.open(path("z.zip"), "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner", b"x" * 100_000)
        with fs.open(path("z.zip")) as file, zipfile.ZipFile(file) as archive:
            assert archive.read("inner") == b"x" * 100_000
        with fs.open(path("p"), "wb") as file:
            pickle.dump({"k": [1, 2]}, file)
        with fs.open(path("p")) as file:
            assert pickle.load(file) == {"k": [1, 2]}
        with io.BufferedWriter(fs.open(path("j"), "wb")) as writer:
            writer.write(json.dumps([1, 2]).encode())
        with fs.open(path("j")) as file:
            assert json.load(file) == [1, 2]
        with fs.open(path("z.zip")) as source, fs.open(path("copy"), "wb") as target:
            shutil.copyfileobj(source, target)
    assert (folder / "copy").read_bytes() == (folder / "z.zip").read_bytes()


def test_text_files_are_those_of_the_built_in_open(running: Running, folder: Path, tmp_path: Path) -> None:
    def session(opened: Callable[..., Any]) -> list[Any]:
        seen: list[Any] = []
        with opened("w", newline="\r\n") as file:
            seen += [file.write("äb\n"), file.mode, file.encoding, file.readable(), file.tell()]
            file.writelines(["second\n"] * 40_000)
        for mode, options in (("r", {}), ("rt", {"newline": ""}), ("tr", {"encoding": "latin-1", "newline": "\n"})):
            with opened(mode, **options) as file:
                seen += [file.mode, file.readline(), file.read(3), file.tell(), file.buffer.peek(4)[:0], file.read()]
        with opened("a+", encoding="ascii", errors="replace") as file:
            seen += [file.write("ö\n"), file.seek(0), file.readline(), file.writable()]
        with opened("r+") as file:
            place = [file.readline(), file.tell()][1]
            seen += [
                file.read(2),
                file.seek(place),
                file.write("S"),
                file.seek(0),
                file.readlines()[:3],
                file.truncate(99),
            ]
        with opened("w+t") as file:
            seen += [file.write("x" * 300_000), file.seek(0), file.read(4), file.name.rpartition("/")[2]]
        for mode, problem in (("x", FileExistsError), ("r", UnicodeDecodeError)):
            with opened("wb") as file:
                file.write(b"\xff")
            with pytest.raises(problem), opened(mode) as text:
                text.read()
        with opened("r") as file, pytest.raises(io.UnsupportedOperation):
            file.write("x")
        return seen

    def local(mode: str, **options: Any) -> Any:
        return (tmp_path / "f").open(mode, **(options if "b" in mode else {"encoding": "utf-8"} | options))

    with sync.nfs_open(running.url) as fs:
        assert session(functools.partial(fs.open, f"{folder.name}/f")) == session(local)
        fs.write_text(f"{folder.name}/t", "ä\nb\n", "utf-16", newline="\r\n")
        assert (folder / "t").read_text("utf-16") == fs.read_text(f"{folder.name}/t", "utf-16") == "ä\nb\n"
        assert (folder / "t").read_bytes() == "ä\r\nb\r\n".encode("utf-16")
        with pytest.raises(UnicodeEncodeError):
            fs.write_text(f"{folder.name}/t", "ä", "ascii")
        assert fs.read_text(f"{folder.name}/t", "utf-16", newline="") == "ä\r\nb\r\n"
        assert sorted(fs.glob(f"{folder.name}/*")) == [f"{folder.name}/f", f"{folder.name}/t"]


def test_modes_that_are_none_open_nothing(running: Running, folder: Path) -> None:
    path = f"{folder.name}/f"
    with sync.nfs_open(running.url) as fs:
        for mode in ("", "b", "t", "rw", "rbt", "wtt", "r++", "z", "U"):
            with pytest.raises(ValueError, match=re.escape(f"invalid mode '{mode}': use r, w, x or a")):
                fs.open(path, mode)
        for options in ({"encoding": "utf-8"}, {"errors": "strict"}, {"newline": ""}):
            with pytest.raises(ValueError, match="binary mode 'wb' takes no encoding, errors or newline"):
                fs.open(path, "wb", **options)  # type: ignore[call-overload]
        with pytest.raises(LookupError, match="unknown encoding"):
            fs.open(path, "w", encoding="none")
        with pytest.raises(ValueError, match="illegal newline"):
            fs.open(path, "w", newline="x")
    assert list(folder.iterdir()) == []


def test_threads_share_a_file_system(running: Running, folder: Path) -> None:
    failures: list[BaseException] = []
    with sync.nfs_open(running.url) as fs:

        def work(number: int) -> None:
            try:
                for turn in range(20):
                    path = f"{folder.name}/{number}"
                    fs.write_bytes(path, b"%d" % turn)
                    assert fs.read_bytes(path) == b"%d" % turn
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert sum(thread.name == "rpcrdma-sync" for thread in threading.enumerate()) == 1


def test_it_works_where_a_loop_runs_already(running: Running, folder: Path) -> None:
    async def notebook() -> bytes:
        with sync.nfs_open(running.url) as fs:
            fs.write_bytes(f"{folder.name}/n", b"cell")
            return fs.read_bytes(f"{folder.name}/n")

    assert asyncio.run(notebook()) == b"cell"
    # A function that the thread calls may not wait for it.
    (folder / "f").write_bytes(b"x")
    with sync.nfs_open(running.url) as fs:

        def progress(_files: int, _octets: int) -> None:
            fs.listdir(folder.name)

        with pytest.raises(LocalProtocolError, match="call it from another thread"):
            fs.download(f"{folder.name}/f", folder / "copy", progress=progress)
        assert "f" in fs.listdir(folder.name)


def test_calls_of_any_program(running: Running) -> None:
    url, _, _ = running.url.rpartition("/")
    with sync.connect(url, v3.PROGRAM) as connection:
        connection.call(v3.NULL, None)
        assert connection.negotiated is not None
        assert (connection.reconnects, connection.statistics.operations) == (0, ())
        with pytest.raises(LocalProtocolError, match="not a procedure of"):
            connection.call(mount.EXPORT, None)
    connection.close()
    with pytest.raises(Exception, match="clos"):
        connection.call(v3.NULL, None)


def test_failing_to_connect_leaves_nothing_behind(running: Running) -> None:
    with sync.nfs_open(running.url):
        before = background_loop._present
    assert before is not None
    assert not before.in_use
    with pytest.raises(ConnectFailed, match="refused"):
        sync.connect("rdma://127.0.0.1:1")
    with pytest.raises(LocalProtocolError, match="URL"):
        sync.nfs_open("http://127.0.0.1/")
    assert background_loop._present is before
    assert not before.in_use


def test_errors_show_the_lines_of_their_program_alone(
    running: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def shown(call: Callable[..., Any], *args: Any) -> list[str]:
        """The modules and functions in the traceback below this one, for the error and its cause."""
        with pytest.raises((OSError, RpcRdmaError, TypeError, ValueError)) as raised:
            call(*args)
        error = raised.value
        assert error.__context__ is error.__cause__
        frames = traceback.extract_tb(error.__traceback__)[1:]
        frames += traceback.extract_tb(error.__cause__ and error.__cause__.__traceback__)
        return [f"{Path(frame.filename).stem}.{frame.name}" for frame in frames]

    def handling(first: Exception) -> None:
        try:
            raise first
        except KeyError:
            fs.stat("none")

    with sync.nfs_open(running.url) as fs:
        (folder / "f").touch()
        file = fs.open(f"{folder.name}/f")
        mounted = fsspec.filesystem("rdma", skip_instance_cache=True)
        address = running.url.removeprefix("rdma://")
        assert shown(fs.stat, "none") == shown(file.pread, -1, 0) == []
        assert shown(fs.write_bytes, "x", "text") == shown(fs.read_text, "none") == []
        assert shown(mounted.cat_file, f"{address}none") == shown(mounted.ls, f"{address}none") == []
        assert shown(fs.open, "none", "r") == shown(file.seek, -1) == []
        assert shown(sync.nfs_open, f"{running.tcp_url}none") == shown(sync.connect, "rdma://127.0.0.1:1") == []
        assert shown(list, fs.scandir("none")) == ["background_loop.iterate"]
        text = "typedef string name<2>; program P { version V { void ECHO(name) = 1; } = 1; } = 0x20000001;"
        procedure = load_interface(text, source_name="p.x").procedure("ECHO").procedure
        procedure.encode_args.__globals__["__name__"] = "module_of_the_program"
        with sync.connect(running.tcp_url.rpartition("/")[0]) as connection:
            assert shown(connection.call, procedure, "long") == []

        def progress(_files: int, _octets: int) -> None:
            raise ValueError("of the program")

        assert "test_sync_files.progress" in shown(
            lambda: fs.download(f"{folder.name}/f", folder / "copy", progress=progress)
        )
        # The exception that the program handles meanwhile is its own.
        with pytest.raises(FileNotFoundError) as raised:
            handling(KeyError("first"))
        assert isinstance(raised.value.__context__, KeyError)
        caplog.set_level(logging.DEBUG, "rpcrdma.client")
        with pytest.raises(FileNotFoundError) as raised:
            fs.stat("none")
        assert "find" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_failures_name_the_url(running: Running, folder: Path) -> None:
    """Those of files and iterators as well, which are not methods of the asynchronous file system alone."""
    (folder / "file").write_bytes(b"1")
    url = f"{running.tcp_url}{folder.name}"
    with sync.nfs_open(running.tcp_url) as fs, fs.open(f"{folder.name}/file") as read:
        for use in (
            lambda: read.write(b"1"),
            lambda: read.truncate(0),
            lambda: fs.open(f"{folder.name}/none"),
            lambda: list(fs.scandir(f"{folder.name}/none")),
            lambda: fs.read_bytes(folder.name),
        ):
            with pytest.raises(OSError, match=f"^(\\[Errno.*: ')?{url}"):
                use()
        with fs.open(f"{folder.name}/file", "wb") as written, pytest.raises(io.UnsupportedOperation, match=f"^{url}"):
            written.read()
    with pytest.raises(FileNotFoundError, match=f"'{url}/none'"):
        sync.nfs_open(f"{url}/none").stat(".")
