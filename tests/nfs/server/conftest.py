"""A scratch directory, and servers over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.server import Export
from served_directory import Server


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The exported directory: a/b/deep.txt, hello.txt, link -> hello.txt; everybody may enter."""
    for directory in (tmp_path, tmp_path.parent):
        directory.chmod(0o755)
    root = tmp_path / "export"
    (root / "a" / "b").mkdir(parents=True)
    (root / "hello.txt").write_bytes(b"hello, world\n")
    (root / "a" / "b" / "deep.txt").write_bytes(b"deep")
    (root / "link").symlink_to("hello.txt")
    for path in (root, root / "a", root / "a" / "b"):
        path.chmod(0o777)
    return root


@pytest.fixture
def start(tree: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server over `tree`, or over `exports`, always with the same state."""
    servers: list[Server] = []

    def start_server(exports: list[Export] | None = None, **options: Any) -> Server:
        squash = {"root_squash": options.pop("root_squash", False), "read_only": options.pop("read_only", False)}
        for also in ("hosts", "synchronous", "all_squash", "anonymous_uid", "anonymous_gid"):
            if also in options:
                squash[also] = options.pop(also)
        server = Server(exports or [Export(name="/", directory=tree, **squash)], tmp_path / "state", **options)
        servers.append(server)
        return server

    yield start_server
    for server in servers:
        server.close()


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    """A server that lets root be root."""
    return start()
