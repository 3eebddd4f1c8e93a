"""The interface of peers in scripted conversations, and the events, passages and memory that they have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Heard", "Log", "Passage", "PassageLog", "RawMemory", "ScriptedPeer"]


@dataclass(slots=True, kw_only=True)
class RawMemory:
    """Registered memory. The peer may `read` or `write` it; `written` are offset in it and length of each piece.

    An RDMA Read of it is answered in segments of `segment_octets`, after `alone_s` in which no other Read may come; if
    it is not `answered`, it is an event.
    """

    handle: int
    offset: int
    data: bytearray
    may: str
    segment_octets: int = 1 << 10
    alone_s: float = 0.0
    answered: bool = True
    written: list[tuple[int, int]] = field(default_factory=list)

    @property
    def written_octets(self) -> int | None:
        """How many octets of the region have been written at least once; None if that is unknown."""
        covered = end = 0
        for start, length in sorted(self.written):
            covered += max(0, start + length - max(start, end))
            end = max(end, start + length)
        return covered


@dataclass(frozen=True, slots=True)
class Heard:
    """An event of this `kind`.

    Kinds are startup, message, terminate, read_request, read_response, end (of the stream), refused (an access to
    memory that no region permits) and broken (another mistake below the messages). `fields` are those of the start-up
    frame or of the message, {"code": 0xLTCC} of a Terminate, and of a mistake {"cause": TEXT}, with the other fields
    of `FrameFault` if it is one of frames.
    """

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """One thing that was said; `at_s` counts from the start. Octets below the messages are not kept with bulk data."""

    at_s: float
    ours: bool
    text: str
    octets: bytes


class Log(Protocol):
    """The place of passages."""

    def append(self, passage: Passage, /) -> None:
        """Adds one."""


class PassageLog:
    """Adds passages with the time that has passed since its making."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._start_s = time.monotonic()

    def note(self, text: str, octets: bytes = b"", *, ours: bool) -> None:
        """Adds a passage."""
        self._log.append(Passage(time.monotonic() - self._start_s, ours, text, octets))


class ScriptedPeer(Protocol):
    """One end of a connection without protocol machines: it says any message, and tells of arrivals.

    While an event is awaited, the other side reads and writes the registered memory.
    """

    version: str
    """The layout of transport headers."""
    takes_version: bool
    """Whether the first message that arrives decides the version."""
    crc: bool
    """Whether frames have a checksum."""
    started: bool
    """Whether the start-up is over."""

    @property
    def request(self) -> Mapping[str, Any]:
        """The pattern of the start-up fields of a client that connects."""

    async def accept(self, request: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
        """Accepts the connection of a client; `request` are the fields of its start-up, `fields` those of the reply."""

    async def start(self, fields: Mapping[str, Any], where: str) -> None:
        """Says the first frame with these fields."""

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:
        """Memory that the other side may `read` or `write`, under this handle and offset if they can be chosen."""

    def withdraw(self, memory: RawMemory) -> None:
        """Ends the access of the other side to the memory."""

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        """Sends octets as they are, or so many at a time, which the other side receives one by one."""

    async def send_message(
        self, payload: bytes, ddp: Mapping[str, Any], mpa: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Sends a message; `ddp` and `mpa` are fields of its frames with other values than usual."""

    async def write(self, handle: int, offset: int, data: bytes) -> None:
        """Writes to memory of the other side by RDMA Write."""

    async def read(self, handle: int, offset: int, length: int) -> int:
        """Reads memory of the other side by RDMA Read; returns the handle in the events "read_response" that follow."""

    async def remind(self) -> None:
        """Has the other side take a first message that it may have overlooked."""

    def end(self) -> None:
        """Ends the own direction of the stream."""

    async def next(self) -> Heard:
        """The next event."""

    async def close(self) -> None:
        """Closes the connection without a word."""
