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
    """A region of memory that a scripted peer has registered for RDMA accesses of the other end.

    `handle` is its steering tag, `offset` the address of the first octet of `data`, and `may` the access of the other
    end, "read" or "write". An RDMA Read Response has `segment_octets` octets of payload in each DDP segment. It is sent
    after `alone_s` seconds or before the next frame is processed; a second Read Request in this time is a fault. If
    `answered` is False, an RDMA Read gets no Response, and is an event "read_request". `written` has (index in `data`,
    length) of each part that the other end has written.
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
        """Stores `data`, which the other end writes, from index `start` of the region on, and notes that in `written`.

        The octets must end within the region. Adjoining and overlapping parts are joined if `written` has many.
        """
        self.data[start : start + len(data)] = data
        self.written.append((start, len(data)))
        if len(self.written) > self._unjoined_max:
            self.written = joined(self.written)
            self._unjoined_max = 2 * len(self.written) + 1024

    @property
    def written_octets(self) -> int | None:
        """The number of octets that the other end has written at least once; None if a device does not report it."""
        return sum(length for _, length in joined(self.written))


def joined(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns ranges, each as (start, length), in ascending order, with adjoining and overlapping ones joined."""
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
    """An event that the method `next` of a scripted peer returns.

    Values of `kind` are "startup", "message", "terminate", "read_request", "read_response", "end" (of the connection),
    "refused" (an access to memory that no region permits), "broken" (another mistake below the messages) and "quiet"
    (no event in the time of a step). `fields` are the fields of the start-up frame, message or segment by name;
    {"code": NUMBER, "payload": OCTETS, "whole": 0 or 1} of a Terminate; {"how": TEXT, "partial": OCTETS} of an end;
    {"cause": TEXT} of a refusal; the fields of `FrameFault`, by name, of a mistake.
    """

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """An entry in the log of a scripted conversation: something sent, received or noticed.

    `at_s` is in seconds since the log was begun, and `ours` says that this end has sent it. `octets` are the first
    octets of what was sent or received, and `left` is the number of further octets, which are not kept.
    """

    at_s: float
    ours: bool
    text: str
    octets: bytes
    left: int = 0

    def shortened(self, octets_max: int) -> Passage:
        """Returns a copy with the first `octets_max` octets at most; `left` of the copy counts the octets left out."""
        kept = self.octets[:octets_max]
        return replace(self, octets=kept, left=self.left + len(self.octets) - len(kept))


Log: TypeAlias = list[Passage]
"""The list of a conversation's passages, in order."""


class PassageLog:
    """Adds entries (`Passage`) to a log, with the seconds since this object was made; bounds their number and size.

    Of more than `RAW_PASSAGES_MAX` entries the first quarter and the last ones are kept; an entry between them says
    how many are left out.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._start_s = time.monotonic()
        self._left_out = 0

    def note(self, text: str, octets: bytes = b"", *, ours: bool) -> None:
        """Adds a log entry with the description `text` and these octets; `ours` says whether this end has sent them.

        The entry keeps the first `RAW_PASSAGE_OCTETS_MAX` octets.
        """
        log = self._log
        passage = Passage(time.monotonic() - self._start_s, ours, text, octets)
        log.append(passage.shortened(RAW_PASSAGE_OCTETS_MAX) if len(octets) > RAW_PASSAGE_OCTETS_MAX else passage)
        if len(log) > RAW_PASSAGES_MAX:
            first = RAW_PASSAGES_MAX // 4
            self._left_out += 1 if self._left_out else 2
            del log[first]
            log[first] = replace(log[first], text=f"{self._left_out} passages are left out", octets=b"", left=0)


class ScriptedPeer(Protocol):
    """One end of a connection for scripted conversations, which can send any message since it has no state machines.

    While `next` waits, the implementation lets the other end, the program under test, read and write the registered
    memory.
    """

    version: str
    """The protocol version by which transport headers are encoded and decoded, "1" or "2"."""
    takes_version: bool
    """Whether the first message that arrives sets `version`; it becomes False then."""
    crc: bool
    """Whether frames have a CRC."""
    started: bool
    """Whether the start-up message of the other end has arrived, or the provider has established the connection."""

    @property
    def request(self) -> Mapping[str, Any]:
        """The pattern (docs/send.md) that the fields of a connecting client's start-up event have to match."""

    async def accept(self, request: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
        """Sends the reply that accepts a client's connection.

        Args:
            request: the fields of the client's start-up event.
            fields: values of the reply's fields, by name (docs/send.md), in place of the usual ones.
            where: the path of `fields` for error texts.

        Raises:
            LocalProtocolError: the peer cannot send a given field, or its value is not valid.
        """

    async def start(self, fields: Mapping[str, Any], where: str) -> None:
        """Sends the start-up request to a server, without waiting for the answer.

        Args:
            fields: values of the request's fields, by name (docs/send.md), in place of the usual ones.
            where: the path of `fields` for error texts.

        Raises:
            LocalProtocolError: the peer cannot send a given field, or its value is not valid.
            OSError: the provider makes no queue pair.
        """

    def register(self, *, handle: int, offset: int, data: bytearray, may: str) -> RawMemory:
        """Registers `data` for RDMA accesses of the other end, and returns the region with its handle and offset.

        `may` is "read" or "write". `handle` and `offset`, the address of the first octet, are those of the region,
        unless the implementation's provider chooses them.
        """

    def withdraw(self, memory: RawMemory) -> None:
        """Ends the other end's access to a region that `register` has returned."""

    async def send_stream(self, octets: bytes, text: str, pieces: int = 0) -> None:
        """Writes octets to the stream below the frames as they are.

        Args:
            octets: the octets.
            text: the description of the octets for the log.
            pieces: the number of octets in each write, sent one after another; 0 writes everything together.

        Raises:
            LocalProtocolError: the implementation has no stream.
        """

    async def send_message(
        self, payload: bytes, ddp: Mapping[str, Any], mpa: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Sends an RDMAP message, a Send unless `ddp` has another "opcode".

        Args:
            payload: the octets of the message.
            ddp: values of DDP fields, by name (docs/send.md), in place of the usual ones.
            mpa: values of MPA fields, by name, in place of the usual ones.
            text: the description for the log; None makes a general one.

        Raises:
            LocalProtocolError: the peer cannot send a given field, or its value is not valid.
        """

    async def write(self, handle: int, offset: int, data: bytes) -> None:
        """Writes `data` by RDMA Write to the other end's memory with this handle, from the address `offset` on."""

    async def read(self, handle: int, offset: int, length: int) -> int:
        """Begins an RDMA Read of `length` octets from the address `offset` of the other end's memory with this handle.

        Does not wait for the data: `next` later returns them in events "read_response". Returns the handle of the sink,
        which these events have as "handle".
        """

    async def remind(self) -> None:
        """Makes siw, Linux's software iWARP, process a first message that it may have overlooked; no other effect."""

    def end(self) -> None:
        """Ends the sending direction, or the whole connection where directions do not end separately."""

    async def next(self) -> Heard:
        """Waits without a time limit for the next event, and returns it.

        After the end of the connection, each call returns an event "end" at once.
        """

    async def close(self) -> None:
        """Aborts the connection without sending more, and waits for its end; over a queue pair, for at most 5 s."""
