"""Entries that a listing or `entry` gave are opened and read by their handles, unless the file has changed since."""

from __future__ import annotations

from asyncio import run
from typing import Any

import pytest

from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import nfsstat3, nfstime3
from support.cases import each_case

DATA = bytes(range(256)) * 1000
STALE = nfsstat3.NFS3ERR_STALE


@pytest.fixture
def thing(server: Any) -> Any:
    return server.put("/dir/file", DATA)


def replace(server: Any, data: bytes) -> None:
    """Another file gets the name by a RENAME, which removes the first one."""
    old = server.at("/dir").children["file"]
    server.things[old.number] = None
    server.put("/dir/file", data)


def change(server: Any, data: bytes) -> None:
    thing = server.at("/dir/file")
    thing.data[:] = data
    thing.mtime = thing.ctime = nfstime3(thing.ctime.seconds + 1, 0)


async def read(fs: Any, entry: Any) -> tuple[bytes, bytes]:
    async with await fs.open(entry) as file:
        return await file.read(), await fs.read_bytes(entry)


def test_an_entry_is_that_of_the_listing(server: Any, mounted: Any, thing: Any) -> None:
    server.link("/dir/link", "file")
    fs = mounted()
    found = run(fs.entry("/dir/file"))
    assert (found.name, found.path, found.handle) == ("file", "/dir/file", server.handle(thing))
    assert found.is_file()
    assert found.stat().st_size == len(DATA)
    assert run(fs.entry("dir/link")).is_symlink()
    assert run(fs.entry("dir")).is_dir()
    with pytest.raises(FileNotFoundError):
        run(fs.entry("/dir/none"))
    with pytest.raises(FileExistsError):
        run(fs.entry("/"))


def test_an_entry_is_looked_up_again_if_its_directory_is_gone(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted(fs_clock=lambda: 0.0)
    run(fs.entry("/dir/file"))
    server.things[server.root.children.pop("dir").number] = None
    server.put("/dir/file", b"new")
    assert run(fs.entry("/dir/file")).stat().st_size == 3


def test_an_unchanged_file_is_opened_and_read_by_its_handle(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    run(fs.listdir("/"))  # the sizes of transfers are known from here on
    server.calls.clear()
    assert run(read(fs, entry)) == (DATA, DATA)
    assert (server.calls["LOOKUP"], server.calls["GETATTR"], server.calls["ACCESS"]) == (0, 0, 1)
    assert run(fs.read_bytes(entry, offset=7, size=5)) == DATA[7:12]
    assert server.calls["LOOKUP"] == 0


@each_case("happens", [replace, change])
@each_case("data", [b"", b"new", DATA[::-1], 2 * DATA])
def test_a_changed_file_is_looked_up(server: Any, mounted: Any, thing: Any, happens: Any, data: bytes) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    happens(server, data)
    assert run(read(fs, entry)) == (data, data)


def test_a_file_that_changes_while_it_is_read_is_read_again(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    reads = 0

    def before(name: str, _args: Any) -> None:
        nonlocal reads
        reads += name == "READ"
        if name == "READ" and reads == 3:
            change(server, DATA[::-1])

    server.before = before
    assert run(fs.read_bytes(entry)) == DATA[::-1]


def test_a_server_that_gives_no_attributes_is_asked_by_name(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    server.give_attributes = False
    server.calls.clear()
    assert run(read(fs, entry)) == (DATA, DATA)
    assert server.calls["LOOKUP"] > 0


def test_errors_other_than_of_a_lost_handle_are_raised(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    server.answers = {"READ": [nfsstat3.NFS3ERR_IO], "ACCESS": [nfsstat3.NFS3ERR_IO]}
    for use in (fs.open, fs.read_bytes):
        with pytest.raises(NfsError) as caught:
            run(use(entry))
        assert caught.value.filename == "/dir/file"
    server.granted = 0
    with pytest.raises(PermissionError):
        run(fs.open(entry))


def test_a_link_or_a_directory_is_opened_as_its_path_is(server: Any, mounted: Any, thing: Any) -> None:
    server.link("/dir/link", "file")
    fs = mounted()
    assert run(read(fs, run(fs.entry("/dir/link")))) == (DATA, DATA)
    with pytest.raises(IsADirectoryError):
        run(fs.open(run(fs.entry("/dir"))))
    with pytest.raises(IsADirectoryError):
        run(fs.read_bytes(run(fs.entry("/dir"))))


def test_a_file_is_opened_without_a_call_if_none_is_asked_for(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))
    run(fs.read_bytes(entry))

    async def opened() -> bytes:
        server.calls.clear()
        async with await fs.open(entry, ask=False) as file:
            assert not server.calls
            return await file.pread(5, 7)

    assert run(opened()) == DATA[7:12]
    server.things[thing.number] = None
    with pytest.raises(NfsError) as caught:
        run(opened())
    assert caught.value.status == STALE


def test_an_entry_says_whether_its_file_has_changed(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    for happens in (change, replace):
        entry = run(fs.entry("/dir/file"))
        server.calls.clear()
        assert run(fs.is_unchanged(entry))
        assert server.calls == {"GETATTR": 1}
        happens(server, b"new")
        assert not run(fs.is_unchanged(entry))
    server.answers = {"GETATTR": [nfsstat3.NFS3ERR_IO]}
    with pytest.raises(NfsError):
        run(fs.is_unchanged(run(fs.entry("/dir/file"))))


def test_an_entry_is_written_at_its_path(server: Any, mounted: Any, thing: Any) -> None:
    fs = mounted()
    entry = run(fs.entry("/dir/file"))

    async def write(mode: str, data: bytes) -> None:
        async with await fs.open(entry, mode) as file:
            await file.write(data)

    run(write("r+b", b"x"))
    assert thing.data == b"x" + DATA[1:]
    replace(server, b"other")
    run(write("r+b", b"y"))
    assert server.at("/dir/file").data == b"yther"
    run(write("wb", b"z"))
    assert server.at("/dir/file").data == b"z"
