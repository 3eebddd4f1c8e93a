"""The peer's calls on one RDMA connection: when they are answered, and how their replies leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.connections.calls_made import REPLY_BOUND_REMEDY
from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.limits import CONNECTION_TURN_S, RDMA_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.transport import Cause
from rpcrdma.transport.responder import Responder
from rpcrdma.xdr.codec import Payload

__all__ = ["RdmaCallsTaken"]


class RdmaCallsTaken:
    """Answers calls with `answering`; implements `rpcrdma.aio.answering.call_source.CallSource`.

    `on_answered` is called after each reply that is made outside of a turn of the connection, `on_fault` with a fault
    of our own, which ends the connection.
    """

    __slots__ = (
        "_answering", "_clock", "_draining", "_ended", "_on_answered", "_on_fault", "_responder", "client", "deferred",
        "host", "in_turn", "results", "turn_ends_s", "unsent_octets",
    )  # fmt: skip

    def __init__(
        self,
        client: ReverseCaller,
        responder: Responder | None,
        answering: Answering | None,
        host: str,
        results: BufferShare,
        *,
        on_answered: Callable[[], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        self._clock = loop_clock()
        self.client = client
        self._responder = responder
        self._answering = answering
        self.host = host
        self.results = results
        self._on_answered = on_answered
        self._on_fault = on_fault
        self.deferred: list[ServerCall] = []
        """Calls that wait to be answered."""
        self._draining = False
        self._ended = False
        self.in_turn = False
        """Whether the connection is in a turn, which sends at its end."""
        self.turn_ends_s: float | None = None
        """When the connection's turn is over and calls wait for the next one, by the clock of the loop.

        None before the first call of the turn. The owner sets it back to None when a turn begins."""
        self.unsent_octets = 0
        """Of replies whose buffers are in use until they have been sent."""

    @property
    def may_answer(self) -> bool:
        """Whether calls wait that can be answered."""
        return bool(self.deferred) and self.unsent_octets < RDMA_UNSENT_REPLY_OCTETS_MAX

    def on_call(self, call: ServerCall) -> None:
        """Answers a call that has arrived, unless replies wait to be sent or the turn has taken long: then later."""
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
                self._answering.take(call, self)

    def answer_deferred(self) -> bool:
        """Answers calls that wait, until replies wait to be sent or the turn is over; False if it answered none.

        A turn that is over has answered some. The next one answers several, whose replies leave together.
        """
        waited = len(self.deferred)
        if self.turn_ends_s is None:
            self.turn_ends_s = self._clock() + CONNECTION_TURN_S
        elif self._clock() > self.turn_ends_s:
            return False
        while self.may_answer:
            assert self._answering is not None
            self._answering.take(self.deferred.pop(0), self)
            if self._clock() > self.turn_ends_s:
                break
        return len(self.deferred) < waited

    def drain(self) -> None:
        """Drops calls that wait, and from now on those that arrive; calls that run are answered."""
        self._draining = True
        while self.deferred:
            self.drop(self.deferred.pop(0))

    def close(self) -> None:
        """Drops waiting calls, and cancels those whose handlers have not begun, at the end of the connection."""
        self._ended = True
        self.drain()
        self.results.close()
        if self._answering is not None:
            self._answering.runner.connection_ended(self)

    def reply(self, call: ServerCall, reply: Payload) -> None:
        """See `CallSource.reply`."""
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
        """Releases the buffers of a reply that was sent."""
        self.unsent_octets -= call.unsent_octets
        if call.buffers is not None:
            call.release()

    def reply_octets_max(self, call: ServerCall, items: Sequence[int]) -> int:
        """See `CallSource.reply_octets_max`."""
        assert self._responder is not None
        return self._responder.reply_octets_max(call, items)

    def refuse(self, call: ServerCall) -> bool:
        """See `CallSource.refuse`: with ERR_CHUNK."""
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
        """See `CallSource.drop`."""
        assert self._responder is not None
        self._responder.drop(call)
        call.release()

    def _log_refusal(self, call: ServerCall) -> None:
        if self._answering is not None and call.procedure is not None:
            self._answering.runner.log.unfit_reply(
                call,
                f"{call.refusal}, and so it was answered with ERR_CHUNK: "
                f"the client has to offer more ({REPLY_BOUND_REMEDY})",
            )
