"""Extensions of the protocol: header types, transport properties, flags and errors that its versions do not have.

An `Extension` is a set of rows and some functions (draft-ietf-nfsv4-rpcrdma-version-two-00 appendix B). Both ends give
the same one to their connections; each connection then has an `ExtensionLink` for it. A peer that does not know an
extension skips its properties, so that `ExtensionLink.supported` says who does, and answers its header types with an
error.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError, RpcRdmaError, TransportClosed
from rpcrdma.limits import EXTENSION_MESSAGES_REMEMBERED
from rpcrdma.transport.carriers import Batcher, CarriedCall, CarriedResults, Carrier, IncomingItems
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    Outgoing,
    OutgoingError,
    OutgoingExtension,
    PropertySet,
    Refusal,
)
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.negotiation import State
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.properties import with_receive_octets
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder
from rpcrdma.transport.session import Session
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.receive_pool import ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "ErrorRow",
    "Extension",
    "ExtensionError",
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
    """A received message of a header type that an extension has: `body` is what follows the header's prefix.

    `flags` are those beyond the ones that every version has; `answers` if the XID is one of the receiver's, where the
    version tells. `arrived` is, of a message that came in several pieces of memory, these with the number of octets
    that it has of them, header included: `body` is then only what is in the first one.
    """

    header_type: int
    xid: int
    flags: int
    answers: bool
    body: memoryview
    arrived: tuple[ScatteredBuffer, int] | None = None


class ExtensionError(NamedTuple):
    """The peer's error about a message of the extension: a code of its own with its words, or `cause`."""

    xid: int
    code: int
    words: tuple[int, ...]
    cause: Cause


class HeaderRow(NamedTuple):
    """A header type.

    `handler` takes its messages, in the thread of the event loop, and must not block. What it raises as `DecodeError`
    is answered as an unreadable header. `flags` are the bits that may be set beside those that every type has.
    `continues`: a body that is too long for one message goes in several, where the version has flags for that.
    `scattered`: a message that came in several pieces of memory is left there (`Extension.receives`).
    """

    code: int
    name: str
    handler: Callable[[ExtensionLink, ExtensionMessage], None]
    flags: int = 0
    continues: bool = False
    scattered: bool = False


class PropertyRow(NamedTuple):
    """A transport property: `value` is what this side tells, encoded; None to tell nothing. `decode` reads the peer's.

    What `decode` raises as `DecodeError` is answered as an invalid property. `shown` puts a decoded value for people.
    `receive_octets` finds the peer's receive buffer size in a decoded value, for a peer that does not tell it.
    """

    number: int
    name: str
    value: bytes | None
    decode: Callable[[bytes], Any]
    shown: Callable[[Any], int | str] = str
    receive_octets: Callable[[Any], int] | None = None


class ErrorRow(NamedTuple):
    """An error code, followed by so many words."""

    code: int
    name: str
    words: int = 0


def _ignore(*_: object) -> None:
    """Nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """All that one extension adds. Codes of header types, properties and errors must be free: take them from 0x100 on.

    `on_ready` is called when the connection stands and the peer's properties are known, `on_error` with errors about
    messages of the extension. Both are called in the thread of the event loop, and must not block.

    `receives` makes the memory for all messages of one connection, of at least so many octets each; one extension may
    have it. `promises_max` is how many messages beyond the first ones of replies this side may have promised its peer
    at once (`CarriedCall.extra_receives`). An end that takes no calls has `without_calls` instead, if there is one: the
    same name and codes, with other properties.
    """

    name: str
    headers: tuple[HeaderRow, ...] = ()
    properties: tuple[PropertyRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    on_ready: Callable[[ExtensionLink], None] = _ignore
    on_error: Callable[[ExtensionLink, ExtensionError], None] = _ignore
    receives: Callable[[int], ReceiveSource] | None = None
    promises_max: int = 0
    without_calls: Extension | None = None


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _rows(extension: Extension) -> Mapping[int, HeaderRow]:
    """The header types by their codes."""
    return {row.code: row for row in extension.headers}


class ExtensionLink:
    """One extension on one connection.

    `peer` are the values that the peer told, by the numbers of the extension's properties. `state` is the extension's
    own, None at first. `wake` is called after a message was posted: the connection's owner sends then. `rows` are the
    extension's header types.
    """

    __slots__ = ("_hub", "extension", "peer", "rows", "state", "wake")

    def __init__(self, extension: Extension, hub: Extensions) -> None:
        self.extension = extension
        self._hub = hub
        self.rows = _rows(extension)
        self.peer: dict[int, Any] = {}
        self.state: Any = None
        self.wake: Callable[[], None] = _ignore

    @property
    def supported(self) -> bool:
        """Whether the peer has told any property of the extension."""
        return bool(self.peer)

    @property
    def own_shown(self) -> dict[str, int | str]:
        """What this side tells of itself, for people, by the names of properties."""
        rows = self.extension.properties
        return {row.name: row.shown(row.decode(row.value)) for row in rows if row.value is not None}

    @property
    def peer_shown(self) -> dict[str, int | str]:
        """Likewise what the peer has told."""
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
        """What stands before the body of a message of the extension."""
        return self._hub.session.dialect.geometry.prefix

    @property
    def has_flags(self) -> bool:
        """Whether the version tells with flags, among other things, whose XID a message has."""
        return self._hub.session.dialect.has_flags

    @property
    def round_trip_s(self) -> float:
        """How far the peer is, in seconds; 0 where that is not known."""
        return self._hub.session.round_trip_s

    @property
    def role(self) -> Role:
        """Which end of the connection this is."""
        return self._hub.session.role

    @property
    def takes_calls(self) -> bool:
        """Whether calls of the peer are answered here: a client without services refuses them."""
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
        """Sends a message as soon as credits allow; it waits for what answers calls, but for no call.

        `body` must be left alone until the connection has sent it. `answer`: `xid` is one of the peer's. Returns the
        XID, which is a new one unless it is given.

        Raises:
            LocalProtocolError: the type or a flag is not of the extension, or the body is too long for one message.
            TransportClosed: the connection has ended, or does not stand yet.
        """
        row = self.rows.get(header_type)
        if row is None or flags & ~row.flags:
            what = f"header type {header_type:#x}" if row is None else f"flags {flags:#x} of {row.name}"
            raise LocalProtocolError(f"{what}: the extension {self.extension.name} has no such row")
        return self._hub.send(self, row, body, xid, flags, answer=answer)

    def carry(self, carrier: Carrier) -> None:
        """From here on `carrier` is asked about calls of this side."""
        self._hub.session.carrier = carrier

    def batch(self, batcher: Batcher) -> None:
        """From here on `batcher` is given the short calls and replies of this side that go at the end of one turn."""
        self._hub.session.batcher = batcher

    def expect_group(self, between: Callable[[Inbound, Buffer], bool] | None) -> None:
        """`between` is given every message that comes, with its octets, and says whether that is done with.

        The peer has to end what it has begun within the same time as any other message. None: it has ended.
        """
        self._hub.session.expect_group(between)
        if between is None:
            self._hub.memory.release_group()

    def hold(self, octets: int) -> bool:
        """Counts what has come of the group that is expected, until that has ended; False if it is too much."""
        return self._hub.memory.hold_group(octets)

    def carried_call(self, xid: int) -> CarriedCall | None:
        """The call of this side with this XID that a carrier has taken, sent and not answered; None for none."""
        return None if self._hub.requester is None else self._hub.requester.carried(xid)

    def on_promised(self) -> None:
        """The peer has promised more messages than one for a reply, and gives credits for them."""
        self._hub.session.window.on_promised()

    def deliver_call(self, xid: int, stream: Buffer, chunks: ChunkLists, items: IncomingItems | None) -> None:
        """A call of the peer that came in messages of the extension; `chunks` are what else it exposes.

        Without `items` it is as any other call. An end that takes no calls refuses it as a type that it does not know.

        Raises:
            DecodeError: `stream` is not the start of a call with this XID.
        """
        self._hub.deliver_call(xid, stream, chunks, items)

    def deliver_reply(self, xid: int, stream: Buffer, results: CarriedResults | None) -> bool:
        """The reply to a call of this side; False where there is no such call. Without `results` it is as any other.

        Raises:
            DecodeError: `stream` is not the start of a reply with this XID.
        """
        return self._hub.deliver_reply(xid, stream, results)

    def report(self, header_type: int, body: Sequence[Buffer], *, xid: int, answer: bool) -> None:
        """Tells the peer what is wrong with a message of its; if it leaves too many such unread, the connection ends.

        Arguments as in `send`.
        """
        session = self._hub.session
        if session.state is State.OPEN and self._hub.may_report():
            self.send(header_type, body, xid=xid, answer=answer)

    def send_plain(self, xid: int) -> bool:
        """The peer has not taken a call: it goes out again as the version has it, or fails. False: there is none."""
        return self._hub.requester is not None and self._hub.requester.take_back(xid)

    def fail_call(self, xid: int, error: RpcRdmaError) -> bool:
        """The reply to a call cannot be used. False: there is no such call."""
        return self._hub.requester is not None and self._hub.requester.fail(xid, error)

    def refuse_call(self, xid: int, cause: Cause, limit: int = 0) -> None:
        """Answers a call that is not delivered with an error of the version; `limit` as in `Refusal`."""
        self._hub.refuse(xid, Refusal(cause, limit=limit))

    def refuse(self, message: ExtensionMessage, code: int, *words: int) -> None:
        """Answers a message with an error of the extension.

        Raises:
            LocalProtocolError: the error is not of the extension, or has another number of words.
        """
        if not any(row.code == code and row.words == len(words) for row in self.extension.errors):
            raise LocalProtocolError(f"error {code:#x} with {len(words)} words: {self.extension.name} has no such row")
        self._hub.refuse(message.xid, Refusal(Cause.EXTENSION, code=code, words=words))


def check_extensions(extensions: Iterable[Extension]) -> None:
    """Sees to it that no two extensions, nor one and the protocol, use the same codes.

    Raises:
        LocalProtocolError: they do; the message names them.
    """
    taken: dict[tuple[str, int], str] = {}
    for extension in extensions:
        rows = [("header type", row.code) for row in extension.headers]
        rows += [("property", row.number) for row in extension.properties]
        rows += [("error", row.code) for row in extension.errors]
        for what, code in rows:
            other = "the protocol" if code < _OWN_CODES_MAX else taken.get((what, code))
            if other is not None:
                raise LocalProtocolError(f"{what} {code:#x} of the extension {extension.name} is used by {other}")
            taken[what, code] = extension.name


_OWN_CODES_MAX = 0x80
"""Codes below are left to revisions of the protocol: the last error code that it has is 100."""


class _Tables(NamedTuple):
    """What all connections with the same extensions have in common.

    `headers`: for each header type the flags that it may have, and whether it goes on in further messages; `names` are
    the extensions that have them, `scattered` those left in the memory that they came in. `error_words`: how many words
    follow each error code. `own` is what this side tells of itself.
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
    """The header types of a version whose messages stay where they arrive."""
    return frozenset((version, code) for code in codes)


class Extensions:
    """Those of one connection."""

    __slots__ = (
        "_outbox",
        "_sent",
        "_tables",
        "_xid",
        "links",
        "memory",
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
        self._outbox = outbox
        self.links = {extension.name: ExtensionLink(extension, self) for extension in extensions}
        self._xid = _FIRST_XID
        self._sent: dict[int, ExtensionLink] | None = None
        outbox.serve(self, Kind.EXTENSION)
        session.promise_at_most(sum(extension.promises_max for extension in extensions))

    @property
    def headers(self) -> Mapping[int, tuple[int, bool]]:
        """For each header type the flags that it may have, and whether it goes on in further messages."""
        return self._tables.headers

    @property
    def error_words(self) -> Mapping[int, int]:
        """How many words follow each error code."""
        return self._tables.error_words

    @property
    def own(self) -> PropertySet:
        """What this side tells of itself."""
        return self._tables.own

    def take_properties(self, told: PropertySet) -> PropertySet:
        """Takes the properties of the peer; returns them with those of the version that follow from them.

        Raises:
            DecodeError: a value is not what its row says.
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
        """The connection stands."""
        self.receives.kept_scattered = _scattered(self.session.dialect.version, self._tables.scattered)
        for link in self.links.values():
            link.extension.on_ready(link)

    def on_message(self, message: Inbound, invalidated: int | None) -> bool:
        """Hands a message to its extension; False for one that is discarded, since it cannot invalidate anything."""
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

    def deliver_call(self, xid: int, stream: Buffer, chunks: ChunkLists, items: IncomingItems | None) -> None:
        """See `ExtensionLink.deliver_call`."""
        _check_start(stream, xid, Kind.CALL)
        if self.responder is None:
            self.refuse(xid, Refusal(Cause.HEADER_TYPE))
            return
        version = self.session.dialect.version
        self.responder.on_call(Inbound(Kind.CALL, xid, 0, version, chunks, stream, carried=items), None)

    def deliver_reply(self, xid: int, stream: Buffer, results: CarriedResults | None) -> bool:
        """See `ExtensionLink.deliver_reply`."""
        _check_start(stream, xid, Kind.REPLY)
        if self.requester is None:
            return False
        version = self.session.dialect.version
        return self.requester.on_reply(Inbound(Kind.REPLY, xid, 0, version, data=stream, carried=results), None)

    def on_error(self, message: Inbound, invalidated: int | None) -> bool:
        """Hands an error to the extension whose message it is about; False if there is none, or it is no error."""
        if message.kind is not Kind.ERROR or invalidated is not None:
            return False
        link = None if self._sent is None else self._sent.pop(message.xid, None)
        if link is None:
            return False
        refusal = message.refusal
        assert refusal is not None
        link.extension.on_error(link, ExtensionError(message.xid, refusal.code, refusal.words, refusal.cause))
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
            raise TransportClosed(session.failure or "the connection does not stand yet")
        if not session.dialect.introduces:
            raise LocalProtocolError("the connection speaks a version without extensions")
        if (flags or row.continues) and not session.dialect.has_flags:
            raise LocalProtocolError(f"{row.name}: the version that the connection speaks has no flags")
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
                # The oldest one.
                del self._sent[next(iter(self._sent))]
        self._outbox.send(OutgoingExtension(xid, row.code, flags, body, answer=answer))
        link.wake()
        return xid

    def may_report(self) -> bool:
        """See `Outbox.may_report`."""
        return self._outbox.may_report(Kind.EXTENSION)

    def refuse(self, xid: int, refusal: Refusal) -> None:
        """Sends an error."""
        self._outbox.refuse(OutgoingError(xid, self.session.dialect.version, refusal, answers_call=False))

    def prepare(self, message: Outgoing) -> Sequence[Buffer]:
        """See `Preparer`."""
        assert isinstance(message, OutgoingExtension)
        return message.body

    def on_unsendable(self, _message: Outgoing, error: LocalProtocolError) -> None:
        """Whatever was taken can be sent."""
        raise error


def _check_start(stream: Buffer, xid: int, direction: int) -> None:
    if len(stream) < _RPC_START.size or _RPC_START.unpack_from(stream) != (xid, direction):
        have = bytes(stream[: _RPC_START.size]).hex()
        raise DecodeError("RPC message", 0, f"XID {xid:#010x} and message type {direction}", have)
