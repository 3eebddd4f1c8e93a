"""The interface between versions of NFS and the file systems that a server exports.

A version finds the object of a file handle with `exports.Exports.locate`, and calls the methods of this `Node`. A node
stands for one object while a call is answered, and may hold a descriptor: a version keeps handles from call to call,
never nodes. A file that stays open has an `OpenFile`.

Below this interface names are octets, times are nanoseconds since 1970 without bounds, and every refusal is an error
number: a method raises `Refused` or `OSError`, and each version has one table from numbers to its statuses.

A method with `at_once=True` never waits for a disk: it returns None where it would have to, and the handler asks again
in a worker thread (`yield MAY_BLOCK`). Methods without `at_once` whose docstring does not say "never waits" are for
worker threads. All are thread-safe.
"""

from __future__ import annotations

import enum
import errno
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.claims import Range
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "APPEND",
    "BAD_HANDLE",
    "DELETE",
    "DOTS",
    "EXECUTE",
    "KINDS",
    "LOOKUP",
    "MODIFY",
    "NAME_OCTETS_MAX",
    "NOT_SYNC",
    "OFFSET_MAX",
    "READ",
    "REFUSALS",
    "SERVER_TIME",
    "TRANSFER_OCTETS_MAX",
    "TYPE_BITS",
    "Access",
    "Attributes",
    "Change",
    "Create",
    "CreateHow",
    "Entries",
    "Entry",
    "FileKind",
    "Lease",
    "Made",
    "Make",
    "Node",
    "OpenFile",
    "PathLimits",
    "RangeLocks",
    "Refused",
    "ServerTime",
    "Space",
    "Stable",
    "Time",
    "Tree",
    "Wanted",
    "Written",
    "check_changeable",
]

TRANSFER_OCTETS_MAX = 1 << 20
"""Octets of one READ or WRITE."""
OFFSET_MAX = (1 << 63) - 1
"""The largest size of a file."""
DOTS = {b".", b".."}
"""Names that every directory has for itself and for the directory above."""
NAME_OCTETS_MAX = 255
"""Octets of one name in a directory: NAME_MAX of Linux."""

BAD_HANDLE: Final = errno.EBADFD
"""The number of a refusal: this server did not make the file handle. No call of the file system gives it."""
NOT_SYNC: Final = errno.ECANCELED
"""The number of a refusal: the object has changed since the client looked at it (SETATTR with a guard)."""


class Refused(Exception):
    """A refusal that no call of the operating system has made; `errno` is the number of the nearest error.

    EACCES: not for this caller or host; ESTALE: the object is gone; EAGAIN: try again later; `BAD_HANDLE`; `NOT_SYNC`.
    """

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode[number])
        self.errno = number


REFUSALS = (Refused, OSError)
"""Exceptions that a procedure answers with a status; any other is a fault of the server."""

Access: TypeAlias = int
"""A set of rights: the sum of some of the constants below, which are also the bits of ACCESS in all versions of NFS."""
READ: Final = 0x01
"""To read a file, or to list a directory."""
LOOKUP: Final = 0x02
"""To find a name in a directory."""
MODIFY: Final = 0x04
"""To write a file where it has data, or to change entries of a directory."""
APPEND: Final = 0x08
"""To write behind the end of a file, or to add entries to a directory."""
DELETE: Final = 0x10
"""To remove entries of a directory."""
EXECUTE: Final = 0x20
"""To execute a file."""


class FileKind(enum.IntEnum):
    """The types of objects, with their bits in `st_mode`."""

    FILE = stat.S_IFREG
    DIRECTORY = stat.S_IFDIR
    SYMLINK = stat.S_IFLNK
    BLOCK_DEVICE = stat.S_IFBLK
    CHARACTER_DEVICE = stat.S_IFCHR
    SOCKET = stat.S_IFSOCK
    FIFO = stat.S_IFIFO


TYPE_BITS: Final = 0o170000
"""The bits of `st_mode` that have the type."""
KINDS: dict[int, FileKind] = {int(kind): kind for kind in FileKind}
"""The types by these bits: a look-up costs less than a call of the class."""


@dataclass(slots=True, eq=False)
class Attributes:
    """The attributes of an object in one state of it; times in nanoseconds since 1970.

    `change` differs from state to state of one object. `fsid` and `number` name the object: the export's number, the
    same from run to run, and the inode number.
    """

    kind: FileKind
    mode: int
    """The permissions, at most 0o7777."""
    links: int
    uid: int
    gid: int
    size: int
    space_used: int
    """Octets on the disk."""
    device: tuple[int, int]
    """(major, minor) number of a device, else (0, 0)."""
    fsid: int
    number: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    change: int
    shown: Any = None
    """The same in the types of the version of NFS that has shown it last: kept for its next reply."""


class ServerTime(enum.Enum):
    """The type of `SERVER_TIME`."""

    NOW = "now"


SERVER_TIME: Final = ServerTime.NOW
"""The time of the server's clock, as a time to be set."""
Time: TypeAlias = int | ServerTime | None
"""A time to be set, in nanoseconds since 1970; None: it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Attributes to be set; None: the attribute stays, or gets its usual value in a new object."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: Time = None
    mtime: Time = None


class CreateHow(enum.Enum):
    """The treatment of an existing file by `Node.create`."""

    UNCHECKED = "unchecked"
    """It is opened, and `Wanted.size` cuts it; the other attributes stay."""
    GUARDED = "guarded"
    """EEXIST."""
    EXCLUSIVE = "exclusive"
    """EEXIST, unless an earlier try of the same call, by its verifier, has created it."""


@dataclass(frozen=True, slots=True)
class Create:
    """How a file is created; `verifier` has 8 octets and is for EXCLUSIVE, whose times it takes up."""

    how: CreateHow
    wanted: Wanted = Wanted()
    verifier: bytes = b""


class Make(NamedTuple):
    """An object to be made that is no file: its kind, the path in a symbolic link, (major, minor) of a device."""

    kind: FileKind
    target: bytes = b""
    device: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Made:
    """A new object.

    `node` None: it exists, but a local process has renamed it already. `is_new` is False for a file that existed.
    """

    node: Node | None
    is_new: bool


@dataclass(slots=True, eq=False)
class Change:
    """The attributes of an object before and after a change, with no other client's change in between.

    The version makes one for a call, and the method fills it, also where it raises. Both are None if the call fails
    before the change.
    """

    before: Attributes | None = None
    after: Attributes | None = None


@dataclass(slots=True)
class Entry:
    """An entry of a directory.

    `handle` and `attributes` are None where they were not asked for, the caller may not search the directory, or the
    name leads to another file system.
    """

    cookie: int
    name: bytes
    number: int
    """The inode number."""
    handle: bytes | None = None
    attributes: Attributes | None = None


class Entries(Protocol):
    """Entries of a directory in the order of their cookies, read while it is iterated over.

    Entries of one cookie must not be divided between two replies.
    """

    complete: bool
    """After the last entry: whether the directory has no further ones."""

    def __iter__(self) -> Iterator[Entry]: ...


class Space(NamedTuple):
    """Octets and files of a file system: all, free ones, and those that are free for users."""

    total: int
    free: int
    available: int
    files_total: int
    files_free: int
    files_available: int


class PathLimits(NamedTuple):
    """Bounds of a file system: names of one object, octets of a name."""

    links: int
    name_octets: int


class Stable(enum.IntEnum):
    """Where written data is when a write is answered; the values are those of all versions of NFS."""

    UNSTABLE = 0
    """Perhaps in memory alone: `OpenFile.commit` puts it on the disk."""
    DATA_SYNC = 1
    """On the disk, with the attributes that it takes to read it."""
    FILE_SYNC = 2
    """On the disk, with all attributes."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write: its octets, where they are at least, and the verifier, which changes when unstable data is lost."""

    octets: int
    stable: Stable
    verifier: bytes


class OpenFile(Protocol):
    """A regular file open for reading, writing or both; its descriptor closes with the last reference to it.

    It stays usable when the file is renamed or removed. Callers may share it.
    """

    @property
    def handle(self) -> bytes:
        """The handle of the file."""

    def attributes(self) -> Attributes:
        """Returns the present attributes; never waits."""

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        """Reads into a buffer of at least one octet; returns the octets read.

        Fewer than the buffer's: the file ends there, or with `at_once` the rest would have to be waited for.
        """

    def write(self, data: Buffer, offset: int, stable: Stable, change: Change, *, judge: bool) -> Written:
        """Writes at most `TRANSFER_OCTETS_MAX` octets, by a thread that acts as the caller (`Grant.identity`).

        It waits for the disk, unless the tree is in memory; seldom with UNSTABLE. `judge`: refuses with EACCES a caller
        who neither may write the file nor owns it, for a version that has no opens.

        Raises:
            Refused: EACCES: see `judge`; EFBIG.
            OSError: ENOSPC, EDQUOT, EFBIG, EIO and others.
        """

    def commit(self, change: Change) -> bytes:
        """Puts all unstable data on the disk; returns the verifier as it was before.

        Raises:
            OSError: data is lost; the verifier has changed, so that clients send their data again.
        """


class Lease(Protocol):
    """A watch on a file for changes by others than clients; it ends with the last reference to it."""

    @property
    def broken(self) -> bool:
        """Whether another process wants to write the file and may wait, or has changed it; the property never waits."""


class RangeLocks(Protocol):
    """Byte-range locks of this server on a file, which local processes see, and which see those of local processes.

    A file system without such locks, or without these very ones, accepts all.
    """

    def change(self, wanted: Range, *, unlock: bool = False) -> bool:
        """Locks or unlocks a range; never waits. Returns False if a lock of a local process is in the way."""

    def in_the_way(self, wanted: Range) -> Range | None:
        """Returns a lock of a local process that is in the way of locking a range; None if none is."""


class Node(Protocol):
    """An object of a tree, while a call is answered.

    Methods that change something are for callers who may change the tree (`check_changeable`).
    Names are refused if they stand for no single entry (EACCES: empty, with a slash or a null octet;
    ENAMETOOLONG); "." and ".." are names for `lookup` alone.
    """

    @property
    def handle(self) -> bytes:
        """The file handle, at most 64 octets, the same from run to run of the server."""

    @property
    def kind(self) -> FileKind:
        """The type of the object."""

    @property
    def tree(self) -> Tree:
        """The tree of the object."""

    def attributes(self) -> Attributes:
        """Returns the present attributes; never waits."""

    def access(self, who: Grant, wanted: Access) -> Access:
        """Returns the rights that a caller has of those wanted; never waits."""

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> Node | None:
        """Returns the object of a name in this directory; "." and ".." are known.

        With `at_once` None where that would wait for a disk.

        Raises:
            Refused: ENOTDIR; EACCES: it is in another file system.
            OSError: ENOENT and others.
        """

    def parent(self) -> Node:
        """Returns the directory above this one; the root is above itself. Refused (ESTALE): it is not in the export."""

    def read_link(self) -> bytes:
        """Returns the path in a symbolic link; Refused (EINVAL) for other objects."""

    def entries(self, who: Grant, after: int, *, detailed: bool) -> Entries:
        """Returns the entries of this directory after a cookie, 0 for all; `detailed`: with handles and attributes.

        Cookies hold for ever. "." and ".." have 1 and 2. Refused: ENOTDIR; EACCES: the caller may not read it.
        """

    def open(self, who: Grant, wanted: Access, *, at_once: bool) -> OpenFile | None:
        """Opens a regular file for READ, MODIFY or both, if the caller may do so, or owns it.

        READ is also granted to those who may execute it, whose system has to load it. With `at_once` None where
        opening would wait for a disk.

        Raises:
            Refused: EISDIR, EINVAL: it is no regular file; EACCES.
            OSError: EACCES and others.
        """

    def open_to_read(self, who: Grant, *, at_once: bool) -> tuple[OpenFile, Attributes] | None:
        """Opens a regular file for READ, as `open` does; returns its attributes, too, which `open` has to look at."""

    def opened_for_writing(self) -> OpenFile | None:
        """Returns the file if a call has opened it for writing, else None; judges nobody (see `OpenFile.write`)."""

    def lease(self, on_writer: Callable[[], object]) -> Lease | None:
        """Takes a lease on this regular file; None: writers that are no clients would stay unnoticed.

        To be taken before the file is opened for reading: it closes an idle descriptor for writing. Never waits where
        the tree is in memory. `on_writer` is called in any thread when the lease breaks.
        """

    def range_locks(self) -> RangeLocks | None:
        """Makes a set of locks on this regular file, empty at first; None: no local process could see them."""

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> Made:
        """Creates a regular file in this directory; `change` is the directory's.

        Raises:
            Refused, OSError: ENOTDIR, ENAMETOOLONG, EACCES; EEXIST: see `CreateHow`; ENOSPC and others.
        """

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> Made:
        """Makes a directory, symbolic link, device, socket or FIFO in this directory; `change` is the directory's.

        Raises:
            Refused, OSError: ENOTDIR, ENAMETOOLONG, EACCES; EEXIST: the name is taken; EINVAL, ENOSPC and others.
        """

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        """Sets attributes; `change` is this object's.

        Raises:
            Refused: NOT_SYNC: `guard` is given, and returns False for the attributes before; EINVAL.
            OSError: EACCES, EPERM, EFBIG, ENOSPC and others; some attributes may have been set.
        """

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """Removes a name from this directory: of a directory, of another object, or (None) of either.

        Raises:
            Refused, OSError: ENOENT, EACCES, ENOTEMPTY; ENOTDIR, EISDIR: `is_directory` says otherwise; and others.
        """

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        """Renames `old` of this directory to `new` in the directory `target`; `source` and `into` are their changes.

        An object that has the new name is replaced.

        Raises:
            Refused, OSError: see `name_rules.check_rename`; ENOENT, EACCES, ENOTEMPTY, EISDIR and others.
        """

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        """Gives this object a further name in a directory, whose change is `change`.

        Raises:
            Refused, OSError: see `name_rules.check_link`; EEXIST: the name is taken; EACCES, EMLINK and others.
        """

    def space(self) -> Space:
        """Returns the space of the object's file system."""

    def path_limits(self) -> PathLimits:
        """Returns the bounds of the object's file system on names and links."""


class Tree(Protocol):
    """One export: a directory with all that is below it in one file system."""

    @property
    def export(self) -> ExportTerms:
        """The name of the tree, and the terms on which clients may use it."""

    @property
    def fsid(self) -> int:
        """A number of 32 bits that stands for the tree, the same from run to run."""

    @property
    def in_memory(self) -> bool:
        """Whether reading and writing open files never waits for a disk."""

    @property
    def transfer_octets(self) -> int:
        """The most octets that one READ or WRITE may move."""

    @property
    def xattrs(self) -> bool:
        """Whether the nodes of the tree have extended attributes: see `abilities.Extended`."""

    @property
    def root(self) -> Node:
        """The exported directory."""


def check_changeable(who: Grant) -> None:
    """Raises Refused (EROFS) for a caller who may only read."""
    if who.read_only:
        raise Refused(errno.EROFS)
