"""Checks that the files of a server equal a model, which its clients keep of their own writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rpcrdma.testing import MemoryFiles
from rpcrdma_lab.simulation.worlds.history import Violation

__all__ = ["UNKNOWN", "Content", "check_files"]


class _Unknown:
    """The content of a file after a failed call, which the server may have executed or not."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()

Content = bytes | _Unknown | None
"""The content of a file; None: there is no file."""


def check_files(disk: MemoryFiles, model: Mapping[str, Content], where: str, at_s: float) -> Iterator[Violation]:
    """Yields a violation for each file of `model` whose content is not the expected one, or not on stable storage.

    Other files are not checked.

    Args:
        disk: the server's files, which are read without NFS.
        model: the expected content by file name; None: there is no such file. `UNKNOWN` is not compared.
        where: the owner of the files, for the texts of violations.
        at_s: the virtual time in seconds for the violations.
    """
    for name, wanted in sorted(model.items()):
        if isinstance(wanted, _Unknown):
            continue
        have = disk.content(name)
        if have != wanted:
            yield Violation("files", at_s, f"{where}, {name}: {_shown(have)} on the disk, {_shown(wanted)} written")
        elif not disk.is_stable(name):
            yield Violation("files", at_s, f"{where}, {name}: closed, and not all of it is on the disk")


def _shown(content: bytes | None) -> str:
    return "no file" if content is None else f"{len(content)} octets ({content[:8].hex()}…)"
