"""The extensions of one connection: their tables, their messages and errors, and their part in the introduction."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError, TransportClosed
from rpcrdma.limits import EXTENSION_MESSAGES_REMEMBERED
from rpcrdma.transport.awaited_answers import ExtensionError, ExtensionRefused
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.extensions import Extension, ExtensionLink, ExtensionMessage, HeaderRow
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
from rpcrdma.transport.properties import Properties, Property, decode_properties, with_receive_octets
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer

__all__ = ["Extensions", "check_extensions"]

_FIRST_XID = 0x80000000
_TABLES_KEPT = 64
"""Sets of extensions whose tables are kept: a process has few, which all of its connections share."""


def check_extensions(extensions: Iterable[Extension]) -> None:
    """Checks that no header type, property number or error code has two users: two extensions, or one and the protocol.

    The protocol has all codes below 0x80.

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
    """The tables, derived from a set of extensions, that all connections with these extensions share.

    `headers` maps each header type to its permitted flags and whether its messages may be continued; `names` maps it to
    the name of its extension; `error_words` maps each error code to the number of 32-bit words after it; `own` has the
    encoded transport properties that this side sends.
    """

    headers: Mapping[int, tuple[int, bool]]
    names: Mapping[int, str]
    error_words: Mapping[int, int]
    own: PropertySet


@functools.lru_cache(maxsize=_TABLES_KEPT)
def _tables(extensions: tuple[Extension, ...]) -> _Tables:
    """Returns, cached, the tables that all connections with these extensions share.

    They have, for each header type, its flags and the name of its extension; for each error code, the number of 32-bit
    words that follow it; and the encoded transport properties that this side sends for the extensions.

    Raises:
        LocalProtocolError: two extensions, or one and the protocol, use the same code.
    """
    check_extensions(extensions)
    rows = [(extension.name, row) for extension in extensions for row in extension.headers]
    return _Tables(
        {row.code: (row.flags, row.continues) for _, row in rows},
        {row.code: name for name, row in rows},
        {row.code: row.words for extension in extensions for row in extension.errors},
        tuple((row.number, row.value) for one in extensions for row in one.properties if row.value is not None),
    )


class Extensions:
    """The extensions of one connection: passes received messages and errors to them, and sends their messages.

    The endpoint sets `memory`, `requester` (None at an end that makes no calls) and `responder` (None at an end that
    takes none). `links` maps the name of each extension to its `ExtensionLink`.
    """

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
        """Maps each header type of the extensions to its permitted flag bits and whether several Sends may carry it."""
        return self._tables.headers

    @property
    def error_words(self) -> Mapping[int, int]:
        """Maps each error code of the extensions to the number of 32-bit words that follow the code."""
        return self._tables.error_words

    @property
    def own(self) -> PropertySet:
        """The transport properties that the extensions add at this side, as pairs of number and encoded value."""
        return self._tables.own

    def take_properties(self, received: PropertySet, rows: Mapping[int, Property]) -> Properties:
        """Decodes the peer's properties, and stores each extension's in its `ExtensionLink.peer` if all are valid.

        `received`: all transport properties that the peer has sent, as pairs of number and encoded value. `rows`: the
        properties of the version by number. Returns their values, with the receive size that a property of an extension
        implies if the peer has not sent one.

        Raises:
            DecodeError: a value is invalid, or a property is repeated; nothing is stored.
        """
        values = dict(received)
        decoded = []
        for link in self.links.values():
            peer = {
                row.number: row.decode(values[row.number]) for row in link.extension.properties if row.number in values
            }
            for row in link.extension.properties:
                if row.receive_octets is not None and row.number in peer:
                    received = with_receive_octets(received, row.receive_octets(peer[row.number]))
            decoded.append((link, peer))
        properties = decode_properties(received, rows)
        for link, peer in decoded:
            link.peer = peer
        return properties

    def on_ready(self) -> None:
        """Calls the function `Extension.on_ready` of each extension; to be called when the connection has opened."""
        for link in self.links.values():
            link.extension.on_ready(link)

    def on_closed(self, reason: str, *, protocol_error: bool) -> None:
        """Ends all waits for answers with `TransportClosed`, then calls each `Extension.on_closed`.

        `reason`: the reason, in words, why the connection has ended. `protocol_error`: whether one side broke the
        protocol. An exception of an extension is raised after the calls of all.
        """
        for link in self.links.values():
            link.asked.close(TransportClosed(reason, protocol_error=protocol_error))
        with contextlib.ExitStack() as calls:
            for link in reversed(self.links.values()):
                calls.callback(link.extension.on_closed, link)

    def on_message(self, message: Inbound, invalidated: int | None) -> bool:
        """Passes a received message of an extension to the handler of its header type.

        A message in several pieces of memory is then the handler's to give back. If the handler raises DecodeError, an
        error for an invalid header is sent to the peer. `invalidated`: the handle that the message's Send invalidated,
        or None. Returns True; False, without a call of the handler, if a handle was invalidated: the caller ends the
        connection.
        """
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
        """Passes a received error to the extension that sent the refused message.

        A wait for the answer to that message ends with `ExtensionRefused`; otherwise `Extension.on_error` is called.
        `message`: a received message of any kind. `invalidated`: the handle that the message's Send invalidated, or
        None. Returns False, with nothing done, if the message is no error, if it refuses none of the latest messages
        of extensions, or if a handle was invalidated.
        """
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
        """Sends a message of an extension at once, or queues it until credits allow; calls `link.wake` in both cases.

        Returns the XID.

        Args:
            link: the extension on this connection.
            row: the header type, with its code and whether a long body may be continued in further messages.
            body: the octets after the version's header, as buffers in order. They are not copied, and must not change
                any more: nothing reports the Send.
            xid: the XID; None for a new one.
            flags: the flags of the extension.
            answer: whether the peer chose `xid`; if False, a later error with this XID is passed to the extension.

        Raises:
            TransportClosed: the connection is not open.
            LocalProtocolError: the version has no extensions, or a body that `row` does not continue is too long.
        """
        session = self.session
        if session.state is not State.OPEN:
            raise TransportClosed(session.failure or "the connection is not open yet")
        if not session.dialect.introduces:
            raise LocalProtocolError("the connection speaks a version without extensions")
        octets = sum(map(len, body)) + session.dialect.geometry.prefix
        if octets > session.send_octets and not row.continues:
            raise LocalProtocolError(f"{row.name}: {octets} octets, one message holds {session.send_octets}")
        if xid is None:
            self._xid = xid = (self._xid + 1) & 0xFFFFFFFF
        self.outbox.send(OutgoingExtension(xid, row.code, flags, body, answer=answer))
        if not answer:
            if self._sent is None:
                self._sent = {}
            # The first key is the oldest one: a repeated XID goes to the end.
            self._sent.pop(xid, None)
            self._sent[xid] = link
            if len(self._sent) > EXTENSION_MESSAGES_REMEMBERED:
                del self._sent[next(iter(self._sent))]
        link.wake()
        return xid

    def refuse(self, xid: int, refusal: Refusal) -> None:
        """Sends `refusal` as an error about the peer's message `xid`; ends the connection if errors are left unread."""
        self.outbox.refuse(OutgoingError(xid, self.session.dialect.version, refusal, answers_call=False))
