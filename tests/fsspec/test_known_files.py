"""The short-lived cache of a file system, and the calls that it saves."""

from __future__ import annotations

import io
import os
import secrets
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fsspec_server import Served, at
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.fsspec import BufferedNfsFile, HeldFile, known_files, mounts
from rpcrdma.fsspec.known_files import KnownFiles
from rpcrdma.nfs.client import DirEntry
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3, nfstime3, specdata3
from support.cases import each_case

LARGE = secrets.token_bytes((1 << 20) + 5)
VALID_S = 60.0
"""Longer than any test takes: what is forgotten earlier has not just become old."""


@pytest.fixture
def top(top: Path) -> Path:
    (top / "small").write_bytes(b"small")
    (top / "large").write_bytes(LARGE)
    return top


@pytest.fixture
def make(served: Served, protocol: str) -> Iterator[Callable[..., Any]]:
    """Makes a file system that shares its cache with those of the same test alone."""
    files = {"listed_names_max": 1000 + secrets.randbelow(1_000_000)}
    last: list[Any] = []

    def made(**options: Any) -> Any:
        options = {"attributes_valid_s": VALID_S, **served.options(protocol), "files": files, **options}
        last[:] = [fsspec.filesystem(protocol, **options, skip_instance_cache=True)]
        return last[0]

    yield made
    for fs in last:
        fs.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls about the two files, by procedure."""
    counts: Counter[str] = Counter()

    def watch(name: str) -> None:
        procedure = getattr(NfsProcedures, name)

        async def counted(self: NfsProcedures, of: Node | nfs_fh3, *more: Any) -> Any:
            if name != "lookup" or more[0] in {"small", "large"}:
                counts[name] += 1
            return await procedure(self, of, *more)

        monkeypatch.setattr(NfsProcedures, name, counted)

    for name in ("lookup", "getattr", "access", "read"):
        watch(name)
    return counts


def replace(path: Path, data: bytes) -> None:
    """As programs do that want no reader to see half of a file."""
    new = path.with_name("new")
    new.write_bytes(data)
    new.rename(path)


@pytest.mark.thorough
def test_a_question_is_asked_once_and_a_small_file_comes_with_its_opening(
    make: Callable[..., Any], top: Path, calls: Counter[str]
) -> None:
    fs, path = make(), at(top, "small")
    assert fs.info(path)["size"] == 5
    assert fs.exists(path)
    assert fs.isfile(path)
    assert not fs.isdir(path)
    assert fs.size(path) == 5
    assert calls == {"lookup": 1}
    for _ in range(2):
        with fs.open(path) as file:
            assert isinstance(file, HeldFile)
            assert file.read() == b"small"
    assert calls == {"lookup": 1, "read": 1, "getattr": 1}
    assert fs.cat_file(path) == b"small"
    assert calls == {"lookup": 1, "read": 2, "getattr": 1}
    # A small file is read only.
    with fs.open(path) as file:
        assert file.readable()
        assert not file.writable()
        for use in (lambda: file.write(b"1"), lambda: file.writelines([b"1"]), lambda: file.truncate(0)):
            with pytest.raises(io.UnsupportedOperation, match="small is open for reading"):
                use()
        assert file.read() == b"small"
    assert file.closed
    assert (top / "small").read_bytes() == b"small"


@pytest.mark.thorough
def test_an_empty_file_is_asked_for_its_attributes(make: Callable[..., Any], top: Path, calls: Counter[str]) -> None:
    fs, path = make(), at(top, "small")
    (top / "small").write_bytes(b"")
    assert fs.open(path).read() == b""
    assert calls == {"lookup": 1, "getattr": 1}
    (top / "small").write_bytes(b"no longer")
    assert fs.open(path).read() == b"no longer"


@pytest.mark.thorough
def test_a_larger_file_is_opened_by_its_handle(make: Callable[..., Any], top: Path, calls: Counter[str]) -> None:
    fs, path = make(), at(top, "large")
    fs.info(path)
    for _ in range(2):
        with fs.open(path) as file:
            assert isinstance(file, BufferedNfsFile)
    assert calls == {"lookup": 1, "access": 2}
    assert fs.cat_ranges([path, path], [0, 7], [5, 9]) == [LARGE[:5], LARGE[7:9]]
    assert calls == {"lookup": 1, "access": 3, "read": 2}


@pytest.mark.thorough
def test_a_file_is_opened_for_appending_by_one_lookup(make: Callable[..., Any], top: Path, calls: Counter[str]) -> None:
    with make().open(at(top, "small"), "ab") as file:
        assert calls == {"lookup": 1, "access": 1}
        file.write(b" and more")
    assert (top / "small").read_bytes() == b"small and more"


@pytest.mark.thorough
def test_what_has_its_index_at_its_end_comes_with_that(
    make: Callable[..., Any], top: Path, calls: Counter[str]
) -> None:
    fs, path = make(), at(top, "large.Parquet")
    (top / "large.Parquet").write_bytes(LARGE)
    fs.info(path)
    for opened in (1, 2):
        with fs.open(path) as file:
            assert isinstance(file, BufferedNfsFile)
            assert file.seek(-(64 << 10), io.SEEK_END) == len(LARGE) - (64 << 10)
            assert file.read() == LARGE[-(64 << 10) :]
            assert +calls == Counter(read=1, getattr=opened - 1)
    with fs.open(path) as file:
        assert file.read(5) == LARGE[:5]
    for change in (Path.write_bytes, replace):
        data = secrets.token_bytes(len(LARGE) + 9)
        change(top / "large.Parquet", data)
        with fs.open(path) as file:
            file.seek(-7, io.SEEK_END)
            assert file.read() == data[-7:]
        assert fs.open(path).read() == data
    (top / "archive.zip").write_bytes(zipped(LARGE))
    with fs.open(at(top, "archive.zip")) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("data") == LARGE


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data", data)
    return file.getvalue()


@pytest.mark.thorough
def test_what_was_listed_needs_no_question(make: Callable[..., Any], top: Path, calls: Counter[str]) -> None:
    fs = make()
    assert sorted(fs.find(at(top))) == [at(top, "large"), at(top, "small")]
    calls.clear()
    assert fs.info(at(top, "small"))["size"] == 5
    assert fs.open(at(top, "small")).read() == b"small"
    assert calls == {"read": 1}


@pytest.mark.thorough
def test_an_answer_is_the_callers_own(make: Callable[..., Any], top: Path) -> None:
    fs = make()
    fs.info(at(top, "small"))["size"] = 99
    fs.ls(at(top), detail=True)[0]["size"] = 99
    assert {fs.info(at(top, name))["size"] for name in ("small", "large")} == {5, len(LARGE)}
    # A checksum and a time are the present ones.
    path = at(top, "small")
    before = (fs.checksum(path), fs.modified(path))
    os.utime(top / "small", (5, 5))
    assert fs.checksum(path) != before[0]
    assert fs.modified(path) != before[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        lambda fs, path: fs.pipe_file(path, b"own"),
        lambda fs, path: fs.pipe_file(path.replace("/small", "//./small"), b"own"),
        lambda fs, path: fs.cp_file(path.replace("small", "large"), path),
        lambda fs, path: fs.touch(path),
        lambda fs, path: fs.rm_file(path),
        lambda fs, path: fs.rm(path),
        lambda fs, path: fs.rm(os.path.dirname(path), recursive=True),  # noqa: PTH120 - a path at the server
        lambda fs, path: fs.mv(path, path + "-moved"),
        lambda fs, path: fs.mv(path.replace("small", "large"), path),
        lambda fs, path: fs.mv(os.path.dirname(path), os.path.dirname(path) + "-moved"),  # noqa: PTH120
        lambda fs, path: fs.put_file(__file__, path),
    ],
)
def test_own_changes_are_seen_at_once(make: Callable[..., Any], top: Path, change: Callable[[Any, str], Any]) -> None:
    fs, other, path = make(), make(), at(top, "small")
    before = other.info(path)
    change(fs, path)
    if (top / "small").exists():
        found = (top / "small").stat()
        assert (other.info(path)["size"], other.info(path)["ino"]) == (found.st_size, found.st_ino)
        assert other.info(path) != before
        assert other.open(path).read() == (top / "small").read_bytes()
    else:
        assert not other.exists(path)
        with pytest.raises(FileNotFoundError):
            other.open(path)


@pytest.mark.thorough
def test_directories_that_are_made_are_seen_in_those_above(make: Callable[..., Any], top: Path) -> None:
    fs = make()
    for number, change in enumerate((fs.mkdir, fs.makedirs, lambda path: fs.makedirs(path, exist_ok=True), fs.touch)):
        fs.info(at(top))
        change(at(top, f"{number}/in"))
        info, found = fs.info(at(top)), top.stat()
        assert (info["nlink"], info["mtime"]) == (found.st_nlink, found.st_mtime)


@pytest.mark.thorough
def test_a_file_that_is_being_written_is_asked_for_each_time(make: Callable[..., Any], top: Path) -> None:
    fs, path = make(), at(top, "small")
    with fs.open(path, "wb") as file:
        assert fs.info(path)["size"] == 0
        file.write(b"1")
        file.flush()
        assert fs.info(path)["size"] == 1
        file.write(b"2")
    assert fs.info(path)["size"] == 2
    assert fs.open(path).read() == b"12"


@pytest.mark.thorough
def test_an_answer_of_the_time_in_which_a_file_is_closed_is_not_believed(
    make: Callable[..., Any], top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, path, write = make(attributes_valid_s=60), at(top, "small"), NfsProcedures.write

    async def asks_first(self: NfsProcedures, *args: Any) -> Any:
        assert (await fs._info(path))["size"] == 0
        return await write(self, *args)

    async def written() -> None:
        monkeypatch.setattr(NfsProcedures, "write", asks_first)
        async with await fs.open_async(path, "wb") as file:
            await file.write(b"1")

    fsspec.asyn.sync(fs.loop, written)
    assert fs.info(path)["size"] == 1


@pytest.mark.thorough
@each_case("name", ["small", "large"])
def test_opening_sees_what_others_have_changed(make: Callable[..., Any], top: Path, name: str) -> None:
    fs, path = make(), at(top, name)
    for change, data in (
        (Path.write_bytes, b"written"),
        (replace, b"renamed"),
        (Path.write_bytes, LARGE + b"more"),
        (replace, b""),
        (replace, LARGE),
    ):
        fs.info(path)
        assert fs.open(path).read() == (top / name).read_bytes()
        change(top / name, data)
        assert fs.open(path).read() == data
        assert fs.cat_file(path) == data
    (top / name).unlink()
    for use in (fs.open, fs.cat_file):
        with pytest.raises(FileNotFoundError):
            use(path)


@pytest.mark.thorough
def test_answers_are_believed_for_so_long(make: Callable[..., Any], top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    fs, path = make(attributes_valid_s=2.0), at(top, "small")
    monkeypatch.setattr(fs.place(path).known, "_clock", lambda: now)
    assert fs.info(path)["size"] == 5
    (top / "small").write_bytes(b"changed")
    assert fs.info(path)["size"] == 5
    assert make(attributes_valid_s=0).info(path)["size"] == 7
    assert fs.info(path, refresh=True)["size"] == 7
    (top / "small").unlink()
    assert fs.exists(path)
    assert not fs.exists(path, refresh=True)
    now = 102.0
    assert not fs.exists(path)
    assert not fs.isfile(path)


@pytest.mark.thorough
def test_a_cache_that_is_invalidated_is_empty(make: Callable[..., Any], top: Path, calls: Counter[str]) -> None:
    fs, path = make(), at(top, "small")
    for forgotten in (None, path, at(top)):
        fs.info(path)
        calls.clear()
        fs.invalidate_cache(forgotten)
        fs.info(path)
        assert calls == {"lookup": 1}
    calls.clear()
    fs.invalidate_cache(at(top, "large"))
    fs.info(path)
    assert not calls


@pytest.mark.thorough
def test_without_close_to_open_consistency_what_is_known_is_used(
    make: Callable[..., Any], top: Path, calls: Counter[str]
) -> None:
    fs = make(close_to_open=False)
    small, large = at(top, "small"), at(top, "large")
    for _ in range(3):
        assert fs.open(small).read() == b"small"
        assert fs.open(large).read(9) == LARGE[:9]
    assert calls == {"lookup": 2, "read": 1 + 3}
    (top / "small").write_bytes(b"others")
    assert fs.open(small).read() == b"small"
    assert make().open(small).read() == b"others"
    fs.pipe_file(small, b"own")
    assert fs.open(small).read() == b"own"
    (top / "large").unlink()
    with fs.open(large) as file, pytest.raises(OSError, match="large"):
        file.read(9)


@pytest.mark.thorough
def test_symbolic_links_are_followed_anew(make: Callable[..., Any], top: Path) -> None:
    fs = make(close_to_open=False)
    (top / "link").symlink_to("small")
    assert fs.info(at(top, "link"))["size"] == 5
    assert fs.open(at(top, "link")).read() == b"small"
    (top / "link").unlink()
    (top / "link").symlink_to("large")
    assert fs.info(at(top, "link"))["size"] == len(LARGE)
    assert fs.open(at(top, "link")).read() == LARGE


def _entry(number: int) -> DirEntry:
    time = nfstime3(0, 0)
    attributes = fattr3(ftype3.NF3REG, 0o644, 1, 0, 0, 1, 1, specdata3(0, 0), 0, number, time, time, time)
    return DirEntry(f"f{number}", Node(nfs_fh3(b"d"), None, "/"), nfs_fh3(b"%d" % number), attributes)


def test_no_more_is_known_than_the_bounds_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_files, "FSSPEC_KNOWN_FILES_MAX", 5)
    monkeypatch.setattr(known_files, "FSSPEC_HELD_OCTETS_MAX", 25)
    known = KnownFiles()
    entries = [_entry(number) for number in range(8)]
    for number, entry in enumerate(entries):
        known.keep(f"/d/{number}", {}, entry, changes=known.changes)
    assert [number for number in range(8) if known.find(f"/d/{number}", 1e9)] == [3, 4, 5, 6, 7]
    for number in range(3, 8):
        known.hold(f"/d/{number}", entries[number], b"x" * 10, 1e9)
    held = [number for number in range(8) if (found := known.find(f"/d/{number}", 1e9)) and found.data]
    assert held == [6, 7]
    known.hold("/d/7", entries[6], b"of another file", 1e9)
    found = known.find("/d/7", 1e9)
    assert found is not None
    assert found.data == b"x" * 10
    # Directories that are asked about are bounded.
    monkeypatch.setattr(known_files, "FSSPEC_KNOWN_FILES_MAX", 3)
    known = KnownFiles()
    for number in (0, 0, 1, 2, 3, 0):
        assert not known.is_worth_listing(f"/d{number}", 1e9)
    assert len(known._asked) == 3


def test_what_files_hold_is_not_kept_longer_than_it_is_believed() -> None:
    now = 0.0
    known = KnownFiles(lambda: now)
    entries = [_entry(number) for number in range(2)]
    for number, entry in enumerate(entries):
        now = float(number)
        known.keep(f"/d/{number}", {}, entry, changes=known.changes)
        known.hold(f"/d/{number}", entry, b"data", 1.0)
    assert known.find("/d/0", 1e9) is None
    found = known.find("/d/1", 1e9)
    assert found is not None
    assert found.data == b"data"


def test_what_is_below_a_path_is_forgotten_with_it() -> None:
    known = KnownFiles()
    for path in ("/d", "/d/a", "/d/a/b", "/d/ab", "/e"):
        known.keep(path, {}, _entry(1), changes=known.changes)
    known.forget_tree("/d/a")
    assert [path for path in ("/d", "/d/a", "/d/a/b", "/d/ab", "/e") if known.find(path, 1e9)] == ["/d/ab", "/e"]
    # An answer is not kept if a change came after the question.
    known = KnownFiles()
    asked_at = known.changes
    known.forget("/d/other")
    known.keep("/d/f1", {}, _entry(1), changes=asked_at)
    assert known.find("/d/f1", 1e9) is None
    known.keep("/d/f1", {}, _entry(1), changes=known.changes)
    assert known.find("/d/f1", 1e9) is not None


@pytest.mark.thorough
# Of Python 3.12 and later; the child only looks, and ends.
@pytest.mark.filterwarnings("ignore:.* is multi-threaded, use of fork:DeprecationWarning")
def test_a_child_process_begins_with_nothing(make: Callable[..., Any], top: Path) -> None:
    fs = make()
    fs.info(at(top, "small"))
    child = os.fork()
    place = fs.place(at(top, "small"))
    if not child:
        status = 1
        try:
            status = 2 * (place.known.find(place.path, 1e9) is None) + 4 * all(
                key[0] != os.getpid() for key in mounts._MOUNTS
            )
        finally:
            # After a failure, too, the child does not go on with the tests of its parent.
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
    assert place.known.find(place.path, 1e9) is not None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """LOOKUPs of names that begin with "part", and READDIRPLUS."""
    counts: Counter[str] = Counter()
    lookup, readdirplus = NfsProcedures.lookup, NfsProcedures.readdirplus

    async def counted_lookup(self: NfsProcedures, directory: Node, name: str) -> Any:
        counts["lookup"] += name.startswith("part")
        return await lookup(self, directory, name)

    async def counted_page(self: NfsProcedures, *more: Any) -> Any:
        counts["page"] += 1
        return await readdirplus(self, *more)

    monkeypatch.setattr(NfsProcedures, "lookup", counted_lookup)
    monkeypatch.setattr(NfsProcedures, "readdirplus", counted_page)
    return counts


def parts(top: Path, count: int = 6) -> list[str]:
    for number in range(count):
        (top / f"part-{number}").write_bytes(bytes(1 + number))
    return [at(top, f"part-{number}") for number in range(count)]


@pytest.mark.thorough
@pytest.mark.parametrize("question", ["info", "cat_file", "open"])
def test_files_that_are_asked_for_one_by_one_come_with_a_page_of_their_directory(
    make: Callable[..., Any], top: Path, asked: Counter[str], question: str
) -> None:
    fs, paths = make(), parts(top)
    for number, path in enumerate(paths):
        found = getattr(fs, question)(path)
        if question == "info":
            assert (found["name"], found["size"]) == (path, 1 + number)
            assert found == fs.info(path, refresh=True)
            asked["lookup"] -= 1
        else:
            assert (found if question == "cat_file" else found.read()) == bytes(1 + number)
    assert asked == {"lookup": 2, "page": 1}


@pytest.mark.thorough
def test_files_that_are_asked_for_at_once_wait_for_one_page(
    make: Callable[..., Any], top: Path, asked: Counter[str]
) -> None:
    fs, paths = make(), parts(top, 9)
    assert fs.cat(paths) == {path: bytes(1 + number) for number, path in enumerate(paths)}
    assert asked == {"lookup": 2, "page": 1}
    # No page is read where nothing is kept.
    asked.clear()
    fs = make(attributes_valid_s=0)
    paths = parts(top)
    for path in paths:
        fs.info(path)
    assert asked == {"lookup": 6}


@pytest.mark.thorough
def test_a_page_of_a_directory_has_no_links_and_no_changes_that_came_after_it(
    make: Callable[..., Any], top: Path, asked: Counter[str]
) -> None:
    fs, paths = make(), parts(top)
    (top / "part-link").symlink_to("part-5")
    for path in paths[:3]:
        fs.info(path)
    (top / "part-link").unlink()
    (top / "part-link").symlink_to("part-4")
    assert fs.info(at(top, "part-link"))["size"] == 5
    fs.pipe_file(paths[5], b"changed")
    assert fs.info(paths[5])["size"] == 7
    (top / "part-new").write_bytes(b"later")
    assert fs.info(at(top, "part-new"))["size"] == 5
    assert asked["page"] == 1


@pytest.mark.thorough
@each_case("error", [PermissionError(13, "no"), RemoteProtocolError("faulty")])
def test_a_directory_that_cannot_be_listed_is_searched(
    make: Callable[..., Any], top: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def refused(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(NfsProcedures, "readdirplus", refused)
    fs = make()
    assert [fs.info(path)["size"] for path in parts(top)] == [*range(1, 7)]


def test_a_page_is_read_once_in_the_time_that_it_is_valid() -> None:
    now = 0.0
    known = KnownFiles(lambda: now)

    def worth(directory: str = "/d") -> list[bool]:
        return [known.is_worth_listing(directory, 2.0) for _ in range(4)]

    assert worth() == [False, False, True, False]
    assert worth("/e") == [False, False, True, False]
    now = 1.9
    assert worth() == [False] * 4
    now = 2.0
    assert worth() == [False, False, True, False]
    known.forget("/d/f1")
    assert worth() == [False, False, True, False]
    assert worth("/e") == [False, False, True, False]
    known.forget_tree("/e")
    assert worth("/e") == [False, False, True, False]
    assert worth() == [False] * 4
    known.forget_all()
    assert worth() == [False, False, True, False]
