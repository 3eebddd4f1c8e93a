"""Directories that contain themselves, have no bottom, or hold impossible names: work on their trees ends."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from asyncio import run
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.cli import ls
from rpcrdma.errors import RemoteProtocolError, RpcError
from rpcrdma.fsspec.entry_info import info_at
from rpcrdma.limits import NFS_TREE_FAILURES_OCTETS_MAX
from rpcrdma.nfs.client import procedures
from rpcrdma.nfs.client.trees import tree_glob, tree_remove, tree_walk, tree_work
from support.cases import each_case
from support.waiting import once


def remove(mounted: Any, path: str) -> Any:
    return run(mounted().rmtree(path))


def download(mounted: Any, path: str, local: Path) -> Any:
    return run(once(mounted(), "download_tree", path, local))


def failed(report: Any) -> list[tuple[int, str]]:
    errors = [getattr(failure, "error", failure) for failure in report.failures]
    return [(error.errno, error.filename) for error in errors]


def bounded(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    for module in (ls, tree_glob, tree_remove, tree_walk, tree_work):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, most)


def listed(mounted: Any, monkeypatch: pytest.MonkeyPatch, **options: bool) -> int:
    """The exit status of `rpcrdma ls` on /top; it prints to the captured streams."""

    class Servers:
        @asynccontextmanager
        async def here(self, *_: object) -> Any:
            yield self

        async def locate(self, url: Any) -> Any:
            return mounted(fs_url=parse_url("rdma://server/")), url.path

    monkeypatch.setattr(ls, "Servers", Servers().here)
    chosen = dict.fromkeys(("long", "recursive", "all", "json"), False) | options
    return run(ls.run(argparse.Namespace(url=[parse_url("rdma://server/top")], **chosen)))


def test_what_contains_itself_ends(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put("/top/kept")
    server.at("/top").children["again"] = server.at("/top")
    inside = [(errno.ELOOP, "/top/again")]
    assert failed(download(mounted, "/top", tmp_path / "copy")) == inside
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["kept"]
    assert listed(mounted, monkeypatch, recursive=True) == 1
    out, err = capsys.readouterr()
    assert out == "/top:\nagain\nkept\n\n/top/again:\n"
    assert "/top/again: the server lists this directory inside itself" in err
    server.calls.clear()
    # The other entries in it are removed, and the directory itself is not tried.
    assert failed(remove(mounted, "/top")) == inside
    assert (server.calls["REMOVE"], server.calls["RMDIR"], server.calls["READDIRPLUS"]) == (1, 0, 1)


def test_a_tree_without_a_bottom_ends(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded(monkeypatch, "NFS_TREE_DEPTH_MAX", 20)
    bounded(monkeypatch, "NFS_COPY_DIRECTORIES_OPEN_MAX", 15)
    server.folder("/top" + "/d" * 30)
    report = download(mounted, "/top", tmp_path / "copy")
    assert failed(report) == [(errno.EMFILE, "/top" + "/d" * 15)]
    assert "has 15 directories open, and opens no more; copy it by a command of its own" in str(report.failures[0])
    server.calls.clear()
    report = remove(mounted, "/top")
    ((number, path),) = failed(report)
    assert (number, path, server.calls["READDIRPLUS"]) == (errno.ENAMETOOLONG, "/top" + "/d" * 20, 20)
    assert "more than 20 levels deep" in str(report.failures[0])
    assert report.directories == 0


def test_directories_without_end_end(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bounded(monkeypatch, "NFS_TREE_PENDING_MAX", 10)
    for number in range(60):
        server.folder(f"/top/d{number}")
    report = download(mounted, "/top", tmp_path / "copy")
    assert {number for number, _ in failed(report)} == {errno.ENOBUFS}
    assert 10 <= report.directories < 60
    assert report.failures_total + report.directories == 61
    assert listed(mounted, monkeypatch, recursive=True) == 1
    out, err = capsys.readouterr()
    assert out.count(":\n") == 1 + 10
    assert err.count("more than 10 directories wait to be entered") == 1
    # A link that `**` does not follow waits for nothing.
    server.link("/top/link", "d0")
    told: list[OSError] = []

    async def matched() -> list[str]:
        return [path async for path in mounted().glob("/top/**", onerror=told.append)]

    assert {path.removeprefix("/top/") for path in run(matched())} > {"d0", "d59", "link"}
    assert {error.errno for error in told} == {errno.ENOBUFS}
    assert "/top/d59" in {error.filename for error in told}
    assert "/top/link" not in {error.filename for error in told}
    # Removing takes as many rounds as it needs.
    report = remove(mounted, "/top")
    report.check()
    assert report.directories == 61


@each_case("character", ["a", "\xe4", "\u20ac", "\U0001f600"])
def test_the_paths_that_a_report_keeps_take_bounded_memory(character: str) -> None:
    report = tree_work.CopyReport()
    for number in range(600):
        report.failed(f"/{number:04}/{character * 4000}", OSError())
    sizes = [sys.getsizeof(failure.path) for failure in report.failures]
    assert NFS_TREE_FAILURES_OCTETS_MAX <= sum(sizes) < NFS_TREE_FAILURES_OCTETS_MAX + sizes[-1]
    assert report.failures_total == 600


def test_many_names_are_listed_in_sorted_runs_before_the_bound_is_reached(
    server: Any, mounted: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2100):
        server.put(f"/top/{number:04}")
    server.names_shown = lambda names: names[::-1]
    monkeypatch.setattr(ls, "_SORTED_MAX", 1000)
    assert listed(lambda **how: mounted(listed_names_max=2050, **how), monkeypatch, long=True) == 1
    out, err = capsys.readouterr()
    assert "lists more than 2,050 names" in err
    names = [line.split()[-1] for line in out.splitlines()]
    runs = ((1100, 2100), (100, 1100), (50, 100))
    assert names == [f"{number:04}" for first, last in runs for number in range(first, last)]


def test_what_can_be_no_name_or_target_is_told_and_the_rest_goes_on(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/top/good")
    for name, target in (("no-target", ""), ("nul-target", "a\0b"), ("latin", "\udce4"), ("other", "../x")):
        server.link(f"/top/{name}", target)
    server.names_shown = lambda names: ["", "a/b", "/", "nul\0", *names]
    report = download(mounted, "/top", tmp_path / "copy")
    texts = [str(failure.error) for failure in report.failures]
    assert sum("which can be no file's name" in text for text in texts) == 4
    assert sorted(text for text in texts if "target" in text) == [
        f"[Errno {errno.EINVAL}] the target of this symbolic link {fault}: '/top/{name}'"
        for name, fault in (("nul-target", "holds a NUL"), ("no-target", "is empty"))
    ]
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["good", "latin", "other"]
    assert os.readlink(os.fsencode(tmp_path / "copy/latin")) == b"\xe4"  # noqa: PTH115 - octets
    report = remove(mounted, "/top")
    assert (report.files, report.failures_total, server.calls["RMDIR"]) == (5, 4, 0)


def test_a_link_without_a_target_leads_nowhere_at_each_try(server: Any, mounted: Any) -> None:
    server.put("/top/good")
    for name, target in (("none", ""), ("nul", "good\0")):
        server.link(f"/top/{name}", target)

    async def tried(path: str) -> None:
        client = mounted()
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await client.stat(path, follow_symlinks=True)
            with pytest.raises(FileNotFoundError):
                await info_at(client, path, path)

    for path in ("/top/none", "/top/nul", "/top/none/good"):
        run(tried(path))
    # The link itself exists.
    for path, fault in (("/top/none", "is empty"), ("/top/nul", "holds a NUL")):
        with pytest.raises(OSError, match=f"the target of this symbolic link {fault}") as caught:
            run(mounted().readlink(path))
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)


@each_case("how", ["long", "json"])
def test_a_refused_entry_is_shown_without_attributes_and_hides_no_other(
    new_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    server, mounted = new_server()
    server.put("/top/good")
    server.put("/top/shut")
    server.with_attributes = False
    server.shut.add("shut")
    assert listed(mounted, monkeypatch, **{how: True}) == 1
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "error: rdma://server:20049/top/shut: permission denied",
        f"hint: {procedures._NOT_OF_IDENTITY}",
    ]
    if how == "json":
        assert {"path": "/top/shut", "type": "unknown"} in map(json.loads, out.splitlines())
    else:
        rows = [line.split() for line in out.splitlines()]
        assert [(row[0], row[-1]) for row in rows] == [("-rw-r--r--", "good"), ("??????????", "shut")]


@each_case("error", [RpcError("refused"), RemoteProtocolError("not XDR")])
@each_case("call", ["remove", "rmdir"])
def test_an_answer_that_concerns_one_entry_leaves_the_removal_of_the_others(
    server: Any, mounted: Any, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    server.put("/top/a/file")
    server.put("/top/b/file")
    usual = getattr(procedures.NfsProcedures, call)

    async def answered(self: Any, parent: Any, name: str) -> None:
        if parent.path == "/top/a" or name == "a":
            raise error
        await usual(self, parent, name)

    monkeypatch.setattr(procedures.NfsProcedures, call, answered)
    report = remove(mounted, "/top")
    assert error in report.failures
    assert set(server.at("/top").children) == {"a"}
