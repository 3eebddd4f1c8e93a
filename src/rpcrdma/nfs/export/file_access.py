"""Access to files: acting as the caller, and files kept open for READ and WRITE.

A server with CAP_SETUID and CAP_SETGID, as root has them, takes on the caller's user, group and supplementary groups
(see `AccessTerms.acting_as`) for the length of a `with` block, so the kernel judges every access. The thread changes
its effective user, not only the one for file systems, and none of its capabilities is in effect, unless the caller is
root: with CAP_DAC_OVERRIDE permissions would not count, with CAP_SYS_RESOURCE quotas and reserved blocks. A worker
thread keeps the identity from one WRITE to the next, if both have the same caller. Every other server does everything
as its own user, with none of its capabilities either.

All callers share the open files: access is checked anew at each call. A file that is written UNSTABLE is marked until a
COMMIT. The server puts files that are still marked on the disk when it stops: an orderly stop loses no data.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from rpcrdma.aio.drivers.kept_identity import THREAD
from rpcrdma.nfs.export import tree
from rpcrdma.nfs.export.access_terms import ExportTerms, UserAndGroups
from rpcrdma.nfs.export.export_limits import NFS_CALLERS_MAX
from rpcrdma.nfs.export.grant import CallerIdentity, ServingUser
from rpcrdma.nfs.export.linux_calls import (
    CAP_SETGID,
    CAP_SETUID,
    ThreadChange,
    change_thread,
    clone_range,
    effective_capabilities,
    faccess_as_caller,
    to_capabilities,
    to_group,
    to_groups,
    to_keep_capabilities,
    to_user,
    user_decides_capabilities,
)
from rpcrdma.nfs.export.local_leases import LocalLeases
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.object_tree import ObjectTree
from rpcrdma.nfs.export.open_object import Changing, HeldNode
from rpcrdma.nfs.export.server_state import ServerState
from rpcrdma.nfs.export.sparse_file import SparseObject
from rpcrdma.nfs.export.tree import TRANSFER_OCTETS_MAX, Attributes, Change, FileKind, Refused, Stable, Written
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.service import WorkerNeeded
from rpcrdma.wire.buffers import Buffer

__all__ = ["Callers", "OpenFile", "OpenFiles", "SwitchedCaller"]

_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READERS_MAX = 64
"""The number of callers of one file whose right to read is remembered."""


class _Server:
    """The server's own identity, as at its start, to which threads return: user, group, groups and capabilities."""

    __slots__ = ("capabilities", "gid", "groups", "powerless", "uid", "user_decides_capabilities")

    def __init__(self) -> None:
        self.uid = os.geteuid()
        self.gid = os.getegid()
        self.groups = tuple(os.getgroups())
        self.capabilities = to_capabilities(effective=True)
        self.powerless = to_capabilities(effective=False)
        """Leaves a thread no capabilities in effect, as a caller other than root has none."""
        self.user_decides_capabilities = user_decides_capabilities()
        """Whether a switch from root to another user drops all effective capabilities, and back restores them."""


class SwitchedCaller:
    """The identity of a caller that a thread takes on inside `with caller:`; at the end it has the server's again.

    The thread's user, groups and capabilities change, those of other threads do not. Entering raises OSError if the
    system refuses. In the thread of an event loop with RDMA devices entering another identity than the server's raises
    `service.WorkerNeeded`, by which the server runs a handler again in a worker thread. After an error the thread has
    the server's identity.
    """

    __slots__ = ("_back", "_there", "gid", "gids", "uid")

    def __init__(self, uid: int, gid: int, gids: tuple[int, ...], server: _Server) -> None:
        self.uid = uid
        self.gid = gid
        self.gids = gids
        # Each change takes a microsecond or two, so only differences are changed: the user last, and first on the way
        # back, since the other changes take a capability.
        self._there: list[ThreadChange] = []
        self._back: list[ThreadChange] = []
        if set(gids) != set(server.groups):
            self._there.append(to_groups(gids))
            self._back.append(to_groups(server.groups))
        if gid != server.gid:
            self._there.append(to_group(gid))
            self._back.append(to_group(server.gid))
        if uid == server.uid == 0 or (uid and server.user_decides_capabilities):
            capabilities = []
        else:
            capabilities = [server.capabilities]
        if uid != server.uid:
            if uid == 0:
                self._there.append(to_keep_capabilities())
            self._there.append(to_user(uid, saved=server.uid))
            capabilities.insert(0, to_user(server.uid, saved=server.uid))
        if uid and not server.user_decides_capabilities:
            self._there.append(server.powerless)
        self._back[:0] = capabilities

    def __enter__(self) -> None:
        if self._there and THREAD.keeper is not None and THREAD.keeps_identity():
            raise WorkerNeeded
        try:
            change_thread(self._there)
        except BaseException as error:
            change_thread(self._back)
            if isinstance(error, OSError) and error.errno == errno.EINVAL:
                raise PermissionError(1, f"this user namespace lacks user {self.uid}, or a group of it") from None
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        change_thread(self._back)


_SWITCHING = {"CAP_SETUID": CAP_SETUID, "CAP_SETGID": CAP_SETGID}
"""The numbers of the capabilities that a server needs to act as other users, by their names."""


class Callers:
    """Makes and caches the identities with which threads of a server access files as other users.

    Raises PermissionError: the server runs as root without CAP_SETUID or CAP_SETGID, so that it could act as no caller.
    """

    def __init__(self) -> None:
        held = effective_capabilities()
        lacking = [name for name, bit in _SWITCHING.items() if not held >> bit & 1]
        if lacking and os.geteuid() == 0:
            raise PermissionError(
                errno.EPERM,
                f"a server that runs as root acts as its callers, which takes {' and '.join(lacking)}: "
                "allow it that, or run it as another user",
            )
        self.switches = not lacking
        server = _Server()
        self._user: CallerIdentity = ServingUser()
        if lacking and held:
            self._user = SwitchedCaller(server.uid, server.gid, server.groups, server)
        self._server = server if self.switches else None
        self._known: dict[UserAndGroups, SwitchedCaller] = {}

    def try_out(self, export: ExportTerms) -> None:
        """Acts for a moment as the anonymous user of each rule of an export, to find out now whether the server can.

        Rules that deny all calls, or let root act as root, are left out. Raises PermissionError if the server cannot: a
        user namespace or a filter of system calls may forbid it although the server has the capabilities.
        """
        if THREAD.keeps_identity():
            ThreadPoolExecutor(1).submit(self.try_out, export).result()
            return
        for rule in export.all_rules:
            # A user namespace with root alone may serve root alone.
            if rule.denied or rule.acting_as(AuthSys(uid=0, gid=0)) == (0, 0, ()):
                continue
            try:
                with self.of(rule.acting_as(AuthNone())):
                    pass
            except OSError as error:
                raise PermissionError(
                    errno.EPERM, f"the server cannot act as user {rule.anonymous_uid}: {error.strerror}"
                ) from None

    def of(self, user: UserAndGroups) -> CallerIdentity:
        """Returns the identity of `user` (uid, gid, groups); the server's own if the server cannot act as others."""
        server = self._server
        if server is None:
            return self._user
        caller = self._known.get(user)
        if caller is None:
            if len(self._known) >= NFS_CALLERS_MAX:
                self._known.clear()
            caller = self._known[user] = SwitchedCaller(*user, server)
        return caller


class OpenFile(SparseObject):
    """A regular file of a local directory, open for reading, writing or both.

    It implements `tree.OpenFile`, `abilities.SparseFile` and `abilities.CopyTarget`; callers share it by `OpenFiles`.
    """

    __slots__ = ("in_memory", "readable", "readers", "state", "tells_waiting", "tree", "unstable", "writable")

    def __init__(self, fd: int, node: HeldNode, state: ServerState, *, readable: bool, writable: bool) -> None:
        self.fd = fd
        self.handle = node.handle
        self.file = node.file
        self.fsid = node.fsid
        self.changes = node.changes
        self.lock = node.lock
        self.told = None
        self.used = True
        self.tree = node.tree
        self.in_memory = node.tree.in_memory
        self.state = state
        self.readable = readable
        self.writable = writable
        self.tells_waiting = True
        """Whether the file system supports RWF_NOWAIT reads; True until it refuses one."""
        self.unstable = False
        """Whether data may be in memory alone until a COMMIT; set after it is written, as an eviction clears this."""
        self.readers: dict[CallerIdentity, tuple[int, int, int, int]] = {}
        """The callers that the kernel lets read, each with the file's change time, mode, owner and group then."""

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        if at_once and not self.in_memory:
            return self._read_cached(buffer, offset) if self.tells_waiting else 0
        got = os.preadv(self.fd, (buffer,), offset)
        while 0 < got < buffer.nbytes:
            count = os.preadv(self.fd, (buffer[got:],), offset + got)
            if not count:
                break
            got += count
        return got

    def _read_cached(self, buffer: memoryview, offset: int) -> int:
        """Reads the leading octets that the page cache holds; returns their number, 0 if none or on an error."""
        try:
            return os.preadv(self.fd, (buffer,), offset, os.RWF_NOWAIT)
        except OSError as error:
            self.tells_waiting = error.errno != errno.EOPNOTSUPP
            # A true error comes up again when a worker thread reads on.
            return 0

    def write(self, data: Buffer, offset: int, stable: Stable, change: Change, *, judge: bool) -> Written:
        """Writes at most the first `TRANSFER_OCTETS_MAX` octets of `data` at `offset`, in octets.

        The thread acts as the caller; `judge`: whether Refused (EACCES) is raised if the caller neither may write the
        file nor owns it. `change` gets the attributes before and after. Raises OSError if the write fails, or the sync
        that `stable` asks for, which has then changed the server's write verifier.
        """
        # Taken before the data is written: if the data is lost later, COMMIT returns another verifier.
        verifier = self.state.write_verifier
        if len(data) > TRANSFER_OCTETS_MAX:
            data = memoryview(data)[:TRANSFER_OCTETS_MAX]
        if judge:
            self.check_writer()
        with Changing(self, change, in_vain=not data):
            written = os.pwrite(self.fd, data, offset) if data else 0
            if stable == Stable.UNSTABLE and not self.unstable:
                self.tree.parts.files.mark(self)
        if stable != Stable.UNSTABLE:
            self.sync(data_only=stable == Stable.DATA_SYNC)
        return Written(written, stable, verifier)

    def commit(self, change: Change) -> bytes:
        verifier = self.state.write_verifier
        with self.lock:
            change.before = change.after = self.attributes()
            # A WRITE that comes after this marks the file again.
            self.unstable = False
        self.sync()
        return verifier

    def copy_from(self, source: tree.OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> Written:
        fd, verifier = _local(source), self.state.write_verifier
        with Changing(self, change) as changing:
            copied = os.copy_file_range(fd, self.fd, octets, source_offset, offset)
            changing.in_vain = not copied
            self.tree.parts.files.mark(self)
        return Written(copied, Stable.UNSTABLE, verifier)

    def clone_from(self, source: tree.OpenFile, source_offset: int, offset: int, octets: int, change: Change) -> None:
        with Changing(self, change):
            clone_range(_local(source), source_offset, self.fd, offset, octets)
        self.put_on_disk()

    def check_writer(self) -> None:
        """Raises Refused (EACCES) unless the caller, as whom the thread acts, may write the file or owns it."""
        if not faccess_as_caller(self.fd, os.W_OK) and os.fstat(self.fd).st_uid != os.geteuid():
            raise Refused(errno.EACCES)


class OpenFiles:
    """The open local files of a server, at most `limit`, kept by file handle for later calls. Thread-safe.

    At the limit a further file displaces one that was not used lately, whose unstable data is then synced; if that
    fails, the write verifier of `state` changes. `leases` gives up the lease on a file before it is opened to write.
    """

    def __init__(self, limit: int, state: ServerState, leases: LocalLeases) -> None:
        self._state = state
        self._leases = leases
        self._cache: ObjectCache[OpenFile] = ObjectCache(limit, self._evicted)
        self._idle: list[OpenFile] = []
        """What `drop_idle` is closing."""

    def for_reading(
        self, node: HeldNode, caller: CallerIdentity, *, at_once: bool
    ) -> tuple[OpenFile, Attributes] | None:
        """Returns (open file of `node`, its present attributes) if `caller` may read or execute the file, or owns it.

        Opens a file that is not open for reading, which may block; with `at_once` returns None in that case. Raises
        Refused (EISDIR, EINVAL) if it is no regular file; Refused (EACCES) or PermissionError if `caller` lacks the
        right; OSError if it cannot be opened.
        """
        file = self.get(node)
        if file is None or not file.readable:
            if at_once:
                return None
            _check_regular(node)
            file = self._open(node, caller, os.O_RDONLY)
        present = file.attributes()
        # Every change of permissions changes this state. The change time alone is not enough: many file systems count
        # in milliseconds or more, and two changes may have the same time.
        state = present.ctime_ns, present.mode, present.uid, present.gid
        if file.readers.get(caller) != state:
            with caller:
                allowed = (
                    faccess_as_caller(node.fd, os.R_OK)
                    or present.uid == caller.uid
                    or faccess_as_caller(node.fd, os.X_OK)
                )
            if not allowed:
                raise Refused(errno.EACCES)
            if len(file.readers) >= _READERS_MAX:
                file.readers = {}
            file.readers[caller] = state
        return file, present

    def for_writing(self, node: HeldNode, caller: CallerIdentity) -> OpenFile:
        """Returns the file of `node`, open to write and maybe read, if `caller` may write or owns it; may block.

        Raises Refused (EISDIR, EINVAL) if it is no regular file; Refused (EACCES) or PermissionError if `caller` lacks
        the right; OSError if it cannot be opened.
        """
        file = self.open_for_writing(node)
        if file is None:
            _check_regular(node)
            return self._open(node, caller, os.O_RDWR)
        with caller:
            file.check_writer()
        return file

    def open_for_writing(self, node: HeldNode) -> OpenFile | None:
        """Returns the file of `node` if it is open for writing already, else None; rights are not checked here."""
        file = self.get(node)
        return file if file is not None and file.writable else None

    def created(self, node: HeldNode, fd: int) -> None:
        """Keeps the new file of `node` open by `fd`, by which it was created, for reading and writing.

        Takes over `fd`, even on an error, and the place of a file kept with the same handle. A creator without the
        right to open the file again can still write by `fd`.
        """
        self._keep(OpenFile(fd, node, self._state, readable=True, writable=True))

    def get(self, node: HeldNode | OpenFile) -> OpenFile | None:
        """Returns the open file kept for the object of `node`, which the next `drop_idle` keeps; None: none is kept."""
        file = self._cache.held.get(node.handle)
        # Directories of two file systems that have had one name may have objects with one handle.
        if file is None or file.tree is not node.tree:
            return None
        file.used = True
        return file

    def mark(self, file: OpenFile) -> None:
        """Marks a file that gets unstable data, for a later sync; keeps it again if it was dropped and is on a disk."""
        # Under the lock, so that an eviction sees the mark. Clients of version 4 may use a file that was evicted.
        with self._cache.lock:
            held = self.get(file)
            (held or file).unstable = True
        if held is None and not file.in_memory:
            self._keep(file)

    def drop(self, node: HeldNode) -> None:
        """Drops the open file of a removed node without a sync; the descriptor closes with the last reference."""
        self._cache.drop(node.handle)

    def drop_idle_writer(self, node: HeldNode) -> bool:
        """Drops the file of a node if it is open for writing and has no unstable data; returns whether it was dropped.

        The descriptor stays open as long as calls, or opens of NFSv4, refer to the file.
        """
        with self._cache.lock:
            file = self._cache.held.get(node.handle)
            is_idle = file is not None and file.writable and not file.unstable
            return is_idle and self._cache.drop(node.handle) is not None

    def drop_idle(self) -> None:
        """Drops open files that were not used since the last `drop_idle`; this frees the space of removed files.

        Files with unstable data stay, but for those without a name left (on FUSE and network file systems these stay as
        well). Opens of NFSv4 keep a dropped file open. May be called while another thread does so, or hangs in closing
        a file: it closes the others.
        """
        # Never out of the cache meanwhile: a call would open such a file anew, without the mark. All opens wait for the
        # lock of the cache, under which no file system may be asked that is silent.
        self._idle.extend(
            self._cache.drop_idle(
                lambda file: file.unstable and (file.tree.always_waits or os.fstat(file.fd).st_nlink > 0)
            )
        )
        # Each one closes here with its last reference.
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop()

    def commit(self, trees: Collection[ObjectTree[Any]]) -> None:
        """Puts unstable data in the open files of the exports `trees` on the disk.

        Raises OSError at the first failure; the write verifier has then changed, so that clients send their data again.
        """
        for file in [each for each in self._cache.held.copy().values() if each.unstable and each.tree in trees]:
            file.commit(Change())

    def retire(self, trees: Collection[ObjectTree[Any]]) -> list[OSError]:
        """Drops the open files of the exports `trees`, and syncs their unstable data; returns the errors of syncs."""
        return _synced(self._cache.drop_those(lambda file: file.tree in trees))

    def close(self) -> list[OSError]:
        """Drops all open files, and syncs their unstable data; returns the errors of failed syncs."""
        return _synced(self._cache.drop_all())

    def _evicted(self, file: OpenFile) -> None:
        # Rare: more files are being written than may be open. The mark goes with the file, so the data is synced here.
        _synced([file])

    def _open(self, node: HeldNode, caller: CallerIdentity, mode: int) -> OpenFile:
        readable, writable = True, mode == os.O_RDWR
        if writable:
            self._leases.make_way(node.file)
        try:
            with caller:
                try:
                    fd = os.open(node.proc_path, mode | _FLAGS)
                except PermissionError:
                    if mode != os.O_RDWR:
                        raise
                    fd = os.open(node.proc_path, os.O_WRONLY | _FLAGS)
                    readable = False
        except PermissionError:
            if os.fstat(node.fd).st_uid != caller.uid:
                if mode == os.O_RDWR:
                    raise
                with caller:
                    if not faccess_as_caller(node.fd, os.X_OK):
                        raise
            # The owner may read and write, and a user who may execute may read (RFC 1813 section 4.4).
            fd = os.open(node.proc_path, mode | _FLAGS)
        return self._keep(OpenFile(fd, node, self._state, readable=readable, writable=writable))

    def _keep(self, file: OpenFile) -> OpenFile:
        before = self._cache.put(file)
        if before is not None and before.tree is not file.tree:
            _synced([before])
        # Only now, since a call may have written to the file before until then.
        elif before not in (None, file) and before.unstable:
            file.unstable, before.unstable = True, False
        return file


def _synced(files: Iterable[OpenFile]) -> list[OSError]:
    """Puts the unstable data of files on the disk; returns an error for each file where that failed."""
    failures = []
    for file in files:
        if file.unstable:
            file.unstable = False
            try:
                file.sync()
            except OSError as error:
                failures.append(error)
    return failures


def _local(source: tree.OpenFile) -> int:
    """Returns the descriptor of `source`, to copy from; raises Refused (EXDEV) if it is no local `OpenFile`."""
    if not isinstance(source, OpenFile):
        raise Refused(errno.EXDEV)
    return source.fd


def _check_regular(node: HeldNode) -> None:
    if node.kind != FileKind.FILE:
        raise Refused(errno.EISDIR if node.kind == FileKind.DIRECTORY else errno.EINVAL)
