"""The first messages of a connection: the choice of the version, the transport properties, host authentication.

A version with transport properties begins with the properties of the client, and the server answers with its own. A
server without this version names its versions, and the client continues with one of them on the same connection. A
server with several versions takes the version of the first message. If both ends want it, their hosts then authenticate
each other in further messages of this kind.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rpcrdma.errors import DecodeError, HostAuthenticationFailed
from rpcrdma.limits import NEGOTIATION_S
from rpcrdma.transport.config import Role
from rpcrdma.transport.connection_extensions import Extensions
from rpcrdma.transport.connection_states import Input, State
from rpcrdma.transport.dialects import Dialect, encode_property_set, is_error, version_of
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    OutgoingError,
    OutgoingProperties,
    PropertySet,
    Refusal,
)
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.properties import (
    decode_host_authentication,
    decode_properties,
    encode_host_authentication,
    encode_properties,
)
from rpcrdma.transport.refusals import versions
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer

if TYPE_CHECKING:
    from rpcrdma.transport.host_authentication import HostAuthenticator

__all__ = ["Introduction"]

_NOT_AN_ANSWER = frozenset({Kind.PIECE, Kind.PROPERTIES, Kind.UNREADABLE, Kind.ERROR})
"""Messages after which their sender may still send its properties."""

_START = struct.Struct(">IIII")
"""XID, version, credits and type of message: the same in every version."""


class Introduction:
    """The first messages of a connection at one end: version, transport properties and host authentication.

    Args:
        session: the limits that both ends agree on, and the statistics.
        outbox: sends the messages of this side.
        dialects: the versions of this side, the preferred one first.
        move: changes the connection's state; called with each `Input`.
        extensions: the extensions of the connection, whose properties are sent with this side's; None: no extensions.
        settle_s: seconds that a client waits before its first message; 0: none.
        authenticator: proves and checks the hosts; None: the peer's host authentication is ignored.
    """

    __slots__ = (
        "_authenticator",
        "_dialects",
        "_due_s",
        "_extensions",
        "_introduced",
        "_move",
        "_outbox",
        "_refused",
        "_session",
        "_settle_s",
        "_wait_s",
        "_xid",
    )

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        dialects: Sequence[Dialect],
        move: Callable[[Input], None],
        extensions: Extensions | None,
        *,
        settle_s: float,
        authenticator: HostAuthenticator | None = None,
    ) -> None:
        self._extensions = extensions
        self._session = session
        self._authenticator = authenticator
        self._outbox = outbox
        self._dialects = dialects
        self._move = move
        self._settle_s = settle_s
        self._wait_s: float | None = None
        self._due_s: float | None = None
        self._introduced = False
        self._refused = False
        self._xid = 0

    @property
    def unanswered(self) -> bool:
        """Whether this end is a client that has sent transport properties and got neither the server's nor a refusal.

        Always False at a server. True also after another message has shown that the server sends no properties.
        """
        return self._introduced and self._session.role is Role.CLIENT and self._session.peer is None

    @property
    def version_refused(self) -> bool:
        """Whether the server has refused all versions of this client."""
        return self._refused

    @property
    def may_grant(self) -> bool:
        """Whether this side may send a message that only grants credits before the connection is open.

        A server always may; a client may once the server's properties, or a piece of them, have arrived. The state of
        the connection must allow the message as well (`MAY_LEAVE`).
        """
        session = self._session
        answered = session.peer is not None or session.statistics.pieces_received > 0
        return session.role is Role.SERVER or answered

    def on_established(self) -> None:
        """Begins the introduction after the queue pair has connected.

        A client sends its first message, at once or after the `settle_s` seconds of the constructor; a server awaits
        it. If the preferred version of a client, or each version of a server, has no properties, no message is sent or
        awaited: the connection opens, or ends if host authentication is required.
        """
        if self._session.role is Role.CLIENT:
            if self._settle_s:
                self._wait_s = self._settle_s
                self._move(Input.SETTLE)
            else:
                self._begin()
        elif any(dialect.introduces for dialect in self._dialects):
            self._move(Input.AWAIT)
        else:
            self._go_on(None)

    def _begin(self) -> None:
        """Sends a client's first message, with properties; continues (`_go_on`) in a version without properties."""
        if self._session.dialect.introduces:
            self._move(Input.INTRODUCE)
            self._introduce(None if self._authenticator is None else self._authenticator.announce())
        else:
            self._go_on(None)

    def _introduce(self, value: bytes | None) -> None:
        """Sends this side's transport properties, with those of extensions, and marks them as sent.

        `value`: the content of the first HOSTAUTH property (host authentication) to send; None sends none.
        """
        self._introduced = True
        session = self._session
        session.proof = value
        told = encode_properties(session.own, session.dialect.properties)
        if self._extensions is not None:
            told += self._extensions.own
        session.limit_first_message()
        self._send(told)

    def _send(self, properties: PropertySet) -> None:
        self._xid += 1
        self._outbox.send(OutgoingProperties(self._xid, encode_property_set(properties)))

    def receive(self, data: Buffer) -> Inbound | None:
        """Decodes a message that arrives before the connection is open.

        At a server the first message chooses the version. A message that shows that the peer sends no properties lets
        the connection go on with the defaults. Returns the message, of `Kind.UNREADABLE` for one that is to be refused;
        None if it is to be discarded.
        """
        session = self._session
        if session.state is State.AWAITING:
            return self._receive_first(data)
        dialect = session.dialect
        message = dialect.decode_answer(data) if session.role is Role.CLIENT else dialect.decode(data)
        if message is not None:
            self._go_without(message)
        return message

    def _receive_first(self, data: Buffer) -> Inbound | None:
        """Decodes a client's first message, `data`, and adopts its version if this server supports it.

        The server then awaits the client's properties or, if none can follow, continues with the defaults (`_go_on`).
        Returns the message, of `Kind.UNREADABLE` for an unknown version; None if it is to be discarded.
        """
        for dialect in self._dialects:
            if dialect.version == version_of(data):
                self._session.use(dialect)
                message = dialect.decode(data)
                if dialect.introduces and (message is None or message.kind in _NOT_AN_ANSWER):
                    self._move(Input.INTRODUCE)
                else:
                    self._go_on(None)
                return message
        if len(data) < _START.size or is_error(data):
            return None
        xid, version, credit_word, _ = _START.unpack_from(data)
        spoken = [dialect.version for dialect in self._dialects]
        refusal = Refusal(Cause.VERSION, low=min(spoken), high=max(spoken))
        return Inbound(Kind.UNREADABLE, xid, credit_word, version, refusal=refusal)

    def _go_without(self, message: Inbound) -> None:
        """Continues with the defaults if `message` shows that the peer sends no properties; only when INTRODUCING.

        A grant of credits shows it only if no side sends properties in pieces, which grants may precede or interrupt.
        """
        session = self._session
        if session.state is not State.INTRODUCING or message.kind in _NOT_AN_ANSWER:
            return
        in_pieces = session.statistics.pieces_sent > 0 or session.statistics.pieces_received > 0
        if message.kind is not Kind.GRANT or not in_pieces:
            self._go_on(None)

    def _go_on(self, announced: bytes | None) -> None:
        """Continues once the peer's properties are known, or are the defaults, or the version has none.

        A server sends its own properties; host authentication begins. The connection opens, waits for further messages
        of host authentication, or is refused. `announced`: the content of the peer's first HOSTAUTH property; None for
        none.
        """
        self._wait_s = self._due_s = None
        self._session.use_defaults()
        value, finished = None, True
        if self._authenticator is not None:
            try:
                value = self._authenticator.begin(announced)
            except HostAuthenticationFailed as error:
                self._refuse(error)
                return
            finished = self._authenticator.finished
        if self._session.dialect.introduces and not self._introduced:
            self._introduce(value)
        elif value is not None:
            self._send(encode_host_authentication(value))
        if finished:
            self._move(Input.AGREE)
        else:
            self._wait_s = NEGOTIATION_S
            self._move(Input.AUTHENTICATE)

    def _authenticate(self, authenticator: HostAuthenticator, value: bytes) -> None:
        """Passes the content of a further HOSTAUTH property to the authenticator, and sends its answer, if any.

        The connection opens when the authentication has finished, and ends if it fails.
        """
        try:
            answer = authenticator.receive(value)
        except HostAuthenticationFailed as error:
            self._refuse(error)
            return
        if answer is not None:
            self._send(encode_host_authentication(answer))
        if authenticator.finished:
            self._wait_s = self._due_s = None
            self._move(Input.AGREE)

    def _refuse(self, error: HostAuthenticationFailed) -> None:
        """Sends the alert in `error` to the peer, if there is one, and ends the connection after all posted Sends.

        The alert is sent with this side's properties if these have not been sent; no alert is sent in a version without
        properties. If the Sends do not complete within NEGOTIATION_S (5) seconds, the connection is aborted.
        """
        session = self._session
        if error.alert and session.dialect.introduces:
            if self._introduced:
                self._send(encode_host_authentication(error.alert))
            else:
                if session.state is State.AWAITING:
                    self._move(Input.INTRODUCE)
                self._introduce(error.alert)
        session.refuse(error)
        self._wait_s = NEGOTIATION_S

    def on_properties(self, message: Inbound, invalidated: int | None) -> bool:
        """Handles the peer's transport properties, which are sent once; later messages may only authenticate the host.

        The first properties are stored, and the introduction continues. An error message answers invalid properties,
        and later ones other than host authentication; without an authenticator, any later ones. `message`: the message
        with the properties. `invalidated`: the handle that the message's Send invalidated, or None. Returns True; False
        with the message unread if a handle was invalidated, for which the caller ends the connection.
        """
        if invalidated is not None:
            return False
        session, authenticator = self._session, self._authenticator
        rows = session.dialect.properties
        with contextlib.suppress(DecodeError):
            if session.peer is None:
                told = message.properties
                extensions = self._extensions
                peer = decode_properties(told, rows) if extensions is None else extensions.take_properties(told, rows)
                session.take_properties(peer)
                value = peer.host_authentication
                if session.state is not State.OPEN:
                    self._go_on(value)
                elif value is not None and authenticator is not None:
                    self._authenticate(authenticator, value)
                return True
            if authenticator is not None:
                self._authenticate(authenticator, decode_host_authentication(message.properties, rows))
                return True
        refusal = Refusal(Cause.PROPERTY)
        self._outbox.refuse(OutgoingError(message.xid, message.version, refusal, answers_call=False))
        return True

    def on_refused(self, message: Inbound, _invalidated: int | None) -> bool:
        """Handles the server's refusal of this client's version or properties.

        Begins again with a version that the server names and this client speaks, other than the refused one. Ends the
        connection if there is none, if properties were refused, or if host authentication has begun.
        `message`: the error. Returns True: the message is handled.
        """
        refusal = message.refusal
        assert refusal is not None
        session = self._session
        self._introduced = False
        if refusal.cause is Cause.VERSION and session.state is State.AUTHENTICATING:
            # Host authentication has begun, and begins once on a connection.
            session.violation("the server refused the version in which it had sent its transport properties")
        elif refusal.cause is Cause.VERSION:
            for dialect in self._dialects:
                if refusal.low <= dialect.version <= refusal.high and dialect is not session.dialect:
                    session.use(dialect)
                    self._outbox.drop_rest()
                    self._begin()
                    return True
            self._refused = True
            own = " or ".join(dialect.name for dialect in self._dialects)
            theirs = versions(refusal.low, refusal.high)
            session.violation(
                f"the server speaks {theirs} of RPC-over-RDMA only, this end was told to speak {own}; choose a version "
                "that both have, or auto"
            )
        else:
            session.violation(f"the server refused the transport properties of this end ({refusal.cause.value})")
        return True

    def on_grant(self, _message: Inbound, invalidated: int | None) -> bool:
        """Counts, in the statistics, a message that only grants credits, before or after the connection is open.

        Returns True; False if the message's Send invalidated a handle (`invalidated`, else None), for which the caller
        ends the connection.
        """
        self._session.statistics.grants_received += 1
        return invalidated is None

    def on_piece(self, _message: Inbound, invalidated: int | None) -> bool:
        """Counts a message's piece in the statistics.

        From the first piece on, a client grants credits for all pieces of the longest reply. Returns True; False if the
        piece's Send invalidated a handle (`invalidated`, else None), for which the caller ends the connection.
        """
        self._session.statistics.pieces_received += 1
        self._session.expect_continued_replies()
        return invalidated is None

    @property
    def untimed(self) -> bool:
        """Whether a deadline applies that has no time yet, so that the owner has to call `next_deadline_s`."""
        return self._wait_s is not None

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns when `on_time` is due: for a client's delayed first message, or to end hanging host authentication.

        `now_s`: the present time in seconds, from which a new deadline counts. The result is on the same clock; None:
        no deadline.
        """
        if self._wait_s is not None:
            self._due_s = now_s + self._wait_s
            self._wait_s = None
        return self._due_s

    def on_time(self, now_s: float) -> None:
        """Acts if the deadline has expired at `now_s`, in seconds; no effect before.

        A client sends its delayed first message; the connection ends if host authentication is not complete.
        """
        if self._due_s is None or now_s < self._due_s:
            return
        self._due_s = None
        session = self._session
        if session.state is State.SETTLING:
            self._begin()
        elif session.state in {State.AUTHENTICATING, State.BROKEN}:
            session.qp.abort(f"host authentication has not come to its end within {NEGOTIATION_S:g} s")
