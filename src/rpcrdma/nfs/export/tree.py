"""The interface between versions of NFS and the file systems that a server exports.

A version finds the object of a file handle with `exports.Exports.locate`, and calls the methods of this `Node`. A node
stands for one object while a call is answered, and may hold a descriptor: a version keeps handles from call to call,
and nodes only with its opens and delegations. A file that stays open has an `OpenFile`.

Below this interface names are octets, times are nanoseconds since 1970 without bounds, and every refusal is an error
number: a method raises `Refused` or `OSError`, and each version has one table from numbers to its statuses.

A method with `at_once=True` never waits for a disk: it returns None (`OpenFile.read`: fewer octets) where it would have
to, and the handler asks again in a worker thread (`yield MAY_BLOCK`). Methods without `at_once` whose docstring does
not say "never waits" are for worker threads. All are thread-safe.
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
from rpcrdma.nfs.export.grant import Admitting, Grant
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
"""The most octets of one READ or WRITE."""
OFFSET_MAX = (1 << 63) - 1
"""The largest size of a file in octets."""
DOTS = {b".", b".."}
"""The entries "." and "..", which every directory has for itself and for the directory above."""
NAME_OCTETS_MAX = 255
"""Octets of one name in a directory: NAME_MAX of Linux."""

BAD_HANDLE: Final = errno.EBADFD
"""The error number for a file handle that this server did not make. No system call on a file returns it."""
NOT_SYNC: Final = errno.ECANCELED
"""The error number for SETATTR with a guard where the object has changed since the client read its attributes."""


class Refused(Exception):
    """A refusal of a call by the server itself, not by the system; `errno` is the number of the nearest system error.

    Each version of NFS has a status for it. EACCES: the caller or host lacks the right; ESTALE: the object is gone;
    EAGAIN: the client has to retry; `BAD_HANDLE`: not a handle of this server; `NOT_SYNC`: SETATTR's guard has failed.
    """

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode[number])
        self.errno = number


REFUSALS = (Refused, OSError)
"""The exceptions that a server answers with a status of NFS; any other exception is a fault of the server."""

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
    """The types of file system objects; the values are the type bits of `st_mode`."""

    FILE = stat.S_IFREG
    DIRECTORY = stat.S_IFDIR
    SYMLINK = stat.S_IFLNK
    BLOCK_DEVICE = stat.S_IFBLK
    CHARACTER_DEVICE = stat.S_IFCHR
    SOCKET = stat.S_IFSOCK
    FIFO = stat.S_IFIFO


TYPE_BITS: Final = 0o170000
"""The mask of the bits of `st_mode` that hold the type."""
KINDS: dict[int, FileKind] = {int(kind): kind for kind in FileKind}
"""The types by their bits of `st_mode`: a look-up costs less than a call of the class."""


@dataclass(slots=True, eq=False)
class Attributes:
    """The attributes of an object at one moment; times in nanoseconds since 1970, sizes in octets.

    `change` differs from state to state of one object. `fsid` is the number of the export, the same in each run of the
    server, and `number` is the inode number.
    """

    kind: FileKind
    mode: int
    """The permission bits, at most 0o7777."""
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
    """These attributes as the version of NFS that encoded them last represents them, kept for its next reply; None: not
    made yet."""


class ServerTime(enum.Enum):
    """The type of `SERVER_TIME`, its one value, which stands for the present time of the server's clock."""

    NOW = "now"


SERVER_TIME: Final = ServerTime.NOW
"""A stand-in for a time in `Wanted`: the present time of the server's clock."""
Time: TypeAlias = int | ServerTime | None
"""A time to be set, in nanoseconds since 1970, or `SERVER_TIME`; None leaves the time as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The attributes that SETATTR or a creation sets; None leaves the attribute as it is, or at a new object's default.

    `mode` is at most 0o7777, `size` is in octets, and times are nanoseconds since 1970, or `SERVER_TIME` for "now".
    """

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: Time = None
    mtime: Time = None


class CreateHow(enum.Enum):
    """The treatment of an existing file by `Node.create`: the `createmode3` of RFC 1813 section 3.3.8."""

    UNCHECKED = "unchecked"
    """The existing file is taken and gets the size `Wanted.size` unless that is None; its other attributes stay. The
    creation fails with EEXIST if the object is no regular file."""
    GUARDED = "guarded"
    """The creation fails with EEXIST."""
    EXCLUSIVE = "exclusive"
    """The creation fails with EEXIST unless an earlier try with the same verifier created the file."""


@dataclass(frozen=True, slots=True)
class Create:
    """How `Node.create` creates a regular file, and the attributes that it gets (EXCLUSIVE: a tree may set none).

    `verifier` has 8 octets with EXCLUSIVE and is empty otherwise. The file keeps it in its times of access and
    modification.
    """

    how: CreateHow
    wanted: Wanted = Wanted()
    verifier: bytes = b""


class Make(NamedTuple):
    """The object that `Node.make` makes: a directory, symbolic link, device, socket or FIFO.

    `target` is the path in a symbolic link, and `device` the (major, minor) number of a device.
    """

    kind: FileKind
    target: bytes = b""
    device: tuple[int, int] = (0, 0)


@dataclass(slots=True, eq=False)
class Change:
    """The attributes of one object before and after a change by a call, with no other client's change in between.

    The caller of a method makes an empty instance, and the method fills it, also where it raises. Both fields are None
    if the call fails before it begins the change.
    """

    before: Attributes | None = None
    after: Attributes | None = None


@dataclass(slots=True)
class Entry:
    """An entry of a directory, as `Entries` yields it.

    `cookie` names the place in the listing. `handle` and `attributes` are None unless details were asked for, and also
    if they cannot be read, the name leads to another file system, or (except "." and "..") the caller may not search.
    """

    cookie: int
    name: bytes
    number: int
    """The inode number."""
    handle: bytes | None = None
    attributes: Attributes | None = None


class Entries(Protocol):
    """The entries of a directory in the order of their cookies, as `Node.entries` returns them.

    Iteration reads the directory, so it may block and raise Refused or OSError. Entries with the same cookie must all
    be in one reply.
    """

    complete: bool
    """Whether no entries follow the last one that the iteration yielded; valid when the iteration has ended."""

    def __iter__(self) -> Iterator[Entry]: ...


class Space(NamedTuple):
    """The octets and files of a file system: the total, the free ones, and those that unprivileged users may take."""

    total: int
    free: int
    available: int
    files_total: int
    files_free: int
    files_available: int


class PathLimits(NamedTuple):
    """The bounds of a file system: the most hard links of an object, and the most octets of a name."""

    links: int
    name_octets: int


class Stable(enum.IntEnum):
    """How stable written data is when the write is answered; the values are `stable_how` of all versions of NFS."""

    UNSTABLE = 0
    """The data may be in memory alone: `OpenFile.commit` puts it on the disk."""
    DATA_SYNC = 1
    """The data is on the disk, with the attributes that are needed to read it."""
    FILE_SYNC = 2
    """The data is on the disk, with all attributes."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: the octets written, how stable they are at least, and the 8-octet write verifier.

    The verifier changes when the server loses unstable data (RFC 1813 section 3.3.7).
    """

    octets: int
    stable: Stable
    verifier: bytes


class OpenFile(Protocol):
    """A regular file open for reading, writing or both, as `Node.open` returns it.

    Several callers may share an instance. It stays usable when a file of this machine is renamed or removed; a file of
    a remote store is then gone (ESTALE). A descriptor closes with the last reference to the instance.
    """

    @property
    def handle(self) -> bytes:
        """The NFS handle of the file."""

    def attributes(self) -> Attributes:
        """Returns the present attributes of the file, in a remote store those when it was opened; never waits."""

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        """Reads from `offset`, in octets, into a buffer of at least one octet; returns the number of octets read.

        The number, maybe 0, is smaller than the buffer's length only at the end of the file, or with `at_once`, where
        reading stops before the first octet that may take a wait for a disk. Raises OSError or Refused, such as EIO.
        """

    def write(self, data: Buffer, offset: int, stable: Stable, change: Change, *, judge: bool) -> Written:
        """Writes `data` at `offset`, in octets; the calling thread has the user and groups of the NFS caller.

        A tree may write only the first `TRANSFER_OCTETS_MAX` octets; a short write is no error. Waits for the disk,
        except in a tree in memory; seldom waits if `stable` is UNSTABLE. `change` receives the attributes before and
        after. `judge`: whether the caller's right to write is checked (NFSv3, which has no OPEN).

        Raises:
            Refused: EACCES: with `judge`, the caller neither may write the file nor owns it; EROFS: nobody can write
                the file; EFBIG, ENOSPC: the write exceeds a bound of a tree in memory.
            OSError: ENOSPC, EDQUOT, EFBIG, EIO and others, by the file system.
        """

    def commit(self, change: Change) -> bytes:
        """Puts all unstable data of the file on the disk, and returns the write verifier as it was before the call.

        `change` gets the attributes before and after. Raises OSError if data is lost; the verifier has changed then, so
        that clients send their data again. Raises Refused (EROFS) for a file that nobody can write.
        """


class Lease(Protocol):
    """A watch on a file for writers and changes by local processes; it ends with the last reference to the instance.

    `Node.lease` returns it to a server that wants to delegate the file (RFC 8881 section 10.4). After the server has
    read `broken` as True, local writers wait for that end.
    """

    @property
    def broken(self) -> bool:
        """Whether a local process waits to write the file, or may have changed it; reading this never waits."""


class RangeLocks(Protocol):
    """Byte-range locks of the server on one file, mirrored as locks of the operating system that local processes obey.

    Where the file system or the system call cannot represent a lock, `change` accepts it and `in_the_way` finds none.
    """

    @property
    def exclusive(self) -> bool:
        """Whether the set can take write locks, too, and not read locks alone."""

    def change(self, wanted: Range, *, unlock: bool = False) -> bool:
        """Locks the octets of `wanted`, for writing if `wanted.exclusive` else reading, or unlocks them; never waits.

        Returns False, with nothing changed, if a lock of a local process conflicts, else True. May raise OSError.
        """

    def in_the_way(self, wanted: Range) -> Range | None:
        """Returns a local process's lock that conflicts with `wanted`, else None; never waits; may raise OSError."""


class Node(Protocol):
    """An object of an exported tree, for one call, or for an open or delegation. Each kind of tree has its own class.

    `who` is the caller's rights in the export. A `change` argument receives attributes before and after the change: in
    `set_attributes` those of this object, else those of the directory whose names change. Methods that change something
    do not look at `who.read_only`: a version calls `check_changeable` before. Names that stand for no single entry are
    refused (EACCES: empty, with a slash or a null octet; ENAMETOOLONG); "." and ".." are names for `lookup` alone.
    Methods with `who` raise `service.WorkerNeeded` in an event loop whose thread may act as the server's user alone.
    """

    @property
    def handle(self) -> bytes:
        """The file handle: at most 64 octets, the same in each run of the server."""

    @property
    def kind(self) -> FileKind:
        """The type of the object."""

    @property
    def tree(self) -> Tree:
        """The exported tree that the object belongs to."""

    def attributes(self) -> Attributes:
        """Returns the present attributes of the object, in a remote store the last known; never waits for a disk."""

    def access(self, who: Grant, wanted: Access) -> Access:
        """Returns the rights in `wanted`, a sum of `READ`, `LOOKUP` and so on, that `who` has here; never waits."""

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> Node | None:
        """Returns the object of a name in this directory, "." and ".." included; never waits for a disk if `at_once`.

        Returns None only with `at_once`, if the look-up may have to wait for a disk.

        Raises:
            Refused: ENOTDIR; EACCES: the name is invalid, leads to another file system, or `who` may not search;
                ENAMETOOLONG; ENOENT; ESTALE for "..": the directory above is not in the export.
            OSError: ENOENT, EACCES and others.
        """

    def parent(self) -> Node:
        """Returns the directory above this one; the root of the export is its own parent.

        May wait for a disk or a remote store. Raises Refused (ESTALE: the directory above is not in the export; other
        numbers: a store refuses), or OSError if it cannot be reached.
        """

    def read_link(self) -> bytes:
        """Returns the path in this symbolic link; may wait for a disk or a store.

        Raises Refused (EINVAL: the object is no symbolic link; ESTALE: it is gone; and others) or OSError.
        """

    def entries(self, who: Grant, after: int, *, detailed: bool) -> Entries:
        """Returns the entries of this directory whose cookies are larger than `after`, to be read by iteration; 0: all.

        Cookies stay valid for ever. "." and ".." have 1 and 2. `detailed`: whether entries have handles and attributes.
        Raises Refused: ENOTDIR; EACCES: the caller may not read the directory.
        """

    def open(self, who: Grant, wanted: Access, *, at_once: bool) -> OpenFile | None:
        """Opens this regular file for READ, MODIFY or both (`wanted`), if the caller `who` may do so or owns the file.

        READ is also granted to callers who may execute the file, since their system has to load it.

        Returns:
            The open file; None only with `at_once`, if opening may have to wait for a disk.

        Raises:
            Refused: EISDIR, EINVAL: no regular file; EACCES: `who` lacks the right; EROFS: nobody can write it.
            OSError: EACCES: `who` lacks the right, where the system checks it; and others.
        """

    def open_to_read(self, who: Grant, *, at_once: bool) -> tuple[OpenFile, Attributes] | None:
        """Opens this regular file if `who` may read or execute it, or owns it; returns (open file, its attributes now).

        Returns None only with `at_once`, if opening may have to wait for a disk. Raises Refused or OSError: EISDIR,
        EINVAL: the object is no regular file; EACCES: `who` lacks the right; and others.
        """

    def opened_for_writing(self) -> OpenFile | None:
        """Returns this file if the server already has it open to write, else None; checks no rights, never waits."""

    def lease(self, on_writer: Callable[[], object]) -> Lease | None:
        """Takes a lease on this regular file; a version calls `open` afterwards, so as to miss no change in between.

        Closes a descriptor for writing that the server holds unused. Never waits in a tree in memory.

        Args:
            on_writer: is called, in any thread, when the lease is broken; replaces that of earlier leases on the file.

        Returns:
            The lease; None: the file can have none, or none now, as while it is open for writing: do not delegate it.
        """

    def range_locks(self, *, exclusive: bool) -> RangeLocks | None:
        """Returns a new, empty set of locks on this file; None if no local process sees the file, or opening it fails.

        `exclusive`: whether the set is to take write locks, for which the file is opened for writing, if possible. A
        `Lease` on the file then no longer makes local writers wait: it breaks when a local process opens the file.
        """

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> Node:
        """Creates a regular file here as `who`, or takes an existing one; returns its node.

        A local process may have renamed the file already. `change` gets the directory's attributes before and after.
        Raises Refused or OSError: ENOTDIR, ENAMETOOLONG, EACCES; EEXIST: the name is taken, and `create.how` does not
        allow to take its object; ENOSPC and others.
        """

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> Node | None:
        """Makes a directory, symbolic link, device, socket or FIFO in this directory as the caller `who`.

        Returns its node; None: it was made, but is not found by its name, mostly since a local process has renamed or
        removed it. `wanted.size` has no effect. `change` gets the directory's attributes before and after. Raises
        Refused or OSError: ENOTDIR, EACCES, ENAMETOOLONG; EEXIST: the name is taken; EINVAL: `make.kind` is FILE;
        ENOSPC and others.
        """

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        """Sets, as `who`, the attributes in `wanted` that are not None; `change` gets the attributes before and after.

        `guard` gets the attributes before the change, and returns False to refuse the change; None refuses none.

        Raises:
            Refused: NOT_SYNC: `guard` has returned False; EISDIR, EINVAL: a size for an object that is no regular file;
                EINVAL: an invalid owner; EACCES, EFBIG, ENOSPC.
            OSError: EACCES, EPERM, EFBIG, ENOSPC and others; some attributes may have been set.
        """

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """Removes `name` from this directory as the caller `who`, and the object with its last name.

        `change` gets the directory's attributes before and after. `is_directory`: `name` has to be a directory's (True,
        RMDIR of NFSv3), must not be (False), or may be either (None). Raises Refused or OSError: ENOENT, EACCES,
        ENOTEMPTY; ENOTDIR, EISDIR: against `is_directory`; and others.
        """

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        """Renames `old` of this directory to `new` in directory `target` as the caller; replaces an object named `new`.

        Both names stay if they stand for one object. `source` and `into` receive the attributes of this directory and
        of `target` before and after. Raises Refused or OSError: EXDEV: `target` is in another tree; EINVAL: "." or
        "..", or `target` is in the renamed directory; ENOENT, EACCES; ENOTEMPTY, ENOTDIR, EISDIR: the object named
        `new` cannot be replaced; and others.
        """

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        """Gives this object the further name `name` in `directory`; `change` receives the attributes of `directory`.

        Raises Refused or OSError: ENOTDIR: `directory` is no directory; EISDIR: this object is one; EXDEV: `directory`
        is in another tree; EEXIST: the name is taken; EACCES, EMLINK and others.
        """

    def space(self) -> Space:
        """Returns the total and free octets and files of this object's file system, 0 if unknown; may raise OSError."""

    def path_limits(self) -> PathLimits:
        """Returns the most hard links of an object and the most octets of a name in this object's file system."""


class Tree(Admitting, Protocol):
    """One export: a directory with all that is below it in one file system. Each kind of export has its own class."""

    @property
    def export(self) -> ExportTerms:
        """The name of the export, and the terms on which clients may use it."""

    @property
    def fsid(self) -> int:
        """A number of 32 bits that identifies the export, the same in each run of the server."""

    @property
    def in_memory(self) -> bool:
        """Whether reading and writing open files never waits for a disk."""

    @property
    def always_waits(self) -> bool:
        """Whether even a look at an object may wait for a server or a process that does not answer."""

    @property
    def transfer_octets(self) -> int:
        """The most octets of one READ or WRITE."""

    @property
    def keeps_removed(self) -> bool:
        """Whether an open file stays when its last name is removed, by a client or by any other program.

        False: such a file is gone (ESTALE), and an `OpenFile` has one state alone: each READ opens the file anew.
        """

    @property
    def xattrs(self) -> bool:
        """Whether the objects of the tree have extended attributes, as `abilities.Extended` describes."""

    @property
    def root(self) -> Node:
        """The object of the exported directory."""


def check_changeable(who: Grant) -> None:
    """Raises Refused (EROFS) if `who`, the rights of a caller in an export, is read-only; otherwise does nothing."""
    if who.read_only:
        raise Refused(errno.EROFS)
