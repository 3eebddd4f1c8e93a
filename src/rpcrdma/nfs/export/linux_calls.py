"""System calls that Python's `os` lacks: object identity, per-thread identity, checks as the caller, times.

Calls that may wait for a disk release the interpreter lock; calls that only change the calling thread keep it, which
is faster.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import platform
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "AT_EMPTY_PATH",
    "CAP_SETGID",
    "CAP_SETUID",
    "FALLOC_FL_KEEP_SIZE",
    "FALLOC_FL_PUNCH_HOLE",
    "USER_XATTRS",
    "UTIME_NOW",
    "UTIME_OMIT",
    "KernelHandle",
    "ThreadChange",
    "birth_and_mount",
    "change_events",
    "change_thread",
    "clone_range",
    "effective_capabilities",
    "faccess_as_caller",
    "fallocate",
    "file_clock_ns",
    "has_user_xattrs",
    "is_asked_elsewhere",
    "lives_in_memory",
    "mark_for_events",
    "name_to_handle",
    "open_beneath",
    "open_by_handle",
    "open_cached",
    "set_file_times",
    "signal_events",
    "sync_file_system",
    "to_capabilities",
    "to_group",
    "to_groups",
    "to_keep_capabilities",
    "to_user",
    "user_decides_capabilities",
]

AT_FDCWD = -100
AT_EACCESS = 0x200
AT_EMPTY_PATH = 0x1000
CAP_SETGID = 6
CAP_SETUID = 7
FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2
# Write in the direction bits, which some machines have in another place; 32 octets.
_FICLONERANGE = 0x8020940D if platform.machine().startswith(("ppc", "mips", "sparc")) else 0x4020940D
_CLONED_RANGE = struct.Struct("=qQQQ")
UTIME_NOW = (1 << 30) - 1
UTIME_OMIT = (1 << 30) - 2
USER_XATTRS = b"user."
"""The prefix of the extended attributes that the permissions of their object protect."""

_MAX_HANDLE = 128
_SYS_FACCESSAT2 = 439
_SYS_OPENAT2 = 437
_MEMORY_FILE_SYSTEMS = {0x01021994, 0x858458F6}
"""The magic numbers of tmpfs and ramfs, by `statfs`."""
_ASKED_ELSEWHERE = {
    0x65735546, 0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x01021997, 0x00C36400, 0x0BD00BD0, 0x5346414F, 0x6B414653,
}  # fmt: skip
"""The magic numbers of FUSE, NFS, the three of SMB, 9P, Ceph, Lustre, and the two of AFS."""
# The C library's functions change every thread of the process (POSIX); the bare calls change the calling one.
_SYS_SETGROUPS, _SYS_SETRESUID, _SYS_SETRESGID = {
    "x86_64": (116, 117, 119),
    "aarch64": (159, 147, 149),
    "riscv64": (159, 147, 149),
    "loongarch64": (159, 147, 149),
    "ppc64le": (81, 164, 169),
    "s390x": (206, 208, 210),
}.get(platform.machine(), (None, None, None))
_PR_SET_KEEPCAPS = 8
_PR_GET_SECUREBITS = 27
_SECBIT_NO_SETUID_FIXUP = 4

_FAN_CLOEXEC, _FAN_NONBLOCK, _FAN_REPORT_FID = 0x1, 0x2, 0x200
_FAN_MARK_ADD, _FAN_MARK_REMOVE = 0x1, 0x2
_SIGNAL_SET = struct.Struct("@Q120x")
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_CACHED = 0x20
_STATX_BTIME = 0x800
_STATX_MNT_ID = 0x1000

_waiting = ctypes.CDLL(None, use_errno=True)
_instant = ctypes.PyDLL(None, use_errno=True)


class _FileHandle(ctypes.Structure):
    _fields_ = (("octets", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_char * _MAX_HANDLE))


class KernelHandle(NamedTuple):
    """The kernel's file handle of an object: type and data, unique in its file system as long as the object exists."""

    type: int
    data: bytes
    mount: int
    """The number of the mount through which the object was opened; only good for comparison."""


def _function(library: ctypes.CDLL, name: str, *arguments: Any) -> Any:
    """Returns the function `name` of the C library, which takes `arguments`, types of ctypes, and returns an int."""
    found = library[name]
    found.argtypes, found.restype = arguments, ctypes.c_int
    return found


def _system_call(library: ctypes.CDLL) -> Any:
    """Returns a new function object for `syscall` of the C library, to be used with one sequence of argument types."""
    found = library["syscall"]
    found.restype = ctypes.c_long
    return found


_int, _text, _address = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
_name_to_handle_at = _function(
    _waiting, "name_to_handle_at", _int, _text, ctypes.POINTER(_FileHandle), ctypes.POINTER(_int), _int
)
_open_by_handle_at = _function(_waiting, "open_by_handle_at", _int, _address, _int)
_statx = _function(_waiting, "statx", _int, _text, _int, ctypes.c_uint, _address)
_fstatfs = _function(_waiting, "fstatfs64", _int, _address)
_syncfs = _function(_waiting, "syncfs", _int)
_fallocate = _function(_waiting, "fallocate64", _int, _int, ctypes.c_int64, ctypes.c_int64)
_fanotify_mark = _function(_waiting, "fanotify_mark", _int, ctypes.c_uint, ctypes.c_uint64, _int, _text)
_utimensat = _function(_waiting, "utimensat", _int, _text, _text, _int)
_clock_gettime = _function(_instant, "clock_gettime", _int, _address)
_capget = _function(_instant, "capget", _address, _address)
_capset = _function(_instant, "capset", _address, _address)
_faccessat2 = _system_call(_waiting)
_openat2 = _system_call(_instant)
_openat2_waiting = _system_call(_waiting)
_change_thread = _system_call(_instant)

_REACH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_RESOLVE = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_XDEV
_BENEATH_HOW = ctypes.create_string_buffer(struct.pack("=3Q", _REACH, 0, _RESOLVE), 24)
_BENEATH_HOW_ADDRESS = ctypes.c_void_p(ctypes.addressof(_BENEATH_HOW))
_CACHED_HOW = ctypes.create_string_buffer(struct.pack("=3Q", _REACH, 0, _RESOLVE | _RESOLVE_CACHED), 24)
# Header of capget and capset: the version with 64 bits, and 0 for the calling thread.
_CAPABILITIES_OF = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
_CAPABILITIES_OF_ADDRESS = ctypes.c_void_p(ctypes.addressof(_CAPABILITIES_OF))
_CAPABILITIES = struct.Struct("=6I")
_HOW_ADDRESS = ctypes.c_void_p(ctypes.addressof(_CACHED_HOW))
_HOW_OCTETS = ctypes.c_size_t(24)
_OPENAT2 = ctypes.c_long(_SYS_OPENAT2)
_FACCESSAT2 = ctypes.c_long(_SYS_FACCESSAT2)
_EMPTY = ctypes.c_char_p(b"")
_ACCESS_FLAGS = ctypes.c_int(AT_EACCESS | AT_EMPTY_PATH)
_STATX_LAYOUT = struct.Struct("=80xqI")
_TIMES = struct.Struct("@4l")
_TIME = struct.Struct("@2l")
_CLOCK_REALTIME_COARSE = 5


def _failure() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


def name_to_handle(fd: int) -> KernelHandle:
    """Returns the kernel's file handle of the object behind the descriptor `fd`, which may be an O_PATH descriptor.

    Raises OSError: EOPNOTSUPP or EOVERFLOW where the file system has no such handles; and others.
    """
    handle = _FileHandle(_MAX_HANDLE)
    mount = ctypes.c_int()
    if _name_to_handle_at(fd, b"", handle, mount, AT_EMPTY_PATH):
        raise _failure()
    return KernelHandle(handle.type, bytes(handle)[8 : 8 + handle.octets], mount.value)


def open_by_handle(mount_fd: int, kind: int, data: bytes) -> int:
    """Returns a new O_PATH descriptor of the object with a kernel handle, anywhere in the file system of `mount_fd`.

    `kind` and `data` are `type` and `data` of a `KernelHandle`. `mount_fd` must not be an O_PATH descriptor. The caller
    closes the result. Raises OSError, such as ESTALE: the object is gone; EPERM: the process lacks CAP_DAC_READ_SEARCH.
    """
    handle = _FileHandle(len(data), kind)
    ctypes.memmove(ctypes.addressof(handle) + 8, data, len(data))
    fd: int = _open_by_handle_at(mount_fd, ctypes.addressof(handle), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if fd < 0:
        raise _failure()
    return fd


def birth_and_mount(fd: int) -> tuple[int, int]:
    """Returns (time of birth, number of the mount) of the object behind the descriptor `fd`, or raises OSError.

    The time is in nanoseconds since 1970, and 0 where the file system does not keep it. The number is only good for
    comparison; an old kernel gives the device number in its place.
    """
    out = ctypes.create_string_buffer(256)
    if _statx(fd, b"", AT_EMPTY_PATH, _STATX_BTIME | _STATX_MNT_ID, ctypes.addressof(out)):
        raise _failure()
    (mask,) = struct.unpack_from("=I", out)
    seconds, nanoseconds = _STATX_LAYOUT.unpack_from(out)
    (mount,) = struct.unpack_from("=Q", out, 144)
    birth = seconds * 1_000_000_000 + nanoseconds if mask & _STATX_BTIME else 0
    return birth, mount if mask & _STATX_MNT_ID else os.fstat(fd).st_dev


def lives_in_memory(fd: int) -> bool:
    """Returns whether the file system of the descriptor `fd` is tmpfs or ramfs, or raises OSError if unknown."""
    return _file_system_type(fd) in _MEMORY_FILE_SYSTEMS


def is_asked_elsewhere(fd: int) -> bool:
    """Returns whether the kernel asks a server or a process about each file in the file system of the descriptor `fd`.

    True for network file systems and FUSE, where even `fstat` of an open file may wait. Raises OSError if unknown.
    """
    return _file_system_type(fd) in _ASKED_ELSEWHERE


def _file_system_type(fd: int) -> int:
    out = ctypes.create_string_buffer(256)
    if _fstatfs(fd, ctypes.addressof(out)):
        raise _failure()
    (kind,) = struct.unpack_from("@l", out)
    return int(kind) & 0xFFFFFFFF


def has_user_xattrs(path: bytes) -> bool:
    """Returns whether the file system of the object at `path` supports extended attributes in the namespace "user.".

    Returns False also if that cannot be found out.
    """
    try:
        os.getxattr(path, USER_XATTRS + b"rpcrdma")
    except OSError as error:
        return error.errno == errno.ENODATA
    return True


def sync_file_system(fd: int) -> None:
    """Puts all data of the file system of `fd` on its disk; `fd` must not be an O_PATH descriptor.

    Raises OSError: EIO, ENOSPC or EDQUOT: some of the data is lost.
    """
    if _syncfs(fd):
        raise _failure()


def open_cached(directory: int, name: bytes) -> int:
    """Returns a new O_PATH descriptor of `name` in the directory of the descriptor `directory`; never waits for a disk.

    A symbolic link itself is opened; no mount point is crossed.

    Raises:
        BlockingIOError: the kernel does not have the name in its cache, so that it would have to wait.
        OSError: EXDEV: the name is a mount point; ENOENT and others; ENOSYS or EINVAL before Linux 5.12.
    """
    fd: int = _openat2(_OPENAT2, ctypes.c_int(directory), ctypes.c_char_p(name), _HOW_ADDRESS, _HOW_OCTETS)
    if fd < 0:
        raise _failure()
    return fd


def open_beneath(directory: int, path: bytes) -> int:
    """Returns a new O_PATH descriptor of the object at `path` below the directory of a descriptor; may block.

    A symbolic link at the end of the path is opened itself. Raises OSError: ELOOP: a directory in the path is a
    symbolic link; EXDEV: the path crosses a mount point or leaves `directory`; or as `os.open`.
    """
    fd: int = _openat2_waiting(
        _OPENAT2, ctypes.c_int(directory), ctypes.c_char_p(path), _BENEATH_HOW_ADDRESS, _HOW_OCTETS
    )
    if fd < 0:
        raise _failure()
    return fd


def faccess_as_caller(fd: int, mode: int) -> bool:
    """Returns whether the calling thread's effective user may access the object of `fd` in `mode` (os.R_OK and so on).

    Raises OSError: the kernel gives no answer: ENOSYS before Linux 5.8, EIO.
    """
    if not _faccessat2(_FACCESSAT2, ctypes.c_int(fd), _EMPTY, ctypes.c_int(mode), _ACCESS_FLAGS):
        return True
    code = ctypes.get_errno()
    if code in {errno.EACCES, errno.EROFS, errno.EPERM, errno.ETXTBSY}:
        return False
    raise OSError(code, os.strerror(code))


def file_clock_ns() -> int:
    """Returns the time, in nanoseconds since 1970, that the kernel would give to a file that changes now.

    The time is that of CLOCK_REALTIME_COARSE, which may be a few milliseconds behind other clocks.
    """
    out = ctypes.create_string_buffer(_TIME.size)
    if _clock_gettime(_CLOCK_REALTIME_COARSE, ctypes.addressof(out)):
        raise _failure()
    seconds, nanoseconds = _TIME.unpack(out)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def fallocate(fd: int, mode: int, offset: int, octets: int) -> None:
    """Reserves or frees the disk space of `octets` octets at `offset`; `mode` has FALLOC_FL_* bits, 0 to reserve.

    Raises OSError: ENOSPC, EFBIG, EOPNOTSUPP and others.
    """
    if _fallocate(fd, mode, offset, octets):
        raise _failure()


def clone_range(source: int, source_offset: int, fd: int, offset: int, octets: int) -> None:
    """Lets a range of the file `fd` share the disk blocks of a range of the file `source`; both are descriptors.

    `octets` 0 stands for all up to the end of the source. Raises OSError: EOPNOTSUPP: the file system has no shared
    blocks; EINVAL: the ranges overlap, or do not begin and end at blocks; EXDEV; and others.
    """
    try:
        fcntl.ioctl(fd, _FICLONERANGE, _CLONED_RANGE.pack(source, source_offset, octets, offset))
    except OSError as error:
        if error.errno == errno.ENOTTY:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)) from None
        raise


def change_events() -> int:
    """Returns a new descriptor of fanotify that does not block, reports files by their handles and needs no privilege.

    Raises OSError: ENOSYS or EINVAL before Linux 5.13, EPERM where it is not allowed, EMFILE.
    """
    fd: int = _waiting.fanotify_init(_FAN_CLOEXEC | _FAN_NONBLOCK | _FAN_REPORT_FID, os.O_RDONLY | os.O_CLOEXEC)
    if fd < 0:
        raise _failure()
    return fd


def mark_for_events(events: int, fd: int, mask: int, *, remove: bool = False) -> None:
    """Adds `mask` to the events that the fanotify descriptor `events` reports of a file; with `remove`, takes it away.

    `mask` has bits FAN_*; `fd` is a descriptor of the file, no O_PATH one. Raises OSError: ENODEV, EXDEV, EOPNOTSUPP:
    its file system reports none; ENOSPC: the user has too many marks.
    """
    if _fanotify_mark(events, _FAN_MARK_REMOVE if remove else _FAN_MARK_ADD, mask, fd, None):
        raise _failure()


def signal_events(number: int) -> int:
    """Returns a new blocking signalfd descriptor that reports the signal `number`; may raise OSError.

    The thread that is to receive the signal has to block it (`signal.pthread_sigmask`).
    """
    signals = ctypes.create_string_buffer(_SIGNAL_SET.pack(1 << number - 1), _SIGNAL_SET.size)
    fd: int = _waiting.signalfd(-1, signals, os.O_CLOEXEC)
    if fd < 0:
        raise _failure()
    return fd


def set_file_times(path: bytes, atime: tuple[int, int], mtime: tuple[int, int]) -> None:
    """Sets the times of access and modification of the file at `path`, each (seconds, nanoseconds) since 1970.

    UTIME_NOW or UTIME_OMIT in place of the nanoseconds: the present time, or no change. Follows a symbolic link. Raises
    OSError if the system refuses it.
    """
    if _utimensat(AT_FDCWD, path, _TIMES.pack(*atime, *mtime), 0):
        raise _failure()


ThreadChange: TypeAlias = Callable[[], int]
"""A prepared system call that changes the identity of the calling thread alone, for `change_thread`; returns 0 on
success."""


def change_thread(changes: Iterable[ThreadChange]) -> None:
    """Applies changes to the identity of the calling thread alone, in order.

    Raises OSError: the system does not allow one of them; those before it are in effect.
    """
    for change in changes:
        if change():
            raise _failure()


def to_user(uid: int, *, saved: int) -> ThreadChange:
    """Returns, for `change_thread`, the change of the effective and file system user to `uid`.

    `saved` becomes the saved user, to which the thread may return later. Raises OSError (ENOSYS) if the numbers of the
    system calls are not known for this machine.
    """
    return _bare_call(_SYS_SETRESUID, ctypes.c_int(-1), ctypes.c_uint(uid), ctypes.c_uint(saved))


def to_group(gid: int) -> ThreadChange:
    """Returns, for `change_thread`, the change of the effective group to `gid`; the saved group stays.

    Raises OSError (ENOSYS) if the numbers of the system calls are not known for this machine.
    """
    return _bare_call(_SYS_SETRESGID, ctypes.c_int(-1), ctypes.c_uint(gid), ctypes.c_int(-1))


def to_groups(gids: tuple[int, ...]) -> ThreadChange:
    """Returns, for `change_thread`, the change of the supplementary groups to `gids`.

    Raises OSError (ENOSYS) if the numbers of the system calls are not known for this machine.
    """
    return _bare_call(_SYS_SETGROUPS, ctypes.c_int(len(gids)), (ctypes.c_uint * len(gids))(*gids))


def _bare_call(number: int | None, *arguments: object) -> ThreadChange:
    if number is None:
        raise OSError(errno.ENOSYS, f"acting as the caller is not supported on {platform.machine()}")
    return functools.partial(_change_thread, ctypes.c_long(number), *arguments)


def to_capabilities(*, effective: bool) -> ThreadChange:
    """Returns, for `change_thread`, the change of capabilities to those that the calling thread has now.

    Those permitted now are permitted; those in effect now are in effect, or none if `effective` is False. Raises
    OSError if they cannot be read.
    """
    held = _capabilities()
    if not effective:
        _, permitted, inheritable, _, more_permitted, more_inheritable = _CAPABILITIES.unpack(held.raw)
        _CAPABILITIES.pack_into(held, 0, 0, permitted, inheritable, 0, more_permitted, more_inheritable)
    return functools.partial(_capset, _CAPABILITIES_OF_ADDRESS, held)


def to_keep_capabilities() -> ThreadChange:
    """Returns, for `change_thread`, PR_SET_KEEPCAPS: the thread keeps permitted capabilities when it leaves root."""
    return functools.partial(_instant.prctl, _PR_SET_KEEPCAPS, 1, 0, 0, 0)


def effective_capabilities() -> int:
    """Returns the calling thread's effective capabilities as a mask, bit n for capability n; may raise OSError."""
    effective, _, _, more, _, _ = _CAPABILITIES.unpack(_capabilities().raw)
    return int(effective) | int(more) << 32


def user_decides_capabilities() -> bool:
    """Returns whether a switch from root to another user drops all effective capabilities, and back restores them.

    True if the calling thread is root, all its permitted capabilities are in effect, and its securebits lack
    SECBIT_NO_SETUID_FIXUP; else False. Raises OSError if its capabilities cannot be read.
    """
    effective, permitted, _, more_effective, more_permitted, _ = _CAPABILITIES.unpack(_capabilities().raw)
    fixed_up = not _instant.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0) & _SECBIT_NO_SETUID_FIXUP
    return os.geteuid() == 0 and fixed_up and (effective, more_effective) == (permitted, more_permitted)


def _capabilities() -> ctypes.Array[ctypes.c_char]:
    held = ctypes.create_string_buffer(_CAPABILITIES.size)
    if _capget(_CAPABILITIES_OF_ADDRESS, held):
        raise _failure()
    return held
