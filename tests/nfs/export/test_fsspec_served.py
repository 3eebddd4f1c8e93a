"""NFS version 3 over file systems of fsspec, read by this package's client."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fsspec_rig import CONTEXT, Store
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.export.export import Export
from rpcrdma.nfs.export.fsspec_exports import FsspecExports
from rpcrdma.nfs.export.state import open_state
from rpcrdma.nfs.server import build_services
from rpcrdma.nfs.v3.server.service import NfsService
from support.direct_calls import Direct
from support.loops import in_virtual_time

DRAW = random.Random(5)
FILES = {
    "a.txt": b"hello",
    "empty": b"",
    "deep/er/b.bin": DRAW.randbytes(3_000_001),
    "deep/\u00fcmlaut and blank": b"x" * 131_072,
    "many/" + "n" * 200: b"long",
    **{f"many/{number:04}": b"%d" % number for number in range(700)},
}


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    Store.clear()
    yield
    Store.clear()


def filled(kind: str, tmp_path: Path) -> tuple[Any, str]:
    """A file system with these files, and the URL of their directory."""
    if kind == "memory":
        store, root = Store(skip_instance_cache=True), "/bucket"
        url = "store://bucket"
    else:
        store, root = fsspec.filesystem("file", auto_mkdir=True, skip_instance_cache=True), f"{tmp_path}/files"
        url = f"file://{root}"
    store.pipe({f"{root}/{path}": data for path, data in FILES.items()})
    Store.calls.clear()
    return store, url


@contextlib.asynccontextmanager
async def mounted(state: Path, url: str) -> AsyncIterator[tuple[NfsFilesystem, Direct]]:
    """A client of a server that has just started with this state."""
    with contextlib.closing(open_state(state, os.urandom)) as opened:
        exports = FsspecExports([Export(name="/", url=url, read_only=True, valid_s=5)], opened)
        caller = Direct(NfsService(exports))
        async with NfsFilesystem(caller, v3.nfs_fh3(exports.trees[0].root.handle)) as filesystem:
            yield filesystem, caller
        assert exports.close() == []


async def tree_of(filesystem: NfsFilesystem, top: str = ".") -> dict[str, bytes]:
    """The contents of all files by their paths."""
    found: dict[str, bytes] = {}
    async for entry in filesystem.scandir(top):
        path = entry.name if top == "." else f"{top}/{entry.name}"
        if entry.is_dir():
            found |= await tree_of(filesystem, path)
        else:
            found[path] = await filesystem.read_bytes(path)
    return found


@pytest.mark.parametrize("kind", ["memory", "file"])
@in_virtual_time
async def test_a_tree_is_read_as_it_is(kind: str, tmp_path: Path) -> None:
    _, url = filled(kind, tmp_path)
    async with mounted(tmp_path / "state", url) as (filesystem, _):
        assert await tree_of(filesystem) == FILES
        with pytest.raises(NfsError, match=r"Read-only"):
            await filesystem.write_bytes("new", b"data")
    if kind == "memory":
        # One question for a directory and one for its names; the attributes of files are among these.
        assert Store.calls["ls"] <= 5
        assert Store.calls["info"] <= 5
        assert Store.calls["cat_file"] <= len(FILES) + 30


def test_directories_and_urls_are_exported_side_by_side(tmp_path: Path) -> None:
    filled("memory", tmp_path)
    local = tmp_path / "local"
    local.mkdir()
    (local / "here").write_bytes(b"")
    with contextlib.closing(open_state(tmp_path / "state", os.urandom)) as state:
        services = build_services(
            [
                Export(name="/store", url="store://bucket", read_only=True),
                Export(name="/local", directory=local),
                Export(name="/store/deep", url="store://bucket/deep", read_only=True),
            ],
            state=state,
        )
        exports = services.nfs.exports
        assert [tree.export.name for tree in exports.trees] == ["/store", "/local", "/store/deep"]
        seen = {}
        for tree in exports.trees:
            node, who = exports.locate(tree.root.handle, CONTEXT)
            assert node is not None
            assert node.tree is tree
            exports.admit_mount(tree, CONTEXT)
            seen[tree.export.name] = len(list(node.entries(who, 2, detailed=False)))
        assert seen == {"/store": 4, "/local": 1, "/store/deep": 2}
        waits = [exports.waits_for(tree.root.handle) for tree in exports.trees]
        assert len({*waits}) == 3
        exports.close_idle()
        assert services.nfs.close() == []
        for twice in ({"url": "store://bucket", "read_only": True}, {"directory": local}):
            with pytest.raises(ValueError, match="two exports have the name /x"):
                build_services(
                    [
                        Export(name="/x", url="store://bucket", read_only=True),
                        Export(name="/x", **twice),  # type: ignore[arg-type]
                    ],
                    state=state,
                )
