"""The source of a copy: whether it changes meanwhile, and which partial copy an interrupted copy of it has left.

A copy of a file that changes meanwhile would be part old and part new, a content that the file never had. Sizes and the
times of the last modification and change show it. A change goes unnoticed if it keeps the size and falls into the same
tick of the file system's clock, 4 ms on most, as the change before it.

The name of a partial file is made of the name of the file, and the size and mtime of its source: a file of that name
was begun with this source. Blocks are begun in order, none far beyond the first that is not done. So the size of the
partial file tells up to where it is complete, however the copy was interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rpcrdma.nfs.client.node import DirEntry, Node
from rpcrdma.nfs.client.trees.hard_links import SharedFile
from rpcrdma.nfs.client.trees.not_carried import Lost
from rpcrdma.nfs.errors import ServerPathError
from rpcrdma.nfs.v3 import fattr3, post_op_attr

__all__ = [
    "FileChanged",
    "InOrder",
    "RemoteFile",
    "TreeItem",
    "of_no_use",
    "partial_name",
    "require_unchanged",
    "window_octets",
]


@dataclass(frozen=True, slots=True)
class TreeItem:
    """An entry of a directory that is copied; its name is the server's.

    `kind` is one of stat's S_IF constants, 0 where unknown; `lost` names the properties that the copy will lack;
    `shared` is the file if it has further names; `entry` is the server's, None for a local one.
    """

    name: str
    kind: int
    size: int
    lost: Lost
    shared: SharedFile | None
    entry: DirEntry | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory itself, and no link to one."""
        return self.kind == stat.S_IFDIR


class FileChanged(OSError):
    """A file changed while it was copied, and the copy was discarded.

    Args:
        path: the path of the file.
    """

    def __init__(self, path: str) -> None:
        text = "changed during the copy, which was discarded; copy it again when no program writes to it"
        super().__init__(errno.EBUSY, text, path)


class _RemoteFileChanged(FileChanged, ServerPathError):
    """As `FileChanged`; the file is one of the server's."""


def require_unchanged(descriptor: int, before: os.stat_result, path: str) -> None:
    """Raises `FileChanged` unless a local file is as it was `before`."""
    after = os.fstat(descriptor)
    if _local_state(after) != _local_state(before):
        raise FileChanged(path)


class RemoteFile:
    """A file at a server: its attributes before it is read are compared with those in the replies to READ."""

    def __init__(self, attributes: fattr3, node: Node) -> None:
        self.attributes = attributes
        """The attributes in the newest reply."""
        self.node = node
        self.heard = False
        """Whether a reply to READ has brought attributes."""
        self.changed = False
        """Whether such attributes differed from those before."""

    def hear(self, attributes: post_op_attr) -> None:
        """Compares the attributes of a reply, if it has any, with those at the start."""
        found = attributes.value
        if found is not None:
            self.heard = True
            self.changed = self.changed or _remote_state(found) != _remote_state(self.attributes)
            self.attributes = found

    def require_unchanged(self) -> None:
        """Raises `FileChanged` if the file is known to have changed."""
        if self.changed:
            raise _RemoteFileChanged(self.node.path)


def _local_state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remote_state(found: fattr3) -> tuple[object, ...]:
    return found.size, found.mtime, found.ctime


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def partial_name(name: str, size: int, mtime_ns: int) -> str:
    """Returns the name of the partial copy to `name` of a source with this size and mtime."""
    source = f"{size} {mtime_ns} {name}".encode("utf-8", "surrogateescape")
    return f".rpcrdma-{hashlib.blake2b(source, digest_size=8).hexdigest()}.part"


def of_no_use(error: BaseException) -> bool:
    """Returns whether the partial file is removed after this error: its source has changed, or the disk is full."""
    return isinstance(error, OSError) and (isinstance(error, FileChanged) or error.errno in _NO_ROOM)


def window_octets(calls: int, block: int) -> int:
    """Returns the distance, in octets, from the first incomplete block within which others may be begun."""
    return 2 * calls * block


class InOrder:
    """Blocks in progress: one that starts `window` octets or more after the first of them has to wait.

    After a failure no block begins: the blocks that wait raise it.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._begun: set[int] = set()
        self._moved = asyncio.Event()
        self._failure: Exception | None = None

    @contextlib.asynccontextmanager
    async def turn(self, start: int) -> AsyncIterator[None]:
        """Waits until the block at `start` may be begun; the block is done when the context ends without an error."""
        while self._begun and start - min(self._begun) >= self._window:
            self._moved.clear()
            await self._moved.wait()
            if self._failure is not None:
                raise self._failure
        self._begun.add(start)
        try:
            yield
        except Exception as error:
            self._failure = error
            raise
        else:
            self._begun.discard(start)
        finally:
            self._moved.set()
