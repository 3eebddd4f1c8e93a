"""From a call that has arrived to its handler: the call is opened, and runs as often as it may."""

from __future__ import annotations

import functools
from time import perf_counter_ns

from rpcrdma.aio.answering.at_most_once import AtMostOnce
from rpcrdma.aio.answering.call_source import CallSource
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import DecodeError
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.context_turns import Outcome
from rpcrdma.rpc.gss.protection import CallDropped, CallWaits

__all__ = ["Answering"]


class Answering:
    """Finds handlers, and has each call run where and as often as it may.

    Shared by any number of connections. With `count_calls` calls are counted in the dispatcher's `statistics`.
    """

    __slots__ = ("_at_most_once", "_statistics", "dispatcher", "runner")

    def __init__(
        self,
        dispatcher: Dispatcher,
        runner: HandlerRunner,
        at_most_once: AtMostOnce | None = None,
        *,
        count_calls: bool = False,
    ) -> None:
        self.dispatcher = dispatcher
        self._statistics = dispatcher.statistics if count_calls else None
        self.runner = runner
        self._at_most_once = at_most_once or AtMostOnce(runner)

    def take(self, call: ServerCall, source: CallSource[ServerCall]) -> None:
        """Answers a call that has arrived on `source`: at once, or when its handler is done."""
        call.source, call.client = source, source.client
        if self._statistics is not None and call.statistics is None:
            call.statistics = self._statistics
            call.began_ns = call.sent_ns = perf_counter_ns()
        try:
            refused = self.dispatcher.open_call(call)
        except DecodeError:
            if not source.refuse(call):
                source.drop(call)
            return
        except CallDropped:
            call.drop()
            return
        except CallWaits as wait:
            wait.turns.use(wait.work, functools.partial(self._take_again, call), octets=wait.octets)
            return
        if call.statistics is not None:
            call.octets_received = call.decoder.position
        if refused is not None:
            call.answer(refused)
        elif call.route.at_most_once:
            self._at_most_once.run(call)
        else:
            self.runner.run(call)

    def _take_again(self, call: ServerCall, outcome: Outcome[None]) -> None:
        """Goes on with a call that has waited for its context."""
        outcome()
        if call.ended:
            call.drop()
        else:
            call.decoder.pos = call.decoder.start
            self.take(call, call.source)
