"""The server side of a program: service objects, the context of a call, and where a handler runs."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.program import Caller, Procedure, Program
from rpcrdma.rpc.xprtsec import XprtSec
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
    "execution_of",
    "in_worker",
    "inline_or_worker",
]

A = TypeVar("A")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Any])
P = ParamSpec("P")

MAY_BLOCK: Final = None
"""The step of a handler (see `inline_or_worker`) that may block from here on: the rest runs in a worker thread."""


class ActAs:
    """The step of a handler that continues in a worker thread, within a context manager up to the next step.

    An `OSError` of entering `identity` is raised by the `yield`. If this is the first step of the handler, the rest
    must be brief: it may block, but seldom does. Brief calls run in one thread, which stays within `identity` if the
    next call has the same.

    Args:
        identity: the context manager, which may be entered many times, such as a user as whom the thread acts.
    """

    __slots__ = ("identity",)

    def __init__(self, identity: AbstractContextManager[Any]) -> None:
        self.identity = identity


Steps: TypeAlias = Generator[ActAs | None, None, R]
"""The steps of a handler (see `inline_or_worker`), MAY_BLOCK or ActAs, and its result."""


class Execution(enum.Enum):
    """Where a handler runs."""

    INLINE = "inline"
    """In the event loop: it must not block."""
    WORKER = "worker"
    """In a worker thread: it may block."""
    INLINE_OR_WORKER = "inline-or-worker"
    """In the event loop up to its first `yield`, the rest in a worker thread."""
    TASK = "task"
    """As a task of the event loop: every handler that is a coroutine function."""


class ProcedureUnavailable(RpcRdmaError):
    """Raised by a handler (and by every one that a service leaves out): answered with PROC_UNAVAIL."""


class CredentialTooWeak(RpcRdmaError):
    """Raised by a handler that asks for another security flavor: answered with AUTH_TOOWEAK (RFC 5531 section 9)."""


class ReverseCaller(Caller, Protocol):
    """Calls the client back, on the connection that the client made (RFC 8167).

    A handler may keep this object after it has returned. `call` is for the event loop; the other methods may be used in
    worker threads as well.
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
        """See `Caller.call`; `timeout_s=None` waits for ever.

        `credential`: of this call, in place of the one given to `ready`: sessions of NFS version 4.1 share a
        connection, and each names the credential of the calls to it (RFC 8881 section 18.36.3).
        `xid`: the XID of the call, for a repeat, or where the program numbers its calls across connections itself.
        `placement`: see `rpcrdma.Connection.call`; "" as `RdmaServerConfig.extension` says.

        Raises:
            LocalProtocolError: `ready` was not called, or the credential cannot be encoded.
        """

    def ready(self, credential: Credential | None = None) -> None:
        """To be called when the peer has said, in a call of its own program, that it accepts calls.

        Before that `call` raises `LocalProtocolError`: RPC-over-RDMA version 1 cannot ask the peer, and a peer that
        expects no calls may end the connection (RFC 8167 section 6).

        `credential`: the credential of all further calls; AUTH_NONE until one is given. A client of NFS version 4.1
        chooses the credential of the calls to it (RFC 8881 section 18.36.3); Linux refuses calls without one.

        Raises:
            LocalProtocolError: the credential cannot be encoded.
        """

    @property
    def arguments_octets_max(self) -> int:
        """Octets that the arguments of a call may have: over RDMA, without chunks, the rest of an inline message."""

    @property
    def host_identity(self) -> HostIdentity | None:
        """Which host the peer has proved to be; None if it was not asked to, and over TCP without TLS."""

    @property
    def xprtsec(self) -> XprtSec:
        """How TLS protects the connection; "none" over RDMA, which has none."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason."""


class CallContext(Protocol):
    """The call that a handler answers: its properties, and memory for its result."""

    @property
    def credential(self) -> Credential:
        """Who calls: AUTH_NONE or AUTH_SYS (RFC 5531 section 8.2), or the identity that RPCSEC_GSS has proved."""

    @property
    def principal(self) -> str | None:
        """The principal that RPCSEC_GSS has proved, such as "alice@EXAMPLE.ORG"; None: nothing was proved."""

    @property
    def peer(self) -> str:
        """The caller's network address without port, for host limits: "192.0.2.7", "::1"."""

    @property
    def host_identity(self) -> HostIdentity | None:
        """See `ReverseCaller.host_identity`: of the host; `credential` names the user."""

    @property
    def xid(self) -> int:
        """The call's transaction identifier."""

    @property
    def client(self) -> ReverseCaller:
        """Calls procedures of the client that made this call, if it offers services; `ReverseCaller.ready` comes first.

        Calls carry the credential that is given to `ready` or to the call.
        """

    @property
    def call_octets(self) -> int:
        """The octets of the RPC message that made the call: its header, its arguments, and those in Read chunks."""

    def result_octets_max(self, items: Sequence[int] = ()) -> int:
        """The octets that the encoded result may have for the reply to fit the memory that the client has offered.

        `items`: the lengths of the bulk items in the result, in order. Where the client's Write chunks take them, they
        do not count; elsewhere their octets are taken off the result's. 0 if there is no room for an item.
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

    A handler takes (args, context) and returns the result. An exception that is neither `ProcedureUnavailable` nor
    `CredentialTooWeak` is answered with SYSTEM_ERR and reported to the log of the server.
    """

    PROGRAM: ClassVar[Program]
    OVER_RDMA: ClassVar[bool] = True
    """Whether the program is offered on RDMA listeners."""
    IDEMPOTENT: ClassVar[frozenset[int]] = frozenset()
    """Numbers of the procedures that do no harm when a call runs again because its reply was lost: their replies are
    not remembered. Calls of the others run at most once while the server lives. Procedure 0 always counts as
    idempotent."""
    RESERVES: ClassVar[frozenset[int]] = frozenset()
    """Numbers of procedures in `IDEMPOTENT` whose handlers must not begin twice for one call, such as COMPOUND of NFS
    version 4.1, whose sessions keep replies themselves. Memory for the bulk results that `Procedure.bound` states is
    reserved before they begin. Other idempotent handlers begin anew later when they find no memory."""
    ANY_SECURITY: ClassVar[bool] = False
    """Whether calls with every security flavor are answered, also where the server asks for certain ones: for programs
    that tell clients which, as MOUNT does."""
    OWN_LIMITS: ClassVar[bool] = False
    """Whether the service keeps calls and results shorter than its definition permits, as NFS does by FSINFO: `serve`
    does not compare the definition with the limits of the server."""
    WAITS_FOR: Callable[[Any], Hashable] | None = None
    """From the arguments of a call to what it may have to wait for in a worker thread, such as one of several file
    systems; None: nothing in particular. Calls that wait for one and the same thing never occupy all threads."""


def in_worker(handler: H) -> H:
    """Marks a handler that may block."""
    handler.__rpc_execution__ = Execution.WORKER  # type: ignore[attr-defined]
    return handler


def inline_or_worker(handler: Callable[P, Steps[R]]) -> Callable[P, R]:
    """Marks a generator function that blocks at times: it says `yield MAY_BLOCK` or `yield ActAs(...)` before.

    The handler continues in a worker thread then; `CallContext.may_block` tells where it runs. One that is not in need
    of a thread returns its result in the event loop without a `yield`. Across a `yield` it keeps its buffers, but must
    hold no lock and nothing else of the thread. A type checker sees the handler as its caller does: a function from
    arguments to result.

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
