"""Stands before the runner for calls that must not run twice.

A requester that lost its connection cannot know whether its calls ran, and asks again. Such a repeat is answered from
the cache, or along with the first call if that still runs. Calls of procedures that a service declares idempotent
need none of this and go straight to the runner.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.aio.answering.call_context import ServerCallContext
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.dispatch import Invocation
from rpcrdma.rpc.reply_cache import KnownCall, ReplyCache, ReplyCacheConfig, call_key, detached
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["REPLY_NOT_KEPT", "Answer", "AtMostOnce", "Unanswered"]


class Unanswered(enum.Enum):
    """Why a call gets no reply."""

    SUPERSEDED = "superseded"
    """A repeat of it has come meanwhile, which gets the reply: this call is dropped."""
    NOT_KEPT = "not kept"
    """It is the repeat of a call whose reply is no longer kept: refused in the transport's way (RFC 8166 section 4.5.3:
    ERR_CHUNK), lest the requester go on repeating it."""


REPLY_NOT_KEPT = RuntimeError("the reply to the call that this one repeats is not kept")
"""What a refused repeat is answered with where the transport has no refusal of its own."""

Answer: TypeAlias = Callable[[Payload | Unanswered], None]


class _Asking:
    """Who waits for a running call: the memory of the `first` is in use until then, the `newest` gets the reply."""

    __slots__ = ("first", "newest")

    def __init__(self, answer: Answer) -> None:
        self.first = answer
        self.newest = answer


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
        credential = invocation.credential
        stamped = isinstance(credential, AuthSys) and credential.stamp != 0
        key = call_key(context.peer, invocation.xid, invocation.procedure, stream, stamped=stamped)
        known = self.cache.find(key, self._time())
        if known is None:
            call = self.cache.begin(key)
            call.context = _Asking(answer)
            self._runner.run(invocation, context, functools.partial(self._done, call))
        elif known.running:
            asking: _Asking = known.context
            superseded, asking.newest = asking.newest, answer
            if superseded is not asking.first:
                superseded(Unanswered.SUPERSEDED)
        else:
            answer(Unanswered.NOT_KEPT if known.reply is None else known.reply)

    def _done(self, call: KnownCall, reply: Payload) -> None:
        asking: _Asking = call.context
        call.context = None
        lasting = detached(reply)
        self.cache.finish(call, lasting, self._time())
        if asking.newest is asking.first:
            asking.first(reply)
        else:
            asking.newest(lasting)
            asking.first(Unanswered.SUPERSEDED)
