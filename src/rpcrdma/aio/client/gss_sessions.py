"""A client's RPCSEC_GSS contexts: made when first needed, renewed before they expire, destroyed at the end.

A context belongs to the client's principal and outlives the connection on which it was made. A server that has lost or
ended it gets a new one, and the call once more (OR-13).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rpcrdma.aio.client.reconnecting import SingleConnection
from rpcrdma.aio.security_options import Kerberos
from rpcrdma.errors import (
    AuthError,
    RemoteProtocolError,
    RpcError,
    RpcRdmaError,
    TransportClosed,
    UserAuthenticationFailed,
)
from rpcrdma.rpc.auth import AuthStat
from rpcrdma.rpc.calling import XidSource
from rpcrdma.rpc.gss.context_turns import ContextTurns, Outcome
from rpcrdma.rpc.gss.flavors import GssService
from rpcrdma.rpc.gss.initiator import ContextCall, GssSession, ProtectedCall, UnopenedReply, check_verifier
from rpcrdma.rpc.gss.mechanism import GssFailure, GssMajor, GssMechanism
from rpcrdma.rpc.program import null_procedure
from rpcrdma.transport import Call

__all__ = ["GssSessions"]

T = TypeVar("T")

_LOGGER = logging.getLogger("rpcrdma.client")
_AGAIN = frozenset({AuthStat.RPCSEC_GSS_CREDPROBLEM, AuthStat.RPCSEC_GSS_CTXPROBLEM})
_TOKENS_MAX = 8
"""Tokens of the client for one context: Kerberos has one, the longest mechanisms in use four."""
_RENEW_PART = 0.1
"""The part of a context's lifetime that is left when it is renewed: an hour for a ticket of ten hours."""
_RENEW_AGAIN_S = 10.0
"""How long a context that still lives is used after it could not be renewed, before that is tried again."""
_DESTROY_S = 1.0
"""How long the end of a connection waits for the end of its context: no data depends on that."""


class GssSessions:
    """The RPCSEC_GSS contexts of one `Connection`: made at the first call, renewed in time; `close` destroys the last.

    `start` makes a call under the present context. `host` is the server's name, unless `kerberos.host` has another.
    `xids` numbers the calls that make and end contexts.
    """

    def __init__(self, kerberos: Kerberos, host: str, xids: XidSource) -> None:
        self._kerberos = kerberos
        self._service = kerberos.security.service or GssService.NONE
        self._host = kerberos.host or host
        self._xids = xids
        self._loop = asyncio.get_running_loop()
        self._mechanism: GssMechanism | None = None
        self._session: GssSession | None = None
        self._program = 0, 0
        self._renew_s: float | None = None
        self._ends_s: float | None = None
        self._making: asyncio.Task[GssSession] | None = None
        self._making_over: SingleConnection | None = None
        """The connection over which a context is being made."""
        self.principal: str | None = None
        """The client's principal; None before a context has been made."""

    async def start(self, call: Call, connection: SingleConnection) -> Any:
        """Makes a call under the present RPCSEC_GSS context on `connection`, and returns its decoded result.

        If there is no usable context, or the present one is due for renewal, a context is made first; one that is still
        valid stays in use if no new one can be made. The call is sent once more with a new context if it fails with a
        `GssFailure` (the mechanism fails, or the reply is not protected as it should be), or with an `AuthError` by
        which the server says that it does not know the context.

        Raises:
            UserAuthenticationFailed: no context can be made, or the second attempt ended with a `GssFailure`.
            AuthError: the server refuses the call for another reason, or the second time.
            RpcRdmaError: any other error of calls on a connection.
        """
        again = False
        while True:
            session = self._session
            if session is None or session.exhausted or self._is_due():
                session = await self._renewed(call, connection)
            try:
                return await self._protected(call, connection, ProtectedCall(session, self._service))
            except GssFailure as failure:
                self._forget(session)
                if again:
                    raise UserAuthenticationFailed(str(failure)) from None
            except AuthError as error:
                if error.stat not in _AGAIN:
                    raise
                self._forget(session)
                if again:
                    raise
            again = True

    async def _protected(self, call: Call, connection: SingleConnection, protected: ProtectedCall) -> Any:
        """Sends a call, protected by `protected` under its RPCSEC_GSS context, and returns its decoded result.

        Long arguments and results are encrypted and decrypted in a thread. The context encrypts or decrypts for one
        call at a time; other calls wait for that, not for the reply.

        Raises:
            GssFailure: the mechanism fails, or the reply is not protected as it should be.
            RpcRdmaError: any error of calls on a connection.
        """
        turns = protected.session.turns
        call.protection = protected
        while True:
            octets = protected.begin(call.procedure, call.args)
            if turns.postpones(octets):
                await self._in_turn(turns, functools.partial(protected.seal, call.xid, call.procedure), octets)
            try:
                result = await connection.start(call)
                break
            except RpcRdmaError:
                # Refused in its form: the connection sends it in another one, unless the context is in use.
                if not protected.was_in_use:
                    raise
                protected.was_in_use = False
        if type(result) is not UnopenedReply:
            return result
        opened = await self._in_turn(turns, result.open, len(result.message.data))
        return protected.result(opened, call.procedure, call.into)

    async def _in_turn(self, turns: ContextTurns, work: Callable[[], T], octets: int) -> T:
        """Runs `work` when no other use of the GSS context is running, and returns its result.

        `turns` admits one use of the context at a time. `octets` is the length of the data that `work` encrypts or
        decrypts; above GSS_SHORT_OCTETS `work` runs in a thread. Exceptions of `work` are raised.
        """
        result: asyncio.Future[T] = self._loop.create_future()

        def done(outcome: Outcome[T]) -> None:
            try:
                found = outcome()
            except Exception as error:  # noqa: BLE001 - raised where the result is awaited
                if not result.done():
                    result.set_exception(error)
            else:
                if not result.done():
                    result.set_result(found)

        turns.use(work, done, octets=octets)
        return await result

    def _in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._started(work).add_done_callback(lambda future: done(future.result()))

    def _started(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Has a thread run `work`, or runs it now if no thread can start; returns the future of its result."""
        once = [work]
        result: concurrent.futures.Future[T] = concurrent.futures.Future()
        result.set_running_or_notify_cancel()

        def run() -> None:
            try:
                step = once.pop()
            except IndexError:
                return
            try:
                result.set_result(step())
            except Exception as error:  # noqa: BLE001 - raised where the result is awaited
                result.set_exception(error)

        try:
            self._loop.run_in_executor(None, run)
        except RuntimeError:
            # The process ends: the threads of the executor end before its exit handlers run. An executor that lacks
            # threads raises it, too, but has queued the work, which a thread that is free again may run meanwhile.
            run()
        return asyncio.wrap_future(result, loop=self._loop)

    async def close(self, connection: SingleConnection) -> None:
        """Destroys the RPCSEC_GSS context by a call on `connection`, and waits at most 1 s for the reply.

        No call is made if there is no context or `connection` has ended. A context that is being made is given up, and
        the calls that wait for it fail with `TransportClosed`. Errors are ignored, since the server ends the context by
        itself later.
        """
        session, self._session = self._session, None
        try:
            if session is None or connection.closed:
                return
            ending = ProtectedCall(session, self._service, ends=True)
            with contextlib.suppress(RpcRdmaError, TimeoutError), self._numbered() as call:
                async with asyncio.timeout(_DESTROY_S):
                    await self._protected(call, connection, ending)
        finally:
            # Last: the calls that wait for it would have another one made while the connection is open.
            if self._making is not None:
                self._making.cancel()

    def _is_due(self) -> bool:
        return self._renew_s is not None and self._loop.time() >= self._renew_s

    def _forget(self, session: GssSession) -> None:
        if self._session is session:
            self._session = None

    async def _renewed(self, call: Call, connection: SingleConnection) -> GssSession:
        """Makes a new RPCSEC_GSS context and returns it; calls that wait at the same time share one attempt.

        If no context can be made while the present one is still valid, that one is returned, and is due for renewal in
        10 s. `call` names the program and its deadline limits the wait; `connection` carries the calls of procedure 0
        that make a context.

        Raises:
            UserAuthenticationFailed: no context can be made, and the present one is of no use; or the deadline of
                `call` has passed.
            TransportClosed: `close` was called meanwhile, or `connection` ended.
            RpcRdmaError: a call that makes the context failed in another way.
        """
        present = self._session
        making = self._making
        if making is None:
            self._program = call.procedure.program, call.procedure.version
            self._making_over = connection
            making = self._making = self._loop.create_task(self._make(connection))
            making.add_done_callback(self._made)
        over = self._making_over
        try:
            async with asyncio.timeout_at(call.deadline_s):
                # A caller that is cancelled does not end it for the others.
                await asyncio.wait([making])
        except TimeoutError:
            raise UserAuthenticationFailed(
                f"no context with {self._host} within the call's deadline; check that KDC and server answer"
            ) from None
        if making.cancelled():
            raise TransportClosed("the connection was closed on this side")
        try:
            return making.result()
        except TransportClosed:
            if over is connection:
                raise
            # An earlier connection has ended, not that of this call.
            return await self._renewed(call, connection)
        except UserAuthenticationFailed:
            alive = self._ends_s is None or self._loop.time() < self._ends_s
            if present is None or present is not self._session or present.exhausted or not alive:
                raise
            self._renew_s = self._loop.time() + _RENEW_AGAIN_S
            return present

    def _made(self, making: asyncio.Task[GssSession]) -> None:
        self._making = self._making_over = None
        # Retrieved, or asyncio logs it where no call waits any more.
        if not making.cancelled() and making.exception() is None:
            self._session = making.result()

    async def _make(self, connection: SingleConnection) -> GssSession:
        try:
            return await self._exchange(connection)
        except GssFailure as failure:
            raise UserAuthenticationFailed(str(failure)) from None
        except AuthError as error:
            raise UserAuthenticationFailed(
                f"the server refuses RPCSEC_GSS ({error}); without it, users are not proved: "
                'ConnectOptions(security="sys")'
            ) from None
        except RpcError as error:
            raise UserAuthenticationFailed(f"no context was made: {error}; ask the server's administrator") from None

    async def _exchange(self, connection: SingleConnection) -> GssSession:
        if self._mechanism is None:
            self._mechanism = self._kerberos.made()
        mechanism = self._mechanism
        gss = await self._blocking(mechanism.initiate, self._host)
        token = await self._blocking(gss.step, None)
        handle: bytes | None = None
        for _ in range(_TOKENS_MAX):
            creation = ContextCall(token or b"", handle)
            with self._numbered() as call:
                call.protection = creation
                result = await connection.start(call)
            if result.major not in {GssMajor.COMPLETE, GssMajor.CONTINUE_NEEDED}:
                if result.token:
                    # It tells this end more than the status does.
                    await self._blocking(gss.step, result.token)
                raise GssFailure(mechanism.explained(result.major, result.minor, self._host))
            token = await self._blocking(gss.step, result.token) if result.token else None
            handle = result.handle
            if result.major == GssMajor.COMPLETE:
                if not gss.complete:
                    raise RemoteProtocolError(
                        "the server has ended the making of a context too early", rfc="2203 5.2.3.1"
                    )
                check_verifier(gss, creation.verifier, result.window)
                break
            if token is None:
                raise RemoteProtocolError("the server waits for a token that is not due", rfc="2203 5.2.3.1")
        else:
            raise RemoteProtocolError(f"no context after {_TOKENS_MAX} tokens", rfc="2203 5.2.2")
        self.principal = gss.principal
        _LOGGER.info("%s is proved to nfs/%s, with %s", gss.principal, self._host, self._kerberos.flavor)
        lifetime_s = gss.lifetime_s
        now_s = self._loop.time()
        self._ends_s = None if lifetime_s is None else now_s + lifetime_s
        self._renew_s = None if lifetime_s is None else now_s + lifetime_s * (1 - _RENEW_PART)
        turns = ContextTurns(self._in_thread)
        return GssSession(gss, handle, mechanism.mic_octets_max, mechanism.wrap_octets_max, [0], turns)

    @contextlib.contextmanager
    def _numbered(self) -> Iterator[Call]:
        """Yields a new call of procedure 0 with an XID, for making or destroying a context; frees the XID at exit."""
        call = Call(null_procedure(*self._program), None)
        call.xid = self._xids.take()
        try:
            yield call
        finally:
            del self._xids.taken[call.xid]

    async def _blocking(self, work: Callable[..., T], *args: Any) -> T:
        """Runs `work(*args)`, a step of the GSS mechanism, in a thread if that may ask the KDC; returns its result."""
        if self._mechanism is not None and self._mechanism.blocks:
            return await self._started(functools.partial(work, *args))
        return work(*args)
