"""For any answer of a server, the client's calls return, or raise errors of ours or of the operating system."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib.util
import json
import os
import shutil
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.cli.listing_format import attributes_json, long_columns
from rpcrdma.commands import console
from rpcrdma.errors import RpcRdmaError, TransportClosed
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client import FileOptions, NfsFilesystem
from rpcrdma.nfs.client.mount_client import mount_with
from rpcrdma.nfs.client.streams import file_stream
from rpcrdma.nfs.client.trees import tree_work
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case

CALLS_MAX = 40
"""Replies of one example; then the connection is lost, so that no answers without end have to be waited for."""


def load(name: str) -> ModuleType:
    """The strategies for values of XDR types; folders of tests are no packages."""
    path = Path(__file__).parents[1] / "xdr" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"properties_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


VALUES = load("test_nfs3_round_trip_properties")


FATTR = VALUES.dataclass_strategy(v3.fattr3)
TYPES = [v3.ftype3.NF3LNK, v3.ftype3.NF3REG, v3.ftype3.NF3DIR]


ONE_AT_A_TIME = FileOptions(files_at_once=1, direct_calls=1)


@pytest.fixture(scope="module", autouse=True)
def _one_block_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for constant in ("_READ_AHEAD_BLOCKS", "_WRITE_BEHIND_BLOCKS"):
            patch.setattr(file_stream, constant, 1)
        yield


@functools.cache
def mostly_good(name: str) -> st.SearchStrategy[Any]:
    """Results of a procedure, of which fifteen in sixteen are said to be those of success."""
    kind = getattr(v3, f"{name}3res")
    good = st.builds(kind, st.just(nfsstat3.NFS3_OK), VALUES.dataclass_strategy(getattr(v3, f"{name}3resok")))
    weights = [good] * 15 + [VALUES.dataclass_strategy(kind)]
    return st.sampled_from(range(len(weights))).flatmap(weights.__getitem__)


class Liar:
    """A `Caller` that answers with arbitrary values of the right types, mostly as if all went well."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.calls = 0

    async def call(self, procedure: Any, args: Any, *, into: Any = None, timeout_s: float | None = None) -> Any:
        self.calls += 1
        if self.calls > CALLS_MAX:
            raise TransportClosed("enough")
        await asyncio.sleep(0)
        name = procedure.name.partition("PROC3_")[2]
        if procedure.program != v3.PROGRAM.number:
            return self.data.draw(self.mount_reply(name))
        result = self.data.draw(mostly_good(name))
        if result.status == 0 and self.data.draw(st.integers(0, 7)):
            self.make_plausible(name, result.value)
        if name == "READ" and result.status == 0:
            value = result.value
            octets = memoryview(bytes(value.data))[: len(into)]
            into[: len(octets)] = octets
            value.data = into[: len(octets)]
            if self.data.draw(st.booleans()):
                value.count = len(octets)
        if name == "WRITE" and result.status == 0 and self.data.draw(st.booleans()):
            result.value.count = args.count
        return result

    def make_plausible(self, name: str, value: Any) -> None:
        """Objects without attributes and impossible names lead nowhere: most replies have to lead on."""
        draw = self.data.draw
        if name == "LOOKUP":
            value.obj_attributes = v3.post_op_attr(True, draw(FATTR))
            value.obj_attributes.value.type = draw(st.sampled_from([v3.ftype3.NF3DIR] * 3 + [v3.ftype3.NF3REG]))
        if name == "READDIRPLUS":
            for number, entry in enumerate(value.reply.entries):
                entry.name = f"entry-{number}"
                entry.name_attributes = v3.post_op_attr(True, draw(FATTR))
                entry.name_attributes.value.type = draw(st.sampled_from(TYPES))
                entry.name_handle = v3.post_op_fh3(True, v3.nfs_fh3(draw(st.binary(max_size=4))))
        if name == "READLINK":
            value.data = draw(st.sampled_from(["a\0b", "", "\udcff", "x" * 4096]))

    def mount_reply(self, name: str) -> st.SearchStrategy[Any]:
        if name == "EXPORT":
            return st.lists(VALUES.dataclass_strategy(mount.exportnode), max_size=3)
        return st.one_of(VALUES.dataclass_strategy(mount.mountres3), VALUES.dataclass_strategy(mount.mountres3))


async def collected(items: Any) -> None:
    async for entry in items:
        if isinstance(entry, tuple):
            continue
        shown(entry.stat())
        assert entry.path.endswith(entry.name)
        assert console.printable(entry.name).isprintable()


def shown(found: Any) -> None:
    json.dumps(attributes_json("name", found))
    long_columns(found)
    assert found.st_atime + found.st_mtime + found.st_ctime >= 0


async def attributes(fs: NfsFilesystem, _local: Path) -> None:
    shown(await fs.stat("a/b"))


async def reading(fs: NfsFilesystem, _local: Path) -> None:
    async with await fs.open("a", "rb") as file:
        await file.read(10)
        # Not relative to the end, which may be another one each time: before the beginning is a fault of the caller.
        await file.seek(max(0, await file.seek(0, os.SEEK_END) - 5))
        await file.read(10)
        await file.pread(10, 1 << 40)


async def writing(fs: NfsFilesystem, _local: Path) -> None:
    async with await fs.open("a", "ab") as file:
        await file.write(b"more")


async def uploading(fs: NfsFilesystem, local: Path) -> None:
    (local / "sub").mkdir()
    (local / "sub" / "file").write_bytes(b"content")
    (local / "link").symlink_to("sub")
    await fs.upload_tree(local, "/t")


OPERATIONS: dict[str, Callable[[NfsFilesystem, Path], Awaitable[Any]]] = {
    "stat": attributes,
    "lstat": lambda fs, _: fs.lstat("a"),
    "exists": lambda fs, _: fs.exists("a/b"),
    "is_dir": lambda fs, _: fs.is_dir("a"),
    "is_file": lambda fs, _: fs.is_file("a"),
    "access": lambda fs, _: fs.access("a", os.R_OK | os.W_OK),
    "chmod": lambda fs, _: fs.chmod("a", 0o600),
    "truncate": lambda fs, _: fs.truncate("a", 5),
    "statvfs": lambda fs, _: fs.statvfs("a"),
    "listdir": lambda fs, _: fs.listdir("a"),
    "scandir": lambda fs, _: collected(fs.scandir("a")),
    "scandir-onerror": lambda fs, _: collected(fs.scandir("a", onerror=str)),
    "walk": lambda fs, _: collected(fs.walk("a")),
    "walk-up": lambda fs, _: collected(fs.walk("a", topdown=False)),
    "mkdir": lambda fs, _: fs.mkdir("a/b/c", parents=True, exist_ok=True),
    "rmdir": lambda fs, _: fs.rmdir("a"),
    "rmtree": lambda fs, _: fs.rmtree("a"),
    "unlink": lambda fs, _: fs.unlink("a"),
    "rename": lambda fs, _: fs.rename("a", "b/c"),
    "link": lambda fs, _: fs.link("a", "b"),
    "symlink": lambda fs, _: fs.symlink("a", "b"),
    "readlink": lambda fs, _: fs.readlink("a"),
    "reading": reading,
    "writing": writing,
    "exclusive": lambda fs, _: fs.open("a", "xb"),
    "read_into": lambda fs, _: fs.read_into("a", bytearray(100)),
    "read_bytes": lambda fs, _: fs.read_bytes("a"),
    "download": lambda fs, local: fs.download("a", local),
    "download_tree": lambda fs, local: fs.download_tree("a", local),
    "download_tree-exact": lambda fs, local: fs.download_tree("a", local, exact_modes=True),
    "upload_tree": uploading,
}


async def attempt(data: st.DataObject, operation: Callable[[NfsFilesystem, Path], Awaitable[Any]], local: Path) -> None:
    async def no_time(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with NfsFilesystem(Liar(data), b"root", options=ONE_AT_A_TIME, sleep=no_time) as fs:
        with contextlib.suppress(OSError, RpcRdmaError):
            await operation(fs, local)


async def at_once(_volume: Volume, _undo: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """In place of a thread, so that the replies of an example are drawn in one order."""
    return function(*args, **options)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which an operation has one of its own, and may leave nothing else."""
    return tmp_path_factory.mktemp("local")


def check(operation: str, data: st.DataObject, beside: Path) -> None:
    own = beside / "own"
    own.mkdir(parents=True, exist_ok=True)
    dropped = operation in {"writing", "exclusive"}
    if dropped:
        # Only this example's own garbage is to be collected.
        gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Volume, "from_thread", at_once)
        patch.setattr(tree_work, "_SCANNERS", 1)
        with warnings.catch_warnings():
            # A file warns if the server did not let it close; the warning goes with the error that refers to it.
            warnings.filterwarnings("ignore", ".*: closing was not completed", ResourceWarning)
            try:
                asyncio.run(attempt(data, OPERATIONS[operation], own))
                if dropped:
                    gc.collect()
                assert os.listdir(beside) == ["own"]  # noqa: PTH208 - names alone
            finally:
                # An example may be broken off at any draw.
                if any(own.iterdir()) or len(list(beside.iterdir())) > 1:
                    shutil.rmtree(beside)


@pytest.mark.thorough
@each_case("operation", OPERATIONS)
@given(data=st.data())
def test_no_reply_raises_anything_but_our_errors(operation: str, data: st.DataObject, beside: Path) -> None:
    check(operation, data, beside)


@each_case("operation", ["stat", "reading", "upload_tree"])
@settings(max_examples=3)
@given(data=st.data())
def test_no_reply_to_some_operations_raises_anything_but_our_errors(
    operation: str, data: st.DataObject, beside: Path
) -> None:
    check(operation, data, beside)


@given(data=st.data())
def test_no_reply_to_mount_raises_anything_but_our_errors(data: st.DataObject) -> None:
    with contextlib.suppress(OSError, RpcRdmaError):
        asyncio.run(mount_with(Liar(data), "/a/b"))


def test_every_status_has_an_error() -> None:
    codes = {*nfsstat3, *mount.mountstat3} - {0}
    for code in codes:
        assert isinstance(nfs_error(nfsstat3(int(code)), "path"), OSError)
