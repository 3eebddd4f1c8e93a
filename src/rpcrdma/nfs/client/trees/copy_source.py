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
    "NO_ROOM",
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
    """An entry of a directory in a tree that is copied.

    Attributes:
        name: the name of the entry, as the server spells it.
        kind: the type, a constant of `stat` such as S_IFREG; 0 if unknown, and for a local device, pipe or socket.
        size: the size in octets.
        lost: the properties that the copy will lack.
        shared: the identity of a regular file with further names; None for other entries.
        entry: the server's entry for a download; None for an upload.
    """

    name: str
    kind: int
    size: int
    lost: Lost
    shared: SharedFile | None
    entry: DirEntry | None = None

    @property
    def is_directory(self) -> bool:
        """Whether the entry is a directory itself; False for a link to a directory."""
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
    """`FileChanged` for a file of the server, at `path` in the export."""


def require_unchanged(descriptor: int, before: os.stat_result, path: str) -> None:
    """Raises `FileChanged` unless size, mtime and ctime of the open local file `descriptor` are those in `before`.

    `path` is the file's path, for the error. Raises OSError if the attributes cannot be read.
    """
    after = os.fstat(descriptor)
    if _local_state(after) != _local_state(before):
        raise FileChanged(path)


class RemoteFile:
    """A file at a server that is read: sets `changed` when a reply to READ shows that the file has changed meanwhile.

    Args:
        attributes: the attributes before the first READ.
        node: the file.
    """

    def __init__(self, attributes: fattr3, node: Node) -> None:
        self.attributes = attributes
        """The attributes in the newest reply."""
        self.node = node
        self.heard = False
        """Whether a reply to READ has contained attributes."""
        self.changed = False
        """Whether size, mtime or ctime in such a reply differed from those before."""

    def hear(self, attributes: post_op_attr) -> None:
        """Stores the attributes of a reply in `self.attributes`, and sets `self.heard`; does nothing if it has none.

        Sets `self.changed` if size, mtime or ctime differ from those stored before; never resets it.
        """
        found = attributes.value
        if found is not None:
            self.heard = True
            self.changed = self.changed or _remote_state(found) != _remote_state(self.attributes)
            self.attributes = found

    def require_unchanged(self) -> None:
        """Raises `FileChanged` if size, mtime or ctime in a reply have differed from those before (`self.changed`)."""
        if self.changed:
            raise _RemoteFileChanged(self.node.path)


def _local_state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remote_state(found: fattr3) -> tuple[object, ...]:
    return found.size, found.mtime, found.ctime


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or an exhausted quota."""


def partial_name(name: str, size: int, mtime_ns: int) -> str:
    """Returns the name of the partial copy, which becomes `name`, of a source of `size` octets and mtime `mtime_ns`.

    `mtime_ns`: in nanoseconds since 1970. The same arguments always give the same name.
    """
    source = f"{size} {mtime_ns} {name}".encode("utf-8", "surrogateescape")
    return f".rpcrdma-{hashlib.blake2b(source, digest_size=8).hexdigest()}.part"


def of_no_use(error: BaseException) -> bool:
    """Returns whether a partial copy is of no use after `error`: True for FileChanged, and OSError ENOSPC or EDQUOT."""
    return isinstance(error, OSError) and (isinstance(error, FileChanged) or error.errno in NO_ROOM)


def window_octets(calls: int, block: int) -> int:
    """Returns how far, in octets, beyond the start of the first incomplete block a copy may begin other blocks.

    The result is that of two rounds of calls: `calls` is the most calls in flight, `block` the octets of a block, which
    one READ or WRITE transfers.
    """
    return 2 * calls * block


class InOrder:
    """The blocks in progress of a copy: a block `window` octets or more beyond the first of these waits.

    Blocks that wait when another block fails, or come later, raise its exception.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._begun: set[int] = set()
        self._moved = asyncio.Event()
        self._failure: Exception | None = None

    @contextlib.asynccontextmanager
    async def turn(self, start: int) -> AsyncIterator[None]:
        """Waits until the first block in progress starts less than `window` octets before the offset `start`.

        The `async with` block then copies the block at `start`. Its normal exit counts that block as done. After an
        exception in it, the block counts as in progress for good; unless that is a CancelledError, the calls that wait
        and all later ones raise it, too.
        """
        while self._failure is None and self._begun and start - min(self._begun) >= self._window:
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
