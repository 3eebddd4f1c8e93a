"""The commands on files, over RDMA and over TCP, against a server in another process."""

from __future__ import annotations

import errno
import os
import random
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.remote import TOLD_MAX
from rpcrdma.nfs.client import NfsFilesystem

if TYPE_CHECKING:
    from support.commands import Remote

# Of commands on files, which do not know the version.
pytestmark = [pytest.mark.thorough, pytest.mark.versions("2")]

SOME_OCTETS = random.Random(1).randbytes((3 << 20) + 17)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "below" / "deeper").mkdir(parents=True)
    (root / "large").write_bytes(SOME_OCTETS)
    (root / "small").write_text("few\n")
    (root / "empty").touch()
    (root / ".hidden").touch()
    (root / "below" / "link").symlink_to("../small")
    for number in range(30):
        (root / "below" / "deeper" / f"{number:03}").write_bytes(bytes([number]) * number)
    return root


def contents(root: Path) -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        found[name] = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


def test_ls_prints_names_in_order(remote: Remote) -> None:
    names = [f"a name of some length, so that one reply does not hold all {number:04}" for number in range(400)]
    for name in ("b", *names, ".c", "ä x"):
        (remote.local / name).touch()
    assert remote.done("ls", remote.url()).lines == [*names, "b", "ä x"]
    assert remote.done("ls", "-a", remote.url()).lines == [".c", *names, "b", "ä x"]
    assert remote.done("ls", remote.url("/b")).lines == [f"/{remote.name}/b"]


def test_ls_shows_attributes_and_descends(remote: Remote) -> None:
    (remote.local / "a").write_bytes(bytes(1234))
    (remote.local / "a").chmod(0o640)
    (remote.local / "d" / "e").mkdir(parents=True)
    (remote.local / "d").chmod(0o700)
    file, directory = remote.done("ls", "-l", remote.url()).lines
    assert file.split()[:5] == ["-rw-r-----", "1", str(os.getuid()), str(os.getgid()), "1234"]
    assert file.endswith(" a")
    assert directory.startswith("drwx------")
    top = f"/{remote.name}"
    assert remote.done("ls", "-R", remote.url()).text == f"{top}:\na\nd\n\n{top}/d:\ne\n\n{top}/d/e:\n"
    found = remote.done("ls", "-R", "--json", remote.url()).json_lines
    assert [(row["path"], row["type"]) for row in found] == [
        (f"{top}/a", "file"),
        (f"{top}/d", "directory"),
        (f"{top}/d/e", "directory"),
    ]
    assert found[0]["size_bytes"] == 1234
    assert found[0].keys() == {
        "path", "type", "mode", "nlink", "uid", "gid", "size_bytes", "atime_ns", "mtime_ns", "ctime_ns", "fileid"
    }  # fmt: skip


def test_stat_shows_a_link_or_what_it_leads_to(remote: Remote) -> None:
    (remote.local / "a").write_bytes(bytes(7))
    (remote.local / "link").symlink_to("a")
    link = remote.done("stat", "--json", remote.url("/link")).json
    assert (link["type"], link["target"]) == ("symlink", "a")
    target = remote.done("stat", "-L", "--json", remote.url("/link")).json
    assert (target["type"], target["size_bytes"]) == ("file", 7)
    assert "size      7 bytes" in remote.done("stat", remote.url("/a")).text


def test_cat_prints_files_and_goes_on_after_a_missing_one(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (0, 1, len(SOME_OCTETS)):
        (remote.local / f"{size}").write_bytes(SOME_OCTETS[:size])
        assert remote.done("cat", remote.url(f"/{size}")).out == SOME_OCTETS[:size]
    ran = remote.run("cat", remote.url("/missing"), remote.url("/1"))
    assert (ran.status, ran.out) == (1, SOME_OCTETS[:1])
    assert ran.err == f"error: {remote.url('/missing')}: no such file or directory\n"
    # Without room for one file it looks at no further ones.
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        ran = remote.run("cat", remote.url("/1"), remote.url("/missing"))
    assert (ran.status, ran.err) == (1, "error: standard output: no space left on device\n")


def test_trees_are_copied_whole(remote: Remote, tree: Path, tmp_path: Path) -> None:
    put = remote.done("put", "--json", str(tree), remote.url("/copy")).json
    got = remote.done("get", "--json", remote.url("/copy"), str(tmp_path / "copy")).json
    assert contents(tmp_path / "copy") == contents(remote.local / "copy") == contents(tree)
    for report in (put, got):
        assert report["files"] == 34
        assert report["bytes"] == len(SOME_OCTETS) + 4 + sum(range(30))
        known = {"files", "directories", "symlinks", "bytes", "seconds", "bytes_per_s", "not_carried"}
        known |= {"failures", "failures_total", "skipped", "skipped_total", "kept", "excluded", "hard_links"}
        assert report.keys() == known
        assert (report["failures"], report["failures_total"], report["skipped"]) == ([], 0, [])
    # Into a directory that is there, with a file beside them.
    for directory in (remote.local, tmp_path):
        (directory / "into").mkdir()
    remote.done("put", str(tree), str(tree / "small"), remote.url("/into"))
    remote.done("get", remote.url("/copy"), remote.url("/copy/small"), str(tmp_path / "into"))
    assert contents(remote.local / "into" / "tree") == contents(tmp_path / "into" / "copy") == contents(tree)
    assert (remote.local / "into" / "small").exists()
    assert (tmp_path / "into" / "small").exists()
    # By their own names, as `cp` does it, and ".." by that of the directory.
    (tmp_path / "newest").symlink_to(tree / "small")
    (tmp_path / "newest-tree").symlink_to(tree / "below")
    above = f"{tree}/below/.."
    (remote.local / "links").mkdir()
    remote.done("put", *(str(tmp_path / name) for name in ("newest", "newest-tree")), above, remote.url("/links"))
    assert {path.name for path in (remote.local / "links").iterdir()} == {"newest", "newest-tree", "tree"}


def test_what_the_destination_cannot_be_is_named_and_stays(remote: Remote, tmp_path: Path) -> None:
    (remote.local / "f").write_text("x")
    (remote.local / "dir" / "f").mkdir(parents=True)
    (tmp_path / "dir" / "f").mkdir(parents=True)
    (tmp_path / "f").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    pipe, file = tmp_path / "pipe", remote.url("/f")
    for arguments, message in (
        (("get", file, str(pipe)), f"{pipe}: is a device, pipe or socket, which no copy replaces\nhint: rpcrdma"),
        (("get", file, str(tmp_path / "dir")), f"{tmp_path}/dir/f: is a directory, which a file cannot replace"),
        (("put", str(tmp_path / "f"), remote.url("/dir")), f"{remote.url('/dir/f')}: is a directory, which a file"),
        (("mv", file, remote.url("/new/")), f"{file} -> {remote.url('/new/')}: not a directory"),
    ):
        ran = remote.run(*arguments)
        assert (ran.status, ran.err[: len(message) + 7]) == (1, f"error: {message}")
    assert pipe.is_fifo()
    assert contents(remote.local) == {"f": b"x", "dir": None, "dir/f": None}


def test_a_missing_directory_of_a_copy_is_named_with_the_command_that_makes_it(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    above = remote.url("/a/b")
    for name, hint in (
        ("/c", f"its directory is missing: make it by rpcrdma mkdir -p {above}"),
        ("/", f"leave out the slash, or make it by rpcrdma mkdir -p {above}/"),
    ):
        ran = remote.run("put", str(tmp_path / "f"), above + name)
        assert (ran.status, ran.err.splitlines()[1:]) == (1, [f"hint: {hint}"]), ran.err
    ran = remote.run("mkdir", above)
    assert (ran.status, ran.err.splitlines()[1:]) == (1, ["hint: -p makes missing parents"])
    assert remote.run("mkdir", "-p", above).status == 0
    assert remote.run("put", str(tmp_path / "f"), f"{above}/c").status == 0
    here = f"{tmp_path}/not there"
    for name, cause, hint in (
        ("/c", "no such file or directory", f"make it by mkdir -p '{here}'"),
        ("/", "is no directory", f"leave out the slash, or make it by mkdir -p '{here}/'"),
    ):
        ran = remote.run("get", f"{above}/c", here + name)
        assert (ran.status, ran.err) == (1, f"error: {here}{'/' * (name == '/')}: {cause}\nhint: {hint}\n")


def test_rm_removes_files_and_trees(remote: Remote, tree: Path) -> None:
    tree.rename(remote.local / "tree")
    (remote.local / "a").touch()
    ran = remote.run("rm", remote.url("/a"), remote.url("/tree"))
    assert ran.status == 1
    assert ran.err.endswith(f"{remote.url('/tree')}: is a directory\nhint: rm -r removes it and its contents\n")
    assert not (remote.local / "a").exists()
    remote.done("rm", "-r", remote.url("/tree"))
    assert list(remote.local.iterdir()) == []


@pytest.mark.parametrize("json", [False, True])
def test_rm_names_the_first_failures_with_a_tree_and_goes_on(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, json: bool
) -> None:
    top, kept, free = (remote.local / name for name in ("mixed", "mixed/kept", "mixed/free"))
    for directory in (top, kept, free):
        directory.mkdir()
    for number in range(TOLD_MAX + 5):
        (kept / f"{number:02}").touch()
    (free / "file").touch()
    (remote.local / "last").touch()
    if os.geteuid() == 0:
        # The server lets root remove everything: the client has another user.
        for path in (remote.local, top, free, free / "file", remote.local / "last"):
            os.chown(path, 65534, 65534)
        remote.local.parent.chmod(0o755)
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        monkeypatch.setattr(os, "getegid", lambda: 65534)
        monkeypatch.setattr(os, "getgroups", list)
    kept.chmod(0o555)
    ran = remote.run("rm", "-r", *(["--json"] if json else []), remote.url("/mixed"), remote.url("/last"))
    kept.chmod(0o755)
    assert ran.status == 1
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == TOLD_MAX + 1
    where = re.escape(remote.url("/mixed/kept/"))
    assert all(re.fullmatch(rf"error: {where}\d\d: permission denied", line) for line in errors[:-1])
    assert len(set(errors)) == len(errors)
    assert errors[-1] == f"error: 5 more failures to remove parts of {remote.url('/mixed')}"
    assert not free.exists()
    assert not (remote.local / "last").exists()
    if json:
        *failed, removed = ran.json_lines
        assert [f"error: {each['error']['message']}" for each in failed] == errors
        assert removed == {"removed": remote.url("/last")}


def test_rm_minds_what_does_not_exist_unless_told_otherwise(remote: Remote) -> None:
    ran = remote.run("rm", remote.url("/missing"))
    assert ran.status == 1
    assert ran.err == f"error: {remote.url('/missing')}: no such file or directory\n"
    assert remote.done("rm", "-f", remote.url("/missing")).err == ""


def test_mkdir_makes_directories(remote: Remote) -> None:
    remote.done("mkdir", "-m", "750", remote.url("/a"))
    assert stat.S_IMODE((remote.local / "a").stat().st_mode) == 0o750
    assert remote.run("mkdir", remote.url("/a")).status == 1
    assert remote.run("mkdir", remote.url("/b/c")).status == 1
    assert remote.done("mkdir", "-p", "--json", remote.url("/b/c/d"), remote.url("/a")).json_lines == [
        {"made": remote.url("/b/c/d")},
        {"made": remote.url("/a")},
    ]
    assert (remote.local / "b" / "c" / "d").is_dir()


def test_mv_renames_and_moves(remote: Remote) -> None:
    (remote.local / "a").write_text("a")
    (remote.local / "b").write_text("b")
    (remote.local / "into").mkdir()
    remote.done("mv", remote.url("/a"), remote.url("/c"))
    remote.done("mv", remote.url("/b"), remote.url("/c"), remote.url("/into"))
    assert contents(remote.local) == {"into": None, "into/b": b"b", "into/c": b"a"}
    ran = remote.run("mv", remote.url("/into/b"), remote.url("/into/c"), remote.url("/into/b"))
    assert ran.status == 1
    assert "no directory" in ran.err
    # The file of an earlier source is not lost.
    (remote.local / "c").write_text("other")
    (remote.local / "new").mkdir()
    ran = remote.run("mv", remote.url("/into/c"), remote.url("/c"), remote.url("/new"))
    told = f"error: {remote.url('/c')}: would replace an earlier source, which has its name\n"
    assert (ran.status, ran.err) == (1, told)
    assert contents(remote.local) == {"c": b"other", "into": None, "into/b": b"b", "new": None, "new/c": b"a"}
    ran = remote.run("mv", remote.url("/new"), remote.url("/new/new"))
    assert (ran.status, ran.err.splitlines()[1]) == (1, "hint: a directory cannot be moved into itself")


def test_mv_tells_of_no_directory_where_a_server_refuses_a_name(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    (remote.local / "a").touch()

    async def refuse(*_: object) -> None:
        # As FAT does.
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(NfsFilesystem, "rename", refuse)
    ran = remote.run("mv", remote.url("/a"), remote.url("/a:b"))
    assert (ran.status, ran.err) == (1, "error: invalid argument\n")
