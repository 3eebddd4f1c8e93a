"""The peer's calls on one RDMA connection: when they are answered, and how their replies leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.connections.calls_made import REPLY_BOUND_REMEDY
from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.limits import CONNECTION_TURN_S, RDMA_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.call_statistics import REFUSED
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.transport import Cause
from rpcrdma.transport.call import NO_MEMORY
from rpcrdma.transport.responder import Responder
from rpcrdma.xdr.codec import Payload

__all__ = ["RdmaCallsTaken"]


class RdmaCallsTaken:
    """The peer's calls on one RDMA connection; answers them by `answering`, and implements `CallSource` for it.

    A turn is one run of the connection's event processing in the event loop. Once CONNECTION_TURN_S seconds have passed
    since the first call of a turn, no further call is begun in that turn. The owner, the connection, sets `in_turn`
    while a turn runs, and sets `turn_ends_s`, the time after which no call is begun, to None at the turn's begin.

    Args:
        client: the connection, as the caller of the peer.
        responder: sends replies; None on an end that takes no calls.
        answering: answers calls; None: they are dropped.
        results: the connection's share of the memory for results.
        on_answered: called after each reply, refusal or drop outside of a turn of the connection.
        on_fault: called with an exception of this side's own code, which ends the connection.
    """

    __slots__ = (
        "_answering", "_clock", "_draining", "_ended", "_on_answered", "_on_fault", "_responder", "client", "deferred",
        "host", "in_turn", "results", "taken", "turn_ends_s", "unsent_octets",
    )  # fmt: skip

    def __init__(
        self,
        client: ReverseCaller,
        responder: Responder | None,
        answering: Answering | None,
        results: BufferShare,
        *,
        on_answered: Callable[[], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        self._clock = loop_clock()
        self.client = client
        self._responder = responder
        self._answering = answering
        self.host = client.origin.host
        self.results = results
        self._on_answered = on_answered
        self._on_fault = on_fault
        self.taken = 0
        """The number of calls passed to `answering`; those deferred, or dropped on arrival, do not count."""
        self.deferred: list[ServerCall] = []
        """Calls that wait to be answered."""
        self._draining = False
        self._ended = False
        self.in_turn = False
        """Whether the connection is in a turn, which sends at its end; set by the owner as a turn begins and ends."""
        self.turn_ends_s: float | None = None
        """When the connection's turn is over and calls wait for the next one, by the clock of the loop.

        None before the first call of the turn. The owner sets it back to None when a turn begins."""
        self.unsent_octets = 0
        """The octets of replies whose buffers are in use until they have been sent."""

    @property
    def may_answer(self) -> bool:
        """Whether calls wait, and fewer than RDMA_UNSENT_REPLY_OCTETS_MAX octets of replies wait to be sent."""
        return bool(self.deferred) and self.unsent_octets < RDMA_UNSENT_REPLY_OCTETS_MAX

    def on_call(self, call: ServerCall) -> None:
        """Answers a call that has arrived, or defers it: `answer_deferred` answers it later.

        The call is deferred if earlier calls are deferred, if RDMA_UNSENT_REPLY_OCTETS_MAX octets of replies wait to be
        sent, or if the first call of this turn was more than CONNECTION_TURN_S seconds ago. It is dropped, without a
        reply, if the connection has no `answering`, and after `drain`.
        """
        if self._draining or self._answering is None:
            self.drop(call)
        elif self.deferred or self.unsent_octets >= RDMA_UNSENT_REPLY_OCTETS_MAX:
            self.deferred.append(call)
        else:
            now_s = self._clock()
            if self.turn_ends_s is None:
                self.turn_ends_s = now_s + CONNECTION_TURN_S
            if now_s > self.turn_ends_s:
                self.deferred.append(call)
            else:
                self.taken += 1
                self._answering.take(call, self)

    def answer_deferred(self) -> bool:
        """Answers deferred calls until `may_answer` is false, or CONNECTION_TURN_S s after the first call of this turn.

        Returns whether at least one call was answered or begun. If that time is over already, returns False: the calls
        wait for the connection's next run in the event loop, at whose end their replies are sent together.
        """
        waited = len(self.deferred)
        if self.turn_ends_s is None:
            self.turn_ends_s = self._clock() + CONNECTION_TURN_S
        elif self._clock() > self.turn_ends_s:
            return False
        while self.may_answer:
            assert self._answering is not None
            self.taken += 1
            self._answering.take(self.deferred.pop(0), self)
            if self._clock() > self.turn_ends_s:
                break
        return len(self.deferred) < waited

    def drain(self) -> None:
        """Drops the calls that are deferred, and all that arrive later, without replies; running calls are answered."""
        self._draining = True
        deferred, self.deferred = self.deferred, []
        for call in deferred:
            self.drop(call)

    def close(self) -> None:
        """Drops deferred calls, and ends those that wait for memory or a thread (`ServerCall.let_go`).

        Called once, at the end of the connection. Closes `results`, the connection's share of the buffer pool.
        """
        self._ended = True
        self.drain()
        self.results.close()
        if self._answering is not None:
            self._answering.runner.workers.connection_ended(self)

    def reply(self, call: ServerCall, reply: Payload) -> None:
        """Implements `CallSource.reply`: sends `reply` in a Send, with RDMA Writes of the items that chunks take.

        After the end of the connection the call is dropped instead. If the reply does not fit the call's chunks, the
        client gets an error, and a warning is logged. The call's buffers are released at once if the transport does not
        use them, else by `on_sent`. Errors of the transport are passed to `on_fault`, not raised.
        """
        if self._ended:
            self.drop(call)
            return
        assert self._responder is not None
        in_use = False
        try:
            in_use = self._responder.reply(call, reply)
        except Exception as error:  # noqa: BLE001 - logged; the result may come from another connection, which goes on
            self._on_fault(error)
        octets = reply.length if reply.items else len(reply.reduced)
        if call.refusal:
            call.status = REFUSED
            self._log_refusal(call)
        else:
            call.octets_sent = octets
        if in_use:
            call.unsent_octets = octets
            self.unsent_octets += octets
        elif call.buffers is not None:
            call.release()
        if not self.in_turn:
            self._on_answered()

    def on_sent(self, call: ServerCall) -> None:
        """Releases the buffers of `call`, whose reply has been sent completely."""
        self.unsent_octets -= call.unsent_octets
        if call.buffers is not None:
            call.release()

    def reply_octets_max(self, call: ServerCall, items: Sequence[int]) -> int:
        """Returns the most octets of a reply to `call`, bulk items excluded; 0 if the items fit nowhere.

        `items` are the lengths of the bulk items in octets. Items that no Write chunk takes are sent within the reply,
        and reduce the result. For a call that an extension carried, the octets are those of the ordinary call as which
        the client sends it again if a longer reply is refused. Implements `CallSource.reply_octets_max`.
        """
        assert self._responder is not None
        return self._responder.reply_octets_max(call, items)

    def refuse(self, call: ServerCall) -> bool:
        """Refuses `call` by RDMA_ERROR (version 1: ERR_CHUNK, version 2: RDMA2_ERR_SYSTEM), and releases its memory.

        Returns True, since RDMA has such an error; also after the end of the connection, when the call is dropped.
        """
        if self._ended:
            self.drop(call)
            return True
        assert self._responder is not None
        try:
            self._responder.fail_call(call, Cause.INELIGIBLE)
        except Exception as error:  # noqa: BLE001 - logged, as of a reply
            self._on_fault(error)
        call.release()
        if not self.in_turn:
            self._on_answered()
        return True

    def drop(self, call: ServerCall) -> None:
        """Ends `call` without a reply and releases its memory.

        In version 1 the client then has a credit less until the connection ends, since only a reply returns a credit;
        in version 2 a later message grants the credit again. Raises LocalProtocolError if the call has been answered.
        """
        assert self._responder is not None
        self._responder.drop(call)
        call.release()
        if not (self.in_turn or self._ended):
            # The credit of the call may have been granted again, in a message that the peer waits for.
            self._on_answered()

    def out_of_memory(self, call: ServerCall) -> None:
        """Logs that `call` is answered with SYSTEM_ERR, as there is no memory for its protected reply."""
        assert self._answering is not None
        self._answering.runner.log.out_of_memory(call)

    def _log_refusal(self, call: ServerCall) -> None:
        if self._answering is not None and call.procedure is not None:
            remedy = f"the client has to offer more, or fewer segments ({REPLY_BOUND_REMEDY})"
            if call.refusal is NO_MEMORY:
                remedy = "the server needs more memory"
            why = f"{call.refusal}, and so the call was refused: {remedy}"
            self._answering.runner.log.unfit_reply(call, why)
