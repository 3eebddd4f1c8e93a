"""NFSv3 over a disk in memory: the file server of simulated worlds.

`rpcrdma.nfs.server` serves directories of the machine, whose object numbers and times differ from run to run. Here they
depend on the calls alone. MOUNT is left out: it is for TCP (RFC 8267 section 5.1), and clients are given `root`.
"""

from __future__ import annotations

from rpcrdma.nfs import v3
from rpcrdma.rpc import CallContext, in_worker
from rpcrdma_lab.simulation.memory_disk import DiskObject, MemoryDisk, Refused

__all__ = ["MemoryExport"]

_OK = v3.nfsstat3.NFS3_OK
_SECOND_NS = 1_000_000_000
_TRANSFER_OCTETS = 1 << 20
_LISTING_OCTETS = 1 << 16
_SIZE_MAX = (1 << 63) - 1
_NOTHING = v3.post_op_attr(False, None)
_NO_DEVICE = v3.specdata3(0, 0)
_COOKIE_VERIFIER = bytes(v3.NFS3_COOKIEVERFSIZE)
_ENTRY_OCTETS = 28
"""Of an entry of READDIR without its name: link, number, length of the name, cookie."""
_ENTRY_PLUS_OCTETS = _ENTRY_OCTETS + 4 + 84 + 4 + 4 + 8
_PAGE_OCTETS = 104
"""Of a page of either listing without entries."""


class MemoryExport(v3.NFS_V3_Service):
    """Serves `disk`; everything is allowed to every caller. One READ or WRITE moves `transfer_octets` at most."""

    OWN_LIMITS = True
    IDEMPOTENT = frozenset(
        procedure.number
        for procedure in (
            *(v3.GETATTR, v3.LOOKUP, v3.ACCESS, v3.READLINK, v3.READ, v3.READDIR, v3.READDIRPLUS),
            *(v3.FSSTAT, v3.FSINFO, v3.PATHCONF, v3.COMMIT),
        )
    )

    def __init__(self, disk: MemoryDisk, *, transfer_octets: int = _TRANSFER_OCTETS) -> None:
        self.disk = disk
        self._transfer_octets = transfer_octets

    @property
    def root(self) -> v3.nfs_fh3:
        """The handle that MOUNT would give."""
        return _handle(self.disk.root)

    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        try:
            found = self.disk.object(args.object.data)
        except Refused as refused:
            return v3.GETATTR3res(refused.status, None)
        return v3.GETATTR3res(_OK, v3.GETATTR3resok(_attributes(found)))

    def setattr(self, args: v3.SETATTR3args, context: CallContext) -> v3.SETATTR3res:
        changes = _Changes()
        try:
            changed = changes.of(self.disk.object(args.object.data))
            if args.guard.check and args.guard.value != _time(changed.ctime):
                raise Refused(v3.nfsstat3.NFS3ERR_NOT_SYNC)
            self._set(changed, args.new_attributes)
        except Refused as refused:
            return v3.SETATTR3res(refused.status, v3.SETATTR3resfail(changes.data()))
        return v3.SETATTR3res(_OK, v3.SETATTR3resok(changes.data()))

    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> v3.LOOKUP3res:
        directory = None
        try:
            directory = self.disk.directory(args.what.dir.data)
            found = self.disk.find(directory, args.what.name)
        except Refused as refused:
            return v3.LOOKUP3res(refused.status, v3.LOOKUP3resfail(_post_op(directory)))
        return v3.LOOKUP3res(_OK, v3.LOOKUP3resok(_handle(found), _post_op(found), _post_op(directory)))

    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        try:
            found = self.disk.object(args.object.data)
        except Refused as refused:
            return v3.ACCESS3res(refused.status, v3.ACCESS3resfail(_NOTHING))
        return v3.ACCESS3res(_OK, v3.ACCESS3resok(_post_op(found), args.access))

    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        found = None
        try:
            found = self.disk.object(args.symlink.data)
            if found.kind is not v3.ftype3.NF3LNK:
                raise Refused(v3.nfsstat3.NFS3ERR_INVAL)
        except Refused as refused:
            return v3.READLINK3res(refused.status, v3.READLINK3resfail(_post_op(found)))
        return v3.READLINK3res(_OK, v3.READLINK3resok(_post_op(found), found.target))

    @in_worker
    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        found = None
        try:
            found = self.disk.file(args.file.data)
        except Refused as refused:
            return v3.READ3res(refused.status, v3.READ3resfail(_post_op(found)))
        end = min(args.offset + min(args.count, self._transfer_octets), len(found.data))
        octets = max(end - args.offset, 0)
        data = context.buffer(octets)
        data[:] = memoryview(found.data)[args.offset : args.offset + octets]
        found.atime = self.disk.now_ns()
        ended = args.offset + octets >= len(found.data)
        return v3.READ3res(_OK, v3.READ3resok(_post_op(found), octets, ended, data))

    @in_worker
    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        changes = _Changes()
        try:
            if args.count != len(args.data):
                raise Refused(v3.nfsstat3.NFS3ERR_INVAL)
            file = changes.of(self.disk.file(args.file.data))
            stable = args.stable is not v3.stable_how.UNSTABLE
            self.disk.write(file, args.offset, bytes(args.data), stable=stable)
        except Refused as refused:
            return v3.WRITE3res(refused.status, v3.WRITE3resfail(changes.data()))
        kept = v3.stable_how.FILE_SYNC if stable else v3.stable_how.UNSTABLE
        return v3.WRITE3res(_OK, v3.WRITE3resok(changes.data(), args.count, kept, self.disk.verifier))

    @in_worker
    def create(self, args: v3.CREATE3args, context: CallContext) -> v3.CREATE3res:
        changes = _Changes()
        try:
            directory = changes.of(self.disk.directory(args.where.dir.data))
            made = self._created(directory, args.where.name, args.how)
        except Refused as refused:
            return v3.CREATE3res(refused.status, v3.CREATE3resfail(changes.data()))
        return v3.CREATE3res(_OK, v3.CREATE3resok(v3.post_op_fh3(True, _handle(made)), _post_op(made), changes.data()))

    def _created(self, directory: DiskObject, name: str, how: v3.createhow3) -> DiskObject:
        there = directory.entries.get(name)
        if how.mode is v3.createmode3.EXCLUSIVE:
            assert isinstance(how.value, bytes)
            stamps = tuple(int.from_bytes(half, "big") * _SECOND_NS for half in (how.value[:4], how.value[4:]))
            if there is not None and (there[1].atime, there[1].mtime) == stamps:
                # The same call again (RFC 1813 section 3.3.8).
                return there[1]
            made = self.disk.make(directory, name, v3.ftype3.NF3REG, 0o600)
            made.atime, made.mtime = stamps
            return made
        assert isinstance(how.value, v3.sattr3)
        if there is None or how.mode is v3.createmode3.GUARDED:
            made = self.disk.make(directory, name, v3.ftype3.NF3REG, 0o600)
        else:
            made = self.disk.file(_handle(there[1]).data)
        self._set(made, how.value)
        return made

    @in_worker
    def mkdir(self, args: v3.MKDIR3args, context: CallContext) -> v3.MKDIR3res:
        changes = _Changes()
        try:
            directory = changes.of(self.disk.directory(args.where.dir.data))
            made = self.disk.make(directory, args.where.name, v3.ftype3.NF3DIR, 0o700)
            self._set(made, args.attributes)
        except Refused as refused:
            return v3.MKDIR3res(refused.status, v3.MKDIR3resfail(changes.data()))
        return v3.MKDIR3res(_OK, v3.MKDIR3resok(v3.post_op_fh3(True, _handle(made)), _post_op(made), changes.data()))

    @in_worker
    def symlink(self, args: v3.SYMLINK3args, context: CallContext) -> v3.SYMLINK3res:
        changes = _Changes()
        try:
            directory = changes.of(self.disk.directory(args.where.dir.data))
            made = self.disk.make(directory, args.where.name, v3.ftype3.NF3LNK, 0o777)
            made.target = args.symlink.symlink_data
        except Refused as refused:
            return v3.SYMLINK3res(refused.status, v3.SYMLINK3resfail(changes.data()))
        return v3.SYMLINK3res(
            _OK, v3.SYMLINK3resok(v3.post_op_fh3(True, _handle(made)), _post_op(made), changes.data())
        )

    @in_worker
    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        changes = _Changes()
        try:
            directory = changes.of(self.disk.directory(args.object.dir.data))
            self.disk.remove(directory, args.object.name, is_directory=False)
        except Refused as refused:
            return v3.REMOVE3res(refused.status, v3.REMOVE3resfail(changes.data()))
        return v3.REMOVE3res(_OK, v3.REMOVE3resok(changes.data()))

    @in_worker
    def rmdir(self, args: v3.RMDIR3args, context: CallContext) -> v3.RMDIR3res:
        changes = _Changes()
        try:
            directory = changes.of(self.disk.directory(args.object.dir.data))
            self.disk.remove(directory, args.object.name, is_directory=True)
        except Refused as refused:
            return v3.RMDIR3res(refused.status, v3.RMDIR3resfail(changes.data()))
        return v3.RMDIR3res(_OK, v3.RMDIR3resok(changes.data()))

    @in_worker
    def rename(self, args: v3.RENAME3args, context: CallContext) -> v3.RENAME3res:
        source, target = _Changes(), _Changes()
        try:
            from_directory = source.of(self.disk.directory(args.from_.dir.data))
            to_directory = target.of(self.disk.directory(args.to.dir.data))
            self.disk.rename(from_directory, args.from_.name, to_directory, args.to.name)
        except Refused as refused:
            return v3.RENAME3res(refused.status, v3.RENAME3resfail(source.data(), target.data()))
        return v3.RENAME3res(_OK, v3.RENAME3resok(source.data(), target.data()))

    @in_worker
    def link(self, args: v3.LINK3args, context: CallContext) -> v3.LINK3res:
        found, changes = None, _Changes()
        try:
            found = self.disk.object(args.file.data)
            directory = changes.of(self.disk.directory(args.link.dir.data))
            self.disk.link(found, directory, args.link.name)
        except Refused as refused:
            return v3.LINK3res(refused.status, v3.LINK3resfail(_post_op(found), changes.data()))
        return v3.LINK3res(_OK, v3.LINK3resok(_post_op(found), changes.data()))

    def readdir(self, args: v3.READDIR3args, context: CallContext) -> v3.READDIR3res:
        directory = None
        try:
            directory = self.disk.directory(args.dir.data)
            listed, ended = _page(directory, args.cookie, args.count, _ENTRY_OCTETS)
        except Refused as refused:
            return v3.READDIR3res(refused.status, v3.READDIR3resfail(_post_op(directory)))
        entries = [v3.entry3(found.number, name, cookie) for name, cookie, found in listed]
        return v3.READDIR3res(_OK, v3.READDIR3resok(_post_op(directory), _COOKIE_VERIFIER, v3.dirlist3(entries, ended)))

    def readdirplus(self, args: v3.READDIRPLUS3args, context: CallContext) -> v3.READDIRPLUS3res:
        directory = None
        try:
            directory = self.disk.directory(args.dir.data)
            listed, ended = _page(directory, args.cookie, args.maxcount, _ENTRY_PLUS_OCTETS)
        except Refused as refused:
            return v3.READDIRPLUS3res(refused.status, v3.READDIRPLUS3resfail(_post_op(directory)))
        entries = [
            v3.entryplus3(found.number, name, cookie, _post_op(found), v3.post_op_fh3(True, _handle(found)))
            for name, cookie, found in listed
        ]
        page = v3.dirlistplus3(entries, ended)
        return v3.READDIRPLUS3res(_OK, v3.READDIRPLUS3resok(_post_op(directory), _COOKIE_VERIFIER, page))

    def fsinfo(self, args: v3.FSINFO3args, context: CallContext) -> v3.FSINFO3res:
        return v3.FSINFO3res(
            _OK,
            v3.FSINFO3resok(
                obj_attributes=_NOTHING,
                rtmax=self._transfer_octets,
                rtpref=self._transfer_octets,
                rtmult=4096,
                wtmax=self._transfer_octets,
                wtpref=self._transfer_octets,
                wtmult=4096,
                dtpref=_LISTING_OCTETS,
                maxfilesize=_SIZE_MAX,
                time_delta=v3.nfstime3(0, 1),
                properties=v3.FSF3_LINK | v3.FSF3_SYMLINK | v3.FSF3_HOMOGENEOUS | v3.FSF3_CANSETTIME,
            ),
        )

    @in_worker
    def commit(self, args: v3.COMMIT3args, context: CallContext) -> v3.COMMIT3res:
        changes = _Changes()
        try:
            self.disk.commit(changes.of(self.disk.file(args.file.data)))
        except Refused as refused:
            return v3.COMMIT3res(refused.status, v3.COMMIT3resfail(changes.data()))
        return v3.COMMIT3res(_OK, v3.COMMIT3resok(changes.data(), self.disk.verifier))

    def _set(self, changed: DiskObject, wanted: v3.sattr3) -> None:
        now = self.disk.now_ns()
        for name, value in (("mode", wanted.mode), ("uid", wanted.uid), ("gid", wanted.gid)):
            if value.set_it:
                setattr(changed, name, value.value)
        if wanted.size.set_it:
            assert wanted.size.value is not None
            self.disk.resize(self.disk.file(_handle(changed).data), wanted.size.value)
        for name, how in (("atime", wanted.atime), ("mtime", wanted.mtime)):
            if how.value is not None:
                setattr(changed, name, how.value.seconds * _SECOND_NS + how.value.nseconds)
            elif how.set_it is v3.time_how.SET_TO_SERVER_TIME:
                setattr(changed, name, now)
        changed.ctime = now


class _Changes:
    """The attributes of one object before and after a change."""

    def __init__(self) -> None:
        self._object: DiskObject | None = None
        self._before = v3.pre_op_attr(False, None)

    def of(self, changed: DiskObject) -> DiskObject:
        """Notes the attributes before; returns the object."""
        self._object = changed
        before = v3.wcc_attr(len(changed.data), _time(changed.mtime), _time(changed.ctime))
        self._before = v3.pre_op_attr(True, before)
        return changed

    def data(self) -> v3.wcc_data:
        """Both."""
        return v3.wcc_data(self._before, _post_op(self._object))


def _handle(found: DiskObject) -> v3.nfs_fh3:
    return v3.nfs_fh3(found.number.to_bytes(8, "big"))


def _time(ns: int) -> v3.nfstime3:
    return v3.nfstime3(*divmod(ns, _SECOND_NS))


def _post_op(found: DiskObject | None) -> v3.post_op_attr:
    return _NOTHING if found is None else v3.post_op_attr(True, _attributes(found))


def _attributes(found: DiskObject) -> v3.fattr3:
    octets = len(found.data) or len(found.target.encode())
    times = _time(found.atime), _time(found.mtime), _time(found.ctime)
    return v3.fattr3(
        found.kind, found.mode, found.links, found.uid, found.gid, octets, octets, _NO_DEVICE, 1, found.number, *times
    )


def _page(
    directory: DiskObject, cookie: int, octets_max: int, entry_octets: int
) -> tuple[list[tuple[str, int, DiskObject]], bool]:
    """((name, cookie, object) of the entries after a cookie, whether they are the last) within `octets_max`."""
    listed: list[tuple[str, int, DiskObject]] = []
    left = min(octets_max, _LISTING_OCTETS) - _PAGE_OCTETS
    for name, (place, found) in sorted(directory.entries.items(), key=_place):
        if place <= cookie:
            continue
        left -= entry_octets + (len(name.encode("utf-8", "surrogateescape")) + 3 & ~3)
        if left < 0:
            if not listed:
                raise Refused(v3.nfsstat3.NFS3ERR_TOOSMALL)
            return listed, False
        listed.append((name, place, found))
    return listed, True


def _place(entry: tuple[str, tuple[int, DiskObject]]) -> int:
    return entry[1][0]
