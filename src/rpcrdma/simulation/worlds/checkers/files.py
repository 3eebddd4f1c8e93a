"""Checks that the files of a server are those of a model, which its clients keep of their own writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Kind
from rpcrdma.simulation.worlds.history import Violation

__all__ = ["UNKNOWN", "Content", "check_files"]


class _Unknown:
    """The content of a file, of which a call failed: it may have run or not."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()

Content = bytes | _Unknown | None
"""The content of a file; None: there is no such file."""


def check_files(disk: MemoryTree, model: Mapping[str, Content], where: str, at_s: float) -> Iterator[Violation]:
    """Looks at the disk itself, so that no READ hides a difference."""
    for name, wanted in sorted(model.items()):
        if isinstance(wanted, _Unknown):
            continue
        entry = disk.root.names.get(name.encode())
        have = None if entry is None else bytes(entry[1].data)
        if have != wanted:
            yield Violation("files", at_s, f"{where}, {name}: {_shown(have)} on the disk, {_shown(wanted)} written")
        elif entry is not None and entry[1].kind is Kind.FILE and entry[1].stable is not None:
            yield Violation("files", at_s, f"{where}, {name}: closed, and not all of it is on the disk")


def _shown(content: bytes | None) -> str:
    return "no file" if content is None else f"{len(content)} octets ({content[:8].hex()}…)"
