"""A mounted NFSv3 file system with the calls of `os`, as coroutines."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import AsyncIterator, Callable, Iterable

from rpcrdma.nfs import v3
from rpcrdma.nfs.client.listing import first_entries, name_pages
from rpcrdma.nfs.client.node import DirEntry
from rpcrdma.nfs.client.object_calls import ObjectCalls
from rpcrdma.nfs.client.paths import Path, base_name, text_of
from rpcrdma.nfs.client.resolver import OUTDATED
from rpcrdma.nfs.client.streams.direct_calls import check_offset, placed_bytes, read_direct
from rpcrdma.nfs.client.streams.file_stream import NfsFile
from rpcrdma.nfs.client.streams.opening import open_file, open_listed
from rpcrdma.nfs.client.trees.file_transfer import FileTransfer
from rpcrdma.nfs.client.trees.tree_copy import UNFINISHED_MODE, CopyReport, Progress, download_tree, upload_tree
from rpcrdma.nfs.client.trees.tree_glob import glob_tree
from rpcrdma.nfs.client.trees.tree_walk import entries_below, walk_tree
from rpcrdma.nfs.errors import NfsError
from rpcrdma.wire.buffers import Memory, as_view

__all__ = ["LocalPath", "NfsFilesystem"]

LocalPath = str | os.PathLike[str]


class NfsFilesystem(ObjectCalls):
    """The file system below a root handle of MOUNT, with the calls of `os` as coroutines.

    An absolute path starts at the root, a relative path at `directory`; neither leaves the mount. `stat` asks
    the server, and so does `open` unless `ask` is False; only directories and links along paths are cached, for 3 s.
    New objects at the server get exactly the mode asked for: the umask applies to downloads alone. There is no
    reconnection here; `close` leaves the connection to the caller.

    Args:
        caller: the connection to the NFS server.
        root: the handle of the root directory.
        directory: the directory at which relative paths start.
        options: bounds of calls in flight, copies and listings.
        url: the root's URL, so that errors show the URL of an object; None: errors show paths.
        clock: returns seconds, for the cache; None: the event loop's clock.
        sleep: waits for seconds between repeated calls to a busy server.

    Shared by the methods:
        path, entry: the path or entry of the object; a `DirEntry` stands for its path, except where a method says that
            its handle is used.
        follow_symlinks: whether a symbolic link at the end of `path` is followed.
        onerror: called with each error instead of raising it, and the work continues.
        exclude: a list of shell patterns of entries to leave out. A pattern without a slash is matched with names at
            any depth, a pattern with a slash, other than at its end, with paths from the top.
        offset: the offset in the file, in octets.
        size: the most octets to return; negative: all from `offset` on.
        data, text: the new content of the file.
        permissions: the mode of a new file.
        encoding, errors, newline: as for the built-in `open`.
        OSError: the operation failed; `NfsError` and its subclasses, such as FileNotFoundError, if the server refused
            it.
        ValueError: a path holds a NUL, or characters that stand for no octets.
        RpcError, CallTimeout, TransportClosed, DecodeError: as `rpcrdma.rpc.Caller.call`.
    """

    # Directories

    async def entry(self, path: Path) -> DirEntry:
        """Returns the entry at `path` with its present attributes; follows no link there.

        A slash at the end of `path` demands a directory, to which a link there is then followed.

        Raises:
            NfsError: nothing is at `path`, it ends in a slash and leads to no directory (NotADirectoryError), it is the
                root (NFS3ERR_EXIST), or its last name is ".." (NFS3ERR_INVAL); and the errors of `Caller.call`.
        """
        directory, name, node = await self._resolver.find_entry(path)
        return DirEntry(name, directory, node.handle, await self._volume.attributes(node))

    async def is_unchanged(self, entry: DirEntry) -> bool:
        """Asks by one GETATTR whether the object of `entry` still has the size, mtime and ctime that `entry` has.

        Returns False if the object is gone. Raises `NfsError` for other refusals, and for an entry with a `refusal`,
        and the errors of `Caller.call`.
        """
        try:
            present = await self._procedures.getattr(entry.node)
        except NfsError as error:
            if error.status not in OUTDATED:
                raise
            return False
        return entry.is_unchanged(present)

    async def listdir(self, path: Path = ".") -> list[str]:
        """Returns the names in a directory in the server's order, without "." and "..".

        Raises `NfsError` if the directory cannot be read, RemoteProtocolError for an invalid name or repeated entries,
        OSError (EOVERFLOW) if the listing continues after `FileOptions.listed_names_held_max` names.
        """
        node = await self._resolver.find(path)
        pages = name_pages(self._volume, node, names_max=self._volume.options.listed_names_held_max)
        return [name async for page in pages for name in page]

    async def scan_names(
        self, path: Path = ".", *, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[str]:
        """Yields the names in a directory in the server's order, without "." and "..".

        Takes a fraction of the work of `scandir`, which fetches attributes as well. `onerror` gets an OSError for each
        invalid name, which is left out; without it RemoteProtocolError is raised, as for repeated entries. Also raises
        `NfsError`, and OSError (EOVERFLOW) after `FileOptions.listed_names_max` names.
        """
        node = await self._resolver.find(path)
        names_max = self._volume.options.listed_names_max
        async for page in name_pages(self._volume, node, names_max=names_max, refused=onerror):
            for name in page:
                yield name

    async def scandir(
        self, path: Path | DirEntry = ".", *, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[DirEntry]:
        """Yields the entries of a directory with their attributes, in the server's order, without "." and "..".

        The `DirEntry` of a directory as `path` is listed by its handle; a walk that continues in this way detects a
        directory that contains itself. An entry that the server refuses to describe has a `refusal`, which its methods
        raise. `onerror` is called with an OSError for each invalid name, which is left out.

        Raises:
            NfsError: the directory cannot be read; and the errors of `Caller.call`.
            RemoteProtocolError: the server lists an invalid name (unless `onerror` takes the error), or repeats its
                entries.
            OSError: EOVERFLOW for more names than `FileOptions.listed_names_max`; ELOOP for a `DirEntry` that contains
                itself, ENAMETOOLONG for a `DirEntry` more than 2048 levels below the directory listed first.
        """
        if isinstance(path, DirEntry) and path.is_dir():
            node = path.node
        else:
            node = await self._resolver.find(path)
        names_max = self._volume.options.listed_names_max
        async for entry in entries_below(self._volume, node, names_max=names_max, refused=onerror):
            yield entry

    async def first_entries(self, path: Path = ".") -> list[DirEntry]:
        """Returns the entries of a directory that one READDIRPLUS call returns with attributes: some hundreds, or all.

        Entries with invalid names, or without attributes or handle, are left out; the result does not show if any are.

        Raises:
            NfsError: the directory cannot be read, or the server has no READDIRPLUS (NFS3ERR_NOTSUPP); and the errors
                of `Caller.call`.
        """
        return await first_entries(self._volume, await self._resolver.find(path, inner=True))

    async def walk(
        self, top: Path = ".", *, topdown: bool = True, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[tuple[str, list[str], list[str]]]:
        """Walks a tree like `os.walk`; symbolic links are not followed.

        Args:
            top: the directory at the top.
            topdown: whether a directory precedes its subdirectories; the caller may then remove names from the yielded
                list of subdirectories, which are not walked.
            onerror: called with errors, which are ignored without it: directories that are unreadable, too large, too
                deep or inside themselves, invalid names, and entries that the server refuses to describe, which are
                listed as other names.

        Yields:
            (absolute path of a directory, names of its subdirectories, other names) for each directory.

        Raises:
            RpcRdmaError: an error of `Caller.call`, or the server lists the same entries without end.
        """
        absolute = self._resolver.absolute(top)
        async for found in walk_tree(self._volume, absolute, topdown=topdown, onerror=onerror):
            yield found

    async def glob(
        self, pattern: Path, *, include_hidden: bool = False, onerror: Callable[[OSError], None] | None = None
    ) -> AsyncIterator[str]:
        """Searches paths like `glob.glob` with `recursive=True`, except that `**` follows no symbolic links.

        Args:
            pattern: the pattern, absolute or relative to `directory`; no match is no error.
            include_hidden: whether wildcards match names that begin with a dot.
            onerror: called with errors instead of raising them: directories that cannot be listed, invalid names, and
                entries that the server refuses to describe.

        Yields:
            Each path once, directory by directory, without a slash at the end; relative if `pattern` is.

        Raises:
            OSError: without `onerror`, the first such error.
            RpcRdmaError: an error of `Caller.call`, or the server lists the same entries without end, or, without
                `onerror`, an invalid name.
            ValueError: the pattern is empty.
        """
        async for found in glob_tree(self._volume, text_of(pattern), include_hidden=include_hidden, onerror=onerror):
            yield found

    # Data

    async def open(
        self, path: Path | DirEntry, mode: str = "rb", *, permissions: int = 0o644, ask: bool = True
    ) -> NfsFile:
        """Opens a regular file; asks the server for attributes (close-to-open consistency) and the caller's rights.

        Args:
            path: the path or entry. For "rb" and "r+b" a `DirEntry` is opened by its handle, in one call, but by its
                path if the file has changed or is gone; for other modes, it stands for its path.
            mode: "rb", "wb", "xb" or "ab" (writes at the end, see `NfsFile.write`), each also with "+".
            permissions: the mode of a new file.
            ask: False opens the `DirEntry` of a regular file with "rb" without a call to the server, except an FSINFO
                for the first file of the file system; if the file is gone, the first read raises `NfsError`. Has no
                effect for other paths and modes.

        Returns:
            The open file.

        Raises:
            IsADirectoryError, PermissionError, FileNotFoundError, FileExistsError: as the built-in `open`.
            NfsError: the server refuses for another reason, or (EINVAL) the object is no regular file.
            ValueError: the mode is none of these.
        """
        if not ask and mode == "rb" and isinstance(path, DirEntry) and path.is_file():
            return await open_listed(self._volume, path)
        return await open_file(self._volume, path, mode, permissions)

    async def read_into(self, path: Path, buffer: Memory, offset: int = 0) -> int:
        """Reads a file into the caller's memory without a copy, with many READs in flight.

        Args:
            path: the path of the file.
            buffer: writable C-contiguous memory, such as a NumPy array or mmap.
            offset: the offset in the file, in octets.

        Returns:
            The number of octets read; fewer than the buffer holds only if the file ends before.

        Raises:
            TypeError: `buffer` is no writable C-contiguous memory.
            ValueError: `offset` is negative.
            NfsError: the server refuses; and the errors of `Caller.call`.
        """
        buffer = as_view(buffer, "buffer", writable=True)
        node = await self._resolver.find(path)
        return await read_direct(self._volume, node, offset, buffer)

    async def read_bytes(self, path: Path | DirEntry, *, offset: int = 0, size: int = -1) -> bytes:
        """Returns `size` octets of a file from `offset` on, all to its end if `size` is negative.

        Fewer are returned at the end of the file (as it is when the call begins), b"" behind it. Many READs are in
        flight. A `DirEntry` is read by its handle, but by its path if the file has changed or is gone.

        Raises:
            ValueError: `offset` is negative.
            NfsError: the server refuses, or `path` is no regular file; and the errors of `Caller.call`.
            OutOfMemory: the octets do not fit in memory.
        """
        check_offset(offset)
        if isinstance(path, DirEntry) and path.is_file():
            data = await self.read_unchanged(path, offset=offset, size=size)
            if data is not None:
                return data
        node = await self._resolver.find(path)
        length = _length(await self._volume.file_attributes(node), offset, size)
        return await placed_bytes(node, length, lambda buffer: read_direct(self._volume, node, offset, buffer))

    async def read_unchanged(self, entry: DirEntry, *, offset: int = 0, size: int = -1) -> bytes | None:
        """Reads a regular file by its handle alone, and checks that size, mtime and ctime are still those of `entry`.

        Returns:
            `size` octets from `offset` on, all to the end if `size` is negative. None if the file has changed or is
            gone, a reply of READ lacks the attributes, or there is nothing to read.

        Raises:
            ValueError: `offset` is negative.
            NfsError: the server refuses; and the errors of `Caller.call`.
            OutOfMemory: the octets do not fit in memory.
        """
        check_offset(offset)
        told: list[bool] = []

        def hear(present: v3.post_op_attr) -> None:
            told.append(entry.is_unchanged(present.value))

        node, length = entry.node, _length(entry.attributes, offset, size)
        try:
            data = await placed_bytes(
                node, length, lambda buffer: read_direct(self._volume, node, offset, buffer, hear)
            )
        except NfsError as error:
            if error.status not in OUTDATED:
                raise
            return None
        return data if told and all(told) else None

    async def write_bytes(self, path: Path, data: Memory, *, permissions: int = 0o644) -> None:
        """Empties a file, or makes it with mode `permissions`, and writes `data` to stable storage of the server.

        Raises:
            TypeError: `data` is no C-contiguous memory.
            NfsError: the server refuses; and the errors of `Caller.call`.
        """
        # Before the file is emptied: data that cannot be written leave it as it is.
        data = as_view(data, "data")
        async with await self.open(path, "wb", permissions=permissions) as file:
            await file.write(data)

    async def read_text(
        self, path: Path | DirEntry, encoding: str = "utf-8", errors: str | None = None, newline: str | None = None
    ) -> str:
        """Returns the text of a file, decoded as by the built-in `open`.

        Raises the errors of `read_bytes`, UnicodeDecodeError, and LookupError for an unknown encoding.
        """
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
        """Replaces a file's content by `text`, encoded as by the built-in `open`; a new file gets mode `permissions`.

        Raises the errors of `write_bytes`. UnicodeEncodeError, and LookupError for an unknown encoding, leave the file
        unchanged.
        """
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
        """Copies a file from the server, with its times; the copy has a temporary name until it is complete.

        A new local file gets the server's permissions within the umask, a copy that replaces a local file the
        permissions of that. Returns the file's size in octets.

        Args:
            path: the path of the file at the server.
            local: the local path of the copy, or a directory in which the copy gets the file's name.
            progress: called with (files, octets) done so far.
            exact_modes: whether the copy gets the server's permissions in any case.
            sparse: whether runs of zeros are left out as holes.
            resume: whether a local file with the source's size and mtime is left as it is, and the partial copy of a
                file larger than one READ (1 MiB at most) is kept after an interruption, for the next copy to continue.

        Raises:
            FileChanged: the file has changed during the copy, which is discarded.
            OSError: this system, or (`NfsError`) the server, refuses; and the errors of `Caller.call`.
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
        """Copies a local file to the server, with mode and times; returns its size in octets.

        The copy has a temporary name until complete and on stable storage; it then replaces a file or a link to one.

        Args:
            local: the local path of the file.
            path: the path of the copy at the server, or a directory in which the copy gets the file's name.
            progress: called with (files, octets) done so far.
            sparse: whether holes are not read, and zeros not sent.
            resume: whether a copy at the server with the local file's size and mtime is left as it is, and the partial
                copy of a file larger than one WRITE is kept after an interruption, for the next copy to continue.

        Raises:
            FileChanged: the file has changed during the copy, which is discarded.
            OSError: this system, or (`NfsError`) the server, refuses; and the errors of `Caller.call`.
        """
        node, missing = await self._resolver.find_or_place(path)
        name = missing
        if missing is None:
            if (await self._volume.attributes(node)).type == v3.ftype3.NF3DIR:
                name = _own_name(local)
            elif await self._volume.file_attributes(node):  # of a device or pipe it raises an error
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
        """Copies a directory from the server with all contents, times, symbolic links and hard links.

        New objects get the server's permissions within the umask; existing directories keep their modes and times, and
        copies that replace local files the modes of those, unless `exact_modes`. Nothing outside of `local` is written,
        even for hostile names and links. Returns the numbers of copied objects, and the failures, which
        `CopyReport.check` raises.

        Args:
            path: the path of the directory at the server.
            local: the local path of the copy, a directory that may exist.
            progress: called with (files, octets) done so far.
            exact_modes: whether all objects get the server's permissions (0o777).
            sparse: whether runs of zeros are left out as holes.
            resume: whether each file is resumed, see `download`, and existing directories that the user may change
                are finished as new ones.
            exclude: shell patterns of entries to leave out, see `NfsFilesystem`.

        Raises:
            OSError: `path` is no directory (NotADirectoryError), or `local` cannot be made.
            RpcRdmaError: an error of `Caller.call`, such as TransportClosed or CallTimeout, ends the copy; but an
                RpcError or RemoteProtocolError of an entry is one of the failures.
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
        """Copies a local directory with all contents to the server; new objects get their originals' modes and times.

        New directories keep a set-group-ID bit that the server gives them, unless `exact_modes`. Returns the numbers of
        copied objects, and the failures, which `CopyReport.check` raises.

        Args:
            local: the local directory.
            path: the path of the copy at the server, a directory that may exist.
            progress: called with (files, octets) done so far.
            exact_modes: whether existing directories get the modes and times of their originals, too.
            sparse: whether holes are not read, and zeros not sent.
            resume: whether each file is resumed, see `upload`.
            exclude: shell patterns of entries to leave out, see `NfsFilesystem`.

        Raises:
            OSError: `local` cannot be opened, or the server refuses `path`, as FileExistsError if a file is there.
            RpcRdmaError: an error of `Caller.call`, such as TransportClosed or CallTimeout, ends the copy; but an
                RpcError or RemoteProtocolError of an entry is one of the failures.
        """
        place = functools.partial(self._find_or_make, path, UNFINISHED_MODE)
        transfer = FileTransfer(self._volume, progress, sparse=sparse, resume=resume)
        return await upload_tree(
            self._volume, os.fspath(local), place, transfer, exact_modes=exact_modes, exclude=exclude
        )


def _length(attributes: v3.fattr3, offset: int, size: int) -> int:
    """Returns how many octets a file has from `offset` on, 0 behind its end; at most `size` unless that is negative."""
    rest = max(0, attributes.size - offset)
    return min(rest, size) if size >= 0 else rest


def _own_name(local: LocalPath) -> str:
    return os.path.basename(os.path.abspath(local))  # noqa: PTH100, PTH119 - pathlib resolves links or keeps ".."
