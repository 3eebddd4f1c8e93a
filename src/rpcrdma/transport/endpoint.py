"""One end of an RPC-over-RDMA connection: calls and replies on top of a queue pair.

An endpoint does no I/O and has no clock. Its owner drives the queue pair, calls `progress` after each change of the
queue pair, and takes `events`, of which `Closed` is the last one. If the endpoint is then `untimed`, the owner asks for
`next_deadline_s`, calls `on_time` at that time, and asks again. While the endpoint `holds` messages, the owner ends
each turn with `send_held`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.connection_extensions import Extensions
from rpcrdma.transport.connection_states import Input, State
from rpcrdma.transport.dialects import Dialect, offered, receive_octets
from rpcrdma.transport.events import Closed, EndpointEvent, Ready
from rpcrdma.transport.extensions import Extension, ExtensionLink
from rpcrdma.transport.introduction import Introduction
from rpcrdma.transport.message import CallDirection, Inbound, Kind
from rpcrdma.transport.message_memory import BufferSource, MessageMemory, PlainBuffers
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.private_data import decode_private_data
from rpcrdma.transport.properties import Properties
from rpcrdma.transport.receive_buffers import AHEAD, ReceiveBuffers
from rpcrdma.transport.requester import Requester
from rpcrdma.transport.responder import Responder
from rpcrdma.transport.routing import Halves, Handler, routes
from rpcrdma.transport.session import Session
from rpcrdma.transport.stall import StallWatch
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.protection_domain import ProtectionDomain
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    QueuePair,
    QueuePairEvent,
    Status,
    Verb,
)
from rpcrdma.verbs.receive_pool import ReceivePool, ReceiveSource

if TYPE_CHECKING:
    from rpcrdma.transport.host_authentication import HostAuthenticator

__all__ = ["Endpoint"]

_RECEIVE = Verb.RECEIVE
_SUCCESS = Status.SUCCESS
_OPEN = State.OPEN
_PIECE = Kind.PIECE


class Endpoint:
    """One end of an RPC-over-RDMA connection over a queue pair.

    `requester` makes calls, `responder` answers them; each is None at an end without such calls. The endpoint posts
    receives at once, so create it before the queue pair connects. A client connects with `config.private_data()`; a
    server's endpoint accepts the request itself. With `reverse` a client also takes calls, and a server may make some
    (RFC 8167) after `Requester.allow`; without it a reverse call is discarded.

    Args:
        qp: the queue pair, which the owner of the endpoint drives.
        pd: the protection domain that registers the memory of calls and replies.
        config: the settings.
        role: client or server.
        buffers: memory for Read chunks, and at a server the bound on that of arrived messages; None: new memory.
        reverse: whether the connection may have calls in the reverse direction, too.
        receive_pool: memory for arriving messages of `receive_octets`, which connections may share; None: a pool of its
            own. Unused if an extension has `Extension.receives`.
        dialects: the supported versions, the preferred one first; peers that do not know the others understand the last
            one. Empty: all versions of this library.
        settle_s: seconds that a client waits before its first message.
        authenticator: host authentication of this connection alone; if it is required, a server offers only versions
            with it, if it has any.
        extensions: they apply to the versions that can be extended.
        incoming: the class of the peer's calls.
    """

    __slots__ = (
        "_disconnected", "_established", "_extensions", "_in_pieces", "_introduction", "_memory", "_outbox", "_qp",
        "_receives", "_routes", "_session", "_stall", "events", "requester", "responder", "role",
    )  # fmt: skip

    def __init__(
        self,
        qp: QueuePair,
        pd: ProtectionDomain,
        config: TransportConfig,
        role: Role,
        buffers: BufferSource | None = None,
        *,
        reverse: bool = False,
        receive_pool: ReceiveSource | None = None,
        dialects: Sequence[Dialect] = (),
        settle_s: float = 0.0,
        authenticator: HostAuthenticator | None = None,
        extensions: Sequence[Extension] = (),
        incoming: type[IncomingCall] = IncomingCall,
    ) -> None:
        self.role = role
        self._qp = qp
        dialects = dialects or offered()
        if role is Role.SERVER and authenticator is not None and authenticator.required:
            dialects = [dialect for dialect in dialects if dialect.introduces] or dialects
        # A server speaks the version that is understood best until the client has chosen one.
        first = dialects[0] if role is Role.CLIENT else dialects[-1]
        reservable = sum(extension.reserve_max for extension in extensions)
        self._session = session = Session(qp, pd, config, role, first, reverse=reverse, reservable=reservable)
        if role is Role.CLIENT and not reverse:
            extensions = [extension.without_calls or extension for extension in extensions]
        octets = receive_octets(config, dialects)
        makers = [extension.receives for extension in extensions if extension.receives is not None]
        self._receives = ReceiveBuffers(qp, makers[0](octets) if makers else receive_pool or ReceivePool(octets))
        self._outbox = Outbox(session, self._receives)
        self._extensions = Extensions(session, self._outbox, self._receives, extensions) if extensions else None
        if self._extensions is not None:
            for dialect in dialects:
                dialect.extend(self._extensions.headers, self._extensions.error_words)
        self._introduction = Introduction(
            session,
            self._outbox,
            dialects,
            self._move,
            self._extensions,
            settle_s=settle_s,
            authenticator=authenticator,
        )
        buffers = buffers or PlainBuffers()
        # A client receives only data that it asked for.
        self._memory = memory = MessageMemory(buffers if role is Role.SERVER else None)
        for dialect in dialects:
            dialect.count_in(memory)
        self.requester: Requester | None = None
        """Makes calls; None at an end that makes none."""
        self.responder: Responder | None = None
        """Answers calls; None at an end that takes none."""
        if role is Role.CLIENT or reverse:
            direction = CallDirection.FORWARD if role is Role.CLIENT else CallDirection.REVERSE
            self.requester = Requester(session, self._outbox, direction)
        if role is Role.SERVER or reverse:
            direction = CallDirection.FORWARD if role is Role.SERVER else CallDirection.REVERSE
            self.responder = Responder(session, self._outbox, buffers, memory, direction, incoming)
        if self._extensions is not None:
            self._extensions.requester = self.requester
            self._extensions.responder = self.responder
            self._extensions.memory = memory
        self._stall = StallWatch(session, self.responder)
        self.events = session.events
        """Events that the owner has not taken yet, the oldest first."""
        self._disconnected: Disconnected | None = None
        self._established: Established | None = None
        self._in_pieces = False
        """Whether a message may have arrived in part."""
        self._routes: list[Handler | None] = []
        self._receives.post(session.window.receives_wanted)

    @property
    def version(self) -> int:
        """The number of the version of RPC-over-RDMA; before `Ready`, of the version that is being tried."""
        return self._session.dialect.version

    @property
    def unanswered(self) -> bool:
        """Whether this end is a client that has sent its properties and got neither the server's nor a refusal."""
        return self._introduction.unanswered

    @property
    def version_refused(self) -> bool:
        """Whether this end is a client whose connection ended because the server speaks none of its versions."""
        return self._introduction.version_refused

    @property
    def round_trip_s(self) -> float:
        """The round trip to the peer in seconds; 0 until the owner sets it."""
        return self._session.round_trip_s

    @round_trip_s.setter
    def round_trip_s(self, round_trip_s: float) -> None:
        self._session.measure(round_trip_s)

    @property
    def own_properties(self) -> Properties | None:
        """The transport properties of this side; None in a version without transport properties."""
        return self._session.own if self._session.dialect.introduces else None

    @property
    def peer_properties(self) -> Properties | None:
        """The transport properties of the peer; None before they arrive, and in a version without properties."""
        return self._session.peer

    @property
    def extensions(self) -> Mapping[str, ExtensionLink]:
        """The `ExtensionLink` of each extension on the connection, by the extension's name; empty without any."""
        return {} if self._extensions is None else self._extensions.links

    @property
    def reverse_support(self) -> ReverseSupport:
        """What calls from server to client may use: `GENERAL` (chunks too), `INLINE` (no chunks), `NONE` (no calls)."""
        return self._session.reverse_support

    @property
    def statistics(self) -> TransportStatistics:
        """The counters of the connection: the live object, which continues to count."""
        return self._session.statistics

    @property
    def inline_send_octets(self) -> int:
        """The octets of the largest message that is sent; the number may grow until `Ready`."""
        return self._session.send_octets

    @property
    def inline_receive_octets(self) -> int:
        """The octets of the largest message that can arrive; the number may grow until `Ready`."""
        return self._session.receive_octets

    @property
    def receives_octets(self) -> int:
        """The octets that arrive if every posted receive takes a message of the largest size."""
        return self._receives.octets

    @property
    def remote_invalidation(self) -> bool:
        """Whether both sides allow Send with Invalidate; in version 2, whether this side does."""
        return self._session.remote_invalidation

    @property
    def credits_requested(self) -> int:
        """The number of unanswered calls that a client asks for, from the settings."""
        return self._session.config.credits_requested

    @property
    def credits_granted(self) -> int:
        """The number of forward calls that may be unanswered now, as granted by the server."""
        window = self._session.window
        return window.allowed if self.role is Role.CLIENT else window.granted

    @property
    def reverse_credits_granted(self) -> int:
        """The number of calls in the reverse direction that may be unanswered now; 0 without that direction.

        This is the grant of this side at a client, that of the peer at a server.
        """
        if self.requester is None or self.responder is None:
            return 0
        window = self._session.window
        return window.granted if self.role is Role.CLIENT else window.allowed

    @property
    def calls_in_flight(self) -> int:
        """The number of forward calls that are sent (client) or received (server) and not answered."""
        return self._calls_sent if self.role is Role.CLIENT else self.calls_unanswered

    @property
    def reverse_calls_in_flight(self) -> int:
        """The number of reverse calls that are received (client) or sent (server) and not answered."""
        return self.calls_unanswered if self.role is Role.CLIENT else self._calls_sent

    @property
    def _calls_sent(self) -> int:
        return 0 if self.requester is None else self.requester.in_flight

    @property
    def calls_unanswered(self) -> int:
        """The number of the peer's calls that are neither answered nor refused nor dropped."""
        return 0 if self.responder is None else self.responder.unanswered

    @property
    def inline_results_octets(self) -> int:
        """The largest results without bulk items, in octets, whose reply to a call of this side is certainly inline."""
        return self._session.results_octets

    def unsettled(self) -> bool:
        """Returns whether a deadline may be without a time (`untimed`) or a call wait for memory (`wanted_octets`)."""
        # A cheap test, mostly False, before the owner looks at these properties.
        session, responder = self._session, self.responder
        if self._in_pieces:
            self._in_pieces = session.unfinished != 0
            return True
        return session.owed > 0 or session.state is not _OPEN or (responder is not None and responder.wanted_octets > 0)

    @property
    def wanted_octets(self) -> int:
        """The octets of memory for Read chunks that the first waiting call needs; 0: no call waits for memory."""
        return 0 if self.responder is None else self.responder.wanted_octets

    def resume_pulls(self) -> None:
        """Starts the RDMA Reads of calls that wait for memory, as far as memory and the connection's bound allow."""
        if self.responder is not None:
            self.responder.resume()

    @property
    def holds(self) -> bool:
        """Whether a `Batcher` is set: short calls and replies then wait for `send_held`, to be joined in one Send.

        The owner then calls `send_held` at the end of each iteration of the event loop.
        """
        return self._session.batcher is not None

    def send_held(self) -> None:
        """Sends the short messages that wait to be joined, as far as credits allow, then a grant if one is still due.

        No effect if `holds` is False: without a `Batcher` no message waits to be joined.
        """
        session = self._session
        if session.batcher is None:
            return
        if self._outbox.queued:
            self._outbox.send_held()
        if session.window.refresh_due:
            self._grant()

    def _grant(self) -> None:
        """Sends a message that only grants credits, if the connection's state allows it."""
        if self._session.state is State.OPEN or self._introduction.may_grant:
            self._outbox.send_grant()

    def disconnect(self) -> None:
        """Ends the connection after all posted Sends, or at once if it is not established; the last event is `Closed`.

        Messages that wait for `send_held` are sent first, as far as credits allow. No effect after the end.
        """
        self.send_held()
        self._qp.disconnect()

    def abort(self, reason: str) -> None:
        """Ends the connection now, without waiting for posted Sends; `Closed` has `reason`, or an earlier failure."""
        self._qp.abort(reason)

    def next_event(self) -> EndpointEvent | None:
        """Removes and returns the oldest event; returns None if there is no event."""
        return self.events.popleft() if self.events else None

    @property
    def untimed(self) -> bool:
        """Whether a deadline applies that has no time yet, so that the owner has to call `next_deadline_s`."""
        session = self._session
        if (session.owed or session.unfinished) and not self._stall.running:
            return True
        return session.state is not _OPEN and self._introduction.untimed

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns the time, in seconds of the owner's clock, at which `on_time` is to be called; None: never.

        New deadlines count from `now_s`, the present time.
        """
        deadlines_s = self._introduction.next_deadline_s(now_s), self._stall.next_deadline_s(now_s)
        return min((each_s for each_s in deadlines_s if each_s is not None), default=None)

    def on_time(self, now_s: float) -> None:
        """Sends a delayed first message or aborts the connection if that is due at `now_s`; `progress` must follow."""
        self._introduction.on_time(now_s)
        self._stall.on_time(now_s)

    def progress(self) -> None:
        """Handles and removes all completions and events of the queue pair: appends to `events`, and sends messages."""
        session, completions, events = self._session, self._qp.completions, self._qp.events
        while completions or events:
            # Messages may only come once the connection stands, so that its event goes first; that of its end is kept.
            if events:
                self._on_event(events.pop(0))
            elif (completion := completions.popleft()).verb is _RECEIVE and completion.status is _SUCCESS:
                self._on_receive(completion)
            else:
                self._on_work_ended(completion)
        if self._outbox.due and self._disconnected is None:
            self._outbox.drain()
        if session.window.low and session.batcher is None and session.window.refresh_due:
            self._grant()
        if self._disconnected is not None and self._session.state is not State.CLOSED:
            self._close(self._disconnected)

    def _on_event(self, event: QueuePairEvent) -> None:
        session = self._session
        if isinstance(event, Disconnected):
            # Messages that arrived before it come first: `progress` closes after them.
            self._disconnected = event
            return
        session.agree(decode_private_data(event.private_data))
        if isinstance(event, ConnectRequested):
            self._qp.accept(session.config.private_data())
        elif isinstance(event, Established):
            self._established = event
            self._introduction.on_established()

    def _move(self, moved: Input) -> None:
        session = self._session
        session.move(moved)
        self._routes = routes(
            self.role, session.state, Halves(self.requester, self.responder, self._introduction, self._extensions)
        )
        if session.state is State.OPEN:
            assert self._established is not None
            session.events.append(Ready(self._established.inbound_reads, self._established.outbound_reads))
            if self._extensions is not None:
                self._extensions.on_ready()
        if self._outbox.queued:
            self._outbox.drain()

    def _on_receive(self, completion: Completion) -> None:
        session, receives = self._session, self._receives
        if session.state is State.BROKEN:
            receives.give_back(completion)
            return
        session.statistics.receives = count = session.statistics.receives + 1
        if not count % AHEAD:
            receives.replace()
        if receives.arrived is not None:
            # No handler has taken the previous message.
            receives.close()
        data = completion.wr
        if type(data) is not bytes or completion.length > receives.pool.plain_octets:
            data = receives.take(completion)
        message = session.dialect.decode(data) if session.state is _OPEN else self._introduction.receive(data)
        if message is None or message.kind >= _PIECE:
            self._in_pieces = True
        window = session.window
        if window.counts_arrivals:
            if message is not None and session.state is State.AWAITING:
                # It is refused for its version, whose calls bring a receive for their answer, and take no credit here.
                window.balance = max(window.balance, 1)
            elif not window.on_arrival(message):
                session.violation("more messages than credits allow")
                return
            if self._outbox.queued:
                self._outbox.drain()
        if message is not None:
            if message.broken is not None and self.requester is not None:
                error = RemoteProtocolError("a reply in several messages was broken by another message")
                self.requester.fail(message.broken, error)
            if session.between is not None and session.between(message, data):
                return
            handler = self._routes[message.kind]
            if handler is not None and handler(message, completion.invalidated):
                return
        self._on_unclaimed(message, completion.invalidated)

    def _on_unclaimed(self, message: Inbound | None, invalidated: int | None) -> None:
        """Refuses a message that no handler took, passes an error to its extension, or silently discards the message.

        `message`: the message; None if the version demands to discard it. `invalidated`: the handle that the message's
        Send invalidated, or None. A handle ends the connection: only the answer to a call may invalidate one.
        """
        session = self._session
        if message is not None and message.kind is Kind.REPLY and message.refusal is not None:
            refuse = self._routes[Kind.UNREADABLE]
            if refuse is not None and refuse(message, invalidated):
                return
        if message is not None and self._extensions is not None and self._extensions.on_error(message, invalidated):
            return
        session.statistics.discarded += 1
        if invalidated is not None:
            session.violation(f"the peer invalidated handle {invalidated:#010x} without answering its call")

    def _on_work_ended(self, completion: Completion) -> None:
        verb = completion.verb
        wr: Any = completion.wr
        if verb is Verb.SEND:
            if wr is not None:
                self._outbox.ended, message = wr
                if message is not None:
                    message.sending = False
                    if message.kind is Kind.REPLY:
                        assert self.responder is not None
                        self.responder.on_sent(message)
                    elif self.requester is not None and message in self.requester.early:
                        self.requester.early.pop(message)()
        elif verb is Verb.RDMA_READ:
            assert self.responder is not None
            self.responder.on_read(wr, completion.status)
        elif verb is _RECEIVE:
            self._receives.give_back(completion)

    def _close(self, event: Disconnected) -> None:
        session = self._session
        violated = bool(session.failure) and session.refusal is None
        session.failure = reason = session.failure or event.reason
        self._move(Input.END)
        # The objects of a connection refer to each other: without this, the memory of messages that have arrived waits
        # for the garbage collector.
        session.dialect.forget()
        self._receives.close()
        self._memory.release_group()
        waited = self._outbox.clear()
        protocol_error = event.protocol_error or violated
        if self.requester is not None:
            # Late work for memory that has ended looks like a broken rule to the provider.
            protocol_error = violated or (protocol_error and not self.requester.has_handles_of_ended_memory)
            self.requester.on_closed(reason, protocol_error=protocol_error)
        if self.responder is not None:
            self.responder.on_closed(waited)
        session.events.append(Closed(reason, event.by_peer or violated, protocol_error, session.refusal))
        if self._extensions is not None:
            # Last: the calls have ended whatever error the extension of a user raises.
            self._extensions.on_closed(reason, protocol_error=protocol_error)
