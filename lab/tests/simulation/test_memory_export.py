"""The disk and the file server of simulated worlds, by NFSv3 calls without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.server.services import NfsService
from rpcrdma.rpc.program import Procedure
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder
from rpcrdma_lab.simulation.memory_disk import MemoryDisk, Refused
from rpcrdma_lab.simulation.memory_export import MemoryExport
from support.cases import each_case

STATUS = v3.nfsstat3
FILE = v3.ftype3.NF3REG


class Direct:
    """Calls the handlers of a service; arguments and results pass the codecs."""

    def __init__(self, service: v3.NFS_V3_Service) -> None:
        self.service = service
        self.seen: list[str] = []

    async def call(
        self, procedure: Procedure[Any, Any], args: Any, *, into: Buffer | None = None, timeout_s: float | None = None
    ) -> Any:
        self.seen.append(procedure.method)
        context = SimpleNamespace(buffer=lambda octets: memoryview(bytearray(octets)))
        result = getattr(self.service, procedure.method)(
            passed(args, procedure.encode_args, procedure.decode_args), context
        )
        result = passed(result, procedure.encode_result, procedure.decode_result)
        if into is not None and result.status is STATUS.NFS3_OK:
            view = memoryview(into)[: len(result.value.data)]
            view[:] = result.value.data
            result.value.data = view
        return result


def passed(value: Any, encode: Callable[[Encoder, Any], None], decode: Callable[[Decoder], Any]) -> Any:
    enc = Encoder()
    encode(enc, value)
    return decode(Decoder(b"".join(enc.gather())))


def on_filesystem(work: Callable[[NfsFilesystem, MemoryDisk], Coroutine[Any, Any, None]]) -> Direct:
    disk = MemoryDisk(lambda: 5.0)
    export = MemoryExport(disk)
    caller = Direct(export)

    async def main() -> None:
        async with NfsFilesystem(caller, export.root) as filesystem:
            await work(filesystem, disk)

    asyncio.run(main())
    return caller


def written(disk: MemoryDisk, data: bytes, *, stable: bool = True) -> Any:
    file = disk.make(disk.root, "file", FILE, 0o600)
    disk.write(file, 0, data, stable=stable)
    return file


def test_a_tree_of_files_is_read_back_as_it_was_written() -> None:
    async def work(filesystem: NfsFilesystem, disk: MemoryDisk) -> None:
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
    async def work(filesystem: NfsFilesystem, disk: MemoryDisk) -> None:
        await filesystem.mkdir("a")
        await filesystem.write_bytes("a/file", b"")
        with pytest.raises(NfsError) as caught:
            await getattr(filesystem, name)("a")
        assert caught.value.status is wanted

    on_filesystem(work)


def test_a_directory_is_listed_in_pages_of_the_size_that_is_asked_for() -> None:
    disk = MemoryDisk(lambda: 0.0)
    export = MemoryExport(disk)
    names = [f"file-{number}" for number in range(200)]
    for name in names:
        disk.make(disk.root, name, FILE, 0o600)

    async def main() -> None:
        caller = Direct(export)
        for procedure, args in ((v3.READDIR, v3.READDIR3args), (v3.READDIRPLUS, v3.READDIRPLUS3args)):
            cookie, listed, pages, eof = 0, [], 0, False
            while not eof:
                sizes = (2000,) if procedure is v3.READDIR else (2000, 2000)
                reply = await caller.call(procedure, args(export.root, cookie, bytes(8), *sizes))
                enc = Encoder()
                procedure.encode_result(enc, reply)
                assert enc.length <= 2000 + 4
                entries, eof, pages = reply.value.reply.entries, reply.value.reply.eof, pages + 1
                listed += [entry.name for entry in entries]
                cookie = entries[-1].cookie
            assert (listed, pages > 1) == (names, True)

    asyncio.run(main())


def test_the_same_calls_give_the_same_attributes_and_handles() -> None:
    def one() -> list[object]:
        found: list[object] = []

        async def work(filesystem: NfsFilesystem, disk: MemoryDisk) -> None:
            await filesystem.write_bytes("file", b"data")
            status = await filesystem.stat("file")
            found.extend((status.st_ino, status.st_mtime_ns, await filesystem.handle_of("file"), disk.verifier))

        on_filesystem(work)
        return found

    assert one() == one()


def test_a_crash_loses_unstable_writes_alone_and_changes_the_verifier() -> None:
    disk = MemoryDisk(lambda: 0.0)
    file = written(disk, b"stable")
    disk.write(file, 0, b"UN", stable=False)
    disk.write(file, 6, b"more", stable=False)
    verifier = disk.verifier
    disk.crash(lambda: False)
    assert (bytes(file.data), disk.verifier != verifier) == (b"stable", True)


def test_a_crash_asks_for_each_unstable_write_whether_it_is_kept() -> None:
    disk = MemoryDisk(lambda: 0.0)
    file = written(disk, b"stable")
    disk.write(file, 0, b"UN", stable=False)
    disk.write(file, 6, b"more", stable=False)
    fates = iter((False, True))
    disk.crash(lambda: next(fates))
    assert bytes(file.data) == b"stablemore"


def test_a_stable_write_and_a_commit_make_earlier_writes_stable() -> None:
    for finish in ("write", "commit", "resize"):
        disk = MemoryDisk(lambda: 0.0)
        file = written(disk, b"abcd", stable=False)
        match finish:
            case "write":
                disk.write(file, 4, b"", stable=True)
            case "commit":
                disk.commit(file)
            case "resize":
                disk.resize(file, 4)
        disk.crash(lambda: False)
        assert bytes(file.data) == b"abcd", finish


def test_data_is_bounded_whatever_the_offset() -> None:
    disk = MemoryDisk(lambda: 0.0, octets_max=100)
    file = written(disk, bytes(60))
    for offset, octets, wanted in ((1 << 60, 1, STATUS.NFS3ERR_FBIG), (90, 11, STATUS.NFS3ERR_FBIG)):
        with pytest.raises(Refused) as caught:
            disk.write(file, offset, bytes(octets), stable=True)
        assert caught.value.status is wanted, offset
    other = disk.make(disk.root, "other", FILE, 0o600)
    with pytest.raises(Refused) as caught:
        disk.write(other, 0, bytes(41), stable=True)
    assert caught.value.status is STATUS.NFS3ERR_NOSPC
    disk.remove(disk.root, "file", is_directory=False)
    disk.write(other, 0, bytes(100), stable=True)


def test_a_directory_does_not_move_below_itself() -> None:
    disk = MemoryDisk(lambda: 0.0)
    above = disk.make(disk.root, "above", v3.ftype3.NF3DIR, 0o700)
    below = disk.make(above, "below", v3.ftype3.NF3DIR, 0o700)
    with pytest.raises(Refused) as caught:
        disk.rename(disk.root, "above", below, "inside")
    assert caught.value.status is STATUS.NFS3ERR_INVAL


def test_an_exclusive_create_that_is_repeated_finds_its_own_file() -> None:
    disk = MemoryDisk(lambda: 0.0)
    export = MemoryExport(disk)

    async def main() -> None:
        caller = Direct(export)

        async def create(verifier: bytes) -> v3.CREATE3res:
            how = v3.createhow3(v3.createmode3.EXCLUSIVE, verifier)
            return await caller.call(v3.CREATE, v3.CREATE3args(v3.diropargs3(export.root, "file"), how))

        first = await create(b"12345678")
        disk.crash(lambda: False)
        again, other = await create(b"12345678"), await create(b"87654321")
        assert first.value.obj == again.value.obj
        assert other.status is STATUS.NFS3ERR_EXIST

    asyncio.run(main())


def test_the_calls_that_may_run_twice_are_those_of_the_server() -> None:
    assert MemoryExport.IDEMPOTENT == NfsService.IDEMPOTENT
