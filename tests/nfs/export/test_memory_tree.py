"""The tree in memory: its crashes and bounds, and the file server of simulated worlds by calls without a transport."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.export.abilities import XattrHow
from rpcrdma.nfs.export.memory_tree import MemoryNode, MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, Refused, Stable
from rpcrdma.nfs.v3.server.service import NfsService
from rpcrdma.xdr.codec import Encoder
from support.cases import each_case
from support.direct_calls import Direct

STATUS = v3.nfsstat3


def on_filesystem(work: Callable[[NfsFilesystem, MemoryTree], Coroutine[Any, Any, None]]) -> Direct:
    tree = MemoryTree(lambda: 5.0)
    service = NfsService(tree)
    caller = Direct(service)

    async def main() -> None:
        async with NfsFilesystem(caller, v3.nfs_fh3(tree.root.handle)) as filesystem:
            await work(filesystem, tree)

    asyncio.run(main())
    return caller


def created(tree: MemoryTree, name: bytes, directory: MemoryNode | None = None) -> Any:
    made = (directory or tree.root).create(tree.grant, name, Create(CreateHow.GUARDED), Change())
    return made.node


def write(node: MemoryNode, offset: int, data: bytes, stable: Stable = Stable.FILE_SYNC) -> None:
    node.opened().write(data, offset, stable, Change(), judge=False)


def written(tree: MemoryTree, data: bytes, stable: Stable = Stable.FILE_SYNC) -> Any:
    node = created(tree, b"file")
    write(node, 0, data, stable)
    return node


def test_a_tree_of_files_is_read_back_as_it_was_written() -> None:
    async def work(filesystem: NfsFilesystem, tree: MemoryTree) -> None:
        await filesystem.mkdir("a")
        await filesystem.write_bytes("a/one", b"1" * 5000)
        async with await filesystem.open("a/two", "xb") as file:
            await file.write(b"2")
        await filesystem.symlink("one", "a/link")
        await filesystem.link("a/one", "a/other")
        await filesystem.rename("a/two", "three")
        assert await filesystem.read_bytes("a/link") == b"1" * 5000
        assert await filesystem.read_bytes("three") == b"2"
        assert sorted(await filesystem.listdir("a")) == ["link", "one", "other"]
        assert {entry.name async for entry in filesystem.scandir("/")} == {"a", "three"}
        assert (await filesystem.stat("a/other")).st_nlink == 2
        await filesystem.truncate("three", 4)
        assert await filesystem.read_bytes("three") == b"2\0\0\0"
        await filesystem.unlink("a/other")
        assert (await filesystem.stat("a/one")).st_nlink == 1

    on_filesystem(work)


@each_case(
    ("name", "wanted"),
    [("mkdir", STATUS.NFS3ERR_EXIST), ("rmdir", STATUS.NFS3ERR_NOTEMPTY), ("unlink", STATUS.NFS3ERR_ISDIR)],
)
def test_names_that_stand_in_the_way_are_refused(name: str, wanted: v3.nfsstat3) -> None:
    async def work(filesystem: NfsFilesystem, tree: MemoryTree) -> None:
        await filesystem.mkdir("a")
        await filesystem.write_bytes("a/file", b"")
        with pytest.raises(NfsError) as caught:
            await getattr(filesystem, name)("a")
        assert caught.value.status is wanted

    on_filesystem(work)


def test_a_directory_is_listed_in_pages_of_the_size_that_is_asked_for() -> None:
    tree = MemoryTree(lambda: 0.0)
    service = NfsService(tree)
    names = [f"file-{number}" for number in range(200)]
    for name in names:
        created(tree, name.encode())

    async def main() -> None:
        caller = Direct(service)
        for procedure, args in ((v3.READDIR, v3.READDIR3args), (v3.READDIRPLUS, v3.READDIRPLUS3args)):
            cookie, listed, pages, eof = 0, [], 0, False
            while not eof:
                sizes = (2000,) if procedure is v3.READDIR else (2000, 2000)
                reply = await caller.call(procedure, args(v3.nfs_fh3(tree.root.handle), cookie, bytes(8), *sizes))
                enc = Encoder()
                procedure.encode_result(enc, reply)
                assert enc.length <= 2000 + 4
                entries, eof, pages = reply.value.reply.entries, reply.value.reply.eof, pages + 1
                listed += [entry.name for entry in entries]
                cookie = entries[-1].cookie
            assert (listed, pages > 1) == ([".", "..", *names], True)

    asyncio.run(main())


def test_the_same_calls_give_the_same_attributes_and_handles() -> None:
    def one() -> list[object]:
        found: list[object] = []

        async def work(filesystem: NfsFilesystem, tree: MemoryTree) -> None:
            await filesystem.write_bytes("file", b"data")
            status = await filesystem.stat("file")
            found.extend((status.st_ino, status.st_mtime_ns, await filesystem.handle_of("file"), tree.verifier))

        on_filesystem(work)
        return found

    assert one() == one()


def test_a_crash_loses_unstable_writes_alone_and_changes_the_verifier() -> None:
    tree = MemoryTree(lambda: 0.0)
    file = written(tree, b"stable")
    write(file, 0, b"UN", Stable.UNSTABLE)
    write(file, 6, b"more", Stable.UNSTABLE)
    verifier = tree.verifier
    tree.crash(lambda: False)
    assert (bytes(file.data), tree.verifier != verifier) == (b"stable", True)


def test_a_crash_asks_for_each_unstable_write_whether_it_is_kept() -> None:
    tree = MemoryTree(lambda: 0.0)
    file = written(tree, b"stable")
    write(file, 0, b"UN", Stable.UNSTABLE)
    write(file, 6, b"more", Stable.UNSTABLE)
    fates = iter((False, True))
    tree.crash(lambda: next(fates))
    assert bytes(file.data) == b"stablemore"


def test_a_stable_write_and_a_commit_make_earlier_writes_stable() -> None:
    for finish in ("write", "commit", "resize"):
        tree = MemoryTree(lambda: 0.0)
        file = written(tree, b"abcd", Stable.UNSTABLE)
        match finish:
            case "write":
                write(file, 4, b"")
            case "commit":
                file.opened().commit(Change())
            case "resize":
                tree.resize(file, 4)
        tree.crash(lambda: False)
        assert bytes(file.data) == b"abcd", finish


def test_data_is_bounded_whatever_the_offset() -> None:
    tree = MemoryTree(lambda: 0.0, octets_max=100)
    file = written(tree, bytes(60))
    for offset, octets, wanted in ((1 << 60, 1, errno.EFBIG), (90, 11, errno.EFBIG)):
        with pytest.raises(Refused) as caught:
            write(file, offset, bytes(octets))
        assert caught.value.errno == wanted, offset
    other = created(tree, b"other")
    with pytest.raises(Refused) as caught:
        write(other, 0, bytes(41))
    assert caught.value.errno == errno.ENOSPC
    tree.root.remove(tree.grant, b"file", Change(), is_directory=False)
    write(other, 0, bytes(100))


def test_an_exclusive_create_that_is_repeated_finds_its_own_file() -> None:
    tree = MemoryTree(lambda: 0.0)
    service = NfsService(tree)

    async def main() -> None:
        caller = Direct(service)

        async def create(verifier: bytes) -> v3.CREATE3res:
            how = v3.createhow3(v3.createmode3.EXCLUSIVE, verifier)
            return await caller.call(
                v3.CREATE, v3.CREATE3args(v3.diropargs3(v3.nfs_fh3(tree.root.handle), "file"), how)
            )

        first = await create(b"12345678")
        tree.crash(lambda: False)
        again, other = await create(b"12345678"), await create(b"87654321")
        assert first.value.obj == again.value.obj
        assert other.status is STATUS.NFS3ERR_EXIST

    asyncio.run(main())


def test_attributes_of_programs_take_space_and_are_bounded() -> None:
    tree = MemoryTree(lambda: 0.0, octets_max=100_000)
    node, who = created(tree, b"file"), tree.grant
    node.set_xattr(who, b"name", bytes(60_000), XattrHow.EITHER, Change())
    assert tree.free_octets == 40_000 - 164
    for name, octets in ((b"more", 5209), (b"name", 65373)):
        with pytest.raises(Refused) as refused:
            node.set_xattr(who, name, bytes(octets), XattrHow.EITHER, Change())
        assert refused.value.errno == errno.E2BIG
    node.set_xattr(who, b"name", bytes(65372), XattrHow.EITHER, Change())
    other = created(tree, b"other")
    with pytest.raises(Refused) as refused:
        other.set_xattr(who, b"name", bytes(40_000), XattrHow.EITHER, Change())
    assert refused.value.errno == errno.ENOSPC
    node.remove_xattr(who, b"name", Change())
    assert tree.free_octets == 100_000
    node.set_xattr(who, b"name", bytes(1000), XattrHow.EITHER, Change())
    tree.root.remove(who, b"file", Change(), is_directory=False)
    assert tree.free_octets == 100_000
    for number in range(1000):
        with contextlib.suppress(Refused):
            other.set_xattr(who, b"%d" % number, b"", XattrHow.CREATE, Change())
    assert 400 <= len(other.list_xattrs(who)) <= 410, "names without values take memory as well"
