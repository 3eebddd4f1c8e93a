"""Finds, runs and answers a call that has arrived.

The reply cache keeps calls that must not run twice from a second run: a requester that lost its connection cannot know
whether its calls ran, and sends them again. Such a repeat is answered from the cache, or along with the first call if
that still runs. So is a call that is sent again because its reply was larger than the memory that it had offered.
"""

from __future__ import annotations

import asyncio
import functools
from time import perf_counter_ns

from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import CallSource, ServerCall
from rpcrdma.errors import DecodeError
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.context_turns import Outcome
from rpcrdma.rpc.gss.protection import CallDropped, CallWaits
from rpcrdma.rpc.message import AcceptStat
from rpcrdma.rpc.reply_cache import KnownCall, ReplyCache, call_key, detached
from rpcrdma.xdr.codec import Payload

__all__ = ["Answering", "AtMostOnce"]


class Answering:
    """Looks up the handler of each received call, has it run inline, as a task or in a thread, and sends the reply.

    All connections of a server, or of a client with services, may share the object.

    Args:
        dispatcher: looks up procedures, and verifies and decodes calls, those under RPCSEC_GSS included.
        runner: runs the handlers.
        at_most_once: runs the calls that must not run twice, by means of a reply cache; None: a new `AtMostOnce`.
        count_calls: whether calls are counted in the dispatcher's `statistics`.
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

    def take(self, call: ServerCall, source: CallSource) -> None:
        """Answers a call that has arrived on the connection `source`; does not wait for a handler in a thread or task.

        The reply is sent when the handler has ended; refusals such as PROG_UNAVAIL and GARBAGE_ARGS are sent at once.
        A call with an undecodable header, or with a Read chunk for an argument that must be inline, is refused with
        RDMA_ERROR over RDMA, and left unanswered over TCP; a replay under RPCSEC_GSS is left unanswered. The connection
        stays open in each case. If the call's RPCSEC_GSS context is in use, or the decryption takes long, this method
        returns, and is called again after that. Errors of handlers become error replies and are not raised.
        """
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
            if refused is None and call.route.procedure.named is not None:
                call.procedure = call.route.procedure.named(call.args)
        if refused is not None:
            if call.status == AcceptStat.SYSTEM_ERR.name:
                self.runner.log.out_of_memory(call)
            call.answer(refused)
        elif call.route.at_most_once:
            self._at_most_once.run(call)
        else:
            self.runner.run(call)

    def _take_again(self, call: ServerCall, outcome: Outcome[None]) -> None:
        """Decodes a call again from the first octet of its message, and answers it, after its wait for RPCSEC_GSS.

        The work for which the call waited reports its failure in that second decoding. An exception of the work itself,
        which would be a fault of this side, is raised by `outcome()` and not caught here: the call then stays without
        reply, and holds its memory. The call is dropped if its connection has ended meanwhile.
        """
        outcome()
        call.sent_ns = perf_counter_ns()
        if call.ended:
            call.drop()
        else:
            call.decoder.pos = call.decoder.start
            self.take(call, call.source)


class _Run:
    """One execution of a non-idempotent call, whose reply may be sent to a retransmission of the call.

    `first` is the transmission whose connection and memory the handler uses. `newest` is the last transmission that has
    arrived: it gets the reply, and it runs if `first` is dropped before its handler begins. Without retransmissions
    both are the same call. `known` is the entry in the reply cache of `at_most_once`, the owner.
    """

    __slots__ = ("_at_most_once", "_known", "first", "newest")

    def __init__(self, at_most_once: AtMostOnce, known: KnownCall, call: ServerCall) -> None:
        self._at_most_once = at_most_once
        self._known = known
        self.first = self.newest = call

    def answer(self, reply: Payload) -> None:
        """Stores the handler's reply in the reply cache, and sends it to the newest transmission of the call.

        If the first transmission is not the newest, it ends without a reply. If the reply does not fit the chunks of
        the newest transmission, that one gets an error, and the cache keeps the reply for a later transmission. Without
        memory for a lasting copy of the reply, SYSTEM_ERR is stored and sent in its place.
        """
        first, newest, known = self.first, self.newest, self._known
        first.once = known.context = None
        try:
            lasting = detached(reply)
        except MemoryError as error:
            # The call has run, as where its result finds no memory.
            self._at_most_once.runner.log.out_of_memory(first)
            lasting = reply = first.failure(error)
        cache = self._at_most_once.cache
        cache.finish(known, lasting, self._at_most_once.time())
        if newest is first:
            first.answer(reply)
        else:
            newest.answer(lasting)
            first.drop()
        if newest.sealing:
            newest.on_sealed = functools.partial(self._sealed, lasting)
        elif newest.refusal:
            cache.hold(known, lasting)

    def _sealed(self, reply: Payload, call: ServerCall) -> None:
        if call.refusal:
            self._at_most_once.cache.hold(self._known, reply)

    def join(self, repeat: ServerCall) -> None:
        """Makes `repeat`, a retransmission of the call, the transmission that gets the reply.

        An earlier retransmission ends without a reply now; the first transmission does so when its handler has ended.
        """
        superseded, self.newest = self.newest, repeat
        if superseded is not self.first:
            superseded.drop()

    def let_go(self) -> None:
        """Drops the first transmission, whose connection ended before its handler began, and runs the newest instead.

        If there is no retransmission, nothing runs, and the reply cache forgets the call, so that a later one runs.
        """
        first, newest = self.first, self.newest
        first.once = None
        if newest is first:
            self._at_most_once.cache.forget(self._known)  # a repeat that comes later runs
        else:
            self.first = newest
            newest.once = self
            self._at_most_once.runner.run_unless_ended(newest)
        first.drop()


class AtMostOnce:
    """Runs each non-idempotent call once although it may arrive several times, by means of a reply cache (`cache`).

    As long as the cache has a call, a repeat is recognised by client address, XID, procedure and the octets of the
    message, credential included; under RPCSEC_GSS by the principal and the octets of the arguments in place of these.
    All connections of a server share the object; `runner` runs the handlers.
    """

    def __init__(self, runner: HandlerRunner) -> None:
        self.time = asyncio.get_running_loop().time
        self.runner = runner
        self.cache = ReplyCache()

    def run(self, call: ServerCall) -> None:
        """Runs the handler of a new call; answers a repeat of an earlier call from the reply cache.

        If the handler of the first transmission has not ended, the repeat gets the reply in place of the first. A
        repeat whose reply is no longer kept is refused (`ServerCall.refuse`).
        """
        protection = call.protection
        if protection is not None:
            client = f"{call.peer} {call.principal}"
            key = call_key(client, call.xid, call.route.procedure, protection.arguments, protection.skipped)
        else:
            key = call_key(call.peer, call.xid, call.route.procedure, call.decoder)
        known = self.cache.find(key, self.time())
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
            if call.sealing:
                call.on_sealed = functools.partial(self._repeated, known, reply)
            else:
                self._repeated(known, reply, call)

    def _repeated(self, known: KnownCall, reply: Payload, call: ServerCall) -> None:
        if call.refusal:
            self.cache.hold(known, reply)
        else:
            self.cache.sent(known)
