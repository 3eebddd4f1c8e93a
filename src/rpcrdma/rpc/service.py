"""What a program offers: service objects, the context of a call, and where a handler runs."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Generator
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, cast

from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.program import Caller, Procedure, Program
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "CallContext",
    "Execution",
    "ProcedureUnavailable",
    "ReverseCaller",
    "Service",
    "execution_of",
    "in_worker",
    "inline_or_worker",
]

A = TypeVar("A")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Any])
P = ParamSpec("P")


class Execution(enum.Enum):
    """Where a handler runs."""

    INLINE = "inline"
    """In the event loop: it must not block."""
    WORKER = "worker"
    """In a worker thread: it may block."""
    INLINE_OR_WORKER = "inline-or-worker"
    """In the event loop up to its first `yield`, the rest in a worker thread."""
    TASK = "task"
    """As a task of the event loop: what every coroutine function becomes."""


class ProcedureUnavailable(RpcRdmaError):
    """Raised by a handler (and by every one that a service leaves out): answered with PROC_UNAVAIL."""


class ReverseCaller(Caller, Protocol):
    """Calls the side that called, on the connection that it made (RFC 8167).

    It may be kept after the handler has returned. Calls are made in the event loop; the rest may be used in worker
    threads as well.
    """

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
    ) -> R:
        """See `Caller.call`; `timeout_s=None` waits for ever.

        `xid`: that of a call that is repeated, or of whoever numbers the calls of several connections.
        """

    def ready(self, credential: Credential | None = None) -> None:
        """To be called when the peer has said, in a call of its own program, that it takes calls.

        Before that `call` raises `LocalProtocolError`: the protocol below has no way to ask the peer, and one that does
        not expect calls may end the connection (RFC 8167 section 6).

        `credential`: what calls carry from now on, AUTH_NONE as long as none was given. Of a client of NFS version 4.1
        it is the client's choice (RFC 8881 section 18.36.3); Linux refuses calls without one.

        Raises:
            LocalProtocolError: the credential cannot be encoded.
        """

    @property
    def arguments_octets_max(self) -> int:
        """What the arguments of a call may take: over RDMA, without chunks, the rest of an inline message."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for whatever reason."""


class CallContext(Protocol):
    """What a handler may know and use of the call that it answers."""

    @property
    def credential(self) -> Credential:
        """Who calls: AUTH_NONE or AUTH_SYS (RFC 5531 section 8.2)."""

    @property
    def peer(self) -> str:
        """The caller's network address without port, for host limits: "192.0.2.7", "::1"."""

    @property
    def xid(self) -> int:
        """The call's transaction identifier."""

    @property
    def client(self) -> ReverseCaller:
        """Whoever made the call, to be called back: once `ReverseCaller.ready` was called, and if it offers services.

        Calls carry the credential that is given to `ready`.
        """

    @property
    def may_block(self) -> bool:
        """True in a worker thread: also for the rest of a handler that began in the event loop."""

    def buffer(self, length: int) -> memoryview:
        """Writable memory of `length` octets for a bulk result, returned to its pool after the reply has been sent.

        Its content is unspecified.
        """


class Service:
    """Base of generated service classes: one method a procedure, named as `Procedure.method`.

    A handler takes (args, context) and returns the result. An exception that is not `ProcedureUnavailable` is
    answered with SYSTEM_ERR and reported to the log of the server.
    """

    PROGRAM: ClassVar[Program]
    OVER_RDMA: ClassVar[bool] = True
    """Whether the program is offered on RDMA listeners; MOUNT is not (RFC 8267 section 5.1)."""
    IDEMPOTENT: ClassVar[frozenset[int]] = frozenset()
    """Numbers of the procedures that do no harm when a call runs again because its reply was lost: nothing is kept of
    them. Calls of the others run at most once while the server lives. Procedure 0 does nothing in every program."""


def in_worker(handler: H) -> H:
    """Marks a handler that may block."""
    handler.__rpc_execution__ = Execution.WORKER  # type: ignore[attr-defined]
    return handler


def inline_or_worker(handler: Callable[P, Generator[None, None, R]]) -> Callable[P, R]:
    """Marks a generator function that blocks at times: before it does, it says `yield`, and goes on in a worker thread.

    One that is not in need of a thread returns its result in the event loop without a `yield`; a further one in the
    thread has no effect. Across a `yield` it keeps its buffers, but must hold no lock and nothing else of the thread.
    To a type checker the handler is what it is to the caller: a function from arguments to result.

    Raises:
        TypeError: the handler is no generator function.
    """
    if not inspect.isgeneratorfunction(handler):
        raise TypeError(f"{handler.__qualname__} has no `yield` before what may block: mark it with in_worker instead")
    handler.__rpc_execution__ = Execution.INLINE_OR_WORKER  # type: ignore[attr-defined]
    return cast("Callable[P, R]", handler)


def execution_of(handler: Callable[..., Any]) -> Execution:
    """Where `handler` runs."""
    if inspect.iscoroutinefunction(handler):
        return Execution.TASK
    return getattr(handler, "__rpc_execution__", Execution.INLINE)
