"""The calls of a mounted file system about single objects: attributes and names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self

from rpcrdma.aio.misuse import AsynchronousOnly
from rpcrdma.aio.urls import Url
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.attributes import NOW, Now, Stat, StatVfs, rights_of, set_attributes, stat_from, statvfs_from
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import Path, components, join, text_of, told_target
from rpcrdma.nfs.client.resolver import LEADS_NOWHERE
from rpcrdma.nfs.client.trees.tree_remove import RemoveReport, remove_tree
from rpcrdma.nfs.client.volume import FileOptions, Volume
from rpcrdma.nfs.errors import ExportPath, NfsExists, NfsNotFound, nfs_error
from rpcrdma.rpc.client_stub import check_awaits
from rpcrdma.rpc.program import Caller

__all__ = ["ObjectCalls"]

_SECOND_NS = 1_000_000_000


class ObjectCalls:
    """The calls of `NfsFilesystem`, its subclass, about single objects, and the making and removing of directories.

    `caller` is the connection to the NFS server, `root` the root handle, `directory` the place at which relative paths
    start, `options` are bounds of calls, copies and listings (None: the defaults), `url` is the root's URL, for errors
    (None: they show paths), `clock` returns seconds (None: the event loop's clock), and `sleep` waits for seconds.
    """

    def __init__(
        self,
        caller: Caller,
        root: v3.nfs_fh3 | bytes,
        *,
        directory: str = "/",
        options: FileOptions | None = None,
        url: Url | None = None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        check_awaits(caller, self)
        handle = v3.nfs_fh3(root) if isinstance(root, bytes) else root
        self.caller = caller
        self._volume = Volume(
            caller,
            handle,
            directory=join("/", directory),
            top="/" if url is None else ExportPath("/", url),
            options=options or FileOptions(),
            clock=clock,
            sleep=sleep,
        )
        self._resolver = self._volume.resolver
        self._procedures = self._volume.procedures

    __enter__ = AsynchronousOnly("async with")

    def __repr__(self) -> str:
        return f"<rpcrdma.NfsFilesystem over {self.caller!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def directory(self) -> str:
        """The directory at which relative paths start, as an absolute path from the root of the mount."""
        return self._resolver.directory

    async def close(self) -> None:
        """Cancels background calls of open files, and ends the threads for local files; the connection stays open.

        Open files are not flushed; reads that wait for such calls, and appends under way, fail with `TransportClosed`.
        The file system can be used further: later operations start calls and threads anew, which another `close` ends.
        """
        await self._volume.close()

    async def handle_of(self, path: Path) -> tuple[bytes, str]:
        """Returns (the server's file handle, the absolute path in the mount) of the object at `path`.

        Symbolic links are followed. Raises OSError, `NfsError` if the server refuses, and the errors of `Caller.call`.
        """
        node = await self._resolver.find(path)
        return node.handle.data, node.path

    # Attributes

    async def stat(self, path: Path, *, follow_symlinks: bool = True) -> Stat:
        """Returns the server's present attributes of the object at `path`.

        Without `follow_symlinks`, a symbolic link at the end of `path` is described itself. Raises OSError (ELOOP: more
        than 40 links on the way), `NfsError` if the server refuses, such as FileNotFoundError, and the errors of
        `Caller.call`.
        """
        node = await self._resolver.find(path, follow=follow_symlinks)
        return stat_from(await self._volume.attributes(node))

    async def lstat(self, path: Path) -> Stat:
        """Returns the server's present attributes of the object at `path`, or of a symbolic link there itself.

        Raises OSError (ELOOP: more than 40 links on the way), `NfsError` if the server refuses, such as
        FileNotFoundError, and the errors of `Caller.call`.
        """
        return await self.stat(path, follow_symlinks=False)

    async def exists(self, path: Path) -> bool:
        """Returns whether an object exists at `path`; symbolic links are followed.

        Returns False also if a name on the way is no directory or too long, links form a circle, or `path` has a NUL or
        characters that stand for no octets. Unlike `os.path.exists` it raises errors that leave the question open, such
        as a lost connection.
        """
        return await self._found(path) is not None

    async def is_dir(self, path: Path) -> bool:
        """Returns whether `path` leads to a directory, perhaps by symbolic links; False if nothing exists there.

        Returns False also if a name on the way is no directory or too long, links form a circle, or `path` has a NUL or
        characters that stand for no octets. Raises errors that leave the question open, such as a lost connection.
        """
        found = await self._found(path)
        return found is not None and found.is_dir()

    async def is_file(self, path: Path) -> bool:
        """Returns whether `path` leads to a regular file, perhaps by symbolic links; False if nothing exists there.

        Returns False also if a name on the way is no directory or too long, links form a circle, or `path` has a NUL or
        characters that stand for no octets. Raises errors that leave the question open, such as a lost connection.
        """
        found = await self._found(path)
        return found is not None and found.is_file()

    async def access(self, path: Path, mode: int) -> bool:
        """Returns whether the server grants this caller all rights of `mode`; False also if no object exists at `path`.

        Args:
            path: the path of the object; symbolic links are followed.
            mode: `os.F_OK` for existence alone, or `os.R_OK`, `os.W_OK` and `os.X_OK` combined by `|`.

        Raises:
            NfsError: the server refuses to answer; and the errors of `Caller.call`.
            ValueError: `path` has a NUL, or characters that stand for no octets.
        """
        try:
            node = await self._resolver.find(path)
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise
            return False
        wanted = rights_of(mode, is_directory=node.is_dir)
        return not wanted or (await self._procedures.access(node, wanted))[0] == wanted

    async def chmod(self, path: Path, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permission bits; raises `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            path: the path of the object.
            mode: the bits, 0 to 0o7777; higher bits are ignored.
            follow_symlinks: whether a symbolic link at the end of `path` is followed.
        """
        await self._set(path, set_attributes(mode=mode), follow=follow_symlinks)

    async def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group of an object; raises `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            path: the path of the object.
            uid: the owner's number; -1 leaves the owner unchanged.
            gid: the group's number; -1 leaves the group unchanged.
            follow_symlinks: whether a symbolic link at the end of `path` is followed.
        """
        attributes = set_attributes(uid=None if uid == -1 else uid, gid=None if gid == -1 else gid)
        await self._set(path, attributes, follow=follow_symlinks)

    async def utime(
        self,
        path: Path,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets the times of last access and modification; without `times` and `ns`, to the server's present time.

        Args:
            path: the path of the object.
            times: (access, modification) in seconds since 1970.
            ns: (access, modification) in nanoseconds since 1970, instead of `times`.
            follow_symlinks: whether a symbolic link at the end of `path` is followed.

        Raises:
            OverflowError: a time is outside of NFSv3's range, 1970 to 2106.
            ValueError: both `times` and `ns` are given.
            NfsError: the server refuses; and the errors of `Caller.call`.
        """
        pair: tuple[int | Now, int | Now] = (NOW, NOW)
        if times is not None:
            if ns is not None:
                raise ValueError("utime: give times or ns, not both")
            pair = (round(times[0] * _SECOND_NS), round(times[1] * _SECOND_NS))
        elif ns is not None:
            pair = ns
        await self._set(path, set_attributes(atime_ns=pair[0], mtime_ns=pair[1]), follow=follow_symlinks)

    async def truncate(self, path: Path, length: int) -> None:
        """Sets the size of a file.

        Raises ValueError if `length` is negative, `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            path: the path of the file; symbolic links are followed.
            length: the new size in octets; a longer file is cut, a shorter file extended with zeros.
        """
        await self._set(path, set_attributes(size=length), follow=True)

    async def statvfs(self, path: Path = "/") -> StatVfs:
        """Returns the space and limits of the file system that contains `path`, by FSSTAT and PATHCONF.

        Raises OSError, `NfsError` if the server refuses, and the errors of `Caller.call`.
        """
        node = await self._resolver.find(path)
        space, limits = await asyncio.gather(self._procedures.fsstat(node), self._procedures.pathconf(node))
        return statvfs_from(space, limits)

    # Names

    async def unlink(self, path: Path) -> None:
        """Removes a file, a symbolic link itself, or another object that is no directory.

        Raises `NfsError` if the server refuses, such as FileNotFoundError, and the errors of `Caller.call`.
        """
        directory, name = await self._resolver.find_parent(path, removes=True)
        with self._resolver.changing(directory, name):
            await self._procedures.remove(directory, name)

    async def rename(self, source: Path, target: Path) -> None:
        """Renames an object, and replaces an object at `target` if their types permit that (RFC 1813 section 3.3.14).

        Raises `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            source: the present path; a symbolic link at its end is renamed itself.
            target: the new path, name included. A slash at the end of either path demands that the object is a
                directory (NotADirectoryError).
        """
        from_directory, from_name = await self._resolver.find_parent(source, of_directory=True)
        to_directory, to_name = await self._resolver.find_parent(target, of_directory=True)
        old, new = self._resolver.absolute(source), self._resolver.absolute(target)
        # A slash at the end of either demands a directory.
        of_directory = "." in {components(old)[-1], components(new)[-1]}
        if of_directory and not (await self._procedures.lookup(from_directory, from_name)).is_dir:
            raise nfs_error(v3.nfsstat3.NFS3ERR_NOTDIR, old, new)
        with self._resolver.changing(from_directory, from_name), self._resolver.changing(to_directory, to_name):
            await self._procedures.rename(from_directory, from_name, to_directory, to_name)

    async def link(self, source: Path, target: Path) -> None:
        """Makes a hard link; raises `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            source: the path of the object; a symbolic link at its end is not followed.
            target: the path of the new name, which must not exist.
        """
        node = await self._resolver.find(source, follow=False)
        directory, name = await self._resolver.find_parent(target)
        await self._procedures.link(node, directory, name)

    async def symlink(self, target: Path, path: Path) -> None:
        """Makes a symbolic link; raises `NfsError` if the server refuses, and the errors of `Caller.call`.

        Args:
            target: the text of the link, which need not be a path that exists.
            path: the path of the link, which must not exist.
        """
        directory, name = await self._resolver.find_parent(path)
        with self._resolver.changing(directory, name):
            await self._procedures.symlink(directory, name, text_of(target), set_attributes(mode=0o777))

    async def readlink(self, path: Path) -> str:
        """Returns the target of the symbolic link at `path`, unresolved.

        Raises `NfsError` if the server refuses, OSError (EINVAL) if the object is no symbolic link, or its target is
        empty or holds a NUL, and the errors of `Caller.call`.
        """
        node = await self._resolver.find(path, follow=False)
        if not node.is_symlink:
            raise nfs_error(v3.nfsstat3.NFS3ERR_INVAL, node.path)
        return told_target(await self._resolver.target_of(node), node.path)

    async def mkdir(self, path: Path, mode: int = 0o755, *, exist_ok: bool = False, parents: bool = False) -> None:
        """Makes a directory, like `pathlib.Path.mkdir`.

        Args:
            path: the path of the directory.
            mode: its permission bits.
            exist_ok: whether an existing directory is accepted.
            parents: whether missing directories above it are made, too, with mode 0o755.

        Raises:
            FileExistsError: the path exists, unless it is a directory and `exist_ok` is set.
            NfsError: the server refuses; FileNotFoundError: a directory above is missing, without `parents`; and the
                errors of `Caller.call`.
        """
        # A loop, since each level of a recursion would take frames of Python: paths may have any depth.
        missing = [(path, mode, exist_ok)]
        found_above = False
        while missing:
            at, bits, may_exist = missing[-1]
            try:
                directory, name = await self._resolver.find_parent(at, of_directory=True)
                with self._resolver.changing(directory, name):
                    made = await self._procedures.mkdir(directory, name, set_attributes(mode=bits))
                self._resolver.keep_made(directory, name, *made)
            except NfsNotFound:
                above = [name for name in components(self._resolver.absolute(at)) if name != "."][:-1]
                while above and above[-1] == "..":
                    above.pop()
                if not parents or found_above or not above:
                    raise
                missing.append(("/" + "/".join(above), 0o755, True))
                continue
            except NfsExists:
                if not may_exist or not await self.is_dir(at):
                    raise
            missing.pop()
            # From here on NFS3ERR_NOENT is an error: a server might answer it without end.
            found_above = True

    async def _find_or_make(self, path: Path, mode: int) -> tuple[Node, bool]:
        """Returns (the directory at `path`, whether this call made it with `mode`); raises the errors of `mkdir`."""
        made = True
        try:
            await self.mkdir(path, mode)
        except NfsExists:
            made = False
            if not await self.is_dir(path):
                raise
        return await self._resolver.find(path), made

    async def rmdir(self, path: Path) -> None:
        """Removes an empty directory; raises `NfsError` if the server refuses, and the errors of `Caller.call`."""
        directory, name = await self._resolver.find_parent(path, of_directory=True)
        with self._resolver.changing(directory, name):
            await self._procedures.rmdir(directory, name)

    async def rmtree(self, path: Path, *, exclude: Iterable[str] = ()) -> RemoveReport:
        """Removes a directory with all contents, many files at a time; symbolic links are removed, not followed.

        Entries that match a shell pattern of `exclude` stay, with the directories above them. A pattern without a slash
        is matched with names at any depth, a pattern with a slash, other than at its end, with paths from `path`.

        Returns:
            The numbers of removed objects, and the failures, which `RemoveReport.check` raises.

        Raises:
            NotADirectoryError: `path` is no directory; another `NfsError`: it cannot be looked up.
            RpcRdmaError: an error of `Caller.call`, such as TransportClosed or CallTimeout, ends the removal; but
                an RpcError or RemoteProtocolError of an entry is one of the failures.
        """
        directory, name = await self._resolver.find_parent(path, of_directory=True)
        with self._resolver.changing(directory, name):
            return await remove_tree(self._volume, directory, name, exclude)

    async def _found(self, path: Path) -> Stat | None:
        try:
            return await self.stat(path)
        except ValueError:
            return None  # a NUL, or characters that stand for no octets
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise
            return None

    async def _set(self, path: Path, attributes: v3.sattr3, *, follow: bool) -> None:
        node = await self._resolver.find(path, follow=follow)
        await self._procedures.setattr(node, attributes)
