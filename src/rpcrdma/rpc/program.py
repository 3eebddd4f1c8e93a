"""Programs as the XDR compiler makes them: procedures as data, typed by their arguments and results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
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
    """The most octets by a program's definition, for any arguments; None: the definition sets no bound."""

    arguments: int | None
    """Octets of the encoded arguments, RPC header excluded."""
    bulk_arguments: int
    """Those of them in DDP-eligible items, padding included."""
    results: int | None
    """Octets of the encoded result, DDP-eligible items included, RPC header excluded."""


@dataclass(frozen=True, slots=True, eq=False)
class Procedure(Generic[A, R]):
    """One remote procedure (RFC 5531 section 12); `name` is the interface definition's, `method` the Python one.

    Void arguments or results are None. `bound` says how large the result gets, always or for given arguments; the
    compiler derives it from the definition. `dataclasses.replace` makes a procedure with another bound. `status` takes
    from a result the member that says whether the call succeeded, 0, or which error there was; None without one.
    `named` gives, for arguments, the procedure under whose name the call is counted, which is otherwise the same; None:
    this one. `octets_max` is None if the definition was not compiled, or by a compiler that did not derive it.
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

    def reply_bound(self, args: A) -> ReplyBound:
        """How large the result of a call with these arguments gets."""
        bound = self.bound
        if isinstance(bound, ReplyBound):
            return bound
        if bound is None:
            # Procedure 0 returns nothing in every program (RFC 5531 section 12.1).
            return UNSTATED if self.number else _VOID
        return bound(args)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One version of a remote program with its procedures by number."""

    number: int
    version: int
    name: str
    procedures: Mapping[int, Procedure[Any, Any]]


@functools.lru_cache
def null_procedure(program: int, version: int) -> Procedure[None, None]:
    """Procedure 0, by convention the test whether the responder offers the program (RFC 5531 section 12.1)."""
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
    """An object that calls remote procedures; generated client stubs call through it.

    Implemented over RDMA and over TCP in `rpcrdma.aio`.
    """

    async def call(
        self, procedure: Procedure[A, R], args: A, *, into: Memory | None = None, timeout_s: float | None = None
    ) -> R:
        """Calls and waits for the result.

        `into`: a writable buffer in which the DDP-eligible item of the result is placed; the item in the result is then
        a view of it. The peer may return no more octets than the buffer has.

        Raises:
            RpcError: the responder refused the call.
            CallTimeout: no reply within `timeout_s` seconds.
            TransportClosed: the connection ended first.
            DecodeError: the result does not decode.
        """
