"""Exported file systems of fsspec: those of the package, and one whose answers tests choose."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.fsspec_tree import FsspecNode
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import open_state
from rpcrdma.nfs.export.tree import READ, Refused
from rpcrdma.rpc.host_identity import CallOrigin

__all__ = [
    "AT_ONCE", "CLIENT", "CONTEXT", "ME", "Clock", "Store", "Web", "content", "exported", "found", "located",
    "names_in", "refused",
]  # fmt: skip

ME = Grant(ServingUser())
CLIENT = SimpleNamespace(origin=CallOrigin("127.0.0.1", "tcp"))
CONTEXT: Any = SimpleNamespace(credential=ME.credential, may_block=True, client=CLIENT)
AT_ONCE: Any = SimpleNamespace(credential=ME.credential, may_block=False, client=CLIENT)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Store(MemoryFileSystem):  # type: ignore[misc]
    """`store://`: objects in memory. `calls` counts its calls, `answers` has functions that answer in their place."""

    protocol = "store"
    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    calls: ClassVar[Counter[str]] = Counter()
    answers: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def clear(cls) -> None:
        for held in (cls.store, cls.calls, cls.answers):
            held.clear()
        cls.pseudo_dirs[:] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("store://")))

    def _answer(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.calls[name] += 1
        instead = self.answers.get(name)
        return (instead or getattr(super(), name))(*arguments, **options)

    def info(self, path: str, **options: Any) -> Any:
        return self._answer("info", path, **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        return self._answer("ls", path, detail=detail, **options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        return self._answer("cat_file", path, start=start, end=end, **options)


class Web(AbstractFileSystem):  # type: ignore[misc]
    """`web://`: as of a server of web pages. Directories end with a slash and are only listed, without sizes."""

    protocol = "web"
    cachable = False
    pages: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self.asked.append(path)
        if path not in self.pages:
            raise FileNotFoundError(path)
        return {"name": path, "type": "file", "size": len(self.pages[path]), "ETag": str(hash(self.pages[path]))}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[dict[str, Any]]:
        assert detail
        self.asked.append(path)
        found = {
            path + page[len(path) :].partition("/")[0] + "/" * ("/" in page[len(path) :])
            for page in self.pages
            if page.startswith(path)
        }
        if not found:
            raise FileNotFoundError(path)
        return [{"name": name, "size": None, "type": "directory" if name[-1] == "/" else "file"} for name in found]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return self.pages[path][start:end]


fsspec.register_implementation("store", Store, clobber=True)
fsspec.register_implementation("web", Web, clobber=True)


@contextlib.contextmanager
def exported(
    state: Path, url: str = "store://bucket", clock: Callable[[], float] | None = None, **more: Any
) -> Iterator[ServerExports]:
    """One export of this URL, as /."""
    with contextlib.closing(open_state(state, os.urandom)) as opened:
        exports = ServerExports([Export(name="/", url=url, read_only=True, **more)], opened, clock=clock)
        yield exports
        assert exports.close() == []


def located(exports: Exports, handle: bytes, context: Any) -> Any:
    """The object of a handle; None where the call would have to wait."""
    found = exports.locate(handle, context)
    return None if found is None else found[0]


def found(exports: ServerExports, *names: bytes) -> FsspecNode:
    """The object that these names lead to."""
    node: Any = exports.trees[0].root
    for name in names:
        below = node.lookup(ME, name, at_once=False)
        assert below is not None
        node = below
    return node


def content(node: FsspecNode) -> bytes:
    """All octets of a file."""
    into = memoryview(bytearray(node.size + 1))
    return bytes(into[: node.open(ME, READ, at_once=False).read(into, 0, at_once=False)])


def names_in(node: FsspecNode, after: int = 2) -> list[bytes]:
    """The names in a directory after a cookie."""
    return [entry.name for entry in node.entries(ME, after, detailed=False)]


def refused(call: Callable[[], object]) -> int:
    """The number of the refusal of a call."""
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.errno
