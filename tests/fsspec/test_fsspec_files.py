"""Uses of files by data tools through fsspec, beyond its own suite."""

from __future__ import annotations

import array
import asyncio
import ctypes
import gc
import glob
import io
import json
import os
import pickle
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.callbacks import Callback

from fsspec_server import Served, at
from rpcrdma import ConnectOptions, sync
from rpcrdma.fsspec import BufferedNfsFile, HeldFile, RdmaFileSystem, UpdatedFile
from rpcrdma.fsspec.waiting import FilesLoop
from rpcrdma.nfs.client import FileOptions, NfsFile, volume
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from support.cases import each_case
from support.waiting import until

pytestmark = pytest.mark.thorough

BLOCK = 1 << 20
LARGE = bytes(range(256)) * (41 * BLOCK // 1024)


@pytest.mark.parametrize("protocol", ["nfstcp"], indirect=True)
def test_threads_and_event_loops_append_to_one_file_in_turns(fs: Any, top: Path) -> None:
    def append(file: Any, name: bytes) -> None:
        with file:
            for number in range(50):
                file.write(b"%s %d\n" % (name, number))
                file.flush()

    url = fs.unstrip_protocol(at(top))
    with sync.nfs_open(url.replace("nfstcp", "tcp")) as other:
        files = [fs.open(at(top, "log"), "ab"), fs.open(at(top, "log"), "ab"), other.open("log", "ab")]
        with ThreadPoolExecutor() as threads:
            list(threads.map(append, files, (b"a", b"b", b"c")))
    lines = (top / "log").read_bytes().splitlines()
    for name in (b"a", b"b", b"c"):
        assert [line for line in lines if line.startswith(name)] == [b"%s %d" % (name, n) for n in range(50)]
    assert len(lines) == 150
    with fs.open(at(top, "log"), "ab") as file:
        (top / "log").write_bytes(b"short")
        file.write(b"er")
        file.flush()
        assert file.tell() == 7


@each_case("count", [4, 1 << 20])
def test_files_take_octets_in_memory_of_any_format_but_none_with_gaps(fs: Any, top: Path, count: int) -> None:
    numbers = array.array("d", bytes(8 * (count - 1)) + b"12345678")
    with fs.open(at(top, "written"), "wb") as file:
        assert file.write(numbers) == 8 * count
    fs.pipe_file(at(top, "piped"), numbers)
    assert (top / "written").read_bytes() == (top / "piped").read_bytes() == numbers.tobytes()
    found = (ctypes.c_double * count)()
    with fs.open(at(top, "written")) as file:
        assert file.readinto(found) == 8 * count
    assert bytes(found) == numbers.tobytes()
    (top / "file").write_bytes(b"content")
    gappy = memoryview(bytearray(14))[::2]
    with pytest.raises(TypeError, match=r"value: .*not C-contiguous"):
        fs.pipe_file(at(top, "file"), gappy)
    with fs.open(at(top, "file"), "ab") as file, pytest.raises(TypeError, match=r"data: .*not C-contiguous"):
        file.write(gappy)
    assert (top / "file").read_bytes() == b"content"


def test_a_file_system_shows_its_url(served: Served, fs: Any, protocol: str) -> None:
    port = served.options(protocol)["port"]
    assert repr(fs) == f"<{type(fs).__name__} {protocol}://127.0.0.1:{port}>"


def test_errors_are_those_of_open_and_name_the_whole_path(fs: Any, top: Path) -> None:
    (top / "file").write_bytes(b"1")
    (top / "full").mkdir()
    (top / "full" / "x").write_bytes(b"")
    for error, call in (
        (FileNotFoundError, lambda: fs.cat_file(at(top, "none"))),
        (FileNotFoundError, lambda: fs.open(at(top, "none"))),
        (FileNotFoundError, lambda: fs.info(at(top, "none"))),
        (FileNotFoundError, lambda: fs.ls(at(top, "none"))),
        (FileNotFoundError, lambda: fs.rm(at(top, "none"), recursive=True)),
        (FileNotFoundError, lambda: fs.mv(at(top, "none"), at(top, "other"))),
        (IsADirectoryError, lambda: fs.cat_file(at(top, "full"))),
        (IsADirectoryError, lambda: fs.open(at(top, "full"), "wb")),
        (FileExistsError, lambda: fs.mkdir(at(top, "full"))),
        (FileExistsError, lambda: fs.makedirs(at(top, "full"))),
        (NotADirectoryError, lambda: fs.pipe_file(at(top, "file/below"), b"")),
        (OSError, lambda: fs.rmdir(at(top, "full"))),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value.filename).startswith(at(top))
    assert not fs.exists(at(top, "file/below"))
    assert not fs.isfile(at(top, "none"))
    assert not fs.isdir(at(top, "file"))
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        fs.info("/nowhere/at/all")


def test_files_of_every_kind_answer_the_same_questions(fs: Any, top: Path) -> None:
    (top / "small").write_bytes(b"12345")
    (top / "large").write_bytes(LARGE)
    for name, mode, kind in (
        ("small", "rb", HeldFile),
        ("large", "rb", BufferedNfsFile),
        ("new", "wb", BufferedNfsFile),
        ("small", "ab", BufferedNfsFile),
        ("other", "w+b", UpdatedFile),
        ("large", "r+b", UpdatedFile),
    ):
        path = at(top, name)
        with fs.open(path, mode) as file:
            assert type(file) is kind
            assert (file.fs, file.path, file.mode, file.loc) == (fs, path, mode, file.tell())
            assert file.full_name == fs.unstrip_protocol(path)
            assert repr(file) == f"<{kind.__name__} {file.full_name}>"
            if mode != "rb":
                file.write(b"more")
            else:
                with pytest.raises(io.UnsupportedOperation, match=f"{name} is open for reading"):
                    file.write(b"more")
            found = file.info()
            assert (found["name"], found["size"]) == (path, (top / name).stat().st_size)
            assert mode != "rb" or file.size == file.details["size"] == found["size"]


def test_ranges_are_slices(fs: Any, top: Path) -> None:
    data = bytes(range(100))
    (top / "file").write_bytes(data)
    (top / "empty").write_bytes(b"")
    path = at(top, "file")
    ranges = [(None, None), (5, 10), (-7, None), (None, -95), (-10, -3), (90, 200), (200, 300), (10, 5), (0, 0)]
    for start, end in ranges:
        assert fs.cat_file(path, start=start, end=end) == data[start:end]
    firsts, lasts = ([each[side] for each in ranges] for side in (0, 1))
    assert fs.cat_ranges([path] * len(ranges), firsts, lasts) == [data[start:end] for start, end in ranges]
    assert fs.cat_ranges([path, at(top, "empty")], 1, 3) == [b"\1\2", b""]
    found = fs.cat_ranges([path, at(top, "none")], 0, 1)
    assert found[0] == b"\0"
    assert isinstance(found[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([path, at(top, "none")], 0, 1, on_error="raise")
    with pytest.raises(ValueError, match="1 limits of ranges for 2 paths"):
        fs.cat_ranges([path, path], [0], 1)


def test_what_is_large_goes_straight_to_where_it_stays(fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into: list[int] = []
    original = NfsFile.preadinto

    async def watched(self: NfsFile, buffer: Any, offset: int) -> int:
        into.append(ctypes.addressof(ctypes.c_char.from_buffer(buffer)))
        return await original(self, buffer, offset)

    monkeypatch.setattr(NfsFile, "preadinto", watched)
    with fs.open(at(top, "large"), "wb") as file:
        for start in range(0, len(LARGE), 6 * BLOCK + 1):
            file.write(memoryview(LARGE)[start : start + 6 * BLOCK + 1])
    assert (top / "large").read_bytes() == LARGE == fs.cat_file(at(top, "large"))
    buffer = bytearray(5 * BLOCK)
    with fs.open(at(top, "large")) as file:
        assert file.read(3) == LARGE[:3]
        assert file.readinto(buffer) == len(buffer)
        assert buffer == LARGE[3 : 3 + len(buffer)]
        assert into == [ctypes.addressof(ctypes.c_char.from_buffer(buffer))]
        assert file.read() == LARGE[3 + len(buffer) :]
        assert file.read() == b""
    # However large the buffer: the end is that at the opening, and a cache of the caller's choice is used.
    for options in ({}, {"cache_type": "all"}):
        with fs.open(at(top, "large"), **options) as file:
            size = (top / "large").stat().st_size
            (top / "large").write_bytes(LARGE + bytes(size - len(LARGE) + 4))
            assert file.readinto(bytearray(2 * size)) == size
            assert file.readinto(bytearray(size)) == 0
    assert len(into) == 2


def test_small_reads_in_a_row_are_read_ahead(fs: Any, top: Path) -> None:
    (top / "large").write_bytes(LARGE)
    for cache in ("none", "bytes", "all", "blockcache"):
        with fs.open(at(top, "large"), cache_type=cache, block_size=64 << 10) as file:
            file.seek(BLOCK)
            assert file.read(3 * BLOCK) == LARGE[BLOCK : 4 * BLOCK]
    # A block ahead is on its way while the last one is used.
    with fs.open(at(top, "large"), block_size=BLOCK) as file:
        file.read(1)
        file.seek(3 * BLOCK)
        for _ in range(3):
            file.read(BLOCK)
        ahead = file._file._ahead
        assert ahead._row
        assert ahead._row[-1].end > file.tell()
    # Lines are read up to a hint.
    numbers = b"".join(b"%05d\n" % number for number in range(60_000))
    (top / "file").write_bytes(numbers)
    for hint in (None, -1, 0, 1, 12, 13):
        with fs.open(at(top, "file")) as file:
            assert file.readlines(hint) == io.BytesIO(numbers).readlines(hint)


def test_flush_makes_what_was_written_visible(fs: Any, top: Path) -> None:
    with fs.open(at(top, "log"), "wb") as file:
        file.write(b"one")
        file.flush()
        assert (top / "log").read_bytes() == b"one"
        file.write(b"two")
    assert (top / "log").read_bytes() == b"onetwo"
    with pytest.raises(ValueError, match="closed file"):
        file.write(b"three")
    # Touching sets the time.
    (top / "file").write_bytes(b"1")
    os.utime(top / "file", (1, 1))
    fs.touch(at(top, "file"), truncate=False)
    assert (top / "file").read_bytes() == b"1"
    assert (top / "file").stat().st_mtime > 1
    fs.touch(at(top, "file"))
    assert (top / "file").read_bytes() == b""


def test_appended_blocks_that_arrive_one_after_the_other_are_appended_once(
    served: Served, protocol: str, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "_MOST", 4096)
    # Of its own, with these sizes of calls.
    options = {**served.options(protocol), "files": {"listed_names_max": 4096}}
    fs = fsspec.filesystem(protocol, **options, skip_instance_cache=True)
    data = os.urandom(6 * 4 * 4096)
    with fs.open(at(top, "log"), "ab", block_size=4 * 4096) as file:
        for start in range(0, len(data), 4096):
            file.write(data[start : start + 4096])
            asyncio.run(until(lambda: not file._file._behind._in_flight))
    fs.close()
    assert (top / "log").read_bytes() == data


def test_a_file_that_is_dropped_is_written_all_the_same(fs: Any, top: Path) -> None:
    file = fs.open(at(top, "dropped"), "wb")
    file.write(b"kept")
    del file
    gc.collect()
    assert (top / "dropped").read_bytes() == b"kept"

    # In the thread of the event loop nothing can wait for it.
    held = [fs.open(at(top, "later"), "wb")]
    held[0].write(b"kept as well")

    async def drop() -> None:
        held.clear()
        gc.collect()

    asyncio.run_coroutine_threadsafe(drop(), fs.loop).result(60)
    fs.close()
    assert (top / "later").read_bytes() == b"kept as well"


def test_garbage_is_written_without_waiting_as_its_thread_may_hold_locks(
    fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # The garbage of other tests writes nothing below.
    for mode, data in (("wb", b"kept"), ("w", "kept")):
        file = fs.open(at(top, mode), mode)
        file.write(data)
        file.circle = file
        below: Any = None if mode == "wb" else file.buffer
        del file
        with monkeypatch.context() as patched:
            patched.setattr(FilesLoop, "run", None)
            gc.collect()
    assert below.closed
    fs.close()
    assert [(top / mode).read_bytes() for mode in ("wb", "w")] == [b"kept", b"kept"]


def test_garbage_that_writes_blocks_of_a_file_waits_no_more_and_keeps_their_order(
    fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Around:
        def __init__(self, file: Any) -> None:
            self.file, self.circle = file, self

        def __del__(self) -> None:
            self.file.write(b"b" * 100)

    with fs.open(at(top, "file"), "wb", block_size=64) as file:
        file.write(b"a")
        Around(file)
        with monkeypatch.context() as patched:
            patched.setattr(FilesLoop, "run", None)
            gc.collect()
    assert (top / "file").read_bytes() == b"a" + b"b" * 100


def test_a_transaction_shows_all_of_its_files_at_once_or_none(fs: Any, top: Path) -> None:
    with fs.transaction:
        with fs.open(at(top, "a"), "wb") as file:
            file.write(b"1")
        assert not (top / "a").exists()
        with pytest.raises(io.UnsupportedOperation, match="of mode wb, not ab"):
            fs.open(at(top, "a"), "ab")
    assert (top / "a").read_bytes() == b"1"

    def fail() -> None:
        with fs.transaction:
            fs.pipe_file(at(top, "c"), b"is not part of it")
            with fs.open(at(top, "b"), "wb") as file:
                file.write(b"1")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert sorted(path.name for path in top.iterdir()) == ["a", "c"]


def test_removing_follows_no_link_and_stops_at_its_depth(fs: Any, top: Path) -> None:
    (top / "kept").mkdir()
    (top / "kept" / "file").write_bytes(b"")
    (top / "tree" / "sub").mkdir(parents=True)
    (top / "tree" / "link").symlink_to("../kept")
    fs.rm(at(top, "tree"), recursive=True, maxdepth=3)
    fs.touch(at(top, "tree/again"))
    (top / "tree" / "link").symlink_to("../kept")
    fs.rm(at(top, "tree"), recursive=True)
    assert [path.name for path in top.rglob("*")] == ["kept", "file"]
    with pytest.raises(IsADirectoryError):
        fs.rm(at(top, "kept"))


def test_a_name_that_looks_like_a_pattern_is_meant_itself(fs: Any, top: Path) -> None:
    (top / "tree[1]").mkdir()
    for name in ("a[1]", "a1", "b", "tree[1]/c?"):
        (top / name).write_text(name)
    (top / "b?").symlink_to("nowhere")
    assert fs.cat(at(top, "a[1]")) == b"a[1]"
    assert fs.cat(at(top, "a?")) == fs.cat([at(top, glob.escape("a1"))]) == {at(top, "a1"): b"a1"}
    assert fs.expand_path([at(top, "tree[1]"), at(top, "b")], recursive=True) == [
        at(top, name) for name in ("b", "tree[1]", "tree[1]/c?")
    ]
    fs.rm([at(top, "a[1]"), at(top, "b?"), at(top, "tree[1]")], recursive=True)
    assert sorted(path.name for path in top.iterdir()) == ["a1", "b"]
    with pytest.raises(FileNotFoundError):
        fs.rm(at(top, "b/*"))


def test_copies_to_and_from_this_machine_report_progress(fs: Any, top: Path, tmp_path: Path) -> None:
    class Seen(Callback):
        def __init__(self) -> None:
            super().__init__()
            self.values: list[int] = []

        def call(self, *_args: Any, **_kwargs: Any) -> None:
            self.values.append(self.value)

    (tmp_path / "here").write_bytes(LARGE)
    put, got = Seen(), Seen()
    fs.put_file(str(tmp_path / "here"), at(top, "new/there"), callback=put)
    fs.get_file(at(top, "new/there"), str(tmp_path / "back"), callback=got)
    assert (tmp_path / "back").read_bytes() == LARGE
    for seen in (put, got):
        assert seen.size == len(LARGE)
        assert len(set(seen.values)) > 3
        assert seen.values == sorted(seen.values)
        assert seen.values[-1] == len(LARGE)
    target = io.BytesIO()
    fs.get_file(at(top, "new/there"), target)
    assert target.getvalue() == LARGE
    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "here"), at(top, "new/there"), mode="create")
    fs.put_file(str(tmp_path / "here"), at(top, "fresh"), mode="create")
    assert (top / "fresh").read_bytes() == LARGE
    # Nothing is made for a local path that is wrong, and no directory is taken for the copy.
    for mode in ("create", "overwrite"):
        with pytest.raises(FileNotFoundError):
            fs.put_file(str(tmp_path / "none"), at(top, "untouched/file"), mode=mode)
    with pytest.raises(OSError, match="not a regular file"):
        fs.put_file("/dev/null", at(top, "untouched"), mode="create")
    assert not (top / "untouched").exists()
    for directory in (top / "taken" / "here", tmp_path / "taken" / "there"):
        directory.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        fs.put_file(str(tmp_path / "here"), at(top, "taken"))
    with pytest.raises(IsADirectoryError):
        fs.get_file(at(top, "new/there"), str(tmp_path / "taken"))
    with pytest.raises(FileNotFoundError):
        fs.get_file(at(top, "new/missing"), str(tmp_path / "taken"))


def test_a_file_takes_no_place_of_a_directory_in_silence(fs: Any, top: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"f")
    (tmp_path / "d" / "f" / "f").mkdir(parents=True)
    (top / "d" / "f" / "f").mkdir(parents=True)
    (top / "f").write_bytes(b"f")
    for call in (
        lambda: fs.put_file(str(tmp_path / "f"), at(top, "d")),
        lambda: fs.put_file(str(tmp_path / "f"), at(top, "d/f")),
        lambda: fs.put(str(tmp_path / "f"), at(top, "d")),
        lambda: fs.get_file(at(top, "f"), str(tmp_path / "d")),
        lambda: fs.get_file(at(top, "f"), str(tmp_path / "d" / "f")),
        lambda: fs.get(at(top, "f"), str(tmp_path / "d")),
    ):
        with pytest.raises(IsADirectoryError, match="which no file replaces"):
            call()
    assert not [path for each in (top, tmp_path) for path in (each / "d").rglob("*") if path.is_file()]
    # Directories of both sides are one.
    fs.get_file(at(top, "d"), str(tmp_path / "d"))
    fs.put_file(str(tmp_path / "d"), at(top, "d"))


def test_without_auto_mkdir_a_missing_directory_is_an_error(served: Served, top: Path) -> None:
    fs = fsspec.filesystem("rdma", **served.options("rdma"), auto_mkdir=False)
    with pytest.raises(FileNotFoundError):
        fs.pipe_file(at(top, "new/file"), b"")
    assert list(top.iterdir()) == []
    fs.pipe_file(at(top, "file"), b"")


def test_files_that_are_written_at_once_have_each_new_directory_made_by_one_call(
    fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    mkdir = NfsProcedures.mkdir

    async def counted(self: NfsProcedures, directory: Node, name: str, *more: Any) -> Any:
        made.append(name)
        return await mkdir(self, directory, name, *more)

    monkeypatch.setattr(NfsProcedures, "mkdir", counted)
    fs.pipe({at(top, f"new/deep/{below}/{number}"): b"" for below in ("one", "two") for number in range(10)})
    assert (made[:2], sorted(made[2:])) == (["new", "deep"], ["one", "two"])
    assert len(list(top.glob("new/deep/*/*"))) == 20
    made.clear()
    fs.cp(at(top, "new/deep"), at(top, "copy"), recursive=True)
    assert sorted(made) == ["copy", "one", "two"]


def test_file_systems_and_open_files_are_pickled(served: Served, protocol: str, top: Path) -> None:
    options = {"call_timeout_s": 31.0}
    fs = fsspec.filesystem(protocol, **served.options(protocol), options=options, files={"direct_calls": 2})
    assert fs.server.options.call_timeout_s == 31.0
    assert fs.server.files == FileOptions(direct_calls=2)
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs
    assert type(fs).from_json(fs.to_json()) == fs
    assert json.loads(fs.to_json())["options"] == options
    for name, data, kind in (("file", LARGE[:1000], HeldFile), ("large", LARGE, BufferedNfsFile)):
        (top / name).write_bytes(data)
        with fs.open(at(top, name)) as file:
            file.seek(7)
            copy = pickle.loads(pickle.dumps(file))
            assert isinstance(copy, kind)
            assert copy.read() == data[7:]
    own = RdmaFileSystem(**served.options("rdma"), options=ConnectOptions(call_timeout_s=31.0))
    assert pickle.loads(pickle.dumps(own)).server.options.call_timeout_s == 31.0
    fs.close()


async def test_coroutines_use_the_loop_that_they_run_in(served: Served, protocol: str, top: Path) -> None:
    (top / "file").write_bytes(LARGE)
    fs = fsspec.filesystem(protocol, **served.options(protocol), asynchronous=True)
    with pytest.raises(RuntimeError, match="asynchronous=True: await its methods with an underscore"):
        fs.cat_file(at(top, "file"))
    assert await fs._cat_file(at(top, "file"), start=5, end=10) == LARGE[5:10]
    async with await fs.open_async(at(top, "copy"), "wb") as file:
        await file.write(b"1")
    assert {info["name"] for info in await fs._ls(at(top))} == {at(top, "file"), at(top, "copy")}
    await fs._close()
    assert (top / "copy").read_bytes() == b"1"


def test_files_are_copied_between_file_systems(served: Served, top: Path) -> None:
    (top / "file").write_bytes(LARGE)
    generic = fsspec.filesystem("generic", default_method="current")
    fsspec.filesystem("rdma", **served.options("rdma"))
    generic.cp_file(served.url("rdma", at(top, "file")), served.url("nfstcp", at(top, "copy")))
    assert (top / "copy").read_bytes() == LARGE


@each_case("mode", ["rw", "rwb", "b", "r+wb"])
def test_a_mode_that_is_none_harms_nothing(fs: Any, top: Path, mode: str) -> None:
    (top / "file").write_bytes(b"123")
    for name in ("file", "new"):
        with pytest.raises(ValueError, match="use rb, wb, xb or ab"):
            fs.open(at(top, name), mode)
    assert [path.read_bytes() for path in top.iterdir()] == [b"123"]


def test_files_are_updated_in_place(fs: Any, top: Path) -> None:
    path = at(top, "new/archive.zip")
    with fs.open(path, "w+b") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("one", b"1" * 1000)
        assert archive.read("one") == b"1" * 1000
    before = fs.info(path)["size"]
    with fs.open(path, "r+b") as file, zipfile.ZipFile(file, "a") as archive:
        archive.writestr("two", b"2")
        assert archive.namelist() == ["one", "two"]
    assert fs.info(path)["size"] > before
    with zipfile.ZipFile(top / "new" / "archive.zip") as archive:
        assert archive.read("two") == b"2"
    with fs.open(path, "rb") as file:
        assert file.read() == (top / "new" / "archive.zip").read_bytes()
    with fs.open(at(top, "text"), "x+") as text:
        text.write("one\ntwo\n")
        text.seek(0)
        assert text.readlines() == ["one\n", "two\n"]
    # The letters of a mode have any order.
    with fs.open(at(top, "text"), "ba") as file:
        file.write(b"three")
    with fs.open(at(top, "text"), "br") as file:
        assert file.read() == b"one\ntwo\nthree"
    with fs.open(at(top, "text"), "bw") as file, pytest.raises(io.UnsupportedOperation, match=r"open it with w\+b"):
        file.seek(0)
    # Errors are those of other files.
    with fs.open(path, "r+b") as file:
        with pytest.raises(ValueError, match="negative seek position"):
            file.seek(-1)
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(file)
    with pytest.raises(ValueError, match="closed file"):
        file.read()
    with pytest.raises(FileNotFoundError):
        fs.open(at(top, "none"), "r+b")
    with pytest.raises(FileExistsError):
        fs.open(path, "x+b")
    with fs.transaction, pytest.raises(io.UnsupportedOperation, match=r"of mode wb, not w\+b"):
        fs.open(path, "w+b")
    modes = ("a+b", "ab", "wb", "xb")
    left = [fs.open(at(top, mode), mode) for mode in modes]
    for file in left:
        file.write(b"left open")
    fs.close()
    assert {(top / mode).read_bytes() for mode in modes} == {b"left open"}
    assert all(file.closed for file in left)


def test_moving_renames_files_whose_names_look_like_patterns_too_and_none_onto_itself(fs: Any, top: Path) -> None:
    for name in ("a[1]", "star*", "what?"):
        (top / name).write_bytes(b"1")
        fs.mv(at(top, name), at(top, "moved"))
        assert [path.name for path in top.iterdir()] == ["moved"]
        (top / "moved").unlink()
    (top / "ab").write_bytes(b"1")
    (top / "into").mkdir()
    fs.mv(at(top, "a?"), at(top, "into"))
    assert (top / "into" / "ab").exists()
    assert not (top / "ab").exists()
    (top / "tree" / "sub").mkdir(parents=True)
    (top / "tree" / "sub" / "file").write_bytes(b"1")
    number = (top / "tree" / "sub" / "file").stat().st_ino
    fs.mv(at(top, "tree"), at(top, "new/place"))
    fs.mv(at(top, "new/place/sub/file"), at(top, "new/"))
    assert (top / "new" / "file").stat().st_ino == number
    fs.mv(at(top, "new/*"), at(top, "pattern"), recursive=True)
    assert sorted(path.name for path in (top / "pattern").rglob("*")) == ["file", "place", "sub"]
    (top / "empty").mkdir()
    # As fsspec's local files do: a part of a directory is not left behind.
    fs.mv(at(top, "pattern"), at(top, "empty"), recursive=True, maxdepth=1)
    assert sorted(path.name for path in (top / "empty").rglob("*")) == ["file", "pattern", "place", "sub"]
    (top / "file").write_bytes(b"1")
    (top / "same").symlink_to("file")
    with pytest.raises(shutil.SameFileError):
        fs.cp_file(at(top, "file"), at(top, "same"))
    assert (top / "file").read_bytes() == b"1"


def test_progress_of_a_tree_counts_files_alone(fs: Any, top: Path, tmp_path: Path) -> None:
    class Branches(Callback):
        def __init__(self) -> None:
            super().__init__()
            self.of: list[Callback] = []

        def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Callback:
            self.of.append(Callback())
            return self.of[-1]

    (top / "below").mkdir()
    (top / "below" / "file").write_bytes(b"12345")
    progress = Branches()
    fs.get(at(top), str(tmp_path / "copy"), recursive=True, callback=progress)
    assert sorted((each.size, each.value) for each in progress.of) == [(0, 0), (0, 0), (5, 5)]
