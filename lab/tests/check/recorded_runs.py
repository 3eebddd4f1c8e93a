"""Runs of checks before our server, recorded by events, and taken again without sockets with one event changed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from rpcrdma_lab.check import CATALOGUE, Check, Result, runner
from rpcrdma_lab.scripted import Outcome, RawPeer, RawTarget, conversation
from rpcrdma_lab.scripted.peer_interface import Heard, RawMemory
from rpcrdma_lab.scripted.recorded_stream import open_recorded
from rpcrdma_lab.scripted.values import Names
from support.waiting import time_passes

__all__ = ["Event", "Region", "Run", "judged_again", "recording", "replaying"]

T = TypeVar("T")


class Region(NamedTuple):
    """Data of a region, the parts that have been written, and the server's right."""

    data: bytes
    written: Sequence[tuple[int, int]]
    may: str


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the server, which came when the check had said `after` things; `memory` as it was then.

    `patterns`: it was compared with these.
    """

    heard: Heard
    after: int
    memory: Mapping[int, Region]
    patterns: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Run:
    """The run of a check with the values that were given."""

    check: Check
    given: Mapping[str, int | bytes]
    events: list[Event] = field(default_factory=list)

    def changed(self, at: int, heard: Heard | None) -> Run:
        """The run with another event at this place, or none from there on."""
        events = self.events[:at] if heard is None else list(self.events)
        if heard is not None:
            events[at] = replace(events[at], heard=heard)
        return Run(self.check, self.given, events)

    def with_memory(self, handle: int, data: bytes, written: Sequence[tuple[int, int]]) -> Run:
        """The run with these octets in a region from the start on."""
        events = [replace(each, memory={**each.memory, handle: Region(data, written, "write")}) for each in self.events]
        return Run(self.check, self.given, events)


_run: ContextVar[Run | None] = ContextVar("_run", default=None)


class _RecordingPeer(RawPeer):
    """Notes each event with the number of things that were said before."""

    run: Run
    patterns: Sequence[Mapping[str, Any]] = ()
    _said = 0
    _serves = 0

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        self._said += not self._serves
        await super().send_stream(octets, text, pieces)

    def end(self) -> None:
        self._said += 1
        super().end()

    async def next(self) -> Heard:
        heard = await super().next()
        memory = {
            handle: Region(bytes(each.data), tuple(each.written), each.may) for handle, each in self.regions.items()
        }
        self.run.events.append(Event(copy.deepcopy(heard), self._said, memory, self.patterns))
        return heard

    async def remind(self) -> None:
        await self._serving(super().remind())

    async def _read(self, *of: Any) -> Heard | None:
        return await self._serving(super()._read(*of))

    async def _terminate(self, *of: Any) -> None:
        await self._serving(super()._terminate(*of))

    async def _serving(self, served: Coroutine[Any, Any, T]) -> T:
        self._serves += 1
        try:
            return await served
        finally:
            self._serves -= 1


@contextmanager
def recording(runs: dict[str, Run]) -> Iterator[None]:
    """Records the runs of checks by their ids; of a check that is tried twice the last run."""
    by_conversation = {id(check.conversation): check for check in CATALOGUE}
    held, connected = runner.run_conversation, conversation._connected
    heard = conversation.LiveConversation._hear

    async def hold(said: Any, target: RawTarget, given: Mapping[str, int | bytes]) -> Outcome:
        check = by_conversation.get(id(said))
        if check is not None:
            runs[check.id] = run = Run(check, given)
            _run.set(run)
        return await held(said, target, given)

    async def connect(target: RawTarget, version: str, outcome: Outcome, names: Names) -> Any:
        run = _run.get()
        if run is None:
            return await connected(target, version, outcome, names)
        reader, writer = await open_recorded(target.host, target.port, target.capture)
        peer = _RecordingPeer(reader, writer, version, outcome.passages, names, crc=target.crc)
        peer.run = run
        return peer

    async def hear(live: Any, patterns: Sequence[Mapping[str, Any]], where: str) -> None:
        live._peer.patterns = patterns
        await heard(live, patterns, where)

    with (
        mock.patch.object(runner, "run_conversation", hold),
        mock.patch.object(conversation, "_connected", connect),
        mock.patch.object(conversation.LiveConversation, "_hear", hear),
    ):
        yield


class _ReplayedPeer:
    """Tells the events of a run again."""

    takes_version = False
    crc = True
    started = False
    request: Mapping[str, Any] = {}

    def __init__(self, run: Run) -> None:
        self.version = run.check.conversation.get("version", "1")
        self.told = 0
        self._events = run.events
        self._said = 0
        self._news = asyncio.Event()
        self._regions: dict[int, RawMemory] = {}

    def _say(self) -> None:
        self._said += 1
        self._news.set()

    async def start(self, fields: Mapping[str, Any], where: str) -> None:
        self._say()

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        self._say()

    async def send_message(self, payload: bytes, ddp: object, mpa: object, text: str | None = None) -> None:
        self._say()

    def end(self) -> None:
        self._say()

    async def remind(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def withdraw(self, memory: RawMemory) -> None:
        pass

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:
        region = self._regions[handle] = RawMemory(handle=handle, offset=offset, data=data, may=may)
        return region

    async def next(self) -> Heard:
        while self.told == len(self._events) or self._events[self.told].after > self._said:
            self._news.clear()
            await self._news.wait()
        event = self._events[self.told]
        if event.heard.kind != "end":
            self.told += 1
        self.started = self.started or event.heard.kind == "startup"
        for handle, region in event.memory.items():
            if handle in self._regions:
                self._regions[handle].data[:] = region.data
                self._regions[handle].written[:] = region.written
        return event.heard


_TARGET = RawTarget(host="", port=0, timeout_s=1.0)
_replayed: ContextVar[_ReplayedPeer] = ContextVar("_replayed")


async def judged_again(run: Run) -> tuple[Result, int]:
    """The result of a run whose events are told again, and how many were; call it within `replaying`."""
    # The loop of virtual time takes a program for which no time passes to be polling.
    await time_passes(1)
    _replayed.set(peer := _ReplayedPeer(run))
    outcome = await conversation.run_conversation(run.check.conversation, _TARGET, run.given)
    return runner._judged(run.check, outcome), peer.told


@contextmanager
def replaying() -> Iterator[None]:
    """Conversations are with recorded runs; messages are neither made nor put into words, as that takes long."""

    async def connect(*_: object) -> _ReplayedPeer:
        return _replayed.get()

    places = {
        "_connected": connect,
        "check_conversation": lambda *_: None,
        "make_message": lambda *_: b"",
        "read_message": lambda *_: {},
        "message_words": lambda *_: "",
    }
    with mock.patch.multiple(conversation, **places):
        yield
