"""Extensions of the protocol: further header types, transport properties, flags and errors.

An `Extension` is a set of rows and functions (draft-ietf-nfsv4-rpcrdma-version-two-00 appendix B). Both ends give the
same extension to their connections, and each connection has an `ExtensionLink` for it. A peer without the extension
skips its properties, so `ExtensionLink.supported` tells whether the peer has it, and refuses its header types.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rpcrdma.errors import DecodeError, LocalProtocolError, RpcRdmaError
from rpcrdma.transport.awaited_answers import AwaitedAnswers, ExtensionError
from rpcrdma.transport.carriers import Batcher, CarriedCall, CarriedResults, Carrier, IncomingItems
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.message import Cause, Inbound, Kind, Refusal
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.outbox import Outbox
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
    "ExtensionHost",
    "ExtensionLink",
    "ExtensionMessage",
    "HeaderRow",
    "PropertyRow",
]

_TABLES_KEPT = 64
"""Extensions whose tables are kept: a process has few, which all of its connections share."""
_RPC_START = struct.Struct(">II")
"""XID and direction of an RPC message."""


class ExtensionMessage(NamedTuple):
    """A received message of an extension.

    Args:
        header_type: the header type.
        xid: the XID.
        flags: the extension's flags.
        answers: whether the receiver chose the XID, as a flag in the header states.
        body: the octets after the prefix of the header.
        arrived: for a message in several pieces of memory, the pieces, which the handler returns to
            `ExtensionLink.receives`, and its length with the header; `body` is then the part in the first piece.
    """

    header_type: int
    xid: int
    flags: int
    answers: bool
    body: memoryview
    arrived: tuple[ScatteredBuffer, int] | None = None


class HeaderRow(NamedTuple):
    """A header type of an extension.

    Args:
        code: the header type, from 0x200 on.
        name: its name.
        handler: takes each message in the event loop's thread and must not block; DecodeError refuses the header.
        flags: additional bits that may be set.
        continues: whether a body that is too long for one message is continued, in versions with flags for that.
    """

    code: int
    name: str
    handler: Callable[[ExtensionLink, ExtensionMessage], None]
    flags: int = 0
    continues: bool = False


class PropertyRow(NamedTuple):
    """A transport property of an extension.

    Args:
        number: the property's number.
        name: its name.
        value: this side's encoded value; None to omit it.
        decode: decodes the peer's value; DecodeError refuses the property.
        shown: formats a decoded value for people.
        receive_octets: derives from the decoded value the receive size that a peer does not state; None: no function.
    """

    number: int
    name: str
    value: bytes | None
    decode: Callable[[bytes], Any]
    shown: Callable[[Any], int | str] = str
    receive_octets: Callable[[Any], int] | None = None


class ErrorRow(NamedTuple):
    """An error code of an extension.

    Args:
        code: the code.
        name: its name.
        words: the number of 32-bit words that follow the code.
    """

    code: int
    name: str
    words: int = 0


def _ignore(*_: object) -> None:
    """Does nothing; the default of optional functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension (draft-ietf-nfsv4-rpcrdma-version-two-00 appendix B), with unused codes from 0x200 on.

    Version 2 reserves codes below 0x100; extensions of this library use 0x100 to 0x1ff. Functions are called in the
    event loop's thread and must not block.

    Args:
        name: the name, for `Connection.extension`.
        headers: the header types.
        properties: the transport properties.
        errors: the error codes.
        on_ready: called once, when the connection opens, even if the version or the peer does not support the
            extension. Properties of a peer that granted credits first arrive later, and are stored without a call.
        on_error: called with the peer's error about one of its last messages, unless an `ExtensionLink.ask` takes it.
        on_closed: called at the connection's end, opened or not, to release what `ExtensionLink.state` keeps.
        receives: makes a connection's memory for messages of up to the given octets; at most one extension has it.
        reserve_max: the most messages that `ExtensionLink.reserve` may add to the peer's credits at any time.
        without_calls: used instead at ends that take no calls: same name and codes, other properties; None: this one.
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


class ExtensionHost(Protocol):
    """The extensions of one connection, as `ExtensionLink` uses them; `requester` or `responder` is None if absent."""

    session: Session
    outbox: Outbox
    receives: ReceiveBuffers
    memory: MessageMemory
    requester: Requester | None
    responder: Responder | None

    def send(
        self, link: ExtensionLink, row: HeaderRow, body: Sequence[Buffer], xid: int | None, flags: int, *, answer: bool
    ) -> int:
        """Sends a message of the extension `link` at once, or queues it until credits allow; returns its XID.

        Args:
            link: the extension on this connection.
            row: the header type of the message.
            body: the octets after the header's prefix; not copied, so its buffers must not change any more.
            xid: the XID; None for a new one.
            flags: the flags of the extension.
            answer: whether the peer chose `xid`.

        Raises:
            TransportClosed: the connection is not open.
            LocalProtocolError: the version has no extensions, or a body that `row` does not continue is too long.
        """

    def refuse(self, xid: int, refusal: Refusal) -> None:
        """Sends `refusal` as an error about the peer's message `xid`; ends the connection if errors are left unread."""


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _rows(extension: Extension) -> Mapping[int, HeaderRow]:
    """Returns an extension's `HeaderRow`s (its header types) by their codes, cached."""
    return {row.code: row for row in extension.headers}


class ExtensionLink:
    """One extension on one connection, made by the library.

    `peer` has the peer's decoded values by the numbers of the extension's properties. `state` is the extension's own,
    None at first. `rows` are its header types by code, `asked` the answers it awaits. `send` calls `wake`, by which the
    connection's owner has the queue pair send what is posted; it does nothing until the owner sets it.

    Args:
        extension: the extension.
        hub: the extensions of the connection.

    Shared by the methods:
        header_type, flags: those of the message; `HeaderRow` permits them.
        body: the octets after the header's prefix; not copied, and must not change any more: nothing reports the Send.
        xid: the XID of the message or call.
        answer: whether the peer chose `xid`.
        stream: the RPC message without bulk items.
        chunks: the memory that the peer exposes for a call.
        items: the bulk items that came with a call; None for an ordinary call.
        results: the bulk items that came with a reply; None for an ordinary reply.
    """

    __slots__ = ("_hub", "asked", "extension", "peer", "rows", "state", "wake")

    def __init__(self, extension: Extension, hub: ExtensionHost) -> None:
        self.extension = extension
        self._hub = hub
        self.rows = _rows(extension)
        self.peer: dict[int, Any] = {}
        self.state: Any = None
        self.wake: Callable[[], None] = _ignore
        self.asked = AwaitedAnswers()

    @property
    def supported(self) -> bool:
        """Whether the peer has sent a transport property of the extension, and so has the extension."""
        return bool(self.peer)

    @property
    def own_shown(self) -> dict[str, int | str]:
        """The values of this side's properties of the extension, formatted for people, by the properties' names."""
        rows = self.extension.properties
        return {row.name: row.shown(row.decode(row.value)) for row in rows if row.value is not None}

    @property
    def peer_shown(self) -> dict[str, int | str]:
        """The values of the peer's properties of the extension, formatted for people, by the properties' names."""
        rows, peer = self.extension.properties, self.peer
        return {row.name: row.shown(peer[row.number]) for row in rows if row.number in peer}

    @property
    def statistics(self) -> TransportStatistics:
        """The counters of the connection, which the extension may increase."""
        return self._hub.session.statistics

    @property
    def send_octets(self) -> int:
        """Octets of the largest message that may be sent."""
        return self._hub.session.send_octets

    @property
    def receive_octets(self) -> int:
        """Octets of the largest message that may arrive."""
        return self._hub.session.receive_octets

    @property
    def receives(self) -> ReceiveSource:
        """The source of the memory into which the connection's messages arrive."""
        return self._hub.receives.pool

    @property
    def prefix_octets(self) -> int:
        """The octets of the transport header before the body of an extension's message."""
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
        """Whether this end answers calls of the peer, as a server and a client with services do."""
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

        The extension's `headers` must permit `header_type` and `flags`; an `xid` of None takes a new one. `answer`:
        whether the peer chose `xid`. Returns the XID.

        Raises:
            LocalProtocolError: `headers` lack the type or flag, the version has no extensions, or the body is too long.
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
        """Sends a message as `send` does, under a new XID, and waits for its answer, without a time limit.

        Returns:
            The value that the extension gives to `answer` for the XID.

        Raises:
            ExtensionRefused: the peer refused the message; `Extension.on_error` is not called.
            TransportClosed: the connection has ended, before the answer or already, or is not open yet.
            LocalProtocolError: the extension's `headers` lack the type or flag, the version has no extensions, the body
                is too long, or the connection has no event loop.
            TypeError: a piece of the body is no contiguous buffer of octets.
            Exception: an exception that the extension gives to `answer`.
        """
        future = self.asked.new_future()
        return await self.asked.wait(self.send(header_type, body, flags=flags), future)

    def answer(self, xid: int, value: Any) -> bool:
        """Ends the wait of `ask` for the answer to the message `xid`; returns False if no `ask` waits for the answer.

        Args:
            xid: the XID of the message.
            value: the result of `ask`; an exception is raised by it.
        """
        return self.asked.end(xid, value)

    def carry(self, carrier: Carrier) -> None:
        """Has a carrier decide which later calls of this side travel in messages of the extension.

        Args:
            carrier: takes a call, or leaves it to the messages of the version; replaces an earlier one of the
                connection. Unused at an end that makes no calls.
        """
        if self._hub.requester is not None:
            self._hub.requester.carrier = carrier

    def batch(self, batcher: Batcher) -> None:
        """Has a batcher join the short calls and replies that this side sends in one turn of the event loop.

        Args:
            batcher: joins the messages; replaces an earlier one of the connection. Unused in a version without
                extensions.
        """
        if self._hub.session.dialect.introduces:
            self._hub.session.batcher = batcher

    def expect_group(self, between: Callable[[Inbound, Buffer], bool] | None) -> None:
        """Passes every received message to `between` first, until a call of this method with None.

        For an extension that awaits further messages of a group, which together carry a call or reply. The connection
        ends if the call with None does not follow within `TransportConfig.stalled_s`.

        Args:
            between: gets each message and its octets, and returns whether it has handled the message; None ends the
                group, and releases the memory that `hold` counts.
        """
        self._hub.session.expect_group(between)
        if between is None:
            self._hub.memory.release_group()

    def hold(self, octets: int) -> bool:
        """Counts memory of a group (messages that carry one call or reply) against a limit, until `expect_group(None)`.

        Returns True; False, with nothing counted, if that exceeds the limit of the connection or the server.

        Args:
            octets: the size of the memory, in addition to that counted before.
        """
        return self._hub.memory.hold_group(octets)

    def carried_call(self, xid: int) -> CarriedCall | None:
        """Returns the object that `Carrier.take` returned for the sent, unanswered call with this XID.

        Returns None if there is no such call, or no carrier has accepted the call.
        """
        return None if self._hub.requester is None else self._hub.requester.carried(xid)

    def reserve(self, messages: int) -> None:
        """Changes the number of credits that the peer gets beyond its calls and replies; later headers grant them.

        Args:
            messages: the credits to add. A negative number ends a reservation: granted credits stay, later headers
                grant fewer. The sum must stay from 0 to `Extension.reserve_max` (unchecked). Version 1: no effect.
        """
        self._hub.session.window.reserve(messages)

    def stop_learning(self) -> None:
        """Keeps the present limit on this side's unanswered calls, which otherwise rises with the credits of the peer.

        For an extension where the peer grants credits for other messages than calls.
        """
        self._hub.session.window.stop_learning()

    def deliver_call(self, xid: int, stream: Buffer, chunks: ChunkLists, items: IncomingItems | None) -> None:
        """Hands the peer's call with XID `xid` to the responder, as if it had arrived without an extension.

        `chunks`: the memory that the peer exposes. `items`: the bulk items that came with the call; None for an
        ordinary call. An end that takes no calls answers with the error of an unknown header type.

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
        """Passes the reply to a call of this side to the requester; returns False if no call waits for the reply.

        `results`: the bulk items that came with the reply; None for an ordinary reply.

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
        """Sends a message of the extension about a fault of the peer; no effect if the connection is not open.

        The connection ends instead if the peer leaves too many such messages unread. `header_type`: one of the
        extension's. `body`: the octets after the version's header. `answer`: whether the peer chose `xid` (a flag).
        """
        session = self._hub.session
        if session.state is State.OPEN and self._hub.outbox.may_report(Kind.EXTENSION):
            self.send(header_type, body, xid=xid, answer=answer)

    def on_refused(self, xid: int, refusal: Refusal) -> bool:
        """Handles a refusal that came in a message of the extension: sends the refused call again, or fails it.

        Returns False if no sent call has this XID.

        Args:
            xid: the XID of the call.
            refusal: the reason, by which the carrier of the call may send it again (`CarriedCall.form_after`).
        """
        requester, version = self._hub.requester, self._hub.session.dialect.version
        error = Inbound(Kind.ERROR, xid, 0, version, refusal=refusal)
        return requester is not None and requester.on_refused(error, None)

    def fail_call(self, xid: int, error: RpcRdmaError) -> bool:
        """Ends a sent call of this side with an error; returns False if no sent call has this XID.

        Args:
            xid: the XID of the call.
            error: the error that the call raises.
        """
        return self._hub.requester is not None and self._hub.requester.fail(xid, error)

    def refuse_call(self, xid: int, cause: Cause, limit: int = 0) -> None:
        """Refuses a call of the peer before its delivery; ends the connection if the peer does not read its errors.

        Args:
            xid: the XID of the call.
            cause: the reason, which the protocol version's error message states.
            limit: the number of chunks or segments that this side takes, for `Cause.READ_CHUNKS`, `WRITE_CHUNKS` and
                `SEGMENTS`.
        """
        self._hub.refuse(xid, Refusal(cause, limit=limit))

    def refuse(self, message: ExtensionMessage, code: int, *words: int) -> None:
        """Refuses a message with an error of the extension; ends the connection if the peer does not read its errors.

        Args:
            message: the peer's message.
            code: the error code.
            words: the 32-bit words that follow it.

        Raises:
            LocalProtocolError: the extension has no error with this code and this number of words.
        """
        if not any(row.code == code and row.words == len(words) for row in self.extension.errors):
            raise LocalProtocolError(f"error {code:#x} with {len(words)} words: {self.extension.name} has no such row")
        self._hub.refuse(message.xid, Refusal(Cause.EXTENSION, code=code, words=words))


def _check_start(stream: Buffer, xid: int, direction: int) -> None:
    if len(stream) < _RPC_START.size or _RPC_START.unpack_from(stream) != (xid, direction):
        have = bytes(stream[: _RPC_START.size]).hex()
        raise DecodeError("RPC message", 0, f"XID {xid:#010x} and message type {direction}", have)
