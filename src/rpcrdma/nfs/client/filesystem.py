"""A mounted NFSv3 file system with the calls of `os`, as coroutines."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self

from rpcrdma.aio.misuse import AsynchronousOnly
from rpcrdma.aio.urls import Url
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.attributes import NOW, Now, Stat, StatVfs, rights_of, set_attributes, stat_from, statvfs_from
from rpcrdma.nfs.client.listing import first_entries, name_pages
from rpcrdma.nfs.client.node import DirEntry, Node
from rpcrdma.nfs.client.paths import Path, base_name, join, text_of
from rpcrdma.nfs.client.resolver import LEADS_NOWHERE, OUTDATED
from rpcrdma.nfs.client.streams.direct_calls import check_offset, placed_bytes, read_direct
from rpcrdma.nfs.client.streams.file_stream import NfsFile
from rpcrdma.nfs.client.streams.opening import open_file, open_listed
from rpcrdma.nfs.client.trees.file_transfer import FileTransfer
from rpcrdma.nfs.client.trees.tree_copy import CopyReport, Progress, download_tree, upload_tree
from rpcrdma.nfs.client.trees.tree_glob import glob_tree
from rpcrdma.nfs.client.trees.tree_remove import RemoveReport, remove_tree
from rpcrdma.nfs.client.trees.tree_walk import entries_below, walk_tree
from rpcrdma.nfs.client.volume import FileOptions, Volume
from rpcrdma.nfs.errors import ExportPath, NfsError, NfsExists, NfsNotFound, nfs_error
from rpcrdma.rpc.client_stub import check_awaits
from rpcrdma.rpc.program import Caller
from rpcrdma.wire.buffers import Memory, as_view

__all__ = ["LocalPath", "NfsFilesystem"]

LocalPath = str | os.PathLike[str]

_SECOND_NS = 1_000_000_000


class NfsFilesystem:
    """The file system below `root`, a handle from MOUNT, at the server that `caller` is connected to.

    Paths are the caller's own: an absolute one starts at the root, a relative one at `directory`, and neither leads
    out of the mount. Every call may also raise the errors of `Caller.call`; there is no reconnection. New files and
    directories at the server get exactly the mode that is asked for: the process's umask applies to downloads alone.

    Errors show the URL of the object, if `url`, that of the root, is given.

    `stat` and `open` always ask the server; only directories on the way are remembered for 3 s. `close`
    does not close the connection, which is the caller's, except where `nfs_open` made both.
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
        """Where relative paths start, from the root on."""
        return self._resolver.directory

    async def close(self) -> None:
        """Ends the work in the background."""
        await self._volume.close()

    async def handle_of(self, path: Path) -> tuple[bytes, str]:
        """The server's handle of the object at `path`, and its absolute path: for calls of other programs."""
        node = await self._resolver.find(path)
        return node.handle.data, node.path

    # Attributes

    async def stat(self, path: Path, *, follow_symlinks: bool = True) -> Stat:
        """The attributes of the object at `path`; with `follow_symlinks=False` of a symbolic link itself."""
        node = await self._resolver.find(path, follow=follow_symlinks)
        return stat_from(await self._volume.attributes(node))

    async def lstat(self, path: Path) -> Stat:
        """`stat` without following a symbolic link at the end of the path."""
        return await self.stat(path, follow_symlinks=False)

    async def exists(self, path: Path) -> bool:
        """Whether an object exists at `path`.

        False also where a name on the way is no directory, links lead in a circle, or `path` cannot be a path. Unlike
        `os.path.exists` it raises the errors that leave the question open: no permission, an I/O error, a lost
        connection.
        """
        return await self._found(path) is not None

    async def is_dir(self, path: Path) -> bool:
        """Whether `path` leads to a directory; see `exists`."""
        found = await self._found(path)
        return found is not None and found.is_dir()

    async def is_file(self, path: Path) -> bool:
        """Whether `path` leads to a regular file; see `exists`."""
        found = await self._found(path)
        return found is not None and found.is_file()

    async def access(self, path: Path, mode: int) -> bool:
        """Whether the server grants this caller all of `mode`: `os.F_OK`, or `R_OK`, `W_OK`, `X_OK` together."""
        try:
            node = await self._resolver.find(path)
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise
            return False
        wanted = rights_of(mode, is_directory=node.is_dir)
        return not wanted or (await self._procedures.access(node, wanted))[0] == wanted

    async def chmod(self, path: Path, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permission bits."""
        await self._set(path, set_attributes(mode=mode), follow=follow_symlinks)

    async def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group by number; -1 leaves one as it is."""
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
        """Sets the times of last access and modification: seconds, or nanoseconds as `ns`; neither: now.

        Raises:
            OverflowError: NFSv3 has no such time: it goes from 1970 to 2106.
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
        """Cuts a file off at `length` octets, or extends it with zeros."""
        await self._set(path, set_attributes(size=length), follow=True)

    async def statvfs(self, path: Path = "/") -> StatVfs:
        """The space of the file system that `path` is in."""
        node = await self._resolver.find(path)
        space, limits = await asyncio.gather(self._procedures.fsstat(node), self._procedures.pathconf(node))
        return statvfs_from(space, limits)

    # Directories

    async def entry(self, path: Path) -> DirEntry:
        """The entry at `path` as a listing of its directory has it: a symbolic link itself, not its target."""
        directory, name, node = await self._resolver.find_entry(path)
        assert node.attributes is not None, "LOOKUP brings them"
        return DirEntry(name, directory, node.handle, node.attributes)

    async def is_unchanged(self, entry: DirEntry) -> bool:
        """Whether the object of an entry is unchanged since the entry was read, in one call."""
        try:
            present = await self._procedures.getattr(entry.node)
        except NfsError as error:
            if error.status not in OUTDATED:
                raise
            return False
        return entry.is_unchanged(present)

    async def listdir(self, path: Path = ".") -> list[str]:
        """The names in a directory, in the server's order, without "." and "..".

        Raises: see `scandir`.
        """
        node = await self._resolver.find(path)
        pages = name_pages(self._volume, node, names_max=self._volume.options.listed_names_held_max)
        return [name async for page in pages for name in page]

    async def scan_names(
        self, path: Path = ".", *, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[str]:
        """The names in a directory, page by page as the server lists them, without "." and "..".

        A fraction of the work of `scandir`, which has attributes as well. Raises: see `scandir`.
        """
        node = await self._resolver.find(path)
        names_max = self._volume.options.listed_names_max
        async for page in name_pages(self._volume, node, names_max=names_max, refused=onerror):
            for name in page:
                yield name

    async def scandir(
        self, path: Path | DirEntry = ".", *, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[DirEntry]:
        """The entries of a directory with their attributes, page by page as the server lists them.

        A directory that another `scandir` has yielded is listed by its handle, without looking its path up again; so a
        walk that goes on in that way notices a directory that lies inside itself. An entry that the server refuses to
        describe comes with its `refusal`, which its methods raise.

        Raises:
            RemoteProtocolError: the server lists an entry whose name cannot be one (unless that goes to `onerror` and
                the rest is listed), or the same entries again and again.
            OSError: EOVERFLOW for more names than `FileOptions` allows; ELOOP for an entry that lies in itself,
                ENAMETOOLONG for one that lies too deep.
        """
        if isinstance(path, DirEntry) and path.is_dir():
            node = path.node
        else:
            node = await self._resolver.find(path)
        names_max = self._volume.options.listed_names_max
        async for entry in entries_below(self._volume, node, names_max=names_max, refused=onerror):
            yield entry

    async def first_entries(self, path: Path = ".") -> list[DirEntry]:
        """The entries of a directory that one call brings with their attributes: some hundreds, or all.

        Raises:
            NfsError: the directory cannot be read, or the server lists no attributes (NFS3ERR_NOTSUPP).
        """
        return await first_entries(self._volume, await self._resolver.find(path, inner=True))

    async def walk(
        self, top: Path = ".", *, topdown: bool = True, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[tuple[str, list[str], list[str]]]:
        """(directory, names of directories, other names) for each directory of a tree, as `os.walk`.

        Symbolic links are not followed. With `topdown` the caller may remove names of directories from the list.
        Errors go to `onerror`, or are ignored: of directories that cannot be read, that lie inside themselves or too
        deep, of entries with invalid names, and of entries that the server refuses to describe, which stand among the
        other names.
        """
        absolute = self._resolver.absolute(top)
        async for found in walk_tree(self._volume, absolute, topdown=topdown, onerror=onerror):
            yield found

    async def glob(
        self, pattern: Path, *, include_hidden: bool = False, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[str]:
        """The paths that match `pattern`, as `glob.glob` with `recursive=True`: each once, directory by directory.

        `**` stands for any number of directories, and follows no symbolic links. A path is relative if `pattern` is;
        no path ends with a slash. A pattern that matches nothing yields nothing. But a directory that cannot be listed,
        and an entry that may be a directory on the way and that the server refuses to describe, are errors; with
        `onerror`, which is called with each, the search goes on.

        Raises:
            OSError: as above, and see `scandir`.
            ValueError: the pattern is empty.
        """
        async for found in glob_tree(self._volume, text_of(pattern), include_hidden=include_hidden, onerror=onerror):
            yield found

    async def mkdir(self, path: Path, mode: int = 0o755, *, exist_ok: bool = False, parents: bool = False) -> None:
        """Makes a directory; with `parents` also those above it that are missing, as `pathlib.Path.mkdir`.

        Raises:
            FileExistsError: the path exists, unless it is a directory and `exist_ok` is set.
        """
        try:
            directory, name = await self._resolver.find_parent(path)
            self._resolver.forget(directory, name)
            made = await self._procedures.mkdir(directory, name, set_attributes(mode=mode))
            self._resolver.keep_made(directory, name, *made)
        except NfsNotFound:
            above = self._resolver.absolute(path).rstrip("/").rpartition("/")[0]
            if not parents or not above:
                raise
            await self.mkdir(above, exist_ok=True, parents=True)
            await self.mkdir(path, mode, exist_ok=exist_ok)
        except NfsExists:
            if not exist_ok or not await self.is_dir(path):
                raise

    async def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        directory, name = await self._resolver.find_parent(path)
        self._resolver.forget(directory, name)
        await self._procedures.rmdir(directory, name)

    async def rmtree(self, path: Path, *, exclude: Iterable[str] = ()) -> RemoveReport:
        """Removes a directory with everything in it, many files at a time; symbolic links are removed, not followed.

        Entries that match `exclude` stay, with the directories above them; for the patterns see `download_tree`. The
        report lists failures; see `RemoveReport.check`.

        Raises:
            NotADirectoryError: `path` is no directory.
        """
        directory, name = await self._resolver.find_parent(path)
        self._resolver.forget(directory, name)
        return await remove_tree(self._volume, directory, name, exclude)

    # Names

    async def unlink(self, path: Path) -> None:
        """Removes a name that is no directory."""
        directory, name = await self._resolver.find_parent(path)
        self._resolver.forget(directory, name)
        await self._procedures.remove(directory, name)

    async def rename(self, source: Path, target: Path) -> None:
        """Renames, replacing an object at `target` if its type allows it."""
        from_directory, from_name = await self._resolver.find_parent(source)
        to_directory, to_name = await self._resolver.find_parent(target)
        self._resolver.forget(from_directory, from_name)
        self._resolver.forget(to_directory, to_name)
        await self._procedures.rename(from_directory, from_name, to_directory, to_name)

    async def link(self, source: Path, target: Path) -> None:
        """Makes `target` another name of `source`; a symbolic link at the end of `source` is not followed."""
        node = await self._resolver.find(source, follow=False)
        directory, name = await self._resolver.find_parent(target)
        await self._procedures.link(node, directory, name)

    async def symlink(self, target: Path, path: Path) -> None:
        """Makes `path` a symbolic link to `target`, which may be any text."""
        directory, name = await self._resolver.find_parent(path)
        self._resolver.forget(directory, name)
        await self._procedures.symlink(directory, name, text_of(target), set_attributes(mode=0o777))

    async def readlink(self, path: Path) -> str:
        """The target of a symbolic link; OSError (EINVAL) where `path` is no symbolic link."""
        node = await self._resolver.find(path, follow=False)
        if not node.is_symlink:
            raise nfs_error(v3.nfsstat3.NFS3ERR_INVAL, node.path)
        return await self._resolver.target_of(node)

    # Data

    async def open(
        self, path: Path | DirEntry, mode: str = "rb", *, permissions: int = 0o644, ask: bool = True
    ) -> NfsFile:
        """Opens a regular file: "rb", "wb", "xb" or "ab", each also with "+"; a new file gets `permissions`.

        Asks the server for the current attributes (close-to-open consistency) and whether the caller may read or write
        as the mode says. "ab" writes at the end of the file, see `NfsFile.write`. For "rb" and
        "r+b" an entry that `entry` or `scandir` gave is opened by its handle, in one call, and looked up again only if
        the file has changed since; with `ask=False` an entry is opened for reading without any call.

        Raises:
            IsADirectoryError, PermissionError, FileNotFoundError, FileExistsError: as `open` does.
            ValueError: the mode is none of these.
        """
        if not ask and mode == "rb" and isinstance(path, DirEntry) and path.is_file():
            return await open_listed(self._volume, path)
        return await open_file(self._volume, path, mode, permissions)

    async def read_into(self, path: Path, buffer: Memory, offset: int = 0) -> int:
        """Reads from `offset` straight into `buffer` (anything writable: numpy array, mmap), many READs in flight.

        Returns the octets read: fewer than the buffer holds only where the file ends.
        """
        buffer = as_view(buffer, "buffer", writable=True)
        node = await self._resolver.find(path)
        return await self._read_direct(node, buffer, offset)

    async def read_bytes(self, path: Path | DirEntry, *, offset: int = 0, size: int = -1) -> bytes:
        """A file's octets from `offset` on, no more than `size` unless that is negative; they have to fit in memory.

        They are as many as the file has when the call begins, and are placed where they stay, with many READs in
        flight. An entry is read by its handle; see `open`.

        Raises:
            ValueError: `offset` is negative.
        """
        check_offset(offset)
        if isinstance(path, DirEntry) and path.is_file():
            data = await self.read_unchanged(path, offset=offset, size=size)
            if data is not None:
                return data
        node = await self._resolver.find(path)
        length = _length(await self._volume.file_attributes(node), offset, size)
        return await placed_bytes(node, length, lambda buffer: self._read_direct(node, buffer, offset))

    async def read_unchanged(self, entry: DirEntry, *, offset: int = 0, size: int = -1) -> bytes | None:
        """`read_bytes` of a regular file by its handle alone; None if no reply shows it to be as it was listed."""
        told: list[bool] = []

        def hear(present: v3.post_op_attr) -> None:
            told.append(entry.is_unchanged(present.value))

        node, length = entry.node, _length(entry.attributes, offset, size)
        try:
            data = await placed_bytes(node, length, lambda buffer: self._read_direct(node, buffer, offset, hear))
        except NfsError as error:
            if error.status not in OUTDATED:
                raise
            return None
        return data if told and all(told) else None

    async def write_bytes(self, path: Path, data: Memory, *, permissions: int = 0o644) -> None:
        """Makes `data` all of a file, on stable storage when this returns."""
        # Before the file is emptied: data that cannot be written leave it as it is.
        data = as_view(data, "data")
        async with await self.open(path, "wb", permissions=permissions) as file:
            await file.write(data)

    async def read_text(
        self, path: Path | DirEntry, encoding: str = "utf-8", errors: str | None = None, newline: str | None = None
    ) -> str:
        """The text of a file, which has to fit in memory; the arguments are those of the built-in `open`."""
        return io.TextIOWrapper(io.BytesIO(await self.read_bytes(path)), encoding, errors, newline).read()

    async def write_text(
        self,
        path: Path,
        text: str,
        encoding: str = "utf-8",
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o644,
    ) -> None:
        """Makes `text` all of a file, see `write_bytes` and `read_text`; text that has no encoding leaves the file."""
        wrapper = io.TextIOWrapper(io.BytesIO(), encoding, errors, newline, write_through=True)
        wrapper.write(text)
        # Not a view, which garbage after an error would hold together with its buffer.
        await self.write_bytes(path, wrapper.buffer.getvalue(), permissions=permissions)

    # Copies

    async def download(
        self,
        path: Path,
        local: LocalPath,
        *,
        progress: Progress | None = None,
        exact_modes: bool = False,
        sparse: bool = False,
        resume: bool = False,
    ) -> int:
        """Copies a file to `local` (or into it, if it is a directory) with its times; returns its octets.

        The copy grows under a temporary name and replaces an existing file only when it is complete. A new file gets
        the server's permissions as far as the umask lets it, one that replaces another keeps the other's; with
        `exact_modes` both get the server's. With `sparse`, zeros are not written, but left as holes. With
        `resume`, a file that exists with the source's size and mtime is not copied, and the partial copy of a large
        file is kept after an interruption, for the next copy of the same source to continue. `progress` is called
        with (files, octets) done so far.
        """
        node = await self._resolver.find(path)
        own_name = base_name(self._resolver.absolute(path))
        transfer = FileTransfer(self._volume, progress, exact_modes=exact_modes, sparse=sparse, resume=resume)
        return await transfer.download(node, own_name, os.fspath(local))

    async def upload(
        self,
        local: LocalPath,
        path: Path,
        *,
        progress: Progress | None = None,
        sparse: bool = False,
        resume: bool = False,
    ) -> int:
        """Copies a local file to `path` (or into it, if it is a directory) with mode and times; returns its octets.

        The copy grows under a temporary name and replaces an existing file only when it is complete and committed. With
        `sparse`, holes are not read, and zeros are not sent; `resume` is as in `download`.
        """
        node, missing = await self._resolver.find_or_place(path)
        name = missing
        if missing is None:
            if (await self._volume.attributes(node)).type == v3.ftype3.NF3DIR:
                name = _own_name(local)
            else:
                node, name = await self._resolver.find_parent(path)
        assert name is not None, "given, or set above"
        transfer = FileTransfer(self._volume, progress, sparse=sparse, resume=resume)
        return (await transfer.store(os.fspath(local), None, node, name))[0]

    async def download_tree(
        self,
        path: Path,
        local: LocalPath,
        *,
        progress: Progress | None = None,
        exact_modes: bool = False,
        sparse: bool = False,
        resume: bool = False,
        exclude: Iterable[str] = (),
    ) -> CopyReport:
        """Copies a directory with everything in it to the local directory `local`, which may exist.

        Times and links of both kinds are kept, and modes as `download` says; a directory that exists keeps its own mode
        and times, unless `exact_modes`. Nothing outside `local` is written, even for hostile names and links.
        `sparse` and `resume` are as in `download`. Entries that match one of the patterns `exclude` are left out: a
        pattern without a slash applies to names at any depth, one with a slash to paths from the top. The report
        lists failures; see `CopyReport.check`.
        """
        node = await self._resolver.find(path)
        transfer = FileTransfer(self._volume, progress, exact_modes=exact_modes, sparse=sparse, resume=resume)
        return await download_tree(
            self._volume, node, os.fspath(local), transfer, exact_modes=exact_modes, exclude=exclude
        )

    async def upload_tree(
        self,
        local: LocalPath,
        path: Path,
        *,
        progress: Progress | None = None,
        exact_modes: bool = False,
        sparse: bool = False,
        resume: bool = False,
        exclude: Iterable[str] = (),
    ) -> CopyReport:
        """Copies a local directory with everything in it to the directory `path`, which may exist.

        New files and directories get the modes and times of their originals, regardless of the umask; a directory that
        exists keeps its own, unless `exact_modes`. `sparse` and `resume` are as in `upload`, `exclude` as in
        `download_tree`. The report lists failures; see `CopyReport.check`.
        """
        made = True
        try:
            await self.mkdir(path)
        except NfsExists:
            made = False
            if not await self.is_dir(path):
                raise
        node = await self._resolver.find(path)
        transfer = FileTransfer(self._volume, progress, sparse=sparse, resume=resume)
        return await upload_tree(
            self._volume, os.fspath(local), node, transfer, made=made, exact_modes=exact_modes, exclude=exclude
        )

    async def _found(self, path: Path) -> Stat | None:
        try:
            return await self.stat(path)
        except ValueError:
            return None  # a NUL, or characters that stand for no octets
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise
            return None

    async def _read_direct(
        self, node: Node, buffer: memoryview, offset: int, hear: Callable[[v3.post_op_attr], None] | None = None
    ) -> int:
        return await read_direct(
            self._procedures,
            node,
            offset,
            buffer,
            call_octets=(await self._volume.sizes()).read_max,
            calls=self._volume.options.direct_calls,
            hear=hear,
        )

    async def _set(self, path: Path, attributes: v3.sattr3, *, follow: bool) -> None:
        node = await self._resolver.find(path, follow=follow)
        await self._procedures.setattr(node, attributes)


def _length(attributes: v3.fattr3, offset: int, size: int) -> int:
    """The octets of such a file from `offset` on, at most `size` unless that is negative."""
    rest = max(0, attributes.size - offset)
    return min(rest, size) if size >= 0 else rest


def _own_name(local: LocalPath) -> str:
    return os.path.basename(os.path.abspath(local))  # noqa: PTH100, PTH119 - pathlib resolves links or keeps ".."
