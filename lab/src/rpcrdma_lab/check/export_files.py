"""Prepares an export for checks, by this library's NFS client: a file to be read, and a file to be written.

Verdicts do not depend on this preparation: the checks themselves use no code of the client.
"""

from __future__ import annotations

import functools
import os
import secrets
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

from rpcrdma import ConnectOptions, NfsFilesystem, nfs_open
from rpcrdma.commands import Url
from rpcrdma.errors import RpcRdmaError
from rpcrdma_lab.check.abilities import Abilities, FileState

__all__ = ["own_credential", "prepared_export"]

_CONTENT_OCTETS = 8192
_FILE_OCTETS = 5001
"""The least size in octets of the file for READ: checks read up to this odd number, which ends within a block."""
_LOOKED_AT_MAX = 1000
_Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[NfsFilesystem]]


@asynccontextmanager
async def prepared_export(
    url: Url,
    options: ConnectOptions,
    *,
    mount_port: int | None = None,
    write: str | None = None,
    fresh_files: int = 0,
) -> AsyncIterator[Abilities]:
    """Finds a file in an NFS export or, with `write`, creates files instead; yields `Abilities` for the checks.

    The abilities have the files' handles and contents; their `notes` say why no file was found, as after a failed call
    or connection, or which created file could not be removed. Created files are removed at exit over a new connection,
    since a check may end the existing ones. If not all files can be created, the exception has the notes. Without
    `write`, an exit without an exception sets `file_changed` of the abilities if the file was changed or removed.

    Args:
        url: the export, with the path of a file or of the directory in which a large enough file is looked for.
        options: the options of the connections.
        mount_port: the TCP port of MOUNT; None: the ports that `nfs_open` tries.
        write: the path, in the export, of the directory in which files are created; None creates none.
        fresh_files: the number of additional empty files in `write`; without effect if that is None.

    Raises:
        OSError: the files in `write` cannot be created, or nothing is at the URL's path (`FileNotFoundError`).
        RpcRdmaError: with `write`, a call or the connection failed.
    """
    abilities = Abilities(given={"credential": own_credential()}, met={"nfs"})
    opening = functools.partial(nfs_open, str(url), mount_port=mount_port, options=replace(options, reconnect=False))
    run = f".rpcrdma-check-{secrets.token_hex(4)}"
    name = f"{(write or '').rstrip('/') or '.'}/{run}"
    made: list[str] = []
    try:
        try:
            async with opening() as filesystem:
                if write is None:
                    await _find(filesystem, url.path, abilities)
                else:
                    made += [f"{name}-read", f"{name}-written"]
                    await _make(filesystem, made, abilities)
                    abilities.given["owner"] = run.encode()
                    fresh = [f"{name}-fresh-{number}" for number in range(fresh_files)]
                    made += fresh
                    abilities.fresh_files = [await _fresh_file(filesystem, each) for each in fresh]
        except (RpcRdmaError, OSError) as error:
            # A mistyped path would leave checks out, and nothing would fail.
            if write is not None or isinstance(error, FileNotFoundError):
                if made:
                    await _remove(opening, made, abilities)
                    made.clear()
                for note in abilities.notes:
                    error.add_note(note)
                raise
            abilities.notes.append(f"no file is known: {_in_words(error)}")
        yield abilities
        if abilities.seen is not None and write is None:
            abilities.file_changed = await _is_changed(opening, abilities.seen)
    finally:
        if made:
            await _remove(opening, made, abilities)


async def _is_changed(opening: _Opening, before: FileState) -> bool:
    """Returns whether the file `before.path` is gone, or its size or modification time (mtime) differs from `before`.

    Connects to the export anew by the context manager that `opening` returns. Returns False if that or a call fails.
    """
    try:
        async with opening() as filesystem:
            return await _state(filesystem, before.path) != before
    except FileNotFoundError:
        return True
    except (RpcRdmaError, OSError):
        return False


async def _state(filesystem: NfsFilesystem, path: str) -> FileState:
    found = await filesystem.stat(path)
    return FileState(path, found.st_size, found.st_mtime_ns)


async def _make(filesystem: NfsFilesystem, names: Sequence[str], abilities: Abilities) -> None:
    for name in names:
        await filesystem.write_bytes(name, bytes(index * 5 & 0xFF for index in range(_CONTENT_OCTETS)))
    read, written = names
    await _take(filesystem, read, abilities)
    handle, _ = await filesystem.handle_of(written)
    abilities.given |= {"written": handle, "write_position": _write_position(handle, own_credential())}
    abilities.met.add("write")


async def _remove(opening: _Opening, names: Sequence[str], abilities: Abilities) -> None:
    left = list(names)
    cause: RpcRdmaError | OSError | None = None
    try:
        async with opening() as filesystem:
            for name in names:
                try:
                    with suppress(FileNotFoundError):
                        await filesystem.unlink(name)
                    left.remove(name)
                except OSError as error:  # of this file alone
                    cause = cause or error
    except (RpcRdmaError, OSError) as error:
        cause = cause or error
    if left and cause is not None:
        abilities.notes.append(f"remove {' and '.join(left)}, which the checks could not: {_in_words(cause)}")


async def _fresh_file(filesystem: NfsFilesystem, path: str) -> bytes:
    """Creates an empty file at `path` in the export, and returns its handle.

    Nothing is written, since Linux keeps a written file open for seconds, and gives no delegation of it.

    Raises:
        RpcRdmaError: a call or the connection failed.
        OSError: the server refuses a call, or the file exists already (`FileExistsError`).
    """
    async with await filesystem.open(path, "xb"):
        pass
    handle, _ = await filesystem.handle_of(path)
    return handle


async def _find(filesystem: NfsFilesystem, name: str, abilities: Abilities) -> None:
    """Takes the file system's root if it is a file, which notes call `name`, else a large enough file in it."""
    try:
        if not await filesystem.is_dir("."):
            await _take(filesystem, ".", abilities, name)
            return
        looked_at = 0
        async for entry in filesystem.scandir("."):
            looked_at += 1
            if entry.is_file() and entry.stat().st_size >= _FILE_OCTETS:
                with suppress(PermissionError):
                    await _take(filesystem, entry.path, abilities)
                    return
            if looked_at == _LOOKED_AT_MAX:
                break
        abilities.notes.append(f"none of {looked_at} entries is a readable file of {_FILE_OCTETS} octets or more")
    except (RpcRdmaError, OSError) as error:
        abilities.notes.append(f"no file is known: {_in_words(error)}")


def _in_words(error: RpcRdmaError | OSError) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}"


async def _take(filesystem: NfsFilesystem, path: str, abilities: Abilities, name: str = "") -> None:
    handle, _ = await filesystem.handle_of(path)
    abilities.seen = await _state(filesystem, path)
    content = await filesystem.read_bytes(path, size=_CONTENT_OCTETS)
    if len(content) < _FILE_OCTETS:
        abilities.notes.append(f"{name or path} has fewer than {_FILE_OCTETS} octets")
        return
    abilities.given |= {"file": handle, "content": content}
    abilities.met.add("file")


def own_credential() -> bytes:
    """Returns an encoded AUTH_SYS credential of this process's effective user and group (RFC 5531 appendix A)."""
    name = b"rpcrdma"
    body = struct.pack(">II", 0, len(name)) + name + bytes(-len(name) % 4)
    body += struct.pack(">III", os.geteuid(), os.getegid(), 0)
    return struct.pack(">II", 1, len(body)) + body


def _write_position(handle: bytes, credential: bytes) -> int:
    """Returns the Position, in octets, of the data in an NFSv3 WRITE to this handle with this credential."""
    return 24 + len(credential) + 8 + 4 + (len(handle) + 3 & ~3) + 20
