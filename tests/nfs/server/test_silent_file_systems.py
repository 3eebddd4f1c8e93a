"""File systems that do not answer, such as that of a hung process of FUSE, hold up their own export alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import object_tree
from rpcrdma.nfs.server import Export
from served_directory import Server
from support.nfs4_client import READ, access, close, getattr_, lookup, lookupp, open_, putfh, putrootfh, read, readdir

SIZE, MOUNTED_ON = 1 << 4, 1 << 55 - 32


def place_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


def test_the_event_loop_makes_no_system_call_about_files_that_another_process_or_host_is_asked_about(
    start: Callable[..., Server], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.setattr(object_tree, "is_asked_elsewhere", lambda fd: place_of(fd) != inner)
    server = start([Export(name="/", directory=tree), Export(name="/a/b", directory=inner)])
    conversation = with_version_4(server, None)
    service: Any = conversation.service
    compound, asked = service.compound, []
    service.compound = lambda args, context: (server.contexts.append(context), compound(args, context))[1]
    root = server.mount()
    client = conversation.client().start()

    def watch(module: Any, name: str) -> None:
        call = getattr(module, name)

        def watched(fd: int, *args: Any) -> Any:
            if tree in (place := place_of(fd), *place.parents):
                asked.append(server.contexts[-1].may_block)
            return call(fd, *args)

        monkeypatch.setattr(module, name, watched)

    watch(os, "fstat")
    watch(object_tree, "open_cached")
    for _ in range(2):
        file = server.lookup(root, "hello.txt")
        assert server.getattr_status(root) == server.getattr_status(file) == "OK"
        assert server.read(file) == b"hello, world\n"
        assert server.status("access", v3.ACCESS3args(v3.nfs_fh3(file), 1)) == "OK"
        assert server.status("fsinfo", v3.FSINFO3args(v3.nfs_fh3(root))) == "OK"
    below = client.handle("a", "b")
    for operations in (
        (putrootfh(), getattr_(SIZE)),
        (putrootfh(), access(1), readdir(0, SIZE)),
        (putfh(file), getattr_(SIZE)),
        (putfh(below), getattr_(0, MOUNTED_ON)),
        (putfh(below), lookupp(), lookup("b"), getattr_(SIZE)),
    ):
        assert client.run(*operations).status == "OK"
    opened = client.run(putfh(file), open_(b"o", READ)).value(18)["stateid"]
    assert client.run(putfh(file), read(opened, 0, 20)).value(25)[1] == b"hello, world\n"
    assert client.run(putfh(file), close(opened)).status == "OK"
    assert asked
    assert all(asked), "a system call in the event loop"
    service.close()
