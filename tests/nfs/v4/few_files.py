"""Exported objects without a file system: a root directory with files in memory; a handle is a name."""

from __future__ import annotations

import errno
import os
from typing import Any

from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.tree import (
    BAD_HANDLE,
    EXECUTE,
    MODIFY,
    READ,
    Attributes,
    Change,
    Create,
    CreateHow,
    FileKind,
    Refused,
    Wanted,
)
from rpcrdma.rpc.auth import AuthSys

__all__ = ["FewFiles", "FewLease", "File", "OpenedFile"]


class OpenedFile:
    """An open file; `open_files` of its tree counts those that are referred to."""

    def __init__(self, file: File, wanted: int) -> None:
        self.file, self.wanted = file, wanted
        file.tree.open_files += 1

    def __del__(self) -> None:
        self.file.tree.open_files -= 1


class FewLease:
    """A lease, which a writer on the server breaks by `FewFiles.broken`."""

    def __init__(self, tree: FewFiles) -> None:
        self.tree = tree
        tree.open_leases += 1

    def __del__(self) -> None:
        self.tree.open_leases -= 1

    @property
    def broken(self) -> bool:
        return self.tree.broken


class File:
    """An object: a file of an owner with a mode, or the root."""

    def __init__(
        self, tree: FewFiles, name: str, kind: FileKind = FileKind.FILE, mode: int = 0o666, uid: int = 0
    ) -> None:
        self.tree, self.name, self.kind, self.mode, self.uid = tree, name, kind, mode, uid
        self.size, self.change = 5, 1

    @property
    def handle(self) -> bytes:
        return self.name.encode()

    def attributes(self) -> Attributes:
        return Attributes(self.kind, self.mode, 1, self.uid, 0, self.size, 0, (0, 0), 1, 2, 0, 0, 0, self.change)

    def access(self, who: Any, wanted: int) -> int:
        uid = who.credential.uid if isinstance(who.credential, AuthSys) else 65534
        bits = self.mode >> 6 if uid == self.uid else self.mode
        granted = (READ if bits & 4 else 0) | (MODIFY if bits & 2 else 0) | (EXECUTE if bits & 1 else 0)
        return wanted & granted

    def lookup(self, _who: Any, name: bytes, *, at_once: bool) -> File | None:
        if at_once and self.tree.cold:
            return None
        if name not in self.tree.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.tree.files[name]

    def open(self, _who: Any, wanted: int, *, at_once: bool) -> OpenedFile | None:
        return None if at_once and self.tree.cold else OpenedFile(self, wanted)

    def lease(self, told: Any) -> FewLease | None:
        self.tree.told = told
        return FewLease(self.tree) if self.tree.leases else None

    def range_locks(self, *, exclusive: bool) -> None:
        return None

    def create(self, who: Any, name: bytes, create: Create, change: Change) -> Any:
        existing = self.tree.files.get(name)
        if existing is not None and create.how is CreateHow.EXCLUSIVE and create.verifier == self.tree.verifiers[name]:
            return existing
        if existing is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        change.before = self.attributes()
        made = self.tree.add(name.decode(), uid=who.credential.uid)
        self.tree.verifiers[name] = create.verifier
        self.change += 1
        change.after = self.attributes()
        return made

    def set_attributes(self, _who: Any, wanted: Wanted, _change: Change) -> None:
        if self.tree.full:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if wanted.size is not None:
            self.size = wanted.size
        if wanted.mode is not None:
            self.mode = wanted.mode


class FewFiles:
    """Implements `Exports` and `Tree` as far as opens need them."""

    def __init__(self) -> None:
        self.files: dict[bytes, File] = {}
        self.verifiers: dict[bytes, bytes] = {}
        self.read_only = False
        self.in_memory = self.keeps_removed = True
        self.xattrs = False
        self.cold = False
        """Whether everything would have to be waited for."""
        self.full = False
        self.same: dict[bytes, bytes] = {}
        """The other handle of a file, by one of its handles."""
        self.open_files = 0
        self.leases = self.broken = False
        self.open_leases = 0
        self.told: Any = None
        """Is called when a writer breaks the newest lease."""
        self.root = self.add("root", FileKind.DIRECTORY, 0o777)
        self.add("file")

    def add(self, name: str, *more: Any, **named: Any) -> File:
        file = self.files[name.encode()] = File(self, name, *more, **named)
        return file

    def locate(self, handle: bytes, context: Any, *, any_flavor: bool = False) -> tuple[File, Grant]:
        if handle not in self.files:
            raise Refused(BAD_HANDLE)
        return self.files[handle], self.admit(context, 4)

    def admit(self, context: Any, _version: int) -> Grant:
        return Grant(ServingUser(), read_only=self.read_only, credential=context.credential)

    def check_host(self, _context: Any) -> None:
        """Each host may use the files."""

    def file_of(self, handle: bytes) -> bytes:
        return self.same.get(handle, handle)

    def mounted_in(self, _tree: Any) -> dict[bytes, Any]:
        """No name leads to another export."""
        return {}

    def is_export(self, _node: Any) -> bool:
        return False
