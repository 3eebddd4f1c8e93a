"""A server whose directories are watched, a proxy that cuts connections, and clients that do as they are told."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs.client import Change, ChangeKind, Changes, nfs_open
from rpcrdma.nfs.server import Export, NfsServices, ServerState, build_services, open_state
from rpcrdma.nfs.server.watch_service import WatchService
from rpcrdma.nfs.watch import SUBSCRIBE, WATCH_V1, WATCHER_V1_Service, watch_batch, watch_subscribe_args
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.program import Caller
from rpcrdma.rpc.service import CallContext
from support.waiting import until

__all__ = [
    "Cut",
    "Replica",
    "Rig",
    "Scripted",
    "build",
    "hostile",
    "reconnected",
    "serving",
    "status",
    "subscription",
    "take",
    "take_until",
    "words",
]

K = ChangeKind
_LOGGER = logging.getLogger(__name__)


class Cut:
    """Passes octets on to a port that may change, until it is told to cut all connections."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Cut:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.refuses:
            writer.transport.abort()
            return
        try:
            other_reader, other = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, other}
        await asyncio.gather(self._pass(reader, other), self._pass(other_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@dataclass
class Rig:
    top: Path
    scheme: str
    services: NfsServices
    watch: WatchService
    server: Server
    cut: Cut
    mount_port: int

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.cut.port}"

    @asynccontextmanager
    async def watching(self, path: str = ".", **options: Any) -> AsyncIterator[Changes]:
        async with nfs_open(f"{self.url}/", mount_port=self.mount_port) as fs, fs.watch(path, **options) as changes:
            yield changes

    @property
    def thread(self) -> Any:
        return self.watch._thread

    def hear(self) -> None:
        """Has what has happened noted, while the event loop, which would tell clients of it, stands still."""
        for _ in range(2):
            # A job precedes the events that are there when it runs.
            self.thread.submit(lambda _: None).result()


def build(top: Path, state: ServerState, **options: Any) -> NfsServices:
    export = Export(name="/", directory=top, root_squash=False, synchronous=False, **options)
    return build_services([export], state=state)


@asynccontextmanager
async def serving(tmp_path: Path, scheme: str, *, read_only: bool = False, **options: Any) -> AsyncIterator[Rig]:
    top = tmp_path / "export"
    top.mkdir(exist_ok=True)
    state = open_state(tmp_path / "state", secrets.token_bytes)
    services = build(top, state, read_only=read_only)
    service = WatchService(services.nfs.exports, **options)
    listen = [f"{scheme}://127.0.0.1:0", "tcp://127.0.0.1:0"]
    try:
        async with serve([*services, service], listen, options=ServeOptions(drain_s=0.1)) as server:
            port, mount_port = (parse_url(url).port for url in server.listening)
            async with Cut(port) as cut:
                yield Rig(top, scheme, services, service, server, cut, mount_port)
    finally:
        # Its thread would keep the process from ending.
        await service.close()
        services.nfs.close()
        state.close()


async def reconnected(changes: Changes, before: int) -> None:
    await until(lambda: changes.reconnects > before)


async def take(changes: Changes, count: int) -> list[Change]:
    taken: list[Change] = []
    try:
        while len(taken) < count:
            taken.append(await anext(changes))
    except asyncio.CancelledError:
        _LOGGER.warning("%d changes were awaited; there came %s", count, words(taken))
        raise
    return taken


async def take_until(changes: Changes, last: str) -> list[str]:
    """The changes up to `last`, in words: batches end at any time, so how often a file has changed depends on it."""
    taken: list[str] = []
    try:
        while last not in taken:
            taken += words([await anext(changes)])
    except asyncio.CancelledError:
        _LOGGER.warning("%r was awaited; there came %s", last, taken)
        raise
    return taken


def words(changes: list[Change]) -> list[str]:
    return [" ".join(filter(None, (each.kind.value, each.path, each.target))) for each in changes]


class Replica:
    """The paths below a directory, as they follow from the changes."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self.paths = self.real()
        self.rescans = 0

    def real(self) -> set[str]:
        return {str(path.relative_to(self._top)) for path in self._top.rglob("*")}

    def apply(self, change: Change) -> None:
        path, target = change.path, change.target
        if change.kind is K.RESCAN:
            self.rescans += 1
            self.paths = self.real()
        elif change.kind is K.CREATED:
            self.paths.add(path)
        elif change.kind is K.REMOVED:
            self.paths = {each for each in self.paths if not below(each, path)}
        elif change.kind is K.RENAMED:
            assert target is not None
            moved = {target + each[len(path) :] for each in self.paths if below(each, path)} | {target}
            self.paths = {each for each in self.paths if not below(each, path) and not below(each, target)} | moved

    async def follow(self, changes: Changes) -> None:
        async for change in changes:
            self.apply(change)


def below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


class Scripted(WATCHER_V1_Service):
    """A client that answers the server's messages."""

    def __init__(self, answer: Callable[[watch_batch], Any]) -> None:
        self.answer = answer
        self.batches: list[watch_batch] = []

    async def changes(self, args: watch_batch, context: CallContext) -> int:
        self.batches.append(args)
        answer = self.answer(args)
        result: int = await answer if asyncio.iscoroutine(answer) else answer
        return result


@asynccontextmanager
async def hostile(
    rig: Rig, answer: Callable[[watch_batch], Any], uid: int = 7, **options: Any
) -> AsyncIterator[tuple[Connection, Scripted]]:
    client = Scripted(answer)
    connecting = ConnectOptions(services=[client], reconnect=False, credential=AuthSys(uid=uid, gid=uid), **options)
    async with connect(rig.url, WATCH_V1, options=connecting) as connection:
        yield connection, client


def subscription(
    rig: Rig, identifier: int = 1, *, resume: bool = False, acknowledged: int = 0, recursive: bool = False
) -> watch_subscribe_args:
    (tree,) = rig.services.nfs.exports.trees
    return watch_subscribe_args(identifier.to_bytes(16, "big"), tree.root.handle, recursive, resume, acknowledged)


async def status(caller: Caller, args: watch_subscribe_args) -> str:
    return (await caller.call(SUBSCRIBE, args)).status.name
