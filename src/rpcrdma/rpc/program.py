"""Programs as the XDR compiler makes them: procedures as data, typed by their arguments and results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rpcrdma.rpc.reply_bound import UNSTATED, ReplyBound
from rpcrdma.wire.buffers import Memory
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["Caller", "OctetsMax", "Procedure", "Program", "null_procedure"]

_VOID = ReplyBound(0)

A = TypeVar("A")
R = TypeVar("R")


class OctetsMax(NamedTuple):
    """The most octets of a procedure's messages that its definition permits; None stands for no bound."""

    arguments: int | None
    """Octets of the encoded arguments, DDP-eligible items included, RPC header excluded."""
    bulk_arguments: int
    """The part of `arguments` in DDP-eligible items, the first WRITE_CHUNKS_MAX of them, padding included.

    It says nothing if `arguments` is None."""
    results: int | None
    """Octets of the encoded result, DDP-eligible items included, RPC header excluded."""


@dataclass(frozen=True, slots=True, eq=False)
class Procedure(Generic[A, R]):
    """One remote procedure (RFC 5531 section 12), as the compiler makes it of a definition; void values are None.

    `dataclasses.replace` makes a procedure with another `bound`.

    Args:
        program: the program's number.
        version: the program's version.
        number: the procedure's number.
        name: the name in the definition, such as "NFSPROC3_READ".
        method: the name of the method in Python, such as "read".
        encode_args: encodes the arguments.
        decode_args: decodes the arguments.
        encode_result: encodes the result.
        decode_result: decodes the result.
        bound: the largest result, or a function of the arguments that returns it; None: 64 KiB without bulk items, or
            no result for number 0.
        status: returns a result's status, 0 for success; None if results have no status.
        octets_max: the most octets of arguments and result that the definition permits; None if unknown.
        named: returns, for arguments, the procedure under whose name the call is counted and logged; None: this one.
        items: returns, for arguments, only the `items` of the bound, at less cost than `bound`; None: use `bound`.
    """

    program: int
    version: int
    number: int
    name: str
    method: str
    encode_args: Callable[[Encoder, A], None]
    decode_args: Callable[[Decoder], A]
    encode_result: Callable[[Encoder, R], None]
    decode_result: Callable[[Decoder], R]
    bound: ReplyBound | Callable[[A], ReplyBound] | None = None
    status: Callable[[R], int] | None = None
    octets_max: OctetsMax | None = None
    named: Callable[[A], Procedure[A, R]] | None = None
    items: Callable[[A], Sequence[int]] | None = None

    def reply_bound(self, args: A) -> ReplyBound:
        """Returns the largest result of a call.

        Args:
            args: the arguments of the call.

        Returns:
            The bound that `bound` states. If that is None: no result for procedure 0, 64 KiB without bulk items for
            others.
        """
        bound = self.bound
        if isinstance(bound, ReplyBound):
            return bound
        if bound is None:
            # Procedure 0 returns nothing in every program (RFC 5531 section 12.1).
            return UNSTATED if self.number else _VOID
        return bound(args)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One version of a remote program.

    Args:
        number: the program's number.
        version: the version.
        name: the name in the definition.
        procedures: the procedures by number.
    """

    number: int
    version: int
    name: str
    procedures: Mapping[int, Procedure[Any, Any]]


@functools.lru_cache
def null_procedure(program: int, version: int) -> Procedure[None, None]:
    """Returns procedure 0 of a program, by which a client tests whether a server offers it (RFC 5531 section 12.1).

    Args:
        program: the program's number.
        version: the program's version.

    Returns:
        The procedure, without arguments and result.
    """
    return Procedure(
        program=program,
        version=version,
        number=0,
        name="NULL",
        method="null",
        encode_args=_encode_void,
        decode_args=_decode_void,
        encode_result=_encode_void,
        decode_result=_decode_void,
    )


def _encode_void(_enc: Encoder, _value: None) -> None:
    pass


def _decode_void(_dec: Decoder) -> None:
    pass


class Caller(Protocol):
    """An object that calls remote procedures, such as `rpcrdma.Connection`; generated client stubs use it."""

    async def call(
        self, procedure: Procedure[A, R], args: A, *, into: Memory | None = None, timeout_s: float | None = None
    ) -> R:
        """Calls a procedure and waits for its result.

        Args:
            procedure: the procedure.
            args: the arguments, of the procedure's type; None for void.
            into: a writable buffer for the result's first DDP-eligible item, which becomes a view of it. A longer item
                is an error. None: the item gets memory of its own.
            timeout_s: the time limit in seconds; None takes the caller's default.

        Returns:
            The decoded result.

        Raises:
            RpcError: the responder refused the call, or the reply did not fit (its subclasses tell why).
            CallTimeout: no reply within the time limit.
            TransportClosed: the connection ended first.
            DecodeError: the result does not decode.
            MessageTooLong: over TCP: the call or its reply is over this side's limit.
            LocalProtocolError: the arguments break the definition.
            TypeError: Python refuses the type of a value in the arguments, such as str for opaque data.
        """
