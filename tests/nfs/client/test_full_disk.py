"""Trees that do not fit: fitting files are kept, and every other file is reported."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.client import volume
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.v3 import FSSTAT3resok, nfsstat3, post_op_attr
from support.cases import each_case
from support.waiting import once

BLOCK = 1 << 12
FILES = 12
FILE_OCTETS = 40 * BLOCK
FIT = 3
ROOM = FIT * FILE_OCTETS + 2 * BLOCK
"""For a few of the files, which are all in work at the same time and grow together."""


@pytest.fixture(autouse=True)
def _small_blocks(server: Any) -> None:
    server.read_max = server.write_max = BLOCK


@each_case("number", [errno.ENOSPC, errno.EDQUOT])
def test_downloads_keep_what_fits(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for file in range(FILES):
        server.put(f"/t/{file:02}", os.urandom(FILE_OCTETS))
    server.put("/t/small", b"1")
    sizes: dict[int, int] = {}
    write, abandon = local_files.write_at, local_files.abandon_file

    def write_at(descriptor: int, data: memoryview, offset: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if sum(sizes.values()) + len(data) > ROOM:
            raise OSError(number, os.strerror(number))
        sizes[inode] = sizes.get(inode, 0) + len(data)
        write(descriptor, data, offset)

    def abandon_file(file: Any, **how: bool) -> None:
        sizes.pop(os.fstat(file.descriptor).st_ino, None)
        abandon(file, **how)

    monkeypatch.setattr(local_files, "write_at", write_at)
    monkeypatch.setattr(local_files, "abandon_file", abandon_file)
    monkeypatch.setattr(local_files, "free_octets", lambda _directory: ROOM - sum(sizes.values()))
    monkeypatch.setattr(volume, "_LOCAL_THREADS", 1)
    report = asyncio.run(once(mounted(), "download_tree", "/t", tmp_path / "t"))
    kept = sorted(path for path in (tmp_path / "t").iterdir() if path.stat().st_size == FILE_OCTETS)
    assert len(kept) == FIT
    assert (tmp_path / "t/small").read_bytes() == b"1"
    assert all(path.read_bytes() == bytes(server.at(f"/t/{path.name}").data) for path in kept)
    assert (report.files, report.octets) == (FIT + 1, FIT * FILE_OCTETS + 1)
    assert report.failures_total == FILES - FIT
    assert {failure.error.errno for failure in report.failures if isinstance(failure.error, OSError)} == {number}
    assert len({failure.path for failure in report.failures}) == FILES - FIT
    assert not list(tmp_path.rglob(".rpcrdma-*"))
    # Over an RDMA device the connection would end with the call.
    assert server.cancelled == 0


@pytest.mark.parametrize("status", [nfsstat3.NFS3ERR_NOSPC, nfsstat3.NFS3ERR_DQUOT])
def test_uploads_keep_what_fits(server: Any, mounted: Any, tmp_path: Path, status: nfsstat3) -> None:
    (tmp_path / "t").mkdir()
    for file in range(FILES):
        (tmp_path / "t" / f"{file:02}").write_bytes(os.urandom(FILE_OCTETS))

    def left() -> int:
        return ROOM - sum(len(thing.data) for thing in server.things.values() if thing is not None)

    def before(name: str, args: Any) -> None:
        if name == "WRITE" and left() < args.count:
            server.answers["WRITE"] = [status]

    server.before = before
    server.fsstat = lambda _args: FSSTAT3resok(post_op_attr(False, None), ROOM, left(), left(), 9, 9, 9, 0)
    report = asyncio.run(once(mounted(), "upload_tree", tmp_path / "t", "/t"))
    kept = server.at("/t").children
    assert len(kept) == FIT
    assert all(bytes(kept[name].data) == (tmp_path / "t" / name).read_bytes() for name in kept)
    assert (report.files, report.octets, report.failures_total) == (FIT, FIT * FILE_OCTETS, FILES - FIT)
    assert server.cancelled == 0


def test_a_file_that_is_alone_is_not_tried_again(server: Any, mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/file").write_bytes(b"1")
    server.answers["WRITE"] = [nfsstat3.NFS3ERR_NOSPC]
    report = asyncio.run(once(mounted(), "upload_tree", tmp_path / "t", "/t"))
    assert report.failures_total == 1
    assert server.calls["WRITE"] == 1
