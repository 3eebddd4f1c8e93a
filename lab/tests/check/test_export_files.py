"""The files that checks write to: made and removed over connections of their own."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs.client import NfsFilesystem
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma_lab.check import Abilities
from rpcrdma_lab.check.export_files import prepared_export

pytestmark = pytest.mark.thorough

ANYWHERE = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]


@asynccontextmanager
async def exported(tmp_path: Path, listen: list[str]) -> AsyncIterator[list[str]]:
    """The URLs of a server of the directory "export"."""
    (tmp_path / "export").mkdir(exist_ok=True)
    with closing(open_state(tmp_path / "state", os.urandom)) as state:
        services = build_services([Export(name="/", directory=tmp_path / "export", root_squash=False)], state=state)
        with closing(services.nfs):
            async with serve(list(services), listen) as server:
                yield list(server.listening)


def prepared(
    tmp_path: Path, meanwhile: Callable[[AsyncExitStack, list[str]], Awaitable[None]]
) -> tuple[Abilities, list[str]]:
    """The abilities, and the names of the files after the checks."""
    export = tmp_path / "export"

    async def main() -> Abilities:
        async with AsyncExitStack() as servers:
            urls = await servers.enter_async_context(exported(tmp_path, ANYWHERE))
            rdma, tcp = map(parse_url, urls)
            async with prepared_export(rdma, ConnectOptions(), mount_port=tcp.port, write=".") as abilities:
                assert abilities.met == {"nfs", "file", "write"}
                assert len(list(export.iterdir())) == 2
                await meanwhile(servers, urls)
        return abilities

    return asyncio.run(main()), sorted(path.name for path in export.iterdir())


def test_the_files_are_removed_after_a_restart_of_the_server(tmp_path: Path) -> None:
    async def restart(servers: AsyncExitStack, urls: list[str]) -> None:
        await servers.aclose()
        await servers.enter_async_context(exported(tmp_path, urls))

    abilities, left = prepared(tmp_path, restart)
    assert (abilities.notes, left) == ([], [])


def test_a_note_names_the_files_that_could_not_be_removed(tmp_path: Path) -> None:
    async def stop(servers: AsyncExitStack, urls: list[str]) -> None:
        del urls
        await servers.aclose()

    abilities, left = prepared(tmp_path, stop)
    assert len(left) == 2
    assert abilities.notes[0].startswith(f"remove ./{left[0]} and ./{left[1]}, which the checks could not: ")


def test_a_file_that_the_server_does_not_remove_keeps_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = NfsFilesystem.unlink

    async def refused(self: NfsFilesystem, path: str) -> None:
        if path.endswith("-read"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        await right(self, path)

    monkeypatch.setattr(NfsFilesystem, "unlink", refused)
    abilities, left = prepared(tmp_path, lambda *_: asyncio.sleep(0))
    (name,) = left
    assert name.endswith("-read")
    assert abilities.notes == [f"remove ./{name}, which the checks could not: ./{name}: permission denied"]


def test_a_file_may_be_the_path_and_a_change_of_it_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "export/inner").mkdir(parents=True)
    data = tmp_path / "export/inner/data"
    data.write_bytes(bytes(9001))

    async def found(path: str, change: Callable[[], object] = lambda: None) -> Abilities:
        async with exported(tmp_path, ANYWHERE) as urls:
            rdma, tcp = map(parse_url, urls)
            url = replace(rdma, path=path)
            async with prepared_export(url, ConnectOptions(), mount_port=tcp.port) as abilities:
                change()
        return abilities

    of_directory, of_file = asyncio.run(found("/inner")), asyncio.run(found("/inner/data"))
    assert of_directory.met == of_file.met == {"nfs", "file"}
    assert of_file.given["file"] == of_directory.given["file"]
    assert not of_file.file_changed
    assert asyncio.run(found("/inner/data", lambda: data.write_bytes(b"other"))).file_changed
    data.write_bytes(bytes(9001))
    assert asyncio.run(found("/inner/data", data.unlink)).file_changed
    data.write_bytes(bytes(5000))
    assert asyncio.run(found("/inner/data")).notes == ["/inner/data has fewer than 5001 octets"]


@pytest.mark.parametrize("readable", [True, False])
def test_a_file_that_may_not_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    right, refused = NfsFilesystem.read_bytes, []

    async def refusing(self: NfsFilesystem, path: str, *, size: int) -> bytes:
        if not readable or not refused:
            refused.append(path)
            raise PermissionError(13, "permission denied", path)
        return await right(self, path, size=size)

    monkeypatch.setattr(NfsFilesystem, "read_bytes", refusing)
    (tmp_path / "export").mkdir()
    for name in ("one", "other"):
        (tmp_path / "export" / name).write_bytes(bytes(9001))

    async def found() -> Abilities:
        async with exported(tmp_path, ANYWHERE) as urls:
            rdma, tcp = map(parse_url, urls)
            async with prepared_export(rdma, ConnectOptions(), mount_port=tcp.port) as abilities:
                pass
        return abilities

    abilities = asyncio.run(found())
    notes = [] if readable else ["none of 2 entries is a readable file of 5001 octets or more"]
    assert ("file" in abilities.met, abilities.notes) == (readable, notes)


def test_the_files_are_removed_when_the_run_is_interrupted(tmp_path: Path) -> None:
    async def interrupt(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        prepared(tmp_path, interrupt)
    assert list((tmp_path / "export").iterdir()) == []


def test_a_file_that_is_half_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = NfsFilesystem.write_bytes

    async def fails_behind(self: NfsFilesystem, path: str, data: bytes) -> None:
        await right(self, path, data[:1000])
        raise OSError("no space left")

    monkeypatch.setattr(NfsFilesystem, "write_bytes", fails_behind)
    with pytest.raises(OSError, match="no space left"):
        prepared(tmp_path, lambda *_: asyncio.sleep(0))
    assert list((tmp_path / "export").iterdir()) == []
    monkeypatch.setattr(NfsFilesystem, "unlink", AsyncMock(side_effect=OSError("no way")))
    with pytest.raises(OSError, match="no space left") as failed:
        prepared(tmp_path, lambda *_: asyncio.sleep(0))
    (note,) = failed.value.__notes__
    (left,) = (tmp_path / "export").iterdir()
    assert note.startswith(f"remove ./{left.name} and ")
