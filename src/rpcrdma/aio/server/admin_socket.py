"""A local socket over which the owner of a server asks about it: one request and one answer in JSON, each a line.

The socket has mode 0600, and each connection is of the user that owns the server, or of root. A connection carries one
request. While ADMIN_CONNECTIONS_MAX connections are open, further ones are closed at once: all users are local.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rpcrdma.limits import ADMIN_ANSWER_S, ADMIN_CONNECTIONS_MAX, ADMIN_REQUEST_OCTETS_MAX, ADMIN_REQUEST_S

__all__ = ["AdminSocket", "SocketInUse", "reachable_path", "unfit_name"]

_LOGGER = logging.getLogger("rpcrdma.server")
_MODE: Final = 0o600
_CREDENTIALS: Final = struct.Struct("@3i")
"""struct ucred: process, user, group."""
_NAME_OCTETS_MAX: Final = 85
"""Beside the name, an address of `reachable_path` has "/proc/self/fd/", at most seven digits and a slash; a socket's
address has at most 107 octets."""
_PIECES_AT_ONCE: Final = 1000
"""Pieces of an answer, such as values, that are encoded in one turn of the event loop: some half a millisecond."""

Request = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Answers a request with a JSON object; raises LookupError or OSError with a text for people."""


class SocketInUse(OSError):
    """The admin socket is in use by a running server.

    Args:
        path: the path of the socket.
        process: the process ID of that server; 0 if unknown.
    """

    def __init__(self, path: Path, process: int) -> None:
        server = f"the server with process {process}" if process else "a server"
        super().__init__(f"{path} is the admin socket of {server}")
        self.path = path
        self.process = process


def unfit_name(path: Path) -> str:
    """Returns a clause on why the last part of `path` is unfit as a socket's name (empty, too long); "" if fit."""
    octets = len(os.fsencode(path.name))
    if not octets:
        return "there is no name of a socket at its end"
    return f"its name has {octets} octets, more than {_NAME_OCTETS_MAX}" if octets > _NAME_OCTETS_MAX else ""


@contextlib.contextmanager
def reachable_path(path: Path) -> Iterator[tuple[int, str]]:
    """Opens the directory of the socket `path`, so that its address has fewer than 108 octets however long `path` is.

    The socket need not exist.

    Yields:
        The descriptor of the directory, which is closed at exit, and an address of the socket that is valid until then.

    Raises:
        OSError: the name is unfit for a socket, there is no such directory, or this user may not open it.
    """
    if text := unfit_name(path):
        raise OSError(errno.EINVAL, text)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield directory, f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


class AdminSocket:
    """A local socket at which a server answers requests of its owner and of root, from `start` to `close`.

    Each request and answer is one line of JSON. The methods are called in the event loop of the server.

    Args:
        path: the path of the socket. A socket at which no process listens is replaced.
        handlers: the asynchronous functions that answer requests, by the value of the request's item "ask". Each gets
            the whole request and returns the JSON object of the answer. The client gets a refusal with the text of a
            LookupError or OSError that the function raises, a general refusal for any other exception, which is logged,
            and one for a request without a known "ask".
    """

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        self._path = path
        self._handlers = handlers
        self._users = {os.geteuid(), 0}
        self._identity: tuple[int, int] | None = None
        """Device and inode of the socket's name, lest another server's is removed."""
        self._accepting: asyncio.Task[None] | None = None
        self._visits: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Makes the socket with mode 0600, listens at it, and answers requests in a task of the running event loop.

        Raises:
            SocketInUse: another server listens there.
            OSError: the socket cannot be made, or another server is starting there; the text names the path.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # The kernel gives this mode to the name that `bind` makes; the mask of the process is that of all threads.
            os.fchmod(sock.fileno(), _MODE)
            with reachable_path(self._path) as (directory, address):
                # Two servers that start at once must not both take the place of a third one.
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._remove_stale(directory, address)
                sock.bind(address)
                sock.listen(ADMIN_CONNECTIONS_MAX)
                self._identity = _identity(directory, self._path.name)
        except OSError as error:
            sock.close()
            if isinstance(error, SocketInUse):
                raise
            raise OSError(error.errno, f"cannot listen at {self._path}: {_cause(error)}") from None
        self._accepting = asyncio.get_running_loop().create_task(self._accept(sock))

    async def close(self) -> None:
        """Ends all connections, those being answered as well, and removes the socket unless it is another server's.

        No effect without `start`, or when repeated.
        """
        if self._accepting is None:
            return
        tasks = [self._accepting, *self._visits]
        self._accepting = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Its file system may not answer: the caller bounds the wait.
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        """Removes the socket, unless its path leads to another server's by now; ignores errors; may block."""
        with contextlib.suppress(OSError), reachable_path(self._path) as (directory, _):
            if _identity(directory, self._path.name) == self._identity:
                os.unlink(self._path.name, dir_fd=directory)

    def _remove_stale(self, directory: int, address: str) -> None:
        """Removes the socket if no process listens at it; no effect if there is none.

        `directory` is a descriptor of the socket's directory, `address` a path of the socket of under 108 octets.

        Raises:
            SocketInUse: a server listens there.
            FileExistsError: the path leads to another kind of file.
        """
        try:
            status = os.stat(self._path.name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(status.st_mode):
            raise FileExistsError("there is a file that is no socket; remove it, or name another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(address)
            except ConnectionRefusedError:
                os.unlink(self._path.name, dir_fd=directory)
                return
            except BlockingIOError:
                # Its queue is full, so that it lives.
                raise SocketInUse(self._path, 0) from None
            raise SocketInUse(self._path, _peer(probe)[0])

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError as error:
                    # This process has run out of descriptors; the connection waits in the queue.
                    _LOGGER.warning("the admin socket accepts no connection: %s", error.strerror)
                    await asyncio.sleep(ADMIN_REQUEST_S)
                    continue
                if len(self._visits) >= ADMIN_CONNECTIONS_MAX:
                    sock.close()
                    continue
                sock.setblocking(False)
                visit = loop.create_task(self._visit(sock))
                self._visits.add(visit)
                visit.add_done_callback(self._visits.discard)
        finally:
            listener.close()

    async def _visit(self, sock: socket.socket) -> None:
        """Receives one request on the connection `sock`, answers it and closes `sock`.

        Users other than the server's own and root get a refusal. A client whose request takes longer than
        ADMIN_REQUEST_S seconds gets no answer. Errors of the connection are ignored.
        """
        loop = asyncio.get_running_loop()
        with sock, contextlib.suppress(OSError):
            # A time-out is an OSError as well.
            if _peer(sock)[1] not in self._users:
                answer: Mapping[str, Any] = _refused("this socket is for the owner of the server, and root", "")
            else:
                async with asyncio.timeout(ADMIN_REQUEST_S):
                    line = await _line(sock)
                answer = await self._answer(line)
            encoded = await _encoded(answer)
            async with asyncio.timeout(ADMIN_ANSWER_S):
                await loop.sock_sendall(sock, encoded)

    async def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
            handler = self._handlers[request["ask"]]
        except (ValueError, RecursionError, LookupError, TypeError):
            return _refused("this server does not know the request", "use the command of the server's own version")
        try:
            return {"ok": True, "answer": await handler(request)}
        except (LookupError, OSError) as error:
            message, _, hint = str(error.args[-1] if error.args else error).partition("; ")
            return _refused(message, hint)
        except Exception:  # the server goes on
            _LOGGER.exception("cannot answer a request of the administrator")
            return _refused("the server has failed", "its log has the reason")


async def _line(sock: socket.socket) -> bytes:
    """Receives and returns one line with its line end; octets after it are dropped.

    Without a line end returns the octets before the peer's end, or the first ADMIN_REQUEST_OCTETS_MAX octets of a
    longer line. Raises OSError if the connection fails.
    """
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < ADMIN_REQUEST_OCTETS_MAX and b"\n" not in data:
        octets = await loop.sock_recv(sock, ADMIN_REQUEST_OCTETS_MAX - len(data))
        if not octets:
            break
        data += octets
    return bytes(data[: data.find(b"\n") + 1] or data)


async def _encoded(answer: Mapping[str, Any]) -> bytes:
    """Encodes an answer as a line, and gives the event loop its turns meanwhile: there may be thousands of clients."""
    pieces = []
    # In Python: the encoder in C makes one step of all, and would keep the interpreter's lock in a thread as well.
    for number, piece in enumerate(json.JSONEncoder().iterencode(answer)):
        pieces.append(piece)
        if number % _PIECES_AT_ONCE == _PIECES_AT_ONCE - 1:
            await asyncio.sleep(0)
    return "".join(pieces).encode() + b"\n"


def _refused(message: str, hint: str) -> dict[str, Any]:
    return {"ok": False, "message": message, "hint": hint}


def _peer(sock: socket.socket) -> tuple[int, int]:
    """Returns the process ID and the user ID of the other end of a connected local socket."""
    process, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return process, user


def _identity(directory: int, name: str) -> tuple[int, int]:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return status.st_dev, status.st_ino


def _cause(error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return "another server is starting there"
    return error.strerror or str(error)
