"""A disk in memory for simulated servers: files, directories, symbolic links, and crashes that lose unstable writes.

Object numbers, times and write verifiers depend only on the calls and on the clock that is handed in, so that the same
calls give the same octets in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rpcrdma.nfs import v3

__all__ = ["DiskObject", "MemoryDisk", "Refused"]

_STATUS = v3.nfsstat3
_ROOT = 1
_DISK_OCTETS_MAX = 1 << 28
"""Data of all files, by default: an offset of a WRITE must not make a test machine allocate terabytes."""


class Refused(Exception):
    """A call ends with `status`."""

    def __init__(self, status: v3.nfsstat3) -> None:
        super().__init__(status.name)
        self.status = status


@dataclass(slots=True, eq=False)
class DiskObject:
    """A file, directory or symbolic link; times in nanoseconds since the clock's start."""

    number: int
    kind: v3.ftype3
    mode: int
    atime: int
    mtime: int
    ctime: int
    uid: int = 0
    gid: int = 0
    links: int = 1
    data: bytearray = field(default_factory=bytearray)
    """The content of a file, unstable writes included."""
    stable: bytes | None = None
    """The content that every crash leaves; None: `data`."""
    unstable: list[tuple[int, bytes]] = field(default_factory=list)
    """(offset, octets) of the writes since `stable`, in order."""
    target: str = ""
    """The path in a symbolic link."""
    entries: dict[str, tuple[int, DiskObject]] = field(default_factory=dict)
    """Of a directory: a cookie for each name, and the object."""
    parent: DiskObject | None = None
    """Of a directory, apart from the root."""


class MemoryDisk:
    """All objects by number. `now_s` gives the time; `octets_max` bounds the data of all files.

    Methods raise `Refused` with the status of RFC 1813 for the case. Changes of names and attributes are stable at once
    (RFC 1813 section 4.8 allows unstable data alone).
    """

    def __init__(self, now_s: Callable[[], float], *, octets_max: int = _DISK_OCTETS_MAX) -> None:
        self._now_s = now_s
        self._octets_max = octets_max
        self._octets = 0
        self._last = 0
        self._cookies = 2
        self._boots = 1
        self.objects: dict[int, DiskObject] = {}
        self.root = self._object(v3.ftype3.NF3DIR, 0o777)

    @property
    def verifier(self) -> bytes:
        """Another one after each crash (RFC 1813 section 3.3.7)."""
        return self._boots.to_bytes(v3.NFS3_WRITEVERFSIZE, "big")

    def now_ns(self) -> int:
        """The time on the disk's clock."""
        return round(self._now_s() * 1e9)

    def crash(self, is_kept: Callable[[], bool]) -> None:
        """Ends a run of the server: asks for each unstable write whether it has reached the disk."""
        self._boots += 1
        for each in self.objects.values():
            if each.stable is None:
                continue
            unstable, octets = each.unstable, len(each.data)
            each.data = bytearray(each.stable)
            each.stable, each.unstable = None, []
            for offset, data in unstable:
                if is_kept():
                    _place(each.data, offset, data)
            self._octets += len(each.data) - octets

    def object(self, handle: bytes) -> DiskObject:
        """The object of a handle, which is the object's number in 8 octets."""
        if len(handle) != 8:
            raise Refused(_STATUS.NFS3ERR_BADHANDLE)
        found = self.objects.get(int.from_bytes(handle, "big"))
        if found is None:
            raise Refused(_STATUS.NFS3ERR_STALE)
        return found

    def directory(self, handle: bytes) -> DiskObject:
        """The directory of a handle."""
        return _directory(self.object(handle))

    def file(self, handle: bytes) -> DiskObject:
        """The file of a handle."""
        found = self.object(handle)
        if found.kind is v3.ftype3.NF3DIR:
            raise Refused(_STATUS.NFS3ERR_ISDIR)
        if found.kind is not v3.ftype3.NF3REG:
            raise Refused(_STATUS.NFS3ERR_INVAL)
        return found

    def find(self, directory: DiskObject, name: str) -> DiskObject:
        """The object with a name, "." and ".." included."""
        if name == ".":
            return directory
        if name == "..":
            return directory.parent or directory
        found = directory.entries.get(name)
        if found is None:
            raise Refused(_STATUS.NFS3ERR_NOENT)
        return found[1]

    def make(self, directory: DiskObject, name: str, kind: v3.ftype3, mode: int) -> DiskObject:
        """A new object with a new name."""
        _check_name(name)
        if name in directory.entries:
            raise Refused(_STATUS.NFS3ERR_EXIST)
        made = self._object(kind, mode)
        if kind is v3.ftype3.NF3DIR:
            made.parent = directory
        self._enter(directory, name, made)
        return made

    def link(self, found: DiskObject, directory: DiskObject, name: str) -> None:
        """One more name for an object that is no directory."""
        _check_name(name)
        if found.kind is v3.ftype3.NF3DIR:
            raise Refused(_STATUS.NFS3ERR_ISDIR)
        if name in directory.entries:
            raise Refused(_STATUS.NFS3ERR_EXIST)
        found.links += 1
        found.ctime = self.now_ns()
        self._enter(directory, name, found)

    def remove(self, directory: DiskObject, name: str, *, is_directory: bool) -> None:
        """Removes a name, and the object with its last one."""
        found = self.find(directory, name)
        if name in (".", "..") or is_directory != (found.kind is v3.ftype3.NF3DIR):
            raise Refused(_STATUS.NFS3ERR_NOTDIR if is_directory else _STATUS.NFS3ERR_ISDIR)
        if found.entries:
            raise Refused(_STATUS.NFS3ERR_NOTEMPTY)
        del directory.entries[name]
        directory.mtime = directory.ctime = found.ctime = self.now_ns()
        found.links -= 1
        if not found.links:
            self._octets -= len(found.data)
            del self.objects[found.number]

    def rename(self, source: DiskObject, name: str, target: DiskObject, new_name: str) -> None:
        """Moves a name, in place of one that exists, if both are directories or neither is."""
        _check_name(new_name)
        moved = self.find(source, name)
        above: DiskObject | None = target
        while above is not None:
            if above is moved:
                raise Refused(_STATUS.NFS3ERR_INVAL)
            above = above.parent
        there = target.entries.get(new_name)
        if there is not None:
            if there[1] is moved:
                return
            self.remove(target, new_name, is_directory=moved.kind is v3.ftype3.NF3DIR)
        del source.entries[name]
        source.mtime = source.ctime = self.now_ns()
        if moved.kind is v3.ftype3.NF3DIR:
            moved.parent = target
        self._enter(target, new_name, moved)

    def write(self, file: DiskObject, offset: int, data: bytes, *, stable: bool) -> None:
        """Writes at an offset; without `stable` a crash before the next `commit` may lose the data."""
        grown = max(offset + len(data) - len(file.data), 0)
        if offset + len(data) > self._octets_max:
            raise Refused(_STATUS.NFS3ERR_FBIG)
        if self._octets + grown > self._octets_max:
            raise Refused(_STATUS.NFS3ERR_NOSPC)
        self._octets += grown
        if stable:
            self.commit(file)
        elif file.stable is None:
            file.stable = bytes(file.data)
        if not stable:
            file.unstable.append((offset, data))
        _place(file.data, offset, data)
        file.mtime = file.ctime = self.now_ns()

    def commit(self, file: DiskObject) -> None:
        """Makes all writes stable."""
        file.stable = None
        file.unstable = []

    def resize(self, file: DiskObject, octets: int) -> None:
        """Cuts a file or extends it by zeros; earlier writes become stable."""
        if self._octets + octets - len(file.data) > self._octets_max:
            raise Refused(_STATUS.NFS3ERR_NOSPC)
        self.commit(file)
        self._octets += octets - len(file.data)
        del file.data[octets:]
        file.data.extend(bytes(octets - len(file.data)))
        file.mtime = file.ctime = self.now_ns()

    def _object(self, kind: v3.ftype3, mode: int) -> DiskObject:
        self._last += 1
        now = self.now_ns()
        made = DiskObject(self._last, kind, mode, now, now, now)
        made.links = 0 if self._last > _ROOT else 1
        self.objects[made.number] = made
        return made

    def _enter(self, directory: DiskObject, name: str, entered: DiskObject) -> None:
        self._cookies += 1
        entered.links = max(entered.links, 1)
        directory.entries[name] = self._cookies, entered
        directory.mtime = directory.ctime = self.now_ns()


def _directory(found: DiskObject) -> DiskObject:
    if found.kind is not v3.ftype3.NF3DIR:
        raise Refused(_STATUS.NFS3ERR_NOTDIR)
    return found


def _check_name(name: str) -> None:
    if name in (".", ".."):
        raise Refused(_STATUS.NFS3ERR_EXIST)
    if not name or "/" in name or "\0" in name:
        raise Refused(_STATUS.NFS3ERR_ACCES)
    if len(name.encode("utf-8", "surrogateescape")) > v3.NFS3_MAXNAMLEN:
        raise Refused(_STATUS.NFS3ERR_NAMETOOLONG)


def _place(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(offset - len(content), 0)))
    content[offset : offset + len(data)] = data
