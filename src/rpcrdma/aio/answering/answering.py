"""From a call that has arrived on a connection to the reply that leaves on it, at a server or a client called back."""

from __future__ import annotations

import functools
from time import perf_counter_ns
from typing import Any, Protocol, TypeVar

from rpcrdma.aio.answering.at_most_once import REPLY_NOT_KEPT, AtMostOnce
from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.aio.answering.call_context import ServerCallContext
from rpcrdma.aio.answering.handler_runner import HandlerRunner, Unanswered
from rpcrdma.errors import MessageTooLong
from rpcrdma.rpc.call_statistics import DROPPED, REFUSED
from rpcrdma.rpc.dispatch import Dispatcher, Invocation
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.xdr.codec import Decoder, Payload, ReducedIneligibleItem

__all__ = ["Answering", "CallSource"]


class _Arrived(Protocol):
    context: Any


C = TypeVar("C", bound=_Arrived)
C_contra = TypeVar("C_contra", bound=_Arrived, contravariant=True)


class CallSource(ReverseCaller, Protocol[C_contra]):
    """A connection on which calls arrive. Of each it keeps an object of its own; `Answering` sets its `context`.

    Each call that it hands to `Answering.answer` is ended by one of `reply`, `drop` and a `refuse` that returns True.
    Then, or once the reply has left, the source releases the call's context. A call that cannot be decoded has none.
    """

    @property
    def host(self) -> str:
        """The peer's address, without port."""

    @property
    def results(self) -> BufferShare:
        """Memory for the results of handlers."""

    def reply(self, call: C_contra, reply: Payload) -> bool:
        """Sends the reply; drops it if the connection has ended.

        Returns:
            False if it fits nothing that the call has offered. The requester has been told; it may call again.

        Raises:
            MessageTooLong: it was not sent, and another one may be.
        """

    def refuse(self, call: C_contra) -> bool:
        """Refuses the call in the transport's own way; False: there is none, and nothing was done."""

    def drop(self, call: C_contra) -> None:
        """Sends nothing."""


class Answering:
    """Finds handlers, has each call run where and as often as it may, and gives the connection the reply to send.

    Shared by any number of connections. With `count_calls` it counts the calls in the dispatcher's `statistics`.
    """

    __slots__ = ("_at_most_once", "_count_calls", "dispatcher", "runner")

    def __init__(
        self,
        dispatcher: Dispatcher,
        runner: HandlerRunner,
        at_most_once: AtMostOnce | None = None,
        *,
        count_calls: bool = False,
    ) -> None:
        self.dispatcher = dispatcher
        self._count_calls = count_calls
        self.runner = runner
        self._at_most_once = at_most_once or AtMostOnce(runner)

    def answer(self, stream: Decoder, source: CallSource[C], call: C) -> None:
        """Answers the call whose header `stream` stands at: at once, or when its handler is done."""
        arrived_ns = perf_counter_ns() if self._count_calls else 0
        try:
            opened = self.dispatcher.open_call(stream)
        except ReducedIneligibleItem:
            opened = None
        if isinstance(opened, Invocation):
            call.context = context = ServerCallContext(opened, source.host, source.results, source)
            if arrived_ns:
                context.arrived_ns = arrived_ns
                context.octets = stream.position
            done = functools.partial(self._done, source, call)
            if opened.at_most_once:
                self._at_most_once.run(opened, stream, context, done)
            else:
                self.runner.run(opened, context, done)
        elif opened is not None:
            if arrived_ns:
                counts = self.dispatcher.statistics.of(opened.procedure, opened.status)
                counts.bytes_recv += stream.position
                counts.bytes_sent += opened.length
                counts.add(perf_counter_ns() - arrived_ns)
            source.reply(call, opened)
        elif not source.refuse(call):
            source.drop(call)

    def connection_ended(self, source: CallSource[C]) -> None:
        """Lets go of calls that have not begun; to be called when the connection has ended and has closed `results`."""
        self.runner.connection_ended(source)

    def _done(self, source: CallSource[C], call: C, reply: Payload | Unanswered) -> bool:
        """Sends the reply to a call, or the error that stands for it; False as `CallSource.reply` does."""
        now_ns = perf_counter_ns() if self._count_calls else 0
        sent: Payload | None = None
        taken = True
        if isinstance(reply, Unanswered):
            sent = self._without_reply(source, call, reply)
        else:
            try:
                taken = source.reply(call, reply)
                sent = reply if taken else None
            except MessageTooLong as error:
                self.log_unfit_reply(call, str(error))
                sent = self._fail(source, call, error)
        if now_ns:
            self._count(call.context, now_ns, 0 if sent is None else sent.length)
        return taken

    def _count(self, context: ServerCallContext, now_ns: int, octets: int) -> None:
        """Counts a call that has ended."""
        invocation = context.invocation
        statistics = self.dispatcher.statistics
        counts = None if invocation.status else statistics.successes.get(invocation.procedure)
        if counts is not None and not context.begun_ns:
            counts.note(octets, context.octets, now_ns - context.arrived_ns)
            return
        counts = statistics.of_status(invocation.procedure, invocation.status)
        counts.bytes_sent += octets
        counts.bytes_recv += context.octets
        if context.begun_ns:
            counts.add_parts(context.begun_ns - context.arrived_ns, now_ns - context.begun_ns)
        else:
            counts.add(now_ns - context.arrived_ns)

    def _without_reply(self, source: CallSource[C], call: C, why: Unanswered) -> Payload | None:
        """Ends a call for which no handler has made a reply; returns the reply that was sent all the same."""
        invocation: Invocation = call.context.invocation
        if why is Unanswered.NOT_KEPT:
            invocation.status = REFUSED
            return None if source.refuse(call) else self._fail(source, call, REPLY_NOT_KEPT)
        invocation.status = DROPPED
        source.drop(call)
        return None

    def _fail(self, source: CallSource[C], call: C, error: Exception) -> Payload:
        reply: Payload = call.context.invocation.failure(error)
        source.reply(call, reply)
        return reply

    def log_unfit_reply(self, call: _Arrived, why: str) -> None:
        """Logs that the reply to a call cannot be sent, and the setting that would permit it."""
        self.runner.log_unfit_reply(call.context.invocation, why)
