"""One client of the soak test: makes calls of all kinds through a bad line, and checks the result of each."""

from __future__ import annotations

import random
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable

from rpcrdma.aio.client.connect import Connection
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.errors import NfsNotFound
from rpcrdma.rpc.program import null_procedure
from ticket_service import DATA_OCTETS_MAX, LATER, LONG, NUMBER, PLACED

FILES_MAX = 12
"""Files that one client has at a time."""
CALL_TIMEOUT_S = 60.0
"""A call that has no answer by then counts as lost."""


class Wrong(Exception):
    """The server's result of a call is not the right one."""


class SoakClient:
    """Works in a directory of its own, one call or file at a time.

    `files` are the files that must exist, with length and CRC; `tokens` counts the tokens used, and `tickets` are the
    tickets given for them. `lost` and `wrong` are messages about calls without an answer, and with a wrong one.
    """

    def __init__(self, number: int, connection: Connection, root: bytes, seed: int, octets_max: int) -> None:
        self.number = number
        self.connection = connection
        self.choose = random.Random(seed)
        self.octets_max = octets_max
        self.directory = f"client{number}"
        self.filesystem = NfsFilesystem(connection, root)
        self.files: dict[str, tuple[int, int]] = {}
        self.names = 0
        self.reconnects = 0
        self.tokens = 0
        self.tickets = array("L")
        self.done: Counter[str] = Counter()
        self.slowest = 0.0, ""
        """Seconds that the slowest action took, and its name: cut connections have it begin again and again."""
        self.lost: list[str] = []
        self.wrong: list[str] = []
        self._actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (3, self.null),
            (10, self.ticket),
            (3, self.create),
            (3, self.read),
            (1, self.read_piece),
            (2, self.overwrite),
            (2, self.rename),
            (2, self.remove),
            (1, self.make_directory),
            (2, self.list),
            (2, self.look_up),
        ]

    async def begin(self) -> None:
        await self.filesystem.mkdir(self.directory)

    async def act(self) -> None:
        """One action, chosen at random."""
        weights, actions = zip(*self._actions, strict=True)
        (action,) = self.choose.choices(actions, weights)
        await self._try(action)

    async def _try(self, action: Callable[[], Awaitable[None]]) -> None:
        started_s = time.monotonic()
        try:
            await action()
        except Wrong as error:
            self.wrong.append(f"client {self.number}, {action.__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - any exception means that the call has failed
            self.lost.append(f"client {self.number}, {action.__name__}: {error!r}")
        else:
            self.done[action.__name__] += 1
        self.slowest = max(self.slowest, (time.monotonic() - started_s, action.__name__))

    async def end(self) -> None:
        await self._try(self.list)
        await self.filesystem.close()
        await self.connection.close()
        self.reconnects = self.connection.reconnects
        # Without these references the connection and its memory can be collected.
        del self.filesystem, self.connection, self._actions

    def _data(self, octets_max: int) -> bytes:
        """Random octets; any order of magnitude is as likely as another."""
        return self.choose.randbytes(round(octets_max ** self.choose.random()))

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _new_name(self) -> str:
        self.names += 1
        return f"file{self.names}"

    def _some(self) -> str | None:
        return self.choose.choice(list(self.files)) if self.files else None

    async def null(self) -> None:
        await self.connection.call(null_procedure(NUMBER, 1), None)

    async def ticket(self) -> None:
        token, self.tokens = self.tokens, self.tokens + 1
        data = self._data(DATA_OCTETS_MAX)
        called = self.choose.choice((PLACED, LONG, LATER))
        into = bytearray(len(data)) if called is not LONG and self.choose.random() < 0.5 else None
        ticket, back = await self.connection.call(called, (self.number, token, data), into=into)
        self.tickets.append(ticket)
        if back != data[::-1]:
            raise Wrong(f"token {token}: {len(data)} octets came back changed")

    async def create(self) -> None:
        if len(self.files) >= FILES_MAX:
            await self.remove()
        name, data = self._new_name(), self._data(self.octets_max)
        async with await self.filesystem.open(self._path(name), "xb") as file:
            await file.write(data)
        self.files[name] = len(data), zlib.crc32(data)

    async def read(self) -> None:
        if (name := self._some()) is not None:
            data = await self.filesystem.read_bytes(self._path(name))
            if (len(data), zlib.crc32(data)) != self.files[name]:
                raise Wrong(f"{name}: {len(data)} octets read, not what was written")

    async def read_piece(self) -> None:
        if (name := self._some()) is not None:
            length, crc = self.files[name]
            buffer = bytearray(length)
            if await self.filesystem.read_into(self._path(name), buffer) != length or zlib.crc32(buffer) != crc:
                raise Wrong(f"{name}: {length} octets read into a buffer, not what was written")

    async def overwrite(self) -> None:
        if (name := self._some()) is not None:
            data = self._data(self.octets_max)
            await self.filesystem.write_bytes(self._path(name), data)
            self.files[name] = len(data), zlib.crc32(data)

    async def rename(self) -> None:
        if (name := self._some()) is not None:
            target = self._new_name()
            await self.filesystem.rename(self._path(name), self._path(target))
            self.files[target] = self.files.pop(name)

    async def remove(self) -> None:
        if (name := self._some()) is not None:
            await self.filesystem.unlink(self._path(name))
            del self.files[name]

    async def make_directory(self) -> None:
        path = self._path("directory")
        await self.filesystem.mkdir(path)
        await self.filesystem.rmdir(path)

    async def list(self) -> None:
        there = await self.filesystem.listdir(self.directory)
        if sorted(there) != sorted(self.files):
            raise Wrong(f"there are {sorted(there)}, not {sorted(self.files)}")

    async def look_up(self) -> None:
        if (name := self._some()) is not None and self.choose.random() < 0.7:
            length = (await self.filesystem.stat(self._path(name))).st_size
            if length != self.files[name][0]:
                raise Wrong(f"{name} has {length} octets, not {self.files[name][0]}")
            return
        try:
            await self.filesystem.stat(self._path("nothing"))
        except NfsNotFound:
            pass
        else:
            raise Wrong("there is something that was never made")
