"""Runs a scripted conversation with a server: sends each message, and compares each answer with the expected ones.

docs/send.md describes conversations: their steps, messages, values and patterns. `form` has the fields of each part.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rpcrdma import PacketCapture
from rpcrdma.errors import LocalProtocolError
from rpcrdma.provider import Provider
from rpcrdma_lab.scripted.form import check_conversation
from rpcrdma_lab.scripted.frames import STARTUP_CRC, STARTUP_ENHANCED
from rpcrdma_lab.scripted.layouts import LAYOUTS
from rpcrdma_lab.scripted.matching import difference
from rpcrdma_lab.scripted.messages import UNKNOWN, kind_words, make_message, message_words, read_message
from rpcrdma_lab.scripted.own_time import within
from rpcrdma_lab.scripted.parts import parts_of
from rpcrdma_lab.scripted.peer import RawPeer
from rpcrdma_lab.scripted.peer_interface import Heard, Passage, RawMemory, ScriptedPeer
from rpcrdma_lab.scripted.queue_pair_peer import QueuePairPeer, open_link
from rpcrdma_lab.scripted.recorded_stream import open_recorded
from rpcrdma_lab.scripted.values import CONTENT_OCTETS_MAX, Names, number, octets

__all__ = [
    "BOTH_PRIVATE",
    "Failure",
    "LeftCourse",
    "LiveConversation",
    "Outcome",
    "RawTarget",
    "open_conversation",
    "run_conversation",
]

_BESIDE_STEP = frozenset({"aside", "breaks"})
"""Keys of a step beside its kind."""
_BESIDE_KIND = frozenset({"reading", "as", "last", "unmet", "breaks", "parts"})
"""Keys of a pattern beside its kind."""
BOTH_PRIVATE = bytes.fromhex("f6ab0e18 01 01 03 03")
"""RPC-over-RDMA private data (RFC 8797) with 4096 octets for each direction and remote invalidation."""
_EVENTS: Mapping[str, str] = {
    "startup": "an accepted start-up",
    "read_request": "an RDMA Read Request",
    "read_response": "an RDMA Read Response",
    "end": "the end of the connection",
    "refused": "an access to memory that no region permits",
    "quiet": "nothing",
    "broken": "a mistake below the messages",
}
"""Descriptions of the kinds of events other than messages and Terminates."""
_HANDLE, _OFFSET = 0x00C0FFEE, 0x1_0000_0000
_NUDGE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTarget:
    """The address of a server under test, and the settings of a scripted connection to it.

    `timeout_s` is the time in seconds for the connection, and for each answer. `crc` says whether the start-up demands
    MPA CRCs. Linux's software iWARP (siw) may overlook a first message that arrives right after the start-up: if 0.1 s
    pass without a first answer, `RawPeer` sends an RDMA Write of zero octets, which makes siw take the message.
    """

    host: str
    port: int
    timeout_s: float = 5.0
    crc: bool = True
    capture: PacketCapture | None = None
    """The packet capture that records the connection if `provider` is None; None records nothing."""
    provider: Provider | None = None
    """The RDMA provider of the connection: steps then cannot send frames. None: `RawPeer` makes all octets of iWARP."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The step at which a conversation failed (from 0; -1 is the start-up), with the expected and the found event.

    `expected` and `found` are text for people. `silent` says that nothing arrived in time, `ended` that the connection
    ended. `unmet` is the precondition that the other end does not fulfil, empty if it made a mistake. `statement` is
    the identifier of the broken rule, empty if none is known, `recommended` whether that is a recommendation. `aside`
    is the text of a step that only shows an earlier step's result, `heard` the fields of the unmatched event, if any.
    """

    step: int
    expected: str
    found: str
    silent: bool = False
    ended: bool = False
    unmet: str = ""
    statement: str = ""
    recommended: bool = False
    aside: str = ""
    heard: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """The result of a scripted conversation, which its runner fills while steps run.

    Attributes:
        passages: the log of everything sent and received, in order.
        failure: the step that failed; None if all answers matched.
        readings: the labels of matched patterns that have one, in order: which of several allowed answers was given.
        heard: the fields of the last message, or start-up frame, that matched.
        markers: whether the other end demanded MPA markers in its start-up.
    """

    passages: list[Passage] = field(default_factory=list)
    failure: Failure | None = None
    readings: list[str] = field(default_factory=list)
    heard: Mapping[str, Any] = field(default_factory=dict)
    markers: bool = False


class LeftCourse(Exception):
    """Raised within a step when the conversation does not proceed as the step expects.

    `failure` has step 0, `expected`, `found` and the further fields `more`; `at` returns a copy with the step's number.
    """

    def __init__(self, expected: str, found: str, **more: Any) -> None:
        super().__init__(expected, found)
        self.failure = Failure(0, expected, found, **more)

    def at(self, number: int, step: Mapping[str, Any]) -> Failure:
        """Copies `failure` with step `number`, "aside" of `step` and, in an empty `statement`, "breaks" of `step`."""
        statement = self.failure.statement or step.get("breaks", "")
        return replace(self.failure, step=number, statement=statement, aside=step.get("aside", ""))


class _Over(Exception):
    """Raised when a matched pattern is marked as the last: the further steps of this call of `run` are left out."""


async def run_conversation(
    conversation: Mapping[str, Any], target: RawTarget, given: Mapping[str, int | bytes] | None = None
) -> Outcome:
    """Runs a conversation as a client on a new connection, and aborts the connection at the end.

    Returns the log and the result; a step that fails ends the conversation, and is `failure` of the result.

    Args:
        conversation: the conversation as JSON-like data (see docs/send.md).
        target: the server and the settings of the connection.
        given: values that {"given": NAME} refers to, by name; "xid" is the XID of all messages that state none.

    Raises:
        LocalProtocolError: `conversation` is malformed, or a name has no value; the error's text names the field.
        OSError: the server cannot be reached within `timeout_s` of `target`.
    """
    live = await open_conversation(conversation, target, given)
    await live.run(conversation["steps"])
    await live.close()
    return live.outcome


async def open_conversation(
    conversation: Mapping[str, Any], target: RawTarget, given: Mapping[str, int | bytes] | None = None
) -> LiveConversation:
    """Connects to a server, exchanges the start-up, and returns the conversation, whose steps the caller runs by `run`.

    The steps in `conversation` are checked, but not run. The caller closes the result. A start-up that fails raises
    nothing: `outcome.failure` has the step -1, and `run` does nothing.

    Args:
        conversation: the conversation as JSON-like data (see docs/send.md); no start-up is sent if "startup" is None.
        target: the server and the settings of the connection.
        given: values that {"given": NAME} refers to, by name.

    Raises:
        LocalProtocolError: `conversation` is malformed, or a name has no value; the error's text names the field.
        OSError: the server cannot be reached in time, or the provider makes no queue pair.
    """
    check_conversation(conversation)
    version = conversation.get("version", "1")
    names = Names(
        {
            "xid": 0x0BADCAFE,
            "private_data": BOTH_PRIVATE,
            "startup_flags": STARTUP_ENHANCED | STARTUP_CRC * target.crc,
            **(given or {}),
        }
    )
    outcome = Outcome()
    async with within(target.timeout_s):
        peer = await _connected(target, version, outcome, names)
    live = LiveConversation(peer, names, target.timeout_s, outcome)
    try:
        startup = conversation.get("startup", {})
        if startup is not None:
            await live.start(startup)
        live.register(conversation.get("memory", {}))
    except BaseException:
        await live.close()
        raise
    return live


async def _connected(target: RawTarget, version: str, outcome: Outcome, names: Names) -> ScriptedPeer:
    if target.provider is not None:
        link = await open_link(target.provider, target.host, target.port)
        return QueuePairPeer(link, version, outcome.passages, names)
    reader, writer = await open_recorded(target.host, target.port, target.capture)
    return RawPeer(reader, writer, version, outcome.passages, names, crc=target.crc)


class LiveConversation:
    """A scripted conversation on an open connection; `outcome` has its log and result so far.

    `open_conversation` makes it for a client; without `initiates`, the other end is the client (`ServingConversation`).
    `peer` sends and receives, `names` resolves references in steps; each answer is awaited for `timeout_s` seconds.
    """

    def __init__(
        self, peer: ScriptedPeer, names: Names, timeout_s: float, outcome: Outcome, *, initiates: bool = True
    ) -> None:
        self.outcome = outcome
        self._peer = peer
        self._names = names
        self._timeout_s = timeout_s
        self._regions: dict[str, RawMemory] = {}
        self._own_buffer: Mapping[str, int] = {}
        # A responder may send nothing before it has heard something.
        self._anything_heard = not initiates
        self._other = "server" if initiates else "client"
        self._begun: asyncio.Future[Heard] | None = None

    async def run(self, steps: Sequence[Mapping[str, Any]], **given: int | bytes) -> bool:
        """Runs steps in order; returns True if no step of this conversation has failed so far.

        After a failed step, which sets `outcome.failure`, no step runs any more, nor in later calls. After a matched
        pattern with "last", the further steps of this call are left out.

        Args:
            steps: the steps as in a conversation.
            given: values for {"given": NAME}, which are added to those of the conversation.

        Raises:
            LocalProtocolError: a step is malformed, or a name has no value; the connection is closed.
        """
        self._names.given |= given
        if self.outcome.failure is None:
            at = 0
            try:
                for at, step in enumerate(steps):
                    await self._step(step, f"steps[{at}]")
            except _Over:
                pass
            except LeftCourse as left:
                self.outcome.failure = left.at(at, steps[at])
            except BaseException:
                await self.close()
                raise
        return self.outcome.failure is None

    async def close(self) -> None:
        """Aborts the connection without sending anything more, and waits for its end."""
        if self._begun is not None:
            self._begun.cancel()
        await self._peer.close()

    def register(self, memory: Mapping[str, Any]) -> None:
        """Registers memory regions for RDMA accesses of the other end.

        `memory` is "memory" of a conversation (docs/send.md): descriptions of regions, by name. The handle, offset and
        length of each region become values for {"given": NAME.FIELD}. Octets beyond its content are 0xA5.

        Raises:
            LocalProtocolError: two regions have the same handle, or a number is invalid; the text names the field.
        """
        for index, (name, given) in enumerate(memory.items()):
            where = f"memory.{name}"
            content = octets(given["content"], self._names, where) if "content" in given else b""
            length = number(given.get("octets", len(content)), self._names, f"{where}.octets", 0, CONTENT_OCTETS_MAX)
            handle = number(given.get("handle", _HANDLE + 0x100 * index), self._names, f"{where}.handle")
            if any(handle == other.handle for other in self._regions.values()):
                raise LocalProtocolError(f"{where}.handle: {handle:#x} is the handle of another region")
            offset = number(given.get("offset", _OFFSET * (index + 1)), self._names, f"{where}.offset")
            data = bytearray(content.ljust(length, b"\xa5")[:length])
            region = self._peer.register(handle=handle, offset=offset, data=data, may=given.get("may", "read"))
            segment_octets = given.get("segment_octets", region.segment_octets)
            region.segment_octets = number(segment_octets, self._names, f"{where}.segment_octets", 1)
            region.answered = given.get("answered", True)
            region.alone_s = number(given.get("alone_ms", 0), self._names, f"{where}.alone_ms") / 1000
            self._regions[name] = region
            told = {"handle": region.handle, "offset": region.offset, "length": length}
            self._names.given |= {f"{name}.{field}": value for field, value in told.items()}

    async def start(self, fields: Mapping[str, Any]) -> None:
        """Sends the start-up request with `fields` in place of the usual values, and waits until the server accepts it.

        If no accepting Reply with queue depths arrives within `timeout_s`, `outcome.failure` is set with the step -1.

        Raises:
            LocalProtocolError: a field is malformed.
            OSError: the provider makes no queue pair.
        """
        try:
            await self._say({"startup": fields}, "startup")
            await self._hear([{"startup": {"rejected": 0, "enhanced": 1}}], "startup")
        except LeftCourse as left:
            self.outcome.failure = left.at(-1, {})

    async def _step(self, step: Mapping[str, Any], where: str) -> None:
        ((kind, content),) = ((name, value) for name, value in step.items() if name not in _BESIDE_STEP)
        where = f"{where}.{kind}"
        if kind == "say":
            await self._say(content, where)
        elif kind == "hear":
            await self._hear(content if isinstance(content, list) else [content], where)
        elif kind == "quiet":
            await self._be_quiet(_seconds(content, self._names, where))
        elif kind == "memory":
            self._compare_memory(content, where)
        elif kind == "repeat":
            for index in range(number(content["times"], self._names, f"{where}.times")):
                self._names.given["index"] = index
                for at, inner in enumerate(content["steps"]):
                    await self._step(inner, f"{where}.steps[{at}]")
        else:
            self._peer.end()

    async def _say(self, content: Mapping[str, Any], where: str) -> None:
        names = self._names
        if "stream" in content:
            made = octets(content["stream"], names, f"{where}.stream")
            pieces = number(content.get("pieces", 0), names, f"{where}.pieces", 0)
            await self._peer.send_stream(made, f"{len(made)} octets of the stream", pieces)
        elif "startup" in content:
            await self._peer.start(content["startup"], f"{where}.startup")
        else:
            message = {name: value for name, value in content.items() if name not in {"ddp", "mpa", "payload"}}
            text = None
            if "payload" in content:
                payload = octets(content["payload"], names, f"{where}.payload")
            else:
                payload = make_message(self._peer.version, message, names, where)
                said = read_message(self._peer.version, payload)
                text = f"Send, {len(payload)} octets: {message_words(self._peer.version, said)}"
                self._own_buffer = said.get("buffer", self._own_buffer)
            await self._peer.send_message(payload, content.get("ddp", {}), content.get("mpa", {}), text)

    async def _hear(self, patterns: Sequence[Mapping[str, Any]], where: str) -> None:
        usual = [each for each in patterns if not each.keys() & {"reading", "unmet", "breaks"}]
        expected = " or ".join(map(self._pattern_words, usual or patterns))
        quiet = [each for each in patterns if "quiet" in each]
        timeout_s = _seconds(quiet[0]["quiet"], self._names, where) if quiet else self._timeout_s
        # A pattern's type may also be a condition.
        types = list(LAYOUTS[self._peer.version].idle)
        idle = any(each.get("message", {}).get("header", {}).get("type") in types for each in patterns)
        heard: Heard | None = None
        with contextlib.suppress(TimeoutError):
            if not quiet or not self._anything_heard or await self._begins_within(timeout_s):
                async with within(timeout_s):
                    heard = await self._next(idle=idle)
        if heard is None:
            if not quiet:
                raise LeftCourse(expected, f"nothing for {timeout_s:g} s", silent=True)
            heard = Heard("quiet", {"milliseconds": quiet[0]["quiet"]["milliseconds"]})
        misses = []
        for pattern in patterns:
            kind, fields = _kind_of(pattern)
            if kind == heard.kind:
                found = _divided(heard.fields, pattern["parts"]) if "parts" in pattern else heard.fields
                try:
                    miss = difference(fields, found, self._names)
                except LocalProtocolError as error:
                    raise LocalProtocolError(f"{where}.{kind}.{error}") from None
                if miss is None:
                    if "unmet" in pattern:
                        raise LeftCourse(expected, pattern["unmet"], unmet=pattern["unmet"])
                    if "breaks" in pattern:
                        told = self._heard_words(heard)
                        raise LeftCourse(expected, told, ended=heard.kind == "end", statement=pattern["breaks"])
                    if "reading" in pattern:
                        self.outcome.readings.append(pattern["reading"])
                    if "as" in pattern:
                        named = self._names.named[pattern["as"]] = found
                        if heard.kind == "message":
                            named = {"xid": found["header"].get("xid", 0), **found.get("buffer", {})}
                            named |= found.get("parts", {})
                        self._names.given |= {f"{pattern['as']}.{name}": value for name, value in named.items()}
                    if heard.kind in {"message", "startup"}:
                        self._names.heard = self.outcome.heard = found
                    if heard.kind == "startup":
                        self._peer.crc = self._peer.crc or bool(heard.fields["crc"])
                        self.outcome.markers = bool(heard.fields["markers"])
                    if pattern.get("last"):
                        raise _Over
                    return
                misses.append(miss)
        raise self._left(expected, heard, *misses[:1])

    def _left(self, expected: str, heard: Heard, *miss: str) -> LeftCourse:
        """Returns the exception for an event in place of `expected`; `miss` is how it differs from that, if known."""
        why = {name: heard.fields[name] for name in ("statement", "recommended") if name in heard.fields}
        found = "; ".join([self._heard_words(heard), *miss])
        return LeftCourse(expected, found, ended=heard.kind == "end", heard=heard.fields, **why)

    async def _next(self, *, idle: bool = False) -> Heard:
        """Waits for the next event; skips messages that only grant credits and, unless `idle`, transport properties."""
        while True:
            heard = await self._awaited()
            if heard.kind != "message" or not _is_passed_over(self._peer.version, heard.fields["header"], idle=idle):
                return heard

    async def _begins_within(self, seconds: float) -> bool:
        """Waits for at most `seconds`; returns whether an event has arrived, which stays queued for a later step."""
        self._begun = self._begun or asyncio.ensure_future(self._peer.next())
        with contextlib.suppress(TimeoutError):
            async with within(seconds):
                await asyncio.wait({self._begun})
        return self._begun.done()

    async def _be_quiet(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with within(seconds):
                if await self._begins_within(seconds) and (heard := await self._next(idle=True)).kind != "end":
                    raise self._left(f"nothing for {seconds:g} s", heard)

    async def _awaited(self) -> Heard:
        # An event that comes after the time of this step is heard by a later one.
        self._begun = task = self._begun or asyncio.ensure_future(self._peer.next())
        if not self._anything_heard and self._peer.started:
            with contextlib.suppress(TimeoutError):
                async with within(_NUDGE_S):
                    await asyncio.shield(task)
            if not task.done():
                await self._peer.remind()
        heard = await asyncio.shield(task)
        # Each later step hears the end again.
        self._begun = task if heard.kind == "end" else None
        self._anything_heard = self._anything_heard or (self._peer.started and heard.kind != "startup")
        return heard

    def _compare_memory(self, content: Mapping[str, Any], where: str) -> None:
        for name, expected in content.items():
            if name not in self._regions:
                raise LocalProtocolError(f"{where}: there is no memory {name!r}")
            region = self._regions[name]
            if "data" in expected:
                data = octets(expected["data"], self._names, f"{where}.{name}.data")
                if region.data[: len(data)] != data:
                    begins = f"memory {name} begins with the expected {len(data)} octets"
                    raise LeftCourse(begins, "other octets are there")
            if "written" in expected:
                written, place = region.written_octets, f"{where}.{name}.written"
                if written is not None and difference(expected["written"], written, self._names, place) is not None:
                    raise LeftCourse(f"{expected['written']} octets written to memory {name}", f"{written}")
            if expected.get("withdrawn"):
                self._peer.withdraw(region)

    def _pattern_words(self, pattern: Mapping[str, Any]) -> str:
        kind, fields = _kind_of(pattern)
        if kind == "message":
            return kind_words(self._peer.version, fields.get("header", {}), fields.get("rpc", {}), self._other)
        if kind == "terminate":
            codes = fields.get("code", "of any code")
            codes = codes.get("any", []) if isinstance(codes, Mapping) else codes
            if isinstance(codes, list):
                codes = ", ".join(f"{number(each, self._names, 'code'):#06x}" for each in codes)
            return f"Terminate {codes}"
        return _EVENTS[kind]

    def _heard_words(self, heard: Heard) -> str:
        if heard.kind == "message":
            fields, version = heard.fields, self._peer.version
            header = {name: value for name, value in fields["header"].items() if name == "error"}
            kind, told = kind_words(version, header, fields.get("rpc", {}), self._other), message_words(version, fields)
            return told if kind == UNKNOWN else f"{kind} ({told})"
        if heard.kind == "terminate":
            return f"Terminate {heard.fields['code']:#06x}"
        if heard.kind == "end":
            return f"the connection is {heard.fields['how']}"
        return str(heard.fields.get("cause", _EVENTS[heard.kind]))


def _is_passed_over(version: str, header: Mapping[str, Any], *, idle: bool) -> bool:
    grants = version == "2" and header.get("type") == 1 and header["xid"] == 0
    return grants or (not idle and header.get("type") in LAYOUTS[version].idle)


def _divided(fields: Mapping[str, Any], form: Sequence[Sequence[Any]]) -> dict[str, Any]:
    rpc = fields.get("rpc", {})
    return {**fields, "parts": parts_of(rpc.get("args", rpc.get("results", b"")), form)}


def _kind_of(pattern: Mapping[str, Any]) -> tuple[str, Any]:
    ((kind, fields),) = ((name, value) for name, value in pattern.items() if name not in _BESIDE_KIND)
    return kind, fields


def _seconds(pause: Mapping[str, Any], names: Names, where: str) -> float:
    return number(pause["milliseconds"], names, f"{where}.milliseconds", 0) / 1000
