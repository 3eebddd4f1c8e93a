"""Opens files of local directories, creates files and other objects, and sets attributes."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeAlias

from rpcrdma.nfs.export.file_access import OpenFile
from rpcrdma.nfs.export.file_handle import HandleSeal
from rpcrdma.nfs.export.grant import CallerIdentity, Grant
from rpcrdma.nfs.export.linux_calls import UTIME_NOW, UTIME_OMIT, file_clock_ns, set_file_times
from rpcrdma.nfs.export.local_leases import LocalLease
from rpcrdma.nfs.export.local_object import LocalObject
from rpcrdma.nfs.export.lock_mirror import LocalLocks
from rpcrdma.nfs.export.name_rules import check_new_name
from rpcrdma.nfs.export.open_object import Changing
from rpcrdma.nfs.export.tree import (
    NOT_SYNC,
    OFFSET_MAX,
    READ,
    SERVER_TIME,
    Access,
    Attributes,
    Change,
    Create,
    CreateHow,
    FileKind,
    Make,
    Node,
    Refused,
    Time,
    Wanted,
)

__all__ = ["Files"]

_FILE_MODE = 0o600
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_MODE = 0o700
_VERIFIER = struct.Struct(">II")
_NO_ID = 0xFFFFFFFF
_CREATE_TRIES = 16
_MAJOR_MAX, _MINOR_MAX = 0xFFF, 0xFFFFF
"""The largest numbers of a device: the kernel cuts off the rest, and would make another device."""
_SECOND = 1_000_000_000
_SPECIAL = {FileKind.CHARACTER_DEVICE, FileKind.BLOCK_DEVICE, FileKind.SOCKET, FileKind.FIFO}

_Call: TypeAlias = Callable[[bytes, int], None]
"""Makes an object with a name in the directory of a descriptor; raises OSError."""


class Files(LocalObject):
    """The part of the class of local nodes that opens files, makes objects and sets attributes, for `tree.Node`.

    Changes are synced if the export asks for that (`ExportTerms.synchronous`).
    """

    __slots__ = ()

    def open(self, who: Grant, wanted: Access, *, at_once: bool) -> OpenFile | None:
        """Opens this regular file for READ, MODIFY or both (`wanted`), if the caller `who` may do so or owns the file.

        A caller who may execute it may read it. Returns None with `at_once`, unless `wanted` is READ and the file is
        open to read already. Raises Refused (EISDIR, EINVAL) if it is no regular file; Refused (EACCES) or
        PermissionError if `who` lacks the right; another OSError, such as EROFS, if it cannot be opened.
        """
        tree = self.tree
        files = tree.parts.files
        caller = who.identity
        if wanted == READ:
            found = files.for_reading(self, caller, at_once=at_once)
            return found and found[0]
        if at_once:
            return None
        if wanted & READ:
            files.for_reading(self, caller, at_once=False)
        file = files.for_writing(self, caller)
        if wanted & READ and not file.readable:
            raise Refused(errno.EACCES)
        return file

    def open_to_read(self, who: Grant, *, at_once: bool) -> tuple[OpenFile, Attributes] | None:
        return self.tree.parts.files.for_reading(self, who.identity, at_once=at_once)

    def opened_for_writing(self) -> OpenFile | None:
        return self.tree.parts.files.open_for_writing(self)

    def lease(self, on_writer: Callable[[], object]) -> LocalLease | None:
        if self.tree.always_waits:
            # Its server or process changes files without a report; and it would be asked under the lock of all leases.
            return None
        parts = self.tree.parts
        return parts.leases.lease(
            self.proc_path,
            self.file,
            HandleSeal.identity_in(self.handle),
            on_writer,
            lambda: parts.files.drop_idle_writer(self),
        )

    def range_locks(self, *, exclusive: bool) -> LocalLocks | None:
        if exclusive:
            self.tree.parts.leases.make_way(self.file)
        for mode in (os.O_RDWR, os.O_RDONLY) if exclusive else (os.O_RDONLY,):
            with suppress(OSError):
                fd = os.open(self.proc_path, mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                return LocalLocks(fd, exclusive=mode == os.O_RDWR)
        return None

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        caller = who.identity
        with Changing(self, change):
            if guard is not None and change.before is not None and not guard(change.before):
                raise Refused(NOT_SYNC)
            if _NO_ID in {wanted.uid, wanted.gid}:
                raise Refused(errno.EINVAL)
            # The size first, since file systems refuse it most often.
            if wanted.size is not None:
                self.truncate(wanted.size, caller)
            with caller:
                if wanted.uid is not None or wanted.gid is not None:
                    self._set_owner(wanted)
                if wanted.mode is not None:
                    os.chmod(self.proc_path, wanted.mode & 0o7777)
                if wanted.atime is not None or wanted.mtime is not None:
                    self._set_times(wanted)
        self.tree.parts.synchronize(self)

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> Node:
        """Creates a regular file here as `who`, or takes an existing one as `create.how` says; returns its node.

        Of `create.wanted` sets nothing with EXCLUSIVE, and on an existing file the size alone. `change` gets the
        directory's attributes before and after. Raises the errors of `tree.Node.create`, such as EEXIST and EACCES, and
        Refused (EAGAIN) if a local process makes and removes the name again and again.
        """
        check_new_name(self, name)
        caller = who.identity
        with Changing(self, change) as changing:
            # A node: this class is a part of the class of nodes.
            made: Any
            made, is_new = self._create(name, create, caller)
            changing.in_vain = not is_new
        if not is_new and create.wanted.size is not None and create.how is not CreateHow.EXCLUSIVE:
            # Not within the change of the directory: threads that hold two locks might wait for each other.
            with Changing(made, Change()):
                made.truncate(create.wanted.size, caller)
        self.tree.parts.synchronize(made, self)
        node: Node = made
        return node

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> Node | None:
        """Makes a directory, symbolic link, device, socket or FIFO here as `who`; removes it if `wanted` cannot be set.

        Returns its node; None: it was made, but is not found by its name, so that it lacks the mode, owner and times in
        `wanted`. `change` gets the directory's attributes before and after. Raises the errors of `tree.Node.make`, such
        as EEXIST and EACCES.
        """
        check_new_name(self, name)
        call, mode = _call_for(make, wanted)
        caller = who.identity
        with Changing(self, change):
            since = file_clock_ns()
            with caller:
                call(name, self.fd)
                # Without a descriptor of the object, which may be what lacks, it is known by what it must be like.
                is_made = partial(_may_be, make.kind, since)
                try:
                    made = self.tree.just_made(self, name, make.kind, since)
                    if made is not None:
                        is_made = partial(os.path.samestat, made.status)
                        made.dress(wanted, mode, caller)
                except OSError:
                    self._take_back(name, is_made)
                    raise
        self.tree.parts.synchronize(*([self] if made is None else [made, self]))
        return made

    def _create(self, name: bytes, create: Create, caller: CallerIdentity) -> tuple[Self, bool]:
        for _ in range(_CREATE_TRIES):
            node = self._create_new(name, create, caller)
            if node is not None:
                return node, True
            # A local process may have removed the existing object meanwhile.
            with suppress(FileNotFoundError):
                return self._existing(name, create, caller), False
        raise Refused(errno.EAGAIN)

    def _create_new(self, name: bytes, create: Create, caller: CallerIdentity) -> Self | None:
        """Creates a file in this directory with the attributes in `create`, keeps it open, and returns its node.

        With EXCLUSIVE it gets the verifier alone, and is synced. Returns None if the name is taken; with GUARDED raises
        FileExistsError then. Other failures raise Refused (EFBIG) or OSError, and the file is removed again.
        """
        tree, wanted = self.tree, create.wanted
        size = None if wanted.size is None else _size(wanted.size)
        exclusive = create.how is CreateHow.EXCLUSIVE
        mode = _mode(wanted, _FILE_MODE)
        fd = None
        try:
            with caller:
                try:
                    if exclusive:
                        fd = self._create_verified(name, create.verifier)
                    else:
                        fd = os.open(name, _NEW, mode & 0o777, dir_fd=self.fd)
                except FileExistsError:
                    if create.how is CreateHow.GUARDED:
                        raise
                else:
                    try:
                        # From here on the descriptor stands for the file: its name may be another file's already.
                        node: Self = tree.created(self, name, fd)
                        if exclusive:
                            # A retry may reach the next run of the server, which recognises the call by these times.
                            os.fsync(fd)
                        else:
                            if size is not None:
                                os.ftruncate(fd, size)
                            node.dress(wanted, mode, caller)
                    except OSError:
                        self._take_back(name, partial(os.path.samestat, os.fstat(fd)))
                        raise
            if fd is None:
                return None
            created, fd = fd, None
            tree.parts.files.created(node, created)
        finally:
            if fd is not None:
                os.close(fd)
        return node

    def _create_verified(self, name: bytes, verifier: bytes) -> int:
        """Creates a file with the verifier of an exclusive create as its times; returns a descriptor of the file.

        A nameless file (O_TMPFILE) gets the times, and then its name: a server that is killed in between leaves no file
        without the verifier, which would fail the client's retry. Where the file system has no nameless files, the file
        has its name for a moment before it has the times. Raises OSError (FileExistsError: the name is taken).
        """
        times, fd = _times_of(verifier), None
        # What fails here fails again below, with the error of a creation by name.
        with suppress(OSError):
            fd = os.open(b".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _FILE_MODE, dir_fd=self.fd)
            path = b"/proc/self/fd/%d" % fd
            set_file_times(path, *times)
            os.link(path, name, dst_dir_fd=self.fd)
            return fd
        if fd is not None:
            os.close(fd)
        fd = os.open(name, _NEW, _FILE_MODE, dir_fd=self.fd)
        try:
            set_file_times(b"/proc/self/fd/%d" % fd, *times)
        except OSError:
            self._take_back(name, partial(os.path.samestat, os.fstat(fd)))
            os.close(fd)
            raise
        return fd

    def _take_back(self, name: bytes, is_made: Callable[[os.stat_result], bool]) -> None:
        """Removes the new object `name` of this directory, as the call fails: the client's retry must not meet it.

        `is_made` tells the object by its status from another one, to which a local process may have given the name; the
        other one stays. The thread acts as the caller. Raises nothing if the object cannot be removed.
        """
        with suppress(OSError):
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if is_made(found):
                (os.rmdir if stat.S_ISDIR(found.st_mode) else os.unlink)(name, dir_fd=self.fd)

    def _existing(self, name: bytes, create: Create, caller: CallerIdentity) -> Self:
        """Returns the existing file `name` of this directory, unchanged.

        With EXCLUSIVE it has to be one that an earlier try of the same call made: it has the verifier as its times, and
        is empty.

        Raises:
            Refused: EEXIST: it is no regular file, or with EXCLUSIVE another file or one that has data.
            OSError: FileNotFoundError: the name is gone; and others.
        """
        node: Self
        with caller:
            node = self.tree.child(self, name)
        if node.kind != FileKind.FILE:
            raise Refused(errno.EEXIST)
        if create.how is not CreateHow.EXCLUSIVE:
            return node
        status = os.fstat(node.fd)
        atime, mtime = _times_of(create.verifier)
        if (status.st_atime_ns, status.st_mtime_ns) != (atime[0] * _SECOND, mtime[0] * _SECOND) or status.st_size:
            raise Refused(errno.EEXIST)
        return node

    def truncate(self, size: int, caller: CallerIdentity) -> None:
        """Cuts or extends this file to `size` octets, if the caller may write it or owns it.

        Raises:
            Refused: EISDIR, EINVAL: it is no regular file; EACCES: `caller` lacks the right to a file that is open
                already; EFBIG: the size is above 2^63 - 1.
            OSError: the system refuses it, by PermissionError if `caller` lacks the right to open the file.
        """
        octets = _size(size)
        file = self.tree.parts.files.for_writing(self, caller)
        with caller:
            os.ftruncate(file.fd, octets)

    def dress(self, wanted: Wanted, mode: int | None, caller: CallerIdentity) -> None:
        """Gives this new object the mode `mode` and the owner and times in `wanted`; the thread acts as the caller.

        `mode` None: the object has no mode of its own. The object gets the permissions in `mode`, although the server's
        umask has reduced them when it was made. But if its permissions are not those of `mode` less that umask, a
        default ACL has set them, and they stay, as on Linux. Set-ID and sticky bits are those of `mode`; a set-group-ID
        bit from the directory stays as well. Only root may set an owner; for others `wanted.uid` and `wanted.gid` are
        ignored. Raises OSError if the system refuses a change.
        """
        # Before the mode: the system takes set-ID bits from an object that it gives away.
        if caller.uid == 0 and (wanted.uid is not None or wanted.gid is not None):
            self._set_owner(wanted)
        if mode is not None:
            given = stat.S_IMODE(os.fstat(self.fd).st_mode)
            # The server's umask must not take away bits that the client asks for; a default ACL may.
            permissions = mode if given & 0o777 == mode & 0o777 & ~self.tree.parts.umask else given
            wanted_mode = (permissions & 0o777) | (mode & 0o7000) | (given & stat.S_ISGID)
            if wanted_mode != given:
                os.chmod(self.proc_path, wanted_mode)
        if wanted.atime is not None or wanted.mtime is not None:
            self._set_times(wanted)

    def _set_owner(self, wanted: Wanted) -> None:
        uid, gid = wanted.uid, wanted.gid
        os.chown(self.proc_path, -1 if uid is None else uid, -1 if gid is None else gid)

    def _set_times(self, wanted: Wanted) -> None:
        set_file_times(self.proc_path, _time(wanted.atime), _time(wanted.mtime))


def _call_for(make: Make, wanted: Wanted) -> tuple[_Call, int | None]:
    """Returns (function that makes the object `make`, mode of the object; None: a symbolic link has none).

    The function takes a name and the descriptor of a directory, and raises OSError.

    Raises:
        Refused: EINVAL: `make.kind` is FILE, or `make.device` has a number that is too large for Linux; EACCES: the
            path in a symbolic link has a null octet.
    """
    kind, target = make.kind, make.target
    if kind == FileKind.DIRECTORY:
        mode = _mode(wanted, _DIRECTORY_MODE)
        return lambda name, directory: os.mkdir(name, mode & 0o1777, dir_fd=directory), mode
    if kind == FileKind.SYMLINK:
        if b"\0" in target:
            raise Refused(errno.EACCES)
        return lambda name, directory: os.symlink(target, name, dir_fd=directory), None
    if kind not in _SPECIAL:
        raise Refused(errno.EINVAL)
    mode = _mode(wanted, _FILE_MODE)
    major, minor = make.device
    if major > _MAJOR_MAX or minor > _MINOR_MAX:
        raise Refused(errno.EINVAL)
    device = os.makedev(major, minor)
    return lambda name, directory: os.mknod(name, kind | mode & 0o777, device, dir_fd=directory), mode


def _may_be(kind: FileKind, since: int, found: os.stat_result) -> bool:
    """Returns whether an object with the status `found` may be one of `kind` that the thread's user has made just now.

    `since` is the time before it was made, in nanoseconds. False where a file system counts whole seconds.
    """
    return stat.S_IFMT(found.st_mode) == kind and found.st_mtime_ns >= since and found.st_uid == os.geteuid()


def _mode(wanted: Wanted, default: int) -> int:
    return wanted.mode & 0o7777 if wanted.mode is not None else default


def _size(size: int) -> int:
    if size > OFFSET_MAX:
        raise Refused(errno.EFBIG)
    return size


def _time(time: Time) -> tuple[int, int]:
    """Returns (seconds, nanoseconds) of a time for `utimensat`; UTIME_OMIT for None, UTIME_NOW for `SERVER_TIME`."""
    if time is None:
        return 0, UTIME_OMIT
    if time is SERVER_TIME:
        return 0, UTIME_NOW
    return divmod(time, _SECOND)


def _times_of(verifier: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the times, as (seconds, 0 nanoseconds), in which a file keeps the verifier of an exclusive create.

    Their seconds are the lower 31 bits of each of the verifier's two words, which every file system can store.
    """
    first, second = _VERIFIER.unpack(verifier)
    return (first & 0x7FFFFFFF, 0), (second & 0x7FFFFFFF, 0)
