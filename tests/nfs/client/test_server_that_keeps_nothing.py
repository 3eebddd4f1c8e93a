"""A server that answers WRITE with less than was asked, or COMMIT with a new verifier each time: copies end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import NFS_COMMITS_IN_VAIN_MAX
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import NfsFilesystem
from rpcrdma.nfs.client.trees import file_transfer
from rpcrdma.nfs.v3 import nfsstat3, stable_how
from rpcrdma.rpc.service import CallContext, Service
from support.cases import each_case

pytestmark = pytest.mark.thorough

BLOCK = 1 << 16
BLOCKS = 6
NO_ATTRIBUTES = v3.post_op_attr(False, None)
NO_WCC = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
TIME = v3.nfstime3(1, 0)
CALLS_MAX = 500
"""Far more than any copy here may take: without an end of its own, the test ends with STALE."""


def attributes(kind: v3.ftype3) -> v3.fattr3:
    return v3.fattr3(kind, 0o755, 1, 0, 0, 0, 0, v3.specdata3(0, 0), 1, 1, TIME, TIME, TIME)


class Forgetful(v3.NFS_V3_Service):
    """Has one empty directory. WRITE is answered as `promise` says, each answer with another verifier."""

    def __init__(self, promise: dict[stable_how, stable_how]) -> None:
        self.promise = promise
        self.calls = 0
        self.asked: list[stable_how] = []
        self.renamed = 0
        self.names: set[str] = set()

    def verifier(self) -> bytes:
        self.calls += 1
        return self.calls.to_bytes(8, "big")

    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> v3.LOOKUP3res:
        return v3.LOOKUP3res(nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(NO_ATTRIBUTES))

    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        return v3.GETATTR3res(nfsstat3.NFS3_OK, v3.GETATTR3resok(attributes(v3.ftype3.NF3REG)))

    def fsinfo(self, args: v3.FSINFO3args, context: CallContext) -> v3.FSINFO3res:
        sizes = (BLOCK, BLOCK, 1, BLOCK, BLOCK, 1, 8192, 1 << 40)
        return v3.FSINFO3res(nfsstat3.NFS3_OK, v3.FSINFO3resok(NO_ATTRIBUTES, *sizes, TIME, 0x1B))

    def create(self, args: v3.CREATE3args, context: CallContext) -> v3.CREATE3res:
        self.names.add(args.where.name)
        handle = v3.post_op_fh3(True, v3.nfs_fh3(b"file"))
        shown = v3.post_op_attr(True, attributes(v3.ftype3.NF3REG))
        return v3.CREATE3res(nfsstat3.NFS3_OK, v3.CREATE3resok(handle, shown, NO_WCC))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.asked.append(args.stable)
        if self.calls > CALLS_MAX:
            return v3.WRITE3res(nfsstat3.NFS3ERR_STALE, v3.WRITE3resfail(NO_WCC))
        reply = v3.WRITE3resok(NO_WCC, args.count, self.promise[args.stable], self.verifier())
        return v3.WRITE3res(nfsstat3.NFS3_OK, reply)

    def commit(self, args: v3.COMMIT3args, context: CallContext) -> v3.COMMIT3res:
        return v3.COMMIT3res(nfsstat3.NFS3_OK, v3.COMMIT3resok(NO_WCC, self.verifier()))

    def setattr(self, args: v3.SETATTR3args, context: CallContext) -> v3.SETATTR3res:
        return v3.SETATTR3res(nfsstat3.NFS3_OK, v3.SETATTR3resok(NO_WCC))

    def rename(self, args: v3.RENAME3args, context: CallContext) -> v3.RENAME3res:
        self.renamed += 1
        self.names.remove(args.from_.name)
        return v3.RENAME3res(nfsstat3.NFS3_OK, v3.RENAME3resok(NO_WCC, NO_WCC))

    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        self.names.remove(args.object.name)
        return v3.REMOVE3res(nfsstat3.NFS3_OK, v3.REMOVE3resok(NO_WCC))


LIES = dict.fromkeys(stable_how, stable_how.UNSTABLE)
NEARLY = {**LIES, stable_how.FILE_SYNC: stable_how.DATA_SYNC}
HONEST = {how: how for how in stable_how}
MORE = dict.fromkeys(stable_how, stable_how.FILE_SYNC)


@pytest.fixture(autouse=True)
def _commits_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_transfer, "_COMMIT_OCTETS", 2 * BLOCK)


async def copied(service: Service, scheme: str, tmp_path: Path, how: str, size: int) -> None:
    local = tmp_path / "local"
    local.write_bytes(bytes(size))
    async with (
        serve([service], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], v3.PROGRAM) as connection,
        NfsFilesystem(connection, b"root") as fs,
    ):
        if how == "upload":
            await fs.upload(local, "/copy")
        else:
            await fs.write_bytes("/copy", local.read_bytes())


@each_case("how", ["upload", "stream"])
@each_case("size", [10, BLOCKS * BLOCK])
@each_case("promise", [LIES, NEARLY])
def test_a_server_that_keeps_less_than_asked_is_named_as_the_cause(
    tmp_path: Path, how: str, size: int, promise: Any
) -> None:
    service = Forgetful(promise)
    with pytest.raises(
        RemoteProtocolError, match="the server does not keep data as it was asked to: WRITE as FILE_SYN"
    ):
        asyncio.run(copied(service, "rdma", tmp_path, how, size))
    rounds = NFS_COMMITS_IN_VAIN_MAX + 1
    assert len(service.asked) <= (rounds + 1) * BLOCKS
    assert service.asked.count(stable_how.FILE_SYNC) >= 1
    if how == "upload":
        assert (service.renamed, service.names) == (0, set())


@each_case("how", ["upload", "stream"])
@each_case("promise", [HONEST, MORE])
def test_a_server_that_keeps_what_it_says_is_written_to_in_few_rounds(tmp_path: Path, how: str, promise: Any) -> None:
    service = Forgetful(promise)
    asyncio.run(copied(service, "rdma", tmp_path, how, BLOCKS * BLOCK))
    rounds = 1 if promise is MORE else NFS_COMMITS_IN_VAIN_MAX + 2
    assert BLOCKS <= len(service.asked) <= rounds * BLOCKS
    assert service.names == ({"copy"} if how == "stream" else set())
    assert service.renamed == (how == "upload")


@each_case("how", ["upload", "stream"])
@each_case("count", [0, 11])
def test_a_server_that_miscounts_what_it_takes_is_found_out(tmp_path: Path, how: str, count: int) -> None:
    class Miscounting(Forgetful):
        def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
            return v3.WRITE3res(nfsstat3.NFS3_OK, v3.WRITE3resok(NO_WCC, count, args.stable, self.verifier()))

    with pytest.raises(RemoteProtocolError, match=f"WRITE of 10 octets answered with a count of {count}"):
        asyncio.run(copied(Miscounting(HONEST), "rdma", tmp_path, how, 10))
