"""Commands against directories that contain themselves, never end, or hold impossible names."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lying_files import SHUT, Liar, liar
from rpcrdma.nfs.client import procedures

pytestmark = pytest.mark.thorough

MIB = 1 << 20
GROWTH_MAX = 64 * MIB
"""Octets that a command may grow by. Two of its kinds of growth before there were bounds: 90 MB a second (`rm -r`), and
1,200 octets for each name (`ls`)."""


def against(test: Callable[[Liar], Awaitable[None]]) -> None:
    async def main() -> None:
        async with liar() as it:
            await test(it)

    asyncio.run(main())


@pytest.mark.parametrize("command", [["rm", "-r"], ["get", "--json"], ["ls", "-R"]], ids=["rm", "get", "ls"])
def test_what_contains_itself_ends(command: list[str], tmp_path: Path) -> None:
    async def test(it: Liar) -> None:
        target = [str(tmp_path / "copy")] if command[0] == "get" else []
        ended = await it.run(*command, it.url("self"), *target)
        assert ended.status == 1
        assert ended.err[0] == f"error: {it.url('self/again')}: the server lists this directory inside itself"
        assert ended.grown_octets < GROWTH_MAX
        if command[0] == "rm":
            # The other entries in it are removed, and the directory itself is not tried.
            assert it.files.calls == {"READDIRPLUS": 1, "REMOVE": 1}
        elif command[0] == "get":
            assert [path.name for path in (tmp_path / "copy").iterdir()] == ["kept"]
        else:
            assert ended.out.decode().splitlines() == ["/self:", "again", "kept", "", "/self/again:"]

    against(test)


@pytest.mark.parametrize(("command", "levels"), [("rm", 2048), ("ls", 600 + 1), ("get", 512)], ids=["rm", "ls", "get"])
def test_a_tree_without_a_bottom_ends(command: str, levels: int, tmp_path: Path) -> None:
    async def test(it: Liar) -> None:
        url = it.url("ever")
        arguments = {"rm": ["rm", "-r", url], "ls": ["ls", "-R", url], "get": ["get", url, str(tmp_path / "copy")]}
        # The output of `ls -R` is itself as long as the square of the depth.
        limits = {"NFS_TREE_DEPTH_MAX": 600} if command == "ls" else {}
        ended = await it.run(*arguments[command], **limits)
        assert ended.status == 1
        assert it.files.calls["READDIRPLUS"] == levels
        reason = "has 512 directories open" if command == "get" else "levels deep"
        assert reason in ended.err[0]
        assert len(ended.err[0]) < 1000
        remedied = ended.err[1].startswith("hint: copy it by a command of its own, run in a directory above it")
        assert remedied is (command == "get")
        # A path of the deepest directory alone takes 400 KB; those of all levels would take 420 MB.
        assert ended.grown_octets < GROWTH_MAX

    against(test)


@pytest.mark.parametrize(("options", "names"), [(["-l"], 16_000), ([], 25_000)], ids=["with attributes", "names alone"])
def test_names_without_end_end(options: list[str], names: int) -> None:
    """Names alone take so little memory that their number is the bound."""

    async def test(it: Liar) -> None:
        ended = await it.run("ls", *options, it.url("names"), NFS_LISTED_NAMES_MAX=names, sorted_max=2000)
        assert ended.status == 1
        (told,) = [line for line in ended.err if line.startswith("error")]
        assert told == f"error: {it.url('names')}: the server lists more than {names:,} names here, perhaps without end"
        assert ended.out.count(b"\n") == names
        # Runs of 2,000 entries take 8 MiB; held at once all would take 30 MiB.
        assert not options or ended.grown_octets < 16 * MIB

    against(test)


def test_cookies_that_go_round_are_noticed() -> None:
    async def test(it: Liar) -> None:
        ended = await it.run("ls", it.url("cookies"))
        assert ended.status == 4
        assert (
            f"{it.url('cookies')}: the peer broke the protocol: the server lists the same entries again and again"
            in ended.err[0]
        )
        assert it.files.calls["READDIRPLUS"] < 50

    against(test)


@pytest.mark.parametrize("command", ["ls", "get"])
def test_directories_without_end_end(command: str, tmp_path: Path) -> None:
    async def test(it: Liar) -> None:
        target = [str(tmp_path / "copy")] if command == "get" else ["-R"]
        bounds = {"NFS_TREE_PENDING_MAX": 300, "NFS_LISTED_NAMES_MAX": 3000}
        ended = await it.run(command, it.url("wide"), *target, **bounds)
        assert ended.status == 1
        assert any("more than 300 directories wait to be entered" in line for line in ended.err)
        assert 300 <= it.files.calls["READDIRPLUS"] <= 3000 + 30

    against(test)


def test_what_can_be_no_name_or_target_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def test(it: Liar) -> None:
        it.files.odd = [
            ("", b"f1"),
            ("a/b", b"f2"),
            ("/", b"f3"),
            ("nul\0", b"f4"),
            (".", b"d5"),
            ("..", b"d6"),
            ("no-target", b"l"),
            ("nul-target", b"la\0b"),
            ("latin", b"l\xe4"),
            ("other", b"l../x"),
        ]
        url = it.url("odd")
        listed = await it.run("ls", url)
        assert (listed.status, listed.out.split()) == (1, [b"good", b"latin", b"no-target", b"nul-target", b"other"])
        assert sum("which can be no file's name" in line for line in listed.err) == 4

        got = await it.run("get", "--json", url, str(tmp_path / "copy"))
        assert got.status == 1
        assert sum("which can be no file's name" in line for line in got.err) == 4
        assert [line for line in got.err if "target" in line] == [
            f"error: {url}/no-target: the target of this symbolic link is empty",
            f"error: {url}/nul-target: the target of this symbolic link holds a NUL",
        ]
        assert sorted(os.listdir(tmp_path / "copy")) == ["good", "latin", "other"]  # noqa: PTH208 - names alone
        assert os.readlink(os.fsencode(tmp_path / "copy/latin")) == b"\xe4"  # noqa: PTH115 - octets

        removed = await it.run("rm", "-r", url)
        assert removed.status == 1
        assert it.files.calls["REMOVE"] == 5
        assert it.files.calls["RMDIR"] == 0

    against(test)


def test_one_refused_entry_is_named_and_does_not_hide_the_others(tmp_path: Path) -> None:
    async def test(it: Liar) -> None:
        it.files.odd = [("shut", SHUT)]
        refused = [f"error: {it.url('odd/shut')}: permission denied", f"hint: {procedures._NOT_OF_IDENTITY}"]
        listed = await it.run("ls", "-l", it.url("odd"))
        assert (listed.status, listed.err) == (1, refused)
        rows = [line.split() for line in listed.out.decode().splitlines()]
        assert [(row[0], row[-1]) for row in rows] == [("-rwxr-xr-x", "good"), ("??????????", "shut")]
        told = await it.run("ls", "--json", it.url("odd"))
        assert {"path": "/odd/shut", "type": "unknown"} in map(json.loads, told.out.splitlines())
        got = await it.run("get", it.url("odd"), str(tmp_path / "copy"))
        assert (got.status, got.err) == (1, refused)
        assert [path.name for path in (tmp_path / "copy").iterdir()] == ["good"]

    against(test)
