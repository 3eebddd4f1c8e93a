"""Listing directories: long ones, changing ones, and servers that lie."""

from __future__ import annotations

import asyncio
import glob
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.client import listing
from rpcrdma.nfs.errors import NfsError, NfsPermission
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case


async def scan(fs: Any, path: str = "/") -> list[Any]:
    return [entry async for entry in fs.scandir(path)]


def names(fs: Any, way: str) -> list[str]:
    if way == "listdir":
        return asyncio.run(fs.listdir("/"))
    return [entry.name for entry in asyncio.run(scan(fs))]


WAYS = each_case("way", ["listdir", "scandir"])


@WAYS
@each_case("count", [0, 1, 48, 49, 5000])
def test_every_name_is_listed_once(new_server: Any, way: str, count: int) -> None:
    server, mounted = new_server()
    for number in range(count):
        server.put(f"/{number}")
    assert names(mounted(), way) == [str(number) for number in range(count)]
    pages = -(-(count + 2) // 50)
    assert server.calls["READDIR" if way == "listdir" else "READDIRPLUS"] == pages
    assert server.calls["LOOKUP"] == 0
    # A file cannot be listed.
    server.put("/file")
    fs = mounted()
    with pytest.raises(NotADirectoryError):
        asyncio.run(fs.listdir("/file") if way == "listdir" else scan(fs, "/file"))


def test_entries_know_their_attributes(server: Any, mounted: Any) -> None:
    server.put("/dir/file", b"123")
    server.link("/dir/link", "file")
    server.folder("/dir/sub")
    file, link, sub = asyncio.run(scan(mounted(), "/dir"))
    calls = server.calls.copy()
    assert (file.is_file(), file.is_dir(), file.is_symlink()) == (True, False, False)
    assert (link.is_file(), link.is_dir(), link.is_symlink()) == (False, False, True)
    assert (sub.is_file(), sub.is_dir(), sub.is_symlink()) == (False, True, False)
    assert (file.path, file.stat().st_size, file.inode()) == ("/dir/file", 3, file.stat().st_ino)
    assert "file" in repr(file)
    assert server.calls == calls
    assert asyncio.run(mounted().read_bytes(file)) == b"123"
    # A server without readdirplus.
    server.root.children.clear()
    for number in range(120):
        server.put(f"/{number}", b"x" * number)
    server.with_attributes = False
    entries = asyncio.run(scan(mounted()))
    assert [entry.stat().st_size for entry in entries] == list(range(120))
    # An entry that goes away meanwhile is left out.
    server.root.children.clear()
    server.put("/a")
    server.put("/b")
    server.give_attributes = False
    server.answers["LOOKUP"] = [nfsstat3.NFS3ERR_NOENT]
    assert [entry.name for entry in asyncio.run(scan(mounted()))] == ["b"]


@WAYS
def test_a_directory_that_changes_is_listed_from_the_start_again(new_server: Any, way: str) -> None:
    server, mounted = new_server()
    for number in range(200):
        server.put(f"/{number}")
    pages = []

    def change(name: str, _args: Any) -> None:
        if name.startswith("READDIR"):
            pages.append(name)
            if len(pages) == 3:
                server.cookie_verifier = b"changed!"
                server.root.children.pop("0")
                server.put("/new")

    server.before = change
    found = names(mounted(), way)
    assert len(found) == len(set(found))
    assert set(found) - {"0"} == set(server.root.children)


@WAYS
def test_a_directory_that_never_stops_changing_is_given_up(new_server: Any, way: str) -> None:
    server, mounted = new_server()
    for number in range(200):
        server.put(f"/{number}")
    count = [0]

    def change(name: str, _args: Any) -> None:
        count[0] += 1
        server.cookie_verifier = count[0].to_bytes(8, "big")

    server.before = change
    with pytest.raises(NfsError, match="changed too much"):
        names(mounted(), way)


@WAYS
def test_a_page_that_is_too_small_is_asked_for_again(new_server: Any, way: str) -> None:
    server, mounted = new_server()
    server.put("/a")
    server.answers["READDIR" if way == "listdir" else "READDIRPLUS"] = [nfsstat3.NFS3ERR_TOOSMALL] * 2
    assert names(mounted(), way) == ["a"]
    # A server that finds every page too small is believed at last.
    server.answers["READDIR" if way == "listdir" else "READDIRPLUS"] = [nfsstat3.NFS3ERR_TOOSMALL] * 99
    with pytest.raises(NfsError, match="larger buffer"):
        names(mounted(), way)


@WAYS
@each_case("name", ["", "a/b", "../up", "/etc/passwd", "nul\0"])
def test_what_can_be_no_name_is_refused(new_server: Any, way: str, name: str) -> None:
    server, mounted = new_server()
    server.names_shown = lambda shown: [*shown, name]
    with pytest.raises(RemoteProtocolError):
        names(mounted(), way)


@WAYS
def test_a_server_that_goes_round_in_circles_is_found_out(new_server: Any, way: str) -> None:
    server, mounted = new_server()
    server.put("/a")
    server.page = lambda args: ([(args.cookie + 1, "a")], False)
    with pytest.raises(RemoteProtocolError, match="again and again"):
        names(mounted(), way)
    # New names with each page, so that those alone would never tell.
    server.give_attributes = False
    count = [0]

    def page(args: Any) -> Any:
        count[0] += 1
        server.put(f"/{count[0]}")
        return [(args.cookie % 100 + 1, str(count[0]))], False

    server.page = page
    with pytest.raises(RemoteProtocolError, match="again and again"):
        names(mounted(), way)
    assert 100 < count[0] < 300


@WAYS
def test_large_directories_are_listed_in_bounded_memory(
    new_server: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, mounted = new_server()
    monkeypatch.setattr(listing, "NFS_LISTED_NAMES_KNOWN_MAX", 100)
    for number in range(1000):
        server.put(f"/{number}")
    assert len(names(mounted(), way)) == 1000
    count = [0]

    def change(name: str, _args: Any) -> None:
        count[0] += name.startswith("READDIR")
        if count[0] == 10:
            server.cookie_verifier = b"changed!"

    server.before = change
    # The yielded entries are not known any more, so starting over would yield them twice.
    with pytest.raises(NfsError, match="changed too much"):
        names(mounted(), way)


@WAYS
@each_case("entries", [[], [(0, "a")]])
def test_a_page_that_does_not_go_on_is_found_out(new_server: Any, way: str, entries: Any) -> None:
    server, mounted = new_server()
    server.page = lambda args: (entries, False)
    server.give_attributes = False
    server.put("/a")
    with pytest.raises(RemoteProtocolError, match="again and again"):
        names(mounted(), way)


def test_the_first_entries_are_those_of_one_call(server: Any, mounted: Any) -> None:
    for number in range(120):
        server.put(f"/dir/{number}", b"x" * number)
    fs = mounted()
    entries = asyncio.run(fs.first_entries("/dir"))
    assert [(entry.path, entry.stat().st_size) for entry in entries] == [
        (f"/dir/{number}", number) for number in range(48)
    ]
    server.names_shown = lambda shown: ["a/b", *shown]
    assert [entry.name for entry in asyncio.run(fs.first_entries("/dir"))] == [str(number) for number in range(47)]
    assert (server.calls["LOOKUP"], server.calls["READDIRPLUS"], server.calls["READDIR"]) == (1, 2, 0)


def test_no_first_entries_are_looked_up_one_by_one(server: Any, mounted: Any) -> None:
    server.put("/a")
    fs = mounted()
    server.give_attributes = False
    assert asyncio.run(fs.first_entries()) == []
    server.with_attributes = False
    with pytest.raises(NfsError) as caught:
        asyncio.run(fs.first_entries())
    assert caught.value.status == nfsstat3.NFS3ERR_NOTSUPP
    assert (server.calls["LOOKUP"], server.calls["READDIR"]) == (0, 0)


def test_a_refused_lookup_hides_one_entry_and_not_its_directory(server: Any, mounted: Any, tmp_path: Path) -> None:
    for name in ("before", "mount", "behind"):
        server.put(f"/top/{name}", b"data")
    server.with_attributes = False
    server.shut.add("mount")
    entries = asyncio.run(scan(mounted(), "/top"))
    assert [entry.name for entry in entries] == ["before", "mount", "behind"]
    assert [entry.stat().st_size for entry in entries if entry.refusal is None] == [4, 4]
    refused = entries[1]
    for question in (refused.is_dir, refused.is_file, refused.is_symlink, refused.stat, refused.inode):
        with pytest.raises(PermissionError) as caught:
            question()
        assert caught.value.filename == "/top/mount"
    told: list[OSError] = []

    async def walked() -> list[tuple[str, list[str], list[str]]]:
        return [found async for found in mounted().walk("/top", onerror=told.append)]

    assert asyncio.run(walked()) == [("/top", [], ["before", "mount", "behind"])]
    assert [error.filename for error in told] == ["/top/mount"]
    report = asyncio.run(mounted().download_tree("/top", tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"before", "behind"}
    assert [(failure.path, type(failure.error)) for failure in report.failures] == [("/top/mount", NfsPermission)]
    removed = asyncio.run(mounted().rmtree("/top"))
    assert (removed.files, [str(error.filename) for error in removed.failures]) == (2, ["/top/mount"])  # type: ignore[attr-defined]
    assert set(server.at("/top").children) == {"mount"}


def matches(fs: Any, pattern: str, **options: Any) -> list[str]:
    async def found() -> list[str]:
        return [path async for path in fs.glob(pattern, **options)]

    return asyncio.run(found())


TREE = ("a.csv", "b.txt", ".hidden", ".d/x.csv", "x/a.csv", "x/y/a.csv", "x/y/x/y/a.csv", "x/[1]", "we/ird", "x.d/y/q")
PATTERNS = (
    "*", "**", "*.csv", "**/*.csv", "x/**", "x/**/", "**/x/**/a.csv", "**/**/y", "x/*/a.csv", "**/", "*/", ".*", ".*/*",
    "x", "x/", "a.csv/", "a.csv/*",
    "none", "none/*", "x/[[]1]", "x/[1]", "[!ab]*", "?/y", "x/y/../*", "./x/a.csv", "*/y/*",
    "**/y/**/x", "a**v", "*/none", "*/a.csv",
)  # fmt: skip


@each_case("include_hidden", [False, True])
def test_patterns_match_as_those_of_the_glob_module(
    server: Any, mounted: Any, tmp_path: Path, include_hidden: bool
) -> None:
    for path in TREE:
        server.put(f"/top/{path}")
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    fs = mounted(fs_directory="/top")
    for pattern in PATTERNS:
        found = matches(fs, pattern, include_hidden=include_hidden)
        theirs = glob.glob(pattern, root_dir=tmp_path, recursive=True, include_hidden=include_hidden)  # noqa: PTH207 - its rules
        expected = {path.removeprefix("./").rstrip("/") for path in theirs}
        assert sorted(found) == sorted(expected), pattern
        absolute = matches(fs, f"/top/{pattern}", include_hidden=include_hidden)
        assert set(absolute) - {"/top"} == {f"/top/{path}" for path in expected}, pattern
    assert matches(fs, "/") == ["/"]
    assert matches(fs, "a.csv/**") == []
    with pytest.raises(ValueError, match="empty"):
        matches(fs, "")


def test_names_without_wildcards_are_looked_up_and_directories_listed_once(server: Any, mounted: Any) -> None:
    for number in range(500):
        server.put(f"/many/{number}")
    server.put("/many/d/in/f")
    assert matches(mounted(), "many/d/*/f") == ["many/d/in/f"]
    assert server.calls["READDIRPLUS"] == 1
    assert matches(mounted(), "many/d/**/**/i*/**/f") == ["many/d/in/f"]
    assert server.calls["READDIRPLUS"] == 3


def test_a_pattern_follows_links_where_it_names_them_and_none_at_any_depth(server: Any, mounted: Any) -> None:
    server.put("/d/f")
    server.link("/d/up", "..")
    server.link("/d/circle", "circle")
    server.link("/d/to-f", "f")
    fs = mounted()
    assert matches(fs, "d/*/d") == ["d/up/d"]
    assert matches(fs, "d/*/") == ["d/up"]
    assert sorted(matches(fs, "**/*")) == ["d", "d/circle", "d/f", "d/to-f", "d/up"]
    assert matches(fs, "d/circl?") == matches(fs, "d/circle") == ["d/circle"]


def test_a_refused_directory_is_an_error_of_a_pattern_and_no_empty_result(server: Any, mounted: Any) -> None:
    for path in ("/a/f", "/mount/f", "/z/f"):
        server.put(path)
    server.with_attributes = False
    server.shut.add("mount")
    fs = mounted()
    assert sorted(matches(fs, "*")) == ["a", "mount", "z"]
    for pattern in ("*/f", "**/f", "mount", "mount/f", "mount/*"):
        with pytest.raises(PermissionError, match="mount"):
            matches(fs, pattern)
        told: list[OSError] = []
        assert sorted(matches(fs, pattern, onerror=told.append)) == ([] if pattern.startswith("mo") else ["a/f", "z/f"])
        assert [error.filename for error in told] == ["/mount"]
    # An error of the listing itself.
    server.answers["READDIR"] = [nfsstat3.NFS3ERR_IO]
    with pytest.raises(OSError, match=r"Input/output error"):
        matches(fs, "*")
