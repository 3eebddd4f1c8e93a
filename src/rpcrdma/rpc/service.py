"""The server side of a program: service objects, the context of a call, and where a handler runs."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Container, Generator, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.host_identity import CallOrigin, HostIdentity, XprtSec
from rpcrdma.rpc.program import Caller, Procedure, Program
from rpcrdma.wire.buffers import Memory

__all__ = [
    "MAY_BLOCK",
    "ActAs",
    "CallContext",
    "CredentialTooWeak",
    "Execution",
    "ProcedureUnavailable",
    "ReverseCaller",
    "Service",
    "Steps",
    "WorkerNeeded",
    "execution_of",
    "in_worker",
    "inline_or_worker",
    "returns_steps",
]

A = TypeVar("A")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Any])
P = ParamSpec("P")

MAY_BLOCK: Final = None
"""The step of a handler (see `inline_or_worker`) after which it may block: the rest runs in a worker thread."""


class ActAs:
    """A value that a handler marked by `inline_or_worker` yields to run in a worker thread within a context manager.

    The context manager is entered for the code up to the next `yield`, and left only when the thread has other code to
    run than for this `identity`, perhaps long after the handler's end. An `OSError` of entering it is raised by this
    `yield`. If this is the handler's first `yield`, the server takes the call to be brief: the handler's rest should
    take less than 2 ms, and block seldom. One thread runs the brief calls, one after another until one takes longer.

    Args:
        identity: a reusable context manager, such as a user as whom the thread acts.
    """

    __slots__ = ("identity",)

    def __init__(self, identity: AbstractContextManager[Any]) -> None:
        self.identity = identity


class WorkerNeeded(Exception):
    """Raised by a handler in the event loop, to be called again, from its start, in a worker thread.

    The handler must have changed nothing yet, which is not checked. Raised in a worker thread or by a coroutine, it is
    a failure like any other. A generator that catches it from a function that it calls yields `step` itself, and then
    calls the function again.

    Args:
        step: how the handler runs again: MAY_BLOCK, which is None (as the user of the server's process), or an `ActAs`.
    """

    def __init__(self, step: ActAs | None = MAY_BLOCK) -> None:
        super().__init__("it takes a worker thread")
        self.step = step


Steps: TypeAlias = Generator[ActAs | None, None, R]
"""The type of a handler with steps (see `inline_or_worker`): it yields MAY_BLOCK or ActAs and returns its result."""


class Execution(enum.Enum):
    """Where a server runs a handler: in the event loop or in a worker thread, or as a task of the loop."""

    INLINE = "inline"
    """In the event loop: it must not block. An awaitable that it returns is awaited in a task of the loop."""
    WORKER = "worker"
    """In a worker thread: it may block."""
    INLINE_OR_WORKER = "inline-or-worker"
    """In the event loop up to its first `yield`, the rest in a worker thread."""
    TASK = "task"
    """As a task of the event loop: every handler that is a coroutine function."""


class ProcedureUnavailable(RpcRdmaError):
    """Raised by a handler to refuse a call, which the server answers with PROC_UNAVAIL, as if there were no handler."""


class CredentialTooWeak(RpcRdmaError):
    """Raised by a handler that demands another security flavor; answered with AUTH_TOOWEAK (RFC 5531 section 9)."""


class ReverseCaller(Caller, Protocol):
    """A server's access to one of its clients: calls on the connection that the client made (RFC 8167).

    A handler may keep this object after its return. `call` and `wait_closed` are for the event loop; the rest may be
    used in worker threads as well.
    """

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Memory | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
        placement: str = "",
        credential: Credential | None = None,
    ) -> R:
        """Calls a procedure of the client and waits for its result.

        Args:
            procedure: the procedure.
            args: the arguments, of the procedure's type; None for void.
            into: a writable buffer for the result's first DDP-eligible item, at least as long; None: new memory.
            timeout_s: the time limit in seconds; None: no limit.
            xid: the call's XID, for a repeat, or for a program that numbers its calls across connections; None takes
                the connection's next one, which does not depend on XIDs given here.
            placement: how the round-trip extension moves the call's bulk items: a value of
                `rpcrdma.extension.Preference`; "": as `RdmaServerConfig.extension` sets.
            credential: the credential of this call; None: the one given to `ready`. Sessions of NFS version 4.1 share
                a connection, and each names the credential of the calls to it (RFC 8881 section 18.36.3).

        Returns:
            The decoded result.

        Raises:
            LocalProtocolError: `ready` was not called before, an unfinished call on the connection has this XID, the
                arguments break the definition, or the credential cannot be encoded.
            ValueError: `placement` is unknown.
            RpcError, CallTimeout, TransportClosed, DecodeError, MessageTooLong, TypeError: as `Caller.call`.
        """

    @property
    def xids_kept(self) -> Container[int]:
        """The XIDs of unanswered calls on the connection, also of abandoned ones as long as a reply may come."""

    def ready(self, credential: Credential | None = None) -> None:
        """Permits `call`, once the server has learnt from a call, such as CREATE_SESSION, that the client takes calls.

        Without this, `call` raises `LocalProtocolError`, and always if a client of RPC-over-RDMA version 2 has stated
        that it takes no calls. Else what the server has learnt is not checked: version 1 cannot ask the client, and a
        client that expects no calls may end the connection (RFC 8167 section 6). From now on, the server does not end
        the connection for being idle.

        Args:
            credential: the credential of all further calls; None: that of an earlier `ready`, or AUTH_NONE. A client of
                NFS version 4.1 chooses the credential (RFC 8881 section 18.36.3); Linux refuses calls without one.

        Raises:
            LocalProtocolError: the credential cannot be encoded.
        """

    @property
    def host_identity(self) -> HostIdentity | None:
        """The host identity that the client has proved; None without proof, as over TCP without TLS."""

    @property
    def xprtsec(self) -> XprtSec:
        """The protection of the connection by TLS: "none" (as over RDMA), "tls", or "mtls" with both certificates."""

    @property
    def origin(self) -> CallOrigin:
        """The client's address and what the connection proves of it; the same object until that changes."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason."""


class CallContext(Protocol):
    """A call that a handler answers: its caller, its connection, and memory for its result."""

    @property
    def credential(self) -> Credential:
        """The caller: AUTH_NONE or AUTH_SYS (RFC 5531 section 8.2), or the identity that RPCSEC_GSS has proved."""

    @property
    def principal(self) -> str | None:
        """The principal that RPCSEC_GSS has proved, such as `alice@EXAMPLE.ORG`; None without proof."""

    @property
    def peer(self) -> str:
        """The caller's network address without port, for host limits: "192.0.2.7", "::1"."""

    @property
    def host_identity(self) -> HostIdentity | None:
        """The host identity that the client's host has proved, None without proof; `credential` is the user."""

    @property
    def xid(self) -> int:
        """The call's transaction identifier."""

    @property
    def client(self) -> ReverseCaller:
        """The object that calls procedures of this call's client; it exists also if the client takes no calls.

        `ReverseCaller.call` raises LocalProtocolError until `ReverseCaller.ready` was called; a client that takes no
        calls may then end the connection. Calls carry the credential that is given to `ready` or to `call`.
        """

    @property
    def call_octets(self) -> int:
        """The octets of the RPC message of the call: header and arguments, also those that came in Read chunks."""

    def result_octets_max(self, items: Sequence[int] = ()) -> int:
        """Returns the most octets of the encoded result, bulk items excluded, with which the reply can be sent.

        The limits are those of the transport, of the memory that the client offered for the reply, and of RPCSEC_GSS.

        Args:
            items: the lengths in octets of the bulk items in the result, in order. Items that the client's Write chunks
                take do not count; the octets of others lessen the returned number.

        Returns:
            The octets; 0 if there is no room, such as for one of the items.
        """

    @property
    def may_block(self) -> bool:
        """Whether the handler runs in a worker thread, where it may block."""

    def buffer(self, length: int) -> memoryview:
        """Lends memory for a bulk result, which the server takes back when the reply has been sent.

        Args:
            length: the octets to lend.

        Returns:
            Writable memory of that length with unspecified content.

        Raises:
            RpcRdmaError: there is no memory now, or the connection of a call that may run twice has ended. Handlers let
                this pass: the call is run again once there is memory, or is answered with SYSTEM_ERR if it must not run
                twice, or can never have as much.
        """


class Service:
    """Base of generated service classes: one method a procedure, named as `Procedure.method`.

    A handler takes (args, context) and returns the result. `ProcedureUnavailable` is answered with PROC_UNAVAIL,
    `CredentialTooWeak` with AUTH_TOOWEAK, another exception with SYSTEM_ERR and an entry in the server's log.
    """

    PROGRAM: ClassVar[Program]
    """The program whose procedures the methods handle."""
    OVER_RDMA: ClassVar[bool] = True
    """Whether the program is offered on RDMA listeners."""
    IDEMPOTENT: ClassVar[frozenset[int]] = frozenset()
    """Numbers of procedures that may safely run again after the loss of a reply: the server remembers none of their
    replies. A repeated call of another procedure does not run again while the server remembers the first one: up to
    `limits.REPLY_CACHE_AGE_S` (120 s) after its answer. Procedure 0 always counts as idempotent."""
    RESERVES: ClassVar[frozenset[int]] = frozenset()
    """Numbers of procedures in `IDEMPOTENT` whose handlers must not begin twice for one call, such as COMPOUND of NFS
    version 4.1, whose sessions keep replies themselves. Memory for the bulk results that `Procedure.bound` states is
    reserved before they begin. Other idempotent handlers begin anew later when they find no memory."""
    ANY_SECURITY: ClassVar[bool] = False
    """Whether calls with every security flavor are answered, also where the server accepts only certain ones: for
    programs that tell clients the flavors, such as MOUNT."""
    OWN_LIMITS: ClassVar[bool] = False
    """Whether the service itself keeps calls and results shorter than its definition permits, as NFS does by FSINFO:
    `serve` then does not compare the definition with the server's limits."""
    WAITS_FOR: Callable[[Any], Hashable] | None = None
    """Maps a call's arguments to the resource that it may block on, such as one of several file systems; None: no
    particular resource. Calls that wait for the same resource never occupy all of several worker threads."""


def in_worker(handler: H) -> H:
    """Marks a handler that may block: it runs in a worker thread.

    Args:
        handler: the method of a service.

    Returns:
        The same method.
    """
    handler.__rpc_execution__ = Execution.WORKER  # type: ignore[attr-defined]
    return handler


def inline_or_worker(handler: Callable[P, Steps[R]]) -> Callable[P, R]:
    """Marks a handler that blocks at times: a generator that yields MAY_BLOCK or an ActAs before it blocks.

    The handler starts in the event loop and continues in a worker thread after the `yield`; `CallContext.may_block`
    tells where it runs. Without a `yield` it returns its result in the event loop. Across a `yield` it keeps its
    buffers, but must hold no lock and nothing else that belongs to the thread.

    Args:
        handler: the method of a service, a generator function.

    Returns:
        The same method; its type is that of a function from arguments to result, as its caller uses it.

    Raises:
        TypeError: the handler is no generator function.
    """
    if not inspect.isgeneratorfunction(handler):
        raise TypeError(f"{handler.__qualname__} has no `yield` before what may block: mark it with in_worker instead")
    return returns_steps(handler)


def returns_steps(handler: Callable[P, Steps[R]]) -> Callable[P, R]:
    """Marks a handler that returns a generator without being a generator function.

    The event loop runs the generator up to its first `yield`, of MAY_BLOCK or an `ActAs`, and a worker thread the rest.

    Args:
        handler: the method of a service.

    Returns:
        The same method; its type is that of a function from arguments to result, as its caller uses it.
    """
    handler.__rpc_execution__ = Execution.INLINE_OR_WORKER  # type: ignore[attr-defined]
    return cast("Callable[P, R]", handler)


def execution_of(handler: Callable[..., Any]) -> Execution:
    """Returns where a handler runs: TASK if a coroutine function, else as its decorator says; INLINE without one."""
    if inspect.iscoroutinefunction(handler):
        return Execution.TASK
    return getattr(handler, "__rpc_execution__", Execution.INLINE)
