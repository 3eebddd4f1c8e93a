"""Every operation of `NfsFilesystem` that is neither a stream nor a copy: its effect and its failures."""

from __future__ import annotations

import copy
import dataclasses
import errno
import inspect
import io
import os
import pickle
import re
from asyncio import run
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import CallTimeout, DecodeError, OutOfMemory, RemoteProtocolError, RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.nfs.errors import NfsError, ServerPathError
from rpcrdma.nfs.v3 import ftype3, nfsstat3, nfstime3
from support.cases import each_case
from support.few_frames import frames_left

JUKEBOX = nfsstat3.NFS3ERR_JUKEBOX


def test_stat_follows_links_and_lstat_does_not(server: Any, mounted: Any) -> None:
    server.put("/dir/file", b"12345")
    server.link("/link", "dir/file")
    fs = mounted()
    assert run(fs.stat("/link")).st_size == 5
    assert run(fs.stat(b"dir/file")).st_size == 5
    assert run(fs.lstat("link")).is_symlink()
    assert run(fs.stat("/")).is_dir()
    assert run(fs.stat(".")).is_dir()
    # The error names what is not there.
    with pytest.raises(FileNotFoundError) as caught:
        run(mounted().stat("/nope"))
    assert caught.value.filename == "/nope"


def test_stat_asks_the_server_every_time(server: Any, mounted: Any) -> None:
    thing = server.put("/dir/file", b"1")
    fs = mounted()
    assert run(fs.stat("/dir/file")).st_size == 1
    thing.data += b"23"
    assert run(fs.stat("/dir/file")).st_size == 3
    assert server.calls == {"LOOKUP": 3}


def test_a_server_that_gives_no_attributes_or_no_handles_is_asked_for_them(server: Any, mounted: Any) -> None:
    server.put("/dir/file", b"1")
    server.link("/link", "dir/file")
    server.give_attributes = False
    fs = mounted()
    assert run(fs.stat("/link")).st_size == 1
    assert [entry.name for entry in run(collect(fs.scandir("/")))] == ["dir", "link"]
    run(fs.write_bytes("/new", b"abc"))
    assert run(fs.read_bytes("/new")) == b"abc"
    server.give_handles = False
    run(fs.write_bytes("/new", b"abc"))
    assert bytes(server.at("/new").data) == b"abc"


def test_exists_and_is_dir(server: Any, mounted: Any) -> None:
    server.put("/dir/file")
    server.link("/dangling", "nowhere")
    fs = mounted()
    assert run(fs.exists("/dir/file"))
    assert run(fs.is_dir("/dir"))
    assert not run(fs.is_dir("/dir/file"))
    assert not run(fs.is_dir("/none"))
    assert not run(fs.exists("/dir/none"))
    assert not run(fs.exists("/dir/file/below"))
    assert not run(fs.exists("/dangling"))
    assert run(fs.is_file("/dir/file"))
    assert not run(fs.is_file("/dir"))
    server.answers["LOOKUP"] = [nfsstat3.NFS3ERR_ACCES]
    with pytest.raises(PermissionError):
        run(fs.exists("/dir"))


@each_case("path", ["/circle", "/circle/below", "/" + "n" * 256, "/nul\0", "/\ud800"])
def test_what_os_path_calls_false_of_a_path_is_false(new_server: Any, tmp_path: Path, path: str) -> None:
    server, mounted = new_server()
    server.link("/circle", "circle")
    (tmp_path / "circle").symlink_to("circle")
    assert not os.path.exists(f"{tmp_path}{path}")  # noqa: PTH110 - the model
    fs = mounted()
    for question in (fs.exists, fs.is_dir, fs.is_file):
        assert run(question(path)) is False
    if path.startswith("/circle"):
        assert run(fs.access(path, os.F_OK)) is False


@each_case(
    ("granted", "mode", "allowed"),
    [
        (0x01, os.R_OK, True),
        (0x01, os.W_OK, False),
        (0x04, os.W_OK, False),
        (0x0C, os.W_OK, True),
        (0x20, os.X_OK, True),
        (0x02, os.X_OK, False),
        (0x2D, os.R_OK | os.W_OK | os.X_OK, True),
        (0x00, os.F_OK, True),
    ],
)
def test_access_is_what_the_server_grants(new_server: Any, granted: int, mode: int, allowed: bool) -> None:
    server, mounted = new_server()
    server.put("/file")
    server.granted = granted
    assert run(mounted().access("/file", mode)) is allowed


def test_access_to_a_directory_is_to_look_up_in_it(server: Any, mounted: Any) -> None:
    server.granted = 0x02
    assert run(mounted().access("/", os.X_OK))
    assert not run(mounted().access("/none", os.F_OK))


def test_attributes_are_set(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"12345")
    fs = mounted()
    run(fs.chmod("/file", 0o600))
    run(fs.chown("/file", 3, -1))
    run(fs.chown("/file", -1, 4))
    run(fs.truncate("/file", 2))
    run(fs.utime("/file", (1.5, 2.25)))
    assert (thing.mode, thing.uid, thing.gid, bytes(thing.data)) == (0o600, 3, 4, b"12")
    assert (thing.atime, thing.mtime) == (nfstime3(1, 500_000_000), nfstime3(2, 250_000_000))
    run(fs.utime("/file", ns=(7, 1_000_000_008)))
    assert (thing.atime, thing.mtime) == (nfstime3(0, 7), nfstime3(1, 8))
    run(fs.utime("/file"))
    assert thing.mtime == nfstime3(1000, 0)
    for size in (-1, 1 << 64):
        with pytest.raises(ValueError, match="is no size of a file"):
            run(fs.truncate("/file", size))
    with pytest.raises(ValueError, match="not both"):
        run(fs.utime("/file", (1, 2), ns=(1, 2)))
    server.answers["SETATTR"] = [nfsstat3.NFS3ERR_ROFS]
    with pytest.raises(NfsError) as caught:
        run(fs.chmod("/file", 0))
    assert caught.value.errno == errno.EROFS
    # Those of a link itself, too.
    server.put("/file")
    link = server.link("/link", "file")
    run(mounted().chown("/link", 1, 2, follow_symlinks=False))
    assert (link.uid, link.gid) == (1, 2)
    assert server.at("/file").uid == os.geteuid()


def test_directories_are_made_with_the_parents_that_are_asked_for(server: Any, mounted: Any) -> None:
    fs = mounted()
    run(fs.mkdir("/a", 0o700))
    assert server.at("/a").mode == 0o700
    with pytest.raises(FileExistsError):
        run(fs.mkdir("/a"))
    run(fs.mkdir("/a", exist_ok=True))
    run(fs.mkdir("/", exist_ok=True))
    with pytest.raises(FileExistsError):
        run(fs.mkdir("/"))
    with pytest.raises(FileNotFoundError):
        run(fs.mkdir("/b/c"))
    run(fs.mkdir("/b/c/d/", parents=True))
    assert server.at("/b/c/d").type == ftype3.NF3DIR
    run(fs.mkdir("/e/f/.", 0o700, parents=True))
    assert (server.at("/e").mode, server.at("/e/f").mode) == (0o755, 0o700)
    run(fs.mkdir("/g/../h", parents=True))
    assert server.at("/g").type == server.at("/h").type == ftype3.NF3DIR
    server.put("/file")
    with pytest.raises(FileExistsError):
        run(fs.mkdir("/file", exist_ok=True))
    with pytest.raises(NotADirectoryError):
        run(fs.mkdir("/file/below", parents=True))
    run(mounted(fs_directory="/top").mkdir("x/y", parents=True))
    assert server.at("/top/x/y").type == ftype3.NF3DIR


def test_missing_directories_are_made_at_any_depth(mounted: Any) -> None:
    fs = mounted()
    deep = "/d" * 200
    with frames_left(150):
        run(fs.mkdir(deep, parents=True))
    assert run(fs.is_dir(deep))


def test_what_is_removed_is_of_the_kind_that_was_named(server: Any, mounted: Any) -> None:
    server.put("/dir/file")
    fs = mounted()
    with pytest.raises(NfsError) as caught:
        run(fs.rmdir("/dir"))
    assert caught.value.errno == errno.ENOTEMPTY
    with pytest.raises(IsADirectoryError):
        run(fs.unlink("/dir"))
    run(fs.unlink("/dir/file"))
    run(fs.rmdir("/dir"))
    assert server.root.children == {}
    with pytest.raises(FileNotFoundError):
        run(fs.unlink("/dir/file"))
    for path in ("/", "/x/..", ".."):
        with pytest.raises(OSError, match=r"exists|Invalid|No such"):
            run(fs.rmdir(path))
    # A link, not what it leads to.
    server.put("/file")
    server.link("/link", "file")
    run(mounted().unlink("/link"))
    assert list(server.root.children) == ["file"]


async def test_what_is_renamed_is_found_under_its_new_name_only(server: Any, mounted: Any) -> None:
    server.put("/a/file", b"1")
    server.folder("/b")
    fs = mounted()
    await fs.rename("/a/file", "/b/other")
    assert bytes(server.at("/b/other").data) == b"1"
    with pytest.raises(FileNotFoundError) as caught:
        await fs.rename("/a/none", "/b/x")
    assert (caught.value.filename, caught.value.filename2) == ("/a/none", "/b/x")
    # So are the objects below a directory that were looked up before.
    server.put("/a/file", b"1")
    await fs.stat("/a/file")
    await fs.rename("/a", "/b")
    assert await fs.exists("/b/file")
    assert not await fs.exists("/a/file")


def test_link_symlink_readlink(server: Any, mounted: Any) -> None:
    server.put("/file", b"1")
    fs = mounted()
    run(fs.link("/file", "/second"))
    assert run(fs.stat("/second")).st_nlink == 2
    run(fs.symlink("anywhere/at all", "/soft"))
    assert run(fs.readlink("/soft")) == "anywhere/at all"
    with pytest.raises(OSError, match="Invalid argument"):
        run(fs.readlink("/file"))
    with pytest.raises(FileExistsError):
        run(fs.link("/file", "/soft"))
    with pytest.raises(FileExistsError):
        run(fs.symlink("x", "/soft"))


def test_walk_is_like_os_walk(server: Any, mounted: Any) -> None:
    for path in ("/a/1", "/a/b/2", "/a/c/3", "/4"):
        server.put(path)
    server.link("/a/link", "b")
    fs = mounted()
    down = run(collect(fs.walk("/")))
    assert down == [("/", ["a"], ["4"]), ("/a", ["b", "c"], ["1", "link"]), ("/a/b", [], ["2"]), ("/a/c", [], ["3"])]
    up = run(collect(fs.walk("/", topdown=False)))
    assert [path for path, _, _ in up] == ["/a/b", "/a/c", "/a", "/"]


def test_walk_goes_where_it_is_told_to(server: Any, mounted: Any) -> None:
    server.put("/a/1")
    server.put("/b/2")
    server.put("/c")
    errors: list[OSError] = []

    async def walked(chosen: list[str]) -> list[str]:
        seen = []
        async for path, directories, _ in mounted().walk("/", onerror=errors.append):
            if path == "/":
                directories[:] = chosen
            seen.append(path)
        return seen

    assert run(walked(["b"])) == ["/", "/b"]
    assert errors == []
    assert run(walked(["none", "c", "a"])) == ["/", "/a"]
    assert [error.filename for error in errors] == ["/none", "/c"]


@each_case("topdown", [True, False])
def test_walk_ends_where_a_directory_contains_itself(new_server: Any, topdown: bool) -> None:
    server, mounted = new_server()
    server.put("/a/b/file")
    server.at("/a/b").children["up"] = server.at("/a")
    errors: list[OSError] = []
    found = run(collect(mounted().walk("/", topdown=topdown, onerror=errors.append)))
    assert sorted(path for path, _, _ in found) == ["/", "/a", "/a/b"]
    assert [(error.errno, error.filename) for error in errors] == [(errno.ELOOP, "/a/b/up")]


def test_walk_tells_of_names_that_can_be_none(server: Any, mounted: Any) -> None:
    server.put("/a")
    server.names_shown = lambda names: [*names, "b/c"]
    errors: list[OSError] = []
    assert run(collect(mounted().walk("/", onerror=errors.append))) == [("/", [], ["a"])]
    assert [(error.errno, error.filename) for error in errors] == [(errno.EINVAL, "/")]


@each_case("work", ["glob", "walk"])
@each_case("invalid", [True, False])
def test_an_error_that_onerror_raises_ends_the_iteration(new_server: Any, work: str, invalid: bool) -> None:
    server, mounted = new_server()
    for path in ("/a/f", "/mount/f"):
        server.put(path)
    if invalid:
        server.names_shown = lambda names: [*names, "b/c"]
    else:
        server.with_attributes = False
        server.shut.add("mount")
    told: list[OSError] = []

    def onerror(error: OSError) -> None:
        told.append(error)
        raise FileNotFoundError(errno.ENOENT, "of the caller")

    found = mounted().glob("**/f", onerror=onerror) if work == "glob" else mounted().walk("/", onerror=onerror)
    with pytest.raises(FileNotFoundError, match="of the caller"):
        run(collect(found))
    assert len(told) == 1


def test_walk_holds_a_bounded_number_of_names(server: Any, mounted: Any) -> None:
    for directory in range(3):
        for number in range(120):
            server.put(f"/{directory}/{number}")
    fs = mounted(listed_names_held_max=130)
    errors: list[OSError] = []
    assert len(run(collect(fs.walk("/", onerror=errors.append)))) == 4
    assert errors == []
    # From below, the names of those above are held meanwhile.
    for number in range(45):
        server.put(f"/f{number}")
    found = run(collect(fs.walk("/", topdown=False, onerror=errors.append)))
    assert [path for path, _, _ in found] == ["/"]
    assert [error.errno for error in errors] == [errno.EOVERFLOW] * 3


async def test_entries_are_listed_as_they_were_found(server: Any, mounted: Any) -> None:
    server.put("/a/b/file")
    server.at("/a/b").children["up"] = server.at("/a")
    server.link("/link", "a")
    fs = mounted()
    above, link = [entry async for entry in fs.scandir("/")]
    (inner,) = [entry async for entry in fs.scandir(above)]
    server.calls.clear()
    _, up = [entry async for entry in fs.scandir(inner)]
    assert server.calls == {"READDIRPLUS": 1}
    assert up.path == "/a/b/up"
    assert [entry.name async for entry in fs.scandir(link)] == ["b"]
    with pytest.raises(OSError, match="inside itself"):
        _ = [entry async for entry in fs.scandir(up)]


def test_names_that_are_held_at_once_are_bounded(server: Any, mounted: Any) -> None:
    for number in range(150):
        server.put(f"/{number}")
    fs = mounted(listed_names_held_max=100, listed_names_max=140)
    for work in (fs.listdir("/"), collect(fs.scandir("/"))):
        with pytest.raises(OSError, match=r"more than 1.0 names") as caught:
            run(work)
        assert caught.value.errno == errno.EOVERFLOW
    assert len(run(mounted(listed_names_held_max=150).listdir("/"))) == 150


def test_a_grace_period_is_waited_out_and_explained_once(
    server: Any, mounted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        # Two leases are the longest grace period.
        server.answers[name] = [JUKEBOX] if now_s < 180 else []

    fs = mounted(fs_sleep=sleep)
    works: dict[str, Any] = {
        "MKDIR": lambda: fs.mkdir("/directory"),
        "CREATE": lambda: fs.write_bytes("/file", b"1"),
        "WRITE": lambda: fs.write_bytes("/file", b"2"),
        "READ": lambda: fs.read_bytes("/file"),
        "REMOVE": lambda: fs.unlink("/file"),
    }
    for name, work in works.items():
        now_s = 0.0
        server.answers[name] = [JUKEBOX]
        caplog.clear()
        run(work())
        assert 180 <= now_s < 190
        (record,) = caplog.records
        assert "not ready (JUKEBOX), as in the grace period after a restart: waiting up to 200 s" in record.message


def test_an_operation_that_is_put_off_for_ever_fails_and_names_the_likely_cause(
    server: Any, mounted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    server.put("/file", b"1")
    server.answers["LOOKUP"] = [JUKEBOX] * 100
    fs = mounted(fs_sleep=sleep)
    with pytest.raises(OSError, match=r"not ready for 200 s \(JUKEBOX\), as in the grace.*; look") as caught:
        run(fs.stat("/file"))
    assert caught.value.errno == errno.EBUSY
    assert delays[:3] == [0.1, 0.2, 0.4]
    assert 200 <= sum(delays) <= 205
    assert server.calls["LOOKUP"] == len(delays) + 1
    # The next one is told of as well.
    server.answers["LOOKUP"] = [JUKEBOX] * 10
    run(fs.stat("/file"))
    assert [record.message.partition(":")[0] for record in caplog.records] == ["/file"] * 2


async def collect(items: Any) -> list[Any]:
    return [item async for item in items]


OPERATIONS: list[tuple[str, Callable[[Any], Coroutine[Any, Any, Any]]]] = [
    ("GETATTR", lambda fs: fs.stat("/")),
    ("SETATTR", lambda fs: fs.truncate("/file", 0)),
    ("LOOKUP", lambda fs: fs.lstat("/file")),
    ("ACCESS", lambda fs: fs.access("/file", os.R_OK)),
    ("READLINK", lambda fs: fs.readlink("/link")),
    ("READ", lambda fs: fs.read_bytes("/file")),
    ("WRITE", lambda fs: fs.write_bytes("/file", b"1")),
    ("CREATE", lambda fs: fs.write_bytes("/new", b"1")),
    ("MKDIR", lambda fs: fs.mkdir("/new")),
    ("SYMLINK", lambda fs: fs.symlink("x", "/new")),
    ("REMOVE", lambda fs: fs.unlink("/file")),
    ("RMDIR", lambda fs: fs.rmdir("/dir")),
    ("RENAME", lambda fs: fs.rename("/file", "/new")),
    ("LINK", lambda fs: fs.link("/file", "/new")),
    ("READDIR", lambda fs: fs.listdir("/")),
    ("READDIRPLUS", lambda fs: collect(fs.scandir("/"))),
    ("FSSTAT", lambda fs: fs.statvfs()),
    ("FSINFO", lambda fs: fs.listdir("/")),
    ("PATHCONF", lambda fs: fs.statvfs()),
]


@each_case(("procedure", "operation"), OPERATIONS)
def test_what_the_server_refuses_is_raised(new_server: Any, procedure: str, operation: Any) -> None:
    server, mounted = new_server()
    server.put("/file", b"1")
    server.folder("/dir")
    server.link("/link", "file")
    server.answers[procedure] = [nfsstat3.NFS3ERR_IO]
    with pytest.raises(NfsError) as caught:
        run(operation(mounted()))
    assert caught.value.errno == errno.EIO
    assert server.calls[procedure] == 1


def test_a_directory_that_was_made_is_not_looked_up_on_the_way(server: Any, mounted: Any) -> None:
    fs = mounted()
    run(fs.mkdir("/new"))
    assert server.calls["LOOKUP"] == 0
    assert not run(fs.exists("/new/file"))
    assert server.calls["LOOKUP"] == 1
    run(fs.rmdir("/new"))
    looked_up = server.calls["LOOKUP"]
    assert not run(fs.exists("/new/file"))
    assert server.calls["LOOKUP"] == looked_up + 1


def test_errors_name_the_url_of_what_failed_and_keep_its_path(server: Any, mounted: Any) -> None:
    server.put("/dir/file")
    server.link("/loop", "loop")
    fs = mounted(fs_url=parse_url("rdma://server/data?mountport=5"), fs_directory="dir")

    async def listed(path: str) -> None:
        async for _ in fs.scandir(path):
            pass

    for failing, path in (
        (fs.stat("none"), "/dir/none"),
        (fs.stat("/loop"), "/loop"),
        (listed("/dir/file"), "/dir/file"),
        (fs.stat("/" + 300 * "n"), "/" + 300 * "n"),
    ):
        with pytest.raises(ServerPathError) as caught:
            run(failing)
        error = caught.value
        assert error.filename == path
        for same in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert same.url == f"rdma://server:20049/data{path}"
            assert str(same).endswith(f": {same.url!r}")
            assert same.filename == path
    with pytest.raises(OSError, match="'rdma://server:20049/data/dir/none' -> 'rdma://server:20049/data/dir/x y'"):
        run(fs.rename("none", "x y"))
    with pytest.raises(FileNotFoundError, match=r"directory: '/none'$"):
        run(mounted().stat("/none"))


def test_every_failure_of_every_operation_names_the_url(server: Any, mounted: Any, tmp_path: Path) -> None:
    """With missing paths, and with those of the wrong kind, whatever else an operation takes."""
    fs = mounted(fs_url=parse_url("rdma://server/data"))
    (tmp_path / "here").touch()
    before = {"symlink": ("target",), "upload": (tmp_path / "here",), "upload_tree": (tmp_path,)}
    after = {
        "chmod": (0o600,),
        "chown": (1, 1),
        "download": (tmp_path / "copy",),
        "download_tree": (tmp_path / "tree",),
        "link": ("/new",),
        "read_into": (bytearray(1),),
        "rename": ("/new",),
        "truncate": (1,),
        "utime": ((1, 1),),
        "write_bytes": (b"1",),
        "write_text": ("1",),
    }
    # These take no path, or fail with no path, as those of `os`.
    quiet = {"access", "close", "exists", "glob", "is_dir", "is_file", "is_unchanged", "read_unchanged", "walk"}
    operations = [name for name, _ in inspect.getmembers(type(fs), inspect.isfunction) if name[0] != "_"]
    for name in [each for each in operations if each not in quiet]:
        failures = []
        for path in ("/none/x", "/dir/file/x", "/dir", "/dir/file"):
            server.put("/dir/file")
            try:
                run(ended(getattr(fs, name)(*before.get(name, ()), path, *after.get(name, ()))))
            except OSError as error:
                failures.append(str(error))
        assert len(failures) >= 2, name
        assert [each for each in failures if not re.search("'rdma://server:20049/data/(none|dir)", each)] == [], name
    # Nor is a file's own path that of a local one.
    server.put("/dir/file")
    for mode, use in (("rb", lambda file: file.write(b"1")), ("wb", lambda file: file.read())):
        with pytest.raises(io.UnsupportedOperation, match=r"^rdma://server:20049/data/dir/file was not opened for"):
            run(opened(fs, mode, use))


@each_case(
    ("fault", "kind"),
    [("lost", CallTimeout), ("undecodable", DecodeError), ("empty", RemoteProtocolError), ("huge", OutOfMemory)],
)
def test_failures_of_the_protocol_name_the_url(new_server: Any, fault: str, kind: type[RpcRdmaError]) -> None:
    server, mounted = new_server()
    thing = server.put("/file", b"data")
    if fault == "empty":
        server.answer_read = lambda args: v3.READ3resok(v3.post_op_attr(False, None), 0, False, b"")
    elif fault == "huge":
        fattr = server.fattr

        def boasting(of: Any) -> v3.fattr3:
            attributes: v3.fattr3 = fattr(of)
            return dataclasses.replace(attributes, size=1 << 62) if of is thing else attributes

        server.fattr = boasting
    else:
        error = CallTimeout("late") if fault == "lost" else DecodeError("name", 0, "1", "2")

        def before(*_: object) -> None:
            raise error

        server.before = before
    fs = mounted(fs_url=parse_url("rdma://server/data"))
    with pytest.raises(kind, match=r"^rdma://server:20049/data/file: ") as caught:
        run(fs.read_bytes("/file"))
    assert caught.value.url == "rdma://server:20049/data/file"


async def opened(fs: Any, mode: str, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    async with await fs.open("/dir/file", mode) as file:
        await use(file)


async def ended(doing: Any) -> None:
    if inspect.isasyncgen(doing):
        _ = [each async for each in doing]
    else:
        await doing
