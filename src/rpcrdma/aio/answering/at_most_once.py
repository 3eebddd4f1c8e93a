"""Stands before the runner for calls that must not run twice.

A requester that lost its connection cannot know whether its calls ran, and asks again. Such a repeat is answered from
the cache, or along with the first call if that still runs. So is a call that is sent again because its reply was larger
than the memory that it had offered. Calls of procedures that a service declares idempotent go straight to the runner.
"""

from __future__ import annotations

import asyncio

from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.rpc.reply_cache import KnownCall, ReplyCache, ReplyCacheConfig, call_key, detached
from rpcrdma.xdr.codec import Payload

__all__ = ["AtMostOnce"]


class _Run:
    """The run of a handler; implements `OneRun`.

    `first` is the call whose connection and memory the handler uses, `newest` the last repeat of it, which gets the
    reply and is run should the first be let go; without repeats both are the same.
    """

    __slots__ = ("_at_most_once", "_known", "first", "newest")

    def __init__(self, at_most_once: AtMostOnce, known: KnownCall, call: ServerCall) -> None:
        self._at_most_once = at_most_once
        self._known = known
        self.first = self.newest = call

    def answer(self, reply: Payload) -> None:
        first, newest, known = self.first, self.newest, self._known
        first.once = known.context = None
        lasting = detached(reply)
        self._at_most_once.finish(known, lasting)
        if newest is first:
            first.answer(reply)
        else:
            newest.answer(lasting)
            first.drop()
        if newest.refusal:
            self._at_most_once.cache.hold(known, lasting)

    def join(self, repeat: ServerCall) -> None:
        superseded, self.newest = self.newest, repeat
        if superseded is not self.first:
            superseded.drop()

    def let_go(self) -> None:
        first, newest = self.first, self.newest
        first.once = None
        if newest is first:
            # One that comes later runs.
            self._at_most_once.cache.forget(self._known)
        else:
            self.first = newest
            newest.once = self
            self._at_most_once.runner.run_unless_ended(newest)
        first.drop()


class AtMostOnce:
    """Runs each call once, however often it comes; shared by all connections of a server."""

    def __init__(self, runner: HandlerRunner, config: ReplyCacheConfig | None = None) -> None:
        self._time = asyncio.get_running_loop().time
        self.runner = runner
        self.cache = ReplyCache(config)

    def run(self, call: ServerCall) -> None:
        """Runs the handler, unless it runs or has run; the call ends as by `HandlerRunner.run`, or is refused."""
        key = call_key(call.peer, call.xid, call.route.procedure, call.decoder)
        known = self.cache.find(key, self._time())
        if known is None:
            known = self.cache.begin(key)
            known.context = call.once = _Run(self, known, call)
            self.runner.run(call)
        elif known.running:
            known.context.join(call)
        else:
            reply = self.cache.held(known)
            if reply is None:
                call.refuse()
                return
            call.answer(reply)
            if call.refusal:
                self.cache.hold(known, reply)
            else:
                self.cache.sent(known)

    def finish(self, known: KnownCall, reply: Payload) -> None:
        """Keeps the reply to a call that has run."""
        self.cache.finish(known, reply, self._time())
