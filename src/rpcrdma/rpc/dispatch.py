"""The responder's half of a call: which handler answers, with which arguments, and the reply to it.

The order of checks: RPC version, credential, program, version, procedure, arguments. The first check that fails decides
the reply.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import RPC_CREDENTIALS_REMEMBERED
from rpcrdma.rpc.auth import AuthFlavor, AuthNone, AuthStat, Credential, decode_auth_sys
from rpcrdma.rpc.call_statistics import REPEATED, CallStatistics
from rpcrdma.rpc.message import (
    AcceptStat,
    CallHeader,
    CallRefused,
    RejectStat,
    decode_call,
    encode_accepted,
    encode_auth_error,
    encode_success,
)
from rpcrdma.rpc.program import Procedure, null_procedure
from rpcrdma.rpc.service import CallContext, Execution, ProcedureUnavailable, Service, execution_of
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition

__all__ = ["Dispatcher", "Invocation", "RefusedCall", "refusal"]

_NO_IDENTITY = AuthNone()


def _answer_null(_args: None, _context: CallContext) -> None:
    pass


class _Route:
    """One procedure that a service offers, and the handler that answers it."""

    __slots__ = ("at_most_once", "calls", "decode_args", "execution", "handler", "name", "procedure")

    def __init__(
        self, procedure: Procedure[Any, Any], handler: Callable[[Any, CallContext], Any], *, at_most_once: bool
    ) -> None:
        self.procedure = procedure
        self.calls = 0
        self.at_most_once = at_most_once
        self.handler = handler
        self.execution = execution_of(handler)
        self.decode_args = procedure.decode_args
        self.name = procedure.name


class RefusedCall(Payload):
    """The reply to a call that no handler answers, the procedure, None if it is none that we know, and the status."""

    __slots__ = ("procedure", "status")

    def __init__(
        self, reply: Payload, status: AcceptStat | RejectStat, procedure: Procedure[Any, Any] | None = None
    ) -> None:
        super().__init__(reply.reduced)
        self.procedure = procedure
        self.status = status.name


class Invocation:
    """A call that is ready to run: `handler(args, context)` as `execution` says, then `success` or `failure`.

    `at_most_once`: the service does not declare the procedure idempotent. The call is counted under `status`: that of
    its result, or a name; before a reply is made, the one for calls that are answered along with the call they repeat.
    """

    __slots__ = ("args", "at_most_once", "credential", "execution", "handler", "procedure", "status", "xid")

    def __init__(self, xid: int, credential: Credential, route: _Route, args: Any) -> None:
        self.xid = xid
        self.credential = credential
        self.procedure: Procedure[Any, Any] = route.procedure
        self.handler: Callable[[Any, CallContext], Any] = route.handler
        self.execution: Execution = route.execution
        self.at_most_once = route.at_most_once
        self.args = args
        self.status: int | str = REPEATED

    def __repr__(self) -> str:
        return f"Invocation({self.procedure.name}, xid={self.xid:#010x}, {self.execution})"

    def success(self, result: Any) -> Payload:
        """The reply that carries `result`.

        An exception of the encoder means that the handler returned something else than the procedure's result.
        """
        enc = Encoder()
        encode_success(enc, self.xid)
        procedure = self.procedure
        procedure.encode_result(enc, result)
        self.status = procedure.status(result) if procedure.status is not None else 0
        return enc

    def failure(self, error: BaseException) -> Payload:
        """The reply for a handler that raised `error`: PROC_UNAVAIL for `ProcedureUnavailable`, else SYSTEM_ERR."""
        unavailable = isinstance(error, ProcedureUnavailable)
        stat = AcceptStat.PROC_UNAVAIL if unavailable else AcceptStat.SYSTEM_ERR
        self.status = stat.name
        return refusal(self.xid, stat)


class Dispatcher:
    """Finds the handlers of `services`, one for each program and version.

    Raises:
        LocalProtocolError: two services offer the same version of a program, one offers version 0, or a handler does
            not take the two arguments of every handler.
    """

    __slots__ = ("_auth_sys", "_routes", "_versions", "services", "statistics")

    def __init__(self, services: Iterable[Service]) -> None:
        self.services = tuple(services)
        self._routes: dict[tuple[int, int, int], _Route] = {}
        self._versions: dict[int, set[int]] = {}
        self.statistics = CallStatistics(served=True)
        """Of the calls that were answered: counted where the replies are sent."""
        # Few distinct credential bodies are in use at a time; bodies that do not decode are not remembered.
        self._auth_sys = functools.lru_cache(RPC_CREDENTIALS_REMEMBERED)(decode_auth_sys)
        for service in self.services:
            self._add(service)

    def _add(self, service: Service) -> None:
        program = service.PROGRAM
        if program.version == 0:
            raise LocalProtocolError(f"{program.name}: no program has a version 0 (RFC 5531 section 8.1)")
        versions = self._versions.setdefault(program.number, set())
        if program.version in versions:
            raise LocalProtocolError(f"{program.name}: two services offer version {program.version} of the program")
        versions.add(program.version)
        for number, procedure in program.procedures.items():
            handler = getattr(service, procedure.method, None)
            if handler is not None:
                _check_handler(service, procedure, handler)
                once = number != 0 and number not in service.IDEMPOTENT
                self._routes[program.number, program.version, number] = _Route(procedure, handler, at_most_once=once)
        # Procedure 0 answers by convention whether the program is there (RFC 5531 section 12.1).
        null = (program.number, program.version, 0)
        if null not in self._routes:
            defined = program.procedures.get(0)
            self._routes[null] = _Route(defined or null_procedure(*null[:2]), _answer_null, at_most_once=False)

    def open_call(self, decoder: Decoder) -> Invocation | RefusedCall | None:
        """The reaction to a received message: run an `Invocation`, reply with a `RefusedCall`, or None: drop it.

        None stands for messages that cannot be answered: no call, or the header is cut short.

        Raises:
            ReducedIneligibleItem: an argument that must stay in the stream came in a Read chunk. The transport's own
                error answers that (RFC 8166 section 6.1); every other fault in the arguments is GARBAGE_ARGS.
        """
        try:
            header = decode_call(decoder)
        except CallRefused as refused:
            mismatch = refused.field == "rpcvers"
            return RefusedCall(Payload(refused.reply), RejectStat.RPC_MISMATCH if mismatch else RejectStat.AUTH_ERROR)
        except DecodeError as error:
            _check_passed_chunks(decoder, error)
            return None
        xid, program, version, number, (flavor, body), (verifier_flavor, _) = header
        credential: Credential
        if flavor == AuthFlavor.AUTH_NONE:
            credential = _NO_IDENTITY
        elif flavor == AuthFlavor.AUTH_SYS:
            try:
                credential = self._auth_sys(body)
            except DecodeError:
                return _auth_error(xid, AuthStat.AUTH_BADCRED)
        else:
            return _auth_error(xid, AuthStat.AUTH_REJECTEDCRED)
        if verifier_flavor != AuthFlavor.AUTH_NONE:
            return _auth_error(xid, AuthStat.AUTH_BADVERF)
        route = self._routes.get((program, version, number))
        if route is None:
            return self._unavailable(header)
        try:
            args = route.decode_args(decoder)
            decoder.done(route.name)
        except DecodeError as error:
            _check_passed_chunks(decoder, error)
            return RefusedCall(refusal(xid, AcceptStat.GARBAGE_ARGS), AcceptStat.GARBAGE_ARGS, route.procedure)
        route.calls += 1
        return Invocation(xid, credential, route, args)

    def calls_of_procedures(self) -> dict[str, int]:
        """Calls whose arguments decoded, by the name of the procedure; procedures without calls are left out."""
        calls: Counter[str] = Counter()
        for route in self._routes.values():
            # Versions of a program may have procedures of one name.
            calls[route.name] += route.calls
        return dict(+calls)

    def _unavailable(self, header: CallHeader) -> RefusedCall:
        versions = self._versions.get(header.program)
        if versions is not None and header.version not in versions:
            enc = Encoder()
            encode_accepted(enc, header.xid, AcceptStat.PROG_MISMATCH, low=min(versions), high=max(versions))
            return RefusedCall(enc, AcceptStat.PROG_MISMATCH)
        stat = AcceptStat.PROG_UNAVAIL if versions is None else AcceptStat.PROC_UNAVAIL
        return RefusedCall(refusal(header.xid, stat), stat)


def _check_handler(service: Service, procedure: Procedure[Any, Any], handler: Callable[..., Any]) -> None:
    """Refuses a handler that no call could reach.

    Raises:
        LocalProtocolError: it does not take arguments and context.
    """
    try:
        # As it is called: decorators may take other arguments than the function within.
        inspect.signature(handler, follow_wrapped=False).bind(None, None)
    except ValueError:
        # A function in C may have no signature.
        return
    except TypeError as error:
        name = procedure.method
        raise LocalProtocolError(
            f"{type(service).__name__}.{name} cannot answer {procedure.name}: {error}; write def {name}(self, args, "
            "context), with None for args where the procedure takes void"
        ) from None


def _check_passed_chunks(decoder: Decoder, error: DecodeError) -> None:
    """Tells a stream that lacks an item because it came in a Read chunk, wrongly, from one with another fault.

    Where an item that is not DDP-eligible was taken out of the stream, decoding fails at its Position or takes the
    octets that follow for the item. A chunk whose Position is beyond the failure is not its cause.

    Raises:
        ReducedIneligibleItem: a Read chunk stands for an item up to the place where decoding failed.
    """
    placed = decoder.placed
    if isinstance(placed, PlacedByPosition):
        placed.passed(error.offset + decoder.removed)


def refusal(xid: int, stat: AcceptStat) -> Payload:
    """The reply that says why call `xid` has no result."""
    enc = Encoder()
    encode_accepted(enc, xid, stat)
    return enc


def _auth_error(xid: int, stat: AuthStat) -> RefusedCall:
    enc = Encoder()
    encode_auth_error(enc, xid, stat)
    return RefusedCall(enc, RejectStat.AUTH_ERROR)
