"""The parts of generated clients: a method for each procedure, whose calls are awaited or wait for their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from rpcrdma.rpc.program import Caller, Procedure
from rpcrdma.wire.buffers import Memory

__all__ = ["CallMethod", "ClientStub", "SyncClientStub", "VoidCallMethod", "WaitingCaller", "check_awaits"]

A = TypeVar("A")
R = TypeVar("R")
A_contra = TypeVar("A_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class WaitingCaller(ABC):
    """An object whose calls block until their results arrive: `rpcrdma.sync.Connection`, or a wrapper around it."""

    @abstractmethod
    def call(
        self, procedure: Procedure[A, R], args: A, *, into: Memory | None = None, timeout_s: float | None = None
    ) -> R:
        """Calls a procedure and blocks until its result arrives.

        Args:
            procedure: the procedure.
            args: the arguments, of the procedure's type; None for void.
            into: a writable buffer for the result's first DDP-eligible item, at least as long; None: new memory.
            timeout_s: the time limit in seconds; None takes the default of this object.

        Returns:
            The decoded result.

        Raises:
            RpcError: the responder refused the call, or the reply did not fit.
            CallTimeout, TransportClosed: the time limit or the connection ended before the reply.
            DecodeError: the result does not decode, or is longer than `into`.
            MessageTooLong: over TCP: the call or its reply is over this side's limit.
            LocalProtocolError, TypeError: the arguments break the definition.
        """


def check_awaits(caller: Caller, user: object, *, instead: str = "rpcrdma.sync") -> None:
    """Checks that `caller` is no `WaitingCaller`, whose calls block, so that `user` can await the calls.

    Args:
        caller: the object that makes the calls.
        user: the object that awaits the calls; the error names the class of `user`.
        instead: the name of the blocking module or class that the error recommends.

    Raises:
        TypeError: `caller` is a `WaitingCaller`.
    """
    if isinstance(caller, WaitingCaller):
        raise TypeError(
            f"{type(user).__name__} is asynchronous, and a connection of rpcrdma.sync is not: use {instead}"
        )


class ClientStub:
    """Base of the client classes that the XDR compiler generates, with methods that are coroutines.

    Args:
        caller: the object that makes the calls.

    Raises:
        TypeError: the calls of `caller` block.
    """

    def __init__(self, caller: Caller) -> None:
        check_awaits(caller, self, instead=_other_kind(self, ClientStub, "_Client", "_SyncClient"))
        self._caller = caller


class SyncClientStub:
    """Base of the client classes that the XDR compiler generates, with methods that block until their results arrive.

    Args:
        caller: the object that makes the calls.

    Raises:
        TypeError: `caller` is no `WaitingCaller`.
    """

    def __init__(self, caller: WaitingCaller) -> None:
        if not isinstance(caller, WaitingCaller):
            raise TypeError(
                f"{type(self).__name__} takes a connection of rpcrdma.sync, or a WaitingCaller around one; to await "
                f"calls through {caller!r}, use {_other_kind(self, SyncClientStub, '_SyncClient', '_Client')}"
            )
        self._caller = caller


def _other_kind(client: object, base: type, own: str, other: str) -> str:
    """Returns the name of the generated client class that is the awaiting or blocking counterpart of `client`'s class.

    If `client` has no generated class whose name ends in `own`, the result is words such as "a class of the kind
    SyncClient".

    Args:
        client: a client, perhaps of a class derived from a generated one.
        base: the base of the generated classes of the client's kind, `ClientStub` or `SyncClientStub`.
        own: the suffix of the names of these classes: "_Client" for `ClientStub`, "_SyncClient" for `SyncClientStub`.
        other: the suffix of the names of the other kind of classes.
    """
    names = [cls.__name__ for cls in type(client).__mro__ if base in cls.__bases__ and cls.__name__.endswith(own)]
    return names[0].removesuffix(own) + other if names else f"a class of the kind {other.removeprefix('_')}"


class _Call(Protocol[A_contra, R_co]):
    def __call__(self, args: A_contra, *, into: Memory | None = None, timeout_s: float | None = None) -> R_co: ...


class _VoidCall(Protocol[R_co]):
    def __call__(self, *, into: Memory | None = None, timeout_s: float | None = None) -> R_co: ...


class _ClientMethod(Generic[A, R]):
    def __init__(self, procedure: Procedure[A, R]) -> None:
        self.procedure = procedure
        self.__doc__ = f"Calls {procedure.name}; see `Caller.call`."

    def __repr__(self) -> str:
        return f"<method that calls {self.procedure.name}>"


class CallMethod(_ClientMethod[A, R]):
    """A descriptor in generated clients: `client.method(args, into=buffer, timeout_s=5)` calls a procedure.

    Returns a coroutine in a `ClientStub`, the decoded result in a `SyncClientStub`. The arguments are those of
    `Caller.call`, which it calls.

    Args:
        procedure: the procedure.
    """

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: ClientStub, owner: type) -> _Call[A, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, client: SyncClientStub, owner: type) -> _Call[A, R]: ...
    def __get__(self, client: ClientStub | SyncClientStub | None, owner: type) -> Self | Callable[..., Any]:
        return self if client is None else partial(client._caller.call, self.procedure)  # noqa: SLF001 - its own method


class VoidCallMethod(_ClientMethod[None, R]):
    """A descriptor in generated clients: `client.method(timeout_s=5)` calls a procedure that takes no arguments.

    Returns a coroutine in a `ClientStub`, the decoded result in a `SyncClientStub`.

    Args:
        procedure: the procedure.
    """

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: ClientStub, owner: type) -> _VoidCall[Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, client: SyncClientStub, owner: type) -> _VoidCall[R]: ...
    def __get__(self, client: ClientStub | SyncClientStub | None, owner: type) -> Self | Callable[..., Any]:
        return self if client is None else partial(client._caller.call, self.procedure, None)  # noqa: SLF001 - see above
