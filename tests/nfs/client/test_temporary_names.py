"""Copies to a server that carries calls out twice, as one does that is restarted between a call and its repeat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import CallTimeout, TransportClosed
from rpcrdma.nfs.errors import NfsError, NfsExists, NfsNotFound
from rpcrdma.nfs.v3 import ftype3, nfs_fh3, nfsstat3
from rpcrdma.testing.virtual import now_s
from support.cases import each_case
from support.loops import in_virtual_time
from support.waiting import closing, once, until

BLOCK = 1 << 16
TEMPORARY = re.compile(r"\.rpcrdma-[0-9a-f]{16}\.part")


def twice(server: Any, *names: str) -> None:
    answer = server.answer

    def answer_the_repeat(name: str, args: Any) -> Any:
        if name in names:
            answer(name, args)
        return answer(name, args)

    server.answer = answer_the_repeat


def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "below").mkdir(parents=True)
    (top / "below" / "small").write_bytes(b"123")
    (top / "large").write_bytes(bytes(range(256)) * 1024)
    (top / "link").symlink_to("below/small")
    return top


def other_handles(server: Any) -> None:
    """Gives another handle each time that a file is asked for."""
    count = itertools.count(1)
    find = server.find
    server.handle = lambda thing: nfs_fh3(next(count).to_bytes(8, "big") + thing.number.to_bytes(8, "big"))
    server.find = lambda handle: find(nfs_fh3(handle.data[-8:]))


@each_case("calls", [["CREATE"], ["RENAME"], ["MKDIR"], ["SYMLINK"], ["CREATE", "RENAME", "SYMLINK"]])
@each_case("habit", ["gives handles", "gives none", "gives others"])
@each_case("there", [False, True])
def test_a_repeat_that_finds_its_work_done_is_content(
    new_server: Any, tmp_path: Path, calls: list[str], habit: str, there: bool
) -> None:
    server, mounted = new_server()
    server.give_handles = habit != "gives none"
    if habit == "gives others":
        other_handles(server)
    if there:
        server.put("/copy/large", b"old")
        server.link("/copy/link", "old")
    twice(server, *calls)
    report = asyncio.run(once(mounted(), "upload_tree", tree(tmp_path), "/copy"))
    report.check()
    assert (report.files, report.directories, report.symlinks) == (2, 2, 1)
    assert sorted(server.at("/copy").children) == ["below", "large", "link"]
    assert bytes(server.at("/copy/large").data) == bytes(range(256)) * 1024
    assert bytes(server.at("/copy/below/small").data) == b"123"
    assert server.at("/copy/link").target == "below/small"


@each_case("found", ["nothing", "link", "content"])
def test_a_temporary_name_that_something_else_has_is_not_taken(new_server: Any, tmp_path: Path, found: str) -> None:
    server, mounted = new_server()

    def put_before(name: str, args: Any) -> None:
        if name == "CREATE":
            assert TEMPORARY.fullmatch(args.where.name)
            if found == "link":
                server.link(f"/{args.where.name}", "elsewhere")
            elif found == "content":
                server.put(f"/{args.where.name}", b"theirs")
            else:
                server.answers["CREATE"] = [nfsstat3.NFS3ERR_EXIST]

    server.before = put_before
    (tmp_path / "file").write_bytes(b"1")
    fs = mounted()
    with pytest.raises(NfsExists) as caught:
        asyncio.run(closing(fs, fs.upload(tmp_path / "file", "/copy")))
    assert caught.value.filename == "/copy"
    assert server.calls["WRITE"] == server.calls["REMOVE"] == 0


@each_case("found", ["nothing", "another file"])
@each_case("what", ["file", "link"])
def test_a_name_that_was_not_given_by_us_is_not_taken_for_it(
    new_server: Any, tmp_path: Path, found: str, what: str
) -> None:
    """The server loses the temporary file, with any object under the name that it was to get."""
    server, mounted = new_server()
    server.folder("/copy")
    (tmp_path / "tree").mkdir()
    if what == "file":
        (tmp_path / "tree" / "name").write_bytes(b"1")
    else:
        (tmp_path / "tree" / "name").symlink_to("target")
        server.put("/copy/name")

    def lose(name: str, args: Any) -> None:
        if name == "RENAME":
            children = server.at("/copy").children
            children.pop(args.from_.name)
            children.pop("name", None)
            if found == "another file":
                children["name"] = server.make(ftype3.NF3REG, 0o600)

    server.before = lose
    report = asyncio.run(once(mounted(), "upload_tree", tmp_path / "tree", "/copy"))
    assert report.failures_total == 1
    assert isinstance(report.failures[0].error, NfsNotFound)


def test_files_that_cannot_be_made_keep_no_buffers(server: Any, mounted: Any, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    for number in range(20):
        (top / f"{number}").write_bytes(b"1")
    server.answers["CREATE"] = [nfsstat3.NFS3ERR_ACCES] * 19
    report = asyncio.run(once(mounted(transfer_octets_max=2 * BLOCK, files_at_once=4), "upload_tree", top, "/copy"))
    assert (report.files, report.failures_total) == (1, 19)


@each_case("name", ["CREATE", "SYMLINK", "WRITE", "SETATTR", "RENAME"])
async def test_a_copy_cancelled_during_any_call_leaves_nothing_behind(
    new_server: Any, tmp_path: Path, name: str
) -> None:
    server, mounted = new_server()
    top = tmp_path / "tree"
    top.mkdir()
    if name == "SYMLINK":
        (top / "link").symlink_to("target")
        server.put("/copy/link")
    else:
        (top / "file").write_bytes(b"1")
        server.folder("/copy")
    reached, given_up = asyncio.Event(), asyncio.Event()
    running: list[asyncio.Task[Any]] = []
    async with mounted() as fs:
        call = server.call

        async def late(*args: Any, **options: Any) -> Any:
            await given_up.wait()
            return await call(*args, **options)

        async def slow(procedure: Any, args: Any, **options: Any) -> Any:
            """The server goes on with a call that its client has given up."""
            temporary = name != "SYMLINK" or TEMPORARY.search(repr(args))
            if procedure.name != f"NFSPROC3_{name}" or not temporary:
                return await call(procedure, args, **options)
            running.append(asyncio.ensure_future(late(procedure, args, **options)))
            reached.set()
            return await asyncio.shield(running[0])

        fs._procedures._call = slow
        copying = asyncio.create_task(fs.upload_tree(top, "/copy"))
        await reached.wait()
        copying.cancel()
        given_up.set()
        with pytest.raises(asyncio.CancelledError):
            await copying
        await asyncio.gather(*running, return_exceptions=True)
    assert [found for found in server.at("/copy").children if TEMPORARY.fullmatch(found)] == []


async def test_a_copy_cancelled_while_it_cleans_up_after_a_failure_leaves_nothing_behind(
    server: Any, mounted: Any, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"1")
    server.answers["WRITE"] = [nfsstat3.NFS3ERR_NOSPC] * 2
    server.hold["REMOVE"] = asyncio.Event()
    async with mounted(files_at_once=1) as fs:
        copying = asyncio.create_task(fs.upload_tree(tmp_path, "/copy"))
        await until(lambda: server.calls["REMOVE"])
        copying.cancel()
        await asyncio.sleep(0)
        copying.cancel()
        server.hold["REMOVE"].set()
        with pytest.raises(asyncio.CancelledError):
            await copying
    assert (server.at("/copy").children, server.calls["CREATE"]) == ({}, 1)


async def test_closing_the_file_system_fails_a_copy_that_makes_its_file(
    server: Any, mounted: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    server.hold["CREATE"] = asyncio.Event()
    fs = mounted()
    copying = asyncio.create_task(fs.upload(tmp_path / "file", "/copy"))
    await until(lambda: server.calls["CREATE"])
    await fs.close()
    # Nobody has cancelled the copy itself.
    with pytest.raises(TransportClosed, match="the file system was closed"):
        await copying


def test_a_connection_that_is_lost_for_good_is_not_asked_to_clean_up(server: Any, mounted: Any, tmp_path: Path) -> None:
    def lose(name: str, _args: Any) -> None:
        if name == "CREATE":
            raise TransportClosed("gone")

    server.before = lose
    (tmp_path / "file").write_bytes(b"1")
    fs = mounted()
    with pytest.raises(TransportClosed):
        asyncio.run(closing(fs, fs.upload(tmp_path / "file", "/copy")))
    assert server.calls["REMOVE"] == 0


def test_a_failure_to_clean_up_does_not_hide_the_cause(server: Any, mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("target")
    server.put("/copy/link")
    server.answers["RENAME"] = [nfsstat3.NFS3ERR_ACCES]
    server.answers["REMOVE"] = [nfsstat3.NFS3ERR_IO]
    report = asyncio.run(once(mounted(), "upload_tree", tmp_path / "tree", "/copy"))
    error = report.failures[0].error
    assert isinstance(error, NfsError)
    assert error.status == nfsstat3.NFS3ERR_ACCES


@each_case(("call", "resume"), [("CREATE", False), ("CREATE", True), ("SYMLINK", False)])
def test_what_a_call_without_an_answer_may_have_made_is_removed(
    new_server: Any, tmp_path: Path, call: str, resume: bool
) -> None:
    server, mounted = new_server()
    answer = server.answer

    def answer_none(name: str, args: Any) -> Any:
        result = answer(name, args)
        if name == call and result.status == 0:
            raise CallTimeout(f"{name}: no reply within 60 s")
        return result

    server.answer = answer_none
    server.link("/copy/link", "old")
    with contextlib.suppress(CallTimeout):
        asyncio.run(once(mounted(), "upload_tree", tree(tmp_path), "/copy", resume=resume))
    made = [name for folder in (server.at("/copy"), *server.at("/copy").children.values()) for name in folder.children]
    assert not any(TEMPORARY.fullmatch(name) for name in made)
    assert server.calls["REMOVE"]


@in_virtual_time
async def test_a_silent_server_is_not_waited_for_twice(server: Any, mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    server.hold["REMOVE"] = asyncio.Event()
    server.before = lambda name, _args: _no_answer() if name == "CREATE" else None
    with pytest.raises(CallTimeout):
        await once(mounted(), "upload", tmp_path / "file", "/file")
    assert now_s() <= 10


def _no_answer() -> None:
    raise CallTimeout("CREATE: no reply within 60 s")
