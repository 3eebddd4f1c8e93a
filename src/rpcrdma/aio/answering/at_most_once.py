"""Stands before the runner for calls that must not run twice.

A requester that lost its connection cannot know whether its calls ran, and asks again. Such a repeat is answered from
the cache, or along with the first call if that still runs. So is a call that is sent again because its reply was larger
than what it had offered. Calls of procedures that a service declares idempotent
need none of this and go straight to the runner.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.aio.answering.call_context import ServerCallContext
from rpcrdma.aio.answering.handler_runner import HandlerRunner, Unanswered
from rpcrdma.rpc.dispatch import Invocation
from rpcrdma.rpc.reply_cache import KnownCall, ReplyCache, ReplyCacheConfig, call_key, detached
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["REPLY_NOT_KEPT", "AtMostOnce"]


Answer: TypeAlias = Callable[[Payload | Unanswered], bool]
"""As `Done`; False: the reply fits nothing that the call has offered, and the requester has been told so."""

REPLY_NOT_KEPT = RuntimeError("the reply to the call that this one repeats is not kept")
"""The error that a refused repeat gets where the transport has no refusal of its own."""


class _Asking:
    """The connections that a running call came on: `first`, whose memory its handler uses, and that of the last repeat.

    `newest` gets the reply. `repeat` is the last repeat, to be run should the first be let go; None without repeats.
    """

    __slots__ = ("first", "newest", "repeat")

    def __init__(self, answer: Answer) -> None:
        self.first = answer
        self.newest = answer
        self.repeat: tuple[Invocation, ServerCallContext] | None = None


class AtMostOnce:
    """Runs each call once, however often it comes; shared by all connections of a server."""

    def __init__(self, runner: HandlerRunner, config: ReplyCacheConfig | None = None) -> None:
        self._time = asyncio.get_running_loop().time
        self._runner = runner
        self.cache = ReplyCache(config)

    def run(self, invocation: Invocation, stream: Decoder, context: ServerCallContext, answer: Answer) -> None:
        """Runs the handler, unless it runs or has run; calls `answer` exactly once, as `HandlerRunner.run` does.

        `stream` is the decoder that `invocation` was opened from.
        """
        key = call_key(context.peer, invocation.xid, invocation.procedure, stream)
        known = self.cache.find(key, self._time())
        if known is None:
            call = self.cache.begin(key)
            call.context = _Asking(answer)
            self._runner.run(invocation, context, functools.partial(self._done, call))
        elif known.running:
            asking: _Asking = known.context
            superseded, asking.newest = asking.newest, answer
            asking.repeat = invocation, context
            if superseded is not asking.first:
                superseded(Unanswered.SUPERSEDED)
        else:
            reply = self.cache.held(known)
            if reply is None:
                answer(Unanswered.NOT_KEPT)
            elif answer(reply):
                self.cache.sent(known)
            else:
                self.cache.hold(known, reply)

    def _done(self, call: KnownCall, reply: Payload | Unanswered) -> None:
        asking: _Asking = call.context
        if isinstance(reply, Unanswered):
            self._let_go(call, asking)
            return
        call.context = None
        lasting = detached(reply)
        self.cache.finish(call, lasting, self._time())
        if asking.newest is asking.first:
            sent = asking.first(reply)
        else:
            sent = asking.newest(lasting)
            asking.first(Unanswered.SUPERSEDED)
        if not sent:
            self.cache.hold(call, lasting)

    def _let_go(self, call: KnownCall, asking: _Asking) -> None:
        """The connection of the first ended before its handler began: the repeat is run in its place, if there is one.

        Without a repeat the call is forgotten, so that one that comes later runs.
        """
        first = asking.first
        if asking.repeat is None:
            self.cache.forget(call)
            first(Unanswered.LET_GO)
            return
        (invocation, context), asking.repeat = asking.repeat, None
        asking.first = asking.newest
        self._runner.run_unless_ended(invocation, context, functools.partial(self._done, call))
        first(Unanswered.SUPERSEDED)
