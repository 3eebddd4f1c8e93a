"""Extensions of the protocol: further header types, transport properties, flags and errors.

An `Extension` is a set of rows and functions (draft-ietf-nfsv4-rpcrdma-version-two-00 appendix B). Both ends give the
same extension to their connections, and each connection has an `ExtensionLink` for it. A peer without the extension
skips its properties, so `ExtensionLink.supported` tells whether the peer has it, and refuses its header types.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError, RpcRdmaError, TransportClosed
from rpcrdma.limits import EXTENSION_MESSAGES_REMEMBERED
from rpcrdma.transport.awaited_answers import AwaitedAnswers, ExtensionError, ExtensionRefused
from rpcrdma.transport.carriers import Batcher, CarriedCall, CarriedResults, Carrier, IncomingItems
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    OutgoingError,
    OutgoingExtension,
    PropertySet,
    Refusal,
)
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.properties import with_receive_octets
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder
from rpcrdma.transport.session import Session
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.receive_pool import ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = [
    "ErrorRow",
    "Extension",
    "ExtensionLink",
    "ExtensionMessage",
    "Extensions",
    "HeaderRow",
    "PropertyRow",
    "check_extensions",
]

_FIRST_XID = 0x80000000
_TABLES_KEPT = 64
"""Of sets of extensions: a process has few, which all of its connections share."""
_RPC_START = struct.Struct(">II")
"""XID and direction of an RPC message."""


class ExtensionMessage(NamedTuple):
    """A received message of an extension: `body` follows the prefix of the header.

    `flags` are the flags of the extension. `answers`: the XID is one of the receiver's, if the version tells. A message
    in several pieces of memory has `arrived`: the pieces, and its length with the header. Then `body` is only the part
    in the first piece.
    """

    header_type: int
    xid: int
    flags: int
    answers: bool
    body: memoryview
    arrived: tuple[ScatteredBuffer, int] | None = None


class HeaderRow(NamedTuple):
    """A header type.

    `handler` takes its messages in the thread of the event loop, and must not block; if it raises `DecodeError`, the
    header is refused as unreadable. `flags` are the additional bits that may be set. `continues`: a body that is too
    long for one message goes in several, where the version has flags for that. `scattered`: a message in several pieces
    of memory stays there (`Extension.receives`).
    """

    code: int
    name: str
    handler: Callable[[ExtensionLink, ExtensionMessage], None]
    flags: int = 0
    continues: bool = False
    scattered: bool = False


class PropertyRow(NamedTuple):
    """A transport property: `value` is the encoded value of this side, or None to omit it.

    `decode` reads the peer's value; if it raises `DecodeError`, the property is refused as invalid. `shown` formats a
    decoded value for people. `receive_octets` derives the receive buffer size of a peer that does not tell it.
    """

    number: int
    name: str
    value: bytes | None
    decode: Callable[[bytes], Any]
    shown: Callable[[Any], int | str] = str
    receive_octets: Callable[[Any], int] | None = None


class ErrorRow(NamedTuple):
    """An error code, and the number of words that follow it."""

    code: int
    name: str
    words: int = 0


def _ignore(*_: object) -> None:
    """The default of optional functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension. Codes of header types, properties and errors must be unused: choose them from 0x200 on.

    Version 2 reserves codes below 0x100, and the extensions of this library have codes from 0x100 to 0x1ff.

    `on_ready` is called when the connection is open and the peer's properties are known, `on_error` with errors about
    messages of the extension, `on_closed` when the connection has ended: it releases the memory of `state`. The event
    loop's thread calls all of them; they must not block.

    `receives` makes the memory for all messages of one connection, of at least so many octets each; one extension may
    have it. `reserve_max` is the most messages that `ExtensionLink.reserve` adds to the peer's credits at any time. An
    end that takes no calls uses `without_calls` instead, if there is one: the same name and codes, other properties.
    """

    name: str
    headers: tuple[HeaderRow, ...] = ()
    properties: tuple[PropertyRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    on_ready: Callable[[ExtensionLink], None] = _ignore
    on_error: Callable[[ExtensionLink, ExtensionError], None] = _ignore
    on_closed: Callable[[ExtensionLink], None] = _ignore
    receives: Callable[[int], ReceiveSource] | None = None
    reserve_max: int = 0
    without_calls: Extension | None = None


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _rows(extension: Extension) -> Mapping[int, HeaderRow]:
    """Returns the header types by their codes."""
    return {row.code: row for row in extension.headers}


class ExtensionLink:
    """One extension on one connection.

    `peer` has the values of the peer by the numbers of the extension's properties. `state` belongs to the extension,
    None at first. `wake` is called after a message was posted, so that the connection's owner sends it. `rows` are the
    extension's header types, `asked` has the answers that are awaited.
    """

    __slots__ = ("_hub", "asked", "extension", "peer", "rows", "state", "wake")

    def __init__(self, extension: Extension, hub: Extensions) -> None:
        self.extension = extension
        self._hub = hub
        self.rows = _rows(extension)
        self.peer: dict[int, Any] = {}
        self.state: Any = None
        self.wake: Callable[[], None] = _ignore
        self.asked = AwaitedAnswers()

    @property
    def supported(self) -> bool:
        """Whether the peer has sent any property of the extension."""
        return bool(self.peer)

    @property
    def own_shown(self) -> dict[str, int | str]:
        """This side's properties for people, by name."""
        rows = self.extension.properties
        return {row.name: row.shown(row.decode(row.value)) for row in rows if row.value is not None}

    @property
    def peer_shown(self) -> dict[str, int | str]:
        """The peer's properties for people, by name."""
        rows, peer = self.extension.properties, self.peer
        return {row.name: row.shown(peer[row.number]) for row in rows if row.number in peer}

    @property
    def statistics(self) -> TransportStatistics:
        """The connection's counters."""
        return self._hub.session.statistics

    @property
    def send_octets(self) -> int:
        """The largest message that may be sent."""
        return self._hub.session.send_octets

    @property
    def receive_octets(self) -> int:
        """The largest message that may come."""
        return self._hub.session.receive_octets

    @property
    def receives(self) -> ReceiveSource:
        """The memory for the connection's messages."""
        return self._hub.receives.pool

    @property
    def prefix_octets(self) -> int:
        """The octets before the body of a message of the extension."""
        return self._hub.session.dialect.geometry.prefix

    @property
    def round_trip_s(self) -> float:
        """The measured round trip to the peer, in seconds; 0 if unknown."""
        return self._hub.session.round_trip_s

    @property
    def role(self) -> Role:
        """Whether this end is the client or the server."""
        return self._hub.session.role

    @property
    def takes_calls(self) -> bool:
        """Whether this end answers calls of the peer; a client without services refuses them."""
        return self._hub.responder is not None

    def send(
        self,
        header_type: int,
        body: Sequence[Buffer] = (),
        *,
        xid: int | None = None,
        flags: int = 0,
        answer: bool = False,
    ) -> int:
        """Sends a message as soon as credits allow, after waiting replies and errors, but before waiting calls.

        `body` must not change until the connection has sent it. `answer`: `xid` is one of the peer's. Returns the XID,
        a new one unless given.

        Raises:
            LocalProtocolError: the extension lacks the type or a flag, or the body is too long for one message.
            TransportClosed: the connection has ended, or is not open yet.
            TypeError: a piece of the body is no contiguous buffer of octets.
        """
        row = self.rows.get(header_type)
        if row is None or flags & ~row.flags:
            unknown = f"header type {header_type:#x}" if row is None else f"flags {flags:#x} of {row.name}"
            raise LocalProtocolError(f"{unknown}: the extension {self.extension.name} has no such row")
        body = [piece if type(piece) is bytes else as_view(piece, "body") for piece in body]
        return self._hub.send(self, row, body, xid, flags, answer=answer)

    async def ask(self, header_type: int, body: Sequence[Buffer] = (), *, flags: int = 0) -> Any:
        """Sends a message as `send` does, and returns the value that `answer` gives for its XID.

        Raises:
            ExtensionRefused: the peer refused the message; `on_error` is not called.
            TransportClosed: the connection has ended, or is not open yet.
            LocalProtocolError, TypeError: see `send`.
        """
        future = self.asked.new_future()
        return await self.asked.wait(self.send(header_type, body, flags=flags), future)

    def answer(self, xid: int, value: Any) -> bool:
        """Ends the wait of `ask` for this XID with a result or an error; False if nothing waits for it any more."""
        return self.asked.end(xid, value)

    def carry(self, carrier: Carrier) -> None:
        """Offers the calls of this side to `carrier` from here on, in the direction that it calls in."""
        if self._hub.requester is not None:
            self._hub.requester.carrier = carrier

    def batch(self, batcher: Batcher) -> None:
        """Makes `batcher` join the short calls and replies of this side that go out at the end of a turn.

        No effect in a version without extensions.
        """
        if self._hub.session.dialect.introduces:
            self._hub.session.batcher = batcher

    def expect_group(self, between: Callable[[Inbound, Buffer], bool] | None) -> None:
        """Passes every received message with its octets to `between`, which says whether it has handled the message.

        The peer has to complete the group within the time limit of every other message. None ends the group.
        """
        self._hub.session.expect_group(between)
        if between is None:
            self._hub.memory.release_group()

    def hold(self, octets: int) -> bool:
        """Counts memory of the expected group, until it has ended; False if that exceeds the limit."""
        return self._hub.memory.hold_group(octets)

    def carried_call(self, xid: int) -> CarriedCall | None:
        """The unanswered call with this XID that a carrier has taken; None if there is none."""
        return None if self._hub.requester is None else self._hub.requester.carried(xid)

    def reserve(self, messages: int) -> None:
        """Grants the peer credits for so many messages beyond its calls and replies; a negative number ends that.

        All reservations together must not exceed `Extension.reserve_max`.
        """
        self._hub.session.window.reserve(messages)

    def stop_learning(self) -> None:
        """States that the peer reserves messages: its credits no longer tell how many calls it takes."""
        self._hub.session.window.stop_learning()

    def deliver_call(self, xid: int, stream: Buffer, chunks: ChunkLists, items: IncomingItems | None) -> None:
        """Hands a call of the peer to the responder; `chunks` are the memory that it exposes besides.

        Without `items` it is an ordinary call. An end that takes no calls refuses its header type.

        Raises:
            DecodeError: `stream` is not the start of a call with this XID.
        """
        hub = self._hub
        _check_start(stream, xid, Kind.CALL)
        if hub.responder is None:
            hub.refuse(xid, Refusal(Cause.HEADER_TYPE))
            return
        version = hub.session.dialect.version
        hub.responder.on_call(Inbound(Kind.CALL, xid, 0, version, chunks, stream), None, items)

    def deliver_reply(self, xid: int, stream: Buffer, results: CarriedResults | None) -> bool:
        """Hands a reply to the requester; False if no call waits for it. Without `results` it is an ordinary reply.

        Raises:
            DecodeError: `stream` is not the start of a reply with this XID.
        """
        hub = self._hub
        _check_start(stream, xid, Kind.REPLY)
        if hub.requester is None:
            return False
        reply = Inbound(Kind.REPLY, xid, 0, hub.session.dialect.version, data=stream)
        return hub.requester.on_reply(reply, None, results)

    def report(self, header_type: int, body: Sequence[Buffer], *, xid: int, answer: bool) -> None:
        """Sends a report about a faulty message of the peer, with the arguments of `send`.

        The connection ends if the peer leaves too many reports unread.
        """
        session = self._hub.session
        if session.state is State.OPEN and self._hub.outbox.may_report(Kind.EXTENSION):
            self.send(header_type, body, xid=xid, answer=answer)

    def on_refused(self, xid: int, refusal: Refusal) -> bool:
        """Handles a refusal of a call that came in a message of the extension; False if there is no such call.

        The call's carrier decides whether the call goes out again (`CarriedCall.form_after`).
        """
        requester, version = self._hub.requester, self._hub.session.dialect.version
        error = Inbound(Kind.ERROR, xid, 0, version, refusal=refusal)
        return requester is not None and requester.on_refused(error, None)

    def fail_call(self, xid: int, error: RpcRdmaError) -> bool:
        """Fails a call whose reply is unusable; False if there is no such call."""
        return self._hub.requester is not None and self._hub.requester.fail(xid, error)

    def refuse_call(self, xid: int, cause: Cause, limit: int = 0) -> None:
        """Refuses a call before its delivery with an error of the version; `limit` as in `Refusal`."""
        self._hub.refuse(xid, Refusal(cause, limit=limit))

    def refuse(self, message: ExtensionMessage, code: int, *words: int) -> None:
        """Refuses a message with an error of the extension.

        Raises:
            LocalProtocolError: the extension has no error with this code and number of words.
        """
        if not any(row.code == code and row.words == len(words) for row in self.extension.errors):
            raise LocalProtocolError(f"error {code:#x} with {len(words)} words: {self.extension.name} has no such row")
        self._hub.refuse(message.xid, Refusal(Cause.EXTENSION, code=code, words=words))


def check_extensions(extensions: Iterable[Extension]) -> None:
    """Checks that no code is used by two extensions, or by an extension and the protocol.

    Raises:
        LocalProtocolError: a code is used twice; the message names both users.
    """
    taken: dict[tuple[str, int], str] = {}
    for extension in extensions:
        rows = [("header type", row.code) for row in extension.headers]
        rows += [("property", row.number) for row in extension.properties]
        rows += [("error", row.code) for row in extension.errors]
        for kind, code in rows:
            other = "the protocol" if code < _OWN_CODES_MAX else taken.get((kind, code))
            if other is not None:
                raise LocalProtocolError(f"{kind} {code:#x} of the extension {extension.name} is used by {other}")
            taken[kind, code] = extension.name


_OWN_CODES_MAX = 0x80
"""Revisions of the protocol may use codes below this one; its last error code is 100."""


class _Tables(NamedTuple):
    """The tables that all connections with the same extensions share.

    `headers`: flags and continuation of each header type; `names`: the extension of each header type; `scattered`: the
    header types whose messages stay in the memory in which they arrived; `error_words`: the number of words after each
    error code; `own`: the properties of this side.
    """

    headers: Mapping[int, tuple[int, bool]]
    names: Mapping[int, str]
    scattered: frozenset[int]
    error_words: Mapping[int, int]
    own: PropertySet


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _tables(extensions: tuple[Extension, ...]) -> _Tables:
    """Raises LocalProtocolError: see `check_extensions`."""
    check_extensions(extensions)
    rows = [(extension.name, row) for extension in extensions for row in extension.headers]
    return _Tables(
        {row.code: (row.flags, row.continues) for _, row in rows},
        {row.code: name for name, row in rows},
        frozenset(row.code for _, row in rows if row.scattered),
        {row.code: row.words for extension in extensions for row in extension.errors},
        tuple((row.number, row.value) for one in extensions for row in one.properties if row.value is not None),
    )


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _scattered(version: int, codes: frozenset[int]) -> frozenset[tuple[int, int]]:
    """Returns the header types of a version whose messages stay in the memory in which they arrived."""
    return frozenset((version, code) for code in codes)


class Extensions:
    """The extensions of one connection."""

    __slots__ = (
        "_sent",
        "_tables",
        "_xid",
        "links",
        "memory",
        "outbox",
        "receives",
        "requester",
        "responder",
        "session",
    )

    def __init__(
        self, session: Session, outbox: Outbox, receives: ReceiveBuffers, extensions: Sequence[Extension]
    ) -> None:
        self._tables = _tables(tuple(extensions))
        self.requester: Requester | None = None
        self.responder: Responder | None = None
        self.memory = MessageMemory()
        self.receives = receives
        self.session = session
        self.outbox = outbox
        self.links = {extension.name: ExtensionLink(extension, self) for extension in extensions}
        self._xid = _FIRST_XID
        self._sent: dict[int, ExtensionLink] | None = None

    @property
    def headers(self) -> Mapping[int, tuple[int, bool]]:
        """Flags and continuation of each header type."""
        return self._tables.headers

    @property
    def error_words(self) -> Mapping[int, int]:
        """The number of words after each error code."""
        return self._tables.error_words

    @property
    def own(self) -> PropertySet:
        """The properties of this side."""
        return self._tables.own

    def take_properties(self, told: PropertySet) -> PropertySet:
        """Takes the properties of the peer, and adds those of the version that follow from them.

        Raises:
            DecodeError: a value is invalid for its row.
        """
        values = dict(told)
        for link in self.links.values():
            link.peer = {
                row.number: row.decode(values[row.number]) for row in link.extension.properties if row.number in values
            }
            for row in link.extension.properties:
                if row.receive_octets is not None and row.number in link.peer:
                    told = with_receive_octets(told, row.receive_octets(link.peer[row.number]))
        return told

    def on_ready(self) -> None:
        """Tells all extensions that the connection is open."""
        self.receives.kept_scattered = _scattered(self.session.dialect.version, self._tables.scattered)
        for link in self.links.values():
            link.extension.on_ready(link)

    def on_closed(self, reason: str, *, protocol_error: bool) -> None:
        """Ends all waits for answers, then tells all extensions that the connection has ended."""
        for link in self.links.values():
            link.asked.close(TransportClosed(reason, protocol_error=protocol_error))
        for link in self.links.values():
            link.extension.on_closed(link)

    def on_message(self, message: Inbound, invalidated: int | None) -> bool:
        """Hands a message to its extension; False, to discard it, if it invalidates a handle."""
        if invalidated is not None:
            return False
        header_type = message.header_type
        link = self.links[self._tables.names[header_type]]
        row = link.rows[header_type]
        body = memoryview(message.data)[message.start :]
        arrived, self.receives.arrived = self.receives.arrived, None
        taken = ExtensionMessage(header_type, message.xid, message.flags, message.answers, body, arrived)
        try:
            row.handler(link, taken)
        except DecodeError:
            self.refuse(message.xid, Refusal(Cause.HEADER))
        return True

    def on_error(self, message: Inbound, invalidated: int | None) -> bool:
        """Hands an error to the extension whose message it refuses; False for other messages and unknown XIDs."""
        if message.kind is not Kind.ERROR or invalidated is not None:
            return False
        link = None if self._sent is None else self._sent.pop(message.xid, None)
        if link is None:
            # More messages than are remembered may be awaited.
            link = next((each for each in self.links.values() if message.xid in each.asked.futures), None)
        if link is None:
            return False
        refusal = message.refusal
        assert refusal is not None
        error = ExtensionError(message.xid, refusal.code, refusal.words, refusal.cause)
        if not link.answer(message.xid, ExtensionRefused(error)):
            link.extension.on_error(link, error)
        return True

    def send(
        self,
        link: ExtensionLink,
        row: HeaderRow,
        body: Sequence[Buffer],
        xid: int | None,
        flags: int,
        *,
        answer: bool,
    ) -> int:
        """See `ExtensionLink.send`."""
        session = self.session
        if session.state is not State.OPEN:
            raise TransportClosed(session.failure or "the connection is not open yet")
        if not session.dialect.introduces:
            raise LocalProtocolError("the connection speaks a version without extensions")
        octets = sum(map(len, body)) + session.dialect.geometry.call_header
        if octets > session.send_octets and not row.continues:
            raise LocalProtocolError(f"{row.name}: {octets} octets, one message holds {session.send_octets}")
        if xid is None:
            self._xid = xid = (self._xid + 1) & 0xFFFFFFFF
        if not answer:
            if self._sent is None:
                self._sent = {}
            self._sent[xid] = link
            if len(self._sent) > EXTENSION_MESSAGES_REMEMBERED:
                # The first key is the oldest one.
                del self._sent[next(iter(self._sent))]
        self.outbox.send(OutgoingExtension(xid, row.code, flags, body, answer=answer))
        link.wake()
        return xid

    def refuse(self, xid: int, refusal: Refusal) -> None:
        """Sends an error."""
        self.outbox.refuse(OutgoingError(xid, self.session.dialect.version, refusal, answers_call=False))


def _check_start(stream: Buffer, xid: int, direction: int) -> None:
    if len(stream) < _RPC_START.size or _RPC_START.unpack_from(stream) != (xid, direction):
        have = bytes(stream[: _RPC_START.size]).hex()
        raise DecodeError("RPC message", 0, f"XID {xid:#010x} and message type {direction}", have)
