"""The first messages of a connection: which version it speaks, and what both sides tell of themselves.

A version with transport properties begins with those of the client, which the server answers with its own. A server
that does not know the version names those that it does; the client then goes on with one of them on the same
connection. A server of several versions takes the one of the first message.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import NEGOTIATION_S
from rpcrdma.transport.config import Role
from rpcrdma.transport.dialects import Dialect
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, OutgoingProperties, Refusal
from rpcrdma.transport.negotiation import Input, State
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.properties import decode_properties, encode_properties
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer

__all__ = ["Introduction"]

_NOT_AN_ANSWER = frozenset({Kind.PIECE, Kind.PROPERTIES, Kind.UNREADABLE, Kind.ERROR})
"""Messages by which their sender does not go on without telling of its properties."""

_START = struct.Struct(">IIII")
"""XID, version, credits and type of message: the same in every version."""


class Introduction:
    """Of one end. `dialects` are those that it speaks, the preferred one first.

    `settle_s`: how long the client waits before its first message. `unanswered`: the client's first message had no
    answer, which a server of another version may be the reason for.
    """

    __slots__ = (
        "_dialects",
        "_due_s",
        "_introduced",
        "_move",
        "_outbox",
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
        *,
        settle_s: float,
    ) -> None:
        self._session = session
        self._outbox = outbox
        self._dialects = dialects
        self._move = move
        self._settle_s = settle_s
        self._wait_s: float | None = None
        self._due_s: float | None = None
        self._introduced = False
        self._xid = 0
        # An end that takes no calls has no other errors to send than about properties.
        outbox.serve(self, Kind.PROPERTIES, Kind.GRANT, Kind.ERROR)

    @property
    def unanswered(self) -> bool:
        """Client: whether the answer to the first message is still to come, or never came."""
        return self._introduced and self._session.role is Role.CLIENT and self._session.peer is None

    @property
    def may_grant(self) -> bool:
        """Whether this side may send more than its first message: not before the server has answered it properly."""
        session = self._session
        answered = session.peer is not None or session.statistics.pieces_received > 0
        return session.role is Role.SERVER or answered

    def on_established(self) -> None:
        """The connection of the provider stands."""
        if self._session.role is Role.CLIENT:
            if self._settle_s:
                self._wait_s = self._settle_s
                self._move(Input.SETTLE)
            else:
                self._begin()
        elif any(dialect.introduces for dialect in self._dialects):
            self._move(Input.AWAIT)
        else:
            self._move(Input.AGREE)

    def _begin(self) -> None:
        """Client: sends the first message, if the version has one."""
        if self._session.dialect.introduces:
            self._wait_s = NEGOTIATION_S
            self._move(Input.INTRODUCE)
            self._introduce()
        else:
            self._move(Input.AGREE)

    def _introduce(self) -> None:
        self._introduced = True
        self._xid += 1
        session = self._session
        self._outbox.send(OutgoingProperties(self._xid, encode_properties(session.own, session.dialect.properties)))

    def receive_first(self, data: Buffer) -> Inbound | None:
        """Server: reads the first message, whose version is the connection's from here on if it is one that is spoken.

        Returns:
            The message; None if it is discarded.
        """
        for dialect in self._dialects:
            if dialect.claims(data):
                self._session.use(dialect)
                message = dialect.decode(data)
                if dialect.introduces and (message is None or message.kind in _NOT_AN_ANSWER):
                    self._move(Input.INTRODUCE)
                else:
                    self._go_on()
                return message
        if len(data) < _START.size:
            return None
        xid, version, credit_word, _ = _START.unpack_from(data)
        spoken = [dialect.version for dialect in self._dialects]
        refusal = Refusal(Cause.VERSION, low=min(spoken), high=max(spoken))
        return Inbound(Kind.UNREADABLE, xid, credit_word, version, refusal=refusal)

    def go_without(self, message: Inbound) -> None:
        """The peer goes on without having told of its properties, which are then the defaults."""
        if self._session.state is State.INTRODUCING and message.kind not in _NOT_AN_ANSWER:
            self._go_on()

    def _go_on(self) -> None:
        """This side's properties go before anything else."""
        self._wait_s = self._due_s = None
        if self._session.dialect.introduces and not self._introduced:
            self._introduce()
        self._move(Input.AGREE)

    def on_properties(self, message: Inbound, invalidated: int | None) -> bool:
        """Takes the peer's transport properties, which may come once; False for a message that is discarded."""
        if invalidated is not None:
            return False
        session = self._session
        properties = None
        if session.peer is None:
            with contextlib.suppress(DecodeError):
                properties = decode_properties(message.properties, session.dialect.properties)
        if properties is None:
            refusal = Refusal(Cause.PROPERTY)
            self._outbox.refuse(OutgoingError(message.xid, message.version, refusal, answers_call=False))
            return True
        session.take_properties(properties)
        if session.state is not State.OPEN:
            self._go_on()
        return True

    def on_refused(self, message: Inbound, _invalidated: int | None) -> bool:
        """Client: the server does not take the first message. Goes on with a version that it names."""
        refusal = message.refusal
        assert refusal is not None
        session = self._session
        if refusal.cause is Cause.VERSION:
            for dialect in self._dialects:
                if refusal.low <= dialect.version <= refusal.high and dialect is not session.dialect:
                    session.use(dialect)
                    self._introduced = False
                    self._begin()
                    return True
            spoken = " or ".join(dialect.name for dialect in self._dialects)
            session.violation(
                f"the server speaks versions {refusal.low} to {refusal.high} of RPC-over-RDMA, this end {spoken} only"
            )
        else:
            session.violation(f"the server refused the transport properties of this end ({refusal.cause.value})")
        return True

    def on_grant(self, _message: Inbound, invalidated: int | None) -> bool:
        """Credits alone, which are counted already; False for a message that is discarded."""
        self._session.statistics.grants_received += 1
        return invalidated is None

    def on_piece(self, _message: Inbound, invalidated: int | None) -> bool:
        """Part of a message, which is kept already; False for a message that is discarded."""
        self._session.statistics.pieces_received += 1
        return invalidated is None

    def prepare(self, message: Outgoing) -> Sequence[Buffer]:
        """See `Preparer`."""
        if isinstance(message, OutgoingProperties):
            return (self._session.dialect.encode_properties(message.properties),)
        return ()

    def on_unsendable(self, _message: Outgoing, error: LocalProtocolError) -> None:
        """Messages of these kinds can always be sent."""
        raise error

    @property
    def untimed(self) -> bool:
        """Whether a wait has begun for which `next_deadline_s` is to be asked."""
        return self._wait_s is not None

    def next_deadline_s(self, now_s: float) -> float | None:
        """When the pause is over, or the answer must have come."""
        if self._wait_s is not None:
            self._due_s = now_s + self._wait_s
            self._wait_s = None
        return self._due_s

    def on_time(self, now_s: float) -> None:
        """Sends the first message after the pause; ends the connection where its answer has not come."""
        if self._due_s is None or now_s < self._due_s:
            return
        self._due_s = None
        session = self._session
        if session.state is State.SETTLING:
            self._begin()
        elif session.state is State.INTRODUCING:
            name = session.dialect.name
            session.qp.abort(f"no answer in version {name} of RPC-over-RDMA within {NEGOTIATION_S:g} s")
