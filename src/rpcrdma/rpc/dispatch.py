"""The responder's half of a call: which handler answers, with which arguments, or why none does.

The order of checks: RPC version, credential, program, version, procedure, security flavor, arguments. The first check
that fails decides the reply.
"""

from __future__ import annotations

import functools
import inspect
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import RPC_CREDENTIALS_REMEMBERED
from rpcrdma.rpc.auth import (
    AUTH_BODY_MAX,
    NO_AUTH,
    AuthFlavor,
    AuthNone,
    AuthStat,
    Credential,
    OpaqueAuth,
    decode_auth_sys,
)
from rpcrdma.rpc.call_statistics import CallStatistics, OperationStatistics
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.gss.protection import CallDropped, CallWaits, CredentialRefused
from rpcrdma.rpc.message import (
    CALL_HEADER_OCTETS,
    RPC_VERSION,
    AcceptStat,
    CallHeader,
    CallRefused,
    MessageType,
    RejectStat,
    decode_call,
    encode_accepted,
    encode_auth_error,
)
from rpcrdma.rpc.program import Procedure, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, execution_of
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition

if TYPE_CHECKING:
    from rpcrdma.rpc.gss.acceptor import Acceptor, OpenedCall

__all__ = ["ArrivedCall", "Dispatcher", "Route", "refusal"]

_NO_IDENTITY = AuthNone()
_TWO = struct.Struct(">2I")
_EIGHT = struct.Struct(">8I")
_NO_WORDS = (-1,) * 8
_EMPTY_VERIFIER = (AuthFlavor.AUTH_NONE, 0)


def _answer_null(_args: None, _context: CallContext) -> None:
    pass


class Route:
    """One procedure that a service offers, and its handler.

    `calls` counts the calls whose arguments were decoded. `execution` tells where the handler runs (`execution_of`).

    Args:
        procedure: the procedure.
        handler: called as `handler(args, context)`; returns the result.
        at_most_once: whether a call that the client sends again must not run again, but gets the reply to the first
            one: the service does not declare the procedure idempotent.
        begins_once: whether the handler must not begin twice for one call: if it finds no memory for its result, the
            call fails, instead of running again later. Always so with `at_most_once`. If the result may have bulk
            items, `reserves` is then True: memory for them is reserved before the handler begins.
        security: the security flavors that calls may have; None: any.
        waits_for: maps arguments to the resource that the handler may block on; None: no particular resource.
    """

    __slots__ = (
        "at_most_once", "begins_once", "calls", "decode_args", "execution", "handler", "name", "procedure", "reserves",
        "security", "waits_for",
    )  # fmt: skip

    def __init__(
        self,
        procedure: Procedure[Any, Any],
        handler: Callable[[Any, CallContext], Any],
        *,
        at_most_once: bool,
        begins_once: bool = False,
        security: frozenset[SecurityFlavor] | None = None,
        waits_for: Callable[[Any], Hashable] | None = None,
    ) -> None:
        self.procedure = procedure
        self.waits_for = waits_for
        self.security = security
        self.calls = 0
        self.at_most_once = at_most_once
        bound = procedure.bound
        self.begins_once = at_most_once or begins_once
        self.reserves = self.begins_once and (bool(bound.items) if isinstance(bound, ReplyBound) else bound is not None)
        self.handler = handler
        self.execution = execution_of(handler)
        self.decode_args = procedure.decode_args
        self.name = procedure.name


class ArrivedCall(Protocol):
    """A call that a server has received: `decoder` is at the RPC header, `Dispatcher.open_call` sets the other data.

    `route` is set if a handler answers the call, with `args`.
    """

    decoder: Decoder
    xid: int
    credential: Credential
    route: Route
    args: Any
    procedure: Procedure[Any, Any] | None
    """The procedure; None while it is unknown."""
    status: int | str
    """The status in the result or, if no handler answers, the name of the refusal, such as "AUTH_ERROR"."""
    protection: OpenedCall | None
    """The RPCSEC_GSS protection, which also protects the reply; None for other flavors."""

    @property
    def peer(self) -> str:
        """The caller's network address without port."""


class Dispatcher:
    """Finds the handlers of a server's calls; procedure 0 has one even if its service has none.

    Args:
        services: the services, one for each program and version.
        acceptor: checks calls under RPCSEC_GSS; None: they are refused.
        security: the security flavors that calls may have, except calls of procedure 0 and of services with
            `ANY_SECURITY`; None: any.

    Raises:
        LocalProtocolError: two services offer the same version of a program, one offers version 0, or a handler does
            not take the two arguments of every handler.
    """

    __slots__ = ("_acceptor", "_auth_sys", "_routes", "_security", "_versions", "services", "statistics")

    def __init__(
        self,
        services: Iterable[Service],
        *,
        acceptor: Acceptor | None = None,
        security: Iterable[SecurityFlavor] | None = None,
    ) -> None:
        self.services = tuple(services)
        self._acceptor = acceptor
        self._security = None if security is None else frozenset(security)
        self._routes: dict[tuple[int, int, int], Route] = {}
        self._versions: dict[int, set[int]] = {}
        self.statistics = CallStatistics(served=True)
        """The statistics of the calls that have ended, answered or not; the sender of the replies counts them."""
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
                security = self._security if number and not service.ANY_SECURITY else None
                route = Route(
                    procedure,
                    handler,
                    at_most_once=once,
                    begins_once=number in service.RESERVES,
                    security=security,
                    waits_for=service.WAITS_FOR,
                )
                self._routes[program.number, program.version, number] = route
        # Procedure 0 answers by convention whether the program is there (RFC 5531 section 12.1).
        null = (program.number, program.version, 0)
        if null not in self._routes:
            defined = program.procedures.get(0)
            self._routes[null] = Route(defined or null_procedure(*null[:2]), _answer_null, at_most_once=False)

    def renew_handlers(self) -> None:
        """Takes the present methods of the services as handlers of the next calls, after methods have been replaced.

        A new method runs where the former one ran (`Route.execution`). The procedures that have a handler stay the
        same: one whose method is gone keeps its handler, and one that had none gets none.

        Raises:
            LocalProtocolError: a method does not take the two arguments of every handler; all handlers stay then.
        """
        renewed: list[tuple[Route, Callable[[Any, CallContext], Any]]] = []
        for service in self.services:
            program = service.PROGRAM
            for number, procedure in program.procedures.items():
                handler = getattr(service, procedure.method, None)
                route = self._routes.get((program.number, program.version, number))
                if handler is not None and route is not None:
                    _check_handler(service, procedure, handler)
                    renewed.append((route, handler))
        for route, handler in renewed:
            route.handler = handler

    def open_call(self, call: ArrivedCall) -> Payload | None:
        """Finds the handler of a call and decodes the arguments; sets the attributes of `call` that become known.

        Returns:
            None if the handler in `call.route` (a `Route`) is to answer with `call.args`; else the whole reply that
            refuses the call, whose status `call.status` then names.

        Raises:
            ReducedIneligibleItem: an argument that must stay in the stream came in a Read chunk. The transport's own
                error answers that (RFC 8166 section 6.1); every other fault in the arguments is GARBAGE_ARGS.
            DecodeError: no RPC reply is possible: the message is no call, or its header is cut short.
            CallDropped: the call must not be answered: RPCSEC_GSS found a replay, or a number below the window.
            CallWaits: the RPCSEC_GSS context is in use, or the arguments take long to decrypt; pass the exception's
                `work` to its `turns.use`; when that is done, set `call.decoder.pos` to its value before this call, and
                call this again.
        """
        decoder = call.decoder
        start = decoder.pos
        words = _EIGHT.unpack_from(decoder.data, start) if start + CALL_HEADER_OCTETS <= decoder.end else _NO_WORDS
        xid, message_type, rpc_version, program, version, number, flavor, length = words
        after = start + CALL_HEADER_OCTETS + (length + 3 & ~3)
        if (
            message_type == MessageType.CALL
            and rpc_version == RPC_VERSION
            and length <= AUTH_BODY_MAX
            and after <= decoder.end
            and _TWO.unpack_from(decoder.data, after - 8) == _EMPTY_VERIFIER
        ):
            # The usual header: the verifier is empty.
            decoder.pos = after
            body = bytes(decoder.data[start + 32 : start + 32 + length])
            verifier = NO_AUTH
        else:
            try:
                header = decode_call(decoder)
            except CallRefused as refused:
                mismatch = refused.field == "rpcvers"
                call.status = (RejectStat.RPC_MISMATCH if mismatch else RejectStat.AUTH_ERROR).name
                return Payload(refused.reply)
            except DecodeError as error:
                _check_passed_chunks(decoder, error)
                raise
            xid, program, version, number, (flavor, body), verifier = header
        call.xid = xid
        # Of a call that has waited.
        protection = call.protection
        if flavor == AuthFlavor.AUTH_NONE:
            call.credential = _NO_IDENTITY
        elif flavor == AuthFlavor.AUTH_SYS:
            try:
                call.credential = self._auth_sys(body)
            except DecodeError:
                return _auth_error(call, AuthStat.AUTH_BADCRED)
        elif flavor == AuthFlavor.AUTH_TLS:
            return _auth_error(call, AuthStat.AUTH_BADCRED)
        elif protection is not None:
            pass
        elif flavor == AuthFlavor.RPCSEC_GSS and self._acceptor is not None:
            header = CallHeader(xid, program, version, number, OpaqueAuth(flavor, body), verifier)
            try:
                call.protection = protection = self._protection(self._acceptor, call, header, start)
            except CredentialRefused as refused:
                return _auth_error(call, refused.stat)
        else:
            return _auth_error(call, AuthStat.AUTH_REJECTEDCRED)
        if protection is None and verifier.flavor != AuthFlavor.AUTH_NONE:
            return _auth_error(call, AuthStat.AUTH_BADVERF)
        try:
            route = self._routes[program, version, number]
        except KeyError:
            return self._unavailable(call, program, version)
        if route.security is not None and call.credential.flavor not in route.security:
            return _auth_error(call, AuthStat.AUTH_TOOWEAK)
        if protection is not None and protection.makes_context is not None:
            route = Route(*protection.makes_context, at_most_once=False)
        call.route = route
        call.procedure = route.procedure
        try:
            if protection is not None:
                protection.open()
                decoder = protection.arguments
            call.args = route.decode_args(decoder)
            if decoder.pos != decoder.end or decoder.placed is not None:
                decoder.done(route.name)
        except DecodeError as error:
            _check_passed_chunks(decoder, error)
            call.status = AcceptStat.GARBAGE_ARGS.name
            return refusal(call.xid, AcceptStat.GARBAGE_ARGS)
        except MemoryError:
            call.status = AcceptStat.SYSTEM_ERR.name
            return refusal(call.xid, AcceptStat.SYSTEM_ERR)
        route.calls += 1
        return None

    def null_reply(self, xid: int, program: int, version: int) -> Payload:
        """Returns the reply to a call of procedure 0 that bypasses `open_call`, such as the request for TLS.

        The reply is SUCCESS if a service offers the program and version, PROG_MISMATCH with the lowest and the highest
        version if services offer only other versions, else PROG_UNAVAIL.
        """
        versions = self._versions.get(program)
        if versions is None:
            return refusal(xid, AcceptStat.PROG_UNAVAIL)
        if version in versions:
            return refusal(xid, AcceptStat.SUCCESS)
        enc = Encoder()
        encode_accepted(enc, xid, AcceptStat.PROG_MISMATCH, low=min(versions), high=max(versions))
        return enc

    def _protection(self, acceptor: Acceptor, call: ArrivedCall, header: CallHeader, start: int) -> OpenedCall:
        """Checks the RPCSEC_GSS header of a call, and sets `call.credential`.

        If it raises CallDropped or CallWaits, it sets `call.procedure`, by which the call is counted, instead.

        Args:
            acceptor: checks the header.
            call: the call, whose decoder is behind the header.
            header: the decoded header.
            start: the offset of the header in the decoder's data.

        Returns:
            The protection of the arguments and the reply.

        Raises:
            CredentialRefused: a check has failed; the call's procedure stays as it is.
            CallDropped: the call must not be answered.
            CallWaits: the context is in use; pass the exception's `work` to the exception's `turns.use`, and call
                `open_call` again when that is done.
        """
        signed = bytes(call.decoder.data[start : start + 32 + (len(header.credential.body) + 3 & ~3)])
        try:
            protection = acceptor.open(header, signed, call.decoder, call.peer)
        except (CallDropped, CallWaits):
            # It is counted, and its memory given back, as for any call.
            route = self._routes.get(header[1:4])
            call.procedure = null_procedure(header.program, header.version) if route is None else route.procedure
            raise
        call.credential = protection.credential
        return protection

    def calls_of_procedures(self, ended: Iterable[OperationStatistics] | None = None) -> dict[str, int]:
        """Returns the numbers of calls whose arguments decoded, by the procedure's name.

        Procedures of one name in several versions or programs are added up; names without calls are left out.

        Args:
            ended: statistics of ended calls. For a procedure whose calls are counted under several names
                (`Procedure.named`), such as COMPOUND, the counts by these names replace its own. None: its own name
                counts.
        """
        calls: Counter[str] = Counter()
        several = set()
        for place, route in self._routes.items():
            if ended is not None and route.procedure.named is not None:
                several.add(place[:2])
            else:
                # Versions of a program may have procedures of one name.
                calls[route.name] += route.calls
        others = set(calls)
        for each in ended or ():
            if (each.program, each.version) in several and each.procedure not in others:
                calls[each.procedure] += each.ops
        return dict(+calls)

    def _unavailable(self, call: ArrivedCall, program: int, version: int) -> Payload:
        versions = self._versions.get(program)
        if versions is not None and version in versions:
            call.status = AcceptStat.PROC_UNAVAIL.name
            return refusal(call.xid, AcceptStat.PROC_UNAVAIL)
        call.status = (AcceptStat.PROG_UNAVAIL if versions is None else AcceptStat.PROG_MISMATCH).name
        return self.null_reply(call.xid, program, version)


def _check_handler(service: Service, procedure: Procedure[Any, Any], handler: Callable[..., Any]) -> None:
    """Checks that a handler can be called as `handler(args, context)`; a function in C without a signature passes.

    Raises:
        LocalProtocolError: the handler takes other parameters.
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
    """Raises an error if a stream did not decode because a Read chunk carries an item that must stay in the stream.

    Where an item that is not DDP-eligible was taken out of the stream, decoding fails at its Position or takes the
    octets that follow for the item. A chunk whose Position is beyond the failure is not its cause.

    Args:
        decoder: the decoder of the stream.
        error: the failure of decoding.

    Raises:
        ReducedIneligibleItem: an unused Read chunk has a Position at or before the place where decoding failed.
    """
    placed = decoder.placed
    if isinstance(placed, PlacedByPosition):
        placed.passed(error.offset + decoder.removed)


def refusal(xid: int, stat: AcceptStat) -> Payload:
    """Returns the accepted reply to call `xid` with accept_stat `stat`, an empty verifier and no results."""
    enc = Encoder()
    encode_accepted(enc, xid, stat)
    return enc


def _auth_error(call: ArrivedCall, stat: AuthStat) -> Payload:
    call.status = RejectStat.AUTH_ERROR.name
    enc = Encoder()
    encode_auth_error(enc, call.xid, stat)
    return enc
