"""The server's side of RPCSEC_GSS: contexts by handle, calls checked and replies protected (RFC 2203 section 5.3.3).

A call that makes a context has two parts: `ContextCreation.step`, which may block and touches nothing that is shared,
and `protect`, which takes its outcome into the table. Until its last token a context is being made, and nothing about
its maker is proved. A finished context belongs to its principal, and is good on every connection.

A call of a context passes these checks, the first that fails decides: handle, age, checksum of the header, sequence
number, window, and for the arguments the checksum of the body and its sequence number. Octets that fail a check before
that of the window change nothing. A call whose context is in use waits before the first checksum, and one with a long
body after the check of the window.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.limits import (
    GSS_ADDRESS_CREATING_MAX,
    GSS_CONTEXTS_MAX,
    GSS_CREATING_MAX,
    GSS_CREATION_S,
    GSS_IDLE_S,
    GSS_PRINCIPAL_CONTEXTS_MAX,
    GSS_WINDOW,
)
from rpcrdma.rpc.auth import AuthFlavor, AuthGss, AuthNone, AuthStat, Credential, LocalUser
from rpcrdma.rpc.gss.bodies import ACCEPT_STAT_AT, SealedBody, body_octets_max, decode_body, protected_reply
from rpcrdma.rpc.gss.context_turns import ContextTurns, InThread, Outcome, outcome_of
from rpcrdma.rpc.gss.flavors import GssService, SecurityFlavor
from rpcrdma.rpc.gss.mechanism import GssContext, GssFailure, GssMajor, GssMechanism
from rpcrdma.rpc.gss.messages import (
    GSS_VERSION,
    SEQUENCE_MAX,
    GssCredential,
    GssProcedure,
    InitResult,
    decode_gss_credential,
    decode_token,
    encode_init_result,
    encode_token,
)
from rpcrdma.rpc.gss.protection import CallDropped, CallWaits, CredentialRefused
from rpcrdma.rpc.gss.window import SequenceWindow
from rpcrdma.rpc.host_shares import network_of
from rpcrdma.rpc.message import AcceptStat, CallHeader, encode_auth_error
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import in_worker
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, padding

__all__ = ["Acceptor", "ContextCreation", "GssCall", "OpenedCall"]

_FLAVORS: Final = {flavor.service: flavor for flavor in SecurityFlavor}
_SERVICES: Final = frozenset(GssService)
_NOBODY: Final = AuthNone()
_CREATING: Final = frozenset({GssProcedure.INIT, GssProcedure.CONTINUE_INIT})
_HANDLE_OCTETS: Final = 16
"""A handle that no other client guesses."""


class _Context:
    """An RPCSEC_GSS context of the client at `peer`, begun at `now_s` (the first `used_s`); `turns` orders its uses.

    Until `finish`, `principal` is "" and `credentials` is empty; afterwards `credentials` has one for each service.
    `expires_s` is the time at which the mechanism ends the context: None before `finish`, and if there is no such time.
    """

    __slots__ = ("credentials", "expires_s", "gss", "handle", "peer", "principal", "turns", "used_s", "window")

    def __init__(self, gss: GssContext, handle: bytes, peer: str, now_s: float, in_thread: InThread | None) -> None:
        self.gss = gss
        self.turns = ContextTurns(in_thread)
        self.handle = handle
        self.peer = peer
        self.used_s = now_s
        """The time at which the context was last used or finished; before, the time at which its creation began."""
        self.window = SequenceWindow(GSS_WINDOW)
        self.principal = ""
        self.expires_s: float | None = None
        self.credentials: dict[GssService, AuthGss] = {}

    def finish(self, principal: str, user: LocalUser | None, expires_s: float | None) -> None:
        self.principal = principal
        self.expires_s = expires_s
        for service in GssService:
            self.credentials[service] = AuthGss(principal=principal, flavor=_FLAVORS[service], user=user)


class GssCall:
    """A call under a finished RPCSEC_GSS context with a verified header; `Acceptor.open` makes it.

    `credential` is the caller. The decoder `arguments` is positioned at the arguments, `skipped` octets behind its
    start: behind the header or, once `open` has removed protection, behind the sequence number. `turns` are those of
    the context: callers have `turns.use` run `protect`, in a thread if the reply is long.

    Args:
        acceptor: the acceptor, which ends the context if the call destroys it.
        context: the context of the call.
        sent: the credential of the call.
        mic_octets: octets of the checksum in the call's verifier; that of the reply is as long.
        decoder: the call's decoder, behind the header.
    """

    __slots__ = (
        "_acceptor", "_body", "_context", "_ends", "_mic_octets", "_opened", "_sequence", "_service", "_wrap_octets",
        "arguments", "credential", "skipped", "turns",
    )  # fmt: skip

    makes_context: ClassVar = None
    """The procedure and the handler that answer a call that makes a context; None for other calls."""

    def __init__(
        self, acceptor: Acceptor, context: _Context, sent: GssCredential, mic_octets: int, decoder: Decoder
    ) -> None:
        self._acceptor = acceptor
        # The two ends of a context protect alike: what the client has added tells what this end adds. Linux offers
        # memory for a reply to the octet.
        self._mic_octets = mic_octets
        self._wrap_octets = acceptor.mechanism.wrap_octets_max
        self._context = context
        self._sequence = sent.sequence
        self._service = GssService(sent.service)
        self._ends = sent.procedure == GssProcedure.DESTROY
        self.credential: Credential = context.credentials[self._service]
        self.turns = context.turns
        self.arguments = decoder
        self.skipped = decoder.pos - decoder.start
        self._body: SealedBody | None = None
        self._opened: Outcome[bytes] | None = None

    def open(self) -> None:
        """Removes the protection, if there is any: `arguments` becomes the decoder of the plain arguments.

        Raises:
            CallWaits: the work takes long or the context is in use; pass the exception's `work` to the exception's
                `turns.use`, and call this again when that is done.
            ReducedIneligibleItem: the protected body is whole, but a chunk came with it.
            DecodeError: the body does not decode (part of it may be in a chunk), was changed, or has another call's
                sequence number; or the context has ended.
        """
        if self._service is GssService.NONE or self._ends:
            return
        if self._body is None:
            self._body = decode_body(self.arguments, self._service)
            octets = len(self._body.data)
            if self.turns.postpones(octets):
                raise CallWaits(self.turns, self._open_body, octets)
            self._open_body()
        assert self._opened is not None
        try:
            data = self._opened()
        except GssFailure as failure:
            offset = self.arguments.pos - self.arguments.start
            raise DecodeError(
                "databody", offset, "what its sender has sealed", str(failure), rfc="2203 5.3.3.4.2"
            ) from None
        self._wrap_octets = len(self._body.data) - len(data)
        self.arguments = inner = Decoder(data)
        inner.pos = self.skipped = 4

    def _open_body(self) -> None:
        assert self._body is not None
        self._opened = outcome_of(functools.partial(self._body.open, self._context.gss, self._sequence))

    @property
    def seals(self) -> bool:
        """Whether `protect` joins results and bulk items to one body: under integrity or privacy, not for DESTROY."""
        return self._service is not GssService.NONE and not self._ends

    def content_octets_max(self, octets: int) -> int:
        """Returns the most octets of a whole reply that `protect` makes at most `octets` long; < 0: none fits."""
        mic_octets = self._mic_octets
        service = self._service if self.seals else GssService.NONE
        # Content is XDR, and so needs no padding.
        added = body_octets_max(service, 0, mic_octets, self._wrap_octets)
        return octets - mic_octets - padding(mic_octets) - added

    def octets_sealed(self, reply: Payload) -> int:
        """Returns the octets that `protect` has to checksum or encrypt: those of the whole reply if `seals`, else 0."""
        return reply.length if self.seals else 0

    def protect(self, reply: Payload) -> Payload:
        """Returns the reply with its verifier, and with its results protected by the call's service.

        Removes the context from the acceptor if the call is DESTROY. If the mechanism fails, as when the context has
        expired meanwhile, the result is a denial with RPCSEC_GSS_CTXPROBLEM. A denied reply is returned unchanged.
        Raises MemoryError if there is no memory for the protected reply.
        """
        if self._ends:
            self._acceptor.end(self._context.handle)
        try:
            service = GssService.NONE if self._ends else self._service
            return protected_reply(reply, self._context.gss, service, self._sequence)
        except GssFailure:
            # The context has ended meanwhile. The client makes another one and repeats the call.
            return _refused(reply, AuthStat.RPCSEC_GSS_CTXPROBLEM)


class ContextCreation:
    """A call that begins or continues the set-up of an RPCSEC_GSS context; `Acceptor.open` returns this object.

    The handler calls `step`, which may run in any thread; `protect` then enters the context into the acceptor's table.

    Args:
        acceptor: the acceptor.
        context: the unfinished context to continue; None: a new one.
        handle: the handle of the context.
        peer: the client's address.
        now_s: the time at which the call is opened, in seconds of the acceptor's clock.
        decoder: the call's decoder, behind the header.
    """

    __slots__ = (
        "_acceptor", "_context", "_expires_s", "_failure", "_finished", "_handle", "_now_s", "_peer", "_principal",
        "_user", "arguments", "credential", "makes_context", "skipped", "turns",
    )  # fmt: skip

    def __init__(
        self, acceptor: Acceptor, context: _Context | None, handle: bytes, peer: str, now_s: float, decoder: Decoder
    ) -> None:
        self.credential: Credential = _NOBODY
        self.makes_context = _MAKE_CONTEXT, _make_context
        self.turns = ContextTurns()
        self.arguments = decoder
        self.skipped = decoder.pos - decoder.start
        self._acceptor = acceptor
        self._context = context
        self._handle = handle
        self._peer = peer
        self._now_s = now_s
        self._failure: GssFailure | None = None
        self._finished = False
        self._principal = ""
        self._user: LocalUser | None = None
        self._expires_s: float | None = None

    def open(self) -> None:
        """Does nothing: the token is not protected."""

    seals: ClassVar = False

    def content_octets_max(self, octets: int) -> int:
        """Returns `octets` and leaves out the verifier: the handler that makes contexts does not use this limit."""
        return octets

    def octets_sealed(self, _reply: Payload) -> int:
        """Returns 0: nothing in the reply is checksummed or encrypted as a body."""
        return 0

    def step(self, token: bytes) -> InitResult:
        """Passes the client's token to the mechanism; returns rpc_gss_init_res, also if the mechanism refuses.

        May block, and may run in any thread. The acceptor's contexts do not change before `protect`.
        """
        acceptor = self._acceptor
        try:
            if self._context is None:
                gss = acceptor.mechanism.accept()
                self._context = _Context(gss, self._handle, self._peer, self._now_s, acceptor.in_thread_for(self._peer))
            context = self._context
            answer = context.gss.step(token) or b""
            if not context.gss.complete:
                return InitResult(context.handle, GssMajor.CONTINUE_NEEDED, 0, context.window.size, answer)
            self._principal, self._user = context.gss.principal, context.gss.user
            lifetime_s = context.gss.lifetime_s
            self._expires_s = None if lifetime_s is None else self._now_s + lifetime_s
        except GssFailure as failure:
            self._failure = failure
            return InitResult(b"", failure.major, failure.minor, 0, failure.token)
        self._finished = True
        return InitResult(context.handle, GssMajor.COMPLETE, 0, context.window.size, answer)

    def protect(self, reply: Payload) -> Payload:
        """Enters the context of `step` in the acceptor, and returns the reply to send to the client.

        The acceptor keeps a finished context for calls, and calls `on_made`; it keeps an unfinished context for the
        next token. The reply of a finished context gets a verifier; others are returned unchanged. No context is
        entered if the reply is not SUCCESS, if `step` failed, or if the new context has expired already, for which the
        result is a denial with RPCSEC_GSS_CTXPROBLEM; `Acceptor.on_failure` reports the last two.
        """
        context, acceptor = self._context, self._acceptor
        if self._failure is not None:
            acceptor.on_failure(self._peer, self._failure)
            return reply
        if context is None or int.from_bytes(reply.reduced[ACCEPT_STAT_AT:][:4], "big") != AcceptStat.SUCCESS:
            return reply
        if not self._finished:
            acceptor.wait_for_token(context)
            return reply
        try:
            reply = protected_reply(reply, context.gss, GssService.NONE, context.window.size)
        except GssFailure as failure:
            acceptor.on_failure(self._peer, failure)
            return _refused(reply, AuthStat.RPCSEC_GSS_CTXPROBLEM)
        context.finish(self._principal, self._user, self._expires_s)
        acceptor.keep(context)
        return reply


_MAKE_CONTEXT: Final[Procedure[bytes, Any]] = Procedure(
    program=0,
    version=0,
    number=0,
    name="RPCSEC_GSS_INIT",
    method="make_context",
    encode_args=encode_token,
    decode_args=decode_token,
    encode_result=encode_init_result,
    decode_result=lambda _dec: None,
)


@in_worker
def _make_context(token: bytes, context: Any) -> InitResult:
    """Passes `token` to the RPCSEC_GSS context that the call `context` makes or continues; returns the result."""
    creation: ContextCreation = context.protection
    return creation.step(token)


OpenedCall: TypeAlias = GssCall | ContextCreation
"""A call under RPCSEC_GSS at the server, whose header passed all checks."""


class Acceptor:
    """Keeps the RPCSEC_GSS contexts of a server's clients, for all its connections, and opens the calls under them.

    Args:
        mechanism: makes the server's ends of contexts.
        clock: returns seconds that never decrease.
        random_octets: returns the given number of random octets, for handles.
        on_failure: called with the client's address and the reason when a context could not be made.
        on_made: called with the client's address and its principal when a context was made.
        contexts_max: the most finished contexts; beyond it the least recently used one ends.
        principal_contexts_max: the same for each principal, of whose contexts the least recently used one ends.
        in_thread: called as `in_thread(address, work, done)`: runs `work` in a thread for the client, then `done` with
            its result in the event loop. None: all uses of contexts run in the event loop.
    """

    def __init__(
        self,
        mechanism: GssMechanism,
        *,
        clock: Callable[[], float],
        random_octets: Callable[[int], bytes],
        on_failure: Callable[[str, GssFailure], None] = lambda _peer, _failure: None,
        on_made: Callable[[str, str], None] = lambda _peer, _principal: None,
        contexts_max: int = GSS_CONTEXTS_MAX,
        principal_contexts_max: int = GSS_PRINCIPAL_CONTEXTS_MAX,
        in_thread: Callable[[str, Callable[[], Any], Callable[[Any], None]], None] | None = None,
    ) -> None:
        self.mechanism = mechanism
        self._in_thread = in_thread
        self._clock = clock
        self._random_octets = random_octets
        self.on_failure = on_failure
        self._on_made = on_made
        self._contexts_max = contexts_max
        self._principal_contexts_max = principal_contexts_max
        # Both in the order of use, the oldest first. A further token is a use, but gives its context no more time.
        self._contexts: OrderedDict[bytes, _Context] = OrderedDict()
        self._creating: OrderedDict[bytes, _Context] = OrderedDict()
        self._held_at_most: Counter[str] = Counter()
        """For each principal a number that is at least that of its finished contexts."""

    def in_thread_for(self, peer: str) -> InThread | None:
        """Returns a function `run(work, done)` for contexts of the client at `peer`; None if no threads are used.

        `run` calls `work` in a thread, then `done` with the result of `work` in the event loop.
        """
        return None if self._in_thread is None else functools.partial(self._in_thread, peer)

    def __len__(self) -> int:
        """Returns the number of contexts, including those that wait for a token."""
        return len(self._contexts) + len(self._creating)

    def open(self, header: CallHeader, signed: bytes, decoder: Decoder, peer: str) -> OpenedCall:
        """Checks the header of a call under RPCSEC_GSS (RFC 2203 section 5.3.3.1).

        Args:
            header: the decoded header.
            signed: the octets of the header up to the credential's end, which the verifier covers.
            decoder: the call's decoder, behind the header.
            peer: the client's address.

        Returns:
            A `GssCall`, under a finished context: its sequence number is now used up (an exception uses up none); or a
            `ContextCreation`, which makes a context or continues one.

        Raises:
            CredentialRefused: a check has failed; a context that is too old is removed by that.
            CallDropped: the sequence number was used before, or is below the window.
            CallWaits: a thread uses the context; pass the exception's `work` to the exception's `turns.use`, and call
                this again when that is done.
        """
        try:
            sent = decode_gss_credential(header.credential.body)
        except DecodeError:
            raise CredentialRefused(AuthStat.AUTH_BADCRED) from None
        if sent.version != GSS_VERSION:
            creating = sent.procedure in _CREATING
            raise CredentialRefused(AuthStat.AUTH_REJECTEDCRED if creating else AuthStat.AUTH_BADCRED)
        if sent.procedure in _CREATING:
            return self._create(header, sent, peer, decoder)
        if sent.procedure not in {GssProcedure.DATA, GssProcedure.DESTROY} or sent.service not in _SERVICES:
            raise CredentialRefused(AuthStat.AUTH_BADCRED)
        if sent.procedure == GssProcedure.DESTROY and header.procedure:
            raise CredentialRefused(AuthStat.AUTH_BADCRED)
        context = self._verified(header, sent, signed)
        if sent.sequence >= SEQUENCE_MAX:
            raise CredentialRefused(AuthStat.RPCSEC_GSS_CTXPROBLEM)
        if not context.window.take(sent.sequence):
            raise CallDropped
        context.used_s = self._clock()
        self._contexts.move_to_end(context.handle)
        return GssCall(self, context, sent, len(header.verifier.body), decoder)

    def _verified(self, header: CallHeader, sent: GssCredential, signed: bytes) -> _Context:
        context = self._contexts.get(sent.handle)
        if context is None:
            raise CredentialRefused(AuthStat.RPCSEC_GSS_CREDPROBLEM)
        now_s = self._clock()
        if context.expires_s is not None and now_s >= context.expires_s:
            del self._contexts[sent.handle]
            raise CredentialRefused(AuthStat.RPCSEC_GSS_CTXPROBLEM)
        if now_s >= context.used_s + GSS_IDLE_S:
            del self._contexts[sent.handle]
            raise CredentialRefused(AuthStat.RPCSEC_GSS_CREDPROBLEM)
        if header.verifier.flavor != AuthFlavor.RPCSEC_GSS:
            raise CredentialRefused(AuthStat.AUTH_BADVERF)
        if context.turns.taken:
            raise CallWaits(context.turns, lambda: None, 0)
        try:
            context.gss.verify(signed, header.verifier.body)
        except GssFailure as failure:
            ended = failure.major == GssMajor.CONTEXT_EXPIRED
            problem = AuthStat.RPCSEC_GSS_CTXPROBLEM if ended else AuthStat.RPCSEC_GSS_CREDPROBLEM
            raise CredentialRefused(problem) from None
        return context

    def _create(self, header: CallHeader, sent: GssCredential, peer: str, decoder: Decoder) -> ContextCreation:
        if header.procedure:
            raise CredentialRefused(AuthStat.AUTH_BADCRED)
        if header.verifier.flavor != AuthFlavor.AUTH_NONE:
            raise CredentialRefused(AuthStat.AUTH_BADVERF)
        now_s = self._clock()
        self._expire(now_s)
        if sent.procedure == GssProcedure.INIT:
            return ContextCreation(self, None, self._random_octets(_HANDLE_OCTETS), peer, now_s, decoder)
        # While the token is looked at, no other call finds the context.
        context = self._creating.pop(sent.handle, None)
        if context is None:
            raise CredentialRefused(AuthStat.RPCSEC_GSS_CREDPROBLEM)
        return ContextCreation(self, context, sent.handle, peer, now_s, decoder)

    def _expire(self, now_s: float) -> None:
        for context in [each for each in self._creating.values() if now_s >= each.used_s + GSS_CREATION_S]:
            del self._creating[context.handle]
        while self._contexts and now_s >= next(iter(self._contexts.values())).used_s + GSS_IDLE_S:
            self._contexts.popitem(last=False)

    def wait_for_token(self, context: _Context) -> None:
        """Keeps an unfinished context for its next token.

        If its host (IPv6: network of 64 bits) or all hosts then have too many of them, the oldest of these ends.
        """
        creating, host = self._creating, network_of(context.peer)
        creating[context.handle] = context
        own = [other.handle for other in creating.values() if network_of(other.peer) == host]
        if len(own) > GSS_ADDRESS_CREATING_MAX:
            del creating[own[0]]
        if len(creating) > GSS_CREATING_MAX:
            creating.popitem(last=False)

    def keep(self, context: _Context) -> None:
        """Keeps a finished context and calls `on_made`; over a bound of `Acceptor` the least recently used one ends."""
        contexts, context.used_s = self._contexts, self._clock()
        contexts[context.handle] = context
        held, most, principal = self._held_at_most, self._principal_contexts_max, context.principal
        held[principal] += 1
        if held[principal] > most:
            own = [other.handle for other in contexts.values() if other.principal == principal]
            if len(own) > most:
                del contexts[own[0]]
            held[principal] = min(len(own), most)
        if len(contexts) > self._contexts_max:
            contexts.popitem(last=False)
        if len(held) > 2 * self._contexts_max:
            self._held_at_most = Counter(other.principal for other in contexts.values())
        self._on_made(context.peer, context.principal)

    def end(self, handle: bytes) -> None:
        """Removes the finished context with this handle, and no unfinished one; no effect if there is none."""
        self._contexts.pop(handle, None)

    def close(self) -> None:
        """Removes all contexts: this thread frees them, not one of a user who may not read the mechanism's files."""
        self._contexts.clear()
        self._creating.clear()


def _refused(reply: Payload, stat: AuthStat) -> Payload:
    enc = Encoder()
    encode_auth_error(enc, int.from_bytes(reply.reduced[:4], "big"), stat)
    return enc
