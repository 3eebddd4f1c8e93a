"""The rights of one caller in one export, which the methods of trees take, and the identities in which threads act."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rpcrdma.rpc.auth import AuthNone, Credential

if TYPE_CHECKING:
    from rpcrdma.nfs.export.access_terms import ExportTerms
    from rpcrdma.rpc.host_identity import CallOrigin

__all__ = ["CallerIdentity", "Grant", "ServingUser"]


class CallerIdentity(Protocol):
    """The user as whom a thread accesses files inside `with identity:`; such blocks must not nest.

    `__enter__` gives the calling thread the identity, or raises OSError or `service.WorkerNeeded` (see
    `SwitchedCaller`). `__exit__` gives the thread the server's own identity again, also after an error.
    """

    @property
    def uid(self) -> int:
        """The number of the user whose rights the kernel checks inside the `with` block."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ServingUser:
    """The identity of a server that accesses files as its own user for every caller; `uid` is its effective user."""

    __slots__ = ("uid",)

    def __init__(self) -> None:
        self.uid = os.geteuid()

    def __enter__(self) -> None:
        """Does nothing, since every thread already acts as the server's user."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Does nothing, since `__enter__` changed nothing; lets errors of the block pass."""


@dataclass(slots=True, eq=False)
class Grant:
    """The rights of one caller in one export, by the export's rule that admits the call.

    A grant by `HostAdmission.check` is valid for each call that has the very same terms, origin and credential
    (compared by identity), by a version of NFS that the export serves.

    Attributes:
        identity: the identity with which a thread accesses files for the caller, after squashing.
        read_only: whether changes are refused.
        credential: the credential of the call; AUTH_NONE by default.
        terms, origin: the terms of the export and the origin of the call; None: the grant belongs to no particular
            export or call.
    """

    identity: CallerIdentity
    _: KW_ONLY
    read_only: bool = False
    credential: Credential = field(default_factory=AuthNone)
    terms: ExportTerms | None = None
    origin: CallOrigin | None = None
