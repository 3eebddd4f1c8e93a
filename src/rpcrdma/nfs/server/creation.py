"""Procedures that make objects or set their attributes: SETATTR, CREATE, MKDIR, SYMLINK, MKNOD."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from rpcrdma.nfs.server.backend import (
    DOTS,
    Changes,
    Procedures,
    check_directory,
    entry_name,
    nfs_time,
    post_op,
    set_times,
)
from rpcrdma.nfs.server.file_access import CallerIdentity
from rpcrdma.nfs.server.linux_calls import file_clock_ns, set_file_times
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v3 import (
    CREATE3args,
    CREATE3res,
    CREATE3resfail,
    CREATE3resok,
    MKDIR3args,
    MKDIR3res,
    MKDIR3resfail,
    MKDIR3resok,
    MKNOD3args,
    MKNOD3res,
    MKNOD3resfail,
    MKNOD3resok,
    SETATTR3args,
    SETATTR3res,
    SETATTR3resfail,
    SETATTR3resok,
    SYMLINK3args,
    SYMLINK3res,
    SYMLINK3resfail,
    SYMLINK3resok,
    createhow3,
    createmode3,
    devicedata3,
    diropargs3,
    ftype3,
    mknoddata3,
    nfs_fh3,
    nfsstat3,
    post_op_attr,
    post_op_fh3,
    sattr3,
)
from rpcrdma.rpc.service import CallContext, in_worker

__all__ = ["CreationProcedures"]

_OK = nfsstat3.NFS3_OK
_OFFSET_MAX = (1 << 63) - 1
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_VERIFIER = struct.Struct(">II")
_NO_ID = 0xFFFFFFFF
_CREATE_TRIES = 16
_NODE_TYPES = {
    ftype3.NF3CHR: stat.S_IFCHR,
    ftype3.NF3BLK: stat.S_IFBLK,
    ftype3.NF3SOCK: stat.S_IFSOCK,
    ftype3.NF3FIFO: stat.S_IFIFO,
}
_NOTHING_TOLD = post_op_fh3(False, None), post_op_attr(False, None)

_Make: TypeAlias = Callable[[HeldNode, bytes, CallerIdentity], HeldNode | None]
"""Makes an object with a name in a directory; None if the name leads to another object by now."""


class CreationProcedures(Procedures):
    """The procedures that make objects or set their attributes."""

    @in_worker
    def setattr(self, args: SETATTR3args, context: CallContext) -> SETATTR3res:
        changes = Changes()
        try:
            node = changes.node = self.backend.locate_to_change(args.object.data, context)
            with changes:
                guard = args.guard.value if args.guard.check else None
                if guard is not None and guard != nfs_time(changes.before.st_ctime_ns):
                    raise Refused(nfsstat3.NFS3ERR_NOT_SYNC)
                self._set(node, args.new_attributes, self.backend.callers.of(context.credential, node.tree.export))
            self.backend.synchronize(node)
            return SETATTR3res(_OK, SETATTR3resok(changes.data()))
        except REFUSALS as error:
            return SETATTR3res(status_of(error), SETATTR3resfail(changes.data()))

    @in_worker
    def create(self, args: CREATE3args, context: CallContext) -> CREATE3res:
        changes = Changes()
        try:

            def make(directory: HeldNode, name: bytes, caller: CallerIdentity) -> HeldNode:
                return self._create(directory, name, args.how, caller)

            made = self._make(args.where, context, changes, make)
            return CREATE3res(_OK, CREATE3resok(*made, changes.data()))
        except REFUSALS as error:
            return CREATE3res(status_of(error), CREATE3resfail(changes.data()))

    @in_worker
    def mkdir(self, args: MKDIR3args, context: CallContext) -> MKDIR3res:
        changes = Changes()
        wanted = args.attributes
        mode = _mode(wanted, _DIRECTORY_MODE)
        try:

            def mkdir(name: bytes, directory: int) -> None:
                os.mkdir(name, mode & 0o1777, dir_fd=directory)

            made = self._make(args.where, context, changes, self._by_name(mkdir, stat.S_IFDIR, wanted, mode))
            return MKDIR3res(_OK, MKDIR3resok(*made, changes.data()))
        except REFUSALS as error:
            return MKDIR3res(status_of(error), MKDIR3resfail(changes.data()))

    @in_worker
    def symlink(self, args: SYMLINK3args, context: CallContext) -> SYMLINK3res:
        changes = Changes()
        try:
            target = args.symlink.symlink_data.encode("utf-8", "surrogateescape")
            if b"\0" in target:
                raise Refused(nfsstat3.NFS3ERR_ACCES)

            def symlink(name: bytes, directory: int) -> None:
                os.symlink(target, name, dir_fd=directory)

            make = self._by_name(symlink, stat.S_IFLNK, args.symlink.symlink_attributes, None)
            made = self._make(args.where, context, changes, make)
            return SYMLINK3res(_OK, SYMLINK3resok(*made, changes.data()))
        except REFUSALS as error:
            return SYMLINK3res(status_of(error), SYMLINK3resfail(changes.data()))

    @in_worker
    def mknod(self, args: MKNOD3args, context: CallContext) -> MKNOD3res:
        changes = Changes()
        try:
            kind, wanted, device = _node_wanted(args.what)
            mode = _mode(wanted, _FILE_MODE)

            def mknod(name: bytes, directory: int) -> None:
                os.mknod(name, kind | mode & 0o777, device, dir_fd=directory)

            made = self._make(args.where, context, changes, self._by_name(mknod, kind, wanted, mode))
            return MKNOD3res(_OK, MKNOD3resok(*made, changes.data()))
        except REFUSALS as error:
            return MKNOD3res(status_of(error), MKNOD3resfail(changes.data()))

    def _make(
        self, where: diropargs3, context: CallContext, changes: Changes, make: _Make
    ) -> tuple[post_op_fh3, post_op_attr]:
        """Checks the directory and the name, makes the object with `make` and describes it for the reply."""
        directory = changes.node = self.backend.locate_to_change(where.dir.data, context)
        check_directory(directory)
        name = entry_name(where.name)
        if name in DOTS:
            raise Refused(nfsstat3.NFS3ERR_EXIST)
        with changes:
            node = make(directory, name, self.backend.callers.of(context.credential, directory.tree.export))
        if node is None:
            self.backend.synchronize(directory)
            # The object exists, but without its handle: the client may look it up.
            return _NOTHING_TOLD
        self.backend.synchronize(node, directory)
        return post_op_fh3(True, nfs_fh3(node.handle)), post_op(node)

    def _by_name(self, call: Callable[[bytes, int], None], kind: int, wanted: sattr3, mode: int | None) -> _Make:
        """Makes an object of `kind` with a call that takes its name and the directory's descriptor, and gives none."""

        def make(directory: HeldNode, name: bytes, caller: CallerIdentity) -> HeldNode | None:
            since = file_clock_ns()
            with caller:
                call(name, directory.fd)
                node = directory.tree.just_made(directory, name, kind, since)
                return node and self._dressed(node, wanted, mode, caller)

        return make

    def _create(self, directory: HeldNode, name: bytes, how: createhow3, caller: CallerIdentity) -> HeldNode:
        for _ in range(_CREATE_TRIES):
            node = self._create_new(directory, name, how, caller)
            if node is not None:
                return node
            # A local process may have removed the existing object meanwhile.
            with suppress(FileNotFoundError):
                return self._existing(directory, name, how, caller)
        raise Refused(nfsstat3.NFS3ERR_JUKEBOX)

    def _create_new(self, directory: HeldNode, name: bytes, how: createhow3, caller: CallerIdentity) -> HeldNode | None:
        """A new file; None if the name is taken, which `_existing` judges."""
        wanted = how.value if isinstance(how.value, sattr3) else None
        mode = _mode(wanted, _FILE_MODE) if wanted is not None else _FILE_MODE
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = None
        try:
            with caller:
                try:
                    fd = os.open(name, flags, mode & 0o777, dir_fd=directory.fd)
                except FileExistsError:
                    if how.mode == createmode3.GUARDED:
                        raise
                else:
                    # From here on the descriptor stands for the file: its name may be another file's already.
                    node = directory.tree.created(directory, name, fd)
                    if wanted is None:
                        assert isinstance(how.value, bytes)
                        set_file_times(b"/proc/self/fd/%d" % fd, *_times_of(how.value))
                        # A retry may reach the next run of the server, which recognises the call by these times.
                        os.fsync(fd)
                    else:
                        if wanted.size.set_it:
                            os.ftruncate(fd, _size(wanted))
                        self._dressed(node, wanted, mode, caller)
            if fd is None:
                return None
            created, fd = fd, None
            self.backend.files.created(node, created)
        finally:
            if fd is not None:
                os.close(fd)
        return node

    def _existing(self, directory: HeldNode, name: bytes, how: createhow3, caller: CallerIdentity) -> HeldNode:
        """The existing object, if CREATE allows one or an earlier try of the same call made it."""
        with caller:
            node = directory.tree.child(directory, name)
        if node.kind != stat.S_IFREG:
            raise Refused(nfsstat3.NFS3ERR_EXIST)
        if isinstance(how.value, sattr3):
            if how.value.size.set_it:
                self._truncate(node, _size(how.value), caller)
            return node
        status = os.fstat(node.fd)
        atime, mtime = _times_of(how.value)
        if (status.st_atime_ns, status.st_mtime_ns) != (atime[0] * 10**9, mtime[0] * 10**9) or status.st_size:
            raise Refused(nfsstat3.NFS3ERR_EXIST)
        return node

    def _set(self, node: HeldNode, wanted: sattr3, caller: CallerIdentity) -> None:
        """Sets attributes; the size first, since file systems refuse it most often."""
        for number in (wanted.uid.value, wanted.gid.value):
            if number == _NO_ID:
                raise Refused(nfsstat3.NFS3ERR_INVAL)
        if wanted.size.set_it:
            self._truncate(node, _size(wanted), caller)
        with caller:
            _set_owner(node, wanted)
            if wanted.mode.value is not None:
                os.chmod(node.link, wanted.mode.value & 0o7777)
            set_times(node.link, wanted)

    def _truncate(self, node: HeldNode, size: int, caller: CallerIdentity) -> None:
        file = self.backend.files.for_writing(node, caller)
        with caller:
            os.ftruncate(file.fd, size)

    def _dressed(self, node: HeldNode, wanted: sattr3, mode: int | None, caller: CallerIdentity) -> HeldNode:
        """Sets the attributes that the client asks for, as far as the caller may, and returns the new object."""
        if mode is not None:
            given = stat.S_IMODE(os.fstat(node.fd).st_mode)
            # The server's umask must not take away bits that the client asks for; a default ACL may.
            if given & 0o777 == mode & 0o777 & ~self.backend.umask or mode & 0o7000 & ~given:
                wanted_mode = mode | (given & stat.S_ISGID)
                if wanted_mode != given:
                    os.chmod(node.link, wanted_mode)
        if caller.uid == 0:
            _set_owner(node, wanted)
        set_times(node.link, wanted)
        return node


def _node_wanted(what: mknoddata3) -> tuple[int, sattr3, int]:
    """(type, attributes, device number) of a special file.

    Raises:
        Refused: NFS3ERR_BADTYPE: the type is no special file's.
    """
    kind = _NODE_TYPES.get(what.type)
    if kind is None:
        raise Refused(nfsstat3.NFS3ERR_BADTYPE)
    if isinstance(what.value, devicedata3):
        spec = what.value.spec
        return kind, what.value.dev_attributes, os.makedev(spec.specdata1 & 0xFFF, spec.specdata2 & 0xFFFFF)
    assert isinstance(what.value, sattr3)
    return kind, what.value, 0


def _mode(wanted: sattr3, default: int) -> int:
    return wanted.mode.value & 0o7777 if wanted.mode.value is not None else default


def _size(wanted: sattr3) -> int:
    size = wanted.size.value
    assert size is not None
    if size > _OFFSET_MAX:
        raise Refused(nfsstat3.NFS3ERR_FBIG)
    return size


def _set_owner(node: HeldNode, wanted: sattr3) -> None:
    uid, gid = wanted.uid.value, wanted.gid.value
    if uid is not None or gid is not None:
        os.chown(node.link, -1 if uid is None else uid, -1 if gid is None else gid)


def _times_of(verifier: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """The times that keep the verifier of an exclusive create: 31 bits each, which every file system can store."""
    first, second = _VERIFIER.unpack(verifier)
    return (first & 0x7FFFFFFF, 0), (second & 0x7FFFFFFF, 0)
