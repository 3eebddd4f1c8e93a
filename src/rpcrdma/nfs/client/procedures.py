"""The NFSv3 procedures as coroutines that return the successful result and raise `NfsError` otherwise."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from rpcrdma.errors import RemoteProtocolError, RpcRdmaError
from rpcrdma.limits import NFS_DEFERRED_S
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.node import LazyPath, Node, found_at, path_of
from rpcrdma.nfs.errors import NfsExists, NfsNotFound, NfsPermission, in_words, nfs_error
from rpcrdma.rpc.program import Caller, Procedure
from rpcrdma.wire.buffers import Buffer

__all__ = ["Created", "NfsProcedures"]

A = TypeVar("A")

Created = tuple[v3.nfs_fh3 | None, v3.fattr3 | None]
"""(handle, attributes) of a new object from a reply of CREATE, MKDIR or SYMLINK, each None if the server omits it."""

_NO_GUARD = v3.sattrguard3(False, None)
_OK = v3.nfsstat3.NFS3_OK
_NOT_OF_IDENTITY = "every user may search the directory: the server refuses this name, which may be a mount point"
_MAYBE_DONE = (
    "the connection was lost meanwhile, and a server that was restarted may have done this before: look there first"
)
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 5.0
_WARN_AFTER_S = 3.0
"""Seconds until the log names an operation that the server defers; the default of `ConnectOptions.warn_after_s`."""
_LOGGER = logging.getLogger("rpcrdma.client")


class NfsProcedures:
    """The NFSv3 procedures as methods, which call `caller` and return the successful result (RFC 1813 section 3.3).

    A method repeats an operation that the server defers (NFS3ERR_JUKEBOX) for up to `NFS_DEFERRED_S` (200) seconds, and
    waits by `sleep`, which takes seconds, in between; after 3 s it logs a warning. It raises `NfsError` for another
    status than NFS3_OK, with the path of the object that it is about; and the errors of `Caller.call`, whose message,
    except that of TransportClosed, gets the URL of that object if the URL of the export is known.
    """

    def __init__(self, caller: Caller, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.caller = caller
        self._call = caller.call
        self._sleep = sleep
        self._warned = False
        """Whether the log has said that the server defers operations, of which `_deferred` wait."""
        self._deferred = 0

    async def _answer(
        self, procedure: Procedure[A, Any], args: A, place: LazyPath, buffer: Buffer | None = None
    ) -> Any:
        try:
            return await self._call(procedure, args, into=buffer)
        except RpcRdmaError as error:
            found_at(place, error)
            raise

    async def _result(
        self, procedure: Procedure[A, Any], args: A, path: LazyPath, path2: LazyPath | None = None
    ) -> Any:
        reply = await self._answer(procedure, args, path)
        if reply.status is _OK:
            return reply.value
        return await self._retried(reply.status, procedure, args, path, path2)

    async def _changed(
        self, procedure: Procedure[A, Any], args: A, path: LazyPath, path2: LazyPath | None = None
    ) -> Any:
        """Does the same as `_result`, for a change of names, which a call that is sent again may find done.

        A server keeps no reply over a restart, so that it answers the second call of one change as if another client
        had made the first. The error, NfsNotFound or NfsExists, gets a note if a connection was lost during the call.
        """
        before = getattr(self.caller, "reconnects", 0)
        try:
            return await self._result(procedure, args, path, path2)
        except (NfsNotFound, NfsExists) as error:
            if getattr(self.caller, "reconnects", 0) != before:
                error.add_note(_MAYBE_DONE)
            raise

    async def _retried(
        self,
        status: v3.nfsstat3,
        procedure: Procedure[A, Any],
        args: A,
        path: LazyPath,
        path2: LazyPath | None = None,
        buffer: Buffer | None = None,
    ) -> Any:
        """Repeats a call while its status is NFS3ERR_JUKEBOX, up to `NFS_DEFERRED_S` (200) s; returns the result.

        Any other status is raised at once. Waits 0.1 to 5 s before each call; after 3 s logs a warning, one for all
        operations that wait.

        Args:
            status: the status of the first reply, which is not NFS3_OK.
            procedure: the procedure.
            args: its arguments.
            path: for errors, the object: its path, or (the node of its directory, its name in that).
            path2: for errors, a second object in the same form; None if there is none.
            buffer: memory for the data of READ; None for other procedures.

        Raises:
            NfsError: the last status; and the errors of `Caller.call`.
        """
        delay_s, waited_s = _FIRST_DELAY_S, 0.0
        self._deferred += 1
        try:
            while status is v3.nfsstat3.NFS3ERR_JUKEBOX and waited_s < NFS_DEFERRED_S:
                if waited_s >= _WARN_AFTER_S and not self._warned:
                    self._warned = True
                    _LOGGER.warning(
                        "%s: the server answers that it is not ready (JUKEBOX), as in the grace period after a restart"
                        ": waiting up to %g s",
                        in_words(path_of(path)),
                        NFS_DEFERRED_S,
                    )
                await self._sleep(delay_s)
                waited_s += delay_s
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
                reply = await self._answer(procedure, args, path, buffer)
                status = reply.status
                if status is _OK:
                    return reply.value
        finally:
            self._deferred -= 1
            # Not before the last one ends: each would warn anew.
            self._warned = self._warned and self._deferred > 0
        raise nfs_error(status, path_of(path), None if path2 is None else path_of(path2))

    async def getattr(self, node: Node) -> v3.fattr3:
        """Calls GETATTR and returns the attributes of `node`; raises `NfsError` if the server refuses."""
        value = await self._result(v3.GETATTR, v3.GETATTR3args(node.handle), node.place)
        return cast("v3.fattr3", value.obj_attributes)

    async def setattr(self, node: Node, attributes: v3.sattr3) -> v3.fattr3 | None:
        """Calls SETATTR; returns the new attributes, None if the server omits them. Raises `NfsError` for a refusal."""
        value = await self._result(v3.SETATTR, v3.SETATTR3args(node.handle, attributes, _NO_GUARD), node.place)
        return cast("v3.fattr3 | None", value.obj_wcc.after.value)

    async def lookup(self, directory: Node, name: str) -> Node:
        """Calls LOOKUP, and GETATTR if the server omits the attributes; returns the node of `name`, with attributes.

        Raises `NfsError` if the server refuses. An `NfsPermission` gets a note if everyone may search `directory`: the
        name may then be a mount point.
        """
        args = v3.LOOKUP3args(v3.diropargs3(directory.handle, name))
        reply: Any = await self._answer(v3.LOOKUP, args, (directory, name))
        value: v3.LOOKUP3resok = reply.value
        if reply.status is not _OK:
            try:
                value = await self._retried(reply.status, v3.LOOKUP, args, (directory, name))
            except NfsPermission as error:
                above = reply.value.dir_attributes.value or directory.attributes
                if above is not None and above.mode & stat.S_IXOTH:
                    error.add_note(_NOT_OF_IDENTITY)
                raise
        node = Node(value.object, value.obj_attributes.value, (directory, name), fresh=True)
        if node.attributes is None:
            node.attributes = await self.getattr(node)
        return node

    async def access(self, node: Node, wanted: int) -> tuple[int, v3.fattr3 | None]:
        """Calls ACCESS; returns (the granted bits of `wanted`, the attributes or None if the server omits them).

        `wanted` is a combination of the ACCESS3 bits (RFC 1813 section 3.3.4). Raises `NfsError` if the server refuses.
        """
        value = await self._result(v3.ACCESS, v3.ACCESS3args(node.handle, wanted), node.place)
        return value.access & wanted, value.obj_attributes.value

    async def readlink(self, node: Node) -> str:
        """Calls READLINK; returns the text of the symbolic link, unchecked. Raises `NfsError` if the server refuses."""
        value = await self._result(v3.READLINK, v3.READLINK3args(node.handle), node.place)
        return cast("str", value.data)

    async def read(self, node: Node, offset: int, buffer: memoryview) -> v3.READ3resok:
        """Calls READ at `offset` for at most `len(buffer)` octets, which `buffer` receives; returns the reply's result.

        Raises:
            NfsError: the server refuses.
            RemoteProtocolError: the count in the reply does not fit its data.
        """
        args = v3.READ3args(node.handle, offset, len(buffer))
        reply: Any = await self._answer(v3.READ, args, node.place, buffer)
        value: v3.READ3resok = reply.value
        if reply.status is not _OK:
            value = await self._retried(reply.status, v3.READ, args, node.place, None, buffer)
        if value.count != len(value.data) or value.count > len(buffer):
            text = f"READ of {len(buffer)} octets answered with a count of {value.count} and {len(value.data)} octets"
            raise found_at(node.place, RemoteProtocolError(text, rfc="1813 3.3.6"))
        return value

    async def write(self, node: Node, offset: int, data: Buffer, stable: v3.stable_how) -> v3.WRITE3resok:
        """Calls WRITE and returns the reply's result, whose `count` is from 1 to `len(data)`; 0 if `data` is empty.

        Args:
            node: the file.
            offset: the offset in the file, in octets.
            data: the octets.
            stable: the least stability; the server may give the data more (RFC 1813 section 3.3.7).

        Raises:
            NfsError: the server refuses.
            RemoteProtocolError: the reply's count is more than `len(data)`, or 0 although `data` is not empty; or its
                stability is less than `stable`.
        """
        length = len(data)
        args = v3.WRITE3args(node.handle, offset, length, stable, data)
        reply: Any = await self._answer(v3.WRITE, args, node.place)
        value: v3.WRITE3resok = reply.value
        if reply.status is not _OK:
            value = await self._retried(reply.status, v3.WRITE, args, node.place)
        if value.count > length or (length and not value.count):
            text = f"WRITE of {length} octets answered with a count of {value.count}"
            raise found_at(node.place, RemoteProtocolError(text, rfc="1813 3.3.7"))
        if value.committed < stable:
            text = (
                f"the server does not keep data as it was asked to: WRITE as {stable.name} answered with "
                f"{value.committed.name}"
            )
            raise found_at(node.place, RemoteProtocolError(text, rfc="1813 3.3.7"))
        return value

    async def commit(self, node: Node) -> bytes:
        """Calls COMMIT for all of `node`; returns the write verifier (8 octets). Raises `NfsError` for a refusal."""
        value = await self._result(v3.COMMIT, v3.COMMIT3args(node.handle, 0, 0), node.place)
        return cast("bytes", value.verf)

    async def create(self, directory: Node, name: str, how: v3.createhow3) -> Created:
        """Calls CREATE; returns (handle, attributes), each None if the reply omits it; raises `NfsError` if refused."""
        args = v3.CREATE3args(v3.diropargs3(directory.handle, name), how)
        return _created(await self._result(v3.CREATE, args, (directory, name)))

    async def mkdir(self, directory: Node, name: str, attributes: v3.sattr3) -> Created:
        """Calls MKDIR; returns (handle, attributes), each None if the reply omits it; raises `NfsError` if refused."""
        args = v3.MKDIR3args(v3.diropargs3(directory.handle, name), attributes)
        return _created(await self._changed(v3.MKDIR, args, (directory, name)))

    async def symlink(self, directory: Node, name: str, target: str, attributes: v3.sattr3) -> Created:
        """Calls SYMLINK; returns (handle, attributes), each None if the reply omits it; raises NfsError if refused."""
        args = v3.SYMLINK3args(v3.diropargs3(directory.handle, name), v3.symlinkdata3(attributes, target))
        return _created(await self._changed(v3.SYMLINK, args, (directory, name)))

    async def remove(self, directory: Node, name: str) -> None:
        """Calls REMOVE for `name` in `directory`; raises `NfsError` if the server refuses."""
        await self._changed(v3.REMOVE, v3.REMOVE3args(v3.diropargs3(directory.handle, name)), (directory, name))

    async def rmdir(self, directory: Node, name: str) -> None:
        """Calls RMDIR for `name` in `directory`; raises `NfsError` if the server refuses."""
        await self._changed(v3.RMDIR, v3.RMDIR3args(v3.diropargs3(directory.handle, name)), (directory, name))

    async def rename(self, source: Node, source_name: str, target: Node, target_name: str) -> None:
        """Calls RENAME of `source_name` in `source` to `target_name` in `target`; raises `NfsError` for a refusal."""
        args = v3.RENAME3args(v3.diropargs3(source.handle, source_name), v3.diropargs3(target.handle, target_name))
        await self._changed(v3.RENAME, args, (source, source_name), (target, target_name))

    async def link(self, node: Node, directory: Node, name: str) -> None:
        """Calls LINK, which makes `name` in `directory` a hard link to `node`; raises `NfsError` for a refusal."""
        args = v3.LINK3args(node.handle, v3.diropargs3(directory.handle, name))
        await self._changed(v3.LINK, args, node.place, (directory, name))

    async def readdir(self, directory: Node, cookie: int, verifier: bytes, octets: int) -> v3.READDIR3resok:
        """Calls READDIR for one page of a directory and returns the reply's result; raises `NfsError` if refused.

        `cookie` is that of the last entry of the page before, and `verifier` the cookie verifier of that page; for the
        first page they are 0 and 8 zero octets. `octets` is the most octets of the reply.
        """
        args = v3.READDIR3args(directory.handle, cookie, verifier, octets)
        return cast("v3.READDIR3resok", await self._result(v3.READDIR, args, directory.place))

    async def readdirplus(self, directory: Node, cookie: int, verifier: bytes, octets: int) -> v3.READDIRPLUS3resok:
        """Calls READDIRPLUS for one page of a directory and returns the reply's result; raises `NfsError` if refused.

        `cookie` is that of the last entry of the page before, and `verifier` the cookie verifier of that page; for the
        first page they are 0 and 8 zero octets. `octets` is the most octets of the reply (`maxcount`), and of the names
        in it (`dircount`).
        """
        args = v3.READDIRPLUS3args(directory.handle, cookie, verifier, octets, octets)
        return cast("v3.READDIRPLUS3resok", await self._result(v3.READDIRPLUS, args, directory.place))

    async def fsstat(self, node: Node) -> v3.FSSTAT3resok:
        """Calls FSSTAT and returns the space of the file system of `node`; raises `NfsError` if the server refuses."""
        return cast("v3.FSSTAT3resok", await self._result(v3.FSSTAT, v3.FSSTAT3args(node.handle), node.place))

    async def fsinfo(self, node: Node) -> v3.FSINFO3resok:
        """Calls FSINFO; returns the properties of the file system of `node`. Raises `NfsError` for a refusal."""
        return cast("v3.FSINFO3resok", await self._result(v3.FSINFO, v3.FSINFO3args(node.handle), node.place))

    async def pathconf(self, node: Node) -> v3.PATHCONF3resok:
        """Calls PATHCONF; returns the limits of names and links for `node`. Raises `NfsError` if the server refuses."""
        return cast("v3.PATHCONF3resok", await self._result(v3.PATHCONF, v3.PATHCONF3args(node.handle), node.place))


def _created(value: Any) -> Created:
    handle: v3.post_op_fh3 = value.obj
    return handle.value, value.obj_attributes.value
