"""Local files on behalf of copies: functions that block, for worker threads.

Everything is named relative to the descriptor of its directory and no symbolic link is followed, so neither a
server's file names nor a symbolic link put there meanwhile can lead out of the directory that a copy was given.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.nfs.client.trees.copy_source import FileChanged, TreeItem, require_unchanged
from rpcrdma.nfs.client.trees.hard_links import shared_by_local
from rpcrdma.nfs.client.trees.not_carried import lost_from_local
from rpcrdma.nfs.errors import NfsError

__all__ = [
    "Temporary",
    "abandon_file",
    "create_directory",
    "create_symlink",
    "create_temporary",
    "filled_parts",
    "finish_directory",
    "finish_file",
    "free_octets",
    "identity_of",
    "is_copied",
    "link_to",
    "list_directory",
    "load_file",
    "local_name",
    "next_data",
    "open_directory",
    "open_top",
    "read_at",
    "read_symlink",
    "require_regular",
    "server_name",
    "store_file",
    "temporary_name",
    "told_of",
    "write_at",
    "write_sparse",
]

_MODE_KEPT = 0o777
"""The mode bits that are taken from a server; not the set-user-ID bit and its kin, as it may know other users."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PAGE_ENTRIES = 500
_HOLE_OCTETS = 4096
"""Local file systems have holes of their blocks' size, which is this on nearly all."""
_ZEROS = bytes(_HOLE_OCTETS)


@dataclass(slots=True)
class Temporary:
    """An open local file that is written under a temporary name, made by `create_temporary`.

    Attributes:
        descriptor: the descriptor of the file; -1 once `finish_file` has closed it: others may reuse it.
        temporary: the present name.
        name: the name that it is to have in the same directory.
        directory: the descriptor of the directory.
        mode: the mode that it gets when it is complete; None: it was made with its final mode.
    """

    descriptor: int
    temporary: str
    name: str
    directory: int
    mode: int | None
    stays: bool = False
    """Whether the file is kept when the copy is interrupted, to be continued by another copy."""

    @property
    def size(self) -> int:
        """The present size of the file in octets."""
        return os.fstat(self.descriptor).st_size


def temporary_name() -> str:
    """Returns a new random name for an incomplete file, `.rpcrdma-` and 16 hexadecimal digits and `.part`."""
    return f".rpcrdma-{random_bits(64):016x}.part"


@contextlib.contextmanager
def told_of(path: str) -> Iterator[None]:
    """Replaces the paths in an OSError of the `with` block by `path`, but not in an `NfsError` or `FileChanged`."""
    try:
        yield
    except (NfsError, FileChanged):
        raise
    except OSError as error:
        error.filename = path
        del error.filename2
        raise


def local_name(name: str) -> bytes:
    """Returns the octets of a file name from a server, the same in every locale, for use as a local name.

    Raises OSError (EINVAL) if the name is empty, "." or "..", or holds a slash or a NUL.
    """
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "the server's name for it cannot be used here", name)
    return name.encode("utf-8", "surrogateescape")


def server_name(name: str) -> str:
    """Returns a local name as the server spells it: its octets decoded as UTF-8 (surrogateescape)."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def open_directory(path: str, directory: int | None = None) -> int:
    """Opens the directory `path` and returns its descriptor, which the caller must close.

    With `directory`, a descriptor, `path` is a name in that directory, and a symbolic link is refused. Raises OSError.
    """
    if directory is None:
        return os.open(path, _DIRECTORY)
    return os.open(local_name(path), _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)


def open_top(path: str, mode: int, *, exact: bool) -> tuple[int, bool]:
    """Opens the directory `path`, or makes it and missing directories above; returns (descriptor, whether made).

    The caller closes the descriptor. A new directory at `path` is to get `mode`, less the umask unless `exact`; until
    `finish_directory` its owner has all rights. New ones above have the default mode. Raises OSError.
    """
    top, begin, made = Path(path), _mode_to_begin(mode, exact=exact), True
    try:
        top.mkdir(begin)
    except FileExistsError:
        made = False
    except FileNotFoundError:
        for above in reversed(top.parents):  # `parents=True` recurses for each level
            above.mkdir(exist_ok=True)
        top.mkdir(begin)
    return open_directory(path), made


def create_directory(name: str, directory: int, mode: int, *, exact: bool) -> tuple[int, bool]:
    """Makes the directory `name` in another one, or opens it if it exists; returns (its descriptor, whether made).

    The caller closes the descriptor. A symbolic link is refused.

    Args:
        name: the name, as the server spells it.
        directory: the descriptor of the directory above.
        mode: the final mode, of which 0o777 count; the owner has all rights until `finish_directory`.
        exact: whether the umask is not to apply; then others have no rights until `finish_directory`.

    Raises:
        OSError: the system refuses, or an object of another type has the name.
    """
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(local_name(name), _mode_to_begin(mode, exact=exact), dir_fd=directory)
        made = True
    return open_directory(name, directory), made


def finish_directory(directory: int, mode: int, times_ns: tuple[int, int], *, exact: bool) -> None:
    """Gives a directory whose entries are complete its mode and times, and closes its descriptor `directory`.

    With `exact` the mode becomes `mode`; without it, only rights of the owner that `mode` lacks are removed.
    `times_ns` is (access, modification) in ns since 1970. Raises OSError; the descriptor is closed in any case.
    """
    try:
        if exact:
            os.fchmod(directory, mode & _MODE_KEPT)
        elif beyond := ~mode & stat.S_IRWXU:
            os.fchmod(directory, stat.S_IMODE(os.fstat(directory).st_mode) & ~beyond)
        os.utime(directory, ns=times_ns)
    finally:
        os.close(directory)


def _mode_to_begin(mode: int, *, exact: bool) -> int:
    return stat.S_IRWXU if exact else mode & _MODE_KEPT | stat.S_IRWXU


def create_symlink(target: str, name: str, directory: int, times_ns: tuple[int, int]) -> None:
    """Makes `name` in the directory of a descriptor a symbolic link to `target`; replaces a file or symbolic link.

    `times_ns` is (access, modification) in ns since 1970. Raises OSError, as EISDIR or EINVAL for any other object.
    """
    _regular_file(name, directory)
    temporary = temporary_name()
    os.symlink(target.encode("utf-8", "surrogateescape"), temporary, dir_fd=directory)
    try:
        os.utime(temporary, ns=times_ns, dir_fd=directory, follow_symlinks=False)
        os.replace(temporary, local_name(name), src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def identity_of(name: str, directory: int) -> tuple[int, ...] | None:
    """Returns (st_dev, st_ino, size, mtime in ns) of the file `name`; None if missing, a directory or a symbolic link.

    `directory` is the descriptor of its directory. (st_dev, st_ino) alone may be those of a file that was made after
    another file was removed. Raises OSError: EINVAL for another object; or the system refuses.
    """
    found = _regular_file(name, directory)
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def link_to(top: int, path: str, identity: tuple[int, ...], name: str, directory: int) -> None:
    """Makes `name` a hard link to the file `path` below `top`; replaces a file or symbolic link.

    No effect if `name` has that identity already. No symbolic link along `path` is followed.

    Args:
        top: the descriptor of the directory at the top.
        path: the path of the file from there.
        identity: (st_dev, st_ino, size, mtime in ns) of the file when it was copied, from `identity_of`.
        name: the new name.
        directory: the descriptor of the directory for it.

    Raises:
        OSError: the system refuses it; ESTALE: `path` now names a file with another identity.
    """
    if identity_of(name, directory) == identity:
        return
    *above, own = path.split("/")
    temporary = temporary_name()
    at = os.dup(top)
    try:
        for step in above:
            former, at = at, open_directory(step, at)
            os.close(former)
        os.link(local_name(own), temporary, src_dir_fd=at, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(at)
    try:
        if identity_of(temporary, directory) != identity:
            raise OSError(errno.ESTALE, "another file has the name of the copy", path)
        os.replace(temporary, local_name(name), src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        # Renaming to another name of the same file does nothing (rename(2)).
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


def create_temporary(name: str, directory: int, mode: int, *, exact: bool, partial: str | None = None) -> Temporary:
    """Opens a new empty file that `finish_file` will rename to `name`, or the file `partial` of an interrupted copy.

    Args:
        name: the final name.
        directory: the descriptor of the directory.
        mode: the mode of the file; bits above 0o777 are ignored.
        exact: whether it gets `mode` as it is; else the mode of a file `name` that it replaces, or `mode` by the umask.
        partial: the name of the partial file, made if it is missing. None, or if that file is another user's, in use,
            not regular, or cannot be opened: the file gets a random name.

    Raises:
        OSError: the system refuses.
    """
    temporary = temporary_name()
    there = _regular_file(name, directory)
    final = mode & _MODE_KEPT if exact else there and there.st_mode & _MODE_KEPT
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Other users may not open the file before it has its final mode.
    begin = mode & _MODE_KEPT if final is None else stat.S_IRUSR | stat.S_IWUSR
    made = Temporary(os.open(temporary, flags, begin, dir_fd=directory), temporary, name, directory, final)
    if partial is not None and _is_ours(made.descriptor):  # where no file is, a new partial file would stay
        # In a shared directory, another user may have put anything under a name that can be foreseen.
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            descriptor = os.open(partial, flags & ~os.O_EXCL, begin, dir_fd=directory)
            stack.callback(os.close, descriptor)
            if _is_ours(descriptor):
                # It may have been begun when `name` had another mode, or was missing.
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(made.descriptor).st_mode))
                abandon_file(made)
                stack.pop_all()
                return Temporary(descriptor, partial, name, directory, final, stays=True)
    return made


def _is_ours(descriptor: int) -> bool:
    """Returns whether an open file is regular, of this user and unused; locks such a file until `descriptor` closes."""
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode):
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def is_copied(name: str, directory: int, size: int, mtime_ns: int) -> bool:
    """Returns whether a descriptor's directory has a regular file of this name, size and mtime; False on OSError."""
    with contextlib.suppress(OSError):
        found = _regular_file(name, directory)
        return found is not None and (found.st_size, found.st_mtime_ns) == (size, mtime_ns)
    return False


def _regular_file(name: str, directory: int) -> os.stat_result | None:
    """Returns the attributes of `name` in a directory; None if it is missing, a directory or a symbolic link.

    Raises OSError: EINVAL for a device, a pipe or a socket, whose place no copy may take; or the system refuses.
    """
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(local_name(name), dir_fd=directory, follow_symlinks=False)
        if stat.S_IFMT(found.st_mode) not in {stat.S_IFDIR, stat.S_IFLNK}:
            require_regular(found, name)
            return found
    return None


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Writes all of `data` at `offset` of an open file; raises OSError."""
    while data:
        count = os.pwrite(descriptor, data, offset)
        offset += count
        data = data[count:]


def write_sparse(descriptor: int, data: memoryview, offset: int) -> None:
    """Writes `data` at `offset` of a new file, but not its pages of 4096 zeros, which stay holes; raises OSError.

    Pages are counted from the beginning of `data`; the last may be shorter. Zeros at the end do not extend the file.
    """
    for start, end in filled_parts(data, _HOLE_OCTETS):
        write_at(descriptor, data[start:end], offset + start)


def filled_parts(data: memoryview, hole: int) -> Iterator[tuple[int, int]]:
    """Yields the parts (start, end) of `data`, in order, that lie between runs of at least `hole` octets of zeros.

    Only whole pages of 4096 octets, counted from the beginning of `data`, and a shorter last one count as zeros. A
    run of zeros at the beginning or the end of `data` is never part of what is yielded, however short it is.
    """
    begun: int | None = None
    filled = 0
    for start in range(0, len(data), _HOLE_OCTETS):
        page = data[start : start + _HOLE_OCTETS]
        # Looking at one octet rules most pages out; `find` compares without a copy.
        if not page[0] and _ZEROS.find(page) == 0:
            continue
        if begun is None:
            begun = start
        elif start - filled >= hole:
            yield begun, filled
            begun = start
        filled = start + len(page)
    if begun is not None:
        yield begun, filled


def next_data(descriptor: int, offset: int) -> int:
    """Returns the offset of the first data from `offset` on in an open file; the file's size if only a hole follows.

    The result is `offset` if the file system does not report holes, or if `offset` is beyond the end of the file.
    """
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        # Any other error: a file system that does not tell.
        return max(offset, os.fstat(descriptor).st_size) if error.errno == errno.ENXIO else offset


def finish_file(file: Temporary, size: int, times_ns: tuple[int, int]) -> None:
    """Gives a complete file its length, mode, times and final name, replacing an entry of that name, and closes it.

    `size` is in octets, `times_ns` (access, modification) in ns since 1970. Raises OSError; then call `abandon_file`.
    """
    os.ftruncate(file.descriptor, size)
    if file.mode is not None:
        os.fchmod(file.descriptor, file.mode)
    os.utime(file.descriptor, ns=times_ns)
    os.replace(file.temporary, local_name(file.name), src_dir_fd=file.directory, dst_dir_fd=file.directory)
    descriptor, file.descriptor = file.descriptor, -1
    os.close(descriptor)


def abandon_file(file: Temporary, *, stale: bool = False) -> None:
    """Closes an incomplete file, and removes it unless another copy may continue it (`file.stays`). Raises nothing.

    `stale`: whether the file is of no use to another copy, and is removed in any case.
    """
    with contextlib.suppress(OSError):
        os.close(file.descriptor)
    if not file.stays or stale:
        with contextlib.suppress(OSError):
            os.unlink(file.temporary, dir_fd=file.directory)


def store_file(
    data: memoryview, name: str, directory: int, mode: int, times_ns: tuple[int, int], *, exact: bool, sparse: bool
) -> None:
    """Writes a file with exactly `data` under a temporary name, then renames it to `name`, replacing an entry.

    `directory` is a descriptor. The file gets `mode` (0o777) if `exact`, else the mode of a file that it replaces, or
    `mode` by the umask. `times_ns`: (access, modification) in ns since 1970. `sparse`: pages of zeros stay holes.
    Raises OSError; then only an earlier entry stays.
    """
    file = create_temporary(name, directory, mode, exact=exact)
    try:
        (write_sparse if sparse else write_at)(file.descriptor, data, 0)
        finish_file(file, len(data), times_ns)
    except BaseException:
        abandon_file(file)
        raise


def load_file(name: str, directory: int | None, buffer: memoryview) -> tuple[int, int, os.stat_result]:
    """Opens a regular file and fills `buffer` from its beginning; returns (descriptor, octets read, attributes).

    The file is `name` in the directory of the descriptor `directory`, or the path `name` if that is None. Fewer octets
    than `buffer` has are read only if the file is shorter. The caller closes the returned descriptor.

    Raises:
        OSError: EISDIR or EINVAL: `name` is no regular file; ELOOP: it is a symbolic link in `directory`; or the system
            refuses.
        FileChanged: the file changed meanwhile.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if directory is None:
        descriptor = os.open(name, flags)
    else:
        descriptor = os.open(local_name(name), flags | os.O_NOFOLLOW, dir_fd=directory)
    try:
        attributes = os.fstat(descriptor)
        require_regular(attributes, name)
        got = read_at(descriptor, buffer, 0)
        require_unchanged(descriptor, attributes, name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, got, attributes


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fills `buffer` from `offset` of an open file; returns the octets read, fewer only at its end. Raises OSError."""
    got = 0
    while got < len(buffer) and (count := os.preadv(descriptor, [buffer[got:]], offset + got)):
        got += count
    return got


def free_octets(directory: int) -> int:
    """Returns the octets that are free for this user in the file system of a directory's descriptor; raises OSError."""
    found = os.fstatvfs(directory)
    return found.f_bavail * found.f_frsize


def read_symlink(name: str, directory: int) -> tuple[str, os.stat_result]:
    """Returns (target, own attributes) of the symbolic link `name` in the directory of a descriptor; raises OSError."""
    own = local_name(name)
    target = os.readlink(own, dir_fd=directory).decode("utf-8", "surrogateescape")
    return target, os.stat(own, dir_fd=directory, follow_symlinks=False)


def list_directory(directory: int) -> Iterator[list[TreeItem]]:
    """Yields the entries of a descriptor's directory in the system's order, by lists of 0 to 500; may raise OSError."""
    with os.scandir(directory) as entries:
        page: list[TreeItem] = []
        for entry in entries:
            page.append(_local_item(entry, directory))
            if len(page) == _PAGE_ENTRIES:
                yield page
                page = []
        yield page


def _local_item(entry: os.DirEntry[str], directory: int) -> TreeItem:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Removed since; the copy of it will fail and say so.
        return TreeItem(server_name(entry.name), _kind(entry), 0, (), None)
    # Linux has no calls for extended attributes of a name in an open directory.
    lost = lost_from_local(found, f"/proc/self/fd/{directory}/{entry.name}")
    return TreeItem(server_name(entry.name), _kind(entry), found.st_size, lost, shared_by_local(found))


def require_regular(attributes: os.stat_result, name: str) -> None:
    """Raises OSError about `name`, EISDIR or EINVAL, unless the `attributes` are those of a regular file."""
    if not stat.S_ISREG(attributes.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(attributes.st_mode) else errno.EINVAL
        raise OSError(number, "not a regular file", name)


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0
