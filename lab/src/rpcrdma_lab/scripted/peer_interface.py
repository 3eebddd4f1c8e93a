"""The interface of peers in scripted conversations, and the events, passages and memory that they have in common."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from rpcrdma_lab.limits import RAW_PASSAGE_OCTETS_MAX, RAW_PASSAGES_MAX

__all__ = ["Heard", "Log", "Passage", "PassageLog", "RawMemory", "ScriptedPeer", "joined"]


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
    _unjoined_max: int = field(default=1024, init=False)

    def place(self, start: int, data: bytes) -> None:
        """Takes octets that the peer writes; pieces that adjoin or overlap are joined when there are many."""
        self.data[start : start + len(data)] = data
        self.written.append((start, len(data)))
        if len(self.written) > self._unjoined_max:
            self.written = joined(self.written)
            self._unjoined_max = 2 * len(self.written) + 1024

    @property
    def written_octets(self) -> int | None:
        """The octets of the region that have been written at least once; None if that is unknown."""
        return sum(length for _, length in joined(self.written))


def joined(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns pieces (offset, length) in order, with those that adjoin or overlap joined to one."""
    runs: list[tuple[int, int]] = []
    for start, length in sorted(pieces):
        begin, octets = runs[-1] if runs else (start, 0)
        if start > begin + octets:
            runs.append((start, length))
        else:
            runs[-1:] = [(begin, max(octets, start + length - begin))]
    return runs


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
    """One thing that was said; `at_s` counts from the start. Octets below the messages are not kept with bulk data.

    `left` is the number of octets behind `octets`, which are not kept.
    """

    at_s: float
    ours: bool
    text: str
    octets: bytes
    left: int = 0

    def shortened(self, octets_max: int) -> Passage:
        """Returns the passage with at most `octets_max` of its octets."""
        kept = self.octets[:octets_max]
        return replace(self, octets=kept, left=self.left + len(self.octets) - len(kept))


Log: TypeAlias = list[Passage]
"""The place of passages."""


class PassageLog:
    """Adds passages with the time that has passed since its making, within the bounds of `limits`.

    Of too many the first and the last ones are kept; one passage between them has the number of the others.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._start_s = time.monotonic()
        self._left_out = 0

    def note(self, text: str, octets: bytes = b"", *, ours: bool) -> None:
        """Adds a passage."""
        log = self._log
        passage = Passage(time.monotonic() - self._start_s, ours, text, octets)
        log.append(passage.shortened(RAW_PASSAGE_OCTETS_MAX) if len(octets) > RAW_PASSAGE_OCTETS_MAX else passage)
        if len(log) > RAW_PASSAGES_MAX:
            first = RAW_PASSAGES_MAX // 4
            self._left_out += 1 if self._left_out else 2
            del log[first]
            log[first] = replace(log[first], text=f"{self._left_out} passages are left out", octets=b"", left=0)


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
        """Says the start-up frame, with `fields` in place of the usual ones; errors name `where`."""

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:
        """Registers memory that the other side may "read" or "write", at `handle` and `offset` if it can choose."""

    def withdraw(self, memory: RawMemory) -> None:
        """Ends the access of the other side to the memory."""

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        """Sends octets as they are; with `pieces`, that many at a time, which the other side receives one by one."""

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
        """Waits for the next event, for any time, and returns it."""

    async def close(self) -> None:
        """Closes the connection without a word."""
